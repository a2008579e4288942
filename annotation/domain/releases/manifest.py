"""A release's manifest in the order in which its parts are declared. Pure.

PostgreSQL keeps the keys of JSON in an order of its own; what is listed comes in the same order everywhere: criteria,
levels and dimensions as the guideline has them, sources and splits as they are declared, everything else by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from annotation.domain.adjudication import SOURCES
from annotation.domain.guidelines.values import order_level
from annotation.domain.releases.splits import SPLITS

Manifest: TypeAlias = Mapping[str, Any]
T = TypeVar("T")


def order_manifest(manifest: Manifest) -> dict[str, Any]:
    """The manifest with its guidelines, counts, splits and languages in order; an older one lacks some of them."""
    ordered = dict(manifest)
    if "guidelines" in manifest:
        ordered["guidelines"] = [_order_guideline(guideline) for guideline in manifest["guidelines"]]
    if "counts" in manifest:
        ordered["counts"] = _order_counts(manifest["counts"], ordered.get("guidelines", ()))
    if manifest.get("splits"):
        ordered["splits"] = order_by_declaration(manifest["splits"], SPLITS)
    if manifest.get("coverage"):
        counted = _order_by_number(manifest["coverage"]["items_by_labels"])
        ordered["coverage"] = {**manifest["coverage"], "items_by_labels": counted}
    if "languages" in (manifest.get("people") or {}):
        ordered["people"] = {
            **manifest["people"],
            "languages": order_by_declaration(manifest["people"]["languages"]),
        }
    return ordered


def order_by_declaration(values: Mapping[str, T], declared: Iterable[str] = ()) -> dict[str, T]:
    """What is declared first, in that order, then the rest by name."""
    first = [name for name in dict.fromkeys(declared) if name in values]
    return {name: values[name] for name in (*first, *sorted(values.keys() - set(first)))}


def index_dimensions(guidelines: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Each dimension as the first of the guidelines has it; a manifest of old has none."""
    dimensions: dict[str, Mapping[str, Any]] = {}
    for guideline in guidelines:
        for dimension in guideline.get("dimensions", ()):
            dimensions.setdefault(dimension["name"], dimension)
    return dimensions


def _order_guideline(guideline: Mapping[str, Any]) -> Mapping[str, Any]:
    if "criteria" not in guideline:
        return guideline
    criteria = [
        {**criterion, "levels": _order_by_number(criterion["levels"])} for criterion in guideline["criteria"]
    ]
    return {**guideline, "criteria": criteria}


def _order_counts(counts: Mapping[str, Any], guidelines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    dimensions = index_dimensions(guidelines)
    criteria = [criterion["name"] for guideline in guidelines for criterion in guideline.get("criteria", ())]
    ordered = dict(counts)
    for name, declared in (
        ("by_source", SOURCES),
        ("by_dimension", dimensions),
        ("by_subcomponent", dimensions),
        ("by_level", criteria),
        ("by_model", ()),
        ("by_language", ()),
    ):
        if name in counts:
            ordered[name] = order_by_declaration(counts[name], declared)
    if "by_level" in ordered:
        ordered["by_level"] = {name: _order_by_number(levels) for name, levels in ordered["by_level"].items()}
    if "by_subcomponent" in ordered:
        ordered["by_subcomponent"] = {
            name: order_by_declaration(parts, _list_subcomponents(dimensions.get(name, {})))
            for name, parts in ordered["by_subcomponent"].items()
        }
    return ordered


def _list_subcomponents(dimension: Mapping[str, Any]) -> list[str]:
    return [part["name"] for part in dimension.get("subcomponents", ())]


def _order_by_number(levels: Mapping[str, T]) -> dict[str, T]:
    return {value: levels[value] for value in sorted(levels, key=order_level)}
