"""From a release to a registered scorer: what the training job does.

Resumable: each fold's predictions and the checkpoints lie in the scorer's ``work`` folder until the scorer is
registered, so that a worker that takes over goes on where the last one died, to the same weights.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from annotation.core.garbage import collect_rarely
from annotation.core.sql import write_rows
from annotation.core.storage import bucket, file_cache
from annotation.core.version import code_version
from annotation.domain.releases.selection import summarize_selection
from annotation.selectors.releases.selection import find_selection, list_chances
from annotation.services.audit import record
from scoring.backbones.folder import fingerprint
from scoring.backbones.registry import choose_backbone
from scoring.domain import drift as drift_rules
from scoring.domain.backbone import Backbone, FitProgress, FittedScorer, Report, ignore_progress, scale_report
from scoring.domain.evaluation import (
    Evaluation,
    Metrics,
    compare_seeds,
    compute_rates,
    evaluate_grouped,
    evaluate_leave_one_model_out,
    measure,
    split_off_test,
)
from scoring.domain.evaluation import learning_curve as learning_curve_rules
from scoring.domain.evaluation.adaptation import measure_adaptation
from scoring.domain.evaluation.baselines import (
    measure_annotators,
    measure_between_annotators,
    measure_majority,
    measure_string_rules,
)
from scoring.domain.evaluation.soft_labels import DISTRIBUTION, measure_soft_labels, share_levels
from scoring.domain.evaluation.weighing import (
    WeighedLabel,
    describe_weighing,
    have_unequal_chances,
    list_weighed_labels,
)
from scoring.domain.tables import AnnotatorLabels
from scoring.domain.training_data import Prediction as Predicted
from scoring.domain.training_data import prediction_to_json
from scoring.domain.training_spec import LEARNING_CURVE, LEAVE_ONE_MODEL_OUT
from scoring.domain.verbs import ScoringVerb
from scoring.models import Prediction, Scorer
from scoring.selectors.training import (
    PREDICTION_COLUMNS,
    TESTED,
    TRAINED,
    OutOfFoldPredictions,
    PredictionRowBuilder,
    TrainingSet,
    build_training_set,
    read_annotator_labels,
)
from scoring.services.scorers.card import TrainingFindings, build_card

FOLDS = 5
FITTING_SHARE = 0.96
"""The share of the work that is fitting; the rest is measuring and registering."""
ROWS = 4000
PART = "part-"


@collect_rarely()
def train(*, scorer: Scorer, report: Report = ignore_progress) -> Scorer:
    """Evaluate, train what is kept, and register: predictions, weights, card and ``ready_at`` in one step.

    Evaluations use every labelled response; what is kept has not learned from the test split, which is for comparing
    it with its successors. A scorer that is ready is left as it is. Whatever happens before the end leaves nothing
    that counts.
    """
    if scorer.is_ready:
        remove_work_files(scorer=scorer)  # the worker that registered it died before it had tidied up
        return scorer
    if bucket.is_used():
        bucket.check_access()  # before hours of work, not after them
    report(FitProgress("read", 0.0))
    run = TrainingRun(scorer, _build_training_set(scorer), report)
    evaluation = run.evaluate()
    fitted = run.fit_final()
    report(FitProgress("compare", FITTING_SHARE))
    test_predictions, test_metrics = run.test_fitted(fitted)
    findings = run.collect_findings(fitted, test_metrics)
    with _save_fitted(scorer, run, fitted, test_predictions) as weights:
        scorer.weights_sha256 = fingerprint(weights)
        scorer.code_version = code_version()
        scorer.evaluation = evaluation
        scorer.config |= run.build_config()
        scorer.card = build_card(scorer, findings)
        _register(scorer, weights, run.training_set, run.grouped, report)
    remove_work_files(scorer=scorer)
    return scorer


def _build_training_set(scorer: Scorer) -> TrainingSet:
    """With what the annotators said as what is to be learned, where the scorer is to learn that."""
    training_set = build_training_set(scorer.release, scorer.guideline)
    if scorer.config.get("target") != DISTRIBUTION:
        return training_set
    annotated = share_levels(
        read_annotator_labels(scorer.release, training_set), training_set.heads, len(training_set.examples)
    )
    examples = [
        replace(example, soft={name: shares for name, shares in soft.items() if name in example.labels})
        for example, soft in zip(training_set.examples, annotated, strict=True)
    ]
    return replace(training_set, examples=examples)


def remove_work_files(*, scorer: Scorer) -> None:
    """Remove what was kept for resuming; for a training that is over, well or badly."""
    for folder in (scorer.work_folder, *scorer.folder.glob(f"{PART}*")):
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class TrainingRun:
    """One training: its material, its share of the progress, and how long each part took.

    Each part is done once, when it is first asked for, in the order of ``evaluate``.
    """

    scorer: Scorer
    training_set: TrainingSet
    report: Report
    seconds: dict[str, float] = field(default_factory=dict)
    _fits: int = 0

    def evaluate(self) -> dict[str, Metrics]:
        evaluation = {"grouped": self.grouped.metrics}
        evaluation["grouped"] |= self.weigh_by_chance()
        evaluation["grouped"]["by_seed"] = self.measure_seeds()
        evaluation["grouped"]["soft_labels"] = measure_soft_labels(
            self.grouped.predictions,
            share_levels(self.annotator_labels, self.training_set.heads, len(self.training_set.examples)),
            self.training_set.heads,
        )
        if self.left_out is not None:
            evaluation["leave_one_model_out"] = self.left_out.metrics
        if LEARNING_CURVE in self.scorer.config["evaluate"]:
            evaluation["learning_curve"] = self.measure_learning_curve()
        if self.adaptation is not None:
            evaluation["adaptation"] = self.adaptation
        return evaluation

    @cached_property
    def grouped(self) -> Evaluation:
        """Of the first seed: its predictions are the ones that are kept."""
        with self._time_part("grouped"):
            return self._evaluate_grouped(self.scorer.seed, "grouped")

    def weigh_by_chance(self) -> Metrics:
        """How the release's gold was selected, and the out-of-fold figures of all responses where that is known."""
        release, training_set = self.scorer.release, self.training_set
        by_response = list_chances(release)
        chances = [by_response.get(response) for response in training_set.responses]
        labels: Sequence[WeighedLabel] = ()
        if have_unequal_chances(chances):
            labels = list_weighed_labels(
                training_set.examples, self.grouped.predictions, training_set.heads, chances
            )
        selection = summarize_selection(find_selection(release))
        return describe_weighing(labels, training_set.heads, selection, seed=self.scorer.seed)

    def measure_seeds(self) -> Metrics:
        """The luck of the deal: the same with other folds, of which the figures alone are kept."""
        first = self.scorer.seed
        measured = {first: self.grouped.metrics}
        with self._time_part("seeds"):
            for seed in range(first + 1, first + self._seeds):
                measured[seed] = self._evaluate_grouped(seed, f"grouped-{seed}").metrics
        return compare_seeds(measured)

    def _evaluate_grouped(self, seed: int, folder: str) -> Evaluation:
        return evaluate_grouped(
            self.backbone,
            self.training_set.examples,
            self.training_set.heads,
            k=FOLDS,
            seed=seed,
            report=self._report_share(FOLDS),
            checkpoints=self.scorer.work_folder / folder,
        )

    @cached_property
    def left_out(self) -> Evaluation | None:
        """With one model left out, model by model; None where nobody asked."""
        if LEAVE_ONE_MODEL_OUT not in self.scorer.config["evaluate"]:
            return None
        with self._time_part("leave_one_model_out"):
            return evaluate_leave_one_model_out(
                self.backbone,
                self.training_set.examples,
                self.training_set.heads,
                seed=self.scorer.seed,
                report=self._report_share(self._models),
                checkpoints=self.scorer.work_folder / "leave-one-model-out",
            )

    def measure_learning_curve(self) -> Metrics:
        with self._time_part("learning_curve"):
            return learning_curve_rules.measure_learning_curve(
                self.backbone,
                self.training_set.examples,
                self.training_set.heads,
                full_evaluation=self.grouped,
                k=FOLDS,
                seed=self.scorer.seed,
                report=self._report_share(learning_curve_rules.count_fits(FOLDS)),
                checkpoints=self.scorer.work_folder / "learning-curve",
            )

    @cached_property
    def adaptation(self) -> Metrics | None:
        """What the labels of the model that it is adapted to brought."""
        if self.scorer.adapted_to is None:
            return None
        with self._time_part("adaptation"):
            return measure_adaptation(
                self.backbone,
                self.training_set.examples,
                self.training_set.heads,
                model=self.scorer.adapted_to.name,
                full_evaluation=self.grouped,
                k=FOLDS,
                seed=self.scorer.seed,
                report=self._report_share(FOLDS),
                checkpoints=self.scorer.work_folder / "adaptation",
            )

    def fit_final(self) -> FittedScorer:
        """What is kept: it learns from everything but the test split."""
        with self._time_part("final"):
            return self.backbone.fit(
                [self.training_set.examples[row] for row in self.learned],
                self.training_set.heads,
                seed=self.scorer.seed,
                report=scale_report(self._report_share(1), 0, 1, stage="final"),
                checkpoints=self.scorer.work_folder / "final",
            )

    def test_fitted(self, fitted: FittedScorer) -> tuple[dict[str, Predicted], Metrics]:
        """What the kept scorer says of the test split, by content key, and its figures there."""
        examples = [self.training_set.examples[row] for row in self.tested]
        predictions = fitted.predict(examples) if examples else []
        rates = compute_rates(
            [self.training_set.examples[row] for row in self.learned], self.training_set.heads
        )
        metrics = measure(
            examples,
            predictions,
            self.training_set.heads,
            rates=[rates] * len(examples),
            seed=self.scorer.seed,
        )
        return {
            example.content_key: prediction for example, prediction in zip(examples, predictions, strict=True)
        }, metrics

    def collect_findings(self, fitted: FittedScorer, test: Metrics) -> TrainingFindings:
        return TrainingFindings(
            training_set=self.training_set,
            fitted=fitted,
            grouped=self.grouped,
            learned=self.learned,
            tested=self.tested,
            test=test,
            baselines=self.measure_baselines(),
            drift=self.describe_drift(),
            adaptation=self.adaptation,
            seconds=self.seconds,
        )

    def measure_baselines(self) -> dict[str, Any]:
        examples, heads, seed = self.training_set.examples, self.training_set.heads, self.scorer.seed
        labels = self.annotator_labels
        with self._time_part("baselines"):
            return {
                "majority": measure_majority(examples, heads, seed=seed),
                "string_rules": measure_string_rules(examples, heads, k=FOLDS, seed=seed),
                "annotators": measure_annotators(examples, labels, heads, seed=seed),
                "between_annotators": measure_between_annotators(examples, labels, heads, seed=seed),
            }

    @cached_property
    def annotator_labels(self) -> AnnotatorLabels:
        return read_annotator_labels(self.scorer.release, self.training_set)

    def describe_drift(self) -> dict[str, Any]:
        """How different the training models are from one another, and what leaving each out cost, if measured."""
        by_model = self.grouped.metrics["by_model"]
        without = self.left_out.metrics["by_model"] if self.left_out else {}
        lost = {
            name: by_model[name]["accuracy"]["value"] - figures["accuracy"]["value"]
            for name, figures in without.items()
            if None not in {by_model[name]["accuracy"]["value"], figures["accuracy"]["value"]}
        }
        with self._time_part("drift"):
            return drift_rules.describe_models(
                self.training_set.examples,
                self.grouped.predictions,
                self.training_set.heads,
                lost=lost,
                seed=self.scorer.seed,
            )

    def build_config(self) -> dict[str, Any]:
        spec = self.scorer.spec
        settings = spec.to_json()["settings"] if spec.is_tuned else {}
        return {"folds": FOLDS, "seeds": self._seeds, "settings": settings}

    @cached_property
    def backbone(self) -> Backbone:
        """For all fits, which read the same texts."""
        return choose_backbone(self.scorer.spec, launch=settings.ASSAY_LAUNCH)

    @cached_property
    def _test_split(self) -> tuple[list[int], list[int]]:
        return split_off_test(self.training_set.examples)

    @property
    def learned(self) -> list[int]:
        return self._test_split[0]

    @property
    def tested(self) -> list[int]:
        return self._test_split[1]

    @property
    def _seeds(self) -> int:
        return int(self.scorer.config.get("seeds", 1))

    @property
    def _models(self) -> int:
        return len({example.model for example in self.training_set.examples})

    @property
    def _all_fits(self) -> int:
        evaluations = self.scorer.config["evaluate"]
        return (
            FOLDS * self._seeds
            + (self._models if LEAVE_ONE_MODEL_OUT in evaluations else 0)
            + (learning_curve_rules.count_fits(FOLDS) if LEARNING_CURVE in evaluations else 0)
            + (FOLDS if self.scorer.adapted_to is not None else 0)
            + 1
        )

    def _report_share(self, fits: int) -> Report:
        """The next ``fits`` of all the fits of this training, as a part of the whole progress."""
        start, self._fits = self._fits, self._fits + fits
        each = FITTING_SHARE / self._all_fits
        return scale_report(self.report, start * each, (start + fits) * each)

    @contextmanager
    def _time_part(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[part] = time.perf_counter() - started


@contextmanager
def _save_fitted(
    scorer: Scorer, run: TrainingRun, fitted: FittedScorer, tested: dict[str, Predicted]
) -> Iterator[Path]:
    """Written beside where weights lie: until it is registered, another worker may have the job.

    Beside the weights lie the predictions out of fold, what was learned from, and what is said of the test split.
    """
    part_folder = scorer.folder / f"{PART}{uuid4().hex}"
    part_folder.mkdir(parents=True)
    try:
        fitted.save(part_folder)
        OutOfFoldPredictions.save(part_folder, run.grouped.list_contents(run.training_set.examples))
        learned = {run.training_set.examples[row].content_key for row in run.learned}
        _write_json(part_folder / TRAINED, sorted(learned))
        _write_json(part_folder / TESTED, {key: prediction_to_json(tested[key]) for key in sorted(tested)})
        yield part_folder
    finally:
        shutil.rmtree(part_folder, ignore_errors=True)


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data), encoding="utf-8")


