"""What I submitted, found again, and what became of it.

Blindness: a dispute that nobody has decided reads as an agreement does. So nothing here tells or counts the two
apart: what became of an item is told when its value is final and may differ from mine, and labels are compared with
gold in closed batches only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import Exists, F, FloatField, Func, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation.domain.guidelines import GuidelineDocument
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    GoldLabel,
    Guideline,
    Membership,
    Person,
    Stratum,
    Task,
)
from annotation.selectors.annotations.closings import closed_among, is_closed, shown_closed, shown_open
from annotation.selectors.origins import imported_among

Labels: TypeAlias = Mapping[str, Any]
OPEN, CLOSED = "open", "closed"
LABELS, DECISIONS = "labels", "decisions"
# A value that may be another than mine: what is unanimous or single is mine anyway.
MAY_DIFFER = (GoldLabel.Source.WITHIN_TOLERANCE, GoldLabel.Source.ADJUDICATED)
SETTLED = (Task.State.AGREED, Task.State.ADJUDICATED)


@dataclass(frozen=True)
class Wanted:
    """What is looked for among a person's submissions; what is empty, None or False asks for nothing.

    ``dimension`` may be the empty string, of prompts that have none; ``until`` is the last day.
    """

    batch: str = ""
    dimension: str | None = None
    state: str = ""
    kind: str = ""
    words: str = ""
    since: date | None = None
    until: date | None = None
    corrected: bool = False
    flagged: bool = False
    overruled: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of an annotation: the final value of each criterion whose value may differ from mine.

    ``overruled`` names those where it does. ``mine`` is what counted: a correction that came too late is not in it.
    ``reason`` (by language) and ``words`` are the adjudicator's; empty where nobody decided.
    """

    mine: Labels
    finals: Mapping[str, float]
    overruled: tuple[str, ...]
    reason: Mapping[str, str]
    words: str


@dataclass(frozen=True)
class Mine:
    """A line of my history. ``closed`` tells that the task is over for me, never how; ``outcome`` does, once it may.

    ``verdict`` is what an adjudicator thought before they saw the labels; None where there is none.
    """

    assignment: UUID
    batch: str
    document: GuidelineDocument
    prompt: str
    language: str
    labels: Labels
    revision: int
    imported: bool
    flags: Sequence[str]
    submitted_at: datetime
    adjudication: bool
    closed: bool
    outcome: Outcome | None
    verdict: Labels | None


