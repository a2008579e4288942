"""The notes from the floor: the list of a version's, a manager's own, and what becomes of them."""

from __future__ import annotations

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from annotation.core.http import trail
from annotation.forms.guidelines import NoteFilterForm, NoteForm, clause_words
from annotation.models import MANAGER, Guideline, GuidelineNote
from annotation.selectors.guidelines import (
    criterion_label,
    label_text,
    note_for,
    notes_for,
    open_batches_of,
    version_named,
)
from annotation.services.guidelines import leave_own_note, resolve_note
from annotation.views.access import person_of, role_required

PAGE = 50


@require_http_methods(["GET", "POST"])
@role_required(MANAGER)
def guideline_notes(request: HttpRequest, name: str, version: str) -> HttpResponse:
    """The notes on a version, by ``?state=`` and ``?source=``. POST adds one of the manager's own.

    ``back=reading`` in a POST leads to the version's page, where the note then stands beside its clause.
    """
    found = version_named(name, version, drafts=True)
    language = get_language() or "en"
    form = NoteForm(request.POST or None, document=found.document, language=language)
    if form.is_valid():
        criterion, level = form.place()
        note = leave_own_note(
            guideline=found,
            author=person_of(request),
            text=form.cleaned_data["text"],
            criterion=criterion,
            level=level,
        )
        messages.success(request, _("The note is kept."))
        where = "guideline" if request.POST.get("back") == "reading" else "guideline-notes"
        return redirect(f"{reverse(where, args=[name, version])}#note-{note.pk}")
    return _show(request, found, form)


@require_POST
@role_required(MANAGER)
def note_resolve(request: HttpRequest, note_id: int) -> HttpResponse:
    """``resolved=1`` says that the note was dealt with, ``resolved=0`` opens it again. htmx gets the note alone,
    with its clause where it stood (``with_clause``).
    """
    person = person_of(request)
    resolved = request.POST.get("resolved") != "0"
    note = resolve_note(note=note_for(person, note_id), actor=person, resolved=resolved)
    if getattr(request, "htmx", False):
        clause = _clause_words(note.guideline, note) if "with_clause" in request.POST else ""
        return render(request, "annotation/guidelines/_note.html", {"note": note, "clause": clause})
    messages.success(request, _("The note is resolved.") if resolved else _("The note is open again."))
    return redirect("guideline-notes", note.guideline.name, note.guideline.version)


def _show(request: HttpRequest, found: Guideline, form: NoteForm) -> HttpResponse:
    filters = NoteFilterForm(request.GET)
    chosen = filters.cleaned_data if filters.is_valid() else {}
    state, source = chosen.get("state") or "open", chosen.get("source", "")
    notes = notes_for(person_of(request)).filter(guideline=found)
    if state != "all":
        notes = notes.filter(resolved_at__isnull=state == "open")
    if source:
        notes = notes.filter(source=source)
    page = Paginator(notes, PAGE).get_page(request.GET.get("page"))
    open_batches_of(person_of(request), page.object_list)
    context = {
        "guideline": found,
        "form": form,
        "filters": filters,
        "filtered": state != "open" or source,
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "lines": [(_clause_words(found, one), one) for one in page.object_list],
        "query": urlencode({"state": state, "source": source}),
        "crumbs": trail(
            (_("Guidelines"), "guidelines", []),
            (str(found), "guideline", [found.name, found.version]),
            here=_("Notes"),
        ),
    }
    return render(request, "annotation/guidelines/notes.html", context, status=422 if form.is_bound else 200)


def _clause_words(found: Guideline, note: GuidelineNote) -> str:
    """The clause that a note is on; the whole where it names none."""
    if not note.criterion:
        return _("the whole guideline")
    label = criterion_label(found.document, note.criterion)
    if note.level is None:
        return label
    return clause_words(label, label_text(found.document, note.criterion, note.level))
