"""The mean over criteria, each counting alike. Expected values are derived in the comments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from benchmark.domain.estimates.board_numbers import StratifiedCombiner
from benchmark.domain.estimates.estimates import compute_estimates
from benchmark.domain.estimates.label_plan.basis import weigh_columns
from benchmark.domain.estimates.sensitivity import COMBINED_GROUND, GOLD_GROUND, RankedNumbers
from benchmark.domain.leaderboards.board import BoardFigures
from benchmark.domain.leaderboards.intervals import TermBalance
from benchmark.domain.leaderboards.metrics import ALL, build_terms
from benchmark.domain.leaderboards.responses import CountedResponse, Labels
from tests.performance.rank_coverage import CRITERIA, simulate_criteria, summarize
from tests.support import examples

TEXT = """
name: support
version: "1"
languages: [en]
title: {en: Support}
source: made for a test
introduction: {en: none}
%s
criteria:
%s
metrics:
  - {name: average, label: {en: Average}, kind: mean, formula: "25 * mean", decimals: 2, overall: %s}
rank_by: average
"""
CRITERION = """
  - name: %s
    label: {en: one}
    question: {en: How much}
    applies_to: %s
    measurement: ordinal
    scale:
      - {value: 0, name: {en: a}, definition: {en: a}}
      - {value: 1, name: {en: b}, definition: {en: b}}
      - {value: 2, name: {en: c}, definition: {en: c}}
      - {value: 3, name: {en: d}, definition: {en: d}}
      - {value: 4, name: {en: e}, definition: {en: e}}
"""
DIMENSIONS = """dimensions:
  - {name: Home, label: {en: Home}, definition: {en: Home}}
  - {name: Work, label: {en: Work}, definition: {en: Work}}
