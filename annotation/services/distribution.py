"""Handing out work: claims and leases.

Lock order, everywhere: memberships, the batch, tasks, panels. Two calls of one person queue at their
membership; two people meet at a task only for the moment in which its slot is taken (SKIP LOCKED).
Leases are ended in a transaction of their own, before: whoever waits for a task holds no other.
On SQLite a transaction holds the write lock from its first statement, which gives the same order.

A claim costs the same in a batch of any size (docs/decisions/a-cursor-for-each-member.md): each member looks
for the next task from their cursor on, and before it only among the few tasks that came back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation.distribution import (
    PastClaim,
    claims_to_keep,
    free_slot,
    may_claim_again,
    within_quota,
)
from annotation.errors import N_, Conflict, Forbidden, NotFound
from annotation.models import (
    ADJUDICATION_SLOT,
    Assignment,
    Batch,
    Guideline,
    Membership,
    Panel,
    Person,
    Stratum,
    Task,
)
from annotation.selectors.counts import decided_by, submitted_by, tasks_in
from annotation.selectors.eligibility import strata_ruled_out
from annotation.selectors.free import FreeTask, FreeTasks, anything_requeued
from annotation.services.audit import record
from annotation.services.planning import plan_again
from annotation.services.tallies import counted
from annotation.statements import (
    Raw,
    Statement,
    execute,
    first,
    for_update,
    insert,
    loaded,
    rows,
    stored,
    update,
)

LIVE = (Assignment.State.CLAIMED, Assignment.State.SUBMITTED)
# The cursor follows when the claim was made this far beyond it.
CURSOR_STEP = 200


class TooLate(Conflict):
    """Work comes for a place that is gone; what was done is kept as a draft."""

    code = "too_late"


class _LeasesRanOutError(Exception):
    """Leases are to be ended first, and that is a transaction of its own."""


class _OthersAreTakingError(Exception):
    """What there is may be in others' hands this moment: wait for them, holding no task meanwhile."""


def next_assignment(*, batch: Batch, person: Person, ahead: bool = False) -> Assignment | None:
    """The person's oldest live claim, else a new one; with ``ahead`` one more, at most two live.

    None when there is nothing for this person now.
    """
    expired = careful = False
    while True:
        try:
            return _next_assignment(batch, person, ahead=ahead, expired=expired, careful=careful)
        except _LeasesRanOutError:
            expired = True
            expire_leases(batch=batch)
        except _OthersAreTakingError:
            careful = True


def next_dispute(*, batch: Batch, person: Person) -> Assignment | None:
    """The adjudicator's live claim on a disputed task, else a new one; None when nothing waits for them."""
    expire_leases(batch=batch)
    return _next_dispute(batch, person)


@transaction.atomic
def _next_assignment(
    batch: Batch, person: Person, *, ahead: bool, expired: bool, careful: bool
) -> Assignment | None:
    locked = _lock_membership(batch, person, Membership.Role.ANNOTATOR)
    now = _now_in(batch, person)
    if now.leases_ran_out and not expired:
        raise _LeasesRanOutError
    live = list(_annotating(batch, person)) if now.live else []
    if claims_to_keep(len(live), ahead=ahead):
        return live[-1] if ahead else live[0]
    # The claims were counted before: one submitted meanwhile counts twice for a moment, and never not at all.
    member = locked.membership
    if member.quota is not None and not within_quota(
        member.quota, submitted=submitted_by(member), live=len(live)
    ):
        return None
    search = _Search.of(locked, now=now, careful=careful)
    if live and not search.leaves_enough_for_all():
        return None
    task = search.take()
    return None if task is None else _claim_free(task, search)


@transaction.atomic
def _next_dispute(batch: Batch, person: Person) -> Assignment | None:
    member = _lock_membership(batch, person, Membership.Role.ADJUDICATOR).membership
    _now_in(batch, person)
    live = live_claims(batch, person).filter(slot=ADJUDICATION_SLOT).order_by("claimed_at").first()
    if live is not None:
        return live
    if member.quota is not None and not within_quota(member.quota, submitted=decided_by(member), live=0):
        return None
    task = _take_dispute(batch, member)
    if task is None:
        return None
    past = Assignment.objects.filter(task=task, person=person).first()
    assignment = _claimed(task.pk, person, past, slot=ADJUDICATION_SLOT, batch=batch)
    execute(_written(assignment))
    return assignment


