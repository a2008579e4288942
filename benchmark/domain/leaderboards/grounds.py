"""What each number of a board rests on, and so what may be said of it: gold, gold with predictions, or neither. Pure.

A scorer's errors differ from model to model. A number of predictions alone therefore has no interval and is not
compared (docs/decisions/ranks-without-predictions.md); one that a chance sample of gold corrects has the interval of
both, and is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.intervals import MeanMoments
from benchmark.domain.leaderboards.metrics import (
    BoardSample,
    MetricEstimate,
    MetricPart,
    NumberTerms,
    build_moments,
    build_number_parts,
    build_terms,
    estimate_part,
    estimate_value,
    find_ends,
    list_metric_scopes,
    list_numbers,
    list_scopes,
)
from benchmark.domain.leaderboards.responses import GOLD, CountedResponse

COMBINED, PREDICTED = "combined", "predicted"
"""Beside GOLD, the grounds of a number: a chance sample of gold with predictions, or predictions that none corrects."""

NO_RESPONSES, NO_GOLD, SELECTION = "no_responses", "no_gold", "selection"
FEW_LABELS, FEW_PROMPTS, EARLIER = "few_labels", "few_prompts", "earlier"
REASONS = (NO_RESPONSES, NO_GOLD, SELECTION, FEW_LABELS, FEW_PROMPTS, EARLIER)
"""Why a number is not compared: nothing was answered; no response has gold; its gold was not chosen by chance; it is
less than ``MIN_LABELS``; a column of a mean over columns, or a criterion of a mean over criteria, has less than
``MIN_PROMPTS``; it was computed by an earlier version."""

MIN_LABELS = 20
"""Labels of a chance sample in a column, and of a criterion that not every response has, below which it corrects no
prediction. Rows of ``rank_coverage`` have it."""
MIN_PROMPTS = 10
"""Responses in each column, or with each criterion that not every response has, below which a mean over them has no
interval. Rows of ``rank_coverage`` have it."""

CellKey = tuple[str, str]
"""A model and a column."""
Group = tuple[str, str]
"""An attribute of prompts and its value."""


@dataclass(frozen=True)
class CombinedNumber:
    """A metric from gold and predictions: ``labelled`` responses have gold, ``fewest`` of them a label of the rarest of
    its terms; the others as ``MeanMoments`` has them.

    Its interval lies around ``centre`` and reaches as far as the value.
    """

    value: float
    centre: float
    labelled: int
    fewest: int
    labels: float
    variance: float
    degrees: float

    def build_moments(self, metric: Metric) -> MeanMoments:
        arrays = (np.array([number]) for number in (self.centre, self.labels, self.variance, self.degrees))
        return MeanMoments(metric.kind == "rate", np.ones(1), *arrays)


@dataclass(frozen=True)
class BiasEstimate:
    """What a scorer says less what people say of the same ``n`` responses."""

    value: float
    variance: float
    degrees: float
    n: int


class Combiner(Protocol):
    """Combines the gold and the predictions of one model's responses; None where they are too few."""

    def combine(self, rows: Sequence[CountedResponse], number: NumberTerms) -> CombinedNumber | None: ...

    def measure_bias(self, rows: Sequence[CountedResponse], number: NumberTerms) -> BiasEstimate | None: ...


@dataclass(frozen=True)
class Ground:
    """``name`` is None without a response; ``reason`` says why the number is not compared, None if it is."""

    name: str | None
    reason: str | None = None

    @property
    def is_compared(self) -> bool:
        return self.name is not None and self.reason is None

    def to_json(self) -> dict[str, str | None]:
        return {"ground": self.name, "reason": self.reason}


@dataclass(frozen=True)
class BoardNumber:
    """A number with its ground; ``moments`` are None where it has no interval."""

    ground: Ground
    value: Fraction | float | None = None
    moments: MeanMoments | None = None
    part: MetricPart | None = None
    """Of what is gold, and no mean over columns."""
    ends: tuple[float, float] = (-math.inf, math.inf)
    """Those of the metric's scale."""

    @property
    def estimate(self) -> MetricEstimate:
        if self.part is not None:
            return estimate_part(self.part, self.moments, self.ends)
        return estimate_value(self.value, self.moments, self.ends)

    @property
    def is_compared(self) -> bool:
        return self.ground.is_compared and self.value is not None and self.moments is not None


_NumberKey = tuple[str, tuple[str, ...], bool]


def _find_key(number: NumberTerms) -> _NumberKey:
    """Terms and metrics cannot be hashed."""
    return number.metric.name, number.scopes, number.is_balanced


