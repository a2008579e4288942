"""Campaigns: who may open which, what is hidden from whom, and which cells are still wanted.

What is blind: an author or a reviewer of a blind campaign knows its targets by letters alone until it closes, whatever
else they are; and who reviews in a campaign reads nobody's name in it until it closes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from django.db.models import Count, Q, QuerySet

from annotation.core.errors import N_, Forbidden, NotFound
from annotation.domain.permissions import READ_CAMPAIGNS
from annotation.models import Person, Task
from annotation.selectors.access import may, sealed_batches
from benchmark.models import (
    AttackMethod,
    Campaign,
    CampaignMember,
    CampaignTarget,
    Proposal,
    Quota,
)


def list_open_campaigns(person: Person) -> QuerySet[Campaign]:
    """The campaigns that the person may open: all for whoever reads them, else those of which they are a member."""
    campaigns = Campaign.objects.select_related("dataset", "guideline")
    if may(person, READ_CAMPAIGNS):
        return campaigns
    return campaigns.filter(
        pk__in=CampaignMember.objects.filter(person=person, active=True).values("campaign")
    )


def get_campaign(person: Person, name: str) -> Campaign:
    campaign = list_open_campaigns(person).filter(name=name).first()
    if campaign is None:
        raise NotFound(N_("There is no campaign named {name}."), name=name)
    return campaign


def find_member(campaign: Campaign, person: Person, role: str) -> CampaignMember | None:
    return CampaignMember.objects.filter(campaign=campaign, person=person, role=role, active=True).first()


WITHOUT_ROLE = {
    CampaignMember.Role.AUTHOR: N_(
        "You are not among the authors of this campaign, or no longer. Ask a manager."
    ),
    CampaignMember.Role.REVIEWER: N_(
        "You are not among the reviewers of this campaign, or no longer. Ask a manager."
    ),
}


def get_member(campaign: Campaign, person: Person, role: str) -> CampaignMember:
    """Forbidden to whoever has not this role in the campaign."""
    member = find_member(campaign, person, role)
    if member is None:
        refuse_member(role)
    return member


def refuse_member(role: str) -> NoReturn:
    raise Forbidden(WITHOUT_ROLE[CampaignMember.Role(role)])


def hides_targets(campaign: Campaign, person: Person) -> bool:
    """Whether the person knows the targets by letters alone: a member of a blind campaign that is not closed, and who
    ``judges_targets``.
    """
    if judges_targets(campaign, person):
        return True
    if not campaign.is_blind or campaign.state == Campaign.State.CLOSED:
        return False
    return CampaignMember.objects.filter(campaign=campaign, person=person).exists()


def judges_targets(campaign: Campaign, person: Person) -> bool:
    """Whether the person judges responses of these models, or to the dataset's prompts, blind now."""
    of_targets = Q(response__model__in=campaign.campaigntargets.values("model"))
    of_dataset = Q(response__prompt__dataset=campaign.dataset_id)
    return Task.objects.filter(of_targets | of_dataset, batch__in=sealed_batches(person)).exists()


def hides_authors(campaign: Campaign, person: Person) -> bool:
    """Whether the person must not learn who wrote what: they review, or reviewed, in a campaign that is not closed."""
    if campaign.state == Campaign.State.CLOSED:
        return False
    return CampaignMember.objects.filter(
        campaign=campaign, person=person, role=CampaignMember.Role.REVIEWER
    ).exists()


def list_targets(campaign: Campaign) -> list[CampaignTarget]:
    return list(campaign.campaigntargets.select_related("model").order_by("place"))


def list_methods(campaign: Campaign) -> list[AttackMethod]:
    """The methods that are offered, and those archived that the campaign's quotas name."""
    named = Quota.objects.filter(campaign=campaign).values("method")
    return list(
        AttackMethod.objects.filter(
            Q(study=campaign.study_id, archived_at=None) | Q(study=campaign.study_id, pk__in=named)
        )
    )


@dataclass(frozen=True)
class OpenCell:
    """A cell for an author: ``left`` are the places that it has, ``own_left`` those that they may still take."""

    quota: Quota
    left: int
    own_left: int
    opted_out: bool

    @property
    def is_open(self) -> bool:
        return self.own_left > 0 and not self.opted_out

    @property
    def key(self) -> str:
        return str(self.quota.pk)


def list_cells(campaign: Campaign, person: Person) -> list[OpenCell]:
    """Every cell, with what is left of it for the person."""
    held = Count(
        "proposals", filter=Q(proposals__author=person, proposals__state__in=Proposal.HOLDING), distinct=True
    )
    cells = []
    for quota in Quota.objects.filter(campaign=campaign).select_related("method").annotate(held=held):
        left = max(0, quota.wanted - quota.taken)
        own = left if quota.per_person is None else min(left, max(0, quota.per_person - quota.held))
        cells.append(OpenCell(quota, left, own, quota.dimension in person.opted_out))
    return cells


@dataclass(frozen=True)
class Budget:
    """The requests of a person, and of the campaign, that are left; None without a limit."""

    used: int
    own_left: int | None
    left: int | None

    @property
    def least(self) -> int | None:
        known = [number for number in (self.own_left, self.left) if number is not None]
        return min(known) if known else None


def read_budget(campaign: Campaign, member: CampaignMember) -> Budget:
    own, limit = campaign.requests_per_person, campaign.max_requests
    return Budget(
        member.requests_used,
        None if own is None else max(0, own - member.requests_used),
        None if limit is None else max(0, limit - campaign.requests_used),
    )
