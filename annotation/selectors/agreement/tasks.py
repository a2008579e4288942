"""The tasks behind a figure: the prompt and response, each person's labels, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from annotation.domain.agreement import Value
from annotation.domain.agreement.label_table import NOBODY, Ints, Units, index_keys
from annotation.models import Adjudication, GoldLabel, Task
from annotation.selectors.agreement.labels import ComparableLabels
from annotation.selectors.agreement.report import to_exact_pattern
from annotation.selectors.origins import has_imported


@dataclass(frozen=True)
class CriterionLabels:
    """What was said of one criterion: by username in the order of the slots, and the gold, if it is settled."""

    criterion: str
    labels: tuple[tuple[str, Value], ...]
    differ: bool
    gold: GoldLabel | None


@dataclass(frozen=True)
class TaskLabels:
    """``further`` are the tasks of the same response in other batches, whose labels are counted with this one's."""

    task: Task
    further: tuple[Task, ...]
    criteria: tuple[CriterionLabels, ...]
    decision: Adjudication | None


# The keys of longer lists are found anew each time: they would fill the memory.
MAX_CACHED_TASKS = 25_000


class LabelledTasks:
    """The tasks of the labels that can be compared, in the order of their keys; a slice reads what is shown of them."""

    def __init__(self, labels: ComparableLabels) -> None:
        self._labels = labels
        cached: list[tuple[Ints, int]] = labels.cache("tasks behind", list)  # one, or none yet
        if cached:
            self._tasks, self.units = cached[0]
        else:
            self._tasks, self.units = _find_task_ids(labels.units)
            if len(self._tasks) <= MAX_CACHED_TASKS:
                cached.append((self._tasks, self.units))

    def __len__(self) -> int:
        return len(self._tasks)

    def count(self) -> int:
        return len(self)

    def __getitem__(self, part: slice) -> list[TaskLabels]:
        keys = [int(task) for task in self._tasks[part]]
        further = _find_further(self._labels.merged, keys)
        tasks_with_text = Task.objects.select_related("response__prompt", "response__model")
        tasks = tasks_with_text.annotate(is_imported=has_imported("pk")).in_bulk([*keys, *further])
        batches = {batch.pk: batch for batch in self._labels.batches}
        for task in tasks.values():
            task.batch = batches[task.batch_id]  # with its guideline, which is long
        labels = _list_criterion_labels(self._labels, keys, further)
        decisions = _list_decisions(keys, further)
        return [
            TaskLabels(
                tasks[key],
                tuple(tasks[task] for task, first in further.items() if first == key),
                tuple(labels[key]),
                decisions.get(key),
            )
            for key in keys
        ]


def _find_further(merged: Mapping[int, int], tasks: Sequence[int]) -> dict[int, int]:
    listed_tasks = set(tasks)
    return {task: first for task, first in sorted(merged.items()) if first in listed_tasks}


def _find_task_ids(units: Units) -> tuple[Ints, int]:
    """The keys of the tasks, and how many units they are."""
    compared = units.compared
    task_ids, _place = units.kinds("task") if compared.all() else index_keys(units.task[compared])
    return task_ids.astype(np.int32), int(np.count_nonzero(compared))


def _list_criterion_labels(
    labels: ComparableLabels, tasks: Sequence[int], further: Mapping[int, int]
) -> dict[int, list[CriterionLabels]]:
    settled = _find_gold([*tasks, *further], further)
    task_labels = labels.of_tasks(tasks)
    labels_by_task: dict[int, list[CriterionLabels]] = {task: [] for task in tasks}
    units = task_labels.units
    for unit in range(len(units)):
        task, criterion = int(units.task[unit]), units.criterion_names[units.criterion[unit]]
        scale = task_labels.scales.names[task_labels.scales.place[unit]]
        values, _measurement = labels.measure(*scale)
        slot_values = to_exact_pattern(tuple(map(float, units.label[unit])), values)
        people = [labels.people.get(int(person), "") for person in units.person[unit] if person != NOBODY]
        person_labels = tuple(
            (name, value) for name, value in zip(people, slot_values, strict=False) if value is not None
        )
        labels_by_task[task].append(
            CriterionLabels(
                criterion, person_labels, bool(units.differ[unit]), settled.get((task, criterion))
            )
        )
    return labels_by_task


def _find_gold(tasks: Sequence[int], further: Mapping[int, int]) -> dict[tuple[int, str], GoldLabel]:
    """By task and criterion; none of a response that its tasks settled in different ways."""
    settled: dict[tuple[int, str], list[GoldLabel]] = {}
    for gold in GoldLabel.objects.filter(task__in=tasks).order_by("task_id"):
        settled.setdefault((further.get(gold.task_id, gold.task_id), gold.criterion), []).append(gold)
    return {key: same[0] for key, same in settled.items() if len({gold.value for gold in same}) == 1}


def _list_decisions(tasks: Sequence[int], further: Mapping[int, int]) -> dict[int, Adjudication]:
    """Of several tasks of a response that of the first."""
    decisions = Adjudication.objects.filter(task__in=[*tasks, *further]).order_by("-task_id")
    decisions = decisions.select_related("reason", "assignment__person")
    return {further.get(decision.task_id, decision.task_id): decision for decision in decisions}
