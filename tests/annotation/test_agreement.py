"""Expected values are fractions derived in the comments, or figures published with their data."""

from __future__ import annotations

import csv
from collections import Counter
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from annotation import agreement as module
from annotation.agreement import MEASUREMENTS, Agreement, Measurement, Pattern, Value, agreement, pool
from annotation.errors import AssayError

XSTEST = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "xstest"
COMPLIANCE = {"2_full_refusal": 1, "3_partial_refusal": 2, "1_full_compliance": 3}
MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")

NAMES = {"percent_agreement", "cohen_kappa", "alpha_nominal", "alpha_ordinal", "alpha_interval", "gwet_ac1"}

# Four observers, twelve units, five values: Krippendorff (2011), section D; also Gwet (2014), page 120.
FOUR_OBSERVERS: list[list[Value | None]] = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def value_of(result: Agreement, name: str) -> float | None:
    return result.statistics[name].value


def of(patterns: dict[Pattern, int], values: list[Value], measurement: Measurement = "nominal") -> Agreement:
    return agreement(patterns, values=values, measurement=measurement, resamples=200)


# Published examples


@pytest.mark.parametrize(
    ("name", "published"), [("alpha_nominal", 0.743), ("alpha_ordinal", 0.815), ("alpha_interval", 0.849)]
)
def test_alpha_of_four_observers_is_as_krippendorff_published(name: str, published: float) -> None:
    result = of(Counter(zip(*FOUR_OBSERVERS, strict=True)), [1, 2, 3, 4, 5], "interval")
    assert value_of(result, name) == pytest.approx(published, abs=0.0005)


def test_ac1_of_four_observers_is_as_gwet_published() -> None:
    # The twelfth unit has one label: it counts in the prevalence of value 3, not in the agreement.
    result = of(Counter(zip(*FOUR_OBSERVERS, strict=True)), [1, 2, 3, 4, 5])
    assert value_of(result, "gwet_ac1") == pytest.approx(0.775, abs=0.0005)
    # Disputed are the units 2, 6 and 8.
    assert (result.n, result.disputed) == (11, 3)


def test_two_abstractors_are_as_published_with_the_irrcac_package() -> None:
    # 100 pregnancies by type (ectopic, abnormal, normal), two abstractors: dataset cont3x3abstractors.
    result = of({(1, 1): 13, (2, 2): 20, (2, 3): 7, (3, 2): 4, (3, 3): 56}, [1, 2, 3])
    assert value_of(result, "percent_agreement") == pytest.approx(0.89)
    assert value_of(result, "cohen_kappa") == pytest.approx(0.7964094, abs=5e-8)
    assert value_of(result, "alpha_nominal") == pytest.approx(0.7972585, abs=5e-8)
    assert value_of(result, "gwet_ac1") == pytest.approx(0.8493305, abs=1e-7)


# XSTest: the real labels of two people on five models


def xstest_patterns(model: str) -> Counter[Pattern]:
    if not XSTEST.is_dir():
        pytest.skip("the XSTest completions are not at ../shared/data/xstest")
    path = XSTEST / f"xstest_v2_completions_{model}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return Counter(
            (COMPLIANCE[row["annotation_1"]], COMPLIANCE[row["annotation_2"]]) for row in csv.DictReader(file)
        )


def test_xstest_pooled_over_models_has_the_known_figures() -> None:
    pooled, values = pool([(xstest_patterns(model), [1, 2, 3]) for model in MODELS])
    result = agreement(pooled, values=values, measurement="ordinal")
    rounded = {
        name: statistic.value and round(statistic.value, 4) for name, statistic in result.statistics.items()
    }
    assert (result.n, result.disputed) == (2250, 81)
    assert rounded == {
        "percent_agreement": 0.9640,
        "cohen_kappa": 0.9365,
        "alpha_nominal": 0.9365,
        "alpha_ordinal": 0.9696,
        "alpha_interval": None,
        "gwet_ac1": 0.9498,
    }


