from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score

from annotation.errors import AssayError
from scoring.dataset import Example, Head, Prediction, Value
from scoring.evaluation import evaluate_grouped, evaluate_leave_one_model_out, measure
from scoring.interface import Cancelled, Progress, Report, silent

HEAD = Head("compliance", (1, 2, 3), "ordinal")


def rows_of(
    truth: Sequence[int], predicted: Sequence[int], *, sure: float = 1.0
) -> tuple[list[Example], list[Prediction]]:
    examples = [
        Example(f"r{i}", f"p{i}", f"prompt {i}", f"response {i}", "m", labels={"compliance": value})
        for i, value in enumerate(truth)
    ]
    rest = (1 - sure) / 2
    return examples, [{"compliance": {v: sure if v == p else rest for v in HEAD.values}} for p in predicted]


def test_accuracy_and_macro_f1_are_the_fractions_they_are_defined_as():
    # Level 1: TP 1, FP 1, FN 0 -> F1 2/3. Level 2: TP 0, FN 1 -> 0. Level 3: TP 2 of 2 -> 1.
    metrics = measure(*rows_of([1, 2, 3, 3], [1, 1, 3, 3]), [HEAD])
    assert metrics["n"] == 4
    assert metrics["accuracy"]["value"] == pytest.approx(3 / 4)
    assert metrics["macro_f1"]["value"] == pytest.approx((2 / 3 + 0 + 1) / 3)


def test_each_level_has_its_precision_and_recall_and_the_confusion_shows_why():
    found = measure(*rows_of([1, 2, 3, 3], [1, 1, 3, 3]), [HEAD])["by_criterion"]["compliance"]
    assert found["confusion"] == {"levels": [1, 2, 3], "counts": [[1, 0, 0], [1, 0, 0], [0, 0, 2]]}
    assert found["levels"]["1"] == {
        "n": 1,
        "predicted": 2,
        "precision": 1 / 2,
        "recall": 1.0,
        "f1": pytest.approx(2 / 3),
    }
    # Level 2 was never predicted: its precision is undefined, its recall 0 of 1.
    assert (found["levels"]["2"]["precision"], found["levels"]["2"]["recall"]) == (None, 0.0)


