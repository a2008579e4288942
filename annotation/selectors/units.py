"""The labels of batches as columns (annotation/units.py), kept in memory by each process and never stale.

The labels of a task that has all its annotations do not change. So what was read of a batch stays true while its
counts stay the same; when they grew, what was handed in since is read and put in. Withdrawing and bringing back move
``Batch.labels_version``, after which all is read again.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import connection
from django.db.models import TextField
from django.db.models.functions import Cast
from django.utils import timezone

from annotation.models import ADJUDICATION_SLOT, Annotation, Assignment, Batch, GoldLabel, Task
from annotation.selectors.counts import STATES, by_stratum
from annotation.units import Label, Labelled, Units, joined, refreshed, units_of_tasks

COMPLETE = (Task.State.AGREED, Task.State.DISPUTED, Task.State.ADJUDICATED)
CHUNK = 5000
# So many units are kept by one process, about 80 bytes each; the batches that were asked for last.
MOST_KEPT = 2_000_000
# What was handed in by a transaction that ended so much later is still found.
LATE = timedelta(minutes=10)
# Smaller batches are read whole: a moment.
SMALL = 5_000


@dataclass(frozen=True)
class Mark:
    """What a batch looked like when it was read: as long as it does, nothing has changed."""

    version: int
    counts: tuple[int, ...]

    @property
    def complete(self) -> int:
        return sum(n for state, n in zip(STATES, self.counts, strict=True) if state in COMPLETE)


@dataclass(frozen=True)
class Kept:
    mark: Mark
    at: datetime
    units: Units


@dataclass(frozen=True)
class Gold:
    """Of each unit the settled ``value`` (N,), nan where there is none, and whether it was ``decided`` by a person."""

    value: npt.NDArray[np.float32]
    decided: npt.NDArray[np.bool_]


class _Shelf:
    """What this process has read, by the database and the batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], Kept] = OrderedDict()

    def get(self, batch: int) -> Kept | None:
        with self._lock:
            found = self._kept.get(self._key(batch))
            if found is not None:
                self._kept.move_to_end(self._key(batch))
            return found

    def put(self, batch: int, kept: Kept) -> None:
        with self._lock:
            self._kept[self._key(batch)] = kept
            self._kept.move_to_end(self._key(batch))
            while len(self._kept) > 1 and sum(len(one.units) for one in self._kept.values()) > MOST_KEPT:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def _key(self, batch: int) -> tuple[str, int]:
        return str(connection.settings_dict["NAME"]), batch


_SHELF = _Shelf()


def forget() -> None:
    """Nothing is known any more; for tests, whose databases go back in time."""
    _SHELF.clear()


def units_of(batches: Iterable[Batch]) -> Units:
    """The units of the work of these batches, as they stand at this moment, batch by batch."""
    return joined([_of_batch(batch) for batch in sorted(batches, key=lambda one: one.pk)])


def marks_of(batches: Iterable[Batch]) -> tuple[tuple[int, Mark], ...]:
    """By which anything that was computed from ``units_of`` and ``gold_of`` can be kept and known again."""
    return tuple((batch.pk, _mark(batch)) for batch in sorted(batches, key=lambda one: one.pk))


def gold_of(batches: Iterable[Batch], units: Units) -> Gold:
    """The gold of the ``units`` of these batches; what rests on one person's word is none."""
    settled = GoldLabel.objects.filter(task__batch__in=[batch.pk for batch in batches])
    found = settled.exclude(source=GoldLabel.Source.SINGLE).order_by("task_id")
    value = np.full(len(units), np.nan, dtype=np.float32)
    decided = np.zeros(len(units), dtype=bool)
    places = {name: place for place, name in enumerate(units.criterion_names)}
    rows = [
        (task, places[criterion], gold, source == GoldLabel.Source.ADJUDICATED)
        for task, criterion, gold, source in found.values_list(
            "task_id", "criterion", "value", "source"
        ).iterator(chunk_size=CHUNK)
        if criterion in places
    ]
    if rows and len(units):
        task, criterion, gold, by_person = map(np.array, zip(*rows, strict=True))
        width = len(places)
        keys = units.task.astype(np.int64) * width + units.criterion
        order = np.argsort(keys, kind="stable")
        wanted = task.astype(np.int64) * width + criterion
        at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
        hit = keys[order[at]] == wanted
        value[order[at[hit]]] = gold[hit]
        decided[order[at[hit]]] = by_person[hit]
    return Gold(value, decided)


def _of_batch(batch: Batch) -> Units:
    mark = _mark(batch)
    before = _SHELF.get(batch.pk)
    if before is not None and before.mark == mark:
        return before.units
    kept = _grown(batch, before, mark) or Kept(mark, timezone.now(), units_of_tasks(_tasks(batch)))
    _SHELF.put(batch.pk, kept)
    return kept.units


def _grown(batch: Batch, before: Kept | None, mark: Mark) -> Kept | None:
    """What was known with what came since; None where that is not all, or where reading it whole is as quick."""
    if before is None or before.mark.version != mark.version or len(before.units) < SMALL:
        return None
    at = timezone.now()
    units = refreshed(before.units, units_of_tasks(_tasks(batch, since=before.at - LATE)))
    found = len(np.unique(units.task))
    return Kept(mark, at, units) if found == mark.complete else None


def _mark(batch: Batch) -> Mark:
    """Read before the labels: what comes in between makes the next look read again, never this one go stale."""
    version = Batch.objects.values_list("labels_version", flat=True).get(pk=batch.pk)
    counts = by_stratum([batch.pk]).values()
    return Mark(version, tuple(sum(one[state] for one in counts) for state in STATES))


def _tasks(batch: Batch, *, since: datetime | None = None) -> Iterator[Labelled]:
    """The complete tasks in ascending order; with ``since`` those of which anything was handed in from then on."""
    labels = Annotation.objects.filter(
        current=True,
        assignment__state=Assignment.State.SUBMITTED,
        assignment__slot__lt=ADJUDICATION_SLOT,
        assignment__task__batch=batch,
        assignment__task__kind=Task.Kind.WORK,
        assignment__task__state__in=COMPLETE,
    )
    if since is not None:
        newer = Assignment.objects.filter(batch=batch, submitted_at__gte=since).order_by().values("task")
        labels = labels.filter(assignment__task__in=newer)
    found = labels.order_by("assignment__task_id", "assignment__slot").values_list(
        "assignment__task_id",
        "assignment__task__prompt_id",
        "assignment__task__stratum_id",
        "assignment__task__prompt__subcomponent",
        "assignment__person_id",
        Cast("labels", TextField()),
        "assignment__submitted_at",
        "seconds",
    )
    rows: Iterable[tuple[Any, ...]] = found.iterator(chunk_size=CHUNK)
    for _task, of_task in groupby(rows, key=itemgetter(0)):
        yield _labelled(list(of_task))


def _labelled(rows: Sequence[tuple[Any, ...]]) -> Labelled:
    given = [Label(person, _read(labels), _day(at), seconds) for *_task, person, labels, at, seconds in rows]
    task, prompt, stratum, subcomponent = rows[0][:4]
    return Labelled(task, prompt, stratum, subcomponent, given)


@lru_cache(maxsize=10_000)
def _read(labels: str) -> dict[str, float]:
    """There are few different ones; nobody writes to them."""
    found: dict[str, float] = json.loads(labels)
    return found


def _day(at: datetime) -> int:
    return timezone.localdate(at).toordinal()
