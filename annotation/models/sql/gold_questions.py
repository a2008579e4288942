"""The gold questions that a member may be given."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from annotation.core.sql import Statement, fetch_rows, update
from annotation.models import Assignment, GoldQuestion, GoldQuestionTask, Membership, Task
from annotation.models.sql.tables import (
    ASSIGNMENTS,
    KNOWN_ITEMS,
    KNOWN_TASKS,
    PROMPTS,
    RESPONSES,
    STRATA,
    TASKS,
)


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


def tell_answer(task_id: int, now: datetime) -> Statement:
    """From now on the person of this known task knows the right labels."""
    return update(GoldQuestionTask, task_id, {"told_at": now})