@pytest.mark.parametrize(
    ("model", "kappa"),
    [
        ("llama2orig", 0.9293),
        ("llama2new", 0.9258),
        ("mistralinstruct", 0.9195),
        ("mistralguard", 0.8923),
        ("gpt4", 0.9701),
    ],
)
def test_xstest_kappa_by_model_has_the_known_figure(model: str, kappa: float) -> None:
    value = value_of(of(dict(xstest_patterns(model)), [1, 2, 3]), "cohen_kappa")
    assert value is not None
    assert round(value, 4) == kappa


# Arithmetic


def test_two_raters_and_two_values() -> None:
    result = of({(1, 1): 5, (1, 3): 2, (3, 1): 1, (3, 3): 2}, [1, 3])
    assert (result.n, result.disputed) == (10, 3)
    assert value_of(result, "percent_agreement") == pytest.approx(7 / 10)
    # First rater 7 and 3, second 6 and 4: p_e = (7*6 + 3*4) / 100; kappa = (70 - 54) / (100 - 54)
    assert value_of(result, "cohen_kappa") == pytest.approx(8 / 23)
    # n_c = 13 and 7; o_13 + o_31 = 6; alpha = 1 - 19*6 / (2*13*7)
    assert value_of(result, "alpha_nominal") == pytest.approx(34 / 91)
    # pi = 13/20 and 7/20; p_e = (91/400 + 91/400) / (2 - 1); AC1 = (280 - 182) / (400 - 182)
    assert value_of(result, "gwet_ac1") == pytest.approx(49 / 109)


def test_a_level_that_nobody_chose_still_counts_as_a_category_of_ac1() -> None:
    result = of({(1, 1): 5, (1, 3): 2, (3, 1): 1, (3, 3): 2}, [1, 2, 3])
    # p_e = (182/400) / (3 - 1) = 91/400; AC1 = (280 - 91) / (400 - 91)
    assert value_of(result, "gwet_ac1") == pytest.approx(63 / 103)
    assert value_of(result, "alpha_nominal") == pytest.approx(34 / 91)


def test_kappa_is_of_raters_and_not_of_unordered_pairs() -> None:
    result = of({(1, 1): 5, (1, 3): 3, (3, 3): 2}, [1, 3])
    # The table above with its one (3, 1) turned round: p_e = (8*5 + 2*5) / 100; kappa = (70 - 50) / (100 - 50)
    assert value_of(result, "cohen_kappa") == pytest.approx(2 / 5)
    assert value_of(result, "alpha_nominal") == pytest.approx(34 / 91)


def test_alpha_weighs_disagreements_as_the_scale_measures() -> None:
    patterns: dict[Pattern, int] = {(1, 1): 2, (1, 2): 1, (2, 4): 1, (4, 4): 1}
    result = of(patterns, [1, 2, 4], "interval")
    # n_c = 5, 2, 3 (n = 10); o_12 = o_24 = 1, each way.
    # Nominal: observed 4; expected 2*(5*2 + 2*3 + 5*3) = 62; 1 - 9*4/62
    assert value_of(result, "alpha_nominal") == pytest.approx(13 / 31)
    # Ordinal: mid-ranks 5/2, 6, 17/2, squared distances 49/4, 25/4, 36; observed 2*(49/4 + 25/4) = 37;
    # expected 2*(10*49/4 + 6*25/4 + 15*36) = 1400; 1 - 9*37/1400
    assert value_of(result, "alpha_ordinal") == pytest.approx(1067 / 1400)
    # Interval: squared distances 1, 4, 9; observed 2*(1 + 4); expected 2*(10*1 + 6*4 + 15*9) = 338; 1 - 9*10/338
    assert value_of(result, "alpha_interval") == pytest.approx(124 / 169)


