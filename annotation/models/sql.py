"""All SQL of this app that the ORM does not write; no other module has any, but for the migrations.

A statement stands here where the ORM costs the annotation loop too much (docs/decisions/plain-sql-in-the-loop.md), or
where it cannot say the same. Each function says what it fetches or writes. Functions that give a ``Statement`` write
nothing yet: their caller sends several of them in one round trip (``annotation.core.sql.execute``).

Values are always parameters. Tables, slots and states come from the models and their constraints, so that a table that
is renamed is renamed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import Model, QuerySet
from django.utils import timezone

from annotation.core.sql import (
    Raw,
    Statement,
    fetch_first,
    fetch_rows,
    for_update,
    indexed_by,
    insert,
    insert_object,
    load_object,
    to_database,
    update,
)
from annotation.domain.adjudication import SettledValue
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    ApiToken,
    Assignment,
    Batch,
    Collection,
    Dataset,
    DisputeReason,
    Draft,
    EvaluatedModel,
    Exposure,
    GoldLabel,
    GoldQuestion,
    GoldQuestionTask,
    GoldRelease,
    Guideline,
    Import,
    ImportedLabel,
    MemberCounts,
    Membership,
    Panel,
    Person,
    Prompt,
    Qualification,
    ReleasedLabel,
    Response,
    Stratum,
    Task,
    WellbeingSettings,
)

ASSIGNMENTS = Assignment._meta.db_table
ADJUDICATIONS = Adjudication._meta.db_table
ANNOTATIONS = Annotation._meta.db_table
BATCHES = Batch._meta.db_table
CARE_SETTINGS = WellbeingSettings._meta.db_table
COLLECTIONS = Collection._meta.db_table
DATASETS = Dataset._meta.db_table
DRAFTS = Draft._meta.db_table
EXPOSURES = Exposure._meta.db_table
GOLD_LABELS = GoldLabel._meta.db_table
GROUPS = Group._meta.db_table
GROUPS_OF_PEOPLE = Person.groups.through._meta.db_table
GUIDELINES = Guideline._meta.db_table
IMPORTED_LABELS = ImportedLabel._meta.db_table
IMPORTS = Import._meta.db_table
KNOWN_ITEMS = GoldQuestion._meta.db_table
KNOWN_TASKS = GoldQuestionTask._meta.db_table
MEMBERS_OF_PANELS = Panel.members.through._meta.db_table
MEMBERSHIPS = Membership._meta.db_table
MODELS = EvaluatedModel._meta.db_table
MODELS_OF_PEOPLE = Person.own_models.through._meta.db_table
PEOPLE = Person._meta.db_table
PROMPTS = Prompt._meta.db_table
QUALIFICATIONS = Qualification._meta.db_table
REASONS = DisputeReason._meta.db_table
RELEASED_LABELS = ReleasedLabel._meta.db_table
RELEASED_BATCHES = GoldRelease.batches.through._meta.db_table
RESPONSES = Response._meta.db_table
STRATA = Stratum._meta.db_table
TALLIES = MemberCounts._meta.db_table
TASKS = Task._meta.db_table
TOKENS = ApiToken._meta.db_table

COUNTS = ("open", "agreed", "disputed", "adjudicated", "withdrawn", "submitted", "skipped", "revised")

# Of the person "p"; {role} is SQL that gives the group's name.
HAS_ROLE = f"""(p.is_active AND (p.is_superuser OR EXISTS (
    SELECT 1 FROM {GROUPS_OF_PEOPLE} pg JOIN {GROUPS} g ON g.id = pg.group_id
    WHERE pg.person_id = p.id AND g.name = {{role}})))"""


# Who speaks: the token of a program.


class SpeakingToken(NamedTuple):
    """A live token with its person. ``is_due``: that it is used is to be written down."""

    token: ApiToken
    is_due: bool


def find_live_token(sha256: str, *, now: datetime, long_ago: datetime) -> SpeakingToken | None:
    """The live token of this hash, of an active person; what else they have is read when something asks for it."""
    at, due = (to_database(ApiToken, "last_used_at", time) for time in (now, long_ago))
    row = fetch_first(FIND_LIVE_TOKEN, [due, sha256, at])
    if row is None:
        return None
    pk, scope, is_due, person, username, display_name, is_superuser, languages = row
    token = load_object(ApiToken, id=pk, person_id=person, scope=scope)
    token.person = load_object(
        Person,
        id=person,
        username=username,
        display_name=display_name,
        is_active=True,
        is_superuser=bool(is_superuser),
        languages=json.loads(languages),
    )
    return SpeakingToken(token, bool(is_due))


FIND_LIVE_TOKEN = f"""
SELECT t.id, t.scope, t.last_used_at IS NULL OR t.last_used_at < %s,
    p.id, p.username, p.display_name, p.is_superuser, p.languages
