"""Whose the tasks of a batch are to be, before anybody works: one design for each group of people. Pure.

A kind of task is whatever has one answer to who may take it. The kinds that are for the same people share one
design, so that the plan is even where it can be.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

from annotation.domain.assignments.pairing import Block, Design, build_balanced_design, build_dealt_design

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Allotment(Generic[K]):
    """The ``kinds`` of task that are for the same ``people`` (their places in the batch, ascending).

    ``design`` numbers these people from 0; it is None where they are too few, or where no named pair is of them.
    """

    kinds: tuple[K, ...]
    people: Block
    tasks: int
    design: Design | None

    def blocks(self) -> Iterator[Block | None]:
        """Whose each task is, one after the other; without a design nobody's, without an end."""
        if self.design is None:
            return iter(lambda: None, 0)
        return (self._places(block) for block in self.design)

    def counts(self) -> Counter[Block]:
        """How many tasks each group of people gets."""
        counts = self.design.counts() if self.design is not None else Counter[Block]()
        return Counter({self._places(block): tasks for block, tasks in counts.items()})

    def _places(self, block: Block) -> Block:
        return tuple(sorted([self.people[person] for person in block]))


def plan_allotments(
    *,
    tasks: Mapping[K, int],
    eligible: Mapping[K, Block],
    pairs: Sequence[Block] | None,
    overlap: int,
    seed: int,
) -> list[Allotment[K]]:
    """``may`` tells the places of those who may take a kind. With ``pairs`` each task is one pair's, else balanced."""
    sharing: dict[Block, list[K]] = defaultdict(list)
    for kind in tasks:
        sharing[eligible[kind]].append(kind)
    plan = []
    for people, kinds in sharing.items():
        number = sum(tasks[kind] for kind in kinds)
        even = pairs is None
        design = (
            _design_balanced(people, number, overlap, seed)
            if even
            else _design_dealt(people, number, pairs or (), seed)
        )
        plan.append(Allotment(tuple(kinds), people, number, design))
    return plan


def count_tasks_by_person(counts: Mapping[Block, int]) -> Counter[int]:
    """The tasks of each person."""
    tasks_by_person: Counter[int] = Counter()
    for block, tasks in counts.items():
        tasks_by_person.update(dict.fromkeys(block, tasks))
    return tasks_by_person


def count_tasks_by_pair(counts: Mapping[Block, int]) -> Counter[tuple[int, int]]:
    """For people i < j, the tasks that both get."""
    tasks_by_pair: Counter[tuple[int, int]] = Counter()
    for block, tasks in counts.items():
        tasks_by_pair.update(dict.fromkeys(combinations(block, 2), tasks))
    return tasks_by_pair


def _design_balanced(people: Block, tasks: int, overlap: int, seed: int) -> Design | None:
    if len(people) < overlap:
        return None
    return build_balanced_design(people=len(people), overlap=overlap, tasks=tasks, seed=seed)


def _design_dealt(people: Block, tasks: int, pairs: Sequence[Block], seed: int) -> Design | None:
    place = {person: number for number, person in enumerate(people)}
    groups = [
        tuple(sorted(place[person_number] for person_number in pair))
        for pair in pairs
        if all(person_number in place for person_number in pair)
    ]
    return build_dealt_design(groups=groups, people=len(people), tasks=tasks, seed=seed) if groups else None
