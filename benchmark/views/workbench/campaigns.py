"""The managers' pages of campaigns: the list, a new campaign, the batch of its answers and its files."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import as_attachment, breadcrumbs, parse_int
from annotation.domain.permissions import FIND_CAMPAIGNS, MANAGE_BATCHES, READ_CAMPAIGNS, RUN_CAMPAIGNS
from annotation.models import Guideline, Person
from annotation.selectors.access import refuse_blind_judge
from annotation.selectors.guidelines import list_published
from annotation.views.access import act_required, person_of
from benchmark.forms.workbench.batches import CampaignBatchForm
from benchmark.forms.workbench.campaigns import CampaignForm, list_campaign_datasets
from benchmark.models import CampaignMember
from benchmark.selectors.leaderboards.runs import list_open_models
from benchmark.selectors.workbench.board import list_campaign_rows, open_campaign, read_needs
from benchmark.selectors.workbench.campaigns import get_campaign, list_open_campaigns
from benchmark.selectors.workbench.report import list_campaign_batches
from benchmark.services.workbench.batches import create_campaign_batch
from benchmark.services.workbench.campaigns import create_campaign
from benchmark.services.workbench.exports import FILES, iterate_lines
from benchmark.views.endpoint_runs import list_endpoint_choices
from benchmark.views.workbench.methods import list_offered_methods
from benchmark.views.workbench.wording import build_method_cards, list_places

PER_PAGE = 50


@require_safe
@never_cache
@act_required(FIND_CAMPAIGNS)
def campaigns(request: HttpRequest) -> HttpResponse:
    """All campaigns for whoever reads them, else those of which the person is a member."""
    person = person_of(request)
    page = Paginator(list_open_campaigns(person), PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "rows": list_campaign_rows(list(page), person, timezone.now()),
    }
    return render(request, "benchmark/workbench/list.html", context)


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(RUN_CAMPAIGNS)
def new_campaign(request: HttpRequest) -> HttpResponse:
    """The guideline is chosen first, by ``guideline`` of the address: its dimensions are the table of quotas."""
    person = person_of(request)
    guidelines = list(list_published())
    guideline = _choose_guideline(request, guidelines)
    if guideline is None or not list_campaign_datasets(person).exists():
        return render(request, "benchmark/workbench/new.html", _new_context(person, guidelines, guideline))
    form = CampaignForm(
        request.POST if request.method == "POST" else None,
        person=person,
        guideline=guideline,
        places=list_places(guideline.document),
        methods=[(card.name, card.label) for card in build_method_cards(list_offered_methods())],
    )
    if request.method == "POST" and form.is_valid():
        try:
            campaign = create_campaign(form.build_spec(), actor=person)
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            messages.success(request, _("The campaign is made. Open it when its people are ready."))
            return redirect("campaign", campaign.name)
    context = _new_context(person, guidelines, guideline) | {"form": form}
    return render(request, "benchmark/workbench/new.html", context, status=422 if form.is_bound else 200)


def _choose_guideline(request: HttpRequest, guidelines: list[Guideline]) -> Guideline | None:
    """The one of the form or of the address, else the first."""
    number = parse_int(request.POST.get("guideline") or request.GET.get("guideline") or "")
    return next(
        (guideline for guideline in guidelines if guideline.pk == number),
        guidelines[0] if guidelines else None,
    )


def _new_context(person: Person, guidelines: list[Guideline], guideline: Guideline | None) -> dict[str, Any]:
    return {
        "guidelines": guidelines,
        "guideline": guideline,
        "endpoints": list_endpoint_choices(),
        "models": list_open_models(person).values_list("name", flat=True),
        "crumbs": breadcrumbs((_("Campaigns"), "campaigns", []), title=_("New campaign")),
    }


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(MANAGE_BATCHES)
def batch(request: HttpRequest, name: str) -> HttpResponse:
    """A batch of the answers to the accepted prompts."""
    person = person_of(request)
    campaign = get_campaign(person, name)
    form = CampaignBatchForm(request.POST if request.method == "POST" else None, campaign=campaign)
    if request.method == "POST" and form.is_valid():
        try:
            new_batch = create_campaign_batch(
                campaign=campaign,
                name=form.cleaned_data["name"],
                annotators=list(form.cleaned_data["annotators"]),
                adjudicators=list(form.cleaned_data["adjudicators"]),
                policy=form.build_policy(),
                actor=person,
            )
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            messages.success(request, _("The batch is open."))
            return redirect("batch", new_batch.name)
    members = Person.objects.filter(pk__in=CampaignMember.objects.filter(campaign=campaign).values("person"))
    context = {
        "campaign": campaign,
        "form": form,
        "members": members.order_by("username"),
        "needs": read_needs(campaign),
        "batches": list_campaign_batches(campaign),
        "crumbs": breadcrumbs(
            (_("Campaigns"), "campaigns", []),
            (str(campaign), "campaign", [name]),
            title=_("New batch of the answers"),
        ),
    }
    return render(request, "benchmark/workbench/batch.html", context, status=422 if form.is_bound else 200)


@require_safe
@never_cache
@act_required(READ_CAMPAIGNS)
def export(request: HttpRequest, name: str, kind: str) -> HttpResponseBase:
    """The accepted prompts, with pseudonyms in the place of their authors."""
    if kind not in FILES:
        raise Http404
    person = person_of(request)
    campaign = get_campaign(person, name)
    refuse_blind_judge(person, campaign.dataset)
    open_campaign(campaign, person)
    answer = StreamingHttpResponse(
        iterate_lines(campaign, kind, reader=person), content_type="application/x-ndjson; charset=utf-8"
    )
    return as_attachment(answer, f"{campaign.name}-{FILES[kind]}")
