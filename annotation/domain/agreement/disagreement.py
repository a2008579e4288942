"""What is counted of units to say where people disagree, and on what. Pure; every count is one pass over columns.

``docs/agreement.md`` says what the figures mean. Shapes: N units, M groups, V values that occur.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from annotation.core import proportions
from annotation.domain.agreement.label_table import MAX_BINS, Codes, Units, index_keys
from annotation.domain.agreement.patterns import PromptCounts

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Name = TypeVar("Name")


@dataclass(frozen=True)
class UnitGroups(Generic[Name]):
    """Units put into groups: ``place`` (N,) is each one's group among ``names``."""

    names: tuple[Name, ...]
    place: Codes

    def where(self, mask: Mask) -> UnitGroups[Name]:
        return UnitGroups(self.names, self.place[mask])


def group_units(
    kinds: tuple[Codes, Codes], name_of: Callable[[int], Name], order: Callable[[Name], Any]
) -> UnitGroups[Name]:
    """The groups of units whose key has one name, the names in their order. ``kinds`` are the keys as ``index_keys``
    gives them.
    """
    keys, place = kinds
    named = [name_of(int(key)) for key in keys]
    names = sorted(set(named), key=order)
    at = {name: position for position, name in enumerate(names)}
    moved = np.array([at[name] for name in named], dtype=np.int64)
    return UnitGroups(tuple(names), moved[place] if len(keys) else np.zeros(0, dtype=np.int64))


def cross_groupings(sortings: Sequence[UnitGroups[Any]], n: int) -> UnitGroups[tuple[Any, ...]]:
    """The groups of several ways to sort at once, by the names of all; with none, one group of everything."""
    numbers = reduce(
        lambda number, grouping: number * len(grouping.names) + grouping.place,
        sortings,
        np.zeros(n, dtype=np.int64),
    )
    distinct_numbers, place = index_keys(numbers)
    names: list[tuple[Any, ...]] = []
    for number in distinct_numbers.tolist():
        rest, parts = number, list[Any]()
        for grouping in reversed(sortings):
            rest, position = divmod(rest, len(grouping.names))
            parts.append(grouping.names[position])
        names.append(tuple(reversed(parts)))
    return UnitGroups(tuple(names), place)


