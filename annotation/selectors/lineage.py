"""The bottom of every lineage walk: one task with all that was done on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q

from annotation.errors import N_, NotFound
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    AuditEvent,
    CorrectionRequest,
    GoldLabel,
    Import,
    Person,
    ReleasedLabel,
    Task,
)
from annotation.selectors.gold import refuse_sealed_gold
from annotation.selectors.origins import ORIGIN


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


def task_history(person: Person, task_id: int) -> TaskHistory:
    """Everything about a task; refused while its batch, or its dataset in another batch, is sealed for the person."""
    task = (
        Task.objects.exclude(kind=Task.Kind.REPEAT)
        .filter(pk=task_id)
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
        annotations=_annotations([task.pk], current_only=False),
        adjudication=Adjudication.objects.filter(task=task)
        .select_related("assignment__person", "assignment__verdict", "reason", ORIGIN)
        .first(),
        corrections=list(
            CorrectionRequest.objects.filter(assignment__task=task).select_related("assignment__person")
        ),
        gold=list(GoldLabel.objects.filter(task=task).order_by("criterion")),
        released=list(ReleasedLabel.objects.filter(task=task).select_related("release").order_by("pk")),
        events=_events(task),
    )


def _annotations(tasks: Iterable[int], *, current_only: bool) -> list[Annotation]:
    found = Annotation.objects.filter(
        assignment__task__in=list(tasks), assignment__slot__lt=ADJUDICATION_SLOT
    )
    if current_only:
        found = found.filter(current=True)
    return list(
        found.select_related("assignment__person", ORIGIN).order_by(
            "assignment__slot", "assignment", "revision"
        )
    )


def _events(task: Task) -> list[AuditEvent]:
    targets = [
        f"task:{task.pk}",
        *(f"assignment:{pk}" for pk in task.assignments.values_list("pk", flat=True)),
    ]
    told = Q(target__in=targets)
    for source in Import.objects.filter(labels__assignment__task=task).distinct():
        told |= Q(verb="import_annotations", target=source.target, data__sha256=source.sha256)
    return list(AuditEvent.objects.filter(told).select_related("actor").order_by("pk"))


@dataclass(frozen=True)
class Behind:
    """What stands behind a released label: the annotators' current labels in slot order, and the decision."""

    released: ReleasedLabel
    annotations: Sequence[Annotation]
    decision: Adjudication | None


def behind(labels: Sequence[ReleasedLabel]) -> list[Behind]:
    """The labels with their lineage, in two queries however many they are."""
    tasks = {label.task_id for label in labels}
    given: dict[int, list[Annotation]] = {task: [] for task in tasks}
    for annotation in _annotations(tasks, current_only=True):
        given[annotation.assignment.task_id].append(annotation)
    decisions = Adjudication.objects.select_related("assignment__person", ORIGIN).in_bulk(
        [label.adjudication_id for label in labels if label.adjudication_id is not None]
    )
    return [
        Behind(label, given[label.task_id], decisions.get(label.adjudication_id or 0)) for label in labels
    ]