FROM {TOKENS} t JOIN {PEOPLE} p ON p.id = t.person_id
WHERE t.sha256 = %s AND t.ended_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > %s) AND p.is_active
"""


# Who asks for work: the batch, the membership, locked, and what the claim depends on.


def find_batch(name: str) -> Batch | None:
    """With what handing out asks of it; the rest is read when it is asked for."""
    row = fetch_first(FIND_BATCH, [name])
    return None if row is None else load_object(Batch, **dict(zip(BATCH, row, strict=True)))


BATCH = ("id", "name", "state", "pairing", "overlap", "tolerance", "lease_seconds", "guideline_id")
FIND_BATCH = f"SELECT {', '.join(BATCH)} FROM {BATCHES} WHERE name = %s"


class LockedMembership(NamedTuple):
    """``is_planned``: it is in a panel; ``is_limited``: something may be ruled out for it."""

    membership: Membership
    is_planned: bool
    is_limited: bool


def lock_membership(batch: Batch, person: Person, role: str) -> LockedMembership | None:
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
            f" AND t.id IN ({_places(tasks)}) ORDER BY t.rank LIMIT 1{for_update('t', skip_locked=not wait)}",
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
        not_ruled_out = f" AND t.stratum_id NOT IN ({_places(self.ruled_out)})" if self.ruled_out else ""
        planned = f"t.panel_id IN ({_places(self.panels)})" if self.panels else "1 = 0"
        unplanned = "t.panel_id IS NULL OR " if self.pool else ""
        of_member = f"({unplanned}{planned})"
        if known_too:
            of_member = f"({IS_WORK} AND {of_member} OR {IS_KNOWN})"
        return f"{not_ruled_out} AND {of_member}", [*self.ruled_out, *self.panels]


def _tasks(*, requeued: bool = False) -> str:
    return f"{TASKS} t{indexed_by('task_requeued' if requeued else 'task_with_free_slot')}"


def _places(values: Sequence[Any] | frozenset[Any]) -> str:
    return ", ".join(["%s"] * len(values))


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
    return insert(Assignment, {**claimed, **claim, "skip_reason": ""})


# What is handed out.


class HandoutText(NamedTuple):
    """Of a task: what its page shows. ``guideline`` has no more than its hash, by which its document is kept."""

    batch: str
    guideline: Guideline
    prompt: str
    dimension: str
    subcomponent: str
    language: str
    text: str
    turns: list[dict[str, str]]


def read_handout(task_id: int) -> HandoutText:
    row = fetch_first(HANDOUT, [task_id])
    assert row is not None
    batch, guideline, sha256, *texts, turns = row
    of_batch = (batch, load_object(Guideline, id=guideline, sha256=sha256))
    return HandoutText._make([*of_batch, *texts, json.loads(turns)])


HANDOUT = f"""
SELECT b.name, g.id, g.sha256, p.text, p.dimension, p.subcomponent, p.language, r.text, r.turns
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


BATCH_OF_OWN = (*BATCH, "due_date", "check_share", "check_feedback", "qualifying")
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


def lock_assignment(assignment_id: UUID, person: Person, task_id: int) -> LockedAssignment:
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
POLICY_OF_OWN = ("tolerance", "lease_seconds", "plan", "settling", "collection_ended_at")
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


def tell_answer(task_id: int, now: datetime) -> Statement:
    """From now on the person of this known task knows the right labels."""
    return update(GoldQuestionTask, task_id, {"told_at": now})


def write_gold(task: Task, settled: Mapping[str, SettledValue], now: datetime) -> list[Statement]:
    """The gold labels of the ``settled`` criteria."""
    labels = [GoldLabel.settle(task, criterion, gold, now) for criterion, gold in settled.items()]
    return [insert_object(label) for label in labels]


# What is counted along: tallies of members, and their exposure.


def add_to_tally(membership_id: int, stratum_id: int, **changes: int) -> Statement:
    """Add ``changes`` (by column) to the member's tally of the stratum."""
    return Statement(ADD_TO_TALLY, [membership_id, stratum_id, *_by_column(changes)])


def add_to_tally_of(assignment: Assignment, **changes: int) -> Statement:
    """The same for the member who has the assignment, in the role that follows from its slot."""
    role = Membership.Role.ADJUDICATOR if assignment.is_adjudication else Membership.Role.ANNOTATOR
    stratum, batch, person = assignment.task.stratum_id, assignment.batch_id, assignment.person_id
    return Statement(ADD_TO_TALLY_OF_PERSON, [stratum, *_by_column(changes), *(batch, person, role.value)])


