"""What a guideline says: criteria with their scales, the taxonomy, and the headline metrics it declares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Discriminator, Field, Tag, model_validator

from annotation.errors import N_, NotFound, Unprocessable

from . import checks
from .values import (
    FORMULA,
    Frozen,
    Identifier,
    Language,
    LocalizedText,
    MetricName,
    Number,
    ScorerTemplate,
    Slug,
    TaxonomyName,
    Text,
    as_number,
    show,
)

MOST_SEVERE = 3
Severity = Annotated[int, Field(strict=True, ge=0, le=MOST_SEVERE)]


class Subcomponent(Frozen):
    name: TaxonomyName
    label: LocalizedText
    definition: LocalizedText


class Dimension(Frozen):
    """``severity`` says how hard its items are to read, from 0 (harmless) to 3: it is known before one is read."""

    name: TaxonomyName
    label: LocalizedText
    definition: LocalizedText
    severity: Severity = 0
    subcomponents: tuple[Subcomponent, ...] = ()

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        checks.check_dimension(self)
        return self


class Example(Frozen):
    prompt: LocalizedText
    response: LocalizedText
    note: LocalizedText | None = None


class Level(Frozen):
    """``requires`` names what whoever chooses this level must give beside it."""

    value: Number
    name: LocalizedText
    definition: LocalizedText
    reason: LocalizedText | None = None
    requires: tuple[Literal["evidence", "rationale"], ...] = ()
    examples: tuple[Example, ...] = ()


class Range(Frozen):
    """Every whole number from min to max is a value; the scale then names anchors only."""

    min: Number
    max: Number


class AppliesTo(Frozen):
    dimensions: Annotated[tuple[TaxonomyName, ...], Field(min_length=1)]


def _applicability_tag(value: object) -> str | None:
    if isinstance(value, Mapping | AppliesTo):
        return "<dimensions>"
    return "<all>" if value == "all" else None


def _levels_tag(value: object) -> str | None:
    if isinstance(value, Mapping):
        return "<mapping>"
    return "<list>" if isinstance(value, list | tuple) else None


# A tag in angle brackets shows up in the location of an error, and the reader takes it out again.
Applicability = Annotated[
    Annotated[Literal["all"], Tag("<all>")] | Annotated[AppliesTo, Tag("<dimensions>")],
    Discriminator(_applicability_tag),
]
LevelValues = Annotated[tuple[Number, ...], Field(min_length=1)]
CountedLevels = Annotated[
    Annotated[LevelValues, Tag("<list>")] | Annotated[dict[TaxonomyName, LevelValues], Tag("<mapping>")],
    Discriminator(_levels_tag),
]


class Criterion(Frozen):
    name: Identifier
    label: LocalizedText
    question: LocalizedText
    applies_to: Applicability
    measurement: Literal["nominal", "ordinal", "interval"]
    range: Range | None = None
    scale: Annotated[tuple[Level, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        checks.check_criterion(self)
        return self

    @property
    def values(self) -> tuple[int | float, ...]:
        """Every value a label may take, in order; with a range, every whole number of it."""
        if self.range is not None:
            return tuple(range(int(self.range.min), int(self.range.max) + 1))
        return tuple(sorted(level.value for level in self.scale))

    def level(self, value: int | float) -> Level | None:
        """The level of this value; None between the anchors of a range and off the scale."""
        return next((level for level in self.scale if level.value == value), None)

    def applies(self, dimension: str | None) -> bool:
        return self.applies_to == "all" or dimension in self.applies_to.dimensions

    def check(self, label: object) -> int | float:
        """The label as a number of the scale, or Unprocessable."""
        number = as_number(label)
        if number is None or number not in self.values:
            raise Unprocessable(
                N_('"{criterion}" cannot be {value}; use one of {allowed}.'),
                criterion=self.name,
                value=show(label),
                allowed=", ".join(map(str, self.values)),
            )
        return number


class Metric(Frozen):
    """A headline number. A rate is the share (0 to 1) of labels at the counted levels.

    A mean is ``multiplier * mean / divisor`` of the label values, as its formula says.
    """

    name: MetricName
    label: LocalizedText
    kind: Literal["rate", "mean"]
    levels: CountedLevels | None = None
    formula: Text | None = None
    dimensions: Annotated[tuple[TaxonomyName, ...], Field(min_length=1)] | None = None
    criteria: Annotated[tuple[Identifier, ...], Field(min_length=1)] | None = None
    overall: Literal["mean_of_dimensions", "pooled", "none"]

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        checks.check_metric(self)
        return self

    def levels_for(self, dimension: str | None) -> tuple[int | float, ...]:
        """The levels a rate counts in this dimension; none for a mean."""
        if isinstance(self.levels, dict):
            return self.levels.get(dimension or "", ())
        return self.levels or ()

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


class GuidelineDocument(Frozen):
    name: Slug
    version: Slug
    languages: Annotated[tuple[Language, ...], Field(min_length=1)]
    title: LocalizedText
    source: Text
    introduction: LocalizedText
    dimensions: tuple[Dimension, ...] = ()
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)]
    metrics: Annotated[tuple[Metric, ...], Field(min_length=1)]
    rank_by: MetricName
    scorer_template: ScorerTemplate | None = None

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        checks.check_document(self)
        return self

    @property
    def dimension_names(self) -> tuple[str, ...]:
        return tuple(dimension.name for dimension in self.dimensions)

    def knows_dimension(self, name: str) -> bool:
        return name in self.dimension_names

    def dimension(self, name: str) -> Dimension | None:
        return next((dimension for dimension in self.dimensions if dimension.name == name), None)

    def severity_of(self, dimension: str | None) -> int:
        """0 to ``MOST_SEVERE``; 0 for a dimension that the guideline does not know."""
        found = self.dimension(dimension or "")
        return found.severity if found else 0

    def topic_of(self, dimension: str | None, subcomponent: str | None) -> tuple[LocalizedText, ...]:
        """The labels of the dimension and of its subcomponent, as far as the guideline knows them."""
        found = self.dimension(dimension or "")
        parts = [part.label for part in found.subcomponents if part.name == subcomponent] if found else []
        return (found.label, *parts) if found else ()

    def criteria_for(self, dimension: str | None) -> tuple[Criterion, ...]:
        """The criteria asked about a prompt of this dimension; of an unknown one, those that apply to all."""
        return tuple(criterion for criterion in self.criteria if criterion.applies(dimension))

    def criterion(self, name: str) -> Criterion:
        return _named(self.criteria, name, N_('This guideline has no criterion "{name}"; it has {known}.'))

    def metric(self, name: str) -> Metric:
        return _named(self.metrics, name, N_('This guideline has no metric "{name}"; it has {known}.'))

    def dimensions_of(self, metric: Metric) -> tuple[str, ...]:
        return self.dimension_names if metric.dimensions is None else metric.dimensions

    def criteria_of(self, metric: Metric, dimension: str | None) -> tuple[Criterion, ...]:
        """The criteria whose labels enter this metric in this dimension."""
        asked = self.criteria_for(dimension)
        return tuple(one for one in asked if metric.criteria is None or one.name in metric.criteria)

    def check_labels(self, dimension: str | None, labels: Mapping[str, object]) -> dict[str, int | float]:
        """A value of its scale for each applicable criterion, in the guideline's order; else Unprocessable."""
        criteria = self.criteria_for(dimension)
        names = [criterion.name for criterion in criteria]
        for name in labels:
            if name not in names:
                raise Unprocessable(
                    N_('"{criterion}" is not asked here, so {value} cannot be taken; asked: {known}.'),
                    criterion=name,
                    value=show(labels[name]),
                    known=", ".join(names) or "-",
                )
        for criterion in criteria:
            if criterion.name not in labels:
                raise Unprocessable(
                    N_('"{criterion}" has no label; give one of {allowed}.'),
                    criterion=criterion.name,
                    allowed=", ".join(map(str, criterion.values)),
                )
        return {criterion.name: criterion.check(labels[criterion.name]) for criterion in criteria}

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, data: object) -> Self:
        """What to_json gave, also after its keys were reordered; else pydantic's ValidationError."""
        return cls.model_validate(data)

    @cached_property
    def sha256(self) -> str:
        """Of the canonical JSON: keys sorted, no spaces, UTF-8.

        Fields at their default are left out, so a field that a later release of Assay adds changes no hash.
        """
        content = self.model_dump(mode="json", exclude_defaults=True)
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


Named = TypeVar("Named", Criterion, Metric)


def _named(things: tuple[Named, ...], name: str, template: str) -> Named:
    for thing in things:
        if thing.name == name:
            return thing
    raise NotFound(template, name=name, known=", ".join(thing.name for thing in things))
