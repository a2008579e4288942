"""A guideline as a frozen document: criteria with their scales, the taxonomy, and the headline metrics it declares.

The checks hold what the types cannot: names are unique, references resolve, and every text is translated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from annotation.core.errors import N_, NotFound, Unprocessable
from annotation.domain.guidelines.values import (
    FORMULA,
    NA,
    Frozen,
    Identifier,
    Label,
    Language,
    LocalizedText,
    MetricName,
    Number,
    ScorerTemplate,
    Slug,
    TaxonomyName,
    Text,
    as_number,
    flaw,
    show,
)

Location = tuple[str | int, ...]
MAX_VALUES = 101
RESERVED = ("n", "levels", "composition", "missing")
"""What a cell of a leaderboard holds beside its metrics, under the same keys."""


def check_dimension(dimension: Dimension) -> None:
    names = (part.name for part in dimension.subcomponents)
    _check_unique(names, "subcomponents", "name")


def check_criterion(criterion: Criterion) -> None:
    values = [level.value for level in criterion.scale]
    _check_unique(values, "scale", "value")
    for index, (lower, upper) in enumerate(pairwise(values), start=1):
        if upper < lower:
            raise flaw(
                N_("{value} comes after {previous}; order the levels from the lowest value to the highest."),
                at=("scale", index, "value"),
                value=upper,
                previous=lower,
            )
    for index, level in enumerate(criterion.scale):
        _check_unique(level.requires, "scale", index, "requires", inside=True)
    if criterion.range is not None:
        _check_range(criterion)
    if criterion.applies_to != "all":
        _check_unique(criterion.applies_to.dimensions, "applies_to", "dimensions", inside=True)
    if criterion.tolerance is not None:
        _check_tolerance(criterion)


def _check_tolerance(criterion: Criterion) -> None:
    assert criterion.tolerance is not None
    if criterion.measurement == "nominal":
        raise flaw(N_("A nominal scale has no distances; remove the tolerance."), at=("tolerance",))
    if criterion.tolerance < 0:
        raise flaw(N_("The tolerance is 0 or more."), at=("tolerance",))


def check_condition(condition: AskedIf) -> None:
    """Exactly one comparison; what it refers to is checked with the document."""
    comparisons = [name for name in COMPARISONS if getattr(condition, name) is not None]
    if len(comparisons) != 1:
        raise flaw(N_("Give one of is, at_most and at_least."), at=tuple(comparisons[1:2]))


def _check_range(criterion: Criterion) -> None:
    bounds = criterion.range
    assert bounds is not None
    if criterion.measurement == "nominal":
        raise flaw(N_("A nominal scale has no range; name every level instead."), at=("range",))
    for side, value in (("min", bounds.min), ("max", bounds.max)):
        if not isinstance(value, int):
            raise flaw(N_("{value} is not a whole number; use one."), at=("range", side), value=value)
    if not 0 < bounds.max - bounds.min < MAX_VALUES:
        raise flaw(
            N_("A range runs upwards and holds at most {most} values; correct min or max."),
            at=("range", "max"),
            most=MAX_VALUES,
        )
    for index, level in enumerate(criterion.scale):
        if level.value not in criterion.values:
            raise flaw(
                N_("{value} is not a whole number from {low} to {high}; correct it or the range."),
                at=("scale", index, "value"),
                value=level.value,
                low=bounds.min,
                high=bounds.max,
            )


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
        _check_unique(getattr(metric, field) or (), field, inside=True)
    for place, levels in _iterate_level_lists(metric):
        _check_unique(levels, *place, inside=True)


def check_document(document: GuidelineDocument) -> None:
    _check_unique(document.languages, "languages", inside=True)
    _check_translations(document)
    for field in ("dimensions", "criteria", "metrics"):
        _check_unique((part.name for part in getattr(document, field)), field, "name")
    _check_applicability(document)
    for index, criterion in enumerate(document.criteria):
        if criterion.asked_if is not None:
            _check_asked_if(document, criterion, index)
    for index, metric in enumerate(document.metrics):
        _check_metric_scope(document, metric, ("metrics", index))
        _check_metric_levels(document, metric, ("metrics", index))
    _check_rank_by(document)


def _check_unique(names: Iterable[Hashable], *place: str | int, inside: bool = False) -> None:
    """Refuse the second of two equals in the list at ``place``.

    The names are the entries themselves (``inside``), or a field of the entries: the last of ``place``.
    """
    seen: set[Hashable] = set()
    for index, name in enumerate(names):
        if name in seen:
            at: Location = (*place, index) if inside else (*place[:-1], index, place[-1])
            raise flaw(N_("{name} is there twice; remove or rename one."), at=at, name=show(name))
        seen.add(name)


def _iterate_texts(part: object, at: Location = ()) -> Iterator[tuple[Location, dict[str, str]]]:
    """Every localized text below a model, with its place: the dicts, bar the levels of a metric."""
    if isinstance(part, Frozen):
        for field in type(part).model_fields:
            if field != "levels":
                yield from _iterate_texts(getattr(part, field), (*at, field))
    elif isinstance(part, tuple):
        for index, entry in enumerate(part):
            yield from _iterate_texts(entry, (*at, index))
    elif isinstance(part, dict):
        yield at, part


def _check_translations(document: GuidelineDocument) -> None:
    for at, text in _iterate_texts(document):
        for language in document.languages:
            if language not in text:
                raise flaw(
                    N_('There is no text in the declared language "{language}"; translate it.'),
                    at=at,
                    language=language,
                )
        for language in text:
            if language not in document.languages:
                raise flaw(
                    N_('The language "{language}" is not declared; add it to languages or remove the text.'),
                    at=(*at, language),
                    language=language,
                )
        # In declared order, which a database that stores JSON does not keep: the first is the fallback.
        ordered = {language: text[language] for language in document.languages}
        text.clear()
        text.update(ordered)


def _check_applicability(document: GuidelineDocument) -> None:
    for index, criterion in enumerate(document.criteria):
        if criterion.applies_to != "all":
            place = ("criteria", index, "applies_to", "dimensions")
            _check_known(document, criterion.applies_to.dimensions, place)
    for index, name in enumerate(document.dimension_names):
        if not document.criteria_for(name):
            raise flaw(
                N_('No criterion applies to "{name}"; add one or remove the dimension.'),
                at=("dimensions", index, "name"),
                name=name,
            )


def _check_asked_if(document: GuidelineDocument, criterion: Criterion, index: int) -> None:
    condition = criterion.asked_if
    assert condition is not None
    at: Location = ("criteria", index, "asked_if")
    earlier = {earlier.name: earlier for earlier in document.criteria[:index]}
    first = earlier.get(condition.criterion)
    if first is None:
        raise flaw(
            N_('No criterion before this one is called "{name}"; it may depend on {known}.'),
            at=(*at, "criterion"),
            name=condition.criterion,
            known=", ".join(earlier) or "-",
        )
    if criterion.applies_to != first.applies_to:
        raise flaw(
            N_(
                'This applies to other prompts than "{name}", on which it depends; give both the same applies_to.'
            ),
            at=(*at, "criterion"),
            name=first.name,
        )
    if condition.value not in first.values:
        raise flaw(
            N_('{value} is no value of "{name}"; use one of {known}.'),
            at=(*at, condition.comparison),
            value=condition.value,
            name=first.name,
            known=", ".join(map(str, first.values)),
        )
    if first.measurement == "nominal" and condition.comparison != "is":
        raise flaw(
            N_('"{name}" is nominal and has no order; compare by is.'),
            at=(*at, condition.comparison),
            name=first.name,
        )


def _check_known(document: GuidelineDocument, names: Iterable[str], place: Location) -> None:
    for index, name in enumerate(names):
        if not document.knows_dimension(name):
            raise flaw(
                N_('There is no dimension "{name}"; use one of {known}.'),
                at=(*place, index),
                name=name,
                known=", ".join(document.dimension_names) or "-",
            )


def _check_metric_scope(document: GuidelineDocument, metric: Metric, at: Location) -> None:
    _check_known(document, metric.dimensions or (), (*at, "dimensions"))
    names = [criterion.name for criterion in document.criteria]
    for index, name in enumerate(metric.criteria or ()):
        if name not in names:
            raise flaw(
                N_('There is no criterion "{name}"; use one of {known}.'),
                at=(*at, "criteria", index),
                name=name,
                known=", ".join(names),
            )
    if metric.overall == "mean_of_dimensions" and not document.dimensions:
        raise flaw(
            N_("This guideline has no dimensions to take the mean of; use pooled or none."),
            at=(*at, "overall"),
        )
    for dimension in document.dimensions_of(metric) or (None,):
        _check_metric_criteria(document, metric, dimension, at)


def _check_metric_criteria(
    document: GuidelineDocument, metric: Metric, dimension: str | None, at: Location
) -> None:
    criteria = document.criteria_of(metric, dimension)
    if not criteria:
        raise flaw(
            N_('No criterion of this metric applies to "{dimension}"; correct its dimensions or criteria.'),
            at=at,
            dimension=dimension or "-",
        )
    for criterion in criteria:
        if metric.kind == "mean" and criterion.measurement == "nominal":
            raise flaw(
                N_('"{criterion}" is nominal and has no mean; count levels in a rate instead.'),
                at=(*at, "kind"),
                criterion=criterion.name,
            )


def _iterate_level_lists(metric: Metric) -> Iterator[tuple[tuple[str, ...], tuple[int | float, ...]]]:
    if isinstance(metric.levels, dict):
        for dimension, levels in metric.levels.items():
            yield ("levels", dimension), levels
    elif metric.levels is not None:
        yield ("levels",), metric.levels


def _check_metric_levels(document: GuidelineDocument, metric: Metric, at: Location) -> None:
    scope = document.dimensions_of(metric)
    if isinstance(metric.levels, dict):
        _check_level_mapping(metric.levels, scope, at)
    for place, levels in _iterate_level_lists(metric):
        dimensions = place[1:] or scope or (None,)
        criteria = [criterion for name in dimensions for criterion in document.criteria_of(metric, name)]
        known = sorted({value for criterion in criteria for value in criterion.values})
        for index, level in enumerate(levels):
            if level not in known:
                raise flaw(
                    N_("{level} is no level of the criteria this metric counts; use one of {known}."),
                    at=(*at, *place, index),
                    level=level,
                    known=", ".join(map(str, known)),
                )


def _check_level_mapping(
    levels: dict[str, tuple[int | float, ...]], scope: tuple[str, ...], at: Location
) -> None:
    for name in levels:
        if name not in scope:
            raise flaw(
                N_('"{name}" is none of the dimensions of this metric; use {known}.'),
                at=(*at, "levels", name),
                name=name,
                known=", ".join(scope) or "-",
            )
    for name in scope:
        if name not in levels:
            raise flaw(
                N_('The levels counted in "{name}" are missing; add them, or list the dimensions meant.'),
                at=(*at, "levels"),
                name=name,
            )


def _check_rank_by(document: GuidelineDocument) -> None:
    metric = next((metric for metric in document.metrics if metric.name == document.rank_by), None)
    if metric is None:
        raise flaw(
            N_('There is no metric "{name}" to rank by; use one of {known}.'),
            at=("rank_by",),
            name=document.rank_by,
            known=", ".join(metric.name for metric in document.metrics),
        )
    if metric.overall == "none" and len(document.dimensions_of(metric)) != 1:
        raise flaw(
            N_('"{name}" has no overall value to rank by; give it one, or a single dimension.'),
            at=("rank_by",),
            name=metric.name,
        )


MAX_SEVERITY = 3
Severity = Annotated[int, Field(strict=True, ge=0, le=MAX_SEVERITY)]


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
    def _check(self) -> Self:
        check_dimension(self)
        return self


class LevelExample(Frozen):
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
    examples: tuple[LevelExample, ...] = ()


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


COMPARISONS = ("is_", "at_most", "at_least")


class AskedIf(Frozen):
    """A criterion is asked only where an earlier one has such a value; "not applicable" is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    criterion: Identifier
    is_: Annotated[Number | None, Field(alias="is")] = None
    at_most: Number | None = None
    at_least: Number | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_condition(self)
        return self

    @property
    def comparison(self) -> str:
        """``is``, ``at_most`` or ``at_least``."""
        return next(name for name in COMPARISONS if getattr(self, name) is not None).rstrip("_")

    @property
    def sign(self) -> str:
        """The comparison in no language."""
        return {"is": "=", "at_most": "≤", "at_least": "≥"}[self.comparison]

    @property
    def value(self) -> int | float:
        return next(bound for bound in (self.is_, self.at_most, self.at_least) if bound is not None)

    def holds(self, label: object) -> bool:
        """Whether the criterion is asked beside this label of the earlier one; None: that has none."""
        number = as_number(label)
        if number is None:
            return False
        match self.comparison:
            case "is":
                return number == self.value
            case "at_most":
                return number <= self.value
        return number >= self.value


