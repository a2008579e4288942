"""The labels of several people, as columns, and the pairs of labels on one unit that everything is measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from annotation.core.errors import N_, AssayError
from annotation.domain.agreement import Measurement

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

UNEQUAL = N_("The columns of the labels have different lengths: {lengths}.")
OFF_SCALE = N_("The label {label} is not on the scale {scale}.")
NO_SCALE = N_("A label names the scale {scale}, which is not given.")
TWICE = N_("Somebody has two labels on one unit; give the last one alone.")


@dataclass(frozen=True)
class LabelScale:
    """The values of one criterion in their order; levels are their places in it."""

    values: tuple[float, ...]
    measurement: Measurement = "ordinal"

    @property
    def ordered(self) -> bool:
        return self.measurement != "nominal"


@dataclass(frozen=True)
class Labels:
    """One row for each label of one person on one unit; a unit is one criterion of one task. All columns (N,).

    person, unit, scale, task: any whole numbers. value: on ``scales[scale]``; one scale for each criterion, because
    people are as they are on each. day: since the batch began. seconds: nan where unknown; they belong to the whole
    annotation, so give them on one of its units and nan on the others. gold: the settled value of the unit, nan where
    it has none; ``adjudicated`` tells whether an adjudicator settled it (only then does it say more than the labels).
    task: which units are of one task, and so not independent; without it each unit is a task. kind: the type of the
    item, which may make it easier or harder (its dimension, its subcomponent); without it all items are of one. floor:
    seconds in which nobody can have read the text of the task; without it nothing is too fast to have been read.
    """

    person: Ints
    unit: Ints
    value: Floats
    scale: Ints
    day: Floats
    seconds: Floats
    gold: Floats
    adjudicated: Bools
    scales: Mapping[int, LabelScale]
    task: Ints | None = None
    kind: Ints | None = None
    floor: Floats | None = None


@dataclass(frozen=True)
class LabelTable:
    """The labels in the order of their units, with people, units, scales, levels and kinds counted from 0. Rows (N,).

    ids (P,): whose number each person is. decided: the adjudicator's level, -1 where there is none. stratum: units of
    one scale and one kind have the same number.
    """

    ids: Ints
    person: Ints
    unit: Ints
    task: Ints
    scale: Ints
    level: Ints
    day: Floats
    seconds: Floats
    floor: Floats
    decided: Ints
    stratum: Ints
    scales: tuple[LabelScale, ...]

    @property
    def people(self) -> int:
        return len(self.ids)

    @cached_property
    def ordered(self) -> Bools:
        """(N,): whether the label is on a scale whose levels have an order."""
        ordered = np.array([scale.ordered for scale in self.scales], dtype=np.bool_)
        rows: Bools = ordered[self.scale]
        return rows

    @cached_property
    def dates(self) -> Ints:
        """(N,): the days on which there are labels, counted from 0."""
        return np.unique(np.floor(self.day), return_inverse=True)[1]

    @cached_property
    def annotations(self) -> Annotations:
        tasks = int(self.task.max(initial=0)) + 1
        codes, of_label = np.unique(self.person * tasks + self.task, return_inverse=True)
        person = codes // tasks
        day = np.bincount(of_label, weights=self.day) / np.bincount(of_label)
        stratum = np.full(len(codes), np.iinfo(np.int64).max, dtype=np.int64)
        np.minimum.at(stratum, of_label, self.stratum)
        return Annotations(of_label, person, day, stratum, np.lexsort((day, person)))

    @cached_property
    def pairs(self) -> Pairs:
        """Every two labels of one unit. With m labels on it each pair weighs 1 / (m - 1), so each label weighs 1."""
        sizes = np.bincount(self.unit)
        first, second = [], []
        for step in range(1, int(sizes.max(initial=1))):
            rows = np.flatnonzero(self.unit[:-step] == self.unit[step:])
            first.append(rows)
            second.append(rows + step)
        left = np.concatenate([*first, np.zeros(0, dtype=np.int64)])
        right = np.concatenate([*second, np.zeros(0, dtype=np.int64)])
        return Pairs(self, left, right, 1.0 / np.maximum(sizes[self.unit[left]] - 1, 1))


@dataclass(frozen=True)
class Annotations:
    """One person's labels of one task are one annotation, C of them: which one each label is of (N,), whose it is (C,),
    of which day (C,), and the stratum of the task (C,), the first where its criteria have several. order (C,): by
    person, and then in time.
    """

    of_label: Ints
    person: Ints
    day: Floats
    stratum: Ints
    order: Ints


@dataclass(frozen=True)
class Pairs:
    """M pairs of labels on one unit: the rows of both, and the pair's weight (M,)."""

    table: LabelTable
    left_rows: Ints
    right_rows: Ints
    weight: Floats

    def only(self, keep: Bools) -> Pairs:
        return Pairs(self.table, self.left_rows[keep], self.right_rows[keep], self.weight[keep])

    @cached_property
    def left(self) -> Ints:
        """(M,): whose label is the left one."""
        people: Ints = self.table.person[self.left_rows]
        return people

    @cached_property
    def right(self) -> Ints:
        """(M,): whose label is the right one."""
        people: Ints = self.table.person[self.right_rows]
        return people

    def between(self, values: Floats) -> Floats:
        """(P, P), symmetric: the weighted sum of ``values`` (M,) for each two people."""
        people = self.table.people
        sums = np.bincount(self.left * people + self.right, weights=self.weight * values, minlength=people**2)
        square: Floats = sums.reshape(people, people).astype(np.float64)
        return square + square.T

    def by_row(self, of_left: Floats, of_right: Floats) -> tuple[Floats, Floats]:
        """(N,), (N,): for each label the mean over its pairs, and the weight of these.

        of_left, of_right (M,): what a pair says of its left label and of its right one.
        """
        rows = len(self.table.person)
        sums = np.bincount(self.left_rows, weights=self.weight * of_left, minlength=rows)
        sums += np.bincount(self.right_rows, weights=self.weight * of_right, minlength=rows)
        weights = np.bincount(self.left_rows, weights=self.weight, minlength=rows)
        weights += np.bincount(self.right_rows, weights=self.weight, minlength=rows)
        means: Floats = np.divide(sums, weights, out=np.zeros(rows), where=weights > 0)
        return means, weights.astype(np.float64)

    @cached_property
    def labels(self) -> Ints:
        """(P,): how many labels of each person have a partner."""
        paired = np.zeros(len(self.table.person), dtype=np.bool_)
        paired[self.left_rows] = paired[self.right_rows] = True
        return np.bincount(self.table.person[paired], minlength=self.table.people)

    @cached_property
    def groups(self) -> Ints:
        """(P,): people whom shared units connect, in however many steps, have the same number."""
        people = self.table.people
        links = coo_array((self.weight, (self.left, self.right)), shape=(people, people))
        return connected_components(links, directed=False)[1].astype(np.int64)

    @cached_property
    def company(self) -> Ints:
        """(P,): the people of each one's group."""
        sizes: Ints = np.bincount(self.groups)[self.groups]
        return sizes


