"""Drafts: work that is not submitted, saved for its author on the way, or because it came too late."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import isfinite
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from annotation.core.error_messages import error_to_json
from annotation.core.errors import N_, AssayError, Conflict, NotFound, Unprocessable
from annotation.domain.annotations import FLAGS, MAX_SPANS, Submission, list_judged_turns
from annotation.domain.guidelines import Criterion, Label
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Assignment, Channel, Draft, Person
from annotation.selectors.assignments.items import read_markable_texts, read_subcomponent
from annotation.services.assignments import lock_assignment
from annotation.services.audit import record

ITEM_IS_DISPUTE = N_("This item is a dispute; decide it as adjudicator.")
MAX_RATIONALE_LENGTH = 20_000
# What a span of evidence is made of.
SPAN_FIELDS = ("turn", "start", "end", "criterion", "level")


@transaction.atomic
def save_draft(*, assignment_id: UUID, person: Person, work: Submission, extend: bool = False) -> datetime:
    """Keep what is merely unfinished, in the place of what was saved before; when it was saved.

    Some of the labels may be missing. ``extend`` gives the claim a fresh lease too, if it is live. What was submitted
    or skipped takes no draft; a claim that has ended does, so that nothing typed is lost with it.
    """
    assignment = lock_assignment(assignment_id, person)
    if assignment.is_adjudication:
        raise Conflict(ITEM_IS_DISPUTE)
    if assignment.state == Assignment.State.SUBMITTED:
        raise Conflict(N_("This item was submitted already; correct it instead."))
    if assignment.skip_reason:
        raise Conflict(N_("You skipped this item; it went to someone else."))
    now, values = timezone.now(), _build_fields(assignment, work)
    live = assignment.state == Assignment.State.CLAIMED
    if live:  # else an earlier draft may say why it was refused
        values["why"] = None
    Draft.objects.update_or_create(assignment=assignment, defaults={**values, "updated_at": now})
    if live and extend:
        assignment.lease_expires = now + timedelta(seconds=assignment.batch.lease_seconds)
        assignment.save(update_fields=["lease_expires"])
    return now


def _build_fields(assignment: Assignment, work: Submission) -> dict[str, Any]:
    """The columns of the draft; what no page could have sent is refused."""
    document, dimension = assignment.batch.guideline.document, assignment.task.stratum.dimension
    turns = list_judged_turns(read_markable_texts(assignment.task_id)) if document.asks_of_turns else ()
    questions = document.list_questions(dimension, turns, subcomponent=read_subcomponent(assignment))
    criteria = {criterion.name: criterion for criterion in questions}
    if len(work.rationale) > MAX_RATIONALE_LENGTH:
        raise Unprocessable(N_("The rationale is longer than {most} characters."), most=MAX_RATIONALE_LENGTH)
    if len(work.evidence) > MAX_SPANS:
        raise Unprocessable(
            N_("There are {n} spans of evidence; mark at most {most}."), n=len(work.evidence), most=MAX_SPANS
        )
    return {
        "labels": {name: _check_answer(criteria, name, answer) for name, answer in work.labels.items()},
        "rationale": work.rationale,
        "evidence": [_build_span(span) for span in work.evidence],
        "flags": [flag for flag in FLAGS if flag in work.flags],
        "seconds": work.seconds,
    }


def _check_answer(criteria: Mapping[str, Criterion], name: str, answer: object) -> Label:
    criterion = _get_criterion(criteria, name)
    return criterion.check_text(answer) if criterion.kind == "text" else criterion.check(answer)


def _get_criterion(criteria: Mapping[str, Criterion], name: str) -> Criterion:
    if name not in criteria:
        raise Unprocessable(
            N_('"{criterion}" is not asked here; asked: {known}.'),
            criterion=name,
            known=", ".join(criteria) or "-",
        )
    return criteria[name]


def _build_span(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Only what a span is made of; whether it lies in the text is asked when it is submitted."""
    span = {name: evidence[name] for name in SPAN_FIELDS if name in evidence}
    if not all(map(_is_plain, span.values())):
        raise Unprocessable(N_("A span of evidence is made of numbers and names."))
    return span


def _is_plain(value: object) -> bool:
    """Whether every database keeps it: a number, or a name without half a character or a NUL."""
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, int) or (isinstance(value, str) and value.isprintable())


def _is_answer(value: object) -> bool:
    """Whether it can be kept as an answer: a value, a list of options, or a text with its line ends."""
    if isinstance(value, str):
        return "\x00" not in value and value.encode(errors="ignore").decode() == value
    return _is_plain(value) or (isinstance(value, list) and all(map(_is_plain, value)))


def save_refused_draft(assignment_id: UUID, work: Submission, refusal: AssayError) -> Draft:
    """Keep what was refused, in the place of an earlier draft of the same assignment, with the reason.

    Nothing of it was checked yet: what no page could have sent is left out.
    """
    spans = [{name: span[name] for name in SPAN_FIELDS if name in span} for span in work.evidence]
    draft, _created = Draft.objects.update_or_create(
        assignment_id=assignment_id,
        defaults={
            "labels": {
                name: value for name, value in work.labels.items() if _is_plain(name) and _is_answer(value)
            },
            "rationale": work.rationale,
            "evidence": [span for span in spans if all(map(_is_plain, span.values()))],
            "flags": list(work.flags),
            "seconds": work.seconds,
            "why": error_to_json(refusal),
            "updated_at": timezone.now(),
        },
    )
    return draft


@transaction.atomic
def discard_draft(*, assignment_id: UUID, person: Person) -> None:
    """Throw away a draft of the person's own, for good."""
    discarded, _by_model = Draft.objects.filter(assignment=assignment_id, assignment__person=person).delete()
    if not discarded:
        raise NotFound(N_("There is no such draft among yours."))
    record(actor=person, verb=AnnotationVerb.DISCARD_DRAFT, target=f"assignment:{assignment_id}")


def build_submission(draft: Draft) -> Submission:
    """What was kept, to be submitted again from the page that shows it."""
    return Submission(
        labels=draft.labels,
        rationale=draft.rationale,
        evidence=draft.evidence,
        flags=draft.flags,
        seconds=draft.seconds,
        channel=Channel.PAGE,
    )
