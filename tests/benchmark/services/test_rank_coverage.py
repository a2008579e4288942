"""An excerpt of tests/performance/rank_coverage.py: why ranks are withheld where predictions take part."""

from __future__ import annotations

import pytest

from tests.performance.rank_coverage import DESIGNS, coverage

BOARDS = 6


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("all gold", 4, 6),
        ("half gold, half predicted, .80/.75", 0, 1),
        ("all predicted, .80/.75, 5 points apart", 0, 4),
    ],
)
def test_ranges_of_ranks_hold_for_equal_models_on_gold_alone(name: str, least: int, most: int):
    boards = coverage(next(design for design in DESIGNS if design.name == name), boards=BOARDS)
    assert least <= sum(board.ranges for board in boards) <= most
    assert all(board.withheld == ("predicted" in name) for board in boards)
