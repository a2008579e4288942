"""Where the disagreement comes from: levels, prompts, clauses of the guideline, its versions, reasons of adjudicators.

Each figure is a count of units or tasks that ``tasks.py`` can list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from django.db.models import Count, Q

from annotation.core.names import split_names
from annotation.domain.agreement import Measurement, PromptCounts, Statistic, Value, measure_difference
from annotation.domain.agreement.disagreement import (
    Floats,
    LabelCounts,
    UnitGroups,
    count_labels,
    count_pairs,
    count_units,
    index_tasks,
    mean_distances,
    wilson,
)
from annotation.domain.agreement.label_table import Codes, Units, index_keys
from annotation.domain.guidelines import Criterion
from annotation.models import Person, Prompt
from annotation.selectors.agreement.labels import ComparableLabels, ScaleKey
from annotation.selectors.agreement.report import OF_TWO_PEOPLE, LabelPatterns, PatternCounts, to_exact_level
from annotation.selectors.guidelines import list_notes

ClauseKey: TypeAlias = tuple[str, str, float | None]
# A scale of more levels is shown by those that occur.
MAX_LEVELS = 12
# Of more pairs of labels nobody looks for the pair of people that agrees least: a hundred people make five thousand
# pairs, of which some agree little by chance.
MAX_LABEL_PAIRS = 1_000_000


@dataclass(frozen=True)
class ShareEstimate:
    """``part`` of ``n``, as a share with its 95% interval (Wilson); all None where ``n`` is 0."""

    part: int
    n: int
    value: float | None
    low: float | None
    high: float | None


def estimate_share(part: int, n: int) -> ShareEstimate:
    if not n:
        return ShareEstimate(part, n, None, None, None)
    low, high = wilson(np.array([part]), np.array([n]))
    return ShareEstimate(part, n, part / n, float(low[0]), float(high[0]))


# Levels


@dataclass(frozen=True)
class LevelMatrix:
    """``counts`` (V, V) pairs of labels by two levels. ``people`` are whose: first the rows', then the columns';
    without them the pairs have no order, and all stand on the diagonal and to the right of it.
    """

    guideline: str
    criterion: Criterion
    values: tuple[Value, ...]
    counts: npt.NDArray[np.int64]
    people: tuple[str, str] | None

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def differing(self) -> int:
        return self.total - int(np.trace(self.counts))


def list_matrices(labels: ComparableLabels) -> list[LevelMatrix]:
    """Of each criterion that has pairs of labels, in the order of the guideline."""
    return labels.cache("matrices", lambda: _build_matrices(labels))


def _build_matrices(labels: ComparableLabels) -> list[LevelMatrix]:
    pair = labels.narrowing.named.get("pair")
    pair_counts = count_pairs(labels.units, labels.scales)
    return [
        _build_matrix(labels, scale, pair_counts[scale], pair)
        for scale in _list_scales(labels)
        if scale in pair_counts and pair_counts[scale].any()
    ]


def _list_scales(labels: ComparableLabels) -> list[ScaleKey]:
    return [
        (guideline, criterion)
        for guideline in labels.guideline_names()
        for criterion in labels.criteria(guideline)
    ]


def _build_matrix(
    labels: ComparableLabels, scale: ScaleKey, pairs: npt.NDArray[np.int64], pair: str | None
) -> LevelMatrix:
    values, _measurement = labels.measure(*scale)
    code_of = {np.float32(value): place for place, value in enumerate(labels.units.values)}
    if len(values) > MAX_LEVELS:
        values = tuple(value for value in values if np.float32(value) in code_of)
    size = len(values)
    counts = np.zeros((size, size), dtype=np.int64)
    codes = [code_of.get(np.float32(value)) for value in values]
    for row, row_code in enumerate(codes):
        for column, column_code in enumerate(codes):
            if row_code is not None and column_code is not None:
                counts[row, column] = pairs[row_code, column_code]
    if pair is None:
        counts = np.triu(counts + counts.T - np.diag(np.diag(counts)))
    return LevelMatrix(scale[0], labels.versions(*scale)[-1], values, counts, _split_pair(pair))


def _split_pair(pair: str | None) -> tuple[str, str] | None:
    names = split_names(pair or "")
    return (names[0], names[1]) if len(names) == 2 else None


# Prompts


@dataclass(frozen=True)
class LevelSplit:
    """So many pairs of labels lay between these two levels."""

    guideline: str
    criterion: str
    low: Value
    high: Value
    n: int


@dataclass(frozen=True)
class DisputedPrompt:
    """``tasks`` says how many of the prompt's tasks are disputed. ``alpha`` is one less the mean disagreement of its
    units over that expected in all of these labels; None where none is expected.
    """

    prompt: Prompt
    tasks: ShareEstimate
    alpha: float | None
    splits: tuple[LevelSplit, ...]


class DisputedPrompts:
    """The prompts that have a disputed task, the surest first: by the lower end of the share's interval, and among
    equals those whose labels lie furthest apart.
    """

    def __init__(self, labels: ComparableLabels) -> None:
        self._labels = labels
        self._ranked = labels.cache("prompts", lambda: _rank_prompts(_take_compared(labels)))

    def __len__(self) -> int:
        return len(self._ranked.order)

    def count(self) -> int:
        return len(self)

    def __getitem__(self, part: slice) -> list[DisputedPrompt]:
        ranked = self._ranked
        page = ranked.order[part]
        keys = [int(key) for key in ranked.keys[page]]
        prompts = Prompt.objects.in_bulk(keys)
        page_labels = self._labels.where(np.isin(self._labels.units.prompt, keys))
        splits = _count_splits(page_labels, _group_by_prompt(page_labels.units))
        return [
            DisputedPrompt(
                prompts[key],
                estimate_share(int(ranked.disputed[place]), int(ranked.n[place])),
                None if np.isnan(ranked.alpha[place]) else float(ranked.alpha[place]),
                splits.get(key, ()),
            )
            for key, place in zip(keys, page, strict=True)
        ]


@dataclass(frozen=True)
class _RankedPrompts:
    """Of all prompts (P,): their keys, tasks, disputed tasks and local alpha; the places of the disputed in order."""

    keys: Codes
    n: Codes
    disputed: Codes
    alpha: Floats
    order: Codes


def _take_compared(labels: ComparableLabels) -> ComparableLabels:
    compared = labels.units.compared
    return labels if compared.all() else labels.where(compared)


def _rank_prompts(labels: ComparableLabels) -> _RankedPrompts:
    units = labels.units
    _tasks, unit, disputed = index_tasks(units, units.differ)
    keys, place = index_keys(units.prompt[unit])
    n = np.bincount(place, minlength=len(keys))
    differing = np.bincount(place[disputed], minlength=len(keys))
    low = wilson(differing, n)[0] if len(keys) else np.zeros(0)
    alpha = _measure_local_alpha(labels, _group_by_prompt(units))
    order = np.lexsort((keys, np.nan_to_num(alpha, nan=1), -differing, -low))
    return _RankedPrompts(keys, n, differing, alpha, order[differing[order] > 0])


def _measure_local_alpha(labels: ComparableLabels, groups: UnitGroups[int]) -> Floats:
    """(P,): 1 less the mean over the prompt's units of their disagreement over that expected on their criterion; units
    of a criterion on which none is expected do not count.
    """
    ratio = np.full(len(labels.units), np.nan)
    for place, scale in enumerate(labels.scales.names):
        distances, expected = _measure_expectation(labels, scale)
        if expected:
            on_scale = labels.scales.place == place
            units = labels.units.where(on_scale)
            ratio[on_scale] = (
                mean_distances(units, _select_distances(units, labels.units, distances)) / expected
            )
    is_known = ~np.isnan(ratio)
    sums = np.bincount(groups.place[is_known], weights=ratio[is_known], minlength=len(groups.names))
    n = count_units(groups, is_known).astype(np.float64)
    alpha: Floats = 1 - np.divide(sums, n, out=np.full(len(sums), np.nan), where=n > 0)
    return alpha


def _group_by_prompt(units: Units) -> UnitGroups[int]:
    keys, place = index_keys(units.prompt)
    return UnitGroups(tuple(keys.tolist()), place)


def _select_distances(units: Units, all_units: Units, distances: Floats) -> Floats:
    """The distances between the values that occur in ``units``, out of those between all."""
    at = [all_units.values.index(value) for value in units.values]
    return distances[np.ix_(at, at)]


def _measure_expectation(labels: ComparableLabels, scale: ScaleKey) -> tuple[Floats, float]:
    """The distance (V, V) between two values as alpha has it at the level of the scale, and its mean over any two of
    the scale's labels: the disagreement that is expected by chance.
    """
    place = labels.scales.names.index(scale)
    codes = labels.units.codes[labels.scales.place == place]
    counts = np.bincount(codes[codes >= 0], minlength=len(labels.units.values)).astype(np.float64)
    distances = _measure_distances(labels.units.values, counts, labels.measure(*scale)[1])
    n = counts.sum()
    expected = float(counts @ distances @ counts) / (n * (n - 1)) if n > 1 else 0.0
    return distances, expected


def _measure_distances(values: Sequence[float], counts: Floats, measurement: Measurement) -> Floats:
    """K. Krippendorff (2011), as ``docs/agreement.md`` gives them."""
    match measurement:
        case "nominal":
            return 1 - np.eye(len(values))
        case "ordinal":
            places = counts.cumsum() - counts / 2
        case _:
            places = np.array(values, dtype=np.float64)
    distances: Floats = np.square(places[:, None] - places)
    return distances


def _count_splits(labels: ComparableLabels, groups: UnitGroups[int]) -> dict[int, tuple[LevelSplit, ...]]:
    """Of each prompt the pairs of levels that its labels lay between, the most frequent first."""
    splits: dict[int, Counter[tuple[ScaleKey, float, float]]] = {}
    values, scales = labels.units.values, labels.scales
    groups_and_scales = UnitGroups(
        tuple((key, scale) for key in groups.names for scale in scales.names),
        groups.place * len(scales.names) + scales.place,
    )
    for (key, scale), pairs in count_pairs(labels.units, groups_and_scales).items():
        pair_counts = pairs + pairs.T
        for low, high in np.argwhere(np.triu(pair_counts, 1)).tolist():
            splits.setdefault(key, Counter())[scale, values[low], values[high]] = int(pair_counts[low, high])
    return {
        key: tuple(
            _build_split(labels, scale, first, second, n) for (scale, first, second), n in split.most_common()
        )
        for key, split in splits.items()
    }


def _build_split(
    labels: ComparableLabels, scale: ScaleKey, first: float, second: float, n: int
) -> LevelSplit:
    values, _measurement = labels.measure(*scale)
    return LevelSplit(*scale, to_exact_level(first, values), to_exact_level(second, values), n)


# Clauses


@dataclass(frozen=True)
class ClauseDisagreement:
    """One level of a criterion: in how many units somebody gave it and somebody else another (``disputed``), which
    others these were, what adjudicators gave as the reason, and the notes that were left on it.
    """

    guideline: str
    criterion: Criterion
    value: Value
    disputed: ShareEstimate
    other_levels: tuple[tuple[Value, int], ...]
    reasons: tuple[tuple[str, int], ...]
    notes: int
    open_notes: int


def list_clauses(labels: ComparableLabels, person: Person) -> list[ClauseDisagreement]:
    """Those that were given to anything, the most surely disputed first; notes as far as the person may read them."""
    notes = _count_notes(labels, person)
    reasons = labels.cache("reasons by clause", lambda: _count_reasons_by_clause(labels))
    levels_by_scale = labels.cache("given", lambda: count_labels(labels.units, labels.scales))
    ranked = [
        _build_clause(labels, scale, level, notes, reasons)
        for scale, levels in levels_by_scale.items()
        for level in levels
    ]
    return sorted(ranked, key=lambda clause: (-(clause.disputed.low or 0), -clause.disputed.part))


def _build_clause(
    labels: ComparableLabels,
    scale: ScaleKey,
    level: LabelCounts,
    notes: Mapping[ClauseKey, tuple[int, int]],
    reasons: Mapping[tuple[ScaleKey, float], Counter[str]],
) -> ClauseDisagreement:
    values, _measurement = labels.measure(*scale)
    value = to_exact_level(level.value, values)
    other_levels = Counter(
        {to_exact_level(other_level, values): n for other_level, n in level.other_values.items()}
    )
    n_notes, unanswered = notes.get((*scale, value), (0, 0))
    return ClauseDisagreement(
        guideline=scale[0],
        criterion=labels.versions(*scale)[-1],
        value=value,
        disputed=estimate_share(level.disputed, level.n),
        other_levels=tuple(other_levels.most_common()),
        reasons=tuple(reasons.get((scale, level.value), Counter()).most_common()),
        notes=n_notes,
        open_notes=unanswered,
    )


def _count_notes(labels: ComparableLabels, person: Person) -> dict[ClauseKey, tuple[int, int]]:
    """By guideline, criterion and level: all notes, and those without an answer."""
    scale_notes = list_notes(person).filter(guideline__in=list(labels.guidelines)).order_by()
    counted = scale_notes.values_list("guideline__name", "criterion", "level").annotate(
        n=Count("pk"), open=Count("pk", filter=Q(resolved_at=None))
    )
    return {
        (guideline, criterion, level): (n, unanswered)
        for guideline, criterion, level, n, unanswered in counted
    }


def _count_reasons_by_clause(labels: ComparableLabels) -> dict[tuple[ScaleKey, float], Counter[str]]:
    """Of the disputed units in which somebody gave the level, by the reason of their task's decision."""
    reasons_by_clause: dict[tuple[ScaleKey, float], Counter[str]] = {}
    decided = labels.where(labels.units.differ & (labels.reasons.place < len(labels.reasons.names) - 1))
    names, scales = decided.reasons.names, decided.scales
    for code, value in enumerate(decided.units.values):
        has_value = (decided.units.codes == code).any(axis=1)
        keys = scales.place[has_value] * len(names) + decided.reasons.place[has_value]
        kinds, place = index_keys(keys)
        for key, n in zip(kinds.tolist(), np.bincount(place).tolist(), strict=False):
            scale, reason = divmod(key, len(names))
            reasons_by_clause.setdefault((scales.names[scale], value), Counter())[str(names[reason])] = n
    return reasons_by_clause


