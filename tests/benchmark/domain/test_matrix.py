"""The boards of several datasets beside each other: what is correlated with what. scipy is the reference."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.stats import spearmanr

from benchmark.domain.leaderboards.matrix import (
    MatrixColumn,
    choose_metric,
    correlate_columns,
    list_models,
    order_models,
)
from tests.benchmark.domain.test_metrics import FLAMES, XSTEST

HARMLESS, ATTACKS = FLAMES.metric("harmless_rate"), FLAMES.metric("attack_success_rate")
FULL_REFUSAL = XSTEST.metric("full_refusal_rate")


def row(model: str, value: float | None, *, metric: str = "harmless_rate", reason: str | None = None) -> Any:
    statistic = {"value": value, "low": value and value - 0.05, "high": value and value + 0.05}
    return {"model": model, "n": 100, "reason": reason, "dimensions": {}, "overall": {metric: statistic}}


def column(values: dict[str, float | None], *, metric: str = "harmless_rate") -> MatrixColumn:
    rows = [row(model, value, metric=metric) for model, value in values.items()]
    return MatrixColumn.build(FLAMES, FLAMES.metric(metric), rows)


FIRST = {"A": 0.9, "B": 0.7, "C": 0.7, "D": 0.2}


def test_a_number_is_the_overall_or_that_of_the_only_dimension():
    assert column(FIRST).scope is None
    cell = {"n": 40, "reason": "no_gold", "full_refusal_rate": {"value": 0.5, "low": None, "high": None}}
    refusals = MatrixColumn.build(
        XSTEST, FULL_REFUSAL, [{"model": "A", "overall": {}, "dimensions": {"unsafe": cell}}]
    )
    assert refusals.scope == "unsafe"
    assert refusals.numbers["A"].to_json() == {
        "value": 0.5,
        "low": None,
        "high": None,
        "n": 40,
        "compared": False,
    }


def test_a_guideline_without_the_metric_is_compared_by_what_it_ranks_by():
    assert choose_metric(FLAMES, "attack_success_rate") == ATTACKS
    assert choose_metric(XSTEST, "attack_success_rate").name == XSTEST.rank_by
    assert choose_metric(FLAMES, "") == HARMLESS


def test_spearman_is_scipys_over_the_models_of_both():
    second = {"A": 0.5, "B": 0.6, "C": 0.3, "D": 0.1, "E": 0.9}
    (correlation,) = correlate_columns([column(FIRST), column(second)])
    assert (correlation.first, correlation.second, correlation.n) == (0, 1, 4)
    expected = spearmanr(list(FIRST.values()), [second[model] for model in FIRST])[0]
    assert correlation.value == pytest.approx(expected)
    assert (correlation.low, correlation.high) == (None, None)  # too few for an interval


def test_what_is_better_when_it_is_lower_is_turned():
    attacks = {model: 1 - value for model, value in FIRST.items()}
    (correlation,) = correlate_columns([column(FIRST), column(attacks, metric="attack_success_rate")])
    assert correlation.value == pytest.approx(1)
    models = list_models([column(FIRST)])
    assert order_models(models, column(FIRST)) == ["A", "B", "C", "D"]
    assert order_models([*models, "E"], column(attacks, metric="attack_success_rate"))[-2:] == ["D", "E"]


@pytest.mark.parametrize(
    ("second", "n"),
    [({"A": 0.5, "B": 0.6}, 2), ({"X": 0.5}, 0), ({"A": 0.5, "B": 0.5, "C": 0.5, "D": 0.5}, 4)],
    ids=["two models", "none in common", "the same for all"],
)
def test_what_says_nothing_is_undefined(second: dict[str, float | None], n: int):
    (correlation,) = correlate_columns([column(FIRST), column(second)])
    assert (correlation.n, correlation.value, correlation.low) == (n, None, None)


def test_predicted_and_undefined_numbers_count_for_nothing():
    rows = [row("A", 0.9), row("B", 0.7), row("C", 0.5), row("D", 0.1, reason="no_gold"), row("E", None)]
    first = MatrixColumn.build(FLAMES, HARMLESS, rows)
    assert list(first.numbers) == ["A", "B", "C", "D"]
    (correlation,) = correlate_columns([first, column({**FIRST, "D": 1.0})])
    assert correlation.n == 3
    # A, then B and C alike: (A, B, C) against ranks 3, 1.5, 1.5
    assert correlation.value == pytest.approx(spearmanr([0.9, 0.7, 0.5], [0.9, 0.7, 0.7])[0])
    assert order_models(["D", "A", "E"], first) == ["A", "D", "E"]


def test_eight_models_have_an_interval_around_the_coefficient():
    first = {f"M{at}": at / 10 for at in range(9)}
    second = {f"M{at}": value for at, value in enumerate([0.1, 0.0, 0.2, 0.4, 0.3, 0.5, 0.7, 0.6, 0.8])}
    (correlation,) = correlate_columns([column(first), column(second)])
    assert correlation.value is not None
    assert correlation.low is not None
    assert correlation.high is not None
    assert -1 < correlation.low < correlation.value < correlation.high < 1
