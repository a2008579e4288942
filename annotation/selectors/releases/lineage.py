"""The lineage of labels: one task with all that was done on it, and what stands behind the labels of a release.

The labels of a task that has all its annotations never change, so the current ones are those that the release was cut
from. A decision counts only if the release has a label of it: a later one is none of this release's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from annotation.core.errors import N_, NotFound
from annotation.core.study_scope import build_study_filter
from annotation.domain.formats.bundle import label_place
from annotation.domain.releases.canonical import Value, number
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    ADJUDICATION_SLOT,
    DECIDED_AGAIN,
    Adjudication,
    Annotation,
    Assignment,
    AuditEvent,
    CorrectionRequest,
    GoldLabel,
    Import,
    Person,
    ReleasedLabel,
    Task,
)
from annotation.selectors.access import refuse_sealed_gold
from annotation.selectors.origins import ORIGIN
from annotation.selectors.releases.rows import ReleasedRow


@dataclass(frozen=True)
class TaskHistory:
    """A task, every revision of its annotations in slot order, its decision, its gold, and what was recorded."""

    task: Task
    annotations: Sequence[Annotation]
    adjudication: Adjudication | None
    corrections: Sequence[CorrectionRequest]
    gold: Sequence[GoldLabel]
    released: Sequence[ReleasedLabel]
    events: Sequence[AuditEvent]


def get_task_history(person: Person, task_id: int) -> TaskHistory:
    """Everything about a task; refused while its batch, or its dataset in another batch, is sealed for the person."""
    task = (
        Task.objects.exclude(kind__in=DECIDED_AGAIN)
        .filter(pk=task_id, **build_study_filter("batch__study"))
        .select_related(
            "batch__guideline", "response__prompt__dataset", "response__model", "response__collection"
        )
        .first()
    )
    if task is None:
        raise NotFound(N_("There is no such task."))
    refuse_sealed_gold(person, [task.batch])
    return TaskHistory(
        task=task,
        annotations=_list_annotations([task.pk], current_only=False),
        adjudication=Adjudication.objects.filter(task=task)
        .select_related("assignment__person", "assignment__verdict", "reason", ORIGIN)
        .first(),
        corrections=list(
            CorrectionRequest.objects.filter(assignment__task=task).select_related("assignment__person")
        ),
        gold=list(GoldLabel.objects.filter(task=task).order_by("criterion")),
        released=list(ReleasedLabel.objects.filter(task=task).select_related("release").order_by("pk")),
        events=_list_events(task),
    )


def _list_annotations(tasks: Iterable[int], *, current_only: bool) -> list[Annotation]:
    annotations = Annotation.objects.filter(
        assignment__task__in=list(tasks), assignment__slot__lt=ADJUDICATION_SLOT
    )
    if current_only:
        annotations = annotations.filter(current=True)
    return list(
        annotations.select_related("assignment__person", ORIGIN).order_by(
            "assignment__slot", "assignment", "revision"
        )
    )


def _list_events(task: Task) -> list[AuditEvent]:
    targets = [
        f"task:{task.pk}",
        *(f"assignment:{pk}" for pk in task.assignments.values_list("pk", flat=True)),
    ]
    selection = Q(target__in=targets)
    for source in Import.objects.filter(labels__assignment__task=task).distinct():
        selection |= Q(verb="import_annotations", target=source.target, data__sha256=source.sha256)
    events = AuditEvent.objects.filter(selection).exclude(verb=AnnotationVerb.VIEW_LABELS.value)
    return list(events.select_related("actor").order_by("pk"))


@dataclass(frozen=True)
class LabelSources:
    """What stands behind a released label: the annotators' current labels in slot order, and the decision."""

    released: ReleasedLabel
    annotations: Sequence[Annotation]
    decision: Adjudication | None


def list_label_sources(labels: Sequence[ReleasedLabel]) -> list[LabelSources]:
    """The labels with their lineage, in two queries however many they are."""
    tasks = {label.task_id for label in labels}
    annotations_by_task: dict[int, list[Annotation]] = {task: [] for task in tasks}
    for annotation in _list_annotations(tasks, current_only=True):
        annotations_by_task[annotation.assignment.task_id].append(annotation)
    decisions = Adjudication.objects.select_related("assignment__person", ORIGIN).in_bulk(
        [label.adjudication_id for label in labels if label.adjudication_id is not None]
    )
    return [
        LabelSources(label, annotations_by_task[label.task_id], decisions.get(label.adjudication_id or 0))
        for label in labels
    ]


_COLUMNS = ("assignment__person_id", "labels", "seconds", "created_at", "rationale", "channel")
_SOURCE = "assignment__imported__source"
_ORIGIN = (f"{_SOURCE}__file_name", f"{_SOURCE}__format", f"{_SOURCE}__sha256", "assignment__imported__line")
_ROUND = "assignment__imported__round"


@dataclass(frozen=True)
class StatedLabels:
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
    round: str


@dataclass(frozen=True)
class TaskStatedLabels:
    """A task of a row: ``place`` is its position in its batch; the annotators in slot order, then the adjudicator."""

    task: int
    batch: str
    place: int
    response_sha256: str
    stated: Sequence[StatedLabels]


def list_annotator_labels(rows: Sequence[ReleasedRow]) -> list[tuple[ReleasedRow, list[TaskStatedLabels]]]:
    """Each row with its tasks, in three queries for all of them."""
    criteria = {task: names for row in rows for task, names in row.tasks.items()}
    tasks = Task.objects.filter(pk__in=criteria)
    facts = tasks.values_list("pk", "batch__name", "position", "response__sha256")
    places = {pk: (batch, place, sha256) for pk, batch, place, sha256 in facts}
    labels_by_task = _group_stated_labels(criteria)
    return [
        (row, [TaskStatedLabels(task, *places[task], labels_by_task[task]) for task in row.tasks])
        for row in rows
    ]


def _group_stated_labels(criteria: Mapping[int, Sequence[str]]) -> Mapping[int, Sequence[StatedLabels]]:
    labels_by_task: dict[int, list[StatedLabels]] = defaultdict(list)
    for is_decision, rows in (
        (False, _iterate_annotations(list(criteria))),
        (True, _iterate_decisions(list(criteria))),
    ):
        for task, person, labels, *rest in rows:
            values = {name: number(labels[name]) for name in sorted(criteria[task]) if name in labels}
            if values:
                labels_by_task[task].append(StatedLabels(person, is_decision, values, *rest))
    return labels_by_task


def _iterate_annotations(tasks: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    submitted = Annotation.objects.filter(
        current=True,
        assignment__task__in=tasks,
        assignment__state=Assignment.State.SUBMITTED,
        assignment__slot__lt=ADJUDICATION_SLOT,
    )
    rows = submitted.order_by("assignment__slot").values_list(
        "assignment__task_id", *_COLUMNS, "evidence", "revision", *_ORIGIN, _ROUND
    )
    for *row, revision, file, form, sha256, line, labelling_round in rows:
        imported = file is not None and revision == 1
        origin = (label_place(file, form, is_decision=False), sha256, line) if imported else None
        yield (*row, origin, labelling_round if imported else "")


def _iterate_decisions(tasks: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """A decision has no evidence."""
    decided = Adjudication.objects.filter(task__in=tasks).order_by()
    for *row, file, form, sha256, line, labelling_round in decided.values_list(
        "task_id", *_COLUMNS, *_ORIGIN, _ROUND
    ):
        origin = None if file is None else (label_place(file, form, is_decision=True), sha256, line)
        yield (*row, [], origin, labelling_round or "")
