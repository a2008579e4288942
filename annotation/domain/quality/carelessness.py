"""Who guesses, and who hurries: how far labels follow the truth that all labels have in common, and how fast they come.

Standardized labels of two people on one unit have a mean product of s_i s_j, where s is how far a person's labels
follow that common truth (C. Spearman, Am. J. Psychol. 15, 1904; one factor). A guesser's s is 0 with everybody; the s
of a person who is strict and consistent is not. The s of all people are estimated at once from all pairs, so that the
partner of a guesser is not taken for one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, bdtrc, bdtrik  # scipy.stats would make every start a second longer

from annotation.domain.quality import findings
from annotation.domain.quality.findings import CONFIDENCE, Finding, Kind, Z, make_undefined, score_excess
from annotation.domain.quality.labels import Floats, LabelTable, Pairs
from annotation.domain.quality.severity import find_obstacle, sum_cluster_squares

TOLERATED_AGREEMENT = 0.5
"""As a share of the middle person's s: who follows less than half as far as that one is taken to guess."""
# A person's own shares of levels are drawn to everybody's by so many labels, and the spread of their labels counts as
# half of everybody's at the least: who always gives one level follows nobody.
DRAWN = 5.0
MIN_SPREAD = 0.25
# So many labels like the middle person's draw every s a little: it decides where the pairs alone cannot.
RIDGE = 5.0
ROUNDS = 60
BEGIN = 0.8


@dataclass(frozen=True)
class Following:
    """s (P,), its standard error (P,), the pairs it was measured on, and their products (M,)."""

    at: Floats
    error: Floats
    pairs: Pairs
    products: Floats


def measure_following(pairs: Pairs) -> Following:
    used, products = _multiply_pairs(pairs)
    at = _fit_factor(used.between(products), used.between(np.ones(len(products))))
    left = products - at[used.left] * at[used.right]
    rows, _ = used.by_row(left * at[used.right], left * at[used.left])
    spread = sum_cluster_squares(used.table, rows)
    squares = used.between(np.ones(len(products))) @ at**2
    return Following(at, np.sqrt(spread) / (squares + RIDGE), used, products)


def _fit_factor(products: Floats, weights: Floats) -> Floats:
    """(P,): the s whose s_i s_j are nearest to the mean products, everybody's in turn while the others' stand."""
    at = np.full(len(weights), BEGIN)
    for _ in range(ROUNDS):
        middle = float(np.median(at))
        better = (products @ at + RIDGE * middle) / (weights @ at**2 + RIDGE)
        at = (at + better) / 2
    return at


def _multiply_pairs(pairs: Pairs) -> tuple[Pairs, Floats]:
    """The pairs on scales on which labels vary, and the products of their standardized labels.

    On an ordered scale a label is its level, less the person's mean. On a nominal one it is a vector with a 1 for its
    level, less the person's shares, and the product is the inner one.
    """
    table = pairs.table
    shares, spread = _count_shares(table)
    varied = pairs.only(spread[table.scale[pairs.left_rows]] > 0)
    left, right = varied.left_rows, varied.right_rows
    levels = np.arange(shares.shape[-1])
    means = (shares @ levels)[table.person, table.scale]
    ordered = (table.level - means)[left] * (table.level - means)[right]
    left_shares, right_shares = (shares[table.person[rows], table.scale[rows]] for rows in (left, right))
    place = np.arange(len(left))
    nominal = (
        (table.level[left] == table.level[right])
        - left_shares[place, table.level[right]]
        - right_shares[place, table.level[left]]
        + (left_shares * right_shares).sum(axis=1)
    )
    raw = np.where(table.ordered[left], ordered, nominal) / np.maximum(spread[table.scale[left]], 1e-300)
    size = np.sqrt(np.maximum(_measure_own_spread(table, shares, means, spread), MIN_SPREAD))
    return varied, raw / (size[varied.left] * size[varied.right])


