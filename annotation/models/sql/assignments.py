"""A claim: the batch, the membership, locked, what the claim depends on, the free tasks; and what it writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils import timezone

from annotation.core.sql import (
    Raw,
    Statement,
    fetch_first,
    fetch_rows,
    for_update,
    indexed_by,
    insert,
    load_object,
    placeholders,
    to_database,
    update,
)
from annotation.core.study_scope import get_study_scope
from annotation.models import (
    ADJUDICATION_SLOT,
    Assignment,
    Batch,
    Membership,
    Person,
    Qualification,
    Task,
    WellbeingSettings,
)
from annotation.models.sql.people import HAS_ROLE
from annotation.models.sql.tables import (
    ASSIGNMENTS,
    BATCHES,
    CARE_SETTINGS,
    KNOWN_ITEMS,
    KNOWN_TASKS,
    MEMBERS_OF_PANELS,
    MEMBERSHIPS,
    MODELS_OF_PEOPLE,
    PEOPLE,
    QUALIFICATIONS,
    STRATA,
    TALLIES,
    TASKS,
)


def find_batch(name: str) -> Batch | None:
    """Of the studies in question, with what handing out asks of it; the rest is read when it is asked for."""
    studies = get_study_scope()
    if studies is None:
        row = fetch_first(FIND_BATCH, [name])
    else:
        places = ", ".join(["%s"] * len(studies)) or "NULL"
        row = fetch_first(f"{FIND_BATCH} AND study_id IN ({places})", [name, *sorted(studies)])
    return None if row is None else load_object(Batch, **dict(zip(BATCH, row, strict=True)))


BATCH = (
    "id",
    "name",
    "state",
    "pairing",
    "overlap",
    "tolerance",
    "lease_seconds",
    "guideline_id",
    "study_id",
    "of_slates",
)
FIND_BATCH = f"SELECT {', '.join(BATCH)} FROM {BATCHES} WHERE name = %s"


class LockedMembership(NamedTuple):
    """``is_planned``: it is in a panel; ``is_limited``: something may be ruled out for it."""

    membership: Membership
    is_planned: bool
    is_limited: bool


def fetch_locked_membership(batch: Batch, person: Person, role: str) -> LockedMembership | None:
    """The person's active membership in this role; None without one."""
    row = fetch_first(LOCK_MEMBERSHIP + for_update("m"), [batch.pk, person.pk, role])
    if row is None:
        return None
    pk, quota, excluded_dimensions, cursor, last_prompt, is_planned, wrote_models = row
    membership = Membership(
        pk=pk,
        batch=batch,
        person=person,
        role=role,
        quota=quota,
        excluded_dimensions=json.loads(excluded_dimensions),
        cursor=cursor,
        last_prompt=last_prompt,
    )
    is_limited = bool(wrote_models or membership.excluded_dimensions or person.languages)
    return LockedMembership(membership, bool(is_planned), is_limited)


LOCK_MEMBERSHIP = f"""
SELECT m.id, m.quota, m.excluded_dimensions, m.cursor, m.last_prompt,
    EXISTS (SELECT 1 FROM {MEMBERS_OF_PANELS} p WHERE p.membership_id = m.id),
    EXISTS (SELECT 1 FROM {MODELS_OF_PEOPLE} o WHERE o.person_id = m.person_id)
FROM {MEMBERSHIPS} m
WHERE m.batch_id = %s AND m.person_id = %s AND m.role = %s AND m.active
"""


class ClaimConditions(NamedTuple):
    """What a claim depends on, read after the membership is locked.

    ``has_role``: the person has the role of the membership; ``has_live``: they have claims at hand, ``has_expired``:
    some of theirs ran out. ``requeued``: a task of the batch came back and is free. ``budget``: the points of exposure
    that the person may come to in a day, None without a limit. ``check_share``: the batch's, and ``ended``: what the
    person was given as annotator and is done with, None where the share is 0. ``round``: how the person's latest round
    of the batch's qualification stands, running before it begins; passed where the batch asks for none.
    """

    batch_state: str
    is_active: bool
    has_role: bool
    has_live: bool
    has_expired: bool
    requeued: bool
    leases_ran_out: bool
    budget: int | None
    check_share: float
    ended: int | None
    round: str
    opted_out: list[str]


def read_claim_conditions(member: Membership) -> ClaimConditions:
    person, batch = member.person_id, member.batch_id
    now = to_database(Assignment, "lease_expires", timezone.now())
    row = fetch_first(
        CLAIM_CONDITIONS.format(requeued_tasks=_tasks(requeued=True)),
        [
            member.role,
            *(person, batch, ADJUDICATION_SLOT),
            *(person, batch, ADJUDICATION_SLOT),
            *(batch, batch, now, WellbeingSettings.ONE, batch, person),
        ],
    )
    assert row is not None
    *conditions, opted_out = row
    return ClaimConditions._make([*conditions, json.loads(opted_out)])