# Reasons


@dataclass(frozen=True)
class ReasonCount:
    """For how many decided tasks adjudicators gave this reason, of all for which they gave one."""

    key: str
    tasks: ShareEstimate


def list_reason_counts(labels: ComparableLabels) -> list[ReasonCount]:
    """The most frequent first."""
    return labels.cache("reasons", lambda: _count_reasons(labels))


def _count_reasons(labels: ComparableLabels) -> list[ReasonCount]:
    _keys, unit, _differ = index_tasks(labels.units, labels.units.differ)
    unit_reasons = labels.reasons
    counts = np.bincount(unit_reasons.place[unit], minlength=len(unit_reasons.names))[:-1]
    total = int(counts.sum())
    reason_counts = [
        ReasonCount(str(key), estimate_share(int(n), total))
        for key, n in zip(unit_reasons.names, counts, strict=False)
        if n
    ]
    return sorted(reason_counts, key=lambda reason_count: (-reason_count.tasks.part, reason_count.key))


# Versions


@dataclass(frozen=True)
class VersionRow:
    """One criterion (None: several pooled) under one version; ``change`` is from the version before it."""

    version: str
    counted: PatternCounts
    since: str | None
    change: Statistic | None


def list_version_rows(patterns: LabelPatterns, statistic: str) -> list[VersionRow]:
    """Criterion by criterion, version by version in the order in which they were made; ``statistic`` empty takes alpha
    at the level of each row's scale.
    """
    by_version: dict[tuple[str, str | None], list[tuple[str, PatternCounts]]] = {}
    by_key = {}
    for counted_row in patterns.list_counts(("guideline_version",)):
        by_key[counted_row.guideline, counted_row.criterion, counted_row.group["guideline_version"]] = (
            counted_row
        )
    for guideline in patterns.guidelines.values():
        for (name, criterion, version), counted_row in by_key.items():
            if version == str(guideline):
                by_version.setdefault((name, criterion), []).append((str(guideline), counted_row))
    return [row for rows in by_version.values() for row in _build_version_rows(rows, statistic)]


