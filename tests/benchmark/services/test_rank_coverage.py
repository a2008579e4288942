"""An excerpt of tests/performance/rank_coverage.py: ranges of ranks hold whoever made the labels."""

from __future__ import annotations

import pytest

from tests.performance.rank_coverage import DESIGNS, POWER, simulate_boards, summarize

BOARDS = 8


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        ("all gold", 10),
        ("all gold, .1 of the prompts (4 of Legality)", 0),
        ("all gold, rate 0.95, 10 in two dimensions", 10),
        ("half gold, half predicted, .80/.75", 5),
        ("all predicted, .80/.75, 5 points apart", 0),
        ("200 labels a model, .80/.75, 5 points apart", 10),
        ("half gold, half 200 labels, 5 points apart", 10),
    ],
)
def test_ranges_of_ranks_hold_for_equal_models(name: str, compared: int):
    design = next(design for design in DESIGNS if design.name == name)
    outcomes = simulate_boards(design, boards=BOARDS)
    mean, ranges, intervals, first = summarize(outcomes)
    assert mean == compared
    assert ranges >= 100 * 5 / BOARDS  # at 95% four boards of eight fail once in 3,000
    assert not compared or intervals >= 80
    assert first <= 100 / BOARDS


def test_it_does_not_hold_by_silence():
    design = next(design for design in POWER if design.name == "400 labels a model, a gap of 20 points")
    outcomes = simulate_boards(design, boards=BOARDS)
    assert sum(outcome.separated for outcome in outcomes) >= 5
