"""Agreement on sets of options: the MASI distance, and alpha by it against the package."""

from __future__ import annotations

from collections import Counter
from typing import Any

import krippendorff
import numpy as np
import pytest

from annotation.domain.agreement import NO_ORDER, NO_SETS, measure_agreement
from annotation.domain.agreement.coefficients import masi

VALUES = tuple(range(1, 16))


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        (0b011, 0b011, 0.0),
        (0b001, 0b011, 1 - 1 / 2 * 2 / 3),
        (0b111, 0b001, 1 - 1 / 3 * 2 / 3),
        (0b011, 0b110, 1 - 1 / 3 * 1 / 3),
        (0b001, 0b110, 1.0),
    ],
)
def test_the_distance_of_two_sets(first: int, second: int, distance: float) -> None:
    """Jaccard times monotonicity: equal, one holds the other, they meet, they do not (Passonneau 2006)."""
    assert masi((first, second))[0, 1] == masi((first, second))[1, 0] == pytest.approx(distance, abs=1e-15)


def measure_distance(first: Any, second: Any, *, dtype: Any, **_ignored: Any) -> Any:
    """The same in sets of Python, for each two values."""

    def of(first_value: float, second_value: float) -> float:
        left, right = (
            {bit for bit in range(20) if int(value) >> bit & 1} for value in (first_value, second_value)
        )
        if not left & right:
            return 1.0
        monotonicity = 1 if left == right else 2 / 3 if left <= right or right <= left else 1 / 3
        return 1 - len(left & right) / len(left | right) * monotonicity

    return np.vectorize(of, otypes=[dtype])(first, second)


@pytest.mark.parametrize("seed", range(30))
def test_alpha_equals_the_package_on_random_sets(seed: int) -> None:
    random = np.random.default_rng(seed)
    raters, units = int(random.integers(2, 6)), int(random.integers(5, 40))
    truth = random.integers(1, 16, units)
    labels = np.where(
        random.random((raters, units)) < 0.5, truth, random.integers(1, 16, (raters, units))
    ).astype(float)
    labels[random.random(labels.shape) < 0.2] = np.nan
    patterns = Counter(tuple(None if np.isnan(label) else int(label) for label in unit) for unit in labels.T)
    measured = measure_agreement(patterns, values=VALUES, measurement="masi", intervals=False)
    expected = krippendorff.alpha(
        reliability_data=labels, value_domain=list(VALUES), level_of_measurement=measure_distance
    )
    assert measured.statistics["alpha_masi"].value == pytest.approx(expected, abs=1e-12)


def test_a_shared_part_counts_for_sets_and_no_order_does() -> None:
    patterns = {(1, 3): 10, (3, 3): 10, (4, 4): 10, (8, 4): 3}
    measured = measure_agreement(patterns, values=VALUES, measurement="masi").statistics
    assert measured["alpha_masi"].value > measured["alpha_nominal"].value  # type: ignore[operator]
    assert measured["alpha_masi"].low < measured["alpha_masi"].value < measured["alpha_masi"].high  # type: ignore[operator]
    assert measured["alpha_ordinal"].reason == NO_ORDER
    assert (
        measure_agreement(patterns, values=VALUES, measurement="ordinal").statistics["alpha_masi"].reason
        == NO_SETS
    )