@transaction.atomic
def extend_lease(*, assignment_id: UUID, person: Person) -> Assignment:
    """Give a live claim a fresh lease, counted from now."""
    assignment = lock_assignment(assignment_id, person)
    if assignment.state != Assignment.State.CLAIMED:
        raise Conflict(N_("This item is no longer yours to work on."))
    assignment.lease_expires = timezone.now() + timedelta(seconds=assignment.batch.lease_seconds)
    assignment.save(update_fields=["lease_expires"])
    return assignment


@transaction.atomic
def release(*, assignment_id: UUID, person: Person, skip_reason: str = "") -> Assignment:
    """Give a claim back. With a reason it is a skip: the item never comes back to this person, and where it was
    planned for them it is planned for somebody else.

    Releasing what was released already changes nothing.
    """
    if skip_reason:  # it may plan again, which nobody does while a manager plans
        _lock_memberships(assignment_id, person)
    assignment = lock_assignment(assignment_id, person)
    if assignment.state == Assignment.State.SUBMITTED:
        raise Conflict(N_("This item was submitted already; it cannot be skipped."))
    if assignment.state == Assignment.State.CLAIMED:
        free(assignment, Assignment.State.RELEASED)
    if skip_reason and not assignment.skip_reason:
        assignment.state = Assignment.State.RELEASED
        assignment.skip_reason = skip_reason
        assignment.save(update_fields=["state", "skip_reason"])
        record(actor=person, verb="skip", target=f"assignment:{assignment.pk}", reason=skip_reason)
        if assignment.task.panel_id is not None and not assignment.is_adjudication:
            plan_again(assignment.task, without=membership_id(assignment))
        execute(counted(assignment, skipped=1))
    return assignment


@transaction.atomic
def expire_leases(*, batch: Batch, now: datetime | None = None) -> int:
    """Free every slot of the batch whose lease has run out. The number of leases ended."""
    overdue = _overdue(batch, now)
    ended = 0
    for task_id in overdue.values_list("task_id", flat=True).distinct():
        if Task.objects.select_for_update(skip_locked=True, no_key=True).filter(pk=task_id).first() is None:
            continue
        for assignment in overdue.filter(task_id=task_id):
            free(assignment, Assignment.State.EXPIRED)
            ended += 1
    return ended


def end_claims(claims: QuerySet[Assignment]) -> int:
    """Release those of ``claims`` that are live, each under its task's lock. The number released.

    Lock the memberships before, so that no new claim slips in between.
    """
    live = claims.filter(state=Assignment.State.CLAIMED)
    ended = 0
    for task_id in sorted(set(live.values_list("task_id", flat=True))):
        Task.objects.select_for_update(no_key=True).get(pk=task_id)
        for assignment in live.filter(task=task_id):
            free(assignment, Assignment.State.RELEASED)
            ended += 1
    return ended


def free(assignment: Assignment, state: Assignment.State) -> None:
    """End a live claim; its task's row must be locked. The task is offered again to everybody it is for."""
    changed = Assignment.objects.filter(pk=assignment.pk, state=Assignment.State.CLAIMED).update(state=state)
    if changed and not assignment.is_adjudication:
        Task.objects.filter(pk=assignment.task_id).update(slots_taken=F("slots_taken") - 1, requeued=True)
    assignment.state = state


def _annotating(batch: Batch, person: Person) -> QuerySet[Assignment]:
    """The person's live claims to annotate, the oldest first."""
    return live_claims(batch, person).exclude(slot=ADJUDICATION_SLOT).order_by("claimed_at", "id")


def _given_back(batch: Batch, person: Person, state: Assignment.State) -> QuerySet[Assignment]:
    """The person's claims to annotate that ended so, and that they did not skip."""
    return Assignment.objects.filter(
        person=person, batch=batch, state=state, skip_reason="", slot__lt=ADJUDICATION_SLOT
    )


