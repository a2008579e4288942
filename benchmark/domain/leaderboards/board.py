"""The metrics by what else prompts are grouped by: subcomponent, attack method, language. Pure.

The leaderboard, its groups and its pairs as JSON, from one sample and its draws. Pure.

docs/leaderboard.md says what each number, interval and rank is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.metrics import (
    BoardSample,
    MetricEstimate,
    MetricPart,
    build_parts,
    count_levels,
    estimate_metric,
    estimate_overall,
    find_metric,
    list_metric_scopes,
    list_metrics,
    list_scopes,
    pool_parts,
)
from benchmark.domain.leaderboards.pairs import (
    OVERALL,
    ModelDifferences,
    compute_differences,
    list_compared_scopes,
    pairs_to_json,
)
from benchmark.domain.leaderboards.resampling import ATTRIBUTES, SUBCOMPONENT, CountedResponse, Labels


@dataclass(frozen=True)
class PromptGroup:
    """The prompts that have this value of an attribute, in one column of the board or (None) in all."""

    attribute: str
    name: str
    scope: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.attribute, self.name


def groups_to_json(sample: BoardSample, models: Sequence[str]) -> dict[str, Any]:
    """By attribute, for those that any prompt has. ``models`` are best first."""
    groups_by_attribute = {attribute: _list_groups(sample, attribute) for attribute in ATTRIBUTES}
    return {
        attribute: _build_table(sample, own, models) for attribute, own in groups_by_attribute.items() if own
    }


def _list_groups(sample: BoardSample, attribute: str) -> list[PromptGroup]:
    """Subcomponents in the guideline's order, then those it does not know by name; other groups by name."""
    if attribute != SUBCOMPONENT:
        names = {
            name for scope in list_scopes(sample.document) for name in _list_names(sample, scope, attribute)
        }
        return [PromptGroup(attribute, name, None) for name in sorted(names)]
    return [
        PromptGroup(attribute, name, scope)
        for scope in list_scopes(sample.document)
        for name in _order_names(sample, scope, _list_names(sample, scope, attribute))
    ]


def _list_names(sample: BoardSample, scope: str, attribute: str) -> set[str]:
    return {
        group[attribute] for block in sample.blocks[scope] for group in block.groups if attribute in group
    }


def _order_names(sample: BoardSample, scope: str, names: set[str]) -> list[str]:
    dimension = sample.document.dimension(scope)
    declared = [subcomponent.name for subcomponent in dimension.subcomponents] if dimension else []
    return [*(name for name in declared if name in names), *sorted(names - set(declared))]


def _build_table(sample: BoardSample, groups: Sequence[PromptGroup], models: Sequence[str]) -> dict[str, Any]:
    cells = [_build_cells(sample, group) for group in groups]
    columns = [
        {"name": group.name, "scope": group.scope, "n_prompts": _count_prompts(sample, group)}
        for group in groups
    ]
    rows = [{"model": model, "cells": [cell.get(model) for cell in cells]} for model in models]
    return {"columns": columns, "rows": rows}


def _count_prompts(sample: BoardSample, group: PromptGroup) -> int | None:
    """How many prompts of the group anybody answered; None where nobody knows which they are."""
    blocks = [block for scope in _list_group_scopes(sample, group) for block in sample.blocks[scope]]
    known = [block for block in blocks if block.shared]
    return sum(int(block.select_units(*group.key).sum()) for block in known) if known else None


def _list_group_scopes(sample: BoardSample, group: PromptGroup) -> tuple[str, ...]:
    return list_scopes(sample.document) if group.scope is None else (group.scope,)


def _build_cells(sample: BoardSample, group: PromptGroup) -> dict[str, dict[str, Any]]:
    """By model, those that have a response in the group."""
    counted = [sample.count_labels(scope, group.key) for scope in _list_group_scopes(sample, group)]
    numbers = {
        metric.name: (metric, _pool_group_parts(sample, metric, group))
        for metric in _list_group_metrics(sample, group)
    }
    cells = {}
    for model in sample.models:
        n = sum(sum(own[model].values()) for own in counted)
        statistics = {
            name: estimate_metric(metric, parts_by_model[model]).to_json()
            for name, (metric, parts_by_model) in numbers.items()
        }
        if n:
            cells[model] = {"n": n, **statistics}
    return cells


