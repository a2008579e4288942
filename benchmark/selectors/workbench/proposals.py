"""Proposals with what was submitted of them, and the answers of targets to the prompts that they became."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmark.models import Attempt, Campaign, Proposal, ProposalRevision, Review


@dataclass(frozen=True)
class SubmittedProposal:
    """A proposal with its last submitted revision, None of a draft, and the decided reviews of that one."""

    proposal: Proposal
    revision: ProposalRevision | None
    reviews: tuple[Review, ...]


def read_submitted(proposals: Sequence[Proposal]) -> list[SubmittedProposal]:
    """In the order given; two queries, however many they are."""
    revisions = {
        revision.proposal_id: revision
        for revision in ProposalRevision.objects.select_related("method")
        .filter(proposal__in=proposals, submitted_at__isnull=False)
        .order_by("number")
    }
    reviews: dict[int, list[Review]] = {revision.pk: [] for revision in revisions.values()}
    decided = Review.objects.filter(revision__in=list(reviews)).exclude(decision="")
    for review in decided.select_related("reviewer", "method").order_by("slot"):
        reviews[review.revision_id].append(review)
    return [
        SubmittedProposal(proposal, revision, tuple(reviews[revision.pk]) if revision else ())
        for proposal in proposals
        for revision in [revisions.get(proposal.pk)]
    ]


def iterate_accepted_answers(campaign: Campaign) -> Iterator[Attempt]:
    """The answers to the prompts of the campaign, with these, each target once: the attempt may be on an earlier
    revision with the same text.
    """
    attempts = (
        Attempt.objects.filter(
            revision__proposal__campaign=campaign,
            revision__proposal__state=Proposal.State.ACCEPTED,
            state=Attempt.State.ANSWERED,
        )
        .select_related("answer", "target", "revision__proposal__prompt")
        .order_by("revision__proposal", "-revision__number")
    )
    seen: set[tuple[int, int]] = set()
    for attempt in attempts.iterator():
        prompt = attempt.revision.proposal.prompt
        if prompt is None or prompt.text != attempt.revision.text or (prompt.pk, attempt.target_id) in seen:
            continue
        seen.add((prompt.pk, attempt.target_id))
        yield attempt
