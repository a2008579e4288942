"""The metrics by what else prompts are grouped by: subcomponent, attack method, language. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from annotation.guidelines import Metric

from .counted import ATTRIBUTES, SUBCOMPONENT
from .metrics import MetricPart, BoardSample, estimate, metrics_in, parts, pooled, scopes, scopes_of


@dataclass(frozen=True)
class PromptGroup:
    """The prompts that have this value of an attribute, in one column of the board or (None) in all."""

    attribute: str
    name: str
    scope: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.attribute, self.name


def groups_json(sample: BoardSample, models: Sequence[str]) -> dict[str, Any]:
    """By attribute, for those that any prompt has. ``models`` are best first."""
    groups_by_attribute = {attribute: _groups(sample, attribute) for attribute in ATTRIBUTES}
    return {attribute: _table(sample, own, models) for attribute, own in groups_by_attribute.items() if own}


def _groups(sample: BoardSample, attribute: str) -> list[PromptGroup]:
    """Subcomponents in the guideline's order, then those it does not know by name; other groups by name."""
    if attribute != SUBCOMPONENT:
        names = {name for scope in scopes(sample.document) for name in _names(sample, scope, attribute)}
        return [PromptGroup(attribute, name, None) for name in sorted(names)]
    return [
        PromptGroup(attribute, name, scope)
        for scope in scopes(sample.document)
        for name in _in_order(sample, scope, _names(sample, scope, attribute))
    ]


def _names(sample: BoardSample, scope: str, attribute: str) -> set[str]:
    return {
        group[attribute] for block in sample.blocks[scope] for group in block.groups if attribute in group
    }


def _in_order(sample: BoardSample, scope: str, names: set[str]) -> list[str]:
    dimension = sample.document.dimension(scope)
    declared = [subcomponent.name for subcomponent in dimension.subcomponents] if dimension else []
    return [*(name for name in declared if name in names), *sorted(names - set(declared))]


def _table(sample: BoardSample, groups: Sequence[PromptGroup], models: Sequence[str]) -> dict[str, Any]:
    cells = [_cells(sample, group) for group in groups]
    columns = [
        {"name": group.name, "scope": group.scope, "n_prompts": _prompts(sample, group)} for group in groups
    ]
    rows = [{"model": model, "cells": [cell.get(model) for cell in cells]} for model in models]
    return {"columns": columns, "rows": rows}


def _prompts(sample: BoardSample, group: PromptGroup) -> int | None:
    """How many prompts of the group anybody answered; None where nobody knows which they are."""
    blocks = [block for scope in _scopes(sample, group) for block in sample.blocks[scope]]
    known = [block for block in blocks if block.shared]
    return sum(int(block.having(*group.key).sum()) for block in known) if known else None


def _scopes(sample: BoardSample, group: PromptGroup) -> tuple[str, ...]:
    return scopes(sample.document) if group.scope is None else (group.scope,)


def _cells(sample: BoardSample, group: PromptGroup) -> dict[str, dict[str, Any]]:
    """By model, those that have a response in the group."""
    counted = [sample.counts(scope, group.key) for scope in _scopes(sample, group)]
    numbers = {metric.name: (metric, _parts(sample, metric, group)) for metric in _metrics(sample, group)}
    cells = {}
    for model in sample.models:
        n = sum(sum(own[model].values()) for own in counted)
        statistics = {
            name: estimate(metric, parts_by_model[model]).to_json()
            for name, (metric, parts_by_model) in numbers.items()
        }
        if n:
            cells[model] = {"n": n, **statistics}
    return cells


def _metrics(sample: BoardSample, group: PromptGroup) -> list[Metric]:
    """Those of the column; across columns those that have an overall number, or all where none has."""
    if group.scope is not None:
        return metrics_in(sample.document, group.scope)
    overall = [metric for metric in sample.document.metrics if metric.overall != "none"]
    return overall or list(sample.document.metrics)


def _parts(sample: BoardSample, metric: Metric, group: PromptGroup) -> dict[str, MetricPart]:
    """By model; across columns all labels of the metric pooled."""
    inside = scopes_of(sample.document, metric) if group.scope is None else (group.scope,)
    scope_parts = [parts(sample, metric, scope, group.key) for scope in inside]
    return {model: pooled([own[model] for own in scope_parts]) for model in sample.models}
