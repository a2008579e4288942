"""What ``tests/performance/scorer_calibration.py`` prints, in part: noise at its rates, and what is said of no use."""

from __future__ import annotations

import numpy as np
import pytest

from scoring.backbones.ngram import NgramBackbone
from scoring.domain.evaluation import evaluate_grouped, list_criteria_below_rates, measure
from scoring.domain.training_data import Example, Head
from tests.conftest import missing
from tests.performance.scorer_calibration import NOISE, RATES, make_noise, predict_out_of_fold
from tests.scoring import lend_an_ear


def test_noise_is_predicted_at_the_rates_of_its_gold():
    result = predict_out_of_fold(NgramBackbone(), make_noise(3, prompts=60), [NOISE])["noise"]
    assert result.shares.mean(axis=0) == pytest.approx(RATES, abs=0.02)
    assert result.accuracy == pytest.approx(result.commonest, abs=0.01)


def test_fifty_dialogues_have_even_folds_and_what_is_no_use_is_named():
    if not lend_an_ear.is_there():
        missing("shared", f"the dialogues are not in {lend_an_ear.FOLDER}")
    evaluation = evaluate_grouped(NgramBackbone(), lend_an_ear.examples(), lend_an_ear.HEADS)
    sizes = np.bincount(evaluation.folds)
    assert sizes.max() <= 2 * sizes.min()
    below = list_criteria_below_rates(evaluation.metrics)
    for name, figures in evaluation.metrics["by_criterion"].items():
        commonest = max(sum(row) for row in figures["confusion"]["counts"]) / figures["n"]
        assert figures["accuracy"]["value"] >= commonest or name in below


HEAD = Head("c", (1, 2))


def rows(labels: list[int]) -> list[Example]:
    return [
        Example(f"{i}", f"p{i}", f"the text of the prompt {i}", "", labels={"c": label})
        for i, label in enumerate(labels)
    ]


def test_log_loss_and_brier_stand_beside_those_of_the_rates():
    examples = rows([1, 1, 2, 2])
    predictions = [{"c": {1: p, 2: 1 - p}} for p in (0.8, 0.8, 0.2, 0.8)]
    rates = [{"c": {1: 0.75, 2: 0.25}}] * 4
    figures = measure(examples, predictions, [HEAD], rates=rates)["by_criterion"]["c"]
    # -(ln .8 * 3 + ln .2) / 4, and -(2 ln .75 + 2 ln .25) / 4.
    assert figures["log_loss"] == pytest.approx(0.56972, abs=1e-4)
    assert figures["commonest_log_loss"] == pytest.approx(0.83698, abs=1e-4)
    assert figures["log_loss_gain"]["value"] == pytest.approx(0.83698 - 0.56972, abs=1e-4)
    # (3 * .08 + 1.28) / 4, and (2 * .125 + 2 * 1.125) / 4.
    assert figures["brier"] == pytest.approx(0.38)
    assert figures["commonest_brier"] == pytest.approx(0.625)
    by_level = figures["level_calibration"]["1"]
    assert (by_level["rate"], by_level["mean_probability"]) == (0.5, pytest.approx(0.65))
    # Of level 1: at .2 (one, none right) a gap of .2; at .8 (three, two right) one of .1333.
    assert by_level["calibration_error"] == pytest.approx((0.2 + 3 * (0.8 - 2 / 3)) / 4)


def test_a_label_whose_level_was_not_learned_is_in_neither_log_loss():
    examples = rows([1, 2])
    predictions = [{"c": {1: 1.0, 2: 0.0}}] * 2
    figures = measure(examples, predictions, [HEAD], rates=predictions)["by_criterion"]["c"]
    assert (figures["n"], figures["n_learned"]) == (2, 1)
    assert (figures["log_loss"], figures["commonest_log_loss"]) == (0.0, 0.0)


def test_without_the_rates_nothing_is_compared_and_nothing_is_said_of_an_old_record():
    examples = rows([1, 2])
    metrics = measure(examples, [{"c": {1: 0.5, 2: 0.5}}] * 2, [HEAD])
    assert metrics["by_criterion"]["c"]["log_loss"] is None
    assert metrics["log_loss_gain"] == {"value": None, "low": None, "high": None}
    assert list_criteria_below_rates(metrics) == []
    assert list_criteria_below_rates({"by_criterion": {"c": {"accuracy": 1.0}}}) == []


def test_a_scorer_that_is_only_as_good_as_the_rates_is_named():
    examples = rows([1, 2, 1, 1])
    rates = [{"c": {1: 0.75, 2: 0.25}}] * 4
    assert list_criteria_below_rates(measure(examples, rates, [HEAD], rates=rates)) == ["c"]
    better = [{"c": {1: 0.9, 2: 0.1}} if e.labels["c"] == 1 else {"c": {1: 0.3, 2: 0.7}} for e in examples]
    assert list_criteria_below_rates(measure(examples, better, [HEAD], rates=rates)) == []
