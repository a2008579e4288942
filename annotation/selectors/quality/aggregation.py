"""The probability of each level of each task, by a model of all people who labelled the batch.

The models are those of ``annotation/domain/quality/aggregation.py``; ``docs/agreement.md`` says which labels they get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from annotation.core.errors import N_, AssayError
from annotation.domain.agreement import Value
from annotation.domain.agreement.label_table import NOBODY, Units, find_places
from annotation.domain.guidelines import Criterion
from annotation.domain.quality.aggregation import DawidSkene, Floats, Ints, Mace, dawid_skene, mace
from annotation.domain.releases.canonical import number
from annotation.models import Batch, GoldLabel, Task
from annotation.selectors.agreement.label_table import read_units

METHODS: Mapping[str, Callable[..., DawidSkene | Mace]] = {"dawid-skene": dawid_skene, "mace": mace}
TRUSTS_NOBODY = N_(
    "MACE trusts nobody here: from every start all labels look like guesses, and no level of an item is more probable "
    "than another. Use Dawid and Skene's model, or the votes."
)
CHUNK = 5000
RELATED = ("prompt__dataset", "response__model")
NAMES = ("prompt__key", "prompt__dataset__name", "response__model__name")


@dataclass(frozen=True)
class CriterionAggregate:
    """One criterion: how many ``labels`` of how many ``people`` it has, and what the model made of them (None where it
    refuses, and ``reason`` says why).

    Of T tasks and K values: ``tasks`` (T,) primary keys, ascending; ``posteriors`` (T, K); ``marginals`` (K,) their
    means, the share of each level.
    """

    criterion: str
    values: tuple[Value, ...]
    labels: int
    people: int
    tasks: Ints
    posteriors: Floats | None = None
    marginals: Floats | None = None
    iterations: int | None = None
    converged: bool | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Posterior:
    """One criterion of one task: ``gold`` is its settled value, None while there is none; ``probabilities`` by level.

    Of levels that are equally probable the lowest is ``most_probable``.
    """

    task: int
    dataset: str
    prompt_id: str
    model: str
    criterion: str
    gold: Value | None
    most_probable: Value
    probabilities: Mapping[Value, float]


def aggregate_labels(batch: Batch, method: str) -> list[CriterionAggregate]:
    """Of each criterion of the batch's guideline, from the work that has all its annotations."""
    units = read_units([batch])
    return [
        _aggregate_criterion(units, criterion, METHODS[method])
        for criterion in batch.guideline.document.countable_criteria
    ]


def _aggregate_criterion(
    units: Units, criterion: Criterion, combine: Callable[..., DawidSkene | Mace]
) -> CriterionAggregate:
    has_labels = criterion.name in units.criterion_names
    place = units.criterion_names.index(criterion.name) if has_labels else NOBODY
    criterion_units = units.where(units.criterion == place)
    unit, slot = np.nonzero(~np.isnan(criterion_units.label))
    person = criterion_units.person[unit, slot]
    description = (
        criterion.name,
        criterion.values,
        len(unit),
        len(np.unique(person)),
        np.unique(criterion_units.task).astype(np.int64),
    )
    try:
        fit = combine(
            task=criterion_units.task[unit],
            worker=person,
            label=find_places(criterion_units.label[unit, slot], criterion.values),
            classes=len(criterion.values),
        )
    except AssayError as error:
        return CriterionAggregate(*description, reason=str(error))
    if isinstance(fit, Mace) and fit.trusts_nobody:
        return CriterionAggregate(
            *description, iterations=fit.iterations, converged=False, reason=TRUSTS_NOBODY
        )
    return CriterionAggregate(
        *description,
        posteriors=fit.posteriors,
        marginals=fit.posteriors.mean(axis=0),
        iterations=fit.iterations,
        converged=fit.converged,
    )


def list_posteriors(aggregates: Sequence[CriterionAggregate]) -> Iterator[Posterior]:
    """Task by task in the order of their keys, and criterion by criterion."""
    fitted = [aggregate for aggregate in aggregates if aggregate.posteriors is not None]
    tasks = (
        np.unique(np.concatenate([aggregate.tasks for aggregate in fitted]))
        if fitted
        else np.zeros(0, dtype=np.int64)
    )
    for start in range(0, len(tasks), CHUNK):
        yield from _list_task_posteriors(tasks[start : start + CHUNK].tolist(), fitted)


def _list_task_posteriors(
    tasks: Sequence[int], aggregates: Sequence[CriterionAggregate]
) -> Iterator[Posterior]:
    tasks_by_id = {
        task.pk: task for task in Task.objects.filter(pk__in=tasks).select_related(*RELATED).only(*NAMES)
    }
    settled = GoldLabel.objects.filter(task__in=tasks, value__isnull=False).values_list(
        "task_id", "criterion", "value"
    )
    gold = {(task, criterion): number(value) for task, criterion, value in settled if value is not None}
    for task in tasks:
        for aggregate in aggregates:
            position = int(np.searchsorted(aggregate.tasks, task))
            if (
                aggregate.posteriors is not None
                and position < len(aggregate.tasks)
                and aggregate.tasks[position] == task
            ):
                row = aggregate.posteriors[position]
                yield Posterior(
                    task=task,
                    dataset=tasks_by_id[task].prompt.dataset.name,
                    prompt_id=tasks_by_id[task].prompt.key,
                    model=tasks_by_id[task].response.model.name,
                    criterion=aggregate.criterion,
                    gold=gold.get((task, aggregate.criterion)),
                    most_probable=aggregate.values[int(row.argmax())],
                    probabilities=dict(zip(aggregate.values, row.tolist(), strict=True)),
                )
