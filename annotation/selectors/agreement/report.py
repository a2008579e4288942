"""The rows of the agreement report: counted by columns, measured on counts, and kept by what was counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from annotation.domain.agreement import (
    Agreement,
    Measurement,
    Pattern,
    Statistic,
    Value,
    measure_agreement,
    pool,
)
from annotation.domain.agreement.disagreement import count_pairs, count_patterns, cross_groupings
from annotation.domain.guidelines import Criterion
from annotation.models import Batch, Guideline
from annotation.selectors.agreement.groupings import EVERYTHING, Group, Grouping, Narrowing
from annotation.selectors.agreement.labels import ComparableLabels

# So many measured sets of counts are kept by one process, about 3 kB each.
MAX_MEASURED = 20_000


@dataclass(frozen=True)
class ReportRow:
    """The agreement of one criterion (None: several pooled) of one guideline in one group ({}: all)."""

    guideline: str
    criterion: str | None
    group: Group
    measurement: Measurement
    agreement: Agreement

    def to_json(self) -> dict[str, Any]:
        statistics = {
            name: _statistic_to_json(statistic) for name, statistic in self.agreement.statistics.items()
        }
        return {
            "guideline": self.guideline,
            "criterion": self.criterion,
            "group": dict(self.group),
            "n": self.agreement.n,
            "disputed": self.agreement.disputed,
            **statistics,
        }


def _statistic_to_json(statistic: Statistic) -> dict[str, float | None] | None:
    return (
        None
        if statistic.value is None
        else {"value": statistic.value, "low": statistic.low, "high": statistic.high}
    )


@dataclass(frozen=True)
class PatternCounts:
    """What a row is measured from. What is measured of it is kept, since most counts do not change in a while."""

    guideline: str
    criterion: str | None
    group: Group
    measurement: Measurement
    values: tuple[Value, ...]
    patterns: frozenset[tuple[Pattern, int]]

    @property
    def n(self) -> int:
        """Units with at least two labels."""
        return sum(n for pattern, n in self.patterns if len(_drop_missing(pattern)) > 1)

    @property
    def disputed(self) -> int:
        return sum(n for pattern, n in self.patterns if len(set(_drop_missing(pattern))) > 1)

    def measure(self, statistics: Sequence[str] | None = None, *, confidence: float = 0.95) -> Agreement:
        """All statistics, or those that are named, with their intervals."""
        names = None if statistics is None else tuple(statistics)
        return _measure_agreement(self.patterns, self.values, self.measurement, names, 1000, confidence)

    def value(self, statistic: str) -> float | None:
        """A statistic without its interval, which is what takes the time."""
        agreement = _measure_agreement(self.patterns, self.values, self.measurement, (statistic,), 0, 0.95)
        return agreement.statistics[statistic].value

    def row(self, statistics: Sequence[str] | None = None) -> ReportRow:
        return ReportRow(
            self.guideline, self.criterion, self.group, self.measurement, self.measure(statistics)
        )


def _drop_missing(pattern: Pattern) -> list[Value]:
    return [label for label in pattern if label is not None]


@lru_cache(maxsize=MAX_MEASURED)
def _measure_agreement(  # noqa: PLR0917  # what is kept is found again by position
    patterns: frozenset[tuple[Pattern, int]],
    values: tuple[Value, ...],
    measurement: Measurement,
    statistics: tuple[str, ...] | None,
    resamples: int,
    confidence: float,
) -> Agreement:
    return measure_agreement(
        dict(patterns),
        values=values,
        measurement=measurement,
        statistics=statistics,
        resamples=resamples,
        confidence=confidence,
    )


@dataclass(frozen=True)
class LevelConfusion:
    """Two levels of one criterion that annotators gave to the same response, ``count`` pairs of labels."""

    guideline: str
    criterion: Criterion
    low: Value
    high: Value
    count: int


class LabelPatterns:
    """All comparable labels of some batches; every part of the report is a count of them."""

    def __init__(self, batches: Iterable[Batch], narrowing: Narrowing = EVERYTHING) -> None:
        self.labels = ComparableLabels(batches, narrowing)

    @property
    def guidelines(self) -> Mapping[int, Guideline]:
        return self.labels.guidelines

    def report(
        self, groupings: Sequence[Grouping] = (), *, statistics: Sequence[str] | None = None
    ) -> list[ReportRow]:
        """The rows over everything, then those of each grouping, group by group."""
        all_groupings = dict.fromkeys([(), *groupings])
        return [
            counted.row(statistics) for grouping in all_groupings for counted in self.list_counts(grouping)
        ]

    def list_counts(self, grouping: Grouping = ()) -> list[PatternCounts]:
        """What the rows of a grouping are measured from: of each group and guideline the pooled row where there are
        several criteria, then a row for each.
        """
        return self.labels.cache(f"rows by {grouping}", lambda: self._count(grouping))

    def _count(self, grouping: Grouping) -> list[PatternCounts]:
        labels, groups = self.labels.group(grouping)
        groups_and_scales = cross_groupings([groups, labels.scales], len(labels.units))
        patterns_by_group: dict[tuple[str | None, ...], dict[tuple[str, str], dict[Pattern, int]]] = {}
        if not grouping:
            patterns_by_group[()] = {}
        for (names, scale), patterns in count_patterns(labels.units, groups_and_scales).items():
            patterns_by_group.setdefault(names, {})[scale] = patterns
        return [
            counted
            for names, by_scale in patterns_by_group.items()
            for counted in self._of_group(dict(zip(grouping, names, strict=True)), by_scale)
        ]

    def _of_group(
        self, group: Group, patterns_by_scale: Mapping[tuple[str, str], Mapping[Pattern, int]]
    ) -> Iterator[PatternCounts]:
        for guideline in self.labels.guideline_names():
            parts = [
                self._part(guideline, criterion, group, patterns_by_scale.get((guideline, criterion), {}))
                for criterion in self.labels.criteria(guideline)
                if (guideline, criterion) in patterns_by_scale
                or not (group or self.labels.narrowing != EVERYTHING)
            ]
            if len(parts) > 1:
                pooled, values = pool((dict(part.patterns), part.values) for part in parts)
                yield PatternCounts(guideline, None, group, "nominal", values, frozenset(pooled.items()))
            yield from parts

    def _part(
        self, guideline: str, criterion: str, group: Group, patterns: Mapping[Pattern, int]
    ) -> PatternCounts:
        values, measurement = self.labels.measure(guideline, criterion)
        counted = frozenset((to_exact_pattern(pattern, values), n) for pattern, n in patterns.items())
        return PatternCounts(guideline, criterion, group, measurement, values, counted)

    def confusions(self) -> list[LevelConfusion]:
        """Which levels are taken for each other, the most frequent first."""
        return self.labels.cache("confusions", self._confusions)

    def _confusions(self) -> list[LevelConfusion]:
        counts: Counter[tuple[str, str, Value, Value]] = Counter()
        units = self.labels.units
        for (guideline, criterion), pairs in count_pairs(units, self.labels.scales).items():
            pair_counts = pairs + pairs.T
            for low, high in np.argwhere(np.triu(pair_counts, 1)).tolist():
                counts[guideline, criterion, units.values[low], units.values[high]] = int(
                    pair_counts[low, high]
                )
        return [self._confusion(key, n) for key, n in sorted(counts.items(), key=_frequency_key)]

    def _confusion(self, key: tuple[str, str, Value, Value], count: int) -> LevelConfusion:
        guideline, criterion, low, high = key
        return LevelConfusion(guideline, self.labels.versions(guideline, criterion)[-1], low, high, count)


def to_exact_pattern(pattern: Pattern, values: Sequence[Value]) -> Pattern:
    """The labels as the scale writes them: columns hold them in single precision."""
    known = {float(np.float32(value)): value for value in values}
    return tuple(None if label is None else known.get(label, label) for label in pattern)


def to_exact_level(label: float, values: Sequence[Value]) -> Value:
    (value,) = to_exact_pattern((label,), values)
    return label if value is None else value


def _frequency_key(
    item: tuple[tuple[str, str, Value, Value], int],
) -> tuple[int, tuple[str, str, Value, Value]]:
    return -item[1], item[0]
