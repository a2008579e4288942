"""Faults are found in whom they were put, and not in anybody else.

The simulation, and how often of a hundred times each fault is found, are tests/performance/seeded_faults.py.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.core.errors import AssayError
from annotation.domain.agreement import Measurement
from annotation.domain.quality import (
    Finding,
    Labels,
    LabelScale,
    Profiles,
    build_profiles,
    measure_reading_floor,
)
from annotation.domain.quality import copying as module
from annotation.domain.quality.copying import _compute_tails, _find_begins, _Meetings
from annotation.domain.quality.drift import largest_by_chance
from annotation.domain.quality.findings import (
    FEW_DAYS,
    FEW_PEOPLE,
    FEW_SHARED,
    FEW_TIMED,
    NO_ORDER,
    NO_VARIATION,
    ONE_TIMED,
    holm,
)
from annotation.domain.quality.labels import build_table
from tests.performance.seeded_faults import ALL, NONE, Faults, Simulated, detect_faults, simulate

FIGURES = ("random", "severity", "drift", "speed")
NOTHING = Labels(
    *(np.zeros(0, dtype=dtype) for dtype in (int, int, float, int, float, float, float, bool)),
    scales={0: LabelScale((1.0, 2.0))},
)


def rows(labels: Labels, positions: np.ndarray) -> Labels:
    """Some rows, or all in another order."""
    columns = {field.name: getattr(labels, field.name) for field in fields(labels) if field.name != "scales"}
    indices = {name: None if column is None else column[positions] for name, column in columns.items()}
    return Labels(**indices, scales=labels.scales)


def finding(result: Profiles, person: int, figure: str) -> Finding:
    outcome = getattr(result.people[person], figure)
    assert isinstance(outcome, Finding)
    return outcome


def flagged(result: Profiles) -> list[object]:
    people = [
        (person, figure)
        for person in result.people
        for figure in FIGURES
        if finding(result, person, figure).flagged
    ]
    return [*people, *((pair.first, pair.second) for pair in result.copying if pair.flagged)]


@pytest.fixture(scope="module")
def simulation() -> tuple[Simulated, Profiles]:
    simulated = simulate(7)
    return simulated, build_profiles(simulated.labels)


# The faults of the benchmark


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_each_fault_ranks_first_and_is_flagged(seed: int):
    simulated = simulate(seed, faults=ALL)
    result = detect_faults(simulated, build_profiles(simulated.labels))
    assert result.first == {"random", "strict", "drift", "copying"}
    assert result.flagged == {"random", "strict", "drift", "copying"}
    assert result.falsely == ()


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_nothing_is_flagged_where_nothing_is_wrong(seed: int):
    assert flagged(build_profiles(simulate(seed, faults=NONE).labels)) == []


def test_the_figures_say_what_was_done(simulation: tuple[Simulated, Profiles]):
    simulated, result = simulation
    culprits = simulated.culprits
    guesser = finding(result, culprits["random"], "random")
    assert guesser.low is not None
    assert guesser.low < 0
    assert (guesser.high or 1) < 0.25
    # A level lower wherever there is one: on 80% of tasks, by the shares of levels.
    strict = finding(result, culprits["strict"], "severity")
    assert strict.value == pytest.approx(-0.8, abs=0.15)
    drift = finding(result, culprits["drift"], "drift")
    assert (drift.kind, drift.day) == ("severity", pytest.approx(10, abs=1.5))
    assert (drift.low or 0) > 0
    worst = result.copying[0]
    assert {worst.first, worst.second} == {culprits["copying"], simulated.copied}
    assert worst.observed == 1.0
    assert worst.copied == pytest.approx(1.0)
    assert 0.6 < worst.expected < 0.9


def test_partners_of_the_guilty_are_not_taken_for_them(simulation: tuple[Simulated, Profiles]):
    # A guesser lowers every partner's agreement and a strict one shifts it: the models take that into account.
    simulated, result = simulation
    honest = set(result.people) - set(simulated.culprits.values())
    middle = float(np.median([finding(result, person, "random").value or 0 for person in honest]))
    for person in honest:
        assert (finding(result, person, "random").value or 0) > 0.75 * middle
        assert abs(finding(result, person, "severity").value or 1) < 0.2


def test_who_hurries_is_flagged_for_speed_alone():
    simulated = simulate(3, faults=Faults(hasty=1.0))
    result = build_profiles(simulated.labels)
    assert set(flagged(result)) <= {(simulated.culprits["hasty"], "speed")}
    scores = {person: finding(result, person, "speed").score or 0.0 for person in result.people}
    assert max(scores, key=lambda person: scores[person]) == simulated.culprits["hasty"]


def test_labels_in_no_time_are_told_from_a_quick_pace():
    labels = simulate(4, faults=NONE).labels
    is_own = np.flatnonzero(labels.person == 6)
    seconds = labels.seconds.copy()
    seconds[is_own[::3]] = 0.4
    profile = build_profiles(replace(labels, seconds=seconds)).people[6]
    assert profile.speed.flagged
    assert profile.speed.kind == "instant"
    assert profile.instant == pytest.approx(1 / 3, abs=0.05)
    assert (profile.pace or 0) > 0.4


def test_what_nobody_can_have_read_is_flagged_without_anybody_to_compare_with():
    """Everybody at 0 s an item, or one person alone: there is no usual time."""
    labels = simulate(4, faults=NONE).labels
    floor = np.full(len(labels.person), 1.5)
    everybody = build_profiles(replace(labels, seconds=np.zeros(len(labels.person)), floor=floor))
    assert {profile.speed.kind for profile in everybody.people.values()} == {"unread"}
    assert all(profile.speed.flagged and profile.unread == 1.0 for profile in everybody.people.values())
    seconds = labels.seconds.copy()
    is_own = labels.person == 6
    seconds[~is_own] = np.nan
    single = build_profiles(replace(labels, seconds=seconds, floor=floor)).people[6]
    assert (single.speed.reason, single.speed.flagged) == (ONE_TIMED, False)
    seconds[np.flatnonzero(is_own)[::2]] = 1.0
    single = build_profiles(replace(labels, seconds=seconds, floor=floor)).people[6]
    assert (single.speed.kind, single.speed.flagged) == ("unread", True)
    seconds[is_own] = np.where(np.arange(is_own.sum()) % 12, 9.0, 1.0)  # a twelfth may be accidents
    single = build_profiles(replace(labels, seconds=seconds, floor=floor)).people[6]
    assert (single.speed.reason, single.speed.flagged) == (ONE_TIMED, False)


def test_the_floor_of_reading_follows_the_length_of_the_text():
    assert measure_reading_floor("") == 0.5
    assert measure_reading_floor("No.") == pytest.approx(0.5 + 3 / (6 * 987 / 60))
    assert measure_reading_floor("不可以。") == pytest.approx(0.5 + 4 / (6 * 255 / 60))
    assert measure_reading_floor("x" * 10_000) == measure_reading_floor("长" * 10_000) == 1.5


def test_without_decisions_and_times_the_faults_are_found_all_the_same():
    simulated = simulate(2, faults=ALL)
    none = np.full(len(simulated.labels.unit), np.nan)
    bare = replace(simulated.labels, gold=none, seconds=none, adjudicated=np.zeros(len(none), dtype=bool))
    result = build_profiles(bare)
    assert detect_faults(simulated, result).first >= {"random", "strict", "copying"}
    assert {finding(result, person, "speed").reason for person in result.people} == {FEW_TIMED}


# Other scales, other numbers of labels


def test_people_are_known_by_their_numbers_and_rows_by_nothing():
    simulated = simulate(5, tasks=600)
    labels = simulated.labels
    random = np.random.default_rng(0)
    names = random.permutation(1000)[:12]
    shuffled = rows(replace(labels, person=names[labels.person]), random.permutation(len(labels.unit)))
    before, after = build_profiles(labels), build_profiles(shuffled)
    for person in range(12):
        for figure in FIGURES:
            original, other = finding(before, person, figure), finding(after, int(names[person]), figure)
            assert (other.n, other.flagged, other.kind) == (original.n, original.flagged, original.kind)
            assert other.value == pytest.approx(original.value, abs=1e-6)
            assert other.p == pytest.approx(original.p, abs=1e-6)
    assert [(int(names[pair.first]), int(names[pair.second])) for pair in before.copying[:3]] == [
        pytest.approx((pair.first, pair.second))
        if pair.first == names[old.first]
        else (pair.second, pair.first)
        for pair, old in zip(after.copying[:3], before.copying[:3], strict=True)
    ]


def test_values_count_by_their_place_on_the_scale():
    labels = simulate(5, tasks=600).labels
    other = replace(
        labels,
        value=labels.value * 10 - 100,
        gold=labels.gold * 10 - 100,
        scales={0: LabelScale((-90.0, -80.0, -70.0))},
    )
    assert build_profiles(other) == build_profiles(labels)


def test_a_nominal_scale_knows_guessing_but_no_severity():
    simulated = simulate(6, faults=Faults(random=1.0))
    labels = replace(simulated.labels, scales={0: LabelScale((1.0, 2.0, 3.0), "nominal")})
    result = build_profiles(labels)
    culprit = simulated.culprits["random"]
    assert finding(result, culprit, "random").flagged
    assert {finding(result, person, "severity").reason for person in result.people} == {NO_ORDER}
    assert flagged(result) == [(culprit, "random")]


def test_criteria_with_other_scales_are_measured_apart_and_judged_together():
    # Every second task is another criterion with two levels; the strict one is strict on both.
    simulated = simulate(8, faults=ALL)
    labels = simulated.labels
    second = labels.unit % 2 == 1
    halved = np.where(second, np.minimum(labels.value, 2.0), labels.value)
    gold = np.where(second, np.minimum(labels.gold, 2.0), labels.gold)
    mixed = replace(
        labels,
        value=halved,
        gold=gold,
        scale=second.astype(int),
        scales={0: labels.scales[0], 1: LabelScale((1.0, 2.0))},
    )
    result = build_profiles(mixed)
    assert detect_faults(simulated, result).first >= {"random", "strict"}
    assert finding(result, simulated.culprits["strict"], "severity").flagged


def test_units_of_one_task_are_not_as_many_witnesses():
    # The same labels four times over, as four criteria of each task, are no more evidence than once.
    labels = simulate(9, faults=NONE, tasks=600).labels
    copies = [
        replace(labels, unit=labels.unit * 4 + number, scale=labels.scale + number) for number in range(4)
    ]
    together = rows_of(copies, scales=dict.fromkeys(range(4), labels.scales[0]), task=labels.unit)
    once, four = build_profiles(labels), build_profiles(together)
    for person in once.people:
        for figure in ("random", "severity"):
            single, other = finding(once, person, figure), finding(four, person, figure)
            assert other.value == pytest.approx(single.value, abs=0.02)
            assert (other.high or 0) - (other.low or 0) == pytest.approx(
                (single.high or 0) - (single.low or 0), rel=0.05
            )


def rows_of(parts: list[Labels], *, scales: dict[int, LabelScale], task: np.ndarray) -> Labels:
    names = [field.name for field in fields(Labels) if field.name not in {"scales", "task", "kind", "floor"}]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Labels(**columns, scales=scales, task=np.tile(task, len(parts)))


def test_more_annotators_a_task_are_as_good_as_two():
    assert flagged(build_profiles(simulate(10, faults=NONE, tasks=1600, overlap=3).labels)) == []
    simulated = simulate(10, faults=ALL, tasks=1600, overlap=3)
    assert detect_faults(simulated, build_profiles(simulated.labels)).first == {
        "random",
        "strict",
        "drift",
        "copying",
    }


# What is undefined


def test_no_labels_are_nobody():
    assert build_profiles(NOTHING) == Profiles({}, ())


def test_too_few_labels_are_undefined_and_say_how_few():
    labels = simulate(1, tasks=100).labels
    result = build_profiles(labels)
    for person in result.people:
        for figure in ("random", "severity", "drift"):
            outcome = finding(result, person, figure)
            assert (outcome.value, outcome.score, outcome.p, outcome.flagged) == (None, None, None, False)
            assert outcome.reason == FEW_SHARED
            assert outcome.n < 30
    assert result.copying == []


def test_two_people_cannot_be_told_apart():
    simulated = simulate(1, faults=Faults(strict=1.0), people=2, tasks=400)
    result = build_profiles(simulated.labels)
    for person in (0, 1):
        assert {finding(result, person, figure).reason for figure in ("random", "severity", "drift")} == {
            FEW_PEOPLE
        }
    assert result.copying == []


def test_pairs_that_never_mix_are_not_told_apart_either():
    labels = simulate(1, people=2, tasks=400).labels
    other = replace(labels, person=labels.person + 2, unit=labels.unit + 400)
    both = rows_of([labels, other], scales=dict(labels.scales), task=np.concatenate([labels.unit]))
    result = build_profiles(replace(both, task=None))
    assert {finding(result, person, "severity").reason for person in range(4)} == {FEW_PEOPLE}
    assert result.copying == []


def test_labels_that_are_all_the_same_tell_nothing_of_guessing():
    labels = simulate(1, tasks=600).labels
    same = replace(
        labels, value=np.full(1200, 3.0), gold=np.full(1200, 3.0), adjudicated=np.zeros(1200, dtype=bool)
    )
    result = build_profiles(same)
    for person in result.people:
        assert finding(result, person, "random").reason == NO_VARIATION
        assert finding(result, person, "severity").value == pytest.approx(0)
    assert [flag for flag in flagged(result) if flag[1] != "speed"] == []  # type: ignore[index]


def test_who_always_gives_one_level_follows_nobody():
    simulated = simulate(2, faults=NONE)
    labels = simulated.labels
    value = np.where(labels.person == 4, 3.0, labels.value)
    result = build_profiles(replace(labels, value=value, adjudicated=np.zeros(4800, dtype=bool)))
    assert finding(result, 4, "random").flagged
    assert finding(result, 4, "random").value == pytest.approx(0, abs=0.1)


def test_one_day_has_no_drift():
    labels = simulate(1, tasks=600).labels
    result = build_profiles(replace(labels, day=np.full(1200, 3.0)))
    assert {finding(result, person, "drift").reason for person in result.people} == {FEW_DAYS}


def test_one_annotator_a_task_has_a_speed_and_nothing_else():
    labels = simulate(1, tasks=1200).labels
    result = build_profiles(rows(labels, np.arange(0, 2400, 2) + np.arange(1200) % 2))
    assert {finding(result, person, "random").reason for person in result.people} == {FEW_SHARED}
    assert all((finding(result, person, "speed").value or 0) > 5 for person in result.people)


@settings(max_examples=20, deadline=None)
@given(
    given_rows=st.lists(
        st.tuples(
            st.integers(0, 5),
            st.integers(0, 30),
            st.integers(0, 2),
            st.integers(0, 4),
            st.floats(0, 99) | st.none(),
        ),
        max_size=150,
        unique_by=lambda row: row[:2],
    ),
    measurement=st.sampled_from(["nominal", "ordinal", "interval"]),
    times=st.integers(1, 4),
)
def test_whatever_comes_there_is_an_answer_or_a_reason(
    given_rows: list[tuple[int, int, int, int, float | None]], measurement: Measurement, times: int
):
    repeated = [
        (rater, unit + 31 * turn, *rest) for turn in range(times) for rater, unit, *rest in given_rows
    ]
    columns = list(zip(*repeated, strict=True)) or [(), (), (), (), ()]
    person, unit, level, day = (np.array(column, dtype=int) for column in columns[:4])
    seconds = np.array([np.nan if column is None else column for column in columns[4]], dtype=float)
    labels = Labels(
        person, unit, level.astype(float), unit % 2, day.astype(float), seconds, level.astype(float),
        day % 2 == 0, scales={0: LabelScale((0.0, 1.0, 2.0), measurement), 1: LabelScale((2.0, 1.0, 0.0))},
    )  # fmt: skip
    result = build_profiles(labels)
    assert list(result.people) == sorted(set(person.tolist()))
    for rater in result.people:
        for figure in FIGURES:
            got = finding(result, rater, figure)
            assert (got.value is None) <= (got.reason is not None)
            assert got.value is None or got.p is None or 0 <= got.p <= 1
            assert got.low is None or got.low <= (got.value or 0.0) + 1e-9 <= (got.high or 0.0) + 2e-9


# What is refused


def test_two_labels_of_one_person_on_one_unit_are_refused():
    labels = simulate(1, tasks=50).labels
    with pytest.raises(AssayError, match="two labels on one unit"):
        build_profiles(rows(labels, np.array([0, 1, 2, 2])))


def test_a_label_off_its_scale_is_refused_and_named():
    labels = simulate(1, tasks=50).labels
    with pytest.raises(AssayError, match="The label 4 is not on the scale 1, 2, 3"):
        build_profiles(replace(labels, value=labels.value + 1))


def test_a_scale_that_is_not_given_is_refused():
    with pytest.raises(AssayError, match="scale 0, which is not given"):
        build_profiles(replace(simulate(1, tasks=50).labels, scales={}))


def test_columns_of_different_lengths_are_refused():
    labels = simulate(1, tasks=50).labels
    with pytest.raises(AssayError, match="different lengths: 99, 100"):
        build_profiles(replace(labels, day=labels.day[1:]))


# The arithmetic


def test_holm_stops_at_the_first_that_is_too_large():
    # Bounds of 5%: 0.0125, 0.0167, 0.025, 0.05.
    assert holm([0.04, 0.001, 0.02, 0.016], 0.05) == [True, True, True, True]
    assert holm([0.01, 0.04, 0.03, 0.005], 0.05) == [True, False, False, True]
    assert holm([], 0.05) == []


@pytest.mark.parametrize("max_cells", [1, 500, 100_000])
def test_agreeing_as_often_is_as_probable_as_all_ways_to_it_together(
    monkeypatch: pytest.MonkeyPatch, max_cells: int
):
    monkeypatch.setattr(module, "MAX_CELLS", max_cells)
    pairs = build_table(simulate(1, tasks=300).labels).pairs
    meetings = _Meetings.of(pairs)
    chances = np.array([0.5, 0.7, 0.9])[meetings.levels[0]]
    n = np.bincount(meetings.pair_of_label)
    tails = _compute_tails(meetings, 0, chances, n)
    for cell in (0, 17, 65):
        distribution = np.ones(1)
        for chance in chances[meetings.pair_of_label == cell]:
            distribution = np.convolve(distribution, [1 - chance, chance])
        expected = distribution[::-1].cumsum()[::-1]
        begin = _find_begins(n)[cell]
        assert tails[begin : begin + n[cell] + 1] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("gap", [1, 20])
def test_the_largest_of_many_splits_is_as_rare_as_the_formula_says(gap: int):
    # 2,000 walks of 200 steps, splits that leave an eighth on either side: all of them, and every twentieth alone.
    random = np.random.default_rng(0)
    values = random.standard_normal((2000, 200))
    before = np.arange(25, 176, gap)
    sums = values.cumsum(axis=1)
    difference = (sums[:, -1:] - sums[:, before - 1]) / (200 - before) - sums[:, before - 1] / before
    largest = np.abs(difference / np.sqrt(1 / before + 1 / (200 - before))).max(axis=1)
    odds = np.log(before / (200 - before))
    steps = np.diff(odds)
    for bound in (2.5, 3.0):
        p = largest_by_chance(bound, steps)
        assert 0.6 * p < (largest > bound).mean() < 1.2 * p
