"""Claims on tasks: an annotator's on a free slot, an adjudicator's on a dispute."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import Count, QuerySet
from django.db.models.functions import Length
from django.utils import timezone

from annotation.core.errors import N_, Conflict
from annotation.core.sql import execute
from annotation.domain.assignments.eligibility import (
    PastClaim,
    find_free_slot,
    has_enough_claims,
    is_within_quota,
    may_claim_again,
)
from annotation.domain.slates import draw_order
from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, Membership, Person, Qualification, Task
from annotation.models.sql.assignments import (
    FreeTask,
    fetch_taken_slots,
    remember_place,
    take_slot,
    write_claim,
)
from annotation.selectors.adjudication import (
    ANY_DISPUTE,
    DisputeFilter,
    list_due_repeats,
    list_waiting_disputes,
)
from annotation.selectors.counts import count_decisions, count_submitted
from annotation.selectors.wellbeing import list_resting_strata
from annotation.services.assignments.gold_questions import find_next_check, find_next_question
from annotation.services.assignments.leases import LIVE, expire_leases, live_claims
from annotation.services.assignments.search import (
    Search,
    TasksLockedError,
    lock_membership,
    read_conditions,
)

RUNNING = Qualification.State.RUNNING
ADMITTED = (Qualification.State.PASSED, Qualification.State.WAIVED)


class _LeasesRanOutError(Exception):
    """Leases are to be ended first, and that is a transaction of its own."""


def claim_next_task(*, batch: Batch, person: Person, ahead: bool = False) -> Assignment | None:
    """The person's oldest live claim, else a new one; with ``ahead`` one more, at most two live.

    None when there is nothing for this person now.
    """
    expired = may_wait = False
    while True:
        try:
            return _claim_next_task(batch, person, ahead=ahead, expired=expired, may_wait=may_wait)
        except _LeasesRanOutError:
            expired = True
            expire_leases(batch=batch)
        except TasksLockedError:
            may_wait = True


def claim_next_dispute(
    *, batch: Batch, person: Person, dispute_filter: DisputeFilter = ANY_DISPUTE
) -> Assignment | None:
    """The adjudicator's live claim on a disputed task, else a new one by the ``dispute_filter``; None when none waits.

    A repeat adjudication comes as such a claim, too: when it is due, but after what a manager put first, or when the
    disputes of the batch have run out.
    """
    expire_leases(batch=batch)
    return _claim_next_dispute(batch, person, dispute_filter)


@transaction.atomic
def _claim_next_task(
    batch: Batch, person: Person, *, ahead: bool, expired: bool, may_wait: bool
) -> Assignment | None:
    locked = lock_membership(batch, person, Membership.Role.ANNOTATOR)
    conditions = read_conditions(locked.membership)
    if conditions.leases_ran_out and not expired:
        raise _LeasesRanOutError
    live = list(_filter_annotation_claims(batch, person)) if conditions.has_live else []
    if has_enough_claims(len(live), ahead=ahead):
        return live[-1] if ahead else live[0]
    # The claims were counted before: one submitted meanwhile counts twice for a moment, and never not at all.
    member = locked.membership
    if member.quota is not None and not is_within_quota(
        member.quota, submitted=count_submitted(member), live=len(live)
    ):
        return None
    resting = list_resting_strata(batch, person, conditions.budget)
    search = Search.start(locked, conditions=conditions, may_wait=may_wait, resting=resting)
    if conditions.round == RUNNING:
        task = search.take_expired() or find_next_question(search) or search.take_returned()
        if task is not None:
            return _claim_task(task, search)
        conditions = read_conditions(locked.membership)  # the attempt may have ended now
    if conditions.round not in ADMITTED or (live and not search.has_enough_for_all()):
        return None
    task = search.take_expired() or find_next_check(search, live=len(live)) or search.take_next()
    return None if task is None else _claim_task(task, search)


@transaction.atomic
def _claim_next_dispute(batch: Batch, person: Person, dispute_filter: DisputeFilter) -> Assignment | None:
    member = lock_membership(batch, person, Membership.Role.ADJUDICATOR).membership
    conditions = read_conditions(member)
    live = live_claims(batch, person).filter(slot=ADJUDICATION_SLOT).order_by("claimed_at").first()
    if live is not None:
        return live
    if member.quota is not None:
        decided = count_decisions(member, with_repeats=True)
        if not is_within_quota(member.quota, submitted=decided, live=0):
            return None
    return _claim_dispute(
        member, dispute_filter, resting=list_resting_strata(batch, person, conditions.budget)
    )


def _claim_dispute(
    member: Membership, dispute_filter: DisputeFilter, *, resting: Sequence[int]
) -> Assignment | None:
    tasks = list_waiting_disputes(member, resting=resting)
    repeats = dispute_filter.filter_dimension(list_due_repeats(member, resting=resting))
    repeat_waits = repeats.exists()
    if repeat_waits:
        tasks = tasks.filter(priority__gt=0)
    task = next(filter(None, map(_lock_first_dispute, dispute_filter.list_queries(tasks))), None)
    if task is None and repeat_waits:
        task = _lock_first_dispute(repeats)
    if task is None:
        return None
    past = Assignment.objects.filter(task=task, person=member.person).first()
    assignment = _build_claim(task.pk, member.person, past, slot=ADJUDICATION_SLOT, batch=member.batch)
    execute(write_claim(assignment))
    return assignment


def _filter_annotation_claims(batch: Batch, person: Person) -> QuerySet[Assignment]:
    """The person's live claims to annotate, the oldest first."""
    return live_claims(batch, person).exclude(slot=ADJUDICATION_SLOT).order_by("claimed_at", "id")


