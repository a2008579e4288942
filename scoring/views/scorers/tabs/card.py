"""The card: what a scorer was made of, with the curves that its training told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from annotation.core.formatting import format_significant
from scoring.models import Scorer
from scoring.views.scorers.charts import training_chart

FEWEST = 3
"""Points that make a curve."""


def context(scorer: Scorer) -> dict[str, Any]:
    return {
        "details": list(_flat(scorer.card.get("details", {}))),
        "losses": _curves(scorer.card.get("curves") or []),
    }


def _flat(details: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """What the backbone tells of itself, by dotted names."""
    for name, value in details.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return format_significant(value, 4)
    return ", ".join(map(_shown, value)) if isinstance(value, list) else str(value)


def _curves(history: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Name and picture."""
    named: dict[str, list[float]] = {}
    for point in history:
        named.setdefault(point["name"], []).append(point["value"])
    return [
        (name, training_chart(list(enumerate(values, 1)), ""))
        for name, values in named.items()
        if len(values) >= FEWEST
    ]
