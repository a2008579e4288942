"""What stands behind the labels of a release: for each of its tasks who said what, and what was decided.

The labels of a task that has all its annotations never change, so the current ones are those that the release was cut
from. A decision counts only if the release has a label of it: one that came later is none of this release's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    GoldRelease,
    ImportedLabel,
    Task,
)
from annotation.selectors.origins import ORIGIN, origin_of


@dataclass(frozen=True)
class Word:
    """What one person said; ``reason`` is an adjudicator's, why the annotators differed.

    ``origin`` is where it was imported from, None where it was given here.
    """

    person: int
    labels: dict[str, Any]
    rationale: str
    evidence: list[dict[str, Any]]
    flags: list[str]
    seconds: float | None
    at: datetime
    origin: ImportedLabel | None
    reason: str = ""


@dataclass
class Behind:
    """A task of a release. ``annotations`` are in the order of their slots."""

    task: Task
    annotations: list[Word] = field(default_factory=list)
    decision: Word | None = None

    @property
    def words(self) -> list[Word]:
        return [*self.annotations, *([self.decision] if self.decision else [])]


def behind(release: GoldRelease, tasks: Iterable[int]) -> dict[int, Behind]:
    """Of these tasks of the release, with their response, prompt, dataset, model, collection and batch."""
    found = Task.objects.filter(pk__in=list(tasks)).select_related(
        "batch", "response__prompt__dataset", "response__model", "response__collection"
    )
    places = {task.pk: Behind(task) for task in found}
    _add_annotations(places)
    _add_decisions(release, places)
    return places


def _add_annotations(places: dict[int, Behind]) -> None:
    rows = Annotation.objects.filter(
        assignment__task__in=list(places),
        assignment__state=Assignment.State.SUBMITTED,
        assignment__slot__lt=ADJUDICATION_SLOT,
        current=True,
    ).select_related(ORIGIN)
    for one in rows.order_by("assignment__task", "assignment__slot"):
        places[one.assignment.task_id].annotations.append(
            Word(
                person=one.assignment.person_id,
                labels=_sorted(one.labels),
                rationale=one.rationale,
                evidence=[_sorted(span) for span in one.evidence],
                flags=one.flags,
                seconds=one.seconds,
                at=one.created_at,
                origin=origin_of(one),
            )
        )


def _add_decisions(release: GoldRelease, places: dict[int, Behind]) -> None:
    taken = release.items.filter(task__in=list(places), adjudication__isnull=False).values("adjudication")
    for one in Adjudication.objects.filter(pk__in=taken).select_related(ORIGIN, "reason"):
        places[one.task_id].decision = Word(
            person=one.assignment.person_id,
            labels=_sorted(one.labels),
            rationale=one.rationale,
            evidence=[],
            flags=[],
            seconds=one.seconds,
            at=one.created_at,
            origin=origin_of(one),
            reason=one.reason.key if one.reason else "",
        )


def _sorted(fields: Mapping[str, Any]) -> dict[str, Any]:
    """By name: each database keeps them in an order of its own."""
    return {name: fields[name] for name in sorted(fields)}
