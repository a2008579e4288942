"""The table of units that quality figures compare, and the cache of what this process computed from batches.

A result stays cached while the labels and the gold of its batches stay as they are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from django.db import connection

from annotation.domain.agreement.label_table import Units, find_places
from annotation.domain.guidelines import Criterion, GuidelineDocument
from annotation.domain.guidelines.values import strip_turn
from annotation.domain.quality.labels import group_kinds
from annotation.models import Batch, Stratum
from annotation.selectors.agreement.label_table import Gold, read_gold, read_marks, read_units

T = TypeVar("T")


class BatchCache(Generic[T]):
    """The last results of ``make``, by the database and by the marks of the batches; ``most`` in all by ``weight``."""

    def __init__(
        self, make: Callable[[Sequence[Batch]], T], *, most: int, weight: Callable[[T], int]
    ) -> None:
        self._make, self._most, self._weight = make, most, weight
        self._lock = threading.Lock()
        self._results: OrderedDict[Any, T] = OrderedDict()
        CACHES.append(self)

    def of(self, batches: Sequence[Batch]) -> T:
        """The marks are read before anything else: what comes in between makes the next look read again."""
        key = str(connection.settings_dict["NAME"]), read_marks(batches)
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = self._make(batches)
        with self._lock:
            self._results[key] = result
            while len(self._results) > 1 and sum(map(self._weight, self._results.values())) > self._most:
                self._results.popitem(last=False)
        return result

    def clear(self) -> None:
        with self._lock:
            self._results.clear()


CACHES: list[BatchCache[Any]] = []


def clear_caches() -> None:
    """Nothing is known any more; for tests, whose databases go back in time."""
    for shelf in CACHES:
        shelf.clear()


Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
# On fewer tasks than this, a kind of item counts with a wider one.
MIN_KIND_TASKS = 50
# So many units are kept by one process, about 100 bytes each.
MAX_CACHED_UNITS = 1_000_000


@dataclass(frozen=True)
class CriterionScale:
    """A criterion with its ordered ``values``: one for all versions of a guideline that ask it on the same values, and
    for all turns of which it is asked. Where several options can be chosen, the values are the options and the sets of
    them that somebody chose.

    ``lenient`` is 1 where the higher levels are those that the guideline's ranking metric counts in a model's favour,
    -1 where the lower ones are, and 0 where it does not tell.
    """

    guideline: str
    criterion: Criterion
    lenient: int
    values: tuple[float, ...]

    @property
    def ordered(self) -> bool:
        return self.criterion.measurement != "nominal"


@dataclass(frozen=True)
class Comparisons:
    """Of M pairs of labels on one unit, each seen from one of the two: rows of units, and whose places.

    ``place`` and ``other_place`` are places in the second axis of ``Units.person``.
    """

    unit: Ints
    place: Ints
    other_place: Ints

    def where(self, mask: Mask) -> Comparisons:
        return Comparisons(self.unit[mask], self.place[mask], self.other_place[mask])


@dataclass(frozen=True)
class ComparisonTable:
    """N units with R places. ``scale`` (N,) and ``dimension`` (N,) are places in ``scales`` and ``dimensions``; units
    of one ``kind`` (N,) are alike in what may make items easier or harder: batch, dataset, dimension and language, and,
    where there are enough of them, subcomponent and model.

    ``level`` (N, R) and ``gold_level`` (N,) are the places of the labels on their scales from 0, nan where there is
    none: a distance of 1 is one level, whatever the values are called.
    """

    units: Units
    gold: Gold
    scales: tuple[CriterionScale, ...]
    scale: Ints
    dimensions: tuple[str, ...]
    dimension: Ints
    kind: Ints
    level: Floats
    gold_level: Floats

    @cached_property
    def comparisons(self) -> Comparisons:
        parts = []
        has_label = ~np.isnan(self.units.label)
        for place, other_place in permutations(range(has_label.shape[1]), 2):
            unit = np.flatnonzero(has_label[:, place] & has_label[:, other_place])
            parts.append((unit, np.full(len(unit), place), np.full(len(unit), other_place)))
        if not parts:
            empty = np.zeros(0, dtype=np.int64)
            return Comparisons(empty, empty, empty)
        unit, first, other = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return Comparisons(unit, first, other)

    @cached_property
    def labels(self) -> tuple[Ints, Ints]:
        """Of each label its unit and its place."""
        unit, place = np.nonzero(~np.isnan(self.units.label))
        return unit, place

    def where(self, mask: Mask) -> ComparisonTable:
        return replace(
            self,
            units=self.units.where(mask),
            gold=Gold(self.gold.value[mask], self.gold.decided[mask]),
            scale=self.scale[mask],
            dimension=self.dimension[mask],
            kind=self.kind[mask],
            level=self.level[mask],
            gold_level=self.gold_level[mask],
        )


def build_comparison_table(batches: Sequence[Batch]) -> ComparisonTable:
    """Of the batches that are passed; their guidelines are read, so come with ``select_related("guideline")``."""
    return _CACHE.of(batches)


def _build_table(batches: Sequence[Batch]) -> ComparisonTable:
    units = read_units(batches)
    gold = read_gold(batches, units)
    strata = _read_strata(units)
    scales, scale, dimensions, dimension = _find_scales_and_dimensions(units, batches, strata)
    scales = tuple(
        _add_chosen_sets(criterion_scale, units.label[scale == place], gold.value[scale == place])
        for place, criterion_scale in enumerate(scales)
    )
    level, gold_level = np.full(units.label.shape, np.nan), np.full(len(units), np.nan)
    for place, criterion_scale in enumerate(scales):
        on_scale = scale == place
        level[on_scale] = _find_levels(units.label[on_scale], criterion_scale.values)
        gold_level[on_scale] = _find_levels(gold.value[on_scale], criterion_scale.values)
    kind = _find_kinds(units, strata)
    return ComparisonTable(units, gold, scales, scale, dimensions, dimension, kind, level, gold_level)


_CACHE = BatchCache(_build_table, most=MAX_CACHED_UNITS, weight=lambda table: len(table.units))


def _add_chosen_sets(scale: CriterionScale, *columns: npt.NDArray[np.float32]) -> CriterionScale:
    if not scale.criterion.several:
        return scale
    occurring = {float(value) for column in columns for value in np.unique(column[~np.isnan(column)])}
    return replace(scale, values=tuple(sorted({*scale.values, *occurring})))


def _find_levels(labels: npt.NDArray[np.float32], values: Sequence[float]) -> Floats:
    """Places among ``values``; nan for what is none of them."""
    places = find_places(labels, values)
    return np.where(places < 0, np.nan, places.astype(np.float64))


@dataclass(frozen=True)
class _Strata:
    """The strata that occur, in the order of their primary keys, and which of them each unit (N,) is of."""

    rows: Sequence[Stratum]
    of_unit: Ints

    def code(self, key: Callable[[Stratum], Any]) -> Ints:
        """(N,): a number for each unit, the same where the strata's keys are equal."""
        numbers: dict[Any, int] = {}
        codes = [numbers.setdefault(key(stratum), len(numbers)) for stratum in self.rows]
        return np.array(codes, dtype=np.int64)[self.of_unit]