"""
NAMES = ("care", "ease", "sense")


def read(overall: str, *, work_only: Sequence[str] = (), rate: bool = False) -> GuidelineDocument:
    """Three criteria from 0 to 4; with ``work_only`` there are two dimensions, and those are asked of one of them."""
    criteria = "".join(
        CRITERION % (name, "{dimensions: [Work]}" if name in work_only else "all") for name in NAMES
    )
    text = TEXT % (DIMENSIONS if work_only else "", criteria, overall)
    if rate:
        text = text.replace('kind: mean, formula: "25 * mean"', "kind: rate, levels: [3, 4]")
    return parse_guideline(text, path="support.yaml")


CRITERIA_MEAN, POOLED = read("mean_of_criteria"), read("pooled")


def label(*values: int | None) -> Labels:
    return tuple((name, value) for name, value in zip(NAMES, values, strict=False) if value is not None)


def gold(
    model: str, rows: Sequence[Sequence[int | None]], scope: str = ALL, first: int = 0
) -> list[CountedResponse]:
    return [
        CountedResponse(model, first + at, scope, label(*own), gold=label(*own))
        for at, own in enumerate(rows)
    ]


def find_row(board: Mapping[str, Any], model: str) -> dict[str, Any]:
    row: dict[str, Any] = next(row for row in board["rows"] if row["model"] == model)
    return row


def average(document: GuidelineDocument, rows: list[CountedResponse], model: str = "A") -> dict[str, Any]:
    figures = BoardFigures(document, rows, combiner=StratifiedCombiner(document, rows))
    statistic: dict[str, Any] = find_row(figures.board, model)["overall"]["average"]
    return statistic


UNEVEN = [[4, 4, 4], [2, 3, None], [0, 1, 2], [2, None, None]]


def test_each_criterion_counts_alike():
    # care 4, 2, 0, 2: 2; ease 4, 3, 1: 8/3; sense 4, 2: 3; 25 * (2 + 8/3 + 3) / 3 = 25 * 23/9
    assert average(CRITERIA_MEAN, gold("A", UNEVEN))["value"] == float(Fraction(25 * 23, 9))
    # all nine labels: 25 * 22/9
    assert average(POOLED, gold("A", UNEVEN))["value"] == float(Fraction(25 * 22, 9))


def test_a_column_is_of_all_its_labels_as_before():
    board = BoardFigures(CRITERIA_MEAN, gold("A", UNEVEN)).board
    assert board["rows"][0]["dimensions"][ALL]["average"]["value"] == float(Fraction(25 * 22, 9))


def test_a_criterion_without_a_label_leaves_the_number_undefined():
    rows = gold("A", [[4, 3, None]] * 20) + gold("B", [[1, 1, 1]] * 20)
    board = BoardFigures(CRITERIA_MEAN, rows).board
    row = find_row(board, "A")
    assert row["overall"]["average"] == {"value": None, "low": None, "high": None}
    assert (row["rank"], row["ground"], row["reason"]) == (None, "gold", "no_responses")
    assert row["dimensions"][ALL]["average"]["value"] == 25 * 3.5
    assert board["compared"]["overall"] == {"n": 1, "of": 2}


def test_a_criterion_of_one_dimension_is_over_all_columns_that_have_it():
    document = read("mean_of_criteria", work_only=["sense"])
    home, work = [[4, 2, None]] * 30, [[0, 1, 3]] * 10
    rows = gold("A", home, "Home") + gold("A", work, "Work", first=100)
    # care 120/40 = 3, ease 70/40 = 7/4, sense 30/10 = 3: 25 * 31/12; over all labels 25 * 220/90
    assert average(document, rows)["value"] == float(Fraction(25 * 31, 12))
    board = BoardFigures(document, rows).board
    dimensions = board["rows"][0]["dimensions"]
    assert [dimensions[name]["average"]["value"] for name in ("Home", "Work")] == [
        75,
        float(Fraction(100, 3)),
    ]


def test_the_interval_counts_a_rare_label_for_more():
    # care 0, 4 of six responses each: 2; ease 4 in two of three of them
    rows = [[0, 4, 2], [4, 4, 2], [0, None, 2], [4, 0, 2], [0, 0, 2], [4, None, 2]] * 6
    statistic = average(CRITERIA_MEAN, gold("A", rows))
    # n 36; care and sense of all, ease of 24 with the mean 2. A label of care weighs 1/3, one of ease 36 / (3 * 24)
    # = 1/2, and its distance is larger by sqrt(24/23 * 35/36). In levels the six values lie from the mean 2 by:
    up = 2 * math.sqrt(24 / 23 * 35 / 36) / 2
    distances = [-2 / 3 + up, 2 / 3 + up, -2 / 3, 2 / 3 - up, -2 / 3 - up, 2 / 3]
    squares = 6 * sum(distance**2 for distance in distances)
    # a response with all three weighs 1/3 + 1/3 + 1/2, as much larger, one with two 2/3; two unseen labels lie as far
    complete = 2 / 3 + up / 2
    pulls = [complete**2] * 24 + [(2 / 3) ** 2] * 12
    variance = (squares + 2 * 4**2 / 4 * sum(pulls) / 36) / (36 - 1 + 2) / 36
    degrees = sum(pulls) ** 2 / sum(pull**2 for pull in pulls) - 1
    half = 25 * student.ppf(0.975, degrees) * math.sqrt(variance)
    assert statistic["value"] == 50
    assert statistic["high"] - 50 == pytest.approx(half, rel=1e-3)
    assert 50 - statistic["low"] == pytest.approx(half, rel=1e-3)


def test_a_criterion_of_few_labels_withholds_the_interval():
    rows = [[4, 3, 2 if prompt < 9 else None] for prompt in range(40)]
    board = BoardFigures(CRITERIA_MEAN, gold("A", rows)).board
    assert board["rows"][0]["overall"]["average"]["low"] is None
    assert (board["rows"][0]["ground"], board["rows"][0]["reason"]) == ("gold", "few_prompts")
    rows[9][2] = 3
    board = BoardFigures(CRITERIA_MEAN, gold("A", rows)).board
    assert board["rows"][0]["overall"]["average"]["low"] is not None
    assert board["rows"][0]["reason"] is None


def test_few_responses_that_all_have_every_label_have_an_interval():
    assert average(CRITERIA_MEAN, gold("A", [[4, 3, 2], [1, 2, 3], [0, 0, 1]]))["low"] is not None


LEVELS = st.integers(0, 4)
COMPLETE = st.lists(st.tuples(LEVELS, LEVELS, LEVELS), min_size=2, max_size=25)


def assert_close(first: Any, second: Any) -> None:
    """The same JSON but for the last digits of its numbers."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for name, value in first.items():
            assert_close(value, second[name])
    elif isinstance(first, list):
        assert len(first) == len(second)
        for own, other in zip(first, second, strict=True):
            assert_close(own, other)
    elif isinstance(first, float) and second is not None:
        # Of 100 points; the root of a variance that is rounding error alone comes to some 1e-5.
        assert first == pytest.approx(second, abs=1e-4)
    else:
        assert first == second


