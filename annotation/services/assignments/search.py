"""One member's search for their next task, from their cursor on (docs/decisions/a-cursor-for-each-member.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from django.db import connection, transaction
from django.db.models import QuerySet

from annotation.core.errors import N_, Forbidden, NotFound
from annotation.core.sql import Statement
from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, Membership, Person
from annotation.models.sql.assignments import (
    ClaimConditions,
    FreeTask,
    FreeTasks,
    LockedMembership,
    fetch_locked_membership,
    read_claim_conditions,
)
from annotation.selectors.access import refuse_role
from annotation.selectors.assignments.availability import select_free_tasks
from annotation.selectors.counts import count_tasks

# The cursor follows when the claim was made this far beyond it.
CURSOR_STEP = 200


class TasksLockedError(Exception):
    """What there is may be in others' hands this moment: wait for them, holding no task meanwhile."""


def filter_ended_claims(batch: Batch, person: Person, state: Assignment.State) -> QuerySet[Assignment]:
    """The person's claims to annotate that ended so, and that they did not skip."""
    return Assignment.objects.filter(
        person=person, batch=batch, state=state, skip_reason="", slot__lt=ADJUDICATION_SLOT
    )


def lock_membership(batch: Batch, person: Person, role: str) -> LockedMembership:
    """Whoever is no active member is told that the batch does not exist."""
    locked = fetch_locked_membership(batch, person, role)
    if locked is None:
        raise NotFound(N_("No batch is named {name}."), name=batch.name)
    return locked


def read_conditions(member: Membership) -> ClaimConditions:
    """Read after the membership is locked: a batch that closed or paused meanwhile says so, whoever was shut out
    meanwhile is told nothing, whoever lost the role is refused, and a topic that the person opted out of meanwhile
    stands in ``person.opted_out``.
    """
    batch, person = member.batch, member.person
    conditions = read_claim_conditions(member)
    person.opted_out = conditions.opted_out
    if not conditions.is_active:
        raise NotFound(N_("No batch is named {name}."), name=batch.name)
    if not conditions.has_role:
        refuse_role(member.role)
    if conditions.batch_state != Batch.State.OPEN:
        raise Forbidden(N_("The batch {name} is not open."), name=batch.name)
    return conditions


@dataclass
class Search:
    """One member's search for their next task; the membership is locked. ``resting`` are the strata that wait until
    tomorrow: the tasks passed over for that are free for the member all the same, so the cursor stays before them.

    ``cursor`` is where the next search begins. It follows by ``CURSOR_STEP``, to the first task that is still
    free for the member, locked by others or not: before it there can be none, but what comes back, and that is
    marked ``requeued``.
    """

    member: Membership
    tasks: FreeTasks
    conditions: ClaimConditions
    cursor: int
    resting: Sequence[int] = ()
    may_wait: bool = False  # whether to wait for others
    is_reclaim: bool = False  # what was found is a task that the member had before
    statements: list[Statement] = field(default_factory=list)  # to be written with the claim

    @classmethod
    def start(
        cls,
        locked: LockedMembership,
        *,
        conditions: ClaimConditions,
        may_wait: bool,
        resting: Sequence[int],
    ) -> Search:
        member = locked.membership
        is_limited = locked.is_limited or bool(member.person.opted_out)
        return cls(
            member=member,
            tasks=select_free_tasks(
                member, is_limited=is_limited, is_planned=locked.is_planned, resting=resting
            ),
            conditions=conditions,
            cursor=member.cursor,
            resting=resting,
            may_wait=may_wait,
        )

    def take_expired(self) -> FreeTask | None:
        """What the member had begun when the lease ran out, if nobody took it over; locked. It comes first."""
        return self._retake(Assignment.State.EXPIRED) if self.conditions.has_expired else None

    def take_next(self) -> FreeTask | None:
        """The next task in order, locked.

        Never one of the prompt assigned last, unless nothing else is left; what the member gave back themselves
        comes last of all.
        """
        last = self.member.last_prompt
        for not_prompt in (None,) if last is None else (last, None):
            task = self._take_in_order(not_prompt)
            if task is not None:
                if task.rank - self.cursor > CURSOR_STEP:
                    self._move_cursor()
                return task
        self._move_cursor()
        return self.take_returned()

    def take_returned(self) -> FreeTask | None:
        return self._retake(Assignment.State.RELEASED)

    def find_next_kind(self) -> tuple[str, str] | None:
        """The dimension and the language of the next task in order, locked by others or not; None without one."""
        ways = (True, False) if self.conditions.requeued else (False,)
        kinds = (self.tasks.first_kind(start=self.cursor, requeued=way) for way in ways)
        return next((kind for kind in kinds if kind is not None), None)

    @property
    def excluded_strata(self) -> Sequence[int]:
        """The strata that are not for the member, today or any day."""
        return self.tasks.ruled_out[: len(self.tasks.ruled_out) - len(self.resting)]

    def has_enough_for_all(self) -> bool:
        """Whether a claim ahead leaves an item for each of the others: nobody waits while another one hoards.

        What is planned for a member waits for them alone.
        """
        if not self.tasks.pool:
            return True
        other_members = _filter_annotators(self.member.batch).exclude(pk=self.member.pk).count()
        return self.tasks.count(start=self.cursor, most=other_members + 1) > other_members

    def _take_in_order(self, not_prompt: int | None) -> FreeTask | None:
        """What came back stands before the cursor, so it is looked at first: its rank is the smaller one.

        Where all are being taken by others this moment, wait for what becomes of them.
        """
        for wait in self._list_wait_modes():
            for requeued in (True, False) if self.conditions.requeued else (False,):
                take = partial(
                    self.tasks.lock_first, start=self.cursor, requeued=requeued, not_prompt=not_prompt
                )
                task = self._try_take(partial(take, wait=wait))
                if task is not None:
                    return task
        return None

    def _retake(self, ended: Assignment.State) -> FreeTask | None:
        """A task that the member had, whose claim ``ended`` so without a reason, and that nobody else took."""
        own_tasks = list(
            filter_ended_claims(self.member.batch, self.member.person, ended).values_list("task", flat=True)
        )
        for wait in self._list_wait_modes() if own_tasks else ():
            task = self._try_take(partial(self.tasks.lock_first_of, own_tasks, wait=wait))
            if task is not None:
                self.is_reclaim = True
                return task
        return None

    def _list_wait_modes(self) -> Iterator[bool]:
        """First passing over what others are taking, then waiting for them. On SQLite nobody else is at work."""
        yield False
        if connection.features.has_select_for_update:
            if not self.may_wait:
                raise TasksLockedError
            yield True

    def _try_take(self, take: Callable[[], FreeTask | None]) -> FreeTask | None:
        """What ``take`` finds. PostgreSQL keeps the locks of rows that turn out to be taken: whoever waits for others
        gives them back first, so that nobody waits in a circle.
        """
        if not self.may_wait:
            return take()
        with transaction.atomic():
            task = take()
            if task is None:
                transaction.set_rollback(True)
        return task

    def _move_cursor(self) -> None:
        """Where nothing is left, to the place where the next task of the batch will stand."""
        if self.resting:
            return
        rank = self.tasks.first_rank(start=self.cursor)
        self.cursor = max(self.cursor, count_tasks(self.member.batch)) if rank is None else rank
        Membership.objects.filter(pk=self.member.pk).update(cursor=self.cursor)


def _filter_annotators(batch: Batch) -> QuerySet[Membership]:
    return Membership.objects.filter(batch=batch, role=Membership.Role.ANNOTATOR, active=True)