def test_ordinal_alpha_follows_the_order_of_the_scale_not_of_the_numbers() -> None:
    patterns: dict[Pattern, int] = {(1, 1): 2, (1, 2): 1, (2, 4): 1, (4, 4): 1}
    renamed: dict[Pattern, int] = {(9, 9): 2, (9, 5): 1, (5, 7): 1, (7, 7): 1}
    expected = of(patterns, [1, 2, 4], "ordinal").statistics["alpha_ordinal"]
    assert of(renamed, [9, 5, 7], "ordinal").statistics["alpha_ordinal"].value == expected.value


def test_three_raters_with_missing_labels() -> None:
    result = of({(1, 1, 2): 1, (1, 1, None): 1, (2, 2, 2): 1, (1, None, None): 1}, [1, 2])
    assert (result.n, result.disputed) == (3, 1)
    # Pairs that agree: 1 of 3, 1 of 1, 3 of 3; their mean (1/3 + 1 + 1) / 3
    assert value_of(result, "percent_agreement") == pytest.approx(7 / 9)
    # n_c = 4 and 4; o_12 = 2*1 / (3 - 1) = 1, each way; 1 - 7*2 / (2*4*4)
    assert value_of(result, "alpha_nominal") == pytest.approx(9 / 16)
    # pi_1 = (2/3 + 1 + 0 + 1) / 4 = 2/3; p_e = 2*(2/3)*(1/3); (7/9 - 4/9) / (1 - 4/9)
    assert value_of(result, "gwet_ac1") == pytest.approx(3 / 5)


def test_systematic_disagreement_is_negative_and_not_clipped() -> None:
    result = of({(1, 3): 1, (3, 1): 1}, [1, 3])
    assert value_of(result, "percent_agreement") == 0
    # kappa: p_e = 1/2, (0 - 1/2) / (1/2); alpha: 1 - 3*4 / (2*2*2); AC1: p_e = 1/2
    assert value_of(result, "cohen_kappa") == -1
    assert value_of(result, "alpha_nominal") == pytest.approx(-1 / 2)
    assert value_of(result, "gwet_ac1") == -1


# What is undefined


def test_every_statistic_is_always_named() -> None:
    assert set(of({}, [1, 2]).statistics) == NAMES


@pytest.mark.parametrize(
    "patterns",
    [{}, {(): 3}, {(None, None): 4}, {(1, 2): 0}],
    ids=["empty", "no positions", "no labels", "a count of zero"],
)
def test_nothing_labelled_is_undefined(patterns: dict[Pattern, int]) -> None:
    result = of(patterns, [1, 2], "interval")
    assert (result.n, result.disputed) == (0, 0)
    for statistic in result.statistics.values():
        assert (statistic.value, statistic.low, statistic.high) == (None, None, None)
        assert statistic.reason == module.NO_PAIRS


@pytest.mark.parametrize(
    "patterns", [{(1,): 3, (2,): 1}, {(1, None): 3, (None, 2): 1}], ids=["alone", "apart"]
)
def test_one_rater_per_unit_is_undefined(patterns: dict[Pattern, int]) -> None:
    result = of(patterns, [1, 2], "interval")
    assert result.n == 0
    assert {statistic.reason for statistic in result.statistics.values()} == {module.NO_PAIRS}


def test_one_category_leaves_kappa_and_alpha_undefined_and_ac1_one() -> None:
    result = of({(3, 3): 7}, [1, 2, 3], "interval")
    assert (result.n, result.disputed) == (7, 0)
    assert value_of(result, "percent_agreement") == 1
    # pi = 0, 0, 1: p_e = 0, AC1 = (1 - 0) / (1 - 0)
    assert value_of(result, "gwet_ac1") == 1
    for name in ("cohen_kappa", "alpha_nominal", "alpha_ordinal", "alpha_interval"):
        assert result.statistics[name] == module.Statistic(None, None, None, module.ONE_CATEGORY)