def _list_group_metrics(sample: BoardSample, group: PromptGroup) -> list[Metric]:
    """Those of the column; across columns those that have an overall number, or all where none has."""
    if group.scope is not None:
        return list_metrics(sample.document, group.scope)
    overall = [metric for metric in sample.document.metrics if metric.overall != "none"]
    return overall or list(sample.document.metrics)


def _pool_group_parts(sample: BoardSample, metric: Metric, group: PromptGroup) -> dict[str, MetricPart]:
    """By model; across columns all labels of the metric pooled."""
    inside = list_metric_scopes(sample.document, metric) if group.scope is None else (group.scope,)
    scope_parts = [build_parts(sample, metric, scope, group.key) for scope in inside]
    return {model: pool_parts([own[model] for own in scope_parts]) for model in sample.models}


Parts = Mapping[tuple[str, str], Mapping[str, MetricPart]]
"""By metric and column, what each model's responses add."""


@dataclass(frozen=True)
class Rank:
    """``low`` to ``high`` holds for all models at once, ``low_each`` to ``high_each`` looks at each pair by itself."""

    value: int
    low: int
    high: int
    low_each: int
    high_each: int

    def to_json(self) -> dict[str, Any]:
        each = {"low": self.low_each, "high": self.high_each}
        return {"value": self.value, "low": self.low, "high": self.high, "each": each}


@dataclass(frozen=True)
class _BoardRow:
    model: str
    n: int
    dimensions: dict[str, dict[str, Any]]
    overall: dict[str, MetricEstimate]
    rank_value: Fraction | None
    """The number that the board is ranked by."""

    def to_json(self, rank: Rank | None, ranks: Mapping[str, Rank | None]) -> dict[str, Any]:
        """``ranks`` within a column, of those that have one."""
        return {
            "model": self.model,
            "rank": rank and rank.to_json(),
            "n": self.n,
            "dimensions": {
                scope: {**_to_plain(cell), "rank": (own := ranks.get(scope)) and own.to_json()}
                for scope, cell in self.dimensions.items()
            },
            "overall": _to_plain(self.overall),
        }


def _to_plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.to_json() if isinstance(value, MetricEstimate) else value
        for name, value in values.items()
    }


class BoardFigures:
    """What a board shows, each part computed when it is asked for. ``models`` have a row even without a response."""

    def __init__(
        self,
        document: GuidelineDocument,
        rows: Iterable[CountedResponse],
        *,
        models: Iterable[str] = (),
        seed: int = 0,
    ) -> None:
        self.document = document
        self.sample = BoardSample.build(document, rows, models=models, seed=seed)
        self._known: dict[tuple[str, str], ModelDifferences] = {}

    @cached_property
    def board(self) -> dict[str, Any]:
        """The leaderboard, best first. In each column a model has a rank of its own, by what the column shows."""
        rows = self._ranked_rows
        overall = rank_models(
            [row.rank_value for row in rows], self._find_differences(self._lead_metric, self._scope)
        )
        by_scope = {scope: self._rank_scope(scope) for scope in list_scopes(self.document)}
        return {
            "guideline": f"{self.document.name}@{self.document.version}",
            "rank_by": self.document.rank_by,
            "rows": [
                row.to_json(overall[at], {scope: own[at] for scope, own in by_scope.items() if own})
                for at, row in enumerate(rows)
            ],
        }

    def _rank_scope(self, scope: str) -> list[Rank | None]:
        metric = find_metric(self.document, scope, self._lead_metric)
        if metric is None:
            return []
        values = [row.dimensions[scope][metric.name].value for row in self._ranked_rows]
        return rank_models(values, self._find_differences(metric, scope))

    @property
    def groups(self) -> dict[str, Any]:
        return groups_to_json(self.sample, self._models)

    @property
    def pairs(self) -> dict[str, Any]:
        by_scope = {
            scope: self._find_differences(self._lead_metric, scope)
            for scope in list_compared_scopes(self.sample, self._lead_metric)
        }
        return pairs_to_json(self._lead_metric, self._models, by_scope)

    @cached_property
    def _ranked_rows(self) -> list[_BoardRow]:
        """Best first, what is undefined last."""
        return sorted(_build_rows(self.sample), key=_sort_key)

    @property
    def _lead_metric(self) -> Metric:
        """What the board is ranked by."""
        return self.document.metric(self.document.rank_by)

    @property
    def _scope(self) -> str:
        return _get_first_scope(self.document) if self._lead_metric.overall == "none" else OVERALL

    def _find_differences(self, metric: Metric, scope: str) -> ModelDifferences:
        """The models' differences in one number, worked out once."""
        key = (metric.name, scope)
        if key not in self._known:
            self._known[key] = compute_differences(self.sample, metric, scope, self._models)
        return self._known[key]

    @property
    def _models(self) -> list[str]:
        return [row.model for row in self._ranked_rows]


