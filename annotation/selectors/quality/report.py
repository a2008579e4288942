"""The quality of people's labels for machines, as ``people_quality --json`` prints it (docs/people.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from annotation.models import Batch, Person
from annotation.raters import Copying, Finding
from annotation.selectors.quality.adjudicators import Adjudicator, adjudicators_of
from annotation.selectors.quality.overview import Overview, Row, overview_of


def report(batches: Sequence[Batch]) -> dict[str, Any]:
    """Undefined figures are None."""
    overview = overview_of(batches)
    names = {one.pk: one.username for one in Person.objects.filter(pk__in=list(overview.rows))}
    rows = sorted(overview.rows.values(), key=lambda row: names[row.person])
    return {
        "batches": [batch.name for batch in batches],
        "tasks": overview.tasks,
        "people": [_person(overview, row, names) for row in rows],
        "copying": [_pair(one, names) for one in overview.copying],
        "adjudicators": [_adjudicator(one) for one in adjudicators_of(batches)],
    }


def _person(overview: Overview, row: Row, names: Mapping[int, str]) -> dict[str, Any]:
    profile = row.profile
    findings: dict[str, dict[str, Any] | None] = (
        {
            "random": _finding(profile.random),
            "severity": _finding(profile.severity),
            "drift": _drift(overview, profile.drift),
            "speed": _finding(profile.speed, pace=profile.pace),
        }
        if profile
        else dict.fromkeys(("random", "severity", "drift", "speed"))
    )
    copied = any(one.flagged and row.person in (one.one, one.other) for one in overview.copying)
    flags = [name for name, one in findings.items() if one and one["flagged"]]
    return {
        "person": names[row.person],
        "tasks": row.tasks,
        "gold": row.gold.to_json(),
        "partners": row.partners.to_json(),
        "median_seconds": row.median_seconds,
        **findings,
        "flags": [*flags, "copying"] if copied else flags,
    }


def _finding(one: Finding, **more: Any) -> dict[str, Any] | None:
    if one.value is None:
        return None
    return {
        "value": one.value,
        "low": one.low,
        "high": one.high,
        "n": one.n,
        "p": one.p,
        "kind": one.kind,
        "flagged": one.flagged,
        **more,
    }


def _drift(overview: Overview, one: Finding) -> dict[str, Any] | None:
    when = overview.when(one)
    return _finding(one, day=None if when is None else date.fromordinal(when).isoformat())


def _pair(one: Copying, names: Mapping[int, str]) -> dict[str, Any]:
    return {
        "people": sorted([names[one.one], names[one.other]]),
        "n": one.n,
        "observed": one.observed,
        "expected": one.expected,
        "p": one.p,
        "flagged": one.flagged,
    }


def _adjudicator(one: Adjudicator) -> dict[str, Any]:
    return {
        "person": one.person.username,
        "decisions": one.decisions,
        "alike_again": one.again.to_json(),
        "as_a": one.lean.rate.to_json(),
        "leans": one.lean.flagged,
        "as_no_annotator": one.apart.to_json(),
        "changed": one.changed.to_json(),
        "beside_annotators": {"value": one.shift, "low": one.shift_low, "high": one.shift_high},
        "median_seconds": one.median_seconds,
        "reasons": {key or "none": n for key, n in one.reasons.items()},
    }
