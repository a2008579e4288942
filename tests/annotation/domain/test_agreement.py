"""Expected values are fractions derived in the comments."""

from __future__ import annotations

import pytest

from annotation.core.errors import AssayError
from annotation.domain import agreement as module
from annotation.domain.agreement import (
    STATISTICS,
    Agreement,
    Measurement,
    Pattern,
    Value,
    measure_agreement,
    pool,
)

OF_SETS = {"alpha_masi"}
KAPPAS_OF_LEVELS = {"cohen_kappa_linear", "cohen_kappa_quadratic", "cohen_kappa_quadratic_observed"}
CORRELATIONS = {"spearman", "icc_single", "icc_average"}
OF_TWO = {"cohen_kappa", "scott_pi"} | KAPPAS_OF_LEVELS | CORRELATIONS


def value_of(result: Agreement, name: str) -> float | None:
    return result.statistics[name].value


def of(patterns: dict[Pattern, int], values: list[Value], measurement: Measurement = "nominal") -> Agreement:
    return measure_agreement(patterns, values=values, measurement=measurement)


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


def test_what_chance_is_tells_scott_fleiss_and_cohen_apart() -> None:
    result = of({(1, 1): 5, (1, 3): 2, (3, 1): 1, (3, 3): 2, (None, 3): 2}, [1, 3])
    # Scott: pi = 13/20 and 7/20 over the ten units with both; p_e = (169 + 49) / 400; (280 - 218) / (400 - 218)
    assert value_of(result, "scott_pi") == pytest.approx(31 / 91)
    # Fleiss: pi over all twelve units, (6.5, 5.5) / 12; p_e = (169 + 121) / 576; (0.7 - 290/576) / (1 - 290/576)
    assert value_of(result, "fleiss_kappa") == pytest.approx((0.7 * 576 - 290) / (576 - 290))
    # Cohen: the two raters' own marginals over the ten, as above
    assert value_of(result, "cohen_kappa") == pytest.approx(8 / 23)


def test_weighted_kappa_counts_steps_between_levels_and_not_differences_of_values() -> None:
    patterns: dict[Pattern, int] = {(1, 1): 2, (1, 2): 1, (2, 9): 1, (9, 9): 1}
    result = of(patterns, [1, 2, 9], "interval")
    # Marginals 3, 1, 1 and 2, 1, 2 of 5. Steps apart: observed 1 + 1; expected 3*1 + 3*2*2 + 1*2 + 1*2 + 1*2*2 + 1*1
    assert value_of(result, "cohen_kappa_linear") == pytest.approx(1 - 5 * 2 / 24)
    # Their squares: observed 1 + 1; expected 3*1 + 3*2*4 + 1*2 + 1*2 + 1*2*4 + 1*1
    assert value_of(result, "cohen_kappa_quadratic") == pytest.approx(1 - 5 * 2 / 40)


def test_ac2_weighs_by_the_order_or_by_the_distances_of_the_scale() -> None:
    patterns: dict[Pattern, int] = {(1, 1): 2, (1, 2): 1, (2, 4): 1}
    # pi = 5/8, 2/8, 1/8; sum pi (1 - pi) = (15 + 12 + 7) / 64 = 17/32.
    # Ordinal: weights 1 (three times), 2/3 (four times), 0 (twice), T = 17/3; p_e = 17/18 * 17/32; p_a = 1 - (2/3) / 4
    ordinal = value_of(of(patterns, [1, 2, 4], "ordinal"), "gwet_ac2")
    assert ordinal == pytest.approx(1 - (1 / 6) / (1 - 289 / 576))
    # Quadratic: 1 - 1/9 between 1 and 2, 1 - 4/9 between 2 and 4, 0 between 1 and 4: T = 3 + 16/9 + 10/9 = 53/9;
    # p_e = 53/54 * 17/32; p_a = 1 - (1/9 + 4/9) / 4
    quadratic = value_of(of(patterns, [1, 2, 4], "interval"), "gwet_ac2")
    assert quadratic == pytest.approx(1 - (5 / 36) / (1 - 901 / 1728))


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
    assert tuple(of({}, [1, 2]).statistics) == STATISTICS


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
    assert value_of(result, "gwet_ac2") == 1
    for name in set(STATISTICS) - OF_SETS - {"percent_agreement", "gwet_ac1", "gwet_ac2"}:
        reason = module.NO_DIFFERENT_UNITS if name.startswith("icc_") else module.ONE_CATEGORY
        assert result.statistics[name] == module.Statistic(None, None, None, reason)