@dataclass(frozen=True)
class BoardNumbers:
    """The numbers of a sample. Chance did not choose the gold of ``selected_cells``."""

    sample: BoardSample
    combiner: Combiner | None = None
    selected_cells: frozenset[CellKey] = frozenset()
    _grounds: dict[CellKey, Ground] = field(default_factory=dict, init=False)
    _parts: dict[_NumberKey, dict[str, MetricPart]] = field(default_factory=dict, init=False)
    _numbers: dict[tuple[str, _NumberKey], BoardNumber] = field(default_factory=dict, init=False)

    @property
    def document(self) -> GuidelineDocument:
        return self.sample.document

    def find_ground(self, model: str, scope: str) -> Ground:
        """Of all numbers of a column."""
        key = (model, scope)
        if key not in self._grounds:
            self._grounds[key] = self._classify(key, self.sample.columns[scope].select_rows(model))
        return self._grounds[key]

    def _classify(self, key: CellKey, rows: Sequence[CountedResponse]) -> Ground:
        if not rows:
            return Ground(None, NO_RESPONSES)
        if all(row.basis == GOLD for row in rows):
            return Ground(GOLD)
        labelled = sum(bool(row.gold) for row in rows)
        if not labelled:
            return Ground(PREDICTED, NO_GOLD)
        if key in self.selected_cells:
            return Ground(PREDICTED, SELECTION)
        if labelled < MIN_LABELS or self.combiner is None:
            return Ground(PREDICTED, FEW_LABELS)
        return Ground(COMBINED)

    def list_parts(self, number: NumberTerms) -> dict[str, MetricPart]:
        """By model, the labels that the number counts."""
        key = _find_key(number)
        if key not in self._parts:
            self._parts[key] = build_number_parts(self.sample, number)
        return self._parts[key]

    def find_number(self, model: str, metric: Metric, scope: str) -> BoardNumber:
        return self.find_terms_number(model, build_terms(self.document, metric, scope))

    def find_terms_number(self, model: str, number: NumberTerms) -> BoardNumber:
        """Of all labels of its columns, those without a response left out."""
        key = model, _find_key(number)
        if key not in self._numbers:
            scopes = tuple(scope for scope in number.scopes if self.find_ground(model, scope).name)
            own = replace(number, scopes=scopes or number.scopes)
            rows = [row for scope in own.scopes for row in self.sample.columns[scope].select_rows(model)]
            ground = self._join_grounds([self.find_ground(model, scope) for scope in own.scopes])
            part = self.list_parts(number)[model]
            self._numbers[key] = self._choose_number(ground, part, rows, own)
        return self._numbers[key]

    def _choose_number(
        self, ground: Ground, part: MetricPart, rows: Sequence[CountedResponse], number: NumberTerms
    ) -> BoardNumber:
        """Of the labels that count, or of both kinds together; hollow where neither may be."""
        ends = find_ends(self.document, number)
        if number.is_balanced and part.value is None:
            return BoardNumber(Ground(ground.name, ground.reason or NO_RESPONSES))
        if ground.name == GOLD and part.value is not None:
            if part.balance is not None and part.balance.fewest < min(MIN_PROMPTS, part.responses):
                return BoardNumber(Ground(GOLD, FEW_PROMPTS), part.value, part=part)
            moments = build_moments(number.metric, part, ends[1] - ends[0])
            return BoardNumber(ground, part.value, moments, part, ends)
        if ground.name == COMBINED and self.combiner is not None:
            combined = self.combiner.combine(rows, number)
            if combined is not None and combined.fewest >= MIN_LABELS:
                moments = combined.build_moments(number.metric)
                return BoardNumber(ground, combined.value, moments, ends=ends)
            ground = Ground(PREDICTED, FEW_LABELS)
        return BoardNumber(ground, part.value)

    def find_overall(self, model: str, metric: Metric) -> BoardNumber:
        """The unweighted mean of the columns' numbers, undefined if one of them is; or of all labels at once."""
        numbers = list_numbers(self.document, metric)
        if metric.overall == "mean_of_dimensions":
            return self._average(model, metric, [scope for number in numbers for scope in number.scopes])
        return self.find_terms_number(model, numbers[0])

    def _average(self, model: str, metric: Metric, scopes: Sequence[str]) -> BoardNumber:
        numbers = [self.find_number(model, metric, scope) for scope in scopes]
        ground = self._join_grounds([number.ground for number in numbers])
        values = [number.value for number in numbers if number.value is not None]
        if len(values) < len(numbers):
            return BoardNumber(Ground(ground.name, ground.reason or NO_RESPONSES))
        value = average_values(values)
        known = [number.moments for number in numbers if number.moments is not None]
        if ground.reason is not None or len(known) < len(numbers):
            return BoardNumber(ground, value)
        if len(scopes) > 1 and self._count_fewest(model, scopes) < MIN_PROMPTS:
            return BoardNumber(Ground(ground.name, FEW_PROMPTS), value)
        ends = [find_ends(self.document, build_terms(self.document, metric, scope)) for scope in scopes]
        low, high = (float(np.mean(own)) for own in zip(*ends, strict=True))
        return BoardNumber(ground, value, join_moments(known), ends=(low, high))

    @staticmethod
    def _join_grounds(grounds: Sequence[Ground]) -> Ground:
        """The weakest of them."""
        for name in (None, PREDICTED):
            for ground in grounds:
                if ground.name == name:
                    return ground
        return Ground(GOLD if all(ground.name == GOLD for ground in grounds) else COMBINED)

    def _count_fewest(self, model: str, scopes: Sequence[str]) -> int:
        place = self.sample.models.index(model)
        return min(int((self.sample.columns[scope].model == place).sum()) for scope in scopes)

    def find_group_number(
        self, model: str, number: NumberTerms, group: Group, part: MetricPart
    ) -> BoardNumber:
        """Of the responses to a group of prompts, whose labels are the part; gold alone where those are, whatever
        others are.
        """
        rows = [
            row
            for scope in number.scopes
            for row in self.sample.columns[scope].select_rows(model, self.sample.select_units(scope, group))
        ]
        ground = self._join_grounds(
            [
                self._classify((model, scope), own)
                for scope in number.scopes
                if (own := [row for row in rows if row.scope == scope])
            ]
            or [Ground(None, NO_RESPONSES)]
        )
        if ground.reason == FEW_LABELS and self._is_sampled(rows):
            ground = Ground(COMBINED)  # a few of each column, but together enough
        return self._choose_number(ground, part, rows, number)

    def _is_sampled(self, rows: Sequence[CountedResponse]) -> bool:
        """Whether chance chose those of the rows that have gold, in each column with predictions."""
        with_predictions = {(row.model, row.scope) for row in rows if row.basis != GOLD}
        labelled = {(row.model, row.scope) for row in rows if row.gold}
        return (
            self.combiner is not None
            and with_predictions <= labelled
            and not with_predictions & self.selected_cells
            and sum(bool(row.gold) for row in rows) >= MIN_LABELS
        )


