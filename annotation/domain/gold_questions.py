"""Gold questions: when one is due, which of them are chosen, and how the answers are scored. Pure."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from annotation.core.errors import N_
from annotation.core.proportions import wilson
from annotation.core.sampling import block_of, count_drawn
from annotation.domain.agreement import Pattern, Patterns, measure_agreement, pool
from annotation.domain.guidelines import Label

Labels: TypeAlias = Mapping[str, Label]
QualificationMeasure: TypeAlias = Literal["accuracy", "kappa"]
T = TypeVar("T", bound=Hashable)
# A round with fewer gold questions tells nothing: with all of five right the interval still begins at 0.57.
MIN_ITEMS = 5
TOO_FEW = N_("Fewer than {least} items were answered.")
ROUNDING = 1e-9
# Whoever surely has less than this share of the checks right is told to the manager.
MIN_SHARE = 0.7
# An item that so few have right, of so many who had it, is likely to be wrong itself.
MAX_SHARE_OF_BAD_ITEM = 0.34
MIN_ANSWERS = 3


def is_due(number: int, *, share: float, seed: str) -> bool:
    """Whether the ``number``-th item (from 1) that somebody is given is to be a check."""
    block = block_of(number, share=share, seed=seed)
    return block is not None and block.drawn == number


def count_checks_to_come(item_count: int, work: int, *, share: float, seed: str, most: int) -> int:
    """How many checks will come among ``work`` items of work after the first ``given``: at most ``most``, which are
    left for the person. The checks among them are items, too, so that t = work + those due among the next t.
    """
    before = count_drawn(item_count, share=share, seed=seed)
    checks = 0
    while True:
        due = count_drawn(item_count + work + checks, share=share, seed=seed) - before
        if due <= checks:
            return min(checks, most)
        checks = due


def pick_item(items: Sequence[T], *, seed: str, turn: object) -> T:
    """One of them, in an order of the person's own that nobody can tell."""
    return random.Random(f"{seed}:item:{turn}").choice(items)  # noqa: S311  # repeatable; the seed is the secret


def draw_balanced(items: Iterable[tuple[T, Hashable]], number: int, *, seed: int) -> list[T]:
    """``number`` of what was ``found``, drawn by the seed so that each kind comes as often as it can."""
    kinds: dict[Hashable, list[T]] = defaultdict(list)
    for item, kind in items:
        kinds[kind].append(item)
    chance = random.Random(seed)  # noqa: S311  # a choice that can be repeated, not a secret
    piles = [kinds[kind] for kind in sorted(kinds, key=repr)]
    for pile in piles:
        chance.shuffle(pile)
    chance.shuffle(piles)
    sample: list[T] = []
    while len(sample) < number and (piles := [pile for pile in piles if pile]):
        sample += [pile.pop() for pile in piles[: number - len(sample)]]
    return sample


@dataclass(frozen=True)
class GoldScale:
    """Of a criterion: its values in order, whether distances count as agreement within a tolerance, and its own."""

    values: tuple[float, ...]
    nominal: bool
    tolerance: float | None = None


def _find_tolerance(scale: GoldScale, tolerance: float) -> float:
    if scale.nominal:
        return 0
    return tolerance if scale.tolerance is None else scale.tolerance


def _is_near(label: Label, known: Label, tolerance: float) -> bool:
    """What is not applicable is near itself alone."""
    if isinstance(label, str) or isinstance(known, str):
        return label == known
    return abs(label - known) <= tolerance


@dataclass(frozen=True)
class Answer:
    """The labels that a person gave to one gold question, and the right ones."""

    labels: Labels
    known: Labels

    @property
    def is_right(self) -> bool:
        return all(self.labels.get(name) == value for name, value in self.known.items())

    def is_within(self, tolerance: float, scales: Mapping[str, GoldScale]) -> bool:
        """Whether no label is further from the right one than the batch lets two annotators differ."""
        return all(
            name in self.labels
            and _is_near(self.labels[name], value, _find_tolerance(scales[name], tolerance))
            for name, value in self.known.items()
        )

    def pairs(self) -> list[tuple[str, float, float]]:
        """(criterion, right, given) of each label; of numbers alone, since "not applicable" is on no scale."""
        stated = ((name, value, self.labels.get(name)) for name, value in self.known.items())
        return [
            (name, value, label)
            for name, value, label in stated
            if isinstance(value, int | float) and isinstance(label, int | float)
        ]


Confusion: TypeAlias = dict[str, Counter[tuple[float, float]]]
"""By criterion, how often each (right, given) pair of values came."""


def count_confusion(answers: Iterable[Answer]) -> Confusion:
    counts: Confusion = {}
    for answer in answers:
        for name, known, stated in answer.pairs():
            counts.setdefault(name, Counter())[known, stated] += 1
    return counts


@dataclass(frozen=True)
class Score:
    """``value`` over ``n`` labels, with its 95% interval; None where it is undefined, and ``reason`` says why."""

    n: int
    value: float | None
    low: float | None
    high: float | None
    reason: str | None = None

    def passes(self, threshold: float) -> bool:
        # A kappa that is 0.4 can come as 0.3999999999999999.
        return self.value is not None and self.reason is None and self.value >= threshold - ROUNDING


def score_answers(
    answers: Sequence[Answer], *, by: QualificationMeasure, scales: Mapping[str, GoldScale]
) -> Score:
    """How a round came out. Accuracy: the share of right labels, with Wilson's interval. Kappa: Cohen's, of the
    person with the known labels, over all criteria as one nominal scale, with its bootstrap interval.
    """
    pairs = [pair for answer in answers for pair in answer.pairs()]
    result = (
        _score_accuracy(pairs)
        if by == "accuracy"
        else _score_kappa(count_confusion(answers), scales, len(pairs))
    )
    if len(answers) < MIN_ITEMS:
        return Score(result.n, result.value, result.low, result.high, TOO_FEW.format(least=MIN_ITEMS))
    return result


def _score_accuracy(pairs: Sequence[tuple[str, float, float]]) -> Score:
    n, right = len(pairs), sum(known == stated for _name, known, stated in pairs)
    return Score(n, right / n, *wilson(right, n)) if n else Score(0, None, None, None)


def _score_kappa(counts: Confusion, scales: Mapping[str, GoldScale], n: int) -> Score:
    parts: list[tuple[Patterns, Sequence[float]]] = [
        (dict[Pattern, int](of.items()), scales[name].values) for name, of in counts.items()
    ]
    patterns, values = pool(parts)
    measured = measure_agreement(patterns, values=values, measurement="nominal", statistics=["cohen_kappa"])
    kappa = measured.statistics["cohen_kappa"]
    return Score(n, kappa.value, kappa.low, kappa.high, kappa.reason)


def is_poor(n: int, right: int) -> bool:
    """Whether somebody surely has less than ``MIN_SHARE`` of the checks right: the whole interval lies below."""
    return n > 0 and wilson(right, n)[1] < MIN_SHARE


def is_bad_item(answered: int, right: int) -> bool:
    """Whether hardly anybody has this item right, so that the item itself may be wrong."""
    return answered >= MIN_ANSWERS and right / answered <= MAX_SHARE_OF_BAD_ITEM