def build_board(
    document: GuidelineDocument, rows: Iterable[CountedResponse], *, models: Iterable[str] = (), seed: int = 0
) -> dict[str, Any]:
    return BoardFigures(document, rows, models=models, seed=seed).board


def _build_rows(sample: BoardSample) -> list[_BoardRow]:
    document = sample.document
    metric_parts = {
        (metric.name, scope): build_parts(sample, metric, scope)
        for metric in document.metrics
        for scope in list_metric_scopes(document, metric)
    }
    counts = {scope: sample.count_labels(scope) for scope in list_scopes(document)}
    return [_build_row(document, model, metric_parts, counts) for model in sample.models]


def _build_row(
    document: GuidelineDocument,
    model: str,
    metric_parts: Parts,
    counts: Mapping[str, Mapping[str, Counter[Labels]]],
) -> _BoardRow:
    statistics = {
        key: estimate_metric(document.metric(key[0]), own[model]) for key, own in metric_parts.items()
    }
    dimensions: dict[str, dict[str, Any]] = {
        scope: {
            "n": sum(own[model].values()),
            "levels": count_levels(document, scope, own[model]),
            **{metric.name: statistics[metric.name, scope] for metric in list_metrics(document, scope)},
        }
        for scope, own in counts.items()
    }
    overall = {
        metric.name: estimate_overall(
            metric,
            [metric_parts[metric.name, scope][model] for scope in list_metric_scopes(document, metric)],
        )
        for metric in document.metrics
        if metric.overall != "none"
    }
    standing = overall.get(document.rank_by) or statistics[document.rank_by, _get_first_scope(document)]
    return _BoardRow(
        model, sum(cell["n"] for cell in dimensions.values()), dimensions, overall, standing.value
    )


def _get_first_scope(document: GuidelineDocument) -> str:
    """The first column of the metric that the board is ranked by."""
    return list_metric_scopes(document, document.metric(document.rank_by))[0]


def _sort_key(row: _BoardRow) -> tuple[bool, Fraction, str]:
    return row.rank_value is None, -(row.rank_value or Fraction(0)), row.model


def rank_models(values: Sequence[Fraction | None], differences: ModelDifferences) -> list[Rank | None]:
    """Of models in the order of the differences. Equals share a rank; what is undefined has none."""
    models = sum(value is not None for value in values)
    together, each = differences.list_joint_signs(), differences.list_signs()

    def build_rank(at: int, own: Fraction | None) -> Rank | None:
        if own is None:
            return None
        value = 1 + sum(other is not None and other > own for other in values)
        return Rank(
            value, *_compute_range(at, value, together, models), *_compute_range(at, value, each, models)
        )

    return [build_rank(at, own) for at, own in enumerate(values)]


def _compute_range(at: int, value: int, signs: Mapping[tuple[int, int], int], models: int) -> tuple[int, int]:
    """The best and worst rank that the signs leave possible, the rank itself always among them."""
    own = [sign if first == at else -sign for (first, later), sign in signs.items() if at in (first, later)]
    better, worse = own.count(-1), own.count(1)
    return min(value, 1 + better), max(value, models - worse)
