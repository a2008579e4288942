"""What Label Studio is given: a labelling configuration that fits a guideline, and tasks with their annotations. Pure.

docs/gold.md describes both. The configuration's choices are told by the value of the level (its alias), so that no
translation and no correction of a wording changes what a label means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from annotation.domain.annotations import FLAGS
from annotation.domain.formats import label_studio as names
from annotation.domain.formats.label_studio import (
    ADJUDICATOR,
    ANNOTATOR,
    DIMENSION,
    EVIDENCE,
    GOLD,
    PERSON,
    RATIONALE,
    ROLE,
    SPANS,
)
from annotation.domain.formats.labels import EQUALS
from annotation.domain.guidelines import Criterion, GuidelineDocument
from annotation.domain.guidelines.values import LocalizedText
from annotation.domain.releases.canonical import number

PROMPT_TEXT, RESPONSE_TEXT, TURNS = "assay-prompt", "assay-response", "assay-turns"
MOST_CHOICES = 12
MOST_STARS = 10
# Label Studio shows a text without its blank lines and leading blanks unless told otherwise, and then counts otherwise.
STYLE = ".htx-text { white-space: pre-wrap; }"


@dataclass(frozen=True)
class Layout:
    """What the configuration shows: texts, dialogues or both, and the criteria that it asks."""

    title: str
    criteria: Mapping[str, Control]
    dimensions: Sequence[str]
    has_texts: bool
    has_dialogues: bool

    @property
    def data(self) -> dict[str, Any]:
        """The fields that every task must have, empty."""
        return ({"response": ""} if self.has_texts else {}) | ({"dialogue": []} if self.has_dialogues else {})


@dataclass(frozen=True)
class Control:
    """How one criterion is asked. ``values`` are those of all versions of its guideline that are shown together."""

    criterion: Criterion
    values: tuple[int | float, ...]

    @property
    def kind(self) -> str:
        """Stars where there are as many as they say, a number where there are too many values to choose from."""
        counts_from_one = self.values == tuple(range(1, len(self.values) + 1))
        if self.criterion.measurement == "interval" and counts_from_one and len(self.values) <= MOST_STARS:
            return "rating"
        return "choices" if len(self.values) <= MOST_CHOICES else "number"

    def value(self, label: float) -> dict[str, Any]:
        """The label as the ``value`` of a result."""
        return {"choices": [str(number(label))]} if self.kind == "choices" else {self.kind: label}


@dataclass(frozen=True)
class Annotated:
    """One annotation as Label Studio is given it."""

    role: str
    labels: Mapping[str, int | float]
    person: str = ""
    rationale: str = ""
    flags: Sequence[str] = ()
    evidence: Sequence[Mapping[str, Any]] = ()
    seconds: float | None = None
    turns: Sequence[Mapping[str, str]] = field(default_factory=list)
    text: str = ""


def layout_of(documents: Sequence[GuidelineDocument], *, has_texts: bool, has_dialogues: bool) -> Layout:
    """``documents`` from the oldest to the newest: a criterion is shown as in the newest that has it, with the values
    of all.
    """
    criteria: dict[str, Control] = {}
    for document in documents:
        for criterion in document.criteria:
            before = criteria[criterion.name].values if criterion.name in criteria else ()
            criteria[criterion.name] = Control(criterion, tuple(sorted({*before, *criterion.values})))
    return Layout(
        title=" · ".join(dict.fromkeys(_all(document.title) for document in documents)),
        criteria=criteria,
        dimensions=list(dict.fromkeys(name for document in documents for name in document.dimension_names)),
        has_texts=has_texts,
        has_dialogues=has_dialogues,
    )


def configuration(layout: Layout) -> str:
    """The labelling configuration, as XML."""
    view = Element("View")
    SubElement(view, "Style").text = STYLE
    SubElement(view, "Header", value=layout.title, size="3")
    SubElement(view, "Text", name=PROMPT_TEXT, value="$prompt")
    _responses(view, layout)
    if layout.dimensions:
        dimension = _control(view, "Choices", DIMENSION, choice="single", showInline="true")
        for name in layout.dimensions:
            SubElement(dimension, "Choice", value=name)
    for control in layout.criteria.values():
        _question(_asked(view, control.criterion), control)
    _control(view, "TextArea", RATIONALE, rows="2", maxSubmissions="1", editable="true")
    flags = _control(view, "Choices", names.FLAGS, choice="multiple", showInline="true")
    for flag in FLAGS:
        SubElement(flags, "Choice", value=flag)
    _about(view)
    indent(view)
    return tostring(view, encoding="unicode") + "\n"


def _responses(view: Element, layout: Layout) -> None:
    if layout.has_texts:
        SubElement(view, "Text", name=RESPONSE_TEXT, value="$response", granularity="symbol")
        _labels(SubElement(view, "Labels", name=EVIDENCE, toName=RESPONSE_TEXT), layout)
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
        _labels(SubElement(view, "ParagraphLabels", name=SPANS, toName=TURNS), layout)


def _labels(parent: Element, layout: Layout) -> None:
    """A label for each level; of a long scale one for each level that has a name, and one for the others."""
    for name, control in layout.criteria.items():
        named = [level.value for level in control.criterion.scale]
        short = len(control.values) <= MOST_CHOICES
        for value in control.values if short else named:
            SubElement(parent, "Label", value=span_label(name, value), hint=_level(control.criterion, value))
        if not short:
            SubElement(parent, "Label", value=name, hint=_all(control.criterion.label))


def _asked(view: Element, criterion: Criterion) -> Element:
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


def _question(view: Element, control: Control) -> None:
    criterion = control.criterion
    SubElement(view, "Header", value=_all(criterion.question), size="5")
    if control.kind == "rating":
        _control(view, "Rating", criterion.name, maxRating=str(len(control.values)))
    elif control.kind == "number":
        low, high = control.values[0], control.values[-1]
        _control(view, "Number", criterion.name, min=str(low), max=str(high))
    else:
        choices = _control(view, "Choices", criterion.name, choice="single", showInline="true")
        for value in control.values:
            alias = control.value(value)["choices"][0]
            hint = _definition(criterion, value)
            SubElement(
                choices, "Choice", value=f"{alias} {_level(criterion, value)}".strip(), alias=alias, hint=hint
            )


def _about(view: Element) -> None:
    """Who said it and as what: not shown, and kept by Label Studio through an import and an export."""
    hidden = SubElement(view, "View", style="display: none")
    _control(hidden, "TextArea", PERSON)
    role = _control(hidden, "Choices", ROLE, choice="single")
    for name in (ANNOTATOR, ADJUDICATOR, GOLD):
        SubElement(role, "Choice", value=name)


def _control(view: Element, tag: str, name: str, **attributes: str) -> Element:
    return SubElement(view, tag, {"name": name, "toName": PROMPT_TEXT, **attributes})


def span_label(criterion: str, value: float) -> str:
    return f"{criterion}{EQUALS}{number(value)}"


def annotation(layout: Layout, said: Annotated, dimension: str) -> dict[str, Any]:
    """An annotation without ``completed_by``: Label Studio refuses a person it does not know, and would take a number
    for one of its own people.
    """
    results = list(_results(layout, said, dimension))
    return {
        "result": [{"id": f"r{number}", **result} for number, result in enumerate(results, 1)],
        "ground_truth": said.role == GOLD,
        "was_cancelled": False,
        "lead_time": said.seconds,
    }


def _results(layout: Layout, said: Annotated, dimension: str) -> Iterator[dict[str, Any]]:
    yield _result(ROLE, "choices", {"choices": [said.role]})
    if said.person:
        yield _result(PERSON, "textarea", {"text": [said.person]})
    if dimension in layout.dimensions:
        yield _result(DIMENSION, "choices", {"choices": [dimension]})
    for criterion, label in said.labels.items():
        control = layout.criteria[criterion]
        yield _result(criterion, control.kind, control.value(label))
    if said.rationale:
        yield _result(RATIONALE, "textarea", {"text": [said.rationale]})
    if said.flags:
        yield _result(names.FLAGS, "choices", {"choices": list(said.flags)})
    for span in said.evidence:
        yield _span(layout, said, span)


def _result(control: str, kind: str, value: dict[str, Any], *, to: str = PROMPT_TEXT) -> dict[str, Any]:
    return {"from_name": control, "to_name": to, "type": kind, "value": value}


def _span(layout: Layout, said: Annotated, span: Mapping[str, Any]) -> dict[str, Any]:
    """Offsets count code points, as they do in Label Studio."""
    start, end, label = span["start"], span["end"], _label_of(layout, span)
    if not said.turns:
        value = {"start": start, "end": end, "text": said.text[start:end], "labels": [label]}
        return _result(EVIDENCE, "labels", value, to=RESPONSE_TEXT)
    turn = str(span["turn"])
    words = said.turns[span["turn"]]["text"][start:end]
    value = {"start": turn, "end": turn, "startOffset": start, "endOffset": end, "text": words}
    return _result(SPANS, "paragraphlabels", value | {"paragraphlabels": [label]}, to=TURNS)


def _label_of(layout: Layout, span: Mapping[str, Any]) -> str:
    control = layout.criteria[span["criterion"]]
    named = {level.value for level in control.criterion.scale}
    if len(control.values) <= MOST_CHOICES or span["level"] in named:
        return span_label(span["criterion"], span["level"])
    return str(span["criterion"])


def _level(criterion: Criterion, value: float) -> str:
    level = criterion.level(value)
    return _all(level.name) if level else ""


def _definition(criterion: Criterion, value: float) -> str:
    level = criterion.level(value)
    return _all(level.definition) if level else ""


def _all(text: LocalizedText) -> str:
    """In each language, once."""
    return " / ".join(dict.fromkeys(_lines(text.values())))


def _lines(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield " ".join(text.split())
