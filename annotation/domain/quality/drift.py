"""Who changes over time: the day on which severity or following changed most, and whether that is more than chance.

How probably each of a person's labels is too high, too low or right is put in the order of time, and compared on items
of one kind alone. Every split into before and after is tried; the largest difference, in standard errors, is compared
with the largest of as many splits where nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincc, ndtr, ndtri

from annotation.domain.quality import findings
from annotation.domain.quality.aggregation import Truths
from annotation.domain.quality.findings import CONFIDENCE, RISKS, Finding, Kind, make_undefined
from annotation.domain.quality.labels import Bools, Floats, Ints, LabelTable, Pairs
from annotation.domain.quality.severity import find_obstacle

TOLERATED: Mapping[Kind, float] = {"severity": 0.1, "agreement": 0.1}
"""Levels, and parts of s: so much may change."""
LEAST_INFORMATION = 7 / 16
"""Splits with a smaller share than this of the best one's information are not tried: where items are of one kind, those
with less than an eighth of the tasks on either side."""
MIN_INFORMATION = 7.5
"""As of a split with 15 tasks on either side."""
MIN_SHARE = 1 / 3
"""Where less than this is left of the information by comparing items of one kind alone, the types of items follow each
other in time, and nobody can tell a change of the person from a change of the items."""
DRAWN = 10.0
"""Labels of the others, by which their mean on a day is drawn to 0."""
MIN_SKEW = 1e-2
MIN_PROBABILITY = 1e-300
MIN_CORRELATION = 0.05
MIN_DAYS = 6
"""With fewer days than this, days are not told from chance."""
UNSURE = 1.6
"""One-sided 95%, in standard errors."""


@dataclass(frozen=True)
class _Residuals:
    """What the model leaves over of each task, by person and then in the order of time, with its day and its stratum.
    Person p has the tasks from begins[p] to begins[p + 1]. noise (P,): by how much taking off what others do has raised
    the variance.
    """

    values: Floats
    days: Floats
    strata: Ints
    begins: Ints
    noise: Floats

    def of(self, person: int) -> Floats:
        return self.values[self.begins[person] : self.begins[person + 1]]

    def splits(self, person: int) -> _Splits:
        own = slice(self.begins[person], self.begins[person + 1])
        return _Splits.of(self.days[own], self.strata[own])


@dataclass(frozen=True)
class _Test:
    """The split is where ``signal`` changes most; the finding says how much ``reported`` changes there."""

    kind: Kind
    signal: _Residuals
    reported: _Residuals


@dataclass(frozen=True)
class _Change:
    """At which of the splits, by how much neighbouring splits differ, what to widen errors by, and the score."""

    test: _Test
    person: int
    splits: _Splits
    place: int
    steps: Floats
    wider: float
    score: float

    @property
    def p(self) -> float:
        return largest_by_chance(self.score, self.steps)

    def finding(self, tests: int) -> Finding:
        change, error = self.splits.change(self.test.reported.of(self.person), self.place)
        half = error * self.wider * _find_critical_score(self.steps)
        days, before = self.splits.days, int(self.splits.before[self.place])
        p = min(1.0, self.p * tests)
        return Finding(
            change,
            change - half,
            change + half,
            len(days),
            self.score,
            p,
            day=float(days[before - 1] + days[before]) / 2,
            kind=self.test.kind,
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
        changes: list[_Change] = []
        if reason is None:
            reason, changes = _find_changes(tests, person)
        result[person] = _build_finding(changes, reason or findings.FEW_DAYS, int(pairs.labels[person]))
    return result


def _find_changes(tests: Sequence[_Test], person: int) -> tuple[str | None, list[_Change]]:
    """The largest change of each signal, or why none can be looked for."""
    changes = []
    for test in tests:
        splits = test.signal.splits(person)
        if splits.obstacle:
            return splits.obstacle, []
        changes.append(_find_largest_change(test, person, splits))
    return None, changes


def _build_finding(changes: Sequence[_Change], reason: str, n: int) -> Finding:
    if not changes:
        return make_undefined(reason, n)
    return max(changes, key=lambda change: change.score).finding(len(changes))


def _compute_residuals(table: LabelTable, values: Floats, rows: Bools, trusted: Bools) -> _Residuals:
    """Less the person's mean on each kind of item of each scale, and less what the others who are trusted do on the
    same day on the same kind: neither another mix of items later nor a day that is hard for everybody is a drift.
    """
    used = rows & ~np.isnan(values)
    filled = np.where(used, values, 0.0)
    centred = _centre_rows(table, filled, used)
    witnesses = used & trusted[table.person]
    left = _centre_rows(table, centred - _average_others(table, centred, witnesses), used)
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
    return _Residuals(
        sums[order] / counts[order],
        all_of_them.day[order],
        all_of_them.stratum[order],
        begins.astype(np.int64),
        noise,
    )


def _centre_rows(table: LabelTable, rows: Floats, used: Bools) -> Floats:
    """Less the person's mean on each kind of item of each scale."""
    strata = int(table.stratum.max(initial=0)) + 1
    cell, size = table.person * strata + table.stratum, table.people * strata
    sums = np.bincount(cell[used], weights=rows[used], minlength=size)
    means = sums / np.maximum(np.bincount(cell[used], minlength=size), 1)
    centred: Floats = rows - means[cell]
    return centred


