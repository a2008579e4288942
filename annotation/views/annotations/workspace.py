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
from django.utils.translation import get_language, gettext
from django_htmx.http import HttpResponseClientRedirect

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.formatting import format_compact
from annotation.domain.annotations import FLAGS, flag_text
from annotation.domain.guidelines import NA, AskedIf, Criterion, Level, find_language, localize
from annotation.forms.annotations import LABEL, SKIP_REASONS, WorkForm
from annotation.models import Assignment, Batch, Person
from annotation.selectors.adjudication import Side
from annotation.selectors.annotations.own_work import SavedDraft
from annotation.selectors.assignments.items import WorkItem
from annotation.selectors.wellbeing import build_item_wellbeing
from annotation.views.annotations.highlights import mark_turns
from annotation.views.guidelines.introduction import localize_introduction

# The keys 1 to 9 and 0: a longer scale is typed as a number.
DIGITS = "1234567890"
MAX_KEYS = len(DIGITS)
# What is no level has keys of its own.
NA_KEY, UNANSWERED_KEY = "-", "."
# The lease is given out anew well before it ends, also when one request of the kind is lost.
EXTENSIONS_PER_LEASE = 3
MAX_EXTENSION_SECONDS = 240


@dataclass(frozen=True)
class LevelCard:
    """One answer to choose. ``key`` chooses it: a digit of ``level_keys``, or that of what is no level: ``value`` is
    ``NA`` where the criterion is not applicable, and empty where it is left unanswered.
    """

    key: str
    value: str
    name: str
    definition: str
    requires: tuple[str, ...]
    is_chosen: bool

    @property
    def is_level(self) -> bool:
        return self.value not in ("", NA)

    @property
    def words(self) -> str:
        return f"{self.value} {self.name}" if self.is_level else self.name


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

    ``guide`` is the guideline's part on it, as HTML. ``condition`` says beside what answer it is asked; None: always.
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
    allows_na: bool
    is_na: bool
    optional: bool
    condition: AskedIf | None


@dataclass(frozen=True)
class WorkRefusal:
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


