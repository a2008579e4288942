"""Handing out work: claims and leases.

Lock order, everywhere: the person's membership, then the task. Two calls of one person queue at the
membership; two people meet at a task only for the moment in which its slot is taken (SKIP LOCKED).
Leases are ended in a transaction of their own, before: whoever waits for a task holds no other.
On SQLite a transaction holds the write lock from its first statement, which gives the same order.

A claim costs the same in a batch of any size (docs/decisions/a-cursor-for-each-member.md): each member looks
for the next task from their cursor on, and before it only among the few tasks that came back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
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
    EvaluatedModel,
    Membership,
    Panel,
    Person,
    Task,
)
from annotation.selectors.counts import submitted_by, tasks_in
from annotation.selectors.eligibility import FREE, for_member, free_tasks, strata_ruled_out
from annotation.services.audit import record
from annotation.services.planning import plan_again
from annotation.services.tallies import count_for

LIVE = (Assignment.State.CLAIMED, Assignment.State.SUBMITTED)
# The cursor follows when the claim was made this far beyond it.
CURSOR_STEP = 200


class TooLate(Conflict):
    """Work comes for a place that is gone; what was done is kept as a draft."""

    code = "too_late"


class _LeasesRanOutError(Exception):
    """Leases are to be ended first, and that is a transaction of its own."""


def next_assignment(*, batch: Batch, person: Person, ahead: bool = False) -> Assignment | None:
    """The person's oldest live claim, else a new one; with ``ahead`` one more, at most two live.

    None when there is nothing for this person now.
    """
    try:
        return _next_assignment(batch, person, ahead=ahead, expired=False)
    except _LeasesRanOutError:
        expire_leases(batch=batch)
    return _next_assignment(batch, person, ahead=ahead, expired=True)


def next_dispute(*, batch: Batch, person: Person) -> Assignment | None:
    """The adjudicator's live claim on a disputed task, else a new one; None when nothing waits for them."""
    expire_leases(batch=batch)
    return _next_dispute(batch, person)


@transaction.atomic
def _next_assignment(batch: Batch, person: Person, *, ahead: bool, expired: bool) -> Assignment | None:
    member = _lock_membership(batch, person, Membership.Role.ANNOTATOR)
    now = _now_in(batch, person)
    if now.leases_ran_out and not expired:
        raise _LeasesRanOutError
    live = list(_annotating(batch, person)) if now.live else []
    if claims_to_keep(len(live), ahead=ahead):
        return live[-1] if ahead else live[0]
    # The claims were counted before: one submitted meanwhile counts twice for a moment, and never not at all.
    if member.quota is not None and not within_quota(
        member.quota, submitted=submitted_by(member), live=len(live)
    ):
        return None
    search = _Search.of(member, now=now)
    if live and not search.leaves_enough_for_all():
        return None
    task = search.take()
    if task is None:
        return None
    slot = free_slot(_slots_taken(task) if task.slots_taken else (), task.overlap)
    if slot is None:  # the counter said otherwise: refuse rather than break what never breaks
        raise Conflict(N_("This task has no free place."))
    Task.objects.filter(pk=task.pk).update(slots_taken=F("slots_taken") + 1)
    Membership.objects.filter(pk=member.pk).update(last_prompt=task.prompt_id, cursor=search.cursor)
    return _claim(task, person, slot=slot, batch=batch)


@transaction.atomic
def _next_dispute(batch: Batch, person: Person) -> Assignment | None:
    member = _lock_membership(batch, person, Membership.Role.ADJUDICATOR)
    _now_in(batch, person)
    live = live_claims(batch, person).filter(slot=ADJUDICATION_SLOT).order_by("claimed_at").first()
    if live is not None:
        return live
    task = _take_dispute(batch, member)
    return None if task is None else _claim(task, person, slot=ADJUDICATION_SLOT, batch=batch)


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
        member = membership_id(assignment)
        if assignment.task.panel_id is not None and not assignment.is_adjudication:
            plan_again(assignment.task, without=member)
        count_for(member, assignment.task.stratum_id, skipped=1)
    return assignment


@transaction.atomic
def expire_leases(*, batch: Batch, now: datetime | None = None) -> int:
    """Free every slot of the batch whose lease has run out. The number of leases ended."""
    overdue = _overdue(batch, now)
    ended = 0
    for task_id in overdue.values_list("task_id", flat=True).distinct():
        if Task.objects.select_for_update(skip_locked=True).filter(pk=task_id).first() is None:
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
        Task.objects.select_for_update().get(pk=task_id)
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


