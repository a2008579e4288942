"""One dispute as its adjudicator sees it: first the text alone, and the labels of others once they gave a verdict."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils.translation import get_language

from annotation.errors import N_, NotFound
from annotation.guidelines import localized
from annotation.models import (
    ADJUDICATION_SLOT,
    Annotation,
    Assignment,
    DisputeReason,
    GoldLabel,
    Membership,
    Person,
    Task,
    Verdict,
)
from annotation.selectors import mine
from annotation.selectors.work import Handout, handout

# One for each reason in its order: a row of the keyboard where no other key of the page is.
SHORTCUTS = "zxcvnm"
T = TypeVar("T")


@dataclass(frozen=True)
class Side:
    """One annotator's work as the adjudicator sees it: A or B, never a name."""

    letter: str
    labels: Mapping[str, Any]
    rationale: str
    evidence: Sequence[Mapping[str, Any]]
    flags: Sequence[str]


@dataclass(frozen=True)
class OwnVerdict:
    labels: Mapping[str, Any]
    rationale: str


@dataclass(frozen=True)
class Dispute:
    """``sides`` is empty while the adjudicator has given no ``verdict``."""

    handout: Handout
    verdict: OwnVerdict | None
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class Reason:
    """Why annotators differ, in the reader's language. ``shortcut`` is its key; empty for a late one."""

    key: str
    words: str
    shortcut: str


def my_dispute(assignment_id: UUID, person: Person) -> Assignment:
    """The person's claim on a dispute, in a batch that they have not left."""
    claim = mine.my_dispute(assignment_id, person)
    here = Membership.objects.filter(batch=claim.batch_id, person=person, role=Membership.Role.ADJUDICATOR)
    if not here.filter(active=True).exists():
        raise NotFound(N_("There is no such item among yours."))
    return claim


def dispute(assignment: Assignment) -> Dispute:
    """The disputed item, with its labels as A and B in an order that only the assignment's id decides.

    Only the criteria that the annotators disagree on are handed out: the adjudicator decides those.
    """
    settled = GoldLabel.objects.filter(task__in=_judged_task(assignment))
    settled = settled.exclude(source=GoldLabel.Source.ADJUDICATED)
    agreed = set(settled.values_list("criterion", flat=True))
    whole = handout(assignment)
    criteria = tuple(criterion for criterion in whole.criteria if criterion.name not in agreed)
    verdict = _verdict(assignment)
    sides = _sides(assignment) if verdict else ()
    return Dispute(handout=replace(whole, criteria=criteria), verdict=verdict, sides=sides)


def reasons() -> list[Reason]:
    """Those that can be chosen now, in the managers' order."""
    language = get_language() or "en"
    active = DisputeReason.objects.filter(active=True)
    return [
        Reason(key=one.key, words=localized(one.words, language), shortcut=SHORTCUTS[place : place + 1])
        for place, one in enumerate(active)
    ]


def reasons_and_their_use() -> QuerySet[DisputeReason]:
    """All of them in order, each with how many decisions named it, as ``used``."""
    first_decisions = Q(adjudications__task__kind=Task.Kind.WORK)
    counted = DisputeReason.objects.annotate(used=Count("adjudications", filter=first_decisions))
    return counted.order_by("position", "id")


def _judged_task(assignment: Assignment) -> QuerySet[Task, int]:
    """The task on whose annotations the adjudicator decides: of a repeat adjudication the one that it repeats."""
    return Task.objects.filter(pk=assignment.task_id).values_list(Coalesce("repeats", "pk"), flat=True)


def _verdict(assignment: Assignment) -> OwnVerdict | None:
    verdict = Verdict.objects.filter(assignment=assignment.pk).first()
    return OwnVerdict(labels=verdict.labels, rationale=verdict.rationale) if verdict else None


def _sides(assignment: Assignment) -> tuple[Side, ...]:
    given = list(
        Annotation.objects.filter(
            assignment__task__in=_judged_task(assignment),
            current=True,
            assignment__slot__lt=ADJUDICATION_SLOT,
        ).order_by("assignment__slot")
    )
    return tuple(
        Side(
            letter=chr(ord("A") + place),
            labels=annotation.labels,
            rationale=annotation.rationale,
            evidence=annotation.evidence,
            flags=annotation.flags,
        )
        for place, annotation in enumerate(as_shown(assignment.pk, given))
    )


def as_shown(claim: UUID, in_slots: Sequence[T]) -> list[T]:
    """What stands in the order of the slots as the one with this claim on the dispute sees it: A first, then B."""
    found = list(in_slots)
    random.Random(claim.int).shuffle(found)  # noqa: S311  # an order that can be repeated
    return found
