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
from annotation.selectors.assignments.availability import tasks_at_work
from scoring.domain.calibration import DEFAULT_COVERAGE, abstains, find_card_threshold
from scoring.models import Prediction, PredictionRequest, Scorer

CHUNK = 2000


@dataclass(frozen=True)
class Abstained:
    """Ids of responses, the least sure first; ``asked`` is how many had a prediction and nobody at work on them."""

    responses: list[int]
    asked: int


def abstained(
    scorer: Scorer,
    dataset: Dataset,
    models: Sequence[EvaluatedModel] = (),
    coverage: float = DEFAULT_COVERAGE,
) -> Abstained:
    """The responses of the dataset (of all models, or of ``models``) for people, among those with stored predictions.

    A response is for people where the set of any of its criteria (``scoring/domain/calibration.py``) is not a single level. Left
    out is what people label or have labelled by the scorer's guideline, in whichever version: gold needs no prediction.
    What a closed batch left open or disputed is asked for again.
    """
    least = thresholds(scorer, coverage)
    at_work = tasks_at_work(scorer.guideline.name).filter(response=OuterRef("response"))
    rows = Prediction.objects.filter(
        ~Exists(at_work), scorer=scorer, response__prompt__dataset=dataset, criterion__in=least
    )
    if models:
        rows = rows.filter(response__model__in=models)
    sureness: dict[int, float] = {}
    asked: set[int] = set()
    found = rows.order_by("response").values_list("response", "criterion", "probabilities")
    for response, criterion, probabilities in found.iterator(chunk_size=CHUNK):
        asked.add(response)
        distribution = {float(level): p for level, p in probabilities.items()}
        if abstains(distribution, least[criterion]):
            sureness[response] = min(sureness.get(response, 1.0), max(distribution.values()))
    return Abstained(sorted(sureness, key=lambda response: (sureness[response], response)), len(asked))


def thresholds(scorer: Scorer, coverage: float = DEFAULT_COVERAGE) -> dict[str, float]:
    """By criterion, from the scorer's card. Raises AssayError where the card has none."""
    names = [criterion.name for criterion in scorer.guideline.document.criteria]
    found = {name: find_card_threshold(scorer.card, name, coverage) for name in names}
    known = {name: least for name, least in found.items() if least is not None}
    if not known:
        raise AssayError(
            N_("The card of {scorer} has no thresholds for a coverage of {coverage}; train it anew."),
            scorer=scorer.name,
            coverage=f"{coverage:g}",
        )
    return known


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
