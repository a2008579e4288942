"""All comparable labels of some batches as columns: what agreement, its causes and its people are counted from. Pure.

Shapes: N units, R places for labels on one unit (the largest overlap). Nothing here is copied where it is narrowed
by nothing; arrays must not be written to.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float32]
Codes: TypeAlias = npt.NDArray[np.int64]
NOBODY = -1
APPLICABILITY = " na"
"""After the name of a criterion: of units that tell who found it not applicable. No criterion's name has a blank."""
# Up to so many, whole numbers are counted, not sorted.
MAX_COUNTED_VALUES = 1000
MAX_BINS = 1 << 21
NAMES = ("criterion", "subcomponent", "round")


@dataclass(frozen=True)
class Units:
    """N units: each is one criterion of one task of work that has all its annotations, or at least two of them. In the
    order of tasks. Where tasks of several batches have one response, the first of them stands for all
    (``pool_units``); ``merged`` names it by each of the others.

    ``task``, ``response``, ``prompt`` and ``stratum`` are primary keys. ``criterion`` and ``subcomponent`` are
    positions in the names beside them. ``person`` (N, R) are primary keys in the order of the slots, ``NOBODY`` where
    there is no label; ``label`` (N, R) its value, nan where there is none; ``day`` (N, R) when it was handed in, as the
    proleptic ordinal of the date where the site is, and 0 where there is none; ``moment`` (N, R) the same in seconds
    since 1970; ``seconds`` (N, R) nan where unknown; ``round`` (N, R) the position in ``round_names`` of the round of
    labelling, of which the first stands for none.
    """

    criterion_names: tuple[str, ...]
    subcomponent_names: tuple[str, ...]
    round_names: tuple[str, ...]
    task: Ints
    response: Ints
    prompt: Ints
    stratum: Ints
    criterion: Ints
    subcomponent: Ints
    person: Ints
    label: Floats
    day: Ints
    moment: Codes
    seconds: Floats
    round: Ints
    merged: Mapping[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.task)

    @cached_property
    def finished(self) -> Ints:
        """(N,): the day of the last label."""
        days = np.zeros(len(self), dtype=np.int32)
        for column in self.day.T:  # a maximum along short rows takes ten times as long
            np.maximum(days, column, out=days)
        return days

    @property
    def first_round(self) -> Ints:
        """(N,): the round of the first label; of units that ``split_rounds`` gives, of all of them."""
        return self.round[:, 0] if self.round.shape[1] else np.zeros(len(self), dtype=np.int32)

    @cached_property
    def values(self) -> tuple[float, ...]:
        """Every value that occurs, ascending."""
        labels = self.label[~np.isnan(self.label)]
        integers = labels.astype(np.int64)
        if (
            len(labels)
            and integers.min() >= 0
            and integers.max() < MAX_COUNTED_VALUES
            and np.array_equal(integers, labels)
        ):
            return tuple(map(float, np.flatnonzero(np.bincount(integers))))
        return tuple(map(float, np.unique(labels)))

    def values_of(self, criterion: str) -> set[int | float]:
        """Every value that somebody gave by the criterion of this name."""
        if criterion not in self.criterion_names:
            return set()
        labels = self.label[self.criterion == self.criterion_names.index(criterion)]
        occurring = np.unique(labels[~np.isnan(labels)]).tolist()
        return {int(value) if value.is_integer() else value for value in occurring}

    @cached_property
    def codes(self) -> npt.NDArray[np.int16]:
        """(N, R): the place of each label among ``values``, -1 where there is none."""
        codes = np.full(self.label.shape, -1, dtype=np.int16)
        for place, value in enumerate(self.values):
            codes[self.label == np.float32(value)] = place
        return codes

    @cached_property
    def _is_numbered(self) -> bool:
        """Whether the labels of a unit fit into one number, as digits."""
        return bool((len(self.values) + 1) ** self.label.shape[1] < 1 << 62)

    @cached_property
    def _distinct_rows(self) -> tuple[npt.NDArray[np.int16], Codes]:
        """The different rows of ``codes``, each once and in order, and which of them each unit (N,) has."""
        rows, place = np.unique(self.codes, axis=0, return_inverse=True)
        return rows, place.ravel().astype(np.int64)

    @cached_property
    def numbers(self) -> npt.NDArray[np.int64]:
        """(N,): the labels of a unit as one number, equal where they are equal in the same places."""
        if not self._is_numbered:
            return self._distinct_rows[1]
        base = len(self.values) + 1
        numbers = np.zeros(len(self), dtype=np.int64)
        for column in self.codes.T:
            numbers *= base
            numbers += column
            numbers += 1
        return numbers

    @cached_property
    def numbered(self) -> Units:
        """Those whose labels are values of a scale; all but those of ``applicability``."""
        mask = self._is_applicability
        return self.where(~mask) if mask.any() else self

    @cached_property
    def applicability(self) -> Units:
        """Those that say of a criterion, here under its own name, who found it not applicable (1) and who did not."""
        units = self.where(self._is_applicability)
        names = tuple(name.removesuffix(APPLICABILITY) for name in self.criterion_names)
        places = {name: names.index(name) for name in names}
        renumbered = np.array([places[name] for name in names], dtype=np.int32)
        return replace(units, criterion_names=names, criterion=renumbered[units.criterion])

    @cached_property
    def _is_applicability(self) -> npt.NDArray[np.bool_]:
        marked = [place for place, name in enumerate(self.criterion_names) if name.endswith(APPLICABILITY)]
        if not marked:
            return np.zeros(len(self), dtype=bool)
        return np.isin(self.criterion, marked)

    def kinds(self, column: str) -> tuple[Codes, Codes]:
        """``index_keys`` of a whole-numbered column, worked out once."""
        known: dict[str, tuple[Codes, Codes]] = self.__dict__.setdefault("_kinds", {})
        if column not in known:
            known[column] = index_keys(getattr(self, column))
        return known[column]

    @cached_property
    def people(self) -> frozenset[int]:
        """Everybody who gave a label."""
        people, _place = index_keys(self.person.ravel())
        return frozenset(map(int, people)) - {NOBODY}

    def labels_of(self, number: int) -> tuple[float | None, ...]:
        """The labels behind one of ``numbers``, without the places after the last of them."""
        if not self._is_numbered:
            codes = self._distinct_rows[0][number]
            last = int(np.flatnonzero(codes >= 0).max(initial=-1))
            return tuple(self.values[code] if code >= 0 else None for code in codes[: last + 1].tolist())
        labels: list[float | None] = []
        for _place in range(self.label.shape[1]):
            number, digit = divmod(number, len(self.values) + 1)
            if digit or labels:
                labels.append(self.values[digit - 1] if digit else None)
        return tuple(reversed(labels))

    @cached_property
    def differ(self) -> npt.NDArray[np.bool_]:
        """(N,): whether any two labels are not the same."""
        differing = np.zeros(len(self), dtype=bool)
        for column in self.codes.T[1:]:
            differing |= (column >= 0) & (column != self.codes[:, 0])
        return differing

    @cached_property
    def compared(self) -> npt.NDArray[np.bool_]:
        """(N,): whether there are two labels, which always stand in the first places."""
        return self.codes[:, 1] >= 0 if self.codes.shape[1] > 1 else np.zeros(len(self), dtype=bool)

    def where(self, mask: npt.NDArray[np.bool_]) -> Units:
        """The units that ``mask`` (N,) marks."""
        return replace(self, **{name: getattr(self, name)[mask] for name in COLUMNS})


