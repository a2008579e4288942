"""How the responses of batches came to be selected: those that have gold, or all labels, by the recorded draws."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db.models import Count, Exists, OuterRef, QuerySet

from annotation.domain.releases.selection import (
    ALL,
    DRAWN,
    PART,
    BatchGold,
    CellSelection,
    DrawnStratum,
    judge_cell,
)
from annotation.models import (
    AuditEvent,
    Batch,
    BatchDraw,
    Collection,
    Dataset,
    EvaluatedModel,
    GoldLabel,
    Response,
    Task,
)

NO_DIMENSION = "all"
"""What the one dimension of a guideline without any is called, as on boards."""
CELL = ("response__prompt__dataset", "response__collection", "response__model", "response__prompt__dimension")


class Cell(NamedTuple):
    """By ids. ``dimension`` is that of the prompts, whatever the guideline knows."""

    dataset: int
    collection: int
    model: int
    dimension: str


@dataclass
class Selection:
    """``rows`` are what the manifest says of each batch, model and dimension. ``is_whole``: every chance is 1."""

    is_whole: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)
    whole_cells: list[Cell] = field(default_factory=list)
    chances: dict[float, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Ids of responses by their chance, in cells of which a part was drawn."""


def read_selection(batches: Sequence[Batch], *, states: Sequence[str] = ()) -> Selection:
    """Of the settled labels that a release of the batches would take; with ``states`` of the tasks in these."""
    reader = _SelectionReader(batches, states)
    selection = Selection()
    for cell in sorted(reader.labelled):
        reader.add_cell(cell, selection)
    selection.is_whole = not selection.chances and set(selection.whole_cells) == set(reader.labelled)
    return selection


class _SelectionReader:
    def __init__(self, batches: Sequence[Batch], states: Sequence[str]) -> None:
        self.batches = {batch.pk: batch for batch in batches}
        work = Task.objects.filter(batch__in=self.batches, kind=Task.Kind.WORK).order_by()
        settled = Exists(GoldLabel.objects.filter(task=OuterRef("pk")))
        gold = work.filter(state__in=states) if states else work.filter(settled)
        gold = gold.exclude(state=Task.State.WITHDRAWN)
        self.tasks = _count_by_batch(work, Count("pk"))
        self.gold = _count_by_batch(gold, Count("response", distinct=True))
        self.labelled = Counter(
            {
                Cell(*cell): n
                for *cell, n in gold.values_list(*CELL).annotate(n=Count("response", distinct=True))
            }
        )
        self.pools = _count_pools(self.labelled)
        self.abstained = find_abstained(batches)
        self.draws = {draw.batch_id: draw for draw in BatchDraw.objects.filter(batch__in=self.batches)}
        self.drawn_gold: dict[int, dict[int, Cell]] = defaultdict(dict)
        for batch, response, *cell in gold.filter(batch__in=self.draws).values_list(
            "batch", "response", *CELL
        ):
            self.drawn_gold[batch][response] = Cell(*cell)
        self.names = _CellNames()
        self.strata = {
            pk: [DrawnStratum.from_json(row) for row in draw.strata] for pk, draw in self.draws.items()
        }

    def add_cell(self, cell: Cell, selection: Selection) -> None:
        parts: dict[int, BatchGold] = {}
        for pk in self.batches:
            if self.gold[pk, cell]:
                parts[pk] = BatchGold(
                    batch=self.batches[pk].name,
                    tasks=self.tasks[pk, cell],
                    labelled=self.gold[pk, cell],
                    strata=self._list_strata(pk, cell),
                    abstained=self.abstained.get(pk, ""),
                    imported=pk in self.draws and self.draws[pk].imported,
                )
        verdict = judge_cell(self.pools[cell], self.labelled[cell], list(parts.values()))
        if verdict.is_whole:
            selection.whole_cells.append(cell)
        for pk, part in parts.items():
            selection.rows += self._describe_part(pk, part, cell, verdict)
        self._add_chances(parts, cell, verdict, selection)

    def _list_strata(self, batch: int, cell: Cell) -> list[tuple[DrawnStratum, int]] | None:
        if batch not in self.draws:
            return None
        model, dimension = self.names.models[cell.model], self._find_scope(batch, cell)
        labelled = {response for response, own in self.drawn_gold[batch].items() if own == cell}
        return [
            (
                stratum,
                len(labelled if stratum.responses is None else labelled.intersection(stratum.responses)),
            )
            for stratum in self.strata[batch]
            if (stratum.model, stratum.dimension) == (model, dimension)
        ]

    def _find_scope(self, batch: int, cell: Cell) -> str:
        return cell.dimension if self.batches[batch].guideline.document.dimensions else NO_DIMENSION

    def _describe_part(
        self, pk: int, part: BatchGold, cell: Cell, verdict: CellSelection
    ) -> list[dict[str, Any]]:
        """A row; of a draw that a choice was mixed with, another one for that."""
        method = verdict.methods[part.batch]
        row = {
            "batch": part.batch,
            "dataset": self.names.datasets[cell.dataset],
            "collection": self.names.collections[cell.collection],
            "model": self.names.models[cell.model],
            "dimension": self._find_scope(pk, cell),
            "how": method,
            "labels": part.labelled,
            "known": part.labelled if method == ALL else 0,
            "without_gold": part.tasks - part.labelled,
            "pool": self._count_pool(part, cell),
            "scorer": part.abstained or None,
            "strata": [_describe_stratum(stratum, n) for stratum, n in part.strata or ()],
        }
        if method not in (ALL, DRAWN) or verdict.is_whole:
            return [row]
        drawn = sum(n for stratum, n in part.strata or () if stratum.chance is not None)
        rows = [row | {"labels": drawn, "known": drawn, "without_gold": 0}]
        if part.labelled > drawn:
            reasons = [stratum.reason for stratum, _n in part.strata or () if stratum.reason]
            rest = {"labels": part.labelled - drawn, "known": 0, "strata": []}
            rows.append(row | rest | {"how": reasons[0] if reasons else PART})
        return rows

    def _count_pool(self, part: BatchGold, cell: Cell) -> int:
        """Of an imported batch the responses that were drawn from, which are not all here."""
        if not part.imported:
            return self.pools[cell]
        pools = {stratum.bounds: stratum.pool for stratum, _n in part.strata or ()}
        return max(self.pools[cell], sum(pools.values()))

    def _add_chances(
        self, parts: Mapping[int, BatchGold], cell: Cell, verdict: CellSelection, selection: Selection
    ) -> None:
        for pk, part in parts.items():
            if verdict.is_whole or verdict.methods[part.batch] not in (ALL, DRAWN):
                continue
            labelled = {response for response, own in self.drawn_gold[pk].items() if own == cell}
            for stratum, _n in part.strata or ():
                if stratum.chance is not None and stratum.bounds in verdict.chances:
                    of = labelled if stratum.responses is None else labelled.intersection(stratum.responses)
                    selection.chances[verdict.chances[stratum.bounds]] += sorted(of)


