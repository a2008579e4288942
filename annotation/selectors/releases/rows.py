"""What is in a gold release, for writing it into files: its rows in one order on every database, a chunk at a time.

A row is what was labelled: one response under one guideline version. Labels of the same response that came from
different tasks stand in one row.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache, partial
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

from django.db import connection
from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import Collate, DenseRank

from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.guidelines.values import (
    TURN_SIGN,
    find_turn,
    level_key,
    order_level_key,
    strip_turn,
)
from annotation.domain.releases.canonical import Value, number
from annotation.domain.releases.gold_file import GoldColumns, GoldRow, LevelCounts
from annotation.domain.releases.splits import SPLITS, split_of
from annotation.models import (
    ADJUDICATION_SLOT,
    Assignment,
    Dataset,
    EvaluatedModel,
    GoldRelease,
    Guideline,
    Task,
)
from annotation.models.sql.releases import (
    fetch_annotator_labels,
    fetch_released_texts,
    fetch_released_values,
)
from annotation.selectors.releases.sources import TaskSources, list_task_sources

# Of rows: each chunk costs the two threads of _ahead a wait for one another of some milliseconds.
CHUNK = 4000
PLACES = 20_000
# The order of the bytes in UTF-8, which is that of the code points.
BYTES = {"postgresql": "C", "sqlite": "BINARY"}
NO_TURNS = "[]"
T = TypeVar("T")
# Of the values of scales, which are few.
_number = lru_cache(maxsize=1024)(number)
ANNOTATOR, ADJUDICATOR = "annotator", "adjudicator"


Label: TypeAlias = tuple[str, float | None, str]
"""Criterion, value and source: a plain tuple, because there are as many as labels."""


class ReleasedRow(NamedTuple):
    """A row of the gold file, and the labels that stand in it, task by task.

    It shows the response of the first of them. ``sources`` is what stands behind each task, where it was asked for.
    """

    gold: GoldRow
    labels: Sequence[tuple[int, Sequence[Label]]]
    sources: Sequence[TaskSources] = ()

    @property
    def tasks(self) -> dict[int, tuple[str, ...]]:
        """The tasks, with the criteria of each."""
        return {task: tuple(criterion for criterion, _value, _source in of) for task, of in self.labels}


class ReleaseContent:
    """A release as its files hold it. Nothing is read before it is asked for."""

    def __init__(self, release: GoldRelease) -> None:
        self.release = release

    @cached_property
    def columns(self) -> GoldColumns:
        """The criteria that the release has labels of, by name and turn."""
        criteria = sorted(self.release.manifest["counts"]["by_level"])
        asked_of_turns = self._find_asked_of_turns()
        if not asked_of_turns:
            return GoldColumns(tuple(criteria))
        labelled = self.release.items.filter(criterion__contains=TURN_SIGN).order_by()
        names = {*criteria} - asked_of_turns.keys() | {
            *labelled.values_list("criterion", flat=True).distinct()
        }
        ordered = sorted(names, key=lambda name: (strip_turn(name), find_turn(name) or 0))
        return GoldColumns(
            tuple(ordered),
            tuple(name for name in criteria if asked_of_turns.get(name, "nominal") != "nominal"),
        )

    def _find_asked_of_turns(self) -> dict[str, str]:
        """The criteria that the release's guidelines ask of each turn, with how they are measured."""
        return {
            criterion.name: criterion.measurement
            for document in self.documents
            for criterion in document.criteria
            if criterion.per_turn is not None
        }

    @cached_property
    def documents(self) -> list[GuidelineDocument]:
        """The guidelines that the release has labels under, from the oldest to the newest."""
        used = Q(pk=None)
        for facts in self.release.manifest["guidelines"]:
            used |= Q(name=facts["name"], version=facts["version"])
        guidelines = Guideline.objects.filter(used).defer("source").order_by("published_at", "pk")
        return [guideline.document for guideline in guidelines]

    @property
    def has_texts(self) -> bool:
        """Whether annotators were asked for texts."""
        return any(document.has_texts for document in self.documents)

    @property
    def has_slates(self) -> bool:
        """Whether a guideline of the release judges slates."""
        return any(document.unit == "slate" for document in self.documents)

    @property
    def rows(self) -> int:
        return self.order.rows

    @cached_property
    def order(self) -> RowOrder:
        order = RowOrder()
        for task, row in _iterate_places(_select_places(self.release).values_list("pk", "place")):
            order.add(task, row)
        return order

    @cached_property
    def orders(self) -> Mapping[str, RowOrder]:
        """The rows of each split."""
        orders: dict[str, RowOrder] = {split: RowOrder() for split in SPLITS}
        places = _select_places(self.release).values_list(
            "pk", "place", "prompt__dataset__name", "prompt__key"
        )
        for task, row, dataset, prompt in _iterate_places(places):
            orders[split_of(dataset, prompt)].add(task, row)
        return orders

    def chunks(
        self, start: int = 0, stop: int | None = None, *, order: RowOrder | None = None, size: int = CHUNK
    ) -> Iterator[list[ReleasedRow]]:
        """The rows of the order, or of all, from ``start`` on and before ``stop``; at most ``size`` at a time."""
        yield from self._read_chunks(self._read, (order or self.order).between(start, stop), size)

    def chunks_with_sources(self, start: int = 0, *, with_times: bool = False) -> Iterator[list[ReleasedRow]]:
        """The rows from ``start`` on, each with what stands behind its tasks, and if wanted when it was said."""
        read = partial(self._read_sources, with_times=with_times)
        yield from self._read_chunks(read, self.order.between(start), CHUNK)

    def _read_chunks(
        self,
        read: Callable[[Sequence[tuple[int, ...]]], list[ReleasedRow]],
        rows: Iterator[tuple[int, ...]],
        size: int,
    ) -> Iterator[list[ReleasedRow]]:
        yield from _read_ahead(map(read, iter(lambda: list(islice(rows, size)), [])))

    def _read(self, rows: Sequence[tuple[int, ...]]) -> list[ReleasedRow]:
        ids = list(chain.from_iterable(rows))
        labels = self._labels(ids)
        annotations: dict[int, list[str]] = {task: [] for task in ids}
        for task, annotator_labels in fetch_annotator_labels(ids):
            annotations[task].append(annotator_labels)
        texts: dict[int, Sequence[Any]] = {
            task: facts for task, *facts in fetch_released_texts([tasks[0] for tasks in rows])
        }
        read = []
        for tasks in rows:
            batch, model, dataset, prompt, dimension, subcomponent, text, turns = texts[tasks[0]]
            response = text if turns == NO_TURNS else json.loads(turns)
            facts = (
                self._datasets[dataset],
                prompt,
                dimension,
                subcomponent,
                self._models[model],
                response,
            )
            row_labels = [(task, labels[task]) for task in tasks]
            gold = _build_gold(facts, row_labels, annotations, self._guidelines[batch])
            read.append(ReleasedRow(gold, row_labels))
        return read

    def _read_sources(self, rows: Sequence[tuple[int, ...]], *, with_times: bool) -> list[ReleasedRow]:
        ids = list(chain.from_iterable(rows))
        labels, sources = (
            self._labels(ids),
            list_task_sources(self.release, ids, with_times=with_times, with_texts=self.has_texts),
        )
        annotations = {task: [word.labels_json for word in sources[task].annotations] for task in ids}
        read = []
        for tasks in rows:
            of_tasks = [sources[task] for task in tasks]
            first = of_tasks[0].task
            response = of_tasks[0].turns or first.text
            facts = (
                first.dataset,
                first.prompt_key,
                first.dimension,
                first.subcomponent,
                first.model,
                response,
            )
            row_labels = [(task, labels[task]) for task in tasks]
            gold = _build_gold(facts, row_labels, annotations, self._guidelines[first.batch_id])
            read.append(ReleasedRow(gold, row_labels, of_tasks))
        return read

    def _labels(self, tasks: Sequence[int]) -> dict[int, list[Label]]:
        labels_by_task: dict[int, list[Label]] = {task: [] for task in tasks}
        for task, criterion, value, source in fetch_released_values(self.release.pk, tasks):
            labels_by_task[task].append((criterion, value, source))
        return labels_by_task

    @cached_property
    def _guidelines(self) -> dict[int, tuple[str, str]]:
        """The name and the version of each batch's guideline."""
        batches = self.release.batches.order_by().values_list("pk", "guideline__name", "guideline__version")
        return {pk: (name, version) for pk, name, version in batches}

    @cached_property
    def _datasets(self) -> dict[int, str]:
        return dict(Dataset.objects.order_by().values_list("pk", "name"))

    @cached_property
    def _models(self) -> dict[int, str]:
        return dict(EvaluatedModel.objects.order_by().values_list("pk", "name"))

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
        roles: dict[int, str] = {}
        for person, slot in by_role:
            if slot != ADJUDICATION_SLOT:
                roles[person] = ANNOTATOR
            else:
                roles.setdefault(person, ADJUDICATOR)
        return roles