def index_keys(keys: npt.NDArray[Any]) -> tuple[Codes, Codes]:
    """The different whole numbers (M,), ascending, and the place of each key among them (N,)."""
    if not len(keys):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    lowest, highest = int(keys.min()), int(keys.max())
    if highest - lowest >= MAX_BINS:
        values, place = np.unique(keys, return_inverse=True)
        return values.astype(np.int64), place.astype(np.int64)
    moved = keys.astype(np.int64) - lowest
    is_present = np.bincount(moved) > 0
    return np.flatnonzero(is_present) + lowest, (np.cumsum(is_present) - 1)[moved]


def find_places(labels: npt.NDArray[Any], values: Sequence[float]) -> Codes:
    """The place of each label among ``values`` (ascending), -1 for what is none of them."""
    known = np.array(values, dtype=np.float32)  # as labels are kept: 0.1 in single precision is above 0.1
    at = np.minimum(np.searchsorted(known, labels), len(known) - 1)
    return np.where(known[at] == labels, at, NOBODY).astype(np.int64)


COLUMNS = tuple(
    column.name for column in fields(Units) if column.name != "merged" and not column.name.endswith("_names")
)
WIDE = ("person", "label", "day", "moment", "seconds", "round")
_TYPES = {"label": "f", "moment": "q", "seconds": "f"}
_MISSING: dict[str, Any] = {
    "person": NOBODY,
    "label": np.nan,
    "day": 0,
    "moment": 0,
    "seconds": np.nan,
    "round": 0,
}