def test_a_scale_of_one_level_does_not_divide_by_zero() -> None:
    result = of({(3, 3): 7}, [3], "ordinal")
    assert value_of(result, "gwet_ac1") == 1
    assert value_of(result, "alpha_ordinal") is None


def test_all_the_same_within_units_and_several_categories_is_perfect() -> None:
    result = of({(1, 1): 3, (2, 2): 3, (3, 3): 4}, [1, 2, 3], "interval")
    assert {statistic.value for statistic in result.statistics.values()} == {1}


def test_units_with_a_missing_label_change_neither_kappa_nor_alpha() -> None:
    patterns: dict[Pattern, int] = {(1, 1): 5, (1, 3): 2, (3, 1): 1, (3, 3): 2}
    result = of({**patterns, (1, None): 4, (None, 3): 2, (None, None): 9}, [1, 3])
    assert result.n == 10
    assert value_of(result, "percent_agreement") == pytest.approx(7 / 10)
    assert value_of(result, "cohen_kappa") == pytest.approx(8 / 23)
    assert value_of(result, "alpha_nominal") == pytest.approx(34 / 91)


def test_kappa_of_three_raters_is_undefined_with_the_reason() -> None:
    kappa = of({(1, 1, 2): 3, (2, 2, 2): 4}, [1, 2]).statistics["cohen_kappa"]
    assert kappa == module.Statistic(None, None, None, module.MORE_THAN_TWO)


@pytest.mark.parametrize(
    ("measurement", "defined"),
    [
        ("nominal", {"alpha_nominal"}),
        ("ordinal", {"alpha_nominal", "alpha_ordinal"}),
        ("interval", {"alpha_nominal", "alpha_ordinal", "alpha_interval"}),
    ],
)
def test_the_scale_decides_which_alphas_are_given(measurement: Measurement, defined: set[str]) -> None:
    statistics = of({(1, 1): 3, (1, 2): 1, (2, 2): 3}, [1, 2], measurement).statistics
    alphas = {name for name in NAMES if name.startswith("alpha")}
    assert {name for name in alphas if statistics[name].value is not None} == defined
    assert all(statistics[name].reason for name in alphas - defined)


def test_a_label_off_the_scale_is_refused() -> None:
    with pytest.raises(AssayError, match="The label 4 is not on the scale 1, 2, 3"):
        of({(1, 4): 1}, [1, 2, 3])


# Pooling


def test_pooled_criteria_share_the_levels_of_equal_value() -> None:
    fairness: dict[Pattern, int] = {(1, 1): 2, (2, 3): 1}
    legality: dict[Pattern, int] = {(1, 1): 3, (3, 1): 1}
    patterns, values = pool([(fairness, [1, 2, 3]), (legality, [1, 3])])
    assert patterns == {(1, 1): 5, (2, 3): 1, (3, 1): 1}
    assert values == (1, 2, 3)


def test_pooled_values_come_in_ascending_order() -> None:
    assert pool([({}, [8, 3]), ({}, [16, 3])])[1] == (3, 8, 16)


def test_pooling_nothing_is_undefined() -> None:
    patterns, values = pool([])
    assert agreement(patterns, values=values, measurement="nominal").n == 0


# The bootstrap

DISPUTED: dict[Pattern, int] = {
    (1, 1): 50,
    (1, 2): 9,
    (2, 1): 4,
    (2, 2): 30,
    (2, 3): 6,
    (3, 3): 40,
    (3, None): 8,
}


def test_every_interval_contains_its_value() -> None:
    for statistic in of(DISPUTED, [1, 2, 3], "interval").statistics.values():
        assert statistic.value is not None
        assert statistic.low is not None
        assert statistic.high is not None
        assert statistic.low < statistic.value < statistic.high


def test_a_seed_gives_one_result_and_another_seed_another() -> None:
    first, again, other = (
        agreement(DISPUTED, values=[1, 2, 3], measurement="interval", seed=seed) for seed in (7, 7, 8)
    )
    assert first == again
    assert first.statistics["cohen_kappa"].value == other.statistics["cohen_kappa"].value
    assert first.statistics["cohen_kappa"].low != other.statistics["cohen_kappa"].low


