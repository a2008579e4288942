"""Intervals of correlations by Fisher's transformation, which takes units for independent. Pure."""

from __future__ import annotations

import math

from annotation.core.proportions import Z


def find_fisher_bounds(
    value: float, n: float, *, variance: float = 1.0, lost: int = 3
) -> tuple[float, float] | None:
    """The 95% interval tanh(artanh r ± z √(variance / (n - lost))) (Fisher 1921); None where n is too small.

    Of Spearman's coefficient it is the same; of Kendall's tau ``variance`` is .437 and ``lost`` 4 (Fieller, Hartley and
    Pearson 1957). Of ±1 both ends are the value.
    """
    if n <= lost:
        return None
    if abs(value) >= 1:
        return value, value
    middle, width = math.atanh(value), Z * math.sqrt(variance / (n - lost))
    return math.tanh(middle - width), math.tanh(middle + width)
