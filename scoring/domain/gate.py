"""May a new scorer take the place of the current one? Pure: numpy alone.

Both are asked about the same labelled responses, and of a response whose prompt a scorer has learned only what it said
out of fold counts. On each criterion the difference of their accuracy (new minus old) has a 95% interval over prompts.
The new scorer is *not worse, within the margin*, where the interval lies above minus the margin; *worse* where it
lies below 0; anything else is *not shown*, for that few labels were found neither.

The interval is Gaffke's: the prompts get random weights that are uniform on the simplex, and one more prompt on which
everything is lost (for the lower end) or won (for the upper) is weighed among them. Of prompts with one label each,
which can only lose or stay, its end is the exact one of Clopper and Pearson; with many prompts it is that of the
bootstrap. N. Gaffke, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable", Mathematical Methods of Statistics 14 (2005); E. Learned-Miller and P. Thomas, arXiv:1905.06208 (2019).
``python -m tests.performance.gate_errors`` measures how often it errs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scoring.domain.training_data import Value

Array = npt.NDArray[np.float64]
Verdict = dict[str, Any]
Outcome = Literal["not_worse", "not_shown", "worse"]

VERSION = 2
"""Of verdicts; those of the first version have none. They had two outcomes and the test split alone."""
RESAMPLES = 5000
DRAWN_NUMBERS = 2_000_000
"""So many random numbers are drawn at a time: many prompts need no more memory."""
LEVEL = 0.025
"""On each side of the interval: how often at most a loss of the margin counts as not worse, and an equal scorer as
worse, on one criterion."""
Z_LEVEL, Z_POWER = 1.959964, 0.841621
"""The standard normal's quantiles of 97.5% and 80%."""
MARGIN, MIN_MARGIN, MAX_MARGIN = 0.02, 0.001, 0.10
"""The loss of accuracy that a researcher declares to be small enough, before the verdict."""

NOT_WORSE, NOT_SHOWN, WORSE = "not_worse", "not_shown", "worse"
CURRENT, BEST = "current", "best"
REFUSALS = ("worse", "cannot_tell", "must_fail", "must_fail_untold", "must_fail_void")
"""Codes of reasons that keep a scorer out, whatever a researcher says."""
DOUBTS = ("not_shown", "no_labels", "nothing_to_compare", "not_better_than_commonest")
"""Codes of reasons past which a researcher may promote, with a reason of their own."""


@dataclass(frozen=True)
class GateCase:
    """One label, and what both scorers say there; None is no answer, which is never right.

    ``key`` is the content key of the response; cases with the same ``prompt`` are drawn together. ``test``: the label
    is of the test split, so that neither scorer has learned its prompt; else one of them answered out of fold.
    """

    key: str
    prompt: str
    criterion: str
    truth: Value
    new: Value | None
    old: Value | None
    test: bool = True


