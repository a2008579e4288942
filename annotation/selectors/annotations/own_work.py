"""A person's own work, read back to them: what they submitted, their drafts, and their assignments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from annotation.core.error_messages import error_from_json
from annotation.core.errors import N_, NotFound
from annotation.core.study_scope import build_study_filter
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.guidelines.entries import SINGLE_RESPONSE, ShownOrder
from annotation.domain.slates import read_order
from annotation.models import ADJUDICATION_SLOT, Annotation, Assignment, Batch, Draft, Person, Response
from annotation.models.sql.annotations import find_own_assignment, has_draft
from annotation.selectors.annotations.closings import is_closed


@dataclass(frozen=True)
class SubmittedWork:
    """What the person submitted for one item. ``closed``: a correction goes to the manager from now on."""

    labels: Mapping[str, Any]
    rationale: str
    flags: Sequence[str]
    evidence: Sequence[Mapping[str, Any]]
    revision: int
    submitted_at: datetime
    adjudication: bool
    closed: bool


@dataclass(frozen=True)
class DraftRow:
    """Work of the person's that is not submitted. ``why`` it was refused in the reader's language, or empty.

    ``live``: the item is still the person's, and its draft is on its page.
    """

    assignment: UUID
    batch: str
    document: GuidelineDocument
    prompt: str
    response: Response
    labels: Mapping[str, Any]
    rationale: str
    why: str
    kept_at: datetime
    live: bool
    order: ShownOrder = SINGLE_RESPONSE


@dataclass(frozen=True)
class SavedDraft:
    """What was saved of an item that is still to be decided, and when (milliseconds since 1970)."""

    labels: Mapping[str, Any]
    rationale: str
    evidence: Sequence[Mapping[str, Any]]
    flags: Sequence[str]
    seconds: float | None
    at: int


def get_own_item(assignment_id: UUID, person: Person) -> Assignment:
    """The person's assignment to annotate; a dispute of theirs is none."""
    return _get_own_assignment(assignment_id, person, adjudication=False)


def get_own_dispute(assignment_id: UUID, person: Person) -> Assignment:
    """The person's assignment to adjudicate. Never one to annotate: its page would show the partner's label."""
    return _get_own_assignment(assignment_id, person, adjudication=True)


def _get_own_assignment(assignment_id: UUID, person: Person, *, adjudication: bool) -> Assignment:
    """With what the loop needs of it and of its batch; the rest is read when asked for."""
    assignment = find_own_assignment(assignment_id, person)
    if assignment is None or assignment.is_adjudication != adjudication:
        raise NotFound(N_("There is no such item among yours."))
    return assignment


def find_other_claim(batch: Batch, person: Person, excluded: Collection[UUID]) -> Assignment | None:
    """The person's oldest live claim to annotate in the batch that is none of those they ``had`` already."""
    claims = Assignment.objects.filter(batch=batch, person=person, state=Assignment.State.CLAIMED)
    return (
        claims.exclude(slot=ADJUDICATION_SLOT)
        .exclude(pk__in=list(excluded))
        .order_by("claimed_at", "id")
        .first()
    )


def find_saved_draft(assignment_id: UUID) -> SavedDraft | None:
    """Most items have none; where there is one, a second statement reads it."""
    if not has_draft(assignment_id):
        return None
    draft = Draft.objects.filter(pk=assignment_id).defer("why").first()
    if draft is None:  # submitted or discarded meanwhile
        return None
    return SavedDraft(
        labels=draft.labels,
        rationale=draft.rationale,
        evidence=draft.evidence,
        flags=draft.flags,
        seconds=draft.seconds,
        at=to_milliseconds(draft.updated_at),
    )


def to_milliseconds(at: datetime) -> int:
    """Since 1970."""
    return round(at.timestamp() * 1000)


def list_drafts(person: Person) -> list[DraftRow]:
    """What is unfinished or came too late, and was neither submitted since nor discarded, the latest first.

    What was unfinished when the person skipped its item is over.
    """
    drafts = _filter_drafts(person).select_related(
        "assignment__batch__guideline", "assignment__task__response__prompt"
    )
    return [_build_draft_row(draft) for draft in drafts.order_by("-updated_at")]


def count_drafts(person: Person) -> dict[int, int]:
    """How many ``list_drafts`` has in each of the studies in question, by their ids."""
    drafts = _filter_drafts(person).filter(**build_study_filter("assignment__batch__study")).order_by()
    return dict(drafts.values_list("assignment__batch__study").annotate(n=Count("pk")))


def _filter_drafts(person: Person) -> QuerySet[Draft]:
    drafts = Draft.objects.filter(assignment__person=person)
    unsubmitted = drafts.exclude(assignment__state=Assignment.State.SUBMITTED)
    return unsubmitted.exclude(Q(why__isnull=True) & ~Q(assignment__skip_reason=""))


def get_draft(assignment_id: UUID, person: Person) -> Draft:
    """One of ``my_drafts``, as it is stored."""
    drafts = Draft.objects.filter(assignment=assignment_id, assignment__person=person)
    draft = drafts.exclude(assignment__state=Assignment.State.SUBMITTED).first()
    if draft is None:
        raise NotFound(N_("There is no such draft among yours."))
    return draft


def _build_draft_row(draft: Draft) -> DraftRow:
    document, response = draft.assignment.batch.guideline.document, draft.assignment.task.response
    return DraftRow(
        assignment=draft.assignment_id,
        batch=draft.assignment.batch.name,
        document=document,
        prompt=document.hide_prompt(response.prompt.text),
        response=response,
        labels=draft.labels,
        rationale=draft.rationale,
        why=error_from_json(draft.why) if draft.why else "",
        kept_at=draft.updated_at,
        live=draft.assignment.state == Assignment.State.CLAIMED,
        order=read_order(draft.assignment.list_shown_places(), response.turns),
    )


def find_submitted_work(assignment: Assignment) -> SubmittedWork | None:
    """None while nothing was submitted."""
    if assignment.state != Assignment.State.SUBMITTED:
        return None
    if assignment.is_adjudication:
        return _build_decision(assignment)
    annotation = find_latest_annotation(assignment)
    assert annotation is not None
    return SubmittedWork(
        labels=annotation.answers,
        rationale=annotation.rationale,
        flags=annotation.flags,
        evidence=annotation.evidence,
        revision=annotation.revision,
        submitted_at=annotation.created_at,
        adjudication=False,
        closed=is_closed(assignment),
    )


def find_latest_annotation(assignment: Assignment) -> Annotation | None:
    """The person's last word on the item: what they read back, whether it came in time or not."""
    return Annotation.objects.filter(assignment=assignment).order_by("-revision").first()


def _build_decision(assignment: Assignment) -> SubmittedWork:
    decision = assignment.adjudication
    return SubmittedWork(
        labels=decision.labels,
        rationale=decision.rationale,
        flags=(),
        evidence=(),
        revision=1,
        submitted_at=decision.created_at,
        adjudication=True,
        closed=True,
    )


def list_batch_names(person: Person) -> list[str]:
    """The batches in which the person has submitted something, in order of their names."""
    submitted = Assignment.objects.filter(
        batch=OuterRef("pk"), person=person, state=Assignment.State.SUBMITTED
    )
    batches = Batch.objects.filter(memberships__person=person).filter(Exists(submitted))
    return list(batches.order_by("name").values_list("name", flat=True).distinct())