def render_page(
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


def list_questions(
    criteria: Iterable[Criterion], labels: Mapping[str, Any], guideline: str
) -> list[Question]:
    """The criteria of the guideline (its sha256) in the reader's language, with the ``labels`` at hand chosen."""
    open_questions = [find_question(criterion, guideline) for criterion in criteria]
    return [
        choose_answer(question, labels[question.name]) if question.name in labels else question
        for question in open_questions
    ]


def level_keys(values: Sequence[int | float]) -> Sequence[str]:
    """The digit of each level: its value, and 0 for 10. Where that leaves a level without a digit of its own, all are
    counted from 1, so that a scale never mixes the two.
    """
    digits = {value: DIGITS[(int(value) - 1) % MAX_KEYS] for value in values if value in range(MAX_KEYS + 1)}
    own = [digits.get(value, "") for value in values]
    return own if all(own) and len(set(own)) == len(own) else DIGITS[: len(values)]


def list_side_cards(sides: Iterable[Side], criteria: Iterable[Criterion]) -> list[SideCard]:
    criterion_list = list(criteria)
    return [
        SideCard(
            letter=side.letter,
            labels=tuple(
                build_side_label(criterion, side.labels[criterion.name])
                for criterion in criterion_list
                if criterion.name in side.labels
            ),
            rationale=side.rationale,
            flags=tuple(flag_text(flag) for flag in side.flags),
        )
        for side in sides
    ]


def list_typed_values(form: WorkForm) -> dict[str, Any]:
    """What the person had filled in, for a page that comes back to be mended."""
    fields = ("rationale", "reason", "flags", "evidence")
    values = {name: form[name].value() for name in fields}
    return {**values, "evidence": ""} if "evidence" in form.errors else values


def list_saved_values(saved: SavedDraft) -> dict[str, Any]:
    """What was saved on the way, as ``typed`` has it."""
    return {
        "rationale": saved.rationale,
        "flags": saved.flags,
        "evidence": json.dumps(list(saved.evidence), ensure_ascii=False),
    }


def describe_refusal(error: AssayError) -> WorkRefusal:
    """What the page says of the error, and where on the page it is mended."""
    criterion, lacks = (str(error.params.get(name, "")) for name in ("criterion", "lacks"))
    return WorkRefusal(error_text(error), criterion, lacks)


def item_context(
    assignment: Assignment,
    item: WorkItem,
    *,
    reader: Person,
    form: WorkForm | None,
    error: WorkRefusal | None,
    skip_error: str,
    saved: SavedDraft | None = None,
) -> dict[str, Any]:
    """What the annotation and the adjudication page share; a refused ``form`` keeps its values and its key.

    Else what was ``saved`` of the item is filled in.
    """
    labels = form.labels() if form else saved.labels if saved else {}
    language = get_language() or "en"
    return {
        "batch": assignment.batch,
        "item": item,
        "turns": mark_turns(item, {}),
        "introduction": localize_introduction(item.document),
        "topic": [localize(label, language) for label in item.topic],
        "questions": list_questions(item.criteria, labels, item.guideline),
        "values": list_typed_values(form) if form else list_saved_values(saved) if saved else {},
        "saved": saved,
        "key": (form and form.data.get("key")) or uuid4(),
        "draft": f"{item.assignment}:0",
        "error": error,
        "skip_error": skip_error,
        "criterion_names": " ".join(criterion.name for criterion in item.criteria),
        "language": language,
        "care": build_item_wellbeing(reader, item.severity),
        **item_choices(assignment.batch),
    }


def item_choices(batch: Batch) -> dict[str, Any]:
    """What every item page offers beside the decision."""
    every = min(MAX_EXTENSION_SECONDS, max(1, batch.lease_seconds // EXTENSIONS_PER_LEASE))
    return {
        "flags": FLAGS.items(),
        "skip_reasons": SKIP_REASONS,
        "extend_every": every,
        "lease": batch.lease_seconds,
    }


def leave_page(
    request: HttpRequest, to: str, *arguments: Any, level: int = messages.INFO, say: str = ""
) -> HttpResponse:
    """Leave the page, with a word for the next one; for htmx the whole page changes too."""
    if say:
        messages.add_message(request, level, say)
    answer = redirect(to, *arguments)
    return HttpResponseClientRedirect(answer.url) if getattr(request, "htmx", False) else answer


# A published guideline never changes: its questions are put into words once for each language.
_QUESTIONS: dict[tuple[str, str, str], Question] = {}


def find_question(criterion: Criterion, guideline: str) -> Question:
    """The criterion with nothing chosen."""
    language = get_language() or "en"
    key = (guideline, criterion.name, language)
    if key not in _QUESTIONS:
        _QUESTIONS[key] = build_question(criterion, language)
    return _QUESTIONS[key]


def build_question(criterion: Criterion, language: str) -> Question:
    keyed = len(criterion.values) <= MAX_KEYS
    label, question = localize(criterion.label, language), localize(criterion.question, language)
    lang = find_language(criterion.question, language)
    guide = {
        "language": language,
        "name": criterion.name,
        "label": label,
        "question": question,
        "lang": lang,
        "levels": [build_guide_level(level, language) for level in criterion.scale],
    }
    return Question(
        name=criterion.name,
        field=LABEL + criterion.name,
        lang=lang,
        label=label,
        question=question,
        cards=(*list_level_cards(criterion, language), *list_other_cards(criterion)) if keyed else (),
        lowest=str(criterion.values[0]),
        highest=str(criterion.values[-1]),
        typed="",
        guide=render_to_string("annotation/annotations/_criterion.html", guide),
        allows_na=criterion.na,
        is_na=False,
        optional=criterion.optional,
        condition=criterion.asked_if,
    )


def choose_answer(question: Question, value: Any) -> Question:
    """The question with this answer chosen, whatever it is."""
    is_na = value == NA
    cards = tuple(
        replace(card, is_chosen=float(card.value) == value if card.is_level else is_na and card.value == NA)
        for card in question.cards
    )
    return replace(question, cards=cards, typed="" if is_na else str(value), is_na=is_na)


def list_level_cards(criterion: Criterion, language: str) -> Iterable[LevelCard]:
    for value, key in zip(criterion.values, level_keys(criterion.values), strict=True):
        level = criterion.level(value)
        yield LevelCard(
            key=key,
            value=str(value),
            name=localize(level.name, language) if level else "",
            definition=localize(level.definition, language) if level else "",
            requires=level.requires if level else (),
            is_chosen=False,
        )


def list_other_cards(criterion: Criterion) -> Iterable[LevelCard]:
    """What else may be answered; nothing, as long as nobody chose anything."""
    if criterion.na:
        yield LevelCard(NA_KEY, NA, gettext("Not applicable"), "", (), is_chosen=False)
    if criterion.optional:
        yield LevelCard(UNANSWERED_KEY, "", gettext("No answer"), "", (), is_chosen=True)


def build_guide_level(level: Level, language: str) -> GuideLevel:
    return GuideLevel(
        value=str(level.value),
        name=localize(level.name, language),
        definition=localize(level.definition, language),
        requires=level.requires,
        reason=localize(level.reason, language) if level.reason else "",
        examples=tuple(
            ExampleText(
                prompt=localize(example.prompt, language),
                response=localize(example.response, language),
                note=localize(example.note, language) if example.note else "",
            )
            for example in level.examples
        ),
    )


def build_side_label(criterion: Criterion, value: Any) -> SideLabel:
    language = get_language() or "en"
    label = localize(criterion.label, language)
    if value == NA:
        return SideLabel(criterion=label, value="", name=gettext("Not applicable"))
    level = criterion.level(value)
    return SideLabel(
        criterion=label,
        value=format_compact(value),
        name=localize(level.name, language) if level else "",
    )