def _lock_memberships(assignment_id: UUID, person: Person) -> None:
    batch = Assignment.objects.filter(pk=assignment_id, person=person).values("batch")
    mine = Membership.objects.select_for_update(no_key=True).filter(person=person, batch__in=batch)
    list(mine.order_by("pk").values_list("pk"))


def live_claims(batch: Batch, person: Person) -> QuerySet[Assignment]:
    return Assignment.objects.filter(batch=batch, person=person, state=Assignment.State.CLAIMED)


def lock_assignment(assignment_id: UUID, person: Person) -> Assignment:
    """The person's assignment with its task's row locked; anybody else's does not exist for them.

    The task comes with its stratum, the batch with its guideline; columns that are seldom needed are read then.
    """
    pk = stored(Assignment, "id", assignment_id)
    mine = "FROM annotation_assignment a WHERE a.id = %s AND a.person_id = %s"
    found = first(f"SELECT a.task_id {mine}", [pk, person.pk])
    if found is None:
        raise NotFound(N_("There is no such item among yours."))
    task = first(LOCKED_TASK + for_update("t"), found)
    given = first(GIVEN, [pk])
    assert task is not None
    assert given is not None
    stratum, dimension, kind, state, overlap, slots_taken, panel = task
    batch, slot, claim_state, skip_reason, name, batch_state, tolerance, lease, guideline, sha256 = given
    assignment = loaded(
        Assignment,
        id=assignment_id,
        batch_id=batch,
        task_id=found[0],
        person_id=person.pk,
        slot=slot,
        state=claim_state,
        skip_reason=skip_reason,
    )
    assignment.person = person
    assignment.task = loaded(
        Task,
        id=found[0],
        batch_id=batch,
        stratum_id=stratum,
        kind=kind,
        state=state,
        overlap=overlap,
        slots_taken=slots_taken,
        panel_id=panel,
    )
    assignment.task.stratum = loaded(Stratum, id=stratum, batch_id=batch, dimension=dimension)
    assignment.batch = loaded(
        Batch,
        id=batch,
        name=name,
        state=batch_state,
        tolerance=tolerance,
        lease_seconds=lease,
        guideline_id=guideline,
    )
    assignment.batch.guideline = loaded(Guideline, id=guideline, sha256=sha256)
    return assignment


LOCKED_TASK = """
SELECT t.stratum_id, s.dimension, t.kind, t.state, t.overlap, t.slots_taken, t.panel_id
FROM annotation_task t JOIN annotation_stratum s ON s.id = t.stratum_id WHERE t.id = %s
"""
GIVEN = """
SELECT b.id, a.slot, a.state, a.skip_reason, b.name, b.state, b.tolerance, b.lease_seconds, g.id, g.sha256
FROM annotation_assignment a JOIN annotation_batch b ON b.id = a.batch_id
JOIN annotation_guideline g ON g.id = b.guideline_id WHERE a.id = %s
"""


def membership_id(assignment: Assignment) -> int:
    """The membership by which the person has this assignment: its role follows from the slot."""
    role = Membership.Role.ADJUDICATOR if assignment.is_adjudication else Membership.Role.ANNOTATOR
    return Membership.objects.values_list("pk", flat=True).get(
        batch=assignment.batch_id, person=assignment.person_id, role=role
    )


def retake_slot(assignment: Assignment) -> None:
    """Take a slot again for work that comes after its lease ended; refused where the last slot is gone.

    Also refused to whoever has left the batch, and where the task was given to other people meanwhile.
    The task's row must be locked.
    """
    task = assignment.task
    role = Membership.Role.ADJUDICATOR if assignment.is_adjudication else Membership.Role.ANNOTATOR
    member = Membership.objects.filter(
        batch=assignment.batch_id, person=assignment.person_id, role=role, active=True
    ).first()
    if member is None:
        raise TooLate(N_("This item is no longer yours to work on."))
    if assignment.is_adjudication:
        taken = task.assignments.filter(slot=ADJUDICATION_SLOT, state__in=LIVE).exists()
        slot = None if taken else ADJUDICATION_SLOT
    else:
        if task.panel_id is not None and not Panel.objects.filter(pk=task.panel_id, members=member).exists():
            raise TooLate(N_("Your time for this item ran out and someone else has taken it over."))
        slot = free_slot(_slots_taken(task.pk), task.overlap)
    if slot is None:
        raise TooLate(N_("Your time for this item ran out and someone else has taken it over."))
    if slot != ADJUDICATION_SLOT:
        Task.objects.filter(pk=task.pk).update(slots_taken=F("slots_taken") + 1)
        task.slots_taken += 1
    assignment.slot = slot


