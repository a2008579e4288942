"""The ensemble: a calibrated average of what the other backbones say, its weights chosen on inner folds.

Members are the embedded n-grams and, where the specification names an encoder, that encoder: frozen, or tuned. The
folds are by prompt and by model, each kind counting the same, so that the average is good on new prompts and on a
model that nobody labelled. An encoder that does not lower the log loss on both is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from scoring.backbones import embedding, ngram, patterns
from scoring.backbones.choices import (
    IMPOSSIBLE,
    HeadChoice,
    HeadLabels,
    LabelledLogs,
    Logs,
    calibration_to_json,
    choose_form,
)
from scoring.backbones.folder import card_heads, read_card, write_card
from scoring.backbones.linear import (
    CrossfitMaterial,
    Recipe,
    crossfit,
    inner_splits,
    list_folds,
    list_forms,
)
from scoring.domain.backbone import Backbone, FitProgress, FittedScorer, Report, ignore_progress, scale_report
from scoring.domain.calibration import Calibration, average, fit_calibration, fit_weights, log_loss
from scoring.domain.evaluation import predict_split
from scoring.domain.spec import Spec
from scoring.domain.training_data import (
    DataSplit,
    Example,
    Head,
    Prediction,
    check_examples,
    splits_by_model,
)
from scoring.inference.ensemble import mix_predictions
from scoring.inference.ngram import Doubles

KIND = "ensemble"
MODEL_FOLDS = 5

SplitsByKind = Mapping[str, Sequence[DataSplit]]
"""By kind of fold (``prompt``, then ``model``) the inner splits of the given examples."""
TrialLogs = dict[str, Logs]
"""By kind of fold, calibrated log probabilities."""


class EnsembleMember(Protocol):
    """A backbone that can be tried on folds."""

    @property
    def name(self) -> str: ...

    @property
    def backbone(self) -> Backbone: ...

    def try_folds(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        kinds: SplitsByKind,
        *,
        seed: int,
        report: Report,
        checkpoints: Path | None = None,
    ) -> TrialLogs: ...


@dataclass(frozen=True)
class SimpleMember:
    """Tried without inner folds of its own: its forms and temperatures are chosen on the first kind of folds."""

    name: str
    backbone: Backbone
    recipe: Recipe

    def try_folds(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        kinds: SplitsByKind,
        *,
        seed: int,
        report: Report,
        checkpoints: Path | None = None,
    ) -> TrialLogs:
        material = CrossfitMaterial.collect(self.recipe, examples, heads)
        forms = {labels.head.criterion: list_forms(self.recipe, labels) for labels in material.labels}
        choices: dict[str, HeadChoice] = {}
        result: TrialLogs = {}
        for i, (kind, splits) in enumerate(kinds.items()):
            part = scale_report(report, i / len(kinds), (i + 1) / len(kinds))
            logs_by_form = crossfit(self.recipe, material, splits, forms=forms, seed=seed, report=part)
            folds = list_folds(examples, splits)
            choices = choices or {
                labels.head.criterion: choose_form(labels, logs_by_form, folds, self.recipe.balance)
                for labels in material.labels
            }
            forms = {name: (choice.form,) for name, choice in choices.items()}
            result[kind] = {
                name: _calibrate_predicted(choice, logs_by_form[choice.form][name])
                for name, choice in choices.items()
                if name in logs_by_form.get(choice.form, {})
            }
        return result


def _calibrate_predicted(choice: HeadChoice, logs: Doubles) -> Doubles:
    """Rows that were not predicted stay NaN."""
    calibrated = np.full_like(logs, np.nan)
    predicted = ~np.isnan(logs).any(axis=1)
    calibrated[predicted] = choice.calibration.apply(logs[predicted])
    return calibrated


@dataclass(frozen=True)
class FittedMember:
    """Tried by fitting it whole, its own calibration included: what a tuned transformer needs.

    What each fit predicts is kept, and until then its checkpoints: none is done twice.
    """

    name: str
    backbone: Backbone

    def try_folds(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        kinds: SplitsByKind,
        *,
        seed: int,
        report: Report,
        checkpoints: Path | None = None,
    ) -> TrialLogs:
        rounds = [(kind, split) for kind, splits in kinds.items() for split in splits]
        result: TrialLogs = {kind: {} for kind in kinds}
        for i, (kind, split) in enumerate(rounds):
            part = scale_report(report, i / len(rounds), (i + 1) / len(rounds))
            folder = checkpoints / f"{i}" if checkpoints else None
            predictions = predict_split(
                self.backbone, examples, heads, split, seed=seed, report=part, checkpoints=folder
            )
            for head in heads:
                if predictions and head.criterion in predictions[0]:
                    blank = np.full((len(examples), len(head.values)), np.nan)
                    logs = result[kind].setdefault(head.criterion, blank)
                    logs[list(split.test)] = to_logs(predictions, head)
        return result


def to_logs(predictions: Sequence[Prediction], head: Head) -> Doubles:
    rows = [[prediction[head.criterion][value] for value in head.values] for prediction in predictions]
    result: Doubles = np.log(np.maximum(np.array(rows).reshape(-1, len(head.values)), IMPOSSIBLE))
    return result


def build_members(spec: Spec, launch: str = "") -> list[EnsembleMember]:
    """``launch`` is the command by which an encoder is tuned; none, and it is in this process."""
    of_runs = ngram.NgramBackbone()
    members: list[EnsembleMember] = [
        SimpleMember(ngram.KIND, of_runs, of_runs.recipe),
        SimpleMember(patterns.KIND, patterns.PatternsBackbone(), patterns.TreeRecipe()),
    ]
    if not spec.encoder:
        return members
    encoder_spec = replace(spec, kind="encoder")
    if not spec.is_tuned:
        return [
            *members,
            SimpleMember(
                "encoder", embedding.EmbeddingBackbone(encoder_spec), embedding.recipe(encoder_spec)
            ),
        ]
    from scoring.backbones.transformer.backbone import TransformerBackbone

    return [*members, FittedMember("encoder", TransformerBackbone(encoder_spec, launch))]


UNCALIBRATED = Calibration(1.0, ())


@dataclass(frozen=True)
class Mixture:
    """How one criterion's members are averaged. ``losses`` are log losses on the inner folds, by what was averaged."""

    weights: Mapping[str, float]
    calibration: Calibration = UNCALIBRATED
    losses: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def to_card(self) -> dict[str, Any]:
        """What predicts."""
        return {
            "weights": dict(self.weights),
            "temperature": self.calibration.temperature,
            "offsets": list(self.calibration.offsets),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "weights": dict(self.weights),
            "inner_log_loss": {kind: dict(losses) for kind, losses in self.losses.items()},
            **calibration_to_json(self.calibration),
        }


