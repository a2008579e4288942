"""What the managers' pages of campaigns list: campaigns with their progress, what needs the manager, and proposals as
far as the reader may know them.

Whoever reviews in a campaign that is not closed reads of a proposal only what they judged themselves, or what is
decided for good: the author's own words would answer for them. Whoever judges responses of the dataset blind reads no
answer, no level and no model's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Aggregate, Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, Sum

from annotation.core.errors import N_, NotFound
from annotation.models import Person, Task
from annotation.selectors.access import record_openings, sealed_datasets
from benchmark.models import Attempt, Campaign, CampaignMember, Proposal, ProposalRevision, Quota, Review
from benchmark.selectors.workbench.bench import may_read_predictions
from benchmark.selectors.workbench.campaigns import hides_authors, hides_targets, judges_targets, list_targets
from benchmark.selectors.workbench.report import list_campaign_batches, list_proposals
from benchmark.selectors.workbench.reviews import count_waiting

WAITING = (Proposal.State.SUBMITTED, Proposal.State.DISPUTED)
DECIDED = (Proposal.State.ACCEPTED, Proposal.State.REJECTED)
LOW_BUDGET = 0.1


@dataclass(frozen=True)
class CampaignRow:
    """``accepted`` of ``places``; ``roles`` are the reader's own, ``waiting`` the proposals that they may review."""

    campaign: Campaign
    accepted: int
    places: int
    roles: frozenset[str]
    waiting: int


def list_campaign_rows(campaigns: Sequence[Campaign], reader: Person, now: datetime) -> list[CampaignRow]:
    places = _count_by_campaign(
        Quota.objects.filter(campaign__in=campaigns).values_list("campaign"), Sum("wanted")
    )
    accepted = _count_by_campaign(
        Proposal.objects.filter(campaign__in=campaigns, state=Proposal.State.ACCEPTED).values_list(
            "campaign"
        ),
        Count("pk"),
    )
    roles: dict[int, set[str]] = {campaign.pk: set() for campaign in campaigns}
    members = CampaignMember.objects.filter(campaign__in=campaigns, person=reader, active=True)
    for campaign, role in members.values_list("campaign", "role"):
        roles[campaign].add(role)
    return [
        CampaignRow(
            campaign=campaign,
            accepted=accepted.get(campaign.pk, 0),
            places=places.get(campaign.pk, 0),
            roles=frozenset(roles[campaign.pk]),
            waiting=count_waiting(campaign, reader, now)
            if CampaignMember.Role.REVIEWER in roles[campaign.pk] and campaign.state == Campaign.State.OPEN
            else 0,
        )
        for campaign in campaigns
    ]


def _count_by_campaign(rows: QuerySet[Any, Any], count: Aggregate) -> Mapping[int, int]:
    return dict(rows.order_by().annotate(n=count).values_list("campaign", "n"))


@dataclass(frozen=True)
class CampaignView:
    """What is hidden from a reader of the managers' pages."""

    hides_targets: bool
    hides_authors: bool
    hides_predictions: bool
    judges_targets: bool
    judges: bool
    """Whether they judge responses to the dataset's prompts blind: they read no answer and no level."""

    @property
    def names_targets(self) -> bool:
        return not self.hides_targets


def open_campaign(campaign: Campaign, reader: Person) -> CampaignView:
    """What the reader may see. Whoever reads levels opens the results of the batches that label the answers."""
    view = CampaignView(
        hides_targets=hides_targets(campaign, reader),
        hides_authors=hides_authors(campaign, reader),
        hides_predictions=not may_read_predictions(campaign, reader),
        judges_targets=judges_targets(campaign, reader),
        judges=sealed_datasets(reader).filter(pk=campaign.dataset_id).exists(),
    )
    if not view.judges:
        record_openings(reader, [batch.pk for batch in list_campaign_batches(campaign)])
    return view


@dataclass(frozen=True)
class CampaignNeeds:
    """What waits for the manager. ``budget_left`` is a share, None without a limit."""

    state: str
    authors: int
    reviewers: int
    unjoined: int
    submitted: int
    disputed: int
    oldest: datetime | None
    is_full: bool
    budget_left: float | None
    unlabelled: int

    @property
    def lacks_people(self) -> bool:
        return not (self.authors and self.reviewers)

    @property
    def lacks_third_person(self) -> bool:
        return self.reviewers == 1

    @property
    def is_pressing(self) -> bool:
        """Whether there is a next step at all."""
        if self.state in {Campaign.State.DRAFT, Campaign.State.PAUSED} or self.unlabelled:
            return True
        waits = self.lacks_third_person or self.submitted or self.disputed or self.unjoined
        return self.state == Campaign.State.OPEN and bool(waits or self.is_budget_low or self.is_full)

    @property
    def is_budget_low(self) -> bool:
        return self.budget_left is not None and self.budget_left < LOW_BUDGET


