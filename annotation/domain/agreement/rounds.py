"""The labels of single rounds of labelling: compared with those of their round alone, and each person's over rounds.

Pure; ``docs/agreement.md`` says what is counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from annotation.domain.agreement.label_table import (
    COLUMNS,
    WIDE,
    Codes,
    Ints,
    Units,
    index_keys,
    index_responses,
    join_units,
    place_labels,
    pool_items,
)


def pool_rounds(parts: Sequence[Units], versions: Sequence[int], merged: Mapping[int, int]) -> Units:
    """The same with each round of labelling apart: a response counts once in each, with the labels of that round alone.

    Its task is the one that stands for it in all rounds, as ``merged`` says.
    """
    split = [split_rounds(part) for part in parts]
    units = join_units(split)
    responses = index_responses(units, split, versions)
    _keys, item = index_keys(responses * len(units.round_names) + units.first_round)
    pooled = pool_items(units, item)
    task = _find_first_tasks(pooled.task, merged)
    order = np.argsort(task, kind="stable")
    columns = {name: getattr(pooled, name)[order] for name in COLUMNS}
    return replace(pooled, **columns | {"task": task[order]}, merged=merged)


def _find_first_tasks(task: Ints, merged: Mapping[int, int]) -> Ints:
    """(N,): the task that each is counted with, which is itself where it stands for its response."""
    if not merged:
        return task
    further = np.array(sorted(merged), dtype=np.int32)
    first = np.array([merged[key] for key in further.tolist()], dtype=np.int32)
    at = np.minimum(np.searchsorted(further, task), len(further) - 1)
    return np.where(further[at] == task, first[at], task)


def split_rounds(units: Units) -> Units:
    """Each unit once for each round in which it was labelled, with the labels of that round, in the order of tasks."""
    has_label = units.person >= 0
    rounds = np.unique(units.round[has_label])
    if len(rounds) < 2:  # one, or nothing at all
        return units
    by_round = [_select_labels(units, has_label & (units.round == code)) for code in rounds]
    combined = join_units(by_round)
    order = np.argsort(combined.task, kind="stable")
    return replace(combined, **{name: getattr(combined, name)[order] for name in COLUMNS})


def _select_labels(units: Units, mask: npt.NDArray[np.bool_]) -> Units:
    """The units with the labels that ``mask`` (N, R) marks, in the first places; those that have any."""
    row, place = np.nonzero(mask)
    rows, counts = np.unique(row, return_counts=True)
    has_label = np.arange(counts.max(initial=0)) < counts[:, None]
    columns: dict[str, Any] = {name: getattr(units, name)[rows] for name in COLUMNS if name not in WIDE}
    columns |= {name: place_labels(getattr(units, name)[row, place], has_label, name) for name in WIDE}
    return replace(units, **columns)


def order_round(name: str) -> list[tuple[bool, int, str]]:
    """By which the names of rounds are sorted: a number in them counts as one, so that 10 comes after 9."""
    parts = re.split(r"([0-9]+)", name)
    return [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts if part]


def list_repeats(units: Units) -> tuple[Units, Codes]:
    """A unit for each person who labelled a criterion of a task in several rounds, and who it is (N,). ``units`` are of
    one round each. The rounds, in their order, stand in the place of people; labels of no round are left out.
    """
    in_order = sorted(range(len(units.round_names)), key=lambda code: order_round(units.round_names[code]))
    ranks = np.argsort(np.array(in_order, dtype=np.int64))
    row, place = np.nonzero((units.person >= 0) & (units.round > 0))
    rank = ranks[units.round[row, place]]
    _keys, item = index_keys(
        units.task[row].astype(np.int64) * max(1, len(units.criterion_names)) + units.criterion[row]
    )
    people, person = index_keys(units.person[row, place])
    _keys, key = index_keys(item * max(1, len(people)) + person)
    order = np.lexsort((rank, key))
    is_repeated = (np.bincount(key) > 1)[key[order]] if len(key) else np.zeros(0, dtype=bool)
    row, place, rank, key = (values[order][is_repeated] for values in (row, place, rank, key))
    _keys, first, counts = np.unique(key, return_index=True, return_counts=True)
    has_label = np.arange(counts.max(initial=0)) < counts[:, None]
    columns: dict[str, Any] = {name: getattr(units, name)[row[first]] for name in COLUMNS if name not in WIDE}
    columns |= {name: place_labels(getattr(units, name)[row, place], has_label, name) for name in WIDE}
    columns["person"] = place_labels(rank.astype(np.int32), has_label, "person")
    return replace(units, **columns), units.person[row[first], place[first]].astype(np.int64)