def _by_column(changes: Mapping[str, int]) -> list[int]:
    if unknown := set(changes).difference(COUNTS):
        raise ValueError(f"there is no such count: {sorted(unknown)}")
    return [changes.get(name, 0) for name in COUNTS]


TALLY_COLUMNS = ", ".join(["membership_id", "stratum_id", *(f'"{name}"' for name in COUNTS)])
ADDED_COUNTS = ", ".join(f'"{name}" = {TALLIES}."{name}" + excluded."{name}"' for name in COUNTS)
ON_TALLY = f"ON CONFLICT (membership_id, stratum_id) DO UPDATE SET {ADDED_COUNTS}"
ADD_TO_TALLY = f"INSERT INTO {TALLIES} ({TALLY_COLUMNS}) VALUES (%s, %s, {_places(COUNTS)}) {ON_TALLY}"
ADD_TO_TALLY_OF_PERSON = (
    f"INSERT INTO {TALLIES} ({TALLY_COLUMNS}) SELECT m.id, %s, {_places(COUNTS)}"
    f" FROM {MEMBERSHIPS} m WHERE m.batch_id = %s AND m.person_id = %s AND m.role = %s {ON_TALLY}"
)


def add_exposure(person_id: int, severity: int) -> list[Statement]:
    """The points of exposure of whoever read an item of this severity, on the day that it is where the site is; nothing
    where the severity is 0.

    Write it last: two items of one person meet here alone.
    """
    if not severity:
        return []
    return [
        Statement(ADD_EXPOSURE, [person_id, to_database(Exposure, "day", timezone.localdate()), severity])
    ]


ADD_EXPOSURE = (
    f"INSERT INTO {EXPOSURES} (person_id, day, points) VALUES (%s, %s, %s)"
    f" ON CONFLICT (person_id, day) DO UPDATE SET points = {EXPOSURES}.points + excluded.points"
)


class ExposureNow(NamedTuple):
    """The ``points`` of today, and the guideline and the dimension of each item at hand, in whatever batch."""

    points: int
    in_progress: list[tuple[Guideline, str]]


def read_exposure(person_id: int) -> ExposureNow:
    """In one statement, because an item that is submitted meanwhile goes from what is at hand to the points."""
    today = to_database(Exposure, "day", timezone.localdate())
    now = to_database(Assignment, "lease_expires", timezone.now())
    rows = fetch_rows(EXPOSURE_NOW, [person_id, today, now, person_id])
    in_progress = [
        (load_object(Guideline, id=guideline, sha256=sha256), dimension)
        for _points, guideline, sha256, dimension in rows
        if guideline is not None
    ]
    return ExposureNow(int(rows[0][0]), in_progress)


EXPOSURE_NOW = f"""
SELECT COALESCE((SELECT e.points FROM {EXPOSURES} e WHERE e.person_id = %s AND e.day = %s), 0),
    g.id, g.sha256, s.dimension
FROM {PEOPLE} p
LEFT JOIN {ASSIGNMENTS} a
    ON a.person_id = p.id AND a.state = '{Assignment.State.CLAIMED}' AND a.lease_expires > %s
LEFT JOIN {TASKS} t ON t.id = a.task_id LEFT JOIN {STRATA} s ON s.id = t.stratum_id
LEFT JOIN {BATCHES} b ON b.id = t.batch_id LEFT JOIN {GUIDELINES} g ON g.id = b.guideline_id
WHERE p.id = %s
"""


class StratumStanding(NamedTuple):
    """How a stratum stands, and one member in it. ``every``: its tasks but for the withdrawn ones."""

    kind: str
    every: int
    open: int
    disputed: int
    submitted: int
    my_submitted: int
    my_adjudicated: int
    my_skipped: int
    needed: int


def count_by_stratum(membership: Membership) -> dict[int, StratumStanding]:
    """For each stratum of the batch, in one query: each page of the annotation loop asks for it."""
    rows = fetch_rows(STANDINGS, [membership.pk, membership.pk, membership.pk, membership.batch_id])
    return {pk: StratumStanding(kind, *map(int, counts)) for pk, kind, *counts in rows}


