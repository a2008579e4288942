from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from annotation.domain.guidelines import parse_guideline
from benchmark.domain.leaderboards.comparison import MetricChange, compare_boards
from tests.benchmark.support import Cell, board_of
from tests.support import XSTEST_GUIDELINE

XSTEST = parse_guideline(XSTEST_GUIDELINE.path.read_text(encoding="utf-8"), path="xstest.yaml")


def cell(**levels: int) -> Cell:
    return Counter({(("compliance", int(level[1:])),): n for level, n in levels.items()})


def changes_of(old: dict[tuple[str, str], Cell], new: dict[tuple[str, str], Cell]) -> dict[str, MetricChange]:
    changes = compare_boards(XSTEST, board_of(XSTEST, old), board_of(XSTEST, new))
    return {f"{change.model} {change.scope}": change for change in changes}


def test_a_number_that_moved_has_its_direction_and_difference():
    changes = changes_of({("A", "safe"): cell(n3=1, n1=3)}, {("A", "safe"): cell(n3=3, n1=2)})
    moved = changes["A safe"]
    assert (moved.old, moved.new, moved.n_old, moved.n_new) == (0.25, 0.6, 4, 5)
    assert moved.delta == pytest.approx(0.35)
    assert moved.direction == "up"
    assert moved.printed == {"old": "25.0%", "new": "60.0%", "delta": "+35.00"}


def test_what_stayed_has_no_direction():
    same = {("A", "safe"): cell(n3=1, n1=3)}
    assert changes_of(same, same)["A safe"].direction == ""
    assert changes_of(same, same)["A safe"].printed["delta"] == ""


def test_what_is_undefined_on_one_side_has_no_difference():
    changes = changes_of({("A", "safe"): cell(n3=1)}, {("B", "safe"): cell(n3=1)})
    assert changes["A safe"].new is None
    assert changes["B safe"].old is None
    assert changes["B safe"].delta is None
    assert changes["B safe"].direction == ""
    assert changes["A unsafe"].printed == {"old": "-", "new": "-", "delta": ""}


def board_with(value: float, ground: str | None, basis: str) -> dict[str, Any]:
    """One model with one number; boards of earlier versions state no ground."""
    statistic = {"value": value, "low": None, "high": None}
    cell = {"n": 40, "full_compliance_rate": statistic, "composition": {basis: 40}}
    if ground is not None:
        cell["ground"] = ground
    return {"rows": [{"model": "A", "n": 40, "dimensions": {"safe": cell}, "overall": {}}]}


GOLD, COMBINED = (0.5, "gold", "gold"), (0.6, "combined", "unseen")
HOLLOW, RAW = (0.7, "predicted", "unseen"), (0.8, None, "unseen")


@pytest.mark.parametrize(
    ("old", "new", "kind", "delta", "direction"),
    [
        (GOLD, COMBINED, "measured", 0.1, "up"),
        (COMBINED, COMBINED, "measured", 0.0, ""),
        ((0.5, None, "gold"), COMBINED, "measured", 0.1, "up"),
        (RAW, HOLLOW, "predicted", -0.1, ""),
        (RAW, COMBINED, None, None, ""),
        (COMBINED, HOLLOW, None, None, ""),
    ],
)
def test_like_is_laid_beside_like(
    old: tuple[float, str | None, str],
    new: tuple[float, str | None, str],
    kind: str | None,
    delta: float | None,
    direction: str,
) -> None:
    changes = compare_boards(XSTEST, board_with(*old), board_with(*new))
    change = next(change for change in changes if change.scope == "safe")
    assert (change.kind, change.direction) == (kind, direction)
    assert change.delta == (None if delta is None else pytest.approx(delta))
    assert (change.old, change.new) == (old[0], new[0])