class ValueOf(Func):
    """The number that labels (JSON) give to the criterion that another column names; null where they give none."""

    arity = 2
    output_field = FloatField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        json = {"template": "JSON_EXTRACT(%(expressions)s || '\"')", "arg_joiner": ", '$.\"' || "}
        return self.as_sql(compiler, connection, **json, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        json = {"template": "(%(expressions)s)::double precision", "arg_joiner": " ->> "}
        return self.as_sql(compiler, connection, **json, **context)


def my_history(person: Person, wanted: Wanted) -> QuerySet[Any, tuple[UUID, datetime | None]]:
    """The id and the time of each of the person's lines, the latest first: of all that they submitted."""
    return my_submissions(person, wanted).values_list("pk", "submitted_at")


def my_submissions(person: Person, wanted: Wanted) -> QuerySet[Assignment]:
    """The person's submitted assignments, the latest first."""
    found = _narrowed(submitted_by_me(person), wanted)
    if wanted.kind:
        decisions = Q(slot=ADJUDICATION_SLOT)
        found = found.filter(decisions if wanted.kind == DECISIONS else ~decisions)
    if wanted.state:
        found = shown_open(found) if wanted.state == OPEN else shown_closed(found)
    return _with_marks(found, person, wanted).order_by("-submitted_at", "pk")


def _narrowed(found: QuerySet[Assignment], wanted: Wanted) -> QuerySet[Assignment]:
    """By what stands in the assignment, its batch and its prompt."""
    if wanted.batch:
        found = found.filter(batch__name=wanted.batch)
    if wanted.dimension is not None:
        found = found.filter(task__stratum__dimension=wanted.dimension)
    if wanted.words:
        found = found.filter(task__prompt__text__icontains=wanted.words)
    if wanted.since:
        found = found.filter(submitted_at__gte=midnight(wanted.since))
    if wanted.until:
        found = found.filter(submitted_at__lt=midnight(wanted.until + timedelta(days=1)))
    return found


def submitted_by_me(person: Person) -> QuerySet[Assignment]:
    return Assignment.objects.filter(person=person, state=Assignment.State.SUBMITTED)


def _with_marks(found: QuerySet[Assignment], person: Person, wanted: Wanted) -> QuerySet[Assignment]:
    mine = Annotation.objects.filter(assignment__person=person)
    if wanted.corrected:
        found = found.filter(pk__in=mine.filter(revision__gt=1).values("assignment"))
    if wanted.flagged:
        later = mine.filter(assignment=OuterRef("assignment"), revision__gt=OuterRef("revision"))
        found = found.filter(pk__in=mine.exclude(flags=[]).exclude(Exists(later)).values("assignment"))
    if wanted.overruled:
        found = shown_closed(found).filter(pk__in=overruled_labels(person).values("assignment"))
    return found


def overruled_labels(person: Person) -> QuerySet[Any]:
    """One for each criterion whose final value is another than the person's."""
    return labels_beside_gold(person).filter(source__in=MAY_DIFFER).exclude(mine=F("final"))


def labels_beside_gold(person: Person) -> QuerySet[Any]:
    """The person's current annotations, each as often as its task has gold labels: ``mine``, ``final``, ``source``."""
    gold = "assignment__task__gold_labels__"
    return (
        Annotation.objects.filter(
            assignment__person=person,
            assignment__state=Assignment.State.SUBMITTED,
            current=True,
            assignment__task__state__in=SETTLED,
        )
        .annotate(criterion=F(f"{gold}criterion"), final=F(f"{gold}value"), source=F(f"{gold}source"))
        .annotate(mine=ValueOf("labels", "criterion"))
        .filter(mine__isnull=False)
    )


def history_lines(ids: Sequence[UUID]) -> list[Mine]:
    """A line for each of these of ``my_history``, in this order; so many queries however many they are."""
    rows = Assignment.objects.select_related("batch", "task__prompt", "adjudication", "verdict")
    found = rows.in_bulk(list(ids))
    mine = [found[pk] for pk in ids if pk in found]
    revisions = list(Annotation.objects.filter(assignment__in=ids).order_by("revision"))
    latest = {revision.assignment_id: revision for revision in revisions}
    counting = {revision.assignment_id: revision.labels for revision in revisions if revision.current}
    documents = Guideline.objects.in_bulk({assignment.batch.guideline_id for assignment in mine})
    verdicts = {pk: one.verdict.labels for pk, one in found.items() if hasattr(one, "verdict")}
    closed = closed_among(mine)
    ends = outcomes([one for one in mine if one.pk in closed], counting)
    imported = imported_among(ids)
    return [
        _mine(
            one,
            imported=one.pk in imported,
            annotation=latest.get(one.pk),
            document=documents[one.batch.guideline_id].document,
            closed=one.pk in closed,
            outcome=ends.get(one.pk),
            verdict=verdicts.get(one.pk),
        )
        for one in mine
    ]


def _mine(
    assignment: Assignment,
    *,
    imported: bool,
    annotation: Annotation | None,
    document: GuidelineDocument,
    closed: bool,
    outcome: Outcome | None,
    verdict: Labels | None,
) -> Mine:
    work = annotation or assignment.adjudication
    assert assignment.submitted_at is not None
    return Mine(
        assignment=assignment.pk,
        batch=assignment.batch.name,
        document=document,
        prompt=assignment.task.prompt.text,
        language=assignment.task.prompt.language,
        labels=work.labels,
        revision=annotation.revision if annotation else 1,
        imported=imported,
        flags=annotation.flags if annotation else (),
        submitted_at=assignment.submitted_at,
        adjudication=annotation is None,
        closed=closed,
        outcome=outcome,
        verdict=verdict,
    )


def outcome_of_mine(assignment: Assignment) -> Outcome | None:
    """What became of one annotation, once that may be told."""
    if not is_closed(assignment):
        return None
    counting = Annotation.objects.get(assignment=assignment, current=True)
    return outcomes([assignment], {assignment.pk: counting.labels}).get(assignment.pk)


def outcomes(assignments: Iterable[Assignment], labels: Mapping[UUID, Labels]) -> dict[UUID, Outcome]:
    """What became of these annotations, which are closed (``labels``, which count, by assignment), where that may be
    told; two queries.
    """
    settled = {
        assignment.pk: assignment.task_id
        for assignment in assignments
        if assignment.pk in labels and assignment.task.state in SETTLED
    }
    tasks = set(settled.values())
    gold: dict[int, list[GoldLabel]] = {task: [] for task in tasks}
    for label in GoldLabel.objects.filter(task__in=tasks, source__in=MAY_DIFFER).order_by("criterion"):
        gold[label.task_id].append(label)
    decided = Adjudication.objects.filter(task__in=tasks).select_related("reason")
    decisions = {decision.task_id: decision for decision in decided}
    told = {pk: _outcome(labels[pk], gold[task], decisions.get(task)) for pk, task in settled.items()}
    return {pk: outcome for pk, outcome in told.items() if outcome is not None}


def _outcome(mine: Labels, gold: Iterable[GoldLabel], decision: Adjudication | None) -> Outcome | None:
    """None where every value is mine and nobody decided: such an item reads as an undecided dispute does."""
    told = [
        label
        for label in gold
        if label.criterion in mine
        and (label.source == GoldLabel.Source.ADJUDICATED or label.value != mine[label.criterion])
    ]
    if not told:
        return None
    return Outcome(
        mine=mine,
        finals={label.criterion: label.value for label in told},
        overruled=tuple(label.criterion for label in told if label.value != mine[label.criterion]),
        reason=decision.reason.words if decision and decision.reason else {},
        words=decision.rationale if decision else "",
    )


@dataclass(frozen=True)
class Behind:
    """What stands behind a decision of mine: the ``reason`` (by language; empty for none), and what I thought before
    I saw the labels; ``verdict`` is None where that was not asked.
    """

    reason: Mapping[str, str]
    verdict: Labels | None
    rationale: str


def behind_decision(assignment: Assignment) -> Behind:
    """Of an assignment whose dispute the person decided."""
    reason = assignment.adjudication.reason
    verdict = getattr(assignment, "verdict", None)
    return Behind(
        reason=reason.words if reason else {},
        verdict=verdict.labels if verdict else None,
        rationale=verdict.rationale if verdict else "",
    )


def my_roles(person: Person) -> set[str]:
    """What the person is or was in any batch: annotator, adjudicator."""
    return set(Membership.objects.filter(person=person).order_by().values_list("role", flat=True).distinct())


def my_dimensions(person: Person) -> dict[str, GuidelineDocument]:
    """The dimensions of the prompts in the person's batches, each with a guideline that may know its label."""
    strata = Stratum.objects.filter(batch__memberships__person=person).order_by("dimension")
    pairs = list(strata.values_list("dimension", "batch__guideline").distinct())
    documents = Guideline.objects.in_bulk({guideline for _dimension, guideline in pairs})
    return {dimension: documents[guideline].document for dimension, guideline in pairs}


def midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