def _average_others(table: LabelTable, rows: Floats, used: Bools) -> Floats:
    """(N,): the mean that everybody else has on the day of the label on items of its kind, drawn to 0 by so many
    labels as ``DRAWN``: a mean of few labels says more of chance than of the day.
    """
    _, cell = np.unique(
        table.dates * (int(table.stratum.max(initial=0)) + 1) + table.stratum, return_inverse=True
    )
    cells = int(cell.max(initial=0)) + 1
    _, own = np.unique(table.person * cells + cell, return_inverse=True)
    sums, counts = (
        np.bincount(cell[used], weights=weights, minlength=cells)[cell]
        - np.bincount(own[used], weights=weights, minlength=int(own.max(initial=0)) + 1)[own]
        for weights in (rows[used], np.ones(int(used.sum())))
    )
    means: Floats = sums / (counts + DRAWN)
    return means


@dataclass(frozen=True)
class _Splits:
    """One person's tasks in the order of time, parted by every split: after so many tasks (B,).

    membership (n, K): which stratum a task is of. information (B,): of a comparison within strata, as the product of
    the tasks before and after over their sum, added up over strata. variances (B, K): of each stratum's sum before the
    split, by sampling without replacement, as a multiple of the variance of its tasks; skews (B, K): the same of the
    third moment. best: the largest information of any split between two days, within strata and with all tasks as if
    of one.
    """

    days: Floats
    membership: Floats
    before: Ints
    information: Floats
    variances: Floats
    skews: Floats
    best: tuple[float, float]

    @classmethod
    def of(cls, days: Floats, strata: Ints) -> _Splits:
        n = len(days)
        numbers, stratum = np.unique(strata, return_inverse=True)
        membership = (stratum[:, None] == np.arange(len(numbers))[None, :]).astype(np.float64)
        at = np.arange(1, n)
        early = membership.cumsum(axis=0)[at - 1]
        sizes = membership.sum(axis=0)
        late = sizes - early
        information = (early * late / sizes).sum(axis=1)
        is_between = days[at - 1] < days[at]
        best = (
            float(information[is_between].max(initial=0)),
            float((at * (n - at) / n)[is_between].max(initial=0)),
        )
        is_tried = is_between & (information >= max(LEAST_INFORMATION * best[0], MIN_INFORMATION))
        early, late = early[is_tried], late[is_tried]
        variances = early * late / np.maximum(sizes * (sizes - 1), 1)
        skews = early * late * (late - early) / np.maximum(sizes * (sizes - 1) * (sizes - 2), 1)
        return cls(days, membership, at[is_tried], information[is_tried], variances, skews, best)

    @property
    def obstacle(self) -> str | None:
        """Why no change can be looked for."""
        within, plain = self.best
        if plain < MIN_INFORMATION:
            return findings.FEW_DAYS
        return findings.TYPE_WITH_TIME if within < max(MIN_SHARE * plain, MIN_INFORMATION) else None

    def sums(self, values: Floats) -> Floats:
        """(B,): of what is centred within strata, the sum before each split."""
        sums: Floats = values.cumsum()[self.before - 1]
        return sums

    def score(self, values: Floats) -> tuple[Floats, Floats]:
        """(B,): standard errors, as if the sum were normal; and (B - 1,), or fewer, by how much neighbouring splits
        differ.

        Under no change any order of a stratum's tasks is as probable as any other. The sum before a split then has the
        moments of sampling without replacement, and its tail is that of the Pearson III distribution with these three
        (P. W. Mielke, K. J. Berry, Permutation Methods, 2001): rare errors are too skewed for a normal one.
        """
        squares, cubes = (values**power @ self.membership for power in (2, 3))
        variance = self.variances @ squares
        is_varied = variance > 1e-9
        spread = np.sqrt(np.where(is_varied, variance, 1.0))
        sums = self.sums(values)
        skew = np.divide(
            self.skews @ cubes * np.sign(sums), spread**3, out=np.zeros(len(sums)), where=is_varied
        )
        scores = np.where(is_varied, _normalize(np.abs(sums) / spread, skew), 0.0)
        return scores, self._measure_steps(squares, variance)

    def _measure_steps(self, squares: Floats, variance: Floats) -> Floats:
        """Minus twice the logarithms of the correlations between neighbouring splits."""
        sizes = np.maximum(self.membership.sum(axis=0), 1)
        early = self.membership.cumsum(axis=0)[self.before - 1]
        per_task = squares / np.maximum(sizes - 1, 1)
        shared = (early[:-1] * (sizes - early[1:]) / sizes) @ per_task
        known = (variance[:-1] > 1e-9) & (variance[1:] > 1e-9)
        correlation = shared[known] / np.sqrt(variance[:-1] * variance[1:])[known]
        steps: Floats = -2 * np.log(np.clip(correlation, MIN_CORRELATION, 1.0))
        return steps

    def change(self, values: Floats, place: int) -> tuple[float, float]:
        """The mean after a split less the mean before it, within strata, and its standard error."""
        information = float(self.information[place])
        change = -float(self.sums(values)[place]) / information
        after = np.arange(len(values)) >= self.before[place]
        share_after = (after @ self.membership) / np.maximum(self.membership.sum(axis=0), 1)
        left = values - change * (after - self.membership @ share_after)
        variance = float(self.variances[place] @ (left**2 @ self.membership))
        return change, math.sqrt(max(variance, 0.0)) / information


