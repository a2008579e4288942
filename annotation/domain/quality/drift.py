"""Who changes over time: the day on which severity or following changed most, and whether that is more than chance.

What the models of ``severity`` and ``following`` leave over of a person's labels is put in the order of time. Every
split into before and after is tried; the largest difference, in standard errors, is compared with the largest of as
many splits where nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from annotation.domain.quality import findings
from annotation.domain.quality.aggregation import Truths
from annotation.domain.quality.findings import CONFIDENCE, RISKS, Finding, Kind, make_undefined
from annotation.domain.quality.labels import Bools, Floats, Ints, LabelTable, Pairs
from annotation.domain.quality.severity import find_obstacle

TOLERATED: Mapping[Kind, float] = {"severity": 0.1, "agreement": 0.1}
"""Levels, and parts of s: so much may change."""
MIN_TASKS = 15
"""The fewest tasks before a split, and after it; and at least an eighth of them all."""
MIN_DAYS = 6
"""With fewer days than this, days are not told from chance."""
UNSURE = 1.6
"""One-sided 95%, in standard errors."""


@dataclass(frozen=True)
class _Residuals:
    """What the model leaves over of each task, by person and then in the order of time, and its day. Person p has the
    tasks from begins[p] to begins[p + 1]. noise (P,): by how much taking off what others do has raised the variance.
    """

    values: Floats
    days: Floats
    begins: Ints
    noise: Floats

    def of(self, person: int) -> tuple[Floats, Floats]:
        own = slice(self.begins[person], self.begins[person + 1])
        return self.values[own], self.days[own]


@dataclass(frozen=True)
class _Test:
    """The split is where ``signal`` changes most; the finding says how much ``reported`` changes there."""

    kind: Kind
    signal: _Residuals
    reported: _Residuals


@dataclass(frozen=True)
class _Change:
    """The tasks before it, the least share on either side that was tried, what to widen errors by, and the score."""

    test: _Test
    person: int
    before: int
    least: float
    wider: float
    score: float

    @property
    def p(self) -> float:
        return largest_by_chance(self.score, self.least)

    def finding(self, tests: int) -> Finding:
        values, days = self.test.reported.of(self.person)
        by, error = _measure_differences(values, np.array([self.before]))
        change, half = float(by[0]), float(error[0]) * self.wider * _find_critical_score(round(self.least, 3))
        day = float(days[self.before - 1] + days[self.before]) / 2
        p = min(1.0, self.p * tests)
        return Finding(
            change, change - half, change + half, len(days), self.score, p, day=day, kind=self.test.kind
        )


def measure_drifts(pairs: Pairs, truths: Truths, guessers: Bools) -> dict[int, Finding]:
    """By person (as counted from 0). The partners of somebody who drifts seem to drift the other way, so the worst
    is taken out as a partner, and the others are looked at again, until nobody else is found.

    guessers (P,): who is out as a partner from the beginning.
    """
    people = pairs.table.people
    signals = _estimate_signals(pairs.table, truths)
    trusted = ~guessers
    settled: dict[int, Finding] = {}
    while True:
        rest = _scan(pairs, signals, trusted)
        by_person = findings.flag_findings({**rest, **settled}, RISKS["drift"])
        by_person = {
            person: replace(finding, flagged=finding.flagged and _is_relevant(finding))
            for person, finding in by_person.items()
        }
        flagged = [person for person in by_person if by_person[person].flagged and person not in settled]
        if not flagged or trusted.sum() - 1 < max(2, people // 2):
            return by_person
        worst = max(flagged, key=lambda person: by_person[person].score or 0.0)
        settled[worst] = by_person[worst]
        trusted[worst] = False


def _is_relevant(finding: Finding) -> bool:
    return finding.kind is not None and abs(finding.value or 0.0) >= TOLERATED[finding.kind]


@dataclass(frozen=True)
class _Signals:
    """Of each label (N,), by what its unit's true level probably is, nan where nothing tells: how probably it is too
    high, too low, right; and how many levels it is too high.
    """

    high: Floats
    low: Floats
    right: Floats
    levels: Floats


def _estimate_signals(table: LabelTable, truths: Truths) -> _Signals:
    high, low, right, levels = (np.full(len(table.unit), np.nan) for _ in range(4))
    for scale, scale_values in enumerate(table.scales):
        rows = np.flatnonzero(table.scale == scale)
        truth = truths[scale]
        if truth is None:
            continue
        posteriors, levels_of_labels = truth.posteriors[rows], table.level[rows]
        place = np.arange(len(rows))
        up_to = posteriors.cumsum(axis=1)[place, levels_of_labels]
        right[rows] = posteriors[place, levels_of_labels]
        if scale_values.ordered:
            high[rows] = up_to - right[rows]
            low[rows] = 1 - up_to
            levels[rows] = levels_of_labels - posteriors @ np.arange(posteriors.shape[1])
    return _Signals(high, low, right, levels)


def _scan(pairs: Pairs, signals: _Signals, partners: Bools) -> dict[int, Finding]:
    table = pairs.table
    unit_weights = np.ones(len(pairs.left_rows))
    trusted, weights = pairs.by_row(partners[pairs.right] * unit_weights, partners[pairs.left] * unit_weights)
    rows = (weights > 0) & (trusted > 0.5)
    levels, right, high, low = (
        _compute_residuals(table, signal, rows, partners)
        for signal in (signals.levels, signals.right, signals.high, signals.low)
    )
    tests = [
        _Test("severity", high, levels),
        _Test("severity", low, levels),
        _Test("agreement", right, right),
    ]
    result = {}
    for person in range(table.people):
        reason = find_obstacle(pairs, person)
        changes = (
            [] if reason else [change for test in tests if (change := _find_largest_change(test, person))]
        )
        result[person] = _build_finding(changes, reason or findings.FEW_DAYS, int(pairs.labels[person]))
    return result


def _build_finding(changes: Sequence[_Change], reason: str, n: int) -> Finding:
    if not changes:
        return make_undefined(reason, n)
    return max(changes, key=lambda change: change.score).finding(len(changes))


def _compute_residuals(table: LabelTable, values: Floats, rows: Bools, trusted: Bools) -> _Residuals:
    """Less what the others who are trusted do on the same day, and with one mean on all scales, the person's own:
    another mix of criteria later is no drift.
    """
    used = rows & ~np.isnan(values)
    filled = np.where(used, values, 0.0)
    centred = _centre_rows(table, filled, used)
    witnesses = used & trusted[table.person]
    day_means = _average_others(table, centred, witnesses)
    sums = np.bincount(table.person, weights=filled, minlength=table.people)
    own = sums / np.maximum(np.bincount(table.person, weights=used, minlength=table.people), 1)
    left = _centre_rows(table, centred - day_means, used) + own[table.person]
    return _average_by_task(table, left, used, _measure_noise(table, used, witnesses))


def _measure_noise(table: LabelTable, used: Bools, witnesses: Bools) -> Floats:
    """(P,): the mean of the others on a day is itself off by chance, for all that somebody does on that day alike."""
    own_labels, witness_labels = (
        np.bincount(table.person, weights=rows, minlength=table.people) for rows in (used, witnesses)
    )
    other_labels = witness_labels.sum() - witness_labels
    noise: Floats = 1 + np.divide(
        own_labels, other_labels, out=np.zeros(table.people), where=other_labels > 0
    )
    return noise


def _average_by_task(table: LabelTable, rows: Floats, used: Bools, noise: Floats) -> _Residuals:
    all_of_them, of_label = table.annotations, table.annotations.of_label[used]
    size = len(all_of_them.person)
    counts = np.bincount(of_label, minlength=size)
    sums = np.bincount(of_label, weights=rows[used], minlength=size)
    order = all_of_them.order[counts[all_of_them.order] > 0]
    begins = np.searchsorted(all_of_them.person[order], np.arange(table.people + 1))
    return _Residuals(sums[order] / counts[order], all_of_them.day[order], begins.astype(np.int64), noise)


def _centre_rows(table: LabelTable, rows: Floats, used: Bools) -> Floats:
    """Less the person's mean on each scale."""
    cell = table.person * len(table.scales) + table.scale
    size = table.people * len(table.scales)
    sums = np.bincount(cell[used], weights=rows[used], minlength=size)
    means = sums / np.maximum(np.bincount(cell[used], minlength=size), 1)
    centred: Floats = rows - means[cell]
    return centred