STANDINGS = f"""
SELECT s.id, s.kind,
    s.open + s.agreed + s.disputed + s.adjudicated
        + COALESCE(SUM(t.open + t.agreed + t.disputed + t.adjudicated), 0),
    s.open + COALESCE(SUM(t.open), 0),
    s.disputed + COALESCE(SUM(t.disputed), 0),
    s.submitted + COALESCE(SUM(t.submitted), 0),
    COALESCE(SUM(CASE WHEN t.membership_id = %s THEN t.submitted END), 0),
    COALESCE(SUM(CASE WHEN t.membership_id = %s THEN t.adjudicated END), 0),
    COALESCE(SUM(CASE WHEN t.membership_id = %s THEN t.skipped END), 0),
    s.labels_needed
FROM {STRATA} s LEFT JOIN {TALLIES} t ON t.stratum_id = s.id
WHERE s.batch_id = %s GROUP BY s.id
"""


def count_by_age(
    tasks: QuerySet[Any, Any], bounds: Sequence[datetime]
) -> Iterator[tuple[str, datetime, *tuple[int, ...]]]:
    """For each topic of the ``tasks`` (rows with ``topic`` and ``since``): the oldest time, how many are younger than
    each of the ``bounds``, and how many there are. The database counts what each task is since but once.
    """
    aged, params = tasks.query.sql_with_params()
    younger = ", ".join(["COUNT(CASE WHEN since > %s THEN 1 END)"] * len(bounds))
    statement = f"SELECT topic, MIN(since), {younger}, COUNT(*) FROM ({aged}) AS waiting GROUP BY topic"
    times = [to_database(Assignment, "submitted_at", bound) for bound in bounds]
    for topic, oldest, *counts in fetch_rows(statement, [*times, *params]):
        # SQLite gives what it works out of times as text, in UTC.
        since = oldest if isinstance(oldest, datetime) else datetime.fromisoformat(oldest).replace(tzinfo=UTC)
        yield (topic, since, *counts)


# The gold questions that a member may be given.


class KnownCandidate(NamedTuple):
    """A gold question that the member may be given."""

    item: int
    response: int
    prompt: int
    stratum: int
    dimension: str
    language: str


class RoundItem(NamedTuple):
    """An item of a member's round. ``active``: it is still in; ``seen``: it was handed out in an earlier round;
    ``standing``: how its claim of this round stands, None where it was not handed out.
    """

    candidate: KnownCandidate
    active: bool
    seen: bool
    standing: int | None


# How a claim of the round stands: given back, or its lease ran out; at hand; submitted or skipped.
STANDS_GIVEN_BACK, STANDS_AT_HAND, STANDS_ENDED = range(3)


def fetch_unseen_checks(member: Membership) -> list[KnownCandidate]:
    """The gold checks of the batch whose responses the member was never given, in whatever batch and role."""
    rows = fetch_rows(UNSEEN_CHECKS, [member.batch_id, GoldQuestion.Kind.CHECK.value, member.person_id])
    return [KnownCandidate(*row) for row in rows]


def fetch_round_items(member: Membership, attempt: int) -> list[RoundItem]:
    """The items of the member's round ``attempt`` that are in, or that were given in it."""
    person, kind = member.person_id, GoldQuestion.Kind.QUALIFICATION.value
    params = [person, attempt, person, attempt, member.batch_id, kind, person, attempt, person]
    return [
        RoundItem(KnownCandidate(*candidate), bool(active), bool(seen), standing)
        for *candidate, active, seen, standing in fetch_rows(ROUND_ITEMS, params)
    ]


