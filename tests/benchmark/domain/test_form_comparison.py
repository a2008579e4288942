"""Two forms of an evaluation: correlation over models, medians and quadrants."""

from __future__ import annotations

import pytest
from scipy.stats import spearmanr

from benchmark.domain.correlations import MIN_MODELS, correlate_numbers
from benchmark.domain.leaderboards.responses import CountedResponse
from benchmark.domain.multiple_choice.comparison import (
    estimate_people,
    estimate_scorer,
    find_medians,
    find_quadrant,
)
from tests.benchmark.domain.test_metrics import FLAMES, XSTEST

FIRST = [0.5, 0.62, 0.62, 0.7, 0.71, 0.8, 0.83, 0.9, 0.95]
SECOND = [0.4, 0.7, 0.6, 0.65, 0.65, 0.9, 0.8, 0.85, 0.99]


def by_model(values: list[float]) -> dict[str, float]:
    return {f"M{number}": value for number, value in enumerate(values)}


def test_spearman_is_scipys_with_ties() -> None:
    correlation = correlate_numbers(by_model(FIRST), by_model(SECOND))
    assert correlation["n"] == 9
    statistic = correlation["spearman"]
    assert statistic["value"] == pytest.approx(spearmanr(FIRST, SECOND)[0])
    assert -1 < statistic["low"] < statistic["value"] < statistic["high"] < 1


def test_few_models_and_the_same_order_have_no_interval() -> None:
    few = correlate_numbers(by_model(FIRST[: MIN_MODELS - 1]), by_model(SECOND[: MIN_MODELS - 1]))["spearman"]
    assert few["value"] is not None
    assert (few["low"], few["high"]) == (None, None)
    same = correlate_numbers(by_model(FIRST), by_model(FIRST))["spearman"]
    assert same == {"value": pytest.approx(1), "low": None, "high": None}


@pytest.mark.parametrize(("first", "second"), [([], []), ([0.5], [0.5]), ([0.5, 0.5], [0.1, 0.9])])
def test_what_cannot_be_ranked_is_undefined(first: list[float], second: list[float]) -> None:
    assert correlate_numbers(by_model(first), by_model(second))["spearman"]["value"] is None


def test_only_models_with_both_numbers_count() -> None:
    correlation = correlate_numbers({"A": 1, "B": 2, "C": 3}, {"B": 5, "C": 4, "D": 9})
    assert (correlation["n"], correlation["spearman"]["value"]) == (2, pytest.approx(-1))
    assert find_medians({"A": 1, "B": 2, "C": 3}, {"B": 5, "C": 4, "D": 9}) == (2.5, 4.5)
    assert find_medians({"A": 1}, {"A": 1}) is None


def test_quadrants_begin_at_the_medians() -> None:
    quadrants = [find_quadrant(words, choice, (0.5, 0.5)) for words in (0.4, 0.5) for choice in (0.4, 0.5)]
    assert quadrants == ["neither", "choice_only", "words_only", "both"]


def answered(gold: int | None, predicted: int, n: int, scope: str = "safe") -> list[CountedResponse]:
    return [
        CountedResponse(
            model="M",
            prompt=f"{scope}{gold}{predicted}{number}",
            scope=scope,
            labels=(("compliance", predicted if gold is None else gold),),
            gold=() if gold is None else (("compliance", gold),),
            predicted=(("compliance", predicted),),
        )
        for number in range(n)
    ]


def test_people_count_their_labels_and_the_scorer_all_its_predictions() -> None:
    metric = XSTEST.metric("full_compliance_rate")
    rows = [*answered(3, 1, 6), *answered(1, 1, 2), *answered(None, 3, 8)]
    people, scorer = (estimate(XSTEST, metric, rows)["M"] for estimate in (estimate_people, estimate_scorer))
    assert (people.n, people.estimate.value) == (8, pytest.approx(6 / 8))
    assert (scorer.n, scorer.estimate.value) == (16, pytest.approx(8 / 16))
    assert people.estimate.low is not None
    assert people.estimate.high is not None
    assert people.estimate.low < 6 / 8 < people.estimate.high


def test_a_mean_over_dimensions_takes_all_of_them() -> None:
    criteria = {"Fairness": "fairness", "Safety": "safety", "Morality": "morality"}
    criteria |= {"Legality": "legality", "Data protection": "data_protection"}
    rows = [
        CountedResponse(model="M", prompt=f"{scope}{number}", scope=scope, labels=labels, gold=labels)
        for scope, name in criteria.items()
        for number in range(12)
        for labels in [((name, 3 if number < 6 else 1),)]
    ]
    metric = FLAMES.metric("harmless_rate")
    number = estimate_people(FLAMES, metric, rows)["M"]
    assert (number.n, number.estimate.value) == (60, pytest.approx(0.5))
    assert number.estimate.low is not None
    assert 0.3 < number.estimate.low < 0.5
    assert estimate_people(FLAMES, metric, [row for row in rows if row.scope != "Safety"]) == {}
    few = [row for row in rows if row.scope != "Safety" or str(row.prompt).endswith("1")]
    assert estimate_people(FLAMES, metric, few)["M"].estimate.low is None