def _overdue(batch: Batch, now: datetime | None) -> QuerySet[Assignment]:
    return Assignment.objects.filter(
        batch=batch, state=Assignment.State.CLAIMED, lease_expires__lt=now or timezone.now()
    )


class _Member(NamedTuple):
    """A locked membership. ``planned``: it is in a panel; ``limited``: something may be ruled out for it."""

    membership: Membership
    planned: bool
    limited: bool


def _lock_membership(batch: Batch, person: Person, role: str) -> _Member:
    """Whoever is no active member is told that the batch does not exist."""
    row = first(
        """
        SELECT m.id, m.quota, m.excluded_dimensions, m.cursor, m.last_prompt,
            EXISTS (SELECT 1 FROM annotation_panel_members p WHERE p.membership_id = m.id),
            EXISTS (SELECT 1 FROM annotation_person_own_models o WHERE o.person_id = m.person_id)
        FROM annotation_membership m
        WHERE m.batch_id = %s AND m.person_id = %s AND m.role = %s AND m.active
        """
        + for_update("m"),
        [batch.pk, person.pk, role],
    )
    if row is None:
        raise NotFound(N_("No batch is named {name}."), name=batch.name)
    pk, quota, excluded, cursor, last_prompt, planned, authored = row
    member = Membership(
        pk=pk,
        batch=batch,
        person=person,
        role=role,
        quota=quota,
        excluded_dimensions=json.loads(excluded),
        cursor=cursor,
        last_prompt=last_prompt,
    )
    limited = bool(authored or member.excluded_dimensions or person.languages)
    return _Member(member, planned=bool(planned), limited=limited)


# The condition of the partial index assignment_given_back, word for word.
GIVEN_BACK = "a.state IN ('released', 'expired') AND a.skip_reason = ''"


class _Now(NamedTuple):
    """``live``: whether the person has claims at hand, ``expired``: whether some of theirs ran out.

    ``requeued``: whether any task of the batch came back and is free.
    """

    state: str
    live: bool
    expired: bool
    requeued: bool
    leases_ran_out: bool


def _now_in(batch: Batch, person: Person) -> _Now:
    """Read after the membership is locked: a batch that closed or paused meanwhile says so."""
    mine = "SELECT 1 FROM annotation_assignment a WHERE a.person_id = %s AND a.batch_id = %s AND a.slot < %s"
    row = first(
        f"""
        SELECT b.state,
            EXISTS ({mine} AND a.state = 'claimed'),
            EXISTS ({mine} AND {GIVEN_BACK} AND a.state = 'expired'),
            {anything_requeued()},
            EXISTS (SELECT 1 FROM annotation_assignment a
                WHERE a.batch_id = %s AND a.state = 'claimed' AND a.lease_expires < %s)
        FROM annotation_batch b WHERE b.id = %s
        """,
        [
            *(person.pk, batch.pk, ADJUDICATION_SLOT),
            *(person.pk, batch.pk, ADJUDICATION_SLOT),
            batch.pk,
            batch.pk,
            stored(Assignment, "lease_expires", timezone.now()),
            batch.pk,
        ],
    )
    assert row is not None
    now = _Now(*row)
    if now.state != Batch.State.OPEN:
        raise Forbidden(N_("The batch {name} is not open."), name=batch.name)
    return now


