"""What I gave and how far I am: a person's own work, read back to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from annotation.errors import N_, NotFound
from annotation.models import Annotation, Assignment, Batch, Membership, Person
from annotation.selectors.work import MyProgress, is_closed, my_assignment, my_progress


@dataclass(frozen=True)
class Given:
    """What the person submitted for one item. ``closed``: a correction goes to the manager from now on."""

    labels: Mapping[str, Any]
    rationale: str
    flags: Sequence[str]
    evidence: Sequence[Mapping[str, Any]]
    revision: int
    submitted_at: datetime
    adjudication: bool
    closed: bool


def my_item(assignment_id: UUID, person: Person) -> Assignment:
    """The person's assignment to annotate; a dispute of theirs is none."""
    return _of_kind(my_assignment(assignment_id, person), adjudication=False)


def my_dispute(assignment_id: UUID, person: Person) -> Assignment:
    """The person's assignment to adjudicate. Never one to annotate: its page would show the partner's label."""
    return _of_kind(my_assignment(assignment_id, person), adjudication=True)


def _of_kind(assignment: Assignment, *, adjudication: bool) -> Assignment:
    if assignment.is_adjudication != adjudication:
        raise NotFound(N_("There is no such item among yours."))
    return assignment


def given(assignment: Assignment) -> Given | None:
    """None while nothing was submitted."""
    if assignment.state != Assignment.State.SUBMITTED:
        return None
    if assignment.is_adjudication:
        return _decision(assignment)
    annotation = Annotation.objects.get(assignment=assignment, current=True)
    return Given(
        labels=annotation.labels,
        rationale=annotation.rationale,
        flags=annotation.flags,
        evidence=annotation.evidence,
        revision=annotation.revision,
        submitted_at=annotation.created_at,
        adjudication=False,
        closed=is_closed(assignment),
    )


def _decision(assignment: Assignment) -> Given:
    decision = assignment.adjudication
    return Given(
        labels=decision.labels,
        rationale=decision.rationale,
        flags=(),
        evidence=(),
        revision=1,
        submitted_at=decision.created_at,
        adjudication=True,
        closed=True,
    )


def progress_in(batch: Batch, person: Person, role: str) -> MyProgress | None:
    """The person's progress in one batch; None for who has no such part in it."""
    membership = (
        Membership.objects.select_related("batch")
        .filter(batch=batch, person=person, role=role, active=True)
        .first()
    )
    return None if membership is None else my_progress(membership)


def my_batch_names(person: Person) -> list[str]:
    """The batches in which the person has submitted something, in order of their names."""
    submitted = Assignment.objects.filter(person=person, state=Assignment.State.SUBMITTED)
    return list(submitted.order_by("batch__name").values_list("batch__name", flat=True).distinct())
