"""The tasks behind a figure: what was asked and answered, what each person said of it, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from annotation.domain.agreement import Value
from annotation.domain.agreement.label_table import NOBODY, Ints, Units, distinct
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
        known: list[tuple[Ints, int]] = labels.kept("tasks behind", list)  # one, or none yet
        if known:
            self._tasks, self.units = known[0]
        else:
            self._tasks, self.units = _found(labels.units)
            if len(self._tasks) <= MOST_KEPT:
                known.append((self._tasks, self.units))

    def __len__(self) -> int:
        return len(self._tasks)

    def count(self) -> int:
        return len(self)

    def __getitem__(self, part: slice) -> list[TaskBehind]:
        keys = [int(task) for task in self._tasks[part]]
        found = Task.objects.select_related("response__prompt", "response__model")
        tasks = found.annotate(is_imported=has_imported("pk")).in_bulk(keys)
        batches = {batch.pk: batch for batch in self._labels.batches}
        for task in tasks.values():
            task.batch = batches[task.batch_id]  # with its guideline, which is long
        said, decisions = _said(self._labels, keys), _decisions(keys)
        return [TaskBehind(tasks[key], tuple(said[key]), decisions.get(key)) for key in keys]


def _found(units: Units) -> tuple[Ints, int]:
    """The keys of the tasks, and how many units they are."""
    compared = units.compared
    found, _place = units.kinds("task") if compared.all() else distinct(units.task[compared])
    return found.astype(np.int32), int(np.count_nonzero(compared))


def _said(labels: Labels, tasks: Sequence[int]) -> dict[int, list[Said]]:
    settled = {
        (gold_label.task_id, gold_label.criterion): gold_label
        for gold_label in GoldLabel.objects.filter(task__in=tasks)
    }
    shown = labels.of_tasks(tasks)
    found: dict[int, list[Said]] = {task: [] for task in tasks}
    units = shown.units
    for at in range(len(units)):
        task, criterion = int(units.task[at]), units.criterion_names[units.criterion[at]]
        scale = shown.scales.names[shown.scales.place[at]]
        values, _measurement = labels.measure(*scale)
        given = exactly(tuple(map(float, units.label[at])), values)
        people = [labels.people.get(int(person), "") for person in units.person[at] if person != NOBODY]
        said = tuple((name, value) for name, value in zip(people, given, strict=False) if value is not None)
        found[task].append(Said(criterion, said, bool(units.differ[at]), settled.get((task, criterion))))
    return found


def _decisions(tasks: Sequence[int]) -> dict[int, Adjudication]:
    found = Adjudication.objects.filter(task__in=tasks).select_related("reason", "assignment__person")
    return {one.task_id: one for one in found}
