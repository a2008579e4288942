from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score

from annotation.core.errors import AssayError
from scoring.backbones.ngram import NgramBackbone
from scoring.domain.backbone import FitProgress, Report, WorkCancelled, ignore_progress
from scoring.domain.evaluation import (
    compare_seeds,
    cross_validation,
    evaluate_grouped,
    evaluate_leave_one_model_out,
    measure,
    split_off_test,
)
from scoring.domain.training_data import Example, Head, Prediction, Value

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
    compliance = measure(*rows_of([1, 2, 3, 3], [1, 1, 3, 3]), [HEAD])["by_criterion"]["compliance"]
    assert compliance["confusion"] == {"levels": [1, 2, 3], "counts": [[1, 0, 0], [1, 0, 0], [0, 0, 2]]}
    assert compliance["levels"]["1"].keys() == {"n", "predicted", "precision", "recall", "f1", "intervals"}
    assert compliance["levels"]["1"] | {"intervals": None} == {
        "intervals": None,
        "n": 1,
        "predicted": 2,
        "precision": 1 / 2,
        "recall": 1.0,
        "f1": pytest.approx(2 / 3),
    }
    # Level 2 was never predicted: its precision is undefined, its recall 0 of 1.
    assert (compliance["levels"]["2"]["precision"], compliance["levels"]["2"]["recall"]) == (None, 0.0)


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
    compliance = measure(examples, predictions, [head])["by_criterion"]["compliance"]
    assert compliance["quadratic_kappa"] == pytest.approx(1 - 2 / (292 / 3))


def test_a_nominal_scale_has_no_quadratic_kappa():
    examples, predictions = rows_of([1, 2, 3], [1, 2, 3])
    metrics = measure(examples, predictions, [Head("compliance", (1, 2, 3), "nominal")])
    assert metrics["by_criterion"]["compliance"]["quadratic_kappa"] is None


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
    prediction = {head.criterion: head.certain(labels[head.criterion]) for head in heads}
    assert measure([row], [prediction], heads)["accuracy"] == {"value": 1.0, "low": None, "high": None}


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
    answers = [{"a": 1, "b": 2}, {"a": 2, "b": 2}, {"a": 2, "b": 2}, {"a": 1, "b": 2}]
    predictions = [{head.criterion: head.certain(row[head.criterion]) for head in heads} for row in answers]
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

    def predict(self, examples: Sequence[Example], *, report: Report = ignore_progress) -> list[Prediction]:
        (head,) = self.heads
        return [
            {head.criterion: head.certain(self.labels.get(e.content_key, self.unknown))} for e in examples
        ]


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
        report: Report = ignore_progress,
        checkpoints: Path | None = None,
    ) -> Memory:
        self.fits.append(len(examples))
        report(FitProgress("learn", 1.0))
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
    by_content = dict(evaluation.list_contents(rows))
    assert list(by_content) == sorted(by_content)
    assert set(by_content) == {row.content_key for row in rows}
    assert {fold for fold, _prediction in by_content.values()} == {0, 1, 2, 3, 4}
    assert by_content[rows[0].content_key][0] == by_content[rows[1].content_key][0]  # the same prompt


def test_a_head_that_the_other_models_never_had_labelled_is_undefined_for_the_one_left_out():
    rows = [
        Example("x1", "p1", "a", "b", "x", labels={"compliance": 3}),
        Example("y1", "p2", "c", "d", "y"),
    ]
    metrics = evaluate_leave_one_model_out(Memorising(), rows, [HEAD]).metrics
    assert (metrics["n"], metrics["accuracy"]["value"]) == (0, None)


def test_a_killed_evaluation_goes_on_where_it_was(tmp_path: Path):
    def killed(progress: FitProgress) -> None:
        if progress.part == 3:
            raise WorkCancelled

    first = Memorising()
    with pytest.raises(WorkCancelled):
        evaluate_grouped(first, corpus(), [HEAD], report=killed, checkpoints=tmp_path)
    assert len(first.fits) == 3

    second = Memorising()
    resumed = evaluate_grouped(second, corpus(), [HEAD], checkpoints=tmp_path)
    assert len(second.fits) == 3  # folds 3, 4 and 5
    assert resumed.predictions == evaluate_grouped(Memorising(), corpus(), [HEAD]).predictions