def _read_strata(units: Units) -> _Strata:
    keys, of_unit = np.unique(units.stratum, return_inverse=True)
    rows = Stratum.objects.filter(pk__in=keys.tolist()).order_by("pk")
    return _Strata(list(rows), of_unit.astype(np.int64))


def _find_kinds(units: Units, strata: _Strata) -> Ints:
    if not len(units):
        return np.zeros(0, dtype=np.int64)
    columns = [
        strata.code(
            lambda stratum: (stratum.batch_id, stratum.dataset_id, stratum.dimension, stratum.language)
        ),
        units.subcomponent.astype(np.int64),
        strata.code(lambda stratum: stratum.model_id),
    ]
    return group_kinds(columns, units.task.astype(np.int64), MIN_KIND_TASKS)


def _find_scales_and_dimensions(
    units: Units, batches: Sequence[Batch], strata: _Strata
) -> tuple[tuple[CriterionScale, ...], Ints, tuple[str, ...], Ints]:
    """The scales and dimensions that occur, and for each unit which they are."""
    stratum = strata.of_unit
    names: dict[str, int] = {}
    of_stratum = [names.setdefault(row.dimension, len(names)) for row in strata.rows]
    kinds, kind = np.unique(
        stratum * max(len(units.criterion_names), 1) + units.criterion, return_inverse=True
    )
    by_batch = {batch.pk: batch for batch in batches}
    scales: dict[tuple[str, str, tuple[float, ...]], int] = {}
    distinct_scales: list[CriterionScale] = []
    of_kind = []
    for at, criterion in (divmod(int(kind), max(len(units.criterion_names), 1)) for kind in kinds):
        batch = by_batch[strata.rows[at].batch_id]
        scale = build_scale(batch, units.criterion_names[criterion])
        key = scale.guideline, scale.criterion.name, scale.criterion.values
        if scales.setdefault(key, len(distinct_scales)) == len(distinct_scales):
            distinct_scales.append(scale)
        of_kind.append(scales[key])
    return (
        tuple(distinct_scales),
        np.array(of_kind, dtype=np.int64)[kind] if of_kind else np.zeros(0, dtype=np.int64),
        tuple(names),
        np.array(of_stratum, dtype=np.int64)[stratum] if of_stratum else np.zeros(0, dtype=np.int64),
    )


def build_scale(batch: Batch, criterion: str) -> CriterionScale:
    document = batch.guideline.document
    declared = document.criterion(strip_turn(criterion))
    lenient = _find_lenient_end(document, declared) if declared.is_countable else 0
    return CriterionScale(batch.guideline.name, declared, lenient, declared.values)


def _find_lenient_end(document: GuidelineDocument, declared: Criterion) -> int:
    if not document.metrics:
        return 0
    ranked = document.metric(document.rank_by)
    if ranked.criteria is not None and declared.name not in ranked.criteria:
        return 0
    if ranked.kind == "mean":
        return 1 if ranked.multiplier > 0 else -1
    dimensions = [
        dimension_name for dimension_name in document.dimension_names if declared.applies_in(dimension_name)
    ]
    if not set(dimensions) <= set(document.dimensions_of(ranked)):
        return 0  # elsewhere the same level may be the wrong one
    ends = {_find_end(declared.values, set(ranked.levels_for(dimension))) for dimension in dimensions or [""]}
    return ends.pop() if len(ends) == 1 else 0


def _find_end(values: Sequence[float], counted: set[float]) -> int:
    """Which end of the scale the counted levels are: all of them at the top (1), at the bottom (-1), or neither."""
    size = len(counted)
    if not counted or size == len(values):
        return 0
    if counted == set(values[-size:]):
        return 1
    return -1 if counted == set(values[:size]) else 0
