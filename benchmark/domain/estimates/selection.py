"""Whether chance chose the responses that have gold, as estimates from them assume, or somebody did. Pure.

docs/estimates.md says what each word means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annotation.domain.releases.selection import (
    ABSTAINED,
    ALL,
    DRAWN,
    EARLIER,
    GROWN,
    LEAST_SURE,
    PART,
    UNFINISHED,
    UNKNOWN,
    UNRECORDED,
)

__all__ = [
    "ABSTAINED",
    "ALL",
    "DRAWN",
    "EARLIER",
    "GROWN",
    "LEAST_SURE",
    "PART",
    "UNFINISHED",
    "UNKNOWN",
    "UNRECORDED",
    "GoldSelection",
    "is_by_chance",
    "selections_to_json",
    "sum_unknown",
]


@dataclass(frozen=True)
class GoldSelection:
    """The gold of one batch for one model and column, as the release has it that the run took it from: ``labels``.

    ``without_gold`` are the batch's other items. The release knew of a ``pool`` of responses; the run has
    ``responses``. ``scorer`` is the one that was not sure of them, where that is how they were chosen.
    """

    batch: str
    model: str
    dimension: str
    labels: int
    without_gold: int
    responses: int
    pool: int
    stored_method: str
    scorer: str = ""

    @property
    def method(self) -> str:
        """A selection that is known was of the pool that there was; of another one it says nothing."""
        if self.stored_method in (ALL, DRAWN) and self.pool != self.responses:
            return GROWN
        return self.stored_method


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
            if labelled[selection.model, selection.dimension] == selection.responses
            else selection.method,
            "labels": selection.labels,
            "without_gold": selection.without_gold,
            "scorer": selection.scorer or None,
        }
        for selection in selections
    ]


def is_by_chance(
    selection: Sequence[Mapping[str, Any]] | None, model: str, dimensions: Sequence[str]
) -> bool:
    """Whether chance alone chose the gold of a model in these columns: one label of another kind spoils them all."""
    if selection is None:
        return False
    own = [row for row in selection if row["model"] == model and row["dimension"] in dimensions]
    return all(any(row["dimension"] == dimension for row in own) for dimension in dimensions) and not any(
        row["how"] in UNKNOWN for row in own
    )


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
