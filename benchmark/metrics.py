"""The headline numbers that a guideline declares, from the labels that responses were given. Pure.

docs/leaderboard.md says what each number and interval is. Sums and values are exact fractions; only
intervals are floats. Undefined is None.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from annotation.guidelines import GuidelineDocument, Metric
from annotation.intervals import wilson

Value = int | float
Labels = tuple[tuple[str, Value], ...]
"""What one response was given: (criterion, value), sorted."""

Cell = Counter[Labels]
"""How many responses of one model to the prompts of one dimension were given exactly these labels."""

Floats = npt.NDArray[np.float64]

ALL = "all"
"""The name of the only cell of a guideline that has no dimensions."""

RESAMPLES = 2000
SMALL = 30
"""Below so many responses no number stands without its interval."""


@dataclass(frozen=True)
class Statistic:
    """A value with its 95% interval, in the metric's own unit: a rate is a share, 0 to 1."""

    value: Fraction | None = None
    low: float | None = None
    high: float | None = None

    def to_json(self) -> dict[str, float | None]:
        value = None if self.value is None else float(self.value)
        return {"value": value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Sample:
    """The responses of one cell, and the same drawn again RESAMPLES times (rows) with replacement."""

    patterns: tuple[Labels, ...]
    counts: tuple[int, ...]
    draws: Floats

    @classmethod
    def of(cls, cell: Cell, rng: np.random.Generator) -> Sample:
        """Every response answers one prompt, so drawing responses is drawing prompts."""
        patterns = tuple(sorted(pattern for pattern in cell if cell[pattern]))
        counts = tuple(cell[pattern] for pattern in patterns)
        shares = np.array(counts, dtype=float) / max(sum(counts), 1)
        draws = rng.multinomial(sum(counts), shares, size=RESAMPLES) if counts else np.zeros((RESAMPLES, 0))
        return cls(patterns, counts, draws.astype(float))


@dataclass(frozen=True)
class Part:
    """What some responses add to a metric: ``total`` over ``labels``, as counted and as drawn again."""

    total: Fraction
    labels: int
    drawn_total: Floats
    drawn_labels: Floats
    one_each: bool
    """No response has more than one label here."""

    def __add__(self, other: Part) -> Part:
        return Part(
            self.total + other.total,
            self.labels + other.labels,
            self.drawn_total + other.drawn_total,
            self.drawn_labels + other.drawn_labels,
            self.one_each and other.one_each,
        )

    @property
    def value(self) -> Fraction | None:
        return self.total / self.labels if self.labels else None

    @property
    def drawn(self) -> Floats:
        """The value in each draw; NaN in a draw without a label."""
        labels = np.where(self.drawn_labels > 0, self.drawn_labels, np.nan)
        return np.asarray(self.drawn_total / labels)


def board(
    document: GuidelineDocument, cells: Mapping[tuple[str, str], Cell], *, seed: int = 0
) -> dict[str, Any]:
    """The leaderboard as JSON, best first. ``cells`` are by (model, dimension)."""
    models = sorted({model for model, _dimension in cells})
    rows = [_Row.of(document, model, cells, seed) for model in models]
    return {
        "guideline": f"{document.name}@{document.version}",
        "rank_by": document.rank_by,
        "rows": [row.to_json() for row in ranked(rows)],
    }


def scopes(document: GuidelineDocument) -> tuple[str, ...]:
    """The columns of the board."""
    return document.dimension_names or (ALL,)


def metrics_in(document: GuidelineDocument, scope: str) -> list[Metric]:
    """The metrics that this column has."""
    return [one for one in document.metrics if scope in (document.dimensions_of(one) or (ALL,))]


@dataclass(frozen=True)
class _Row:
    model: str
    n: int
    dimensions: dict[str, dict[str, Any]]
    overall: dict[str, Statistic]
    standing: Statistic
    """The number that the board is ranked by."""
    rank: tuple[int, int, int] | None = None

    @classmethod
    def of(
        cls, document: GuidelineDocument, model: str, cells: Mapping[tuple[str, str], Cell], seed: int
    ) -> _Row:
        rng = np.random.default_rng(seed)
        own = {scope: cells.get((model, scope), Counter()) for scope in scopes(document)}
        samples = {scope: Sample.of(cell, rng) for scope, cell in own.items()}
        parts = {one.name: _parts(document, one, samples) for one in document.metrics}
        overall = {
            one.name: overall_of(one, list(parts[one.name].values()))
            for one in document.metrics
            if one.overall != "none"
        }
        lead = document.metric(document.rank_by)
        standing = overall.get(lead.name) or estimate(lead, next(iter(parts[lead.name].values())))
        dimensions = {
            scope: {
                "n": sum(cell.values()),
                "levels": level_counts(document, scope, cell),
                **{one.name: estimate(one, parts[one.name][scope]) for one in metrics_in(document, scope)},
            }
            for scope, cell in own.items()
        }
        return cls(model, sum(sum(cell.values()) for cell in own.values()), dimensions, overall, standing)

    def to_json(self) -> dict[str, Any]:
        rank = None if self.rank is None else dict(zip(("value", "low", "high"), self.rank, strict=True))
        return {
            "model": self.model,
            "rank": rank,
            "n": self.n,
            "dimensions": {scope: _plain(cell) for scope, cell in self.dimensions.items()},
            "overall": _plain(self.overall),
        }


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.to_json() if isinstance(value, Statistic) else value for name, value in values.items()
    }


