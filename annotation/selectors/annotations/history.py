"""A person's submissions, searched, with what became of each.

Blindness: a dispute that nobody has decided reads as an agreement does. So nothing here tells or counts the two
apart: what became of an item is told when its value is final and may differ from the person's, and labels are compared
with gold in closed batches only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import Exists, F, FloatField, Func, OuterRef, Q, QuerySet, TextField
from django.utils import timezone

from annotation.domain.guidelines import NA, GuidelineDocument, Label
from annotation.domain.guidelines.entries import SINGLE_RESPONSE, ShownOrder
from annotation.domain.slates import read_order
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    GoldLabel,
    Guideline,
    Membership,
    Person,
    Response,
    Stratum,
    Task,
)
from annotation.selectors.annotations.closings import filter_closed, filter_open, is_closed, list_closed
from annotation.selectors.origins import list_imported

Labels: TypeAlias = Mapping[str, Any]
OPEN, CLOSED = "open", "closed"
LABELS, DECISIONS = "labels", "decisions"
# A value that may be another than mine: what is unanimous or single is mine anyway.
MAY_DIFFER = tuple(set(GoldLabel.Source) - {GoldLabel.Source.SINGLE, GoldLabel.Source.UNANIMOUS})
SETTLED = (Task.State.AGREED, Task.State.ADJUDICATED)


@dataclass(frozen=True)
class HistoryFilter:
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
class HistoryOutcome:
    """What became of an annotation: the final value of each criterion whose value may differ from the person's.

    ``overruled`` names those where it does. ``own_labels`` are those that counted: a correction that came too
    late is not among them. ``reason`` (by language) and ``words`` are the adjudicator's; empty where nobody decided.
    """

    own_labels: Labels
    finals: Mapping[str, Label]
    overruled: tuple[str, ...]
    reason: Mapping[str, str]
    words: str


@dataclass(frozen=True)
class HistoryRow:
    """A line of my history. ``closed`` tells that the task is over for me, never how; ``outcome`` does, once it may.

    ``verdict`` is what an adjudicator thought before they saw the labels; None where there is none.
    """

    assignment: UUID
    batch: str
    document: GuidelineDocument
    prompt: str
    response: Response
    language: str
    labels: Labels
    revision: int
    imported: bool
    flags: Sequence[str]
    submitted_at: datetime
    adjudication: bool
    closed: bool
    outcome: HistoryOutcome | None
    verdict: Labels | None
    order: ShownOrder = SINGLE_RESPONSE


class _Answer(Func):
    """What labels (JSON) give to the criterion that another column names; null where they give nothing."""

    arity = 2
    on_sqlite = on_postgresql = "%s"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        json = {
            "template": self.on_sqlite % "JSON_EXTRACT(%(expressions)s || '\"')",
            "arg_joiner": ", '$.\"' || ",
        }
        return self.as_sql(compiler, connection, **json, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        json = {"template": self.on_postgresql % "(%(expressions)s)", "arg_joiner": " ->> "}
        return self.as_sql(compiler, connection, **json, **context)


class LabelText(_Answer):
    output_field = TextField()


class LabelValue(_Answer):
    """Null also where the criterion is not applicable, which is no number."""

    output_field = FloatField()
    on_sqlite, on_postgresql = f"NULLIF(%s, '{NA}')", f"NULLIF(%s, '{NA}')::double precision"


def list_history(
    person: Person, history_filter: HistoryFilter
) -> QuerySet[Any, tuple[UUID, datetime | None]]:
    """The id and the time of each of the person's lines, the latest first: of all that they submitted."""
    return list_submissions(person, history_filter).values_list("pk", "submitted_at")


def list_submissions(person: Person, history_filter: HistoryFilter) -> QuerySet[Assignment]:
    """The person's submitted assignments, the latest first."""
    submissions = _filter_submissions(list_submitted(person), history_filter)
    if history_filter.kind:
        decisions = Q(slot=ADJUDICATION_SLOT)
        submissions = submissions.filter(decisions if history_filter.kind == DECISIONS else ~decisions)
    if history_filter.state:
        submissions = filter_open(submissions) if history_filter.state == OPEN else filter_closed(submissions)
    return _filter_marked(submissions, person, history_filter).order_by("-submitted_at", "pk")