def test_the_figures_agree_with_scikit_learn_on_random_labels():
    chance = np.random.default_rng(7)
    truth, predicted = chance.integers(1, 4, 200).tolist(), chance.integers(1, 4, 200).tolist()
    metrics = measure(*rows_of(truth, predicted), [HEAD])
    assert metrics["macro_f1"]["value"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    kappa = cohen_kappa_score(truth, predicted, weights="quadratic")
    assert metrics["by_criterion"]["compliance"]["quadratic_kappa"] == pytest.approx(kappa)


def test_the_distance_on_an_interval_scale_is_that_of_the_values():
    # Levels 1, 2, 10; one row each. Only 1 and 2 are confused, both ways.
    # Observed: 2 * 1 = 2. Expected (each pair 1/3): (1 + 81 + 64) * 2 / 3 = 292 / 3.
    head = Head("compliance", (1, 2, 10), "interval")
    examples, _ = rows_of([1, 2, 10], [1, 1, 1])
    predictions: list[Prediction] = [{"compliance": head.certain(v)} for v in (2, 1, 10)]
    found = measure(examples, predictions, [head])["by_criterion"]["compliance"]
    assert found["quadratic_kappa"] == pytest.approx(1 - 2 / (292 / 3))


def test_a_nominal_scale_has_no_quadratic_kappa():
    examples, predictions = rows_of([1, 2, 3], [1, 2, 3])
    found = measure(examples, predictions, [Head("compliance", (1, 2, 3), "nominal")])
    assert found["by_criterion"]["compliance"]["quadratic_kappa"] is None


def test_kappa_of_labels_that_never_vary_is_undefined():
    metrics = measure(*rows_of([3, 3], [3, 3]), [HEAD])
    assert metrics["by_criterion"]["compliance"]["quadratic_kappa"] is None
    assert metrics["macro_f1"]["value"] == 1.0  # of level 3 alone: nobody said 1 or 2


def test_calibration_error_is_the_gap_between_confidence_and_being_right():
    # Four predictions at 0.8, three of them right: |3/4 - 0.8| = 0.05.
    metrics = measure(*rows_of([1, 2, 3, 3], [1, 1, 3, 3], sure=0.8), [HEAD])
    assert metrics["calibration_error"] == pytest.approx(0.05)


def test_nothing_to_measure_is_undefined_and_no_crash():
    metrics = measure([], [], [HEAD])
    undefined = {"value": None, "low": None, "high": None}
    assert (metrics["n"], metrics["accuracy"], metrics["macro_f1"]) == (0, undefined, undefined)
    assert metrics["calibration_error"] is None
    assert metrics["by_criterion"]["compliance"]["levels"]["1"]["f1"] is None


def test_a_response_without_a_prediction_is_left_out_and_not_counted_wrong():
    examples, predictions = rows_of([1, 2, 3], [1, 2, 1])
    predictions[2] = {}
    metrics = measure(examples, predictions, [HEAD])
    assert (metrics["n"], metrics["accuracy"]["value"]) == (2, 1.0)


def test_one_prompt_has_no_interval():
    examples, predictions = rows_of([1], [1])
    assert measure(examples, predictions, [HEAD])["accuracy"] == {"value": 1.0, "low": None, "high": None}


def test_one_prompt_has_no_interval_however_many_criteria_it_has():
    heads = [HEAD, Head("tone", (1, 2), "ordinal")]
    labels = {"compliance": 3, "tone": 1}
    row = Example("r", "p", "prompt", "response", "m", labels=labels)
    said = {head.criterion: head.certain(labels[head.criterion]) for head in heads}
    assert measure([row], [said], heads)["accuracy"] == {"value": 1.0, "low": None, "high": None}


def test_responses_to_one_prompt_are_drawn_together():
    # 40 prompts of 10 responses, all right or all wrong: as spread as 40 coin flips, not as 400.
    # Standard error of a share 1/2 of 40: 0.079, so the interval is about 0.31 wide; of 400 it would be 0.10.
    examples = [
        Example(f"r{p}.{i}", f"p{p}", f"prompt {p}", f"{p}.{i}", labels={"compliance": 1})
        for p in range(40)
        for i in range(10)
    ]
    predictions: list[Prediction] = [
        {"compliance": HEAD.certain(1 if p % 2 else 3)} for p in range(40) for _ in range(10)
    ]
    accuracy = measure(examples, predictions, [HEAD])["accuracy"]
    assert accuracy["value"] == 0.5
    assert 0.25 < accuracy["high"] - accuracy["low"] < 0.37


def test_several_criteria_are_pooled_by_label_for_accuracy_and_by_head_for_macro_f1():
    # Head a: 3 of 3 right, macro-F1 1. Head b: 0 of 1 right, macro-F1 0. Pooled 3/4 and 1/2.
    heads = [Head("a", (1, 2)), Head("b", (1, 2))]
    truth: list[dict[str, Value]] = [{"a": 1}, {"a": 2}, {"a": 2}, {"b": 1}]
    examples = [Example(f"r{i}", f"p{i}", f"{i}", "x", labels=labels) for i, labels in enumerate(truth)]
    said = [{"a": 1, "b": 2}, {"a": 2, "b": 2}, {"a": 2, "b": 2}, {"a": 1, "b": 2}]
    predictions = [{head.criterion: head.certain(row[head.criterion]) for head in heads} for row in said]
    metrics = measure(examples, predictions, heads)
    assert metrics["n"] == 4
    assert metrics["accuracy"]["value"] == pytest.approx(3 / 4)
    assert metrics["macro_f1"]["value"] == pytest.approx(1 / 2)
    assert metrics["by_criterion"]["b"]["n"] == 1


def test_models_are_measured_each_by_itself():
    examples = [
        Example(f"r{i}", f"p{i}", f"{i}", "x", model, labels={"compliance": 3})
        for i, model in enumerate(["kind", "kind", "curt"])
    ]
    predictions: list[Prediction] = [{"compliance": HEAD.certain(v)} for v in (3, 3, 1)]
    by_model = measure(examples, predictions, [HEAD])["by_model"]
    assert {name: (m["n"], m["accuracy"]["value"]) for name, m in by_model.items()} == {
        "kind": (2, 1.0),
        "curt": (1, 0.0),
    }


@dataclass
class Memory:
    """A scorer that has learned the labels of its training texts by heart and knows nothing else."""

    heads: tuple[Head, ...]
    labels: dict[str, Value]
    unknown: Value = 1
    backbone: str = "memory"

    def predict(self, examples: Sequence[Example], *, report: Report = silent) -> list[Prediction]:
        (head,) = self.heads
        return [
            {head.criterion: head.certain(self.labels.get(e.content_key, self.unknown))} for e in examples
        ]

    def save(self, folder: Path) -> None:
        raise NotImplementedError


@dataclass
class Memorising:
    name: str = "memory"
    fits: list[int] = field(default_factory=list, repr=False)

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = silent,
        checkpoints: Path | None = None,
    ) -> Memory:
        self.fits.append(len(examples))
        report(Progress("learn", 1.0))
        return Memory(tuple(heads), {e.content_key: e.labels["compliance"] for e in examples})