def _describe_stratum(stratum: DrawnStratum, labels: int) -> dict[str, Any]:
    return {
        "low": stratum.low,
        "high": stratum.high,
        "pool": stratum.pool,
        "wanted": stratum.size,
        "labels": labels,
        "chance": stratum.chance,
        "reason": stratum.reason or None,
    }


def _count_by_batch(tasks: QuerySet[Task], n: Count) -> Counter[tuple[int, Cell]]:
    rows = tasks.values_list("batch", *CELL).annotate(n=n)
    return Counter({(batch, Cell(*cell)): n for batch, *cell, n in rows})


def _count_pools(cells: Iterable[Cell]) -> Counter[Cell]:
    """All responses of these cells that there are."""
    fields = [name.removeprefix("response__") for name in CELL]
    responses = Response.objects.filter(
        prompt__dataset__in={cell.dataset for cell in cells}, model__in={cell.model for cell in cells}
    )
    rows = responses.order_by().values_list(*fields).annotate(n=Count("pk"))
    return Counter({Cell(*cell): n for *cell, n in rows})


class _CellNames:
    def __init__(self) -> None:
        self.models = dict(EvaluatedModel.objects.values_list("pk", "name"))
        self.datasets = dict(Dataset.objects.values_list("pk", "name"))
        self.collections = dict(Collection.objects.values_list("pk", "name"))


def find_abstained(batches: Iterable[Batch]) -> dict[int, str]:
    """By batch the scorer that it was made of because it abstained, as the audit trail has it."""
    targets = {f"batch:{batch.name}": batch.pk for batch in batches}
    events = AuditEvent.objects.filter(verb="batch_of_abstained", target__in=targets)
    return {targets[event.target]: str(event.data.get("scorer", "")) for event in events}
