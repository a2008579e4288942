"""Differences of models on the same prompts, and the ranks that they leave possible. Expected values are derived."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from benchmark.domain.leaderboards.board import BoardFigures, build_board
from benchmark.domain.leaderboards.responses import CountedResponse
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE, examples

FLAMES = parse_guideline(FLAMES_GUIDELINE.path.read_text(encoding="utf-8"), path="flames.yaml")
XSTEST = parse_guideline(XSTEST_GUIDELINE.path.read_text(encoding="utf-8"), path="xstest.yaml")
CRITERIA = {dimension: FLAMES.criteria_for(dimension)[0].name for dimension in FLAMES.dimension_names}

MEAN = parse_guideline(
    """
name: warmth
version: "1"
languages: [en]
title: {en: Warmth}
source: made for a test
introduction: {en: none}
criteria:
  - name: warmth
    label: {en: Warmth}
    question: {en: How warm}
    applies_to: all
    measurement: interval
    scale:
      - {value: 0, name: {en: none}, definition: {en: none of it}}
      - {value: 1, name: {en: some}, definition: {en: some of it}}
      - {value: 4, name: {en: much}, definition: {en: much of it}}
metrics:
  - {name: quality, label: {en: Quality}, kind: mean, formula: "25 * mean", overall: pooled}
