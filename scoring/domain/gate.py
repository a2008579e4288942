"""May a new scorer take the place of the current one? Pure: numpy alone.

Both are asked about the same labelled responses: neither has learned from them, nor from any other to their prompts.
On each criterion the difference of their accuracy (new minus old) is drawn again and again by whole prompts. The new
scorer is worse where hardly any draw leaves it level: where the upper end of a one-sided 95% interval of the
difference lies below 0. A test of few labels notices only large losses, so the verdict says how small a loss it would
have noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from annotation.core.errors import N_
from scoring.domain.training_data import Value

Array = npt.NDArray[np.float64]
Verdict = dict[str, Any]

RESAMPLES = 5000
DRAWS_PER_PART = 500
LEVEL = 0.05
"""About how often a scorer that is as good as the old one is found worse on one criterion. On a handful of
prompts it is more often: a single one decides alone."""

REASONS = {
    "worse": N_(
        "{criterion}: the new scorer is worse ({new} against {old} of {n} labels; the difference is at most {bound})."
    ),
    "cannot_tell": N_(
        "{criterion}: the current scorer can tell it, but the new one had no label of it to learn from. "
        "Label responses for it, cut a release with them and train again."
    ),
    "must_fail": N_("Regression cases that were given a value which they must not be given: {count}."),
    "must_fail_untold": N_(
        "Regression cases that the new scorer could tell nothing about, for want of labels of their "
        "criterion: {count}. Label responses for it and train again, or remove these cases."
    ),
    "must_fail_void": N_(
        "Regression cases that name no level of this guideline version, so that nobody can ask about "
        "them: {count}. Add them again with levels that it has, or remove them."
    ),
    "nothing_to_compare": N_(
        "No label of the test split is left that neither scorer has learned from: there is nothing to compare them on."
    ),
}
"""Why a scorer was not promoted; formatted with the other fields of the reason."""


@dataclass(frozen=True)
class GateCase:
    """One label of the test split, and what both scorers say there; None is no answer, which is never right.

    ``key`` is the content key of the response; cases with the same ``prompt`` are drawn together.
    """

    key: str
    prompt: str
    criterion: str
    truth: Value
    new: Value | None
    old: Value | None


@dataclass(frozen=True)
class MustFailItem:
    """A response that must not be given one of the ``refused`` values, and what the new scorer gave it.

    ``given`` is None where the scorer cannot tell: it calls nothing harmless, but who never says anything would pass
    any set. ``void`` is an item whose values are none of the scorer's scales: it says nothing of this scorer. Neither
    can be passed.
    """

    item: str
    criterion: str
    refused: tuple[Value, ...]
    predicted: Value | None
    void: bool = False

    @property
    def passed(self) -> bool:
        return not self.void and self.predicted is not None and self.predicted not in self.refused

    @property
    def code(self) -> str:
        """The reason that it gives where it is not passed."""
        if self.void:
            return "must_fail_void"
        return "must_fail_untold" if self.predicted is None else "must_fail"

    def to_json(self) -> dict[str, Any]:
        return {
            "item": self.item,
            "criterion": self.criterion,
            "refused": list(self.refused),
            "given": self.predicted,
            "passed": self.passed,
            "void": self.void,
        }


def judge_scorer(
    cases: Sequence[GateCase],
    must_fail: Sequence[MustFailItem] = (),
    *,
    learned: Collection[str] = frozenset(),
    criteria: Collection[str] = (),
    rescaled: Collection[str] = (),
    lost: Collection[str] = (),
    first: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Verdict:
    """The verdict, as plain JSON.

    ``learned`` are the content keys that are no evidence, for either scorer has learned from them or from their
    prompt: cases of them are left out and counted.
    The ``first`` scorer of a guideline, or of scales that the one before it had none of, has nothing to be compared
    with. Those of the ``criteria`` that have no case are ``unjudged``, but for the ``rescaled`` ones: the current
    scorer has another scale for these, or none, so that it cannot be asked. ``lost`` are those that the current
    scorer can tell and the new one has learned nothing of, which keep it out whether there are cases or not.
    ``passed``, and ``reasons`` why not: each has a ``code`` of ``REASONS`` and the fields of its text.
    """
    fair = [] if first else [case for case in cases if case.key not in learned]
    compared = [
        compare_scorers([case for case in fair if case.criterion == name], resamples=resamples, seed=seed)
        for name in sorted({case.criterion for case in fair})
    ]
    reasons: list[dict[str, Any]] = [{"code": "cannot_tell", "criterion": name} for name in sorted(lost)]
    reasons += [
        _describe_loss(comparison)
        for comparison in compared
        if not comparison["passed"] and comparison["criterion"] not in lost
    ]
    if not first and not compared:
        reasons.append({"code": "nothing_to_compare"})
    stopping = Counter(item.code for item in must_fail if not item.passed)
    reasons += [{"code": code, "count": stopping[code]} for code in REASONS if stopping[code]]
    return {
        "passed": not reasons,
        "first": first,
        "reasons": reasons,
        "criteria": compared,
        "unjudged": []
        if first
        else sorted({*criteria} - {*rescaled, *(comparison["criterion"] for comparison in compared)}),
        "rescaled": [] if first else sorted(rescaled),
        "must_fail": [item.to_json() for item in must_fail],
        "labels": len(fair),
        "labels_left_out": 0 if first else len(cases) - len(fair),
    }


def _describe_loss(comparison: dict[str, Any]) -> dict[str, Any]:
    figures = {name: f"{comparison[name]:.3f}" for name in ("new", "old", "bound")}
    return {"code": "worse", "criterion": comparison["criterion"], "n": comparison["n"], **figures}


def compare_scorers(
    cases: Sequence[GateCase], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """The cases of one criterion: both accuracies, their difference, and whether the new scorer is not worse.

    ``bound`` is the upper end of the one-sided 95% interval of the difference: below 0 the new one is worse.
    ``smallest_loss`` is the loss of accuracy that would just have been found with this spread and so many prompts.
    """
    places = {prompt: i for i, prompt in enumerate(sorted({case.prompt for case in cases}))}
    right_new, right_old, counts = (np.zeros(len(places)) for _ in range(3))
    for case in cases:
        place = places[case.prompt]
        counts[place] += 1
        right_new[place] += case.new == case.truth
        right_old[place] += case.old == case.truth
    difference = float((right_new - right_old).sum() / counts.sum())
    draws = _draw_differences(right_new - right_old, counts, resamples, seed)
    # A quantile that is one of the draws: below 0 exactly if fewer than 5% of them are 0 or more.
    bound = float(np.quantile(draws, 1 - LEVEL, method="higher"))
    low, high = np.percentile(draws, [2.5, 97.5]) if len(places) > 1 else (None, None)
    return {
        "criterion": cases[0].criterion,
        "n": len(cases),
        "prompts": len(places),
        "old": float(right_old.sum() / counts.sum()),
        "new": float(right_new.sum() / counts.sum()),
        "difference": {
            "value": difference,
            "low": None if low is None else float(low),
            "high": None if high is None else float(high),
        },
        "bound": bound,
        "smallest_loss": max(bound - difference, _min_prompts(len(places)) / len(cases)),
        "passed": bound >= 0,
    }


def _draw_differences(differences: Array, counts: Array, resamples: int, seed: int) -> Array:
    """Differences of accuracy of prompts drawn with replacement; in parts, so that many prompts need no memory."""
    chance, prompts = np.random.default_rng(seed), len(counts)
    parts: list[Array] = []
    for start in range(0, resamples, DRAWS_PER_PART):
        size = min(DRAWS_PER_PART, resamples - start)
        drawn = chance.multinomial(prompts, np.full(prompts, 1 / prompts), size)
        parts.append((drawn @ differences) / (drawn @ counts))
    return np.concatenate(parts)


def _min_prompts(prompts: int) -> int:
    """So many prompts must have lost a label before a bootstrap can tell: else too many draws miss all of them.

    The smallest k with (1 - k / prompts) ** prompts below ``LEVEL``; 3 of any larger number.
    """
    return next(k for k in range(1, prompts + 1) if (1 - k / prompts) ** prompts < LEVEL)
