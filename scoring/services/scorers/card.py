"""A scorer's card: everything that a reader needs to judge its figures, and to make it again."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from django.utils import timezone

from annotation.core.text_templates import render_text
from annotation.models import Job
from scoring.domain import calibration
from scoring.domain.backbone import FittedScorer
from scoring.domain.evaluation import Evaluation, Metrics, list_criteria_below_rates
from scoring.domain.evaluation.baselines import shorten_metrics
from scoring.domain.evaluation.soft_labels import LABEL
from scoring.domain.spec import Spec
from scoring.domain.training_data import (
    Example,
    Head,
    describe_folds,
    describe_heads,
    head_state,
    level_counts,
    prompt_groups,
)
from scoring.models import Scorer
from scoring.selectors.training import TrainingSet

PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "transformers",
    "accelerate",
    "peft",
    "safetensors",
    "tokenizers",
)
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
CPUINFO = Path("/proc/cpuinfo")


PROBABILITY_METRICS = (
    "n_learned",
    "log_loss",
    "commonest_log_loss",
    "log_loss_gain",
    "brier",
    "commonest_brier",
    "classwise_calibration_error",
    "level_calibration",
)
POOLED_METRICS = (
    "accuracy",
    "within_one",
    "macro_f1",
    "calibration_error",
    "log_loss",
    "commonest_log_loss",
    "log_loss_gain",
    "brier",
    "commonest_brier",
)


@dataclass(frozen=True)
class TrainingFindings:
    """What a training found: everything on the card that is not already in the scorer's row.

    ``learned`` and ``tested`` are rows of the lesson's examples; ``test`` is what the kept scorer says of the latter.
    """

    training_set: TrainingSet
    fitted: FittedScorer
    grouped: Evaluation
    learned: Sequence[int]
    tested: Sequence[int]
    test: Metrics
    baselines: Mapping[str, Any]
    drift: Mapping[str, Any]
    adaptation: Mapping[str, Any] | None
    seconds: Mapping[str, float]


def build_card(scorer: Scorer, findings: TrainingFindings) -> dict[str, Any]:
    """The card. Its first sentence says where the scorer is no better than always naming the commonest level.

    ``weights_sha256``, ``code_version``, ``config`` and ``evaluation`` are already the scorer's."""
    examples, details = findings.training_set.examples, dict(getattr(findings.fitted, "details", {}))
    return {
        "statement": describe_worth(scorer.evaluation["grouped"]),
        "below_commonest": list_criteria_below_rates(scorer.evaluation["grouped"]),
        "scorer": scorer.name,
        "backbone": {
            "name": scorer.backbone,
            "description": describe_backbone(scorer.spec, tuple(details.get("members", ()))),
        },
        "details": details,
        "release": {"name": scorer.release.name, "sha256": scorer.release.sha256},
        "guideline": {
            "name": scorer.guideline.name,
            "version": scorer.guideline.version,
            "sha256": scorer.guideline.sha256,
        },
        "responses": len(examples),
        "prompts": len(set(prompt_groups(examples))),
        "models": sorted({example.model for example in examples}),
        "labels_left_out": findings.training_set.left_out,
        "heads": _describe_heads(findings),
        **_describe_test_split(findings),
        **_collect_figures(scorer, findings),
        "baselines": dict(findings.baselines),
        "drift": dict(findings.drift),
        "adaptation": findings.adaptation,
        "weights_sha256": scorer.weights_sha256,
        "code_version": scorer.code_version,
        "versions": dict(read_versions()),
        "environment": describe_environment(),
        "seed": scorer.seed,
        "config": scorer.config,
        "curves": _read_curves(scorer),
        "seconds": {part: round(seconds, 2) for part, seconds in findings.seconds.items()},
        "trained_at": timezone.now().isoformat(timespec="seconds"),
    }


def _describe_heads(findings: TrainingFindings) -> dict[str, Any]:
    """Of each criterion the labels of the release, how many were ``learned``, and what that let the scorer learn."""
    examples, heads = findings.training_set.examples, findings.training_set.heads
    described = describe_heads(examples, heads)
    learned = [examples[row] for row in findings.learned]
    return {head.criterion: described[head.criterion] | _describe_learning(learned, head) for head in heads}


