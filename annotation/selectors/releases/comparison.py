"""What differs between two releases. Two labels are about the same thing when their ``LabelKey`` is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.cache import caches

from annotation.domain.releases.canonical import number
from annotation.domain.releases.gold_file import csv_cell, csv_writer
from annotation.models import GoldRelease
from annotation.models.sql.releases import (
    CHANGE_FILTERS,
    LabelChange,
    LabelChangeCount,
    LabelSide,
    count_label_changes,
    fetch_label_changes,
    iterate_label_changes,
)

ADDED, REMOVED, VALUE, SOURCE, VERSION = "added", "removed", "value", "source", "version"
KINDS = (VALUE, SOURCE, VERSION, ADDED, REMOVED)
FILTERS = CHANGE_FILTERS
CACHE_SECONDS = 24 * 60 * 60


@dataclass(frozen=True)
class ChangeGroup:
    """Changes of one kind, in one dimension and criterion, from one value to another; None: it was not there."""

    kind: str
    dimension: str
    criterion: str
    before: float | None
    after: float | None
    count: int


@dataclass(frozen=True)
class ReleaseDifference:
    """All changes between two releases, counted."""

    before: GoldRelease
    after: GoldRelease
    groups: tuple[ChangeGroup, ...]

    def count(self, kind: str = "", **filters: str) -> int:
        """How many changes there are, of a kind, criterion or dimension if one is named."""
        criteria = {name: value for name, value in {"kind": kind, **filters}.items() if value}
        return sum(
            group.count
            for group in self.groups
            if all(getattr(group, name) == value for name, value in criteria.items())
        )

    @property
    def same(self) -> int:
        """Labels that both releases hold alike."""
        return self.before.labels - self.count() + self.count(ADDED)

    def by(self, name: str) -> dict[str, Counter[str]]:
        """For each dimension or criterion, the number of changes of each kind."""
        counts: dict[str, Counter[str]] = {}
        for group in self.groups:
            counts.setdefault(getattr(group, name), Counter())[group.kind] += group.count
        return {key: counts[key] for key in sorted(counts)}

    def to_json(self) -> dict[str, Any]:
        """How many labels are the same, and how many changed in which way; every kind is there."""
        return {
            "before": _describe_release(self.before),
            "after": _describe_release(self.after),
            "same": self.same,
            **{kind: self.count(kind) for kind in KINDS},
            "by_dimension": {name: dict(counts) for name, counts in self.by("dimension").items()},
            "by_criterion": {name: dict(counts) for name, counts in self.by("criterion").items()},
            "values": [
                {"criterion": criterion, "before": number(old), "after": number(new), "labels": n}
                for criterion, old, new, n in self.moves()
            ],
        }

    def moves(self) -> list[tuple[str, float | None, float | None, int]]:
        """Criterion, value before, value after, and how often, the most frequent first."""
        counts: Counter[tuple[str, float | None, float | None]] = Counter()
        for group in self.groups:
            if group.kind == VALUE:
                counts[group.criterion, group.before, group.after] += group.count
        return [(*move, n) for move, n in sorted(counts.items(), key=_build_move_key)]


def _build_move_key(item: tuple[tuple[str, float | None, float | None], int]) -> tuple[Any, ...]:
    """The most frequent first; "not applicable" after every number."""
    (criterion, *values), n = item
    return -n, criterion, [(value is None, value or 0) for value in values]


def _describe_release(release: GoldRelease) -> dict[str, Any]:
    return {"name": release.name, "sha256": release.sha256, "labels": release.labels}


def compare_agreement(before: GoldRelease, after: GoldRelease) -> list[dict[str, Any]]:
    """The rows of both agreement tables, one beside the other; a manifest of old has no table, so nothing is there."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for side, release in (("before", before), ("after", after)):
        for row in release.manifest.get("agreement", ()):
            key = (row["guideline"], row["criterion"], tuple(sorted(row["group"].items())))
            sides = rows.setdefault(
                key, {name: row[name] for name in ("guideline", "criterion", "group")} | NEITHER
            )
            sides[side] = row
    return list(rows.values())


NEITHER = {"before": None, "after": None}


def compare_releases(before: GoldRelease, after: GoldRelease) -> ReleaseDifference:
    """Counted once for two hashes: a release never changes."""
    key = f"release-difference:{before.sha256}:{after.sha256}"
    cache = caches["process"]
    rows = cache.get(key)
    if rows is None:
        rows = [] if before.sha256 == after.sha256 else _count_changes(before, after)
        cache.set(key, rows, CACHE_SECONDS)
    return ReleaseDifference(before, after, tuple(ChangeGroup(*row) for row in rows))


def _count_changes(before: GoldRelease, after: GoldRelease) -> list[LabelChangeCount]:
    counts = count_label_changes(before.pk, after.pk)
    return sorted(counts, key=lambda row: (row.kind, row.dimension, row.criterion, -row.labels))


def list_changes(
    before: GoldRelease, after: GoldRelease, filters: Mapping[str, str], *, start: int, count: int
) -> list[LabelChange]:
    """A page of the changes, prompt by prompt."""
    if before.sha256 == after.sha256:
        return []
    return fetch_label_changes(before.pk, after.pk, filters, start=start, count=count)


def iterate_changes(
    before: GoldRelease, after: GoldRelease, filters: Mapping[str, str] | None = None
) -> Iterator[LabelChange]:
    """Every change, a chunk at a time."""
    if before.sha256 != after.sha256:
        yield from iterate_label_changes(before.pk, after.pk, filters or {})


HEADER = (
    "change",
    "dataset",
    "prompt_id",
    "dimension",
    "model",
    "criterion",
    *(f"{part}.{side}" for side in ("before", "after") for part in ("value", "source", "guideline_version")),
)


def iterate_csv_lines(changes: Iterable[LabelChange]) -> Iterator[str]:
    """A line for each change, under a header; no text starts a formula (``safe_cell``)."""
    line = csv_writer()
    yield line(HEADER)
    for change in changes:
        description = (
            change.kind,
            change.dataset,
            change.prompt,
            change.dimension,
            change.model,
            change.criterion,
        )
        yield line(
            [
                csv_cell(cell)
                for cell in (*description, *_list_cells(change.before), *_list_cells(change.after))
            ]
        )


def _list_cells(side: LabelSide | None) -> tuple[Any, ...]:
    return (None,) * 3 if side is None else (number(side.value), side.source, side.guideline_version)
