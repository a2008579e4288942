"""What stands out among the annotators of some batches: their figures, and what the corrected tests flag.

Kept by each process for as long as the labels and their gold stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
import numpy.typing as npt

from annotation import raters
from annotation.models import Batch
from annotation.raters import Copying, Finding, Labels, Profile, Profiles, profiles
from annotation.rates import Ints, Rate, rates
from annotation.selectors.quality.kept import Shelf
from annotation.selectors.quality.sheet import Scale, Sheet, sheet_of

# So many overviews are kept: small, and quick to make again.
MOST_KEPT = 32


@dataclass(frozen=True)
class Row:
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

    rows: Mapping[int, Row]
    copying: Sequence[Copying]
    first_day: int
    tasks: int
    lenient: int

    def when(self, finding: Finding) -> int | None:
        """The ordinal of the first day on which it was otherwise: a finding's lies between that and the last before."""
        return None if finding.day is None else self.first_day + math.ceil(finding.day)

    def usual(self, of: Callable[[Profile], float | None], *, but: int) -> float | None:
        """The median of everybody else's figure."""
        others = [of(row.profile) for row in self.rows.values() if row.profile and row.person != but]
        known = [value for value in others if value is not None]
        return median(known) if known else None


def overview_of(batches: Sequence[Batch]) -> Overview:
    """Of everybody who labelled in these batches, taken together."""
    return _SHELF.of(batches)


def _made(batches: Sequence[Batch]) -> Overview:
    return _overview(sheet_of(batches))


_SHELF = Shelf(_made, most=MOST_KEPT, weight=lambda _one: 1)


def _overview(sheet: Sheet) -> Overview:
    labels = labels_of(sheet)
    found = profiles(labels) if len(labels.person) else Profiles({}, ())
    first = int(sheet.units.day[sheet.units.person >= 0].min(initial=_LATEST)) if len(labels.person) else 0
    return Overview(
        rows=_rows(sheet, found),
        copying=found.copying,
        first_day=first,
        tasks=len(np.unique(sheet.units.task)),
        lenient=lenient_of(sheet.scales),
    )


def lenient_of(scales: Sequence[Scale]) -> int:
    ends = {one.lenient for one in scales if one.ordered}
    return ends.pop() if len(ends) == 1 else 0


_LATEST = 2**31 - 1


def labels_of(sheet: Sheet) -> Labels:
    """A row for each label, its value the level; days are counted from the first one, and a task's seconds stand with
    its first unit.
    """
    units = sheet.units
    unit, place = sheet.labels
    on_scale = ~np.isnan(sheet.level[unit, place])
    unit, place = unit[on_scale], place[on_scale]
    day = units.day[unit, place].astype(np.float64)
    _tasks, first = np.unique(units.task, return_index=True)
    once = np.zeros(len(units), dtype=bool)
    once[first] = True
    return Labels(
        person=units.person[unit, place].astype(np.int64),
        unit=unit,
        value=sheet.level[unit, place],
        scale=sheet.scale[unit],
        day=day - day.min(initial=np.inf) if len(day) else day,
        seconds=np.where(once[unit], units.seconds[unit, place], np.nan).astype(np.float64),
        gold=sheet.gold_level[unit],
        adjudicated=sheet.gold.decided[unit],
        scales={
            at: raters.Scale(tuple(map(float, range(len(one.criterion.values)))), one.criterion.measurement)
            for at, one in enumerate(sheet.scales)
        },
        task=units.task[unit].astype(np.int64),
    )


def _rows(sheet: Sheet, found: Profiles) -> dict[int, Row]:
    units, (unit, place) = sheet.units, sheet.labels
    whose = units.person[unit, place]
    people, group = np.unique(whose, return_inverse=True)
    if not len(people):
        return {}
    gold = _gold(sheet, unit, place, group, len(people))
    partners = _partners(sheet, people)
    mine, tasks = np.unique(group.astype(np.int64) * _SPAN + units.task[unit], return_index=True)
    per_person = np.bincount(mine // _SPAN, minlength=len(people))
    medians = _medians(units.seconds[unit, place][tasks], mine // _SPAN, len(people))
    return {
        int(person): Row(
            person=int(person),
            tasks=int(per_person[at]),
            gold=gold[at],
            partners=partners[at],
            median_seconds=medians[at],
            profile=found.people.get(int(person)),
        )
        for at, person in enumerate(people)
    }


_SPAN = 2**32  # beyond any primary key


def _gold(sheet: Sheet, unit: Ints, place: Ints, group: Ints, people: int) -> Sequence[Rate]:
    value = sheet.gold.value[unit]
    known = ~np.isnan(value)
    equal = sheet.units.label[unit, place][known] == value[known]
    return rates(equal, group[known], sheet.units.task[unit][known], groups=people)


def _partners(sheet: Sheet, people: npt.NDArray[np.int32]) -> Sequence[Rate]:
    seen, label = sheet.comparisons, sheet.units.label
    equal = label[seen.unit, seen.one] == label[seen.unit, seen.other]
    group = np.searchsorted(people, sheet.units.person[seen.unit, seen.one])
    return rates(equal, group, sheet.units.task[seen.unit], groups=len(people))


def _medians(seconds: npt.NDArray[np.float32], group: Ints, people: int) -> list[float | None]:
    """Of each person's tasks whose time is known."""
    known = ~np.isnan(seconds)
    order = np.argsort(group[known], kind="stable")
    ends = np.searchsorted(group[known][order], np.arange(people + 1))
    values = seconds[known][order]
    return [float(np.median(values[a:b])) if b > a else None for a, b in pairwise(ends)]
