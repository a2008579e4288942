"""May a judge or a scorer stand in for a person? The alternative annotator test of Calderon, Reichart and Dror.

"The Alternative Annotator Test for LLM-as-a-Judge", 2025, arXiv 2501.10970. Each person is left out in turn. On what
that person labelled, the candidate and the person are each compared with the others' labels: who is the closer to
them? The candidate wins against a person if it is closer often enough for the person's higher price (epsilon): by a
one-sided test for each person, with the false discovery rate held (Benjamini and Yekutieli 2001). Responses to one
prompt are not independent, so the test's standard error is over prompts. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Prompts = npt.NDArray[np.int64]
Alignment = Literal["accuracy", "distance"]

EPSILON = 0.2
"""How much more a person's labels cost than a candidate's, as a share of wins: the paper's value for experts."""
FALSE_DISCOVERY_RATE = 0.05
"""The false discovery rate, and the level of the tests."""
MIN_PROMPTS_OF_PERSON = 30
"""The paper asks for so many independent items of a person; a person with fewer prompts is left out."""
MIN_TESTED_PROMPTS = 10
"""Fewer prompts than this are never tested, whatever ``min_prompts`` is."""
MIN_PEOPLE = 3
"""The paper asks for so many people; with two the winning rate is 0, a half or 1."""
MIN_WINNING_RATE = 0.5
RESAMPLES = 2000


@dataclass(frozen=True)
class AlignmentScale:
    """The levels in their order. ``alignment`` is how near a label is to the others'.

    ``accuracy`` is the share of them that are equal; ``distance`` is minus the root of the mean square of the
    distances to them (the paper's two): in levels, or in values where ``values`` are an interval scale's.
    """

    values: tuple[float, ...]
    alignment: Alignment = "accuracy"
    is_interval: bool = False

    def score_label(self, label: float | None, other_labels: Sequence[float]) -> float:
        """A label that is no level of the scale (None) is as far away as can be."""
        if label is None or label not in self.values:
            return -np.inf
        if self.alignment == "accuracy":
            return sum(label == other for other in other_labels) / len(other_labels)
        squares = [(self._locate(label) - self._locate(other)) ** 2 for other in other_labels]
        return -math.sqrt(
            math.fsum(squares) / len(other_labels)
        )  # fsum: a tie is one in any order of the others

    def _locate(self, value: float) -> float:
        return value if self.is_interval else self.values.index(value)


@dataclass(frozen=True)
class RatedItem:
    """One question on one response: what each person said (by any key of theirs), and the candidate's label.

    Items of one ``prompt`` may go together; one without is independent of all others.
    """

    labels: Mapping[Hashable, float]
    candidate: float | None
    scale: AlignmentScale
    prompt: Hashable = None


@dataclass(frozen=True)
class PersonComparison:
    """The candidate against one person. ``n`` items of ``prompts`` that both labelled, and at least one other person.

    ``candidate_wins`` is the share on which the candidate is at least as near to the others as the person is,
    ``person_wins`` the share the other way round: of ties both have it. ``p`` is of the hypothesis that the candidate
    does not win often enough, ``adjusted`` the same as Benjamini and Yekutieli correct it; None where too little is
    there.
    """

    person: Hashable
    n: int
    prompts: int
    candidate_wins: float | None
    person_wins: float | None
    p: float | None = None
    adjusted: float | None = None
    wins: bool | None = None


@dataclass(frozen=True)
class AlternativeTest:
    """``winning_rate``: the share of people against whom the candidate wins; ``advantage``: the mean of its shares.

    Both are over the people with enough items and None with fewer than two of these; ``is_few`` with fewer than the
    paper's three.
    """

    epsilon: float
    people: tuple[PersonComparison, ...] = field(default_factory=tuple)
    winning_rate: float | None = None
    advantage: float | None = None
    passes: bool | None = None
    is_few: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "winning_rate": self.winning_rate,
            "passes": self.passes,
            "advantage_probability": self.advantage,
            "epsilon": self.epsilon,
            "few_people": self.is_few,
            "people": [
                {
                    "person": person.person,
                    "n": person.n,
                    "prompts": person.prompts,
                    "candidate_wins": person.candidate_wins,
                    "person_wins": person.person_wins,
                    "p": person.p,
                    "p_adjusted": person.adjusted,
                    "wins": person.wins,
                }
                for person in self.people
            ],
        }


