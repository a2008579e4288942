"""Reviewing proposals: claiming the oldest, the reviewer's own classification, and the decision.

Whoever decides holds the proposal's row, so that of two decisions one counts. A claim that ran out goes to another
reviewer; what its reviewer had judged by then is kept.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from annotation.core.errors import N_, Conflict, NotFound, TooLate, Unprocessable
from annotation.core.sql import execute
from annotation.domain.datasets import prompt_key
from annotation.models import Person, Prompt
from annotation.models.sql.counts import add_exposure
from annotation.services.audit import record
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.domain.workbench.campaigns import MAX_REASON_CHARACTERS, Classification, check_classification
from benchmark.domain.workbench.duplicates import compute_bands
from benchmark.models import (
    AttackMethod,
    Campaign,
    CampaignMember,
    Proposal,
    ProposalRevision,
    Quota,
    Review,
    TextBand,
)
from benchmark.models.workbench import FIRST, SECOND
from benchmark.selectors.workbench.reviews import (
    classify_review,
    classify_revision,
    list_claimable,
)
from benchmark.services.workbench.duplicates import forget_revisions
from benchmark.services.workbench.proposals import check_characters, free_place, lock_member, refuse_closed

LEASE = timedelta(hours=1)
Decision = Review.Decision


@transaction.atomic
def claim_review(*, campaign: Campaign, person: Person) -> Review | None:
    """The reviewer's open review, else a claim on the oldest proposal that waits for one; None where none does."""
    campaign = lock_member(campaign, person, CampaignMember.Role.REVIEWER).campaign
    refuse_closed(campaign)
    now = timezone.now()
    own = Review.objects.filter(
        revision__proposal__campaign=campaign,
        reviewer=person,
        decision="",
        lease_expires__gt=now,
        ended_at=None,
    ).first()
    if own is not None:
        return own
    for revision, slot in list_claimable(campaign, person, now):
        if (own := _renew_claim(revision, slot, person)) is not None:
            return own
        _expire_claims(revision, slot)
        try:
            with transaction.atomic():
                return Review.objects.create(
                    revision=revision,
                    slot=slot,
                    reviewer=person,
                    author_id=revision.proposal.author_id,
                    lease_expires=now + LEASE,
                )
        except IntegrityError:
            continue  # another reviewer was faster
    return None


def _renew_claim(revision: ProposalRevision, slot: int, person: Person) -> Review | None:
    """The person's own claim that ran out after they had judged: they know what the author says, so they decide."""
    review = (
        Review.objects.select_for_update(of=("self",))
        .filter(
            revision=revision,
            slot=slot,
            reviewer=person,
            decision="",
            judged_at__isnull=False,
            ended_at=None,
        )
        .first()
    )
    if review is not None:
        review.lease_expires = timezone.now() + LEASE
        review.save(update_fields=["lease_expires"])
    return review


def _expire_claims(revision: ProposalRevision, slot: int) -> None:
    expired = Review.objects.filter(
        revision=revision, slot=slot, decision="", lease_expires__lte=timezone.now(), ended_at=None
    )
    for review in expired.select_for_update(of=("self",), skip_locked=True).select_related("reviewer"):
        _end_claim(review, BenchmarkVerb.EXPIRE_REVIEW, None)


@transaction.atomic
def release_review(*, review_id: UUID, person: Person) -> None:
    """Give a claim back, for another reviewer."""
    review = _lock_own_review(review_id, person)
    if review.decision:
        raise Conflict(N_("You decided this proposal already."))
    _end_claim(review, BenchmarkVerb.RELEASE_REVIEW, person)


def _end_claim(review: Review, verb: BenchmarkVerb, actor: Person | None) -> None:
    """Free the slot. A judgement stays: its reviewer may not claim this revision again (a constraint)."""
    record(
        actor=actor,
        verb=verb,
        target=f"proposal:{review.revision.proposal_id}",
        reviewer=review.reviewer.username,
        slot=review.slot,
    )
    if review.judged_at is None:
        review.delete()
    else:
        review.ended_at = timezone.now()
        review.save(update_fields=["ended_at"])


@transaction.atomic
def judge_proposal(*, review_id: UUID, person: Person, classification: Classification) -> Review:
    """The reviewer's own classification, after which the author's is shown. Given once; the same again is the same."""
    review = _lock_own_review(review_id, person)
    campaign = review.revision.proposal.campaign
    refuse_closed(campaign)
    if review.judged_at is not None:
        if classify_review(review) != classification:
            raise Conflict(N_("You judged this proposal already; your judgement stays as you gave it first."))
        return review
    _refuse_expired(review)
    check_classification(classification, campaign.guideline.document, _list_methods(campaign))
    review.dimension, review.subcomponent = classification.dimension, classification.subcomponent
    # An archived one too: the proposal may have been written before.
    review.method = AttackMethod.objects.get(study=campaign.study_id, name=classification.method)
    review.malice = classification.malice
    review.judged_at = timezone.now()
    review.lease_expires = review.judged_at + LEASE
    review.save()
    execute(*add_exposure(person.pk, campaign.guideline.document.severity_of(review.revision.dimension)))
    return review


