"""What waits for a reviewer, and what a reviewer may read of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation.core.errors import N_, NotFound
from annotation.models import Person
from annotation.selectors.wellbeing import is_budget_used_up
from benchmark.domain.workbench.campaigns import Classification
from benchmark.models import Attempt, Campaign, CampaignMember, Proposal, ProposalRevision, Review
from benchmark.models.workbench import FIRST, SECOND

MAX_LISTED = 100


def classify_revision(revision: ProposalRevision) -> Classification:
    """As the author says."""
    return Classification(
        dimension=revision.dimension,
        subcomponent=revision.subcomponent,
        method=revision.method.name,
        malice=revision.malice,
    )


def classify_review(review: Review) -> Classification:
    """As the reviewer says."""
    return Classification(
        dimension=review.dimension,
        subcomponent=review.subcomponent,
        method=review.method.name if review.method else "",
        malice=review.malice,
    )


def list_claimable(
    campaign: Campaign, person: Person, now: datetime
) -> Iterator[tuple[ProposalRevision, int]]:
    """The revisions that the person may claim, the oldest first, with the slot of the review."""
    for proposal in _list_waiting(campaign, person, now)[:20].iterator():
        revision = get_submitted_revision(proposal)
        yield revision, FIRST if proposal.state == Proposal.State.SUBMITTED else SECOND


def count_waiting(campaign: Campaign, person: Person, now: datetime) -> int:
    return _list_waiting(campaign, person, now).count()


def count_all_waiting(person: Person) -> int:
    """In all open campaigns in which the person reviews."""
    members = CampaignMember.objects.filter(
        person=person,
        role=CampaignMember.Role.REVIEWER,
        active=True,
        campaign__state=Campaign.State.OPEN,
    )
    campaigns = Campaign.objects.select_related("guideline").filter(pk__in=members.values("campaign"))
    now = timezone.now()
    return sum(count_waiting(campaign, person, now) for campaign in campaigns)


def _list_waiting(campaign: Campaign, person: Person, now: datetime) -> QuerySet[Proposal]:
    """Not the person's own, none that they reviewed, none that another reviewer holds, and nothing that they do not
    read: another language, or a topic that they opted out of.
    """
    submitted = ProposalRevision.objects.filter(
        proposal=OuterRef("pk"), submitted_at=OuterRef("submitted_at")
    )
    reviews = Review.objects.filter(
        revision__proposal=OuterRef("pk"), revision__submitted_at=OuterRef("submitted_at")
    )
    held = reviews.filter(decision="", lease_expires__gt=now, ended_at=None)
    # A claim of their own that ran out comes back to them.
    own = reviews.filter(reviewer=person).exclude(decision="", lease_expires__lte=now, ended_at=None)
    waiting = (
        Proposal.objects.filter(
            campaign=campaign, state__in=[Proposal.State.SUBMITTED, Proposal.State.DISPUTED]
        )
        .exclude(author=person)
        .filter(~Exists(held), ~Exists(own))
        .order_by("submitted_at", "pk")
    )
    if person.opted_out:
        waiting = waiting.filter(~Exists(submitted.filter(dimension__in=person.opted_out)))
    if person.languages:
        is_read = Q(language="") | Q(language__in=person.languages)
        waiting = waiting.filter(Exists(submitted.filter(is_read)))
    document = campaign.guideline.document
    if is_budget_used_up(person):
        mild = [name for name in document.dimension_names if not document.severity_of(name)]
        waiting = waiting.filter(Exists(submitted.filter(dimension__in=[*mild, ""])))
    return waiting


def get_submitted_revision(proposal: Proposal) -> ProposalRevision:
    """What is under review, or was last."""
    revision = (
        proposal.revisions.select_related("method", "proposal")
        .exclude(submitted_at=None)
        .order_by("-number")
        .first()
    )
    if revision is None:
        raise NotFound(N_("This proposal was never submitted."))
    return revision


def get_review(person: Person, review_id: UUID) -> Review:
    """The person's own review, with all that its page may show; NotFound of anybody else's."""
    review = (
        Review.objects.select_related(
            "method", "revision__method", "revision__proposal__campaign__guideline", "revision__proposal"
        )
        .filter(pk=review_id, reviewer=person, ended_at=None)
        .first()
    )
    if review is None:
        raise NotFound(N_("There is no such review among yours, or your claim has run out."))
    return review


def list_own_reviews(campaign: Campaign, person: Person) -> list[Review]:
    """The latest first; those that are open too."""
    reviews = Review.objects.filter(revision__proposal__campaign=campaign, reviewer=person, ended_at=None)
    return list(reviews.select_related("revision__proposal").order_by("-lease_expires")[:MAX_LISTED])


def find_first_review(review: Review) -> Review | None:
    """Of a third person's review: the one that differs from the author."""
    if review.slot == FIRST:
        return None
    reviews = Review.objects.select_related("method")
    return reviews.filter(revision=review.revision, slot=FIRST, ended_at=None).first()


def list_answers(revision: ProposalRevision) -> list[Attempt]:
    """The answers to this text, for whoever judged it, in the order of the targets."""
    attempts = Attempt.objects.filter(
        revision__proposal=revision.proposal_id,
        revision__text=revision.text,
        state=Attempt.State.ANSWERED,
    )
    return list(attempts.select_related("target__model", "answer", "revision").order_by("target__place"))