def read_needs(campaign: Campaign) -> CampaignNeeds:
    role = CampaignMember.Role
    members = CampaignMember.objects.filter(campaign=campaign, active=True).aggregate(
        authors=Count("pk", filter=Q(role=role.AUTHOR)),
        reviewers=Count("pk", filter=Q(role=role.REVIEWER)),
        unjoined=Count("pk", filter=Q(role=role.AUTHOR, joined_at=None)),
    )
    waiting = Proposal.objects.filter(campaign=campaign, state__in=WAITING).aggregate(
        submitted=Count("pk", filter=Q(state=Proposal.State.SUBMITTED)),
        disputed=Count("pk", filter=Q(state=Proposal.State.DISPUTED)),
        oldest=Min("submitted_at"),
    )
    quotas = Quota.objects.filter(campaign=campaign)
    most = campaign.max_requests
    return CampaignNeeds(
        state=campaign.state,
        **members,
        **waiting,
        is_full=quotas.exists() and not quotas.filter(taken__lt=F("wanted")).exists(),
        budget_left=None if most is None else max(0.0, 1 - campaign.requests_used / most),
        unlabelled=max(0, _count_accepted_answers(campaign) - _count_labelled(campaign)),
    )


def _count_accepted_answers(campaign: Campaign) -> int:
    answers = Attempt.objects.filter(
        revision__proposal__campaign=campaign,
        revision__proposal__state=Proposal.State.ACCEPTED,
        revision__text=F("revision__proposal__prompt__text"),
        state=Attempt.State.ANSWERED,
    )
    return answers.order_by().values("revision__proposal", "target").distinct().count()


def _count_labelled(campaign: Campaign) -> int:
    """Responses of the campaign that are in a batch."""
    tasks = Task.objects.filter(
        response__prompt__proposal__campaign=campaign, response__collection=campaign.collection_id
    )
    return tasks.order_by().values("response").distinct().count()


def list_latest_failures(campaign: Campaign) -> list[Attempt]:
    """Of each target the last attempt that got no answer, in the order of the targets."""
    failed = Attempt.objects.filter(revision__proposal__campaign=campaign, state=Attempt.State.FAILED)
    latest = [
        failed.filter(target=target).select_related("target__model").order_by("-asked_at").first()
        for target in list_targets(campaign)
    ]
    return [attempt for attempt in latest if attempt is not None]


def read_failure_detail(attempt: Attempt) -> str:
    """What the endpoint said, for managers: the author's own page keeps it back, for it may tell the target."""
    return str((attempt.error or {}).get("params", {}).get("detail", ""))


def list_readable_proposals(
    campaign: Campaign, reader: Person, view: CampaignView, state: str = ""
) -> QuerySet[Proposal]:
    """Those of ``list_proposals`` that the reader may open."""
    proposals = list_proposals(campaign, state)
    if not view.hides_authors:
        return proposals
    judged = Review.objects.filter(
        revision__proposal=OuterRef("pk"),
        revision__submitted_at=OuterRef("submitted_at"),
        reviewer=reader,
        judged_at__isnull=False,
    )
    return proposals.filter(Q(state__in=DECIDED) | Exists(judged))


def count_states(proposals: QuerySet[Proposal]) -> Mapping[str, int]:
    return dict(proposals.order_by().values_list("state").annotate(n=Count("pk")).values_list("state", "n"))


def get_readable_proposal(
    campaign: Campaign, reader: Person, view: CampaignView, proposal_id: UUID
) -> Proposal:
    proposal = list_readable_proposals(campaign, reader, view).filter(pk=proposal_id).first()
    if proposal is None:
        raise NotFound(N_("There is no such proposal, or not for you before you have reviewed it."))
    return proposal


def list_revisions(proposal: Proposal, view: CampaignView) -> list[ProposalRevision]:
    """The latest first. Whoever reviews here reads none that came after what was submitted last."""
    revisions = proposal.revisions.select_related("method").prefetch_related(
        "attempts__target__model", "attempts__answer__scorer", "reviews__reviewer", "reviews__method"
    )
    if view.hides_authors:
        last = proposal.revisions.exclude(submitted_at=None).aggregate(last=Max("number"))["last"]
        revisions = revisions.filter(number__lte=last or 0)
    return list(revisions.order_by("-number"))


def list_shown_reviews(
    revision: ProposalRevision, proposal: Proposal, reader: Person, view: CampaignView
) -> list[Review]:
    """Judged reviews. An author reads none of their own proposal before it is decided; who reviews here reads those of
    others once they are decided.
    """
    if proposal.author_id == reader.pk and proposal.state in WAITING:
        return []
    return [
        review
        for review in revision.reviews.all()
        if review.judged_at is not None
        and review.ended_at is None
        and (not view.hides_authors or review.reviewer_id == reader.pk or review.decision)
    ]
