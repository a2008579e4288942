"""Work on a claim: its texts, the assignment with its task locked, the labels of others; and what submitting writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from annotation.core.sql import (
    Statement,
    fetch_first,
    fetch_rows,
    for_update,
    insert_object,
    load_object,
    to_database,
    update,
)
from annotation.domain.adjudication import SettledValue
from annotation.models import (
    ADJUDICATION_SLOT,
    Annotation,
    Assignment,
    Batch,
    Draft,
    GoldLabel,
    Guideline,
    Membership,
    Person,
    Stratum,
    Task,
)
from annotation.models.sql.assignments import BATCH
from annotation.models.sql.people import HAS_ROLE
from annotation.models.sql.tables import (
    ANNOTATIONS,
    ASSIGNMENTS,
    BATCHES,
    DRAFTS,
    GUIDELINE_NOTES,
    GUIDELINES,
    PEOPLE,
    PROMPTS,
    RESPONSES,
    STRATA,
    TASKS,
)


class HandoutText(NamedTuple):
    """Of a task: what its page shows. ``guideline`` has no more than its hash, by which its document is kept."""

    batch: str
    guideline: Guideline
    prompt: str
    dimension: str
    subcomponent: str
    language: str
    response_format: str
    prompt_format: str
    is_clarified: bool
    text: str
    turns: list[dict[str, Any]]


def read_handout(task_id: int) -> HandoutText:
    row = fetch_first(HANDOUT, [task_id])
    assert row is not None
    batch, guideline, sha256, *texts, turns = row
    of_batch = (batch, load_object(Guideline, id=guideline, sha256=sha256))
    return HandoutText._make([*of_batch, *texts, json.loads(turns)])


HANDOUT = f"""
SELECT b.name, g.id, g.sha256, p.text, p.dimension, p.subcomponent, p.language,
    b.response_format, b.prompt_format,
    EXISTS (
        SELECT 1 FROM {GUIDELINE_NOTES} n WHERE n.guideline_id = g.id AND n.for_everybody AND n.resolved_at IS NULL
    ), r.text, r.turns
FROM {TASKS} t JOIN {BATCHES} b ON b.id = t.batch_id
JOIN {GUIDELINES} g ON g.id = b.guideline_id
JOIN {RESPONSES} r ON r.id = t.response_id JOIN {PROMPTS} p ON p.id = r.prompt_id
WHERE t.id = %s
"""


def has_draft(assignment_id: UUID) -> bool:
    return fetch_first(DRAFT, [to_database(Draft, "assignment_id", assignment_id)]) is not None


DRAFT = f"SELECT 1 FROM {DRAFTS} WHERE assignment_id = %s"


# Work on a claim: the assignment with its task locked, and the submission.


def find_own_assignment(assignment_id: UUID, person: Person) -> Assignment | None:
    """The person's assignment with its batch, as the pages need them; the rest is read when it is asked for."""
    row = fetch_first(OWN_ASSIGNMENT, [to_database(Assignment, "id", assignment_id), person.pk])
    if row is None:
        return None
    task, slot, state, *of_batch = row
    batch = load_object(Batch, **dict(zip(BATCH_OF_OWN, of_batch, strict=True)))
    own = {"id": assignment_id, "task_id": task, "batch_id": batch.pk, "person_id": person.pk}
    assignment = load_object(Assignment, **own, slot=slot, state=state)
    assignment.batch, assignment.person = batch, person
    return assignment


BATCH_OF_OWN = (*BATCH, "due_date", "check_share", "check_feedback", "qualifying", "read_to_end")
OWN_ASSIGNMENT = f"""
SELECT a.task_id, a.slot, a.state, {", ".join(f"b.{column}" for column in BATCH_OF_OWN)}
FROM {ASSIGNMENTS} a JOIN {BATCHES} b ON b.id = a.batch_id WHERE a.id = %s AND a.person_id = %s
"""


class TaskOfAssignment(NamedTuple):
    id: int
    kind: str


def find_task(assignment_id: UUID, person: Person) -> TaskOfAssignment | None:
    """The task of the person's assignment; None where the assignment is somebody else's."""
    row = fetch_first(FIND_TASK, [to_database(Assignment, "id", assignment_id), person.pk])
    return None if row is None else TaskOfAssignment(*row)


FIND_TASK = f"""
SELECT a.task_id, t.kind FROM {ASSIGNMENTS} a JOIN {TASKS} t ON t.id = a.task_id
WHERE a.id = %s AND a.person_id = %s
"""


class LockedAssignment(NamedTuple):
    """``has_role``: the person still has the role in which they hold it."""

    assignment: Assignment
    has_role: bool


