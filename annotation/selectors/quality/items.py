"""The items behind one of a person's figures, their answers to gold checks, and their qualification attempts."""

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
    Qualification,
    Response,
    Task,
)
from annotation.selectors.agreement.report import to_exact_level
from annotation.selectors.quality.comparisons import ComparisonTable, CriterionScale, Mask


@dataclass(frozen=True)
class ItemFilter:
    """Which items to list; None filters nothing. ``own_label``, ``partner_label``, ``gold`` are values of
    ``criterion``.

    ``partner`` is the primary key of who labelled the task too; ``differs`` asks for labels that differ from a
    partner's (of ``partner``'s, where one is named); ``off_gold`` for those that differ from gold. ``day`` is an
    ordinal, as is ``since``, the first of several; ``fastest`` asks for the shortest times first.
    """

    criterion: str | None = None
    dimension: str | None = None
    own_label: float | None = None
    partner_label: float | None = None
    gold: float | None = None
    partner: int | None = None
    day: int | None = None
    since: int | None = None
    differs: bool = False
    off_gold: bool = False
    fastest: bool = False


@dataclass(frozen=True)
class QualityItem:
    """One criterion of one task. ``partner_labels`` are the partners' labels, by person."""

    task: int
    scale: CriterionScale
    dimension: str
    own_label: float
    partner_labels: Mapping[int, float]
    gold: float | None
    decided: bool
    day: int
    seconds: float | None


def find_rows(sheet: ComparisonTable, person: int, filters: ItemFilter) -> Sequence[int]:
    """The rows of ``sheet`` that fit: the latest tasks first."""
    units = sheet.units
    is_own = units.person == person
    own_labels = np.where(is_own, units.label, np.nan)
    mask: Mask = (is_own & ~np.isnan(units.label)).any(axis=1)
    mask &= _match_scale(sheet, filters)
    mask &= _match_labels(sheet, own_labels, ~is_own, filters)
    if filters.day is not None:
        mask &= (is_own & (units.day == filters.day)).any(axis=1)
    if filters.since is not None:
        mask &= (is_own & (units.day >= filters.since)).any(axis=1)
    rows = np.flatnonzero(mask)
    if filters.fastest:
        seconds = np.where(is_own, units.seconds, np.nan)[rows]
        shortest = np.nanmin(np.where(np.isnan(seconds), np.inf, seconds), axis=1, initial=np.inf)
        return [int(row) for row in rows[np.argsort(shortest, kind="stable")]]
    return [int(row) for row in rows[::-1]]


def _match_scale(sheet: ComparisonTable, filters: ItemFilter) -> Mask:
    mask: Mask = np.ones(len(sheet.units), dtype=bool)
    if filters.criterion is not None:
        scales = [at for at, scale in enumerate(sheet.scales) if scale.criterion.name == filters.criterion]
        mask &= np.isin(sheet.scale, scales)
    if filters.dimension is not None:
        places = [at for at, name in enumerate(sheet.dimensions) if name == filters.dimension]
        mask &= np.isin(sheet.dimension, places)
    return mask


def _match_labels(
    sheet: ComparisonTable, own_labels: np.ndarray, is_other: np.ndarray, filters: ItemFilter
) -> Mask:
    """``mine`` (N, R) is nan but in the person's place; ``partner_labels`` (N, R) marks everybody else's."""
    units, gold = sheet.units, sheet.gold.value
    own = np.nanmax(np.where(np.isnan(own_labels), -np.inf, own_labels), axis=1, initial=-np.inf)
    partner_mask = is_other & ~np.isnan(units.label)
    if filters.partner is not None:
        partner_mask &= units.person == filters.partner
    mask: Mask = np.ones(len(units), dtype=bool)
    if filters.own_label is not None:
        mask &= own == filters.own_label
    if filters.gold is not None:
        mask &= gold == filters.gold
    if filters.off_gold:
        mask &= ~np.isnan(gold) & (gold != own)
    if filters.partner_label is not None:
        partner_mask &= units.label == filters.partner_label
    if filters.differs:
        partner_mask &= units.label != own[:, None]
    if filters.partner is not None or filters.partner_label is not None or filters.differs:
        mask &= partner_mask.any(axis=1)
    return mask


def list_items(sheet: ComparisonTable, person: int, rows: Sequence[int]) -> list[QualityItem]:
    return [_build_item(sheet, person, row) for row in rows]


def _build_item(sheet: ComparisonTable, person: int, row: int) -> QualityItem:
    units = sheet.units
    labels = {
        int(annotator): (float(label), int(day), float(seconds))
        for annotator, label, day, seconds in zip(
            units.person[row], units.label[row], units.day[row], units.seconds[row], strict=True
        )
        if not np.isnan(label)
    }
    own_label, day, seconds = labels.pop(person)
    gold = float(sheet.gold.value[row])
    scale = sheet.scales[sheet.scale[row]]
    values = scale.values
    return QualityItem(
        task=int(units.task[row]),
        scale=scale,
        dimension=sheet.dimensions[sheet.dimension[row]],
        own_label=to_exact_level(own_label, values),
        partner_labels={
            partner: to_exact_level(label, values) for partner, (label, _day, _seconds) in labels.items()
        },
        gold=None if np.isnan(gold) else to_exact_level(gold, values),
        decided=bool(sheet.gold.decided[row]),
        day=day,
        seconds=None if np.isnan(seconds) else seconds,
    )


def list_responses(tasks: Sequence[int]) -> dict[int, Response]:
    """By task, each with its prompt."""
    rows = Task.objects.filter(pk__in=tasks).select_related("response__prompt")
    return {row.pk: row.response for row in rows}


MAX_CHECKS = 500


@dataclass(frozen=True)
class CheckAnswer:
    """A gold check that the person submitted: their ``labels`` beside the ``right`` ones, by criterion."""

    task: int
    prompt: str
    language: str
    at: datetime | None
    labels: Mapping[str, Any]
    right: Mapping[str, Any]
    is_disclosed: bool

    @property
    def passed(self) -> bool:
        return all(self.labels.get(name) == value for name, value in self.right.items())


def list_checks(person: Person, batch: Batch) -> list[CheckAnswer]:
    """Of items that still count, the latest first, ``MOST_CHECKS`` at most."""
    annotations = Annotation.objects.filter(
        current=True,
        assignment__person=person,
        assignment__batch=batch,
        assignment__state=Assignment.State.SUBMITTED,
        assignment__task__known__person=person,
        assignment__task__known__item__kind=GoldQuestion.Kind.CHECK,
        assignment__task__known__item__active=True,
    )
    rows = annotations.order_by("-assignment__submitted_at", "-pk").values_list(
        "assignment__task",
        "assignment__task__prompt__text",
        "assignment__task__prompt__language",
        "assignment__submitted_at",
        "labels",
        "assignment__task__known__item__labels",
        "assignment__task__known__told_at",
    )
    return [CheckAnswer(*row[:6], is_disclosed=row[6] is not None) for row in rows[:MAX_CHECKS]]


def list_qualifications(
    batches: Collection[int], person: Person | None = None
) -> dict[int, list[Qualification]]:
    """By person their rounds in these batches, the latest first."""
    qualifications = Qualification.objects.filter(batch__in=batches).select_related("batch", "decided_by")
    if person is not None:
        qualifications = qualifications.filter(person=person)
    rounds: dict[int, list[Qualification]] = {}
    for qualification in qualifications.order_by("-started_at", "-pk"):
        rounds.setdefault(qualification.person_id, []).append(qualification)
    return rounds
