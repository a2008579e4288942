"""Kappas of a pool of people, of whom any two may judge a unit: the mean over pairs of people, and Conger's.

Shapes: N units, R places for labels, G people, Q pairs of people, V levels, P prompts. Nominal, since levels of several
criteria may be pooled. What a unit adds to a value is its derivative; ``docs/agreement.md`` has the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from annotation.domain.agreement.intervals import find_freedom, make_interval
from annotation.domain.agreement.patterns import ONE_CATEGORY, Floats, Statistic

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RaterKappas:
    """``pairs`` pairs of people have a kappa; those whose labels are all the same have none."""

    pairs: int
    pairwise: Statistic
    conger: Statistic


def measure_rater_kappas(
    codes: npt.NDArray[Any],
    person: npt.NDArray[Any],
    prompt: npt.NDArray[Any],
    *,
    levels: int,
    no_interval: str | None,
    weights: Floats | None = None,
    confidence: float = 0.95,
) -> RaterKappas:
    """Of units with level codes (N, R), -1 where there is no label, by whom (N, R), and of which prompt (N,).

    ``weights`` (N,) are for how many units each stands; units of weight 0 are left out. ``no_interval`` is why a
    chance-corrected statistic of these units has no interval, if it has none.
    """
    has_two = (codes >= 0).sum(axis=1) > 1
    if weights is not None:
        has_two &= weights > 0
        weights = weights[has_two]
    codes, person = codes[has_two].astype(np.int64), person[has_two].astype(np.int64)
    _keys, of_prompt = np.unique(prompt[has_two], return_inverse=True)
    build = _StatisticBuilder(of_prompt, no_interval, confidence)
    pairs, pairwise = _measure_pairs(codes, person, levels, weights, build)
    return RaterKappas(pairs, pairwise, _measure_conger(codes, person, levels, weights, build))


@dataclass(frozen=True)
class _StatisticBuilder:
    """From a value and what each unit (N,) adds to it."""

    of_prompt: Ints
    no_interval: str | None
    confidence: float

    def build(self, value: float, added: Floats) -> Statistic:
        sums = np.bincount(self.of_prompt, weights=added)
        prompts, n = len(sums), len(added)
        by_prompt = float(np.square(sums).sum()) * prompts / max(1, prompts - 1)
        by_unit = float(np.square(added).sum()) * n / max(1, n - 1)
        freedom = find_freedom(float(np.square(sums).sum()), float((sums**4).sum()), prompts, prompts=prompts)
        interval = make_interval(
            value, max(by_prompt, by_unit), freedom, self.confidence, obstacle=self.no_interval
        )
        return Statistic(
            value,
            interval.low,
            interval.high,
            design_effect=by_prompt / by_unit if by_unit else None,
            no_interval=interval.no_interval,
        )


def _measure_pairs(
    codes: Ints, person: Ints, levels: int, weights: Floats | None, builder: _StatisticBuilder
) -> tuple[int, Statistic]:
    """The mean over pairs of people of Cohen's kappa, weighed by the units that both judged (Light 1971)."""
    unit, pair, first, second = _list_pairs(codes, person)
    names, at = np.unique(pair, return_inverse=True)
    weight = None if weights is None else weights[unit]
    cells = (at * levels + first) * levels + second
    tables = np.bincount(cells, weight, minlength=len(names) * levels**2)
    sizes = np.bincount(at, weight, minlength=len(names))
    shares = tables.reshape(len(names), levels, levels) / sizes[:, None, None]
    rows, columns = shares.sum(axis=2), shares.sum(axis=1)
    chance = (rows * columns).sum(axis=1)
    observed, expected = 1 - np.trace(shares, axis1=1, axis2=2), 1 - chance
    is_defined = expected[at] > 1e-12
    n = float(is_defined.sum() if weight is None else weight[is_defined].sum())
    if not n:
        return 0, Statistic(None, None, None, ONE_CATEGORY)
    unit, at, first, second = unit[is_defined], at[is_defined], first[is_defined], second[is_defined]
    kappas = 1 - np.divide(observed, expected, out=np.zeros(len(names)), where=expected > 1e-12)
    weight = None if weight is None else weight[is_defined]
    value = float(np.average(kappas[at], weights=weight))
    moved = columns[at, first] + rows[at, second] - 2 * chance[at]
    added = (
        kappas[at]
        - value
        - ((first != second) - observed[at]) / expected[at]
        - observed[at] / expected[at] ** 2 * moved
    ) / n
    added = added if weight is None else weight * added
    of_units = np.bincount(unit, weights=added, minlength=len(codes)).astype(np.float64)
    return len(np.unique(at)), builder.build(value, of_units)


def _list_pairs(codes: Ints, person: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Of each two labels of a unit: the unit, the pair of people, the label of the lower key and of the higher."""
    width = int(person.max(initial=0)) + 1
    columns: tuple[list[Ints], ...] = ([], [], [], [])
    for left, right in combinations(range(codes.shape[1]), 2):
        unit = np.flatnonzero((codes[:, left] >= 0) & (codes[:, right] >= 0))
        is_turned = person[unit, left] > person[unit, right]
        low, high = (
            np.where(is_turned, values[unit, second], values[unit, first])
            for values, first, second in ((person, left, right), (person, right, left))
        )
        low_code = np.where(is_turned, codes[unit, right], codes[unit, left])
        high_code = np.where(is_turned, codes[unit, left], codes[unit, right])
        for column, values in zip(columns, (unit, low * width + high, low_code, high_code), strict=True):
            column.append(values)
    unit, pair, first_code, second_code = (
        np.concatenate(column) if column else np.zeros(0, np.int64) for column in columns
    )
    return unit, pair, first_code, second_code


def _measure_conger(
    codes: Ints, person: Ints, levels: int, weights: Floats | None, builder: _StatisticBuilder
) -> Statistic:
    """Chance from each person's own marginals (Conger 1980; missing labels: Gwet 2014)."""
    unit, place = np.nonzero(codes >= 0)
    label = codes[unit, place]
    people, at = np.unique(person[unit, place], return_inverse=True)
    if len(people) < 2:
        return Statistic(None, None, None, ONE_CATEGORY)
    weight = None if weights is None else weights[unit]
    counts = np.bincount(at, weight, minlength=len(people)).astype(np.float64)
    table = np.bincount(at * levels + label, weight, minlength=len(people) * levels)
    shares = table.reshape(len(people), levels) / counts[:, None]
    mean, raters = shares.mean(axis=0), len(people)
    spread = np.square(shares - mean).sum(axis=0) / (raters - 1)
    chance = float((np.square(mean) - spread / raters).sum())
    if 1 - chance < 1e-12:
        return Statistic(None, None, None, ONE_CATEGORY)
    value_counts = np.stack([(codes == level).sum(axis=1) for level in range(levels)], axis=1)
    r = value_counts.sum(axis=1)
    agreeing = (value_counts * (value_counts - 1)).sum(axis=1) / (r * (r - 1))
    observed = float(np.average(agreeing, weights=weights))
    value = (observed - chance) / (1 - chance)
    slopes = 2 * mean / raters - 2 * (shares - mean) / (raters * (raters - 1))  # of chance by each share
    by_label = (slopes[at, label] - (slopes * shares).sum(axis=1)[at]) / counts[at]
    by_label = by_label if weight is None else weight * by_label
    chance_added = np.bincount(unit, weights=by_label, minlength=len(codes))
    own = (agreeing - observed) / len(codes)
    if weights is not None:
        own = weights * (agreeing - observed) / weights.sum()
    added = own / (1 - chance) - (1 - value) / (1 - chance) * chance_added
    return builder.build(value, added)
