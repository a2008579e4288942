"""What is found of people and pairs, and when it counts as found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import ndtr, ndtri

from annotation.core.errors import N_

Kind: TypeAlias = Literal["severity", "agreement", "pace", "instant", "unread"]

MIN_LABELS = 30
MIN_SHARED_UNITS = 10
MIN_PEOPLE = 3

FEW_SHARED = N_("Fewer than 30 labels have a partner's beside them.")
FEW_PEOPLE = N_("At least three people who share units are needed to tell whose fault a difference is.")
NO_VARIATION = N_("All labels are the same, so following the others and guessing look alike.")
NO_ORDER = N_("The levels have no order, so none is lower than another.")
FEW_DAYS = N_("All labels fall on one day, or too few before or after any other.")
TYPE_WITH_TIME = N_(
    "The types of items follow one another in time, so a change of the person and a change of the items look alike."
)
FEW_TIMED = N_("Fewer than 30 labels have a time.")
ONE_TIMED = N_("Fewer than three people have times, so nobody is the usual.")

CONFIDENCE = 0.95
Z = float(ndtri((1 + CONFIDENCE) / 2))
# The chance that anything at all is flagged where nothing is wrong is at most the sum of these, 2%. Copying gets the
# most, because one pair shares few tasks and there are many pairs; the others have evidence to spare.
# ``tests/performance/honest_marks.py`` measures what comes of it on work as it is.
RISKS: Mapping[str, float] = {
    "random": 0.0005,
    "severity": 0.0005,
    "speed": 0.0005,
    "drift": 0.008,
    "copying": 0.0105,
}


@dataclass(frozen=True)
class Finding:
    """A figure of one person, with its 95% interval; None where it is undefined, and ``reason`` says why.

    n: the labels it rests on. score: the bigger, the worse, for ranking. p: the chance of such a figure where
    nothing is wrong, for this person alone; ``flagged`` is corrected over all people. day: when it changed, and
    kind: what did (of drift), or in what way somebody is fast (of speed).
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    score: float | None
    p: float | None
    flagged: bool = False
    reason: str | None = None
    day: float | None = None
    kind: Kind | None = None


@dataclass(frozen=True)
class Copying:
    """Two people who agree more than their agreement with everybody else explains.

    observed, expected: shares of the ``n`` units they share. score, p, flagged as of ``Finding``.
    """

    first: int
    second: int
    n: int
    observed: float
    expected: float
    p: float
    flagged: bool
    score: float

    @property
    def copied(self) -> float:
        """The share of units on which copying would explain it: what is missing of the expected disagreement."""
        missing = (self.observed - self.expected) / (1 - self.expected) if self.expected < 1 else 0.0
        return max(0.0, missing)


@dataclass(frozen=True)
class Profile:
    """random: how far the labels follow the others', 0 as guessing does, 1 as far as labels can. severity: levels
    above the middle of all people (below: negative). drift: the change, in levels (kind ``severity``) or of what
    ``random`` measures (``agreement``). speed: the median seconds. pace: the time taken as a share of the usual one.
    instant: the share of labels given in less than a fifth of the usual time. unread: of those given in less time than
    anybody can read their text in.
    """

    random: Finding
    severity: Finding
    drift: Finding
    speed: Finding
    pace: float | None = None
    instant: float | None = None
    unread: float | None = None


@dataclass(frozen=True)
class Profiles:
    """``people`` by their number, ascending; ``copying`` has every pair that shares enough units, the worst first."""

    people: Mapping[int, Profile]
    copying: Sequence[Copying]


def make_undefined(reason: str, n: int) -> Finding:
    return Finding(None, None, None, n, None, None, reason=reason)


def score_excess(distance: float, error: float) -> tuple[float, float]:
    """Score and p of a distance beyond what is tolerated (negative: within it), with its standard error: the test of
    a minimum effect. Where labels leave no error, it is beyond or it is not.
    """
    if error <= 0:
        return (np.inf, 0.0) if distance > 0 else (-np.inf, 1.0)
    score = distance / error
    return float(score), float(ndtr(-score))


def flag_findings(findings: Mapping[int, Finding], risk: float) -> dict[int, Finding]:
    """Flagged by Holm's step-down correction over all for whom there is a p (S. Holm, Scand. J. Stat. 6, 1979)."""
    tested = [(finding.p, person) for person, finding in findings.items() if finding.p is not None]
    flags = holm([p for p, _ in tested], risk)
    flagged = {person for (_, person), flag in zip(tested, flags, strict=True) if flag}
    return {person: replace(finding, flagged=person in flagged) for person, finding in findings.items()}


def holm(p: Sequence[float], risk: float) -> list[bool]:
    """Which of the hypotheses are rejected, with the chance of any false rejection at most ``risk``."""
    flags = [False] * len(p)
    for rank, place in enumerate(sorted(range(len(p)), key=lambda place: p[place])):
        if p[place] > risk / (len(p) - rank):
            break
        flags[place] = True
    return flags
