"""Figures weighed by the chance of selection are of all responses; without a chance there is none."""

from __future__ import annotations

import math

import pytest

from scoring.domain.evaluation.weighing import WeighedLabel, measure_weighed
from scoring.domain.training_data import Head
from tests.performance.chosen_gold import DESIGNS, UNKNOWN, simulate, simulate_agreement

HEAD = Head("safety", (1, 2, 3), "ordinal")


def label(
    truth: int, answer: int | None, chance: float | None, *, prompt: str = "", sure: float | None = None
) -> WeighedLabel:
    return WeighedLabel(prompt or f"p{truth}{answer}{chance}", "safety", truth, answer, sure, chance)


def test_each_label_counts_as_the_responses_that_it_stands_for():
    labels = [
        label(1, 1, 0.5, sure=0.9),
        label(1, 3, 0.1, sure=0.6),
        label(3, 3, 0.25, sure=0.8),
        label(3, None, None),
    ]
    weighed = measure_weighed(labels, [HEAD])
    assert weighed is not None
    assert (weighed["n"], weighed["of"]) == (3, 4)
    assert weighed["accuracy"]["value"] == pytest.approx((2 + 4) / 16)
    # level 1: 2 of 2 said, 12 labelled; level 3: 4 hits, 4 labelled, 14 said; level 2 is nowhere
    assert weighed["macro_f1"]["value"] == pytest.approx((2 * 2 / (12 + 2) + 2 * 4 / (4 + 14)) / 2)
    assert weighed["effective"] == pytest.approx(16**2 / (4 + 100 + 16))
    assert weighed["calibration_error"] == pytest.approx((2 * 0.1 + 10 * 0.6 + 4 * 0.2) / 16)


def test_a_label_off_the_scale_is_wrong():
    weighed = measure_weighed([label(1, None, 0.5), label(1, 1, 0.25)], [HEAD])
    assert weighed is not None
    assert weighed["accuracy"]["value"] == pytest.approx(4 / 6)
    assert weighed["calibration_error"] is None


@pytest.mark.parametrize(
    "chances", [(None, None), (1.0, 1.0), (0.3, 0.3), ()], ids=["unknown", "whole", "equal", "nothing"]
)
def test_there_is_nothing_to_weigh_without_chances_that_differ(chances: tuple[float | None, ...]):
    labels = [label(1, at % 3 + 1, chance, prompt=f"p{at}") for at, chance in enumerate(chances)]
    assert measure_weighed(labels, [HEAD]) is None


def test_one_prompt_has_no_interval():
    weighed = measure_weighed([label(1, 1, 0.5, prompt="p"), label(1, 2, 0.2, prompt="p")], [HEAD])
    assert weighed is not None
    assert (weighed["accuracy"]["low"], weighed["accuracy"]["high"]) == (None, None)


@pytest.mark.parametrize("name", list(DESIGNS))
def test_chosen_gold_is_weighed_where_its_chance_is_known(name: str):
    """The smaller version of ``python -m tests.performance.chosen_gold``."""
    figures = simulate(name, repetitions=20, responses=1000, labels=300)
    if name in UNKNOWN:
        assert figures["weighed"] != figures["weighed"]  # undefined
        assert figures["as_they_are"] < figures["true"] - 0.1
    else:
        assert abs(figures["bias"]) < 0.03
        assert figures["covers"] >= 0.75


def test_agreement_of_chosen_responses_is_weighed_back_to_all():
    """Of those that a draw took most from the unsure alpha is off by a tenth, and weighed it is not."""
    figures = simulate_agreement("strata, the unsure more", repetitions=25, responses=1500, labels=300)
    for statistic, bias in (("percent_agreement", 0.03), ("alpha_nominal", 0.06)):
        own = figures[statistic]
        assert own["as_they_are"] < own["true"] - bias
        assert abs(own["bias"]) < 0.03
        assert own["covers"] >= 0.8
    unknown = simulate_agreement("the least sure first", repetitions=2, responses=500, labels=100)
    assert math.isnan(unknown["alpha_nominal"]["weighed"])
