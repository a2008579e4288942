"""What a run counts, response by response, from its stored items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from annotation.domain.guidelines.values import as_number
from annotation.models import Prompt
from benchmark.domain.leaderboards.metrics import ALL
from benchmark.domain.leaderboards.responses import ATTRIBUTES, CountedResponse, Labels
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.leaderboards.runs import list_run_responses
from scoring.domain.training_data import level_name

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
    prompts = _list_prompts(run)
    rows = run.items.order_by("response__model_id", "response_id", "pk").values_list(
        "response_id", "response__model_id", "response__prompt_id", *FIELDS
    )
    label_pool = _LabelPool()
    return [
        _build_counted(models[model], prompt, prompts[prompt], [item[3:] for item in items], label_pool)
        for (_response, model, prompt), items in groupby(rows.iterator(CHUNK), key=itemgetter(0, 1, 2))
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
    scope: str
    criteria: int
    """How many apply to it."""
    groups: Mapping[str, str]


def _list_prompts(run: BenchmarkRun) -> dict[int, _CountedPrompt]:
    """Those that the guideline can judge."""
    document = run.scorer.guideline.document
    fields = ("pk", "dimension", "subcomponent", *ATTRIBUTES)
    rows = Prompt.objects.filter(dataset=run.dataset_id).values_list(*fields)

    @cache
    def find_cell(dimension: str, subcomponent: str) -> tuple[str | None, int]:
        criteria = document.countable_at(dimension or None, subcomponent)
        return find_scope(run, dimension), len(criteria)

    prompts = {}
    for prompt, dimension, subcomponent, *values in rows:
        scope, criteria = find_cell(dimension, subcomponent)
        if scope is not None:
            groups = {name: value for name, value in zip(ATTRIBUTES, values, strict=True) if value}
            prompts[prompt] = _CountedPrompt(scope, criteria, groups)
    return prompts


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
    model: str, prompt: int, known: _CountedPrompt, items: list[tuple[Any, ...]], label_pool: _LabelPool
) -> CountedResponse:
    is_complete = len(items) == known.criteria
    gold = [
        (criterion, value) for criterion, value, basis, *_prediction in items if basis == RunItem.Basis.GOLD
    ]
    predicted = [
        (criterion, value) for criterion, _value, _basis, value, _shares in items if value is not None
    ]
    shares = [
        _find_share(value, shares) for _criterion, _value, _basis, value, shares in items if value is not None
    ]
    return CountedResponse(
        model=model,
        prompt=prompt,
        scope=known.scope,
        labels=label_pool.share_labels((item[0], item[1]) for item in items),
        basis=str(max((item[2] for item in items), key=BASES.index)),
        gold=label_pool.share_labels(iter(gold)) if is_complete and len(gold) == len(items) else (),
        predicted=label_pool.share_labels(iter(predicted))
        if is_complete and len(predicted) == len(items)
        else (),
        sureness=min((share for share in shares if share is not None), default=None),
        groups=known.groups,
    )


def _find_share(value: float, probabilities: Mapping[str, float]) -> float | None:
    """How sure the scorer was of the level that it predicted."""
    return probabilities.get(level_name(value))