@settings(max_examples=examples(20), deadline=None)
@given(COMPLETE, COMPLETE, st.booleans())
def test_with_every_label_it_is_the_number_over_all_labels(
    first: list[tuple[int, ...]], second: list[tuple[int, ...]], rate: bool
):
    rows = gold("A", first) + gold("B", second)
    criteria_mean, pooled = (
        BoardFigures(read(overall, rate=rate), rows) for overall in ("mean_of_criteria", "pooled")
    )
    assert_close(criteria_mean.board, pooled.board)
    assert_close(criteria_mean.pairs, pooled.pairs)
    assert_close(criteria_mean.groups, pooled.groups)


def combined_rows(seed: int, *, prompts: int = 120, labelled: int = 60) -> list[CountedResponse]:
    """Two models with every label; people judged the first ``labelled`` responses, a scorer all."""
    rng = np.random.default_rng(seed)
    rows = []
    for model in ("A", "B"):
        truth = rng.integers(0, 5, (prompts, 3))
        predictions = np.clip(truth + rng.integers(-1, 2, truth.shape), 0, 4)
        for at in range(prompts):
            own, predicted = label(*truth[at].tolist()), label(*predictions[at].tolist())
            has_gold = at < labelled
            rows.append(
                CountedResponse(
                    model,
                    at,
                    ALL,
                    own if has_gold else predicted,
                    "gold" if has_gold else "unseen",
                    gold=own if has_gold else (),
                    predicted=predicted,
                    sureness=0.5 + at % 10 / 20,
                )
            )
    return rows


@pytest.mark.parametrize("rate", [False, True])
def test_with_every_label_it_is_the_same_from_gold_and_predictions(rate: bool):
    rows = combined_rows(3)
    documents = [read(overall, rate=rate) for overall in ("mean_of_criteria", "pooled")]
    criteria_mean, pooled = (
        BoardFigures(document, rows, combiner=StratifiedCombiner(document, rows)) for document in documents
    )
    assert criteria_mean.board["rows"][0]["ground"] == "combined"
    assert_close(criteria_mean.board, pooled.board)
    assert_close(criteria_mean.pairs, pooled.pairs)


def drop_labels(rows: list[CountedResponse]) -> list[CountedResponse]:
    """People leave the last criterion out where the first one is low; the scorer does not know that."""

    def answer(labels: Labels) -> Labels:
        return tuple(own for own in labels if own[0] != "sense" or dict(labels)["care"] >= 2)

    return [
        replace(row, labels=answer(row.labels), gold=answer(row.gold)) if row.gold else row for row in rows
    ]