def corpus() -> list[Example]:
    return [
        Example(f"{m}{i}", f"p{i}", f"prompt {i}", f"{m} says {i}", m, labels={"compliance": 3})
        for i in range(10)
        for m in ("x", "y")
    ]


def test_a_scorer_that_memorises_is_found_out_by_folds_of_prompts():
    evaluation = evaluate_grouped(Memorising(), corpus(), [HEAD])
    assert evaluation.metrics["n"] == 20
    assert evaluation.metrics["accuracy"]["value"] == 0.0


def test_a_text_that_two_models_share_is_not_recognised_when_one_is_left_out():
    shared = [
        Example(f"{m}{i}", f"p{i}", f"prompt {i}", "Sorry.", m, labels={"compliance": 3})
        for i in range(4)
        for m in ("x", "y")
    ]
    rows = [*shared, Example("z", "p9", "prompt 9", "Well.", "z", labels={"compliance": 1})]
    metrics = evaluate_leave_one_model_out(Memorising(), rows, [HEAD]).metrics
    assert metrics["by_model"]["x"]["accuracy"]["value"] == 0.0


def test_out_of_fold_predictions_are_kept_by_content_with_their_fold():
    rows = corpus()
    evaluation = evaluate_grouped(Memorising(), rows, [HEAD], k=5)
    kept = evaluation.by_content(rows)
    assert set(kept) == {row.content_key for row in rows}
    assert {fold for fold, _prediction in kept.values()} == {0, 1, 2, 3, 4}
    assert kept[rows[0].content_key][0] == kept[rows[1].content_key][0]  # the same prompt


def test_a_head_that_the_other_models_never_had_labelled_is_undefined_for_the_one_left_out():
    rows = [
        Example("x1", "p1", "a", "b", "x", labels={"compliance": 3}),
        Example("y1", "p2", "c", "d", "y"),
    ]
    metrics = evaluate_leave_one_model_out(Memorising(), rows, [HEAD]).metrics
    assert (metrics["n"], metrics["accuracy"]["value"]) == (0, None)


def test_a_killed_evaluation_goes_on_where_it_was(tmp_path: Path):
    def killed(progress: Progress) -> None:
        if progress.part == 3:
            raise Cancelled

    first = Memorising()
    with pytest.raises(Cancelled):
        evaluate_grouped(first, corpus(), [HEAD], report=killed, checkpoints=tmp_path)
    assert len(first.fits) == 3

    second = Memorising()
    resumed = evaluate_grouped(second, corpus(), [HEAD], checkpoints=tmp_path)
    assert len(second.fits) == 3  # folds 3, 4 and 5
    assert resumed.predictions == evaluate_grouped(Memorising(), corpus(), [HEAD]).predictions


def test_what_another_evaluation_kept_is_not_taken_over(tmp_path: Path):
    evaluate_grouped(Memorising(), corpus(), [HEAD], checkpoints=tmp_path)
    again = Memorising()
    evaluate_grouped(again, corpus(), [HEAD], seed=1, checkpoints=tmp_path)
    assert len(again.fits) == 5


def test_progress_only_rises_and_says_which_round_it_is():
    told: list[Progress] = []
    evaluate_grouped(Memorising(), corpus(), [HEAD], report=told.append)
    fractions = [progress.fraction for progress in told]
    assert fractions == sorted(fractions)
    assert fractions[-1] <= 1.0
    assert [(p.stage, p.part, p.parts) for p in told] == [("grouped", i, 5) for i in range(1, 6)]


def test_labels_are_checked_before_anything_is_trained():
    rows = [*corpus(), Example("bad", "p1", "a", "b", "x", labels={"compliance": 9})]
    backbone = Memorising()
    with pytest.raises(AssayError, match="bad: compliance is labelled 9"):
        evaluate_grouped(backbone, rows, [HEAD])
    assert backbone.fits == []