# From the items on, which are few: a dataset may have very many prompts of a stratum.
OF_KNOWN_ITEM = f"""
FROM {KNOWN_ITEMS} i JOIN {RESPONSES} r ON r.id = i.response_id
WHERE i.batch_id = %s AND i.kind = %s
    AND (SELECT w.id FROM {TASKS} w
        WHERE w.batch_id = i.batch_id AND w.response_id = i.response_id AND w.kind = '{Task.Kind.WORK}' LIMIT 1) IS NULL
"""
STRATUM_OF_KNOWN_ITEM = f"""
(SELECT s.id FROM {PROMPTS} p JOIN {STRATA} s ON s.batch_id = i.batch_id AND s.kind = i.kind
    AND s.dataset_id = p.dataset_id AND s.dimension = p.dimension AND s.language = p.language
    AND s.model_id = r.model_id WHERE p.id = r.prompt_id)
"""
KNOWN_CANDIDATE = f"""
i.id, i.response_id, r.prompt_id, {STRATUM_OF_KNOWN_ITEM},
    (SELECT p.dimension FROM {PROMPTS} p WHERE p.id = r.prompt_id),
    (SELECT p.language FROM {PROMPTS} p WHERE p.id = r.prompt_id)
"""
# A subquery for each row that is looked at, by the keys of that row. As joins, PostgreSQL might read all that the
# person has ever done, and all of the batch, for each item.
HAD = f"(SELECT a.id FROM {ASSIGNMENTS} a WHERE a.task_id = t.id AND a.person_id = %s LIMIT 1)"
UNSEEN_CHECKS = f"""
SELECT {KNOWN_CANDIDATE} {OF_KNOWN_ITEM} AND i.active
    AND (SELECT COUNT({HAD}) FROM {TASKS} t WHERE t.response_id = i.response_id) = 0
ORDER BY i.id
"""
GIVEN_IN_ROUND = f"""
(SELECT {{what}} FROM {KNOWN_TASKS} k JOIN {ASSIGNMENTS} a ON a.task_id = k.task_id
    WHERE k.item_id = i.id AND k.person_id = %s AND k.attempt {{which}} %s LIMIT 1)
"""
STANDING_IN_ROUND = (
    f"CASE WHEN a.state = '{Assignment.State.SUBMITTED}' OR a.skip_reason <> '' THEN {STANDS_ENDED}"
    f" WHEN a.state = '{Assignment.State.CLAIMED}' THEN {STANDS_AT_HAND} ELSE {STANDS_GIVEN_BACK} END"
)
ROUND_ITEMS = f"""
SELECT {KNOWN_CANDIDATE}, i.active,
    EXISTS {GIVEN_IN_ROUND.format(what="1", which="<")},
    {GIVEN_IN_ROUND.format(what=STANDING_IN_ROUND, which="=")}
{OF_KNOWN_ITEM} AND (i.active OR EXISTS {GIVEN_IN_ROUND.format(what="1", which="=")})
    AND (SELECT COUNT({HAD}) FROM {TASKS} t LEFT JOIN {KNOWN_TASKS} k ON k.task_id = t.id
        WHERE t.response_id = i.response_id AND (k.item_id IS NULL OR k.item_id <> i.id)) = 0
ORDER BY i.id
"""


# Gold releases, which may hold a million labels: written, hashed, exported and compared.


def freeze_labels(release_id: int, *, chance: float | None = None) -> int:
    """Write the release's labels: the settled ones of the work tasks of its batches. How many.

    ``chance`` is that of selection, where all of them have the same.

    In the order of the prompts, in which they are read again: the ids are given in the order of the rows.
    """
    with connection.cursor() as cursor:
        cursor.execute(FREEZE_LABELS, [release_id, chance, release_id])
        return int(cursor.rowcount)


FREEZE_LABELS = f"""
INSERT INTO {RELEASED_LABELS}
    (release_id, gold_label_id, task_id, criterion, value, source, adjudication_id, chance)
SELECT %s, g.id, g.task_id, g.criterion, g.value, g.source,
    CASE WHEN g.source IN ('{GoldLabel.Source.ADJUDICATED}', '{GoldLabel.Source.EXPERT}') THEN a.id END,
    CAST(%s AS double precision)
FROM {GOLD_LABELS} g
JOIN {TASKS} t ON t.id = g.task_id
LEFT JOIN {ADJUDICATIONS} a ON a.task_id = t.id
WHERE t.batch_id IN (SELECT batch_id FROM {RELEASED_BATCHES} WHERE goldrelease_id = %s)
    AND t.kind = '{Task.Kind.WORK}' AND t.state <> '{Task.State.WITHDRAWN}'
ORDER BY t.prompt_id, g.id
"""


class FrozenLabel(NamedTuple):
    """A released label with the ids of what it is about."""

    pk: int
    prompt: int
    model: int
    batch: int
    criterion: str
    value: int | float | None
    source: str
    position: int
    response_sha256: str
    key: str
    dataset: int
    dimension: str
    subcomponent: str
    language: str


def fetch_frozen_labels(release_id: int, *, after: int, to: int) -> list[FrozenLabel]:
    """The release's labels with ids above ``after`` and up to ``to``."""
    with connection.cursor() as cursor:
        cursor.execute(FROZEN_LABELS, [after, to, release_id])
        return [FrozenLabel(*row) for row in cursor.fetchall()]


# The ids of a new release's labels follow each other, so that a range of them is a part of it. The sum keeps the
# planner, which has no statistics of rows that are not committed, from reading the whole release for each part.
FROZEN_LABELS = f"""
SELECT l.id, t.prompt_id, r.model_id, t.batch_id, l.criterion, l.value, l.source, t.position, r.sha256, p.key,
    p.dataset_id, p.dimension, p.subcomponent, p.language
FROM {RELEASED_LABELS} l
JOIN {TASKS} t ON t.id = l.task_id
JOIN {RESPONSES} r ON r.id = t.response_id
JOIN {PROMPTS} p ON p.id = t.prompt_id
WHERE l.id > %s AND l.id <= %s AND l.release_id + 0 = %s
ORDER BY l.id
"""

