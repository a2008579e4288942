"""Whether chance chose the responses that have gold, as estimates from them assume, or somebody did. Pure.

docs/estimates.md says what each word means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ALL, DRAWN = "all", "drawn"
ABSTAINED, PART, UNFINISHED = "abstained", "part", "unfinished"
UNKNOWN = (ABSTAINED, PART, UNFINISHED)
"""What no chance that anybody knows has chosen."""


@dataclass(frozen=True)
class GoldSelection:
    """The gold of one batch for one model and column: so many ``labels``, and of its ``tasks`` those ``without_gold``.

    ``responses`` are all that there are. ``drawn`` says that a plan drew the batch; ``abstained`` names the scorer that
    was not sure of it.
    """

    batch: str
    model: str
    dimension: str
    labels: int
    tasks: int
    without_gold: int
    responses: int
    drawn: bool = False
    abstained: str = ""

    @property
    def method(self) -> str:
        if self.abstained:
            return ABSTAINED
        if not self.drawn and self.tasks < self.responses:
            return PART
        if self.without_gold:
            return UNFINISHED
        return DRAWN if self.drawn else ALL


def selections_to_json(selections: Sequence[GoldSelection]) -> list[dict[str, Any]]:
    """As JSON. Where all of a model's responses in a column have gold, of whichever batches, nothing was chosen."""
    labelled: Counter[tuple[str, str]] = Counter()
    for selection in selections:
        labelled[selection.model, selection.dimension] += selection.labels
    return [
        {
            "batch": selection.batch,
            "model": selection.model,
            "dimension": selection.dimension,
            "how": ALL
            if labelled[selection.model, selection.dimension] >= selection.responses
            else selection.method,
            "labels": selection.labels,
            "without_gold": selection.without_gold,
            "scorer": selection.abstained or None,
        }
        for selection in selections
    ]


def sum_unknown(selection: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those of unknown selection added up: of each batch and way the labels, and its tasks without gold."""
    totals: dict[tuple[str, str], dict[str, Any]] = {}
    for row in selection:
        if row["how"] in UNKNOWN:
            key = (row["batch"], row["how"])
            total = totals.setdefault(key, {**row, "labels": 0, "without_gold": 0})
            total["labels"] += row["labels"]
            total["without_gold"] += row["without_gold"]
    return list(totals.values())
