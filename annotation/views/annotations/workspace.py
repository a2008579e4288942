"""What the annotation and the adjudication page show of a guideline, in the reader's language."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.translation import get_language, gettext
from django_htmx.http import HttpResponseClientRedirect

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.formatting import format_compact
from annotation.domain.annotations import FLAGS, flag_text
from annotation.domain.guidelines import NA, Criterion, find_language, localize
from annotation.domain.guidelines.values import strip_turn
from annotation.forms.annotations import SKIP_REASONS, WorkForm
from annotation.models import Assignment, Batch, Person
from annotation.selectors.adjudication import Dispute
from annotation.selectors.annotations.messages import count_unread_answers, list_clarifications
from annotation.selectors.annotations.own_work import SavedDraft
from annotation.selectors.assignments.items import WorkItem
from annotation.selectors.wellbeing import build_item_wellbeing
from annotation.views.annotations.highlights import MarkedTurn, describe_mark, mark_turns
from annotation.views.guidelines.introduction import localize_introduction
from annotation.views.guidelines.questions import Question, build_question, choose_answer, render_guide

# The lease is given out anew well before it ends, also when one request of the kind is lost.
EXTENSIONS_PER_LEASE = 3
MAX_EXTENSION_SECONDS = 240


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


def list_bare_guides(questions: Iterable[Question]) -> str:
    """The names of the criteria of whose answers the guideline defines none: beside them stand the rules for all."""
    return " ".join(dict.fromkeys(question.guide_name for question in questions if not question.has_levels))


def list_side_cards(dispute: Dispute) -> list[SideCard]:
    """What the annotators said of what is disputed, and their texts, which nobody disputes."""
    return [
        SideCard(
            letter=side.letter,
            labels=list_side_labels(dispute.item.criteria, side.labels, dispute.item.order.places),
            texts=list_side_labels(dispute.texts, side.texts),
            rationale=side.rationale,
            flags=tuple(flag_text(flag) for flag in side.flags),
        )
        for side in dispute.sides
    ]


def list_side_labels(
    criteria: Iterable[Criterion], answers: Mapping[str, Any], order: Sequence[int] = ()
) -> tuple[SideLabel, ...]:
    """``order``: of a slate the places of its entries as the reader sees them."""
    return tuple(
        build_side_label(criterion, criterion.show_in(order, answers[criterion.name]))
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
    questions = list_questions(item, item.criteria, answers)
    language = get_language() or "en"
    return {
        "batch": assignment.batch,
        "item": item,
        **turns_context(item, mark_turns(item, {})),
        "introduction": localize_introduction(item.document),
        "topic": describe_topic(item, language),
        "clarifications": describe_clarifications(item, assignment.batch),
        "unread_answers": lambda: count_unread_answers(reader).total(),
        "questions": questions,
        "rules_of": list_bare_guides(questions),
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


@dataclass(frozen=True)
class ShownEntry:
    """An entry of a slate with its number as it is shown."""

    position: int
    turns: tuple[MarkedTurn, ...]


def turns_context(item: WorkItem, turns: Sequence[MarkedTurn]) -> dict[str, Any]:
    """The ``turns`` that stand one below another, and the ``entries`` of a slate, which stand side by side.
    ``has_markdown``: those of an entry without a line of its own can be read as their source, too.
    """
    by_place = {turn.place: turn for turn in turns}
    return {
        "turns": [turn for turn in turns if turn.place is None] if item.entries else turns,
        "entries": [
            ShownEntry(position, tuple(by_place[place] for place in places))
            for position, (_place, places) in enumerate(item.entries, start=1)
        ],
        "has_markdown": any(
            by_place[places[0]].text.markdown for _place, places in item.entries if len(places) == 1
        ),
    }


def describe_clarifications(item: WorkItem, batch: Batch) -> list[dict[str, str]]:
    """What managers answered for everybody who works by the guideline, each by its clause."""
    if not item.is_clarified:
        return []
    return [
        {
            "clause": describe_mark({"criterion": each.criterion, "level": each.level}, item)
            if each.criterion
            else "",
            "text": each.text,
        }
        for each in list_clarifications(batch)
    ]


def describe_topic(item: WorkItem, language: str) -> list[dict[str, str]]:
    """What the item is about, in the reader's language, as far as the guideline has it."""
    return [
        {
            "label": localize(part.label, language),
            "definition": localize(part.definition, language),
            "lang": find_language(part.definition, language),
        }
        for part in item.topic
    ]


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


# A published guideline never changes: its questions are put into words once for each language and order of a slate.
_QUESTIONS: dict[tuple[str, str, str, str, str], Question] = {}


def find_question(criterion: Criterion, item: WorkItem) -> Question:
    """The criterion with nothing chosen."""
    language = get_language() or "en"
    subcomponent = item.subcomponent if criterion.has_subcomponent_texts else ""
    order = "".join(map(str, item.order.places))
    key = (item.guideline, criterion.name, subcomponent, language, order)
    if key not in _QUESTIONS:
        declared = item.document.criterion(strip_turn(criterion.name))
        guide = render_guide(declared.at_subcomponent(subcomponent), language, len(item.entries))
        _QUESTIONS[key] = build_question(criterion, language, guide, item.order.places)
    return _QUESTIONS[key]


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