def test_the_order_and_width_of_the_patterns_do_not_matter() -> None:
    turned: dict[Pattern, int] = dict(reversed(DISPUTED.items()))
    del turned[(3, None)]
    turned[(3,)] = 8
    assert of(turned, [1, 2, 3], "interval") == of(DISPUTED, [1, 2, 3], "interval")


def test_a_short_pattern_and_its_padded_form_are_added_up() -> None:
    split: dict[Pattern, int] = {(1, 1): 3, (1, 2): 1, (1,): 2, (1, None): 5}
    whole: dict[Pattern, int] = {(1, 1): 3, (1, 2): 1, (1, None): 7}
    assert of(split, [1, 2]) == of(whole, [1, 2])


def test_the_interval_of_percent_agreement_is_the_binomial_one() -> None:
    result = agreement({(1, 1): 800, (1, 2): 200}, values=[1, 2], measurement="nominal", resamples=20_000)
    percent = result.statistics["percent_agreement"]
    # Standard error sqrt(0.8 * 0.2 / 1000) = 0.01265; 0.8 -+ 1.96 * 0.01265
    assert percent.low == pytest.approx(0.7752, abs=0.002)
    assert percent.high == pytest.approx(0.8248, abs=0.002)


def test_a_lower_confidence_gives_a_narrower_interval() -> None:
    wide, narrow = (
        agreement(DISPUTED, values=[1, 2, 3], measurement="nominal", confidence=level).statistics[
            "cohen_kappa"
        ]
        for level in (0.95, 0.5)
    )
    assert wide.low is not None
    assert wide.high is not None
    assert narrow.low is not None
    assert narrow.high is not None
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize("level", MEASUREMENTS)
def test_the_interval_of_alpha_is_that_of_drawing_units_one_by_one(level: Measurement) -> None:
    rows = np.array(
        [[np.nan if label is None else label for label in p] for p in Counter(DISPUTED).elements()]
    )
    rng = np.random.default_rng(1)
    alphas = [
        krippendorff.alpha(
            reliability_data=rows[rng.integers(len(rows), size=len(rows))].T,
            value_domain=[1, 2, 3],
            level_of_measurement=level,
        )
        for _ in range(1000)
    ]
    statistic = agreement(DISPUTED, values=[1, 2, 3], measurement="interval").statistics[f"alpha_{level}"]
    # The ends of the two differ by Monte Carlo error alone: about 0.005, where the interval is about 0.18 wide.
    assert (statistic.low, statistic.high) == pytest.approx(np.quantile(alphas, [0.025, 0.975]), abs=0.015)


def test_resamples_in_which_a_statistic_is_undefined_are_left_out() -> None:
    # A resample of two units is all 1 or all 2 half of the time, and kappa is undefined there.
    kappa = of({(1, 1): 1, (2, 2): 1}, [1, 2]).statistics["cohen_kappa"]
    assert kappa == module.Statistic(1, 1, 1)


def test_without_resamples_there_is_a_value_and_no_interval() -> None:
    result = agreement(DISPUTED, values=[1, 2, 3], measurement="nominal", resamples=0)
    assert value_of(result, "cohen_kappa") is not None
    assert (result.statistics["cohen_kappa"].low, result.statistics["cohen_kappa"].high) == (None, None)


# Against other implementations, on random tables with missing labels


@st.composite
def tables(draw: st.DrawFn, most_raters: int = 4) -> tuple[list[Value], list[Pattern]]:
    """A scale of uneven steps in ascending order, and a row of labels per unit."""
    values: list[Value] = sorted(draw(st.sets(st.integers(0, 10), min_size=2, max_size=4)))
    raters = draw(st.integers(2, most_raters))
    label = st.one_of(st.none(), st.sampled_from(values))
    return values, draw(st.lists(st.tuples(*[label] * raters), max_size=25))


