"""What the annotation and the adjudication page show of a guideline, in the reader's language."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
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
from annotation.domain.guidelines.values import as_number, strip_turn
from annotation.forms.annotations import LABEL, SKIP_REASONS, TEXT, WorkForm
from annotation.models import Assignment, Batch, Person
from annotation.selectors.adjudication import Dispute
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
    ``NA`` where the criterion is not applicable, and empty where it is left unanswered. The number of an ``is_option``
    says nothing.
    """

    key: str
    value: str
    name: str
    definition: str
    requires: tuple[str, ...]
    is_chosen: bool
    is_option: bool = False

    @property
    def is_level(self) -> bool:
        return self.value not in ("", NA)

    @property
    def words(self) -> str:
        return f"{self.value} {self.name}" if self.is_level and not self.is_option else self.name


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
    """A criterion as it is asked; ``typed`` is the number at hand where the scale is too long for cards, or the text.

    ``guide`` is the guideline's part on it, as HTML, under the name ``guide_name``, which the questions about each turn
    share. ``condition`` says beside what answer it is asked; None: always. ``turn`` is the place of the turn that it is
    about, None: the whole. ``text_limit`` is the most characters of a text; None: what is asked for is no text.
    """

    name: str
    guide_name: str
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
    turn: int | None
    several: bool
    has_options: bool
    text_limit: int | None

    @property
    def answer(self) -> str:
        """The answer in words; empty while there is none."""
        words = [card.words for card in self.cards if card.is_chosen and card.value]
        return ", ".join(words) or (gettext("Not applicable") if self.is_na else self.typed)


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
    texts: tuple[SideLabel, ...]
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
    item: WorkItem, criteria: Iterable[Criterion], answers: Mapping[str, Any]
) -> list[Question]:
    """The criteria of the item's guideline in the reader's language, with the ``answers`` at hand chosen."""
    open_questions = [find_question(criterion, item) for criterion in criteria]
    return [
        choose_answer(question, answers[question.name]) if question.name in answers else question
        for question in open_questions
    ]


def level_keys(values: Sequence[int | float]) -> Sequence[str]:
    """The digit of each level: its value, and 0 for 10. Where that leaves a level without a digit of its own, all are
    counted from 1, so that a scale never mixes the two.
    """
    digits = {value: DIGITS[(int(value) - 1) % MAX_KEYS] for value in values if value in range(MAX_KEYS + 1)}
    own = [digits.get(value, "") for value in values]
    return own if all(own) and len(set(own)) == len(own) else DIGITS[: len(values)]


def list_side_cards(dispute: Dispute) -> list[SideCard]:
    """What the annotators said of what is disputed, and their texts, which nobody disputes."""
    return [
        SideCard(
            letter=side.letter,
            labels=list_side_labels(dispute.item.criteria, side.labels),
            texts=list_side_labels(dispute.texts, side.texts),
            rationale=side.rationale,
            flags=tuple(flag_text(flag) for flag in side.flags),
        )
        for side in dispute.sides
    ]


