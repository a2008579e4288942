"""Predictions of texts that a program sends: a request is kept as a row, and a job answers it.

Nothing that is asked here becomes a response, a prediction on a board or an example: it is the asker's alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from annotation.core.errors import N_, Unprocessable
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import Person
from annotation.services import jobs
from annotation.services.audit import record
from scoring.domain.calibration import DEFAULT_COVERAGE, find_card_threshold, level_set
from scoring.domain.training_data import Distribution, Example, level_name, transcript
from scoring.domain.training_data import Prediction as Predicted
from scoring.domain.verbs import ScoringVerb
from scoring.models import PredictionRequest, Scorer
from scoring.selectors.predictions import check_may_predict
from scoring.selectors.scorers import select_scorers
from scoring.selectors.training import PredictionRowBuilder
from scoring.services.predictions.predictions import PREDICTING, CachedPredictor, check_ready, load_scorer

PREDICT = "predict_texts"
MAX_ITEMS = 2000
ITEMS_PER_PART = 200
OUT_OF_FOLD, UNSEEN = "out_of_fold", "unseen"


@dataclass(frozen=True)
class PredictionItem:
    """A prompt and what answered it: a text, or the (role, text) turns of a dialogue."""

    prompt: str
    response: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    dimension: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """As a scorer reads it."""
        response = transcript(self.turns) if self.turns else self.response
        return {"prompt": self.prompt, "response": response, "dimension": self.dimension}


@transaction.atomic
def request_predictions(
    *, scorer: Scorer, items: Sequence[PredictionItem], actor: Person, send: bool = True
) -> PredictionRequest:
    """The request and the job that answers it. Raises Unprocessable with the first item that no criterion fits."""
    check_may_predict(actor, scorer)
    check_ready(scorer)
    if not 1 <= len(items) <= MAX_ITEMS:
        raise Unprocessable(N_("Send from 1 to {most} items at once."), most=MAX_ITEMS)
    document = scorer.guideline.document
    for place, item in enumerate(items):
        _check_dimension(document, item.dimension, place)
    job = jobs.enqueue(kind=PREDICT, payload={"scorer": scorer.pk}, title=scorer.name, actor=actor, send=send)
    prediction_request = PredictionRequest.objects.create(
        scorer=scorer, job=job, items=[item.to_json() for item in items], created_by=actor
    )
    record(
        actor=actor, verb=ScoringVerb.REQUEST_PREDICTIONS, target=f"scorer:{scorer.name}", items=len(items)
    )
    return prediction_request


def _check_dimension(document: GuidelineDocument, dimension: str | None, place: int) -> None:
    known = ", ".join(document.dimension_names) or "-"
    if dimension is not None and not document.knows_dimension(dimension):
        raise Unprocessable(
            N_(
                "Item {place}: {guideline} has no dimension {dimension}; use one of {known}, or leave it out."
            ),
            place=place,
            guideline=document.name,
            dimension=dimension,
            known=known,
        )
    if not document.countable_for(dimension):
        raise Unprocessable(
            N_("Item {place}: {guideline} asks by dimension; name its dimension, one of {known}."),
            place=place,
            guideline=document.name,
            known=known,
        )


def answer_request(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job: the results come whole or not at all, and done again they are the same."""
    request = PredictionRequest.objects.get(job=context.job)
    scorer = select_scorers().get(pk=request.scorer_id)
    results = _predict_items(scorer, request.items, context)
    result = {"request": request.pk, "items": len(results)}
    with transaction.atomic():
        context.save_result(result)
        PredictionRequest.objects.filter(pk=request.pk).update(results=results)
    return result


def select_old_requests() -> QuerySet[PredictionRequest]:
    """Those whose jobs ended more than ``PREDICTION_DAYS`` days ago, which the nightly clean-up deletes."""
    old = timezone.now() - timedelta(days=settings.PREDICTION_DAYS)
    return PredictionRequest.objects.filter(job__finished_at__lt=old)


def predict_item(scorer: Scorer, item: PredictionItem) -> dict[str, Any]:
    """What the scorer says of one item, by criterion, as ``describe_prediction`` does. Call it from a job."""
    check_ready(scorer)
    predictor, rows = CachedPredictor(load_scorer(scorer)), PredictionRowBuilder(scorer)
    criteria: dict[str, Any] = _predict_part(scorer, [item.to_json()], predictor, rows)[0]["criteria"]
    return criteria


def _predict_items(
    scorer: Scorer, items: Sequence[Mapping[str, Any]], context: jobs.JobContext
) -> list[dict[str, Any]]:
    predictor, rows = CachedPredictor(load_scorer(scorer)), PredictionRowBuilder(scorer)
    results: list[dict[str, Any]] = []
    for start in range(0, len(items), ITEMS_PER_PART):
        context.report(start / len(items), PREDICTING)
        results += _predict_part(scorer, items[start : start + ITEMS_PER_PART], predictor, rows)
    return results


def _predict_part(
    scorer: Scorer,
    items: Sequence[Mapping[str, Any]],
    predictor: CachedPredictor,
    rows: PredictionRowBuilder,
) -> list[dict[str, Any]]:
    examples = [_build_example(item) for item in items]
    predictions = predictor.predict(examples)
    results = []
    for example in examples:
        fold, predicted = predictions[example.content_key]
        criteria = rows.list_criteria(example.dimension)
        results.append(
            {
                "basis": UNSEEN if fold is None else OUT_OF_FOLD,
                "criteria": {name: describe_prediction(scorer, name, predicted) for name in criteria},
            }
        )
    return results


def _build_example(item: Mapping[str, Any]) -> Example:
    return Example(
        key="",
        prompt_key="",
        prompt=item["prompt"],
        response=item["response"],
        dimension=item["dimension"],
    )


def describe_prediction(scorer: Scorer, criterion: str, predicted: Predicted) -> dict[str, Any] | None:
    """One criterion's answer; None where the scorer could not learn it.

    ``set`` are the levels that hold the true one with the coverage of the card, null where the card has no threshold;
    ``abstained`` says that they are not a single one.
    """
    distribution = predicted.get(criterion)
    if distribution is None:
        return None
    likely_levels = find_level_set(scorer, criterion, distribution)
    return {
        "value": max(distribution, key=lambda value: distribution[value]),
        "probabilities": {level_name(value): p for value, p in distribution.items()},
        "set": None if likely_levels is None else list(likely_levels),
        "abstained": None if likely_levels is None else len(likely_levels) != 1,
    }


def find_level_set(
    scorer: Scorer, criterion: str, distribution: Distribution, coverage: float = DEFAULT_COVERAGE
) -> tuple[int | float, ...] | None:
    """The conformal set; None where the card has no threshold for it."""
    threshold = find_card_threshold(scorer.card, criterion, coverage)
    return None if threshold is None else level_set(distribution, threshold)
