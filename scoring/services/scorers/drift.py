"""Are a model's responses like those that a scorer has learned from? A job, for it needs the learning libraries."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from annotation.core.errors import N_, AssayError
from annotation.models import Dataset, EvaluatedModel, Job, Person, Response
from annotation.selectors.access import refuse_sealed_gold, sealed_datasets
from annotation.services import jobs
from annotation.services.audit import record
from scoring.domain import drift
from scoring.domain.verbs import ScoringVerb
from scoring.models import Scorer
from scoring.selectors.scorers import DRIFT, select_scorers
from scoring.selectors.training import TrainingSet, build_example, build_training_set
from scoring.services.predictions.predictions import PREDICTING, CachedPredictor, check_ready, load_scorer

READING = N_("reading the responses")
COMPARING = N_("comparing them with what the scorer learned from")


@transaction.atomic
def check_drift(
    *,
    scorer: Scorer,
    model: EvaluatedModel,
    dataset: Dataset | None = None,
    actor: Person | None = None,
    send: bool = True,
) -> Job:
    """The job that compares the model's responses, of all datasets or of this one, with the scorer's release.

    No label of them is needed. Raises AssayError where there are none that ``actor`` may see.
    """
    if actor is not None:
        refuse_sealed_gold(actor, scorer.release.batches.all())
    check_ready(scorer)
    responses = Response.objects.filter(model=model)
    if dataset is not None:
        responses = responses.filter(prompt__dataset=dataset)
    hidden = sealed_datasets(actor) if actor is not None else Dataset.objects.none()
    if not responses.exists() or responses.filter(prompt__dataset__in=hidden).exists():
        raise AssayError(N_("There are no responses of {model} to compare."), model=model.name)
    payload = {"scorer": scorer.pk, "model": model.pk, "dataset": None if dataset is None else dataset.pk}
    # A job's title is shown to whoever sees the job; whose responses they are is not for everybody.
    job = jobs.enqueue(kind=DRIFT, payload=payload, title=scorer.name, actor=actor, send=send)
    record(actor=actor, verb=ScoringVerb.CHECK_DRIFT, target=f"scorer:{scorer.name}", model=model.name)
    return job


def run_drift_check(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job: ``{"scorer", "model", "dataset", "labelled", "drift"}``, the last as ``drift.check`` has it.

    A model with labels in the release (``labelled`` responses) is compared with the others. Of very many responses
    those are read that come first by the hash of their text.
    """
    context.report(0.0, READING)
    payload = context.payload
    scorer = select_scorers().get(pk=payload["scorer"])
    model = EvaluatedModel.objects.get(pk=payload["model"])
    dataset = Dataset.objects.filter(pk=payload["dataset"]).first()
    training_set = build_training_set(scorer.release, scorer.guideline)
    responses = Response.objects.filter(model=model)
    if dataset is not None:
        responses = responses.filter(prompt__dataset=dataset)
    new = [
        build_example(response)
        for response in responses.select_related("prompt").order_by("sha256", "pk")[: drift.MAX_RESPONSES]
    ]
    context.report(0.1, PREDICTING)
    predictor = CachedPredictor(load_scorer(scorer))
    predictions = predictor.predict(new)
    context.report(0.6, COMPARING)
    comparison = drift.measure_drift(
        [example for example in training_set.examples if example.model != model.name],
        new,
        [predictions[example.content_key][1] for example in new],
        training_set.heads,
        reference=scorer.card.get("drift") or _describe_training_models(scorer, training_set, predictor),
        seed=scorer.seed,
    )
    return {
        "scorer": scorer.name,
        "model": model.name,
        "dataset": None if dataset is None else dataset.name,
        "labelled": sum(example.model == model.name for example in training_set.examples),
        "drift": comparison,
    }


def _describe_training_models(
    scorer: Scorer, training_set: TrainingSet, predictor: CachedPredictor
) -> dict[str, Any]:
    """What the training models show against one another, for a scorer whose card does not hold it."""
    by_content = predictor.predict(training_set.examples)
    predictions = [by_content[example.content_key][1] for example in training_set.examples]
    return drift.describe_models(training_set.examples, predictions, training_set.heads, seed=scorer.seed)