Trial = Mapping[str, Mapping[str, Logs]]
"""By kind of fold (``prompt``, ``model``) and by member."""


def fit_mixture(
    labels: HeadLabels,
    trial: Trial,
    names: Sequence[str],
    folds: npt.NDArray[np.int64] | None = None,
) -> Mixture:
    """Weights of one criterion. One by one, a member after the first is let in where the average with it has a lower
    log loss than without it on every kind of folds.

    The members are calibrated, so their average is about at the rates; ``folds`` (examples,), by prompt, are those on
    which its own calibration is chosen.
    """
    kinds = {kind: _stack_common_logs(labels, by_member, names) for kind, by_member in trial.items()}
    kinds = {kind: common_logs for kind, common_logs in kinds.items() if len(common_logs.targets)}
    if not kinds:
        return Mixture({name: float(i == 0) for i, name in enumerate(names)})
    weights = [float(i == 0) for i in range(len(names))]
    losses = {kind: _compute_losses(common_logs, names, weights) for kind, common_logs in kinds.items()}
    for i in range(1, len(names)):
        open_to = [weight > 0 or place == i for place, weight in enumerate(weights)]
        wider = _fit_open_weights(list(kinds.values()), open_to)
        lower = {kind: _compute_losses(common_logs, names, wider) for kind, common_logs in kinds.items()}
        if all(lower[kind][KIND] < losses[kind][KIND] for kind in kinds):
            weights, losses = wider, lower
    rows = np.concatenate([common_logs.rows for common_logs in kinds.values()])
    counts = labels.count_targets()
    mixed = LabelledLogs(
        rows,
        np.vstack([average(common_logs.logs, weights) for common_logs in kinds.values()]),
        np.concatenate([common_logs.targets for common_logs in kinds.values()]),
    )
    mixed, copies = labels.spread_targets(mixed)
    calibration = fit_calibration(
        mixed.logs,
        mixed.targets,
        np.zeros(len(mixed.rows), np.int64) if folds is None else folds[mixed.rows],
        copies=copies,
        learned_shares=counts / counts.sum(),
        rates=counts / counts.sum(),
    )
    return Mixture(dict(zip(names, weights, strict=True)), calibration, losses)