@dataclass(frozen=True)
class Rival:
    """A scorer that the new one is compared with, and the evidence.

    ``role`` is ``current`` or ``best``: the one ever promoted beside which the new one does worst. ``left_out`` labels
    are no evidence, for one of the two has learned from their prompt and said nothing of them out of fold.
    ``rescaled`` criteria have another scale there, or none. ``silent`` are those that the rival cannot tell either.
    """

    role: str
    scorer: str
    cases: Sequence[GateCase]
    left_out: int = 0
    rescaled: Collection[str] = ()
    silent: Collection[str] = ()


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
    rivals: Sequence[Rival],
    must_fail: Sequence[MustFailItem] = (),
    *,
    criteria: Collection[str] = (),
    lost: Collection[str] = (),
    useless: Collection[str] = (),
    margin: float = MARGIN,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Verdict:
    """The verdict, as plain JSON.

    Without ``rivals`` it is the first scorer of a guideline, or of scales that no earlier one had: there is nothing to
    compare it with. ``criteria`` are all those of the guideline: one without a label in the evidence is not shown,
    unless the rival cannot tell it either. ``lost`` are those that the current scorer can tell and the new one has
    learned nothing of; they keep it out whether there are cases or not. ``useless`` are those on which the new one
    predicts no better than the commonest level.

    ``outcome`` is that of the comparison, None of a first scorer. ``passed``: it is promoted without a word.
    ``refused``: no word helps. ``reasons`` say why not: each has a ``code`` and the fields of its sentence.
    """
    judged = [
        _judge_rival(rival, criteria, margin=margin, resamples=resamples, seed=seed) for rival in rivals
    ]
    reasons: list[dict[str, Any]] = [{"code": "cannot_tell", "criterion": name} for name in sorted(lost)]
    for rival in judged:
        reasons += _list_reasons(rival, lost)
    reasons += [{"code": "not_better_than_commonest", "criterion": name} for name in sorted(useless)]
    failed = Counter(item.code for item in must_fail if not item.passed)
    reasons += [{"code": code, "count": failed[code]} for code in REFUSALS if failed[code]]
    return {
        "version": VERSION,
        "outcome": _combine_outcomes([rival["outcome"] for rival in judged], has_lost=bool(lost)),
        "passed": not reasons,
        "refused": any(reason["code"] in REFUSALS for reason in reasons),
        "first": not rivals,
        "margin": margin,
        "reasons": reasons,
        "rivals": judged,
        "must_fail": [item.to_json() for item in must_fail],
    }


def _judge_rival(
    rival: Rival, criteria: Collection[str], *, margin: float, resamples: int, seed: int
) -> dict[str, Any]:
    compared = [
        compare_scorers(
            [case for case in rival.cases if case.criterion == name],
            margin=margin,
            resamples=resamples,
            seed=seed,
        )
        for name in sorted({case.criterion for case in rival.cases})
    ]
    names = {comparison["criterion"] for comparison in compared}
    unjudged = sorted({*criteria} - names - {*rival.rescaled} - {*rival.silent})
    outcomes = [comparison["outcome"] for comparison in compared] + [NOT_SHOWN] * bool(unjudged)
    return {
        "role": rival.role,
        "scorer": rival.scorer,
        "outcome": _combine_outcomes(outcomes or [NOT_SHOWN]),
        "criteria": compared,
        "unjudged": unjudged,
        "rescaled": sorted(rival.rescaled),
        "silent": sorted({*rival.silent} - names),
        "labels": len(rival.cases),
        "test": sum(case.test for case in rival.cases),
        "labels_left_out": rival.left_out,
    }


def _combine_outcomes(outcomes: Sequence[Outcome], *, has_lost: bool = False) -> Outcome | None:
    """Worse if any is; not worse only if all are. None of no comparison."""
    if has_lost or WORSE in outcomes:
        return "worse"
    if not outcomes:
        return None
    return "not_shown" if NOT_SHOWN in outcomes else "not_worse"


def _list_reasons(rival: Mapping[str, Any], lost: Collection[str]) -> list[dict[str, Any]]:
    place = {"role": rival["role"], "scorer": rival["scorer"]}
    reasons = [
        {"code": comparison["outcome"], "criterion": comparison["criterion"], **place, **_figures(comparison)}
        for comparison in rival["criteria"]
        if comparison["outcome"] != NOT_WORSE and comparison["criterion"] not in lost
    ]
    if not rival["criteria"]:
        return [{"code": "nothing_to_compare", **place}]
    missing = [name for name in rival["unjudged"] if name not in lost]
    return reasons + [{"code": "no_labels", "criterion": name, **place} for name in missing]


def _figures(comparison: Mapping[str, Any]) -> dict[str, Any]:
    difference = comparison["difference"]
    return {name: comparison[name] for name in ("n", "new", "old")} | {
        "low": difference["low"],
        "high": difference["high"],
    }


