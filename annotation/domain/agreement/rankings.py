"""How well people agree on rankings of a few entries, and on which entry is the best.

Of rankings Kendall's coefficient of concordance W (M. G. Kendall and B. Babington Smith 1939; ties: Kendall 1948): of
the squares by which mid-ranks lie from their mean the share that lies between the entries. 0: all entries have the same
sum of ranks; 1: all people rank alike. By chance it is 1 / m of m people. ``docs/agreement.md`` has the formulas.

Shapes: m people, n entries of an item, P prompts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from annotation.core.errors import N_
from annotation.domain.agreement.intervals import (
    EQUAL,
    MIN_DISPUTES,
    find_freedom,
    make_interval,
)
from annotation.domain.agreement.patterns import (
    FEW_DISPUTES,
    Agreement,
    Floats,
    Pattern,
    Patterns,
    PromptCounts,
    Statistic,
    Value,
)
from annotation.domain.agreement.statistics import measure_agreement
from annotation.domain.guidelines.entries import MAX_ENTRIES, NONE, list_choices

CHOICES: tuple[Value, ...] = list_choices(MAX_ENTRIES, none=True, ties=True)
CHOICE_STATISTICS = ("percent_agreement", "alpha_nominal")
MIN_RANKED_PROMPTS = 15
"""W of fewer has no interval: ``tests/performance/concordance_coverage.py`` shows why."""
FEW_RANKED_PROMPTS = "few_ranked_prompts"
NO_RANKINGS = N_("No item was ranked by two people who did not tie all entries.")


def compute_kendall_w(ranks: Sequence[Sequence[float]]) -> float | None:
    """W of the rankings of n entries by m people, a row each; any numbers that ascend with the rank will do.

    None of fewer than two people or entries, and where everybody ties all entries.
    """
    between, total = _sum_squares(ranks)
    return between / total if total else None


@dataclass(frozen=True)
class Concordance:
    """W over ``items`` that were ranked by two people or more who did not all tie all entries, of ``prompts`` prompts.

    ``chance`` is what W would be on average if all people kept their ties and drew the order; None as ``w`` is.
    """

    items: int
    prompts: int
    w: Statistic
    chance: float | None


def measure_concordance(
    items: Sequence[Sequence[Sequence[float]]],
    prompts: Sequence[Hashable] | None = None,
    *,
    confidence: float = 0.95,
) -> Concordance:
    """W pooled over items, each ranked by people of its own, as for ``compute_kendall_w``.

    Both sums of squares are summed over items before they are divided: a ratio estimate (Cochran 1977), in which an
    item counts by how far ranks can spread in it, m (n³ - n) / 12 without ties. ``prompts`` has the prompt of each item
    (each its own, without it), over which the interval is, as those of the other statistics are.
    """
    sums: dict[Hashable, list[float]] = defaultdict(lambda: [0.0, 0.0])
    chance, n = 0.0, 0
    for prompt, ranks in zip(range(len(items)) if prompts is None else prompts, items, strict=True):
        between, total = _sum_squares(ranks)
        if total:
            sums[prompt][0] += between
            sums[prompt][1] += total
            chance += total / len(ranks)
            n += 1
    if not n:
        return Concordance(0, 0, Statistic(None, None, None, NO_RANKINGS), None)
    rows = np.array(list(sums.values()))
    return Concordance(n, len(rows), _build_statistic(rows, confidence), chance / float(rows[:, 1].sum()))


def _sum_squares(ranks: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The squares of mid-ranks from their mean that lie between entries, and all of them; 0 of fewer than two people.

    m times the second is the largest sum of squares of rank sums that these ties allow.
    """
    if len({len(row) for row in ranks}) > 1:
        raise ValueError("a ranking of each person, all of the same entries")
    if len(ranks) < 2 or len(ranks[0]) < 2:
        return 0.0, 0.0
    table = np.array(ranks, dtype=np.float64)
    # Less the mean mid-rank, (n + 1) / 2: how many entries are better less how many are worse, by two.
    deviations = np.sign(table[:, :, None] - table[:, None, :]).sum(axis=2) / 2
    sums = deviations.sum(axis=0)
    return float(sums @ sums) / len(ranks), float(np.square(deviations).sum())


def _build_statistic(rows: Floats, confidence: float) -> Statistic:
    """Of sums of squares by prompt (P, 2), with what each prompt adds found by leaving it out, as ``intervals`` has it
    of units.
    """
    sums, prompts = rows.sum(axis=0), len(rows)
    value = float(sums[0] / sums[1])
    obstacle = None
    if prompts < MIN_RANKED_PROMPTS:
        obstacle = FEW_RANKED_PROMPTS
    elif np.count_nonzero(rows[:, 1] - rows[:, 0] > EQUAL * rows[:, 1]) < MIN_DISPUTES:
        obstacle = FEW_DISPUTES
    if obstacle is not None:
        return Statistic(value, None, None, no_interval=obstacle)
    left_out = (sums[0] - rows[:, 0]) / (sums[1] - rows[:, 1])
    squares = np.square((left_out.mean() - left_out) * (prompts - 1) / prompts)
    variance = float(squares.sum()) * prompts / (prompts - 1)
    freedom = find_freedom(float(squares.sum()), float(np.square(squares).sum()), prompts, prompts=prompts)
    interval = make_interval(value, variance, freedom, confidence)
    low = None if interval.low is None else max(0.0, interval.low)
    return Statistic(value, low, interval.high, no_interval=interval.no_interval)


@dataclass(frozen=True)
class ChoiceAgreement:
    """Percent agreement and nominal alpha on which entry is the best: of ``every`` label, ties and none being choices
    like others, and of the comparisons that people ``decided``.
    """

    every: Agreement
    decided: Agreement


def measure_choices(patterns: Patterns | PromptCounts, *, confidence: float = 0.95) -> ChoiceAgreement:
    """Of patterns of choices. Two labels of a unit are a decided comparison where both name an entry."""

    def measure(labels: Patterns | PromptCounts) -> Agreement:
        return measure_agreement(
            labels,
            values=CHOICES,
            measurement="nominal",
            statistics=CHOICE_STATISTICS,
            confidence=confidence,
        )

    return ChoiceAgreement(measure(patterns), measure(_leave_decided(patterns)))


def _leave_decided(patterns: Patterns | PromptCounts) -> Patterns | PromptCounts:
    """The same units, where whoever named no entry has no label."""
    if isinstance(patterns, PromptCounts):
        return patterns.rename([_keep_entries(pattern) for pattern in patterns.patterns])
    counts: Counter[Pattern] = Counter()
    for pattern, n in patterns.items():
        counts[_keep_entries(pattern)] += n
    return counts


def _keep_entries(pattern: Pattern) -> Pattern:
    return tuple(label if label is not None and label > NONE else None for label in pattern)
