"""How far a person is in the batches that they work in: what they did, and what they can still get at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, Sum

from annotation.core.study_scope import build_study_filter
from annotation.models import DECIDED_AGAIN, Assignment, Batch, Membership, Person, Qualification, Task
from annotation.models.sql.counts import StratumStanding, fetch_stratum_standings
from annotation.selectors.access import build_role_filter
from annotation.selectors.adjudication import list_dispute_claims, list_due_repeats, list_waiting_disputes
from annotation.selectors.assignments.availability import list_ruled_out_strata, select_free_tasks
from annotation.selectors.gold_questions import (
    NO_QUALIFICATION,
    count_checks_left,
    find_latest_qualification,
    list_qualification_items,
)

# Up to here disputes are counted one by one for each adjudicator.
MAX_DISPUTES_COUNTED = 1000


@dataclass(frozen=True)
class MemberProgress:
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
    round: str = NO_QUALIFICATION


def list_own_batches(person: Person) -> list[MemberProgress]:
    """The open batches in which the person works, with their progress, the earliest due first."""
    memberships = (
        Membership.objects.filter(
            build_role_filter(OuterRef("role")),
            person=person,
            active=True,
            batch__state=Batch.State.OPEN,
            **build_study_filter("batch__study"),
        )
        .select_related("batch")
        .order_by("batch__due_date", "batch__created_at")
    )
    return [measure_own_progress(membership) for membership in memberships]


def measure_own_progress(membership: Membership) -> MemberProgress:
    """A handful of sums and looks, however many tasks there are."""
    adjudicating = membership.role == Membership.Role.ADJUDICATOR
    if not adjudicating and membership.batch.qualifying:
        return _qualifying_progress(membership)
    strata = fetch_stratum_standings(membership)
    done = sum(
        stratum.my_adjudicated if adjudicating else stratum.my_submitted
        for stratum in _exclude_qualification(strata)
    )
    return MemberProgress(
        batch=membership.batch,
        role=membership.role,
        done=done,
        left=_count_disputes_left(membership, strata)
        if adjudicating
        else _count_annotations_left(membership, strata),
        due=membership.batch.due_date,
    )


def _qualifying_progress(membership: Membership) -> MemberProgress:
    batch = membership.batch
    latest = find_latest_qualification(batch.pk, membership.person_id)
    state = latest.state if latest else Qualification.State.RUNNING
    if state in (Qualification.State.PASSED, Qualification.State.WAIVED):
        strata = fetch_stratum_standings(membership)
        done, left = (
            sum(stratum.my_submitted for stratum in _exclude_qualification(strata)),
            _count_annotations_left(membership, strata),
        )
    elif state == Qualification.State.FAILED:
        done = left = 0
    else:
        attempt = latest.attempt if latest else 1
        items = list_qualification_items(membership, attempt, without=list_ruled_out_strata(membership))
        done = sum(item.ended for item in items)
        left = len(items) - done
    return MemberProgress(batch, membership.role, done, left, batch.due_date, state)


def _exclude_qualification(strata: Mapping[int, StratumStanding]) -> list[StratumStanding]:
    """All but the round before the work."""
    return [stratum for stratum in strata.values() if stratum.kind != Task.Kind.QUALIFICATION]


def _count_annotations_left(membership: Membership, strata: Mapping[int, StratumStanding]) -> int:
    if not _has_anything(membership):
        return 0
    done = sum(stratum.my_submitted for stratum in _exclude_qualification(strata))
    share = membership.batch.check_share
    ruled_out = set(list_ruled_out_strata(membership)) if share or _is_pool(membership) else set()
    work = {pk: stratum for pk, stratum in strata.items() if stratum.kind == Task.Kind.WORK}
    if _is_pool(membership):
        left = sum(
            _count_left_in(stratum, membership.batch) for pk, stratum in work.items() if pk not in ruled_out
        )
    else:
        planned = membership.panels.aggregate(n=Sum("tasks_planned"))["n"] or 0
        left = planned - sum(stratum.my_submitted for stratum in work.values())
    if share:
        assigned = done + sum(stratum.my_skipped for stratum in _exclude_qualification(strata))
        left += count_checks_left(membership, assigned=assigned, work=max(0, left), without=ruled_out)
    if membership.quota is not None:
        left = min(left, membership.quota - done)
    return max(1, left)


def _is_pool(membership: Membership) -> bool:
    return membership.batch.pairing == Batch.Pairing.POOL


def _count_left_in(stratum: StratumStanding, batch: Batch) -> int:
    """What one person can get of a stratum at most: places that are left, and tasks that they have not had."""
    not_had = stratum.every - stratum.my_submitted - stratum.my_skipped
    if batch.plan == Batch.Plan.OPEN and batch.collection_ended_at is None:
        return max(0, min(not_had, stratum.open))
    return max(0, min(stratum.needed - stratum.submitted, not_had, stratum.open))


def _has_anything(membership: Membership) -> bool:
    claimed = Assignment.objects.filter(
        batch=membership.batch_id, person=membership.person_id, state=Assignment.State.CLAIMED
    )
    if claimed.exists():
        return True
    tasks = select_free_tasks(membership)
    return any(
        tasks.first_rank(start=membership.cursor, requeued=requeued) is not None for requeued in (False, True)
    )


def _count_disputes_left(membership: Membership, strata: Mapping[int, StratumStanding]) -> int:
    """Those that this adjudicator may decide; beyond ``MANY`` all that there are."""
    repeats, claimed = list_due_repeats(membership).count(), list_dispute_claims(membership)
    disputed = sum(stratum.disputed for stratum in strata.values() if stratum.kind == Task.Kind.WORK)
    if disputed > MAX_DISPUTES_COUNTED:
        return disputed + claimed.filter(task__kind__in=DECIDED_AGAIN).count() + repeats
    return list_waiting_disputes(membership).count() + claimed.count() + repeats


def find_own_progress(batch: Batch, person: Person, role: str) -> MemberProgress | None:
    """The person's progress in one batch; None for who has no such part in it."""
    memberships = Membership.objects.filter(batch=batch, person=person, role=role, active=True)
    membership = memberships.first()
    if membership is None:
        return None
    membership.batch, membership.person = batch, person
    return measure_own_progress(membership)
