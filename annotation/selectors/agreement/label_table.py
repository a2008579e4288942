"""The labels of batches as columns (domain/agreement/label_table.py), cached by each process and never stale.

The labels of a task that has all its annotations do not change. Those of an open task, which count from the second on,
may: a correction of theirs is counted. So the units of a batch stay true while its counts stay the same; when these
grew, the units submitted since are read and added. Corrections, withdrawing a task and bringing it back, and the end of
the collection have all units read again.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from itertools import groupby
from operator import is_, itemgetter
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from django.db import connection
from django.db.models import Q, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from annotation.domain.adjudication import DECIDED
from annotation.domain.agreement.label_table import (
    APPLICABILITY,
    LabelledTask,
    PersonLabels,
    Units,
    build_units,
    pool_units,
    replace_tasks,
)
from annotation.domain.agreement.rounds import pool_rounds
from annotation.domain.guidelines import NA
from annotation.domain.guidelines.values import strip_turn
from annotation.models import ADJUDICATION_SLOT, Annotation, Assignment, Batch, GoldLabel, Stratum, Task
from annotation.selectors.counts import STATES, count_by_stratum

COMPLETE = (Task.State.AGREED, Task.State.DISPUTED, Task.State.ADJUDICATED)
# An open task counts as soon as its labels can be compared; with places for two it is complete by then.
MIN_OPEN_LABELS = 2
IS_COUNTED = Q(assignment__task__state__in=COMPLETE) | Q(
    assignment__task__state=Task.State.OPEN,
    assignment__task__overlap__gt=MIN_OPEN_LABELS,
    assignment__task__slots_taken__gte=MIN_OPEN_LABELS,
)
CHUNK = 5000
# So many units are kept by one process, about 140 bytes each with what is worked out of them; the batches that were
# asked for last.
MAX_UNITS = 2_000_000
# So many sets of batches that were looked at together are kept as one.
MAX_JOINED = 2
# So many results that were worked out of units are kept, whatever they are.
MAX_RESULTS = 256
# What was handed in by a transaction that ended so much later is still found.
COMMIT_DELAY = timedelta(minutes=10)
# Smaller batches are read whole: a moment.
MIN_UNITS_TO_REFRESH = 5_000


@dataclass(frozen=True)
class BatchMark:
    """What a batch looked like when it was read: as long as it does, nothing has changed. ``counts`` are the numbers of
    its tasks by state, ``submitted`` of its annotations, and ``revised`` of corrections.
    """

    version: int
    counts: tuple[int, ...]
    submitted: int
    revised: int

    @property
    def open(self) -> int:
        return self.counts[STATES.index("open")]

    @property
    def complete(self) -> int:
        return sum(n for state, n in zip(STATES, self.counts, strict=True) if state in COMPLETE)


Marks: TypeAlias = tuple[tuple[int, BatchMark], ...]
GoldRow: TypeAlias = tuple[int, int, float, bool]
"""A task, the place of a criterion, the settled value, and whether a person decided it."""
T = TypeVar("T")


@dataclass(frozen=True)
class CachedUnits:
    """``open_tasks`` are those of the units' tasks that were open when they were read."""

    mark: BatchMark
    at: datetime
    units: Units
    open_tasks: frozenset[int]


@dataclass(frozen=True)
class Gold:
    """Of each unit the settled ``value`` (N,), nan where there is none, and whether it was ``decided`` by a person."""

    value: npt.NDArray[np.float32]
    decided: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Coverage:
    """How many items have how many labels, ascending, those without any among them; how many of them wait for ``more``
    labels, and how many for a ``decision``.
    """

    items: tuple[tuple[int, int], ...]
    more: int
    decision: int

    def to_json(self) -> dict[str, Any]:
        return {
            "items_by_labels": {str(labels): items for labels, items in self.items},
            "waiting_for_labels": self.more,
            "waiting_for_decision": self.decision,
        }