ReleasedValue: TypeAlias = tuple[int, str, float | None, str]
"""Task, criterion, value (None: not applicable) and source: a plain tuple, because there are as many as labels."""
ReleasedText: TypeAlias = tuple[int, int, int, int, str, str, str, str, str]
"""Task, batch, model, dataset, prompt's key, dimension, subcomponent, text, and turns as JSON."""


def fetch_released_values(release_id: int, tasks: Sequence[int]) -> list[ReleasedValue]:
    """The labels of these tasks in the release."""
    return _fetch_of_tasks(RELEASED_VALUES, tasks, release_id)


def fetch_released_texts(tasks: Sequence[int]) -> list[ReleasedText]:
    """What these tasks were about."""
    return _fetch_of_tasks(RELEASED_TEXTS, tasks)


class SourceText(NamedTuple):
    """A task with all that it was about; ``turns`` are JSON."""

    task: int
    batch: str
    response: int
    prompt: int
    dataset: str
    prompt_key: str
    prompt_text: str
    dimension: str
    subcomponent: str
    language: str
    attack_method: str | None
    model: str
    collection: str
    text: str
    turns: str
    sha256: str


class StatedRow(NamedTuple):
    """What one person said of a task: an annotation as it counts, or a decision. The first three are JSON.

    ``file``, ``format``, ``file_sha256`` and ``line`` say where it was imported from, ``round`` in which round it was
    made there; None where it was given here.
    """

    labels: str
    evidence: str
    flags: str
    task: int
    person: int
    rationale: str
    seconds: float | None
    at: datetime
    reason: str | None
    file: str | None
    format: str | None
    file_sha256: str | None
    line: int | None
    round: str | None


def fetch_source_texts(tasks: Sequence[int]) -> list[SourceText]:
    return list(map(SourceText._make, _fetch_of_tasks(SOURCE_TEXTS, tasks)))


def fetch_current_annotations(tasks: Sequence[int]) -> list[StatedRow]:
    """The annotations of these tasks that were submitted, task by task in the order of the slots.

    A correction was made here, whatever its first revision was imported from.
    """
    rows = _fetch_of_tasks(CURRENT_ANNOTATIONS, tasks, ADJUDICATION_SLOT, end=CURRENT_ORDER)
    return list(map(StatedRow._make, rows))


def fetch_released_decisions(release_id: int, tasks: Sequence[int]) -> list[StatedRow]:
    """The decisions of these tasks that the release has a label of."""
    return list(map(StatedRow._make, _fetch_of_tasks(RELEASED_DECISIONS, tasks, release_id)))


def _fetch_of_tasks(sql: str, tasks: Sequence[int], *params: int, end: str = "") -> list[Any]:
    ids = list(tasks) if connection.vendor == "postgresql" else json.dumps(list(tasks))
    with connection.cursor() as cursor:
        cursor.execute(sql + ONE_OF[connection.vendor] + end, [*params, ids])
        return list(cursor.fetchall())


ONE_OF = {"postgresql": " = ANY(%s)", "sqlite": " IN (SELECT value FROM json_each(%s))"}
RELEASED_VALUES = f"""
SELECT task_id, criterion, value, source FROM {RELEASED_LABELS} WHERE release_id = %s AND task_id"""
RELEASED_TEXTS = f"""
SELECT task.id, task.batch_id, response.model_id, prompt.dataset_id, prompt.key, prompt.dimension,
    prompt.subcomponent, response.text, response.turns
FROM {TASKS} task
JOIN {RESPONSES} response ON response.id = task.response_id
JOIN {PROMPTS} prompt ON prompt.id = response.prompt_id
WHERE task.id"""
SOURCE_TEXTS = f"""
SELECT t.id, b.name, r.id, p.id, d.name, p.key, p.text, p.dimension, p.subcomponent, p.language, p.attack_method,
    m.name, c.name, r.text, r.turns, r.sha256
FROM {TASKS} t
JOIN {BATCHES} b ON b.id = t.batch_id
JOIN {RESPONSES} r ON r.id = t.response_id
JOIN {MODELS} m ON m.id = r.model_id
JOIN {COLLECTIONS} c ON c.id = r.collection_id
JOIN {PROMPTS} p ON p.id = r.prompt_id
JOIN {DATASETS} d ON d.id = p.dataset_id
WHERE t.id"""
CURRENT_ANNOTATIONS = f"""
SELECT n.labels, n.evidence, n.flags, a.task_id, a.person_id, n.rationale, n.seconds, n.created_at, NULL,
    f.file_name, f.format, f.sha256, o.line, o.round
FROM {ASSIGNMENTS} a
JOIN {ANNOTATIONS} n ON n.assignment_id = a.id AND n.current
LEFT JOIN {IMPORTED_LABELS} o ON o.assignment_id = a.id AND n.revision = 1
LEFT JOIN {IMPORTS} f ON f.id = o.source_id
WHERE a.state = '{Assignment.State.SUBMITTED}' AND a.slot < %s AND a.task_id"""
CURRENT_ORDER = " ORDER BY a.task_id, a.slot"
RELEASED_DECISIONS = f"""
SELECT j.labels, '[]', '[]', j.task_id, a.person_id, j.rationale, j.seconds, j.created_at, w.key,
    f.file_name, f.format, f.sha256, o.line, o.round
FROM {ADJUDICATIONS} j
JOIN {ASSIGNMENTS} a ON a.id = j.assignment_id
LEFT JOIN {REASONS} w ON w.id = j.reason_id
LEFT JOIN {IMPORTED_LABELS} o ON o.assignment_id = j.assignment_id
LEFT JOIN {IMPORTS} f ON f.id = o.source_id
WHERE EXISTS (SELECT 1 FROM {RELEASED_LABELS} l
    WHERE l.release_id = %s AND l.task_id = j.task_id AND l.adjudication_id = j.id) AND j.task_id"""

