"""A campaign for the tests: the Flames guideline, the dataset ``attacks``, two targets, two authors (``lin`` and
``chen``) and two reviewers (``zhou`` and ``wu``).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from annotation.models import Dataset, Job, Person, Prompt
from annotation.services import jobs
from annotation.services.studies import find_or_make_study
from benchmark.domain.workbench.campaigns import CampaignSpec, Classification, QuotaSpec, TargetSpec
from benchmark.models import (
    Attempt,
    Campaign,
    CampaignMember,
    Proposal,
    ProposalRevision,
    Quota,
    Review,
    TextBand,
)
from benchmark.models.workbench import FIRST, SECOND
from benchmark.services.workbench.attempts import ask_targets
from benchmark.services.workbench.campaigns import create_campaign, join_campaign, set_state
from benchmark.services.workbench.proposals import ProposalText, start_proposal, submit_proposal
from benchmark.services.workbench.reviews import claim_review, decide_proposal, judge_proposal
from tests.support import FLAMES_GUIDELINE, add_role, person

NOWHERE = "http://127.0.0.1:9/v1"
AUTHORS, REVIEWERS = ("lin", "chen"), ("zhou", "wu")
SUCCESS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("fairness", "safety", "morality"), (1, 2)),
    **dict.fromkeys(("legality", "data_protection"), (1,)),
}
TOXIC = Classification(
    dimension="Fairness", subcomponent="Toxic language", method="disguise", malice="implicit"
)
DRINKS = Classification(
    dimension="Morality", subcomponent="Disobey social norm", method="unsafe_inquiry", malice="explicit"
)


def make_campaign(
    *,
    name: str = "attacks",
    targets: Mapping[str, str] | None = None,
    size: int = 5,
    per_person: int | None = None,
    authors: Sequence[Person] | None = None,
    reviewers: Sequence[Person] | None = None,
    **values: Any,
) -> Campaign:
    """An open campaign, which its authors have joined. ``targets`` are the addresses of endpoints by model."""
    guideline = FLAMES_GUIDELINE.load()
    dataset = Dataset.objects.filter(name="attacks").first() or Dataset.objects.create(
        study=find_or_make_study(), name="attacks"
    )
    authors = [person(each) for each in AUTHORS] if authors is None else authors
    reviewers = [person(each) for each in REVIEWERS] if reviewers is None else reviewers
    for each in [*authors, *reviewers]:
        if not each.study_memberships.filter(role__in=("annotator", "adjudicator")).exists():
            add_role(each, "annotator")
    campaign = create_campaign(
        CampaignSpec(
            name=name,
            dataset=dataset.pk,
            guideline=guideline.pk,
            targets=tuple(
                TargetSpec(model=model, endpoint=url, timeout=5)
                for model, url in (targets or {"Secretive-7B": NOWHERE, "Hidden-13B": NOWHERE}).items()
            ),
            quotas=tuple(
                QuotaSpec(
                    **{name: getattr(cell, name) for name in ("dimension", "subcomponent", "method")},
                    wanted=size,
                    per_person=per_person,
                )
                for cell in (TOXIC, DRINKS)
            ),
            success=SUCCESS,
            authors=tuple(each.pk for each in authors),
            reviewers=tuple(each.pk for each in reviewers),
            **values,
        ),
        actor=person("ma"),
        send=False,
    )
    jobs.run_now(Job.objects.get(kind="index_texts", payload__dataset=dataset.pk, state="queued"))
    for each in authors:
        join_campaign(campaign=campaign, person=each)
    return set_state(campaign=campaign, state="open", actor=person("ma"))


def write(text: str, classification: Classification = TOXIC) -> ProposalText:
    return ProposalText(text=text, classification=classification, rationale="It hides what it is after.")


def submit(
    campaign: Campaign, author: Person, text: str, classification: Classification = TOXIC, **values: Any
) -> Proposal:
    """A new proposal with this text, submitted."""
    proposal = start_proposal(campaign=campaign, person=author)
    return submit_proposal(
        proposal_id=proposal.pk,
        person=author,
        text=write(text, classification),
        key=values.pop("key", uuid4()),
        **values,
    )


def ask(proposal: Proposal, text: ProposalText, places: Sequence[int] = (1, 2)) -> list[Attempt]:
    """Ask these targets, and do the jobs here."""
    attempts = ask_targets(
        proposal_id=proposal.pk, person=proposal.author, text=text, places=places, send=False
    )
    for attempt in attempts:
        if attempt.job is not None:
            jobs.run(attempt.job.pk)
    return list(Attempt.objects.filter(pk__in=[attempt.pk for attempt in attempts]).order_by("target__place"))


def review(
    campaign: Campaign, reviewer: Person, classification: Classification, decision: str, reason: str = ""
) -> Proposal:
    """Claim the oldest proposal, judge it, and decide."""
    claimed = claim_review(campaign=campaign, person=reviewer)
    assert claimed is not None, "nothing waits for this reviewer"
    judge_proposal(review_id=claimed.pk, person=reviewer, classification=classification)
    return decide_proposal(review_id=claimed.pk, person=reviewer, decision=decision, reason=reason)


def invent_text(number: int) -> str:
    """A text that is like no other one."""
    return hashlib.sha256(str(number).encode()).hexdigest()


def check_campaigns() -> None:
    """Assert what never breaks of all campaigns, worked out from the rows by none of the product's rules."""
    proposals = list(Proposal.objects.select_related("prompt", "quota__method"))
    revisions: dict[Any, list[ProposalRevision]] = {proposal.pk: [] for proposal in proposals}
    for revision in ProposalRevision.objects.order_by("number"):
        revisions[revision.proposal_id].append(revision)
    _check_proposals(proposals, revisions)
    _check_reviews(proposals, revisions)
    _check_places(proposals)
    _check_budgets()


