"""Who copies: pairs that agree more than each one's agreement with everybody else explains.

Dawid and Skene's model tells each person's errors, and so how often two people agree who work on their own. Where two
labels differ, the adjudicator's decision is one more label on the unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from annotation.domain.quality import findings
from annotation.domain.quality.aggregation import Truth, Truths, count_by_truth, estimate_truth
from annotation.domain.quality.findings import RISKS, Copying
from annotation.domain.quality.labels import Bools, Floats, Ints, LabelTable, Pairs

TOLERATED = 0.25
"""Of the units: with less copied than this, a pair is not flagged however many units it shares."""
SUSPECT = 1e-3
"""With a smaller p than this, a pair is left out of everybody's errors when these are estimated again."""
DRAWN = 20.0
"""A person's errors on each true level are drawn to everybody's by so many labels: it is what makes pairs that are
expected to agree most agree as often as that (docs/quality.md)."""
ESTIMATED = 0.5
"""The variance of what two people are expected to agree on, by a label without the other, as a share of the variance of
an agreement: less than 1, because decisions tell more than another label does, and errors are drawn to everybody's."""
MIN_PAIRS_OF_LABELS = 100
"""With fewer pairs of labels on a kind of item than this, it counts with the others of its scale."""
MIN_PROBABILITY = 1e-13
"""Smaller probabilities are lost in the transform."""
MAX_LEVELS = 1000
"""More than a scale has, to number the levels of all scales."""
MAX_CELLS = 100_000
"""Probabilities of so many numbers of units, of all pairs together, are worked out at a time."""
MIN_PAIRS = 15
UNSURE = 3.0
"""Standard errors, each about 1 / sqrt(n) of the spread of n pairs: so much wider may be chance."""


