"""The rows of the agreement report: counted by columns, measured on counts, and kept by what was counted."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from annotation.domain.agreement import (
    POOL,
    Agreement,
    Measurement,
    Pattern,
    PromptCounts,
    Statistic,
    Value,
    join_prompt_counts,
    measure_agreement,
)
from annotation.domain.agreement.disagreement import (
    UnitGroups,
    count_pairs,
    count_patterns,
    cross_groupings,
    find_people,
    order_two_people,
)
from annotation.domain.agreement.raters import RaterKappas, measure_rater_kappas
from annotation.domain.guidelines import Criterion
from annotation.models import Batch, Guideline
from annotation.selectors.agreement.groupings import EVERYTHING, Group, Grouping, Narrowing
from annotation.selectors.agreement.labels import ComparableLabels
from annotation.selectors.agreement.weights import NOT_SELECTED, Weighing, Weights, describe_weighing

# So many measured sets of counts are kept by one process, about 3 kB each.
MAX_MEASURED = 20_000
MAX_FIXED_RATERS = 2
OF_TWO_PEOPLE = (
    "cohen_kappa",
    "cohen_kappa_linear",
    "cohen_kappa_quadratic",
    "cohen_kappa_quadratic_observed",
    "spearman",
    "icc_single",
    "icc_average",
)
NO_COUNTS = join_prompt_counts([])


@dataclass(frozen=True)
class ReportRow:
    """The agreement of one criterion (None: several pooled) of one guideline in one group ({}: all)."""

    guideline: str
    criterion: str | None
    group: Group
    measurement: Measurement
    agreement: Agreement
    raters: int = 0
    """How many people the labels are of."""
    kappas: RaterKappas | None = None
    """Of a pool: of more than two people."""
    weighing: Weighing = NOT_SELECTED

    def to_json(self) -> dict[str, Any]:
        statistics = {
            name: statistic_to_json(statistic) for name, statistic in self.agreement.statistics.items()
        }
        return {
            "guideline": self.guideline,
            "criterion": self.criterion,
            "group": dict(self.group),
            "n": self.agreement.n,
            "disputed": self.agreement.disputed,
            "prompts": self.agreement.prompts,
            "raters": self.raters,
            "weighed": self.weighing.is_weighed,
            "weighed_reason": self.weighing.reason,
            **statistics,
            "pairwise_kappa": statistic_to_json(self.kappas.pairwise) if self.kappas else None,
            "conger_kappa": statistic_to_json(self.kappas.conger) if self.kappas else None,
        }


def statistic_to_json(statistic: Statistic) -> dict[str, float | str | None] | None:
    """None where the value is undefined; ``reason`` says why a value has no interval."""
    if statistic.value is None:
        return None
    written: dict[str, float | str | None] = {
        "value": statistic.value,
        "low": statistic.low,
        "high": statistic.high,
    }
    written |= {"design_effect": statistic.design_effect, "reason": statistic.no_interval}
    if statistic.standard_error is not None:
        written["standard_error"] = statistic.standard_error
    if statistic.fisher is not None:
        written["fisher_low"], written["fisher_high"] = statistic.fisher
    return written


@dataclass(frozen=True)
class PatternCounts:
    """What a row is measured from. What is measured of it is kept, since most counts do not change in a while."""

    guideline: str
    criterion: str | None
    group: Group
    measurement: Measurement
    values: tuple[Value, ...]
    counts: PromptCounts
    raters: int = 0

    @property
    def is_pool(self) -> bool:
        """Whether more than two people judged, so that no kappa is of two raters."""
        return self.raters > MAX_FIXED_RATERS

    @property
    def weighing(self) -> Weighing:
        return describe_weighing(self.counts)

    @property
    def n(self) -> int:
        """Units with at least two labels."""
        return sum(n for pattern, n in self.counts.counts.items() if len(_drop_missing(pattern)) > 1)

    @property
    def disputed(self) -> int:
        return sum(n for pattern, n in self.counts.counts.items() if len(set(_drop_missing(pattern))) > 1)

    @property
    def label_pairs(self) -> int:
        """How many pairs of labels of one unit there are: what comparing each two people has to count."""
        return sum(
            n * len(labels) * (len(labels) - 1) // 2
            for pattern, n in self.counts.counts.items()
            if (labels := _drop_missing(pattern))
        )

    def measure(self, statistics: Sequence[str] | None = None, *, confidence: float = 0.95) -> Agreement:
        """All statistics, or those that are named, with their intervals."""
        return self._measure(None if statistics is None else tuple(statistics), True, confidence)

    def value(self, statistic: str) -> float | None:
        """A statistic without its interval, which is what takes the time."""
        return self._measure((statistic,), False, 0.95).statistics[statistic].value

    def row(self, statistics: Sequence[str] | None = None) -> ReportRow:
        return ReportRow(
            self.guideline,
            self.criterion,
            self.group,
            self.measurement,
            self.measure(statistics),
            self.raters,
            weighing=self.weighing,
        )

    def _measure(self, statistics: tuple[str, ...] | None, intervals: bool, confidence: float) -> Agreement:
        key = (self.counts.digest, self.values, self.measurement, statistics, intervals, confidence)
        measured = _MEASURED.get(
            key,
            lambda: measure_agreement(
                self.counts,
                values=self.values,
                measurement=self.measurement,
                statistics=statistics,
                intervals=intervals,
                confidence=confidence,
            ),
        )
        if not self.is_pool:
            return measured
        withheld = {
            name: Statistic(None, None, None, POOL)
            for name, statistic in measured.statistics.items()
            if name in OF_TWO_PEOPLE and statistic.value is not None
        }
        return replace(measured, statistics={**measured.statistics, **withheld})


ON_APPLICABILITY = ("percent_agreement", "cohen_kappa", "alpha_nominal", "gwet_ac1")


def applicability_to_json(counted: PatternCounts) -> dict[str, Any]:
    """A row of ``LabelPatterns.list_applicability``; ``labels`` says how often it was found not applicable."""
    row = counted.measure(ON_APPLICABILITY)
    stated = Counter[Value]()
    for pattern, n in counted.counts.counts.items():
        for label in _drop_missing(pattern):
            stated[label] += n
    return {
        "guideline": counted.guideline,
        "criterion": counted.criterion,
        "labels": stated.total(),
        "not_applicable": stated[1],
        "n": row.n,
        "disputed": row.disputed,
        **{name: statistic_to_json(row.statistics[name]) for name in ON_APPLICABILITY},
    }


def _list_weights(labels: ComparableLabels) -> Weights | None:
    return None if isinstance(labels.weights, float) else labels.weights


def _drop_missing(pattern: Pattern) -> list[Value]:
    return [label for label in pattern if label is not None]


class _MeasuredCache:
    """What was measured, by the digest of what it was measured from: the entries themselves are not held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._measured: OrderedDict[Hashable, Agreement] = OrderedDict()

    def get(self, key: Hashable, measure: Callable[[], Agreement]) -> Agreement:
        with self._lock:
            measured = self._measured.get(key)
            if measured is not None:
                self._measured.move_to_end(key)
                return measured
        measured = measure()
        with self._lock:
            self._measured[key] = measured
            if len(self._measured) > MAX_MEASURED:
                self._measured.popitem(last=False)
        return measured