def count_patterns(
    units: Units, groups: UnitGroups[Name], weights: Floats | float = 1.0
) -> dict[Name, PromptCounts]:
    """The sets of labels of each group with how many units of each prompt carry each, and how much these (N,) weigh."""
    numbers, place = units.kinds("numbers")
    prompts, of_prompt = units.kinds("prompt")
    patterns = [units.labels_of(number) for number in numbers.tolist()]
    width = max(1, len(prompts))
    entries = (groups.place * max(1, len(numbers)) + place) * width + of_prompt
    weight: Floats | float
    if isinstance(weights, float):
        keys, n = count_keys(entries)
        weight = weights
    else:
        levels, of_level = np.unique(weights, return_inverse=True)
        keys, n = count_keys(entries * max(1, len(levels)) + of_level)
        weight = levels[keys % max(1, len(levels))] if len(keys) else 1.0
        keys //= max(1, len(levels))
    sets, prompt = keys // width, prompts[keys % width] if len(keys) else keys
    of_group, of_pattern = sets // max(1, len(numbers)), sets % max(1, len(numbers))
    ends = np.searchsorted(of_group, np.arange(len(groups.names) + 1))
    counts: dict[Name, PromptCounts] = {}
    for name, start, end in zip(groups.names, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        if end > start:
            pattern_places = of_pattern[start:end]  # ascending, as the keys are
            is_first = np.ones(end - start, dtype=bool)
            np.not_equal(pattern_places[1:], pattern_places[:-1], out=is_first[1:])
            counts[name] = PromptCounts(
                tuple([patterns[number] for number in pattern_places[is_first].tolist()]),
                np.cumsum(is_first) - 1,
                prompt[start:end],
                n[start:end],
                weight if isinstance(weight, float) else weight[start:end],
            )
    return counts


def find_people(units: Units, groups: UnitGroups[Name]) -> dict[Name, frozenset[int]]:
    """Whoever gave a label in each group."""
    width = int(units.person.max(initial=0)) + 1
    keys: list[Codes] = []
    for column in units.person.T:
        has_label = column >= 0
        keys.append(count_keys(groups.place[has_label] * width + column[has_label])[0])
    people: dict[Name, set[int]] = {}
    for key in (key for column_keys in keys for key in column_keys.tolist()):
        group, person = divmod(key, width)
        people.setdefault(groups.names[group], set()).add(person)
    return {name: frozenset(members) for name, members in people.items()}


def order_two_people(
    units: Units,
    groups: UnitGroups[Name],
    people: Mapping[Name, frozenset[int]],
    order: Sequence[int],
) -> Units:
    """In groups of two people alone the first place is that of the earlier in ``order``: places become people."""
    if units.person.shape[1] != 2:
        return units
    has_two = np.array([len(people.get(name, ())) == 2 for name in groups.names], dtype=bool)
    # Of no units nobody is left, and the order still names people.
    rank = np.zeros(max(int(units.person.max(initial=0)), *order, 0) + 1, dtype=np.int64)
    rank[np.array(order, dtype=np.int64)] = np.arange(len(order))
    both = (units.person >= 0).all(axis=1)
    is_turned = both & (rank[units.person[:, 0]] > rank[units.person[:, 1]])
    is_turned &= has_two[groups.place] if len(groups.names) else False
    if not is_turned.any():
        return units
    label = np.where(is_turned[:, None], units.label[:, ::-1], units.label)
    return replace(units, label=label)


def count_keys(keys: Codes) -> tuple[Codes, Codes]:
    """The different keys, ascending, and how often each occurs."""
    if not len(keys):
        return keys, keys
    lowest = int(keys.min())
    if int(keys.max()) - lowest < MAX_BINS:
        bins = np.bincount(keys - lowest)
        different = np.flatnonzero(bins)
        return different + lowest, bins[different].astype(np.int64)
    different, n = np.unique(keys, return_counts=True)
    return different, n.astype(np.int64)


def count_units(groups: UnitGroups[Any], mask: Mask | None = None) -> Codes:
    """(M,): the units of each group, of those that ``mask`` (N,) marks."""
    place = groups.place if mask is None else groups.place[mask]
    return np.bincount(place, minlength=len(groups.names)).astype(np.int64)


def count_pairs(units: Units, groups: UnitGroups[Name]) -> dict[Name, Codes]:
    """Of each group (V, V): the pairs of labels of one unit, the first person's value by the second's.

    With more than two labels each two of a unit are a pair, in the order of their places.
    """
    width = len(units.values)
    total = np.zeros(len(groups.names) * width * width, dtype=np.int64)
    for left, right in combinations(range(units.codes.shape[1]), 2):
        both = units.codes[:, right] >= 0
        both &= units.codes[:, left] >= 0
        first, second = (units.codes[:, place][both].astype(np.int64) for place in (left, right))
        keys = (groups.place[both] * width + first) * width + second
        total += np.bincount(keys, minlength=len(total))
    return dict(zip(groups.names, total.reshape(len(groups.names), width, width), strict=True))


@dataclass(frozen=True)
class LabelCounts:
    """A value within a group of units: in ``n`` compared units somebody gave it, in ``disputed`` of them somebody
    else another value; ``other_values`` (V,) counts those other labels' units by their value.
    """

    value: float
    n: int
    disputed: int
    other_values: dict[float, int]


def count_labels(units: Units, groups: UnitGroups[Name]) -> dict[Name, list[LabelCounts]]:
    """How often each value was given and disputed, group by group; values that nobody gave are left out."""
    size = len(groups.names)
    has_each = [(units.codes == place).any(axis=1) & units.compared for place in range(len(units.values))]
    counts: dict[Name, list[LabelCounts]] = {name: [] for name in groups.names}
    meeting = {
        (first, other): np.bincount(groups.place[has_each[first] & has_each[other]], minlength=size)
        for first, other in combinations(range(len(has_each)), 2)
    }
    for place, has_value in enumerate(has_each):
        n = np.bincount(groups.place[has_value], minlength=size)
        disputed = np.bincount(groups.place[has_value & units.differ], minlength=size)
        for group, name in enumerate(groups.names):
            if n[group]:
                met = {
                    units.values[other]: int(meeting[min(place, other), max(place, other)][group])
                    for other in range(len(has_each))
                    if other != place
                }
                other_values = {value: times for value, times in met.items() if times}
                counts[name].append(
                    LabelCounts(units.values[place], int(n[group]), int(disputed[group]), other_values)
                )
    return counts


def wilson(successes: npt.NDArray[Any], n: npt.NDArray[Any]) -> tuple[Floats, Floats]:
    """As ``proportions.wilson``, of many shares at once; ``n`` is nowhere 0."""
    return proportions.wilson_bounds(successes / n, n.astype(np.float64))


def index_tasks(units: Units, mask: Mask) -> tuple[Codes, Codes, Mask]:
    """Of the tasks (T,): their keys, the place of a unit of each, and whether ``mask`` (N,) marks any unit of it."""
    tasks, place = units.kinds("task")
    unit = np.zeros(len(tasks), dtype=np.int64)
    unit[place] = np.arange(len(units))
    is_marked = np.zeros(len(tasks), dtype=bool)
    is_marked[place[mask]] = True
    return tasks, unit, is_marked


def mean_distances(units: Units, distances: Floats) -> Floats:
    """(N,): the mean distance (V, V) between two labels of a unit; 0 for a single one."""
    total, pairs = np.zeros(len(units)), np.zeros(len(units))
    for left, right in combinations(range(units.codes.shape[1]), 2):
        both = (units.codes[:, left] >= 0) & (units.codes[:, right] >= 0)
        total[both] += distances[units.codes[:, left][both], units.codes[:, right][both]]
        pairs += both
    return total / np.maximum(pairs, 1)