def _describe_learning(learned: Sequence[Example], head: Head) -> dict[str, Any]:
    counts = level_counts(learned, head)
    return {"measurement": head.measurement, "state": head_state(counts), "learned": sum(counts.values())}


def _describe_test_split(findings: TrainingFindings) -> dict[str, Any]:
    """``held_out`` responses of the test split were not learned from; 0 where a release is too small for any."""
    return {
        "learned_from": len(findings.learned),
        "held_out": len(findings.tested),
        "test": {
            **shorten_metrics(findings.test),
            "prompts": len({findings.training_set.examples[row].prompt_key for row in findings.tested}),
            "calibration_error": findings.test["calibration_error"],
        },
    }


def _collect_figures(scorer: Scorer, findings: TrainingFindings) -> dict[str, Any]:
    grouped, examples, heads = findings.grouped, findings.training_set.examples, findings.training_set.heads
    sizes = [grouped.folds.count(fold) for fold in range(max(grouped.folds) + 1)]
    metrics = scorer.evaluation["grouped"]
    return {
        "split": {
            "by": "prompt",
            "folds": len(sizes),
            "sizes": sizes,
            "by_fold": describe_folds(examples, grouped.folds),
            "seed": scorer.seed,
        },
        **{name: metrics[name] for name in POOLED_METRICS},
        "probabilities": {
            name: {figure: figures[figure] for figure in PROBABILITY_METRICS}
            for name, figures in metrics["by_criterion"].items()
        },
        "target": scorer.config.get("target", LABEL),
        "soft_labels": metrics["soft_labels"],
        "seeds": metrics["by_seed"],
        "reliability": metrics["reliability"],
        "risk_coverage": metrics["risk_coverage"],
        "conformal": {
            "promise": calibration.PROMISE,
            "models": sorted({example.model for example in examples}),
            "criteria": calibration.compute_thresholds(examples, grouped.predictions, heads),
        },
        "learning_curve": scorer.evaluation.get("learning_curve"),
    }


def _read_curves(scorer: Scorer) -> list[dict[str, Any]]:
    """The losses and metrics that the job's row has told."""
    history: list[dict[str, Any]] = []
    if scorer.job_id is not None:
        history = Job.objects.values_list("history", flat=True).get(pk=scorer.job_id)
    return history


def describe_backbone(spec: Spec, members: Sequence[str] = ()) -> str:
    """For a card: what was really used, so that nobody takes the embedded default for a language model, nor an ensemble
    for the encoder that it left out. ``members`` are those that an ensemble's fit gave weight.
    """
    return render_text("scoring/wording/backbone.txt", spec=spec, members=members)


def describe_worth(metrics: Metrics) -> str:
    """For a card: whether the scorer is better than always naming the commonest level, criterion by criterion."""
    below = list_criteria_below_rates(metrics)
    rows = [(name, metrics["by_criterion"][name]) for name in below]
    measured = any(figures["commonest_log_loss"] for figures in metrics["by_criterion"].values())
    return render_text("scoring/wording/worth.txt", below=rows, measured=measured)


@cache
def read_versions() -> Mapping[str, str]:
    """Read once in a process: a package's description is a file of many pages."""
    by_package = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            by_package[package] = version(package)
        except PackageNotFoundError:
            continue
    return MappingProxyType(by_package)


def describe_environment() -> dict[str, Any]:
    """Where it was trained: what figures of seconds, and the last digits of weights, depend on."""
    torch = sys.modules.get("torch")
    return {
        "system": platform.platform(),
        "machine": platform.machine(),
        "processor": _read_processor(),
        "processors": os.cpu_count(),
        "threads": {name: os.environ[name] for name in THREADS if name in os.environ},
        "torch_threads": torch.get_num_threads() if torch else None,
        "accelerator": torch.cuda.get_device_name(0) if torch and torch.cuda.is_available() else None,
    }


def _read_processor() -> str:
    """Linux tells the model in a file alone."""
    if CPUINFO.is_file():
        for line in CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