_MEASURED = _MeasuredCache()


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
            replace(counted.row(statistics), kappas=self.measure_kappas(counted))
            for grouping in all_groupings
            for counted in self.list_counts(grouping)
        ]

    def measure_kappas(self, counted: PatternCounts) -> RaterKappas | None:
        """The kappas of the pool behind a row; None where there is no pool."""
        if not counted.is_pool:
            return None
        key = f"kappas of {counted.guideline}, {counted.criterion}, {sorted(counted.group.items())}"
        return self.labels.cache(key, lambda: self._measure_kappas(counted))

    def _measure_kappas(self, counted: PatternCounts) -> RaterKappas:
        facets = dict(counted.group) | {"guideline": counted.guideline}
        if counted.criterion is not None:
            facets["criterion"] = counted.criterion
        labels = self.labels.where_named(facets)
        units = labels.units
        fleiss = counted.measure(("fleiss_kappa",)).statistics["fleiss_kappa"]
        return measure_rater_kappas(
            units.codes,
            units.person,
            units.prompt,
            levels=len(units.values),
            weights=_list_weights(labels) if counted.weighing.is_weighed else None,
            no_interval=fleiss.no_interval,
        )

    def list_counts(self, grouping: Grouping = ()) -> list[PatternCounts]:
        """What the rows of a grouping are measured from: of each group and guideline the pooled row where there are
        several criteria, then a row for each.
        """
        return self.labels.cache(f"rows by {grouping}", lambda: self._count(grouping))

    def _count(self, grouping: Grouping) -> list[PatternCounts]:
        labels, groups = self.labels.group(grouping)
        return self._count_groups(grouping, labels, groups, list(labels.people), labels.weights)

    def list_intra_rater(self) -> list[PatternCounts]:
        """How alike each person labelled in several rounds: rows by annotator, whose raters are the rounds.

        Responses count alike, whatever the chance of their selection: it is the person who is measured.
        """
        return self.labels.cache("intra-rater agreement over rounds", self._count_intra_rater)

    def _count_intra_rater(self) -> list[PatternCounts]:
        labels, annotators = self.labels.list_repeats()
        groups = UnitGroups(tuple((name,) for name in annotators.names), annotators.place)
        rounds = range(len(labels.units.round_names))
        return self._count_groups(("annotator",), labels, groups, rounds, 1.0)

    def _count_groups(
        self,
        grouping: Grouping,
        labels: ComparableLabels,
        groups: UnitGroups[Any],
        raters: Sequence[int],
        weights: Weights | float,
    ) -> list[PatternCounts]:
        groups_and_scales = cross_groupings([groups, labels.scales], len(labels.units))
        people = find_people(labels.units, groups_and_scales)
        units = order_two_people(labels.units, groups_and_scales, people, raters)
        patterns_by_group: dict[tuple[str | None, ...], dict[tuple[str, str], PromptCounts]] = {}
        if not grouping:
            patterns_by_group[()] = {}
        for (names, scale), patterns in count_patterns(units, groups_and_scales, weights).items():
            patterns_by_group.setdefault(names, {})[scale] = patterns
        return [
            counted
            for names, by_scale in patterns_by_group.items()
            for counted in self._of_group(
                dict(zip(grouping, names, strict=True)),
                by_scale,
                {scale: people.get((names, scale), frozenset()) for scale in by_scale},
            )
        ]

    def _of_group(
        self,
        group: Group,
        patterns_by_scale: Mapping[tuple[str, str], PromptCounts],
        people: Mapping[tuple[str, str], frozenset[int]],
    ) -> Iterator[PatternCounts]:
        for guideline in self.labels.guideline_names():
            parts = [
                self._part(guideline, criterion, group, patterns_by_scale.get((guideline, criterion)))
                for criterion in self.labels.criteria(guideline)
                if (guideline, criterion) in patterns_by_scale
                or not (group or self.labels.narrowing != EVERYTHING)
            ]
            if len(parts) > 1:
                values = tuple(sorted({value for part in parts for value in part.values}))
                pooled = join_prompt_counts(part.counts for part in parts)
                raters = frozenset().union(
                    *(people.get((guideline, part.criterion or ""), ()) for part in parts)
                )
                yield PatternCounts(guideline, None, group, "nominal", values, pooled, len(raters))
            for part in parts:
                yield replace(part, raters=len(people.get((guideline, part.criterion or ""), ())))

    def _part(
        self, guideline: str, criterion: str, group: Group, counts: PromptCounts | None
    ) -> PatternCounts:
        values, measurement = self.labels.measure(guideline, criterion)
        return PatternCounts(
            guideline, criterion, group, measurement, values, to_exact_counts(counts or NO_COUNTS, values)
        )

    def list_applicability(self) -> list[PatternCounts]:
        """How well people agree on whether a criterion is applicable at all: a row for each that may be otherwise."""
        return self.labels.cache("applicability", self._count_applicability)

    def _count_applicability(self) -> list[PatternCounts]:
        labels = self.labels.applicability
        scales = labels.scales
        people = find_people(labels.units, scales)
        units = order_two_people(labels.units, scales, people, list(labels.people))
        patterns = count_patterns(units, scales, labels.weights)
        return [
            PatternCounts(
                *scale, {}, "nominal", (0, 1), to_exact_counts(patterns[scale], (0, 1)), len(people[scale])
            )
            for guideline in self.labels.guideline_names()
            for scale in ((guideline, criterion) for criterion in self.labels.criteria(guideline))
            if scale in patterns
        ]

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


def to_exact_counts(counts: PromptCounts, values: Sequence[Value]) -> PromptCounts:
    return counts.rename(to_exact_pattern(pattern, values) for pattern in counts.patterns)


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