# The conditions of the partial indexes task_with_free_slot, task_requeued and assignment_given_back, word for word.
HAS_FREE_SLOT = f"t.batch_id = %s AND t.state = '{Task.State.OPEN}' AND t.slots_taken < t.overlap"
IS_REQUEUED = "t.requeued"
GIVEN_BACK = (
    f"a.state IN ('{Assignment.State.RELEASED}', '{Assignment.State.EXPIRED}') AND a.skip_reason = ''"
)
# A gold question is a task for one person alone, who gets it back from what they had.
IS_WORK = f"t.kind = '{Task.Kind.WORK}'"
ANNOTATING = f"SELECT 1 FROM {ASSIGNMENTS} a WHERE a.person_id = %s AND a.batch_id = %s AND a.slot < %s"
# Submitted or skipped, checks among it as they are among the work; not of the round before it.
ENDED = f"""
SELECT COALESCE(SUM(t.submitted + t.skipped), 0) FROM {MEMBERSHIPS} m
JOIN {TALLIES} t ON t.membership_id = m.id JOIN {STRATA} s ON s.id = t.stratum_id
WHERE m.batch_id = b.id AND m.person_id = p.id AND m.role = '{Membership.Role.ANNOTATOR}'
    AND s.kind <> '{Task.Kind.QUALIFICATION}'
"""
CLAIM_CONDITIONS = f"""
SELECT b.state, p.is_active, {HAS_ROLE.format(role="%s")},
    EXISTS ({ANNOTATING} AND a.state = '{Assignment.State.CLAIMED}'),
    EXISTS ({ANNOTATING} AND {GIVEN_BACK} AND a.state = '{Assignment.State.EXPIRED}'),
    EXISTS (SELECT 1 FROM {{requeued_tasks}} WHERE {HAS_FREE_SLOT} AND {IS_REQUEUED} AND {IS_WORK}),
    EXISTS (SELECT 1 FROM {ASSIGNMENTS} a
        WHERE a.batch_id = %s AND a.state = '{Assignment.State.CLAIMED}' AND a.lease_expires < %s),
    COALESCE(p.daily_exposure, (SELECT c.daily_exposure FROM {CARE_SETTINGS} c WHERE c.id = %s)),
    b.check_share,
    CASE WHEN b.check_share > 0 THEN ({ENDED}) END,
    CASE WHEN b.qualifying = '{Batch.Qualifying.NONE}' THEN '{Qualification.State.PASSED}'
        ELSE COALESCE((SELECT q.state FROM {QUALIFICATIONS} q
            WHERE q.batch_id = b.id AND q.person_id = p.id ORDER BY q.attempt DESC LIMIT 1),
        '{Qualification.State.RUNNING}') END,
    p.opted_out
FROM {BATCHES} b, {PEOPLE} p WHERE b.id = %s AND p.id = %s
"""


# The free tasks of a member.


class FreeTask(NamedTuple):
    id: int
    stratum: int
    prompt: int
    panel: int | None
    overlap: int
    slots_taken: int
    rank: int


FREE_TASK = "t.id, t.stratum_id, t.prompt_id, t.panel_id, t.overlap, t.slots_taken, t.rank"
# A gold question that is still in; what was taken out is given to nobody any more, not even again.
IS_KNOWN = f"""
EXISTS (SELECT 1 FROM {KNOWN_TASKS} k JOIN {KNOWN_ITEMS} i ON i.id = k.item_id
    WHERE k.task_id = t.id AND i.active)
"""
# A subquery for each row that is looked at. As a join, PostgreSQL might read all that the person has ever done.
NEVER_HAD = f"(SELECT a.id FROM {ASSIGNMENTS} a WHERE a.task_id = t.id AND a.person_id = %s LIMIT 1) IS NULL"
OF_STRATUM = f"(SELECT s.{{}} FROM {STRATA} s WHERE s.id = t.stratum_id)"


