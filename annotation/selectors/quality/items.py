"""The tasks behind one of a person's figures, with what each annotator said: each cell and line opens its own.

What a person said of known items in a batch, one by one, and their rounds of qualification.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from annotation.models import (
    Annotation,
    Assignment,
    Batch,
    GoldQuestion,
    Person,
    Prompt,
    Qualification,
    Task,
)
from annotation.selectors.agreement.report import exact
from annotation.selectors.quality.comparisons import Marks, Scale, Sheet


@dataclass(frozen=True)
class Filters:
    """What is asked for; None asks for nothing. ``mine``, ``theirs`` and ``gold`` are values of ``criterion``.

    ``partner`` is the primary key of who labelled the task too; ``apart`` asks for labels that differ from a
    partner's (of ``partner``'s, where one is named); ``off_gold`` for those that differ from gold. ``day`` is an
    ordinal, as is ``since``, the first of several; ``fastest`` asks for the shortest times first.
    """

    criterion: str | None = None
    dimension: str | None = None
    mine: float | None = None
    theirs: float | None = None
    gold: float | None = None
    partner: int | None = None
    day: int | None = None
    since: int | None = None
    apart: bool = False
    off_gold: bool = False
    fastest: bool = False


@dataclass(frozen=True)
class Item:
    """One criterion of one task. ``others`` are the partners' labels, by person."""

    task: int
    scale: Scale
    dimension: str
    mine: float
    others: Mapping[int, float]
    gold: float | None
    decided: bool
    day: int
    seconds: float | None


def found_items(sheet: Sheet, person: int, wanted: Filters) -> Sequence[int]:
    """The rows of ``sheet`` that fit: the latest tasks first."""
    units = sheet.units
    is_mine = units.person == person
    mine = np.where(is_mine, units.label, np.nan)
    chosen: Marks = (is_mine & ~np.isnan(units.label)).any(axis=1)
    chosen &= _of_scale(sheet, wanted)
    chosen &= _of_labels(sheet, mine, ~is_mine, wanted)
    if wanted.day is not None:
        chosen &= (is_mine & (units.day == wanted.day)).any(axis=1)
    if wanted.since is not None:
        chosen &= (is_mine & (units.day >= wanted.since)).any(axis=1)
    rows = np.flatnonzero(chosen)
    if wanted.fastest:
        seconds = np.where(is_mine, units.seconds, np.nan)[rows]
        shortest = np.nanmin(np.where(np.isnan(seconds), np.inf, seconds), axis=1, initial=np.inf)
        return [int(row) for row in rows[np.argsort(shortest, kind="stable")]]
    return [int(row) for row in rows[::-1]]


def _of_scale(sheet: Sheet, wanted: Filters) -> Marks:
    found: Marks = np.ones(len(sheet.units), dtype=bool)
    if wanted.criterion is not None:
        known = [at for at, scale in enumerate(sheet.scales) if scale.criterion.name == wanted.criterion]
        found &= np.isin(sheet.scale, known)
    if wanted.dimension is not None:
        places = [at for at, name in enumerate(sheet.dimensions) if name == wanted.dimension]
        found &= np.isin(sheet.dimension, places)
    return found


def _of_labels(sheet: Sheet, mine: np.ndarray, others: np.ndarray, wanted: Filters) -> Marks:
    """``mine`` (N, R) is nan but in the person's place; ``others`` (N, R) marks everybody else's."""
    units, gold = sheet.units, sheet.gold.value
    own = np.nanmax(np.where(np.isnan(mine), -np.inf, mine), axis=1, initial=-np.inf)
    theirs = others & ~np.isnan(units.label)
    if wanted.partner is not None:
        theirs &= units.person == wanted.partner
    found: Marks = np.ones(len(units), dtype=bool)
    if wanted.mine is not None:
        found &= own == wanted.mine
    if wanted.gold is not None:
        found &= gold == wanted.gold
    if wanted.off_gold:
        found &= ~np.isnan(gold) & (gold != own)
    if wanted.theirs is not None:
        theirs &= units.label == wanted.theirs
    if wanted.apart:
        theirs &= units.label != own[:, None]
    if wanted.partner is not None or wanted.theirs is not None or wanted.apart:
        found &= theirs.any(axis=1)
    return found


def items_at(sheet: Sheet, person: int, rows: Sequence[int]) -> list[Item]:
    return [_item(sheet, person, row) for row in rows]


def _item(sheet: Sheet, person: int, row: int) -> Item:
    units = sheet.units
    given = {
        int(who): (float(label), int(day), float(seconds))
        for who, label, day, seconds in zip(
            units.person[row], units.label[row], units.day[row], units.seconds[row], strict=True
        )
        if not np.isnan(label)
    }
    mine, day, seconds = given.pop(person)
    gold = float(sheet.gold.value[row])
    scale = sheet.scales[sheet.scale[row]]
    values = scale.criterion.values
    return Item(
        task=int(units.task[row]),
        scale=scale,
        dimension=sheet.dimensions[sheet.dimension[row]],
        mine=exact(mine, values),
        others={who: exact(label, values) for who, (label, _day, _seconds) in given.items()},
        gold=None if np.isnan(gold) else exact(gold, values),
        decided=bool(sheet.gold.decided[row]),
        day=day,
        seconds=None if np.isnan(seconds) else seconds,
    )


def prompts_of(tasks: Sequence[int]) -> dict[int, Prompt]:
    """By task."""
    rows = Task.objects.filter(pk__in=tasks).select_related("prompt")
    return {row.pk: row.prompt for row in rows}


MOST_CHECKS = 500


@dataclass(frozen=True)
class Check:
    """A gold check that the person submitted: their ``labels`` beside the ``right`` ones, by criterion."""

    task: int
    prompt: str
    language: str
    at: datetime | None
    labels: Mapping[str, Any]
    right: Mapping[str, Any]
    told: bool

    @property
    def passed(self) -> bool:
        return all(self.labels.get(name) == value for name, value in self.right.items())


def checks_of(person: Person, batch: Batch) -> list[Check]:
    """Of items that still count, the latest first, ``MOST_CHECKS`` at most."""
    given = Annotation.objects.filter(
        current=True,
        assignment__person=person,
        assignment__batch=batch,
        assignment__state=Assignment.State.SUBMITTED,
        assignment__task__known__person=person,
        assignment__task__known__item__kind=GoldQuestion.Kind.CHECK,
        assignment__task__known__item__active=True,
    )
    rows = given.order_by("-assignment__submitted_at", "-pk").values_list(
        "assignment__task",
        "assignment__task__prompt__text",
        "assignment__task__prompt__language",
        "assignment__submitted_at",
        "labels",
        "assignment__task__known__item__labels",
        "assignment__task__known__told_at",
    )
    return [Check(*row[:6], told=row[6] is not None) for row in rows[:MOST_CHECKS]]


def rounds_of(batches: Collection[int], person: Person | None = None) -> dict[int, list[Qualification]]:
    """By person their rounds in these batches, the latest first."""
    found = Qualification.objects.filter(batch__in=batches).select_related("batch", "decided_by")
    if person is not None:
        found = found.filter(person=person)
    rounds: dict[int, list[Qualification]] = {}
    for one in found.order_by("-started_at", "-pk"):
        rounds.setdefault(one.person_id, []).append(one)
    return rounds
