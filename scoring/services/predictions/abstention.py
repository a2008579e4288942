"""What a scorer is not sure of goes back to people, as a batch."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from annotation.core.errors import N_, AssayError, Forbidden
from annotation.domain.batch_spec import USUAL_POLICY, BatchSpec, Policy
from annotation.models import Batch, Dataset, EvaluatedModel, Person
from annotation.selectors.access import refuse_sealed_gold, sealed_datasets
from annotation.services.audit import record
from annotation.services.batches.batches import create_batch
from scoring.domain.calibration import DEFAULT_COVERAGE
from scoring.models import Scorer
from scoring.selectors.predictions import find_abstentions
from scoring.selectors.scorers import get_latest_guideline
from scoring.services.predictions.predictions import check_ready

MAX_RESPONSES = 30_000
"""Responses in one such batch. Each is a parameter of a query, of which a usual SQLite takes 32,766."""


@transaction.atomic
def create_abstained_batch(
    *,
    name: str,
    scorer: Scorer,
    dataset: Dataset,
    models: Sequence[EvaluatedModel] = (),
    coverage: float = DEFAULT_COVERAGE,
    limit: int = MAX_RESPONSES,
    annotators: Sequence[Person] = (),
    adjudicators: Sequence[Person] = (),
    policy: Policy = USUAL_POLICY,
    open_now: bool = True,
    actor: Person | None = None,
) -> Batch:
    """A batch of the responses that the scorer abstains from, at most ``limit``, the least sure of them.

    It is judged by the version of the guideline that was published last. Raises AssayError where there are none, and
    what ``create_batch`` raises.
    """
    if actor is not None:
        refuse_sealed_gold(actor, scorer.release.batches.all())
        if sealed_datasets(actor).filter(pk=dataset.pk).exists():
            raise Forbidden(
                N_("You judge responses of {name} blind now: this opens for you when your batch closes."),
                name=dataset.name,
            )
    check_ready(scorer)
    if not 1 <= limit <= MAX_RESPONSES:
        raise AssayError(N_("Take from 1 to {most} responses."), most=MAX_RESPONSES)
    abstentions = find_abstentions(scorer, dataset, models, coverage)
    if not abstentions.responses:
        raise AssayError(
            N_(
                "{scorer} abstains from none of the {asked} responses of {dataset} that it predicted and nobody labels."
            ),
            scorer=scorer.name,
            asked=abstentions.predicted,
            dataset=dataset.name,
        )
    batch = create_batch(
        BatchSpec(
            name=name,
            guideline=get_latest_guideline(scorer.guideline.name).pk,
            dataset=dataset.pk,
            among=tuple(abstentions.responses[:limit]),
            annotators=tuple(person.pk for person in annotators),
            adjudicators=tuple(person.pk for person in adjudicators),
            policy=policy,
            open_now=open_now,
        ),
        actor=actor,
    )
    record(
        actor=actor,
        verb="batch_of_abstained",
        target=f"batch:{name}",
        scorer=scorer.name,
        coverage=coverage,
        responses=min(limit, len(abstentions.responses)),
    )
    return batch
