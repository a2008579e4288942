"""Units of several batches as one: each response once, against the same done label by label."""

from __future__ import annotations

import random

import pytest

from annotation.domain.agreement.label_table import (
    LabelledTask,
    PersonLabels,
    Units,
    build_units,
    join_units,
    pool_units,
)
from tests.support import examples

CRITERIA = ("tone", "harm")


def list_units(units: Units) -> list[tuple[int, str, dict[int, float]]]:
    return [
        (
            int(units.task[row]),
            units.criterion_names[units.criterion[row]],
            {
                int(person): float(label)
                for person, label in zip(units.person[row], units.label[row], strict=True)
                if person >= 0
            },
        )
        for row in range(len(units))
    ]


def draw_batches(chance: random.Random) -> tuple[list[list[LabelledTask]], list[int]]:
    """Batches of tasks, ascending; the number of a task says nothing of its batch. A few people and moments, so that
    the same person labels a response again, at the same moment too.
    """
    n_batches = chance.randint(1, 4)
    numbers = list(range(1, 200))
    chance.shuffle(numbers)
    batches = []
    for _batch in range(n_batches):
        responses = chance.sample(range(12), chance.randint(0, 8))
        tasks = []
        for task, response in zip(sorted(numbers.pop() for _r in responses), responses, strict=True):
            people = chance.sample(range(6), chance.randint(1, 4))
            words = [
                PersonLabels(
                    person,
                    {
                        name: chance.randint(1, 3)
                        for name in CRITERIA
                        if name == "tone" or chance.random() < 0.7
                    },
                    1,
                    None,
                    chance.randint(1, 3),
                )
                for person in people
            ]
            tasks.append(LabelledTask(task, response, response % 3, 1, "", words))
        batches.append(tasks)
    return batches, [chance.randint(1, 2) for _batch in range(n_batches)]


@pytest.mark.parametrize("seed", range(examples(60)))
def test_each_response_counts_once_with_everybodys_latest_label(seed: int):
    batches, versions = draw_batches(random.Random(seed))
    pooled = pool_units([build_units(tasks) for tasks in batches], versions)
    first_task: dict[tuple[int, int], int] = {}
    latest: dict[tuple[int, int], PersonLabels] = {}
    merged: dict[int, int] = {}
    for tasks, version in zip(batches, versions, strict=True):
        for task in tasks:
            first = first_task.setdefault((version, task.response), task.task)
            if first != task.task:
                merged[task.task] = first
            for word in task.annotations:
                before = latest.get((first, word.person))
                if before is None or before.moment <= word.moment:
                    latest[first, word.person] = word
    expected: dict[tuple[int, str], dict[int, float]] = {}
    for (first, person), word in latest.items():
        for name, value in word.labels.items():
            expected.setdefault((first, name), {})[person] = float(value)
    listed = list_units(pooled)
    assert {(task, name): labels for task, name, labels in listed} == expected
    assert len(listed) == len(expected)
    assert dict(pooled.merged) == merged
    tasks_in_order = [task for task, _name, _labels in listed]
    assert [t for place, t in enumerate(tasks_in_order) if t not in tasks_in_order[:place]] == list(
        dict.fromkeys(first_task.values())
    )
    runs = sum(1 for place, t in enumerate(tasks_in_order) if not place or tasks_in_order[place - 1] != t)
    assert runs == len(set(tasks_in_order))  # the units of a task stand side by side
    assert (pooled.person[:, :1] >= 0).all()
    for row in range(len(pooled)):
        n = len(listed[row][2])
        assert (pooled.person[row, :n] >= 0).all()


def test_without_a_shared_response_nothing_is_touched():
    words = [PersonLabels(1, {"tone": 2}, 1, None), PersonLabels(2, {"tone": 1}, 1, None)]
    parts = [build_units([LabelledTask(task, task, 1, 1, "", words)]) for task in (1, 2)]
    assert list_units(pool_units(parts, [1, 1])) == list_units(join_units(parts))
    assert not pool_units(parts, [1, 1]).merged
    assert len(pool_units([], [])) == 0
