"""Plans of studies: their numbers follow what is asked for, and small draws keep them."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.errors import AssayError
from annotation.domain.agreement.intervals import MIN_DISPUTES, MIN_PROMPTS
from annotation.domain.planning import (
    WIDENING,
    AgreementDesign,
    ComparisonDesign,
    parse_shares,
    plan_agreement,
    plan_comparison,
    space_prompts,
)
from tests.performance.study_plans import measure_similarity, simulate_half_widths, simulate_power

THREE = (0.6, 0.25, 0.15)


@given(
    alpha=st.floats(0, 0.95),
    raters=st.integers(2, 5),
    responses=st.integers(1, 20),
    similarity=st.floats(0, 1),
    half_width=st.floats(0.02, 0.3),
)
def test_the_planned_prompts_are_the_fewest_that_reach_the_half_width(
    alpha: float, raters: int, responses: int, similarity: float, half_width: float
):
    design = AgreementDesign(alpha, THREE, raters, responses, similarity)
    plan = plan_agreement(design, half_width)
    assert design.half_width(plan.prompts) <= half_width + 1e-9
    assert plan.prompts >= MIN_PROMPTS
    if not plan.has_floor:
        assert design.half_width(plan.prompts - 1) > half_width
    assert plan.labels == plan.prompts * responses * raters
    assert plan.disputes >= MIN_DISPUTES - 1


def test_similar_responses_take_more_prompts_and_more_raters_take_fewer():
    def prompts(**changes: Any) -> int:
        return plan_agreement(
            AgreementDesign(**{"alpha": 0.7, "shares": THREE, "responses": 10, **changes}), 0.05
        ).prompts

    assert prompts(similarity=0) < prompts(similarity=0.1) < prompts(similarity=0.5)
    assert prompts(raters=2) > prompts(raters=3) > prompts(raters=5)
    # ten responses that are alike say no more than one
    assert prompts(similarity=1) == plan_agreement(AgreementDesign(0.7, THREE, 2, 1), 0.05).prompts


@pytest.mark.parametrize("alpha", [0.4, 0.7, 0.9])
def test_the_influence_is_that_of_alpha_on_drawn_labels(alpha: float):
    """The half-width against the spread of alpha over 2,000 drawn studies of 400 independent responses."""
    rng = np.random.default_rng(1)
    studies, units, shares = 2_000, 400, np.array(THREE)
    truth = rng.choice(3, size=(studies, units, 1), p=shares)
    by_chance = rng.choice(3, size=(studies, units, 2), p=shares)
    labels = np.where(rng.random((studies, units, 2)) < sqrt(alpha), truth, by_chance)
    counts = np.stack([(labels == level).sum(axis=(1, 2)) for level in range(3)], axis=1)
    n = 2 * units
    expected = 1 - (counts * (counts - 1)).sum(axis=1) / (n * (n - 1))
    alphas = 1 - (labels[..., 0] != labels[..., 1]).mean(axis=1) / expected
    assert alphas.mean() == pytest.approx(alpha, abs=0.01)
    design = AgreementDesign(alpha, THREE, 2, 1, 0)
    assert design.half_width(units) == pytest.approx(WIDENING * 1.96 * alphas.std(), rel=0.06)
    assert design.dispute_share == pytest.approx((labels[..., 0] != labels[..., 1]).mean(), rel=0.03)


@given(
    rate=st.floats(0.3, 0.7),
    models=st.integers(2, 30),
    correlation=st.floats(0, 0.9),
    difference=st.floats(0.03, 0.3),
)
def test_the_planned_prompts_separate_the_difference_on_eight_boards_of_ten(
    rate: float, models: int, correlation: float, difference: float
):
    design = ComparisonDesign(rate, models, correlation)
    plan = plan_comparison(design, difference)
    assert design.power(plan.prompts, difference) >= 0.8 - 1e-9
    if plan.prompts > MIN_PROMPTS:
        assert design.power(plan.prompts - 1, difference) < 0.8


def test_more_models_and_smaller_differences_take_more_prompts():
    two, ten = (plan_comparison(ComparisonDesign(0.7, models), 0.1).prompts for models in (2, 10))
    assert two < ten
    assert plan_comparison(ComparisonDesign(0.7, 2), 0.05).prompts == pytest.approx(4 * two, rel=0.05)


@pytest.mark.parametrize(
    "build",
    [
        lambda: AgreementDesign(1, THREE),
        lambda: AgreementDesign(-0.1, THREE),
        lambda: AgreementDesign(0.7, (1.0,)),
        lambda: AgreementDesign(0.7, THREE, raters=1),
        lambda: AgreementDesign(0.7, THREE, responses=0),
        lambda: AgreementDesign(0.7, THREE, similarity=1.5),
        lambda: plan_agreement(AgreementDesign(0.7, THREE), 0),
        lambda: plan_agreement(AgreementDesign(0.7, THREE), 0.00001),
        lambda: ComparisonDesign(1),
        lambda: ComparisonDesign(0.5, models=1),
        lambda: ComparisonDesign(0.5, correlation=1),
        lambda: plan_comparison(ComparisonDesign(0.95), 0.2),
        lambda: plan_comparison(ComparisonDesign(0.5), 0),
        lambda: plan_comparison(ComparisonDesign(0.5), 0.0001),
        lambda: parse_shares("60 x"),
        lambda: parse_shares("60"),
        lambda: parse_shares("60 -10"),
        lambda: parse_shares("nan 1"),
    ],
)
def test_what_has_no_plan_is_refused(build: object):
    with pytest.raises(AssayError):
        build()  # type: ignore[operator]


def test_shares_are_read_in_percent_and_as_fractions():
    assert parse_shares("60 25 15") == pytest.approx(THREE)
    assert parse_shares(".6，.25, .15") == pytest.approx(THREE)


def test_a_curve_holds_its_plan():
    for prompts in (10, 57, 4_000):
        spaced = space_prompts(prompts)
        assert prompts in spaced
        assert spaced == sorted(spaced)
        assert spaced[0] >= MIN_PROMPTS


def test_a_drawn_study_is_as_narrow_and_as_strong_as_planned():
    """An excerpt of ``tests/performance/study_plans.py`` with wide bounds."""
    design = AgreementDesign(0.7, THREE, 2, 5)
    similarity = measure_similarity(design, 0.1)
    prompts = plan_agreement(replace(design, similarity=similarity), 0.08).prompts
    width, held = simulate_half_widths(design, 0.1, prompts, studies=60)
    assert 0.8 < width / 0.08 < 1.25
    assert held > 0.85
    comparison = ComparisonDesign(0.7, 5, 0.2)
    power, wrong = simulate_power(comparison, 0.15, plan_comparison(comparison, 0.15).prompts, studies=100)
    assert 0.7 < power < 0.9
    assert wrong < 0.12