def compare_scorers(
    cases: Sequence[GateCase], *, margin: float = MARGIN, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """The cases of one criterion: both accuracies, their difference with its 95% interval, and what it shows.

    ``detectable_loss`` is the loss of accuracy that would be found worse with a chance of 80%, with as many prompts
    that spread as these do; ``passing_margin`` the smallest margin within which a scorer as good as the old one would
    be shown not to be worse with that chance. None where it would be 1 or more: no accuracy can fall so far.
    """
    places = {prompt: i for i, prompt in enumerate(sorted({case.prompt for case in cases}))}
    right_new, right_old, counts = (np.zeros(len(places)) for _ in range(3))
    discordant = sum((case.new == case.truth) != (case.old == case.truth) for case in cases)
    for case in cases:
        place = places[case.prompt]
        counts[place] += 1
        right_new[place] += case.new == case.truth
        right_old[place] += case.old == case.truth
    difference = float((right_new - right_old).sum() / counts.sum())
    low, high = compute_bounds(right_new - right_old, counts, resamples=resamples, seed=seed)
    return {
        "criterion": cases[0].criterion,
        "n": len(cases),
        "test": sum(case.test for case in cases),
        "prompts": len(places),
        "old": float(right_old.sum() / counts.sum()),
        "new": float(right_new.sum() / counts.sum()),
        "difference": {"value": difference, "low": low, "high": high},
        "outcome": find_outcome(low, high, margin),
        **compute_power(right_new - right_old, counts, discordant=discordant, low=low, high=high),
    }


def find_outcome(low: float, high: float, margin: float) -> Outcome:
    """A loss that is surely there and surely within the margin is what the margin was declared for."""
    if low > -margin:
        return "not_worse"
    return "worse" if high < 0 else "not_shown"


def compute_power(
    differences: Array, counts: Array, *, discordant: int, low: float, high: float
) -> dict[str, float | None]:
    """``detectable_loss`` and ``passing_margin`` of ``compare_scorers``, from the interval's ends.

    The reach of an end is ``Z_LEVEL`` standard errors, and to find a loss with a chance of 80% it must be ``Z_POWER``
    more away. A loss makes scorers disagree that agreed, so its variance grows with it: by as much for each label as
    the ``discordant`` labels have of it, or as whole prompts do where none differ.
    """
    n = float(counts.sum())
    value = float(differences.sum()) / n
    variance = float(((differences - value * counts) ** 2).sum()) / n**2
    growth = variance * n / discordant if variance else 1 / len(counts)
    scale = (Z_LEVEL + Z_POWER) ** 2
    error = ((high - value) / Z_LEVEL) ** 2
    loss = (scale * growth + ((scale * growth) ** 2 + 4 * scale * error) ** 0.5) / 2
    margin = (value - low) * (Z_LEVEL + Z_POWER) / Z_LEVEL
    return {
        "detectable_loss": loss if loss < 1 else None,
        "passing_margin": margin if margin < 1 else None,
    }


def compute_bounds(
    differences: Array, counts: Array, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Both ends of Gaffke's 95% interval of ``sum(differences) / sum(counts)``, arrays by prompt.

    ``differences`` is how many labels of a prompt the new scorer has right beyond the old one, of ``counts``. The
    prompt that is added at each end has as many labels as the others have on average.
    """
    chance, prompts, size = np.random.default_rng(seed), len(counts), float(counts.mean())
    lows: list[Array] = []
    highs: list[Array] = []
    at_once = max(1, DRAWN_NUMBERS // (prompts + 1))
    for start in range(0, resamples, at_once):
        weights = chance.standard_exponential((min(at_once, resamples - start), prompts + 1))
        added = weights[:, -1] * size
        total = weights[:, :-1] @ counts + added
        won = weights[:, :-1] @ differences
        lows.append((won - added) / total)
        highs.append((won + added) / total)
    return float(np.quantile(np.concatenate(lows), LEVEL)), float(
        np.quantile(np.concatenate(highs), 1 - LEVEL)
    )