def fetch_locked_assignment(assignment_id: UUID, person: Person, task_id: int) -> LockedAssignment:
    """The person's assignment with its task's row locked, and read under this lock.

    The task comes with its stratum, the batch with its guideline; columns that are seldom needed are read then.
    """
    task = fetch_first(LOCK_TASK + for_update("t"), [task_id])
    row = fetch_first(ASSIGNMENT, [to_database(Assignment, "id", assignment_id)])
    assert task is not None
    assert row is not None
    stratum, dimension, kind, task_state, overlap, slots_taken, panel = task
    has_role, batch, slot, state, skip_reason, name, batch_state, *policy, guideline, sha256 = row
    assignment = load_object(
        Assignment,
        id=assignment_id,
        batch_id=batch,
        task_id=task_id,
        person_id=person.pk,
        slot=slot,
        state=state,
        skip_reason=skip_reason,
    )
    assignment.person = person
    assignment.task = load_object(
        Task,
        id=task_id,
        batch_id=batch,
        stratum_id=stratum,
        kind=kind,
        state=task_state,
        overlap=overlap,
        slots_taken=slots_taken,
        panel_id=panel,
    )
    assignment.task.stratum = load_object(Stratum, id=stratum, batch_id=batch, dimension=dimension)
    assignment.batch = load_object(
        Batch,
        id=batch,
        name=name,
        state=batch_state,
        guideline_id=guideline,
        **dict(zip(POLICY_OF_OWN, policy, strict=True)),
    )
    assignment.batch.guideline = load_object(Guideline, id=guideline, sha256=sha256)
    return LockedAssignment(assignment, bool(has_role))


LOCK_TASK = f"""
SELECT t.stratum_id, s.dimension, t.kind, t.state, t.overlap, t.slots_taken, t.panel_id
FROM {TASKS} t JOIN {STRATA} s ON s.id = t.stratum_id WHERE t.id = %s
"""
ROLE_OF_SLOT = (
    f"CASE WHEN a.slot = {ADJUDICATION_SLOT} THEN '{Membership.Role.ADJUDICATOR}'"
    f" ELSE '{Membership.Role.ANNOTATOR}' END"
)
POLICY_OF_OWN = (
    "tolerance",
    "lease_seconds",
    "plan",
    "settling",
    "collection_ended_at",
    "introduction_required",
)
ASSIGNMENT = f"""
SELECT {HAS_ROLE.format(role=ROLE_OF_SLOT)}, b.id, a.slot, a.state, a.skip_reason,
    b.name, b.state, {", ".join(f"b.{column}" for column in POLICY_OF_OWN)}, g.id, g.sha256
FROM {ASSIGNMENTS} a JOIN {PEOPLE} p ON p.id = a.person_id
JOIN {BATCHES} b ON b.id = a.batch_id JOIN {GUIDELINES} g ON g.id = b.guideline_id WHERE a.id = %s
"""


def fetch_submitted_labels(task_id: int) -> list[tuple[int, Mapping[str, Any]]]:
    """Slot and labels of the current annotations that were submitted, in the order of the slots."""
    rows = fetch_rows(SUBMITTED_LABELS, [task_id, ADJUDICATION_SLOT])
    return [(slot, json.loads(labels)) for slot, labels in rows]


SUBMITTED_LABELS = f"""
SELECT a.slot, n.labels FROM {ASSIGNMENTS} a JOIN {ANNOTATIONS} n ON n.assignment_id = a.id
WHERE a.task_id = %s AND a.state = '{Assignment.State.SUBMITTED}' AND a.slot < %s AND n.current ORDER BY a.slot
"""


def write_annotation(annotation: Annotation, *, slot: int) -> list[Statement]:
    """The first revision of an annotation, and that its assignment, in this slot, is submitted.

    What was kept of it as a draft is no longer needed.
    """
    assignment = annotation.assignment_id
    submitted = {"slot": slot, "state": Assignment.State.SUBMITTED, "submitted_at": annotation.created_at}
    return [
        insert_object(annotation),
        update(Assignment, assignment, submitted),
        Statement(NO_DRAFT, [to_database(Draft, "assignment_id", assignment)]),
    ]


NO_DRAFT = f"DELETE FROM {DRAFTS} WHERE assignment_id = %s"


def end_task(task_id: int, state: str, settled_at: datetime | None = None) -> Statement:
    return update(Task, task_id, {"state": state, "settled_at": settled_at})


def write_gold(task: Task, settled: Mapping[str, SettledValue], now: datetime) -> list[Statement]:
    """The gold labels of the ``settled`` criteria."""
    labels = [GoldLabel.settle(task, criterion, gold, now) for criterion, gold in settled.items()]
    return [insert_object(label) for label in labels]
