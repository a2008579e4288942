"""How sure a share is. Pure."""

from __future__ import annotations

import math

Z = 1.959963984540054


def wilson(successes: int, n: int, z: float = Z) -> tuple[float, float]:
    """The 95% score interval of a proportion (E. B. Wilson, JASA 22, 1927); never wider than 0 to 1.

    ``z`` is the normal quantile, for another confidence.
    """
    share, square = successes / n, z * z
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high
