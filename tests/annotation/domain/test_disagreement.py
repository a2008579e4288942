"""Counting by columns, held against counting one by one."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from annotation.core import proportions
from annotation.domain.agreement import measure_agreement
from annotation.domain.agreement.disagreement import (
    UnitGroups,
    count_labels,
    count_pairs,
    count_patterns,
    cross_groupings,
    group_units,
    index_tasks,
    mean_distances,
    wilson,
)
from annotation.domain.agreement.label_table import (
    LabelledTask,
    PersonLabels,
    Units,
    build_units,
    index_keys,
    split_pairs,
)

SCALE = (0.5, 1.0, 3.0)
PEOPLE = (7, 3, 11, 2)


def some_units(seed: int, tasks: int = 60) -> Units:
    """One to three labels a task on one or two criteria, some of a person who is not compared with anybody."""
    chance = random.Random(seed)

    def draw_labels(person: int) -> PersonLabels:
        labels = {name: chance.choice(SCALE) for name in ("tone", "harm") if chance.random() < 0.8}
        return PersonLabels(person, labels, chance.randint(1, 9), None)

    return build_units(
        LabelledTask(
            task,
            task,
            task % 7,
            1 + task % 3,
            "ab"[task % 2],
            [draw_labels(p) for p in chance.sample(PEOPLE, chance.randint(1, 3))],
        )
        for task in range(tasks)
    )


def rows(units: Units) -> list[tuple[str, tuple[float, ...], tuple[int, ...]]]:
    return [
        (
            units.criterion_names[criterion],
            tuple(float(row) for row in label if not np.isnan(row)),
            tuple(int(row) for row in person if row >= 0),
        )
        for criterion, label, person in zip(units.criterion, units.label, units.person, strict=True)
    ]


def by_criterion(units: Units) -> UnitGroups[str]:
    return group_units(units.kinds("criterion"), units.criterion_names.__getitem__, str)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_counted_by_columns_is_what_is_counted_one_by_one(seed: int):
    units = some_units(seed)
    every = rows(units)
    patterns = count_patterns(units, by_criterion(units))
    assert {name: counted.counts for name, counted in patterns.items()} == {
        name: dict(Counter(labels for of, labels, _people in every if of == name))
        for name in ("harm", "tone")
    }
    pairs = Counter((of, pair) for of, labels, _people in every for pair in combinations(labels, 2))
    counted = {
        (name, (units.values[first], units.values[other])): int(counts[first, other])
        for name, counts in count_pairs(units, by_criterion(units)).items()
        for first, other in np.argwhere(counts)
    }
    assert counted == dict(pairs)
    value_counts = {
        (name, count.value): (count.n, count.disputed)
        for name, label_counts in count_labels(units, by_criterion(units)).items()
        for count in label_counts
    }
    assert value_counts == {
        (name, value): (
            sum(of == name and len(labels) > 1 and value in labels for of, labels, _people in every),
            sum(of == name and value in labels and len(set(labels)) > 1 for of, labels, _people in every),
        )
        for name in ("harm", "tone")
        for value in SCALE
    }


@pytest.mark.parametrize("seed", range(3))
def test_each_two_people_of_a_unit_are_a_pair_in_the_order_of_their_names(seed: int):
    units = some_units(seed)
    order = [2, 3, 7]  # 11 is not asked for
    expected = Counter(
        (of, pair)
        for of, labels, people in rows(units)
        for pair in combinations(
            sorted(
                (order.index(person), label)
                for person, label in zip(people, labels, strict=True)
                if person in order
            ),
            2,
        )
    )
    pairs = rows(split_pairs(units, order))
    counted_pairs = Counter(
        (of, tuple(zip(map(order.index, people), labels, strict=True))) for of, labels, people in pairs
    )
    assert counted_pairs == expected


def test_groups_are_crossed_by_name_and_only_those_that_occur():
    units = some_units(1)
    part = group_units(units.kinds("subcomponent"), lambda at: units.subcomponent_names[at], str)
    both = cross_groupings([part, by_criterion(units)], len(units))
    assert both.names == (("a", "harm"), ("a", "tone"), ("b", "harm"), ("b", "tone"))
    assert cross_groupings([], len(units)).names == ((),)
    assert cross_groupings([], 0).names == ()


def test_large_keys_are_told_apart_as_small_ones_are():
    keys = np.array([5, -1, 5, 2**40, 7])
    distinct_keys, place = index_keys(keys)
    assert distinct_keys.tolist() == [-1, 5, 7, 2**40]
    assert distinct_keys[place].tolist() == keys.tolist()
    assert index_keys(keys[:3])[0].tolist() == [-1, 5]


def test_a_task_is_disputed_if_any_of_its_units_is():
    units = some_units(2)
    keys, unit, disputed = index_tasks(units, units.differ)
    assert units.task[unit].tolist() == keys.tolist()
    assert {int(key) for key in keys[disputed]} == {int(task) for task in units.task[units.differ]}


def test_many_shares_at_once_have_the_intervals_of_each():
    successes, n = np.array([0, 1, 5, 8]), np.array([4, 1, 8, 8])
    low, high = wilson(successes, n)
    each = [proportions.wilson(int(part), int(totals)) for part, totals in zip(successes, n, strict=True)]
    assert [*low, *high] == pytest.approx([place for end in zip(*each, strict=True) for place in end])


def test_the_mean_distance_is_what_alpha_has_above_its_line():
    """Two labels a unit: alpha is 1 - D_o / D_e, D_o the mean of ``differences``, D_e that of any two labels."""
    labels = [(1, 2), (1, 1), (3, 3), (2, 3), (3, 3), (1, 1)]
    units = build_units(
        LabelledTask(
            task,
            task,
            task,
            1,
            "",
            [PersonLabels(place, {"c": value}, 1, None) for place, value in enumerate(pair)],
        )
        for task, pair in enumerate(labels)
    )
    nominal = 1 - np.eye(3)
    counts = np.array([5, 2, 5])  # of 12 labels
    expected = counts @ nominal @ counts / (12 * 11)
    alpha = measure_agreement(
        Counter(labels), values=(1, 2, 3), measurement="nominal", statistics=["alpha_nominal"]
    )
    assert 1 - mean_distances(units, nominal).mean() / expected == pytest.approx(
        alpha.statistics["alpha_nominal"].value
    )


def test_a_number_stands_for_the_labels_in_their_places():
    units = some_units(4)
    labels = [units.labels_of(int(number)) for number in units.numbers]
    assert labels == [labels for _criterion, labels, _people in rows(units)]
