"""The page of one scorer: its training while it lasts or where it failed, then its tabs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.errors import N_, AssayError
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import READ_SCORERS
from annotation.models import Person
from annotation.selectors.jobs import list_curves
from annotation.views.access import act_required, person_of
from scoring.domain.evaluation.soft_labels import LABEL
from scoring.models import Scorer
from scoring.selectors.scorers import (
    count_must_fail_items,
    find_cut_examples,
    find_running_judge_job,
    get_scorer_for,
    list_scorer_statuses,
)
from scoring.services.scorers.scorers import find_encoder_name
from scoring.views.scorers.tabs import calibration, card, gate, metrics, models, overview
from scoring.views.scorers.wording import list_below_commonest

OVERVIEW = ""
VIEWS = (OVERVIEW, "figures", "calibration", "models", "gate", "card")


@require_GET
@never_cache
@act_required(READ_SCORERS)
def scorer(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    scorer = get_scorer_for(person, name)
    view = request.GET.get("view", OVERVIEW)
    if view not in VIEWS:
        raise AssayError(
            N_("{value} cannot be chosen here; choose one of: {known}."),
            value=view,
            known=", ".join(VIEWS[1:]),
        )
    context = {
        "scorer": scorer,
        "card": scorer.card,
        "crumbs": breadcrumbs((_("Scorers"), "scorers", []), title=scorer.name),
        "steps": _list_lineage_steps(scorer),
        "curves": list_curves(scorer.job) if scorer.job else [],
    }
    if not scorer.is_ready:
        return render(
            request, "scoring/training/training.html", context | {"again": _build_retry_url(scorer)}
        )
    context |= {
        "standing": list_scorer_statuses([scorer])[scorer.pk],
        "below_commonest": list_below_commonest(scorer),
        "cut_examples": find_cut_examples(scorer.card),
        "judging": find_running_judge_job(scorer),
        "must_fail": count_must_fail_items(scorer.guideline.name),
        "tabs": _list_tabs(scorer, view),
        "part": f"scoring/scorers/tabs/{view or 'overview'}.html",
        **_build_tab_context(scorer, view, person),
    }
    return render(request, "scoring/scorers/scorer.html", context)


def _build_retry_url(scorer: Scorer) -> str:
    """The form as it was filled in for this training."""
    fields = {"release": scorer.release.name, "name": scorer.name}
    if scorer.base is not None and scorer.adapted_to is not None:
        fields |= {"base": scorer.base.name, "adapt_to": scorer.adapted_to.name}
    else:
        spec = scorer.spec
        fields |= {"kind": spec.kind, "encoder": find_encoder_name(spec.encoder), "tuning": spec.tuning}
        fields |= {"target": scorer.config.get("target", LABEL)}
    return f"{reverse('scorer-new')}?{urlencode(fields)}"


def _build_tab_context(scorer: Scorer, view: str, person: Person) -> dict[str, Any]:
    contexts: dict[str, Callable[[Scorer], dict[str, Any]]] = {
        OVERVIEW: overview.build_context,
        "figures": metrics.build_context,
        "calibration": calibration.build_context,
    }
    if view in contexts:
        return contexts[view](scorer)
    personal: dict[str, Callable[[Scorer, Person], dict[str, Any]]] = {
        "models": models.build_context,
        "gate": gate.build_context,
        "card": card.build_context,
    }
    return personal[view](scorer, person)


def _list_tabs(scorer: Scorer, view: str) -> list[dict[str, Any]]:
    labels = (
        _("Overview"),
        _("Figures"),
        _("Calibration"),
        _("New models"),
        _("Gate"),
        _("Card"),
    )
    page_url = reverse("scorer", args=[scorer.name])
    return [
        {"label": label, "url": f"{page_url}?view={name}" if name else page_url, "current": name == view}
        for name, label in zip(VIEWS, labels, strict=True)
    ]


def _list_lineage_steps(scorer: Scorer) -> list[dict[str, Any]]:
    """From the scorer down to the guideline that its labels follow."""
    release, guideline = scorer.release, scorer.guideline
    return [
        {"kind": _("Scorer"), "label": scorer.name, "note": scorer.backbone, "hash": scorer.weights_sha256},
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
