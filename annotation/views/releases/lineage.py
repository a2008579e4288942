"""The page of one task: the response, what everybody said of it, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import get_language, gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.domain.annotations import flag_text
from annotation.domain.guidelines import GuidelineDocument, localize
from annotation.domain.permissions import READ_TASKS
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Annotation, Response
from annotation.selectors.guidelines import criterion_label, label_text, list_answer_words
from annotation.selectors.origins import find_origin
from annotation.selectors.releases.lineage import TaskHistory, get_task_history
from annotation.services.audit import record_view
from annotation.views.access import act_required, person_of


@require_GET
@never_cache
@act_required(READ_TASKS)
def task(request: HttpRequest, pk: int) -> HttpResponse:
    person = person_of(request)
    history = get_task_history(person, pk)
    record_view(actor=person, verb=AnnotationVerb.VIEW_LABELS, target=f"task:{pk}")
    response = history.task.response
    document = history.task.batch.guideline.document
    counting = {
        annotation.assignment_id: annotation.revision
        for annotation in history.annotations
        if annotation.current
    }
    context = {
        "task": history.task,
        "response": response,
        "turns": turns_of(response),
        "annotations": [annotation_row(history, annotation, counting) for annotation in history.annotations],
        **decision_context(history),
        "corrections": [
            (correction, list_answer_words(document, correction.labels)) for correction in history.corrections
        ],
        "gold": [
            {
                "criterion": criterion_label(document, gold_label.criterion),
                "label": label_text(document, gold_label.criterion, gold_label.value),
                "gold_label": gold_label,
            }
            for gold_label in history.gold
        ],
        "released": history.released,
        "events": [(event, describe_event(document, event.data)) for event in history.events],
    }
    return render(request, "annotation/releases/task.html", context)


def turns_of(response: Response) -> list[dict[str, str]]:
    return response.turns or [{"role": "assistant", "text": response.text}]


def annotation_row(
    history: TaskHistory, annotation: Annotation, counting: Mapping[UUID, int]
) -> dict[str, Any]:
    """``counting``: the revision that counts, by assignment."""
    document = history.task.batch.guideline.document
    return {
        "annotation": annotation,
        "too_late": annotation.revision > counting[annotation.assignment_id],
        "person": annotation.assignment.person,
        "labels": list_answer_words(document, annotation.answers),
        "flags": [gettext(flag_text(flag)) for flag in annotation.flags],
        "quotes": [quote_span(history.task.response, span) for span in annotation.evidence],
        "origin": find_origin(annotation),
    }


def decision_context(history: TaskHistory) -> dict[str, Any]:
    """With why the annotators differed, and what the adjudicator thought before they saw the labels."""
    decision = history.adjudication
    if decision is None:
        return {}
    document = history.task.batch.guideline.document
    verdict = getattr(decision.assignment, "verdict", None)  # none where it was decided elsewhere
    return {
        "adjudication": decision,
        "decision": list_answer_words(document, decision.labels),
        "decision_origin": find_origin(decision),
        "reason": localize(decision.reason.words, get_language() or "en") if decision.reason else "",
        "verdict": verdict,
        "verdict_labels": list_answer_words(document, verdict.labels) if verdict else [],
    }


def quote_span(response: Response, span: Mapping[str, int]) -> str:
    """The marked words; empty where the span lies outside of its turn."""
    turns = turns_of(response)
    text = turns[span["turn"]]["text"] if span["turn"] < len(turns) else ""
    return text[span["start"] : span["end"]]


def describe_event(document: GuidelineDocument, data: Mapping[str, Any]) -> dict[str, Any]:
    """What the audit trail holds of an act, with its labels in words."""
    labels = data.get("labels")
    if not isinstance(labels, Mapping):
        return dict(data)
    words = "; ".join(f"{criterion} {label}" for criterion, label in list_answer_words(document, labels))
    return {**data, "labels": words}