@dataclass(frozen=True)
class CommonLogs:
    """Each member's log probabilities of the ``rows`` that all of them predicted, and what is right."""

    rows: npt.NDArray[np.int64]
    logs: list[Doubles]
    targets: npt.NDArray[np.int64]


def _stack_common_logs(labels: HeadLabels, tried: Mapping[str, Logs], names: Sequence[str]) -> CommonLogs:
    criterion = labels.head.criterion
    if any(criterion not in tried[name] for name in names):
        no_rows = np.zeros(0, np.int64)
        return CommonLogs(no_rows, [], no_rows)
    side_by_side = np.hstack([tried[name][criterion] for name in names])
    labelled = labels.select_labelled(side_by_side)
    return CommonLogs(labelled.rows, np.hsplit(labelled.logs, len(names)), labelled.targets)


def _fit_open_weights(kinds: Sequence[CommonLogs], open_to: Sequence[bool]) -> list[float]:
    """Of the members that it is open to. Folds by prompt and by model count the same, however many rows each has."""
    members = [i for i, is_open in enumerate(open_to) if is_open]
    logs = [np.vstack([common_logs.logs[i] for common_logs in kinds]) for i in members]
    targets = np.concatenate([common_logs.targets for common_logs in kinds])
    importance = np.concatenate([np.full(len(each.targets), 1 / len(each.targets)) for each in kinds])
    weights = dict(zip(members, fit_weights(logs, targets, importance), strict=True))
    return [weights.get(i, 0.0) for i in range(len(open_to))]


def _compute_losses(
    common_logs: CommonLogs, names: Sequence[str], weights: Sequence[float]
) -> dict[str, float]:
    logs, targets = common_logs.logs, common_logs.targets
    by_member = {name: log_loss(member_logs, targets) for name, member_logs in zip(names, logs, strict=True)}
    losses = {**by_member, KIND: log_loss(average(logs, weights), targets)}
    return {name: round(loss, 5) for name, loss in losses.items()}


def list_model_splits(examples: Sequence[Example]) -> list[DataSplit]:
    """Each model left out, of many the ones with most labels; none where there is but one."""
    labelled = Counter(example.model for example in examples if example.labels)
    if len(labelled) < 2:
        return []
    held_out_models = {
        name for name, _n in sorted(labelled.items(), key=lambda item: (-item[1], item[0]))[:MODEL_FOLDS]
    }
    return [split for split in splits_by_model(examples) if split.name in held_out_models]