def average_values(values: Sequence[Fraction | float]) -> Fraction | float:
    """An exact one if all of them are."""
    exact = [value for value in values if isinstance(value, Fraction)]
    if len(exact) == len(values):
        return sum(exact, Fraction(0)) / len(exact)
    return float(np.mean([float(value) for value in values]))


def join_moments(parts: Sequence[MeanMoments]) -> MeanMoments:
    """Of the mean of these columns, each counting as much as any other."""
    arrays = (
        np.concatenate([getattr(part, name) for part in parts], axis=-1)
        for name in ("means", "labels", "variance", "degrees")
    )
    return MeanMoments(parts[0].rate, np.full(len(parts), 1 / len(parts)), *arrays)


def list_bias(numbers: BoardNumbers, metric: Metric, models: Sequence[str]) -> dict[str, Any]:
    """By model and column of the metric, and for the mean over columns or criteria, what the scorer's labels are off
    by.
    """
    document, scopes = numbers.document, list_metric_scopes(numbers.document, metric)
    columns = {scope: build_terms(document, metric, scope) for scope in scopes}
    has_overall = len(scopes) == 1 or metric.overall in ("mean_of_dimensions", "mean_of_criteria")
    overall = list_numbers(document, metric) if has_overall else ()
    rows = []
    for model in models:
        cells = {scope: _measure_bias(numbers, model, number) for scope, number in columns.items()}
        rows.append(
            {
                "model": model,
                "n": sum(estimate.n for estimate in cells.values() if estimate),
                "overall": _bias_to_json(
                    document, overall, [_measure_bias(numbers, model, own) for own in overall]
                ),
                "dimensions": {
                    scope: _bias_to_json(document, [number], [cells[scope]])
                    for scope, number in columns.items()
                },
            }
        )
    return {
        "metric": metric.name,
        "scopes": [scope for scope in list_scopes(document) if scope in scopes],
        "rows": rows,
    }


def _measure_bias(numbers: BoardNumbers, model: str, number: NumberTerms) -> BiasEstimate | None:
    if numbers.combiner is None or any((model, scope) in numbers.selected_cells for scope in number.scopes):
        return None
    rows = [row for scope in number.scopes for row in numbers.sample.columns[scope].select_rows(model)]
    return numbers.combiner.measure_bias(rows, number)


def _bias_to_json(
    document: GuidelineDocument, numbers: Sequence[NumberTerms], estimates: Sequence[BiasEstimate | None]
) -> dict[str, float | None] | None:
    """None unless every number has an estimate. No bias is larger than the scale: the interval ends there."""
    known = [estimate for estimate in estimates if estimate is not None]
    if len(known) < len(estimates) or not known:
        return None
    moments = join_moments(
        [
            MeanMoments(
                False,
                np.ones(1),
                *(np.array([value]) for value in (own.value, np.nan, own.variance, own.degrees)),
            )
            for own in known
        ]
    )
    ends = [find_ends(document, number) for number in numbers]
    largest = float(np.mean([high - low for low, high in ends]))
    return estimate_value(float(moments.value), moments, (-largest, largest)).to_json()
