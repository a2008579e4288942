"""The tasks behind a figure: what was asked and answered, what each person said of it, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from annotation.domain.agreement import Value
from annotation.domain.agreement.label_table import NOBODY, Ints, Units, index_keys
from annotation.models import Adjudication, GoldLabel, Task
from annotation.selectors.agreement.labels import Labels
from annotation.selectors.agreement.report import exactly
from annotation.selectors.origins import has_imported


@dataclass(frozen=True)
class Said:
    """What was said of one criterion: by username in the order of the slots, and the gold, if it is settled."""

    criterion: str
    labels: tuple[tuple[str, Value], ...]
    differ: bool
    gold: GoldLabel | None


@dataclass(frozen=True)
class TaskBehind:
    task: Task
    said: tuple[Said, ...]
    decision: Adjudication | None


# The keys of longer lists are found anew each time: they would fill the memory.
MOST_KEPT = 25_000


class TasksBehind:
    """The tasks of the labels that can be compared, in the order of their keys; a slice reads what is shown of them."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        cached: list[tuple[Ints, int]] = labels.kept("tasks behind", list)  # one, or none yet
        if cached:
            self._tasks, self.units = cached[0]
        else:
            self._tasks, self.units = _found(labels.units)
            if len(self._tasks) <= MOST_KEPT:
                cached.append((self._tasks, self.units))

    def __len__(self) -> int:
        return len(self._tasks)

    def count(self) -> int:
        return len(self)

    def __getitem__(self, part: slice) -> list[TaskBehind]:
        keys = [int(task) for task in self._tasks[part]]
        tasks_with_text = Task.objects.select_related("response__prompt", "response__model")
        tasks = tasks_with_text.annotate(is_imported=has_imported("pk")).in_bulk(keys)
        batches = {batch.pk: batch for batch in self._labels.batches}
        for task in tasks.values():
            task.batch = batches[task.batch_id]  # with its guideline, which is long
        labels, decisions = _said(self._labels, keys), _decisions(keys)
        return [TaskBehind(tasks[key], tuple(labels[key]), decisions.get(key)) for key in keys]


def _found(units: Units) -> tuple[Ints, int]:
    """The keys of the tasks, and how many units they are."""
    compared = units.compared
    task_ids, _place = units.kinds("task") if compared.all() else index_keys(units.task[compared])
    return task_ids.astype(np.int32), int(np.count_nonzero(compared))


def _said(labels: Labels, tasks: Sequence[int]) -> dict[int, list[Said]]:
    settled = {
        (gold_label.task_id, gold_label.criterion): gold_label
        for gold_label in GoldLabel.objects.filter(task__in=tasks)
    }
    task_labels = labels.of_tasks(tasks)
    labels_by_task: dict[int, list[Said]] = {task: [] for task in tasks}
    units = task_labels.units
    for unit in range(len(units)):
        task, criterion = int(units.task[unit]), units.criterion_names[units.criterion[unit]]
        scale = task_labels.scales.names[task_labels.scales.place[unit]]
        values, _measurement = labels.measure(*scale)
        slot_values = exactly(tuple(map(float, units.label[unit])), values)
        people = [labels.people.get(int(person), "") for person in units.person[unit] if person != NOBODY]
        person_labels = tuple(
            (name, value) for name, value in zip(people, slot_values, strict=False) if value is not None
        )
        labels_by_task[task].append(
            Said(criterion, person_labels, bool(units.differ[unit]), settled.get((task, criterion)))
        )
    return labels_by_task


def _decisions(tasks: Sequence[int]) -> dict[int, Adjudication]:
    decisions = Adjudication.objects.filter(task__in=tasks).select_related("reason", "assignment__person")
    return {decision.task_id: decision for decision in decisions}
