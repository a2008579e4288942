"""What differs between two releases, in plain SQL: a release may hold a million labels.

Two labels are about the same thing when their ``LabelKey`` is the same. Nearly always they come from the same task,
which an index finds at once; only what is left over on either side is compared by the key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.cache import caches
from django.db import connection

from annotation.gold import number
from annotation.goldfile import csv_cell, csv_writer
from annotation.models import GoldRelease

ADDED, REMOVED, VALUE, SOURCE, VERSION = "added", "removed", "value", "source", "version"
KINDS = (VALUE, SOURCE, VERSION, ADDED, REMOVED)
FILTERS = ("kind", "criterion", "dimension")
CHUNK = 2000
KEPT_SECONDS = 24 * 60 * 60

PAIRS = """
WITH left_over AS (
    SELECT o.id AS before_id, CAST(NULL AS BIGINT) AS after_id, o.task_id, o.criterion
    FROM annotation_releasedlabel o
    WHERE o.release_id = %(before)s AND NOT EXISTS (
        SELECT 1 FROM annotation_releasedlabel n
        WHERE n.release_id = %(after)s AND n.task_id = o.task_id AND n.criterion = o.criterion)
    UNION ALL
    SELECT NULL, n.id, n.task_id, n.criterion
    FROM annotation_releasedlabel n
    WHERE n.release_id = %(after)s AND NOT EXISTS (
        SELECT 1 FROM annotation_releasedlabel o
        WHERE o.release_id = %(before)s AND o.task_id = n.task_id AND o.criterion = n.criterion)
),
pairs AS (
    SELECT o.id AS before_id, n.id AS after_id
    FROM annotation_releasedlabel o
    JOIN annotation_releasedlabel n
        ON n.release_id = %(after)s AND n.task_id = o.task_id AND n.criterion = o.criterion
    WHERE o.release_id = %(before)s AND (n.value <> o.value OR n.source <> o.source)
    UNION ALL
    SELECT MAX(l.before_id), MAX(l.after_id)
    FROM left_over l
    JOIN annotation_task t ON t.id = l.task_id
    JOIN annotation_response r ON r.id = t.response_id
    JOIN annotation_batch b ON b.id = t.batch_id
    JOIN annotation_guideline g ON g.id = b.guideline_id
    GROUP BY g.name, t.prompt_id, r.model_id, r.sha256, l.criterion
),
changes AS (
    SELECT c.*,
        CASE WHEN old_value IS NULL THEN 'added' WHEN new_value IS NULL THEN 'removed'
            WHEN old_value <> new_value THEN 'value' WHEN old_source <> new_source THEN 'source'
            WHEN old_version <> new_version THEN 'version' END AS kind
    FROM (
        SELECT p.dimension, COALESCE(n.criterion, o.criterion) AS criterion, d.name AS dataset, p.id AS prompt_id,
            p.key, p.text, p.language, m.name AS model, t.id AS task_id,
            o.value AS old_value, o.source AS old_source, og.version AS old_version, o.task_id AS old_task,
            n.value AS new_value, n.source AS new_source, ng.version AS new_version, n.task_id AS new_task
        FROM pairs
        LEFT JOIN annotation_releasedlabel o ON o.id = pairs.before_id
        LEFT JOIN annotation_task ot ON ot.id = o.task_id
        LEFT JOIN annotation_batch ob ON ob.id = ot.batch_id
        LEFT JOIN annotation_guideline og ON og.id = ob.guideline_id
        LEFT JOIN annotation_releasedlabel n ON n.id = pairs.after_id
        LEFT JOIN annotation_task nt ON nt.id = n.task_id
        LEFT JOIN annotation_batch nb ON nb.id = nt.batch_id
        LEFT JOIN annotation_guideline ng ON ng.id = nb.guideline_id
        JOIN annotation_task t ON t.id = COALESCE(n.task_id, o.task_id)
        JOIN annotation_response r ON r.id = t.response_id
        JOIN annotation_evaluatedmodel m ON m.id = r.model_id
        JOIN annotation_prompt p ON p.id = t.prompt_id
        JOIN annotation_dataset d ON d.id = p.dataset_id
    ) c
)
"""
COUNTED = f"""
{PAIRS}
SELECT kind, dimension, criterion, old_value, new_value, COUNT(*)
FROM changes WHERE kind IS NOT NULL
GROUP BY kind, dimension, criterion, old_value, new_value
"""  # noqa: S608 (no value is part of it)
LISTED = f"""
{PAIRS}
SELECT kind, dimension, criterion, dataset, key, text, language, model, old_value, old_source, old_version, old_task,
    new_value, new_source, new_version, new_task
FROM changes
WHERE kind IS NOT NULL AND %(kind)s IN ('', kind) AND %(criterion)s IN ('', criterion)
    AND %(dimension)s IN ('', dimension)
