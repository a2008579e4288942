from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.db import transaction
from django.db.models import QuerySet

from annotation.core.errors import N_, AssayError, Conflict
from annotation.models import Dataset, EvaluatedModel, Job, Person, Response
from annotation.selectors.access import refuse_sealed_gold
from annotation.services import jobs
from annotation.services.audit import record
from scoring.backbones.registry import load
from scoring.domain.backbone import FittedScorer
from scoring.domain.training_data import Example
from scoring.domain.training_data import Prediction as Predicted
from scoring.domain.verbs import ScoringVerb
from scoring.models import Prediction, Scorer
from scoring.selectors.training import (
    OutOfFoldPredictions,
    PredictionRowBuilder,
    build_example,
    check_weights,
    find_weights,
)

SCORE = "score_responses"
CHUNK = 1000
MAX_CACHED = 20_000
"""So many contents that were predicted last are kept at hand, for copies of them in later chunks."""
PREDICTING = N_("predicting")

StageReport = Callable[[float, str], None]
"""A job's ``report``: the fraction that is done, and the stage."""
FoldPrediction = tuple[int | None, Predicted]
"""The fold that the predicting model had not seen, or None of an unseen content; and the prediction."""


def ignore_stage(fraction: float, stage: str) -> None:
    """For scoring that no job watches."""


@dataclass(frozen=True)
class ScoringCounts:
    """How many predictions were stored now: of contents in the scorer's release, and of unseen ones.

    ``asked`` is the number of contents that the scorer itself had to read for them.
    """

    out_of_fold: int = 0
    unseen: int = 0
    predicted: int = 0


def score(
    *, scorer: Scorer, responses: Iterable[Response], report: StageReport = ignore_stage
) -> ScoringCounts:
    """Store a prediction for each response and each criterion that applies to it, where there is none yet.

    Never in-sample: a response whose content (the texts of prompt and response) is in the scorer's release gets
    the prediction of the fold that had not seen it, with that fold's number, under whichever model, collection
    or dataset it comes now. Any other gets the trained scorer's, with ``fold`` null; its prompt alone may have
    been seen with other responses. A criterion that the scorer could not learn gets none.

    Call it from a job or a command: it loads the scorer's libraries. Done twice, or again after it was
    interrupted, it changes nothing that is stored. ``report`` is a job's: it may raise, to stop it between two chunks.
    """
    check_ready(scorer)
    keys = _list_response_ids(responses)
    predictor = CachedPredictor(load_scorer(scorer))
    rows = PredictionRowBuilder(scorer)
    out_of_fold = unseen = 0
    for start in range(0, len(keys), CHUNK):
        report(start / len(keys), PREDICTING)
        stored = _score_chunk(scorer, keys[start : start + CHUNK], predictor, rows)
        out_of_fold += stored.out_of_fold
        unseen += stored.unseen
    report(1.0, PREDICTING)
    return ScoringCounts(out_of_fold, unseen, predictor.predicted_count)


def check_ready(scorer: Scorer) -> None:
    if not scorer.is_ready:
        raise Conflict(
            N_("The scorer {name} is not ready: it has not been trained to its end."), name=scorer.name
        )


def _list_response_ids(responses: Iterable[Response]) -> list[int]:
    """Ids, prompt by prompt and text by text: so copies come together."""
    if isinstance(responses, QuerySet):
        return list(responses.order_by("prompt_id", "sha256", "pk").values_list("pk", flat=True))
    return [
        response.pk
        for response in sorted(
            responses, key=lambda response: (response.prompt_id, response.sha256, response.pk)
        )
    ]


def _score_chunk(
    scorer: Scorer, keys: Sequence[int], predictor: CachedPredictor, rows: PredictionRowBuilder
) -> ScoringCounts:
    examples = dict(_list_unscored(scorer, keys, rows))
    predicted = predictor.predict(list(examples.values()))
    predictions: list[Prediction] = []
    for pk, example in examples.items():
        fold, distribution = predicted[example.content_key]
        predictions += rows.build_rows(pk, example, distribution, fold)
    Prediction.objects.bulk_create(predictions, ignore_conflicts=True)
    unseen = sum(1 for prediction in predictions if prediction.fold is None)
    return ScoringCounts(len(predictions) - unseen, unseen)


