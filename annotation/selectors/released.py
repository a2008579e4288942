"""What is in a gold release, for writing it into files: its rows in one order on every database, a chunk at a time.

A row is what was labelled: one response under one guideline version. Labels of the same response that came from
different tasks stand in one row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any

from django.db import connection
from django.db.models import F, QuerySet, Window
from django.db.models.functions import Collate, DenseRank

from annotation.gold import number
from annotation.goldfile import GoldRow
from annotation.models import ADJUDICATION_SLOT, Assignment, GoldRelease, Task

CHUNK = 1000
# The order of the bytes in UTF-8, which is that of the code points.
BYTES = {"postgresql": "C", "sqlite": "BINARY"}
_CONTENT = (
    "batch__guideline__name",
    "batch__guideline__version",
    "response__prompt__dataset__name",
    "response__prompt__key",
    "response__model__name",
    "response__sha256",
)
_SHOWN = (
    "pk",
    "response__prompt__dataset__name",
    "response__prompt__key",
    "response__prompt__dimension",
    "response__prompt__subcomponent",
    "response__model__name",
    "response__text",
    "response__turns",
    "batch__guideline__name",
    "batch__guideline__version",
)
ANNOTATOR, ADJUDICATOR = "annotator", "adjudicator"


@dataclass(frozen=True)
class ReleasedRow:
    """A row of the gold file, and the tasks whose labels stand in it; it shows the response of the first."""

    gold: GoldRow
    tasks: tuple[int, ...]


class Released:
    """A release as its files hold it. Nothing is read before it is asked for."""

    def __init__(self, release: GoldRelease) -> None:
        self.release = release

    @cached_property
    def criteria(self) -> list[str]:
        """The criteria that the release has labels of, by name."""
        return sorted(self.release.items.order_by().values_list("criterion", flat=True).distinct())

    @cached_property
    def order(self) -> Order:
        return _order(self.release)

    @property
    def rows(self) -> int:
        return self.order.rows

    def chunks(self, start: int = 0, *, size: int = CHUNK) -> Iterator[list[ReleasedRow]]:
        """The rows after the first ``start``, at most ``size`` at a time."""
        rows = iter(self.order.after(start))
        while part := list(islice(rows, size)):
            yield self._read(part)

    def _read(self, rows: Sequence[tuple[int, ...]]) -> list[ReleasedRow]:
        labels = self._labels(list(chain.from_iterable(rows)))
        shown = {
            row[0]: row
            for row in Task.objects.filter(pk__in=[tasks[0] for tasks in rows]).values_list(*_SHOWN)
        }
        return [
            ReleasedRow(_gold_row(shown[tasks[0]], [one for task in tasks for one in labels[task]]), tasks)
            for tasks in rows
        ]

    def _labels(self, tasks: Sequence[int]) -> dict[int, list[tuple[str, float, str]]]:
        found: dict[int, list[tuple[str, float, str]]] = {task: [] for task in tasks}
        rows = self.release.items.filter(task__in=tasks).order_by()
        for task, criterion, value, source in rows.values_list("task_id", "criterion", "value", "source"):
            found[task].append((criterion, value, source))
        return found

    def texts_like(self, start: str) -> set[str]:
        """The sha256 of the responses that are one text, no dialogue, and start like this."""
        texts = Task.objects.filter(
            pk__in=self.release.items.values("task"), response__text__startswith=start
        )
        return set(texts.values_list("response__sha256", flat=True))

    def people(self) -> dict[int, str]:
        """Who labelled what is in the release: ``annotator``, or ``adjudicator`` who did nothing but decide."""
        submitted = Assignment.objects.filter(
            task__in=self.release.items.values("task"), state=Assignment.State.SUBMITTED
        )
        by_role = submitted.order_by().values_list("person_id", "slot").distinct()
        found: dict[int, str] = {}
        for person, slot in by_role:
            if slot != ADJUDICATION_SLOT:
                found[person] = ANNOTATOR
            else:
                found.setdefault(person, ADJUDICATOR)
        return found


class Order:
    """The tasks of a release in the order of its rows; a task that goes on the row before it is kept negative."""

    def __init__(self, places: Iterable[tuple[int, Any]]) -> None:
        """``places`` are (task, what its row is known by), row by row."""
        self._tasks = array("q")
        self.rows = 0
        before: Any = None
        for task, row in places:
            self._tasks.append(task if row != before else -task)
            self.rows += row != before
            before = row

    def after(self, start: int) -> Iterator[tuple[int, ...]]:
        """The rows after the first ``start``, each as its tasks."""
        return islice(self._grouped(), start, None)

    def _grouped(self) -> Iterator[tuple[int, ...]]:
        row: list[int] = []
        for task in self._tasks:
            if task > 0 and row:
                yield tuple(row)
                row = []
            row.append(abs(task))
        if row:
            yield tuple(row)


def gold_rows(release: GoldRelease) -> Iterator[GoldRow]:
    """The rows of the gold file, in the order of guideline, version, dataset, prompt id, model and response."""
    for chunk in Released(release).chunks():
        yield from (row.gold for row in chunk)


def _order(release: GoldRelease) -> Order:
    return Order(_places(release).values_list("pk", "place").iterator(chunk_size=20 * CHUNK))


def _places(release: GoldRelease) -> QuerySet[Any]:
    """The release's tasks row by row; those of one row have one ``place``. The database sorts, by bytes."""
    by_bytes = [Collate(F(name), BYTES[connection.vendor]) for name in _CONTENT]
    tasks = Task.objects.filter(pk__in=release.items.order_by().values("task"))
    return tasks.annotate(place=Window(DenseRank(), order_by=by_bytes)).order_by("place", "pk")


def _gold_row(shown: Sequence[Any], labels: Sequence[tuple[str, float, str]]) -> GoldRow:
    _pk, dataset, prompt, dimension, subcomponent, model, text, turns, guideline, version = shown
    return GoldRow(
        dataset=dataset,
        prompt_id=prompt,
        dimension=dimension,
        subcomponent=subcomponent,
        model=model,
        response=turns or text,
        labels={criterion: number(value) for criterion, value, _source in labels},
        sources={criterion: source for criterion, _value, source in labels},
        guideline=guideline,
        guideline_version=version,
    )
