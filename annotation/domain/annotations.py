"""The rules of an annotation: its labels, the spans that are its evidence, its flags, and a submission. Pure.

Evidence ties words of a response to a level, or to a text that a criterion asks for: then its ``level`` is None. A
span is ``{turn, start, end, criterion, level}``. ``turn`` counts the
turns that were assigned, from 0; ``start`` and ``end`` count Unicode code points of that turn's text, ``end`` being
the first one after the span. Spans may overlap."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from annotation.core.errors import N_, Unprocessable
from annotation.domain.guidelines import Criterion, GuidelineDocument, Label
from annotation.domain.guidelines.prose import is_blank

MAX_SPANS = 200
# The role of the turns that are judged: evidence is marked in these.
MARKABLE = "assistant"
# The role of a scripted greeting before a dialogue: people read it, and nobody judges it, nor does a scorer.
OPENING = "opening"


@dataclass(frozen=True, order=True)
class Span:
    turn: int
    start: int
    end: int
    criterion: str
    level: int | float | None


@dataclass(frozen=True)
class CheckedAnnotation:
    """What a person answered, as it is stored: a label by criterion, spans of evidence, and texts by criterion."""

    labels: dict[str, Label]
    evidence: list[dict[str, Any]]
    texts: dict[str, str]

    @property
    def answers(self) -> dict[str, Label]:
        """The labels and the texts together, as the person gave them."""
        return {**self.labels, **self.texts}


@dataclass(frozen=True)
class Segment:
    """A piece of a text in which no span begins or ends; ``spans`` are the places of those that cover it."""

    text: str
    spans: tuple[int, ...]


def list_markable_texts(text: str, turns: Sequence[Mapping[str, str]]) -> list[str | None]:
    """The turns of a response as ``checked`` takes them; a plain response is one turn, its ``text``. Of an entry of a
    slate the last turn of the role is judged.
    """
    if not turns:
        return [text]
    judged = [place for place, turn in enumerate(turns) if turn["role"] == MARKABLE]
    if "entry" in turns[0]:
        judged = list({turns[place]["entry"]: place for place in judged}.values())
    return [turn["text"] if place in judged else None for place, turn in enumerate(turns)]


def list_judged_turns(texts: Iterable[str | None]) -> list[int]:
    """The places of the turns that are judged, counted from 0."""
    return [place for place, text in enumerate(texts) if text is not None]


def has_markable_text(texts: Iterable[str | None]) -> bool:
    """Whether any of the turns holds something to mark."""
    return any(text is not None and not is_blank(text) for text in texts)


def check_annotation(
    document: GuidelineDocument,
    dimension: str,
    answers: Mapping[str, Any],
    *,
    subcomponent: str = "",
    evidence: Sequence[Mapping[str, Any]],
    rationale: str,
    texts: Callable[[], Sequence[str | None]],
) -> CheckedAnnotation:
    """The answers and the spans of evidence as they are stored; Unprocessable where the guideline does not allow them.

    The ``texts`` of the response are read only where there are spans, some are missing, or turns are asked about.
    """
    checked = check_answers(document, dimension, answers, subcomponent=subcomponent, texts=texts)
    turns = list_judged_turns(texts()) if document.asks_of_turns else ()
    questions = document.list_questions(dimension, turns, subcomponent=subcomponent)
    spans = (
        check_evidence(evidence, texts=texts(), criteria=questions, labels=checked.labels) if evidence else []
    )
    check_completeness(questions, checked.labels, evidence=spans, rationale=rationale, texts=texts)
    return replace(checked, evidence=spans)


def check_answers(
    document: GuidelineDocument,
    dimension: str,
    answers: Mapping[str, Any],
    *,
    subcomponent: str = "",
    texts: Callable[[], Sequence[str | None]],
) -> CheckedAnnotation:
    """The labels and the texts that were answered, without evidence; Unprocessable as for ``check_annotation``."""
    turns = list_judged_turns(texts()) if document.asks_of_turns else ()
    labels, written = document.split_answers(answers)
    checked = document.check_labels(dimension, labels, turns, subcomponent=subcomponent)
    words = document.check_texts(dimension, written, checked, subcomponent=subcomponent)
    return CheckedAnnotation(checked, [], words)


def check_evidence(
    evidence: Sequence[Mapping[str, Any]],
    *,
    texts: Sequence[str | None],
    criteria: Sequence[Criterion],
    labels: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """The spans in reading order, each once; else Unprocessable.

    ``texts`` are the turns, None where a turn cannot be marked. A span that names no criterion is of the only one that
    is asked; one that names no level is of the level that was chosen.
    """
    if len(evidence) > MAX_SPANS:
        raise Unprocessable(
            N_("There are {n} spans of evidence; mark at most {most}."), n=len(evidence), most=MAX_SPANS
        )
    return [
        asdict(span) for span in sorted({_check_span(span, texts, criteria, labels) for span in evidence})
    ]


def check_completeness(
    criteria: Iterable[Criterion],
    labels: Mapping[str, Any],
    *,
    evidence: Iterable[Mapping[str, Any]],
    rationale: str,
    texts: Callable[[], Iterable[str | None]],
) -> None:
    """Unprocessable where a chosen level requires evidence or a rationale that was not given.

    No evidence is asked of a response that is empty; its ``texts`` are read only where some is missing.
    """
    marked = {(span["criterion"], span["level"]) for span in evidence}
    for criterion in criteria:
        for level in criterion.list_levels(labels.get(criterion.name)):
            unmarked = "evidence" in level.requires and (criterion.name, level.value) not in marked
            if unmarked and has_markable_text(texts()):
                raise Unprocessable(
                    N_(
                        'Level {level} of "{criterion}" needs evidence: mark the words of the response that decide it.'
                    ),
                    level=level.value,
                    criterion=criterion.name,
                    lacks="evidence",
                )
            if "rationale" in level.requires and not rationale.strip():
                raise Unprocessable(
                    N_('Level {level} of "{criterion}" needs a rationale: write why.'),
                    level=level.value,
                    criterion=criterion.name,
                    lacks="rationale",
                )


def cut_segments(text: str, spans: Sequence[Mapping[str, Any]]) -> list[Segment]:
    """The text cut where spans begin and end; joined, the segments are the text."""
    cuts = {0, len(text)}
    for span in spans:
        cuts |= {min(span["start"], len(text)), min(span["end"], len(text))}
    places = sorted(cuts)
    return [
        Segment(
            text[start:end],
            tuple(i for i, span in enumerate(spans) if span["start"] <= start and end <= span["end"]),
        )
        for start, end in pairwise(places)
    ]


def _check_span(
    span: Mapping[str, Any],
    texts: Sequence[str | None],
    criteria: Sequence[Criterion],
    labels: Mapping[str, Any],
) -> Span:
    turn, start, end = (_check_offset(span.get(name), name) for name in ("turn", "start", "end"))
    text = texts[turn] if turn < len(texts) else None
    if text is None:
        raise Unprocessable(N_("Evidence is marked in the response; turn {turn} is none."), turn=turn)
    if is_blank(text):
        raise Unprocessable(N_("The response is empty: no evidence can be marked in it."))
    if not start < end <= len(text):
        raise Unprocessable(
            N_("Evidence from {start} to {end} does not lie in the response, which has {length} characters."),
            start=start,
            end=end,
            length=len(text),
        )
    criterion = _get_criterion(span.get("criterion"), criteria)
    return Span(turn, start, end, criterion.name, _check_span_level(span.get("level"), criterion, labels))


def _check_span_level(level: object, criterion: Criterion, labels: Mapping[str, Any]) -> int | float | None:
    """The level that the span speaks for: the one it names, else the one that was chosen; None for a text."""
    if criterion.kind == "text":
        if level is not None:
            raise Unprocessable(
                N_('"{criterion}" is a text: its evidence has no level.'), criterion=criterion.name
            )
        return None
    value = labels.get(criterion.name) if level is None else level
    if criterion.several:
        return criterion.check_option(value)
    checked = criterion.check(value)
    if isinstance(checked, str):
        raise Unprocessable(
            N_('"{criterion}" is not applicable here: evidence speaks for a level.'), criterion=criterion.name
        )
    return checked


def _get_criterion(name: object, criteria: Sequence[Criterion]) -> Criterion:
    if name is None and len(criteria) == 1:
        return criteria[0]
    for criterion in criteria:
        if criterion.name == name:
            return criterion
    raise Unprocessable(
        N_("Evidence belongs to one of the criteria that are asked: {known}."),
        known=", ".join(criterion.name for criterion in criteria),
    )


def _check_offset(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Unprocessable(N_('A span of evidence needs "{name}" as a whole number from 0 on.'), name=name)
    return value


# Goes to the managers with the item, as a note on the clause.
GUIDELINE_UNCLEAR = "guideline_unclear"

FLAGS = {
    GUIDELINE_UNCLEAR: N_("The guideline does not settle this case"),
    "truncated": N_("The response is cut off or garbled"),
    "wrong_language": N_("The response is in the wrong language"),
    "distressing": N_("This was hard to read"),
    "unsure": N_("I am not sure of this label"),
}

# What was submitted under a name that is no longer offered is still shown in words.
RETIRED_FLAGS = {
    "unclear_guideline": FLAGS[GUIDELINE_UNCLEAR],
    "broken_response": FLAGS["truncated"],
    "upsetting": FLAGS["distressing"],
}


def flag_text(flag: str) -> str:
    """What a flag says, to be translated; an unknown one is its own name."""
    return FLAGS.get(flag) or RETIRED_FLAGS.get(flag, flag)


_BODY = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str)


@dataclass(frozen=True)
class Submission:
    """What a person submits. ``labels`` maps criterion to level value; ``seconds`` is the time spent; ``channel``
    is the way by which it came.
    """

    labels: Mapping[str, Any]
    rationale: str = ""
    evidence: Sequence[Mapping[str, Any]] = field(default_factory=list)
    flags: Sequence[str] = field(default_factory=list)
    seconds: float | None = None
    reason: str = ""
    channel: str = ""

    @property
    def sha256(self) -> str:
        """Two submissions with one key are the same exactly if this is equal; a retry may differ in the rest."""
        body = {
            "labels": self.labels,
            "rationale": self.rationale,
            "evidence": self.evidence,
            "flags": self.flags,
            "reason": self.reason,
        }
        return hashlib.sha256(_BODY.encode(body).encode()).hexdigest()