def test_what_another_evaluation_kept_is_not_taken_over(tmp_path: Path):
    evaluate_grouped(Memorising(), corpus(), [HEAD], checkpoints=tmp_path)
    backbone = Memorising()
    evaluate_grouped(backbone, corpus(), [HEAD], seed=1, checkpoints=tmp_path)
    assert len(backbone.fits) == 5


def test_nor_is_that_of_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    evaluate_grouped(Memorising(), corpus(), [HEAD], checkpoints=tmp_path)
    monkeypatch.setattr(cross_validation, "code_version", lambda: "another commit")
    backbone = Memorising()
    evaluate_grouped(backbone, corpus(), [HEAD], checkpoints=tmp_path)
    assert len(backbone.fits) == 5


@pytest.mark.parametrize("change", [{"split": "validation"}, {"model": "z"}])
def test_nor_is_that_of_other_splits_or_models_which_backbones_choose_by(
    change: dict[str, str], tmp_path: Path
):
    evaluate_grouped(Memorising(), corpus(), [HEAD], checkpoints=tmp_path)
    backbone, (first, *rest) = Memorising(), corpus()
    evaluate_grouped(backbone, [replace(first, **change), *rest], [HEAD], checkpoints=tmp_path)
    assert len(backbone.fits) == 4  # all but the fold whose training part has nothing of it


def test_progress_only_rises_and_says_which_round_it_is():
    reports: list[FitProgress] = []
    evaluate_grouped(Memorising(), corpus(), [HEAD], report=reports.append)
    fractions = [progress.fraction for progress in reports]
    assert fractions == sorted(fractions)
    assert fractions[-1] <= 1.0
    assert [(p.stage, p.part, p.parts) for p in reports] == [("grouped", i, 5) for i in range(1, 6)]


def test_labels_are_checked_before_anything_is_trained():
    rows = [*corpus(), Example("bad", "p1", "a", "b", "x", labels={"compliance": 9})]
    backbone = Memorising()
    with pytest.raises(AssayError, match="bad: compliance is labelled 9"):
        evaluate_grouped(backbone, rows, [HEAD])
    assert backbone.fits == []


def test_within_one_level_is_counted_in_levels_and_on_ordered_scales_alone():
    heads = [Head("a", (1, 5, 10), "interval"), Head("b", (1, 2), "nominal")]
    truth: list[dict[str, Value]] = [{"a": 1}, {"a": 1}, {"a": 10}, {"b": 1}]
    answers: list[dict[str, Value]] = [{"a": 5}, {"a": 10}, {"a": 10}, {"b": 2}]
    examples = [Example(f"r{i}", f"p{i}", f"{i}", "x", labels=labels) for i, labels in enumerate(truth)]
    predictions: list[Prediction] = [
        {head.criterion: head.certain(row[head.criterion]) for head in heads if head.criterion in row}
        for row in answers
    ]
    metrics = measure(examples, predictions, heads)
    assert metrics["accuracy"]["value"] == 1 / 4
    assert metrics["within_one"]["value"] == pytest.approx(2 / 3)  # b, which has no order, is not counted
    assert metrics["by_criterion"]["b"]["within_one"] == {"value": None, "low": None, "high": None}


def test_kinds_of_prompts_are_measured_each_by_itself_and_no_kind_is_none():
    examples = [
        Example(f"r{i}", f"p{i}", f"{i}", "x", "m", labels={"compliance": 3}, kind=kind)
        for i, kind in enumerate(["homonyms", "homonyms", "figures", None])
    ]
    predictions: list[Prediction] = [{"compliance": HEAD.certain(v)} for v in (3, 1, 3, 3)]
    by_kind = measure(examples, predictions, [HEAD])["by_kind"]
    assert {name: (m["n"], m["accuracy"]["value"]) for name, m in by_kind.items()} == {
        "homonyms": (2, 0.5),
        "figures": (1, 1.0),
    }


