"""The rules of adjudication: what settles a task, what disputes it, and which decisions are repeated. Pure.

Every function works on plain values: ``labels`` maps a criterion to the value that one person gave it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from annotation.core.errors import N_, Unprocessable
from annotation.core.sampling import block_of
from annotation.domain.guidelines import AskedIf, GuidelineDocument, Label
from annotation.domain.guidelines.values import strip_turn

Value = int | float
Labels = Mapping[str, Label]

SINGLE, UNANIMOUS, WITHIN_TOLERANCE, ADJUDICATED = "single", "unanimous", "within_tolerance", "adjudicated"
MAJORITY, MEDIAN, AGGREGATED, EXPERT = "majority", "median", "aggregated", "expert"
SOURCES = (SINGLE, UNANIMOUS, WITHIN_TOLERANCE, MAJORITY, MEDIAN, AGGREGATED, ADJUDICATED, EXPERT)
"""Where the value of a gold label comes from, each a word of the canonical form; never renamed."""
DECIDED = frozenset({ADJUDICATED, EXPERT})
"""The sources that are a third person's word."""


@dataclass(frozen=True)
class SettlementRules:
    """By what the criteria of a batch are settled.

    ``tolerances`` are of single criteria, in place of ``tolerance``; the values of those in ``nominal`` have no
    distance. Both name a criterion that is asked of each turn once, and each turn settles by itself. ``conditions``
    stand in the guideline's order, so that what a criterion hangs on comes first. ``settling`` is the batch's policy.
    """

    tolerance: float = 0
    nominal: frozenset[str] = frozenset()
    tolerances: Mapping[str, float] = field(default_factory=dict)
    conditions: Mapping[str, AskedIf] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    settling: str = "adjudicate"

    @classmethod
    def of(cls, document: GuidelineDocument, tolerance: float, settling: str = "adjudicate") -> Self:
        """Those of a batch with this tolerance and this policy."""
        criteria = document.criteria
        return cls(
            tolerance=tolerance,
            settling=settling,
            nominal=document.nominal_criteria,
            tolerances={c.name: c.tolerance for c in criteria if c.tolerance is not None},
            conditions={c.name: c.asked_if for c in criteria if c.asked_if is not None},
            optional=frozenset(c.name for c in criteria if c.optional),
        )

    def find_tolerance(self, criterion: str) -> float:
        name = strip_turn(criterion)
        return 0 if name in self.nominal else self.tolerances.get(name, self.tolerance)

    def is_optional(self, criterion: str) -> bool:
        return strip_turn(criterion) in self.optional


NO_RULES = SettlementRules()


@dataclass(frozen=True)
class SettledValue:
    """The value of a criterion and where it came from."""

    value: Label
    source: str


@dataclass(frozen=True)
class Outcome:
    """What follows from all the annotations of a task: settled criteria, and disputed ones (never both)."""

    settled: Mapping[str, SettledValue]
    disputed: tuple[str, ...]

    @property
    def state(self) -> str:
        return "disputed" if self.disputed else "agreed"


def settle(annotations: Sequence[Labels], rules: SettlementRules = NO_RULES) -> Outcome:
    """Settle each criterion that ``annotations`` (one per annotator, at least one) answer.

    A criterion is settled when all values are equal, or all pairwise distances are within its tolerance. Anything else
    is disputed, unless the batch's policy ``settling`` is ``majority`` and more than half have one value, or ``median``
    and the criterion is not nominal. A task is disputed if any criterion is. Of an optional criterion those count who
    answered it. One that hangs on another is settled where the settled value of that has it asked, and is disputed with
    it; where somebody was not asked whom the settled value would have asked, it is disputed.
    """
    settled: dict[str, SettledValue] = {}
    disputed: list[str] = []
    names = dict.fromkeys(name for labels in annotations for name in labels)
    for criterion in (*(name for name in names if name not in rules.conditions), *rules.conditions):
        condition = rules.conditions.get(criterion)
        if condition is not None and condition.criterion in disputed:
            disputed.append(criterion)
            continue
        if condition is not None and not condition.holds(_get_value(settled, condition.criterion)):
            continue
        values = [labels[criterion] for labels in annotations if criterion in labels]
        if not values and (condition is None or rules.is_optional(criterion)):
            continue
        is_whole = len(values) == len(annotations) or rules.is_optional(criterion)
        verdict = settle_criterion(criterion, values, rules) if is_whole else None
        if verdict is None:
            disputed.append(criterion)
        else:
            settled[criterion] = verdict
    return Outcome(settled=settled, disputed=tuple(disputed))