def level_counts(document: GuidelineDocument, scope: str, cell: Cell) -> dict[str, dict[str, int]]:
    """By criterion and level, levels that nobody gave included."""
    counts: Counter[tuple[str, Value]] = Counter()
    for labels, responses in cell.items():
        for label in labels:
            counts[label] += responses
    criteria = document.criteria_for(_dimension(scope, document))
    return {one.name: {f"{value:g}": counts[one.name, value] for value in one.values} for one in criteria}


def _dimension(scope: str, document: GuidelineDocument) -> str | None:
    return scope if document.dimensions else None


def _parts(document: GuidelineDocument, metric: Metric, samples: Mapping[str, Sample]) -> dict[str, Part]:
    scope_names = document.dimensions_of(metric) or (ALL,)
    return {scope: part_of(document, metric, scope, samples[scope]) for scope in scope_names}


def part_of(document: GuidelineDocument, metric: Metric, scope: str, sample: Sample) -> Part:
    dimension = _dimension(scope, document)
    criteria = {one.name for one in document.criteria_of(metric, dimension)}
    counted = set(metric.levels_for(dimension))
    values = [[v for c, v in labels if c in criteria] for labels in sample.patterns]
    labels = [len(row) for row in values]
    totals = [_total(metric, row, counted) for row in values]
    return Part(
        total=sum((t * n for t, n in zip(totals, sample.counts, strict=True)), Fraction(0)),
        labels=sum(k * n for k, n in zip(labels, sample.counts, strict=True)),
        drawn_total=sample.draws @ np.array([float(t) for t in totals], dtype=float),
        drawn_labels=sample.draws @ np.array(labels, dtype=float),
        one_each=max(labels, default=0) <= 1,
    )


def _total(metric: Metric, values: Iterable[Value], counted: set[Value]) -> Fraction:
    """For a rate the number of counted levels; for a mean the sum of ``multiplier * value / divisor``."""
    if metric.kind == "rate":
        return Fraction(sum(1 for value in values if value in counted))
    return sum((_exact(v) for v in values), Fraction(0)) * _exact(metric.multiplier) / _exact(metric.divisor)


def _exact(number: Value) -> Fraction:
    """The number as it was written: 0.1 is a tenth."""
    return Fraction(repr(number))


def estimate(metric: Metric, part: Part) -> Statistic:
    """A rate of single labels has Wilson's interval, everything else the bootstrap's."""
    if part.value is None:
        return Statistic()
    if metric.kind == "rate" and part.one_each:
        return Statistic(part.value, *wilson(int(part.total), part.labels))
    return Statistic(part.value, *percentiles(part.drawn))


def overall_of(metric: Metric, parts: Sequence[Part]) -> Statistic:
    """The unweighted mean of the unrounded dimension values, undefined if one of them is; or all labels pooled."""
    if metric.overall == "pooled":
        pooled = parts[0]
        for part in parts[1:]:
            pooled += part
        return estimate(metric, pooled)
    values = [part.value for part in parts if part.value is not None]
    if len(values) < len(parts):
        return Statistic()
    drawn = np.mean([part.drawn for part in parts], axis=0)
    return Statistic(sum(values, Fraction(0)) / len(values), *percentiles(drawn))


def percentiles(drawn: Floats) -> tuple[float | None, float | None]:
    """The middle 95% of the draws; undefined where they cannot differ, for that is not certainty."""
    defined = drawn[~np.isnan(drawn)]
    if not defined.size or np.ptp(defined) < 1e-12:
        return None, None
    low, high = np.percentile(defined, [2.5, 97.5])
    return float(low), float(high)


def ranked(rows: Sequence[_Row]) -> list[_Row]:
    """Best first; equals share a rank, what is undefined has none and comes last."""
    standing = [row for row in rows if row.standing.value is not None]
    standing.sort(key=lambda row: (-_value(row), row.model))
    placed = [replace(row, rank=_rank(row, standing)) for row in standing]
    return placed + [row for row in rows if row.standing.value is None]


def _value(row: _Row) -> Fraction:
    assert row.standing.value is not None
    return row.standing.value


def _rank(row: _Row, rows: Sequence[_Row]) -> tuple[int, int, int]:
    """The rank, and the best and worst that the intervals leave possible: who overlaps is not told apart."""
    ahead = sum(_value(other) > _value(row) for other in rows)
    surely_ahead = sum(_low(other) > _high(row) for other in rows)
    surely_behind = sum(_high(other) < _low(row) for other in rows)
    return ahead + 1, surely_ahead + 1, len(rows) - surely_behind


def _low(row: _Row) -> float:
    return -math.inf if row.standing.low is None else row.standing.low


def _high(row: _Row) -> float:
    return math.inf if row.standing.high is None else row.standing.high


def printed(metric: Metric, value: float | None) -> str:
    """As published tables print it: a rate ``45.38%``, a score ``79.8``, without trailing zeros; ``-`` if undefined.

    Rounded from the shortest decimal that is this float, so that a tie is one (half to even).
    """
    if value is None:
        return "-"
    exact = Decimal(repr(float(value)))
    return f"{float(round(exact * 100, 2))}%" if metric.kind == "rate" else f"{float(round(exact, 1))}"


def printed_interval(metric: Metric, low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{printed(metric, low)} - {printed(metric, high)}"
