"""What is done with a scorer: promoting it, going back, scoring a dataset, taking it away, asking people again."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.http import Crumb, sent, trail, whole
from annotation.core.text_templates import render_text
from annotation.core.version import code_version
from annotation.core.zip_stream import segments
from annotation.models import ADJUDICATOR, ANNOTATOR, MANAGER, RESEARCHER, Job
from annotation.selectors.access import has_role
from annotation.views.access import person_of, role_required
from scoring.forms.predictions import AbstainedBatchForm, AbstainedForm, DriftForm, ScoreForm
from scoring.models import Scorer
from scoring.selectors.predictions import Abstentions, find_abstentions
from scoring.selectors.scorers import list_scorer_jobs, list_release_people, get_scorer_for
from scoring.services import create_abstained_batch, check_drift, create_scoring, go_back, promote
from scoring.services.predictions.predictions import SCORE
from scoring.services.scorers.export import list_download_files


@require_POST
@role_required(RESEARCHER)
def scorer_promote(request: HttpRequest, name: str) -> HttpResponse:
    """Have the gate judge the scorer; its tab shows how far it is, and then the verdict."""
    promote(scorer=_ready(request, name), actor=person_of(request))
    return redirect(gate_of(name))


@require_POST
@role_required(RESEARCHER)
def scorer_back(request: HttpRequest, name: str) -> HttpResponse:
    """From this scorer back to the one before it. ``number`` is the promotion that the person saw as the last."""
    found = get_scorer_for(person_of(request), name)
    number = whole(request.POST.get("number", ""))
    if number is None:
        raise Conflict(N_("Go back from the page of the current scorer."))
    made = go_back(guideline_name=found.guideline.name, number=number, actor=person_of(request))
    message = render_text(
        "scoring/wording/message.txt",
        code="current_again",
        scorer=made.scorer.name,
        guideline=made.guideline_name,
    )
    messages.success(request, message)
    return redirect(gate_of(made.scorer.name))


@require_POST
@role_required(RESEARCHER)
def scorer_drift(request: HttpRequest, name: str) -> HttpResponse:
    """Compare a model's responses with what it has learned from; the tab of new models shows what came of it."""
    found = _ready(request, name)
    form = DriftForm(request.POST, person=person_of(request), learned=found.card["models"])
    if form.is_valid():
        try:
            check_drift(scorer=found, actor=person_of(request), **form.cleaned_data)
        except AssayError as error:
            messages.error(request, error_text(error))
    else:
        messages.error(request, _("Choose a model."))
    return redirect(f"{reverse('scorer', args=[name])}?view=models")


@require_safe
@role_required(RESEARCHER, MANAGER)
def scorer_export(request: HttpRequest, name: str) -> HttpResponseBase:
    """The folder that loads outside, as a zip that is made while it is sent."""
    found = get_scorer_for(person_of(request), name)
    members = list_download_files(scorer=found, actor=person_of(request))
    shown = f"{found.name}.zip"
    return sent(
        request,
        segments(members),
        name=shown,
        content_type="application/zip",
        etag=f"{found.weights_sha256}-{code_version()}",
    )


@require_http_methods(["GET", "POST"])
@never_cache
@role_required(RESEARCHER)
def scorer_score(request: HttpRequest, name: str) -> HttpResponse:
    """Have it predict a dataset; below, what it was told to predict before."""
    found = _ready(request, name)
    form = ScoreForm(request.POST or None, person=person_of(request))
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            create_scoring(
                scorer=found,
                dataset=given["dataset"],
                models=list(given["models"]),
                actor=person_of(request),
            )
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            return redirect("scorer-score", name=found.name)
    scorings = list_scorer_jobs(found, SCORE)
    context = {
        "scorer": found,
        "form": form,
        "crumbs": _crumbs(found, _("Score a dataset")),
        "running": next((job for job in scorings if not job.is_over), None),
        "scorings": [_scored(job) for job in scorings if job.is_over],
    }
    return render(
        request, "scoring/predictions/score.html", context, status=422 if request.method == "POST" else 200
    )


def _scored(job: Job) -> dict[str, Any]:
    result = job.result if job.state == Job.State.DONE else {}
    seconds = result.get("seconds")
    return {
        "job": job,
        "dataset": job.title.partition(": ")[2] or job.title,
        "result": result,
        "rate": round(result["responses"] / seconds) if seconds else None,
    }


@require_http_methods(["GET", "POST"])
@never_cache
@role_required(RESEARCHER, MANAGER)
def scorer_abstained(request: HttpRequest, name: str) -> HttpResponse:
    """How many responses of a dataset it is not sure of; a POST makes a batch of them."""
    found, person = _ready(request, name), person_of(request)
    manages = has_role(person, MANAGER)
    asked = AbstainedForm(request.GET if "dataset" in request.GET else None, person=person)
    there: Abstentions | None = None
    refusal = ""
    if asked.is_bound and asked.is_valid():
        try:
            there = find_abstentions(found, asked.cleaned_data["dataset"], (), asked.cleaned_data["coverage"])
        except AssayError as error:
            refusal = error_text(error)
    form = AbstainedBatchForm(
        request.POST or None, number=len(there.responses) if there else None, initial=_people(found)
    )
    if request.method == "POST" and there is not None and form.is_valid():
        # Without the people to open it, it stays a draft: a manager adds them.
        open_now = manages and "draft" not in request.POST
        try:
            batch = create_abstained_batch(
                scorer=found,
                dataset=asked.cleaned_data["dataset"],
                coverage=asked.cleaned_data["coverage"],
                open_now=open_now,
                actor=person,
                **form.options(),
            )
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            code = "batch_open" if open_now else "batch_draft"
            message = render_text("scoring/wording/message.txt", code=code, name=batch.name)
            messages.success(request, message)
            return redirect("batch", batch.name) if manages else redirect("scorer", found.name)
    context = {
        "scorer": found,
        "crumbs": _crumbs(found, _("Ask people again")),
        "choice": asked,
        "abstention": there,
        "refusal": refusal,
        "form": form,
        "manages": manages,
        "researches": has_role(person, RESEARCHER),
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "scoring/predictions/abstained.html", context, status=status)


def _people(scorer: Scorer) -> dict[str, Any]:
    return {
        "annotators": list_release_people(scorer, ANNOTATOR),
        "adjudicators": list_release_people(scorer, ADJUDICATOR),
    }


def gate_of(name: str) -> str:
    return f"{reverse('scorer', args=[name])}?view=gate"


def _ready(request: HttpRequest, name: str) -> Scorer:
    """The scorer, if the person may open it and it can be used."""
    found = get_scorer_for(person_of(request), name)
    if not found.is_ready:
        raise Conflict(
            N_("The scorer {name} is not ready: it has not been trained to its end."), name=found.name
        )
    return found


def _crumbs(scorer: Scorer, here: str) -> list[Crumb]:
    return trail((_("Scorers"), "scorers", []), (scorer.name, "scorer", [scorer.name]), here=here)
