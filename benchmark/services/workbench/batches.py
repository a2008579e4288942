"""From accepted prompts to gold: the answers become responses, and an ordinary batch settles what succeeded."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict
from annotation.domain.batch_spec import USUAL_POLICY, BatchSpec, Policy
from annotation.domain.datasets import response_sha256
from annotation.models import Batch, Person, Response, ResultOpening
from annotation.selectors.access import sealed_batches
from annotation.services.audit import record
from annotation.services.batches.batches import create_batch
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.models import Campaign, CampaignMember
from benchmark.selectors.workbench.proposals import iterate_accepted_answers
from benchmark.selectors.workbench.report import list_campaign_batches


@transaction.atomic
def make_responses(*, campaign: Campaign, actor: Person | None = None) -> int:
    """Make a response, in the campaign's collection, of each answer to an accepted prompt; how many are new."""
    Campaign.objects.select_for_update(no_key=True).get(pk=campaign.pk)  # of two at once one makes them
    known = set(
        Response.objects.filter(
            collection=campaign.collection_id, prompt__proposal__campaign=campaign
        ).values_list("prompt", "model")
    )
    new: dict[tuple[int, int], Response] = {}
    for attempt in iterate_accepted_answers(campaign):
        prompt = attempt.revision.proposal.prompt
        assert prompt is not None
        key = prompt.pk, attempt.target.model_id
        if key in known:
            continue
        text = attempt.answer.text
        new[key] = Response(
            prompt=prompt,
            model_id=attempt.target.model_id,
            collection_id=campaign.collection_id,
            text=text,
            sha256=response_sha256(text, []),
        )
    Response.objects.bulk_create(new.values())
    if new:
        record(
            actor=actor,
            verb=BenchmarkVerb.MAKE_RESPONSES,
            target=f"campaign:{campaign.name}",
            responses=len(new),
        )
    return len(new)


@transaction.atomic
def create_campaign_batch(
    *,
    campaign: Campaign,
    name: str,
    annotators: Sequence[Person],
    adjudicators: Sequence[Person] = (),
    policy: Policy = USUAL_POLICY,
    actor: Person | None = None,
) -> Batch:
    """Make an open batch of the responses to the campaign's prompts.

    The campaign's authors and reviewers have read the answers with a level: they are recorded as having opened the
    batch's results, so that none of them can judge in it, now or later.
    """
    members = set(CampaignMember.objects.filter(campaign=campaign).values_list("person", flat=True))
    for person in [*annotators, *adjudicators]:
        if person.pk in members:
            raise Conflict(
                N_("{name} wrote or reviewed in this campaign and knows its answers: choose somebody else."),
                name=str(person),
            )
    make_responses(campaign=campaign, actor=actor)
    responses = list(
        Response.objects.filter(
            collection=campaign.collection_id, prompt__proposal__campaign=campaign
        ).values_list("pk", flat=True)
    )
    if not responses:
        raise AssayError(N_("No accepted prompt of this campaign has an answer yet."))
    batch = create_batch(
        BatchSpec(
            name=name,
            guideline=campaign.guideline_id,
            dataset=campaign.dataset_id,
            collection=campaign.collection.name,
            among=tuple(responses),
            annotators=tuple(person.pk for person in annotators),
            adjudicators=tuple(person.pk for person in adjudicators),
            policy=policy,
        ),
        actor=actor,
    )
    _record_readers([batch.pk], members)
    return batch


def open_to_readers(campaign: Campaign, people: Sequence[Person]) -> None:
    """As for the members when a batch is made, for those who become members later; Conflict where one of them judges in
    a batch of the campaign. The caller has locked the people.
    """
    batches = [batch.pk for batch in list_campaign_batches(campaign)]
    for person in people if batches else ():
        sealed = sealed_batches(person).filter(pk__in=batches).first()
        if sealed is not None:
            raise Conflict(
                N_("{name} works in the batch {batch} of this campaign's responses: choose somebody else."),
                name=str(person),
                batch=sealed.name,
            )
    _record_readers(batches, {person.pk for person in people})


def _record_readers(batches: Sequence[int], people: Collection[int]) -> None:
    now = timezone.now()
    ResultOpening.objects.bulk_create(
        [
            ResultOpening(person_id=person, batch_id=batch, first_at=now)
            for batch in batches
            for person in sorted(people)
        ],
        ignore_conflicts=True,
    )
