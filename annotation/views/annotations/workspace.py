"""What the annotation and the adjudication page show of a guideline, in the reader's language."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django_htmx.http import HttpResponseClientRedirect

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.formatting import format_compact
from annotation.domain.annotations import FLAGS, words_of
from annotation.domain.guidelines import Criterion, Level, language_of, localized
from annotation.forms.annotations import LABEL, SKIP_REASONS, WorkForm
from annotation.models import Assignment, Batch, Person
from annotation.selectors.adjudication import Side
from annotation.selectors.annotations.own_work import Saved
from annotation.selectors.assignments.items import Handout
from annotation.selectors.wellbeing import care_for
from annotation.views.annotations.highlights import marked_turns
from annotation.views.guidelines.introduction import introduction_of

# The keys 1 to 9 and 0: a longer scale is typed as a number.
DIGITS = "1234567890"
MOST_KEYS = len(DIGITS)
# The lease is given out anew well before it ends, also when one request of the kind is lost.
EXTENSIONS_IN_A_LEASE = 3
SLOWEST_EXTENSION = 240


@dataclass(frozen=True)
class LevelCard:
    """One level to choose. ``key`` is the digit that chooses it: of ``level_keys``."""

    key: str
    value: str
    name: str
    definition: str
    requires: tuple[str, ...]
    chosen: bool


@dataclass(frozen=True)
class ExampleText:
    prompt: str
    response: str
    note: str


@dataclass(frozen=True)
class GuideLevel:
    value: str
    name: str
    definition: str
    requires: tuple[str, ...]
    reason: str
    examples: tuple[ExampleText, ...]


@dataclass(frozen=True)
class Question:
    """A criterion as it is asked; ``typed`` is the number at hand where the scale is too long for cards.

    ``guide`` is the guideline's part on it, as HTML.
    """

    name: str
    field: str
    lang: str
    label: str
    question: str
    cards: tuple[LevelCard, ...]
    lowest: str
    highest: str
    typed: str
    guide: SafeString


@dataclass(frozen=True)
class Refusal:
    """Why what was sent came back. Where it is about one criterion: which, and what that ``lacks`` beside its level."""

    text: str
    criterion: str = ""
    lacks: str = ""


@dataclass(frozen=True)
class SideLabel:
    criterion: str
    value: str
    name: str


@dataclass(frozen=True)
class SideCard:
    letter: str
    labels: tuple[SideLabel, ...]
    rationale: str
    flags: tuple[str, ...]


def show(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """As ``render``; what goes into a page that is there already does without what only a whole page shows."""
    if not getattr(request, "htmx", False):
        return render(request, template, dict(context), status=status)
    shared = {
        "request": request,
        "csrf_token": get_token(request),
        "messages": messages.get_messages(request),
    }
    return HttpResponse(render_to_string(template, {**context, **shared}), status=status)


def questions(criteria: Iterable[Criterion], labels: Mapping[str, Any], guideline: str) -> list[Question]:
    """The criteria of the guideline (its sha256) in the reader's language, with the ``labels`` at hand chosen."""
    asked = [_question(criterion, guideline) for criterion in criteria]
    return [_chosen(one, labels[one.name]) if one.name in labels else one for one in asked]


def level_keys(values: Sequence[int | float]) -> Sequence[str]:
    """The digit of each level: its value, and 0 for 10. Where that leaves a level without a digit of its own, all are
    counted from 1, so that a scale never mixes the two.
    """
    digits = {
        value: DIGITS[(int(value) - 1) % MOST_KEYS] for value in values if value in range(MOST_KEYS + 1)
    }
    own = [digits.get(value, "") for value in values]
    return own if all(own) and len(set(own)) == len(own) else DIGITS[: len(values)]


def side_cards(sides: Iterable[Side], criteria: Iterable[Criterion]) -> list[SideCard]:
    asked = list(criteria)
    return [
        SideCard(
            letter=side.letter,
            labels=tuple(_side_label(criterion, side.labels[criterion.name]) for criterion in asked),
            rationale=side.rationale,
            flags=tuple(words_of(flag) for flag in side.flags),
        )
        for side in sides
    ]


def typed(form: WorkForm) -> dict[str, Any]:
    """What the person had filled in, for a page that comes back to be mended."""
    fields = ("rationale", "reason", "flags", "evidence")
    values = {name: form[name].value() for name in fields}
    return {**values, "evidence": ""} if "evidence" in form.errors else values


def restored(saved: Saved) -> dict[str, Any]:
    """What was saved on the way, as ``typed`` has it."""
    return {
        "rationale": saved.rationale,
        "flags": saved.flags,
        "evidence": json.dumps(list(saved.evidence), ensure_ascii=False),
    }


