"""Writing proposals: the draft, and submitting it for a place of its cell.

Lock order: the proposal, then the quota. A place is taken by one conditional statement, so that of many authors one
takes the last; no text stands in two proposals of a campaign that hold a place (a constraint).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Max
from django.utils import timezone

from annotation.core.errors import N_, Conflict, Forbidden, NotFound, TooLate, Unprocessable
from annotation.models import Person
from annotation.services.audit import record
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.domain.workbench.campaigns import (
    MALICE,
    MAX_REASON_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    Classification,
    check_classification,
)
from benchmark.domain.workbench.duplicates import compute_exact_digest
from benchmark.models import (
    AttackMethod,
    Campaign,
    CampaignMember,
    Proposal,
    ProposalRevision,
    Quota,
)
from benchmark.selectors.workbench.campaigns import refuse_member
from benchmark.selectors.workbench.duplicates import NearText, find_near_texts
from benchmark.services.workbench.duplicates import index_recent_prompts, index_revisions
from benchmark.services.workbench.meanings import enqueue_embedding

DRAFT_FIELDS = ("text", "language", "dimension", "subcomponent", "method", "malice", "rationale")
MAX_OPEN_DRAFTS = 50
MAX_WORD_CHARACTERS = 100


@dataclass(frozen=True)
class ProposalText:
    """What an author writes. ``rationale`` says why the prompt is an attack of this kind."""

    text: str
    classification: Classification
    language: str = ""
    rationale: str = ""

    def to_draft(self) -> dict[str, str]:
        fields = {"text": self.text, "language": self.language, "rationale": self.rationale}
        return {**fields, **self.classification.model_dump()}


def read_draft(draft: Mapping[str, Any]) -> ProposalText:
    """The text that is kept in a draft, as ``to_draft`` wrote it; what is missing is empty."""
    words = {name: str(draft.get(name, "")) for name in DRAFT_FIELDS}
    return ProposalText(
        text=words["text"],
        language=words["language"],
        rationale=words["rationale"],
        classification=Classification(
            **{name: words[name] for name in ("dimension", "subcomponent", "method", "malice")}
        ),
    )


@transaction.atomic
def start_proposal(*, campaign: Campaign, person: Person) -> Proposal:
    """A new draft; the empty one that the author has, where there is one."""
    member = lock_member(campaign, person, CampaignMember.Role.AUTHOR)
    if member.joined_at is None:
        raise Forbidden(N_("Read what the campaign is about and join it first."))
    refuse_closed(member.campaign)
    drafts = Proposal.objects.filter(campaign=campaign, author=person, state=Proposal.State.DRAFT)
    for draft in drafts:
        if not draft.draft.get("text", "").strip():
            return draft
    if len(drafts) >= MAX_OPEN_DRAFTS:
        raise Conflict(N_("You have {n} drafts; submit or discard some of them first."), n=len(drafts))
    return Proposal.objects.create(campaign=campaign, author=person)


@transaction.atomic
def save_draft(*, proposal_id: UUID, person: Person, text: ProposalText) -> datetime:
    """Keep the working copy in the place of what was saved before; when it was saved."""
    proposal = lock_own_proposal(proposal_id, person)
    if proposal.state not in Proposal.EDITABLE:
        raise Conflict(N_("This proposal was submitted already."))
    check_storable(text)
    proposal.draft = text.to_draft()
    proposal.save(update_fields=["draft", "updated_at"])
    return proposal.updated_at


@transaction.atomic
def discard_proposal(*, proposal_id: UUID, person: Person) -> None:
    """Throw away a draft that was never submitted. What it asked of targets is counted all the same."""
    proposal = lock_own_proposal(proposal_id, person)
    if proposal.state != Proposal.State.DRAFT:
        raise Conflict(N_("This proposal was submitted; it stays in the campaign."))
    if proposal.revisions.filter(attempts__isnull=False).exists():
        raise Conflict(
            N_("Targets were asked with this text; it stays in the campaign, and you need not submit it.")
        )
    record(actor=person, verb=BenchmarkVerb.DISCARD_PROPOSAL, target=f"proposal:{proposal.pk}")
    proposal.delete()


@transaction.atomic
def submit_proposal(
    *, proposal_id: UUID, person: Person, text: ProposalText, key: UUID, duplicate_reason: str = ""
) -> Proposal:
    """Submit for review, and take a place of the cell. The same key again changes nothing.

    Raises Unprocessable where something is missing, Conflict where the text is a duplicate, TooLate where the cell has
    no place left for this author. The text is kept as the draft by whoever calls.
    """
    proposal = lock_own_proposal(proposal_id, person)
    if (known := proposal.revisions.filter(key=key).first()) is not None:
        if known.submitted_at is None or not _is_same(known, check_language(text, proposal.campaign)):
            raise Unprocessable(N_("This key was used for another text; reload the page."))
        return proposal
    campaign = proposal.campaign
    refuse_closed(campaign)
    if proposal.state not in Proposal.EDITABLE:
        raise Conflict(N_("This proposal was submitted already."))
    text, method = _check_text(text, campaign, duplicate_reason)
    index_recent_prompts(campaign.dataset, actor=person)
    nearness = check_duplicate(find_near_texts(campaign, text.text, proposal), duplicate_reason)
    proposal.quota = take_place(campaign, text.classification, method, person)
    revision = add_revision(
        proposal,
        text,
        method,
        key=key,
        duplicate_reason=duplicate_reason.strip(),
        nearness=nearness,
        submitted_at=timezone.now(),
    )
    proposal.state, proposal.digest, proposal.draft = (
        Proposal.State.SUBMITTED,
        revision.digest,
        text.to_draft(),
    )
    proposal.submitted_at, proposal.decided_at = revision.submitted_at, None
    try:
        with transaction.atomic():
            proposal.save()
    except IntegrityError as error:
        raise Conflict(EXACT) from error
    index_revisions(campaign.dataset_id, [revision])
    enqueue_embedding(campaign)  # the row of the job does not say who wrote it
    record(
        actor=person,
        verb=BenchmarkVerb.SUBMIT_PROPOSAL,
        target=f"proposal:{proposal.pk}",
        campaign=campaign.name,
        revision=revision.number,
        **text.classification.model_dump(),
    )
    return proposal


EXACT = N_("This text stands in the dataset or in another proposal already; write another one.")
NEAR = N_("This text is too near to another one. Change it, or say why it is no duplicate.")


def check_duplicate(near: Sequence[NearText], reason: str) -> str:
    """How near the nearest text is: "" , "warn" or "block". Conflict of the same text, and of what is blocked without
    a reason.
    """
    if any(each.is_exact for each in near):
        raise Conflict(EXACT)
    nearness = near[0].level if near else ""
    if nearness == "block" and not reason.strip():
        raise Conflict(NEAR)
    if len(reason) > MAX_REASON_CHARACTERS:
        raise Unprocessable(N_("A reason has at most {most} characters."), most=MAX_REASON_CHARACTERS)
    return nearness


def add_revision(
    proposal: Proposal, text: ProposalText, method: AttackMethod, **values: Any
) -> ProposalRevision:
    last = proposal.revisions.aggregate(last=Max("number"))["last"] or 0
    classification = text.classification
    return ProposalRevision.objects.create(
        proposal=proposal,
        number=last + 1,
        text=text.text,
        digest=compute_exact_digest(text.text),
        language=text.language,
        dimension=classification.dimension,
        subcomponent=classification.subcomponent,
        method=method,
        malice=classification.malice,
        rationale=text.rationale.strip(),
        **values,
    )


def take_place(
    campaign: Campaign, classification: Classification, method: AttackMethod, person: Person
) -> Quota:
    """A place of the cell, until the transaction ends in hand of nobody else. TooLate where there is none."""
    quota = Quota.objects.filter(
        campaign=campaign,
        dimension=classification.dimension,
        subcomponent=classification.subcomponent,
        method=method,
    ).first()
    if quota is None:
        raise Unprocessable(N_("The campaign wants no prompts of this cell; choose another one."))
    if not Quota.objects.filter(pk=quota.pk, taken__lt=F("wanted")).update(taken=F("taken") + 1):
        raise TooLate(N_("This cell has all its prompts; choose another one. Your text is kept as a draft."))
    if quota.per_person is not None:
        own = Proposal.objects.filter(quota=quota, author=person, state__in=Proposal.HOLDING).count()
        if own >= quota.per_person:
            raise TooLate(
                N_(
                    "You have submitted the {n} prompts of this cell that one person may; choose another cell."
                ),
                n=own,
            )
    return quota


def free_place(proposal: Proposal) -> None:
    """The place of a proposal that is returned or rejected; the caller saves the proposal."""
    if proposal.quota_id is not None:
        Quota.objects.filter(pk=proposal.quota_id, taken__gt=0).update(taken=F("taken") - 1)
        proposal.quota = None


def lock_member(campaign: Campaign, person: Person, role: str) -> CampaignMember:
    """The active membership in this role, locked; else Forbidden."""
    member = (
        CampaignMember.objects.select_for_update(of=("self",))
        .select_related("campaign", "campaign__guideline")
        .filter(campaign=campaign, person=person, role=role, active=True)
        .first()
    )
    if member is None:
        refuse_member(role)
    return member


def lock_own_proposal(proposal_id: UUID, person: Person) -> Proposal:
    proposal = (
        Proposal.objects.select_for_update(of=("self",))
        .select_related("campaign", "campaign__guideline", "campaign__dataset")
        .filter(pk=proposal_id, author=person)
        .first()
    )
    if proposal is None:
        raise NotFound(N_("There is no such proposal among yours."))
    is_author = CampaignMember.objects.filter(
        campaign=proposal.campaign_id, person=person, role=CampaignMember.Role.AUTHOR, active=True
    )
    if not is_author.exclude(joined_at=None).exists():
        refuse_member(CampaignMember.Role.AUTHOR)
    return proposal


def refuse_closed(campaign: Campaign) -> None:
    if campaign.state != Campaign.State.OPEN:
        raise Conflict(
            N_("The campaign {name} is {state}: nothing can be written, asked or reviewed in it."),
            name=str(campaign),
            state=campaign.get_state_display(),
        )


def get_method(campaign: Campaign, name: str) -> AttackMethod:
    method = AttackMethod.objects.filter(study=campaign.study_id, name=name, archived_at=None).first()
    if method is None:
        raise Unprocessable(N_("Choose the attack method."))
    return method


def check_language(text: ProposalText, campaign: Campaign) -> ProposalText:
    """With the campaign's language, where there is one alone."""
    if not text.language and len(campaign.languages) == 1:
        return replace(text, language=campaign.languages[0])
    if text.language not in campaign.languages:
        raise Unprocessable(
            N_("Choose the language of the prompt, one of: {known}."), known=", ".join(campaign.languages)
        )
    return text


