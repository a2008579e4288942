"""Heads over a matrix of features: fitted, tried on inner folds, calibrated. Of every backbone but tuned ones.

Each head is fitted in each form its scale allows, on a few folds by prompt of the given examples; the form with the
least log loss there is kept, and the calibration that fits there. Levels weigh by their rarity while a head learns, so
that a rare one is found at all; the calibration then brings its probabilities back to the rate of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from scoring.backbones.choices import (
    IMPOSSIBLE,
    HeadChoice,
    HeadLabels,
    Logs,
    Rows,
    Targets,
    choose_form,
    weigh_levels,
)
from scoring.domain.backbone import FitProgress, Report, ignore_progress, scale_report
from scoring.domain.tables import NO_LABEL, PredictionTable
from scoring.domain.threads import one_thread
from scoring.domain.training_data import (
    DataSplit,
    Example,
    Head,
    Prediction,
    prompt_groups,
    splits_by_prompt,
)
from scoring.inference.ngram import AnyHead, Doubles, Floats, Form, LinearHead, Pair

INNER_FOLDS = 3


class FeatureExtractor(Protocol):
    """What turns examples into rows of a matrix."""

    @property
    def width(self) -> int:
        """How many features there are."""

    def extract_further(self, examples: Sequence[Example]) -> Any:
        """(examples, features)"""


class GatheredRows(Protocol):
    """Some examples of a corpus, read once for the features that each fold learned."""

    def weigh(self, features: Any, places: Rows) -> Any:
        """A row for each of these places among the examples. Its columns may be other than all features."""

    def widen(self, features: Any, head: Any) -> Any:
        """A head that learned from such rows, for rows of all features."""


class Corpus(Protocol):
    """The texts of examples, which were read once however many folds learn from them."""

    def learn(self, rows: Rows) -> FeatureExtractor:
        """Features learned from these examples."""

    def gather(self, rows: Rows) -> GatheredRows: ...


@dataclass(frozen=True)
class DenseRows:
    """Rows of features that are the same whatever they are learned from."""

    matrix: npt.NDArray[Any]

    def weigh(self, features: Any, places: Rows) -> npt.NDArray[Any]:
        return self.matrix[places]

    def widen(self, features: Any, head: Any) -> Any:
        return head


@dataclass(frozen=True)
class HeadTask:
    """What one head has to learn: rows of features, the place of each label among the levels seen, its weight.

    A response of which people said several levels has a row for each, of the ``amount`` that said so: 1 of a label.
    """

    head: Head
    seen: tuple[int, ...]
    matrix: Any
    targets: npt.NDArray[np.int64]
    importance: Doubles
    amounts: Doubles
    has_features: bool = True

    @property
    def shares(self) -> Doubles:
        """How often each level was given."""
        counts = np.bincount(self.targets, weights=self.amounts, minlength=len(self.seen))
        result: Doubles = counts / self.amounts.sum()
        return result

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to tell, or nothing to tell it by: then the shares are all there is to say."""
        return len(self.seen) < 2 or not self.has_features


class Recipe(Protocol):
    """How a kind of scorer is made. ``balance`` is the power of the inverse frequency of its level that a label
    weighs: 0 as they come, 1 every level the same. ``forms`` are those it can be fitted in."""

    @property
    def balance(self) -> float: ...

    @property
    def forms(self) -> tuple[Form, ...]: ...

    def read(self, examples: Sequence[Example]) -> Corpus: ...

    def fit(self, task: HeadTask, form: Form, seed: int) -> AnyHead: ...


Read = Callable[[Sequence[Example]], Corpus]


