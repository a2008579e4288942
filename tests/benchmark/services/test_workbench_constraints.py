"""What never breaks of a campaign, attacked below the services: each constraint refuses by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils.timezone import now

from annotation.models import EvaluatedModel
from benchmark.models import (
    AttackMethod,
    Attempt,
    AttemptAnswer,
    Proposal,
    ProposalRevision,
    Quota,
    Review,
    TextBand,
    TextEmbedding,
    texts,
    workbench,
)
from tests.annotation.services.test_constraints import changed, copied
from tests.benchmark.workbench import TOXIC, invent_text, make_campaign, review, submit
from tests.support import person

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture(scope="module")
def attacks(module_db: None) -> dict[str, Callable[[], Any]]:
    """What each constraint refuses; made once, as every attack is undone."""
    campaign = make_campaign(max_requests=5)
    lin, chen, zhou, wu = (person(name) for name in ("lin", "chen", "zhou", "wu"))
    submit(campaign, lin, invent_text(0))
    accepted = review(campaign, zhou, TOXIC, "accept")
    waiting = submit(campaign, lin, invent_text(1))
    revision = waiting.revisions.get()
    target = campaign.campaigntargets.get(place=1)
    attempt = Attempt.objects.create(revision=revision, target=target, asked_at=now())
    claimed = {
        "revision": revision,
        "author": lin,
        "lease_expires": now() + timedelta(hours=1),
    }
    open_review = Review.objects.create(**claimed, slot=1, reviewer=zhou)
    band = TextBand.objects.filter(revision=revision)[0]
    values = {"dataset": campaign.dataset, "encoder": "0" * 64, "vector": b""}
    of_revision = TextEmbedding.objects.create(**values, revision=revision)
    of_prompt = TextEmbedding.objects.create(**values, prompt=accepted.prompt)
    return {
        "attack_method_once_per_study": copied(AttackMethod.objects.all()[0]),
        "campaign_name_once_per_study": copied(campaign),
        "campaign_thresholds_in_order": changed(campaign, warn_edit=0.95),
        "campaign_cosine_in_range": changed(campaign, warn_cosine=1.01),
        "campaign_within_its_budget": changed(campaign, requests_used=6),
        "campaign_target_once_per_place": copied(
            target, model_id=EvaluatedModel.objects.create(name="Another-1B").pk
        ),
        "campaign_target_once_per_model": copied(target, place=3),
        "campaign_target_place_in_range": changed(target, place=6),
        "quota_once_per_cell": copied(Quota.objects.all()[0]),
        "campaign_member_once_per_role": copied(campaign.campaignmembers.get(person=lin)),
        "proposal_text_once_per_campaign": _propose_again(waiting, chen),
        "proposal_is_a_prompt_once_accepted": changed(accepted, state="rejected"),
        "proposal_revision_once": copied(revision, key=uuid4()),
        "proposal_revision_once_per_key": copied(revision, number=2),
        "attempt_once_per_target": lambda: Attempt.objects.create(
            revision=revision, target=target, asked_at=now()
        ),
        "attempt_answered_before_its_levels": changed(attempt, levels={"fairness": 1}),
        "review_once_per_slot": lambda: Review.objects.create(**claimed, slot=1, reviewer=wu),
        "review_once_per_reviewer": lambda: Review.objects.create(**claimed, slot=2, reviewer=zhou),
        "review_slot_in_range": lambda: Review.objects.create(**claimed, slot=3, reviewer=wu),
        "review_never_by_the_author": lambda: Review.objects.create(**claimed, slot=2, reviewer=lin),
        "review_judged_before_decided": changed(open_review, decision="accept"),
        "text_band_of_one_text": changed(band, prompt=accepted.prompt),
        "text_embedding_of_one_text": changed(of_revision, prompt=accepted.prompt, encoder="1" * 64),
        "text_embedding_once_per_prompt": copied(of_prompt),
        "text_embedding_once_per_revision": copied(of_revision),
    }


def _propose_again(proposal: Proposal, author: Any) -> Callable[[], Any]:
    return lambda: Proposal.objects.create(
        campaign=proposal.campaign, author=author, state="submitted", digest=proposal.digest
    )


def constraints() -> list[str]:
    """Of the tables of campaigns, but for what Django makes of a field by itself."""
    models = [
        value
        for module in (texts, workbench)
        for value in vars(module).values()
        if isinstance(value, type) and getattr(value, "__module__", "") == module.__name__
    ]
    return sorted(
        constraint.name
        for model in models
        if hasattr(model, "_meta") and not model._meta.abstract
        for constraint in model._meta.constraints
    )


@pytest.mark.parametrize("name", constraints())
def test_the_database_refuses(attacks: dict[str, Callable[[], Any]], name: str) -> None:
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        attacks[name]()
    if connection.vendor == "postgresql":  # SQLite names the columns
        assert name in str(refusal.value)


def test_every_attack_is_of_a_constraint(attacks: dict[str, Callable[[], Any]]) -> None:
    assert sorted(attacks) == constraints()


def test_an_answer_and_a_prompt_are_of_one_attempt_and_one_proposal(
    attacks: dict[str, Callable[[], Any]],
) -> None:
    attempt = Attempt.objects.get()
    values = {"seconds": 1, "attempts": 1, "answered_at": now()}
    AttemptAnswer.objects.create(attempt=attempt, text="a", **values)
    with pytest.raises(IntegrityError), transaction.atomic():
        AttemptAnswer.objects.create(attempt=attempt, text="b", **values)
    accepted = Proposal.objects.get(state="accepted")
    with pytest.raises(IntegrityError), transaction.atomic():
        copied(accepted, digest="x")()
    assert ProposalRevision.objects.count() == 2