@transaction.atomic
def decide_proposal(
    *,
    review_id: UUID,
    person: Person,
    decision: str,
    reason: str = "",
    final: Classification | None = None,
) -> Proposal:
    """Accept, return or reject. The same decision again changes nothing.

    Where the reviewer's classification differs from the author's, an acceptance or a rejection goes to a third person,
    whose ``final`` classification holds (their own, unless they say otherwise). What is returned goes to the author.
    """
    review = _lock_own_review(review_id, person)
    proposal = Proposal.objects.select_for_update(of=("self",)).get(pk=review.revision.proposal_id)
    campaign = review.revision.proposal.campaign
    reason = reason.strip()
    if review.decision:
        if (review.decision, review.reason) != (decision, reason):
            raise Conflict(N_("You decided this proposal already."))
        return proposal
    refuse_closed(campaign)
    _refuse_expired(review)
    _check_decision(review, proposal, decision, reason)
    own = classify_review(review)
    stated = classify_revision(review.revision)
    differs = bool(own.list_differences(stated))
    settled = stated
    if review.slot == SECOND:
        settled = check_classification(final or own, campaign.guideline.document, _list_methods(campaign))
    review.decision, review.reason, review.decided_at = decision, reason, timezone.now()
    review.save(update_fields=["decision", "reason", "decided_at"])
    if review.slot == FIRST and differs and decision != Decision.RETURN:
        proposal.state = Proposal.State.DISPUTED
    elif decision == Decision.ACCEPT:
        _accept(proposal, review.revision, campaign, settled)
    else:
        _send_back(proposal, decision)
    proposal.save()
    record(
        actor=person,
        verb=BenchmarkVerb.REVIEW_PROPOSAL,
        target=f"proposal:{proposal.pk}",
        campaign=campaign.name,
        slot=review.slot,
        decision=decision,
        state=proposal.state,
        final=settled.model_dump() if proposal.state == Proposal.State.ACCEPTED else None,
    )
    return proposal


def _check_decision(review: Review, proposal: Proposal, decision: str, reason: str) -> None:
    if review.judged_at is None:
        raise Conflict(N_("Judge the proposal first; then the author's words are shown, and you decide."))
    if decision not in Decision.values:
        raise Unprocessable(N_("Accept, return or reject the proposal."))
    if decision != Decision.ACCEPT and not reason:
        raise Unprocessable(N_("Say why, for the author."))
    if len(reason) > MAX_REASON_CHARACTERS:
        raise Unprocessable(N_("A reason has at most {most} characters."), most=MAX_REASON_CHARACTERS)
    check_characters(reason)
    awaited = Proposal.State.SUBMITTED if review.slot == FIRST else Proposal.State.DISPUTED
    if proposal.state != awaited:
        raise TooLate(N_("This proposal was decided meanwhile."))


def _accept(
    proposal: Proposal, revision: ProposalRevision, campaign: Campaign, final: Classification
) -> None:
    """Write the prompt into the dataset, once."""
    _move_place(proposal, campaign, final)
    try:
        with transaction.atomic():
            proposal.prompt = create_prompt(campaign, revision.text, revision.language, final)
    except IntegrityError as error:
        raise Conflict(
            N_("The dataset has this prompt meanwhile ({id}); return or reject the proposal."),
            id=prompt_key(revision.text),
        ) from error
    proposal.state, proposal.decided_at = Proposal.State.ACCEPTED, timezone.now()
    forget_revisions(proposal.revisions.values_list("pk", flat=True))


def create_prompt(campaign: Campaign, text: str, language: str, final: Classification) -> Prompt:
    """The prompt with the bands of its text; IntegrityError where the dataset has it."""
    prompt = Prompt.objects.create(
        dataset_id=campaign.dataset_id,
        key=prompt_key(text),
        text=text,
        dimension=final.dimension,
        subcomponent=final.subcomponent,
        language=language,
        attack_method=final.method,
        malice=final.malice,
        source=campaign.name,
    )
    # Whoever indexes the dataset at the same time stores them too: a row more does no harm.
    TextBand.objects.bulk_create(
        TextBand(dataset_id=campaign.dataset_id, band=band, prompt=prompt) for band in compute_bands(text)
    )
    return prompt


def _move_place(proposal: Proposal, campaign: Campaign, final: Classification) -> None:
    """Into the cell of the final classification, also where that is full: a good prompt is not lost to a quota."""
    cell = Quota.objects.filter(
        campaign=campaign,
        dimension=final.dimension,
        subcomponent=final.subcomponent,
        method__name=final.method,
    ).first()
    if cell is None or cell.pk == proposal.quota_id:
        if cell is None:
            free_place(proposal)
        return
    # Both rows in the order of their ids: another proposal may move the other way.
    both = Quota.objects.filter(pk__in=[cell.pk, proposal.quota_id])
    list(both.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    free_place(proposal)
    Quota.objects.filter(pk=cell.pk).update(taken=F("taken") + 1)
    proposal.quota = cell


def _send_back(proposal: Proposal, decision: str) -> None:
    free_place(proposal)
    is_returned = decision == Decision.RETURN
    proposal.state = Proposal.State.RETURNED if is_returned else Proposal.State.REJECTED
    proposal.digest, proposal.decided_at = "", timezone.now()


def _refuse_expired(review: Review) -> None:
    if review.lease_expires <= timezone.now():
        raise TooLate(N_("Your claim on this proposal has run out; take the next one."))


def _list_methods(campaign: Campaign) -> list[str]:
    return list(AttackMethod.objects.filter(study=campaign.study_id).values_list("name", flat=True))


def _lock_own_review(review_id: UUID, person: Person) -> Review:
    review = (
        Review.objects.select_for_update(of=("self",))
        # Not the review's own method: it is null in the row that was found, where another window judges meanwhile.
        .select_related("reviewer", "revision__method", "revision__proposal__campaign__guideline")
        .filter(pk=review_id, reviewer=person, ended_at=None)
        .first()
    )
    if review is None:
        raise NotFound(N_("There is no such review among yours, or your claim has run out."))
    lock_member(review.revision.proposal.campaign, person, CampaignMember.Role.REVIEWER)
    return review
