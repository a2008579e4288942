"""One person's labels in some batches: agreement by dimension, partner and day, shifts in level, and time taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from annotation.core.proportions import Floats, Ints, Rate, Z, measure_rates
from annotation.selectors.quality.comparisons import Comparisons, ComparisonTable, CriterionScale

GOLD, PARTNERS = "gold", "partners"
# Days on either side of a day that its figure in the chart is of.
DAYS_AROUND = 2


@dataclass(frozen=True)
class DimensionAgreement:
    """Agreement in one dimension (or with one partner), over so many tasks."""

    name: str
    tasks: int
    gold: Rate
    partners: Rate


@dataclass(frozen=True)
class LevelTable:
    """``counts[i][j]``: how often gold, or a partner, has level i of the scale and the person level j."""

    scale: CriterionScale
    against: str
    counts: tuple[tuple[int, ...], ...]

    @property
    def n(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def n_differing(self) -> int:
        return self.n - sum(row[place] for place, row in enumerate(self.counts))


@dataclass(frozen=True)
class Shift:
    """How many levels the person is above (or, negative, below) the partners on one criterion: the mean over tasks."""

    scale: CriterionScale
    n: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class PartnerAgreement:
    person: int
    tasks: int
    rate: Rate


@dataclass(frozen=True)
class AgreementDay:
    """``rate``: of the day by its ordinal; ``window_rate``: of it and ``AROUND`` days of work before and after it."""

    day: int
    rate: Rate
    window_rate: Rate


@dataclass(frozen=True)
class AnnotationTimes:
    """``seconds`` (T,) are those of the person's tasks, as far as known, ``median`` their middle; ``partner_median`` is
    that of the partners on the same tasks.
    """

    seconds: Floats
    median: float | None
    partner_median: float | None


@dataclass(frozen=True)
class AnnotatorQuality:
    """One person in some batches; ``tasks`` have all their labels."""

    person: int
    tasks: int
    gold: Rate
    partners: Rate
    dimensions: tuple[DimensionAgreement, ...]
    tables: tuple[LevelTable, ...]
    shifts: tuple[Shift, ...]
    by_partner: tuple[PartnerAgreement, ...]
    days: tuple[AgreementDay, ...]
    times: AnnotationTimes


def measure_annotator(sheet: ComparisonTable, person: int) -> AnnotatorQuality:
    """Empty where the person has no task with all its labels."""
    sheet = sheet.where((sheet.units.person == person).any(axis=1)) if len(sheet.units) else sheet
    own_places = _find_own_places(sheet, person)
    pairs = sheet.comparisons
    pairs = pairs.where(sheet.units.person[pairs.unit, pairs.place] == person)
    gold = _rates_with_gold(sheet, own_places, np.zeros(len(own_places), dtype=np.int64), 1)[0]
    partners = _rates_with_partners(sheet, pairs, np.zeros(len(pairs.unit), dtype=np.int64), 1)[0]
    return AnnotatorQuality(
        person=person,
        tasks=len(np.unique(sheet.units.task)),
        gold=gold,
        partners=partners,
        dimensions=_measure_dimensions(sheet, own_places, pairs),
        tables=(*_compare_with_gold(sheet, own_places), *_compare_with_partners(sheet, pairs)),
        shifts=_measure_shifts(sheet, own_places, person),
        by_partner=_measure_partners(sheet, pairs),
        days=_measure_days(sheet, pairs),
        times=_measure_times(sheet, person),
    )


def _find_own_places(sheet: ComparisonTable, person: int) -> Ints:
    """(N,): the person's place in each unit."""
    if not len(sheet.units):  # then there are no places among which the person's is
        return np.zeros(0, dtype=np.int64)
    places: Ints = np.argmax(sheet.units.person == person, axis=1).astype(np.int64)
    return places


def _take_own_values(own_places: Ints, values: npt.NDArray[np.floating]) -> Floats:
    own_values: Floats = values[np.arange(len(own_places)), own_places].astype(np.float64)
    return own_values


def _rates_with_gold(sheet: ComparisonTable, own_places: Ints, group: Ints, groups: int) -> Sequence[Rate]:
    label = _take_own_values(own_places, sheet.units.label)
    has_gold = ~np.isnan(sheet.gold.value) & sheet.units.differ  # where all agree gold is their own label
    equal = label[has_gold] == sheet.gold.value[has_gold]
    return measure_rates(equal, group[has_gold], sheet.units.task[has_gold], groups=groups)


def _rates_with_partners(
    sheet: ComparisonTable, pairs: Comparisons, group: Ints, groups: int
) -> Sequence[Rate]:
    label = sheet.units.label
    equal = label[pairs.unit, pairs.place] == label[pairs.unit, pairs.other_place]
    return measure_rates(equal, group, sheet.units.task[pairs.unit], groups=groups)