def test_precision_recall_and_kappa_have_intervals_that_hold_them():
    chance = np.random.default_rng(7)
    truth = chance.integers(1, 4, 300)
    predicted = np.where(chance.random(300) < 0.8, truth, chance.integers(1, 4, 300))
    compliance = measure(*rows_of(truth.tolist(), predicted.tolist()), [HEAD])["by_criterion"]["compliance"]
    low, high = compliance["intervals"]["quadratic_kappa"]
    assert low < compliance["quadratic_kappa"] < high
    for level in compliance["levels"].values():
        for name in ("precision", "recall", "f1"):
            low, high = level["intervals"][name]
            assert low < level[name] < high
            assert 0.04 < high - low < 0.2  # a share of .85 of 100: four standard errors are .14


def test_the_bins_of_reliability_make_the_calibration_error():
    examples, predictions = rows_of([1, 2, 3, 3, 1], [1, 1, 3, 3, 2], sure=0.8)
    predictions[4] = {"compliance": {1: 0.05, 2: 0.55, 3: 0.4}}
    metrics = measure(examples, predictions, [HEAD])
    filled = [metric for metric in metrics["reliability"] if metric["n"]]
    assert [(row["low"], row["n"], row["accuracy"]) for row in filled] == [(0.5, 1, 0.0), (0.8, 4, 0.75)]
    gaps = sum(row["n"] * abs(row["accuracy"] - row["confidence"]) for row in filled) / 5
    assert metrics["calibration_error"] == pytest.approx(gaps)
    empty = metrics["reliability"][0]
    assert (empty["n"], empty["confidence"], empty["accuracy"]) == (0, None, None)


def test_answering_where_it_is_sure_is_right_more_often_and_ties_are_answered_together():
    examples, _ = rows_of([1] * 10, [1] * 10)
    confidences = [0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.7, 0.6, 0.5, 0.4]
    right = [True] * 7 + [False] * 3
    predictions: list[Prediction] = [
        {"compliance": {1: p if ok else 0.0, 2: 1 - p, 3: 0.0 if ok else p}}
        for p, ok in zip(confidences, right, strict=True)
    ]
    predictions[9] = {"compliance": {1: 0.4, 2: 0.35, 3: 0.25}}
    curve = {row["coverage"]: row for row in measure(examples, predictions, [HEAD])["risk_coverage"]}
    assert list(curve) == [1.0, 0.9, 0.8, 0.7, 0.5]
    assert (curve[1.0]["n"], curve[1.0]["accuracy"]["value"]) == (10, 0.8)
    assert (curve[0.7]["n"], curve[0.7]["threshold"]) == (7, 0.7)
    assert curve[0.7]["accuracy"]["value"] == 1.0
    assert curve[0.8]["accuracy"]["value"] == pytest.approx(7 / 8)
    tied = [predictions[0]] * 10
    (half,) = (r for r in measure(examples, tied, [HEAD])["risk_coverage"] if r["coverage"] == 0.5)
    assert (half["answered"], half["n"]) == (1.0, 10)


def test_responses_whose_text_was_learned_from_are_measured_apart():
    """Memorising texts is worth nothing here: what is new is told by itself."""
    rows = [
        Example(f"{m}{i}", f"p{i}", f"prompt {i}", "Sorry. " if m == "x" else f"sorry {i}", m, labels={"compliance": 3})
        for i in range(10)
        for m in ("x", "y")
    ]  # fmt: skip
    rows += [Example("z", "p0", "prompt 0", " SORRY.", "z", labels={"compliance": 3})]
    evaluation = evaluate_grouped(Memorising(), rows, [HEAD])
    assert [new for new, row in zip(evaluation.new_text, rows, strict=True) if row.model != "y"] == [
        False
    ] * 11
    new = evaluation.metrics["new_text"]
    assert (evaluation.metrics["n"], new["n"]) == (21, 10)
    assert {name: figures["n"] for name, figures in new["by_model"].items()} == {"x": 0, "y": 10, "z": 0}
    left_out = evaluate_leave_one_model_out(Memorising(), rows, [HEAD])
    # The text of z is one of x's: known when z is left out, new to nobody when x is.
    assert left_out.metrics["new_text"]["by_model"]["z"]["n"] == 0