def _build_gold(
    facts: tuple[str, str, str, str, str, Any],
    labels: Sequence[tuple[int, Sequence[Label]]],
    annotations: Mapping[int, Sequence[str]],
    guideline: tuple[str, str],
) -> GoldRow:
    """``facts`` are the first fields, up to the response; ``annotations`` what the annotators of each task said."""
    values: dict[str, Value] = {}
    sources: dict[str, str] = {}
    counts: dict[str, LevelCounts] = {}
    for task, task_labels in labels:
        of_task = _count_labels(tuple(sorted(annotations[task])))
        for criterion, value, source in task_labels:
            values[criterion], sources[criterion] = _number(value), source
            counts[criterion] = of_task.get(criterion, {})
    return GoldRow(*facts, values, sources, *guideline, counts)


@lru_cache(maxsize=8192)
def _count_labels(annotations: tuple[str, ...]) -> Mapping[str, LevelCounts]:
    """Of each criterion how many of the annotations have which value; nobody writes to it."""
    counters: dict[str, Counter[str]] = {}
    for annotation in annotations:
        for criterion, value in json.loads(annotation).items():
            counters.setdefault(criterion, Counter())[level_key(value)] += 1
    return {
        criterion: {key: counts[key] for key in sorted(counts, key=order_level_key)}
        for criterion, counts in counters.items()
    }