def refusal_of(error: AssayError) -> Refusal:
    """What the page says of the error, and where on the page it is mended."""
    criterion, lacks = (str(error.params.get(name, "")) for name in ("criterion", "lacks"))
    return Refusal(error_text(error), criterion, lacks)


def item_context(
    assignment: Assignment,
    item: Handout,
    *,
    reader: Person,
    form: WorkForm | None,
    error: Refusal | None,
    skip_error: str,
    saved: Saved | None = None,
) -> dict[str, Any]:
    """What the annotation and the adjudication page share; a refused ``form`` keeps its values and its key.

    Else what was ``saved`` of the item is filled in.
    """
    labels = form.labels() if form else saved.labels if saved else {}
    language = get_language() or "en"
    return {
        "batch": assignment.batch,
        "item": item,
        "turns": marked_turns(item, {}),
        "introduction": introduction_of(item.document),
        "topic": [localized(label, language) for label in item.topic],
        "questions": questions(item.criteria, labels, item.guideline),
        "values": typed(form) if form else restored(saved) if saved else {},
        "saved": saved,
        "key": (form and form.data.get("key")) or uuid4(),
        "draft": f"{item.assignment}:0",
        "error": error,
        "skip_error": skip_error,
        "asked": " ".join(criterion.name for criterion in item.criteria),
        "language": language,
        "care": care_for(reader, item.severity),
        **choices(assignment.batch),
    }


def choices(batch: Batch) -> dict[str, Any]:
    """What every item page offers beside the decision."""
    every = min(SLOWEST_EXTENSION, max(1, batch.lease_seconds // EXTENSIONS_IN_A_LEASE))
    return {
        "flags": FLAGS.items(),
        "skip_reasons": SKIP_REASONS,
        "extend_every": every,
        "lease": batch.lease_seconds,
    }


def go(
    request: HttpRequest, to: str, *arguments: Any, level: int = messages.INFO, say: str = ""
) -> HttpResponse:
    """Leave the page, with a word for the next one; for htmx the whole page changes too."""
    if say:
        messages.add_message(request, level, say)
    answer = redirect(to, *arguments)
    return HttpResponseClientRedirect(answer.url) if getattr(request, "htmx", False) else answer


# A published guideline never changes: its questions are put into words once for each language.
_QUESTIONS: dict[tuple[str, str, str], Question] = {}


def _question(criterion: Criterion, guideline: str) -> Question:
    """The criterion with nothing chosen."""
    language = get_language() or "en"
    key = (guideline, criterion.name, language)
    if key not in _QUESTIONS:
        _QUESTIONS[key] = _in_words(criterion, language)
    return _QUESTIONS[key]


def _in_words(criterion: Criterion, language: str) -> Question:
    keyed = len(criterion.values) <= MOST_KEYS
    label, question = localized(criterion.label, language), localized(criterion.question, language)
    lang = language_of(criterion.question, language)
    guide = {
        "language": language,
        "name": criterion.name,
        "label": label,
        "question": question,
        "lang": lang,
        "levels": [_guide_level(level, language) for level in criterion.scale],
    }
    return Question(
        name=criterion.name,
        field=LABEL + criterion.name,
        lang=lang,
        label=label,
        question=question,
        cards=tuple(_cards(criterion, language)) if keyed else (),
        lowest=str(criterion.values[0]),
        highest=str(criterion.values[-1]),
        typed="",
        guide=render_to_string("annotation/annotations/_criterion.html", guide),
    )


def _chosen(question: Question, given: Any) -> Question:
    """The question with the value ``given`` chosen, whatever it is."""
    cards = tuple(replace(card, chosen=float(card.value) == given) for card in question.cards)
    return replace(question, cards=cards, typed=str(given))


def _cards(criterion: Criterion, language: str) -> Iterable[LevelCard]:
    for value, key in zip(criterion.values, level_keys(criterion.values), strict=True):
        level = criterion.level(value)
        yield LevelCard(
            key=key,
            value=str(value),
            name=localized(level.name, language) if level else "",
            definition=localized(level.definition, language) if level else "",
            requires=level.requires if level else (),
            chosen=False,
        )


def _guide_level(level: Level, language: str) -> GuideLevel:
    return GuideLevel(
        value=str(level.value),
        name=localized(level.name, language),
        definition=localized(level.definition, language),
        requires=level.requires,
        reason=localized(level.reason, language) if level.reason else "",
        examples=tuple(
            ExampleText(
                prompt=localized(example.prompt, language),
                response=localized(example.response, language),
                note=localized(example.note, language) if example.note else "",
            )
            for example in level.examples
        ),
    )


def _side_label(criterion: Criterion, value: Any) -> SideLabel:
    language = get_language() or "en"
    level = criterion.level(value)
    return SideLabel(
        criterion=localized(criterion.label, language),
        value=format_compact(value),
        name=localized(level.name, language) if level else "",
    )
