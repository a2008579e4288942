"""What a run counts, response by response, from its stored items and the predictions behind them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db.models import Exists, OuterRef

from annotation.domain.guidelines.values import as_number
from annotation.models import Prompt
from benchmark.domain.leaderboards.metrics import ALL
from benchmark.domain.leaderboards.responses import (
    PROMPT_ATTRIBUTES,
    CountedResponse,
    Labels,
    group_prompt,
)
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.leaderboards.runs import filter_judged, list_run_responses
from scoring.domain.training_data import level_name
from scoring.models import Prediction

BASES = (RunItem.Basis.GOLD, RunItem.Basis.OUT_OF_FOLD, RunItem.Basis.UNSEEN)
"""From the strongest to the weakest."""

CHUNK = 5000
FIELDS = ("criterion", "value", "basis", "prediction__value", "prediction__probabilities")

CellKey = tuple[str, str]
"""A model and a column of the board."""


def find_scope(run: BenchmarkRun, dimension: str) -> str | None:
    """The column that a prompt's dimension counts in; None if the guideline does not know it."""
    document = run.scorer.guideline.document
    if not document.dimensions:
        return ALL
    return dimension if document.knows_dimension(dimension) else None


def list_counted_responses(run: BenchmarkRun) -> list[CountedResponse]:
    """A row for each response that has a value, by model and response."""
    models = dict(run.evaluated_models.values_list("pk", "name"))
    prompts, unanswered = _list_prompts(run), _list_unanswered(run)
    rows = run.items.order_by("response__model_id", "response_id", "pk").values_list(
        "response_id", "response__model_id", "response__prompt_id", *FIELDS
    )
    label_pool = _LabelPool()
    return [
        _build_counted(
            models[model],
            prompt,
            prompts[prompt],
            [item[3:] for item in items],
            unanswered=unanswered.get(response, ()),
            label_pool=label_pool,
        )
        for (response, model, prompt), items in groupby(rows.iterator(CHUNK), key=itemgetter(0, 1, 2))
    ]


def count_responses(run: BenchmarkRun) -> Counter[CellKey]:
    """How many responses there are in each place; under two blanks those that the guideline cannot judge."""
    counts: Counter[CellKey] = Counter()
    rows = (
        list_run_responses(run)
        .select_related(None)
        .order_by()
        .values_list("model__name", "prompt__dimension")
    )
    for model, dimension in rows.iterator(CHUNK):
        scope = find_scope(run, dimension)
        counts[("", "") if scope is None else (model, scope)] += 1
    return counts


@dataclass(frozen=True)
class _CountedPrompt:
    """``criteria`` apply to it; ``required`` are those of them that everybody who judges answers with a value."""

    scope: str
    criteria: frozenset[str]
    required: frozenset[str]
    groups: Mapping[str, str]


def _list_prompts(run: BenchmarkRun) -> dict[int, _CountedPrompt]:
    """Those that the guideline can judge."""
    document = run.scorer.guideline.document
    fields = ("pk", "dimension", "subcomponent", *PROMPT_ATTRIBUTES)
    rows = Prompt.objects.filter(dataset=run.dataset_id).values_list(*fields)

    @cache
    def find_cell(dimension: str, subcomponent: str) -> tuple[str | None, frozenset[str], frozenset[str]]:
        criteria = document.countable_at(dimension or None, subcomponent)
        required = frozenset(criterion.name for criterion in criteria if not criterion.may_lack_value)
        return find_scope(run, dimension), frozenset(criterion.name for criterion in criteria), required

    prompts = {}
    for prompt, dimension, subcomponent, *values in rows:
        scope, criteria, required = find_cell(dimension, subcomponent)
        if scope is not None:
            attributes = {name: value for name, value in zip(PROMPT_ATTRIBUTES, values, strict=True) if value}
            prompts[prompt] = _CountedPrompt(scope, criteria, required, group_prompt(attributes))
    return prompts


StoredPrediction = tuple[str, float, Mapping[str, float]]
"""Criterion, value and probabilities."""


def _list_unanswered(run: BenchmarkRun) -> Mapping[int, list[StoredPrediction]]:
    """By judged response the predictions of what people may have left out, where no item has them."""
    criteria = run.scorer.guideline.document.countable_criteria
    names = [criterion.name for criterion in criteria if criterion.may_lack_value]
    predictions: dict[int, list[StoredPrediction]] = defaultdict(list)
    if names:
        counted = RunItem.objects.filter(
            run=run, response=OuterRef("response"), criterion=OuterRef("criterion")
        )
        rows = Prediction.objects.filter(
            ~Exists(counted), scorer=run.scorer, criterion__in=names, response__in=filter_judged(run)
        )
        for response, *prediction in rows.values_list(
            "response_id", "criterion", "value", "probabilities"
        ).iterator(CHUNK):
            predictions[response].append((prediction[0], prediction[1], prediction[2]))
    return predictions


class _LabelPool:
    """Equal labels are one object, of which a big run has very many."""

    def __init__(self) -> None:
        self._labels: dict[Labels, Labels] = {}

    def share_labels(self, values: Iterator[tuple[str, float]]) -> Labels:
        labels = tuple(sorted((criterion, _to_number(value)) for criterion, value in values))
        return self._labels.setdefault(labels, labels)


def _to_number(value: float) -> int | float:
    number = as_number(value)
    assert number is not None
    return number


def _build_counted(
    model: str,
    prompt: int,
    known: _CountedPrompt,
    items: list[tuple[Any, ...]],
    *,
    unanswered: Sequence[StoredPrediction],
    label_pool: _LabelPool,
) -> CountedResponse:
    """A prediction of what people left out counts for nothing; it is there so that those of all responses are alike."""
    gold = [
        (criterion, value) for criterion, value, basis, *_prediction in items if basis == RunItem.Basis.GOLD
    ]
    has_gold = len(gold) == len(items) and known.required <= {criterion for criterion, _value in gold}
    predictions = [
        (criterion, value, shares) for criterion, _value, _basis, value, shares in items if value is not None
    ] + [prediction for prediction in unanswered if has_gold and prediction[0] in known.criteria]
    is_predicted = len(predictions) == len(known.criteria)
    shares = [_find_share(value, shares) for _criterion, value, shares in predictions]
    return CountedResponse(
        model=model,
        prompt=prompt,
        scope=known.scope,
        labels=label_pool.share_labels((item[0], item[1]) for item in items),
        basis=str(max((item[2] for item in items), key=BASES.index)),
        gold=label_pool.share_labels(iter(gold)) if has_gold else (),
        predicted=label_pool.share_labels((criterion, value) for criterion, value, _shares in predictions)
        if is_predicted
        else (),
        sureness=min((share for share in shares if share is not None), default=None),
        groups=known.groups,
    )


def _find_share(value: float, probabilities: Mapping[str, float]) -> float | None:
    """How sure the scorer was of the level that it predicted."""
    return probabilities.get(level_name(value))