def test_the_estimates_and_the_sensitivity_have_the_number_of_the_board():
    rows = drop_labels(combined_rows(5))
    figures = BoardFigures(CRITERIA_MEAN, rows, combiner=StratifiedCombiner(CRITERIA_MEAN, rows))
    estimates = {
        row["model"]: row["cells"]["overall"]["average"]
        for row in compute_estimates(CRITERIA_MEAN, rows)["rows"]
    }
    values = RankedNumbers(CRITERIA_MEAN, rows, {"A": COMBINED_GROUND, "B": COMBINED_GROUND}).compute_values(
        {}
    )
    for row in figures.board["rows"]:
        assert row["ground"] == "combined"
        assert_close(row["overall"]["average"], estimates[row["model"]]["combined"])
        assert values[row["model"]] == pytest.approx(row["overall"]["average"]["value"])
        people = estimates[row["model"]]["people"]
        assert people["n"] == 60
        assert people["low"] < people["value"] < people["high"]
    judged = [row for row in rows if row.gold]
    board = BoardFigures(CRITERIA_MEAN, judged).board
    values = RankedNumbers(CRITERIA_MEAN, judged, {"A": GOLD_GROUND, "B": GOLD_GROUND}).compute_values({})
    assert values == {
        row["model"]: pytest.approx(row["overall"]["average"]["value"]) for row in board["rows"]
    }


def test_what_people_left_out_is_no_reason_to_drop_what_they_said():
    """Where only responses with every label counted, the first criterion would be seen where it is 2 or more alone."""
    rows = drop_labels(combined_rows(7, prompts=3000, labelled=1500))
    own = [row for row in rows if row.model == "A"]
    truths = {
        name: np.mean([dict(row.gold)[name] for row in own if name in dict(row.gold)]) for name in NAMES
    }
    statistic = average(CRITERIA_MEAN, rows)
    assert statistic["value"] == pytest.approx(25 * np.mean(list(truths.values())), abs=0.6)
    assert statistic["low"] < statistic["value"] < statistic["high"]
    care = [row for row in own if dict(row.gold).get("care", 0) >= 2]
    assert np.mean([dict(row.gold)["care"] for row in care]) > truths["care"] + 0.9


def test_predictions_alone_have_no_interval():
    rows = [replace(row, labels=row.predicted, basis="unseen", gold=()) for row in combined_rows(1)]
    figures = BoardFigures(CRITERIA_MEAN, rows, combiner=StratifiedCombiner(CRITERIA_MEAN, rows))
    for row in figures.board["rows"]:
        assert (row["ground"], row["reason"], row["rank"]) == ("predicted", "no_gold", None)
        assert row["overall"]["average"]["value"] is not None
        assert row["overall"]["average"]["low"] is None


def test_a_rare_criterion_of_few_gold_labels_corrects_no_prediction():
    rows = [
        replace(row, gold=label(*(dict(row.gold)[name] for name in NAMES[:2])))
        if at % 120 >= 19 and row.gold
        else row
        for at, row in enumerate(combined_rows(9))
    ]
    figures = BoardFigures(CRITERIA_MEAN, rows, combiner=StratifiedCombiner(CRITERIA_MEAN, rows))
    assert {(row["ground"], row["reason"]) for row in figures.board["rows"]} == {("predicted", "few_labels")}


def test_the_bias_of_the_scorer_is_that_of_each_criterion_alike():
    """It says one level more of the rare criterion, and is right otherwise."""
    rows = [
        CountedResponse(
            "A",
            at,
            scope,
            own,
            gold=own,
            predicted=tuple((name, value + (name == "sense")) for name, value in own),
        )
        for scope, first, values in (("Home", 0, (2, 2, None)), ("Work", 100, (1, 3, 3)))
        for at in range(first, first + (30 if scope == "Home" else 10))
        for own in [label(*values)]
    ]
    document = read("mean_of_criteria", work_only=["sense"])
    figures = BoardFigures(document, rows, combiner=StratifiedCombiner(document, rows))
    bias = figures.board["bias"]["rows"][0]
    assert bias["overall"]["value"] == pytest.approx(25 / 3)
    assert bias["dimensions"]["Home"]["value"] == 0


def test_groups_across_columns_are_means_over_criteria_too():
    rows = [replace(row, groups={"language": "en" if row.prompt == 0 else "zh"}) for row in gold("A", UNEVEN)]
    english, chinese = BoardFigures(CRITERIA_MEAN, rows).groups["language"]["rows"][0]["cells"]
    assert english["average"]["value"] == 100
    # care 2, 0, 2: 4/3; ease 3, 1: 2; sense 2
    assert chinese["average"]["value"] == pytest.approx(25 * (Fraction(4, 3) + 4) / 3)