def _get_value(settled: Mapping[str, SettledValue], criterion: str) -> Label | None:
    return settled[criterion].value if criterion in settled else None


def settle_criterion(criterion: str, values: Sequence[Label], rules: SettlementRules) -> SettledValue | None:
    """What the values that annotators gave to one criterion settle it as; None where they dispute it."""
    if len(values) == 1:
        return SettledValue(values[0], SINGLE)
    if values and len(set(values)) == 1:
        return SettledValue(values[0], UNANIMOUS)
    numbers = [value for value in values if not isinstance(value, str)]
    are_numbers = bool(values) and len(numbers) == len(values)
    if are_numbers and max(numbers) - min(numbers) <= rules.find_tolerance(criterion):
        return SettledValue(lower_median(numbers), WITHIN_TOLERANCE)
    if values and rules.settling == "majority":
        return _find_majority(values)
    if are_numbers and rules.settling == "median" and strip_turn(criterion) not in rules.nominal:
        return SettledValue(lower_median(numbers), MEDIAN)
    return None


def _find_majority(values: Sequence[Label]) -> SettledValue | None:
    """What more than half of them gave; None without such a value."""
    value, n = Counter(values).most_common(1)[0]
    return SettledValue(value, MAJORITY) if 2 * n > len(values) else None


def lower_median(values: Sequence[Value]) -> Value:
    """The middle value; of two middle values the lower, so that the result was given by somebody."""
    return sorted(values)[(len(values) - 1) // 2]


def resolve_dispute(
    disputed: Sequence[str], decision: Labels, rules: SettlementRules = NO_RULES
) -> dict[str, SettledValue]:
    """The adjudicator decides the disputed criteria, all of them that are asked beside the decision, and no others.

    One that is optional may be left open: then it has no gold.
    """
    required = [criterion for criterion in disputed if _is_asked(criterion, decision, disputed, rules)]
    missing = [name for name in required if name not in decision and not rules.is_optional(name)]
    if missing:
        raise Unprocessable(N_("The decision lacks {criteria}."), criteria=", ".join(missing))
    extra = [criterion for criterion in decision if criterion not in disputed]
    if extra:
        raise Unprocessable(
            N_("{criteria} is not disputed; decide only: {disputed}."),
            criteria=", ".join(extra),
            disputed=", ".join(disputed),
        )
    needless = [criterion for criterion in decision if criterion not in required]
    if needless:
        raise Unprocessable(
            N_("{criteria} is not asked beside what you decided; leave it out."), criteria=", ".join(needless)
        )
    source = EXPERT if rules.settling == "experts" else ADJUDICATED
    return {
        criterion: SettledValue(decision[criterion], source)
        for criterion in required
        if criterion in decision
    }


def _is_asked(criterion: str, decision: Labels, disputed: Sequence[str], rules: SettlementRules) -> bool:
    """What hangs on a settled criterion is disputed only where that has it asked."""
    condition = rules.conditions.get(criterion)
    if condition is None or condition.criterion not in disputed:
        return True
    return condition.holds(decision.get(condition.criterion))


def is_repeated(number: int, *, share: float, seed: str) -> bool:
    """Whether the ``number``-th decision (from 1) of an adjudicator in a batch comes back to them, at a ``share`` from
    0 to 1; ``annotation/core/sampling.py`` says which of them are drawn.
    """
    block = block_of(number, share=share, seed=seed)
    return block is not None and block.drawn == number