def group_kinds(columns: Sequence[Ints], task: Ints, least: int) -> Ints:
    """(N,): of what kind each unit is, counted from 0. columns (each (N,), whole numbers) say what makes items easier
    or harder, the most important first.

    Units that are alike in all columns are of one kind. Where these are on fewer tasks than ``least``, the last column
    is left aside, and so on: a kind of few items says more of chance than of the kind.
    """
    kind, rest, numbers = np.zeros(len(task), dtype=np.int64), np.ones(len(task), dtype=np.bool_), 0
    for used in range(len(columns), 0, -1):
        code = np.zeros(len(task), dtype=np.int64)
        for column in columns[:used]:
            code = np.unique(code * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
        pairs = np.unique(np.stack([code[rest], task[rest]]), axis=1)
        sizes = np.bincount(pairs[0], minlength=int(code.max(initial=0)) + 1)
        enough = rest & (sizes[code] >= least)
        kind[enough] = numbers + 1 + code[enough]
        numbers, rest = numbers + 1 + int(code.max(initial=0)), rest & ~enough
    kinds: Ints = np.unique(kind, return_inverse=True)[1].astype(np.int64)
    return kinds


def build_table(labels: Labels) -> LabelTable:
    """Raises ``AssayError`` for what cannot be counted."""
    lengths = {len(column) for column in _list_columns(labels)}
    if len(lengths) > 1:
        raise AssayError(UNEQUAL, lengths=", ".join(map(str, sorted(lengths))))
    task = labels.unit if labels.task is None else labels.task
    order = np.argsort(labels.unit, kind="stable")
    ids, person = np.unique(labels.person[order], return_inverse=True)
    unit = np.unique(labels.unit[order], return_inverse=True)[1]
    codes, scale = np.unique(labels.scale[order], return_inverse=True)
    kind = np.unique(labels.kind[order], return_inverse=True)[1] if labels.kind is not None else 0 * scale
    _check_single_labels(person, unit, len(ids))
    scales = tuple(_get_scale(labels, int(code)) for code in codes)
    gold = np.where(labels.adjudicated, labels.gold, np.nan)[order]
    return LabelTable(
        ids=ids.astype(np.int64),
        person=person,
        unit=unit,
        task=np.unique(task[order], return_inverse=True)[1],
        scale=scale,
        level=_find_levels(labels.value[order], scale, scales),
        day=labels.day[order].astype(np.float64),
        seconds=labels.seconds[order].astype(np.float64),
        floor=np.zeros(len(order)) if labels.floor is None else labels.floor[order].astype(np.float64),
        decided=_find_levels(gold, scale, scales),
        stratum=np.unique(scale * (int(kind.max(initial=0)) + 1) + kind, return_inverse=True)[1],
        scales=scales,
    )


def _list_columns(labels: Labels) -> list[npt.NDArray[np.generic]]:
    columns: list[npt.NDArray[np.generic]] = [labels.person, labels.unit, labels.value, labels.scale]
    columns += [labels.day, labels.seconds, labels.gold, labels.adjudicated]
    return [*columns, *(column for column in (labels.task, labels.kind, labels.floor) if column is not None)]


def _get_scale(labels: Labels, code: int) -> LabelScale:
    if code not in labels.scales:
        raise AssayError(NO_SCALE, scale=code)
    return labels.scales[code]


def _check_single_labels(person: Ints, unit: Ints, people: int) -> None:
    codes = np.sort(unit * people + person)
    if (codes[1:] == codes[:-1]).any():
        raise AssayError(TWICE)


def _find_levels(values: Floats, scale: Ints, scales: tuple[LabelScale, ...]) -> Ints:
    """(N,): the places of the values on their scales, -1 for nan."""
    levels = np.full(len(values), -1, dtype=np.int64)
    known = ~np.isnan(values)
    for code, criterion_scale in enumerate(scales):
        rows = np.flatnonzero((scale == code) & known)
        matches = values[rows, None] == np.array(criterion_scale.values, dtype=np.float64)[None, :]
        missing = np.flatnonzero(~matches.any(axis=1))
        if missing.size:
            label = f"{values[rows[missing[0]]]:g}"
            raise AssayError(
                OFF_SCALE, label=label, scale=", ".join(f"{value:g}" for value in criterion_scale.values)
            )
        levels[rows] = matches.argmax(axis=1)
    return levels