def _measure_dimensions(
    sheet: ComparisonTable, own_places: Ints, pairs: Comparisons
) -> tuple[DimensionAgreement, ...]:
    groups = len(sheet.dimensions)
    gold = _rates_with_gold(sheet, own_places, sheet.dimension, groups)
    partners = _rates_with_partners(sheet, pairs, sheet.dimension[pairs.unit], groups)
    tasks = [len(np.unique(sheet.units.task[sheet.dimension == place])) for place in range(groups)]
    rows = [DimensionAgreement(*row) for row in zip(sheet.dimensions, tasks, gold, partners, strict=True)]
    return tuple(
        sorted((dimension for dimension in rows if dimension.tasks), key=lambda dimension: dimension.name)
    )


def _compare_with_gold(sheet: ComparisonTable, own_places: Ints) -> list[LevelTable]:
    return _count_levels(
        sheet, GOLD, sheet.scale, sheet.gold_level, _take_own_values(own_places, sheet.level)
    )


def _compare_with_partners(sheet: ComparisonTable, pairs: Comparisons) -> list[LevelTable]:
    level = sheet.level
    partner_level, own_level = level[pairs.unit, pairs.other_place], level[pairs.unit, pairs.place]
    return _count_levels(sheet, PARTNERS, sheet.scale[pairs.unit], partner_level, own_level)


def _count_levels(
    sheet: ComparisonTable, against: str, scale: Ints, other: Floats, own: Floats
) -> list[LevelTable]:
    has_both = ~(np.isnan(other) | np.isnan(own))
    tables = []
    for place, criterion_scale in enumerate(sheet.scales):
        chosen_units = has_both & (scale == place)
        if chosen_units.any():
            size = len(criterion_scale.values)
            cells = (other[chosen_units] * size + own[chosen_units]).astype(np.int64)
            counts = np.bincount(cells, minlength=size * size).reshape(size, size)
            tables.append(LevelTable(criterion_scale, against, tuple(tuple(map(int, row)) for row in counts)))
    return tables


def _measure_shifts(sheet: ComparisonTable, own_places: Ints, person: int) -> tuple[Shift, ...]:
    """The mean distance to the mean of the partners' labels on the unit, with its normal 95% interval."""
    partner_level = np.where(sheet.units.person == person, np.nan, sheet.level)
    n_partners = (~np.isnan(partner_level)).sum(axis=1)
    mean = np.divide(
        np.nansum(partner_level, axis=1),
        n_partners,
        out=np.full(len(n_partners), np.nan),
        where=n_partners > 0,
    )
    distance = _take_own_values(own_places, sheet.level) - mean
    shifts = []
    for place, scale in enumerate(sheet.scales):
        distances = distance[(sheet.scale == place) & ~np.isnan(distance)]
        if len(distances) and scale.ordered:
            shifts.append(_measure_shift(scale, distances))
    return tuple(shifts)


def _measure_shift(scale: CriterionScale, distances: Floats) -> Shift:
    n, value = len(distances), float(distances.mean())
    if n < 2:
        return Shift(scale, n, value, None, None)
    half = Z * float(distances.std(ddof=1)) / n**0.5
    return Shift(scale, n, value, value - half, value + half)


def _measure_partners(sheet: ComparisonTable, pairs: Comparisons) -> tuple[PartnerAgreement, ...]:
    other = sheet.units.person[pairs.unit, pairs.other_place]
    people, group = np.unique(other, return_inverse=True)
    shares = _rates_with_partners(sheet, pairs, group.astype(np.int64), len(people))
    task = sheet.units.task[pairs.unit]
    tasks = [len(np.unique(task[group == place])) for place in range(len(people))]
    partners = [PartnerAgreement(*row) for row in zip(map(int, people), tasks, shares, strict=True)]
    return tuple(sorted(partners, key=lambda partner: -partner.tasks))


def _measure_days(sheet: ComparisonTable, pairs: Comparisons) -> tuple[AgreementDay, ...]:
    day = sheet.units.day[pairs.unit, pairs.place]
    days, group = np.unique(day, return_inverse=True)
    day_rates = _rates_with_partners(sheet, pairs, group.astype(np.int64), len(days))
    window_rates = [
        _rates_with_partners(sheet, nearby_pairs, np.zeros(len(nearby_pairs.unit), dtype=np.int64), 1)[0]
        for nearby_pairs in (pairs.where(np.abs(group - place) <= DAYS_AROUND) for place in range(len(days)))
    ]
    return tuple(AgreementDay(*row) for row in zip(map(int, days), day_rates, window_rates, strict=True))


def _measure_times(sheet: ComparisonTable, person: int) -> AnnotationTimes:
    """Each task once: its seconds stand with each of its criteria."""
    _tasks, first = np.unique(sheet.units.task, return_index=True)
    person_of, seconds = sheet.units.person[first], sheet.units.seconds[first].astype(np.float64)
    is_known = ~np.isnan(seconds)
    own_seconds, partner_seconds = (
        seconds[is_known & (person_of == person)],
        seconds[is_known & (person_of != person) & (person_of >= 0)],
    )
    return AnnotationTimes(own_seconds, _find_median(own_seconds), _find_median(partner_seconds))


def _find_median(seconds: Floats) -> float | None:
    return float(np.median(seconds)) if len(seconds) else None
