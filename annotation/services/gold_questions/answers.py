"""The answers to gold questions. An answer never settles anything: it makes no gold and no dispute.

To its person a gold question looks like any other item. So a check stays open to corrections until the block of
submissions that it is in is closed (services/annotations/closings.py). A batch that gives feedback closes it at once,
because its person then knows; so does one of overlap 1, where every item closes at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import OuterRef, Subquery
from django.utils import timezone

from annotation.core.errors import N_, Conflict
from annotation.core.sql import Statement, execute
from annotation.models import Assignment, Batch, GoldQuestionTask, Membership, Task
from annotation.models.sql.annotations import end_task
from annotation.models.sql.counts import add_to_tally, add_to_tally_of
from annotation.models.sql.gold_questions import tell_answer
from annotation.selectors.gold_questions import is_answer_disclosed, list_open_checks

ANSWER_SEEN = N_("You have read the right labels of this item, so what you submitted stands.")


def build_answer_statements(assignment: Assignment, now: datetime) -> list[Statement]:
    """The statements that a submitted answer adds. The tasks of a qualification attempt close when the attempt ends."""
    task = assignment.task
    if task.kind == Task.Kind.QUALIFICATION:
        return [add_to_tally_of(assignment, submitted=1)]
    gives_feedback, overlap, plan, settling = Batch.objects.values_list(
        "check_feedback", "overlap", "plan", "settling"
    ).get(pk=assignment.batch_id)
    closes_at_once = overlap == 1 and plan == Batch.Plan.FIXED and settling != Batch.Settling.AGGREGATE
    if not (gives_feedback or closes_at_once):
        return [add_to_tally_of(assignment, submitted=1)]
    return [
        *([tell_answer(task.pk, now)] if gives_feedback else []),
        end_task(task.pk, Task.State.AGREED, settled_at=now),
        add_to_tally_of(assignment, submitted=1, open=-1, agreed=1),
    ]


def build_skip_statements(assignment: Assignment) -> list[Statement]:
    """A task of one person's own, a gold question or a repeat adjudication, is over once they skipped it: nobody else
    is given it. It may be over already, with its attempt.
    """
    state = assignment.task.state
    if state not in (Task.State.OPEN, Task.State.DISPUTED):
        return [add_to_tally_of(assignment, skipped=1)]
    return [
        end_task(assignment.task_id, Task.State.WITHDRAWN),
        add_to_tally_of(assignment, skipped=1, withdrawn=1, **{state: -1}),
    ]


def refuse_seen_answer(assignment: Assignment) -> None:
    if is_answer_disclosed(assignment):
        raise Conflict(ANSWER_SEEN)


def withdraw_questions(membership: int, tasks: Iterable[int]) -> None:
    """Withdraw those of one member's gold questions (``tasks``) that are open, neither in progress nor submitted."""
    free = Task.objects.filter(pk__in=list(tasks), state=Task.State.OPEN, slots_taken=0)
    locked = list(free.select_for_update(no_key=True).order_by("pk").values_list("pk", "stratum"))
    Task.objects.filter(pk__in=[pk for pk, _stratum in locked]).update(state=Task.State.WITHDRAWN)
    strata = sorted(stratum for _pk, stratum in locked)
    execute(*(add_to_tally(membership, stratum, open=-1, withdrawn=1) for stratum in strata))


def close_checks(batch: Batch) -> int:
    """Close all that were answered: the batch is closing. The memberships are locked."""
    return close_answered(list(list_open_checks(batch).values_list("pk", flat=True)))


def close_answered(tasks: Iterable[int]) -> int:
    """Close these gold questions, which were submitted; a correction that is under way is waited for.

    The tasks are locked before anything is counted, as whoever submits does it.
    """
    locked = Task.objects.select_for_update(no_key=True)
    open_now = locked.filter(pk__in=list(tasks), state=Task.State.OPEN).order_by("pk")
    ids = list(open_now.values_list("pk", flat=True))
    Task.objects.filter(pk__in=ids).update(state=Task.State.AGREED, settled_at=timezone.now())
    owners = Membership.objects.filter(
        role=Membership.Role.ANNOTATOR, batch=OuterRef("task__batch"), person=OuterRef("person")
    )
    known = GoldQuestionTask.objects.filter(pk__in=ids).annotate(member=Subquery(owners.values("pk")))
    counts = sorted(known.values_list("member", "task__stratum"))
    execute(*(add_to_tally(member, stratum, open=-1, agreed=1) for member, stratum in counts))
    return len(ids)
