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
from annotation.core.http import Crumb, breadcrumbs, parse_int, stream_file
from annotation.core.text_templates import render_text
from annotation.core.version import code_version
from annotation.core.zip_stream import build_segments
from annotation.domain.permissions import (
    EXPORT_SCORER,
    LABEL_ABSTENTIONS,
    MANAGE_BATCHES,
    PROMOTE_SCORER,
    USE_SCORER,
)
from annotation.models import ADJUDICATOR, ANNOTATOR, Job
from annotation.views.access import act_required, may, person_of
from scoring.domain.gate import MAX_MARGIN, MIN_MARGIN
from scoring.forms.predictions import AbstainedForm, AbstainedMixForm, DriftForm, ScoreForm
from scoring.forms.promotion import MarginForm, PromotionReasonForm
from scoring.models import Scorer
from scoring.selectors.gate import describe_promotion, find_promotion
from scoring.selectors.predictions import Abstentions, find_abstentions
from scoring.selectors.scorers import get_scorer_for, list_release_people, list_scorer_jobs
from scoring.services import (
    check_drift,
    create_abstained_batch,
    create_scoring,
    promote,
    promote_with_reason,
    roll_back,
)
from scoring.services.predictions.predictions import SCORE
from scoring.services.scorers.export import list_download_files
from scoring.services.scorers.promotion import MAX_REASON_CHARACTERS

MARGIN_POINTS = {"low": f"{100 * MIN_MARGIN:g}", "high": f"{100 * MAX_MARGIN:g}"}


@require_POST
@act_required(PROMOTE_SCORER)
def scorer_promote(request: HttpRequest, name: str) -> HttpResponse:
    """Have the gate judge the scorer; its tab shows how far it is, and then the verdict."""
    scorer = _get_ready_scorer(request, name)
    form = MarginForm(request.POST)
    if not form.is_valid():
        raise AssayError(N_("The margin is a number of points between {low} and {high}."), **MARGIN_POINTS)
    promote(scorer=scorer, actor=person_of(request), margin=form.get_margin())
    return redirect(build_gate_url(name))


@require_POST
@act_required(PROMOTE_SCORER)
def scorer_reason(request: HttpRequest, name: str) -> HttpResponse:
    """Promote with a reason what the verdict that the person saw has neither shown nor refused."""
    scorer = _get_ready_scorer(request, name)
    form = PromotionReasonForm(request.POST)
    if not form.is_valid():
        raise AssayError(
            N_("Give the reason for promoting what is not shown, in at most {most} characters."),
            most=MAX_REASON_CHARACTERS,
        )
    promote_with_reason(scorer=scorer, actor=person_of(request), **form.cleaned_data)
    return redirect(build_gate_url(name))


@require_POST
@act_required(PROMOTE_SCORER)
def scorer_back(request: HttpRequest, name: str) -> HttpResponse:
    """From this scorer back to the one before it. ``number`` is the promotion that the person saw as the last."""
    scorer = get_scorer_for(person_of(request), name)
    number = parse_int(request.POST.get("number", ""))
    if number is None:
        raise Conflict(N_("Go back from the page of the current scorer."))
    promotion = roll_back(guideline_name=scorer.guideline.name, number=number, actor=person_of(request))
    message = render_text(
        "scoring/wording/message.txt",
        code="current_again",
        scorer=promotion.scorer.name,
        guideline=promotion.guideline_name,
    )
    messages.success(request, message)
    return redirect(build_gate_url(promotion.scorer.name))


@require_POST
@act_required(USE_SCORER)
def scorer_drift(request: HttpRequest, name: str) -> HttpResponse:
    """Compare a model's responses with what it has learned from; the tab of new models shows what came of it."""
    scorer = _get_ready_scorer(request, name)
    form = DriftForm(request.POST, person=person_of(request), learned=scorer.card["models"])
    if form.is_valid():
        try:
            check_drift(scorer=scorer, actor=person_of(request), **form.cleaned_data)
        except AssayError as error:
            messages.error(request, error_text(error))
    else:
        messages.error(request, _("Choose a model."))
    return redirect(f"{reverse('scorer', args=[name])}?view=models")