@dataclass(frozen=True)
class FreeTasks:
    """The free tasks that a member never had and that are for them, in the order of handing out.

    ``ruled_out`` are the strata that are not for them, ``panels`` the panels that they are in; ``pool``: tasks that
    nobody is planned for are for them, too.
    """

    batch: int
    person: int
    pool: bool
    ruled_out: Sequence[int]
    panels: Sequence[int]

    def lock_first(
        self, *, start: int, requeued: bool = False, not_prompt: int | None = None, wait: bool = False
    ) -> FreeTask | None:
        """The first from rank ``start`` on; with ``requeued`` the first before it of what came back.

        What others are taking this moment is passed over, unless ``wait``.
        """
        condition, params = self._condition(start, requeued=requeued, not_prompt=not_prompt)
        lock = for_update("t", skip_locked=not wait)
        row = fetch_first(
            f"SELECT {FREE_TASK} FROM {_tasks(requeued=requeued)} WHERE {condition} ORDER BY t.rank LIMIT 1{lock}",
            params,
        )
        return None if row is None else FreeTask(*row)

    def lock_first_of(self, tasks: Sequence[int], *, wait: bool = False) -> FreeTask | None:
        """The first of these tasks, which the member had before, that is free and still for them."""
        if not tasks:
            return None
        condition, params = self._condition_of_member(known_too=True)
        row = fetch_first(
            f"SELECT {FREE_TASK} FROM {TASKS} t WHERE {HAS_FREE_SLOT}{condition}"
            f" AND t.id IN ({placeholders(len(tasks))}) ORDER BY t.rank LIMIT 1{for_update('t', skip_locked=not wait)}",
            [self.batch, *params, *tasks],
        )
        return None if row is None else FreeTask(*row)

    def first_rank(self, *, start: int, requeued: bool = False) -> int | None:
        """The rank of the first, whether somebody is taking it or not."""
        row = self._fetch_first("t.rank", start, requeued=requeued)
        return None if row is None else int(row[0])

    def first_kind(self, *, start: int, requeued: bool = False) -> tuple[str, str] | None:
        """The dimension and the language of the first."""
        kind = f"{OF_STRATUM.format('dimension')}, {OF_STRATUM.format('language')}"
        row = self._fetch_first(kind, start, requeued=requeued)
        return None if row is None else (row[0], row[1])

    def count(self, *, start: int, most: int) -> int:
        """How many there are from rank ``start`` on, counted up to ``most``."""
        condition, params = self._condition(start)
        sql = f"SELECT t.id FROM {_tasks()} WHERE {condition} ORDER BY t.rank LIMIT %s"
        return len(fetch_rows(sql, [*params, most]))

    def _fetch_first(self, columns: str, start: int, *, requeued: bool) -> tuple[Any, ...] | None:
        condition, params = self._condition(start, requeued=requeued)
        tasks = _tasks(requeued=requeued)
        return fetch_first(f"SELECT {columns} FROM {tasks} WHERE {condition} ORDER BY t.rank LIMIT 1", params)

    def _condition(
        self, start: int, *, requeued: bool = False, not_prompt: int | None = None
    ) -> tuple[str, list[Any]]:
        of_member, params = self._condition_of_member()
        condition = f"{HAS_FREE_SLOT} AND {IS_WORK}{of_member} AND {NEVER_HAD}"
        condition += f" AND {IS_REQUEUED} AND t.rank < %s" if requeued else " AND t.rank >= %s"
        params = [self.batch, *params, self.person, start]
        if not_prompt is not None:
            condition += " AND t.prompt_id <> %s"
            params.append(not_prompt)
        return condition, params

    def _condition_of_member(self, *, known_too: bool = False) -> tuple[str, list[Any]]:
        """With ``known_too`` gold questions, too, which no plan knows: they are whose they were given to."""
        not_ruled_out = (
            f" AND t.stratum_id NOT IN ({placeholders(len(self.ruled_out))})" if self.ruled_out else ""
        )
        planned = f"t.panel_id IN ({placeholders(len(self.panels))})" if self.panels else "1 = 0"
        unplanned = "t.panel_id IS NULL OR " if self.pool else ""
        of_member = f"({unplanned}{planned})"
        if known_too:
            of_member = f"({IS_WORK} AND {of_member} OR {IS_KNOWN})"
        return f"{not_ruled_out} AND {of_member}", [*self.ruled_out, *self.panels]


def _tasks(*, requeued: bool = False) -> str:
    return f"{TASKS} t{indexed_by('task_requeued' if requeued else 'task_with_free_slot')}"


# A claim, written together with what it changes beside itself.


def fetch_taken_slots(task_id: int) -> frozenset[int]:
    """The slots of annotators that are claimed or submitted."""
    return frozenset(slot for (slot,) in fetch_rows(TAKEN_SLOTS, [task_id, ADJUDICATION_SLOT]))


TAKEN_SLOTS = f"""
SELECT slot FROM {ASSIGNMENTS} WHERE task_id = %s AND slot < %s
    AND state IN ('{Assignment.State.CLAIMED}', '{Assignment.State.SUBMITTED}')
"""


def take_slot(task_id: int) -> Statement:
    """One slot more of a task is taken; its row is locked."""
    return update(Task, task_id, {"slots_taken": Raw("slots_taken + 1")})


def remember_place(membership_id: int, *, last_prompt: int, cursor: int) -> Statement:
    """Where the member's next search begins, and the prompt that it passes over."""
    return update(Membership, membership_id, {"last_prompt": last_prompt, "cursor": cursor})


def write_claim(assignment: Assignment) -> Statement:
    """A new claim, or a past one of the same person that lives again."""
    claim = {name: getattr(assignment, name) for name in ("slot", "state", "claimed_at", "lease_expires")}
    if not assignment._state.adding:
        return update(Assignment, assignment.pk, claim)
    assignment._state.adding = False
    claimed = {name: getattr(assignment, name) for name in ("id", "batch_id", "task_id", "person_id")}
    order = {"shown_order": assignment.shown_order} if assignment.shown_order else {}
    return insert(Assignment, {**claimed, **claim, **order, "skip_reason": ""})
