from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, islice, pairwise
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.domain.assignments import pairing
from annotation.domain.assignments.pairing import (
    Block,
    Design,
    build_balanced_design,
    build_dealt_design,
    find_min_spread,
)

# A short cycle, one that no orbits of the least number make, an odd and an even number of people, one block, turns.
SHAPES = [(3, 2), (4, 2), (7, 3), (9, 2), (10, 3), (11, 1), (6, 4), (5, 5), (16, 4)]


def spread(numbers: list[int]) -> int:
    return max(numbers) - min(numbers)


def walked_loads(blocks: list[Block], people: int) -> list[int]:
    seats = Counter(person for block in blocks for person in block)
    return [seats[person] for person in range(people)]


def walked_shared(blocks: list[Block], people: int) -> dict[tuple[int, int], int]:
    met = Counter(pair for block in blocks for pair in combinations(block, 2))
    return {pair: met[pair] for pair in combinations(range(people), 2)}


def unevenness(plan: Design) -> int:
    """The spread of the tasks that pairs share, after a walk that finds loads within one."""
    blocks = list(plan)
    assert len(blocks) == plan.tasks
    assert spread(walked_loads(blocks, plan.people)) <= 1
    return spread([*walked_shared(blocks, plan.people).values()])


@pytest.fixture
def _short_search(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a plan must be, it is however little the search finds."""
    monkeypatch.setattr(pairing, "MAX_STEPS", 500)
    monkeypatch.setattr(pairing, "STARTER_STEPS", 500)
    caches = (pairing._plan_rest, pairing._search_starters)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize("people", range(3, 10))
def test_at_overlap_2_pairs_share_within_one_at_every_number_of_tasks(people: int):
    for tasks in range(2 * comb(people, 2) + 2):
        assert unevenness(build_balanced_design(people=people, overlap=2, tasks=tasks, seed=tasks)) <= 1


@pytest.mark.parametrize("people", range(10, 41))
def test_at_overlap_2_pairs_share_within_one_for_more_people(people: int):
    pairs = comb(people, 2)
    for tasks in (1, people // 2 + 1, people - 1, people + 1, pairs - 1, pairs, pairs + people + 3):
        assert unevenness(build_balanced_design(people=people, overlap=2, tasks=tasks)) <= 1


@pytest.mark.parametrize(("people", "tasks"), [(100, 12_345), (101, 12_345), (1000, 2_345), (999, 2_345)])
def test_at_overlap_2_hundreds_of_people_share_within_one(people: int, tasks: int):
    plan = build_balanced_design(people=people, overlap=2, tasks=tasks)
    assert spread([*plan.loads]) <= 1
    assert spread([*plan.shared.values()]) <= 1


@pytest.mark.parametrize("people", range(3, 14))
@pytest.mark.parametrize("seed", range(3))
def test_at_overlap_2_loads_are_within_one_after_every_task(people: int, seed: int):
    loads = [0] * people
    for block in build_balanced_design(
        people=people, overlap=2, tasks=2 * comb(people, 2) + people - 1, seed=seed
    ):
        for person in block:
            loads[person] += 1
        assert spread(loads) <= 1


@pytest.mark.parametrize(
    ("people", "overlap", "tasks"), [(7, 3, 60), (10, 3, 157), (12, 5, 180), (40, 4, 520)]
)
def test_loads_are_never_further_apart_on_the_way_than_the_overlap(people: int, overlap: int, tasks: int):
    loads = [0] * people
    for block in build_balanced_design(people=people, overlap=overlap, tasks=tasks):
        for person in block:
            loads[person] += 1
        assert spread(loads) <= overlap


def test_seven_people_in_threes_share_exactly_100_of_700_tasks():
    # 700 tasks have 3 pairs each, and there are 21 pairs: 700 * 3 / 21 = 100.
    plan = build_balanced_design(people=7, overlap=3, tasks=700, seed=5)
    assert set(walked_shared(list(plan), 7).values()) == {100}
    assert set(plan.loads) == {300}
    assert len(plan.counts()) == 7


def test_ten_people_in_threes_share_66_or_67_of_1000_tasks():
    # 1000 * 3 / 45 = 66.67.
    plan = build_balanced_design(people=10, overlap=3, tasks=1000)
    assert unevenness(plan) == 1
    assert set(plan.shared.values()) == {66, 67}
    assert set(plan.loads) == {300}


@pytest.mark.parametrize(
    ("people", "overlap", "blocks", "each"),
    [
        (7, 3, 7, 1),
        (13, 4, 13, 1),
        (21, 5, 21, 1),
        (9, 3, 36, 3),
        (11, 5, 11, 2),
        (13, 3, 26, 1),
        (37, 4, 222, 2),
    ],
)
def test_known_balanced_incomplete_block_designs_are_found(people: int, overlap: int, blocks: int, each: int):
    assert set(build_balanced_design(people=people, overlap=overlap, tasks=blocks).shared.values()) == {each}


# Not where the search goes on to its end without finding a more even plan, but for two: that takes a second each.
ENDLESS = {(14, 4), (8, 5), (13, 5), (14, 5)}


@pytest.mark.parametrize(
    ("people", "overlap"),
    [
        (people, overlap)
        for overlap in (3, 4, 5)
        for people in range(max(4, overlap), 16)
        if (people, overlap) not in ENDLESS
    ],
)
def test_500_tasks_in_larger_blocks_are_shared_within_two(people: int, overlap: int):
    assert unevenness(build_balanced_design(people=people, overlap=overlap, tasks=500)) <= 2


@pytest.mark.parametrize(
    ("people", "overlap", "tasks"), [(4, 3, 2), (5, 3, 3), (5, 3, 4), (5, 4, 7), (6, 3, 5), (6, 4, 4)]
)
def test_no_plan_of_few_tasks_is_more_even(people: int, overlap: int, tasks: int):
    """Against all plans whose loads are within one."""
    every = combinations_with_replacement(combinations(range(people), overlap), tasks)
    fair = [blocks for blocks in every if spread(walked_loads([*blocks], people)) <= 1]
    best = min(spread([*walked_shared([*blocks], people).values()]) for blocks in fair)
    assert unevenness(build_balanced_design(people=people, overlap=overlap, tasks=tasks)) == best
    assert best >= find_min_spread(people=people, overlap=overlap, tasks=tasks)


@pytest.mark.usefixtures("_short_search")
def test_every_plan_is_of_valid_blocks_and_even_loads():
    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        people = data.draw(st.integers(1, 40))
        overlap = data.draw(st.integers(1, min(5, people)))
        tasks = data.draw(st.integers(0, 400))
        seed = data.draw(st.integers(0, 2**32))
        plan = build_balanced_design(people=people, overlap=overlap, tasks=tasks, seed=seed)
        blocks = list(plan)
        for block in blocks:
            assert len(block) == overlap
            assert list(block) == sorted(set(block))
            assert set(block) <= set(range(people))
        assert len(blocks) == tasks
        assert plan.counts() == Counter(blocks)
        assert list(plan.loads) == walked_loads(blocks, people)
        assert plan.shared == walked_shared(blocks, people)
        assert spread([*plan.loads]) <= 1
        assert list(plan) == blocks

    holds()


@pytest.mark.parametrize(("people", "overlap"), SHAPES)
def test_the_seed_decides_who_and_in_which_order_and_not_how_even(people: int, overlap: int):
    plan = build_balanced_design(people=people, overlap=overlap, tasks=95, seed=1)
    blocks = list(plan)
    pairing._plan_rest.cache_clear()
    pairing._search_starters.cache_clear()
    assert list(build_balanced_design(people=people, overlap=overlap, tasks=95, seed=1)) == blocks
    other = build_balanced_design(people=people, overlap=overlap, tasks=95, seed=2)
    assert sorted(other.shared.values()) == sorted(plan.shared.values())
    assert sorted(other.counts().values()) == sorted(plan.counts().values())
    assert (list(other) == blocks) == (overlap == people)


@pytest.mark.parametrize(("people", "overlap"), [shape for shape in SHAPES if shape[0] != shape[1]])
def test_neighbouring_tasks_go_to_different_blocks(people: int, overlap: int):
    blocks = list(build_balanced_design(people=people, overlap=overlap, tasks=560))
    assert all(block != after for block, after in pairwise(blocks))


@pytest.mark.parametrize(("people", "overlap"), [(9, 2), (12, 2), (16, 3), (20, 4)])
def test_neighbouring_tasks_rarely_go_to_the_same_person(people: int, overlap: int):
    blocks = list(build_balanced_design(people=people, overlap=overlap, tasks=560))
    met = sum(not set(block).isdisjoint(after) for block, after in pairwise(blocks))
    assert met < 0.2 * len(blocks)


@pytest.mark.parametrize(("people", "overlap", "models"), [(3, 2, 3), (5, 2, 5), (10, 2, 5), (7, 3, 7)])
def test_what_recurs_in_the_tasks_meets_every_block(people: int, overlap: int, models: int):
    """Each prompt has a response of every model, in the same order."""
    tasks = 60 * models * comb(people, overlap)
    blocks = list(build_balanced_design(people=people, overlap=overlap, tasks=tasks))
    met = Counter((place % models, block) for place, block in enumerate(blocks))
    expected = len(blocks) / models / len(set(blocks))
    assert len(met) == models * len(set(blocks))
    assert all(0.4 * expected < times < 1.6 * expected for times in met.values())


def test_overlap_1_goes_by_turns_and_everybody_is_one_block():
    turns = list(build_balanced_design(people=5, overlap=1, tasks=13))
    assert {len(set(turns[at : at + 5])) for at in (0, 5)} == {5}
    assert len(set(turns[10:])) == 3
    assert list(build_balanced_design(people=3, overlap=3, tasks=4)) == [(0, 1, 2)] * 4
    assert list(build_balanced_design(people=1, overlap=1, tasks=2)) == [(0,), (0,)]


@pytest.mark.parametrize(("people", "overlap"), [(20, 2), (20, 3), (40, 5)])
def test_a_million_tasks_are_planned_without_a_million_blocks(people: int, overlap: int):
    plan = build_balanced_design(people=people, overlap=overlap, tasks=1_000_000)
    assert len(list(islice(plan, 1000))) == 1000
    assert sum(plan.counts().values()) == 1_000_000
    assert spread([*plan.loads]) <= 1
    assert spread([*plan.shared.values()]) <= 2
    assert len(plan.cycle) + len(plan.rest) < 100


def test_no_tasks_make_an_empty_plan():
    plan = build_balanced_design(people=4, overlap=3, tasks=0)
    assert list(plan) == []
    assert plan.counts() == Counter()
    assert plan.loads == (0, 0, 0, 0)
    assert set(plan.shared.values()) == {0}


@pytest.mark.parametrize(
    ("people", "overlap", "tasks"), [(2, 3, 10), (3, 0, 10), (0, 0, 1), (-1, 1, 1), (3, 2, -1)]
)
def test_what_makes_no_sense_is_refused(people: int, overlap: int, tasks: int):
    with pytest.raises(ValueError):
        build_balanced_design(people=people, overlap=overlap, tasks=tasks)


GROUPS = [(0, 1), (2, 3), (0, 4)]


@pytest.mark.parametrize("tasks", range(20))
def test_named_groups_get_tasks_within_one(tasks: int):
    plan = build_dealt_design(groups=GROUPS, people=6, tasks=tasks, seed=3)
    blocks = list(plan)
    counts = Counter(blocks)
    assert len(blocks) == tasks
    assert set(counts) <= set(GROUPS)
    assert spread([counts[group] for group in GROUPS]) <= 1
    assert plan.counts() == counts
    assert list(plan.loads) == walked_loads(blocks, 6)
    assert plan.shared == walked_shared(blocks, 6)
    assert plan.loads[5] == 0


def test_named_groups_come_in_turn_each_turn_in_its_own_order():
    blocks = list(build_dealt_design(groups=GROUPS, people=5, tasks=300, seed=3))
    turns = [tuple(blocks[at : at + 3]) for at in range(0, 300, 3)]
    assert {frozenset(turn) for turn in turns} == {frozenset(GROUPS)}
    assert len(set(turns)) > 1
    assert all(block != after for block, after in pairwise(blocks))
    assert list(build_dealt_design(groups=GROUPS, people=5, tasks=300, seed=3)) == blocks
    assert list(build_dealt_design(groups=GROUPS, people=5, tasks=300, seed=4)) != blocks


def test_one_named_group_gets_everything():
    assert list(build_dealt_design(groups=[(1, 2)], people=3, tasks=3)) == [(1, 2)] * 3


@pytest.mark.parametrize(
    "groups", [[], [()], [(0, 1), (0, 1)], [(1, 0)], [(0, 0)], [(0, 4)], [(-1, 0)], [(0, 1), (0, 1, 2)]]
)
def test_groups_that_make_no_sense_are_refused(groups: list[Block]):
    with pytest.raises(ValueError):
        build_dealt_design(groups=groups, people=4, tasks=5)


def test_a_negative_number_of_tasks_is_refused():
    with pytest.raises(ValueError):
        build_dealt_design(groups=GROUPS, people=5, tasks=-1)