CHANGE_FILTERS = ("kind", "criterion", "dimension")
CHANGES_AT_ONCE = 2000


class LabelChangeCount(NamedTuple):
    """Changes of one kind, in one dimension and criterion, from one value to another.

    None: it was not there; of a changed value: not applicable.
    """

    kind: str
    dimension: str
    criterion: str
    before: float | None
    after: float | None
    labels: int


class LabelSide(NamedTuple):
    """A label as one of the two releases has it; ``value`` None: not applicable."""

    value: float | None
    source: str
    guideline_version: str
    task: int


class LabelChange(NamedTuple):
    """``before`` is None for what was added, ``after`` for what was removed."""

    kind: str
    dimension: str
    criterion: str
    dataset: str
    prompt: str
    text: str
    language: str
    model: str
    before: LabelSide | None
    after: LabelSide | None

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> LabelChange:
        before, after = (None if side[3] is None else LabelSide(*side) for side in (row[8:12], row[12:16]))
        return cls._make([*row[:8], before, after])


def count_label_changes(before: int, after: int) -> list[LabelChangeCount]:
    """What changed from one release to the other, counted."""
    with connection.cursor() as cursor:
        cursor.execute(LABEL_CHANGE_COUNTS, {"before": before, "after": after})
        return [LabelChangeCount(*row) for row in cursor.fetchall()]


def fetch_label_changes(
    before: int, after: int, filters: Mapping[str, str], *, start: int, count: int
) -> list[LabelChange]:
    """``count`` of the changes from the place ``start`` on, prompt by prompt."""
    params = {**_change_params(before, after, filters), "start": start, "count": count}
    with connection.cursor() as cursor:
        cursor.execute(f"{LABEL_CHANGES} LIMIT %(count)s OFFSET %(start)s", params)
        return [LabelChange.of_row(row) for row in cursor.fetchall()]


def iterate_label_changes(before: int, after: int, filters: Mapping[str, str]) -> Iterator[LabelChange]:
    """Every change, prompt by prompt, a part at a time."""
    is_pooled = connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    with connection.cursor() if is_pooled else connection.chunked_cursor() as cursor:
        cursor.execute(LABEL_CHANGES, _change_params(before, after, filters))
        while rows := cursor.fetchmany(CHANGES_AT_ONCE):
            yield from map(LabelChange.of_row, rows)


def _change_params(before: int, after: int, filters: Mapping[str, str]) -> dict[str, Any]:
    return {"before": before, "after": after, **{name: filters.get(name, "") for name in CHANGE_FILTERS}}