def _count_shares(table: LabelTable) -> tuple[Floats, Floats]:
    """(P, S, K): each person's shares of the levels on each scale; (S,): the variance of everybody's labels."""
    scales, levels = len(table.scales), int(table.level.max(initial=0)) + 1
    cells = (table.person * scales + table.scale) * levels + table.level
    counts = np.bincount(cells, minlength=table.people * scales * levels).reshape(-1, scales, levels)
    all_shares = counts.sum(axis=0) / np.maximum(counts.sum(axis=(0, 2)), 1)[:, None]
    totals = counts.sum(axis=2, keepdims=True)
    shares = (counts + DRAWN * all_shares) / (totals + DRAWN)
    ordered = np.array([scale.ordered for scale in table.scales])
    places = np.arange(levels)
    variance = all_shares @ places**2 - (all_shares @ places) ** 2
    spread = np.where(ordered, variance, (all_shares * (1 - all_shares)).sum(axis=1))
    return shares, np.where(spread > 1e-12, spread, 0.0)


def _measure_own_spread(table: LabelTable, shares: Floats, means: Floats, spread: Floats) -> Floats:
    """(P,): the variance of a person's labels as a share of everybody's."""
    own_shares = shares[table.person, table.scale]
    nominal = 1 - 2 * own_shares[np.arange(len(own_shares)), table.level] + (own_shares**2).sum(axis=1)
    squares = np.where(table.ordered, (table.level - means) ** 2, nominal)
    known = spread[table.scale] > 0
    relative = np.divide(squares, spread[table.scale], out=np.zeros(len(squares)), where=known)
    sums = np.bincount(table.person, weights=relative, minlength=table.people)
    return sums / np.maximum(np.bincount(table.person, weights=known, minlength=table.people), 1)


def measure_guessing(pairs: Pairs, agreement: Following) -> dict[int, Finding]:
    """By person (as counted from 0): s, and whether it is less than half of the middle person's."""
    enough = [
        person for person in range(pairs.table.people) if find_obstacle(agreement.pairs, person) is None
    ]
    middle = float(np.median(agreement.at[enough])) if enough else 0.0
    return {person: _build_finding(pairs, agreement, person, middle) for person in range(pairs.table.people)}


def _build_finding(pairs: Pairs, agreement: Following, person: int, middle: float) -> Finding:
    reason = find_obstacle(pairs, person) or find_obstacle(agreement.pairs, person, few=findings.NO_VARIATION)
    n = int(agreement.pairs.labels[person])
    if reason is not None:
        return make_undefined(reason, n)
    value, error = float(agreement.at[person]), float(agreement.error[person])
    score, p = score_excess(TOLERATED_AGREEMENT * middle - value, error)
    return Finding(min(value, 1.0), max(-1.0, value - Z * error), min(1.0, value + Z * error), n, score, p)


TOLERATED_SPEED = 0.4
"""Of the usual time: so fast somebody may be."""
INSTANT = 0.2
"""Of the usual time: a label that took less came in no time."""
MAX_ACCIDENTAL_SHARE = 0.1
"""So large a share of labels in no time may be accidents."""


FASTEST = 6
"""Times the mean speed of silent reading: nobody reads faster and knows what stands there."""
MEAN_SPEEDS = (987 / 60, 255 / 60)
"""Characters a second of English, and of Chinese: means of adults on the IReST texts (S. Trauzettel-Klosinski,
K. Dietz, Invest. Ophthalmol. Vis. Sci. 53, 2012)."""
READ_AT_LEAST = 6.0
"""Seconds of reading at the mean speed: how a response begins often decides, and nobody has to read it to its end."""
REACTION = 0.5
"""Seconds to see that an item is there, and to press a key."""
FIRST_WIDE = "\u2e80"  # from here on characters are those of Chinese, Japanese or Korean


def measure_reading_floor(text: str) -> float:
    """Seconds in which nobody can have read as much of the text as a label needs: from ``REACTION``, of an empty text,
    to a second more. No more than the first 150 characters count.
    """
    wide = sum(character >= FIRST_WIDE for character in text[:MAX_READ])
    narrow = min(len(text), MAX_READ) - wide
    reading = narrow / MEAN_SPEEDS[0] + wide / MEAN_SPEEDS[1]
    return REACTION + min(reading, READ_AT_LEAST) / FASTEST


