"""The headline metrics that a guideline declares: rates of levels and means of values, and what a metric must hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from annotation.core.errors import N_
from annotation.domain.guidelines.values import (
    FORMULA,
    Frozen,
    Identifier,
    LocalizedText,
    MetricName,
    Number,
    TaxonomyName,
    Text,
    check_unique,
    flaw,
    show,
)

MAX_DECIMALS = 4
RESERVED = ("n", "levels", "composition", "missing")
"""What a cell of a leaderboard holds beside its metrics, under the same keys."""


def check_metric(metric: Metric) -> None:
    """Only what the metric alone can tell; its references are checked with the document."""
    if metric.name in RESERVED:
        raise flaw(
            N_("A leaderboard has a {name} of its own; name the metric otherwise."),
            at=("name",),
            name=show(metric.name),
        )
    required, excluded = ("levels", "formula") if metric.kind == "rate" else ("formula", "levels")
    if getattr(metric, required) is None:
        raise flaw(N_("A metric of kind {kind} needs {part}; add it."), kind=metric.kind, part=required)
    if getattr(metric, excluded) is not None:
        raise flaw(
            N_("A metric of kind {kind} takes no {part}; remove it."),
            at=(excluded,),
            kind=metric.kind,
            part=excluded,
        )
    match = FORMULA.fullmatch(metric.formula or "1 * mean")
    if match is None or float(match[1]) == 0 or float(match[2] or 1) == 0:
        raise flaw(
            N_('"{formula}" is no formula; write NUMBER * mean or NUMBER * mean / NUMBER, without zeros.'),
            at=("formula",),
            formula=metric.formula,
        )
    for field in ("dimensions", "criteria"):
        check_unique(getattr(metric, field) or (), field, inside=True)
    for place, levels in iterate_level_lists(metric):
        check_unique(levels, *place, inside=True)


def _levels_tag(value: object) -> str | None:
    if isinstance(value, Mapping):
        return "<mapping>"
    return "<list>" if isinstance(value, list | tuple) else None


LevelValues = Annotated[tuple[Number, ...], Field(min_length=1)]


CountedLevels = Annotated[
    Annotated[LevelValues, Tag("<list>")] | Annotated[dict[TaxonomyName, LevelValues], Tag("<mapping>")],
    Discriminator(_levels_tag),
]


class Metric(Frozen):
    """A headline number. A rate is the share (0 to 1) of labels at the counted levels.

    A mean is ``multiplier * mean / divisor`` of the label values, as its formula says. ``overall`` is the plain mean of
    what it is of each dimension, or of each criterion, alone; or of all labels. ``decimals`` is how many are printed,
    of a rate in percent; None: as published tables print it. ``better`` says which of two models' numbers is the better
    one; a board is ranked by a metric of which the higher is.
    """

    name: MetricName
    label: LocalizedText
    kind: Literal["rate", "mean"]
    levels: CountedLevels | None = None
    formula: Text | None = None
    dimensions: Annotated[tuple[TaxonomyName, ...], Field(min_length=1)] | None = None
    criteria: Annotated[tuple[Identifier, ...], Field(min_length=1)] | None = None
    overall: Literal["mean_of_dimensions", "mean_of_criteria", "pooled", "none"]
    decimals: Annotated[int, Field(strict=True, ge=0, le=MAX_DECIMALS)] | None = None
    better: Literal["higher", "lower"] = "higher"

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_metric(self)
        return self

    def levels_for(self, dimension: str | None) -> tuple[int | float, ...]:
        """The levels a rate counts in this dimension; none for a mean."""
        if isinstance(self.levels, dict):
            return self.levels.get(dimension or "", ())
        return self.levels or ()

    @property
    def sign(self) -> int:
        """1 where higher is better, else -1: times it, of two numbers the higher is the better one."""
        return 1 if self.better == "higher" else -1

    @property
    def multiplier(self) -> float:
        return self._factors()[0]

    @property
    def divisor(self) -> float:
        return self._factors()[1]

    def _factors(self) -> tuple[float, float]:
        match = FORMULA.fullmatch(self.formula or "1 * mean")
        assert match is not None, "checked when the metric was made"
        return float(match[1]), float(match[2] or 1)

    def of_mean(self, mean: float) -> float:
        """The value of a mean metric whose labels average to ``mean``."""
        return self.multiplier * mean / self.divisor


def iterate_level_lists(metric: Metric) -> Iterator[tuple[tuple[str, ...], tuple[int | float, ...]]]:
    """Each list of levels that a rate counts, with its place in the metric."""
    if isinstance(metric.levels, dict):
        for dimension, levels in metric.levels.items():
            yield ("levels", dimension), levels
    elif metric.levels is not None:
        yield ("levels",), metric.levels
