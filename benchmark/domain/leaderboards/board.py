"""The leaderboard, its groups of prompts and its pairs as JSON, from the numbers of one sample. Pure.

Groups are what prompts have in common beside their dimension: subcomponent, attack method, malice,
the two crossed, language.
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
from benchmark.domain.leaderboards.grounds import (
    BoardNumber,
    BoardNumbers,
    CellKey,
    Combiner,
    list_bias,
)
from benchmark.domain.leaderboards.metrics import (
    BoardSample,
    build_number_parts,
    build_terms,
    count_levels,
    find_metric,
    list_metric_scopes,
    list_metrics,
    list_scopes,
)
from benchmark.domain.leaderboards.pairs import (
    OVERALL,
    ModelDifferences,
    compute_differences,
    list_compared_scopes,
    pairs_to_json,
)
from benchmark.domain.leaderboards.ranks import Rank, rank_models
from benchmark.domain.leaderboards.responses import ATTRIBUTES, SUBCOMPONENT, CountedResponse, Labels

COMPARED, BIAS = "compared", "bias"
"""Fields of a board: how many of its models are compared, by column, and what the scorer's labels are off by."""


@dataclass(frozen=True)
class PromptGroup:
    """The prompts that have this value of an attribute, in one column of the board or (None) in all."""

    attribute: str
    name: str
    scope: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.attribute, self.name


