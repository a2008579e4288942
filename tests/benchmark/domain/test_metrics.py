"""The arithmetic of the headline numbers. Expected values are derived in the comments."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.proportions import wilson
from annotation.domain.guidelines import GuidelineDocument, Metric, parse_guideline
from benchmark.domain.leaderboards.metrics import format_metric_value
from tests.benchmark.support import Cell, board_of
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE


def document(path: object) -> GuidelineDocument:
    return parse_guideline(path.read_text(encoding="utf-8"), path=str(path))  # type: ignore[attr-defined]


FLAMES = document(FLAMES_GUIDELINE.path)
XSTEST = document(XSTEST_GUIDELINE.path)
DIMENSIONS = {
    "Fairness": "fairness",
    "Safety": "safety",
    "Morality": "morality",
    "Legality": "legality",
    "Data protection": "data_protection",
}


def cell(criterion: str, **levels: int) -> Cell:
    """``cell("safety", n1=2, n3=1)``: two responses at 1, one at 3."""
    return Counter({((criterion, int(level[1:])),): n for level, n in levels.items()})


def flames_cells(model: str = "M", **per_dimension: dict[str, int]) -> dict[tuple[str, str], Cell]:
    return {
        (model, dimension): cell(criterion, **per_dimension.get(criterion, {"n3": 1, "n1": 1}))
        for dimension, criterion in DIMENSIONS.items()
    }


def test_a_rate_is_the_share_of_counted_levels_and_a_score_the_mean_over_the_top_level():
    row = board_of(FLAMES, flames_cells(fairness={"n1": 15, "n2": 121, "n3": 113}))["rows"][0]
    fairness = row["dimensions"]["Fairness"]
    assert fairness["n"] == 249
    assert fairness["harmless_rate"]["value"] == 113 / 249
    # (15 * 1 + 121 * 2 + 113 * 3) / (3 * 249) = 596 / 747
    assert fairness["harmless_score"]["value"] == pytest.approx(100 * 596 / 747, abs=1e-12)


def test_level_counts_are_kept_with_levels_that_nobody_gave():
    row = board_of(FLAMES, flames_cells(fairness={"n3": 2}))["rows"][0]
    assert row["dimensions"]["Fairness"]["levels"] == {"fairness": {"1": 0, "2": 0, "3": 2}}
    assert row["dimensions"]["Legality"]["levels"] == {"legality": {"1": 1, "3": 1}}


def test_the_overall_is_the_unweighted_mean_of_unrounded_dimension_rates():
    cells = flames_cells(fairness={"n1": 2, "n3": 1}, safety={"n3": 9, "n1": 3})
    row = board_of(FLAMES, cells)["rows"][0]
    # (1/3 + 9/12 + 1/2 + 1/2 + 1/2) / 5 = (31/12) / 5 = 31/60; pooled it would be 13/21
    assert row["overall"]["harmless_rate"]["value"] == float(Fraction(31, 60))


def test_a_dimension_without_data_is_undefined_and_so_is_the_overall():
    cells = flames_cells()
    del cells["M", "Legality"]
    row = board_of(FLAMES, cells)["rows"][0]
    undefined = {"value": None, "low": None, "high": None}
    assert row["dimensions"]["Legality"]["n"] == 0
    assert row["dimensions"]["Legality"]["harmless_rate"] == undefined
    assert row["overall"] == dict.fromkeys(
        ["harmless_rate", "harmless_score", "attack_success_rate"], undefined
    )
    assert row["rank"] is None


def test_an_empty_board_has_no_rows():
    assert board_of(FLAMES, {})["rows"] == []


def test_wilson_of_eight_in_ten():
    # z = 1.96: (0.8 + 0.19207) / 1.38415 = 0.71674 +- 1.96 / 1.38415 * sqrt(0.016 + 0.0096036) = 0.22659
    low, high = wilson(8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=5e-5), pytest.approx(0.9433, abs=5e-5))


def test_wilson_at_the_edges_stays_within_the_scale_and_has_a_width():
    # none of n: the upper end is z^2 / (n + z^2) = 3.8415 / 8.8415
    assert wilson(0, 5) == (0.0, pytest.approx(3.841459 / 8.841459, abs=1e-6))
    assert wilson(5, 5) == (pytest.approx(5 / 8.841459, abs=1e-6), 1.0)


def test_a_mean_of_labels_that_are_all_alike_is_not_certain():
    row = board_of(FLAMES, flames_cells(fairness={"n3": 5}))["rows"][0]
    score = row["dimensions"]["Fairness"]["harmless_score"]
    # two labels more, half at either end of 100 / 3 to 100: squares 2 * (200 / 3) ** 2 / 4 over 4 + 2 labels, over 5;
    # Student's quantile of 4 degrees is 2.776
    half = 2.776 * math.sqrt(2 * (200 / 3) ** 2 / 4 / 6 / 5)
    assert score["value"] == score["high"] == 100
    assert score["low"] == pytest.approx(100 - half, abs=0.01)


def test_a_single_response_has_no_interval_of_a_mean():
    row = board_of(FLAMES, flames_cells(fairness={"n3": 1}))["rows"][0]
    assert row["dimensions"]["Fairness"]["harmless_score"] == {"value": 100.0, "low": None, "high": None}


def test_the_interval_of_a_mean_is_the_normal_one_when_n_is_large():
    cells = flames_cells(fairness={"n1": 500, "n2": 500, "n3": 1000})
    score = board_of(FLAMES, cells)["rows"][0]["dimensions"]["Fairness"]["harmless_score"]
    # mean 2.25, variance (500*1.5625 + 500*0.0625 + 1000*0.5625) / 2000 = 0.6875;
    # 1.96 * sqrt(0.6875 / 2000) * 100 / 3 = 1.2113
    assert score["value"] == 75
    assert score["low"] == pytest.approx(75 - 1.2113, abs=0.01)
    assert score["high"] == pytest.approx(75 + 1.2113, abs=0.01)


def test_the_interval_of_the_overall_is_that_of_independent_dimensions():
    cells = flames_cells(**{name: {"n1": 200, "n3": 200} for name in DIMENSIONS.values()})
    overall = board_of(FLAMES, cells)["rows"][0]["overall"]["harmless_rate"]
    # variance of a dimension's rate 0.25 / 400; of the mean of five independent ones a fifth of it:
    # 1.96 * sqrt(0.25 / 2000) = 0.0219
    assert overall["high"] - overall["low"] == pytest.approx(2 * 0.0219, rel=0.01)


def test_a_column_of_few_prompts_withholds_the_interval_and_the_rank_of_the_overall():
    cells = flames_cells(**{name: {"n1": 10, "n3": 10} for name in DIMENSIONS.values()})
    cells["M", "Legality"] = cell("legality", n1=4, n3=5)
    row = board_of(FLAMES, cells)["rows"][0]
    assert row["overall"]["harmless_rate"]["value"] == pytest.approx((4 * 0.5 + 5 / 9) / 5)
    assert (row["overall"]["harmless_rate"]["low"], row["rank"]) == (None, None)
    assert (row["ground"], row["reason"]) == ("gold", "few_prompts")
    assert row["dimensions"]["Legality"]["harmless_rate"]["low"] is not None
    cells["M", "Legality"] = cell("legality", n1=5, n3=5)
    row = board_of(FLAMES, cells)["rows"][0]
    assert row["rank"] is not None
    assert row["overall"]["harmless_rate"]["low"] < 0.5 < row["overall"]["harmless_rate"]["high"]


def test_the_same_labels_give_the_same_board():
    assert board_of(FLAMES, flames_cells()) == board_of(FLAMES, flames_cells())


def test_a_metric_without_an_overall_ranks_by_its_only_dimension():
    cells = {
        ("A", "safe"): cell("compliance", n3=1, n1=1),
        ("B", "safe"): cell("compliance", n3=2),
        ("B", "unsafe"): cell("compliance", n1=3, n3=1),
    }
    made = board_of(XSTEST, cells)
    assert [row["model"] for row in made["rows"]] == ["B", "A"]
    assert made["rows"][0]["overall"] == {}
    assert "full_refusal_rate" not in made["rows"][0]["dimensions"]["safe"]
    assert made["rows"][0]["dimensions"]["unsafe"]["full_refusal_rate"]["value"] == 0.75


def test_models_whose_difference_may_be_nought_are_not_told_apart():
    cells = {
        ("clear", "safe"): cell("compliance", n3=990, n1=10),
        ("near", "safe"): cell("compliance", n3=51, n1=49),
        ("same", "safe"): cell("compliance", n3=50, n1=50),
        ("nothing", "safe"): Counter(),
    }
    ranks = {row["model"]: row["rank"] for row in board_of(XSTEST, cells)["rows"]}
    second, third = {"low": 2, "high": 3}, {"low": 2, "high": 3}
    assert ranks["clear"] == {"value": 1, "low": 1, "high": 1, "each": {"low": 1, "high": 1}}
    assert ranks["near"] == {"value": 2, **second, "each": second}
    assert ranks["same"] == {"value": 3, **third, "each": third}
    assert ranks["nothing"] is None


def test_equal_values_share_a_rank():
    cells = {(name, "safe"): cell("compliance", n3=1, n1=1) for name in "AB"}
    assert [row["rank"]["value"] for row in board_of(XSTEST, cells)["rows"]] == [1, 1]


CRITERION = """
  - name: {name}
    label: {{en: A label}}
    question: {{en: How much of it}}
    applies_to: all
    measurement: interval
    scale:
      - {{value: 0, name: {{en: none}}, definition: {{en: none of it}}}}
      - {{value: 4, name: {{en: much}}, definition: {{en: much of it}}}}"""

SEVERAL = f"""
name: dialogue
version: "1"
languages: [en]
title: {{en: Dialogue}}
source: made for a test
introduction: {{en: none}}
criteria:{CRITERION.format(name="fluency")}{CRITERION.format(name="empathy")}
metrics:
  - {{name: warm, label: {{en: Warm}}, kind: rate, levels: [4], overall: pooled}}
  - {{name: quality, label: {{en: Quality}}, kind: mean, formula: "25 * mean", overall: pooled}}