MAX_READ = 150
"""Characters: more than anybody reads in ``READ_AT_LEAST``."""


@dataclass(frozen=True)
class Speed:
    """``unread`` is the share of labels below the reading floor."""

    finding: Finding
    pace: float | None
    instant: float | None
    unread: float | None = None


def measure_speeds(table: LabelTable) -> dict[int, Speed]:
    """By person (as counted from 0). The usual time is the middle one of all people's medians; what nobody can have
    read is found without it.
    """
    timed = np.isfinite(table.seconds) & (table.seconds >= 0)
    own = [np.sort(table.seconds[timed & (table.person == person)]) for person in range(table.people)]
    is_unread = timed & (table.seconds < table.floor)
    unread = np.bincount(table.person[is_unread], minlength=table.people)
    known = [seconds for seconds in own if len(seconds) >= findings.MIN_LABELS]
    usual = float(np.median([np.median(seconds) for seconds in known])) if known else 0.0
    is_single = len(known) < findings.MIN_PEOPLE or usual <= 0
    return {
        person: _measure_speed(seconds, usual, is_single, int(unread[person]))
        for person, seconds in enumerate(own)
    }


def _measure_speed(seconds: Floats, usual: float, is_single: bool, unread: int) -> Speed:
    n = len(seconds)
    if n < findings.MIN_LABELS:
        return Speed(make_undefined(findings.FEW_TIMED, n), None, None)
    middle, (low, high) = float(np.median(seconds)), _find_median_interval(seconds)
    below_floor: tuple[float, float, Kind] = (*_test_share(unread, n), "unread")
    if is_single and unread <= MAX_ACCIDENTAL_SHARE * n:
        finding = Finding(middle, low, high, n, None, None, reason=findings.ONE_TIMED)
        return Speed(finding, None, None, unread / n)
    if is_single:
        score, p, kind = below_floor
        return Speed(Finding(middle, low, high, n, score, p, kind=kind), None, None, unread / n)
    instant = int((seconds < INSTANT * usual).sum())
    tests: list[tuple[float, float, Kind]] = [
        _test_pace(seconds, usual),
        (*_test_share(instant, n), "instant"),
        below_floor,
    ]
    score, p, kind = max(tests)
    return Speed(
        Finding(middle, low, high, n, score, min(1.0, len(tests) * p), kind=kind),
        middle / usual,
        instant / n,
        unread / n,
    )


def _find_median_interval(seconds: Floats) -> tuple[float, float]:
    """The interval between order statistics that covers the median whatever the distribution is."""
    n = len(seconds)
    below = _find_binomial_quantile(n, (1 - CONFIDENCE) / 2)
    return float(seconds[max(below - 1, 0)]), float(seconds[min(n - below, n - 1)])


def _find_binomial_quantile(n: int, share: float) -> int:
    """How many of ``n`` throws of a coin are heads at most, with a probability of ``share`` or more."""
    heads = math.ceil(bdtrik(share, n, 0.5))
    rounded_up = heads > 0 and bdtr(heads - 1, n, 0.5) >= share  # the inverse is of real numbers
    return heads - 1 if rounded_up else heads


def _test_pace(seconds: Floats, usual: float) -> tuple[float, float, Kind]:
    """On logarithms, because times are skewed; the median, and its error from the middle half of the labels."""
    logarithms = np.log(np.maximum(seconds, 0.1))
    low, middle, high = np.quantile(logarithms, [0.25, 0.5, 0.75])
    error = 1.2533 * (high - low) / 1.349 / math.sqrt(len(seconds))
    score, p = score_excess(math.log(TOLERATED_SPEED * usual) - float(middle), float(error))
    return score, p, "pace"


def _test_share(labels: int, n: int) -> tuple[float, float]:
    """Score and p of so many labels in too little time, where a tenth may be accidents."""
    expected = MAX_ACCIDENTAL_SHARE * n
    score = (labels - expected) / math.sqrt(expected * (1 - MAX_ACCIDENTAL_SHARE))
    return score, float(bdtrc(labels - 1, n, MAX_ACCIDENTAL_SHARE)) if labels else 1.0