@dataclass
class _Search:
    """One member's search for their next task; the membership is locked.

    ``cursor`` is where the next search begins. It follows by ``CURSOR_STEP``, to the first task that is still
    free for the member, locked by others or not: before it there can be none, but what comes back, and that is
    marked ``requeued``.
    """

    member: Membership
    tasks: FreeTasks
    now: _Now
    cursor: int
    careful: bool = False  # whether to wait for others
    had: bool = False  # what was found is a task that the member had before

    @classmethod
    def of(cls, locked: _Member, *, now: _Now, careful: bool) -> _Search:
        member = locked.membership
        tasks = FreeTasks.of(member, limited=locked.limited, planned=locked.planned)
        return cls(member=member, tasks=tasks, now=now, cursor=member.cursor, careful=careful)

    def take(self) -> FreeTask | None:
        """The next task, locked: first what the member had begun when the lease ran out, if nobody took it over.

        Never one of the prompt handed out last, unless nothing else is left; what the member gave back themselves
        comes last of all.
        """
        again = self._take_again(Assignment.State.EXPIRED) if self.now.expired else None
        if again is not None:
            return again
        last = self.member.last_prompt
        for not_prompt in (None,) if last is None else (last, None):
            found = self._take_in_order(not_prompt)
            if found is not None:
                if found.rank - self.cursor > CURSOR_STEP:
                    self._move_cursor()
                return found
        self._move_cursor()
        return self._take_again(Assignment.State.RELEASED)

    def leaves_enough_for_all(self) -> bool:
        """Whether a claim ahead leaves an item for each of the others: nobody waits while another one hoards.

        What is planned for a member waits for them alone.
        """
        if not self.tasks.pool:
            return True
        others = _annotators(self.member.batch).exclude(pk=self.member.pk).count()
        return self.tasks.count(start=self.cursor, most=others + 1) > others

    def _take_in_order(self, not_prompt: int | None) -> FreeTask | None:
        """What came back stands before the cursor, so it is looked at first: its rank is the smaller one.

        Where all are being taken by others this moment, wait for what becomes of them.
        """
        for wait in self._ways():
            for requeued in (True, False) if self.now.requeued else (False,):
                take = partial(self.tasks.take, start=self.cursor, requeued=requeued, not_prompt=not_prompt)
                found = self._tried(partial(take, wait=wait))
                if found is not None:
                    return found
        return None

    def _take_again(self, ended: Assignment.State) -> FreeTask | None:
        """A task that the member had, whose claim ``ended`` so without a reason, and that nobody else took."""
        mine = list(_given_back(self.member.batch, self.member.person, ended).values_list("task", flat=True))
        for wait in self._ways() if mine else ():
            found = self._tried(partial(self.tasks.take_of, mine, wait=wait))
            if found is not None:
                self.had = True
                return found
        return None

    def _ways(self) -> Iterator[bool]:
        """First passing over what others are taking, then waiting for them. On SQLite nobody else is at work."""
        yield False
        if connection.features.has_select_for_update:
            if not self.careful:
                raise _OthersAreTakingError
            yield True

    def _tried(self, take: Callable[[], FreeTask | None]) -> FreeTask | None:
        """What ``take`` finds. PostgreSQL keeps the locks of rows that turn out to be taken: whoever waits for others
        gives them back first, so that nobody waits in a circle.
        """
        if not self.careful:
            return take()
        with transaction.atomic():
            found = take()
            if found is None:
                transaction.set_rollback(True)
        return found

    def _move_cursor(self) -> None:
        """Where nothing is left, to the place where the next task of the batch will stand."""
        found = self.tasks.first_rank(start=self.cursor)
        self.cursor = max(self.cursor, tasks_in(self.member.batch)) if found is None else found
        Membership.objects.filter(pk=self.member.pk).update(cursor=self.cursor)


def _claim_free(task: FreeTask, search: _Search) -> Assignment:
    """Take the lowest free slot of a task whose row is locked; all that is written goes in one round trip."""
    member = search.member
    slot = free_slot(_slots_taken(task.id) if task.slots_taken else (), task.overlap)
    if slot is None:  # the counter said otherwise: refuse rather than break what never breaks
        raise Conflict(N_("This task has no free place."))
    past = Assignment.objects.get(task=task.id, person=member.person) if search.had else None
    assignment = _claimed(task.id, member.person, past, slot=slot, batch=member.batch)
    execute(
        update(Task, task.id, {"slots_taken": Raw("slots_taken + 1")}),
        update(Membership, member.pk, {"last_prompt": task.prompt, "cursor": search.cursor}),
        _written(assignment),
    )
    return assignment


