"""An excerpt of tests/performance/plan_power.py: the labels of a plan show a true gap, and none that is not there."""

from __future__ import annotations

import pytest

from annotation.domain.guidelines import parse_guideline
from tests.performance.plan_power import GUIDELINE, SEED, measure_row

BOARDS = 2


def test_planned_labels_show_a_true_gap_though_the_scorer_errs_by_model():
    document = parse_guideline(GUIDELINE.read_text(encoding="utf-8"), path=str(GUIDELINE))
    labels, shown_gap, predicted, mixed, _any_false = measure_row(
        document, boards=BOARDS, gap=0.2, spread=0.05, seed=SEED
    )
    assert 100 < labels < 400  # of 1,001 responses; 196 over 40 boards
    assert shown_gap == pytest.approx(0.2)
    # Pairs of one board share models, so that the bounds are wide: 93% and 99% over 40 boards.
    assert predicted.power >= 75
    assert mixed.power >= 80
    assert predicted.mistakes + mixed.mistakes <= 5
