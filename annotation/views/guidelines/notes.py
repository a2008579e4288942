"""The notes on a version of a guideline: the list, a manager's own note, and resolving a note."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from annotation.core.http import breadcrumbs
from annotation.domain.permissions import WRITE_GUIDELINES
from annotation.forms.guidelines import NoteFilterForm, NoteForm, format_clause
from annotation.models import Assignment, Guideline, GuidelineNote, ItemMessage
from annotation.selectors.guidelines import (
    criterion_label,
    get_guideline_version,
    get_note,
    label_text,
    list_notes,
    record_note_openings,
)
from annotation.services.guidelines import leave_own_note, resolve_note
from annotation.views.access import act_required, person_of

PAGE = 50


@require_http_methods(["GET", "POST"])
@act_required(WRITE_GUIDELINES)
def guideline_notes(request: HttpRequest, name: str, version: str) -> HttpResponse:
    """The notes on a version, by ``?state=`` and ``?source=``. POST adds one of the manager's own.

    ``back=reading`` in a POST leads to the version's page, where the note then stands beside its clause.
    """
    guideline = get_guideline_version(name, version, drafts=True)
    language = get_language() or "en"
    form = NoteForm(request.POST or None, document=guideline.document, language=language)
    if form.is_valid():
        criterion, level = form.place()
        note = leave_own_note(
            guideline=guideline,
            author=person_of(request),
            text=form.cleaned_data["text"],
            criterion=criterion,
            level=level,
        )
        messages.success(request, _("The note is saved."))
        page_name = "guideline" if request.POST.get("back") == "reading" else "guideline-notes"
        return redirect(f"{reverse(page_name, args=[name, version])}#note-{note.pk}")
    return show_notes(request, guideline, form)


@require_POST
@act_required(WRITE_GUIDELINES)
def note_resolve(request: HttpRequest, note_id: int) -> HttpResponse:
    """``resolved=1`` says that the note was dealt with, ``resolved=0`` opens it again. htmx gets the note alone,
    with its clause where it stood (``with_clause``).
    """
    person = person_of(request)
    resolved = request.POST.get("resolved") != "0"
    note = resolve_note(note=get_note(person, note_id), actor=person, resolved=resolved)
    if getattr(request, "htmx", False):
        clause = describe_clause(note.guideline, note) if "with_clause" in request.POST else ""
        return render(request, "annotation/guidelines/_note.html", {"note": note, "clause": clause})
    messages.success(request, _("The note is resolved.") if resolved else _("The note is open again."))
    return redirect("guideline-notes", note.guideline.name, note.guideline.version)


def show_notes(request: HttpRequest, guideline: Guideline, form: NoteForm) -> HttpResponse:
    filters = NoteFilterForm(request.GET)
    choices = filters.cleaned_data if filters.is_valid() else {}
    state, source = choices.get("state") or "open", choices.get("source", "")
    notes = list_notes(person_of(request)).filter(guideline=guideline)
    if state != "all":
        notes = notes.filter(resolved_at__isnull=state == "open")
    if source:
        notes = notes.filter(source=source)
    page = Paginator(notes, PAGE).get_page(request.GET.get("page"))
    record_note_openings(person_of(request), page.object_list)
    context = {
        "guideline": guideline,
        "form": form,
        "filters": filters,
        "filtered": state != "open" or source,
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "rows": [(describe_clause(guideline, note), note) for note in page.object_list],
        "query": urlencode({"state": state, "source": source}),
        "crumbs": breadcrumbs(
            (_("Guidelines"), "guidelines", []),
            (str(guideline), "guideline", [guideline.name, guideline.version]),
            title=_("Notes"),
        ),
    }
    return render(request, "annotation/guidelines/notes.html", context, status=422 if form.is_bound else 200)


def describe_clause(guideline: Guideline, note: GuidelineNote | ItemMessage) -> str:
    """The clause that a note is on; the whole where it names none."""
    if not note.criterion:
        return _("the whole guideline")
    label = criterion_label(guideline.document, note.criterion)
    if note.level is None:
        return label
    return format_clause(label, label_text(guideline.document, note.criterion, note.level))


def describe_messages(
    assignment: Assignment, messages: Sequence[ItemMessage]
) -> list[tuple[ItemMessage, str]]:
    """Each message with the clause of the guideline that it goes by, in words; empty without one."""
    guideline = assignment.batch.guideline
    return [
        (message, describe_clause(guideline, message) if message.criterion else "") for message in messages
    ]