@dataclass(frozen=True)
class PersonLabels:
    """The labels that one person gave to one task, by criterion."""

    person: int
    labels: dict[str, float]
    day: int
    seconds: float | None
    moment: int = 0
    round: str = ""


@dataclass(frozen=True)
class LabelledTask:
    """One task with its labels in the order of the slots."""

    task: int
    response: int
    prompt: int
    stratum: int
    subcomponent: str
    annotations: Sequence[PersonLabels]


def build_units(tasks: Iterable[LabelledTask]) -> Units:
    """The units of ``tasks``, which come in ascending order: one for each criterion that anyone answered.

    What is read is kept in arrays from the beginning: a million units as lists would take most of a gigabyte.
    """
    criteria: dict[str, int] = {}
    subcomponents: dict[str, int] = {}
    rounds = {"": 0}
    single, counts = array("i"), array("i")
    wide: dict[str, array[Any]] = {name: array(_TYPES.get(name, "i")) for name in WIDE}
    for task_labels in tasks:
        subcomponent = subcomponents.setdefault(task_labels.subcomponent, len(subcomponents))
        for name in dict.fromkeys(name for label in task_labels.annotations for name in label.labels):
            criterion = criteria.setdefault(name, len(criteria))
            single.extend(
                (
                    task_labels.task,
                    task_labels.response,
                    task_labels.prompt,
                    task_labels.stratum,
                    criterion,
                    subcomponent,
                )
            )
            labels = [label for label in task_labels.annotations if name in label.labels]
            counts.append(len(labels))
            wide["person"].extend(label.person for label in labels)
            wide["label"].extend(label.labels[name] for label in labels)
            wide["day"].extend(label.day for label in labels)
            wide["moment"].extend(label.moment for label in labels)
            wide["seconds"].extend(np.nan if label.seconds is None else label.seconds for label in labels)
            wide["round"].extend(rounds.setdefault(label.round, len(rounds)) for label in labels)
    task, response, prompt, stratum, criterion_of, subcomponent_of = (
        np.array(single, dtype=np.int32).reshape(-1, 6).T.copy()
    )
    has_label = np.arange(max(counts, default=0)) < np.array(counts, dtype=np.int32)[:, None]
    wide_columns: dict[str, Any] = {
        name: _fill_places(wide[name], has_label, _MISSING[name]) for name in WIDE
    }
    return Units(
        criterion_names=tuple(criteria),
        subcomponent_names=tuple(subcomponents),
        round_names=tuple(rounds),
        task=task,
        response=response,
        prompt=prompt,
        stratum=stratum,
        criterion=criterion_of,
        subcomponent=subcomponent_of,
        **wide_columns,
    )