def _build_version_rows(rows: Sequence[tuple[str, PatternCounts]], statistic: str) -> Iterator[VersionRow]:
    previous: tuple[str, PatternCounts] | None = None
    for version, counted in rows:
        change = None
        if previous is not None:
            name = statistic or f"alpha_{counted.measurement}"
            change = (
                None
                if name in OF_TWO_PEOPLE and (previous[1].is_pool or counted.is_pool)
                else _measure_difference(
                    previous[1].counts, counted.counts, counted.values, counted.measurement, name
                )
            )
        yield VersionRow(version, counted, previous[0] if previous else None, change)
        previous = version, counted


@lru_cache(maxsize=100)
def _measure_difference(
    before: PromptCounts,
    after: PromptCounts,
    values: tuple[Value, ...],
    measurement: Measurement,
    statistic: str,
) -> Statistic:
    return measure_difference(before, after, values=values, measurement=measurement, statistic=statistic)


# What stands out


@dataclass(frozen=True)
class WeakestGroup:
    """The group of a facet in which agreement is surely below that of everything."""

    facet: str
    name: str | None
    counted: PatternCounts
    statistic: Statistic
    groups: int
    """How many groups there were to find it among: the interval allows for that many looks."""


def find_weakest_group(
    patterns: LabelPatterns, facet: str, overall: PatternCounts, min_units: int
) -> WeakestGroup | None:
    """The group of the lowest alpha among those of ``least`` units and more, where even the upper end of its interval,
    corrected for how many groups there are (Bonferroni), lies below alpha of everything. Alpha is that of everything,
    also of a group with one criterion and a stronger scale: else the two could not be compared.
    """
    if facet == "pair" and overall.label_pairs > MAX_LABEL_PAIRS:
        return None
    name = f"alpha_{overall.measurement}"
    overall_value = overall.value(name)
    rows = [
        row
        for row in patterns.list_counts((facet,))
        if row.guideline == overall.guideline and row.n >= min_units
    ]
    rows = _take_first_rows(rows, facet)
    values_and_rows = [(value, row) for row in rows if (value := row.value(name)) is not None]
    if overall_value is None or len(rows) < 2 or not values_and_rows:  # one group is everything
        return None
    _value, lowest = min(values_and_rows, key=lambda pair: pair[0])
    corrected = lowest.measure((name,), confidence=1 - 0.05 / len(rows)).statistics[name]
    if corrected.high is None or corrected.high >= overall_value:
        return None
    return WeakestGroup(facet, lowest.group[facet], lowest, corrected, len(rows))


def _take_first_rows(rows: Sequence[PatternCounts], facet: str) -> list[PatternCounts]:
    """The first row of each group: the pooled one, or that of its one criterion."""
    first: dict[str | None, PatternCounts] = {}
    for row in rows:
        first.setdefault(row.group[facet], row)
    return list(first.values())