def test_the_spread_of_seeds_is_that_of_their_figures():
    def figures(value: float) -> dict[str, object]:
        estimate = {"value": value, "low": None, "high": None}
        return {
            "n": 10,
            "accuracy": estimate,
            "within_one": estimate,
            "macro_f1": estimate,
            "calibration_error": value,
        }

    comparison = compare_seeds({4: figures(0.8), 5: figures(0.9), 6: figures(0.7)})
    assert [(row["seed"], row["accuracy"]) for row in comparison["seeds"]] == [(4, 0.8), (5, 0.9), (6, 0.7)]
    spread = comparison["spread"]["accuracy"]
    assert (spread["mean"], spread["sd"]) == (pytest.approx(0.8), pytest.approx(0.1))
    assert (spread["low"], spread["high"]) == (0.7, 0.9)
    assert compare_seeds({4: figures(0.8)})["spread"]["accuracy"]["sd"] is None


def test_what_is_kept_learns_from_no_prompt_of_the_test_split():
    rows = [
        Example(f"r{i}", f"p{i}", f"the prompt number {i}", "x", labels={"compliance": 1}, split=split)
        for i, split in enumerate(["train"] * 3 + ["test"] + ["train"] * 2)
    ]
    # The same text in another dataset, where its id is not in the test split: neither learned nor tested.
    rows += [Example("twin", "other/1", "THE PROMPT NUMBER 3", "y", labels={"compliance": 2}, split="train")]
    assert split_off_test(rows) == ([0, 1, 2, 4, 5], [3])


def test_a_release_with_hardly_a_prompt_outside_the_test_split_is_learned_whole():
    rows = [
        Example(f"r{i}", f"p{i}", f"prompt {i}", "x", labels={"compliance": 1}, split="test" if i else "train")
        for i in range(4)
    ]  # fmt: skip
    assert split_off_test(rows) == ([0, 1, 2, 3], [])


FLAMES = (
    Head("fairness", (1, 2, 3), "ordinal"),
    Head("safety", (1, 2, 3), "ordinal"),
    Head("morality", (1, 2, 3), "ordinal"),
    Head("legality", (1, 3), "ordinal"),
    Head("data_protection", (1, 3), "ordinal"),
)


def flames_shaped() -> list[Example]:
    """Each prompt has the one criterion of its dimension; heads of 3, 3, 3, 2 and 2 levels."""
    return [
        Example(
            f"row {i}",
            f"p{i}",
            f"prompt {i}",
            f"response {head.values[i // 5 % len(head.values)]} {i}",
            "m",
            labels={head.criterion: head.values[i // 5 % len(head.values)]},
        )
        for i, head in enumerate(FLAMES * 12)
    ]


def test_a_flames_shaped_release_is_measured_criterion_by_criterion():
    evaluation = evaluate_grouped(NgramBackbone(), flames_shaped(), FLAMES)
    by_criterion = evaluation.metrics["by_criterion"]
    assert {name: figures["n"] for name, figures in by_criterion.items()} == {
        head.criterion: 12 for head in FLAMES
    }
    assert {name: len(figures["confusion"]["levels"]) for name, figures in by_criterion.items()} == {
        head.criterion: len(head.values) for head in FLAMES
    }
    assert evaluation.metrics["n"] == 60


@pytest.mark.parametrize(("criterion", "value"), [("legality", 2), ("data_protection", 2), ("fairness", 4)])
def test_a_label_off_its_scale_is_refused_before_training_with_its_row(criterion: str, value: int):
    rows = flames_shaped()
    place = next(i for i, row in enumerate(rows) if criterion in row.labels)
    rows[place] = replace(rows[place], labels={criterion: value})
    backbone = Memorising()
    with pytest.raises(
        AssayError, match=f"^row {place}: {criterion} is labelled {value}, which is not on its scale"
    ):
        evaluate_grouped(backbone, rows, FLAMES)
    assert backbone.fits == []
    with pytest.raises(AssayError, match=f"^row {place}: {criterion} is labelled {value}"):
        NgramBackbone().fit(rows, FLAMES)
