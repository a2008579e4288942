"""The export to Label Studio: a labelling configuration that fits a guideline, and tasks with their annotations. Pure.

docs/gold.md describes both. The configuration's choices are told by the value of the level (its alias), so that no
translation and no correction of a wording changes what a label means.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from annotation.domain.annotations import FLAGS
from annotation.domain.formats import label_studio as names
from annotation.domain.formats.label_studio import (
    ADJUDICATOR,
    ANNOTATOR,
    DIMENSION,
    EVIDENCE,
    GOLD,
    NA_SUFFIX,
    PERSON,
    RATIONALE,
    ROLE,
    SPANS,
)
from annotation.domain.formats.labels import EQUALS
from annotation.domain.guidelines import NA, Criterion, GuidelineDocument, Label
from annotation.domain.guidelines.values import NOT_APPLICABLE, LocalizedText
from annotation.domain.releases.canonical import number

PROMPT_TEXT, RESPONSE_TEXT, TURNS = "assay-prompt", "assay-response", "assay-turns"
MAX_CHOICES = 12
# Of annotations that are kept as they are written; each is a kilobyte.
MAX_SHARED = 8192
MAX_STARS = 10
_encode = json.JSONEncoder(ensure_ascii=False).encode
# Label Studio shows a text without its blank lines and leading blanks unless told otherwise, and then counts otherwise.
STYLE = ".htx-text { white-space: pre-wrap; }"


@dataclass(frozen=True)
class LabelStudioLayout:
    """What the configuration shows: texts, dialogues or both, and the criteria that it asks."""

    title: str
    criteria: Mapping[str, LabelStudioControl]
    dimensions: Sequence[str]
    has_texts: bool
    has_dialogues: bool

    @property
    def data(self) -> dict[str, Any]:
        """The fields that every task must have, empty."""
        return ({"response": ""} if self.has_texts else {}) | ({"dialogue": []} if self.has_dialogues else {})


@dataclass(frozen=True)
class LabelStudioControl:
    """How one criterion is asked. ``values`` are those of all versions of its guideline that are shown together."""

    criterion: Criterion
    values: tuple[int | float, ...]

    @property
    def kind(self) -> str:
        """Stars where there are as many as they say, a number where there are too many values to choose from."""
        if self.criterion.kind == "text":
            return "textarea"
        if self.criterion.several:
            return "choices"
        counts_from_one = self.values == tuple(range(1, len(self.values) + 1))
        if self.criterion.measurement == "interval" and counts_from_one and len(self.values) <= MAX_STARS:
            return "rating"
        return "choices" if len(self.values) <= MAX_CHOICES else "number"

    def value(self, label: Label) -> dict[str, Any]:
        """The label as the ``value`` of a result."""
        if self.kind == "textarea":
            return {"text": [label]}
        if label == NA:
            return {"choices": [NA]}
        if self.criterion.several:
            return {"choices": [str(level.value) for level in self.criterion.list_levels(label)]}
        return {"choices": [str(number(label))]} if self.kind == "choices" else {self.kind: label}


class ExportedAnnotation(NamedTuple):
    """One annotation, as it is exported to Label Studio."""

    role: str
    labels: Mapping[str, Label]
    person: str = ""
    rationale: str = ""
    flags: Sequence[str] = ()
    evidence: Sequence[Mapping[str, Any]] = ()
    seconds: float | None = None
    turns: Sequence[Mapping[str, str]] = ()
    text: str = ""


def build_layout(
    documents: Sequence[GuidelineDocument],
    *,
    has_texts: bool,
    has_dialogues: bool,
    turns: Iterable[int] = (),
) -> LabelStudioLayout:
    """``documents`` from the oldest to the newest: a criterion is shown as in the newest that has it, with the values
    of all; what is asked of each turn once for each of the ``turns`` that any response has.
    """
    criteria: dict[str, LabelStudioControl] = {}
    for document in documents:
        for criterion in _list_asked(document, tuple(turns)):
            before = criteria[criterion.name].values if criterion.name in criteria else ()
            criteria[criterion.name] = LabelStudioControl(
                criterion, tuple(sorted({*before, *criterion.values}))
            )
    return LabelStudioLayout(
        title=" · ".join(dict.fromkeys(_join_languages(document.title) for document in documents)),
        criteria=criteria,
        dimensions=list(dict.fromkeys(name for document in documents for name in document.dimension_names)),
        has_texts=has_texts,
        has_dialogues=has_dialogues,
    )


def _list_asked(document: GuidelineDocument, turns: Sequence[int]) -> Iterator[Criterion]:
    for criterion in document.criteria:
        if criterion.per_turn is None:
            yield criterion
        else:
            yield from map(criterion.at_turn, turns)


def build_configuration(layout: LabelStudioLayout) -> str:
    """The labelling configuration, as XML."""
    view = Element("View")
    SubElement(view, "Style").text = STYLE
    SubElement(view, "Header", value=layout.title, size="3")
    SubElement(view, "Text", name=PROMPT_TEXT, value="$prompt")
    _add_responses(view, layout)
    if layout.dimensions:
        dimension = _add_control(view, "Choices", DIMENSION, choice="single", showInline="true")
        for name in layout.dimensions:
            SubElement(dimension, "Choice", value=name)
    for control in layout.criteria.values():
        _add_question(_add_condition(view, control.criterion), control)
    _add_control(view, "TextArea", RATIONALE, rows="2", maxSubmissions="1", editable="true")
    flags = _add_control(view, "Choices", names.FLAGS, choice="multiple", showInline="true")
    for flag in FLAGS:
        SubElement(flags, "Choice", value=flag)
    _add_origin(view)
    indent(view)
    return tostring(view, encoding="unicode") + "\n"


def _add_responses(view: Element, layout: LabelStudioLayout) -> None:
    if layout.has_texts:
        SubElement(view, "Text", name=RESPONSE_TEXT, value="$response", granularity="symbol")
        _add_labels(SubElement(view, "Labels", name=EVIDENCE, toName=RESPONSE_TEXT), layout)
    if layout.has_dialogues:
        SubElement(
            view,
            "Paragraphs",
            name=TURNS,
            value="$dialogue",
            layout="dialogue",
            nameKey="role",
            textKey="text",
        )
        _add_labels(SubElement(view, "ParagraphLabels", name=SPANS, toName=TURNS), layout)


def _add_labels(parent: Element, layout: LabelStudioLayout) -> None:
    """A label for each level; of a long scale one for each level that has a name, and one for the others."""
    for name, control in layout.criteria.items():
        if control.criterion.kind == "text":
            SubElement(parent, "Label", value=name, hint=_join_languages(control.criterion.label))
            continue
        named = [level.value for level in control.criterion.scale]
        short = len(control.values) <= MAX_CHOICES
        for value in control.values if short else named:
            SubElement(
                parent,
                "Label",
                value=span_label(name, value),
                hint=_find_level_name(control.criterion, value),
            )
        if not short:
            SubElement(parent, "Label", value=name, hint=_join_languages(control.criterion.label))


def _add_condition(view: Element, criterion: Criterion) -> Element:
    """Where the question stands: in a part that shows only for its dimensions, if it is not for all."""
    if criterion.applies_to == "all" or any("," in name for name in criterion.applies_to.dimensions):
        return SubElement(view, "View")
    return SubElement(
        view,
        "View",
        visibleWhen="choice-selected",
        whenTagName=DIMENSION,
        whenChoiceValue=",".join(criterion.applies_to.dimensions),
    )


def _add_question(view: Element, control: LabelStudioControl) -> None:
    criterion = control.criterion
    SubElement(view, "Header", value=_join_languages(criterion.question), size="5")
    if criterion.na and control.kind != "choices":
        choices = _add_control(
            view, "Choices", criterion.name + NA_SUFFIX, choice="single", showInline="true"
        )
        SubElement(choices, "Choice", value=_join_languages(NOT_APPLICABLE), alias=NA)
    if control.kind == "textarea":
        _add_control(view, "TextArea", criterion.name, rows="3", maxSubmissions="1", editable="true")
    elif control.kind == "rating":
        _add_control(view, "Rating", criterion.name, maxRating=str(len(control.values)))
    elif control.kind == "number":
        low, high = control.values[0], control.values[-1]
        _add_control(view, "Number", criterion.name, min=str(low), max=str(high))
    else:
        choice = "multiple" if criterion.several else "single"
        choices = _add_control(view, "Choices", criterion.name, choice=choice, showInline="true")
        for value in control.values:
            alias = control.value(value)["choices"][0]
            hint = _find_level_definition(criterion, value)
            SubElement(
                choices,
                "Choice",
                value=f"{alias} {_find_level_name(criterion, value)}".strip(),
                alias=alias,
                hint=hint,
            )
        if criterion.na:
            SubElement(choices, "Choice", value=_join_languages(NOT_APPLICABLE), alias=NA)


def _add_origin(view: Element) -> None:
    """The person and the role: not shown, and kept by Label Studio through an import and an export."""
    hidden = SubElement(view, "View", style="display: none")
    _add_control(hidden, "TextArea", PERSON)
    role = _add_control(hidden, "Choices", ROLE, choice="single")
    for name in (ANNOTATOR, ADJUDICATOR, GOLD):
        SubElement(role, "Choice", value=name)


def _add_control(view: Element, tag: str, name: str, **attributes: str) -> Element:
    return SubElement(view, tag, {"name": name, "toName": PROMPT_TEXT, **attributes})


def span_label(criterion: str, value: float) -> str:
    return f"{criterion}{EQUALS}{number(value)}"


class AnnotationEncoder:
    """Writes annotations as JSON. What many of them share, from the role to the flags, is written once and kept."""

    def __init__(self, layout: LabelStudioLayout) -> None:
        self._layout = layout
        self._encode_shared = lru_cache(maxsize=MAX_SHARED)(self._encode_parts)

    def encode(self, exported: ExportedAnnotation, dimension: str) -> str:
        """An annotation without ``completed_by``: Label Studio refuses a person it does not know, and would take a
        number for one of its own people.
        """
        if exported.rationale or exported.evidence:
            results = self._encode_results(exported, dimension)
        else:
            labels = tuple(exported.labels.items())
            results = self._encode_shared(
                exported.role, exported.person, dimension, labels, tuple(exported.flags)
            )
        truth = "true" if exported.role == GOLD else "false"
        seconds = "null" if exported.seconds is None else repr(exported.seconds)
        return f'{{"result": {results}, "ground_truth": {truth}, "was_cancelled": false, "lead_time": {seconds}}}'

    def _encode_parts(
        self,
        role: str,
        person: str,
        dimension: str,
        labels: Iterable[tuple[str, int | float]],
        flags: Sequence[str],
    ) -> str:
        shared = ExportedAnnotation(role=role, labels=dict(labels), person=person, flags=flags)
        return self._encode_results(shared, dimension)

    def _encode_results(self, exported: ExportedAnnotation, dimension: str) -> str:
        results = _iterate_results(self._layout, exported, dimension)
        return _encode([{"id": f"r{number}", **result} for number, result in enumerate(results, 1)])


def _iterate_results(
    layout: LabelStudioLayout, exported: ExportedAnnotation, dimension: str
) -> Iterator[dict[str, Any]]:
    yield _build_result(ROLE, "choices", {"choices": [exported.role]})
    if exported.person:
        yield _build_result(PERSON, "textarea", {"text": [exported.person]})
    if dimension in layout.dimensions:
        yield _build_result(DIMENSION, "choices", {"choices": [dimension]})
    for criterion, label in exported.labels.items():
        control = layout.criteria[criterion]
        if label != NA or control.kind in ("choices", "textarea"):
            yield _build_result(criterion, control.kind, control.value(label))
        else:
            yield _build_result(criterion + NA_SUFFIX, "choices", control.value(label))
    if exported.rationale:
        yield _build_result(RATIONALE, "textarea", {"text": [exported.rationale]})
    if exported.flags:
        yield _build_result(names.FLAGS, "choices", {"choices": list(exported.flags)})
    for span in exported.evidence:
        yield _build_span(layout, exported, span)


def _build_result(control: str, kind: str, value: dict[str, Any], *, to: str = PROMPT_TEXT) -> dict[str, Any]:
    return {"from_name": control, "to_name": to, "type": kind, "value": value}


def _build_span(
    layout: LabelStudioLayout, exported: ExportedAnnotation, span: Mapping[str, Any]
) -> dict[str, Any]:
    """Offsets count code points, as they do in Label Studio."""
    start, end, label = span["start"], span["end"], _get_label(layout, span)
    if not exported.turns:
        value = {"start": start, "end": end, "text": exported.text[start:end], "labels": [label]}
        return _build_result(EVIDENCE, "labels", value, to=RESPONSE_TEXT)
    turn = str(span["turn"])
    words = exported.turns[span["turn"]]["text"][start:end]
    value = {"start": turn, "end": turn, "startOffset": start, "endOffset": end, "text": words}
    return _build_result(SPANS, "paragraphlabels", value | {"paragraphlabels": [label]}, to=TURNS)


def _get_label(layout: LabelStudioLayout, span: Mapping[str, Any]) -> str:
    control = layout.criteria[span["criterion"]]
    named = {level.value for level in control.criterion.scale}
    if span["level"] is None:
        return str(span["criterion"])
    if len(control.values) <= MAX_CHOICES or span["level"] in named:
        return span_label(span["criterion"], span["level"])
    return str(span["criterion"])


def _find_level_name(criterion: Criterion, value: float) -> str:
    level = criterion.level(value)
    return _join_languages(level.name) if level else ""


def _find_level_definition(criterion: Criterion, value: float) -> str:
    level = criterion.level(value)
    return _join_languages(level.definition) if level else ""


def _join_languages(text: LocalizedText) -> str:
    """In each language, once."""
    return " / ".join(dict.fromkeys(_flatten_texts(text.values())))


def _flatten_texts(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield " ".join(text.split())
