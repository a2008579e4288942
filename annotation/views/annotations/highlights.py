"""The turns of an item as a page shows them, with the evidence of one or more people laid over the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from annotation.domain.annotations import MARKABLE, cut_segments
from annotation.domain.guidelines.prose import is_blank
from annotation.selectors.assignments.items import Turn, WorkItem
from annotation.selectors.guidelines import criterion_label, label_text

# The group of what the reader marked.
OWN_GROUP = "mine"


@dataclass(frozen=True)
class MarkedPiece:
    """A piece of a turn; ``owners`` are the groups whose spans cover it, in the order of the groups.

    ``level`` says in words what those spans are evidence of; ``depth`` is how many there are.
    """

    text: str
    owners: tuple[str, ...] = ()
    level: str = ""
    depth: int = 0

    @property
    def owner(self) -> str:
        return " ".join(self.owners)

    @property
    def html(self) -> SafeString:
        """Escaped; a bare carriage return would arrive as a line feed, and move the offsets after it."""
        return mark_safe(escape(self.text).replace("\r", "&#13;"))  # noqa: S308  (escaped just here)


@dataclass(frozen=True)
class MarkedTurn:
    """``place`` counts the turns that were handed out; None for the prompt that is shown before them.

    The pieces, joined, are the text.
    """

    role: str
    text: str
    place: int | None
    pieces: tuple[MarkedPiece, ...]

    @property
    def markable(self) -> bool:
        return self.role == MARKABLE

    @property
    def number(self) -> int | None:
        """As pages count turns, from 1."""
        return None if self.place is None else self.place + 1

    @property
    def blank(self) -> bool:
        return is_blank(self.text)


def mark_turns(item: WorkItem, groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[MarkedTurn]:
    """The prompt and then what answers it; a dialogue that begins with the prompt does not repeat it.

    ``groups`` maps a name, such as "A", to spans of evidence.
    """
    spans = [(name, span) for name, evidence in groups.items() for span in evidence]
    turns = [mark_turn(place, turn, spans, item) for place, turn in enumerate(item.turns)]
    first = item.turns[0]
    if not item.prompt or (first.role == "user" and first.text == item.prompt):
        return turns
    return [MarkedTurn("prompt", item.prompt, None, (MarkedPiece(item.prompt),)), *turns]


def mark_turn(
    place: int, turn: Turn, spans: Sequence[tuple[str, Mapping[str, Any]]], item: WorkItem
) -> MarkedTurn:
    turn_spans = [(name, span) for name, span in spans if span["turn"] == place]
    if not turn_spans:
        return MarkedTurn(turn.role, turn.text, place, (MarkedPiece(turn.text),))
    pieces = (
        build_piece(segment.text, [turn_spans[i] for i in segment.spans], item)
        for segment in cut_segments(turn.text, [span for _name, span in turn_spans])
    )
    return MarkedTurn(turn.role, turn.text, place, tuple(pieces))


def build_piece(text: str, covering: Sequence[tuple[str, Mapping[str, Any]]], item: WorkItem) -> MarkedPiece:
    return MarkedPiece(
        text,
        owners=list_distinct(name for name, _span in covering),
        level=", ".join(list_distinct(describe_mark(span, item) for _name, span in covering)),
        depth=len(covering),
    )


def list_distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def describe_mark(span: Mapping[str, Any], item: WorkItem) -> str:
    """What the span is evidence of: a level, as "1 Harmful", with its criterion where several are asked; or a text."""
    criterion, level = str(span.get("criterion", "")), span.get("level")
    label = criterion_label(item.document, criterion)
    if level is None:
        return label
    words = label_text(item.document, criterion, level)
    return f"{label}: {words}" if len(item.criteria) > 1 else words
