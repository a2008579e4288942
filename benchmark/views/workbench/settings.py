"""The settings of a campaign: its state, its people, its quotas and its targets."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import RUN_CAMPAIGNS
from annotation.selectors.guidelines import criterion_label, label_text
from annotation.selectors.people import get_person
from annotation.views.access import act_required, person_of, post_form
from benchmark.forms.workbench.members import CampaignMembersForm
from benchmark.forms.workbench.quotas import CampaignQuotaForm
from benchmark.models import Campaign, CampaignMember
from benchmark.selectors.workbench.board import CampaignView, open_campaign, read_needs
from benchmark.selectors.workbench.campaigns import get_campaign, list_methods, list_targets
from benchmark.services.workbench.campaigns import MOVES, add_members, remove_member, set_quota, set_state
from benchmark.views.endpoint_runs import format_setting
from benchmark.views.workbench.wording import build_method_cards, list_places


@require_safe
@never_cache
@act_required(RUN_CAMPAIGNS)
def settings(request: HttpRequest, name: str) -> HttpResponse:
    return _show_settings(request, get_campaign(person_of(request), name))


@act_required(RUN_CAMPAIGNS)
@post_form("campaign-settings")
def set_campaign_state(request: HttpRequest, name: str) -> HttpResponse:
    """Open, pause or close; closing takes ``confirmed``, for it cannot be undone."""
    campaign, state = get_campaign(person_of(request), name), request.POST.get("state", "")
    if state == Campaign.State.CLOSED and "confirmed" not in request.POST:
        refusal = _("Tick the box first: a closed campaign cannot be opened again.")
        return _show_settings(request, campaign, close_refusal=refusal, status=422)
    try:
        set_state(campaign=campaign, state=state, actor=person_of(request))
    except AssayError as error:
        return _show_settings(request, campaign, refusal=error_text(error), status=error.status)
    messages.success(request, _("The campaign is now: {state}").format(state=Campaign.State(state).label))
    return redirect("campaign-settings", name)


@act_required(RUN_CAMPAIGNS)
@post_form("campaign-settings")
def add_campaign_members(request: HttpRequest, name: str) -> HttpResponse:
    """Add people in the role that ``role`` names."""
    campaign, role = get_campaign(person_of(request), name), request.POST.get("role", "")
    form = CampaignMembersForm(request.POST, campaign=campaign)
    if role not in CampaignMember.Role.values or not form.is_valid():
        return _show_settings(request, campaign, member_forms={role: form}, status=422)
    people = list(form.cleaned_data["people"])
    try:
        add_members(campaign=campaign, role=role, people=people, actor=person_of(request))
    except AssayError as error:
        form.add_error(None, error_text(error))
        return _show_settings(request, campaign, member_forms={role: form}, status=error.status)
    messages.success(request, _("Added: {names}").format(names=", ".join(map(str, people))))
    return redirect("campaign-settings", name)


@act_required(RUN_CAMPAIGNS)
@post_form("campaign-settings")
def remove_campaign_member(request: HttpRequest, name: str) -> HttpResponse:
    campaign = get_campaign(person_of(request), name)
    person = get_person(request.POST.get("person", ""))
    remove_member(
        campaign=campaign, role=request.POST.get("role", ""), person=person, actor=person_of(request)
    )
    messages.success(request, _("Removed: {name}").format(name=person))
    return redirect("campaign-settings", name)


@act_required(RUN_CAMPAIGNS)
@post_form("campaign-settings")
def set_campaign_quota(request: HttpRequest, name: str) -> HttpResponse:
    """Save the cells of the table that were changed."""
    campaign = get_campaign(person_of(request), name)
    form = _build_quota_form(campaign, request.POST)
    if not form.is_valid():
        return _show_settings(request, campaign, quota_form=form, status=422)
    changes = form.list_changes()
    try:
        with transaction.atomic():
            for quota in changes:
                set_quota(campaign=campaign, quota=quota, actor=person_of(request))
    except AssayError as error:
        form.add_error(None, error_text(error))
        return _show_settings(request, campaign, quota_form=form, status=error.status)
    messages.success(request, _("Quotas changed: {n}").format(n=len(changes)))
    return redirect("campaign-settings", name)


def _build_quota_form(campaign: Campaign, data: Any = None) -> CampaignQuotaForm:
    return CampaignQuotaForm(
        data,
        campaign=campaign,
        places=list_places(campaign.guideline.document),
        methods=[(card.name, card.label) for card in build_method_cards(list_methods(campaign))],
    )


def _show_settings(
    request: HttpRequest,
    campaign: Campaign,
    *,
    refusal: str = "",
    close_refusal: str = "",
    member_forms: dict[str, CampaignMembersForm] | None = None,
    quota_form: CampaignQuotaForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """``refusal``, ``close_refusal`` and the forms are of what was sent and not done."""
    view = open_campaign(campaign, person_of(request))
    document = campaign.guideline.document
    context = {
        "campaign": campaign,
        "view": view,
        "moves": MOVES[campaign.state],
        "needs": read_needs(campaign),
        "refusal": refusal,
        "close_refusal": close_refusal,
        "groups": [_describe_group(campaign, role, view, member_forms or {}) for role in CampaignMember.Role],
        "quota_form": quota_form or _build_quota_form(campaign),
        "targets": [
            (
                target,
                target.model.name if view.names_targets else "",
                [(key, format_setting(value)) for key, value in target.settings.items()],
            )
            for target in list_targets(campaign)
        ],
        "success": [
            (
                criterion_label(document, name),
                [label_text(document, name, level) for level in levels],
            )
            for name, levels in campaign.success.items()
        ],
        "crumbs": breadcrumbs(
            (_("Campaigns"), "campaigns", []),
            (str(campaign), "campaign", [campaign.name]),
            title=_("Settings"),
        ),
    }
    return render(request, "benchmark/workbench/settings.html", context, status=status)


def _describe_group(
    campaign: Campaign,
    role: CampaignMember.Role,
    view: CampaignView,
    member_forms: dict[str, CampaignMembersForm],
) -> dict[str, Any]:
    """The members of a role, and the form that adds some. Who reviews here reads no author's name."""
    of_role = CampaignMember.objects.filter(campaign=campaign, role=role).select_related("person")
    members = list(of_role.order_by("-active", "person__username"))
    hides_names = role == CampaignMember.Role.AUTHOR and view.hides_authors
    form = member_forms.get(role) or CampaignMembersForm(campaign=campaign)
    form.auto_id = f"{role.value}-%s"
    return {
        "role": role.value,
        "active": sum(member.active for member in members),
        "members": [] if hides_names else members,
        "hides_names": hides_names,
        "form": form,
    }
