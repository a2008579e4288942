"""One person's part in some batches: where they agree and where not, with whom, when, and how fast they work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from annotation.core.proportions import Floats, Ints, Rate, Z, rates
from annotation.selectors.quality.comparisons import Comparisons, Scale, Sheet

GOLD, PARTNERS = "gold", "partners"
# Days on either side of a day that its figure in the chart is of.
AROUND = 2


@dataclass(frozen=True)
class Beside:
    """Agreement in one dimension (or with one partner), over so many tasks."""

    name: str
    tasks: int
    gold: Rate
    partners: Rate


@dataclass(frozen=True)
class Table:
    """``counts[i][j]``: how often the other one (gold, or a partner) said level i of the scale, and the person j."""

    scale: Scale
    against: str
    counts: tuple[tuple[int, ...], ...]

    @property
    def n(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def apart(self) -> int:
        return self.n - sum(row[place] for place, row in enumerate(self.counts))


@dataclass(frozen=True)
class Shift:
    """How many levels the person is above (or, negative, below) the partners on one criterion: the mean over tasks."""

    scale: Scale
    n: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Partner:
    person: int
    tasks: int
    rate: Rate


@dataclass(frozen=True)
class Day:
    """``alone``: of the day by its ordinal; ``around``: of it and ``AROUND`` days of work before and after it."""

    day: int
    alone: Rate
    around: Rate


@dataclass(frozen=True)
class Times:
    """``seconds`` (T,) are those of the person's tasks, as far as known, ``median`` their middle; ``others`` is the
    middle of the partners' on the same tasks.
    """

    seconds: Floats
    median: float | None
    others: float | None


@dataclass(frozen=True)
class Part:
    """One person in some batches; ``tasks`` have all their labels."""

    person: int
    tasks: int
    gold: Rate
    partners: Rate
    dimensions: tuple[Beside, ...]
    tables: tuple[Table, ...]
    shifts: tuple[Shift, ...]
    with_whom: tuple[Partner, ...]
    days: tuple[Day, ...]
    times: Times


def part_of(sheet: Sheet, person: int) -> Part:
    """Empty where the person has no task with all its labels."""
    sheet = sheet.where((sheet.units.person == person).any(axis=1)) if len(sheet.units) else sheet
    mine = _mine(sheet, person)
    seen = sheet.comparisons
    seen = seen.where(sheet.units.person[seen.unit, seen.one] == person)
    gold = _rates_with_gold(sheet, mine, np.zeros(len(mine), dtype=np.int64), 1)[0]
    partners = _rates_with_partners(sheet, seen, np.zeros(len(seen.unit), dtype=np.int64), 1)[0]
    return Part(
        person=person,
        tasks=len(np.unique(sheet.units.task)),
        gold=gold,
        partners=partners,
        dimensions=_by_dimension(sheet, mine, seen),
        tables=(*_beside_gold(sheet, mine), *_beside_partners(sheet, seen)),
        shifts=_shifts(sheet, mine, person),
        with_whom=_with_whom(sheet, seen),
        days=_days(sheet, seen),
        times=_times(sheet, person),
    )


def _mine(sheet: Sheet, person: int) -> Ints:
    """(N,): the person's place in each unit."""
    places: Ints = np.argmax(sheet.units.person == person, axis=1).astype(np.int64)
    return places


def _own(mine: Ints, values: npt.NDArray[np.floating]) -> Floats:
    found: Floats = values[np.arange(len(mine)), mine].astype(np.float64)
    return found


def _rates_with_gold(sheet: Sheet, mine: Ints, group: Ints, groups: int) -> Sequence[Rate]:
    label = _own(mine, sheet.units.label)
    known = ~np.isnan(sheet.gold.value)
    equal = label[known] == sheet.gold.value[known]
    return rates(equal, group[known], sheet.units.task[known], groups=groups)


def _rates_with_partners(sheet: Sheet, seen: Comparisons, group: Ints, groups: int) -> Sequence[Rate]:
    label = sheet.units.label
    equal = label[seen.unit, seen.one] == label[seen.unit, seen.other]
    return rates(equal, group, sheet.units.task[seen.unit], groups=groups)


