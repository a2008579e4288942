"""Why a cell moved: what the newer run counts otherwise than the older one, item by item.

Old beside new: every number of two runs, and what changed behind each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmark.domain.leaderboards.comparison import MetricChange, compare_boards
from benchmark.domain.leaderboards.metrics import ALL
from benchmark.models import BenchmarkRun, RunItem

# The kinds of change, as stable words; the pages translate them.
GOLD_ADDED = "gold_added"
GOLD_CHANGED = "gold_changed"
GOLD_REMOVED = "gold_removed"
PREDICTION_CHANGED = "prediction_changed"
RESPONSE_ADDED = "response_added"
RESPONSE_REMOVED = "response_removed"
KINDS = (GOLD_ADDED, GOLD_CHANGED, GOLD_REMOVED, PREDICTION_CHANGED, RESPONSE_ADDED, RESPONSE_REMOVED)

CellKey = tuple[str, str]
"""A model and a column of the board."""


@dataclass(frozen=True)
class ItemChange:
    kind: str
    old: RunItem | None
    new: RunItem | None

    @property
    def item(self) -> RunItem:
        """The newer of the two."""
        item = self.new or self.old
        assert item is not None
        return item


class _CountedItem(NamedTuple):
    """What a run counts for one criterion of one response; ``item`` is the row's id."""

    item: int
    value: float
    basis: str
    place: CellKey


class _ItemDifference(NamedTuple):
    kind: str
    old: _CountedItem | None
    new: _CountedItem | None

    @property
    def place(self) -> CellKey:
        side = self.new or self.old
        assert side is not None
        return side.place


def count_changes(old: BenchmarkRun, new: BenchmarkRun) -> dict[CellKey, Counter[str]]:
    """How many changes of each kind there are in each place; of a whole board without loading one item."""
    counts_by_place: dict[CellKey, Counter[str]] = defaultdict(Counter)
    for difference in _list_differences(old, new, None):
        counts_by_place[difference.place][difference.kind] += 1
    return dict(counts_by_place)


def list_changes(
    old: BenchmarkRun, new: BenchmarkRun, *, model: str | None = None
) -> dict[CellKey, list[ItemChange]]:
    """What differs between two runs, by place."""
    differences = list(_list_differences(old, new, model))
    items = _list_items(
        (old, new), [side.item for difference in differences for side in difference[1:] if side]
    )
    changes_by_place: dict[CellKey, list[ItemChange]] = defaultdict(list)
    for difference in differences:
        before, now = (items[side.item] if side else None for side in difference[1:])
        changes_by_place[difference.place].append(ItemChange(difference.kind, before, now))
    return dict(changes_by_place)


def _list_differences(old: BenchmarkRun, new: BenchmarkRun, model: str | None) -> Iterator[_ItemDifference]:
    dimensions = bool(new.scorer.guideline.document.dimensions)
    before, now = (_list_counted(run, model, dimensions=dimensions) for run in (old, new))
    for key in sorted(before.keys() | now.keys()):
        kind = _find_kind(before.get(key), now.get(key))
        if kind is not None:
            yield _ItemDifference(kind, before.get(key), now.get(key))


def _list_counted(
    run: BenchmarkRun, model: str | None, *, dimensions: bool
) -> dict[tuple[int, str], _CountedItem]:
    items = run.items.all() if model is None else run.items.filter(response__model__name=model)
    rows = items.values_list(
        "response_id",
        "criterion",
        "pk",
        "value",
        "basis",
        "response__model__name",
        "response__prompt__dimension",
    )
    return {
        (response, criterion): _CountedItem(pk, value, basis, (name, dimension if dimensions else ALL))
        for response, criterion, pk, value, basis, name, dimension in rows.iterator()
    }


def _list_items(runs: Iterable[BenchmarkRun], ids: Sequence[int]) -> dict[int, RunItem]:
    related = RunItem.objects.select_related(
        "response__prompt", "response__model", "released_label__task", "prediction"
    )
    items = related.in_bulk(ids)
    by_key = {run.pk: run for run in runs}
    for item in items.values():
        item.run = by_key[item.run_id]
    return items


def _find_kind(old: _CountedItem | None, new: _CountedItem | None) -> str | None:
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


@dataclass(frozen=True)
class ExplainedChange:
    change: MetricChange
    reasons: Counter[str]
    """How many items changed in which way (benchmark/selectors/leaderboards/comparison.py)."""

    def to_json(self) -> dict[str, Any]:
        return self.change.to_json() | {"reasons": dict(self.reasons)}


@dataclass(frozen=True)
class RunComparison:
    """``totals`` are the changes of all items, each once."""

    moved: tuple[ExplainedChange, ...] = ()
    totals: Counter[str] = field(default_factory=Counter)


def compare_run(run: BenchmarkRun) -> RunComparison:
    """Against the run that it replaces; nothing for a run that replaces none."""
    if run.replaces is None:
        return RunComparison()
    change_counts = count_changes(run.replaces, run)
    changes = compare_boards(run.scorer.guideline.document, run.replaces.board, run.board)
    moved = tuple(ExplainedChange(change, _count_reasons(change, change_counts)) for change in changes)
    return RunComparison(moved, sum(change_counts.values(), Counter()))


def _count_reasons(
    change: MetricChange, change_counts: Mapping[tuple[str, str], Counter[str]]
) -> Counter[str]:
    """An overall number has the changes of all its dimensions."""
    if change.scope is not None:
        return change_counts.get((change.model, change.scope), Counter())
    total: Counter[str] = Counter()
    for (model, _scope), cell_counts in change_counts.items():
        if model == change.model:
            total += cell_counts
    return total