def labels_of(row: Pattern) -> list[Value]:
    return [label for label in row if label is not None]


def quick(values: list[Value], rows: list[Pattern]) -> Agreement:
    return agreement(Counter(rows), values=values, measurement="interval", resamples=20)


@pytest.mark.parametrize("level", MEASUREMENTS)
@given(table=tables())
@settings(deadline=None, max_examples=60)
def test_alpha_and_its_bootstrap_estimate_equal_the_krippendorff_package(
    level: Measurement, table: tuple[list[Value], list[Pattern]]
) -> None:
    values, rows = table
    ours = value_of(quick(values, rows), f"alpha_{level}")
    if len({label for row in rows if len(labels_of(row)) > 1 for label in labels_of(row)}) < 2:
        assert ours is None
        return
    matrix = np.array([[np.nan if label is None else label for label in row] for row in rows]).T
    theirs = krippendorff.alpha(reliability_data=matrix, value_domain=values, level_of_measurement=level)
    assert ours == pytest.approx(theirs, abs=1e-9)
    units = module._tabulate(Counter(rows), tuple(values))
    estimate = module._alpha(units, units.counts[None, :].astype(np.float64), level=level)
    assert estimate == pytest.approx([theirs], abs=1e-9)


@given(table=tables(most_raters=2))
@settings(deadline=None, max_examples=60)
def test_kappa_equals_scikit_learn(table: tuple[list[Value], list[Pattern]]) -> None:
    values, rows = table
    ours = value_of(quick(values, rows), "cohen_kappa")
    both = [row for row in rows if None not in row]
    if len({label for row in both for label in row}) < 2:
        assert ours is None
        return
    first, second = zip(*both, strict=True)
    assert ours == pytest.approx(cohen_kappa_score(first, second, labels=values), abs=1e-9)


def exact_ac1(values: list[Value], rows: list[list[Value]]) -> tuple[Fraction, Fraction]:
    """Percent agreement and AC1 unit by unit and pair by pair, in exact fractions."""
    shares = [
        Fraction(sum(a == b for a, b in pairs), len(pairs))
        for pairs in (list(combinations(row, 2)) for row in rows)
        if pairs
    ]
    observed = sum(shares, Fraction(0)) / len(shares)
    prevalences = [
        sum((Fraction(row.count(value), len(row)) for row in rows), Fraction(0)) / len(rows)
        for value in values
    ]
    chance = sum((p * (1 - p) for p in prevalences), Fraction(0)) / (len(values) - 1)
    return observed, (observed - chance) / (1 - chance)


@given(table=tables())
@settings(deadline=None, max_examples=60)
def test_percent_agreement_and_ac1_equal_exact_arithmetic(table: tuple[list[Value], list[Pattern]]) -> None:
    values, rows = table
    result = quick(values, rows)
    labelled = [labels for labels in map(labels_of, rows) if labels]
    assert result.n == sum(len(labels) > 1 for labels in labelled)
    assert result.disputed == sum(len(set(labels)) > 1 for labels in labelled)
    if result.n == 0:
        assert value_of(result, "gwet_ac1") is None
        return
    percent, ac1 = exact_ac1(values, labelled)
    assert value_of(result, "percent_agreement") == pytest.approx(float(percent), abs=1e-9)
    assert value_of(result, "gwet_ac1") == pytest.approx(float(ac1), abs=1e-9)


@given(table=tables())
@settings(deadline=None, max_examples=60)
def test_no_number_is_ever_nan_or_beyond_one(table: tuple[list[Value], list[Pattern]]) -> None:
    for statistic in quick(*table).statistics.values():
        numbers = [
            number for number in (statistic.value, statistic.low, statistic.high) if number is not None
        ]
        assert all(np.isfinite(number) and number <= 1 + 1e-12 for number in numbers)
        assert (statistic.value is None) == (statistic.reason is not None)