@dataclass(frozen=True)
class _Meetings:
    """Who meets whom, and on what. Pairs of people (C,): low < high. Pairs of labels (M,): the pair of people of each,
    and the rows of the lower's label and of the higher's.
    """

    table: LabelTable
    low: Ints
    high: Ints
    pair_of_label: Ints
    rows: tuple[Ints, Ints]

    @classmethod
    def of(cls, pairs: Pairs) -> _Meetings:
        table, turned = pairs.table, pairs.left > pairs.right
        low, high = (
            np.where(turned, pairs.right_rows, pairs.left_rows),
            np.where(turned, pairs.left_rows, pairs.right_rows),
        )
        cells, pair_of_label = np.unique(
            table.person[low] * table.people + table.person[high], return_inverse=True
        )
        return cls(table, cells // table.people, cells % table.people, pair_of_label, (low, high))

    def on(self, scale: int) -> _Meetings:
        is_on_scale = self.table.scale[self.rows[0]] == scale
        rows = (self.rows[0][is_on_scale], self.rows[1][is_on_scale])
        return _Meetings(self.table, self.low, self.high, self.pair_of_label[is_on_scale], rows)

    @property
    def levels(self) -> tuple[Ints, Ints]:
        level = self.table.level
        return level[self.rows[0]], level[self.rows[1]]

    @property
    def agree(self) -> Bools:
        low, high = self.levels
        agree: Bools = low == high
        return agree


@dataclass(frozen=True)
class _Comparisons:
    """Of each two people (C,): units shared, units agreed on, as many as expected, score and p.

    tails: the p that each number of units agreed on would have, from 0 to n, pair after pair; begins (C,): where each
    one's are. is_testable: whether they share enough units, and each of them enough with others.
    """

    n: Ints
    agreed: Ints
    expected: Floats
    score: Floats
    p: Floats
    tails: Floats
    begins: Ints
    is_testable: Bools


def find_copying(pairs: Pairs, truths: Truths) -> list[Copying]:
    """The worst first: pairs that share ten units or more, and of which each shares thirty with others."""
    meetings = _Meetings.of(pairs)
    if not _find_testable(meetings, np.bincount(meetings.pair_of_label, minlength=len(meetings.low))).any():
        return []
    comparisons = _compare_pairs(meetings, truths, np.zeros(len(meetings.low), dtype=np.bool_))
    suspects = comparisons.p < SUSPECT
    if suspects.any():
        comparisons = _compare_pairs(meetings, _estimate_without(meetings, truths, suspects), suspects)
    return _list_pairs(meetings, comparisons)


def _estimate_without(meetings: _Meetings, truths: Truths, suspects: Bools) -> Truths:
    """The models again, without what suspects share; with it where nothing else is left."""
    left = np.zeros(len(meetings.table.unit), dtype=np.bool_)
    for rows in meetings.rows:
        left[rows[suspects[meetings.pair_of_label]]] = True
    return tuple(
        estimate_truth(meetings.table, scale, leaving=left) or before for scale, before in enumerate(truths)
    )


def _list_pairs(meetings: _Meetings, comparisons: _Comparisons) -> list[Copying]:
    corrected = _correct_p_values(comparisons)
    pairs = [
        Copying(
            first=int(meetings.low[cell]),
            second=int(meetings.high[cell]),
            n=int(comparisons.n[cell]),
            observed=float(comparisons.agreed[cell] / comparisons.n[cell]),
            expected=float(comparisons.expected[cell] / comparisons.n[cell]),
            p=float(comparisons.p[cell]),
            flagged=bool(corrected[cell] <= RISKS["copying"]),
            score=float(comparisons.score[cell]),
        )
        for cell in np.flatnonzero(comparisons.is_testable)
    ]
    enough = [replace(pair, flagged=pair.flagged and pair.copied >= TOLERATED) for pair in pairs]
    return sorted(enough, key=lambda pair: (-pair.score, pair.first, pair.second))


def _correct_p_values(comparisons: _Comparisons) -> Floats:
    """(C,): how probable it is that any pair has so small a p by chance.

    A pair that shares few units has few possible p, and the next one below a bound is often far below it. So what is
    added up is, of each pair, its largest possible p up to this one, not this one itself (R. E. Tarone, Biometrics
    46, 1990; P. H. Westfall, R. D. Wolfinger, Am. Stat. 51, 1997).
    """
    tested = np.flatnonzero(comparisons.is_testable)
    corrected = np.ones(len(comparisons.n))
    left = list(tested[np.argsort(comparisons.p[tested], kind="stable")])
    while left and comparisons.p[left[0]] < RISKS["copying"]:
        within = np.where(comparisons.tails <= comparisons.p[left[0]] * (1 + 1e-9), comparisons.tails, 0.0)
        corrected[left[0]] = np.maximum.reduceat(within, comparisons.begins)[left].sum()
        if corrected[left[0]] > RISKS["copying"]:
            break
        left.pop(0)
    return corrected


def _compare_pairs(meetings: _Meetings, truths: Truths, suspects: Bools) -> _Comparisons:
    """How probable it is that two people agree as often: in half of the cases by the lower's labels, in half by the
    higher's, since nobody knows who looks at whose.
    """
    size = len(meetings.low)
    n = np.bincount(meetings.pair_of_label, minlength=size)
    agreed = np.bincount(meetings.pair_of_label, weights=meetings.agree, minlength=size).astype(np.int64)
    chances = _estimate_chances(meetings, truths, suspects)
    both = (chances[0] + chances[1]) / 2
    expected = np.bincount(meetings.pair_of_label, weights=both, minlength=size).astype(np.float64)
    variances = (chances[0] * (1 - chances[0]) + chances[1] * (1 - chances[1])) / 2
    spread = np.sqrt(np.bincount(meetings.pair_of_label, weights=variances, minlength=size))
    is_testable = _find_testable(meetings, n)
    unsure = _measure_uncertainty(meetings, n)
    noise = unsure * _measure_noise(((agreed - expected) / np.maximum(spread, 1e-9) / unsure)[is_testable])
    tails = (_compute_tails(meetings, 0, chances[0], n) + _compute_tails(meetings, 1, chances[1], n)) / 2
    scores = -ndtri(np.clip(tails, MIN_PROBABILITY, 1 - 1e-16)) / np.repeat(noise, n + 1)
    begins = _find_begins(n)
    score = scores[begins + agreed]
    return _Comparisons(n, agreed, expected, score, ndtr(-score), ndtr(-scores), begins, is_testable)


def _estimate_chances(meetings: _Meetings, truths: Truths, suspects: Bools) -> tuple[Floats, Floats]:
    """(M,), (M,): the probability that the higher's label is the lower's, and that the lower's is the higher's."""
    by_low, by_high = np.ones(len(meetings.pair_of_label)), np.ones(len(meetings.pair_of_label))
    scale_of = meetings.table.scale[meetings.rows[0]]
    for scale, truth in enumerate(truths):
        is_on_scale = scale_of == scale
        if truth is not None and is_on_scale.any():
            by_low[is_on_scale], by_high[is_on_scale] = _estimate_chances_on(
                meetings.on(scale), truth, suspects
            )
    return by_low, by_high


def _estimate_chances_on(meetings: _Meetings, truth: Truth, suspects: Bools) -> tuple[Floats, Floats]:
    """Of the true level what the one's label tells of it, and of the other's label what that level does: on each kind
    of item by the share of each level there, and by how often people agree there.
    """
    errors = _estimate_errors_without(meetings, truth)
    trusted = ~suspects[meetings.pair_of_label]
    chances = np.ones((2, len(meetings.pair_of_label)))
    for labels, marginals in _list_kinds(meetings, truth):
        joint = [marginals[None, :, None] * error for error in errors]
        known = [
            chance_of_both / np.maximum(chance_of_both.sum(axis=1, keepdims=True), 1e-300)
            for chance_of_both in joint
        ]
        for side in (0, 1):
            agreeing = (known[side] * errors[1 - side]).sum(axis=1)
            chance = agreeing[meetings.pair_of_label[labels], meetings.levels[side][labels]]
            chances[side, labels] = _shift_chances(chance, meetings.agree[labels], trusted[labels])
    return chances[0], chances[1]


def _list_kinds(meetings: _Meetings, truth: Truth) -> Iterator[tuple[Ints, Floats]]:
    """Of each kind of item on the scale its pairs of labels, and the share of each true level (K,)."""
    stratum = meetings.table.stratum
    sizes = np.bincount(stratum[meetings.rows[0]], minlength=int(stratum.max(initial=0)) + 1)
    grouped = np.where(sizes[stratum] >= MIN_PAIRS_OF_LABELS, stratum, -1)
    of_pair = grouped[meetings.rows[0]]
    for kind in np.unique(of_pair):
        of_kind = truth.posteriors[truth.used & (grouped == kind)]
        marginals = of_kind.sum(axis=0) + DRAWN * truth.marginals
        yield np.flatnonzero(of_pair == kind), marginals / marginals.sum()


def _estimate_errors_without(meetings: _Meetings, truth: Truth) -> tuple[Floats, Floats]:
    """(C, K, K) for the lower and for the higher: of each true level, the share of each label, on what the person
    shares with others than the other.
    """
    table, size = meetings.table, len(meetings.low)
    rows = np.flatnonzero(truth.used)
    everywhere = count_by_truth(table.person[rows], table.level[rows], truth.posteriors[rows], table.people)
    all_counts = everywhere.sum(axis=0) + truth.prior
    usual = DRAWN * all_counts / all_counts.sum(axis=1, keepdims=True)
    without = []
    for side, people in enumerate((meetings.low, meetings.high)):
        own_rows = meetings.rows[side]
        together = count_by_truth(
            meetings.pair_of_label, meetings.levels[side], truth.posteriors[own_rows], size
        )
        counts = np.maximum(everywhere[people] - together, 0) + usual
        without.append(counts / counts.sum(axis=2, keepdims=True))
    return without[0], without[1]


def _shift_chances(chances: Floats, agree: Bools, trusted: Bools) -> Floats:
    """The probabilities, their logits moved by what makes them right on the whole: some tasks are easier for all, so
    that people agree more often than errors that are independent let them.
    """
    logits = logit(np.clip(chances, 1e-9, 1 - 1e-9))
    shift, agreements = 0.0, float(agree[trusted].sum())
    for _ in range(20):
        moved = expit(logits[trusted] + shift)
        slope = float((moved * (1 - moved)).sum())
        if slope < 1e-9:
            break
        step = (agreements - float(moved.sum())) / slope
        shift = min(10.0, max(-10.0, shift + step))
        if abs(step) < 1e-6:
            break
    shifted: Floats = expit(logits + shift)
    return shifted


def _compute_tails(meetings: _Meetings, side: int, chances: Floats, n: Ints) -> Floats:
    """How probable it is that two people agree on so many units or more, from 0 to n, pair after pair.

    The distribution is the Poisson binomial, by the Fourier transform of the product of its factors (Y. Hong, Comp.
    Stat. Data Anal. 59, 2013); all units with one label on one scale have one chance.
    """
    label = meetings.table.scale[meetings.rows[side]] * MAX_LEVELS + meetings.levels[side]
    kinds, kind = np.unique(label, return_inverse=True)
    cell, shape = meetings.pair_of_label * len(kinds) + kind, (len(n), len(kinds))
    trials = np.bincount(cell, minlength=len(n) * len(kinds)).reshape(shape)
    sums = np.bincount(cell, weights=chances, minlength=len(n) * len(kinds)).reshape(shape)
    means = sums / np.maximum(trials, 1)
    begins, tails = _find_begins(n), np.zeros(int((n + 1).sum()))
    for pairs in _split_by_size(n):
        width = int(n[pairs].max()) + 1
        turns = np.exp(-2j * np.pi * np.arange(width) / width)
        transform = np.ones((len(pairs), width), dtype=np.complex128)
        for chance, times in zip(means[pairs].T[:, :, None], trials[pairs].T[:, :, None], strict=True):
            transform *= (1 - chance + chance * turns) ** times
        density = np.clip(np.fft.ifft(transform, axis=1).real, 0.0, 1.0)
        rows = np.clip(density[:, ::-1].cumsum(axis=1)[:, ::-1], 0.0, 1.0)
        for pair, row in zip(pairs, rows, strict=True):
            tails[begins[pair] : begins[pair] + n[pair] + 1] = row[: n[pair] + 1]
    return tails


def _find_begins(n: Ints) -> Ints:
    begins: Ints = np.cumsum(n + 1) - (n + 1)
    return begins


def _split_by_size(n: Ints) -> Iterator[Ints]:
    """The pairs (C,) in parts, the largest first: as wide as the largest of a part, and at most ``MOST_CELLS`` in all.

    A few pairs may share a hundred times as many units as the others.
    """
    left = np.argsort(n, kind="stable")
    while len(left):
        most = max(1, MAX_CELLS // int(n[left[-1]] + 1))
        yield left[-most:]
        left = left[:-most]


def _find_testable(meetings: _Meetings, n: Ints) -> Bools:
    """(C,): whether two people share enough units, and each of them enough with others to know them by."""
    people = meetings.table.people
    shared = np.bincount(meetings.low, weights=n, minlength=people)
    shared += np.bincount(meetings.high, weights=n, minlength=people)
    with_others = np.minimum(shared[meetings.low], shared[meetings.high]) - n
    is_testable: Bools = (n >= findings.MIN_SHARED_UNITS) & (with_others >= findings.MIN_LABELS)
    return is_testable


def _measure_uncertainty(meetings: _Meetings, n: Ints) -> Floats:
    """(C,): by how much what two people are expected to agree on widens the difference, since it is itself estimated,
    from what each of them labelled without the other. The fewer people, the less that is.
    """
    labels = np.bincount(meetings.table.person, minlength=meetings.table.people)
    without = [np.maximum(labels[people] - n, 1) for people in (meetings.low, meetings.high)]
    factors: Floats = np.sqrt(1 + ESTIMATED * n * (1 / without[0] + 1 / without[1]))
    return factors


def _measure_noise(scores: Floats) -> float:
    """How much wider than chance can make it the middle half of all pairs is spread: that is what the model gets wrong
    of people. 1 at the least.
    """
    if len(scores) < MIN_PAIRS:
        return 1.0
    wider = np.median(np.abs(scores)) / ndtri(0.75)
    return max(1.0, float(wider * (1 - UNSURE / np.sqrt(len(scores)))))
