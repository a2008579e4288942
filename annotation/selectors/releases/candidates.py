"""The labels of a release while it is cut, and what would keep it from being cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet

from annotation.domain.releases.canonical import LabelKey, SettledLabel, number
from annotation.domain.releases.gold_file import csv_cell, csv_writer
from annotation.models import Batch, Dataset, EvaluatedModel, GoldLabel, GoldRelease, Task
from annotation.models.sql.releases import FrozenLabel, fetch_frozen_labels

CHUNK = 10_000


def iterate_frozen_labels(release: GoldRelease, *, after: int, to: int) -> Iterator[list[FrozenLabel]]:
    """The release's labels with ids above ``after`` and up to ``to``, part by part."""
    for start in range(after, to, CHUNK):
        yield fetch_frozen_labels(release.pk, after=start, to=min(start + CHUNK, to))


class ReleaseNames:
    """What the ids in a frozen label are called; guidelines by the batch."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches

    @cached_property
    def batches(self) -> dict[int, Batch]:
        return {batch.pk: batch for batch in self._batches}

    @cached_property
    def guidelines(self) -> dict[int, tuple[str, str]]:
        return {batch.pk: (batch.guideline.name, batch.guideline.version) for batch in self._batches}

    @cached_property
    def models(self) -> dict[int, str]:
        return dict(EvaluatedModel.objects.values_list("pk", "name"))

    @cached_property
    def datasets(self) -> dict[int, str]:
        return dict(Dataset.objects.values_list("pk", "name"))

    def settled(self, label: FrozenLabel) -> SettledLabel:
        guideline, version = self.guidelines[label.batch]
        return SettledLabel(
            guideline,
            version,
            self.datasets[label.dataset],
            label.key,
            self.models[label.model],
            label.response_sha256,
            label.criterion,
            number(label.value),
            label.source,
        )


_KEY = (
    "task__batch__guideline__name",
    "task__prompt_id",
    "task__response__model_id",
    "task__response__sha256",
    "criterion",
)


def list_settled_labels(batches: Iterable[Batch]) -> QuerySet[GoldLabel]:
    """The gold that a release of the batches takes: of their work tasks, but for the withdrawn ones."""
    batch_ids = [batch.pk for batch in batches]
    return GoldLabel.objects.filter(task__batch__in=batch_ids, task__kind=Task.Kind.WORK).exclude(
        task__state=Task.State.WITHDRAWN
    )


def list_contradicted_keys(batches: Iterable[Batch]) -> QuerySet[Any, Any]:
    """What was settled in two ways, a row of ids for each thing that was labelled, prompt by prompt."""
    keys: QuerySet[Any, Any] = (
        list_settled_labels(batches)
        .values(*_KEY)
        .annotate(low=Min("value"), high=Max("value"), numbers=Count("value"), all=Count("pk"))
        .filter(
            Q(low__lt=F("high")) | Q(numbers__gt=0, numbers__lt=F("all"))
        )  # a number and "not applicable"
        .order_by(*(_KEY[place] for place in (1, 2, 0, 4, 3)))
    )
    return keys


@dataclass(frozen=True)
class Contradiction:
    """One thing that was settled in several ways: the gold labels, by batch."""

    key: LabelKey
    labels: Sequence[GoldLabel]


def list_contradictions(batches: Sequence[Batch], keys: Iterable[dict[str, Any]]) -> list[Contradiction]:
    """The gold behind some rows of ``contradicted_keys``, in one query."""
    chosen_keys = [tuple(row[name] for name in _KEY) for row in keys]
    labels_by_key: dict[tuple[Any, ...], list[GoldLabel]] = {key: [] for key in chosen_keys}
    labels = list_settled_labels(batches).filter(task__prompt__in={key[1] for key in chosen_keys})
    related = ("task__batch__guideline", "task__response__model", "task__response__prompt__dataset")
    for label in labels.select_related(*related).order_by("task__batch__name", "task__position"):
        response = label.task.response
        guideline = label.task.batch.guideline.name
        key = (guideline, response.prompt_id, response.model_id, response.sha256, label.criterion)
        if key in labels_by_key:
            labels_by_key[key].append(label)
    return [Contradiction(_build_label_key(same[0]), same) for same in labels_by_key.values() if same]


def _build_label_key(label: GoldLabel) -> LabelKey:
    response = label.task.response
    return LabelKey(
        label.task.batch.guideline.name,
        response.prompt.dataset.name,
        response.prompt.key,
        response.model.name,
        response.sha256,
        label.criterion,
    )


HEADER = (
    "dataset",
    "prompt_id",
    "model",
    "response_sha256",
    "criterion",
    "batch",
    "task",
    "value",
    "source",
)


def iterate_csv_lines(contradictions: Iterable[Contradiction]) -> Iterator[str]:
    """A line for each label under a header; no text starts a formula (``safe_cell``)."""
    line = csv_writer()
    yield line(HEADER)
    for contradiction in contradictions:
        for label in contradiction.labels:
            cells = (
                *contradiction.key[1:],
                label.task.batch.name,
                label.task_id,
                number(label.value),
                label.source,
            )
            yield line([csv_cell(cell) for cell in cells])