def _filter_submissions(
    submissions: QuerySet[Assignment], history_filter: HistoryFilter
) -> QuerySet[Assignment]:
    """By what stands in the assignment, its batch and its prompt."""
    if history_filter.batch:
        submissions = submissions.filter(batch__name=history_filter.batch)
    if history_filter.dimension is not None:
        submissions = submissions.filter(task__stratum__dimension=history_filter.dimension)
    if history_filter.words:
        # What a prompt says that its annotators never see is not told by a search either.
        hiding = Guideline.objects.filter(content__prompt_shown="no")
        submissions = submissions.filter(task__prompt__text__icontains=history_filter.words)
        submissions = submissions.exclude(batch__guideline__in=hiding)
    if history_filter.since:
        submissions = submissions.filter(submitted_at__gte=midnight(history_filter.since))
    if history_filter.until:
        submissions = submissions.filter(submitted_at__lt=midnight(history_filter.until + timedelta(days=1)))
    return submissions


def list_submitted(person: Person) -> QuerySet[Assignment]:
    return Assignment.objects.filter(person=person, state=Assignment.State.SUBMITTED)


def _filter_marked(
    submissions: QuerySet[Assignment], person: Person, history_filter: HistoryFilter
) -> QuerySet[Assignment]:
    annotations = Annotation.objects.filter(assignment__person=person)
    if history_filter.corrected:
        submissions = submissions.filter(pk__in=annotations.filter(revision__gt=1).values("assignment"))
    if history_filter.flagged:
        later = annotations.filter(assignment=OuterRef("assignment"), revision__gt=OuterRef("revision"))
        submissions = submissions.filter(
            pk__in=annotations.exclude(flags=[]).exclude(Exists(later)).values("assignment")
        )
    if history_filter.overruled:
        submissions = filter_closed(submissions).filter(
            pk__in=list_overruled_labels(person).values("assignment")
        )
    return submissions


def list_overruled_labels(person: Person) -> QuerySet[Any]:
    """One for each criterion whose final value is another than the person's."""
    labels = list_labels_with_gold(person).filter(source__in=MAY_DIFFER)
    return labels.filter(
        Q(mine__lt=F("final"))
        | Q(mine__gt=F("final"))
        | Q(mine__isnull=True, final__isnull=False)
        | Q(mine__isnull=False, final__isnull=True)
    )


def list_labels_with_gold(person: Person) -> QuerySet[Any]:
    """The person's current annotations, each as often as its task has gold labels: ``mine``, ``final``, ``source``.

    ``mine`` and ``final`` are null where the criterion is not applicable.
    """
    gold = "assignment__task__gold_labels__"
    return (
        Annotation.objects.filter(
            assignment__person=person,
            assignment__state=Assignment.State.SUBMITTED,
            current=True,
            assignment__task__state__in=SETTLED,
        )
        .annotate(criterion=F(f"{gold}criterion"), final=F(f"{gold}value"), source=F(f"{gold}source"))
        .annotate(mine=LabelValue("labels", "criterion"), answer=LabelText("labels", "criterion"))
        .filter(answer__isnull=False)
    )


def list_history_rows(ids: Sequence[UUID]) -> list[HistoryRow]:
    """A line for each of these of ``my_history``, in this order; so many queries however many they are."""
    rows = Assignment.objects.select_related(
        "batch", "task__prompt", "task__response", "adjudication", "verdict"
    )
    assignments_by_id = rows.in_bulk(list(ids))
    assignments = [assignments_by_id[pk] for pk in ids if pk in assignments_by_id]
    revisions = list(Annotation.objects.filter(assignment__in=ids).order_by("revision"))
    latest = {revision.assignment_id: revision for revision in revisions}
    counted_labels = {revision.assignment_id: revision.labels for revision in revisions if revision.current}
    documents = Guideline.objects.in_bulk({assignment.batch.guideline_id for assignment in assignments})
    verdicts = {
        pk: decided.verdict.labels for pk, decided in assignments_by_id.items() if hasattr(decided, "verdict")
    }
    closed = list_closed(assignments)
    outcomes_by_id = find_outcomes(
        [assignment for assignment in assignments if assignment.pk in closed], counted_labels
    )
    imported = list_imported(ids)
    return [
        _build_history_row(
            assignment,
            imported=assignment.pk in imported,
            annotation=latest.get(assignment.pk),
            document=documents[assignment.batch.guideline_id].document,
            closed=assignment.pk in closed,
            outcome=outcomes_by_id.get(assignment.pk),
            verdict=verdicts.get(assignment.pk),
        )
        for assignment in assignments
    ]


