"""What a run counts: gold where the scorer's release has it, else a prediction that is never in-sample.

Beside its gold a response keeps the prediction of it too, where there is one: what the scorer would have said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from operator import or_

from django.db.models import Count, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from annotation.models import Response
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.counting import scope_of
from benchmark.selectors.runs import ItemSource, Key, gold_of, responses_of
from scoring.models import Prediction

CHUNK = 1000


def asked(run: BenchmarkRun) -> QuerySet[Response]:
    """The run's responses that its guideline can judge."""
    return responses_of(run).filter(prompt__dimension__in=_criteria(run))


def unscored(run: BenchmarkRun) -> QuerySet[Response]:
    """Responses that lack a prediction of the run's scorer in some criterion, whether they have gold or not."""
    own = Prediction.objects.filter(scorer=run.scorer, response=OuterRef("pk"))
    prediction_counts = own.order_by().values("response").annotate(n=Count("pk")).values("n")
    conditions = [
        Q(prompt__dimension=dimension, told__lt=len(criteria))
        for dimension, criteria in _criteria(run).items()
    ]
    judged = asked(run).annotate(told=Coalesce(Subquery(prediction_counts, output_field=IntegerField()), 0))
    return judged.filter(reduce(or_, conditions)) if conditions else judged.none()


def write_items(run: BenchmarkRun, report: Callable[[float], None]) -> int:
    """Store what the run counts; done again, it changes nothing. The number of items."""
    gold, predicted, criteria = gold_of(run), _predictions(run), _criteria(run)
    responses = list(asked(run).select_related(None).values_list("pk", "prompt__dimension"))
    for start in range(0, len(responses), CHUNK):
        report(start / len(responses))
        keys = [
            (response, criterion)
            for response, dimension in responses[start : start + CHUNK]
            for criterion in criteria[dimension]
        ]
        RunItem.objects.bulk_create(_items(run, keys, gold, predicted), ignore_conflicts=True)
    return run.items.count()


def _criteria(run: BenchmarkRun) -> dict[str, tuple[str, ...]]:
    """What is asked of the prompts of each dimension that the run's responses have and its guideline knows."""
    document = run.scorer.guideline.document
    dimensions = set(responses_of(run).order_by().values_list("prompt__dimension", flat=True).distinct())
    return {
        dimension: tuple(criterion.name for criterion in document.criteria_for(dimension or None))
        for dimension in sorted(dimensions)
        if scope_of(run, dimension) is not None
    }


def _items(
    run: BenchmarkRun, keys: Iterable[Key], gold: Mapping[Key, ItemSource], predicted: Mapping[Key, ItemSource]
) -> Iterator[RunItem]:
    """Of those that have gold or a prediction."""
    for response, criterion in keys:
        label, prediction = gold.get((response, criterion)), predicted.get((response, criterion))
        counts = label or prediction
        if counts is not None:
            yield RunItem(
                run=run,
                response_id=response,
                criterion=criterion,
                value=counts.value,
                basis=counts.basis,
                released_label_id=label and label.pk,
                prediction_id=prediction and prediction.pk,
            )


def _predictions(run: BenchmarkRun) -> dict[Key, ItemSource]:
    rows = Prediction.objects.filter(
        scorer=run.scorer, response__in=responses_of(run).order_by().values("pk")
    ).values_list("response_id", "criterion", "pk", "value", "fold")
    return {
        (response, criterion): ItemSource(
            pk, value, RunItem.Basis.UNSEEN if fold is None else RunItem.Basis.OUT_OF_FOLD
        )
        for response, criterion, pk, value, fold in rows.iterator()
    }
