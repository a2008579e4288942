"""The chance with which a response came to have gold: known for whole pools and recorded draws, else not."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from annotation.domain.releases.selection import (
    BatchGold,
    DrawnStratum,
    compute_chance,
    judge_cell,
    summarize_selection,
)

LOW, HIGH = (0.0, 0.7), (0.7, 1.0)


def stratum(bounds: tuple[float, float], pool: int, size: int, **changes: Any) -> DrawnStratum:
    chance = changes.pop("chance", size / pool)
    return DrawnStratum("M", "safe", *bounds, pool, size, chance, **changes)


def drawn(*strata: tuple[DrawnStratum, int], batch: str = "plan") -> BatchGold:
    n = sum(labelled for _stratum, labelled in strata)
    return BatchGold(batch, tasks=n, labelled=n, strata=strata)


def test_a_whole_pool_has_the_chance_one_whoever_labelled_it():
    cell = judge_cell(10, 10, [BatchGold("a", 6, 6), BatchGold("b", 4, 4, abstained="s")])
    assert (cell.is_whole, dict(cell.methods)) == (True, {"a": "all", "b": "all"})


def test_more_labels_than_responses_are_no_whole_pool():
    assert not judge_cell(10, 11, [BatchGold("a", 11, 11)]).is_whole


@pytest.mark.parametrize(
    ("method", "part"),
    [
        ("part", BatchGold("b", 5, 5)),
        ("unfinished", BatchGold("b", 10, 5)),
        ("abstained", BatchGold("b", 5, 5, abstained="s")),
        ("unrecorded", BatchGold("b", 5, 5, strata=[])),
        ("earlier", drawn((stratum(LOW, 10, 5, chance=None, reason="earlier"), 5), batch="b")),
        ("least_sure", drawn((stratum(LOW, 10, 5, chance=None, reason="least_sure"), 5), batch="b")),
        ("unfinished", drawn((stratum(LOW, 10, 5), 4), batch="b")),
        ("grown", drawn((stratum(LOW, 8, 5), 5), batch="b")),
        ("grown", drawn((stratum(LOW, 12, 5), 5), batch="b")),
        ("drawn", drawn((stratum(LOW, 10, 5), 5), batch="b")),
    ],
)
def test_only_a_recorded_draw_of_exactly_this_pool_has_a_chance(method: str, part: BatchGold):
    cell = judge_cell(10, 5, [part])
    assert dict(cell.methods) == {"b": method}
    assert dict(cell.chances) == ({LOW: 0.5} if method == "drawn" else {})


def test_two_draws_of_a_stratum_take_different_responses_so_their_chances_add():
    first = drawn((stratum(LOW, 20, 5), 5), (stratum(HIGH, 30, 3), 3), batch="one")
    second = drawn((stratum(LOW, 20, 5), 5), batch="two")
    cell = judge_cell(50, 13, [first, second])
    assert dict(cell.methods) == {"one": "drawn", "two": "drawn"}
    assert cell.chances == pytest.approx({LOW: 0.5, HIGH: 0.1})


def test_a_stratum_of_which_nothing_was_drawn_leaves_no_chance():
    cell = judge_cell(50, 5, [drawn((stratum(LOW, 20, 5), 5), (stratum(HIGH, 30, 0), 0))])
    assert (dict(cell.methods), dict(cell.chances)) == ({"plan": "earlier"}, {})


def test_a_recorded_random_share_is_weighed_and_what_a_scorer_chose_beside_it_is_not():
    share = stratum((0.0, 1.0), 100, 20, responses=tuple(range(20)))
    unsure = stratum((0.0, 1.0), 100, 30, chance=None, reason="least_sure", responses=tuple(range(20, 50)))
    cell = judge_cell(100, 50, [drawn((share, 20), (unsure, 30))])
    assert dict(cell.chances) == {(0.0, 1.0): 0.2}


@pytest.mark.parametrize(
    ("held", "before", "expected"),
    [(0, 0, (0.25, "")), (10, 10, (0.25, "")), (10, 4, (None, "earlier"))],
)
def test_what_could_not_be_drawn_leaves_a_chance_only_if_it_was_drawn_before(
    held: int, before: int, expected: tuple[float | None, str]
):
    assert compute_chance(10, pool=40, held=held, drawn_before=before) == expected


def test_chances_weigh_a_sample_back_to_its_pool():
    """Draws of one and of two of a stratum of six: over all of them each response is in either with the same chance."""
    pool, times, total = range(6), dict.fromkeys(range(6), 0), 0
    for before in combinations(pool, 1):
        for after in combinations([response for response in pool if response not in before], 2):
            total += 1
            for response in (*before, *after):
                times[response] += 1
    first, _reason = compute_chance(1, pool=6, held=0, drawn_before=0)
    second, _reason = compute_chance(2, pool=6, held=1, drawn_before=1)
    assert first is not None
    assert second is not None
    assert [n / total for n in times.values()] == pytest.approx([first + second] * 6)


def test_a_summary_counts_by_reason_and_knows_nothing_of_an_old_release():
    rows = [
        {"how": "all", "labels": 10, "known": 10},
        {"how": "drawn", "labels": 5, "known": 5},
        {"how": "least_sure", "labels": 3, "known": 0},
    ]
    assert summarize_selection(rows) == {
        "recorded": True,
        "known": 15,
        "unknown": 3,
        "whole": False,
        "drawn": 5,
        "reasons": {"least_sure": 3},
    }
    assert not summarize_selection(None)["recorded"]
    assert summarize_selection(rows[:1])["whole"]