rank_by: quality
"""


def test_several_criteria_are_pooled_and_drawn_by_response():
    dialogue = parse_guideline(SEVERAL, path="dialogue.yaml")
    together: Cell = Counter({(("empathy", 4), ("fluency", 4)): 50, (("empathy", 0), ("fluency", 0)): 50})
    row = board_of(dialogue, {("M", "all"): together})["rows"][0]
    assert row["dimensions"]["all"]["n"] == 100
    assert row["overall"]["quality"]["value"] == 50  # (100 * 4 + 100 * 0) / 200 * 25
    rate = row["overall"]["warm"]
    # 100 responses decide, not 200 labels: 1.96 * sqrt(0.25 / 100) = 0.098, not 0.069
    assert rate["high"] - rate["low"] == pytest.approx(0.196, abs=0.02)


def test_printed_as_in_published_tables():
    rate, score = FLAMES.metric("harmless_rate"), FLAMES.metric("harmless_score")
    assert format_metric_value(rate, 113 / 249) == "45.38%"
    assert format_metric_value(rate, 0.5) == "50.0%"
    assert format_metric_value(score, 100 * 596 / 747) == "79.8"
    assert format_metric_value(score, None) == "-"


def test_a_tie_is_rounded_to_the_even_digit_though_binary_cannot_hold_it():
    rate: Metric = FLAMES.metric("harmless_rate")
    # 0.01005 -> 1.005 %: the float 100 * 0.01005 is 1.0050000000000001 and would print 1.01
    assert format_metric_value(rate, 0.01005) == "1.0%"
    assert format_metric_value(rate, 0.01015) == "1.02%"


@given(st.integers(1, 400), st.data())
def test_wilson_holds_the_share_and_stays_on_the_scale(n: int, data: st.DataObject):
    successes = data.draw(st.integers(0, n))
    low, high = wilson(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
