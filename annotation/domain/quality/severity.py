"""Who is above or below the others: the additive model of paired differences.

The labels of two people on one unit differ by b_i - b_j and noise, whatever the truth is. Least squares over all
pairs (H. Scheffe, JASA 47, 1952) gives everybody's b at once, so that a partner who is strict makes nobody else
lenient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from annotation.domain.quality import findings
from annotation.domain.quality.findings import Finding, Z, make_undefined, score_excess
from annotation.domain.quality.labels import Floats, Ints, LabelTable, Pairs

TOLERATED = 0.1
"""Levels: so far apart two reasonable readings of a guideline may be."""


@dataclass(frozen=True)
class Offsets:
    """at (P,): how far a person is above the middle one of their group, with its standard error (P,)."""

    at: Floats
    error: Floats


def estimate_offsets(pairs: Pairs, difference: Floats) -> Offsets:
    """difference (M,): of a pair, its one label's value less its other's."""
    people = pairs.table.people
    links = pairs.between(np.ones(len(difference)))
    inverse = _invert_laplacian(np.diag(links.sum(axis=1)) - links, pairs.groups)
    weighted = pairs.weight * difference
    sums = np.bincount(pairs.left, weights=weighted, minlength=people)
    sums -= np.bincount(pairs.right, weights=weighted, minlength=people)
    at = inverse @ sums
    left = difference - at[pairs.left] + at[pairs.right]
    error = _estimate_errors(pairs, left, np.diag(inverse))
    return Offsets(at - _find_middles(at, pairs.groups), error)


def _invert_laplacian(laplacian: Floats, groups: Ints) -> Floats:
    """Moore and Penrose's. What a Laplacian maps to 0 is what is constant within groups, so the projection on that,
    added, makes it regular.
    """
    same = groups[:, None] == groups[None, :]
    projection = same / same.sum(axis=1, keepdims=True)
    inverse: Floats = np.linalg.inv(laplacian + projection) - projection
    return inverse


def _estimate_errors(pairs: Pairs, left: Floats, leverage: Floats) -> Floats:
    """The sandwich of what the model leaves over, summed by person and task, because units of one task are not
    independent; as good as if the partners' offsets were known, or as the links between people allow.
    """
    rows, _ = pairs.by_row(left, -left)
    spread = sum_cluster_squares(pairs.table, rows)
    n = np.maximum(pairs.labels, 1)
    errors: Floats = np.sqrt(spread * np.maximum(1 / n, leverage) / n)
    return errors


def sum_cluster_squares(table: LabelTable, rows: Floats) -> Floats:
    """(P,): the sum over a person's annotations of the square of what its rows (N,) add up to."""
    of_label, owner = table.annotations.of_label, table.annotations.person
    sums = np.bincount(of_label, weights=rows, minlength=len(owner))
    return np.bincount(owner, weights=sums**2, minlength=table.people).astype(np.float64)


def _find_middles(at: Floats, groups: Ints) -> Floats:
    """(P,): the median of each one's group, which a few who are far off do not move."""
    middles = np.zeros(len(at))
    for group in np.unique(groups):
        is_member = groups == group
        middles[is_member] = np.median(at[is_member])
    return middles


def measure_differences(pairs: Pairs) -> tuple[Pairs, Floats]:
    """The pairs on scales with an order, and the differences of their labels in levels."""
    ordered = pairs.only(pairs.table.ordered[pairs.left_rows])
    level = pairs.table.level
    return ordered, (level[ordered.left_rows] - level[ordered.right_rows]).astype(np.float64)


def measure_severities(pairs: Pairs) -> dict[int, Finding]:
    """By person (as counted from 0): levels above the middle of all people; negative below."""
    ordered, difference = measure_differences(pairs)
    estimates = estimate_offsets(ordered, difference)
    return {
        person: _build_finding(
            float(estimates.at[person]), float(estimates.error[person]), int(ordered.labels[person]), reason
        )
        for person in range(pairs.table.people)
        for reason in [find_obstacle(pairs, person) or find_obstacle(ordered, person, few=findings.NO_ORDER)]
    }


def find_obstacle(pairs: Pairs, person: int, few: str = findings.FEW_SHARED) -> str | None:
    if pairs.labels[person] < findings.MIN_LABELS:
        return few
    return findings.FEW_PEOPLE if pairs.company[person] < findings.MIN_PEOPLE else None


def _build_finding(value: float, error: float, n: int, reason: str | None) -> Finding:
    if reason is not None:
        return make_undefined(reason, n)
    score, p = score_excess(abs(value) - TOLERATED, error)
    return Finding(value, value - Z * error, value + Z * error, n, score, p)