def _fill_places(values: array[Any], has_label: npt.NDArray[np.bool_], missing: Any) -> Any:
    """The values (in the order of units and places) where there is one, else ``missing``."""
    filled = np.full(has_label.shape, missing, dtype=np.dtype(values.typecode))
    filled[has_label] = values
    return filled


def join_units(parts: Sequence[Units]) -> Units:
    """The units of several batches, one after the other, with one set of names and of places."""
    if not parts:
        return build_units([])
    if len(parts) == 1:
        return parts[0]
    places = max((part.person.shape[1] for part in parts), default=0)
    numbers: dict[str, dict[str, int]] = {name: {} for name in NAMES}
    numbers["round"][""] = 0
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for part in parts:
        for column in COLUMNS:
            values = getattr(part, column)
            if column in NAMES:
                values = _renumber_names(values, getattr(part, f"{column}_names"), numbers[column])
            if column in WIDE:
                width = ((0, 0), (0, places - values.shape[1]))
                values = np.pad(values, width, constant_values=_MISSING[column])
            columns[column].append(values)
    joined: dict[str, Any] = {column: np.concatenate(values) for column, values in columns.items()}
    joined |= {f"{name}_names": tuple(known) for name, known in numbers.items()}
    return Units(**joined)


def _renumber_names(values: Ints, before: Sequence[str], known: dict[str, int]) -> Ints:
    places = np.array([known.setdefault(name, len(known)) for name in before], dtype=np.int32)
    return places[values] if len(places) else values


def pool_units(parts: Sequence[Units], versions: Sequence[int]) -> Units:
    """The units of several batches, each labelled under one of ``versions``, as of one: a response counts once under
    each version, with the labels of all its tasks. Of what one person said of it, what they handed in last counts; of
    equal moments, that of the later batch.
    """
    units = join_units(parts)
    return pool_items(units, index_responses(units, parts, versions))


def place_labels(values: npt.NDArray[Any], has_label: npt.NDArray[np.bool_], column: str) -> npt.NDArray[Any]:
    """The values of a wide column, in the order of units and places, where there is a label."""
    placed = np.full(has_label.shape, _MISSING[column], dtype=values.dtype)
    placed[has_label] = values
    return placed


def index_responses(units: Units, parts: Sequence[Units], versions: Sequence[int]) -> Codes:
    """(N,): which response under which version of the guideline each unit of the joined ``parts`` is of."""
    names, version = np.unique(np.array(versions, dtype=np.int64), return_inverse=True)
    version_of = np.repeat(version.ravel(), [len(part) for part in parts])
    return index_keys(units.response.astype(np.int64) * max(1, len(names)) + version_of)[1]


def pool_items(units: Units, item: Codes) -> Units:
    """``units`` with one for each criterion of an ``item`` (N,), in which tasks of several batches may meet."""
    first = np.zeros(int(item.max(initial=-1)) + 1, dtype=np.int64)
    first[item[::-1]] = np.arange(len(units))[::-1]  # the last to be written is the first of each
    first_unit = first[item]
    is_moved = units.task[first_unit] != units.task
    if not is_moved.any():
        return units
    is_shared = np.isin(item, item[is_moved])
    pooled = _merge_units(units.where(is_shared), first_unit[is_shared], units)
    combined = join_units([units.where(~is_shared), pooled])
    starts = np.concatenate([first_unit[~is_shared], _find_starts(units, pooled)])
    order = np.argsort(starts, kind="stable")
    moved_tasks = zip(units.task[is_moved].tolist(), units.task[first_unit[is_moved]].tolist(), strict=True)
    columns = {name: getattr(combined, name)[order] for name in COLUMNS}
    return replace(combined, **columns, merged=dict(moved_tasks))


