"""What an annotator or adjudicator receives: frozen values, and nothing else of the database.

Blindness lives here: a view never holds the Response, so it cannot tell whose it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Sum

from annotation.errors import N_, NotFound
from annotation.evidence import markable_texts
from annotation.guidelines import Criterion, GuidelineDocument, LocalizedText
from annotation.models import (
    ADJUDICATION_SLOT,
    Assignment,
    Batch,
    Membership,
    Person,
    Qualification,
    Task,
    sql,
)
from annotation.models.sql import StratumStanding
from annotation.selectors.access import has_role
from annotation.selectors.dispute_queue import claims_of, repeats_to_come, waiting
from annotation.selectors.eligibility import strata_ruled_out
from annotation.selectors.free import free_tasks_for
from annotation.selectors.known import NO_ROUND, checks_left, latest_round, round_items

# Up to here disputes are counted one by one for each adjudicator.
MANY = 1000


@dataclass(frozen=True)
class Turn:
    """``role`` is ``assistant`` for what is judged, ``user`` for what it answers."""

    role: str
    text: str


@dataclass(frozen=True)
class Handout:
    """One item of work. ``turns`` is what is judged; a plain response is one turn of the assistant.

    ``guideline`` is the sha256 of the ``document`` that the ``criteria`` are of; ``severity`` is the dimension's.
    ``topic`` is what the guideline calls the dimension and the subcomponent, as far as it knows them.
    """

    assignment: UUID
    batch: str
    lease_expires: datetime
    prompt: str
    turns: tuple[Turn, ...]
    criteria: tuple[Criterion, ...]
    dimension: str
    subcomponent: str
    document: GuidelineDocument
    language: str = ""
    guideline: str = ""
    severity: int = 0
    topic: tuple[LocalizedText, ...] = ()


@dataclass(frozen=True)
class MyProgress:
    """How far one person is in one batch: their own count, and what they can still get at most.

    Where anybody of the pool may take an item, others may be quicker; what is planned for a person is theirs.
    A check counts as any other item. ``round``: how the qualification stands before which nothing of the work comes,
    empty where the batch asks for none; while it runs, ``done`` and ``left`` are of the round.
    """

    batch: Batch
    role: str
    done: int
    left: int
    due: Any
    round: str = NO_ROUND


def handout(assignment: Assignment) -> Handout:
    """One query, beside the guideline's document, which is kept by its hash."""
    read = sql.read_handout(assignment.task_id)
    document = read.guideline.document
    turns = read.turns or [{"role": "assistant", "text": read.text}]
    return Handout(
        assignment=assignment.pk,
        batch=read.batch,
        lease_expires=assignment.lease_expires,
        prompt=read.prompt,
        turns=tuple(Turn(role=turn["role"], text=turn["text"]) for turn in turns),
        criteria=document.criteria_for(read.dimension),
        dimension=read.dimension,
        subcomponent=read.subcomponent,
        document=document,
        language=read.language,
        guideline=read.guideline.sha256,
        severity=document.severity_of(read.dimension),
        topic=document.topic_of(read.dimension, read.subcomponent),
    )


def texts_to_mark(task: int) -> list[str | None]:
    """The turns of a task's response, as they are handed out; None for one that is not judged."""
    text, turns = Task.objects.values_list("response__text", "response__turns").get(pk=task)
    return markable_texts(text, turns)


def my_assignment(assignment_id: UUID, person: Person) -> Assignment:
    found = (
        Assignment.objects.filter(pk=assignment_id, person=person).select_related("batch__guideline").first()
    )
    if found is None:
        raise NotFound(N_("There is no such item among yours."))
    return found


def my_last(batch: Batch, person: Person) -> Assignment | None:
    """The person's last submitted annotation in the batch: what "undo" goes back to."""
    mine = Assignment.objects.filter(
        batch=batch, person=person, state=Assignment.State.SUBMITTED, slot__lt=ADJUDICATION_SLOT
    )
    return mine.order_by("-submitted_at").first()


