"""What a person said of known items in a batch, one by one, and their rounds of qualification."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from annotation.models import Annotation, Assignment, Batch, KnownItem, Person, Qualification

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
        assignment__task__known__item__kind=KnownItem.Kind.CHECK,
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
