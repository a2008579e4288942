"""An import of labels, which looks up and ends a thousand tasks at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from annotation.core.sql import AMONG, fetch_among, for_update, is_among, to_database, to_list
from annotation.models import Batch, Task
from annotation.models.sql.tables import (
    ADJUDICATIONS,
    ANNOTATIONS,
    ASSIGNMENTS,
    COLLECTIONS,
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
    batch: Batch, datasets: Sequence[int], pairs: Sequence[tuple[str, str]]
) -> list[ImportTask]:
    """The batch's tasks on the responses to these prompts and of these models, by pairs of a prompt's key and a model's
    name; their rows are locked, in the order of their ids.
    """
    if connection.vendor == "postgresql":
        params: list[Any] = [[key for key, _model in pairs], [model for _key, model in pairs]]
    else:
        params = [json.dumps(pairs)]
    with connection.cursor() as cursor:
        sql = IMPORT_TASKS[connection.vendor] + for_update("t")
        with _by_indexes(cursor):
            cursor.execute(sql, [*params, to_list(datasets), batch.pk])
            return list(map(ImportTask._make, cursor.fetchall()))


# In the order in which the tables stand, from the pairs on.
BY_INDEXES = {"join_collapse_limit": "1", "enable_hashjoin": "off", "enable_mergejoin": "off"}


@contextmanager
def _by_indexes(cursor: Any) -> Iterator[None]:
    """In its own order PostgreSQL's planner walks through whole tables of the site for each block of labels, which
    takes far longer than four lookups by index where there are hundreds of thousands of responses.
    """
    if connection.vendor != "postgresql":
        yield
        return
    cursor.execute("".join(f"SET LOCAL {name} = {value};" for name, value in BY_INDEXES.items()))
    yield
    cursor.execute("".join(f"SET LOCAL {name} TO DEFAULT;" for name in BY_INDEXES))


# In this order: SQLite, which knows nothing of how many pairs there are, would begin with the batch's tasks.
_IMPORT_TASKS = f"""
SELECT t.id, t.stratum_id, t.state, t.overlap, t.slots_taken, r.id, p.key, p.dimension, p.subcomponent, m.name, c.name
FROM {{pairs}}
{{join}} {PROMPTS} p ON p.key = {{key}} AND p.dataset_id{{is_among_ids}}
{{join}} {MODELS} m ON m.name = {{model}}
{{join}} {RESPONSES} r ON r.prompt_id = p.id AND r.model_id = m.id
{{join}} {TASKS} t ON t.response_id = r.id AND t.batch_id = %s AND t.kind = '{Task.Kind.WORK}'
{{join}} {COLLECTIONS} c ON c.id = r.collection_id
ORDER BY t.id"""
IMPORT_TASKS = {
    "postgresql": _IMPORT_TASKS.format(
        pairs="unnest(%s::text[], %s::text[]) AS pair (key, model)",
        join="JOIN",
        key="pair.key",
        model="pair.model",
        is_among_ids=AMONG["postgresql"],
    ),
    "sqlite": _IMPORT_TASKS.format(
        pairs="json_each(%s) AS pair",
        join="CROSS JOIN",
        key="json_extract(pair.value, '$[0]')",
        model="json_extract(pair.value, '$[1]')",
        is_among_ids=AMONG["sqlite"],
    ),
}


class StoredClaim(NamedTuple):
    id: str
    task: int
    person: int
    slot: int
    state: str
    skip_reason: str


class StoredRevision(NamedTuple):
    task: int
    person: int
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


def fetch_stored_revisions(tasks: Sequence[int]) -> list[StoredRevision]:
    """Each person's in their order, the current one last."""
    rows = fetch_among(STORED_REVISIONS, tasks, end=" ORDER BY n.assignment_id, n.revision")
    return [
        StoredRevision(task, person, json.loads(labels), key, json.loads(texts))
        for task, person, labels, key, texts in rows
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
STORED_REVISIONS = f"""
SELECT a.task_id, a.person_id, n.labels, n.idempotency_key, n.texts
FROM {ASSIGNMENTS} a JOIN {ANNOTATIONS} n ON n.assignment_id = a.id WHERE a.task_id"""
STORED_DECISIONS = (
    f"SELECT task_id, assignment_id, labels, idempotency_key FROM {ADJUDICATIONS} WHERE task_id"
)


def update_tasks(tasks: Sequence[int], values: Mapping[str, Any]) -> None:
    """Set these columns of all these tasks, whose rows are locked."""
    columns = ", ".join(f"{name} = %s" for name in values)
    params = [to_database(Task, name, value) for name, value in values.items()]
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {TASKS} SET {columns} WHERE id{is_among()}", [*params, to_list(tasks)])
