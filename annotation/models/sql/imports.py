"""An import of labels, which looks up and ends a thousand tasks at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import starmap
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from annotation.core.sql import AMONG, Statement, fetch_among, for_update, is_among, to_database, to_list
from annotation.models import Assignment, Batch, Task
from annotation.models.sql.tables import (
    ADJUDICATIONS,
    ANNOTATIONS,
    ASSIGNMENTS,
    COLLECTIONS,
    GOLD_LABELS,
    IMPORTED_LABELS,
    MODELS,
    PROMPTS,
    RESPONSES,
    TASKS,
)


class ImportTask(NamedTuple):
    """A work task as an import meets it."""

    pk: int
    stratum: int
    state: str
    overlap: int
    slots_taken: int
    response: int
    prompt_key: str
    dimension: str
    subcomponent: str
    model: str
    collection: str


def lock_import_tasks(
    batch: Batch, datasets: Sequence[int], pairs: Sequence[tuple[str, str]], *, is_new: bool
) -> list[ImportTask]:
    """The batch's tasks on the responses to these prompts and of these models, by pairs of a prompt's key and a model's
    name; their rows are locked, in the order of their ids. Of a batch that is new in this transaction, none need be.
    """
    if connection.vendor == "postgresql":
        params: list[Any] = [[key for key, _model in pairs], [model for _key, model in pairs]]
    else:
        params = [json.dumps(pairs)]
    with connection.cursor() as cursor:
        cursor.execute(IMPORT_TASKS[connection.vendor], [*params, to_list(datasets), batch.pk])
        tasks = list(starmap(ImportTask, cursor.fetchall()))
    if is_new:
        return tasks
    responses = {task.pk: task[N_TASK_COLUMNS:] for task in tasks}
    locked = fetch_among(LOCKED_TASKS, list(responses), end=" ORDER BY t.id" + for_update("t"))
    return [ImportTask(*columns, *responses[columns[0]]) for columns in locked]


# Each of them by an index, in this order: the tables that come later are looked up for each row of those before.
_LOOKUPS = (
    (PROMPTS, "p", "p.key = {key} AND p.dataset_id{is_among_ids}"),
    (MODELS, "m", "m.name = {model}"),
    (RESPONSES, "r", "r.prompt_id = p.id AND r.model_id = m.id"),
    (TASKS, "t", f"t.response_id = r.id AND t.batch_id = %s AND t.kind = '{Task.Kind.WORK}'"),
    (COLLECTIONS, "c", "c.id = r.collection_id"),
)


TASK_COLUMNS = "t.id, t.stratum_id, t.state, t.overlap, t.slots_taken"
N_TASK_COLUMNS = 5


def _build_lookup(pairs: str, join: str, **names: str) -> str:
    joins = (
        join.format(table=table, alias=alias, condition=condition.format(**names))
        for table, alias, condition in _LOOKUPS
    )
    columns = "r.id, p.key, p.dimension, p.subcomponent, m.name, c.name"
    return f"SELECT {TASK_COLUMNS}, {columns} FROM {pairs} {' '.join(joins)}"


# Neither planner knows how many tasks there are in a batch that the same transaction made, and both would begin with
# them: SQLite keeps the order of CROSS JOIN, PostgreSQL that of subqueries that it cannot take apart.
IMPORT_TASKS = {
    "postgresql": _build_lookup(
        pairs="unnest(%s::text[], %s::text[]) AS pair (key, model)",
        join="CROSS JOIN LATERAL (SELECT * FROM {table} {alias} WHERE {condition} OFFSET 0) {alias}",
        key="pair.key",
        model="pair.model",
        is_among_ids=AMONG["postgresql"],
    ),
    "sqlite": _build_lookup(
        pairs="json_each(%s) AS pair",
        join="CROSS JOIN {table} {alias} ON {condition}",
        key="json_extract(pair.value, '$[0]')",
        model="json_extract(pair.value, '$[1]')",
        is_among_ids=AMONG["sqlite"],
    ),
}
LOCKED_TASKS = f"SELECT {TASK_COLUMNS} FROM {TASKS} t WHERE t.id"


@contextmanager
def check_references_at_once() -> Iterator[None]:
    """On PostgreSQL, what labels refer to is looked up as they are written, while the process does something else. It
    would have to wait for the commit, until which Django's foreign keys are left.

    Those of tasks are left until then: a row that changes in the transaction that wrote it is looked up again.
    """
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute(REFERENCES, [LABEL_TABLES])
        references = ", ".join(name for (name,) in cursor.fetchall())
        cursor.execute(f"SET CONSTRAINTS {references} IMMEDIATE")
        yield
        cursor.execute(f"SET CONSTRAINTS {references} DEFERRED")


LABEL_TABLES = [ASSIGNMENTS, ANNOTATIONS, ADJUDICATIONS, IMPORTED_LABELS, GOLD_LABELS]
REFERENCES = """
SELECT quote_ident(conname) FROM pg_constraint
WHERE contype = 'f' AND condeferrable AND conrelid = ANY(%s::regclass[]) ORDER BY conname
"""


@contextmanager
def plan_for_blocks() -> Iterator[None]:
    """On PostgreSQL, rows are looked up by their indexes: its planner knows nothing of rows that the transaction itself
    wrote, and for each block of labels it would walk through all that the file brought before.

    A plan without an index is priced so high then that the server would compile even the shortest query.
    """
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL jit = off")
        yield
        cursor.execute("SET LOCAL enable_seqscan TO DEFAULT; SET LOCAL jit TO DEFAULT")


class StoredClaim(NamedTuple):
    id: str
    task: int
    person: int
    slot: int
    state: str
    skip_reason: str


class StoredRevision(NamedTuple):
    assignment: str
    labels: Mapping[str, Any]
    idempotency_key: str
    texts: Mapping[str, str]


class StoredDecision(NamedTuple):
    task: int
    assignment: str
    labels: Mapping[str, Any]
    idempotency_key: str


def fetch_stored_claims(tasks: Sequence[int]) -> list[StoredClaim]:
    rows = fetch_among(STORED_CLAIMS, tasks)
    return [StoredClaim(_to_digits(id_), *columns) for id_, *columns in rows]


def fetch_stored_revisions(claims: Sequence[str]) -> list[StoredRevision]:
    """What was submitted under these claims, of each in their order, the current one last."""
    ids = [to_database(Assignment, "id", claim) for claim in claims]
    rows = fetch_among(STORED_REVISIONS, ids, end=" ORDER BY assignment_id, revision")
    return [
        StoredRevision(_to_digits(claim), json.loads(labels), key, json.loads(texts))
        for claim, labels, key, texts in rows
    ]


def fetch_stored_decisions(tasks: Sequence[int]) -> list[StoredDecision]:
    rows = fetch_among(STORED_DECISIONS, tasks)
    return [
        StoredDecision(task, _to_digits(assignment), json.loads(labels), key)
        for task, assignment, labels, key in rows
    ]


def _to_digits(id_: UUID | str) -> str:
    """The digits of a UUID, as SQLite stores them."""
    return id_.hex if isinstance(id_, UUID) else id_


STORED_CLAIMS = f"SELECT id, task_id, person_id, slot, state, skip_reason FROM {ASSIGNMENTS} WHERE task_id"
STORED_REVISIONS = (
    f"SELECT assignment_id, labels, idempotency_key, texts FROM {ANNOTATIONS} WHERE assignment_id"
)
STORED_DECISIONS = (
    f"SELECT task_id, assignment_id, labels, idempotency_key FROM {ADJUDICATIONS} WHERE task_id"
)


def build_tasks_update(tasks: Sequence[int], values: Mapping[str, Any]) -> Statement:
    """Sets these columns of all these tasks, whose rows are locked."""
    columns = ", ".join(f"{name} = %s" for name in values)
    params = [to_database(Task, name, value) for name, value in values.items()]
    return Statement(f"UPDATE {TASKS} SET {columns} WHERE id{is_among()}", [*params, to_list(tasks)])
