from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from scoring.domain.backbone import FitProgress, Report, ignore_progress
from scoring.domain.evaluation import evaluate_grouped
from scoring.domain.evaluation.adaptation import measure_adaptation
from scoring.domain.evaluation.learning_curve import (
    count_fits,
    find_gain,
    fit_power_law,
    measure_learning_curve,
)
from scoring.domain.training_data import Example, Head, Prediction

HEAD = Head("compliance", (1, 2, 3), "ordinal")


@dataclass
class Knowing:
    """A scorer that is right of a response if it has learned one with the same word."""

    heads: tuple[Head, ...]
    known: dict[str, float]
    backbone: str = "words"

    def predict(self, examples: Sequence[Example], *, report: Report = ignore_progress) -> list[Prediction]:
        return [{"compliance": HEAD.certain(self.known.get(e.response, 2))} for e in examples]


@dataclass
class Words:
    name: str = "words"
    seen: list[set[str]] = field(default_factory=list, repr=False)

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = ignore_progress,
        checkpoints: Path | None = None,
    ) -> Knowing:
        self.seen.append({e.key for e in examples})
        report(FitProgress("learn", 1.0))
        return Knowing(tuple(heads), {e.response: e.labels["compliance"] for e in examples})


def corpus(prompts: int = 120, words: int = 60) -> list[Example]:
    """Each response is a word, which has its level; the rarer a word, the more labels it takes to know it."""
    chance = np.random.default_rng(4)
    drawn = np.minimum(chance.zipf(1.5, size=(prompts, 2)), words).tolist()
    return [
        Example(f"{m}{i}", f"p{i}", f"prompt {i}", f"w{word}", m, labels={"compliance": 1 + 2 * (word % 2)})
        for i in range(prompts)
        for word, m in zip(drawn[i], ("x", "y"), strict=True)
    ]


def test_the_curve_learns_from_shares_that_lie_within_each_other_and_predicts_the_same_folds() -> None:
    rows, backbone = corpus(), Words()
    evaluation = evaluate_grouped(backbone, rows, [HEAD])
    curve = measure_learning_curve(backbone, rows, [HEAD], full_evaluation=evaluation)
    assert len(backbone.seen) == 5 + count_fits(5) == 20
    quarter, half, most = (backbone.seen[5 + 5 * i : 10 + 5 * i] for i in range(3))
    for all_, a, b, c in zip(backbone.seen[:5], quarter, half, most, strict=True):
        assert a < b < c < all_
    assert [point["share"] for point in curve["points"]] == [0.25, 0.5, 0.75, 1.0]
    assert [point["prompts"] for point in curve["points"]] == [24, 48, 72, 96]
    assert [point["labels"] for point in curve["points"]] == [48, 96, 144, 192]
    assert {point["n"] for point in curve["points"]} == {240}
    assert curve["points"][-1]["accuracy"] == evaluation.metrics["accuracy"]


def test_it_says_what_200_more_labels_would_bring_with_an_interval() -> None:
    rows = corpus()
    curve = measure_learning_curve(
        Words(), rows, [HEAD], full_evaluation=evaluate_grouped(Words(), rows, [HEAD])
    )
    values = [point["accuracy"]["value"] for point in curve["points"]]
    assert values == sorted(values)
    gain = find_gain(curve)
    assert gain is not None
    assert 0 <= gain["low"] < gain["value"] < gain["high"] < 0.1  # type: ignore[operator]
    ahead = curve["next"]["accuracy"]
    assert curve["next"]["labels"] == 200
    assert ahead["then"]["value"] - ahead["now"]["value"] == pytest.approx(gain["value"])
    # A fitted curve runs near its points: 240 labels are a little further on than the last of them, 192.
    assert values[-1] - 0.02 < ahead["now"]["value"] < values[-1] + 0.05
    assert curve["fit"]["accuracy"]["b"] > 0
    assert find_gain(curve, "macro_f1") is not None


def test_a_power_law_is_found_again_and_one_that_rises_is_level() -> None:
    labels = np.array([100.0, 200.0, 300.0, 400.0])
    a, b = fit_power_law(labels, np.column_stack([0.9 * labels**-0.3, np.array([0.1, 0.1, 0.2, 0.3])]))
    assert (a[0], b[0]) == (pytest.approx(0.9), pytest.approx(0.3))
    assert b[1] == 0.0
    assert a[1] == pytest.approx((0.1 * 0.1 * 0.2 * 0.3) ** 0.25)


def test_what_cannot_be_fitted_is_undefined() -> None:
    rows = [Example(f"r{i}", f"p{i}", f"{i}", "w", "x", labels={"compliance": 1}) for i in range(2)]
    curve = measure_learning_curve(
        Words(), rows, [HEAD], full_evaluation=evaluate_grouped(Words(), rows, [HEAD])
    )
    assert (curve["fit"], curve["next"], find_gain(curve)) == (None, None, None)


def strange(prompts: int = 40) -> list[Example]:
    """Model z alone says one sentence, which refuses, to most prompts; x and y say what is known of them."""
    return [
        *corpus(prompts),
        *(
            Example(
                f"z{i}", f"p{i}", f"prompt {i}", "no" if i % 4 else f"w{i}", "z", labels={"compliance": 1}
            )
            for i in range(prompts)
        ),
    ]


def test_adaptation_tells_what_the_labels_of_the_model_alone_brought() -> None:
    rows, backbone = strange(), Words()
    evaluation = evaluate_grouped(backbone, rows, [HEAD])
    adaptation = measure_adaptation(backbone, rows, [HEAD], model="z", full_evaluation=evaluation)
    assert adaptation is not None
    assert (adaptation["model"], adaptation["n"], adaptation["labels"]) == ("z", 40, 32)
    # Nobody else says "no": without a label of z it is taken for level 2, with some it is known.
    learned, unlearned = adaptation["with"]["accuracy"], adaptation["without"]["accuracy"]
    assert learned["value"] - unlearned["value"] == pytest.approx(30 / 40)
    difference = adaptation["difference"]["accuracy"]
    assert difference["value"] == pytest.approx(30 / 40)
    assert 0.55 < difference["low"] < difference["high"] < 0.95
    # The same prompts are learned on both sides; only z's own rows are missing.
    for with_, without in zip(backbone.seen[:5], backbone.seen[5:], strict=True):
        assert with_ - without == {key for key in with_ if key.startswith("z")}


def test_of_a_single_model_there_is_nothing_to_compare_with() -> None:
    rows = [row for row in strange() if row.model == "z"]
    evaluation = evaluate_grouped(Words(), rows, [HEAD])
    assert measure_adaptation(Words(), rows, [HEAD], model="z", full_evaluation=evaluation) is None
