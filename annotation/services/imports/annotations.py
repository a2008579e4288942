"""Labels made elsewhere, replayed through the rules by which people label here (annotation/adjudication.py)."""

from __future__ import annotations

from dataclasses import replace

from django.db import transaction

from annotation.errors import N_, AssayError, Conflict, InputError
from annotation.formats import ANNOTATIONS, AdjudicationRecord, AnnotationRecord, Source
from annotation.formats.shape import Judgement
from annotation.formats.wording import Wording
from annotation.models import Batch
from annotation.selectors.blindness import record_reader
from annotation.selectors.imports import was_made_by_import
from annotation.services.batches import set_state
from annotation.services.imports.members import Members
from annotation.services.imports.places import Places
from annotation.services.imports.replay import Replay
from annotation.services.imports.report import ImportReport
from annotation.services.imports.run import PLAIN, Intake, Run
from annotation.services.imports.target import Target, find_or_make


@transaction.atomic
def import_annotations(
    *,
    source: Source,
    format: str,  # noqa: A002
    target: Target,
    model: str | None = None,
    without_final: bool = False,
    new_people: bool = False,
    run: Run = PLAIN,
) -> ImportReport:
    """Take the annotations and adjudications of a file into the batch, which stays open.

    The batch is made where there is none, of ``guideline`` and ``dataset``; a complete format makes also those, the
    responses and the people. People who are unknown are made (they cannot sign in) together with the batch, or
    with ``new_people``; else they are refused. So are people who can work here, but in a batch that an import made.
    ``without_final`` leaves the adjudications out.
    """
    intake = Intake.open(source, format, ANNOTATIONS, run.begun(source), model=model)
    goal = find_or_make(target, intake)
    _refuse_closed(goal.batch)
    if run.actor is not None:
        record_reader(run.actor, goal.batch, is_new=goal.is_new)
    members = Members(
        goal.batch,
        may_make=goal.is_new or new_people or intake.form.complete,
        is_own=goal.is_new or was_made_by_import(goal.batch),
        tell=not goal.is_new,
        report=intake.report,
    )
    places = Places(intake, goal.batch, goal.dataset)
    replay = Replay(intake=intake, batch=goal.batch, members=members)
    _replay(intake, places, replay, without_final=without_final)
    intake.problems.refuse_any()
    if goal.is_new:
        set_state(batch=goal.batch, state=Batch.State.OPEN, actor=run.actor)
    return intake.finish(
        target=f"batch:{target.batch}",
        batch=target.batch,
        guideline=str(goal.batch.guideline),
        dataset=goal.dataset.name if goal.dataset else None,
        model=intake.origin.model,
        without_final=without_final,
    )


def _replay(intake: Intake, places: Places, replay: Replay, *, without_final: bool) -> None:
    left_out = 0
    wording = Wording(replay.document) if intake.form.is_worded else None
    for chunk in intake.chunks(intake.form.annotation_reader()):
        wanted = [r for r in chunk if not (without_final and isinstance(r, AdjudicationRecord))]
        left_out += len(chunk) - len(wanted)
        places.load(wanted)
        for record in wanted:
            _replay_one(record, intake, places, replay, wording)
        replay.save()
    if wording is not None and wording.unused:
        intake.report.note(N_("Not used: {fields}."), fields=", ".join(wording.unused))
    if left_out:
        intake.report.note(N_("{number} final decisions were left out."), number=left_out)


def _replay_one(
    record: Judgement, intake: Intake, places: Places, replay: Replay, wording: Wording | None
) -> None:
    try:
        place = places.of(record)
        if wording is not None:
            record = _in_numbers(record, wording, place.task.response.prompt.dimension, intake)
        if isinstance(record, AdjudicationRecord):
            taken = replay.decide(place, record)
        else:
            taken = replay.annotate(place, record)
    except InputError as error:
        intake.problems.add(error)
    else:
        intake.report.count(taken=taken)


def _in_numbers(record: Judgement, wording: Wording, dimension: str, intake: Intake) -> Judgement:
    """The record with the guideline's criteria and values in place of words."""
    try:
        labels = wording.labels(record.labels, dimension)
    except AssayError as error:
        raise intake.placed(error, record.line, "labels") from error
    if not isinstance(record, AnnotationRecord):
        return replace(record, labels=labels)
    try:
        return replace(record, labels=labels, evidence=wording.spans(record.evidence, dimension))
    except AssayError as error:
        raise intake.placed(error, record.line, "evidence") from error


def _refuse_closed(batch: Batch) -> None:
    if batch.state == Batch.State.CLOSED:
        raise Conflict(N_("The batch {name} is closed; it takes no more labels."), name=batch.name)