ORDER BY prompt_id, model, criterion, task_id
"""  # noqa: S608


@dataclass(frozen=True)
class Side:
    """A label as one of the two releases has it."""

    value: float
    source: str
    guideline_version: str
    task: int


@dataclass(frozen=True)
class Change:
    """``before`` is None for what was added, ``after`` for what was removed."""

    kind: str
    dimension: str
    criterion: str
    dataset: str
    prompt: str
    text: str
    language: str
    model: str
    before: Side | None
    after: Side | None


@dataclass(frozen=True)
class Group:
    """Changes of one kind, in one dimension and criterion, from one value to another; None: it was not there."""

    kind: str
    dimension: str
    criterion: str
    before: float | None
    after: float | None
    count: int


@dataclass(frozen=True)
class Difference:
    """All changes between two releases, counted."""

    before: GoldRelease
    after: GoldRelease
    groups: tuple[Group, ...]

    def count(self, kind: str = "", **filters: str) -> int:
        """How many changes there are, of a kind, criterion or dimension if one is named."""
        chosen = {name: value for name, value in {"kind": kind, **filters}.items() if value}
        return sum(
            group.count
            for group in self.groups
            if all(getattr(group, name) == value for name, value in chosen.items())
        )

    @property
    def same(self) -> int:
        """Labels that both releases hold alike."""
        return self.before.labels - self.count() + self.count(ADDED)

    def by(self, name: str) -> dict[str, Counter[str]]:
        """For each dimension or criterion, the number of changes of each kind."""
        found: dict[str, Counter[str]] = {}
        for group in self.groups:
            found.setdefault(getattr(group, name), Counter())[group.kind] += group.count
        return {key: found[key] for key in sorted(found)}

    def to_json(self) -> dict[str, Any]:
        """How many labels are the same, and how many changed in which way; every kind is there."""
        return {
            "before": _facts(self.before),
            "after": _facts(self.after),
            "same": self.same,
            **{kind: self.count(kind) for kind in KINDS},
            "by_dimension": {name: dict(counts) for name, counts in self.by("dimension").items()},
            "by_criterion": {name: dict(counts) for name, counts in self.by("criterion").items()},
            "values": [
                {"criterion": criterion, "before": number(old), "after": number(new), "labels": n}
                for criterion, old, new, n in self.moves()
            ],
        }

    def moves(self) -> list[tuple[str, float, float, int]]:
        """Criterion, value before, value after, and how often, the most frequent first."""
        counts: Counter[tuple[str, float, float]] = Counter()
        for group in self.groups:
            if group.kind == VALUE and group.before is not None and group.after is not None:
                counts[group.criterion, group.before, group.after] += group.count
        return [(*move, n) for move, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def _facts(release: GoldRelease) -> dict[str, Any]:
    return {"name": release.name, "sha256": release.sha256, "labels": release.labels}


def agreement_beside(before: GoldRelease, after: GoldRelease) -> list[dict[str, Any]]:
    """The rows of both agreement tables, one beside the other; a manifest of old has no table, so nothing is there."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for side, release in (("before", before), ("after", after)):
        for row in release.manifest.get("agreement", ()):
            key = (row["guideline"], row["criterion"], tuple(sorted(row["group"].items())))
            found = rows.setdefault(
                key, {name: row[name] for name in ("guideline", "criterion", "group")} | NEITHER
            )
            found[side] = row
    return list(rows.values())


NEITHER = {"before": None, "after": None}


def difference(before: GoldRelease, after: GoldRelease) -> Difference:
    """Counted once for two hashes: a release never changes."""
    key = f"release-difference:{before.sha256}:{after.sha256}"
    cache = caches["process"]
    rows = cache.get(key)
    if rows is None:
        rows = [] if before.sha256 == after.sha256 else _counted(before, after)
        cache.set(key, rows, KEPT_SECONDS)
    return Difference(before, after, tuple(Group(*row) for row in rows))


def _counted(before: GoldRelease, after: GoldRelease) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(COUNTED, {"before": before.pk, "after": after.pk})
        return sorted(cursor.fetchall(), key=lambda row: (row[0], row[1], row[2], -row[5]))


def changes(
    before: GoldRelease, after: GoldRelease, filters: Mapping[str, str], *, start: int, count: int
) -> list[Change]:
    """A page of the changes, prompt by prompt."""
    if before.sha256 == after.sha256:
        return []
    with connection.cursor() as cursor:
        page = {"start": start, "count": count}
        cursor.execute(f"{LISTED} LIMIT %(count)s OFFSET %(start)s", _asked(before, after, filters) | page)
        return [_change(row) for row in cursor.fetchall()]


def all_changes(
    before: GoldRelease, after: GoldRelease, filters: Mapping[str, str] | None = None
) -> Iterator[Change]:
    """Every change, a chunk at a time."""
    if before.sha256 == after.sha256:
        return
    pooled = connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    with connection.cursor() if pooled else connection.chunked_cursor() as cursor:
        cursor.execute(LISTED, _asked(before, after, filters or {}))
        while rows := cursor.fetchmany(CHUNK):
            yield from map(_change, rows)


def _asked(before: GoldRelease, after: GoldRelease, filters: Mapping[str, str]) -> dict[str, Any]:
    return {"before": before.pk, "after": after.pk, **{name: filters.get(name, "") for name in FILTERS}}


def _change(row: tuple[Any, ...]) -> Change:
    kind, dimension, criterion, dataset, key, text, language, model = row[:8]
    before, after = (None if side[0] is None else Side(*side) for side in (row[8:12], row[12:16]))
    return Change(kind, dimension, criterion, dataset, key, text, language, model, before, after)


HEADER = (
    "change",
    "dataset",
    "prompt_id",
    "dimension",
    "model",
    "criterion",
    *(f"{part}.{side}" for side in ("before", "after") for part in ("value", "source", "guideline_version")),
)


def csv_lines(found: Iterable[Change]) -> Iterator[str]:
    """A line for each change, under a header; no text starts a formula (``safe_cell``)."""
    line = csv_writer()
    yield line(HEADER)
    for one in found:
        about = (one.kind, one.dataset, one.prompt, one.dimension, one.model, one.criterion)
        yield line([csv_cell(cell) for cell in (*about, *_cells(one.before), *_cells(one.after))])


def _cells(side: Side | None) -> tuple[Any, ...]:
    return (None,) * 3 if side is None else (number(side.value), side.source, side.guideline_version)