def live_claims(batch: Batch, person: Person) -> QuerySet[Assignment]:
    return Assignment.objects.filter(batch=batch, person=person, state=Assignment.State.CLAIMED)


def lock_assignment(assignment_id: UUID, person: Person) -> Assignment:
    """The person's assignment with its task's row locked; anybody else's does not exist for them."""
    mine = Assignment.objects.filter(pk=assignment_id, person=person)
    task_id = mine.values_list("task_id", flat=True).first()
    if task_id is None:
        raise NotFound(N_("There is no such item among yours."))
    task = Task.objects.select_for_update(of=("self",)).select_related("stratum").get(pk=task_id)
    assignment = with_batch(Assignment.objects.all()).get(pk=assignment_id)
    assignment.task = task
    return assignment


def with_batch(assignments: QuerySet[Assignment]) -> QuerySet[Assignment]:
    """With the batch and its guideline, but for the guideline's text: its document is kept by its hash."""
    return assignments.select_related("batch__guideline").defer(
        "batch__guideline__content", "batch__guideline__source"
    )


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
        slot = free_slot(_slots_taken(task), task.overlap)
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


def _lock_membership(batch: Batch, person: Person, role: str) -> Membership:
    """Whoever is no active member is told that the batch does not exist."""
    member = (
        Membership.objects.select_for_update()
        .filter(batch=batch, person=person, role=role, active=True)
        .annotate(
            planned=Exists(Panel.objects.filter(members=OuterRef("pk"))),
            authored=Exists(EvaluatedModel.objects.filter(authors=OuterRef("person"))),
        )
        .first()
    )
    if member is None:
        raise NotFound(N_("No batch is named {name}."), name=batch.name)
    member.batch, member.person = batch, person
    return member


@dataclass(frozen=True)
class _Now:
    """``live``: whether the person has claims at hand, ``expired``: whether some of theirs ran out.

    ``requeued``: whether any task of the batch came back and is free.
    """

    live: bool
    expired: bool
    requeued: bool
    leases_ran_out: bool


def _now_in(batch: Batch, person: Person) -> _Now:
    """Read after the membership is locked: a batch that closed or paused meanwhile says so."""
    state, live, expired, requeued, ran_out = (
        Batch.objects.filter(pk=batch.pk)
        .annotate(
            live=Exists(live_claims(batch, person).exclude(slot=ADJUDICATION_SLOT)),
            expired=Exists(_given_back(batch, person, Assignment.State.EXPIRED)),
            requeued=Exists(Task.objects.filter(FREE, batch=batch, requeued=True)),
            ran_out=Exists(_overdue(batch, None)),
        )
        .values_list("state", "live", "expired", "requeued", "ran_out")
        .get()
    )
    if state != Batch.State.OPEN:
        raise Forbidden(N_("The batch {name} is not open."), name=batch.name)
    return _Now(live=live, expired=expired, requeued=requeued, leases_ran_out=ran_out)


