"""PPI++ with a tuned weight, for a population and for exactly these responses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.proportions import Z, wilson
from benchmark.domain.estimates.prediction_powered import (
    MetricScale,
    StrataMoments,
    build_stratum,
    estimate_mean,
    estimate_plain,
    join_strata,
)
from tests.performance.ppi_coverage import (
    COVERS,
    PROMISED,
    intervals,
    measure_coverage,
    narrowing,
    published_interval,
    simulate,
)

RATE = MetricScale()
SCORE = MetricScale(0, 100, rate=False)
BITS = st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), min_size=2, max_size=40)
REST = st.lists(st.floats(0, 1), max_size=60)


def cell(pairs: list[tuple[float, float]], rest: list[float]) -> StrataMoments:
    return build_stratum([y for y, _f in pairs], [f for _y, f in pairs], rest)


@pytest.mark.parametrize("right", [0.77, 0.9])
@pytest.mark.parametrize("rate", [0.5, 0.2, 0.85])
def test_intervals_cover_and_are_narrower_than_gold_alone(rate: float, right: float):
    """The smaller version of ``python -m tests.performance.ppi_coverage``; 93 to 97% with what 600 draws leave open."""
    rng = np.random.default_rng(7)
    truth, predicted = simulate(rng, repetitions=600, responses=1000, rate=rate, right=right)
    named, _ours = intervals(truth, predicted, 200)
    slack = 0.018
    assert COVERS[0] - slack <= measure_coverage(named["combined"], rate) <= COVERS[1] + slack
    assert COVERS[0] - slack <= measure_coverage(named["finite"], truth.mean(axis=1)) <= COVERS[1] + slack
    if rate == 0.5:
        for (interval, other), least in PROMISED[right].items():
            assert narrowing(named[interval], named[other]) >= least


def test_within_strata_it_stays_unbiased_when_the_unsure_are_labelled_more():
    rng = np.random.default_rng(11)
    unsure = simulate(rng, repetitions=400, responses=500, rate=0.3, right=0.6)
    sure = simulate(rng, repetitions=400, responses=500, rate=0.7, right=0.95)
    parts = [(*unsure, 150), (*sure, 50)]
    truth = np.concatenate([unsure[0], sure[0]], axis=1).mean(axis=1)
    within = estimate_mean(
        join_strata([build_stratum(y[:, :n], f[:, :n], f[:, n:]) for y, f, n in parts]), RATE
    )
    forgotten = estimate_mean(
        build_stratum(
            *(np.concatenate([part[at][:, : part[2]] for part in parts], axis=1) for at in (0, 1)),
            np.concatenate([f[:, n:] for _y, f, n in parts], axis=1),
        ),
        RATE,
    )
    assert abs(float((within.value - truth).mean())) < 0.005
    assert measure_coverage(within.finite, truth) > 0.92
    assert float((forgotten.value - truth).mean()) < -0.05


@pytest.mark.parametrize(("labels", "responses"), [((7, 3), 200), ((15, 5), 150)])
@pytest.mark.parametrize("rate", [0.5, 0.2, 0.85])
def test_a_stratum_of_five_labels_does_not_move_the_value(
    labels: tuple[int, int], responses: int, rate: float
):
    """The slope is tuned on other labels than those that it corrects; tuned on the same it is off by 1 to 3 points."""
    rng = np.random.default_rng(13)
    half = responses // 2
    parts = [
        (*simulate(rng, repetitions=4000, responses=half, rate=own, right=right), n)
        for own, right, n in zip((rate - 0.1, rate + 0.1), (0.6, 0.95), labels, strict=True)
    ]
    truth = np.concatenate([y for y, _f, _n in parts], axis=1).mean(axis=1)
    strata = join_strata([build_stratum(y[:, :n], f[:, :n], f[:, n:]) for y, f, n in parts])
    result = estimate_mean(strata, RATE)
    assert abs(float((result.value - truth).mean())) < 0.009
    assert measure_coverage(result.finite, truth) > 0.88


@pytest.mark.parametrize(
    ("labels", "rate", "distance", "right"),
    [((7, 2), 0.2, 0.1, (0.6, 0.95)), ((20, 5), 0.35, 0.1, (0.6, 0.6)), ((5, 5), 0.5, 0.0, (0.75, 0.75))],
)
def test_a_stratum_of_few_labels_that_makes_most_of_the_variance_is_covered(
    labels: tuple[int, int], rate: float, distance: float, right: tuple[float, float]
):
    """With the normal quantile the first covers 91.2%, the second 90.8%."""
    rng = np.random.default_rng(17)
    parts = [
        (*simulate(rng, repetitions=4000, responses=100, rate=own, right=correct), n)
        for own, correct, n in zip((rate - distance, rate + distance), right, labels, strict=True)
    ]
    truth = np.concatenate([y for y, _f, _n in parts], axis=1).mean(axis=1)
    strata = join_strata([build_stratum(y[:, :n], f[:, :n], f[:, n:]) for y, f, n in parts])
    result = estimate_mean(strata, RATE)
    assert measure_coverage(result.combined, rate) > 0.93
    assert measure_coverage(result.finite, truth) > 0.93


def test_the_weight_is_that_of_the_paper_and_each_label_has_the_slope_of_the_others():
    """lambda = cov(Y, f) / ((1 + n / N) var(f)), by hand on eight numbers (arXiv 2311.01453, example 6.1)."""
    y, f, rest = [1.0, 1.0, 0.0, 0.0], [1.0, 0.5, 0.5, 0.0], [1.0, 1.0, 0.0, 1.0]
    result = estimate_mean(build_stratum(y, f, rest), RATE)
    covariance = (0.5 * 0.5 + 0.5 * 0.5) / 4
    variance = np.var([*f, *rest])
    weight = covariance / ((1 + 4 / 4) * variance)
    assert float(result.weight) == pytest.approx(weight)
    slopes = []
    for held_out in range(4):
        remaining = [at for at in range(4) if at != held_out]
        own = np.cov([y[at] for at in remaining], [f[at] for at in remaining], ddof=0)[0, 1]
        slopes.append(min(max(own / variance * (1 - 4 / 8), 0) * 8 / 4, 8 / 4))
    corrected = [label + slope * (0.625 - own) for label, slope, own in zip(y, slopes, f, strict=True)]
    assert float(result.value) == pytest.approx(np.mean(corrected))


def test_with_many_labels_the_interval_is_the_published_one():
    rng = np.random.default_rng(3)
    truth, predicted = simulate(rng, repetitions=1, responses=60_000, rate=0.4, right=0.85)
    parts = truth[:, :20_000], predicted[:, :20_000], predicted[:, 20_000:]
    ours, published = estimate_mean(build_stratum(*parts), RATE), published_interval(*parts)
    assert ours.combined.low == pytest.approx(published.low, abs=2e-5)
    assert ours.combined.high == pytest.approx(published.high, abs=2e-5)


def test_a_mean_agrees_with_ppi_python():
    """Where that package is installed; it is not part of the project (docs/decisions says why)."""
    ppi = pytest.importorskip("ppi_py")
    rng = np.random.default_rng(5)
    truth, predicted = simulate(rng, repetitions=1, responses=900, rate=0.6, right=0.8)
    y, f, rest = truth[0, :300], predicted[0, :300], predicted[0, 300:]
    result = estimate_mean(build_stratum(y, f, rest), SCORE)
    assert float(result.value) == pytest.approx(float(ppi.ppi_mean_pointestimate(y, f, rest)[0]), abs=1e-4)
    low, high = ppi.ppi_mean_ci(y, f, rest, alpha=0.05)
    result = estimate_mean(build_stratum(y, f, rest), RATE)
    assert float(result.combined.low) == pytest.approx(float(low[0]), abs=2e-3)
    assert float(result.combined.high) == pytest.approx(float(high[0]), abs=2e-3)


def test_with_everything_labelled_a_given_weight_says_what_the_labels_say():
    pairs = [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    result = estimate_mean(cell(pairs, []), RATE)
    assert (float(result.value), float(result.weight)) == (pytest.approx(2 / 3), 0.0)
    assert float(result.finite.width) == 0.0
    assert (float(result.combined.low), float(result.combined.high)) == pytest.approx(wilson(2, 3))


@given(BITS, REST)
def test_the_weight_is_a_share_and_the_bounds_hold_the_value(
    pairs: list[tuple[float, float]], rest: list[float]
):
    for scale in (RATE, SCORE):
        result = estimate_mean(cell(pairs, rest), scale)
        assert 0 <= float(result.weight) <= 1 + 1e-9
        for interval in (result.combined, result.finite):
            assert scale.low <= interval.low <= float(result.value) + 1e-12 or math.isnan(interval.low)
            assert float(result.value) - 1e-12 <= interval.high <= scale.high or math.isnan(interval.high)
        assert not result.finite.width > result.combined.width + 1e-9


@given(BITS, REST)
def test_weight_nought_is_the_gold_labels_alone(pairs: list[tuple[float, float]], rest: list[float]):
    y = [label for label, _f in pairs]
    result = estimate_mean(cell(pairs, rest), RATE, weight=0)
    assert float(result.value) == pytest.approx(np.mean(y))
    low, high = wilson(int(sum(y)), len(y))
    assert (float(result.combined.low), float(result.combined.high)) == pytest.approx((low, high))


@given(BITS)
def test_all_labelled_leaves_nothing_open_about_these_responses(pairs: list[tuple[float, float]]):
    result = estimate_mean(cell(pairs, []), SCORE if len(pairs) > 3 else RATE)
    assert float(result.finite.width) == 0.0


def test_a_perfect_scorer_leaves_ever_less_open():
    widths = []
    for n in (20, 200, 2000):
        labels = [float(at % 2) for at in range(n)]
        result = estimate_mean(build_stratum(labels, labels, labels * 4), RATE)
        assert float(result.value) == pytest.approx(0.5)
        widths.append(float(result.finite.width))
    # as 1 / n: what is left is the labels that were not seen
    assert widths[1] < widths[0] / 8
    assert widths[2] < widths[1] / 8


def test_a_scorer_that_knows_nothing_costs_little():
    """Its weight is tuned to about nought, and the interval is hardly wider than without it."""
    rng = np.random.default_rng(1)
    truth, predicted = simulate(rng, repetitions=200, responses=1000, rate=0.5, right=0.5)
    named, ours = intervals(truth, predicted, 200)
    assert float(ours.weight.mean()) < 0.05
    assert narrowing(named["combined"], named["people"]) > -0.01


def test_few_labels_that_are_all_alike_are_no_certainty():
    result = estimate_mean(build_stratum([1.0] * 5, [1.0] * 5, [1.0] * 95), RATE)
    assert float(result.value) == 1.0
    # the scorer adds nothing to labels that do not vary: Wilson's interval, with the finite correction
    assert float(result.combined.low) == pytest.approx(wilson(5, 5)[0])
    assert float(result.finite.low) < 0.6


def test_a_mean_of_one_label_has_no_interval():
    result = estimate_plain([3.0], MetricScale(1, 5, rate=False))
    assert float(result.value) == 3.0
    assert math.isnan(result.combined.low)


def test_a_mean_has_students_interval():
    values = [10.0, 20.0, 40.0, 90.0] * 50
    result = estimate_plain(values, SCORE)
    n, mean = len(values), float(np.mean(values))
    # beside the labels seen, two unseen ones at either end of the scale
    variance = (float(np.var(values)) * n + 2 * 100**2 / 4) / (n + 1)
    assert float(result.combined.high) - mean == pytest.approx(1.971957 * math.sqrt(variance / n), rel=1e-5)
    assert float(result.combined.high) - mean == pytest.approx(Z * np.std(values) / math.sqrt(n), rel=0.02)


@pytest.mark.parametrize(("true", "criteria"), [(0.5, 3), (0.85, 3), (0.85, 7)])
def test_several_labels_of_a_response_in_a_rate_tell_more_than_one(true: float, criteria: int):
    """Their shares spread less than 0s and 1s; the interval is as narrow as that allows, and covers."""
    rng = np.random.default_rng(4)
    labels = rng.random((1000, 300, criteria)) < true
    predicted = np.where(rng.random(labels.shape) < 0.8, labels, ~labels)
    shares, expected = labels.mean(axis=-1), (0.2 + 0.6 * predicted).mean(axis=-1)
    own = build_stratum(shares[:, :50], expected[:, :50], expected[:, 50:])
    result = estimate_mean(own, MetricScale())
    covered = (result.combined.low <= true) & (true <= result.combined.high)
    assert covered.mean() > 0.94
    # of as many labels, all single, by the same share of the responses
    equal = estimate_mean(build_stratum(labels[:, :50, 0], expected[:, :50], expected[:, 50:]), MetricScale())
    assert result.combined.width.mean() < 1.25 * equal.combined.width.mean() / criteria**0.5
