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

from scoring.backbones.choices import IMPOSSIBLE, HeadChoice, Logs, choose_form, weigh_levels
from scoring.domain.backbone import FitProgress, Report, ignore_progress, scale_report
from scoring.domain.threads import one_thread
from scoring.domain.training_data import (
    DataSplit,
    Example,
    Head,
    Prediction,
    Value,
    level_counts,
    prompt_groups,
    splits_by_prompt,
    target_shares,
)
from scoring.inference.ngram import AnyHead, Doubles, Floats, Form, LinearHead, Pair

INNER_FOLDS = 3


Rows = npt.NDArray[np.int64]
"""Places of examples."""


class FeatureExtractor(Protocol):
    """What turns the examples of a corpus, or further ones, into rows of a matrix."""

    def extract(self, rows: Rows) -> Any: ...

    def extract_further(self, examples: Sequence[Example]) -> Any: ...


class Corpus(Protocol):
    """The texts of examples, which were read once however many folds learn from them."""

    def learn(self, rows: Rows) -> FeatureExtractor:
        """Features learned from these examples."""


@dataclass(frozen=True)
class Targets:
    """What the examples that have a label of a head say: their rows, the places of their levels on the scale, and how
    many of the people said so, 1 of a label. A row comes again for each level that people gave."""

    rows: Rows
    positions: npt.NDArray[np.int64]
    amounts: Doubles

    @classmethod
    def collect(cls, examples: Sequence[Example], head: Head) -> Targets:
        places = {level: place for place, level in enumerate(head.values)}
        parts = [
            (i, places[level], share)
            for i, example in enumerate(examples)
            if head.criterion in example.labels
            for level, share in target_shares(example, head).items()
            if share > 0
        ]
        rows, positions, amounts = zip(*parts, strict=True) if parts else ((), (), ())
        return cls(np.array(rows, np.int64), np.array(positions, np.int64), np.array(amounts, np.float64))

    def select(self, rows: Sequence[int]) -> Targets:
        """Of these examples alone."""
        keep = np.isin(self.rows, np.array(rows, np.int64))
        return Targets(self.rows[keep], self.positions[keep], self.amounts[keep])


class ExampleRows:
    """The rows of features of some of the examples. Those asked for last are kept: every form of a head reads the same
    rows, as do heads that have labels of the same examples."""

    def __init__(self, features: FeatureExtractor) -> None:
        self._features = features
        self._last: tuple[Rows, Any] | None = None

    def select(self, rows: Rows) -> Any:
        if self._last is None or not np.array_equal(self._last[0], rows):
            self._last = None  # the next matrix is not built beside it
            self._last = (rows, self._features.extract(rows))
        return self._last[1]


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

    @property
    def shares(self) -> Doubles:
        """How often each level was given."""
        counts = np.bincount(self.targets, weights=self.amounts, minlength=len(self.seen))
        result: Doubles = counts / self.amounts.sum()
        return result

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to tell, or nothing to tell it by: then the shares are all there is to say."""
        return len(self.seen) < 2 or not self.matrix.shape[1]


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


def list_forms(recipe: Recipe, head: Head, counts: Mapping[Value, int]) -> tuple[Form, ...]:
    """An order matters from three levels on."""
    ordered = head.measurement != "nominal" and sum(1 for n in counts.values() if n) > 2
    return recipe.forms if ordered else recipe.forms[:1]


def fit_head(
    recipe: Recipe, head: Head, learned: ExampleRows, targets: Targets, *, form: Form, seed: int
) -> AnyHead | None:
    """None where there is no label."""
    if not len(targets.rows):
        return None
    amounts = targets.amounts
    seen, places = np.unique(targets.positions, return_inverse=True)
    weight = weigh_levels(np.bincount(places, weights=amounts), recipe.balance)
    importance = weight[places] * amounts
    importance = importance / importance.mean() * (amounts.sum() / len(amounts))
    matrix = learned.select(targets.rows)
    return recipe.fit(HeadTask(head, tuple(seen.tolist()), matrix, places, importance, amounts), form, seed)


@dataclass(frozen=True)
class CrossfitMaterial:
    """What folds learn from and are tried on: the texts of the examples, and the targets of each head."""

    size: int
    corpus: Corpus
    targets: Mapping[Head, Targets]

    @classmethod
    def collect(cls, recipe: Recipe, examples: Sequence[Example], heads: Sequence[Head]) -> CrossfitMaterial:
        targets = {head: Targets.collect(examples, head) for head in heads}
        return cls(len(examples), recipe.read(examples), targets)


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
    logs_by_form: dict[Form, Logs] = {}
    for i, split in enumerate(splits):
        learned = {head: targets.select(split.train) for head, targets in material.targets.items()}
        if any(len(targets.rows) for targets in learned.values()):
            features = material.corpus.learn(np.array(split.train, np.int64))
            trained, tested = ExampleRows(features), ExampleRows(features)
            for head, targets in material.targets.items():
                test = np.unique(targets.select(split.test).rows)
                for form in forms[head.criterion]:
                    fitted = fit_head(recipe, head, trained, learned[head], form=form, seed=seed)
                    if fitted is not None:
                        blank = np.full((material.size, len(head.values)), np.nan)
                        logs = logs_by_form.setdefault(form, {}).setdefault(head.criterion, blank)
                        logs[test] = scale_logs(fitted, tested.select(test))
        report(FitProgress("try", (i + 1) / len(splits)))
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
    """Forms and calibrations found on inner folds; then all heads are fitted to all examples."""
    forms = {head.criterion: list_forms(recipe, head, level_counts(examples, head)) for head in heads}
    splits = inner_splits(examples, seed)
    trying = scale_report(report, 0, 0.7)
    material = CrossfitMaterial.collect(recipe, examples, heads)
    tried = crossfit(recipe, material, splits, forms=forms, seed=seed, report=trying)
    folds = list_folds(examples, splits)
    choices = {head.criterion: choose_form(examples, head, tried, folds, recipe.balance) for head in heads}
    features = material.corpus.learn(np.arange(len(examples)))
    learned = ExampleRows(features)
    width = features.extract(np.zeros(0, np.int64)).shape[1]
    fitted = []
    for i, head in enumerate(heads):
        choice = choices[head.criterion]
        targets = material.targets[head]
        fitted_head: Any = fit_head(recipe, head, learned, targets, form=choice.form, seed=seed)
        if fitted_head is not None:
            if len(fitted_head.seen) > 1 and width:  # else it says the rates already
                offsets = choice.select_offsets(fitted_head.seen)
                fitted_head = replace(fitted_head, temperature=choice.temperature, offsets=offsets)
            fitted.append(fitted_head)
        report(FitProgress("learn", 0.7 + 0.3 * (i + 1) / len(heads)))
    return LinearFit(features, tuple(fitted), choices)


def list_pairs(examples: Sequence[Example]) -> list[Pair]:
    """What a portable predictor reads."""
    return [(example.prompt, example.response) for example in examples]


def predict_in_chunks(
    predict: Callable[[Sequence[Example]], list[Prediction]],
    examples: Sequence[Example],
    size: int,
    report: Report,
) -> list[Prediction]:
    """What a predictor says of each example, asked for ``size`` at a time."""
    predictions: list[Prediction] = []
    for start in range(0, len(examples), size):
        predictions += predict(examples[start : start + size])
        report(FitProgress("predict", len(predictions) / len(examples)))
    return predictions