def _average_others(table: LabelTable, rows: Floats, used: Bools) -> Floats:
    """(N,): the mean that everybody else has on the day of the label."""
    days = int(table.dates.max(initial=0)) + 1
    cell = table.person * days + table.dates
    size = table.people * days
    sums = np.bincount(cell[used], weights=rows[used], minlength=size).reshape(-1, days)
    counts = np.bincount(cell[used], minlength=size).reshape(-1, days)
    means = (sums.sum(axis=0) - sums) / np.maximum(counts.sum(axis=0) - counts, 1)
    by_row: Floats = means.ravel()[cell]
    return by_row


def _find_largest_change(test: _Test, person: int) -> _Change | None:
    """The split of a person's tasks, in the order of time, with the largest difference between before and after."""
    values, days = test.signal.of(person)
    n = len(values)
    least = max(MIN_TASKS, n // 8)
    before = np.arange(least, n - least + 1)
    before = before[days[before - 1] < days[before]]
    if not len(before):
        return None
    scores = _score_splits(values, before)
    split = int(before[np.argmax(scores)])
    wider = math.sqrt(_measure_day_variance(values, days, split) * float(test.signal.noise[person]))
    return _Change(test, person, split, least / n, wider, float(scores.max()) / wider)


def _score_splits(values: Floats, before: Ints) -> Floats:
    """How many standard errors the mean of probabilities changes after so many of them, either way.

    On arcsines, because rare errors are too skewed for a difference of means (M. S. Bartlett, Biometrics 3, 1947),
    and with the variance that the values have within the two parts, which is less than a coin's.
    """
    n, sums = len(values), np.cumsum(values)
    first, second = sums[before - 1] / before, (sums[-1] - sums[before - 1]) / (n - before)
    within = (values**2).sum() - before * first**2 - (n - before) * second**2
    edge = 0.5 / n
    low, high = np.clip(first, edge, 1 - edge), np.clip(second, edge, 1 - edge)
    coin = (before * low * (1 - low) + (n - before) * high * (1 - high)) / n
    spread = np.sqrt(np.maximum(within, 0) / max(n - 2, 1) / coin * (1 / before + 1 / (n - before)))
    turned = 2 * np.abs(np.arcsin(np.sqrt(high)) - np.arcsin(np.sqrt(low)))
    scores: Floats = np.divide(turned, spread, out=np.zeros(len(before)), where=spread > 1e-9)
    return scores


def _measure_differences(values: Floats, before: Ints) -> tuple[Floats, Floats]:
    """The mean after so many values less the mean of these, and its standard error."""
    n, sums = len(values), np.cumsum(values)
    first, second = sums[before - 1], sums[-1] - sums[before - 1]
    by = second / (n - before) - first / before
    within = (values**2).sum() - first**2 / before - second**2 / (n - before)
    return by, np.sqrt(np.maximum(within, 0) / max(n - 2, 1) * (1 / before + 1 / (n - before)))


def _measure_day_variance(values: Floats, days: Floats, before: int) -> float:
    """How much more the means of days vary than labels do by chance, surely, on either side of the split; 1 at the
    least. People have good and bad days, and one day's labels are not as many witnesses as there are labels.
    """
    after = np.arange(len(values)) >= before
    dates = np.floor(days) * 2 + after
    group = np.concatenate([[0], np.cumsum(dates[1:] != dates[:-1])])
    counts = np.bincount(group)
    freedom = len(counts) - 2, len(values) - len(counts)
    if freedom[0] < MIN_DAYS or freedom[1] < 1:
        return 1.0
    centred = values - np.where(after, values[before:].mean(), values[:before].mean())
    means = np.bincount(group, weights=centred) / counts
    between = (counts * means**2).sum()
    within = (centred**2).sum() - between
    if within <= 0:
        return 1.0
    ratio = between / freedom[0] / (within / freedom[1])
    return max(1.0, float(ratio) * (1 - UNSURE * math.sqrt(2 / freedom[0])))


def largest_by_chance(score: float, least: float) -> float:
    """How probable it is that the largest of all splits is at least ``score`` standard errors where nothing changes,
    with a share of ``least`` on either side at the least (R. Miller, D. Siegmund, Biometrics 38, 1982, eq. 8).
    """
    if score < 1:
        return 1.0
    span = 2 * math.log((1 - least) / least)
    density = math.exp(-(score**2) / 2) / math.sqrt(2 * math.pi) if score < 40 else 0.0
    return min(1.0, density * ((score - 1 / score) * span + 4 / score))


@lru_cache(maxsize=1024)
def _find_critical_score(least: float) -> float:
    """As many standard errors as no split is off with 95%: the interval stands whichever split was chosen."""
    return float(brentq(lambda score: largest_by_chance(score, least) - (1 - CONFIDENCE), 1.5, 10))