def _register(
    scorer: Scorer, weights: Path, training_set: TrainingSet, grouped: Evaluation, report: Report
) -> None:
    """The report inside makes sure, under the lock of the job's row, that the job is still ours.

    Only then do the weights come into place, so that a worker that lost the job replaces no registered ones.
    What lies there already was never registered.
    """
    if bucket.is_used():  # by its hash, beside whatever another worker puts there
        bucket.put_folder(weights, scorer.stored_name)
    with transaction.atomic():
        report(FitProgress("register", 0.99))
        if bucket.is_used():
            file_cache.keep(weights, scorer.weights_sha256)
        else:
            shutil.rmtree(scorer.weights_folder, ignore_errors=True)
            weights.replace(scorer.weights_folder)
        _store_predictions(scorer, training_set, grouped)
        scorer.ready_at = timezone.now()
        scorer.save(
            update_fields=["weights_sha256", "code_version", "evaluation", "config", "card", "ready_at"]
        )
        record(
            actor=scorer.created_by,
            verb=ScoringVerb.REGISTER_SCORER,
            target=f"scorer:{scorer.name}",
            weights_sha256=scorer.weights_sha256,
            release_sha256=scorer.release.sha256,
        )


def _store_predictions(scorer: Scorer, training_set: TrainingSet, grouped: Evaluation) -> None:
    builder = PredictionRowBuilder(scorer)
    predicted_examples = (training_set.responses, training_set.examples, grouped.folds, grouped.predictions)
    rows = (
        row
        for response, example, fold, predicted in zip(*predicted_examples, strict=True)
        for row in builder.list_values(response, example, predicted, fold)
    )
    constants = {"scorer_id": scorer.pk, "created_at": timezone.now()}
    while chunk := list(islice(rows, ROWS)):
        write_rows(Prediction, PREDICTION_COLUMNS, chunk, constants)