def _annotators(batch: Batch) -> QuerySet[Membership]:
    return Membership.objects.filter(batch=batch, role=Membership.Role.ANNOTATOR, active=True)


def _adjudicable(batch: Batch, member: Membership) -> QuerySet[Task]:
    """Prompt by prompt, not in the order of the batch: labels imported file by file stand there model by model."""
    held = Assignment.objects.filter(task=OuterRef("pk"), slot=ADJUDICATION_SLOT, state__in=LIVE)
    return (
        Task.objects.filter(batch=batch, state=Task.State.DISPUTED)
        .exclude(stratum__in=strata_ruled_out(member))
        .filter(~Exists(_barring(member)), ~Exists(held))
        .order_by("-priority", "prompt", "-response__sha256", "position")
    )


def _take_dispute(batch: Batch, member: Membership) -> Task | None:
    """The first dispute that nobody is taking this moment, locked; waits for others only when it is the last.

    Claiming a dispute does not change its task's row, so it is looked at again under the lock; what others hold
    is given back at once, so that nobody waits in a circle.
    """
    for wait in (False, True):
        gone: list[int] = []
        while True:
            tasks = _adjudicable(batch, member).exclude(pk__in=gone)
            with transaction.atomic():
                task = tasks.select_for_update(skip_locked=not wait, no_key=True, of=("self",)).first()
                held = (
                    task is not None
                    and task.assignments.filter(slot=ADJUDICATION_SLOT, state__in=LIVE).exists()
                )
                if task is None or held:
                    transaction.set_rollback(True)
            if task is None:
                break
            if not held:
                return task
            gone.append(task.pk)
    return None


def _barring(member: Membership) -> QuerySet[Assignment]:
    """``may_claim_again``, as the database says it: the past claims that keep a dispute from a person."""
    barred = Q(state__in=LIVE) | ~Q(skip_reason="") | Q(slot__lt=ADJUDICATION_SLOT)
    return Assignment.objects.filter(barred, task=OuterRef("pk"), person=member.person_id)


def _slots_taken(task: int) -> frozenset[int]:
    taken = rows(
        "SELECT slot FROM annotation_assignment"
        " WHERE task_id = %s AND slot < %s AND state IN ('claimed', 'submitted')",
        [task, ADJUDICATION_SLOT],
    )
    return frozenset(slot for (slot,) in taken)


def _claimed(task: int, person: Person, past: Assignment | None, *, slot: int, batch: Batch) -> Assignment:
    """The claim, new or the ``past`` one once more; not written yet."""
    if not may_claim_again(_past(past), adjudication=slot == ADJUDICATION_SLOT):
        raise Conflict(N_("This item was yours before."))
    assignment = past or Assignment(task_id=task, person=person)
    now = timezone.now()
    assignment.batch, assignment.slot, assignment.state = batch, slot, Assignment.State.CLAIMED
    assignment.claimed_at, assignment.lease_expires = now, now + timedelta(seconds=batch.lease_seconds)
    return assignment


def _written(assignment: Assignment) -> Statement:
    claim = {name: getattr(assignment, name) for name in ("slot", "state", "claimed_at", "lease_expires")}
    if not assignment._state.adding:
        return update(Assignment, assignment.pk, claim)
    assignment._state.adding = False
    whose = {name: getattr(assignment, name) for name in ("id", "batch_id", "task_id", "person_id")}
    return insert(Assignment, {**whose, **claim, "skip_reason": ""})


def _past(assignment: Assignment | None) -> PastClaim | None:
    if assignment is None:
        return None
    return PastClaim(
        live=assignment.state in LIVE,
        skipped=bool(assignment.skip_reason),
        adjudication=assignment.is_adjudication,
    )
