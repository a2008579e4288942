"""The agreement report: label patterns read from the database in one query, and the statistics on them.

``docs/agreement.md`` says what a unit is and which tasks count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any, NamedTuple, TypeAlias

from django.db.models import Q, QuerySet

from annotation.agreement import (
    MEASUREMENTS,
    Agreement,
    Measurement,
    Pattern,
    Statistic,
    Value,
    agreement,
    pool,
)
from annotation.errors import N_, AssayError
from annotation.guidelines import Criterion
from annotation.models import (
    ADJUDICATION_SLOT,
    Annotation,
    Assignment,
    Batch,
    EvaluatedModel,
    Guideline,
    Person,
    Task,
)
from annotation.selectors.batches import batch_named
from annotation.selectors.blindness import sealed_batches, sealed_datasets
from annotation.selectors.gold import refuse_sealed_gold

FACETS = ("dimension", "subcomponent", "model", "pair", "guideline_version")
COMPLETE = (Task.State.AGREED, Task.State.DISPUTED, Task.State.ADJUDICATED)
CHUNK = 5000

Grouping: TypeAlias = tuple[str, ...]
Group: TypeAlias = Mapping[str, str | None]


def parse_groupings(text: str) -> tuple[Grouping, ...]:
    """``a,b`` as two groupings, ``a*b`` as one crossed; an unknown facet is an error."""
    groupings = [tuple(_parts(part, "*")) for part in _parts(text, ",")]
    unknown = sorted({facet for grouping in groupings for facet in grouping} - set(FACETS))
    if unknown:
        raise AssayError(
            N_("Agreement cannot be grouped by {unknown}; choose among: {known}."),
            unknown=", ".join(unknown),
            known=", ".join(FACETS),
        )
    return tuple(dict.fromkeys(groupings))


def _parts(text: str, separator: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(separator) if part.strip()))


def batches_for(person: Person, name: str = "") -> QuerySet[Batch]:
    """The batch of this name, refused if it is sealed for the person; without one all that are not.

    A batch on responses that they judge blind elsewhere is: its report names the models.
    """
    if name:
        refuse_sealed_gold(person, [batch_named(name)])
        return Batch.objects.filter(name=name)
    judged = Task.objects.filter(response__prompt__dataset__in=sealed_datasets(person).values("pk"))
    sealed = Q(pk__in=sealed_batches(person).values("pk")) | Q(pk__in=judged.values("batch"))
    return Batch.objects.exclude(sealed)


@dataclass(frozen=True)
class ReportRow:
    """The agreement of one criterion (None: several pooled) of one guideline in one group ({}: all)."""

    guideline: str
    criterion: str | None
    group: Group
    measurement: Measurement
    agreement: Agreement

    def to_json(self) -> dict[str, Any]:
        statistics = {name: _statistic(one) for name, one in self.agreement.statistics.items()}
        return {
            "guideline": self.guideline,
            "criterion": self.criterion,
            "group": dict(self.group),
            "n": self.agreement.n,
            "disputed": self.agreement.disputed,
            **statistics,
        }


def _statistic(one: Statistic) -> dict[str, float | None] | None:
    return None if one.value is None else {"value": one.value, "low": one.low, "high": one.high}


@dataclass(frozen=True)
class Confusion:
    """Two levels of one criterion that annotators gave to the same response, ``count`` pairs of labels."""

    guideline: str
    criterion: Criterion
    low: Value
    high: Value
    count: int


class _Cell(NamedTuple):
    """Units that do not differ in anything that the report tells apart. ``people`` and ``pattern`` by slot."""

    guideline: int
    criterion: str
    dimension: str
    subcomponent: str
    model: int
    people: tuple[int, ...]
    pattern: Pattern


class LabelPatterns:
    """All comparable labels of some batches, counted once; every part of the report is a sum over them."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        chosen = [batch.pk for batch in batches]
        self.cells = _count(chosen)
        self.guidelines = {
            guideline.pk: guideline
            for guideline in Guideline.objects.filter(batches__in=chosen).distinct().order_by("name", "pk")
        }
        self._models = dict(EvaluatedModel.objects.values_list("pk", "name"))
        people = {person for cell in self.cells for person in cell.people}
        self._people = dict(Person.objects.filter(pk__in=people).values_list("pk", "username"))

    def report(self, groupings: Sequence[Grouping] = ()) -> list[ReportRow]:
        """The rows over everything, then those of each grouping, group by group."""
        rows: list[ReportRow] = []
        for grouping in dict.fromkeys([(), *groupings]):
            for group, cells in self._groups(grouping):
                rows += self._rows(group, cells)
        return rows

    def confusions(self) -> list[Confusion]:
        """Which levels are taken for each other, the most frequent first."""
        counts: Counter[tuple[str, str, Value, Value]] = Counter()
        for cell, units in self.cells.items():
            for one, other in combinations(cell.pattern, 2):
                if one is not None and other is not None and one != other:
                    name = self.guidelines[cell.guideline].name
                    counts[name, cell.criterion, min(one, other), max(one, other)] += units
        return [self._confusion(key, count) for key, count in sorted(counts.items(), key=_most_first)]

    def _confusion(self, key: tuple[str, str, Value, Value], count: int) -> Confusion:
        guideline, criterion, low, high = key
        return Confusion(guideline, self._versions(guideline, criterion)[-1], low, high, count)

    def _groups(self, grouping: Grouping) -> Iterator[tuple[Group, dict[_Cell, int]]]:
        """The groups that occur, by name, an unnamed one last; with no grouping the one group of all."""
        groups: dict[tuple[str | None, ...], Counter[_Cell]] = {} if grouping else {(): Counter()}
        for cell, units in self._cells_for(grouping):
            key = tuple(self._facet(cell, facet) for facet in grouping)
            groups.setdefault(key, Counter())[cell] += units
        for key in sorted(groups, key=_by_name):
            yield dict(zip(grouping, key, strict=True)), dict(groups[key])

    def _cells_for(self, grouping: Grouping) -> Iterator[tuple[_Cell, int]]:
        """The cells; where pairs are told apart, a cell for each pair of a unit's annotators, by username."""
        for cell, units in self.cells.items():
            if "pair" in grouping:
                labels = sorted(zip(map(self._username, cell.people), cell.people, cell.pattern, strict=True))
                for (_a, one, first), (_b, other, second) in combinations(labels, 2):
                    yield cell._replace(people=(one, other), pattern=(first, second)), units
            else:
                yield cell, units

    def _facet(self, cell: _Cell, facet: str) -> str | None:
        match facet:
            case "dimension":
                return cell.dimension or None
            case "subcomponent":
                return cell.subcomponent or None
            case "model":
                return self._models[cell.model]
            case "pair":
                return ", ".join(self._username(person) for person in cell.people)
            case _:
                return str(self.guidelines[cell.guideline])

    def _rows(self, group: Group, cells: Mapping[_Cell, int]) -> Iterator[ReportRow]:
        """For each guideline the pooled row where there are several criteria, then a row for each."""
        for guideline in dict.fromkeys(one.name for one in self.guidelines.values()):
            parts = self._parts_of(guideline, cells, all_criteria=not group)
            if len(parts) > 1:
                pooled, values = pool((part.patterns, part.values) for part in parts)
                measured = agreement(pooled, values=values, measurement="nominal")
                yield ReportRow(guideline, None, group, "nominal", measured)
            for part in parts:
                measured = agreement(part.patterns, values=part.values, measurement=part.measurement)
                yield ReportRow(guideline, part.criterion, group, part.measurement, measured)

    def _parts_of(self, guideline: str, cells: Mapping[_Cell, int], *, all_criteria: bool) -> list[_Part]:
        patterns: dict[str, Counter[Pattern]] = {}
        for cell, units in cells.items():
            if self.guidelines[cell.guideline].name == guideline:
                patterns.setdefault(cell.criterion, Counter())[cell.pattern] += units
        known = [c.name for g in self._named(guideline) for c in g.document.criteria]
        return [
            self._part(guideline, criterion, patterns.get(criterion, {}))
            for criterion in dict.fromkeys(known)
            if all_criteria or criterion in patterns
        ]

    def _part(self, guideline: str, criterion: str, patterns: Mapping[Pattern, int]) -> _Part:
        """Versions whose scales differ are compared on the levels of all of them, at the weakest measurement."""
        versions = self._versions(guideline, criterion)
        values = tuple(sorted({value for version in versions for value in version.values}))
        weakest = min(MEASUREMENTS.index(version.measurement) for version in versions)
        return _Part(criterion, patterns, values, MEASUREMENTS[weakest])

    def _versions(self, guideline: str, criterion: str) -> list[Criterion]:
        documents = [one.document for one in self._named(guideline)]
        return [c for document in documents for c in document.criteria if c.name == criterion]

    def _named(self, guideline: str) -> list[Guideline]:
        return [one for one in self.guidelines.values() if one.name == guideline]

    def _username(self, person: int) -> str:
        return self._people[person]


