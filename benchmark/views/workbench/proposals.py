"""The proposals of a campaign: their list, and one with everything that was asked and decided about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import pgettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from annotation.core.error_messages import error_from_json
from annotation.core.http import breadcrumbs
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.permissions import READ_CAMPAIGNS
from annotation.models import Person
from annotation.selectors.guidelines import criterion_label, label_text
from annotation.views.access import act_required, person_of
from benchmark.domain.workbench.campaigns import is_success, list_asked
from benchmark.models import AttackMethod, Attempt, Campaign, Proposal, ProposalRevision, Review
from benchmark.models.workbench import FIRST
from benchmark.selectors.workbench.board import (
    WAITING,
    CampaignView,
    count_states,
    get_readable_proposal,
    list_readable_proposals,
    list_revisions,
    list_shown_reviews,
    open_campaign,
    read_failure_detail,
)
from benchmark.selectors.workbench.campaigns import get_campaign, list_methods
from benchmark.selectors.workbench.duplicates import NearText, find_near_texts
from benchmark.selectors.workbench.proposals import SubmittedProposal, read_submitted
from benchmark.selectors.workbench.reviews import classify_review, classify_revision
from benchmark.views.workbench.wording import ClassWord, describe_classification

PER_PAGE = 50


@dataclass(frozen=True)
class ProposalLine:
    """A proposal in the list. The author is blank where the reader must not know."""

    proposal: Proposal
    text: str
    place: str
    method: str
    malice: str
    decisions: tuple[str, ...]
    author: str


@require_safe
@never_cache
@act_required(READ_CAMPAIGNS)
def proposals(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    campaign = get_campaign(person, name)
    view = open_campaign(campaign, person)
    state = request.GET.get("state", "")
    state = state if state in Proposal.State.values else ""
    counts = count_states(list_readable_proposals(campaign, person, view))
    in_state = list_readable_proposals(campaign, person, view, state)
    page = Paginator(in_state, PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "campaign": campaign,
        "view": view,
        "state": state,
        "states": [
            ("", pgettext_lazy("proposals", "All"), sum(counts.values())),
            *((value, label, counts[value]) for value, label in Proposal.State.choices if value in counts),
        ],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode({"state": state}) if state else "",
        "lines": list(_list_lines(campaign, read_submitted(list(page)), person, view)),
        "crumbs": breadcrumbs(
            (_("Campaigns"), "campaigns", []),
            (str(campaign), "campaign", [name]),
            title=_("Proposals"),
        ),
    }
    return render(request, "benchmark/workbench/proposals.html", context)


def _list_lines(
    campaign: Campaign, submitted: Sequence[SubmittedProposal], person: Person, view: CampaignView
) -> Iterable[ProposalLine]:
    document, methods = campaign.guideline.document, list_methods(campaign)
    for entry in submitted:
        proposal, revision = entry.proposal, entry.revision
        if revision is None:
            continue
        place, method, malice = describe_classification(classify_revision(revision), document, methods)
        is_own_waiting = proposal.author_id == person.pk and proposal.state in WAITING
        yield ProposalLine(
            proposal=proposal,
            text=revision.text,
            place=place.text,
            method=method.text,
            malice=malice.text,
            decisions=()
            if is_own_waiting
            else tuple(review.get_decision_display() for review in entry.reviews),
            author="" if view.hides_authors else str(proposal.author),
        )


@require_safe
@never_cache
@act_required(READ_CAMPAIGNS)
def proposal(request: HttpRequest, name: str, proposal_id: UUID) -> HttpResponse:
    """One proposal with everything that was asked and decided about it."""
    person = person_of(request)
    campaign = get_campaign(person, name)
    view = open_campaign(campaign, person)
    proposal = get_readable_proposal(campaign, person, view, proposal_id)
    revisions = list_revisions(proposal, view)
    methods = list_methods(campaign)
    submitted = next(revision for revision in revisions if revision.submitted_at is not None)
    context = {
        "campaign": campaign,
        "view": view,
        "proposal": proposal,
        "author": "" if view.hides_authors else str(proposal.author),
        "parts": [
            {
                **_describe_revision(revision, campaign, methods, proposal, person=person, view=view),
                "answers": []
                if view.judges
                else [_describe_answer(attempt, campaign, proposal, person, view) for attempt in attempts],
            }
            for revision, attempts in group_attempts(revisions)
        ],
        "near": _list_near(campaign, proposal, submitted.text),
        "crumbs": breadcrumbs(
            (_("Campaigns"), "campaigns", []),
            (str(campaign), "campaign", [name]),
            (_("Proposals"), "campaign-proposals", [name]),
            title=_("Proposal"),
        ),
    }
    return render(request, "benchmark/workbench/proposal.html", context)


@dataclass(frozen=True)
class ReviewColumn:
    """What a reviewer said of a revision. The name is blank where the reader must not know."""

    review: Review
    name: str
    is_third: bool
    fields: tuple[ClassWord, ...]


@dataclass(frozen=True)
class AnswerPart:
    """The answer of a target, or why there is none. ``levels``: criterion, the author's, the scorer's, its share."""

    attempt: Attempt
    name: str
    text: str
    refusal: str
    detail: str
    levels: tuple[tuple[str, str, str, float | None], ...]
    is_success: bool | None


def group_attempts(
    revisions: Sequence[ProposalRevision],
) -> list[tuple[ProposalRevision, list[Attempt]]]:
    """Each revision with the attempts on its text. One that was only tried, and whose text was submitted, stands with
    the one that was submitted.
    """
    submitted = {revision.text for revision in revisions if revision.submitted_at is not None}
    groups = []
    for revision in revisions:
        if revision.submitted_at is None:
            if revision.text in submitted:
                continue
            attempts = list(revision.attempts.all())
        else:
            attempts = [
                attempt
                for same_text in revisions
                if same_text.text == revision.text
                for attempt in same_text.attempts.all()
            ]
        groups.append((revision, sorted(attempts, key=lambda attempt: attempt.target.place)))
    return groups


def _describe_revision(
    revision: ProposalRevision,
    campaign: Campaign,
    methods: Sequence[AttackMethod],
    proposal: Proposal,
    *,
    person: Person,
    view: CampaignView,
) -> Mapping[str, Any]:
    document = campaign.guideline.document
    own_class = classify_revision(revision)
    reviews = list_shown_reviews(revision, proposal, person, view)
    names_reviewers = not view.hides_authors and proposal.author_id != person.pk
    columns = [
        ReviewColumn(
            review=review,
            name=str(review.reviewer) if names_reviewers or review.reviewer_id == person.pk else "",
            is_third=review.slot != FIRST,
            fields=tuple(describe_classification(classify_review(review), document, methods, own_class)),
        )
        for review in reviews
    ]
    own_fields = describe_classification(own_class, document, methods)
    return {
        "revision": revision,
        "fields": [(field, [column.fields[n] for column in columns]) for n, field in enumerate(own_fields)],
        "reviews": columns,
    }


def _describe_answer(
    attempt: Attempt, campaign: Campaign, proposal: Proposal, person: Person, view: CampaignView
) -> AnswerPart:
    answer = getattr(attempt, "answer", None)
    levels: Mapping[str, float] = attempt.levels or {}
    # An author gives their own levels first.
    hides_predictions = view.hides_predictions or (proposal.author_id == person.pk and not levels)
    predictions: Mapping[str, Any] = {} if answer is None or hides_predictions else answer.predictions or {}
    target, success, document = attempt.target, campaign.success, campaign.guideline.document
    return AnswerPart(
        attempt=attempt,
        name=target.model.name if view.names_targets else target.letter,
        text=answer.text if answer is not None else "",
        refusal=error_from_json(attempt.error) if attempt.error else "",
        detail=read_failure_detail(attempt) if view.names_targets else "",
        levels=tuple(
            _describe_level(document, name, levels.get(name), predictions.get(name))
            for name in list_asked(success, document, attempt.revision.dimension)
            if name in levels or name in predictions
        ),
        is_success=is_success(levels, success) if levels else None,
    )


def _describe_level(
    document: GuidelineDocument, criterion: str, level: float | None, prediction: Mapping[str, Any] | None
) -> tuple[str, str, str, float | None]:
    return (
        criterion_label(document, criterion),
        "-" if level is None else label_text(document, criterion, level),
        label_text(document, criterion, prediction["value"]) if prediction else "-",
        max(prediction["probabilities"].values()) if prediction else None,
    )


def _list_near(campaign: Campaign, proposal: Proposal, text: str) -> list[NearText]:
    """A prompt is not near itself."""
    own_text = proposal.prompt.text if proposal.prompt else None
    return [near for near in find_near_texts(campaign, text, proposal) if near.text != own_text]
