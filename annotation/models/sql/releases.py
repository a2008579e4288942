"""Gold releases, which may hold a million labels: written, hashed, exported and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from django.db import connection

from annotation.core.sql import fetch_among
from annotation.models import ADJUDICATION_SLOT, Assignment, GoldLabel, Task
from annotation.models.sql.tables import (
    ADJUDICATIONS,
    ANNOTATIONS,
    ASSIGNMENTS,
    BATCHES,
    COLLECTIONS,
    DATASETS,
    GOLD_LABELS,
    GUIDELINES,
    IMPORTED_LABELS,
    IMPORTS,
    MODELS,
    PROMPTS,
    REASONS,
    RELEASED_BATCHES,
    RELEASED_LABELS,
    RESPONSES,
    TASKS,
)


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
    return fetch_among(RELEASED_VALUES, tasks, release_id)


def fetch_annotator_labels(tasks: Sequence[int]) -> list[tuple[int, str]]:
    """Each of these tasks with what one annotator says of it, as JSON: the labels that count, without decisions."""
    return fetch_among(ANNOTATOR_LABELS, tasks, ADJUDICATION_SLOT)


def fetch_released_texts(tasks: Sequence[int]) -> list[ReleasedText]:
    """What these tasks were about."""
    return fetch_among(RELEASED_TEXTS, tasks)


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
    malice: str
    source: str
    model: str
    collection: str
    text: str
    turns: str
    sha256: str
    batch_id: int


StatedRow: TypeAlias = tuple[
    str,
    str,
    str,
    int,
    int,
    str,
    float | None,
    datetime | None,
    str | None,
    str | None,
    str | None,
    str | None,
    int | None,
    str | None,
]
"""What one person said of a task, an annotation as it counts or a decision: labels, evidence and flags as JSON, task,
person, rationale, seconds, when (None unless it was asked for), reason of a decision; the file that it was imported
from with its format, sha256 and line, and the round in which it was made there, None where it was given here. A plain
tuple, because there are as many as labels.
"""


def fetch_source_texts(tasks: Sequence[int]) -> list[SourceText]:
    return list(map(SourceText._make, fetch_among(SOURCE_TEXTS, tasks)))


def fetch_current_annotations(tasks: Sequence[int], *, with_times: bool) -> list[StatedRow]:
    """The annotations of these tasks that were submitted, task by task in the order of the slots.

    A correction was made here, whatever its first revision was imported from.
    """
    sql = CURRENT_ANNOTATIONS.format(at="n.created_at" if with_times else "NULL")
    return fetch_among(sql, tasks, ADJUDICATION_SLOT, end=CURRENT_ORDER)


def fetch_released_decisions(release_id: int, tasks: Sequence[int]) -> list[StatedRow]:
    """The decisions of these tasks that the release has a label of."""
    return fetch_among(RELEASED_DECISIONS, tasks, release_id)


RELEASED_VALUES = f"""
SELECT task_id, criterion, value, source FROM {RELEASED_LABELS} WHERE release_id = %s AND task_id"""
ANNOTATOR_LABELS = f"""
SELECT a.task_id, n.labels FROM {ASSIGNMENTS} a
JOIN {ANNOTATIONS} n ON n.assignment_id = a.id AND n.current
WHERE a.state = '{Assignment.State.SUBMITTED}' AND a.slot < %s AND a.task_id"""
RELEASED_TEXTS = f"""
SELECT task.id, task.batch_id, response.model_id, prompt.dataset_id, prompt.key, prompt.dimension,
    prompt.subcomponent, response.text, response.turns
FROM {TASKS} task
JOIN {RESPONSES} response ON response.id = task.response_id
JOIN {PROMPTS} prompt ON prompt.id = response.prompt_id
WHERE task.id"""
SOURCE_TEXTS = f"""
SELECT t.id, b.name, r.id, p.id, d.name, p.key, p.text, p.dimension, p.subcomponent, p.language, p.attack_method,
    p.malice, p.source, m.name, c.name, r.text, r.turns, r.sha256, t.batch_id
FROM {TASKS} t
JOIN {BATCHES} b ON b.id = t.batch_id
JOIN {RESPONSES} r ON r.id = t.response_id
JOIN {MODELS} m ON m.id = r.model_id
JOIN {COLLECTIONS} c ON c.id = r.collection_id
JOIN {PROMPTS} p ON p.id = r.prompt_id
JOIN {DATASETS} d ON d.id = p.dataset_id
WHERE t.id"""
CURRENT_ANNOTATIONS = f"""
SELECT n.labels, n.evidence, n.flags, a.task_id, a.person_id, n.rationale, n.seconds, {{at}}, NULL,
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