class Criterion(Frozen):
    """``na``: "not applicable" is an answer, too. ``optional``: it may stay unanswered. ``tolerance`` is in place of
    the batch's.
    """

    name: Identifier
    label: LocalizedText
    question: LocalizedText
    applies_to: Applicability
    measurement: Literal["nominal", "ordinal", "interval"]
    range: Range | None = None
    scale: Annotated[tuple[Level, ...], Field(min_length=2)]
    na: Annotated[bool, Field(strict=True)] = False
    optional: Annotated[bool, Field(strict=True)] = False
    asked_if: AskedIf | None = None
    tolerance: Number | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_criterion(self)
        return self

    @property
    def values(self) -> tuple[int | float, ...]:
        """Every value a label may take, in order; with a range, every whole number of it."""
        if self.range is not None:
            return tuple(range(int(self.range.min), int(self.range.max) + 1))
        return tuple(sorted(level.value for level in self.scale))

    def level(self, value: Label | None) -> Level | None:
        """The level of this value; None between the anchors of a range and off the scale."""
        return next((level for level in self.scale if level.value == value), None)

    def applies(self, dimension: str | None) -> bool:
        return self.applies_to == "all" or dimension in self.applies_to.dimensions

    @property
    def may_lack_value(self) -> bool:
        """Whether a response that was judged may have no number here."""
        return self.na or self.optional or self.asked_if is not None

    @property
    def answers(self) -> str:
        """What may be answered, as an error message lists it."""
        return ", ".join(map(str, (*self.values, NA) if self.na else self.values))

    def check(self, label: object) -> Label:
        """The label as a number of the scale, or ``NA`` where that is allowed; else Unprocessable."""
        if self.na and label == NA:
            return NA
        if not self.na:
            return self.check_level(label)
        try:
            return self.check_level(label)
        except Unprocessable as error:
            error.params["allowed"] = self.answers
            raise

    def check_level(self, label: object) -> int | float:
        """The label as a number of the scale; else Unprocessable, also where it is ``NA``."""
        number = as_number(label)
        if number is None or number not in self.values:
            raise Unprocessable(
                N_('"{criterion}" cannot be {value}; use one of {allowed}.'),
                criterion=self.name,
                value=show(label),
                allowed=", ".join(map(str, self.values)),
            )
        return number

    def is_asked(self, labels: Mapping[str, object]) -> bool:
        """Whether it is asked beside these labels of the same response."""
        return self.asked_if is None or self.asked_if.holds(labels.get(self.asked_if.criterion))


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
    def _check(self) -> Self:
        check_metric(self)
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
    def _check(self) -> Self:
        check_document(self)
        return self

    @property
    def dimension_names(self) -> tuple[str, ...]:
        return tuple(dimension.name for dimension in self.dimensions)

    def knows_dimension(self, name: str) -> bool:
        return name in self.dimension_names

    def dimension(self, name: str) -> Dimension | None:
        return next((dimension for dimension in self.dimensions if dimension.name == name), None)

    def severity_of(self, dimension: str | None) -> int:
        """0 to ``MAX_SEVERITY``; 0 for a dimension that the guideline does not know."""
        known = self.dimension(dimension or "")
        return known.severity if known else 0

    def topic_of(self, dimension: str | None, subcomponent: str | None) -> tuple[LocalizedText, ...]:
        """The labels of the dimension and of its subcomponent, as far as the guideline knows them."""
        known = self.dimension(dimension or "")
        parts = [part.label for part in known.subcomponents if part.name == subcomponent] if known else []
        return (known.label, *parts) if known else ()

    @property
    def nominal_criteria(self) -> frozenset[str]:
        """The names of those whose values have no distance."""
        return frozenset(criterion.name for criterion in self.criteria if criterion.measurement == "nominal")

    def criteria_for(self, dimension: str | None) -> tuple[Criterion, ...]:
        """The criteria asked about a prompt of this dimension; of an unknown one, those that apply to all."""
        return tuple(criterion for criterion in self.criteria if criterion.applies(dimension))

    def criterion(self, name: str) -> Criterion:
        return _get_named(
            self.criteria, name, N_('This guideline has no criterion "{name}"; it has {known}.')
        )

    def metric(self, name: str) -> Metric:
        return _get_named(self.metrics, name, N_('This guideline has no metric "{name}"; it has {known}.'))

    def dimensions_of(self, metric: Metric) -> tuple[str, ...]:
        return self.dimension_names if metric.dimensions is None else metric.dimensions

    def criteria_of(self, metric: Metric, dimension: str | None) -> tuple[Criterion, ...]:
        """The criteria whose labels enter this metric in this dimension."""
        criteria = self.criteria_for(dimension)
        return tuple(
            criterion
            for criterion in criteria
            if metric.criteria is None or criterion.name in metric.criteria
        )

    def check_labels(self, dimension: str | None, labels: Mapping[str, object]) -> dict[str, Label]:
        """A label for each criterion that is asked, in the guideline's order; else Unprocessable.

        One that is optional may be missing. Nothing is answered that another answer makes needless.
        """
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
        checked: dict[str, Label] = {}
        for criterion in criteria:
            if not criterion.is_asked(checked):
                _refuse_unasked(criterion, labels)
            elif criterion.name in labels:
                checked[criterion.name] = criterion.check(labels[criterion.name])
            elif not criterion.optional:
                raise Unprocessable(
                    N_('"{criterion}" has no label; give one of {allowed}.'),
                    criterion=criterion.name,
                    allowed=criterion.answers,
                )
        return checked

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


def _refuse_unasked(criterion: Criterion, labels: Mapping[str, object]) -> None:
    if criterion.name not in labels:
        return
    condition = criterion.asked_if
    assert condition is not None
    raise Unprocessable(
        N_('"{criterion}" is asked only where {other} {comparison} {value}; leave it out here.'),
        criterion=criterion.name,
        other=condition.criterion,
        comparison=condition.sign,
        value=condition.value,
    )


Named = TypeVar("Named", Criterion, Metric)


def _get_named(parts: tuple[Named, ...], name: str, template: str) -> Named:
    for part in parts:
        if part.name == name:
            return part
    raise NotFound(template, name=name, known=", ".join(part.name for part in parts))