@dataclass
class _Search:
    """One member's search for their next task; the membership is locked.

    ``cursor`` is where the next search begins. It follows by ``CURSOR_STEP``, to the first task that is still
    free for the member, locked by others or not: before it there can be none, but what comes back, and that is
    marked ``requeued``.
    """

    member: Membership
    ruled_out: list[int]
    panels: list[int]
    now: _Now
    cursor: int

    @classmethod
    def of(cls, member: Membership, *, now: _Now) -> _Search:
        limited = member.excluded_dimensions or member.person.languages or getattr(member, "authored", True)
        planned = getattr(member, "planned", True)
        return cls(
            member=member,
            ruled_out=strata_ruled_out(member) if limited else [],
            panels=list(member.panels.values_list("pk", flat=True)) if planned else [],
            now=now,
            cursor=member.cursor,
        )

    def take(self) -> Task | None:
        """The next task, locked: first what the member had begun when the lease ran out, if nobody took it over.

        Never one of the prompt handed out last, unless nothing else is left; what the member gave back themselves
        comes last of all.
        """
        again = self._take_again(Assignment.State.EXPIRED) if self.now.expired else None
        if again is not None:
            return again
        tasks, last = self._tasks(), self.member.last_prompt
        searches = [tasks] if last is None else [tasks.exclude(prompt=last), tasks]
        for search in searches:
            found = self._take_in_order(search)
            if found is not None:
                if found.rank - self.cursor > CURSOR_STEP:
                    self._move_cursor(tasks)
                return found
        self._move_cursor(tasks)
        return self._take_again(Assignment.State.RELEASED)

    def leaves_enough_for_all(self) -> bool:
        """Whether a claim ahead leaves an item for each of the others: nobody waits while another one hoards.

        What is planned for a member waits for them alone.
        """
        if self.member.batch.pairing != Batch.Pairing.POOL:
            return True
        others = _annotators(self.member.batch).exclude(pk=self.member.pk).count()
        return len(self._tasks().filter(rank__gte=self.cursor).values_list("pk")[: others + 1]) > others

    def _tasks(self) -> QuerySet[Task]:
        return free_tasks(self.member, self.ruled_out, self.panels)

    def _take_in_order(self, tasks: QuerySet[Task]) -> Task | None:
        """What came back stands before the cursor, so it is looked at first: its rank is the smaller one."""
        parts = [tasks.filter(rank__gte=self.cursor)]
        if self.now.requeued:
            parts.insert(0, tasks.filter(requeued=True, rank__lt=self.cursor))
        # Where all are being taken by others this moment, wait for what becomes of them.
        ways = [part.select_for_update(skip_locked=True, of=("self",)) for part in parts]
        ways += [part.select_for_update(of=("self",)) for part in parts]
        return next((found for way in ways if (found := way.first()) is not None), None)

    def _take_again(self, ended: Assignment.State) -> Task | None:
        """A task that the member had, whose claim ``ended`` so without a reason, and that nobody else took."""
        mine = _given_back(self.member.batch, self.member.person, ended)
        ids = list(mine.values_list("task", flat=True))
        tasks = Task.objects.filter(FREE, for_member(self.member, self.ruled_out, self.panels), pk__in=ids)
        return _take_first(tasks.order_by("rank"))

    def _move_cursor(self, tasks: QuerySet[Task]) -> None:
        """Where nothing is left, to the place where the next task of the batch will stand."""
        first = tasks.filter(rank__gte=self.cursor).values_list("rank", flat=True).first()
        self.cursor = max(self.cursor, tasks_in(self.member.batch)) if first is None else first
        Membership.objects.filter(pk=self.member.pk).update(cursor=self.cursor)


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
    """As ``_take_first``; but claiming a dispute does not change its task's row, so look again under the lock."""
    gone: list[int] = []
    while True:
        task = _take_first(_adjudicable(batch, member).exclude(pk__in=gone))
        if task is None or not task.assignments.filter(slot=ADJUDICATION_SLOT, state__in=LIVE).exists():
            return task
        gone.append(task.pk)


def _barring(member: Membership) -> QuerySet[Assignment]:
    """``may_claim_again``, as the database says it: the past claims that keep a dispute from a person."""
    barred = Q(state__in=LIVE) | ~Q(skip_reason="") | Q(slot__lt=ADJUDICATION_SLOT)
    return Assignment.objects.filter(barred, task=OuterRef("pk"), person=member.person_id)


def _take_first(tasks: QuerySet[Task]) -> Task | None:
    """The first task that nobody else is taking this moment; waits for the others only when it is the last."""
    task = tasks.select_for_update(skip_locked=True, of=("self",)).first()
    return task or tasks.select_for_update(of=("self",)).first()


def _slots_taken(task: Task) -> frozenset[int]:
    live = task.assignments.filter(state__in=LIVE, slot__lt=ADJUDICATION_SLOT)
    return frozenset(live.values_list("slot", flat=True))


def _claim(task: Task, person: Person, *, slot: int, batch: Batch) -> Assignment:
    now = timezone.now()
    past = Assignment.objects.filter(task=task, person=person).first()
    if not may_claim_again(_past(past), adjudication=slot == ADJUDICATION_SLOT):
        raise Conflict(N_("This item was yours before."))
    assignment = past or Assignment(batch=batch, task=task, person=person)
    assignment.slot = slot
    assignment.state = Assignment.State.CLAIMED
    assignment.claimed_at = now
    assignment.lease_expires = now + timedelta(seconds=batch.lease_seconds)
    assignment.save()
    return assignment


def _past(assignment: Assignment | None) -> PastClaim | None:
    if assignment is None:
        return None
    return PastClaim(
        live=assignment.state in LIVE,
        skipped=bool(assignment.skip_reason),
        adjudication=assignment.is_adjudication,
    )
