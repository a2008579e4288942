"""What a scorer is not sure of: responses whose set of likely levels is not a single one, for people to decide.

Requests for predictions: whose they are, and who may ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef

from annotation.core.errors import N_, AssayError, Forbidden, NotFound
from annotation.models import Dataset, EvaluatedModel, Person
from annotation.selectors.access import refuse_sealed_gold, sealed_batches
from annotation.selectors.assignments.availability import tasks_in_progress
from scoring.domain.calibration import DEFAULT_COVERAGE, abstains, find_card_threshold
from scoring.models import Prediction, PredictionRequest, Scorer

CHUNK = 2000


@dataclass(frozen=True)
class Abstentions:
    """Ids of responses, the least sure first; ``predicted`` is how many had a prediction and nobody at work on them.

    ``pool`` are the ids of these.
    """

    responses: list[int]
    predicted: int
    pool: frozenset[int] = frozenset()


def find_abstentions(
    scorer: Scorer,
    dataset: Dataset,
    models: Sequence[EvaluatedModel] = (),
    coverage: float = DEFAULT_COVERAGE,
) -> Abstentions:
    """The responses of the dataset (of all models, or of ``models``) for people, among those with stored predictions.

    A response is for people where the set of any of its criteria (``scoring/domain/calibration.py``) is not a single
    level. Left out is what people label or have labelled by the scorer's guideline, in whichever version: gold needs no
    prediction.
    What a closed batch left open or disputed is asked for again.
    """
    min_probabilities = get_card_thresholds(scorer, coverage)
    at_work = tasks_in_progress(scorer.guideline.name).filter(response=OuterRef("response"))
    rows = Prediction.objects.filter(
        ~Exists(at_work), scorer=scorer, response__prompt__dataset=dataset, criterion__in=min_probabilities
    )
    if models:
        rows = rows.filter(response__model__in=models)
    sureness: dict[int, float] = {}
    predicted: set[int] = set()
    predictions = rows.order_by("response").values_list("response", "criterion", "probabilities")
    for response, criterion, probabilities in predictions.iterator(chunk_size=CHUNK):
        predicted.add(response)
        distribution = {float(level): p for level, p in probabilities.items()}
        if abstains(distribution, min_probabilities[criterion]):
            sureness[response] = min(sureness.get(response, 1.0), max(distribution.values()))
    least_sure = sorted(sureness, key=lambda response: (sureness[response], response))
    return Abstentions(least_sure, len(predicted), frozenset(predicted))


def get_card_thresholds(scorer: Scorer, coverage: float = DEFAULT_COVERAGE) -> dict[str, float]:
    """By criterion, from the scorer's card. Raises AssayError where the card has none."""
    names = [criterion.name for criterion in scorer.guideline.document.countable_criteria]
    card_thresholds = {name: find_card_threshold(scorer.card, name, coverage) for name in names}
    known = {name: threshold for name, threshold in card_thresholds.items() if threshold is not None}
    if not known:
        raise AssayError(
            N_("The card of {scorer} has no thresholds for a coverage of {coverage}; train it anew."),
            scorer=scorer.name,
            coverage=f"{coverage:g}",
        )
    return known


def check_may_predict(person: Person, scorer: Scorer) -> None:
    """Forbidden where the person may not open the scorer's release, or judges by its guideline now.

    Else they could send in what they are to judge, and be told a prediction of it.
    """
    refuse_sealed_gold(person, scorer.release.batches.all())
    judged = sealed_batches(person).filter(guideline__name=scorer.guideline.name).first()
    if judged is not None:
        raise Forbidden(
            N_("You work in the batch {name}: its results open for you when it closes."), name=judged.name
        )


def get_prediction_request(person: Person, request_id: int) -> PredictionRequest:
    """The person's own request; of others' nothing is told."""
    prediction_request = (
        PredictionRequest.objects.filter(pk=request_id, created_by=person)
        .select_related("job", "scorer__release", "scorer__guideline")
        .defer("items", "scorer__evaluation", "scorer__card")  # asked again and again, of megabytes
        .first()
    )
    if prediction_request is None:
        raise NotFound(N_("There is no such request for predictions."))
    check_may_predict(person, prediction_request.scorer)
    return prediction_request