def _check_proposals(proposals: Sequence[Proposal], revisions: Mapping[Any, list[ProposalRevision]]) -> None:
    banded = set(TextBand.objects.exclude(revision=None).values_list("revision", flat=True))
    for proposal in proposals:
        submitted = [each for each in revisions[proposal.pk] if each.submitted_at is not None]
        assert [each.number for each in revisions[proposal.pk]] == list(
            range(1, len(revisions[proposal.pk]) + 1)
        )
        assert (proposal.state == "draft") == (not submitted)
        assert (proposal.state == "accepted") == (proposal.prompt is not None)
        if proposal.prompt is not None:
            assert proposal.prompt.text == submitted[-1].text
            assert proposal.prompt.language == submitted[-1].language != ""
        assert {each.pk for each in submitted} & banded == (
            set() if proposal.state == "accepted" else {each.pk for each in submitted}
        )
        if proposal.state in {"submitted", "disputed", "accepted"}:
            assert proposal.digest == submitted[-1].digest
    held = [
        (each.campaign_id, each.digest)
        for each in proposals
        if each.state in {"submitted", "disputed", "accepted"}
    ]
    assert len(held) == len(set(held))
    texts = Counter(Prompt.objects.values_list("dataset", "text"))
    assert not texts or max(texts.values()) == 1
    assert (
        not Prompt.objects.exclude(pk__in=TextBand.objects.exclude(prompt=None).values("prompt"))
        .filter(proposal__isnull=False)
        .exists()
    )


def _check_reviews(proposals: Sequence[Proposal], revisions: Mapping[Any, list[ProposalRevision]]) -> None:
    reviews: dict[tuple[int, int], Review] = {}
    judged: set[tuple[int, int]] = set()
    for review in Review.objects.select_related("revision__proposal", "revision__method", "method"):
        assert (review.revision_id, review.reviewer_id) not in judged
        judged.add((review.revision_id, review.reviewer_id))
        if review.ended_at is not None:
            assert review.judged_at is not None
            assert review.decision == ""
            continue
        assert review.reviewer_id != review.author_id == review.revision.proposal.author_id
        assert (review.revision_id, review.slot) not in reviews
        assert review.decision == "" or review.judged_at is not None
        assert review.decision in {"", "accept"} or review.reason
        reviews[review.revision_id, review.slot] = review
    for proposal in proposals:
        submitted = [each for each in revisions[proposal.pk] if each.submitted_at is not None]
        if not submitted:
            continue
        first, second = (reviews.get((submitted[-1].pk, slot)) for slot in (FIRST, SECOND))
        decided = {
            slot: each.decision for slot, each in ((FIRST, first), (SECOND, second)) if each and each.decision
        }
        differs = (
            first is not None and first.judged_at is not None and _classify(first) != _classify(submitted[-1])
        )
        expected = {"accept": "accepted", "return": "returned", "reject": "rejected"}
        if SECOND in decided:
            assert differs
            assert first is not None
            assert second is not None
            assert first.reviewer_id != second.reviewer_id
            assert proposal.state == expected[decided[SECOND]]
        elif FIRST in decided:
            is_disputed = differs and decided[FIRST] != "return"
            assert proposal.state == ("disputed" if is_disputed else expected[decided[FIRST]])
        else:
            assert proposal.state == "submitted"


def _classify(row: Review | ProposalRevision) -> tuple[Any, ...]:
    return row.dimension, row.subcomponent, row.method_id, row.malice


def _check_places(proposals: Sequence[Proposal]) -> None:
    held = Counter(proposal.quota_id for proposal in proposals)
    for proposal in proposals:
        if proposal.state in {"draft", "returned", "rejected"}:
            assert proposal.quota is None
        elif proposal.prompt is not None and proposal.quota is not None:
            cell = proposal.quota.dimension, proposal.quota.subcomponent, proposal.quota.method.name
            prompt = proposal.prompt
            assert cell == (prompt.dimension, prompt.subcomponent, prompt.attack_method)
    assert dict(Quota.objects.values_list("pk", "taken")) == {
        pk: held[pk] for pk in Quota.objects.values_list("pk", flat=True)
    }


def _check_budgets() -> None:
    """Every answer and every request under way is charged once, and nothing else."""
    charged = Attempt.objects.filter(state__in=["asked", "answered"])
    by_campaign = Counter(charged.values_list("revision__proposal__campaign", flat=True))
    by_author = Counter(charged.values_list("revision__proposal__campaign", "revision__proposal__author"))
    for campaign in Campaign.objects.all():
        assert campaign.requests_used == by_campaign[campaign.pk]
        assert campaign.max_requests is None or campaign.requests_used <= campaign.max_requests
        for member in CampaignMember.objects.filter(campaign=campaign, role="author"):
            assert member.requests_used == by_author[campaign.pk, member.person_id]
            limit = campaign.requests_per_person
            assert limit is None or member.requests_used <= limit
    assert set(Attempt.objects.filter(answer__isnull=False).values_list("state", flat=True)) <= {"answered"}
    assert not Attempt.objects.filter(state="answered", answer__isnull=True).exists()
