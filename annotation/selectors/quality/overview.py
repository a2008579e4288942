"""The figures of all annotators of some batches, with what the corrected tests flag.

Each process caches an overview while the labels and their gold stay as they are. ``people_quality --json`` prints it
with the adjudicators' figures (docs/quality.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db.models.functions import Left

from annotation.core.proportions import Ints, Rate, measure_rates
from annotation.domain import quality
from annotation.domain.quality import Copying, Finding, Labels, Profile, Profiles, build_profiles
from annotation.domain.quality.findings import TYPE_WITH_TIME
from annotation.domain.quality.labels import Floats
from annotation.models import Batch, Person, Task
from annotation.selectors.quality.adjudicators import Adjudicator, list_adjudicators
from annotation.selectors.quality.comparisons import (
    BatchCache,
    ComparisonTable,
    CriterionScale,
    build_comparison_table,
)

# So many overviews are kept: small, and quick to make again.
MAX_CACHED = 32


@dataclass(frozen=True)
class AnnotatorRow:
    """One annotator. ``profile`` is None where they have no task with all its labels."""

    person: int
    tasks: int
    gold: Rate
    partners: Rate
    median_seconds: float | None
    profile: Profile | None


@dataclass(frozen=True)
class Overview:
    """``copying`` has every pair that shares enough units, the worst first. ``first_day`` is the ordinal of the day
    from which the profiles count theirs. ``tasks`` have all their labels; so many there are. ``lenient`` is as of
    ``Scale``, where all ordered scales are alike in it, else 0.
    """

    rows: Mapping[int, AnnotatorRow]
    copying: Sequence[Copying]
    first_day: int
    tasks: int
    lenient: int

    def find_day(self, finding: Finding) -> int | None:
        """The ordinal of the first day on which it was otherwise: a finding's lies between that and the last before."""
        return None if finding.day is None else self.first_day + math.ceil(finding.day)

    @property
    def n_undetermined(self) -> int:
        """Of how many people drift cannot be told from a change of the items."""
        profiles = [row.profile for row in self.rows.values() if row.profile]
        return sum(profile.drift.reason == TYPE_WITH_TIME for profile in profiles)

    def find_usual(self, of: Callable[[Profile], float | None], *, but: int) -> float | None:
        """The median of everybody else's figure."""
        values = [of(row.profile) for row in self.rows.values() if row.profile and row.person != but]
        known = [value for value in values if value is not None]
        return median(known) if known else None


def get_overview(batches: Sequence[Batch]) -> Overview:
    """Of everybody who labelled in these batches, taken together."""
    return _CACHE.of(batches)


def _build_overview(batches: Sequence[Batch]) -> Overview:
    return _summarize_table(build_comparison_table(batches))


_CACHE = BatchCache(_build_overview, most=MAX_CACHED, weight=lambda _overview: 1)


def _summarize_table(sheet: ComparisonTable) -> Overview:
    labels = flatten_labels(sheet)
    profiled = build_profiles(labels) if len(labels.person) else Profiles({}, ())
    first = int(sheet.units.day[sheet.units.person >= 0].min(initial=_LATEST)) if len(labels.person) else 0
    return Overview(
        rows=_build_rows(sheet, profiled),
        copying=profiled.copying,
        first_day=first,
        tasks=len(np.unique(sheet.units.task)),
        lenient=find_lenient_end(sheet.scales),
    )


def find_lenient_end(scales: Sequence[CriterionScale]) -> int:
    ends = {scale.lenient for scale in scales if scale.ordered}
    return ends.pop() if len(ends) == 1 else 0


_LATEST = 2**31 - 1


def read_floors(tasks: Ints) -> Floats:
    """(N,): the seconds in which nobody can have read the response of each task; of a dialogue as of a long text."""
    kinds, place = np.unique(tasks, return_inverse=True)
    floors: dict[int, float] = {}
    for start in range(0, len(kinds), 500):
        rows = Task.objects.filter(pk__in=kinds[start : start + 500].tolist())
        texts = rows.values_list("pk", Left("response__text", quality.MAX_READ), "response__turns")
        for pk, text, turns in texts:
            floors[pk] = quality.measure_reading_floor(
                "".join(turn["text"] for turn in turns) if turns else text
            )
    of_tasks: Floats = np.array([floors.get(int(pk), 0.0) for pk in kinds], dtype=np.float64)[place]
    return of_tasks


def flatten_labels(sheet: ComparisonTable) -> Labels:
    """A row for each label, its value the level; days are counted from the first one, and a task's seconds stand with
    its first unit.
    """
    units = sheet.units
    unit, place = sheet.labels
    on_scale = ~np.isnan(sheet.level[unit, place])
    unit, place = unit[on_scale], place[on_scale]
    day = units.day[unit, place].astype(np.float64)
    _tasks, first = np.unique(units.task, return_index=True)
    is_first_unit = np.zeros(len(units), dtype=bool)
    is_first_unit[first] = True
    return Labels(
        person=units.person[unit, place].astype(np.int64),
        unit=unit,
        value=sheet.level[unit, place],
        scale=sheet.scale[unit],
        day=day - day.min(initial=np.inf) if len(day) else day,
        seconds=np.where(is_first_unit[unit], units.seconds[unit, place], np.nan).astype(np.float64),
        gold=sheet.gold_level[unit],
        adjudicated=sheet.gold.decided[unit],
        scales={
            at: quality.LabelScale(tuple(map(float, range(len(scale.values)))), scale.criterion.measurement)
            for at, scale in enumerate(sheet.scales)
        },
        task=units.task[unit].astype(np.int64),
        kind=sheet.kind[unit],
        floor=read_floors(units.task[unit].astype(np.int64)),
    )


