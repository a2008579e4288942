"""Requests for predictions: whose they are, and who may ask."""

from __future__ import annotations

from annotation.errors import N_, Forbidden, NotFound
from annotation.models import Person
from annotation.selectors.blindness import sealed_batches
from annotation.selectors.gold import refuse_sealed_gold
from scoring.models import PredictionRequest, Scorer


def refuse_blind(person: Person, scorer: Scorer) -> None:
    """Forbidden where the person may not open the scorer's release, or judges by its guideline now.

    Else they could send in what they are to judge, and be told a prediction of it.
    """
    refuse_sealed_gold(person, scorer.release.batches.all())
    judged = sealed_batches(person).filter(guideline__name=scorer.guideline.name).first()
    if judged is not None:
        raise Forbidden(
            N_("You work in the batch {name}: its results open for you when it closes."), name=judged.name
        )


def request_of(person: Person, request_id: int) -> PredictionRequest:
    """The person's own request; of others' nothing is told."""
    found = (
        PredictionRequest.objects.filter(pk=request_id, created_by=person)
        .select_related("job", "scorer__release", "scorer__guideline")
        .defer("items", "scorer__evaluation", "scorer__card")  # asked again and again, of megabytes
        .first()
    )
    if found is None:
        raise NotFound(N_("There is no such request for predictions."))
    refuse_blind(person, found.scorer)
    return found
