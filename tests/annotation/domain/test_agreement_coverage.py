"""A seeded excerpt of ``tests/performance/prompt_coverage.py``, which has the whole table."""

from __future__ import annotations

import numpy as np
import pytest

from annotation.domain.agreement import measure_agreement
from tests.performance.prompt_coverage import (
    Coverage,
    Design,
    count_changes,
    find_truths,
    measure_coverage,
    simulate_counts,
)

ALIKE = Design(60, 12, (0.6, 0.3, 0.1), 0.7, 0.33)


def test_intervals_hold_where_responses_to_one_prompt_are_alike() -> None:
    coverage, effect = measure_coverage(ALIKE, 150)
    assert effect > 2
    for name, of in coverage.items():
        # 95% promised; 90% is nearly three standard deviations of 150 sets below
        assert of.share is not None, name
        assert of.share >= 0.9, name


def test_intervals_over_units_would_not_hold() -> None:
    rng = np.random.default_rng(1)
    held = Coverage()
    for _set in range(100):
        measured = measure_agreement(
            simulate_counts(rng, ALIKE).counts,
            values=(1, 2, 3),
            measurement="nominal",
            statistics=["alpha_nominal"],
        ).statistics["alpha_nominal"]
        held.add(measured.low, measured.high, find_truths(ALIKE)["alpha_nominal"])
    assert held.share is not None
    assert held.share < 0.9


@pytest.mark.parametrize("shared", [False, True], ids=["other prompts", "the same prompts"])
def test_no_version_is_better_by_chance_more_often_than_said(shared: bool) -> None:
    better, worse = count_changes(ALIKE, ALIKE, shared=shared, pairs=150)
    assert better + worse <= 0.1


def test_with_one_dispute_expected_there_is_no_interval() -> None:
    coverage, _effect = measure_coverage(Design(50, 1, (0.9, 0.1), 0.9, 0.0), 200)
    assert coverage["alpha_nominal"].defined <= 10
    percent = coverage["percent_agreement"]
    assert percent.defined == 200
    assert percent.held >= 180
