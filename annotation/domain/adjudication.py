"""The rules of adjudication: what settles a task, what disputes it, and which decisions are repeated. Pure.

Every function works on plain values: ``labels`` maps a criterion to the value that one person gave it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from annotation.core.errors import N_, Unprocessable
from annotation.core.sampling import block_of

Value = int | float
Labels = Mapping[str, Value]

SINGLE, UNANIMOUS, WITHIN_TOLERANCE, ADJUDICATED = "single", "unanimous", "within_tolerance", "adjudicated"
MAJORITY, MEDIAN, AGGREGATED, EXPERT = "majority", "median", "aggregated", "expert"
SOURCES = (SINGLE, UNANIMOUS, WITHIN_TOLERANCE, MAJORITY, MEDIAN, AGGREGATED, ADJUDICATED, EXPERT)
"""Where the value of a gold label comes from, each a word of the canonical form; never renamed."""
DECIDED = frozenset({ADJUDICATED, EXPERT})
"""The sources that are a third person's word."""


@dataclass(frozen=True)
class SettledValue:
    """The value of a criterion and where it came from."""

    value: Value
    source: str


@dataclass(frozen=True)
class Outcome:
    """What follows from all the annotations of a task: settled criteria, and disputed ones (never both)."""

    settled: Mapping[str, SettledValue]
    disputed: tuple[str, ...]

    @property
    def state(self) -> str:
        return "disputed" if self.disputed else "agreed"


def settle(
    annotations: Sequence[Labels],
    *,
    tolerance: float = 0,
    nominal: frozenset[str] = frozenset(),
    settling: str = "adjudicate",
) -> Outcome:
    """Settle each criterion that all of ``annotations`` (one per annotator, at least one) answer.

    A criterion is settled when all values are equal, or all pairwise distances are within ``tolerance``
    (never for the criteria in ``nominal``, whose values have no distance). Anything else is disputed, unless the
    batch's policy ``settling`` is ``majority`` and more than half have one value, or ``median`` and the criterion is
    not nominal. A task is disputed if any criterion is.
    """
    criteria = annotations[0].keys()
    settled: dict[str, SettledValue] = {}
    disputed: list[str] = []
    for criterion in criteria:
        values = [labels[criterion] for labels in annotations]
        verdict = _settle_criterion(values, tolerance=0 if criterion in nominal else tolerance)
        if verdict is None and settling == "majority":
            verdict = _find_majority(values)
        elif verdict is None and settling == "median" and criterion not in nominal:
            verdict = SettledValue(lower_median(values), MEDIAN)
        if verdict is None:
            disputed.append(criterion)
        else:
            settled[criterion] = verdict
    return Outcome(settled=settled, disputed=tuple(disputed))


def _settle_criterion(values: Sequence[Value], *, tolerance: float) -> SettledValue | None:
    if len(values) == 1:
        return SettledValue(values[0], SINGLE)
    if len(set(values)) == 1:
        return SettledValue(values[0], UNANIMOUS)
    if max(values) - min(values) <= tolerance:
        return SettledValue(lower_median(values), WITHIN_TOLERANCE)
    return None


def _find_majority(values: Sequence[Value]) -> SettledValue | None:
    """What more than half of them gave; None without such a value."""
    value, n = Counter(values).most_common(1)[0]
    return SettledValue(value, MAJORITY) if 2 * n > len(values) else None


def lower_median(values: Sequence[Value]) -> Value:
    """The middle value; of two middle values the lower, so that the result was given by somebody."""
    return sorted(values)[(len(values) - 1) // 2]


def resolve_dispute(
    disputed: Sequence[str], decision: Labels, *, settling: str = "adjudicate"
) -> dict[str, SettledValue]:
    """The adjudicator decides the disputed criteria, all of them and no others."""
    missing = [criterion for criterion in disputed if criterion not in decision]
    if missing:
        raise Unprocessable(N_("The decision lacks {criteria}."), criteria=", ".join(missing))
    extra = [criterion for criterion in decision if criterion not in disputed]
    if extra:
        raise Unprocessable(
            N_("{criteria} is not disputed; decide only: {disputed}."),
            criteria=", ".join(extra),
            disputed=", ".join(disputed),
        )
    source = EXPERT if settling == "experts" else ADJUDICATED
    return {criterion: SettledValue(decision[criterion], source) for criterion in disputed}


def is_repeated(number: int, *, share: float, seed: str) -> bool:
    """Whether the ``number``-th decision (from 1) of an adjudicator in a batch comes back to them, at a ``share`` from
    0 to 1; ``annotation/core/sampling.py`` says which of them are drawn.
    """
    block = block_of(number, share=share, seed=seed)
    return block is not None and block.drawn == number
