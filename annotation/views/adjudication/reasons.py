"""The managers' page of the reasons for disputes: what adjudicators choose from."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import breadcrumbs
from annotation.domain.guidelines import localize
from annotation.domain.permissions import EDIT_DISPUTE_REASONS
from annotation.forms.adjudication import ReasonForm
from annotation.selectors.adjudication import list_reasons_with_use
from annotation.services.adjudication import reasons
from annotation.views.access import act_required, person_of
from annotation.views.annotations.workspace import leave_page


@require_http_methods(["GET", "POST"])
@act_required(EDIT_DISPUTE_REASONS)
def dispute_reasons(request: HttpRequest) -> HttpResponse:
    if request.method == "GET":
        return show_reasons(request, ReasonForm())
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return show_reasons(request, form, status=422)
    try:
        reasons.add_reason(
            words=form.words(), makes_note=form.cleaned_data["makes_note"], actor=person_of(request)
        )
    except AssayError as error:
        form.add_error(None, error_text(error))
        return show_reasons(request, form, status=error.status)
    return leave_page(request, "dispute-reasons", say=_("Added."))


@require_POST
@act_required(EDIT_DISPUTE_REASONS)
def dispute_reason(request: HttpRequest, key: str) -> HttpResponse:
    """Other words for it, or other consequences."""
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return show_reasons(request, ReasonForm(), changed=(key, form), status=422)
    try:
        reasons.change_reason(
            key=key,
            words=form.words(),
            makes_note=form.cleaned_data["makes_note"],
            actor=person_of(request),
        )
    except AssayError as error:
        if error.status == 404:
            raise
        form.add_error(None, error_text(error))
        return show_reasons(request, ReasonForm(), changed=(key, form), status=error.status)
    return leave_page(request, "dispute-reasons", say=_("Saved."))


@require_POST
@act_required(EDIT_DISPUTE_REASONS)
def dispute_reason_move(request: HttpRequest, key: str) -> HttpResponse:
    reasons.move_reason(key=key, up=request.POST.get("to") == "up", actor=person_of(request))
    return leave_page(request, "dispute-reasons")


@require_POST
@act_required(EDIT_DISPUTE_REASONS)
def dispute_reason_active(request: HttpRequest, key: str) -> HttpResponse:
    active = request.POST.get("active") == "yes"
    reasons.set_reason_active(key=key, active=active, actor=person_of(request))
    return leave_page(request, "dispute-reasons")


def show_reasons(
    request: HttpRequest,
    form: ReasonForm,
    *,
    changed: tuple[str, ReasonForm] | None = None,
    status: int = 200,
) -> HttpResponse:
    """``changed`` is a form of the list that was refused, by the key of its reason."""
    language = get_language() or "en"
    rows = []
    for reason in list_reasons_with_use():
        initial = {**reason.words, "makes_note": reason.makes_note}
        row_form = changed[1] if changed and changed[0] == reason.key else ReasonForm(initial=initial)
        row_form.auto_id = f"id_{reason.key}_%s"
        rows.append({"reason": reason, "words": localize(reason.words, language), "form": row_form})
    crumbs = breadcrumbs((_("Guidelines"), "guidelines", []), title=_("Reasons for disputes"))
    context = {"rows": rows, "form": form, "crumbs": crumbs}
    return render(request, "annotation/adjudication/reasons.html", context, status=status)