def _list_unscored(
    scorer: Scorer, keys: Sequence[int], rows: PredictionRowBuilder
) -> Iterator[tuple[int, Example]]:
    """By id, the responses that have no prediction, or none of some criterion that the scorer can tell them."""
    stored: dict[int, set[str]] = defaultdict(set)
    predictions = Prediction.objects.filter(scorer=scorer, response__in=keys)
    for response, criterion in predictions.values_list("response_id", "criterion"):
        stored[response].add(criterion)
    for candidate in (
        Response.objects.filter(pk__in=keys).select_related("prompt").order_by("prompt_id", "pk")
    ):
        criteria, example = stored[candidate.pk], build_example(candidate)
        if not criteria or not criteria.issuperset(rows.list_expected_criteria(example)):
            yield candidate.pk, example


@dataclass(frozen=True)
class LoadedScorer:
    """A scorer as it was loaded, with what it may say of its own training data."""

    fitted: FittedScorer
    out_of_fold: OutOfFoldPredictions


class CachedPredictor:
    """Asks a loaded scorer, out of fold where it must be; a content that comes again soon is not predicted again."""

    def __init__(self, known: LoadedScorer) -> None:
        self.loaded = known
        self.predicted_count = 0
        self._cache: OrderedDict[str, FoldPrediction] = OrderedDict()

    def predict(self, examples: Sequence[Example]) -> Mapping[str, FoldPrediction]:
        """Fold and prediction by content key."""
        by_content = {example.content_key: example for example in examples}
        out_of_fold = self.loaded.out_of_fold.predictions
        predictions: dict[str, FoldPrediction] = {
            key: out_of_fold[key] for key in by_content if key in out_of_fold
        }
        predictions |= {key: self._cache[key] for key in by_content if key in self._cache}
        new = {key: example for key, example in by_content.items() if key not in predictions}
        new_predictions = self.loaded.fitted.predict(list(new.values())) if new else []
        for key, predicted in zip(new, new_predictions, strict=True):
            predictions[key] = self._cache[key] = (None, predicted)
        self.predicted_count += len(new)
        while len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)
        return predictions


def load_scorer(scorer: Scorer) -> LoadedScorer:
    return _load_once(find_weights(scorer), scorer.weights_sha256)


@lru_cache(maxsize=2)
def _load_once(folder: Path, weights_sha256: str) -> LoadedScorer:
    """Once in a process."""
    check_weights(folder, weights_sha256)
    fitted = load(folder)
    return LoadedScorer(fitted, OutOfFoldPredictions.load(folder, fitted.heads))


@transaction.atomic
def create_scoring(
    *,
    scorer: Scorer,
    dataset: Dataset,
    models: Sequence[EvaluatedModel] = (),
    actor: Person | None = None,
    send: bool = True,
) -> Job:
    """The job that scores the dataset's responses, of all models or of these, in every collection."""
    if actor is not None:
        refuse_sealed_gold(actor, scorer.release.batches.all())
    check_ready(scorer)
    if not list_responses(dataset, models).exists():
        raise AssayError(N_("The dataset {dataset} has no responses of these models."), dataset=dataset.name)
    payload = {"scorer": scorer.pk, "dataset": dataset.pk, "models": [model.pk for model in models]}
    title = f"{scorer.name}: {dataset.name}"
    job = jobs.enqueue(kind=SCORE, payload=payload, title=title, actor=actor, send=send)
    record(
        actor=actor, verb=ScoringVerb.SCORE_RESPONSES, target=f"scorer:{scorer.name}", dataset=dataset.name
    )
    return job


def list_responses(dataset: Dataset, models: Sequence[EvaluatedModel] = ()) -> QuerySet[Response]:
    responses = Response.objects.filter(prompt__dataset=dataset, slate=None)
    return responses.filter(model__in=models) if models else responses
