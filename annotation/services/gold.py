"""Cutting a gold release: one transaction that freezes the settled labels of chosen batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from django.db import transaction

from annotation.adjudication import ADJUDICATED
from annotation.errors import N_, AssayError, Conflict
from annotation.gold import LabelKey, number, release_sha256
from annotation.models import Batch, GoldRelease, Person, ReleasedLabel
from annotation.names import check_name
from annotation.selectors.gold import Candidate, candidates, refuse_sealed_gold
from annotation.services.audit import record
from annotation.version import code_version

CHUNK = 2000
NAMED = 10
"""How many contradictions an error names; the rest are counted."""


@transaction.atomic
def cut_release(*, name: str, batches: Sequence[Batch], actor: Person | None = None) -> GoldRelease:
    """Freeze the settled labels of the batches' work tasks, with everything behind them.

    A response that two tasks settled alike is taken once; settled differently, everything is refused.
    """
    if not batches:
        raise AssayError(N_("Name at least one batch."))
    if actor is not None:
        refuse_sealed_gold(actor, batches)
    release = _new_release(name, batches, actor)
    tally = Tally()
    sha256 = release_sha256(_freeze(release, _taken_once(candidates(batches)), tally))
    if not tally.labels:
        chosen = ", ".join(sorted(batch.name for batch in batches))
        raise Conflict(
            N_("Nothing is settled yet in {batches}; there is no gold to release."), batches=chosen
        )
    release.sha256, release.labels, release.adjudicated = sha256, tally.labels, tally.adjudicated
    release.manifest = _manifest(release, batches, tally)
    release.save()
    record(actor=actor, verb="release_gold", target=f"release:{name}", sha256=sha256, labels=tally.labels)
    return release


def _new_release(name: str, batches: Sequence[Batch], actor: Person | None) -> GoldRelease:
    release, created = GoldRelease.objects.get_or_create(
        name=check_name(name), defaults={"created_by": actor, "labels": 0, "adjudicated": 0}
    )
    if not created:
        raise Conflict(N_("There is already a gold release named {name}."), name=name)
    release.batches.set(batches)
    return release


def _taken_once(found: Iterable[Candidate]) -> Iterator[Candidate]:
    """One label for each thing that was labelled; ``found`` comes prompt by prompt."""
    contradictions: list[list[Candidate]] = []
    for _prompt, of_prompt in groupby(found, key=lambda one: (one.label.dataset, one.label.prompt)):
        by_key: dict[LabelKey, list[Candidate]] = {}
        for candidate in of_prompt:
            by_key.setdefault(candidate.label.key, []).append(candidate)
        for same in by_key.values():
            if len({candidate.label.value for candidate in same}) > 1:
                contradictions.append(same)
            elif not contradictions:
                yield min(same, key=lambda candidate: candidate.order)
    if contradictions:
        raise _contradicted(contradictions)


def _contradicted(contradictions: Sequence[Sequence[Candidate]]) -> Conflict:
    listed = "; ".join(_told(same) for same in contradictions[:NAMED])
    more = len(contradictions) - NAMED
    return Conflict(
        N_("{count} labels are settled in two ways; leave out one of their batches: {listed}"),
        count=len(contradictions),
        listed=listed + (f"; + {more}" if more > 0 else ""),
    )


def _told(same: Sequence[Candidate]) -> str:
    label = same[0].label
    values = ", ".join(f"{one.batch}: {number(one.label.value)}" for one in sorted(same, key=_place))
    return f"{label.dataset}/{label.prompt} {label.model} {label.criterion} ({values})"


def _place(candidate: Candidate) -> tuple[str, int]:
    return candidate.batch, candidate.position


def _freeze(release: GoldRelease, chosen: Iterable[Candidate], tally: Tally) -> Iterator[bytes]:
    """Write the released labels, chunk by chunk, and hand on their canonical lines."""
    rows: list[ReleasedLabel] = []
    for candidate in chosen:
        rows.append(_released(release, candidate))
        tally.count(candidate)
        if len(rows) == CHUNK:
            ReleasedLabel.objects.bulk_create(rows)
            rows = []
        yield candidate.label.line
    ReleasedLabel.objects.bulk_create(rows)


def _released(release: GoldRelease, candidate: Candidate) -> ReleasedLabel:
    return ReleasedLabel(
        release=release,
        gold_label_id=candidate.gold_label,
        task_id=candidate.task,
        criterion=candidate.label.criterion,
        value=candidate.label.value,
        source=candidate.label.source,
        adjudication_id=candidate.adjudication,
    )


@dataclass
class Tally:
    """What a release holds, counted while it is written."""

    labels: int = 0
    rows: int = 0
    adjudicated: int = 0
    datasets: set[str] = field(default_factory=set)
    by_dimension: Counter[str] = field(default_factory=Counter)
    by_model: Counter[str] = field(default_factory=Counter)
    by_source: Counter[str] = field(default_factory=Counter)
    by_level: dict[str, Counter[str]] = field(default_factory=dict)
    _prompt: tuple[str, str] | None = None
    _seen: set[tuple[str, ...]] = field(default_factory=set)

    def count(self, candidate: Candidate) -> None:
        label = candidate.label
        self.labels += 1
        self.adjudicated += label.source == ADJUDICATED
        self.datasets.add(label.dataset)
        self.by_dimension[candidate.dimension] += 1
        self.by_model[label.model] += 1
        self.by_source[label.source] += 1
        self.by_level.setdefault(label.criterion, Counter())[str(number(label.value))] += 1
        self._count_row(candidate)

    def _count_row(self, candidate: Candidate) -> None:
        """A row of the gold file is one response under one guideline version; labels come prompt by prompt."""
        label = candidate.label
        if self._prompt != (label.dataset, label.prompt):
            self._prompt, self._seen = (label.dataset, label.prompt), set()
        row = (label.guideline, label.version, label.model, label.response_sha256)
        self.rows += row not in self._seen
        self._seen.add(row)


def _manifest(release: GoldRelease, batches: Sequence[Batch], tally: Tally) -> dict[str, Any]:
    guidelines = {batch.guideline.pk: batch.guideline for batch in batches}
    return {
        "name": release.name,
        "sha256": release.sha256,
        "created": release.created_at.isoformat(timespec="seconds"),
        "code_version": code_version(),
        "batches": sorted(batch.name for batch in batches),
        "guidelines": sorted(
            ({"name": g.name, "version": g.version, "sha256": g.sha256} for g in guidelines.values()),
            key=lambda one: (one["name"], one["version"]),
        ),
        "datasets": sorted(tally.datasets),
        "counts": {
            "rows": tally.rows,
            "labels": tally.labels,
            "adjudicated": tally.adjudicated,
            "by_dimension": _sorted(tally.by_dimension),
            "by_model": _sorted(tally.by_model),
            "by_source": _sorted(tally.by_source),
            "by_level": {name: _sorted(tally.by_level[name]) for name in sorted(tally.by_level)},
        },
    }


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}