def _normalize(scores: Floats, skew: Floats) -> Floats:
    """The normal deviates that are as improbable as these of the Pearson III distribution with this skewness. Where it
    is skewed to the other side its tail is shorter than a normal one, and ends too early: the score stays.
    """
    shape = 4 / np.maximum(skew, MIN_SKEW) ** 2
    tails = gammaincc(shape, shape + scores * np.sqrt(shape))
    normal: Floats = np.where(skew > MIN_SKEW, -ndtri(np.maximum(tails, MIN_PROBABILITY)), scores)
    return normal


def _find_largest_change(test: _Test, person: int, splits: _Splits) -> _Change:
    """The split of a person's tasks, in the order of time, with the largest difference between before and after."""
    values = test.signal.of(person)
    scores, steps = splits.score(values)
    place = int(np.argmax(scores))
    noise = float(test.signal.noise[person])
    wider = math.sqrt(_measure_day_variance(values, splits, place) * noise)
    return _Change(test, person, splits, place, steps, wider, float(scores[place]) / wider)


def _measure_day_variance(values: Floats, splits: _Splits, place: int) -> float:
    """How much more the means of days vary than labels do by chance, surely, on either side of the split; 1 at the
    least. People have good and bad days, and one day's labels are not as many witnesses as there are labels.
    """
    after = np.arange(len(values)) >= splits.before[place]
    dates = np.floor(splits.days) * 2 + after
    group = np.concatenate([[0], np.cumsum(dates[1:] != dates[:-1])])
    counts = np.bincount(group)
    freedom = len(counts) - 2, len(values) - len(counts)
    if freedom[0] < MIN_DAYS or freedom[1] < 1:
        return 1.0
    centred = values - np.where(after, values[after].mean(), values[~after].mean())
    means = np.bincount(group, weights=centred) / counts
    between = (counts * means**2).sum()
    within = (centred**2).sum() - between
    if within <= 0:
        return 1.0
    ratio = between / freedom[0] / (within / freedom[1])
    return max(1.0, float(ratio) * (1 - UNSURE * math.sqrt(2 / freedom[0])))


def largest_by_chance(score: float, steps: Floats) -> float:
    """How probable it is that the largest of all splits is at least ``score`` standard errors where nothing changes
    (R. Miller, D. Siegmund, Biometrics 38, 1982, eq. 8).

    steps (B - 1,): minus twice the logarithms of the correlations between neighbouring splits. Their sum is the 2 log
    ((1 - e) / e) of that paper, where a share of e is on either side at the least. The paper is of continuous time; of
    splits that lie apart, as whole days do, fewer are tried (D. Siegmund, B. Yakir, The Statistics of Gene Mapping,
    2007).
    """
    if score < 1:
        return 1.0
    density = math.exp(-(score**2) / 2) / math.sqrt(2 * math.pi) if score < 40 else 0.0
    tried = float((steps * _correct_for_gaps(score * np.sqrt(steps))).sum())
    return min(1.0, density * ((score - 1 / score) * tried + 4 / score))


def _correct_for_gaps(gaps: Floats) -> Floats:
    """The overshoot function of a random walk, from 1 without gaps to 0."""
    half = np.maximum(gaps, 1e-6) / 2
    below = ndtr(half)
    factors: Floats = (below - 0.5) / half / (half * below + np.exp(-(half**2) / 2) / math.sqrt(2 * math.pi))
    return factors


def _find_critical_score(steps: Floats) -> float:
    """As many standard errors as no split is off with 95%: the interval stands whichever split was chosen."""
    return float(brentq(lambda score: largest_by_chance(score, steps) - (1 - CONFIDENCE), 1.0, 12, xtol=1e-3))
