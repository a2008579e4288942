"""How many labels a goal takes, and where."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.proportions import Z
from benchmark.domain.estimates.label_plan.label_plan import (
    LabelEffort,
    PlanStratum,
    compute_curve,
    compute_half_widths,
    draw_responses,
    fill_variances,
    plan_for_precision,
)
from benchmark.domain.estimates.label_plan.separation import ModelPair

SURE, UNSURE = (0.8, 1.0), (0.0, 0.8)


def stratum(
    n: int = 500, variance: float = 0.2, *, labelled: int = 0, held: int | None = None, **more: object
) -> PlanStratum:
    fields = {"model": "M", "scope": "Legality", "bounds": UNSURE} | more
    return PlanStratum(
        **fields,  # type: ignore[arg-type]
        population=n,
        labelled=labelled,
        held=labelled if held is None else held,
        variance=variance,
    )


def test_one_stratum_takes_what_the_formula_says():
    """n = N / (1 + N (h / z)^2 / variance), the sample size of a finite population."""
    (target,) = plan_for_precision([stratum(1000)], 0.05)
    exact = 1000 / (1 + 1000 * (0.05 / Z) ** 2 / 0.2)
    assert target.labels == math.ceil(exact)
    assert target.more == target.labels


def test_labels_go_where_the_prediction_leaves_most_open():
    """Neyman: in proportion to size times deviation."""
    unsure, sure = stratum(500, 0.16), stratum(500, 0.04, bounds=SURE)
    targets = plan_for_precision([unsure, sure], 0.05)
    assert targets[0].labels == pytest.approx(2 * targets[1].labels, abs=2)


def test_what_people_have_is_not_asked_for_again():
    fresh = plan_for_precision([stratum(1000)], 0.05)[0].labels
    (target,) = plan_for_precision([stratum(1000, labelled=60, held=100)], 0.05)
    assert (target.labels, target.more) == (fresh, fresh - 100)
    (enough,) = plan_for_precision([stratum(1000, held=900)], 0.05)
    assert enough.more == 0


def test_no_stratum_is_left_with_so_few_labels_that_it_must_be_joined():
    targets = plan_for_precision(
        [stratum(500, 0.2), stratum(500, 1e-9, bounds=SURE), stratum(3, 1e-9, bounds=(1.0, 1.0))], 0.2
    )
    assert [target.labels for target in targets[1:]] == [5, 3]


@given(
    st.lists(
        st.tuples(st.integers(1, 3000), st.floats(0, 0.5), st.floats(0, 1), st.floats(0, 1)),
        min_size=1,
        max_size=4,
    ),
    st.floats(0.001, 0.5),
)
def test_the_goal_is_reached_with_what_there_is(cells: list[tuple[int, float, float, float]], half: float):
    strata = [
        stratum(n, variance, bounds=(at / 10, 1.0), held=int(held * n), labelled=int(held * labelled * n))
        for at, (n, variance, held, labelled) in enumerate(cells)
    ]
    targets = plan_for_precision(strata, half)
    for target in targets:
        assert target.stratum.held <= target.labels <= target.stratum.population
    reached = compute_half_widths([replace(target.stratum, labelled=target.labels) for target in targets])[
        "M", "Legality"
    ]
    assert reached is not None
    assert reached <= half * (1 + 1e-6) + 1e-9


def test_a_wider_interval_never_takes_more():
    strata = [stratum(400), stratum(300, 0.1, bounds=SURE), stratum(200, 0.24, scope="Safety", labelled=30)]
    labels = compute_curve(strata, [0.005, 0.01, 0.02, 0.05, 0.1, 0.2])
    assert labels == sorted(labels, reverse=True)
    assert labels[2] == sum(target.more for target in plan_for_precision(strata, 0.02))
    assert compute_curve([], [0.02]) == [0]
    assert plan_for_precision([], 0.02) == []


def test_how_well_a_dimension_is_known_needs_labels_everywhere():
    known = compute_half_widths(
        [stratum(100, labelled=20), stratum(100, scope="Safety"), stratum(50, labelled=50, model="B")]
    )
    assert known["M", "Legality"] == pytest.approx(Z * math.sqrt(0.2 * (1 / 20 - 1 / 100)))
    assert known["M", "Safety"] is None
    assert known["B", "Legality"] == 0


def pair(
    difference: float, of_prompts: float, *strata: PlanStratum, half_width: float | None = None
) -> ModelPair:
    """With a ``half_width``, the board compares the two and has an interval of it."""
    weights = {(stratum.model, stratum.scope): 1.0 for stratum in strata}
    compared = ModelPair("A", "B", difference, of_prompts, strata, weights)
    if half_width is None:
        return compared
    interval = (difference - half_width, difference + half_width)
    return replace(compared, is_compared=True, interval=interval)


def reckon(of_prompts: float, *strata: PlanStratum) -> float:
    """The half-width that a plan reckons with."""
    left = [s.variance * (1 / s.labelled - 1 / s.population) for s in strata]
    return Z * math.sqrt(of_prompts + sum(left))


def plan(model_pair: ModelPair) -> list[PlanStratum]:
    targets = model_pair.plan_labels()
    assert targets is not None
    return [replace(target.stratum, labelled=target.labels) for target in targets]


def test_labels_that_separate_two_models():
    strata = stratum(1000, model="A", labelled=50), stratum(1000, model="B", labelled=50)
    half = reckon(0.0004, *strata)
    model_pair = pair(0.1, 0.0004, *strata, half_width=half)
    assert model_pair.inflation == pytest.approx(1)
    assert (model_pair.separated, model_pair.is_separable) == (False, True)
    planned = plan(model_pair)
    assert reckon(0.0004, *planned) <= 0.1
    fewer = [replace(own, labelled=own.labelled - 2) for own in planned]
    assert reckon(0.0004, *fewer) > 0.1


def test_the_board_alone_says_who_is_separated():
    strata = [stratum(1000, model=model, labelled=300) for model in ("A", "B")]
    half = reckon(0.0004, *strata)
    assert half < 0.1
    narrow, wide = pair(0.1, 0.0004, *strata, half_width=half), pair(0.1, 0.0004, *strata, half_width=0.12)
    assert (narrow.separated, wide.separated) == (True, False)
    assert replace(wide, difference=-0.1, interval=(-0.15, -0.05)).separated
    # What the board does not separate takes labels, however narrow the plan's own reckoning is.
    assert wide.inflation == pytest.approx((0.12 / half) ** 2)
    assert sum(own.labelled for own in plan(wide)) > 600
    assert wide.min_half_width == pytest.approx(Z * 0.02 * 0.12 / half)


@given(
    difference=st.floats(0.01, 0.3),
    half=st.floats(0.01, 0.3),
    labelled=st.integers(5, 900),
)
def test_a_pair_is_separated_or_takes_labels_or_cannot_be(difference: float, half: float, labelled: int):
    strata = [stratum(1000, model=model, labelled=labelled, held=labelled) for model in ("A", "B")]
    model_pair = pair(difference, 0.0004, *strata, half_width=half)
    if not model_pair.separated and model_pair.is_separable and half > 1.001 * difference:
        targets = model_pair.plan_labels()
        assert targets is not None
        assert sum(target.more for target in targets) > 0


def test_models_that_the_board_does_not_compare_are_not_separated():
    complete = [stratum(1000, model=model, labelled=1000) for model in ("A", "B")]
    assert not pair(0.4, 0.0004, *complete).separated
    without_strata = pair(0.4, 0.0004)
    assert (without_strata.is_compared, without_strata.separated) == (False, False)


def test_two_models_that_differ_by_less_than_the_prompts_can_tell():
    model_pair = pair(0.03, 0.0004, stratum(1000, model="A"), stratum(1000, model="B"))
    assert not model_pair.is_separable
    assert model_pair.plan_labels() is None
    complete = stratum(9, model="A", labelled=9), stratum(9, model="B", labelled=9)
    labelled_pair = pair(0.03, 0.0004, *complete, half_width=0.05)
    assert labelled_pair.min_half_width == pytest.approx(0.05)  # that of the board, which nothing can narrow
    assert not labelled_pair.is_separable


def test_what_gold_says_alone_needs_no_labels():
    assert pair(0.1, 0.0004, half_width=0.05).separated
    assert pair(0.1, 0.0004).plan_labels() == []


def test_other_models_stand_in_where_nobody_has_labelled():
    own, other = stratum(model="A"), stratum(model="B")
    single, nowhere = stratum(model="B", bounds=SURE), stratum(model="B", scope="Safety")
    filled = fill_variances(
        [own, other, single, nowhere], {own.key: 0.11}, {"Legality": 0.25, "Safety": 0.25}
    )
    assert [(stratum_.variance, stratum_.assumed) for stratum_ in filled] == [
        (0.11, False),
        (0.11, True),
        (0.11, True),
        (0.25, True),
    ]


def test_a_draw_can_be_repeated_and_holds_nothing_twice():
    first, second = stratum(), stratum(bounds=SURE)
    ids = list(range(100, 200))
    drawn = draw_responses(ids, 30, seed=7, stratum=first)
    assert len(set(drawn)) == 30
    assert set(drawn) <= set(ids)
    assert draw_responses(ids[::-1], 30, seed=7, stratum=first) == drawn
    assert draw_responses(ids, 30, seed=8, stratum=first) != drawn
    assert draw_responses(ids, 30, seed=7, stratum=second) != drawn


def test_every_response_is_drawn_as_often_as_any_other():
    counts = dict.fromkeys(range(10), 0)
    for seed in range(2000):
        for response in draw_responses(range(10), 3, seed=seed, stratum=stratum()):
            counts[response] += 1
    # 600 each, with a deviation of 20.5
    assert all(abs(n - 600) < 90 for n in counts.values())


def test_hours_of_two_people_and_of_an_adjudicator():
    takes = LabelEffort(seconds=36, overlap=2, disputed=0.1, decision_seconds=72)
    assert takes.compute_hours(500) == pytest.approx(5)
    assert takes.compute_decision_hours(500) == pytest.approx(1)
    unknown = LabelEffort(seconds=None, overlap=2)
    assert unknown.compute_hours(500) is None
    assert unknown.compute_decision_hours(500) is None
