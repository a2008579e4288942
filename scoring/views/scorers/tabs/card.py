"""The card: what a scorer was made of, with the curves that its training told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from annotation.core.formatting import format_significant
from annotation.models import Person
from annotation.selectors.guidelines import criterion_label
from scoring.models import Scorer
from scoring.views.scorers.charts import training_chart
from scoring.views.scorers.promotions import describe_promotion_text
from scoring.views.scorers.weighing import build_scorer_weighing

MAX_EVEN_RATIO = 1.5
MIN_POINTS = 3
"""Points that make a curve."""


def build_context(scorer: Scorer, person: Person) -> dict[str, Any]:
    return {
        **build_scorer_weighing(scorer),
        "details": list(_flatten_details(scorer.card.get("details", {}))),
        "promotion_text": describe_promotion_text(scorer, person),
        "uneven": _find_uneven(scorer.card.get("split", {})),
        "heads": _label_heads(scorer),
        "losses": _list_curves(scorer.card.get("curves") or []),
    }


def _label_heads(scorer: Scorer) -> list[tuple[str, Mapping[str, Any]]]:
    """What each criterion is called, with what it was learned from."""
    document = scorer.guideline.document
    return [(criterion_label(document, name), head) for name, head in scorer.card.get("heads", {}).items()]


def _find_uneven(split: Mapping[str, Any]) -> int | None:
    """The responses to the prompt that makes the largest fold more than half as large again as the smallest."""
    folds = split.get("by_fold", [])
    sizes = [fold["responses"] for fold in folds]
    if not sizes or max(sizes) <= MAX_EVEN_RATIO * min(sizes):
        return None
    return int(max(fold["largest"] for fold in folds))


def _flatten_details(details: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """What the backbone tells of itself, by dotted names."""
    for name, value in details.items():
        if isinstance(value, Mapping):
            yield from _flatten_details(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", _format_value(value)


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return format_significant(value, 4)
    return ", ".join(map(_format_value, value)) if isinstance(value, list) else str(value)


def _list_curves(history: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Name and picture."""
    named: dict[str, list[float]] = {}
    for point in history:
        named.setdefault(point["name"], []).append(point["value"])
    return [
        (name, training_chart(list(enumerate(values, 1)), ""))
        for name, values in named.items()
        if len(values) >= MIN_POINTS
    ]