def run_annotator_test(
    items: Sequence[RatedItem],
    *,
    epsilon: float = EPSILON,
    min_prompts: int = MIN_PROMPTS_OF_PERSON,
    rate: float = FALSE_DISCOVERY_RATE,
    seed: int = 0,
) -> AlternativeTest:
    """The whole test. Items that the candidate did not label are not to be among them.

    With items of 30 prompts or more a person is tested by the paired t-test of the paper; with fewer, where
    ``min_prompts`` admits them, by a bootstrap over the prompts. An adjudicator, who decides knowing two labels, is no
    person here.
    """
    min_prompts = max(min_prompts, MIN_TESTED_PROMPTS)
    comparisons = []
    for person, (candidate, human, prompts) in _count_wins(items).items():
        n, groups = len(candidate), len(np.unique(prompts))
        p = (
            compute_p_value(human - candidate, epsilon, prompts=prompts, seed=seed)
            if groups >= min_prompts
            else None
        )
        comparisons.append(
            PersonComparison(person, n, groups, float(candidate.mean()), float(human.mean()), p)
        )
    tested = [comparison for comparison in comparisons if comparison.p is not None]
    if len(tested) < 2:
        return AlternativeTest(epsilon, tuple(comparisons), is_few=True)
    adjusted = adjust_p_values([comparison.p for comparison in tested if comparison.p is not None])
    by_person = {comparison.person: p for comparison, p in zip(tested, adjusted, strict=True)}
    people = tuple(_decide(comparison, by_person.get(comparison.person), rate) for comparison in comparisons)
    won = [person for person in people if person.wins]
    winning_rate = len(won) / len(tested)
    return AlternativeTest(
        epsilon=epsilon,
        people=people,
        winning_rate=winning_rate,
        advantage=float(np.mean([comparison.candidate_wins for comparison in tested])),
        passes=winning_rate >= MIN_WINNING_RATE,
        is_few=len(tested) < MIN_PEOPLE,
    )


def _count_wins(items: Sequence[RatedItem]) -> dict[Hashable, tuple[Array, Array, Prompts]]:
    """By person, for each item: is the candidate at least as near to the others, are they, and the prompt's number."""
    wins: dict[Hashable, list[tuple[bool, bool, int]]] = defaultdict(list)
    numbers: dict[Hashable, int] = {}
    for place, item in enumerate(items):
        own = (place,) if item.prompt is None else (item.prompt, None)
        prompt = numbers.setdefault(own, len(numbers))
        for person, label in item.labels.items():
            other_labels = [other_label for other, other_label in item.labels.items() if other != person]
            if other_labels:
                candidate_score = item.scale.score_label(item.candidate, other_labels)
                person_score = item.scale.score_label(label, other_labels)
                wins[person].append(
                    (candidate_score >= person_score, person_score >= candidate_score, prompt)
                )
    columns = {person: np.array(rows) for person, rows in wins.items()}
    return {
        person: (table[:, 0].astype(np.float64), table[:, 1].astype(np.float64), table[:, 2])
        for person, table in columns.items()
    }


def _decide(comparison: PersonComparison, adjusted: float | None, rate: float) -> PersonComparison:
    if adjusted is None:
        return comparison
    return replace(comparison, adjusted=adjusted, wins=bool(adjusted <= rate))


def compute_p_value(
    differences: Array, epsilon: float, *, prompts: Prompts | None = None, seed: int = 0
) -> float:
    """Of the hypothesis that the mean difference (person's wins less the candidate's) is epsilon or more.

    A t-test with G - 1 degrees of freedom for G prompts, whose variance is that of a ratio of the prompts' sums:
    G / (G - 1) * sum over prompts of (sum of d - mean of d)^2 / n^2 (Liang and Zeger 1986; Cochran 1977, 6.4). With one
    item for each prompt, as without ``prompts``, it is the paired t-test. Where nothing varies there is nothing to
    estimate: 0 below epsilon, else 1.
    """
    n = len(differences)
    at = np.arange(n) if prompts is None else np.unique(prompts, return_inverse=True)[1]
    sizes = np.bincount(at)
    sums, groups = np.bincount(at, weights=differences), len(sizes)
    mean = float(differences.mean())
    residuals = sums - mean * sizes
    if np.allclose(residuals, 0):
        return 0.0 if mean < epsilon else 1.0
    if groups >= MIN_PROMPTS_OF_PERSON:
        from scipy import stats

        variance = groups / (groups - 1) * float((residuals**2).sum()) / n**2
        return float(stats.t.cdf((mean - epsilon) / math.sqrt(variance), df=groups - 1))
    rng = np.random.default_rng(seed)
    drawn = rng.integers(groups, size=(RESAMPLES, groups))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return float((1 + (means >= epsilon).sum()) / (1 + RESAMPLES))


def adjust_p_values(values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given: one is rejected at a rate q where it is at most q.

    p_(k) * m * (1 + 1/2 + .. + 1/m) / k, made monotone from the largest down: valid however the tests depend on
    each other, as they do here, since each person is among the others of the next.
    """
    m = len(values)
    factor = m * sum(1 / i for i in range(1, m + 1))
    order = np.argsort(values)
    adjusted = np.ones(m)
    least = 1.0
    for place in range(m - 1, -1, -1):
        least = min(least, values[order[place]] * factor / (place + 1))
        adjusted[order[place]] = least
    return [float(value) for value in adjusted]