# Two labels are about the same thing when their ``LabelKey`` is the same. Nearly always they come from the same task,
# which an index finds at once; only what is left over on either side is compared by the key.
OTHER_VALUE = "({after} <> {before} OR ({after} IS NULL) <> ({before} IS NULL))"
CHANGED_PAIRS = f"""
WITH left_over AS (
    SELECT o.id AS before_id, CAST(NULL AS BIGINT) AS after_id, o.task_id, o.criterion
    FROM {RELEASED_LABELS} o
    WHERE o.release_id = %(before)s AND NOT EXISTS (
        SELECT 1 FROM {RELEASED_LABELS} n
        WHERE n.release_id = %(after)s AND n.task_id = o.task_id AND n.criterion = o.criterion)
    UNION ALL
    SELECT NULL, n.id, n.task_id, n.criterion
    FROM {RELEASED_LABELS} n
    WHERE n.release_id = %(after)s AND NOT EXISTS (
        SELECT 1 FROM {RELEASED_LABELS} o
        WHERE o.release_id = %(before)s AND o.task_id = n.task_id AND o.criterion = n.criterion)
),
pairs AS (
    SELECT o.id AS before_id, n.id AS after_id
    FROM {RELEASED_LABELS} o
    JOIN {RELEASED_LABELS} n
        ON n.release_id = %(after)s AND n.task_id = o.task_id AND n.criterion = o.criterion
    WHERE o.release_id = %(before)s
        AND ({OTHER_VALUE.format(before="o.value", after="n.value")} OR n.source <> o.source)
    UNION ALL
    SELECT MAX(l.before_id), MAX(l.after_id)
    FROM left_over l
    JOIN {TASKS} t ON t.id = l.task_id
    JOIN {RESPONSES} r ON r.id = t.response_id
    JOIN {BATCHES} b ON b.id = t.batch_id
    JOIN {GUIDELINES} g ON g.id = b.guideline_id
    GROUP BY g.name, t.prompt_id, r.model_id, r.sha256, l.criterion
),
changes AS (
    SELECT c.*,
        CASE WHEN old_task IS NULL THEN 'added' WHEN new_task IS NULL THEN 'removed'
            WHEN {OTHER_VALUE.format(before="old_value", after="new_value")} THEN 'value'
            WHEN old_source <> new_source THEN 'source' WHEN old_version <> new_version THEN 'version' END AS kind
    FROM (
        SELECT p.dimension, COALESCE(n.criterion, o.criterion) AS criterion, d.name AS dataset, p.id AS prompt_id,
            p.key, p.text, p.language, m.name AS model, t.id AS task_id,
            o.value AS old_value, o.source AS old_source, og.version AS old_version, o.task_id AS old_task,
            n.value AS new_value, n.source AS new_source, ng.version AS new_version, n.task_id AS new_task
        FROM pairs
        LEFT JOIN {RELEASED_LABELS} o ON o.id = pairs.before_id
        LEFT JOIN {TASKS} ot ON ot.id = o.task_id
        LEFT JOIN {BATCHES} ob ON ob.id = ot.batch_id
        LEFT JOIN {GUIDELINES} og ON og.id = ob.guideline_id
        LEFT JOIN {RELEASED_LABELS} n ON n.id = pairs.after_id
        LEFT JOIN {TASKS} nt ON nt.id = n.task_id
        LEFT JOIN {BATCHES} nb ON nb.id = nt.batch_id
        LEFT JOIN {GUIDELINES} ng ON ng.id = nb.guideline_id
        JOIN {TASKS} t ON t.id = COALESCE(n.task_id, o.task_id)
        JOIN {RESPONSES} r ON r.id = t.response_id
        JOIN {MODELS} m ON m.id = r.model_id
        JOIN {PROMPTS} p ON p.id = t.prompt_id
        JOIN {DATASETS} d ON d.id = p.dataset_id
    ) c
)
"""
LABEL_CHANGE_COUNTS = f"""
{CHANGED_PAIRS}
SELECT kind, dimension, criterion, old_value, new_value, COUNT(*)
FROM changes WHERE kind IS NOT NULL
GROUP BY kind, dimension, criterion, old_value, new_value
"""
LABEL_CHANGES = f"""
{CHANGED_PAIRS}
SELECT kind, dimension, criterion, dataset, key, text, language, model, old_value, old_source, old_version, old_task,
    new_value, new_source, new_version, new_task
FROM changes
WHERE kind IS NOT NULL AND %(kind)s IN ('', kind) AND %(criterion)s IN ('', criterion)
    AND %(dimension)s IN ('', dimension)
ORDER BY prompt_id, model, criterion, task_id
"""


# The tables as PostgreSQL's planner knows them.


def find_grown_tables(models: Sequence[type[Model]], *, rows: int) -> list[str]:
    """Those of the models' tables that the planner takes to have fewer than so many rows."""
    with connection.cursor() as cursor:
        cursor.execute(GROWN_TABLES, [[model._meta.db_table for model in models], rows])
        return sorted(name for (name,) in cursor.fetchall())


GROWN_TABLES = "SELECT oid::regclass::text FROM pg_class WHERE oid = ANY(%s::regclass[]) AND reltuples < %s"


def analyze_tables(names: Sequence[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join(names)}")
