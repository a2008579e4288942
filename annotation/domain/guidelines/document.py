"""A guideline as a frozen document: its taxonomy, its criteria, and the headline metrics it declares.

The checks hold what the types cannot: names are unique, references resolve, and every text is translated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from annotation.core.errors import N_, NotFound, Unprocessable
from annotation.domain.guidelines.criteria import AskedIf, Criterion
from annotation.domain.guidelines.entries import ShownOrder
from annotation.domain.guidelines.metrics import Metric, iterate_level_lists
from annotation.domain.guidelines.values import (
    Frozen,
    Label,
    Language,
    LocalizedText,
    Location,
    MetricName,
    ScorerTemplate,
    Slug,
    TaxonomyName,
    Text,
    add_turn,
    check_unique,
    find_turn,
    flaw,
    read_switch,
    show,
    strip_turn,
)


def check_dimension(dimension: Dimension) -> None:
    names = (part.name for part in dimension.subcomponents)
    check_unique(names, "subcomponents", "name")


def check_document(document: GuidelineDocument) -> None:
    check_unique(document.languages, "languages", inside=True)
    _check_translations(document)
    for field in ("dimensions", "criteria", "metrics"):
        check_unique((part.name for part in getattr(document, field)), field, "name")
    _check_applicability(document)
    for index, criterion in enumerate(document.criteria):
        for field in ("asked_if", "or_if"):
            condition = getattr(criterion, field)
            if condition is not None:
                _check_asked_if(document, criterion, index, field, condition)
    _check_unit(document)
    _require_metrics(document)
    for index, metric in enumerate(document.metrics):
        _check_metric_scope(document, metric, ("metrics", index))
        _check_metric_levels(document, metric, ("metrics", index))
    _check_rank_by(document)


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
        _check_subcomponents(document, criterion, index)
    for index, dimension in enumerate(document.dimensions):
        if not document.criteria_for(dimension.name):
            raise flaw(
                N_('No criterion with a scale applies to "{name}"; add one or remove the dimension.'),
                at=("dimensions", index, "name"),
                name=dimension.name,
            )
        for part, subcomponent in enumerate(dimension.subcomponents):
            if not document.criteria_at(dimension.name, subcomponent.name):
                raise flaw(
                    N_('No criterion with a scale applies to "{name}"; add one or remove the subcomponent.'),
                    at=("dimensions", index, "subcomponents", part, "name"),
                    name=subcomponent.name,
                )


def _check_subcomponents(document: GuidelineDocument, criterion: Criterion, index: int) -> None:
    """Each subcomponent that the criterion names is one of the prompts that it is asked about."""
    known = [
        subcomponent.name
        for dimension in document.dimensions
        if criterion.applies_in(dimension.name)
        for subcomponent in dimension.subcomponents
    ]
    own: Sequence[str] = () if criterion.applies_to == "all" else criterion.applies_to.subcomponents
    for part, name in enumerate(own):
        _check_subcomponent(name, known, ("criteria", index, "applies_to", "subcomponents", part))
    for position, level in enumerate(criterion.scale):
        for part, text in enumerate(level.subcomponents):
            at: Location = ("criteria", index, "scale", position, "subcomponents", part, "name")
            _check_subcomponent(text.name, own or known, at)
        for number, example in enumerate(level.examples):
            if example.subcomponent is not None:
                at = ("criteria", index, "scale", position, "examples", number, "subcomponent")
                _check_subcomponent(example.subcomponent, own or known, at)


def _check_subcomponent(name: str, known: Sequence[str], at: Location) -> None:
    if name not in known:
        raise flaw(
            N_('This criterion is asked of no subcomponent "{name}"; use one of {known}.'),
            at=at,
            name=name,
            known=", ".join(known) or "-",
        )


def _check_unit(document: GuidelineDocument) -> None:
    """What is asked of entries is asked of slates."""
    for index, criterion in enumerate(document.criteria):
        of_entries = criterion.entries is not None or criterion.per_turn == "entry"
        field = "per_turn" if criterion.entries is None else "entries"
        if of_entries and document.unit != "slate":
            raise flaw(
                N_("Only slates have entries; add unit: slate to the guideline."),
                at=("criteria", index, field),
            )
        if criterion.per_turn == "assistant" and document.unit == "slate":
            raise flaw(
                N_("Of a slate each entry is asked about, and not each turn; use per_turn: entry."),
                at=("criteria", index, "per_turn"),
            )


def _check_asked_if(
    document: GuidelineDocument, criterion: Criterion, index: int, field: str, condition: AskedIf
) -> None:
    at: Location = ("criteria", index, field)
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
    if not first.is_countable:
        raise flaw(
            N_('"{name}" has no single value to depend on; use a criterion of one level.'),
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
    if first.measurement == "nominal" and first.entries is None and condition.comparison != "is":
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
    names = [criterion.name for criterion in document.criteria if criterion.is_countable]
    uncounted = [criterion.name for criterion in document.criteria if not criterion.is_countable]
    for index, name in enumerate(metric.criteria or ()):
        if name in uncounted:
            raise flaw(
                N_('"{name}" has no single level of a response, so no metric counts it; use one of {known}.'),
                at=(*at, "criteria", index),
                name=name,
                known=", ".join(names) or "-",
            )
        if name not in names:
            raise flaw(
                N_('There is no criterion "{name}"; use one of {known}.'),
                at=(*at, "criteria", index),
                name=name,
                known=", ".join(names),
            )
    if metric.overall == "mean_of_dimensions" and not document.dimensions:
        raise flaw(
            N_("This guideline has no dimensions to take the mean of; use mean_of_criteria, pooled or none."),
            at=(*at, "overall"),
        )
    if metric.overall == "mean_of_criteria" and len(document.split_metric(metric)) == 1:
        raise flaw(
            N_("This metric has one criterion, and so none to take the mean of; use pooled or none."),
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


def _check_metric_levels(document: GuidelineDocument, metric: Metric, at: Location) -> None:
    scope = document.dimensions_of(metric)
    if isinstance(metric.levels, dict):
        _check_level_mapping(metric.levels, scope, at)
    for place, levels in iterate_level_lists(metric):
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


def _require_metrics(document: GuidelineDocument) -> None:
    """Slates alone do without, as models are ranked by what people preferred."""
    if document.unit == "slate" and not document.metrics:
        return
    for field in ("metrics", "rank_by"):
        if field not in document.model_fields_set:
            raise flaw(N_("This field is missing; add it."), at=(field,))
    if not document.metrics:
        raise flaw(
            N_("Too few entries (at least {min_length}); add what is missing."), at=("metrics",), min_length=1
        )


def _check_rank_by(document: GuidelineDocument) -> None:
    if not document.metrics and not document.rank_by:
        return
    metric = next((metric for metric in document.metrics if metric.name == document.rank_by), None)
    if metric is None:
        raise flaw(
            N_('There is no metric "{name}" to rank by; use one of {known}.'),
            at=("rank_by",),
            name=document.rank_by,
            known=", ".join(metric.name for metric in document.metrics),
        )
    if metric.better == "lower":
        raise flaw(
            N_('Of "{name}" lower is better, and a board ranks the highest first; rank by another metric.'),
            at=("rank_by",),
            name=metric.name,
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


Unit = Literal["response", "dialogue", "slate"]
PromptShown = Annotated[Literal["yes", "folded", "no"], BeforeValidator(read_switch)]


class GuidelineDocument(Frozen):
    """``unit`` is what people judge, a plain response, a dialogue or a slate; None: a response or a dialogue.
    Only slates need no ``metrics`` and no ``rank_by``: models are ranked by what people preferred.
    ``prompt_shown``: whether whoever judges reads the prompt, opens it first, or never sees it, as with a role card
    that drove the dialogue.
    """

    name: Slug
    version: Slug
    languages: Annotated[tuple[Language, ...], Field(min_length=1)]
    title: LocalizedText
    source: Text
    introduction: LocalizedText
    dimensions: tuple[Dimension, ...] = ()
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)]
    metrics: tuple[Metric, ...] = ()
    rank_by: MetricName | Literal[""] = ""
    scorer_template: ScorerTemplate | None = None
    unit: Unit | None = None
    prompt_shown: PromptShown = "yes"

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

    def list_topic(
        self, dimension: str | None, subcomponent: str | None
    ) -> tuple[Dimension | Subcomponent, ...]:
        """The dimension and its subcomponent, as far as the guideline knows them."""
        known = self.dimension(dimension or "")
        parts = [part for part in known.subcomponents if part.name == subcomponent] if known else []
        return (known, *parts) if known else ()

    def label_subcomponent(self, criterion: Criterion, name: str) -> dict[str, str]:
        """The label of a subcomponent that the criterion names, in each language."""
        return next(
            part.label
            for dimension in self.dimensions
            if criterion.applies_in(dimension.name)
            for part in dimension.subcomponents
            if part.name == name
        )

    def list_unanswerable(self, topics: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Of the prompts' dimensions and subcomponents those about which no criterion asks: the name of the dimension,
        or both.
        """
        names = {
            f"{dimension} / {subcomponent}" if self.criteria_for(dimension) and subcomponent else dimension
            for dimension, subcomponent in topics
            if not self.criteria_at(dimension, subcomponent)
        }
        return tuple(sorted(names))

    def hide_prompt(self, text: str) -> str:
        """The prompt as whoever judges may read it: empty where they never see it."""
        return "" if self.prompt_shown == "no" else text

    @property
    def nominal_criteria(self) -> frozenset[str]:
        """The names of those whose values have no distance."""
        return frozenset(criterion.name for criterion in self.criteria if criterion.measurement == "nominal")

    @cached_property
    def labelled_criteria(self) -> tuple[Criterion, ...]:
        """Those that bear labels: all but texts."""
        return tuple(criterion for criterion in self.criteria if criterion.kind != "text")

    @property
    def countable_criteria(self) -> tuple[Criterion, ...]:
        """Those by which a response has one level: what metrics count, and what scorers and judges predict."""
        return tuple(criterion for criterion in self.criteria if criterion.is_countable)

    @cached_property
    def asks_of_turns(self) -> bool:
        """Whether a criterion is asked of each turn or of a slate's entries, so that what is asked depends on the
        response.
        """
        return any(c.per_turn is not None or c.entries is not None for c in self.criteria)

    @cached_property
    def has_texts(self) -> bool:
        return any(criterion.kind == "text" for criterion in self.criteria)

    @cached_property
    def asks_by_subcomponent(self) -> bool:
        """Whether what is asked depends on the prompt's subcomponent, and not on its dimension alone."""
        return any(c.applies_to != "all" and c.applies_to.subcomponents for c in self.criteria)

    @cached_property
    def criteria_by_subcomponent(self) -> Mapping[str, tuple[Criterion, ...]]:
        """All criteria, their levels as they are defined for each subcomponent; under "" those of any other prompt."""
        names = {part.name for dimension in self.dimensions for part in dimension.subcomponents}
        has_texts = any(criterion.has_subcomponent_texts for criterion in self.criteria)
        return {
            name: tuple(criterion.at_subcomponent(name) for criterion in self.criteria)
            for name in ({"", *names} if has_texts else {""})
        }

    def criteria_for(self, dimension: str | None) -> tuple[Criterion, ...]:
        """The criteria that bear labels of any prompt of this dimension; of an unknown one, those that apply to all."""
        return tuple(criterion for criterion in self.labelled_criteria if criterion.applies_in(dimension))

    def countable_for(self, dimension: str | None) -> tuple[Criterion, ...]:
        """Of those the ones by which a response has one level."""
        return tuple(criterion for criterion in self.criteria_for(dimension) if criterion.is_countable)

    def criteria_at(self, dimension: str | None, subcomponent: str) -> tuple[Criterion, ...]:
        """The criteria that bear labels of a prompt of this dimension and subcomponent."""
        return tuple(c for c in self.labelled_criteria if c.applies(dimension, subcomponent))

    def countable_at(self, dimension: str | None, subcomponent: str) -> tuple[Criterion, ...]:
        """Of those the ones by which a response has one level."""
        return tuple(c for c in self.criteria_at(dimension, subcomponent) if c.is_countable)

    def list_questions(
        self, dimension: str | None, turns: Iterable[int] = (), *, subcomponent: str = ""
    ) -> tuple[Criterion, ...]:
        """All that a person is asked about a response, in order: texts, too, and what is asked of each of its
        judged ``turns`` (counted from 0) once for each; the levels as they are defined for the subcomponent. Of a slate
        each entry has one judged turn.
        """
        places = tuple(turns)
        worded = self.criteria_by_subcomponent
        return tuple(
            question
            for criterion in worded.get(subcomponent, worded[""])
            if criterion.applies(dimension, subcomponent)
            for question in (
                [criterion.at_turn(turn) for turn in places]
                if criterion.per_turn is not None
                else [criterion.at_entries(len(places)) if places else criterion]
            )
        )

    def criterion(self, name: str) -> Criterion:
        """By its name; by that of ``at_turn`` as it is asked of that turn."""
        turn = find_turn(name)
        criterion = _get_named(
            self.criteria,
            name if turn is None else strip_turn(name),
            N_('This guideline has no criterion "{name}"; it has {known}.'),
        )
        return criterion if turn is None or criterion.per_turn is None else criterion.at_turn(turn)

    def metric(self, name: str) -> Metric:
        return _get_named(self.metrics, name, N_('This guideline has no metric "{name}"; it has {known}.'))

    def dimensions_of(self, metric: Metric) -> tuple[str, ...]:
        return self.dimension_names if metric.dimensions is None else metric.dimensions

    def criteria_of(self, metric: Metric, dimension: str | None) -> tuple[Criterion, ...]:
        """The criteria whose labels enter this metric in this dimension."""
        return tuple(
            criterion
            for criterion in self.countable_for(dimension)
            if metric.criteria is None or criterion.name in metric.criteria
        )

    def split_metric(self, metric: Metric) -> tuple[Metric, ...]:
        """The metric of each of its criteria alone, in the guideline's order, in the dimensions that have it."""
        dimensions = {
            criterion.name: [
                dimension for dimension in self.dimensions_of(metric) if criterion.applies_in(dimension)
            ]
            for dimension in self.dimensions_of(metric) or (None,)
            for criterion in self.criteria_of(metric, dimension)
        }
        return tuple(
            metric.model_copy(
                update={
                    "criteria": (criterion.name,),
                    "dimensions": tuple(dimensions[criterion.name]) or None,
                }
            )
            for criterion in self.criteria
            if criterion.name in dimensions
        )

    def split_answers(
        self, answers: Mapping[str, object]
    ) -> tuple[Mapping[str, object], Mapping[str, object]]:
        """The labels, and the texts, among what was answered."""
        if not self.has_texts:
            return answers, {}
        texts = {criterion.name for criterion in self.criteria if criterion.kind == "text"}
        return (
            {name: answer for name, answer in answers.items() if name not in texts},
            {name: answer for name, answer in answers.items() if name in texts},
        )

    def check_texts(
        self,
        dimension: str | None,
        texts: Mapping[str, object],
        labels: Mapping[str, object],
        *,
        subcomponent: str = "",
    ) -> dict[str, str]:
        """A text for each criterion that asks for one beside these labels; else Unprocessable.

        An optional one may be missing or empty.
        """
        criteria = [c for c in self.criteria if c.kind == "text" and c.applies(dimension, subcomponent)]
        self._refuse_others(criteria, texts)
        checked: dict[str, str] = {}
        for criterion in criteria:
            text = criterion.check_text(texts.get(criterion.name) or "")
            if text and not criterion.is_asked(labels):
                _refuse_unasked(criterion, texts)
            elif text:
                checked[criterion.name] = text
            elif criterion.is_asked(labels) and not criterion.optional:
                raise Unprocessable(
                    N_('"{criterion}" has no text; write one.'), criterion=criterion.name, lacks="text"
                )
        return checked

    def check_labels(
        self,
        dimension: str | None,
        labels: Mapping[str, object],
        turns: Iterable[int] = (),
        *,
        subcomponent: str = "",
    ) -> dict[str, Label]:
        """A label for each criterion that is asked, in the guideline's order; else Unprocessable.

        One that is optional may be missing. Nothing is answered that another answer makes needless. ``turns`` are the
        judged ones of the response, counted from 0; they matter where ``asks_of_turns``.
        """
        questions = self.list_questions(dimension, turns, subcomponent=subcomponent)
        criteria = [criterion for criterion in questions if criterion.kind != "text"]
        self._refuse_others(criteria, labels)
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

    @staticmethod
    def _refuse_others(criteria: Sequence[Criterion], labels: Mapping[str, object]) -> None:
        names = [criterion.name for criterion in criteria]
        for name in labels:
            if name not in names:
                raise Unprocessable(
                    N_('"{criterion}" is not asked here, so {value} cannot be taken; asked: {known}.'),
                    criterion=name,
                    value=show(labels[name]),
                    known=", ".join(names) or "-",
                )

    def show_labels_in(self, order: ShownOrder, labels: Mapping[str, Label]) -> dict[str, Label]:
        """The labels as they read where a slate's entries stand in this order (``Criterion.show_in``), under the names
        of ``show_name_in``, entry by entry as they are shown.
        """
        if not order.places:
            return dict(labels)
        entries = {criterion.name: criterion for criterion in self.criteria if criterion.entries is not None}
        moved = {
            self.show_name_in(order, name): entries[name].show_in(order.places, label)
            if name in entries
            else label
            for name, label in labels.items()
        }
        ranks = {criterion.name: rank for rank, criterion in enumerate(self.criteria)}
        return dict(
            sorted(
                moved.items(), key=lambda item: (ranks.get(strip_turn(item[0]), 0), find_turn(item[0]) or 0)
            )
        )

    def show_name_in(self, order: ShownOrder, name: str) -> str:
        """The name of a criterion; of what is asked of an entry with the position of the entry for its turn, so that
        its words count entries as they are shown.
        """
        turn = find_turn(name)
        position = None if turn is None else order.positions.get(turn)
        return name if position is None else add_turn(strip_turn(name), position - 1)

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