def _claim_task(task: FreeTask, search: Search) -> Assignment:
    """Take the lowest free slot of a task whose row is locked; all that is written goes in one round trip."""
    member = search.member
    slot = find_free_slot(fetch_taken_slots(task.id) if task.slots_taken else (), task.overlap)
    if slot is None:  # the counter said otherwise: refuse rather than break what never breaks
        raise Conflict(N_("This task has no free place."))
    past = Assignment.objects.get(task=task.id, person=member.person) if search.is_reclaim else None
    assignment = _build_claim(task.id, member.person, past, slot=slot, batch=member.batch)
    execute(
        take_slot(task.id),
        remember_place(member.pk, last_prompt=task.prompt, cursor=search.cursor),
        write_claim(assignment),
        *search.statements,
    )
    return assignment


def _lock_first_dispute(disputes: QuerySet[Task]) -> Task | None:
    """The first of them that nobody is taking this moment, locked; waits for others only when it is the last.

    Claiming a dispute does not change its task's row, so it is looked at again under the lock; what others hold
    is given back at once, so that nobody waits in a circle.
    """
    for wait in (False, True):
        gone: list[int] = []
        while True:
            tasks = disputes.exclude(pk__in=gone) if gone else disputes
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


def _build_claim(
    task: int, person: Person, past: Assignment | None, *, slot: int, batch: Batch
) -> Assignment:
    """The claim, new or the ``past`` one once more; not written yet."""
    if not may_claim_again(_build_past_claim(past), adjudication=slot == ADJUDICATION_SLOT):
        raise Conflict(N_("This item was yours before."))
    assignment = past or Assignment(task_id=task, person=person)
    now = timezone.now()
    assignment.batch, assignment.slot, assignment.state = batch, slot, Assignment.State.CLAIMED
    assignment.claimed_at, assignment.lease_expires = now, now + timedelta(seconds=batch.lease_seconds)
    if batch.of_slates and past is None:
        assignment.shown_order = _draw_shown_order(task, person, batch)
    return assignment


def _draw_shown_order(task: int, person: Person, batch: Batch) -> str:
    """The order in which the person reads the entries of the task's slate; its membership is locked."""
    seed, entries = (
        Task.objects.values_list("batch__seed").annotate(n=Count("response__slate__entries")).get(pk=task)
    )
    earlier = Assignment.objects.filter(person=person, batch=batch).annotate(n=Length("shown_order"))
    order = draw_order(seed=seed, person=person.pk, number=earlier.filter(n=entries).count(), entries=entries)
    return "".join(map(str, order))


def _build_past_claim(assignment: Assignment | None) -> PastClaim | None:
    if assignment is None:
        return None
    return PastClaim(
        live=assignment.state in LIVE,
        skipped=bool(assignment.skip_reason),
        adjudication=assignment.is_adjudication,
    )