def _build_history_row(
    assignment: Assignment,
    *,
    imported: bool,
    annotation: Annotation | None,
    document: GuidelineDocument,
    closed: bool,
    outcome: HistoryOutcome | None,
    verdict: Labels | None,
) -> HistoryRow:
    work = annotation or assignment.adjudication
    assert assignment.submitted_at is not None
    return HistoryRow(
        assignment=assignment.pk,
        batch=assignment.batch.name,
        document=document,
        prompt=document.hide_prompt(assignment.task.prompt.text),
        response=assignment.task.response,
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
        order=read_order(assignment.list_shown_places(), assignment.task.response.turns),
    )


def find_outcome(assignment: Assignment) -> HistoryOutcome | None:
    """What became of one annotation, once that may be told."""
    if not is_closed(assignment):
        return None
    counted = Annotation.objects.get(assignment=assignment, current=True)
    return find_outcomes([assignment], {assignment.pk: counted.labels}).get(assignment.pk)


def find_outcomes(
    assignments: Iterable[Assignment], labels: Mapping[UUID, Labels]
) -> dict[UUID, HistoryOutcome]:
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
    outcome_by_id = {
        pk: _build_outcome(labels[pk], gold[task], decisions.get(task)) for pk, task in settled.items()
    }
    return {pk: outcome for pk, outcome in outcome_by_id.items() if outcome is not None}


def _build_outcome(
    own_labels: Labels, gold: Iterable[GoldLabel], decision: Adjudication | None
) -> HistoryOutcome | None:
    """None where every value is mine and nobody decided: such an item reads as an undecided dispute does."""
    final_labels = [
        label
        for label in gold
        if label.criterion in own_labels
        and (label.source == GoldLabel.Source.ADJUDICATED or label.label != own_labels[label.criterion])
    ]
    if not final_labels:
        return None
    return HistoryOutcome(
        own_labels=own_labels,
        finals={label.criterion: label.label for label in final_labels},
        overruled=tuple(
            label.criterion for label in final_labels if label.label != own_labels[label.criterion]
        ),
        reason=decision.reason.words if decision and decision.reason else {},
        words=decision.rationale if decision else "",
    )


@dataclass(frozen=True)
class DecisionDetails:
    """What stands behind a decision of mine: the ``reason`` (by language; empty for none), and what I thought before
    I saw the labels; ``verdict`` is None where that was not asked.
    """

    reason: Mapping[str, str]
    verdict: Labels | None
    rationale: str


def get_decision_details(assignment: Assignment) -> DecisionDetails:
    """Of an assignment whose dispute the person decided."""
    reason = assignment.adjudication.reason
    verdict = getattr(assignment, "verdict", None)
    return DecisionDetails(
        reason=reason.words if reason else {},
        verdict=verdict.labels if verdict else None,
        rationale=verdict.rationale if verdict else "",
    )


def list_roles_held(person: Person) -> set[str]:
    """What the person is or was in any batch: annotator, adjudicator."""
    return set(Membership.objects.filter(person=person).order_by().values_list("role", flat=True).distinct())


def find_own_dimensions(person: Person) -> dict[str, GuidelineDocument]:
    """The dimensions of the prompts in the person's batches, each with a guideline that may know its label."""
    strata = Stratum.objects.filter(batch__memberships__person=person).order_by("dimension")
    pairs = list(strata.values_list("dimension", "batch__guideline").distinct())
    documents = Guideline.objects.in_bulk({guideline for _dimension, guideline in pairs})
    return {dimension: documents[guideline].document for dimension, guideline in pairs}


def midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
