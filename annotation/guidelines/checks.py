"""What the shape of a guideline cannot say: unique names, references that resolve, texts all translated."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from annotation.errors import N_

from .values import FORMULA, Frozen, flaw, show

if TYPE_CHECKING:
    from .document import Criterion, Dimension, GuidelineDocument, Metric

Location = tuple[str | int, ...]
MOST_VALUES = 101
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


def _check_range(criterion: Criterion) -> None:
    bounds = criterion.range
    assert bounds is not None
    if criterion.measurement != "interval":
        raise flaw(N_("Only an interval scale has a range; name every level instead."), at=("range",))
    for side, value in (("min", bounds.min), ("max", bounds.max)):
        if not isinstance(value, int):
            raise flaw(N_("{value} is not a whole number; use one."), at=("range", side), value=value)
    if not 0 < bounds.max - bounds.min < MOST_VALUES:
        raise flaw(
            N_("A range runs upwards and holds at most {most} values; correct min or max."),
            at=("range", "max"),
            most=MOST_VALUES,
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
    wanted, other = ("levels", "formula") if metric.kind == "rate" else ("formula", "levels")
    if getattr(metric, wanted) is None:
        raise flaw(N_("A metric of kind {kind} needs {part}; add it."), kind=metric.kind, part=wanted)
    if getattr(metric, other) is not None:
        raise flaw(
            N_("A metric of kind {kind} takes no {part}; remove it."),
            at=(other,),
            kind=metric.kind,
            part=other,
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
    for place, levels in _level_lists(metric):
        _check_unique(levels, *place, inside=True)


def check_document(document: GuidelineDocument) -> None:
    _check_unique(document.languages, "languages", inside=True)
    _check_translations(document)
    for field in ("dimensions", "criteria", "metrics"):
        _check_unique((thing.name for thing in getattr(document, field)), field, "name")
    _check_applicability(document)
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


def _texts(thing: object, at: Location = ()) -> Iterator[tuple[Location, dict[str, str]]]:
    """Every localized text below a model, with its place: the dicts, bar the levels of a metric."""
    if isinstance(thing, Frozen):
        for field in type(thing).model_fields:
            if field != "levels":
                yield from _texts(getattr(thing, field), (*at, field))
    elif isinstance(thing, tuple):
        for index, entry in enumerate(thing):
            yield from _texts(entry, (*at, index))
    elif isinstance(thing, dict):
        yield at, thing


def _check_translations(document: GuidelineDocument) -> None:
    for at, text in _texts(document):
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


def _level_lists(metric: Metric) -> Iterator[tuple[tuple[str, ...], tuple[int | float, ...]]]:
    if isinstance(metric.levels, dict):
        for dimension, levels in metric.levels.items():
            yield ("levels", dimension), levels
    elif metric.levels is not None:
        yield ("levels",), metric.levels


def _check_metric_levels(document: GuidelineDocument, metric: Metric, at: Location) -> None:
    scope = document.dimensions_of(metric)
    if isinstance(metric.levels, dict):
        _check_level_mapping(metric.levels, scope, at)
    for place, levels in _level_lists(metric):
        dimensions = place[1:] or scope or (None,)
        criteria = [one for name in dimensions for one in document.criteria_of(metric, name)]
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
    metric = next((one for one in document.metrics if one.name == document.rank_by), None)
    if metric is None:
        raise flaw(
            N_('There is no metric "{name}" to rank by; use one of {known}.'),
            at=("rank_by",),
            name=document.rank_by,
            known=", ".join(one.name for one in document.metrics),
        )
    if metric.overall == "none" and len(document.dimensions_of(metric)) != 1:
        raise flaw(
            N_('"{name}" has no overall value to rank by; give it one, or a single dimension.'),
            at=("rank_by",),
            name=metric.name,
        )