def test_raters_who_always_contradict_each_other_have_no_average_to_correlate() -> None:
    result = of({(1, 2): 1, (2, 1): 1}, [1, 2], "interval")
    assert result.statistics["spearman"].value == pytest.approx(-1)
    # MSR = MSC = 0, MSE = 1: the ratio of Shrout and Fleiss would be (0 - 1) / (0 + (0 - 1) / 2) = 2.
    assert result.statistics["icc_average"].reason == module.NO_DIFFERENT_UNITS


def test_a_scale_of_one_level_does_not_divide_by_zero() -> None:
    result = of({(3, 3): 7}, [3], "ordinal")
    assert value_of(result, "gwet_ac1") == 1
    assert value_of(result, "gwet_ac2") == 1
    assert value_of(result, "alpha_ordinal") is None
    assert value_of(result, "cohen_kappa_quadratic") is None


def test_all_the_same_within_units_and_several_categories_is_perfect() -> None:
    result = of({(1, 1): 3, (2, 2): 3, (3, 3): 4}, [1, 2, 3], "interval")
    assert {result.statistics[name].value for name in set(STATISTICS) - OF_SETS} == {1}


def test_units_with_a_missing_label_change_neither_kappa_nor_alpha() -> None:
    patterns: dict[Pattern, int] = {(1, 1): 5, (1, 3): 2, (3, 1): 1, (3, 3): 2}
    result = of({**patterns, (1, None): 4, (None, 3): 2, (None, None): 9}, [1, 3])
    assert result.n == 10
    assert value_of(result, "percent_agreement") == pytest.approx(7 / 10)
    assert value_of(result, "cohen_kappa") == pytest.approx(8 / 23)
    assert value_of(result, "alpha_nominal") == pytest.approx(34 / 91)


def test_what_compares_two_raters_is_undefined_for_three_with_the_reason() -> None:
    statistics = of({(1, 1, 2): 3, (2, 2, 2): 4}, [1, 2], "ordinal").statistics
    assert statistics["cohen_kappa_linear"] == module.Statistic(None, None, None, module.MORE_THAN_TWO)
    assert statistics["scott_pi"] == module.Statistic(None, None, None, module.MORE_THAN_TWO_FOR_PI)
    undefined = {name for name, statistic in statistics.items() if statistic.value is None}
    assert undefined == OF_TWO | OF_SETS | {"alpha_interval"}


@pytest.mark.parametrize(
    ("measurement", "undefined", "reason"),
    [
        (
            "nominal",
            {"alpha_ordinal", "alpha_interval", "gwet_ac2"} | KAPPAS_OF_LEVELS | CORRELATIONS,
            module.NO_ORDER,
        ),
        ("ordinal", {"alpha_interval"}, module.NO_DISTANCES),
        ("interval", set(), None),
    ],
)
def test_the_scale_decides_which_statistics_are_given(
    measurement: Measurement, undefined: set[str], reason: str | None
) -> None:
    statistics = of({(1, 1): 3, (1, 2): 1, (2, 2): 3}, [1, 2], measurement).statistics
    missing = {name: statistic.reason for name, statistic in statistics.items() if statistic.value is None}
    assert missing == dict.fromkeys(undefined, reason) | dict.fromkeys(OF_SETS, module.NO_SETS)


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
    assert measure_agreement(patterns, values=values, measurement="nominal").n == 0