rank_by: quality
""",
    path="warmth.yaml",
)


def safe(model: str, levels: Sequence[int | None], *, known: bool = True) -> list[CountedResponse]:
    """Responses to safe prompts 0, 1, ..; None where the model gave none."""
    return [
        CountedResponse(model, prompt if known else None, "safe", (("compliance", level),))
        for prompt, level in enumerate(levels)
        if level is not None
    ]


def pair(document: GuidelineDocument, rows: list[CountedResponse], scope: str) -> Any:
    """The only pair of two models."""
    return BoardFigures(document, rows).pairs["pairs"]["0-1"][scope]


def interval(rows: list[CountedResponse]) -> tuple[float, float]:
    """Of A less B."""
    figures = BoardFigures(XSTEST, rows)
    cell = figures.pairs["pairs"]["0-1"]["safe"]
    return (cell["low"], cell["high"]) if figures.pairs["models"][0] == "A" else (-cell["high"], -cell["low"])


def test_two_shares_that_are_paired():
    # Newcombe 1998, Statistics in Medicine 17, 2635-2650, method 10, of the airway data in Fagerland, Lydersen and
    # Laake 2014 (Statistics in Medicine 33, 2850-2875): a, b, c, d = 1, 1, 7, 12 gives -0.507 to -0.026.
    first, second = [3, 3] + [1] * 19, [3, 1] + [3] * 7 + [1] * 12
    assert interval(safe("A", first) + safe("B", second)) == (
        pytest.approx(-0.507, abs=5e-4),
        pytest.approx(-0.026, abs=5e-4),
    )


def test_two_shares_that_are_not_paired():
    # Newcombe 1998, Statistics in Medicine 17, 873-890, table II: 56/70 - 48/80 by method 10 is 0.0524 to 0.3339,
    # and 10/10 - 0/10 is 0.6075 to 1.
    first, second = [3] * 56 + [1] * 14, [3] * 48 + [1] * 32
    assert interval(safe("A", first, known=False) + safe("B", second, known=False)) == (
        pytest.approx(0.0524, abs=5e-5),
        pytest.approx(0.3339, abs=5e-5),
    )
    assert interval(safe("A", [3] * 10, known=False) + safe("B", [1] * 10, known=False)) == (
        pytest.approx(0.6075, abs=5e-5),
        pytest.approx(1.0, abs=5e-5),
    )


def test_pairing_by_prompt_is_narrower_where_the_same_prompts_are_hard():
    hard = [1, 3] * 50
    ahead = [3 if prompt in (0, 2, 4, 6, 8, 10) else level for prompt, level in enumerate(hard)]
    paired = pair(XSTEST, safe("A", ahead) + safe("B", hard), "safe")
    unpaired = pair(XSTEST, safe("A", ahead, known=False) + safe("B", hard, known=False), "safe")
    assert paired["value"] == unpaired["value"] == pytest.approx(0.06)
    assert (paired["n"], paired["paired"]) == (100, True)
    assert (unpaired["n"], unpaired["paired"]) == (100, False)
    assert paired["low"] > 0 > unpaired["low"]  # six prompts against none: McNemar's z is 2.4


def test_only_prompts_that_both_answered_are_compared():
    first = safe("A", [3, 3, 1, 3, None])
    second = safe("B", [3, 1, 1, None, 3])
    differences = pair(XSTEST, first + second, "safe")
    assert differences["n"] == 3
    assert differences["value"] == pytest.approx(
        1 / 3
    )  # 2 of 3 against 1 of 3; their own rates are 3/4 and 2/4


def test_models_without_a_common_prompt_are_compared_as_independent_ones():
    """95% of 123 against 48% of 132 is no tie."""
    first, second = [3] * 117 + [1] * 6, [3] * 63 + [1] * 69
    rows = safe("A", [*first, *[None] * 132]) + safe("B", [*[None] * 123, *second])
    difference = pair(XSTEST, rows, "safe")
    assert (difference["n"], difference["paired"]) == (123, False)
    assert difference["value"] == pytest.approx(117 / 123 - 63 / 132)
    assert difference["low"] > 0.3
    assert [(row["rank"]["low"], row["rank"]["high"]) for row in build_board(XSTEST, rows)["rows"]] == [
        (1, 1),
        (2, 2),
    ]


def test_a_few_common_prompts_do_not_take_the_place_of_all_others():
    first, second = [3] * 117 + [1] * 6, [3] * 63 + [1] * 69
    rows = safe("A", [*first, *[None] * 130]) + safe("B", [*[None] * 121, *second])
    assert pair(XSTEST, rows, "safe")["n"] == 123  # two prompts are common


def test_one_model_whose_prompts_nobody_knows_is_paired_with_none():
    rows = safe("A", [3, 3, 1]) + safe("B", [3, 1, 1]) + safe("C", [1, 1, 1], known=False)
    differences = BoardFigures(XSTEST, rows).pairs
    assert differences["models"] == ["A", "B", "C"]
    assert [cells["safe"]["paired"] for cells in differences["pairs"].values()] == [True, False, False]


def test_the_overall_difference_is_the_mean_of_the_dimensions():
    rng = np.random.default_rng(5)
    rows = [
        CountedResponse(model, f"{scope} {prompt}", scope, ((criterion, 3 if rng.random() < rate else 1),))
        for scope, criterion in CRITERIA.items()
        for prompt in range(200)
        for model, rate in (("A", 0.7), ("B", 0.5))
    ]
    differences = BoardFigures(FLAMES, rows)
    cells = differences.pairs["pairs"]["0-1"]
    assert differences.pairs["scopes"] == ["overall", *FLAMES.dimension_names]
    assert cells["overall"]["value"] == pytest.approx(
        np.mean([cells[criterion]["value"] for criterion in CRITERIA])
    )
    assert cells["overall"]["n"] == 1000
    # each dimension's difference has variance (.7 * .3 + .5 * .5) / 200; their mean a fifth of that
    half = 1.96 * math.sqrt((0.21 + 0.25) / 200 / 5)
    assert cells["overall"]["high"] - cells["overall"]["low"] == pytest.approx(2 * half, rel=0.1)


def test_a_mean_is_compared_by_prompt():
    first, second = [4, 4, 0, 1] * 50, [4, 1, 0, 0] * 50
    rows = [
        CountedResponse(model, prompt, "all", (("warmth", level),))
        for model, levels in (("A", first), ("B", second))
        for prompt, level in enumerate(levels)
    ]
    differences = pair(MEAN, rows, "all")
    # differences 0, 3, 0, 1: mean 1, variance 1.5; 25 * (1 +- 1.96 * sqrt(1.5 / 200))
    assert differences["value"] == 25
    assert differences["low"] == pytest.approx(25 - 25 * 1.96 * math.sqrt(1.5 / 200), abs=0.5)
    assert differences["high"] == pytest.approx(25 + 25 * 1.96 * math.sqrt(1.5 / 200), abs=0.5)


POOLED = parse_guideline(
    FLAMES_GUIDELINE.path.read_text(encoding="utf-8").replace(
        "overall: mean_of_dimensions", "overall: pooled"
    ),
    path="pooled.yaml",
)


@pytest.mark.parametrize("rank_by", ["harmless_rate", "harmless_score"])
def test_labels_that_are_pooled_are_compared_by_prompt_across_dimensions(rank_by: str):
    """A dimension without a response is no gap of the pair."""
    levels = {"A": [3, 3, 3, 1], "B": [3, 1, 1, 1]}
    rows = [
        CountedResponse(model, f"{scope} {at}", scope, ((CRITERIA[scope], level),))
        for scope in ("Fairness", "Safety")
        for model, own in levels.items()
        for at, level in enumerate(own * 20)
    ]
    differences = BoardFigures(POOLED.model_copy(update={"rank_by": rank_by}), rows)
    cell = differences.pairs["pairs"]["0-1"]["overall"]
    # half of the prompts: 3 against 1; a score counts 100 / 3 for each level
    value = {"harmless_rate": 0.5, "harmless_score": 100 / 3}[rank_by]
    assert cell["value"] == pytest.approx(value)
    assert (cell["n"], cell["paired"]) == (160, True)
    half = 1.96 * math.sqrt(0.25 / 160) * (value / 0.5)
    assert cell["low"] == pytest.approx(value - half, abs=0.15 * half)
    assert cell["high"] == pytest.approx(value + half, abs=0.15 * half)
    assert [row["rank"]["low"] for row in differences.board["rows"]] == [1, 2]


LEVELS = st.sampled_from([1, 3, None])


@st.composite
def boards(draw: st.DrawFn, *, complete: bool = False) -> list[CountedResponse]:
    """Two to four models on ten prompts in each dimension, with gaps, and prompts that nobody knows."""
    rows: list[CountedResponse] = []
    for number in range(draw(st.integers(2, 4))):
        known = complete or draw(st.booleans())
        for scope, criterion in CRITERIA.items():
            levels = draw(st.lists(st.sampled_from([1, 3]) if complete else LEVELS, min_size=10, max_size=10))
            rows += [
                CountedResponse(
                    f"m{number}", f"{scope} {at}" if known else None, scope, ((criterion, level),)
                )
                for at, level in enumerate(levels)
                if level is not None
            ]
    return rows


def swapped(rows: Sequence[CountedResponse], names: dict[str, str]) -> list[CountedResponse]:
    return [CountedResponse(names[row.model], row.prompt, row.scope, row.labels) for row in rows]


def by_names(figures: BoardFigures) -> dict[tuple[str, str], dict[str, Any]]:
    differences = figures.pairs
    return {
        (differences["models"][int(a)], differences["models"][int(b)]): cells
        for key, cells in differences["pairs"].items()
        for a, b in [key.split("-")]
    }


@settings(max_examples=examples(8), deadline=None)
@given(boards())
def test_a_to_b_is_b_to_a_turned_round(rows: list[CountedResponse]):
    """Under names in the opposite order."""
    models = sorted({row.model for row in rows})
    turned = dict(zip(models, reversed(models), strict=True))
    differences, other = (
        by_names(BoardFigures(FLAMES, rows)),
        by_names(BoardFigures(FLAMES, swapped(rows, turned))),
    )
    for (first, later), cells in differences.items():
        back = other.get((turned[first], turned[later]))
        sign = 1
        if back is None:
            back, sign = other[turned[later], turned[first]], -1
        for scope, cell in cells.items():
            mirror = back[scope]
            assert (cell is None) == (mirror is None)
            if cell is None:
                continue
            assert cell["value"] == pytest.approx(sign * mirror["value"], abs=1e-12)
            ends = (mirror["low"], mirror["high"]) if sign > 0 else (mirror["high"], mirror["low"])
            assert cell["low"] == (None if ends[0] is None else pytest.approx(sign * ends[0], abs=1e-9))
            assert cell["high"] == (None if ends[1] is None else pytest.approx(sign * ends[1], abs=1e-9))


@settings(max_examples=examples(8), deadline=None)
@given(boards())
def test_a_copy_of_a_model_differs_by_exactly_nothing(rows: list[CountedResponse]):
    copies = [CountedResponse(f"{row.model} copy", row.prompt, row.scope, row.labels) for row in rows]
    for (first, later), cells in by_names(BoardFigures(FLAMES, rows + copies)).items():
        if later == f"{first} copy":
            for cell in cells.values():
                assert cell is None or (cell["value"] == 0 and (cell["low"] or 0) <= 0 <= (cell["high"] or 0))


@settings(max_examples=examples(8), deadline=None)
@given(boards(), st.randoms())
def test_the_order_of_rows_and_models_changes_nothing(rows: list[CountedResponse], random: Any):
    mixed = list(rows)
    random.shuffle(mixed)
    first, second = BoardFigures(FLAMES, rows), BoardFigures(FLAMES, mixed)
    assert first.board == second.board
    assert first.pairs == second.pairs


@settings(max_examples=examples(8), deadline=None)
@given(boards(complete=True))
def test_another_model_on_the_same_prompts_changes_no_interval(rows: list[CountedResponse]):
    """So an interval does not depend on who else is on the board; only ranks, which compare with all, do."""
    more = rows + [
        CountedResponse("another", row.prompt, row.scope, row.labels) for row in rows if row.model == "m0"
    ]
    single = {row["model"]: row["overall"] for row in build_board(FLAMES, rows)["rows"]}
    joined = {row["model"]: row["overall"] for row in build_board(FLAMES, more)["rows"]}
    for model, statistics in single.items():
        for name, statistic in statistics.items():
            assert joined[model][name] == pytest.approx(statistic, abs=1e-12)


@settings(max_examples=examples(12), deadline=None)
@given(boards())
def test_ranks_say_what_the_pairs_say(rows: list[CountedResponse]):
    differences = BoardFigures(FLAMES, rows)
    placed = {row["model"]: row["rank"] for row in differences.board["rows"] if row["rank"]}
    surely: dict[str, list[int]] = {model: [] for model in placed}
    for (first, later), cells in by_names(differences).items():
        cell = cells["overall"]
        if cell is not None and cell["low"] is not None:
            sign = int(cell["low"] > 0) - int(cell["high"] < 0)
            surely[first].append(sign)
            surely[later].append(-sign)
    for model, rank in placed.items():
        assert rank["each"]["low"] == min(rank["value"], 1 + surely[model].count(-1))
        assert rank["each"]["high"] == max(rank["value"], len(placed) - surely[model].count(1))
        # all at once less is told apart than one by one
        assert rank["low"] <= rank["each"]["low"] <= rank["value"] <= rank["each"]["high"] <= rank["high"]


def test_gaps_are_compared_as_if_each_pair_stood_alone():
    """Of a pair alone nothing else is there."""
    rng = np.random.default_rng(11)
    rows = [
        CountedResponse(f"m{model}", f"{scope} {prompt}", scope, ((criterion, int(rng.choice([1, 3]))),))
        for scope, criterion in CRITERIA.items()
        for prompt in range(40)
        for model in range(5)
        if rng.random() < (0.98 if model < 3 else 0.7)
    ]
    together = by_names(BoardFigures(FLAMES, rows))
    assert len(together) == 10
    for (first, later), cells in together.items():
        common = {row.prompt for row in rows if row.model == first} & {
            row.prompt for row in rows if row.model == later
        }
        pair_rows = [row for row in rows if row.prompt in common and row.model in (first, later)]
        single = build_board(FLAMES, pair_rows)["rows"]
        value = {row["model"]: row["overall"]["harmless_rate"]["value"] for row in single}
        assert cells["overall"]["value"] == pytest.approx(value[first] - value[later], abs=1e-12)
        assert (cells["overall"]["n"], cells["overall"]["paired"]) == (len(common), True)
        assert cells["overall"]["low"] < cells["overall"]["value"] < cells["overall"]["high"]


def test_models_that_are_equal_are_rarely_told_apart_by_any_rank_of_a_whole_board():
    """Ten equal models make 45 pairs: by 95% intervals one by one most boards show a false order, together 5%."""
    rng = np.random.default_rng(3)
    boards_, false_each, false_together = 20, 0, 0
    for _ in range(boards_):
        levels = rng.choice([1, 3], size=(10, 80))
        rows = [row for model in range(10) for row in safe(f"m{model}", levels[model].tolist())]
        ranks = [row["rank"] for row in build_board(XSTEST, rows)["rows"]]
        false_together += any((rank["low"], rank["high"]) != (1, 10) for rank in ranks)
        false_each += any((rank["each"]["low"], rank["each"]["high"]) != (1, 10) for rank in ranks)
    assert false_together <= 4  # 5% of 20 is 1; more than 4 would have a chance of 1 in 300
    assert false_each > 6


def test_what_is_far_apart_is_told_apart_together_too():
    rng = np.random.default_rng(4)
    rows = [
        row
        for number, rate in enumerate((0.9, 0.6, 0.3))
        for row in safe(f"m{number}", [3 if rng.random() < rate else 1 for _ in range(300)])
    ]
    assert [(row["rank"]["low"], row["rank"]["high"]) for row in build_board(XSTEST, rows)["rows"]] == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]


def test_all_right_is_told_apart_from_all_wrong():
    rows = safe("A", [3] * 100) + safe("B", [1] * 100)
    assert [row["rank"]["low"] for row in build_board(XSTEST, rows)["rows"]] == [1, 2]
