"""Honest people bear no marks when items change their kind, and faults are found on items of several kinds.

The rates over many batches are tests/performance/honest_marks.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from annotation.domain.quality import Labels, build_profiles
from annotation.domain.quality.drift import _Splits, largest_by_chance
from annotation.domain.quality.findings import TYPE_WITH_TIME
from annotation.domain.quality.labels import group_kinds
from tests.performance.honest_marks import DESIGNS, Design, list_marks, measure, simulate_honest
from tests.performance.seeded_faults import Faults, simulate


def design(name: str) -> Design:
    return next(design for design in DESIGNS if design.name == name)


@pytest.mark.parametrize(
    "name", ["file sorted into two types", "two types, other levels each", "file sorted by type, 3 people"]
)
def test_honest_people_on_a_sorted_file_bear_no_marks(name: str):
    # Without kinds 20 to 37 batches in a hundred have a mark, so that 3 of 40 or fewer come about once in ten or rarer.
    assert measure(design(name), range(40)).marked <= 3


def test_without_the_kinds_of_items_the_same_people_bear_marks():
    # The simulation is hard enough to show the fault that the kinds mend.
    sorted_file = design("file sorted into two types")
    labels = [simulate_honest(seed, sorted_file) for seed in range(30)]
    assert sum(bool(list_marks(build_profiles(replace(label, kind=None)))) for label in labels) >= 4


def test_drift_is_undetermined_where_types_follow_one_another():
    result = build_profiles(simulate_honest(1, design("file sorted by type")))
    assert {profile.drift.reason for profile in result.people.values()} == {TYPE_WITH_TIME}
    assert {profile.drift.value for profile in result.people.values()} == {None}
    mixed = build_profiles(simulate_honest(1, design("types mixed")))
    assert {profile.drift.reason for profile in mixed.people.values()} == {None}


def test_few_labels_on_many_types_are_said_to_follow_one_another_and_few_alone_are_looked_at():
    many = build_profiles(simulate_honest(2, design("file sorted by type, 24 people")))
    assert {profile.drift.reason for profile in many.people.values()} == {TYPE_WITH_TIME}
    few = build_profiles(simulate(2, tasks=300).labels)
    assert {profile.drift.reason for profile in few.people.values()} == {None}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_faults_are_found_on_items_of_several_kinds(seed: int):
    simulated = simulate(seed)
    kind = np.random.default_rng(seed).integers(0, 6, int(simulated.labels.unit.max()) + 1)
    result = build_profiles(replace(simulated.labels, kind=kind[simulated.labels.unit]))
    assert result.people[simulated.culprits["drift"]].drift.flagged
    assert result.people[simulated.culprits["drift"]].drift.day == pytest.approx(10, abs=2)
    assert {result.copying[0].first, result.copying[0].second} == {
        simulated.culprits["copying"],
        simulated.copied,
    }


def test_a_change_within_two_types_that_follow_one_another_is_found():
    # Half of the information is left: a change in the middle of the second type shows.
    labels = simulate(4, faults=Faults(), tasks=4800).labels
    second = labels.unit >= 2400
    own = (labels.person == 3) & (labels.day >= 15)
    value = np.where(own, np.minimum(labels.value + 1, 3.0), labels.value)
    result = build_profiles(replace(labels, value=value, kind=second.astype(np.int64)))
    assert result.people[3].drift.flagged
    assert (result.people[3].drift.value or 0) > 0.2


def test_a_rare_error_is_as_improbable_as_drawing_without_replacement_says():
    # 12 errors in 400 labels, 7 or more of them among the first 50: once in 1,000 draws, but 4.5 standard errors.
    values = np.zeros(400)
    values[[0, 5, 9, 20, 31, 44, 49, 90, 150, 210, 300, 390]] = 1.0
    values -= values.mean()
    splits = _Splits.of(np.arange(400.0), np.zeros(400, dtype=np.int64))
    scores, steps = splits.score(values)
    place = int(np.flatnonzero(splits.before == 50)[0])
    random = np.random.default_rng(0)
    draws = np.array([random.permutation(values)[:50].sum() for _ in range(20_000)])
    share = float((draws >= values[:50].sum() - 1e-9).mean())
    tail = 0.5 * math.erfc(float(scores[place]) / math.sqrt(2))
    assert share / 2 < tail < share * 3
    assert math.erfc(4.5 / math.sqrt(2)) / 2 < share / 20
    assert steps.sum() == pytest.approx(2 * math.log(7), rel=0.02)
    assert largest_by_chance(float(scores[place]), steps) > 0.003


def test_kinds_of_few_items_count_with_a_wider_kind():
    dimension = np.array([0] * 6 + [1] * 6)
    subcomponent = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 3, 3])
    task = np.arange(12)
    kinds = group_kinds([dimension, subcomponent], task, 3)
    assert [kinds[:3].tolist(), kinds[3:6].tolist(), kinds[6:].tolist()] == [
        [kinds[0]] * 3,
        [kinds[3]] * 3,
        [kinds[6]] * 6,
    ]
    assert len({kinds[0], kinds[3], kinds[6]}) == 3
    # Several criteria of one task are one item.
    assert set(group_kinds([dimension, subcomponent], task // 6, 3).tolist()) == {0}


def test_a_column_of_kinds_must_be_as_long_as_the_others():
    labels: Labels = simulate(1, tasks=50).labels
    with pytest.raises(Exception, match="different lengths"):
        build_profiles(replace(labels, kind=np.zeros(3, dtype=np.int64)))