def _by_dimension(sheet: Sheet, mine: Ints, seen: Comparisons) -> tuple[Beside, ...]:
    groups = len(sheet.dimensions)
    gold = _rates_with_gold(sheet, mine, sheet.dimension, groups)
    partners = _rates_with_partners(sheet, seen, sheet.dimension[seen.unit], groups)
    tasks = [len(np.unique(sheet.units.task[sheet.dimension == place])) for place in range(groups)]
    found = [Beside(*row) for row in zip(sheet.dimensions, tasks, gold, partners, strict=True)]
    return tuple(sorted((one for one in found if one.tasks), key=lambda one: one.name))


def _beside_gold(sheet: Sheet, mine: Ints) -> list[Table]:
    return _tables(sheet, GOLD, sheet.scale, sheet.gold_level, _own(mine, sheet.level))


def _beside_partners(sheet: Sheet, seen: Comparisons) -> list[Table]:
    level = sheet.level
    theirs, mine = level[seen.unit, seen.other], level[seen.unit, seen.one]
    return _tables(sheet, PARTNERS, sheet.scale[seen.unit], theirs, mine)


def _tables(sheet: Sheet, against: str, scale: Ints, other: Floats, own: Floats) -> list[Table]:
    both = ~(np.isnan(other) | np.isnan(own))
    found = []
    for place, one in enumerate(sheet.scales):
        at = both & (scale == place)
        if at.any():
            size = len(one.criterion.values)
            cells = (other[at] * size + own[at]).astype(np.int64)
            counts = np.bincount(cells, minlength=size * size).reshape(size, size)
            found.append(Table(one, against, tuple(tuple(map(int, row)) for row in counts)))
    return found


def _shifts(sheet: Sheet, mine: Ints, person: int) -> tuple[Shift, ...]:
    """The mean distance to the mean of the partners' labels on the unit, with its normal 95% interval."""
    theirs = np.where(sheet.units.person == person, np.nan, sheet.level)
    many = (~np.isnan(theirs)).sum(axis=1)
    mean = np.divide(np.nansum(theirs, axis=1), many, out=np.full(len(many), np.nan), where=many > 0)
    apart = _own(mine, sheet.level) - mean
    found = []
    for place, scale in enumerate(sheet.scales):
        these = apart[(sheet.scale == place) & ~np.isnan(apart)]
        if len(these) and scale.ordered:
            found.append(_shift(scale, these))
    return tuple(found)


def _shift(scale: Scale, apart: Floats) -> Shift:
    n, value = len(apart), float(apart.mean())
    if n < 2:
        return Shift(scale, n, value, None, None)
    half = Z * float(apart.std(ddof=1)) / n**0.5
    return Shift(scale, n, value, value - half, value + half)


def _with_whom(sheet: Sheet, seen: Comparisons) -> tuple[Partner, ...]:
    other = sheet.units.person[seen.unit, seen.other]
    people, group = np.unique(other, return_inverse=True)
    shares = _rates_with_partners(sheet, seen, group.astype(np.int64), len(people))
    task = sheet.units.task[seen.unit]
    tasks = [len(np.unique(task[group == place])) for place in range(len(people))]
    found = [Partner(*row) for row in zip(map(int, people), tasks, shares, strict=True)]
    return tuple(sorted(found, key=lambda one: -one.tasks))


def _days(sheet: Sheet, seen: Comparisons) -> tuple[Day, ...]:
    day = sheet.units.day[seen.unit, seen.one]
    days, group = np.unique(day, return_inverse=True)
    alone = _rates_with_partners(sheet, seen, group.astype(np.int64), len(days))
    around = [
        _rates_with_partners(sheet, near, np.zeros(len(near.unit), dtype=np.int64), 1)[0]
        for near in (seen.where(np.abs(group - place) <= AROUND) for place in range(len(days)))
    ]
    return tuple(Day(*row) for row in zip(map(int, days), alone, around, strict=True))


def _times(sheet: Sheet, person: int) -> Times:
    """Each task once: its seconds stand with each of its criteria."""
    _tasks, first = np.unique(sheet.units.task, return_index=True)
    whose, seconds = sheet.units.person[first], sheet.units.seconds[first].astype(np.float64)
    known = ~np.isnan(seconds)
    own, others = seconds[known & (whose == person)], seconds[known & (whose != person) & (whose >= 0)]
    return Times(own, _middle(own), _middle(others))


def _middle(seconds: Floats) -> float | None:
    return float(np.median(seconds)) if len(seconds) else None
