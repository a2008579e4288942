"""From a release to a registered scorer: what the training job does.

Resumable: each fold's predictions and the checkpoints lie in the scorer's ``work`` folder until the scorer is
registered, so that a worker that takes over goes on where the last one died, to the same weights.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.utils import timezone

from annotation.services.audit import record
from annotation.version import code_version
from scoring.backbones import EMBEDDED, TransformerBackbone, choose
from scoring.baselines import annotators, between_annotators, brief, majority
from scoring.dataset import describe_heads, prompt_groups
from scoring.evaluation import Evaluation, evaluate_grouped, evaluate_leave_one_model_out
from scoring.interface import Backbone, FittedScorer, Progress, Report, silent, within
from scoring.models import Prediction, Scorer
from scoring.saved import fingerprint
from scoring.selectors.lessons import Lesson, annotations_behind, lesson_of
from scoring.services.outoffold import OutOfFold, PredictionRows
from scoring.services.scorers import LEAVE_ONE_MODEL_OUT

FOLDS = 5
FITTED = 0.96
"""The share of the work that is fitting; the rest is measuring and registering."""
PACKAGES = ("numpy", "scikit-learn", "torch", "transformers")
ROWS = 500
PART = "part-"


def train(*, scorer: Scorer, report: Report = silent) -> Scorer:
    """Evaluate, train on everything, and register: predictions, weights, card and ``ready_at`` in one step.

    A scorer that is ready is left as it is. Whatever happens before the end leaves nothing that counts.
    """
    if scorer.is_ready:
        give_up(scorer=scorer)  # the worker that registered it died before it had tidied up
        return scorer
    report(Progress("read", 0.0))
    course = _Course(scorer, lesson_of(scorer.release, scorer.guideline), report)
    grouped = course.grouped()
    evaluation = {"grouped": grouped.metrics}
    if LEAVE_ONE_MODEL_OUT in scorer.config["evaluate"]:
        evaluation["leave_one_model_out"] = course.leave_one_model_out().metrics
    fitted = course.final()
    report(Progress("compare", FITTED))
    baselines = course.baselines()
    out_of_fold = OutOfFold(grouped.by_content(course.lesson.examples))
    with _saved(scorer, fitted, out_of_fold) as weights:
        scorer.weights_sha256 = fingerprint(weights)
        scorer.code_version = code_version()
        scorer.evaluation = evaluation
        scorer.config |= course.config()
        scorer.card = course.card(grouped, baselines)
        _register(scorer, weights, course.lesson, grouped, report)
    give_up(scorer=scorer)
    return scorer


def give_up(*, scorer: Scorer) -> None:
    """Remove what was kept for resuming; for a training that is over, well or badly."""
    for folder in (scorer.work_folder, *scorer.folder.glob(f"{PART}*")):
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _Course:
    """One training: its material, its share of the progress, and how long each part took."""

    scorer: Scorer
    lesson: Lesson
    report: Report
    seconds: dict[str, float] = field(default_factory=dict)
    _fits: int = 0

    @property
    def backbone(self) -> Backbone:
        return choose(self.scorer.backbone)

    def grouped(self) -> Evaluation:
        with self._timed("grouped"):
            return evaluate_grouped(
                self.backbone,
                self.lesson.examples,
                self.lesson.heads,
                k=FOLDS,
                seed=self.scorer.seed,
                report=self._share(FOLDS),
                checkpoints=self.scorer.work_folder / "grouped",
            )

    def leave_one_model_out(self) -> Evaluation:
        with self._timed("leave_one_model_out"):
            return evaluate_leave_one_model_out(
                self.backbone,
                self.lesson.examples,
                self.lesson.heads,
                seed=self.scorer.seed,
                report=self._share(self._models),
                checkpoints=self.scorer.work_folder / "leave-one-model-out",
            )

    def final(self) -> FittedScorer:
        with self._timed("final"):
            return self.backbone.fit(
                self.lesson.examples,
                self.lesson.heads,
                seed=self.scorer.seed,
                report=within(self._share(1), 0, 1, stage="final"),
                checkpoints=self.scorer.work_folder / "final",
            )

    def baselines(self) -> dict[str, Any]:
        examples, heads, seed = self.lesson.examples, self.lesson.heads, self.scorer.seed
        behind = annotations_behind(self.scorer.release, heads)
        said = [behind.get(response, []) for response in self.lesson.responses]
        with self._timed("baselines"):
            return {
                "majority": brief(majority(examples, heads, seed=seed)),
                "annotators": brief(annotators(examples, said, heads, seed=seed)),
                "between_annotators": brief(between_annotators(examples, said, heads, seed=seed)),
            }

    def config(self) -> dict[str, Any]:
        backbone = self.backbone
        settings = asdict(backbone.settings) if isinstance(backbone, TransformerBackbone) else {}
        return {"folds": FOLDS, "settings": settings}

    def card(self, grouped: Evaluation, baselines: dict[str, Any]) -> dict[str, Any]:
        scorer, examples = self.scorer, self.lesson.examples
        return {
            "scorer": scorer.name,
            "backbone": {"name": scorer.backbone, "description": describe_backbone(scorer.backbone)},
            "release": {"name": scorer.release.name, "sha256": scorer.release.sha256},
            "guideline": {
                "name": scorer.guideline.name,
                "version": scorer.guideline.version,
                "sha256": scorer.guideline.sha256,
            },
            "responses": len(examples),
            "prompts": len(set(prompt_groups(examples))),
            "models": sorted({example.model for example in examples}),
            "labels_left_out": self.lesson.left_out,
            "heads": self._heads(),
            "split": self._split(grouped),
            "accuracy": grouped.metrics["accuracy"],
            "macro_f1": grouped.metrics["macro_f1"],
            "calibration_error": grouped.metrics["calibration_error"],
            "baselines": baselines,
            "weights_sha256": scorer.weights_sha256,
            "code_version": scorer.code_version,
            "versions": _versions(),
            "seed": scorer.seed,
            "config": scorer.config,
            "seconds": {part: round(seconds, 2) for part, seconds in self.seconds.items()},
            "trained_at": timezone.now().isoformat(timespec="seconds"),
        }

    def _heads(self) -> dict[str, Any]:
        described = describe_heads(self.lesson.examples, self.lesson.heads)
        return {
            head.criterion: {"measurement": head.measurement} | described[head.criterion]
            for head in self.lesson.heads
        }

    def _split(self, grouped: Evaluation) -> dict[str, Any]:
        sizes = [grouped.folds.count(fold) for fold in range(max(grouped.folds) + 1)]
        return {"by": "prompt", "folds": len(sizes), "sizes": sizes, "seed": self.scorer.seed}

    @property
    def _models(self) -> int:
        return len({example.model for example in self.lesson.examples})

    @property
    def _all_fits(self) -> int:
        left_out = self._models if LEAVE_ONE_MODEL_OUT in self.scorer.config["evaluate"] else 0
        return FOLDS + left_out + 1

    def _share(self, fits: int) -> Report:
        """The next ``fits`` of all the fits of this training, as a part of the whole progress."""
        start, self._fits = self._fits, self._fits + fits
        each = FITTED / self._all_fits
        return within(self.report, start * each, (start + fits) * each)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[part] = time.perf_counter() - started


def describe_backbone(name: str) -> str:
    """For a card: what was really used, so that nobody takes the embedded default for a language model."""
    if name == EMBEDDED:
        return "char-ngram: no pretrained weights; logistic regression on character n-grams"
    return f"{name}: a pretrained transformer, fine-tuned"


def _versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def _saved(scorer: Scorer, fitted: FittedScorer, out_of_fold: OutOfFold) -> Iterator[Path]:
    """Written beside where weights lie: until it is registered, another worker may have the job."""
    beside = scorer.folder / f"{PART}{uuid4().hex}"
    beside.mkdir(parents=True)
    try:
        fitted.save(beside)
        out_of_fold.save(beside)
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _register(scorer: Scorer, weights: Path, lesson: Lesson, grouped: Evaluation, report: Report) -> None:
    """The report inside makes sure, under the lock of the job's row, that the job is still ours.

    Only then do the weights come into place, so that a worker that lost the job replaces no registered ones.
    What lies there already was never registered.
    """
    with transaction.atomic():
        report(Progress("register", 0.99))
        shutil.rmtree(scorer.weights_folder, ignore_errors=True)
        weights.replace(scorer.weights_folder)
        _store_predictions(scorer, lesson, grouped)
        scorer.ready_at = timezone.now()
        scorer.save(
            update_fields=["weights_sha256", "code_version", "evaluation", "config", "card", "ready_at"]
        )
        record(
            actor=scorer.created_by,
            verb="register_scorer",
            target=f"scorer:{scorer.name}",
            weights_sha256=scorer.weights_sha256,
            release_sha256=scorer.release.sha256,
        )


def _store_predictions(scorer: Scorer, lesson: Lesson, grouped: Evaluation) -> None:
    rows = PredictionRows(scorer)
    found: list[Prediction] = []
    for response, example, fold, predicted in zip(
        lesson.responses, lesson.examples, grouped.folds, grouped.predictions, strict=True
    ):
        found += rows.of(response, example.dimension, predicted, fold)
    Prediction.objects.bulk_create(found, batch_size=ROWS)
