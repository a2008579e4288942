"""What people asked about the items of a batch, for its managers to answer, without the names of who asked."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.domain.permissions import ANSWER_QUESTIONS
from annotation.forms.messages import AnswerForm
from annotation.models import Batch, Person
from annotation.selectors.access import refuse_sealed_gold
from annotation.selectors.annotations.messages import (
    build_threads,
    get_batch_assignment,
    list_clarifications,
    list_threads,
)
from annotation.selectors.batches import get_batch
from annotation.services.annotations.messages import answer_about_item, mark_read
from annotation.views.access import act_required, person_of
from annotation.views.batches.batches import batch_context
from annotation.views.guidelines.notes import describe_clause, describe_messages

PAGE = 20


@require_GET
@act_required(ANSWER_QUESTIONS)
def batch_messages(request: HttpRequest, name: str) -> HttpResponse:
    """They show responses, and what people think of them."""
    batch = open_batch(name, person_of(request))
    page = Paginator(list_threads(batch), PAGE).get_page(request.GET.get("page"))
    threads = build_threads(list(page.object_list))
    mark_read(assignments=[thread.assignment for thread in threads], answers=False)
    context = batch_context(batch, person_of(request), tab="messages") | {
        "page": page,
        "rows": [
            {
                "thread": thread,
                "messages": describe_messages(thread.assignment, thread.messages),
                "form": build_form(batch, prefix=str(thread.assignment.pk)),
            }
            for thread in threads
        ],
        "clarifications": [
            (describe_clause(batch.guideline, clarification), clarification)
            for clarification in list_clarifications(batch)
        ],
    }
    return render(request, "annotation/batches/messages.html", context)


@require_POST
@act_required(ANSWER_QUESTIONS)
def batch_answer(request: HttpRequest, name: str, assignment_id: UUID) -> HttpResponse:
    batch = open_batch(name, person_of(request))
    assignment = get_batch_assignment(batch, assignment_id)
    form = build_form(batch, request.POST, prefix=str(assignment_id))
    if not form.is_valid():
        messages.error(request, str(next(iter(form.errors.values()))[0]))
        return redirect("batch-messages", name)
    criterion, level = form.place()
    try:
        answer_about_item(
            assignment=assignment,
            author=person_of(request),
            text=form.cleaned_data["text"],
            criterion=criterion,
            level=level,
            for_everybody=form.cleaned_data["for_everybody"],
        )
    except AssayError as error:
        messages.error(request, error_text(error))
    else:
        messages.success(request, _("The answer is sent."))
    return redirect("batch-messages", name)


def open_batch(name: str, person: Person) -> Batch:
    batch = get_batch(name)
    refuse_sealed_gold(person, [batch])
    return batch


def build_form(batch: Batch, data: object = None, *, prefix: str) -> AnswerForm:
    document, language = batch.guideline.document, get_language() or "en"
    return AnswerForm(data, document=document, language=language, prefix=prefix)