@dataclass(frozen=True)
class LinearRecipe:
    """Logistic regression, ridge-regularised: a larger ``regularisation`` (scikit-learn's C) fits closer."""

    reads: Read
    regularisation: float
    balance: float = 1.0
    forms: tuple[Form, ...] = ("multinomial", "cumulative")

    def read(self, examples: Sequence[Example]) -> Corpus:
        return self.reads(examples)

    def fit(self, task: HeadTask, form: Form, seed: int) -> LinearHead:
        weights: npt.NDArray[Any]
        bias: npt.NDArray[Any]
        if task.is_plain:
            form = "multinomial"
            weights = np.zeros((task.matrix.shape[1], len(task.seen)), np.float32)
            bias = np.log(task.shares).astype(np.float32)
        elif form == "cumulative":
            steps = range(len(task.seen) - 1)
            parts = [self._regress(task, (task.targets > step).astype(np.int64), seed) for step in steps]
            weights = np.hstack([weight for weight, _bias in parts])
            bias = np.concatenate([intercept for _weight, intercept in parts])
        else:
            weights, bias = self._regress(task, task.targets, seed)
            if len(bias) == 1:  # scikit-learn keeps one column, for the second of two classes
                weights, bias = np.hstack([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
        arrays = (np.ascontiguousarray(weights, np.float32), np.asarray(bias, np.float32))
        return LinearHead(task.head.criterion, task.head.values, task.seen, *arrays, form)

    def _regress(self, task: HeadTask, targets: npt.NDArray[np.int64], seed: int) -> tuple[Floats, Floats]:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=self.regularisation, max_iter=1000, tol=1e-3, random_state=seed)
        with one_thread():
            model.fit(task.matrix, targets, sample_weight=task.importance)
        return model.coef_.T.astype(np.float32), model.intercept_.astype(np.float32)


def list_forms(recipe: Recipe, labels: HeadLabels) -> tuple[Form, ...]:
    """An order matters from three levels on."""
    levels = np.unique(labels.places[labels.places != NO_LABEL])
    ordered = labels.head.measurement != "nominal" and len(levels) > 2
    return recipe.forms if ordered else recipe.forms[:1]


class LearnedRows:
    """Gathered examples, weighed by features. What was asked for last is kept: every form of a head reads the same
    rows, as do heads that have labels of the same examples."""

    def __init__(self, rows: Rows, gathered: GatheredRows, features: FeatureExtractor) -> None:
        self._rows, self._gathered, self.features = rows, gathered, features
        self._last: tuple[Rows, Any] | None = None

    def select(self, rows: Rows) -> Any:
        """A row for each of these examples, which are among the gathered ones."""
        if self._last is None or not np.array_equal(self._last[0], rows):
            self._last = None  # the next matrix is not built beside it
            self._last = (rows, self._gathered.weigh(self.features, np.searchsorted(self._rows, rows)))
        return self._last[1]


def fit_head(
    recipe: Recipe, head: Head, learned: LearnedRows, targets: Targets, *, form: Form, seed: int
) -> AnyHead | None:
    """Over the columns of ``learned``. None where there is no label."""
    if not len(targets.rows):
        return None
    amounts = targets.amounts
    seen, places = np.unique(targets.positions, return_inverse=True)
    weight = weigh_levels(np.bincount(places, weights=amounts), recipe.balance)
    importance = weight[places] * amounts
    importance = importance / importance.mean() * (amounts.sum() / len(amounts))
    matrix, has_features = learned.select(targets.rows), learned.features.width > 0
    task = HeadTask(head, tuple(seen.tolist()), matrix, places, importance, amounts, has_features)
    return recipe.fit(task, form, seed)


@dataclass(frozen=True)
class LearnedFold:
    """A fold, and the features that its learning side teaches."""

    is_learned: npt.NDArray[np.bool_]
    is_tested: npt.NDArray[np.bool_]
    features: FeatureExtractor


@dataclass(frozen=True)
class CrossfitMaterial:
    """What folds learn from and are tried on: the texts of the examples, and what they say of each head."""

    size: int
    corpus: Corpus
    labels: Sequence[HeadLabels]

    @classmethod
    def collect(cls, recipe: Recipe, examples: Sequence[Example], heads: Sequence[Head]) -> CrossfitMaterial:
        return cls(len(examples), recipe.read(examples), HeadLabels.collect(examples, heads))

    def learn_folds(self, splits: Sequence[DataSplit]) -> list[LearnedFold]:
        """Those from which there is something to learn."""
        folds = []
        for split in splits:
            is_learned, is_tested = self._mark(split.train), self._mark(split.test)
            if any(is_learned[labels.targets.rows].any() for labels in self.labels):
                features = self.corpus.learn(np.array(split.train, np.int64))
                folds.append(LearnedFold(is_learned, is_tested, features))
        return folds

    def _mark(self, rows: Sequence[int]) -> npt.NDArray[np.bool_]:
        is_marked = np.zeros(self.size, np.bool_)
        is_marked[list(rows)] = True
        return is_marked

    def group_heads(self) -> list[HeadGroup]:
        groups: dict[bytes, HeadGroup] = {}
        for labels in self.labels:
            rows = labels.targets.list_examples()
            groups.setdefault(rows.tobytes(), HeadGroup(rows, [])).labels.append(labels)
        return list(groups.values())


@dataclass(frozen=True)
class HeadGroup:
    """Heads that have labels of the same examples: what is gathered of these serves all of them."""

    rows: Rows
    labels: list[HeadLabels]


def inner_splits(examples: Sequence[Example], seed: int) -> list[DataSplit]:
    """A few folds by prompt; none where all responses are to one prompt."""
    labelled = {group for group, e in zip(prompt_groups(examples), examples, strict=True) if e.labels}
    return splits_by_prompt(examples, k=INNER_FOLDS, seed=seed) if len(labelled) > 1 else []


def crossfit(
    recipe: Recipe,
    material: CrossfitMaterial,
    splits: Sequence[DataSplit],
    *,
    forms: Mapping[str, Sequence[Form]],
    seed: int,
    report: Report = ignore_progress,
) -> dict[Form, Logs]:
    """Predictions of the labelled responses of each split's test side by what was learned from the other, in every form
    asked for."""
    folds, groups = material.learn_folds(splits), material.group_heads()
    logs_by_form: dict[Form, Logs] = {}
    for i, group in enumerate(groups):
        part = scale_report(report, i / len(groups), (i + 1) / len(groups))
        tried = _crossfit_group(
            recipe,
            material,
            folds,
            group,
            material.corpus.gather(group.rows),
            forms=forms,
            seed=seed,
            report=part,
        )
        for form, logs in tried.items():
            logs_by_form.setdefault(form, {}).update(logs)
    return logs_by_form


def _crossfit_group(
    recipe: Recipe,
    material: CrossfitMaterial,
    folds: Sequence[LearnedFold],
    group: HeadGroup,
    gathered: GatheredRows,
    *,
    forms: Mapping[str, Sequence[Form]],
    seed: int,
    report: Report,
) -> dict[Form, Logs]:
    logs_by_form: dict[Form, Logs] = {}
    for i, fold in enumerate(folds):
        learned = LearnedRows(group.rows, gathered, fold.features)
        tested = LearnedRows(group.rows, gathered, fold.features)
        test = group.rows[fold.is_tested[group.rows]]
        for labels in group.labels:
            head, targets = labels.head, labels.targets.select(fold.is_learned)
            for form in forms[head.criterion]:
                fitted = fit_head(recipe, head, learned, targets, form=form, seed=seed)
                if fitted is not None:
                    blank = np.full((material.size, len(head.values)), np.nan)
                    logs = logs_by_form.setdefault(form, {}).setdefault(head.criterion, blank)
                    logs[test] = scale_logs(fitted, tested.select(test))
        report(FitProgress("try", (i + 1) / len(folds)))
    return logs_by_form


def scale_logs(fitted: AnyHead, matrix: Any) -> Doubles:
    """Log probabilities over the whole scale; a level that was not seen is all but impossible."""
    result: Doubles = np.log(np.maximum(fitted.probabilities(matrix), IMPOSSIBLE))
    return result


def list_folds(examples: Sequence[Example], splits: Sequence[DataSplit]) -> npt.NDArray[np.int64]:
    """(examples,): the place of the split that predicts each; 0 of none."""
    folds = np.zeros(len(examples), dtype=np.int64)
    for place, split in enumerate(splits):
        folds[list(split.test)] = place
    return folds


@dataclass(frozen=True)
class LinearFit:
    """Features, a head for each criterion that has labels, and what was chosen for each criterion."""

    features: FeatureExtractor
    heads: tuple[Any, ...]
    choices: Mapping[str, HeadChoice]

    @property
    def details(self) -> dict[str, Any]:
        """For a scorer's card."""
        return {"criteria": {criterion: choice.to_json() for criterion, choice in self.choices.items()}}


def fit_calibrated(
    recipe: Recipe,
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    seed: int,
    report: Report = ignore_progress,
) -> LinearFit:
    """Of each head the form and the calibration that inner folds speak for; then it is fitted to all examples."""
    splits = inner_splits(examples, seed)
    places = list_folds(examples, splits)
    material = CrossfitMaterial.collect(recipe, examples, heads)
    folds, groups = material.learn_folds(splits), material.group_heads()
    features = material.corpus.learn(np.arange(len(examples)))
    fitted: dict[str, Any] = {}
    choices: dict[str, HeadChoice] = {}

    def fit_group(group: HeadGroup, report: Report) -> None:
        gathered = material.corpus.gather(group.rows)
        forms = {labels.head.criterion: list_forms(recipe, labels) for labels in group.labels}
        trying = scale_report(report, 0, 0.7)
        tried = _crossfit_group(
            recipe, material, folds, group, gathered, forms=forms, seed=seed, report=trying
        )
        learned = LearnedRows(group.rows, gathered, features)
        for i, labels in enumerate(group.labels):
            head, choice = labels.head, choose_form(labels, tried, places, recipe.balance)
            choices[head.criterion] = choice
            head_fit: Any = fit_head(recipe, head, learned, labels.targets, form=choice.form, seed=seed)
            if head_fit is not None:
                if len(head_fit.seen) > 1 and features.width:  # else it says the rates already
                    offsets = choice.select_offsets(head_fit.seen)
                    head_fit = replace(head_fit, temperature=choice.temperature, offsets=offsets)
                fitted[head.criterion] = gathered.widen(features, head_fit)
            report(FitProgress("learn", 0.7 + 0.3 * (i + 1) / len(group.labels)))

    for i, group in enumerate(groups):  # what is gathered of one is gone before that of the next
        fit_group(group, scale_report(report, i / len(groups), (i + 1) / len(groups)))
    names = [head.criterion for head in heads]
    in_order = tuple(fitted[name] for name in names if name in fitted)
    return LinearFit(features, in_order, {name: choices[name] for name in names})


def list_pairs(examples: Sequence[Example]) -> list[Pair]:
    """What a portable predictor reads."""
    return [(example.prompt, example.response) for example in examples]


def predict_in_chunks(
    predict: Callable[[Sequence[Example]], Sequence[Prediction]],
    examples: Sequence[Example],
    heads: Sequence[Head],
    size: int,
    report: Report,
) -> PredictionTable:
    """What a predictor says of each example, asked for ``size`` at a time."""
    table = PredictionTable(heads, len(examples))
    for start in range(0, len(examples), size):
        chunk = examples[start : start + size]
        table.put(range(start, start + len(chunk)), PredictionTable.collect(predict(chunk), heads))
        report(FitProgress("predict", (start + len(chunk)) / len(examples)))
    return table
