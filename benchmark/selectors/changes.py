"""Why a cell moved: what the newer run counts otherwise than the older one, item by item."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from benchmark.metrics import ALL
from benchmark.models import BenchmarkRun, RunItem

# The kinds of change, as stable words; the pages translate them.
GOLD_ADDED = "gold_added"
GOLD_CHANGED = "gold_changed"
GOLD_REMOVED = "gold_removed"
PREDICTION_CHANGED = "prediction_changed"
RESPONSE_ADDED = "response_added"
RESPONSE_REMOVED = "response_removed"
KINDS = (GOLD_ADDED, GOLD_CHANGED, GOLD_REMOVED, PREDICTION_CHANGED, RESPONSE_ADDED, RESPONSE_REMOVED)

Place = tuple[str, str]
"""A model and a column of the board."""


@dataclass(frozen=True)
class ItemChange:
    kind: str
    old: RunItem | None
    new: RunItem | None

    @property
    def item(self) -> RunItem:
        """The newer of the two."""
        found = self.new or self.old
        assert found is not None
        return found


def changes(
    old: BenchmarkRun, new: BenchmarkRun, *, model: str | None = None
) -> dict[Place, list[ItemChange]]:
    """What differs between two runs, by place."""
    before, now = _items(old, model), _items(new, model)
    found: dict[Place, list[ItemChange]] = defaultdict(list)
    for key in sorted(before.keys() | now.keys()):
        kind = _kind(before.get(key), now.get(key))
        if kind is not None:
            change = ItemChange(kind, before.get(key), now.get(key))
            found[_place(new, change.item)].append(change)
    return dict(found)


def counts(found: dict[Place, list[ItemChange]]) -> dict[Place, Counter[str]]:
    """How many changes of each kind there are in each place."""
    return {place: Counter(change.kind for change in those) for place, those in found.items()}


def _items(run: BenchmarkRun, model: str | None) -> dict[tuple[int, str], RunItem]:
    items = run.items.select_related(
        "response__prompt", "response__model", "released_label__task", "prediction"
    )
    if model is not None:
        items = items.filter(response__model__name=model)
    return {(item.response_id, item.criterion): item for item in items}


def _place(run: BenchmarkRun, item: RunItem) -> Place:
    dimensions = run.scorer.guideline.document.dimensions
    return item.response.model.name, item.response.prompt.dimension if dimensions else ALL


def _kind(old: RunItem | None, new: RunItem | None) -> str | None:
    if old is None or new is None:
        present = new or old
        assert present is not None
        if present.basis == RunItem.Basis.GOLD:
            return GOLD_ADDED if old is None else GOLD_REMOVED
        return RESPONSE_ADDED if old is None else RESPONSE_REMOVED
    was, is_now = (item.basis == RunItem.Basis.GOLD for item in (old, new))
    if was != is_now:
        return GOLD_ADDED if is_now else GOLD_REMOVED
    if old.value == new.value:
        return None
    return GOLD_CHANGED if is_now else PREDICTION_CHANGED