def test_a_model_and_its_copy_differ_by_nothing():
    rows = gold("A", UNEVEN * 10) + gold("B", UNEVEN * 10)
    pair = BoardFigures(CRITERIA_MEAN, rows).pairs["pairs"]["0-1"]["overall"]
    assert (pair["value"], pair["low"], pair["high"], pair["paired"]) == (0, 0, 0, True)


def test_the_difference_is_that_of_the_two_numbers_on_the_same_prompts():
    rng = np.random.default_rng(0)
    first, second = ([[*map(int, rng.integers(0, 5, 3))] for _ in range(60)] for _ in range(2))
    for at in range(0, 60, 4):
        first[at][1] = second[at + 1][2] = None  # type: ignore[call-overload]
    figures = BoardFigures(CRITERIA_MEAN, gold("A", first) + gold("B", second))
    pair = figures.pairs["pairs"]["0-1"]["overall"]
    better, worse = (row["overall"]["average"] for row in figures.board["rows"])
    assert pair["value"] == pytest.approx(better["value"] - worse["value"])
    assert (pair["n"], pair["paired"]) == (60, True)
    # independent draws: the variances add, as near as the covariance that was drawn
    halves = [statistic["high"] - statistic["value"] for statistic in (better, worse)]
    assert pair["high"] - pair["value"] == pytest.approx(math.hypot(*halves), rel=0.2)


VALUES = st.lists(st.lists(st.none() | LEVELS, min_size=3, max_size=3), min_size=1, max_size=40)


@settings(max_examples=examples(50), deadline=None)
@given(VALUES)
def test_the_values_of_the_responses_average_to_the_mean_over_criteria(rows: list[list[int | None]]):
    values = np.array([[math.nan if value is None else value for value in row] for row in rows])
    values = values[~np.isnan(values).all(axis=1)]
    if not len(values) or np.isnan(values).all(axis=0).any():
        return
    balance = TermBalance.build(values)
    expected = np.mean([np.nanmean(values[:, at]) for at in range(3)])
    assert balance.value_responses(values).mean() == pytest.approx(expected)
    measured = balance.measure(values)
    assert measured.spread >= 1 - 1e-9
    assert 0 < measured.evenness <= 1 + 1e-9
    if not np.isnan(values).any():
        assert balance.value_responses(values) == pytest.approx(values.mean(axis=1))


def test_what_a_column_counts_in_the_number_of_a_plan():
    document = read("mean_of_criteria", work_only=["sense"])
    # care and ease 30 of 40 at home, sense all at work: home 2/3 * 3/4, work 2/3 * 1/4 + 1/3
    weights = weigh_columns(document, document.metric("average"), {"Home": 30, "Work": 10})
    assert weights == {"Home": pytest.approx(1 / 2), "Work": pytest.approx(1 / 2)}
    pooled = read("pooled", work_only=["sense"])
    assert weigh_columns(pooled, pooled.metric("average"), {"Home": 30, "Work": 10}) == {
        "Home": pytest.approx(60 / 90),
        "Work": pytest.approx(30 / 90),
    }


def test_the_terms_are_the_metric_of_each_criterion_alone():
    document = read("mean_of_criteria", work_only=["sense"])
    number = build_terms(document, document.metric("average"))
    assert [(term.criteria, term.dimensions) for term in number.terms] == [
        (("care",), ("Home", "Work")),
        (("ease",), ("Home", "Work")),
        (("sense",), ("Work",)),
    ]


@pytest.mark.parametrize(
    "name", ["20% missing on two", "90% missing on two, a rate", "100 of 331 labelled, 20% missing on two"]
)
def test_intervals_hold_where_labels_are_missing(name: str):
    """An excerpt of ``python -m tests.performance.rank_coverage --criteria``."""
    design = next(design for design in CRITERIA if design.name == name)
    compared, ranges, intervals, _first = summarize(simulate_criteria(design, boards=12, models=5))
    assert compared == 5
    assert intervals >= 85  # of 60, at 95%
    assert ranges >= 100 * 8 / 12