def _find_starts(units: Units, pooled: Units) -> Codes:
    """(N,) of ``pooled``: the first row in ``units`` of the task that stands for it."""
    tasks, first = np.unique(units.task, return_index=True)
    return first[np.searchsorted(tasks, pooled.task)]


def _merge_units(units: Units, item: Codes, every_unit: Units) -> Units:
    """``units`` with one for each criterion of an ``item`` (N,), which is the row of ``every_unit`` that names it."""
    row, place = np.nonzero(units.person >= 0)
    person, task = units.person[row, place], units.task[row]
    by_time = np.lexsort(
        (units.moment[row, place], person, item[row])
    )  # stable: of equals the later batch is last
    begins = np.ones(len(by_time), dtype=bool)
    begins[1:] = (item[row][by_time[1:]] != item[row][by_time[:-1]]) | (
        person[by_time[1:]] != person[by_time[:-1]]
    )
    speaker = np.empty(len(by_time), dtype=np.int64)  # one person on one item
    speaker[by_time] = np.cumsum(begins) - 1
    latest_task = task[by_time[np.append(begins[1:], True)]]
    counted = np.flatnonzero(task == latest_task[speaker])
    row, place = row[counted], place[counted]
    width = max(1, len(units.criterion_names))
    keys, unit = index_keys(item[row] * width + units.criterion[row])
    order = np.argsort(unit, kind="stable")
    row, place = row[order], place[order]
    counts = np.bincount(unit)
    has_label = np.arange(counts.max()) < counts[:, None]
    columns: dict[str, Any] = {
        name: getattr(every_unit, name)[keys // width] for name in COLUMNS if name not in WIDE
    }
    columns |= {name: place_labels(getattr(units, name)[row, place], has_label, name) for name in WIDE}
    return replace(units, **columns | {"criterion": (keys % width).astype(np.int32)})


def replace_tasks(before: Units, newer: Units) -> Units:
    """``before`` with the tasks of ``newer`` put in, or in the place of what it had of them; in the order of tasks."""
    unchanged = before.where(~np.isin(before.task, newer.task))
    combined = join_units([unchanged, newer])
    order = np.argsort(combined.task, kind="stable")
    return replace(combined, **{name: getattr(combined, name)[order] for name in COLUMNS})


def split_pairs(units: Units, people: Sequence[int]) -> Units:
    """A unit for each two people of each unit, both in the order of ``people``; who is not among these is left out.

    With two labels everywhere nothing is added: the two are put in order.
    """
    ascending = np.sort(np.array(people, dtype=np.int32))
    rank = np.empty(len(ascending), dtype=np.int32)
    rank[np.searchsorted(ascending, np.array(people, dtype=np.int32))] = np.arange(
        len(ascending), dtype=np.int32
    )
    places = _rank_people(units.person, ascending, rank)
    width = units.person.shape[1]
    parts = [
        _build_pair_units(units, places, left, right)
        for left in range(width)
        for right in range(left + 1, width)
    ]
    return join_units(parts) if parts else units.where(np.zeros(len(units), dtype=bool))


def _rank_people(person: Ints, known: Ints, rank: Ints) -> Ints:
    if not len(known):
        return np.full(person.shape, NOBODY, dtype=np.int32)
    at = np.minimum(np.searchsorted(known, person), len(known) - 1)
    return np.where(known[at] == person, rank[at], np.int32(NOBODY))


def _build_pair_units(units: Units, ranks: Ints, left: int, right: int) -> Units:
    first, second = ranks[:, left], ranks[:, right]
    both = (first >= 0) & (second >= 0)
    if not both.all():
        units, first, second = units.where(both), first[both], second[both]
    turned = first > second
    wide: dict[str, Any] = {
        name: np.stack(
            [
                np.where(turned, getattr(units, name)[:, right], getattr(units, name)[:, left]),
                np.where(turned, getattr(units, name)[:, left], getattr(units, name)[:, right]),
            ],
            axis=1,
        )
        for name in WIDE
    }
    return replace(units, **wide)