class _Part(NamedTuple):
    criterion: str
    patterns: Mapping[Pattern, int]
    values: tuple[Value, ...]
    measurement: Measurement


def _by_name(key: tuple[str | None, ...]) -> list[tuple[bool, str]]:
    return [(name is None, name or "") for name in key]


def _most_first(item: tuple[tuple[str, str, Value, Value], int]) -> tuple[int, tuple[str, str, Value, Value]]:
    return -item[1], item[0]


def _count(batches: Sequence[int]) -> Counter[_Cell]:
    """One query; the rows stream through, and only their counts stay."""
    cells: Counter[_Cell] = Counter()
    rows = _labels(batches).iterator(chunk_size=CHUNK)
    for _task, of_task in groupby(rows, key=lambda row: row[0]):
        cells.update(_cells(list(of_task)))
    return cells


def _cells(rows: Sequence[tuple[Any, ...]]) -> Iterator[_Cell]:
    """The units of one task: one for each criterion that anyone answered."""
    _task, guideline, dimension, subcomponent, model, _person, _labels = rows[0]
    people = tuple(row[5] for row in rows)
    for criterion in dict.fromkeys(name for row in rows for name in row[6]):
        pattern = tuple(row[6].get(criterion) for row in rows)
        yield _Cell(guideline, criterion, dimension, subcomponent, model, people, pattern)


def _labels(batches: Sequence[int]) -> QuerySet[Annotation, Any]:
    """Current labels of the work tasks that have all their annotations, task by task in slot order."""
    return (
        Annotation.objects.filter(
            current=True,
            assignment__state=Assignment.State.SUBMITTED,
            assignment__slot__lt=ADJUDICATION_SLOT,
            assignment__task__batch__in=batches,
            assignment__task__kind=Task.Kind.WORK,
            assignment__task__state__in=COMPLETE,
        )
        .order_by("assignment__task_id", "assignment__slot")
        .values_list(
            "assignment__task_id",
            "assignment__task__batch__guideline_id",
            "assignment__task__response__prompt__dimension",
            "assignment__task__response__prompt__subcomponent",
            "assignment__task__response__model_id",
            "assignment__person_id",
            "labels",
        )
    )
