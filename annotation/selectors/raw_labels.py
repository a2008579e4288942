"""What people said of the things that a release has gold for: the labels before they were settled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from annotation.bundle import label_place
from annotation.gold import Value, number
from annotation.models import ADJUDICATION_SLOT, Adjudication, Annotation, Assignment, Task
from annotation.selectors.released import ReleasedRow

_TOLD = ("assignment__person_id", "labels", "seconds", "created_at", "rationale", "channel")
_SOURCE = "assignment__imported__source"
_ORIGIN = (f"{_SOURCE}__file_name", f"{_SOURCE}__format", f"{_SOURCE}__sha256", "assignment__imported__line")


@dataclass(frozen=True)
class Said:
    """What one person submitted for a task. ``labels`` has the criteria that the release took from it, by name;
    ``channel`` is empty where it is not known; ``origin`` is where it was imported from: the file, its sha256 and the
    line.
    """

    person: int
    is_decision: bool
    labels: Mapping[str, Value]
    seconds: float | None
    at: datetime
    rationale: str
    channel: str
    evidence: Sequence[Mapping[str, Any]]
    origin: tuple[str, str, int] | None


@dataclass(frozen=True)
class TaskSaid:
    """A task of a row: ``place`` is its position in its batch; the annotators in slot order, then the adjudicator."""

    batch: str
    place: int
    response_sha256: str
    said: Sequence[Said]


def raw_labels(rows: Sequence[ReleasedRow]) -> list[tuple[ReleasedRow, list[TaskSaid]]]:
    """Each row with its tasks, in three queries for all of them."""
    criteria = {task: taken for row in rows for task, taken in row.tasks.items()}
    tasks = Task.objects.filter(pk__in=criteria)
    shown = tasks.values_list("pk", "batch__name", "position", "response__sha256")
    places = {pk: (batch, place, sha256) for pk, batch, place, sha256 in shown}
    said = _said(criteria)
    return [(row, [TaskSaid(*places[task], said[task]) for task in row.tasks]) for row in rows]


def _said(criteria: Mapping[int, Sequence[str]]) -> Mapping[int, Sequence[Said]]:
    found: dict[int, list[Said]] = defaultdict(list)
    for is_decision, rows in ((False, _annotations(list(criteria))), (True, _decisions(list(criteria)))):
        for task, person, labels, *more in rows:
            taken = {name: number(labels[name]) for name in sorted(criteria[task]) if name in labels}
            if taken:
                found[task].append(Said(person, is_decision, taken, *more))
    return found


def _annotations(tasks: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    submitted = Annotation.objects.filter(
        current=True,
        assignment__task__in=tasks,
        assignment__state=Assignment.State.SUBMITTED,
        assignment__slot__lt=ADJUDICATION_SLOT,
    )
    told = submitted.order_by("assignment__slot").values_list(
        "assignment__task_id", *_TOLD, "evidence", "revision", *_ORIGIN
    )
    for *row, revision, file, form, sha256, line in told:
        imported = file is not None and revision == 1
        yield (*row, (label_place(file, form, is_decision=False), sha256, line) if imported else None)


def _decisions(tasks: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """A decision has no evidence."""
    decided = Adjudication.objects.filter(task__in=tasks).order_by()
    for *row, file, form, sha256, line in decided.values_list("task_id", *_TOLD, *_ORIGIN):
        imported = file is not None
        yield (*row, [], (label_place(file, form, is_decision=True), sha256, line) if imported else None)
