"""Who annotates what, decided beforehand: the plans of the pairing policies ``balanced`` and ``fixed``.

A plan is a cycle of blocks repeated, and a rest; nothing in it grows with the number of tasks. How the blocks are
found, and how even the plans are, stands in ``docs/batches.md``.

People are the indices 0 to n-1. Inside, a block is first one of abstract points 0 to n-1, worked modulo n; the seed
decides who is which point, so it cannot change how even a plan is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from math import exp, gcd
from random import Random
from typing import Protocol, TypeAlias

Block: TypeAlias = tuple[int, ...]
"""Who share a task: distinct people in ascending order, as many as the overlap."""
Rounds: TypeAlias = Sequence[Sequence[Block]]
"""The blocks of one round may stand in any order, since a ``balanced`` plan's have nobody in common; the rounds keep
theirs."""

# Of a rest, the last blocks are searched one by one: whole orbits of at most this many, and never less than one.
MAX_SEARCHED_BLOCKS = 150
LOOKAHEAD = 32
# Steps of the searches: counted and not timed, so that the same plan comes out on every machine.
STEPS_PER_SEAT = 2_000
MAX_STEPS = 500_000
STARTER_STEPS = 100_000
# A cycle is looked for among this many multiples of the least number of orbits that could be balanced.
MULTIPLES = 4


@dataclass(frozen=True)
class Design:
    """Blocks for ``tasks`` tasks in their order: ``cycle`` over and over, ``repeats`` times, then ``rest``.

    Every turn of the cycle has the same blocks in another order, so that what recurs in the tasks (the models of
    each prompt, say) does not always meet the same people. ``names`` tells which person each point is.
    """

    people: int
    overlap: int
    tasks: int
    seed: int
    cycle: tuple[Stretch, ...] = field(repr=False)
    repeats: int
    rest: tuple[Stretch, ...] = field(repr=False)
    names: tuple[int, ...] = field(repr=False)

    def __iter__(self) -> Iterator[Block]:
        """The block of each task, the first task's first; neighbours share as few people as can be arranged."""
        random = Random(f"order {self.seed}")  # noqa: S311 - an order, not a secret
        last: Block = ()
        for rounds in self._rounds(random):
            for block in _arrange_blocks(rounds, last, random):
                yield self._name_people(block)
                last = block

    def _rounds(self, random: Random) -> Iterator[Rounds]:
        """The stretches' rounds. The last of the rest stays last: only whole stretches leave loads as they were."""
        for _turn in range(self.repeats):
            for stretch in random.sample(self.cycle, len(self.cycle)):
                yield stretch.rounds(random.randrange(self.people))
        for stretch in (*random.sample(self.rest[:-1], len(self.rest[:-1])), *self.rest[-1:]):
            yield stretch.rounds(random.randrange(self.people))

    def _name_people(self, block: Block) -> Block:
        return tuple(sorted([self.names[point] for point in block]))

    def counts(self) -> Counter[Block]:
        """How many tasks each distinct block gets; walks one cycle and the rest."""
        counts: Counter[Block] = Counter()
        for stretches, times in ((self.cycle, self.repeats), (self.rest, 1)):
            for stretch in stretches if times else ():
                for block in _iterate_blocks(stretch):
                    counts[self._name_people(block)] += times
        return counts

    @cached_property
    def _distinct(self) -> Counter[Block]:
        return self.counts()

    @cached_property
    def loads(self) -> tuple[int, ...]:
        """The tasks of each person."""
        loads = [0] * self.people
        for block, tasks in self._distinct.items():
            for person in block:
                loads[person] += tasks
        return tuple(loads)

    @cached_property
    def shared(self) -> Mapping[tuple[int, int], int]:
        """For each pair of people i < j, the tasks that both get."""
        shared = dict.fromkeys(combinations(range(self.people), 2), 0)
        for block, tasks in self._distinct.items():
            for first, second in combinations(block, 2):
                shared[first, second] += tasks
        return shared