def my_batches(person: Person) -> list[MyProgress]:
    """The open batches in which the person works, with their progress, the earliest due first."""
    roles = [role for role in Membership.Role.values if has_role(person, role)]
    memberships = (
        Membership.objects.filter(person=person, active=True, role__in=roles, batch__state=Batch.State.OPEN)
        .select_related("batch")
        .order_by("batch__due_date", "batch__created_at")
    )
    return [my_progress(membership) for membership in memberships]


def my_progress(membership: Membership) -> MyProgress:
    """A handful of sums and looks, however many tasks there are."""
    adjudicating = membership.role == Membership.Role.ADJUDICATOR
    if not adjudicating and membership.batch.qualifying:
        return _qualifying_progress(membership)
    here = sql.count_by_stratum(membership)
    done = sum(one.my_adjudicated if adjudicating else one.my_submitted for one in _asked(here))
    return MyProgress(
        batch=membership.batch,
        role=membership.role,
        done=done,
        left=_disputes_left(membership, here) if adjudicating else _annotations_left(membership, here),
        due=membership.batch.due_date,
    )


def _qualifying_progress(membership: Membership) -> MyProgress:
    batch = membership.batch
    latest = latest_round(batch.pk, membership.person_id)
    state = latest.state if latest else Qualification.State.RUNNING
    if state in (Qualification.State.PASSED, Qualification.State.WAIVED):
        here = sql.count_by_stratum(membership)
        done, left = sum(one.my_submitted for one in _asked(here)), _annotations_left(membership, here)
    elif state == Qualification.State.FAILED:
        done = left = 0
    else:
        attempt = latest.attempt if latest else 1
        items = round_items(membership, attempt, without=strata_ruled_out(membership))
        done = sum(one.ended for one in items)
        left = len(items) - done
    return MyProgress(batch, membership.role, done, left, batch.due_date, state)


def _asked(here: Mapping[int, StratumStanding]) -> list[StratumStanding]:
    """All but the round before the work."""
    return [one for one in here.values() if one.kind != Task.Kind.QUALIFICATION]


def _annotations_left(membership: Membership, here: Mapping[int, StratumStanding]) -> int:
    if not _anything_there(membership):
        return 0
    done = sum(one.my_submitted for one in _asked(here))
    share = membership.batch.check_share
    ruled_out = set(strata_ruled_out(membership)) if share or _in_a_pool(membership) else set()
    work = {pk: one for pk, one in here.items() if one.kind == Task.Kind.WORK}
    if _in_a_pool(membership):
        left = sum(_left_in(one, membership.batch) for pk, one in work.items() if pk not in ruled_out)
    else:
        planned = membership.panels.aggregate(n=Sum("tasks_planned"))["n"] or 0
        left = planned - sum(one.my_submitted for one in work.values())
    if share:
        given = done + sum(one.my_skipped for one in _asked(here))
        left += checks_left(membership, given=given, work=max(0, left), without=ruled_out)
    if membership.quota is not None:
        left = min(left, membership.quota - done)
    return max(1, left)


def _in_a_pool(membership: Membership) -> bool:
    return membership.batch.pairing == Batch.Pairing.POOL


def _left_in(stratum: StratumStanding, batch: Batch) -> int:
    """What one person can get of a stratum at most: places that are left, and tasks that they have not had."""
    not_had = stratum.every - stratum.my_submitted - stratum.my_skipped
    return max(0, min(stratum.every * batch.overlap - stratum.submitted, not_had, stratum.open))


def _anything_there(membership: Membership) -> bool:
    claimed = Assignment.objects.filter(
        batch=membership.batch_id, person=membership.person_id, state=Assignment.State.CLAIMED
    )
    if claimed.exists():
        return True
    tasks = free_tasks_for(membership)
    return any(tasks.first_rank(start=membership.cursor, requeued=way) is not None for way in (False, True))


def _disputes_left(membership: Membership, here: Mapping[int, StratumStanding]) -> int:
    """Those that this adjudicator may decide; beyond ``MANY`` all that there are."""
    repeats, claimed = repeats_to_come(membership).count(), claims_of(membership)
    disputed = sum(one.disputed for one in here.values() if one.kind == Task.Kind.WORK)
    if disputed > MANY:
        return disputed + claimed.filter(task__kind=Task.Kind.REPEAT).count() + repeats
    return waiting(membership).count() + claimed.count() + repeats
