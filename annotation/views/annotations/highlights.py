"""The turns of an item as a page shows them, with the evidence of one or more people laid over the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import mark_safe

from annotation.domain.annotations import cut_segments
from annotation.domain.guidelines.prose import is_blank
from annotation.domain.texts import Draw, Part, TextRun, draw_plainly, escape_words
from annotation.selectors.assignments.items import WorkItem
from annotation.selectors.guidelines import criterion_label, label_text
from annotation.views.texts import RenderedText, choose_format, render_text

# The group of what the reader marked.
OWN_GROUP = "mine"

# A span of evidence with the name of the group that it is of.
GroupedSpan = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class MarkedTurn:
    """``place`` counts the turns that were handed out; None for the prompt that is shown before them."""

    role: str
    place: int | None
    blank: bool
    text: RenderedText
    is_folded: bool = False
    markable: bool = False

    @property
    def number(self) -> int | None:
        """As pages count turns, from 1."""
        return None if self.place is None else self.place + 1


def mark_turns(item: WorkItem, groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[MarkedTurn]:
    """The prompt and then what answers it; a dialogue that begins with the prompt does not repeat it.

    ``groups`` maps a name, such as "A", to spans of evidence.
    """
    spans = [(name, span) for name, evidence in groups.items() for span in evidence]
    turns = [
        replace(
            mark_turn(
                turn.role, turn.text, item, place, [span for span in spans if span[1]["turn"] == place]
            ),
            markable=turn.is_judged,
        )
        for place, turn in enumerate(item.turns)
    ]
    first = item.turns[0]
    if not item.prompt or (not item.entries and first.role == "user" and first.text == item.prompt):
        return turns
    prompt = mark_turn("prompt", item.prompt, item)
    return [replace(prompt, is_folded=item.document.prompt_shown == "folded"), *turns]


def mark_turn(
    role: str, text: str, item: WorkItem, place: int | None = None, spans: Sequence[GroupedSpan] = ()
) -> MarkedTurn:
    rendered = render_text(text, choose_format(item, role), choose_drawing(spans, item))
    return MarkedTurn(role, place, is_blank(text), rendered)


def choose_drawing(spans: Sequence[GroupedSpan], item: WorkItem) -> Draw:
    """How the parts of a text are drawn: with the marks of the spans that cover them."""
    if not spans:
        return draw_plainly

    def draw(html: str, part: Part) -> str:
        touching = [span for span in spans if span[1]["start"] < part.end and part.start < span[1]["end"]]
        if not touching:
            return html
        if not isinstance(part, TextRun) or part.indivisible:
            return write_mark(html, touching, item)
        shifted = [
            {"start": max(span["start"] - part.start, 0), "end": span["end"] - part.start}
            for _name, span in touching
        ]
        return "".join(
            write_mark(escape_words(segment.text), [touching[i] for i in segment.spans], item)
            for segment in cut_segments(part.text, shifted)
        )

    return draw


def write_mark(html: str, covering: Sequence[GroupedSpan], item: WorkItem) -> str:
    """A mark says whose spans cover it and what they are evidence of; ``data-depth`` is how many there are."""
    if not covering:
        return html
    owners = " ".join(list_distinct(name for name, _span in covering))
    words = ", ".join(list_distinct(describe_mark(span, item) for _name, span in covering))
    return format_html(
        '<mark data-owner="{}" data-depth="{}" data-says="{}" title="{}">{}</mark>',
        owners,
        len(covering),
        words,
        words,
        mark_safe(html),  # noqa: S308  (escaped where it was written)
    )


def list_distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def describe_mark(span: Mapping[str, Any], item: WorkItem) -> str:
    """What the span is evidence of: a level, as "1 Harmful", with its criterion where several are asked; or a text."""
    criterion, level = str(span.get("criterion", "")), span.get("level")
    label = criterion_label(item.document, item.document.show_name_in(item.order, criterion))
    if level is None:
        return label
    position = item.document.criterion(criterion).show_in(item.order.places, level)
    words = label_text(item.document, criterion, position)
    return f"{label}: {words}" if len(item.criteria) > 1 else words