@dataclass(frozen=True)
class FittedEnsembleScorer:
    """Fitted members by name, and how each criterion averages them."""

    heads: tuple[Head, ...]
    members: Mapping[str, FittedScorer]
    mixtures: Mapping[str, Mixture]
    backbone: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, examples: Sequence[Example], *, report: Report = ignore_progress) -> list[Prediction]:
        member_predictions: dict[str, Sequence[Prediction]] = {}
        for i, (name, member) in enumerate(self.members.items()):
            part = scale_report(report, i / len(self.members), (i + 1) / len(self.members))
            member_predictions[name] = list(member.predict(examples, report=part))
        scales = {head.criterion: head.values for head in self.heads}
        mixtures = {name: mixture.to_card() for name, mixture in self.mixtures.items()}
        return mix_predictions(scales, mixtures, member_predictions, len(examples))

    def save(self, folder: Path) -> None:
        write_card(
            folder,
            kind=KIND,
            backbone=self.backbone,
            heads=self.heads,
            members=list(self.members),
            mixtures={name: mixture.to_card() for name, mixture in self.mixtures.items()},
            details=self.details,
        )
        for name, member in self.members.items():
            member.save(folder / name)

    @classmethod
    def load(cls, folder: Path, load_member: Callable[[Path], FittedScorer]) -> FittedEnsembleScorer:
        """``load_member`` reads a member's folder, of whatever kind it is."""
        card = read_card(folder)
        mixtures = {
            name: Mixture(
                mixture["weights"], Calibration(mixture["temperature"], tuple(mixture.get("offsets", ())))
            )
            for name, mixture in card["mixtures"].items()
        }
        members = {name: load_member(folder / name) for name in card["members"]}
        return cls(card_heads(card), members, mixtures, card["backbone"], card["details"])


@dataclass(frozen=True)
class EnsembleBackbone:
    """Members tried on inner folds, weighed, then each fitted to all examples."""

    spec: Spec
    launch: str = ""

    @property
    def name(self) -> str:
        return self.spec.title

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = ignore_progress,
        checkpoints: Path | None = None,
    ) -> FittedEnsembleScorer:
        check_examples(examples, heads)
        report(FitProgress("read", 0.0))
        members = build_members(self.spec, self.launch)
        trying = scale_report(report, 0, 0.7)
        trial = _try_members(members, examples, heads, seed=seed, report=trying, checkpoints=checkpoints)
        names = [member.name for member in members]
        folds = list_folds(examples, inner_splits(examples, seed))
        mixtures = {
            labels.head.criterion: fit_mixture(labels, trial, names, folds)
            for labels in HeadLabels.collect(examples, heads)
        }
        used = [m for m in members if any(mixture.weights[m.name] > 0 for mixture in mixtures.values())]
        fitted: dict[str, FittedScorer] = {}
        for i, member in enumerate(used):
            part = scale_report(report, 0.7 + 0.3 * i / len(used), 0.7 + 0.3 * (i + 1) / len(used))
            folder = checkpoints / member.name if checkpoints else None
            fitted[member.name] = member.backbone.fit(
                examples, heads, seed=seed, report=part, checkpoints=folder
            )
        details = {
            "criteria": {name: mixture.to_json() for name, mixture in mixtures.items()},
            "members": {name: getattr(member, "details", {}) for name, member in fitted.items()},
        }
        return FittedEnsembleScorer(tuple(heads), fitted, mixtures, self.name, details)


def _try_members(
    members: Sequence[EnsembleMember],
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    seed: int,
    report: Report,
    checkpoints: Path | None,
) -> Trial:
    """Nothing is tried where there is nothing to choose between."""
    if len(members) < 2:
        return {}
    kinds = {"prompt": inner_splits(examples, seed), "model": list_model_splits(examples)}
    kinds = {kind: splits for kind, splits in kinds.items() if splits}
    trial: dict[str, dict[str, Logs]] = {kind: {} for kind in kinds}
    for i, member in enumerate(members):
        part = scale_report(report, i / len(members), (i + 1) / len(members))
        folder = checkpoints / f"{member.name}-tried" if checkpoints else None
        tried = member.try_folds(examples, heads, kinds, seed=seed, report=part, checkpoints=folder)
        for kind, logs in tried.items():
            trial[kind][member.name] = logs
    return trial