class _UnitCache:
    """What this process has read, by the database and the batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._units: OrderedDict[tuple[str, int], CachedUnits] = OrderedDict()
        self._joined_units: deque[tuple[tuple[Units, ...], Units]] = deque(maxlen=MAX_JOINED)
        self._results: OrderedDict[tuple[str, Hashable, Marks], Any] = OrderedDict()

    def get(self, batch: int) -> CachedUnits | None:
        with self._lock:
            cached = self._units.get(self._key(batch))
            if cached is not None:
                self._units.move_to_end(self._key(batch))
            return cached

    def put(self, batch: int, cached: CachedUnits) -> None:
        with self._lock:
            self._units[self._key(batch)] = cached
            self._units.move_to_end(self._key(batch))
            while (
                len(self._units) > 1 and sum(len(entry.units) for entry in self._units.values()) > MAX_UNITS
            ):
                self._units.popitem(last=False)

    def pooled(self, parts: Sequence[Units], versions: Sequence[int]) -> Units:
        with self._lock:
            for joined_parts, units in self._joined_units:
                if len(joined_parts) == len(parts) and all(map(is_, joined_parts, parts)):
                    return units
        units = pool_units(parts, versions)
        with self._lock:
            self._joined_units.append((tuple(parts), units))
        return units

    def result(self, name: Hashable, marks: Marks, compute: Callable[[], Any]) -> Any:
        key = (str(connection.settings_dict["NAME"]), name, marks)
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = compute()
        with self._lock:
            self._results[key] = result
            while len(self._results) > MAX_RESULTS:
                self._results.popitem(last=False)
        return result

    def clear(self) -> None:
        with self._lock:
            self._units.clear()
            self._joined_units.clear()
            self._results.clear()

    def _key(self, batch: int) -> tuple[str, int]:
        return str(connection.settings_dict["NAME"]), batch


_CACHE = _UnitCache()


def clear_units() -> None:
    """Nothing is known any more; for tests, whose databases go back in time."""
    _CACHE.clear()


@dataclass(frozen=True)
class BatchUnits:
    """The units of some batches with their strata, by which they are told apart, and the marks that they had.

    ``answers`` are those of ``units``, whose labels are numbers, with those that tell who found a criterion not
    applicable; ``parts`` are the answers of each batch, as they are before a response of several batches counts once,
    and ``versions`` those of the guidelines under which each was labelled.
    """

    answers: Units
    parts: Sequence[Units]
    versions: Sequence[int]
    strata: dict[int, Stratum]
    marks: Marks

    @property
    def units(self) -> Units:
        return self.answers.numbered

    @cached_property
    def rounds(self) -> Units:
        """The answers with each round of labelling apart."""
        return pool_rounds(self.parts, self.versions, self.answers.merged)


def read_batches(batches: Iterable[Batch]) -> BatchUnits:
    """The units of the work of these batches, as they stand at this moment, batch by batch; a response that several of
    them have under one version of a guideline counts once.
    """
    sorted_batches = sorted(batches, key=lambda batch: batch.pk)
    marks, strata = _read_marks(sorted_batches)
    parts = [_read_batch(batch, marks[batch.pk]) for batch in sorted_batches]
    versions = [batch.guideline_id for batch in sorted_batches]
    return BatchUnits(_pool(parts, versions), parts, versions, strata, tuple(marks.items()))


def read_units(batches: Iterable[Batch]) -> Units:
    return read_batches(batches).units


def read_marks(batches: Iterable[Batch]) -> Marks:
    """By which anything that was computed from ``units_of`` and ``gold_of`` can be kept and known again."""
    return tuple(_read_marks(sorted(batches, key=lambda batch: batch.pk))[0].items())


def cache_result(name: Hashable, marks: Marks, compute: Callable[[], T]) -> T:
    """What ``compute`` gave for these marks, under a name that nobody else uses; never stale, as the units are."""
    result: T = _CACHE.result(name, marks, compute)
    return result


def _pool(parts: Sequence[Units], versions: Sequence[int]) -> Units:
    """Kept as well, since all that is worked out of units is kept with them. A batch has a response once."""
    if len(parts) == 1:
        return parts[0]
    return _CACHE.pooled(parts, versions)


def read_gold(batches: Iterable[Batch], units: Units) -> Gold:
    """The gold of the ``units`` of these batches; what rests on one person's word is none. Nor is what several tasks of
    one response were settled to in different ways.
    """
    settled = GoldLabel.objects.filter(task__batch__in=[batch.pk for batch in batches])
    gold_labels = settled.exclude(source=GoldLabel.Source.SINGLE).order_by("task_id")
    value = np.full(len(units), np.nan, dtype=np.float32)
    decided = np.zeros(len(units), dtype=bool)
    places = {name: place for place, name in enumerate(units.criterion_names)}
    rows: list[GoldRow] = [
        (task, places[criterion], gold, source in DECIDED)
        for task, criterion, gold, source in gold_labels.values_list(
            "task_id", "criterion", "value", "source"
        ).iterator(chunk_size=CHUNK)
        if criterion in places and gold is not None  # "not applicable" is on no scale
    ]
    if rows and len(units):
        rows = _pool_gold(rows, units) if units.merged else rows
        task, criterion, gold, by_person = map(np.array, zip(*rows, strict=True))
        width = len(places)
        keys = units.task.astype(np.int64) * width + units.criterion
        order = np.argsort(keys, kind="stable")
        gold_keys = task.astype(np.int64) * width + criterion
        positions = np.minimum(np.searchsorted(keys, gold_keys, sorter=order), len(keys) - 1)
        is_match = keys[order[positions]] == gold_keys
        value[order[positions[is_match]]] = gold[is_match]
        decided[order[positions[is_match]]] = by_person[is_match]
    return Gold(value, decided)


def _pool_gold(rows: Sequence[GoldRow], units: Units) -> list[GoldRow]:
    """With the task that stands for the others of a response, once for all that have its gold."""
    pooled: dict[tuple[int, int], GoldRow] = {}
    for task, criterion, gold, by_person in rows:
        key = units.merged.get(task, task), criterion
        _task, _criterion, known, was_decided = pooled.get(key, (*key, gold, by_person))
        is_known = known == gold
        pooled[key] = (*key, gold if is_known else np.nan, is_known and (by_person or was_decided))
    return list(pooled.values())


def _count_labels(units: Units) -> npt.NDArray[np.int64]:
    """(T,): of each task the most labels that any of its units has."""
    n_labels = np.zeros(len(units), dtype=np.int64)
    for column in units.person.T:
        n_labels += column >= 0
    if len(units):  # a task's units stand side by side
        is_first = np.append(True, units.task[1:] != units.task[:-1])
        n_labels = np.maximum.reduceat(n_labels, np.flatnonzero(is_first))
    return n_labels


def count_coverage(reading: BatchUnits) -> Coverage:
    """Of the work of the batches that were read, all of it: an open task that has no unit has one label, or none. What
    waits is counted by task: it belongs to no response of another batch yet.
    """
    marks = [mark for _batch, mark in reading.marks]
    n_labels = _count_labels(reading.answers)
    items = Counter(n_labels.tolist())
    by_task = [_count_labels(part) for part in reading.parts] if reading.answers.merged else [n_labels]
    single = max(0, sum(mark.submitted for mark in marks) - sum(int(counts.sum()) for counts in by_task))
    items[1] += single
    by_state = Counter[str]()
    for mark in marks:
        by_state.update(dict(zip(STATES, mark.counts, strict=True)))
    del by_state[Task.State.WITHDRAWN]
    items[0] = max(0, by_state.total() - sum(map(len, by_task)) - single)
    return Coverage(
        tuple(sorted((labels, n) for labels, n in items.items() if n)),
        by_state[Task.State.OPEN],
        by_state[Task.State.DISPUTED],
    )


def _read_batch(batch: Batch, mark: BatchMark) -> Units:
    previous = _CACHE.get(batch.pk)
    if previous is not None and previous.mark == mark:
        return previous.units
    cached = _refresh_units(batch, previous, mark) or _read_all(batch, mark)
    _CACHE.put(batch.pk, cached)
    return cached.units


def _read_all(batch: Batch, mark: BatchMark) -> CachedUnits:
    now, open_tasks = timezone.now(), set[int]()
    units = build_units(_iterate_tasks(batch, open_tasks))
    return CachedUnits(mark, now, units, frozenset(open_tasks))


def _refresh_units(batch: Batch, previous: CachedUnits | None, mark: BatchMark) -> CachedUnits | None:
    """What was known with what came since; None where that is not all, or where reading it whole is as quick."""
    if (
        previous is None
        or previous.mark.version != mark.version
        or previous.mark.revised != mark.revised
        or len(previous.units) < MIN_UNITS_TO_REFRESH
    ):
        return None
    now, open_tasks = timezone.now(), set[int]()
    newer = build_units(_iterate_tasks(batch, open_tasks, since=previous.at - COMMIT_DELAY))
    units = replace_tasks(previous.units, newer)
    still_open = frozenset(previous.open_tasks.difference(newer.task.tolist()) | open_tasks)
    n_complete = len(np.unique(units.task)) - len(still_open)
    return CachedUnits(mark, now, units, still_open) if n_complete == mark.complete else None


def _read_marks(batches: Sequence[Batch]) -> tuple[dict[int, BatchMark], dict[int, Stratum]]:
    """Read before the labels: what comes in between makes the next look read again, never this one go stale."""
    ids = [batch.pk for batch in batches]
    versions = dict(Batch.objects.filter(pk__in=ids).values_list("pk", "labels_version"))
    counts_by_stratum = count_by_stratum(ids)
    sums: dict[int, Counter[str]] = {pk: Counter() for pk in ids}
    for stratum, counts in counts_by_stratum.items():
        sums[stratum.batch_id].update(counts)
    marks = {
        pk: BatchMark(
            versions[pk],
            tuple(sums[pk][state] for state in STATES),
            sums[pk]["submitted"],
            sums[pk]["revised"],
        )
        for pk in ids
    }
    return marks, {stratum.pk: stratum for stratum in counts_by_stratum}


def _iterate_tasks(
    batch: Batch, open_tasks: set[int], *, since: datetime | None = None
) -> Iterator[LabelledTask]:
    """The tasks that are complete or have two labels, in ascending order; with ``since`` those of which anything was
    handed in from then on. ``open_tasks`` is filled with those that are not complete.
    """
    labels = Annotation.objects.filter(
        current=True,
        assignment__state=Assignment.State.SUBMITTED,
        assignment__slot__lt=ADJUDICATION_SLOT,
        assignment__task__batch=batch,
        assignment__task__kind=Task.Kind.WORK,
    ).filter(IS_COUNTED)
    if since is not None:
        newer = Assignment.objects.filter(batch=batch, submitted_at__gte=since).order_by().values("task")
        labels = labels.filter(assignment__task__in=newer)
    task_labels = labels.order_by("assignment__task_id", "assignment__slot").values_list(
        "assignment__task_id",
        "assignment__task__response_id",
        "assignment__task__prompt_id",
        "assignment__task__stratum_id",
        "assignment__task__prompt__subcomponent",
        "assignment__task__state",
        "assignment__person_id",
        Cast("labels", TextField()),
        "assignment__submitted_at",
        "seconds",
        "revision",
        "assignment__imported__round",
    )
    rows: Iterable[tuple[Any, ...]] = task_labels.iterator(chunk_size=CHUNK)
    days = _DayCache()
    may_be_na = frozenset(
        criterion.name for criterion in batch.guideline.document.labelled_criteria if criterion.na
    )
    for task, of_task in groupby(rows, key=itemgetter(0)):
        task_rows = list(of_task)
        if task_rows[0][5] == Task.State.OPEN:
            if len(task_rows) < MIN_OPEN_LABELS:
                continue
            open_tasks.add(task)
        yield _build_labelled(task_rows, days, may_be_na)


def _build_labelled(
    rows: Sequence[tuple[Any, ...]], days: _DayCache, may_be_na: frozenset[str]
) -> LabelledTask:
    person_labels = [
        PersonLabels(
            person,
            _parse_labels(labels, may_be_na),
            days.of(at),
            seconds,
            int(at.timestamp()),
            (labelling_round or "") if revision == 1 else "",  # a correction was made here, in no round
        )
        for *_task, person, labels, at, seconds, revision, labelling_round in rows
    ]
    task, response, prompt, stratum, subcomponent = rows[0][:5]
    return LabelledTask(task, response, prompt, stratum, subcomponent, person_labels)


@lru_cache(maxsize=10_000)
def _parse_labels(labels: str, may_be_na: frozenset[str]) -> dict[str, float]:
    """The numbers, and of criteria that may be not applicable whether they are. There are few different ones; nobody
    writes to them.
    """
    answers: dict[str, Any] = json.loads(labels)
    if not may_be_na:
        return answers
    numbers = {name: value for name, value in answers.items() if not isinstance(value, str)}
    return numbers | {
        f"{name}{APPLICABILITY}": float(value == NA)
        for name, value in answers.items()
        if strip_turn(name) in may_be_na
    }


class _DayCache:
    """The dates of moments where the site is. No clock is set by less than a quarter of an hour: each is asked once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, at: datetime) -> int:
        quarter = int(at.timestamp()) // 900
        day = self._known.get(quarter)
        if day is None:
            day = self._known[quarter] = timezone.localdate(at).toordinal()
        return day
