"""What a run counts: gold where the scorer's release has it, else a prediction that is never in-sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from django.db.models import QuerySet

from annotation.models import ReleasedLabel, Response
from benchmark.metrics import ALL
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.runs import Key, gold_of, responses_of
from scoring.models import Prediction

CHUNK = 500


def scope_of(run: BenchmarkRun, dimension: str) -> str | None:
    """The column that a prompt's dimension counts in; None if the guideline does not know it."""
    document = run.scorer.guideline.document
    if not document.dimensions:
        return ALL
    return dimension if document.knows_dimension(dimension) else None


def asked(run: BenchmarkRun) -> list[tuple[Response, tuple[str, ...]]]:
    """The run's responses that its guideline can judge, with the criteria that apply to each.

    Without their texts, which nothing here reads and of which there may be very many.
    """
    document = run.scorer.guideline.document
    responses = list(responses_of(run).select_related(None).select_related("prompt").only(*_WITHOUT_TEXTS))
    criteria = {
        dimension: tuple(one.name for one in document.criteria_for(dimension or None))
        for dimension in {response.prompt.dimension for response in responses}
        if scope_of(run, dimension) is not None
    }
    return [(one, criteria[one.prompt.dimension]) for one in responses if one.prompt.dimension in criteria]


_WITHOUT_TEXTS = ("prompt_id", "prompt__dimension")


def unscored(run: BenchmarkRun) -> list[Response]:
    """Responses that lack gold in some criterion, and have no prediction of the run's scorer."""
    gold = gold_of(run)
    predicted = set(_predictions(run).values_list("response_id", "criterion"))
    return [
        response
        for response, criteria in asked(run)
        if any((response.pk, one) not in gold and (response.pk, one) not in predicted for one in criteria)
    ]


def write_items(run: BenchmarkRun, report: Callable[[float], None]) -> int:
    """Store what the run counts; done again, it changes nothing. The number of items."""
    rows = list(_items(run))
    for start in range(0, len(rows), CHUNK):
        report(start / len(rows))
        RunItem.objects.bulk_create(rows[start : start + CHUNK], ignore_conflicts=True)
    return run.items.count()


def _items(run: BenchmarkRun) -> Iterator[RunItem]:
    gold = gold_of(run)
    predictions = {(one.response_id, one.criterion): one for one in _predictions(run)}
    for response, criteria in asked(run):
        yield from _of_response(run, response, criteria, gold, predictions)


def _of_response(
    run: BenchmarkRun,
    response: Response,
    criteria: Sequence[str],
    gold: dict[Key, ReleasedLabel],
    predictions: dict[Key, Prediction],
) -> Iterator[RunItem]:
    for criterion in criteria:
        key = (response.pk, criterion)
        if key in gold:
            yield _item(run, response, criterion, RunItem.Basis.GOLD, released_label=gold[key])
        elif key in predictions:
            prediction = predictions[key]
            basis = RunItem.Basis.UNSEEN if prediction.fold is None else RunItem.Basis.OUT_OF_FOLD
            yield _item(run, response, criterion, basis, prediction=prediction)


def _item(
    run: BenchmarkRun,
    response: Response,
    criterion: str,
    basis: RunItem.Basis,
    *,
    released_label: ReleasedLabel | None = None,
    prediction: Prediction | None = None,
) -> RunItem:
    behind = released_label or prediction
    assert behind is not None
    return RunItem(
        run=run,
        response=response,
        criterion=criterion,
        value=behind.value,
        basis=basis,
        released_label=released_label,
        prediction=prediction,
    )


def _predictions(run: BenchmarkRun) -> QuerySet[Prediction]:
    return Prediction.objects.filter(
        scorer=run.scorer, response__in=responses_of(run).order_by().values("pk")
    )