def groups_to_json(numbers: BoardNumbers, models: Sequence[str]) -> dict[str, Any]:
    """By attribute, for those that any prompt has. ``models`` are best first."""
    groups_by_attribute = {attribute: _list_groups(numbers.sample, attribute) for attribute in ATTRIBUTES}
    return {
        attribute: _build_table(numbers, own, models) for attribute, own in groups_by_attribute.items() if own
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
    return {group[attribute] for group in sample.columns[scope].groups if attribute in group}


def _order_names(sample: BoardSample, scope: str, names: set[str]) -> list[str]:
    dimension = sample.document.dimension(scope)
    declared = [subcomponent.name for subcomponent in dimension.subcomponents] if dimension else []
    return [*(name for name in declared if name in names), *sorted(names - set(declared))]


def _build_table(
    numbers: BoardNumbers, groups: Sequence[PromptGroup], models: Sequence[str]
) -> dict[str, Any]:
    cells = [_build_cells(numbers, group) for group in groups]
    columns = [
        {"name": group.name, "scope": group.scope, "n_prompts": _count_prompts(numbers.sample, group)}
        for group in groups
    ]
    rows = [{"model": model, "cells": [cell.get(model) for cell in cells]} for model in models]
    return {"columns": columns, "rows": rows}


def _count_prompts(sample: BoardSample, group: PromptGroup) -> int | None:
    """How many prompts of the group anybody answered; None where nobody knows which they are."""
    prompts = {
        (scope, unit)
        for scope in _list_group_scopes(sample, group)
        for column in [sample.columns[scope]]
        for unit, row in zip(column.unit.tolist(), column.rows, strict=True)
        if row.prompt is not None and row.groups.get(group.attribute) == group.name
    }
    return len(prompts) or None


def _list_group_scopes(sample: BoardSample, group: PromptGroup) -> tuple[str, ...]:
    return list_scopes(sample.document) if group.scope is None else (group.scope,)


def _build_cells(numbers: BoardNumbers, group: PromptGroup) -> dict[str, dict[str, Any]]:
    """By model, those that have a response in the group."""
    sample = numbers.sample
    counted = [sample.count_labels(scope, group.key) for scope in _list_group_scopes(sample, group)]
    known_numbers = [
        (number, build_number_parts(sample, number, group.key))
        for metric in _list_group_metrics(sample, group)
        for number in [build_terms(sample.document, metric, group.scope)]
    ]
    cells = {}
    for model in sample.models:
        n = sum(sum(own[model].values()) for own in counted)
        if n:
            known = {
                number.metric.name: numbers.find_group_number(model, number, group.key, parts[model])
                for number, parts in known_numbers
            }
            cells[model] = {"n": n, **_state_ground(list(known.values())), **_state_numbers(known)}
    return cells


def _state_ground(numbers: Sequence[BoardNumber]) -> dict[str, str | None]:
    """Of the first number that has labels: all of a cell rest on the same responses."""
    known = [number.ground for number in numbers if number.value is not None]
    return known[0].to_json() if known else {"ground": None, "reason": None}


def _state_numbers(numbers: Mapping[str, BoardNumber]) -> dict[str, Any]:
    return {name: number.estimate.to_json() for name, number in numbers.items()}


def _list_group_metrics(sample: BoardSample, group: PromptGroup) -> list[Metric]:
    """Those of the column; across columns those that have an overall number, or all where none has."""
    if group.scope is not None:
        return list_metrics(sample.document, group.scope)
    overall = [metric for metric in sample.document.metrics if metric.overall != "none"]
    return overall or list(sample.document.metrics)


@dataclass(frozen=True)
class _BoardRow:
    model: str
    n: int
    dimensions: dict[str, dict[str, Any]]
    overall: dict[str, BoardNumber]
    standing: BoardNumber
    """The number that the board is ranked by."""

    def to_json(self, rank: Rank | None, ranks: Mapping[str, Rank | None]) -> dict[str, Any]:
        """``ranks`` within a column, of those that have one."""
        return {
            "model": self.model,
            "rank": rank and rank.to_json(),
            "n": self.n,
            **self.standing.ground.to_json(),
            "dimensions": {
                scope: {**cell, "rank": (own := ranks.get(scope)) and own.to_json()}
                for scope, cell in self.dimensions.items()
            },
            "overall": _state_numbers(self.overall),
        }


class BoardFigures:
    """What a board shows, each part computed when it is asked for. ``models`` have a row even without a response.

    ``combiner`` makes one number of gold and predictions; without one, and in the ``selected_cells``, whose gold chance
    did not choose, numbers with predictions are hollow.
    """

    def __init__(
        self,
        document: GuidelineDocument,
        rows: Iterable[CountedResponse],
        *,
        models: Iterable[str] = (),
        combiner: Combiner | None = None,
        selected_cells: Iterable[CellKey] = (),
    ) -> None:
        self.document = document
        self.sample = BoardSample.build(document, rows, models=models)
        self.numbers = BoardNumbers(self.sample, combiner, frozenset(selected_cells))
        self._known: dict[tuple[str, str], ModelDifferences] = {}

    @cached_property
    def board(self) -> dict[str, Any]:
        """The leaderboard, the compared models first, best first. In each column these have ranks of their own."""
        rows = self._ranked_rows
        overall = self._find_differences(self._lead_metric, self._scope)
        ranks = rank_models([row.standing.value for row in rows], overall)
        compared = {self._scope: _count_compared(ranks)}
        by_scope = {}
        for scope in list_scopes(self.document):
            own = self._rank_scope(scope)
            if own is not None:
                by_scope[scope] = own
                compared[scope] = _count_compared(own)
        return {
            "guideline": f"{self.document.name}@{self.document.version}",
            "rank_by": self.document.rank_by,
            COMPARED: compared,
            BIAS: list_bias(self.numbers, self._lead_metric, self._models),
            "rows": [
                row.to_json(ranks[at], {scope: own[at] for scope, own in by_scope.items()})
                for at, row in enumerate(rows)
            ],
        }

    def _rank_scope(self, scope: str) -> list[Rank | None] | None:
        metric = find_metric(self.document, scope, self._lead_metric)
        if metric is None:
            return None
        values = [self.numbers.find_number(model, metric, scope).value for model in self._models]
        return rank_models(values, self._find_differences(metric, scope))

    @property
    def groups(self) -> dict[str, Any]:
        return groups_to_json(self.numbers, self._models)

    @property
    def pairs(self) -> dict[str, Any]:
        by_scope = {
            scope: self._find_differences(self._lead_metric, scope)
            for scope in list_compared_scopes(self.sample, self._lead_metric)
        }
        return pairs_to_json(self._lead_metric, self._models, by_scope)

    @property
    def pairs_as_labels(self) -> dict[str, Any]:
        """Of the number that the board is ranked by, as if every label were true: what plans of labels start from."""
        differences = compute_differences(
            self.numbers, self._lead_metric, self._scope, self._models, as_labels=True
        )
        return pairs_to_json(self._lead_metric, self._models, {self._scope: differences})

    @cached_property
    def _ranked_rows(self) -> list[_BoardRow]:
        """The compared first, each kind best first, what is undefined last."""
        return sorted((self._build_row(model) for model in self.sample.models), key=_sort_key)

    def _build_row(self, model: str) -> _BoardRow:
        overall = {
            metric.name: self.numbers.find_overall(model, metric)
            for metric in self.document.metrics
            if metric.overall != "none"
        }
        dimensions = {scope: self._build_cell(model, scope) for scope in list_scopes(self.document)}
        standing = overall.get(self._lead_metric.name) or self.numbers.find_number(
            model, self._lead_metric, _get_first_scope(self.document)
        )
        return _BoardRow(model, sum(cell["n"] for cell in dimensions.values()), dimensions, overall, standing)

    def _build_cell(self, model: str, scope: str) -> dict[str, Any]:
        counted = self._counts[scope][model]
        known = {
            metric.name: self.numbers.find_number(model, metric, scope)
            for metric in list_metrics(self.document, scope)
        }
        ground = (
            _state_ground(list(known.values()))
            if any(number.value is not None for number in known.values())
            else self.numbers.find_ground(model, scope).to_json()
        )
        return {
            "n": sum(counted.values()),
            "levels": count_levels(self.document, scope, counted),
            **ground,
            **_state_numbers(known),
        }

    @cached_property
    def _counts(self) -> dict[str, dict[str, Counter[Labels]]]:
        return {scope: self.sample.count_labels(scope) for scope in list_scopes(self.document)}

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
            self._known[key] = compute_differences(self.numbers, metric, scope, self._models)
        return self._known[key]

    @property
    def _models(self) -> list[str]:
        return [row.model for row in self._ranked_rows]


def build_board(
    document: GuidelineDocument, rows: Iterable[CountedResponse], *, models: Iterable[str] = ()
) -> dict[str, Any]:
    return BoardFigures(document, rows, models=models).board


def _count_compared(ranks: Sequence[Rank | None]) -> dict[str, int]:
    return {"n": sum(rank is not None for rank in ranks), "of": len(ranks)}


def _get_first_scope(document: GuidelineDocument) -> str:
    """The first column of the metric that the board is ranked by."""
    return list_metric_scopes(document, document.metric(document.rank_by))[0]


def _sort_key(row: _BoardRow) -> tuple[bool, bool, Fraction | float, str]:
    value = row.standing.value
    return not row.standing.is_compared, value is None, -value if value is not None else 0, row.model