def list_side_labels(criteria: Iterable[Criterion], answers: Mapping[str, Any]) -> tuple[SideLabel, ...]:
    return tuple(
        build_side_label(criterion, answers[criterion.name])
        for criterion in criteria
        if criterion.name in answers
    )


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
    answers = form.answers() if form else saved.labels if saved else {}
    language = get_language() or "en"
    return {
        "batch": assignment.batch,
        "item": item,
        "turns": mark_turns(item, {}),
        "introduction": localize_introduction(item.document),
        "topic": [localize(label, language) for label in item.topic],
        "questions": list_questions(item, item.criteria, answers),
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


def find_question(criterion: Criterion, item: WorkItem) -> Question:
    """The criterion with nothing chosen."""
    language = get_language() or "en"
    key = (item.guideline, criterion.name, language)
    if key not in _QUESTIONS:
        guide = render_guide(item.document.criterion(strip_turn(criterion.name)), language)
        _QUESTIONS[key] = build_question(criterion, language, guide)
    return _QUESTIONS[key]


def render_guide(criterion: Criterion, language: str) -> SafeString:
    """What the guideline says of the criterion, beside the work."""
    context = {
        "language": language,
        "name": criterion.name,
        "label": localize(criterion.label, language),
        "question": localize(criterion.question, language),
        "lang": find_language(criterion.question, language),
        "levels": [build_guide_level(level, language) for level in criterion.scale],
        "has_options": criterion.kind == "choice",
    }
    return render_to_string("annotation/annotations/_criterion.html", context)


def build_question(criterion: Criterion, language: str, guide: SafeString) -> Question:
    is_text = criterion.kind == "text"
    has_cards = not is_text and (criterion.several or len(criterion.values) <= MAX_KEYS)
    return Question(
        name=criterion.name,
        guide_name=strip_turn(criterion.name),
        field=(TEXT if is_text else LABEL) + criterion.name,
        lang=find_language(criterion.question, language),
        label=localize(criterion.label, language),
        question=localize(criterion.question, language),
        cards=(*list_level_cards(criterion, language), *list_other_cards(criterion)) if has_cards else (),
        lowest="" if is_text else str(criterion.values[0]),
        highest="" if is_text else str(criterion.values[-1]),
        typed="",
        guide=guide,
        allows_na=criterion.na,
        is_na=False,
        optional=criterion.optional,
        condition=criterion.asked_if,
        turn=criterion.turn,
        several=criterion.several,
        has_options=criterion.kind == "choice",
        text_limit=criterion.text_limit,
    )


def choose_answer(question: Question, answer: Any) -> Question:
    """The question with this answer chosen, whatever it is."""
    is_na = answer == NA and question.text_limit is None
    values = list_chosen_values(question, answer)
    cards = tuple(replace(card, is_chosen=card.value in values) for card in question.cards)
    return replace(question, cards=cards, typed="" if is_na else str(answer), is_na=is_na)


def list_chosen_values(question: Question, answer: Any) -> set[str]:
    """The values of the cards that an answer stands for: a level, all options of a set or of their sum, or ``NA``."""
    if question.several and isinstance(answer, int):
        return {card.value for card in question.cards if card.is_level and int(card.value) & answer}
    parts = answer if isinstance(answer, list) else [answer]
    numbers = [as_number(part) for part in parts]
    return {str(part if number is None else number) for part, number in zip(parts, numbers, strict=True)}


def list_level_cards(criterion: Criterion, language: str) -> Iterable[LevelCard]:
    keys = DIGITS if criterion.several else level_keys(criterion.values)
    for value, key in zip_longest(criterion.values, keys[: len(criterion.values)], fillvalue=""):
        level = criterion.level(value)
        yield LevelCard(
            key=key,
            value=str(value),
            name=localize(level.name, language) if level else "",
            definition=localize(level.definition, language) if level else "",
            requires=level.requires if level else (),
            is_chosen=False,
            is_option=criterion.kind == "choice",
        )


def list_other_cards(criterion: Criterion) -> Iterable[LevelCard]:
    """What else may be answered; nothing, as long as nobody chose anything. An empty set of options is no answer, so
    that it needs no card.
    """
    if criterion.na:
        yield LevelCard(NA_KEY, NA, gettext("Not applicable"), "", (), is_chosen=False)
    if criterion.optional and not criterion.several:
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


def build_side_label(criterion: Criterion, answer: Any) -> SideLabel:
    language = get_language() or "en"
    label = localize(criterion.label, language)
    if criterion.kind == "text":
        return SideLabel(criterion=label, value="", name=answer)
    if answer == NA:
        return SideLabel(criterion=label, value="", name=gettext("Not applicable"))
    names = [localize(level.name, language) for level in criterion.list_levels(answer)]
    value = "" if criterion.kind == "choice" and names else format_compact(answer)
    return SideLabel(criterion=label, value=value, name=", ".join(names))
