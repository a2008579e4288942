"""Scorers: the list, training a new one, and the page of one with its card."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from annotation.errors import AssayError
from annotation.models import MANAGER, RESEARCHER
from annotation.selectors.jobs import curves
from annotation.views.access import has_role, person_of, role_required
from annotation.views.crumbs import trail
from annotation.wording import error_text
from scoring.forms import NewScorerForm
from scoring.models import Scorer
from scoring.selectors.scorers import Listed, scorer_for, scorers_for
from scoring.services import create_scorer
from scoring.views.charting import figures_chart
from scoring.views.figures import criteria, headline, lines, statistic


@require_GET
@never_cache
@role_required(RESEARCHER, MANAGER)
def scorers(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    context = {
        "rows": [_row(listed) for listed in scorers_for(person)],
        "researches": has_role(person, RESEARCHER),
    }
    return render(request, "scoring/list.html", context)


def _row(listed: Listed) -> dict[str, Any]:
    card = {} if listed.sealed else listed.scorer.card
    return {
        "scorer": listed.scorer,
        "sealed": listed.sealed,
        "accuracy": statistic(card.get("accuracy")),
        "macro_f1": statistic(card.get("macro_f1")),
    }


@require_http_methods(["GET", "POST"])
@never_cache
@role_required(RESEARCHER)
def scorer_new(request: HttpRequest) -> HttpResponse:
    """The form, and starting the training; what is refused comes back with its reason on the form."""
    person = person_of(request)
    asked = {name: request.GET[name] for name in ("release", "name") if name in request.GET}
    form = NewScorerForm(request.POST or None, person=person, initial=asked)
    if request.method == "POST" and form.is_valid():
        try:
            scorer, _job = create_scorer(**form.options(), actor=person)
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            return redirect("scorer", name=scorer.name)
    context = {
        "form": form,
        "crumbs": trail((_("Scorers"), "scorers", []), here=_("Train a scorer")),
        "releases": form.fields["release"].queryset.exists(),  # type: ignore[attr-defined]
    }
    return render(request, "scoring/new.html", context, status=400 if form.errors else 200)


@require_GET
@never_cache
@role_required(RESEARCHER, MANAGER)
def scorer(request: HttpRequest, name: str) -> HttpResponse:
    """Its training while it lasts or where it failed; then its card."""
    person = person_of(request)
    found = scorer_for(person, name)
    context = {
        "scorer": found,
        "card": found.card,
        "crumbs": trail((_("Scorers"), "scorers", []), here=found.name),
        "researches": has_role(person, RESEARCHER),
        "steps": _lineage(found),
        "curves": curves(found.job) if found.job else [],
    }
    if found.is_ready:
        context |= {
            "tiles": headline(found),
            "lines": lines(found),
            "left_out": "leave_one_model_out" in found.evaluation,
            "criteria": criteria(found),
            "chart": figures_chart(lines(found)),
        }
    return render(request, "scoring/scorer.html", context)


def _lineage(found: Scorer) -> list[dict[str, Any]]:
    """From the scorer down to the guideline that its labels follow."""
    release, guideline = found.release, found.guideline
    return [
        {"kind": _("Scorer"), "label": found.name, "note": found.backbone, "hash": found.weights_sha256},
        {
            "kind": _("Gold release"),
            "label": release.name,
            "url": reverse("release", args=[release.name]),
            "hash": release.sha256,
        },
        {
            "kind": _("Gold labels"),
            "label": str(release.labels),
            "url": reverse("release-labels", args=[release.name]),
            "note": _("each with the annotations behind it"),
        },
        {
            "kind": _("Guideline"),
            "label": str(guideline),
            "url": reverse("guideline", args=[guideline.name, guideline.version]),
            "hash": guideline.sha256,
        },
    ]
