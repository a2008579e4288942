"""The words of the statistics: what goes in, what comes out, and why something is undefined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from annotation.errors import N_

Value: TypeAlias = int | float
Pattern: TypeAlias = tuple[Value | None, ...]
Patterns: TypeAlias = Mapping[Pattern, int]
"""How many units carry each tuple of labels, by rater position; None where a label is missing."""
Measurement: TypeAlias = Literal["nominal", "ordinal", "interval"]

MEASUREMENTS: tuple[Measurement, ...] = ("nominal", "ordinal", "interval")
"""From weakest to strongest: a scale allows the statistics of its own level and of the weaker ones."""

NO_PAIRS = N_("No unit has labels from two annotators.")
ONE_CATEGORY = N_("All labels that can be compared are the same, so agreement by chance is certain.")
MORE_THAN_TWO = N_("Cohen's kappa compares two annotators; here there are more.")
MORE_THAN_TWO_FOR_PI = N_("Scott's pi compares two annotators; here there are more.")
NO_ORDER = N_("The levels of a nominal scale have no order.")
NO_DISTANCES = N_("The levels of this scale have no distances between them.")


@dataclass(frozen=True)
class Statistic:
    """A value with its bootstrap interval; what is undefined is None, and ``reason`` says why.

    ``standard_error`` is the closed-form one, where a statistic has one (AC1 and AC2).
    """

    value: float | None
    low: float | None
    high: float | None
    reason: str | None = None
    standard_error: float | None = None


@dataclass(frozen=True)
class Agreement:
    """``n`` units have at least two labels; in ``disputed`` of them the labels are not all equal."""

    n: int
    disputed: int
    statistics: Mapping[str, Statistic]