@require_safe
@act_required(EXPORT_SCORER)
def scorer_export(request: HttpRequest, name: str) -> HttpResponseBase:
    """The folder that loads outside, as a zip that is made while it is sent."""
    person = person_of(request)
    scorer = get_scorer_for(person, name)
    # Which stand on the card.
    promotion, gate = find_promotion(scorer), describe_promotion(scorer, person)
    withheld = len(gate["withheld"]) if gate is not None else 0
    members = list_download_files(scorer=scorer, actor=person)
    file_name = f"{scorer.name}.zip"
    return stream_file(
        request,
        build_segments(members),
        name=file_name,
        content_type="application/zip",
        etag=f"{scorer.weights_sha256}-{code_version()}-{promotion.pk if promotion else 0}-{withheld}",
    )


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(USE_SCORER)
def scorer_score(request: HttpRequest, name: str) -> HttpResponse:
    """Have it predict a dataset; below, what it was told to predict before."""
    scorer = _get_ready_scorer(request, name)
    form = ScoreForm(request.POST or None, person=person_of(request))
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            create_scoring(
                scorer=scorer,
                dataset=data["dataset"],
                models=list(data["models"]),
                actor=person_of(request),
            )
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            return redirect("scorer-score", name=scorer.name)
    scorings = list_scorer_jobs(scorer, SCORE)
    context = {
        "scorer": scorer,
        "form": form,
        "crumbs": _list_crumbs(scorer, _("Score a dataset")),
        "running": next((job for job in scorings if not job.is_over), None),
        "scorings": [_describe_scoring(job) for job in scorings if job.is_over],
    }
    return render(
        request, "scoring/predictions/score.html", context, status=422 if request.method == "POST" else 200
    )


def _describe_scoring(job: Job) -> dict[str, Any]:
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
@act_required(LABEL_ABSTENTIONS)
def scorer_abstained(request: HttpRequest, name: str) -> HttpResponse:
    """How many responses of a dataset it is not sure of; a POST makes a batch of them."""
    scorer, person = _get_ready_scorer(request, name), person_of(request)
    manages = may(person, MANAGE_BATCHES)
    choice = AbstainedForm(request.GET if "dataset" in request.GET else None, person=person)
    abstentions: Abstentions | None = None
    refusal = ""
    if choice.is_bound and choice.is_valid():
        try:
            abstentions = find_abstentions(
                scorer, choice.cleaned_data["dataset"], (), choice.cleaned_data["coverage"]
            )
        except AssayError as error:
            refusal = error_text(error)
    form = AbstainedMixForm(
        request.POST or None,
        number=len(abstentions.responses) if abstentions else None,
        initial=_list_people(scorer),
    )
    if request.method == "POST" and abstentions is not None and form.is_valid():
        # Without the people to open it, it stays a draft: a manager adds them.
        open_now = manages and "draft" not in request.POST
        try:
            batch = create_abstained_batch(
                scorer=scorer,
                dataset=choice.cleaned_data["dataset"],
                coverage=choice.cleaned_data["coverage"],
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
            return redirect("batch", batch.name) if manages else redirect("scorer", scorer.name)
    context = {
        "scorer": scorer,
        "crumbs": _list_crumbs(scorer, _("Ask people again")),
        "choice": choice,
        "abstention": abstentions,
        "refusal": refusal,
        "form": form,
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "scoring/predictions/abstained.html", context, status=status)


def _list_people(scorer: Scorer) -> dict[str, Any]:
    return {
        "annotators": list_release_people(scorer, ANNOTATOR),
        "adjudicators": list_release_people(scorer, ADJUDICATOR),
    }


def build_gate_url(name: str) -> str:
    return f"{reverse('scorer', args=[name])}?view=gate"


def _get_ready_scorer(request: HttpRequest, name: str) -> Scorer:
    """The scorer, if the person may open it and it can be used."""
    scorer = get_scorer_for(person_of(request), name)
    if not scorer.is_ready:
        raise Conflict(
            N_("The scorer {name} is not ready: it has not been trained to its end."), name=scorer.name
        )
    return scorer


def _list_crumbs(scorer: Scorer, title: str) -> list[Crumb]:
    return breadcrumbs((_("Scorers"), "scorers", []), (scorer.name, "scorer", [scorer.name]), title=title)
