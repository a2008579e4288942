"""The reviewers' pages: what waits, and a proposal that is judged before its author's words are shown."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, Forbidden, NotFound
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import REVIEW_PROMPTS
from annotation.models import Person
from annotation.selectors.wellbeing import build_item_wellbeing
from annotation.views.access import act_required, person_of
from annotation.views.texts import render_text
from benchmark.domain.workbench.campaigns import is_success
from benchmark.forms.bench import ClassificationForm, DecisionForm
from benchmark.models import Attempt, Campaign, CampaignMember, Proposal, Review
from benchmark.models.workbench import SECOND
from benchmark.selectors.workbench.campaigns import get_campaign, get_member, hides_targets, list_methods
from benchmark.selectors.workbench.duplicates import find_near_texts
from benchmark.selectors.workbench.reviews import (
    classify_review,
    classify_revision,
    count_waiting,
    find_first_review,
    get_review,
    list_answers,
    list_own_reviews,
)
from benchmark.services.workbench.reviews import (
    claim_review,
    decide_proposal,
    judge_proposal,
    release_review,
)
from benchmark.views.workbench.wording import (
    build_method_cards,
    build_topic_cards,
    describe_classification,
    list_places,
)

REVIEWER = CampaignMember.Role.REVIEWER


@require_GET
@never_cache
@act_required(REVIEW_PROMPTS)
def reviews(request: HttpRequest, name: str) -> HttpResponse:
    """What waits, the oldest first, and what the person decided."""
    person = person_of(request)
    campaign = get_campaign(person, name)
    get_member(campaign, person, REVIEWER)
    own = list_own_reviews(campaign, person)
    context = {
        "campaign": campaign,
        "waiting": count_waiting(campaign, person, timezone.now()),
        "open": next((review for review in own if not review.decision and not _is_over(review)), None),
        "decided": [review for review in own if review.decision],
        "crumbs": breadcrumbs((_("Campaigns"), "campaigns", []), title=str(campaign)),
    }
    return render(request, "benchmark/workbench/reviews/queue.html", context)


def _is_over(review: Review) -> bool:
    return review.lease_expires <= timezone.now()


@require_POST
@act_required(REVIEW_PROMPTS)
def claim(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    campaign = get_campaign(person, name)
    return _claim_next(request, campaign, person)


def _claim_next(request: HttpRequest, campaign: Campaign, person: Person) -> HttpResponse:
    try:
        claimed = claim_review(campaign=campaign, person=person)
    except Forbidden:
        raise
    except AssayError as error:
        messages.error(request, error_text(error))
        return redirect("campaign-reviews", campaign.name)
    if claimed is None:
        messages.info(request, _("Nothing waits for you."))
        return redirect("campaign-reviews", campaign.name)
    return redirect("campaign-review", claimed.pk)


@require_GET
@never_cache
@act_required(REVIEW_PROMPTS)
def review(request: HttpRequest, review_id: UUID) -> HttpResponse:
    person = person_of(request)
    own = get_review(person, review_id)
    get_member(own.revision.proposal.campaign, person, REVIEWER)
    return _show(request, own, person)


def _show(
    request: HttpRequest,
    own: Review,
    person: Person,
    *,
    form: ClassificationForm | DecisionForm | None = None,
    final: ClassificationForm | None = None,
    error: str = "",
    status: int = 200,
) -> HttpResponse:
    revision, campaign = own.revision, own.revision.proposal.campaign
    document, methods = campaign.guideline.document, list_methods(campaign)
    is_judged = own.judged_at is not None
    severity = document.severity_of(revision.dimension)
    context = {
        "campaign": campaign,
        "review": own,
        "is_over": not own.decision and _is_over(own),
        "is_third": own.slot == SECOND,
        "text": revision.text,
        "language": revision.language,
        "blur": build_item_wellbeing(person, severity).blur and not is_judged,
        "methods": build_method_cards(methods),
        "topic_cards": build_topic_cards(document),
        "error": error,
        "form": form or (DecisionForm() if is_judged else _build_classification_form(campaign)),
        "crumbs": breadcrumbs(
            (_("Campaigns"), "campaigns", []),
            (str(campaign), "campaign-reviews", [campaign.name]),
            title=_("Review"),
        ),
    }
    if is_judged:
        context |= _describe_author(own, person)
        if own.slot == SECOND and not own.decision:
            context["final"] = final or _build_classification_form(campaign, initial=own)
    return render(request, "benchmark/workbench/reviews/review.html", context, status=status)


def _describe_author(own: Review, person: Person) -> dict[str, Any]:
    """What the author said, and what they tried: shown once the reviewer has judged."""
    revision, campaign = own.revision, own.revision.proposal.campaign
    document, methods = campaign.guideline.document, list_methods(campaign)
    stated, own_class = classify_revision(revision), classify_review(own)
    first = find_first_review(own)
    sides = [
        (_("The author"), describe_classification(stated, document, methods, own_class), revision.rationale)
    ]
    if first is not None:
        other = describe_classification(classify_review(first), document, methods, own_class)
        sides.append((_("The first reviewer"), other, first.reason))
    hidden = hides_targets(campaign, person)
    near = find_near_texts(campaign, revision.text, revision.proposal)
    listed = {each.text for each in near}
    return {
        "sides": sides,
        "mine": describe_classification(own_class, document, methods),
        "differs": bool(own_class.list_differences(stated)),
        "first": first,
        "near": near,
        "near_meanings": [each for each in revision.near_meanings or () if each["text"] not in listed],
        "duplicate_reason": revision.duplicate_reason,
        "answers": [_describe_answer(campaign, attempt, hidden) for attempt in list_answers(revision)],
    }


def _describe_answer(campaign: Campaign, attempt: Attempt, hidden: bool) -> dict[str, Any]:
    levels = attempt.levels or {}
    letter = attempt.target.letter
    return {
        "name": letter if hidden else f"{letter} {attempt.target.model.name}",
        "text": render_text(attempt.answer.text, "auto"),
        "levels": ", ".join(f"{value:g}" for value in levels.values()),
        "is_success": is_success(levels, campaign.success) if levels else None,
    }


def _build_classification_form(
    campaign: Campaign, data: Any = None, initial: Review | None = None
) -> ClassificationForm:
    places = list_places(campaign.guideline.document)
    methods = [(card.name, card.label) for card in build_method_cards(list_methods(campaign))]
    form = ClassificationForm(data, places=places, methods=methods)
    if initial is not None:
        form.initial = {
            "place": form.find_number((initial.dimension, initial.subcomponent)),
            "method": initial.method.name if initial.method else "",
            "malice": initial.malice,
        }
    return form


@require_POST
@act_required(REVIEW_PROMPTS)
def judge(request: HttpRequest, review_id: UUID) -> HttpResponse:
    person = person_of(request)
    own = get_review(person, review_id)
    form = _build_classification_form(own.revision.proposal.campaign, request.POST)
    if not form.is_valid():
        return _show(request, own, person, form=form, status=422)
    try:
        judge_proposal(review_id=own.pk, person=person, classification=form.read_classification())
    except (Forbidden, NotFound):
        raise
    except AssayError as error:
        return _show(request, own, person, form=form, error=error_text(error), status=error.status)
    return redirect("campaign-review", own.pk)


@require_POST
@act_required(REVIEW_PROMPTS)
def decide(request: HttpRequest, review_id: UUID) -> HttpResponse:
    """Decide, and go on with the next proposal that waits."""
    person = person_of(request)
    own = get_review(person, review_id)
    campaign = own.revision.proposal.campaign
    form = DecisionForm(request.POST)
    final = _build_classification_form(campaign, request.POST) if own.slot == SECOND else None
    if not form.is_valid() or (final is not None and not final.is_valid()):
        return _show(request, own, person, form=form, final=final, status=422)
    try:
        decided = decide_proposal(
            review_id=own.pk,
            person=person,
            decision=form.cleaned_data["decision"],
            reason=form.cleaned_data["reason"].replace("\r\n", "\n"),
            final=final.read_classification() if final is not None else None,
        )
    except (Forbidden, NotFound):
        raise
    except AssayError as error:
        return _show(
            request, own, person, form=form, final=final, error=error_text(error), status=error.status
        )
    messages.success(request, _describe_outcome(decided))
    return _claim_next(request, campaign, person)


def _describe_outcome(proposal: Proposal) -> str:
    if proposal.state == Proposal.State.DISPUTED:
        return _("Decided. You and the author differ: a third person settles it.")
    return _("Decided.")


@require_POST
@act_required(REVIEW_PROMPTS)
def release(request: HttpRequest, review_id: UUID) -> HttpResponse:
    person = person_of(request)
    own = get_review(person, review_id)
    try:
        release_review(review_id=own.pk, person=person)
    except (Forbidden, NotFound):
        raise
    except AssayError as error:
        messages.error(request, error_text(error))
    return redirect("campaign-reviews", own.revision.proposal.campaign.name)
