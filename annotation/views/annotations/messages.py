"""Questions of whoever works on an item, and the answers to them."""

from __future__ import annotations

from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.domain.permissions import ASK_ABOUT_ITEMS
from annotation.selectors.annotations.messages import build_threads, list_own_threads, read_thread
from annotation.selectors.assignments.items import get_own_assignment
from annotation.services.annotations.messages import MAX_MESSAGE_LENGTH, ask_about_item, mark_read
from annotation.views.access import act_required, person_of
from annotation.views.guidelines.notes import describe_messages

PAGE = 20


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(ASK_ABOUT_ITEMS)
def thread(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    """The messages about one's own item, for the dialog beside it; POST adds a question."""
    person = person_of(request)
    assignment = get_own_assignment(assignment_id, person)
    context = {"assignment": assignment, "most": MAX_MESSAGE_LENGTH}
    if request.method == "POST":
        text = request.POST.get("text", "")
        try:
            ask_about_item(assignment=assignment, author=person, text=text)
        except AssayError as error:
            context |= {"error": error_text(error), "text": text}
    context["messages"] = describe_messages(assignment, read_thread(assignment))
    mark_read(assignments=[assignment], answers=True)
    status = 422 if "error" in context else 200
    return render(request, "annotation/annotations/_thread.html", context, status=status)


@require_GET
@never_cache
@act_required(ASK_ABOUT_ITEMS)
def own_messages(request: HttpRequest) -> HttpResponse:
    """All that the person asked, with the answers, which count as read from then on."""
    page = Paginator(list_own_threads(person_of(request)), PAGE).get_page(request.GET.get("page"))
    threads = build_threads(list(page.object_list))
    mark_read(assignments=[each.assignment for each in threads], answers=True)
    rows = [(each, describe_messages(each.assignment, each.messages)) for each in threads]
    context = {"tab": "messages", "page": page, "rows": rows}
    return render(request, "annotation/annotations/messages.html", context)
