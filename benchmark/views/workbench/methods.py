"""The attack methods of a study: what authors and reviewers choose from, with what they read about each."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import RUN_CAMPAIGNS
from annotation.models import Study
from annotation.selectors.studies import list_studies
from annotation.views.access import act_required, person_of, post_form
from benchmark.domain.workbench.methods import FLAMES_METHODS
from benchmark.forms.workbench.methods import MethodForm, method_to_fields
from benchmark.models import AttackMethod
from benchmark.services.workbench import campaigns as services
from benchmark.views.workbench.wording import build_method_cards


def list_offered_methods() -> list[AttackMethod]:
    """Those of the study, or the ones that it gets with its first campaign; archived ones are left out."""
    return [method for method in _list_methods() if method.archived_at is None]


def _list_methods() -> list[AttackMethod]:
    return list(AttackMethod.objects.all()) or [
        AttackMethod(
            name=method.name,
            label=dict(method.label),
            definition=dict(method.definition),
            examples=dict(method.examples),
        )
        for method in FLAMES_METHODS
    ]


@require_safe
@never_cache
@act_required(RUN_CAMPAIGNS)
def methods(request: HttpRequest) -> HttpResponse:
    return _show_methods(request, MethodForm())


@act_required(RUN_CAMPAIGNS)
@post_form("attack-methods")
def save_method(request: HttpRequest) -> HttpResponse:
    """Add a method (``new``), change one, or archive it (``archived=1``) with the texts that it has."""
    form, is_new = MethodForm(request.POST), "new" in request.POST
    if not form.is_valid():
        return _show_methods(request, form, is_new=is_new)
    name = form.cleaned_data["name"]
    try:
        if is_new and any(method.name == name for method in _list_methods()):
            raise Conflict(N_("There is already an attack method named {name}."), name=name)
        services.save_method(
            study=_get_study(),
            name=name,
            **form.read_texts(),
            archived=request.POST.get("archived") == "1",
            actor=person_of(request),
        )
    except AssayError as error:
        form.add_error("name" if is_new else None, error_text(error))
        return _show_methods(request, form, is_new=is_new)
    messages.success(request, _("Saved: {name}").format(name=name))
    return redirect("attack-methods")


def _get_study() -> Study:
    """The study of the address; Conflict where there is none."""
    studies = list_studies()[:2]
    if len(studies) != 1:
        raise Conflict(N_("Open a study first: its attack methods are its own."))
    return studies[0]


def _show_methods(request: HttpRequest, form: MethodForm, *, is_new: bool = True) -> HttpResponse:
    """``form`` is the one that was sent, of a new method or of one of the list."""
    rows: list[dict[str, Any]] = []
    sent_name = "" if is_new else str(form.data.get("name", ""))
    known_methods = _list_methods()
    for number, (method, card) in enumerate(
        zip(known_methods, build_method_cards(known_methods), strict=True)
    ):
        is_sent = method.name == sent_name
        method_form = form if is_sent else MethodForm(initial=method_to_fields(method))
        method_form.auto_id = f"method-{number}-%s"
        rows.append({"method": method, "card": card, "form": method_form, "is_open": is_sent})
    context = {
        "rows": rows,
        "form": form if is_new else MethodForm(),
        "has_own": bool(known_methods and known_methods[0].pk),
        "crumbs": breadcrumbs((_("Campaigns"), "campaigns", []), title=_("Attack methods")),
    }
    status = 422 if form.is_bound else 200
    return render(request, "benchmark/workbench/methods.html", context, status=status)
