"""An observer who looks every second cannot tell gold checks by when items close, and could by when they really do."""

from __future__ import annotations

import pytest

from annotation.models import Guideline
from tests.performance.closing_times import separations_of, simulate, was_open, with_true_closings

pytestmark = pytest.mark.django_db
# Of fifteen checks or so the area has a standard error of 0.08: the bounds are three of them away.
CHANCE = 0.75
SURE = 0.9


@pytest.mark.parametrize("late", [0, 900])
def test_when_items_close_tells_no_check(guideline: Guideline, late: float):
    run = simulate(guideline, seed=7, people=4, items=40, late=late)
    closed = [item for item in run.items if was_open(item)]
    assert sum(item.is_check for item in closed) >= 12
    areas = separations_of([run])
    assert areas["all together"] < CHANCE
    assert max(areas.values()) < CHANCE
    as_before = separations_of([with_true_closings(run)])
    assert as_before["seconds since the worker looked"] > SURE
