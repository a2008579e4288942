"""One member's search for their next task, from their cursor on (docs/decisions/a-cursor-for-each-member.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from annotation.errors import N_, Forbidden, NotFound
from annotation.models import (
    ADJUDICATION_SLOT,
    Assignment,
    Batch,
    CareSettings,
    Membership,
    Person,
)
from annotation.selectors.access import HAS_ROLE, refuse_role
from annotation.selectors.counts import tasks_in
from annotation.selectors.free import FreeTask, FreeTasks, anything_requeued
from annotation.statements import (
    Statement,
    first,
    for_update,
    stored,
)

# The cursor follows when the claim was made this far beyond it.
CURSOR_STEP = 200


class OthersAreTakingError(Exception):
    """What there is may be in others' hands this moment: wait for them, holding no task meanwhile."""


def given_back(batch: Batch, person: Person, state: Assignment.State) -> QuerySet[Assignment]:
    """The person's claims to annotate that ended so, and that they did not skip."""
    return Assignment.objects.filter(
        person=person, batch=batch, state=state, skip_reason="", slot__lt=ADJUDICATION_SLOT
    )


class Member(NamedTuple):
    """A locked membership. ``planned``: it is in a panel; ``limited``: something may be ruled out for it."""

    membership: Membership
    planned: bool
    limited: bool


def lock_membership(batch: Batch, person: Person, role: str) -> Member:
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
    return Member(member, planned=bool(planned), limited=limited)


# The condition of the partial index assignment_given_back, word for word.
GIVEN_BACK = "a.state IN ('released', 'expired') AND a.skip_reason = ''"


class Now(NamedTuple):
    """``in_role``: whether the person has the role of the membership; ``live``: whether they have claims at hand,
    ``expired``: whether some of theirs ran out.

    ``requeued``: whether any task of the batch came back and is free. ``budget``: the points of exposure that the
    person may come to in a day, None without a limit. ``check_share``: the batch's, and ``ended``: what the person was
    given as annotator and is done with, None where the share is 0. ``round``: how the person's latest
    round of the batch's qualification stands, running before it begins; passed where the batch asks for none.
    """

    state: str
    active: bool
    in_role: bool
    live: bool
    expired: bool
    requeued: bool
    leases_ran_out: bool
    budget: int | None
    check_share: float
    ended: int | None
    round: str


# Submitted or skipped, checks among it as they are among the work; not of the round before it.
ENDED = """
SELECT COALESCE(SUM(t.submitted + t.skipped), 0) FROM annotation_membership m
JOIN annotation_tally t ON t.membership_id = m.id JOIN annotation_stratum s ON s.id = t.stratum_id
WHERE m.batch_id = b.id AND m.person_id = p.id AND m.role = 'annotator' AND s.kind <> 'qualification'
"""


def now_in(member: Membership) -> Now:
    """Read after the membership is locked: a batch that closed or paused meanwhile says so, whoever was shut out
    meanwhile is told nothing, whoever lost the role is refused, and a topic that the person opted out of meanwhile
    stands in ``person.opted_out``.
    """
    batch, person = member.batch, member.person
    mine = "SELECT 1 FROM annotation_assignment a WHERE a.person_id = %s AND a.batch_id = %s AND a.slot < %s"
    row = first(
        f"""
        SELECT b.state, p.is_active, {HAS_ROLE.format(role="%s")},
            EXISTS ({mine} AND a.state = 'claimed'),
            EXISTS ({mine} AND {GIVEN_BACK} AND a.state = 'expired'),
            {anything_requeued()},
            EXISTS (SELECT 1 FROM annotation_assignment a
                WHERE a.batch_id = %s AND a.state = 'claimed' AND a.lease_expires < %s),
            COALESCE(p.daily_exposure, (SELECT c.daily_exposure FROM annotation_caresettings c WHERE c.id = %s)),
            b.check_share,
            CASE WHEN b.check_share > 0 THEN ({ENDED}) END,
            CASE WHEN b.qualifying = '' THEN 'passed' ELSE COALESCE((SELECT q.state FROM annotation_qualification q
                WHERE q.batch_id = b.id AND q.person_id = p.id ORDER BY q.attempt DESC LIMIT 1), 'running') END,
            p.opted_out
        FROM annotation_batch b, annotation_person p WHERE b.id = %s AND p.id = %s
        """,
        [
            member.role,
            *(person.pk, batch.pk, ADJUDICATION_SLOT),
            *(person.pk, batch.pk, ADJUDICATION_SLOT),
            batch.pk,
            batch.pk,
            stored(Assignment, "lease_expires", timezone.now()),
            CareSettings.ONE,
            batch.pk,
            person.pk,
        ],
    )
    assert row is not None
    *fields, opted_out = row
    now, person.opted_out = Now(*fields), json.loads(opted_out)
    if not now.active:
        raise NotFound(N_("No batch is named {name}."), name=batch.name)
    if not now.in_role:
        refuse_role(member.role)
    if now.state != Batch.State.OPEN:
        raise Forbidden(N_("The batch {name} is not open."), name=batch.name)
    return now


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
    now: Now
    cursor: int
    resting: Sequence[int] = ()
    careful: bool = False  # whether to wait for others
    had: bool = False  # what was found is a task that the member had before
    beside: list[Statement] = field(default_factory=list)  # to be written with the claim

    @classmethod
    def of(cls, locked: Member, *, now: Now, careful: bool, resting: Sequence[int]) -> Search:
        member = locked.membership
        limited = locked.limited or bool(member.person.opted_out)
        tasks = FreeTasks.of(member, limited=limited, planned=locked.planned, resting=resting)
        return cls(
            member=member, tasks=tasks, now=now, cursor=member.cursor, resting=resting, careful=careful
        )

    def take_begun(self) -> FreeTask | None:
        """What the member had begun when the lease ran out, if nobody took it over; locked. It comes first."""
        return self._take_again(Assignment.State.EXPIRED) if self.now.expired else None

    def take_next(self) -> FreeTask | None:
        """The next task in order, locked.

        Never one of the prompt handed out last, unless nothing else is left; what the member gave back themselves
        comes last of all.
        """
        last = self.member.last_prompt
        for not_prompt in (None,) if last is None else (last, None):
            found = self._take_in_order(not_prompt)
            if found is not None:
                if found.rank - self.cursor > CURSOR_STEP:
                    self._move_cursor()
                return found
        self._move_cursor()
        return self.take_given_back()

    def take_given_back(self) -> FreeTask | None:
        return self._take_again(Assignment.State.RELEASED)

    def kind_of_next(self) -> tuple[str, str] | None:
        """The dimension and the language of the next task in order, locked by others or not; None without one."""
        ways = (True, False) if self.now.requeued else (False,)
        found = (self.tasks.first_kind(start=self.cursor, requeued=way) for way in ways)
        return next((kind for kind in found if kind is not None), None)

    @property
    def never(self) -> Sequence[int]:
        """The strata that are not for the member, today or any day."""
        return self.tasks.ruled_out[: len(self.tasks.ruled_out) - len(self.resting)]

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
        mine = list(given_back(self.member.batch, self.member.person, ended).values_list("task", flat=True))
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
                raise OthersAreTakingError
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
        if self.resting:
            return
        found = self.tasks.first_rank(start=self.cursor)
        self.cursor = max(self.cursor, tasks_in(self.member.batch)) if found is None else found
        Membership.objects.filter(pk=self.member.pk).update(cursor=self.cursor)


def _annotators(batch: Batch) -> QuerySet[Membership]:
    return Membership.objects.filter(batch=batch, role=Membership.Role.ANNOTATOR, active=True)
