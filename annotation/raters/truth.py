"""What each unit's true level is likely to be, by Dawid and Skene's model of all labels on one scale.

Where an adjudicator decided, the decision is one more label on the unit, of one more worker. Decisions are there only
where labels differ; that does no harm, because which ones are missing depends on labels that the model sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from annotation.aggregation import dawid_skene
from annotation.raters.labels import Bools, Floats, Ints, Table

ITERATIONS = 60
PRECISION = 3e-5
# Labels that every person is taken to have given beforehand on each true level: so many right, so many of any kind.
RIGHT, ANY = 2.0, 1.0


@dataclass(frozen=True)
class Truth:
    """used (N,): the labels on the scale that the model saw. posteriors (N, K): of each one's unit, the probability of
    each level, 0 for labels not used. marginals (K,). prior (K, K): the labels taken for given.
    """

    used: Bools
    posteriors: Floats
    marginals: Floats
    prior: Floats


Truths: TypeAlias = tuple[Truth | None, ...]


def truths_of(table: Table) -> Truths:
    """By scale; None where nothing tells: one level, or one person's labels."""
    return tuple(truth_on(table, scale) for scale in range(len(table.scales)))


def truth_on(table: Table, scale: int, *, leaving: Bools | None = None) -> Truth | None:
    """``leaving`` (N,): labels that the model is not to see."""
    levels = len(table.scales[scale].values)
    prior = np.full((levels, levels), ANY / levels) + RIGHT * np.eye(levels)
    used = table.scale == scale
    if leaving is not None:
        used &= ~leaving
    rows = np.flatnonzero(used)
    if levels < 2 or not len(rows) or (table.person[rows] == table.person[rows[0]]).all():
        return None
    units, first = np.unique(table.unit[rows], return_index=True)
    decided = rows[first][table.decided[rows[first]] >= 0]
    fit = dawid_skene(
        task=np.concatenate([table.unit[rows], table.unit[decided]]),
        worker=np.concatenate([table.person[rows], np.full(len(decided), table.people)]),
        label=np.concatenate([table.level[rows], table.decided[decided]]),
        classes=levels,
        prior=prior,
        iterations=ITERATIONS,
        tolerance=PRECISION,
    )
    posteriors = np.zeros((len(used), levels))
    posteriors[rows] = fit.posteriors[np.searchsorted(units, table.unit[rows])]
    return Truth(used, posteriors, fit.marginals, prior)


def tables(owner: Ints, level: Ints, posteriors: Floats, owners: int) -> Floats:
    """(owners, K true, K labels): labels counted by the probability of each true level."""
    levels = posteriors.shape[1]
    cells = owner * levels + level
    columns = [
        np.bincount(cells, weights=posteriors[:, true], minlength=owners * levels) for true in range(levels)
    ]
    counts: Floats = np.stack(columns).astype(np.float64)
    return counts.reshape(levels, owners, levels).transpose(1, 0, 2)