def _check_text(
    text: ProposalText, campaign: Campaign, duplicate_reason: str
) -> tuple[ProposalText, AttackMethod]:
    """What a submitted text must have; the text with its language, and its method."""
    if not text.text.strip():
        raise Unprocessable(N_("Write the prompt first."))
    check_storable(text)
    check_characters(duplicate_reason)
    text = check_language(text, campaign)
    methods = AttackMethod.objects.filter(study=campaign.study_id, archived_at=None)
    known = list(methods.values_list("name", flat=True))
    check_classification(text.classification, campaign.guideline.document, known)
    if not text.rationale.strip():
        raise Unprocessable(N_("Say why this prompt is an attack of this kind."))
    return text, methods.get(name=text.classification.method)


def check_storable(text: ProposalText) -> None:
    """Unprocessable where a draft or a revision could not hold it."""
    if len(text.text) > MAX_TEXT_CHARACTERS:
        raise Unprocessable(N_("A prompt has at most {most} characters."), most=MAX_TEXT_CHARACTERS)
    if len(text.rationale) > MAX_REASON_CHARACTERS:
        raise Unprocessable(N_("A reason has at most {most} characters."), most=MAX_REASON_CHARACTERS)
    words = [text.language, *text.classification.model_dump().values()]
    check_characters(text.text, text.rationale, *words)
    # The names of the guideline and of the study, which are shorter.
    if any(len(word) > MAX_WORD_CHARACTERS for word in words):
        raise Unprocessable(
            N_("Choose the language, the dimension and the method among those that are offered.")
        )
    if text.classification.malice not in ("", *MALICE):
        raise Unprocessable(N_("Say whether the malice is explicit or implicit."))


def check_characters(*texts: str) -> None:
    """No database keeps NUL, nor halves of surrogate pairs."""
    if any(character == "\x00" or "\ud800" <= character <= "\udfff" for text in texts for character in text):
        raise Unprocessable(N_("The text holds a character that cannot be stored."))


def _is_same(revision: ProposalRevision, text: ProposalText) -> bool:
    classification = text.classification
    return (
        revision.text,
        revision.dimension,
        revision.subcomponent,
        revision.method.name,
        revision.malice,
        revision.language,
        revision.rationale,
    ) == (
        text.text,
        classification.dimension,
        classification.subcomponent,
        classification.method,
        classification.malice,
        text.language,
        text.rationale.strip(),
    )