class RowOrder:
    """The tasks of a release in the order of its rows, eight bytes each; one that goes on a row is kept negative."""

    def __init__(self) -> None:
        self.rows = 0
        self._tasks = array("q")
        self._last: int | None = None

    def add(self, task: int, row: int) -> None:
        """The next task, and the number of its row."""
        is_new = row != self._last
        self._tasks.append(task if is_new else -task)
        self.rows += is_new
        self._last = row

    def between(self, start: int, stop: int | None = None) -> Iterator[tuple[int, ...]]:
        """The rows from ``start`` on and before ``stop``, each as its tasks."""
        return islice(self._grouped(), start, stop)

    def _grouped(self) -> Iterator[tuple[int, ...]]:
        row: list[int] = []
        for task in self._tasks:
            if task > 0 and row:
                yield tuple(row)
                row = []
            row.append(abs(task))
        if row:
            yield tuple(row)


def _read_ahead(items: Iterator[T]) -> Iterator[T]:
    """The items; while one is worked on, another thread has the database find the next.

    Inside a transaction, which another connection does not see, they come one by one.
    """
    if connection.in_atomic_block:
        yield from items
        return
    with ThreadPoolExecutor(1) as thread:
        try:
            coming = thread.submit(next, items, None)
            while (item := coming.result()) is not None:
                coming = thread.submit(next, items, None)
                yield item
        finally:
            thread.submit(_close_connection).result()


def _close_connection() -> None:
    """Close the connection of the thread that this runs in."""
    connection.close()


def _select_places(release: GoldRelease) -> QuerySet[Any]:
    """The release's tasks row by row; those of one row have one ``place``. The database sorts, by bytes."""
    by_bytes = [Collate(F(name), BYTES[connection.vendor]) for name in _list_sort_columns(release)]
    tasks = Task.objects.filter(pk__in=release.items.order_by().values("task"))
    return tasks.annotate(place=Window(DenseRank(), order_by=by_bytes)).order_by(*by_bytes, "pk")


def _list_sort_columns(release: GoldRelease) -> list[str]:
    """Guideline, version, dataset, prompt id, model and hash of the response; but for what all rows share."""
    manifest = release.manifest
    distinct_counts = {
        "batch__guideline__name": len(manifest["guidelines"]),
        "batch__guideline__version": len(manifest["guidelines"]),
        "prompt__dataset__name": len(manifest["datasets"]),
        "prompt__key": None,
        "response__model__name": len(manifest["counts"]["by_model"]),
        "response__sha256": None,
    }
    return [name for name, number in distinct_counts.items() if number != 1]


def _iterate_places(places: QuerySet[Any, Any]) -> Iterator[Any]:
    return places.iterator(chunk_size=PLACES)