def build_balanced_design(*, people: int, overlap: int, tasks: int, seed: int = 0) -> Design:
    """Loads differ by at most one, and the tasks that pairs share by as little as can be found.

    At overlap 2 those differ by at most one too. ``ValueError`` unless 1 <= overlap <= people and tasks >= 0.
    """
    if not 1 <= overlap <= people:
        raise ValueError(f"an overlap of {overlap} needs at least as many people, and there are {people}")
    _check_task_count(tasks)
    names = Random(f"people {seed}").sample(range(people), people)  # noqa: S311 - an order, not a secret
    cycle, repeats, rest = (
        _plan_pairs(people, tasks) if overlap == 2 and people > 2 else _plan_orbits(people, overlap, tasks)
    )
    return Design(people, overlap, tasks, seed, cycle, repeats, rest, tuple(names))


def find_min_spread(*, people: int, overlap: int, tasks: int) -> int:
    """A bound that no plan with loads within one can beat, on how much the tasks differ that pairs share.

    Whoever has ``load`` tasks shares load * (overlap - 1) seats with the n - 1 others: somebody at most the mean of
    that, rounded down, and somebody at least, rounded up. Two loads one apart can have means on either side of a
    whole number, and then the bound is 2.
    """
    if people == 1:
        return 0
    low, more = divmod(tasks * overlap, people)
    high = low + (more > 0)
    return -(-high * (overlap - 1) // (people - 1)) - low * (overlap - 1) // (people - 1)


def build_dealt_design(*, groups: Sequence[Block], people: int, tasks: int, seed: int = 0) -> Design:
    """The tasks go to the named groups in turn, so that their counts differ by at most one.

    Each turn has its own order. Groups may have people in common. ``ValueError`` where there is none, where one
    stands twice, is not of distinct people in ascending order, or is not as large as the others.
    """
    _check_task_count(tasks)
    if not groups or len(set(groups)) < len(groups):
        raise ValueError("groups must be named, each once")
    for group in groups:
        if not group or list(group) != sorted(set(group)) or not 0 <= group[0] <= group[-1] < people:
            raise ValueError(f"the group {group} is not of distinct people below {people} in ascending order")
        if len(group) != len(groups[0]):
            raise ValueError(f"the group {group} is not as large as {groups[0]}")
    order = Random(f"people {seed}").sample(list(groups), len(groups))  # noqa: S311 - an order, not a secret
    repeats, left = divmod(tasks, len(groups))
    cycle = (_ListedBlocks((tuple(order),)),)
    rest = (_ListedBlocks((tuple(order[:left]),)),) if left else ()
    return Design(people, len(groups[0]), tasks, seed, cycle, repeats, rest, tuple(range(people)))


def _check_task_count(tasks: int) -> None:
    if tasks < 0:
        raise ValueError(f"there cannot be {tasks} tasks")


class Stretch(Protocol):
    """Blocks that load everybody alike (the last of a rest: within one), told by a formula or listed."""

    def rounds(self, start: int) -> Rounds:
        """The blocks in an order that loads people as evenly as can be on the way; ``start`` only varies it."""
        ...


_Plan: TypeAlias = tuple[tuple[Stretch, ...], int, tuple[Stretch, ...]]
"""Cycle, repeats, rest."""


def _iterate_blocks(stretch: Stretch) -> Iterator[Block]:
    for blocks in stretch.rounds(0):
        yield from blocks


def _arrange_blocks(rounds: Rounds, last: Block, random: Random) -> Iterator[Block]:
    """The rounds' blocks, each round shuffled; the next is one that has little in common with the last."""
    waiting = [random.sample(blocks, len(blocks)) for blocks in rounds]
    while waiting:
        if waiting[0] == [last] and len(waiting) > 1:
            waiting[0], waiting[1] = waiting[1], waiting[0]
        blocks = waiting.pop(0)
        while blocks:
            last = blocks.pop(_find_furthest_block(blocks, last))
            yield last


def _find_furthest_block(blocks: Sequence[Block], last: Block) -> int:
    """The place of the first block that has nobody in common with the last one, or else the fewest."""
    people = set(last)
    for place, block in enumerate(blocks):
        if people.isdisjoint(block):
            return place
    return min(range(len(blocks)), key=lambda place: len(people.intersection(blocks[place])))


@dataclass(frozen=True)
class _ListedBlocks:
    listed: Rounds

    def rounds(self, start: int) -> Rounds:
        return self.listed


# Overlap 2: the edges of the complete graph, in an order of which every prefix is nearly regular.


def _plan_pairs(people: int, tasks: int) -> _Plan:
    """Every pair once in a cycle. What is left is the beginning of another, cut within its last stretch."""
    stretches: tuple[Stretch, ...]
    if people % 2 == 0:
        stretches, size = tuple(_Matching(people, turn) for turn in range(people - 1)), people // 2
    else:
        stretches, size = tuple(_Tour(people, turn) for turn in range(people // 2)), people
    repeats, left = divmod(tasks, size * len(stretches))
    complete, part = divmod(left, size)
    rest = stretches[:complete]
    if part:
        rest = (*rest, _ListedBlocks(_cut_rounds(stretches[complete].rounds(0), part)))
    return stretches, repeats, rest


def _cut_rounds(rounds: Rounds, blocks: int) -> Rounds:
    """As many of their blocks as are wanted."""
    cut: list[Sequence[Block]] = []
    for round_blocks in rounds:
        if blocks > 0:
            cut.append(round_blocks[:blocks])
        blocks -= len(round_blocks)
    return tuple(cut)


@dataclass(frozen=True)
class _Matching:
    """One round of a tournament of an even number of people (the circle method): each meets one other."""

    people: int
    turn: int

    def rounds(self, start: int) -> Rounds:
        ring = self.people - 1
        steps = range(1, self.people // 2)
        pairs = [_make_block((self.turn + step) % ring, (self.turn - step) % ring) for step in steps]
        return (((self.turn, ring), *pairs),)


@dataclass(frozen=True)
class _Tour:
    """One of Walecki's Hamiltonian cycles, which together have every pair of an odd number of people once.

    Its edges are taken alternately: first every other one, which meets all but one person; then one at the person
    left out; then the others, which meet all who have been met once.
    """

    people: int
    turn: int

    def rounds(self, start: int) -> Rounds:
        places = self._places()
        edges = [
            _make_block(places[(start + step) % self.people], places[(start + step + 1) % self.people])
            for step in range(self.people)
        ]
        return tuple(edges[:-1:2]), (edges[-1],), tuple(edges[1::2])

    def _places(self) -> list[int]:
        """The last point, then a zigzag over the ring of the others, turned: 0, 1, -1, 2, -2, and so on."""
        ring = self.people - 1
        zigzag = [(step + 1) // 2 * (1 if step % 2 else -1) for step in range(ring)]
        return [ring, *((self.turn + place) % ring for place in zigzag)]


def _make_block(*points: int) -> Block:
    return tuple(sorted(points))


# Any other overlap: orbits of starters modulo n, and a search for the blocks that no whole orbit takes.


@dataclass(frozen=True)
class _Orbit:
    """A starter and its translates modulo the number of people: everybody as often as the starter has points."""

    people: int
    starter: Block

    def rounds(self, start: int) -> Rounds:
        shifted = [
            [_make_block(*((point + start) % self.people for point in block)) for block in blocks]
            for blocks in _orbit_rounds(self.people, self.starter)
        ]
        return tuple(tuple(blocks) for blocks in shifted)


@lru_cache(maxsize=128)
def _orbit_rounds(people: int, starter: Block) -> Rounds:
    return _order_blocks(
        people, [_make_block(*((point + shift) % people for point in starter)) for shift in range(people)]
    )


def _plan_orbits(people: int, overlap: int, tasks: int) -> _Plan:
    """The cycle as often as it goes into the tasks, and the rest.

    A short rest may have to be uneven where a longer one need not be: then a short cycle goes once less.
    """
    cycle = _find_cycle(people, overlap, tasks)
    size = people * len(cycle)
    repeats, left = divmod(tasks, size) if cycle else (0, tasks)
    rest = _plan_rest(people, overlap, left)
    if (
        repeats
        and size <= MAX_SEARCHED_BLOCKS
        and rest.spread > find_min_spread(people=people, overlap=overlap, tasks=tasks)
    ):
        longer = _plan_rest(people, overlap, left + size)
        if longer.spread < rest.spread:
            return cycle, repeats - 1, longer.stretches
    return cycle, repeats, rest.stretches


def _find_cycle(people: int, overlap: int, tasks: int) -> tuple[_Orbit, ...]:
    """The shortest balanced incomplete block design found of whole orbits, of at most ``tasks`` blocks."""
    least = (people - 1) // gcd(people - 1, overlap * (overlap - 1)) if people > 1 else 1
    for multiple in range(1, MULTIPLES + 1):
        if multiple * least * people > tasks:
            break
        starters, excess = _search_starters(people, overlap, multiple * least)
        if excess == 0:
            return tuple(_Orbit(people, starter) for starter in starters)
    return ()


@lru_cache(maxsize=256)
def _search_starters(people: int, overlap: int, count: int) -> tuple[tuple[Block, ...], int]:
    """Starters whose differences are as even as a search finds, and by how much they miss.

    A pair of people at distance d shares as many tasks of the orbits as d is a difference of two points of a
    starter; all distances equally often make a difference family. Simulated annealing over single points, on the
    sum of squares.
    """
    random = Random(0)  # noqa: S311 - a search, not a secret
    starters = [random.sample(range(people), overlap) for _starter in range(count)]
    distances = _count_distances(people, starters)
    excess = _sum_of_squares(distances) - _least_squares(sum(distances), people - 1)
    heat, chance = 4.0, random.random
    cooling = (0.3 / heat) ** (1 / STARTER_STEPS)
    for _step in range(STARTER_STEPS):
        if excess <= 0:
            break
        heat *= cooling
        starter = starters[int(chance() * count)]
        place, new = int(chance() * overlap), int(chance() * people)
        if new in starter:
            continue
        change = _exchange_point(distances, starter, starter[place], new)
        if change <= 0 or chance() < exp(-change / heat):
            starter[place] = new
            excess += change
        else:
            undone = [*starter[:place], new, *starter[place + 1 :]]
            _exchange_point(distances, undone, new, starter[place])
    return tuple(_make_block(*starter) for starter in starters), excess


def _count_distances(people: int, starters: Sequence[Sequence[int]]) -> list[int]:
    """(n,): how often each distance modulo n is a difference of two points of a starter."""
    distances = [0] * people
    for starter in starters:
        for first, second in combinations(starter, 2):
            distances[(first - second) % people] += 1
            distances[(second - first) % people] += 1
    return distances


def _exchange_point(distances: list[int], starter: Sequence[int], old: int, new: int) -> int:
    """Counts the distances with ``new`` in the place of ``old``; the change of the sum of their squares."""
    people, change = len(distances), 0
    for point in starter:
        if point == old:
            continue
        for lost in ((old - point) % people, (point - old) % people):
            change += 1 - 2 * distances[lost]
            distances[lost] -= 1
        for won in ((new - point) % people, (point - new) % people):
            change += 1 + 2 * distances[won]
            distances[won] += 1
    return change


def _sum_of_squares(numbers: Sequence[int]) -> int:
    return sum(number * number for number in numbers)


def _spread(numbers: Sequence[int]) -> int:
    return max(numbers, default=0) - min(numbers, default=0)


def _least_squares(total: int, parts: int) -> int:
    """The least sum of squares of ``parts`` whole numbers that sum to ``total``."""
    if parts == 0:
        return 0
    low, more = divmod(total, parts)
    return (parts - more) * low * low + more * (low + 1) ** 2


@dataclass(frozen=True)
class _Rest:
    """``spread``: by how much the tasks differ that pairs share of these stretches."""

    stretches: tuple[Stretch, ...]
    spread: int


@lru_cache(maxsize=256)
def _plan_rest(people: int, overlap: int, tasks: int) -> _Rest:
    """Even starters' orbits as long as they last; the last of them and what is over are searched together."""
    orbits, over = divmod(tasks, people)
    starters, excess = _search_starters(people, overlap, orbits)
    fixed = max(0, orbits - max(1, MAX_SEARCHED_BLOCKS // people)) if over or excess else orbits
    stretches = [_Orbit(people, starter) for starter in starters]
    distances = _count_distances(people, starters[:fixed])
    loose = [list(block) for stretch in stretches[fixed:] for block in _iterate_blocks(stretch)]
    loose += [[(turn * overlap + seat) % people for seat in range(overlap)] for turn in range(over)]
    if not loose:
        return _Rest(tuple(stretches), _spread(distances[1:]))
    spread = _even_out(people, distances, loose)
    return _Rest(
        (*stretches[:fixed], _ListedBlocks(_order_blocks(people, [_make_block(*block) for block in loose]))),
        spread,
    )


def _order_blocks(people: int, blocks: list[Block]) -> Rounds:
    """The next block is the one of the next few whose people had least so far; rounds are what came out so."""
    loads = [0] * people
    rounds: list[list[Block]] = [[]]
    while blocks:
        place = min(
            range(min(len(blocks), LOOKAHEAD)), key=lambda place: _measure_loads(loads, blocks[place])
        )
        block = blocks.pop(place)
        for point in block:
            loads[point] += 1
        if any(not set(block).isdisjoint(other) for other in rounds[-1]):
            rounds.append([])
        rounds[-1].append(block)
    return tuple(tuple(round_blocks) for round_blocks in rounds)


def _measure_loads(loads: Sequence[int], block: Block) -> tuple[int, int]:
    had = [loads[point] for point in block]
    return max(had), sum(had)


def _even_out(people: int, distances: Sequence[int], blocks: list[list[int]]) -> int:
    """Changes places of people between the blocks, so that pairs share tasks as evenly as can be found.

    ``distances`` tells what pairs share already. Loads stay as they are. The answer is by how much the tasks differ
    that pairs share in the end. Simulated annealing on the sum of their squares; first a short one, which most often
    is enough.
    """
    shared = [[distances[(second - first) % people] for second in range(people)] for first in range(people)]
    for block in blocks:
        for first, second in combinations(block, 2):
            shared[first][second] += 1
            shared[second][first] += 1
    steps = min(MAX_STEPS, STEPS_PER_SEAT * len(blocks) * len(blocks[0]))
    random = Random(0)  # noqa: S311 - a search, not a secret
    if not _anneal(shared, blocks, steps // 5, random):
        _anneal(shared, blocks, steps, random)
    return _spread([shared[first][second] for first, second in combinations(range(people), 2)])


def _anneal(shared: list[list[int]], blocks: list[list[int]], steps: int, random: Random) -> bool:
    """Whether it came to the least sum of squares that the loads allow."""
    excess = sum(_sum_of_squares(row) - _least_squares(sum(row), len(shared) - 1) for row in shared)
    heat, chance, size, overlap = 0.4, random.random, len(blocks), len(blocks[0])
    cooling = (0.1 / heat) ** (1 / steps)
    for _step in range(steps):
        if excess <= 1:  # rows of odd length may leave one over: the sum counts each pair twice
            return True
        heat *= cooling
        first_block, second_block = blocks[int(chance() * size)], blocks[int(chance() * size)]
        first, second = first_block[int(chance() * overlap)], second_block[int(chance() * overlap)]
        if first in second_block or second in first_block:
            continue
        change = _measure_swap(shared, first_block, second_block, first, second)
        if change <= 0 or chance() < exp(-change / heat):
            _swap_people(shared, first_block, second_block, first, second)
            excess += 4 * change
    return excess <= 1


def _measure_swap(
    shared: list[list[int]], first_block: Sequence[int], second_block: Sequence[int], first: int, second: int
) -> int:
    """A quarter of what the sum of squares, each pair counted twice, gains if first and second change places.

    Who sits in both blocks shares as much with either afterwards.
    """
    of_first, of_second, change = shared[first], shared[second], 0
    for other in first_block:
        if other != first and other not in second_block:
            change += of_second[other] - of_first[other] + 1
    for other in second_block:
        if other != second and other not in first_block:
            change += of_first[other] - of_second[other] + 1
    return change


def _swap_people(
    shared: list[list[int]], first_block: list[int], second_block: list[int], first: int, second: int
) -> None:
    for block, leaves, comes in ((first_block, first, second), (second_block, second, first)):
        for other in block:
            if other != leaves:
                shared[leaves][other] -= 1
                shared[other][leaves] -= 1
                shared[comes][other] += 1
                shared[other][comes] += 1
        block[block.index(leaves)] = comes