def _build_rows(sheet: ComparisonTable, profiled: Profiles) -> dict[int, AnnotatorRow]:
    units, (unit, place) = sheet.units, sheet.labels
    person_of = units.person[unit, place]
    people, group = np.unique(person_of, return_inverse=True)
    if not len(people):
        return {}
    gold = _measure_gold(sheet, unit, place, group, len(people))
    partners = _measure_partners(sheet, people)
    person_tasks, tasks = np.unique(group.astype(np.int64) * _SPAN + units.task[unit], return_index=True)
    per_person = np.bincount(person_tasks // _SPAN, minlength=len(people))
    medians = _find_medians(units.seconds[unit, place][tasks], person_tasks // _SPAN, len(people))
    return {
        int(person): AnnotatorRow(
            person=int(person),
            tasks=int(per_person[index]),
            gold=gold[index],
            partners=partners[index],
            median_seconds=medians[index],
            profile=profiled.people.get(int(person)),
        )
        for index, person in enumerate(people)
    }


_SPAN = 2**32  # beyond any primary key


def _measure_gold(
    sheet: ComparisonTable, unit: Ints, place: Ints, group: Ints, people: int
) -> Sequence[Rate]:
    value = sheet.gold.value[unit]
    known = ~np.isnan(value) & sheet.units.differ[unit]  # where all agree gold is their own label
    equal = sheet.units.label[unit, place][known] == value[known]
    return measure_rates(equal, group[known], sheet.units.task[unit][known], groups=people)


def _measure_partners(sheet: ComparisonTable, people: npt.NDArray[np.int32]) -> Sequence[Rate]:
    pairs, label = sheet.comparisons, sheet.units.label
    equal = label[pairs.unit, pairs.place] == label[pairs.unit, pairs.other_place]
    group = np.searchsorted(people, sheet.units.person[pairs.unit, pairs.place])
    return measure_rates(equal, group, sheet.units.task[pairs.unit], groups=len(people))


def _find_medians(seconds: npt.NDArray[np.float32], group: Ints, people: int) -> list[float | None]:
    """Of each person's tasks whose time is known."""
    known = ~np.isnan(seconds)
    order = np.argsort(group[known], kind="stable")
    ends = np.searchsorted(group[known][order], np.arange(people + 1))
    values = seconds[known][order]
    return [float(np.median(values[a:b])) if b > a else None for a, b in pairwise(ends)]


def build_quality_report(batches: Sequence[Batch]) -> dict[str, Any]:
    """Undefined figures are None."""
    overview = get_overview(batches)
    names = {person.pk: person.username for person in Person.objects.filter(pk__in=list(overview.rows))}
    rows = sorted(overview.rows.values(), key=lambda row: names[row.person])
    return {
        "batches": [batch.name for batch in batches],
        "tasks": overview.tasks,
        "people": [_person_to_json(overview, row, names) for row in rows],
        "copying": [_copying_to_json(copying, names) for copying in overview.copying],
        "adjudicators": [_adjudicator_to_json(adjudicator) for adjudicator in list_adjudicators(batches)],
    }


def _person_to_json(overview: Overview, row: AnnotatorRow, names: Mapping[int, str]) -> dict[str, Any]:
    profile = row.profile
    findings: dict[str, dict[str, Any] | None] = (
        {
            "random": _finding_to_json(profile.random),
            "severity": _finding_to_json(profile.severity),
            "drift": _drift_to_json(overview, profile.drift),
            "speed": _finding_to_json(profile.speed, pace=profile.pace),
        }
        if profile
        else dict.fromkeys(("random", "severity", "drift", "speed"))
    )
    copied = any(
        copying.flagged and row.person in (copying.first, copying.second) for copying in overview.copying
    )
    flags = [name for name, finding in findings.items() if finding and finding["flagged"]]
    return {
        "person": names[row.person],
        "tasks": row.tasks,
        "gold": row.gold.to_json(),
        "partners": row.partners.to_json(),
        "median_seconds": row.median_seconds,
        **findings,
        "flags": [*flags, "copying"] if copied else flags,
    }


def _finding_to_json(finding: Finding, **more: Any) -> dict[str, Any] | None:
    if finding.value is None:
        return None
    return {
        "value": finding.value,
        "low": finding.low,
        "high": finding.high,
        "n": finding.n,
        "p": finding.p,
        "kind": finding.kind,
        "flagged": finding.flagged,
        **more,
    }


def _drift_to_json(overview: Overview, finding: Finding) -> dict[str, Any] | None:
    day = overview.find_day(finding)
    return _finding_to_json(finding, day=None if day is None else date.fromordinal(day).isoformat())


def _copying_to_json(copying: Copying, names: Mapping[int, str]) -> dict[str, Any]:
    return {
        "people": sorted([names[copying.first], names[copying.second]]),
        "n": copying.n,
        "observed": copying.observed,
        "expected": copying.expected,
        "p": copying.p,
        "flagged": copying.flagged,
    }


def _adjudicator_to_json(adjudicator: Adjudicator) -> dict[str, Any]:
    return {
        "person": adjudicator.person.username,
        "decisions": adjudicator.decisions,
        "alike_again": adjudicator.consistency.to_json(),
        "as_a": adjudicator.lean.rate.to_json(),
        "leans": adjudicator.lean.flagged,
        "as_no_annotator": adjudicator.neither_rate.to_json(),
        "changed": adjudicator.changed.to_json(),
        "beside_annotators": {
            "value": adjudicator.shift,
            "low": adjudicator.shift_low,
            "high": adjudicator.shift_high,
        },
        "median_seconds": adjudicator.median_seconds,
        "reasons": {key or "none": n for key, n in adjudicator.reasons.items()},
    }
