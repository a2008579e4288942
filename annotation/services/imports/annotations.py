"""Importing labels that were made elsewhere, by the rules of annotation/domain/adjudication.py.

They go into the batch that is named, which is made of a guideline and a dataset where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from django.db import transaction

from annotation.core.errors import N_, AssayError, Conflict, InputError
from annotation.core.garbage import collect_rarely
from annotation.core.write_behind import WriteBehind
from annotation.domain.formats import ANNOTATIONS, AdjudicationRecord, AnnotationRecord, Source, table
from annotation.domain.formats.base import Judgement
from annotation.domain.formats.labels import Wording, add_wording, list_criterion_words
from annotation.domain.formats.mapping.check import is_named_as
from annotation.domain.formats.mapping.mapping import LABEL
from annotation.domain.formats.rows import FileRow
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.releases.origins import check_protocol
from annotation.domain.slates import place_label
from annotation.models import Batch
from annotation.models.sql.imports import check_references_at_once, plan_for_blocks
from annotation.selectors.access import record_reader
from annotation.selectors.imports import is_made_by_import
from annotation.services.batches.batches import count_annotators, set_state
from annotation.services.imports.places import Members, TaskSlot, TaskSlots
from annotation.services.imports.replay import Replay
from annotation.services.imports.run import PLAIN, ImportReport, Intake, Run
from annotation.services.imports.targets import ImportRequest, ImportTarget, find_or_make_batch

STRAY_FIELD = N_(
    "this field is called as a criterion, and this format has labels elsewhere (label.CRITERION in CSV, labels in JSON"
    " lines): name no format, so that it is read as any table, or leave it out (--leave-out)."
)
ALL_LEFT_OUT = N_("{number} records hold no label but those left out.")


@transaction.atomic
def import_annotations(
    *,
    source: Source,
    format: str,  # noqa: A002
    request: ImportRequest,
    model: str | None = None,
    without_final: bool = False,
    new_people: bool = False,
    protocol: str | None = None,
    run: Run = PLAIN,
) -> ImportReport:
    """Take the annotations and adjudications of a file into the batch, which stays open.

    The batch is made where there is none, of ``guideline`` and ``dataset``; a complete format makes also those, the
    responses and the people. People who are unknown are made (they cannot sign in) together with the batch, or
    with ``new_people``; else they are refused. So are people who can work here, but in a batch that an import made.
    ``without_final`` leaves the adjudications out. ``protocol`` is how the labels were made, in the words of whoever
    imports them; documents quote it.
    """
    words = check_protocol(protocol)
    intake = Intake.open(source, format, ANNOTATIONS, run.start(source), model=model)
    with collect_rarely(), check_references_at_once():
        target = find_or_make_batch(request, intake)
        _refuse_closed(target.batch)
        if run.actor is not None:
            record_reader(run.actor, target.batch, is_new=target.is_new)
        members = Members(
            target.batch,
            may_make=target.is_new or new_people or intake.form.complete or _is_of_one_person(intake),
            is_own=target.is_new or is_made_by_import(target.batch),
            tell=not target.is_new,
            report=intake.report,
        )
        with plan_for_blocks(), WriteBehind() as writes:
            places = TaskSlots(intake, target.batch, target.dataset, writes, is_new=target.is_new)
            replay = Replay(intake=intake, batch=target.batch, members=members, writes=writes)
            _replay_records(intake, places, replay, writes, without_final=without_final)
    intake.problems.refuse_any()
    _open_batch(target, intake)
    return intake.finish(
        target=f"batch:{request.batch}",
        protocol=words,
        batch=request.batch,
        guideline=str(target.batch.guideline),
        dataset=target.dataset.name if target.dataset else None,
        model=intake.origin.model,
        without_final=without_final,
    )


def _open_batch(target: ImportTarget, intake: Intake) -> None:
    """A batch that the import made opens. With tables of single people it does so once there are enough of them."""
    batch = target.batch
    is_table = intake.form.name == table.NAME
    is_waiting = is_table and batch.state == Batch.State.DRAFT and is_made_by_import(batch)
    if not (target.is_new or is_waiting):
        return
    annotators = count_annotators(batch)
    if is_table and annotators < batch.overlap:
        intake.report.note(
            N_(
                "The batch {name} is a draft: it has {annotators} of the {overlap} people that each response is for."
                " It opens with the files of the others."
            ),
            name=batch.name,
            annotators=annotators,
            overlap=batch.overlap,
        )
        return
    set_state(batch=batch, state=Batch.State.OPEN, actor=intake.run.actor)


def _is_of_one_person(intake: Intake) -> bool:
    """Whether the file says by its name, or somebody said, whose labels it holds: no misspelt name in a row."""
    if intake.form.name != table.NAME:
        return False
    columns = table.map_table(intake.source.reopen(), ANNOTATIONS).mapping
    return not (columns.annotators or {"annotator", "adjudicator"} & columns.columns.keys())


def _replay_records(
    intake: Intake, places: TaskSlots, replay: Replay, writes: WriteBehind, *, without_final: bool
) -> None:
    finals_left_out = 0
    wording = None
    if intake.form.is_worded:
        left_out = intake.source.options.left_out
        wording = Wording(replay.document, is_checked=intake.form.is_checked, left_out=left_out)
        intake.source.options = add_wording(intake.source.options, replay.document)
    else:
        _refuse_strays(intake, replay.document)
    for chunk in intake.chunks(intake.form.annotation_reader()):
        records = [r for r in chunk if not (without_final and isinstance(r, AdjudicationRecord))]
        finals_left_out += len(chunk) - len(records)
        # Of whose labels some are left out, nobody is made before one of them is taken.
        newcomers = [] if intake.source.options.left_out else replay.list_newcomers(records)
        with writes.reads_ahead() if newcomers else nullcontext():
            replay.add_newcomers(newcomers)
            places.load(records)
        for record in records:
            _replay_record(record, intake, places, replay, wording)
        replay.save()
    replay.finish()
    if wording is not None:
        _report_passed_over(wording, intake.report)
    if finals_left_out:
        intake.report.left_out[N_("{number} final decisions were left out.")] += finals_left_out


def _report_passed_over(wording: Wording, report: ImportReport) -> None:
    if wording.left_out:
        names = ", ".join(f"{name} ({number})" for name, number in wording.left_out.most_common())
        report.note(N_("Labels left out, as was chosen: {names}."), names=names)
    if wording.not_asked:
        template = N_("{number} labels are of criteria that are not asked of their prompt's dimension.")
        report.left_out[template] += wording.not_asked


def _refuse_strays(intake: Intake, document: GuidelineDocument) -> None:
    """Of a format with its own names of fields: a field that is called as a criterion is none of them."""
    reader = intake.form.annotation_reader()
    row = next(reader.rows(intake.source.reopen()), None)
    if reader.known is None or not isinstance(row, FileRow):
        return
    left_out, words = intake.source.options.left_out, list_criterion_words(document)
    for name in row.fields:
        is_free = name not in reader.known and not name.startswith(LABEL) and name not in left_out
        if is_free and is_named_as(name, words):
            intake.problems.add(row.error(STRAY_FIELD, field=name))


def _replay_record(
    record: Judgement, intake: Intake, places: TaskSlots, replay: Replay, wording: Wording | None
) -> None:
    try:
        place = places.of(record)
        if wording is not None:
            stated, record = record, _translate_labels(record, wording, place, intake)
            if stated.labels and not record.labels and wording.left_out:
                intake.report.left_out[ALL_LEFT_OUT] += 1
                return
        if place.sources:
            record = _place_entries(record, replay.document, place.sources)
        if isinstance(record, AdjudicationRecord):
            is_new = replay.decide(place, record)
        else:
            is_new = replay.annotate(place, record)
    except InputError as error:
        intake.problems.add(error)
    else:
        intake.report.count(is_new=is_new)


def _place_entries(
    record: Judgement, document: GuidelineDocument, sources: Sequence[tuple[str, str]]
) -> Judgement:
    """The record with places of a slate's entries instead of names of models."""
    entries = {criterion.name for criterion in document.criteria if criterion.entries is not None}
    labels = {
        name: place_label(label, sources) if name in entries else label
        for name, label in record.labels.items()
    }
    return replace(record, labels=labels)


def _translate_labels(record: Judgement, wording: Wording, place: TaskSlot, intake: Intake) -> Judgement:
    """The record with the guideline's criteria and values in place of words."""
    try:
        labels = wording.labels(record.labels, place.dimension, place.subcomponent)
    except AssayError as error:
        raise intake.add_place(error, record.line, "labels") from error
    if not isinstance(record, AnnotationRecord):
        return replace(record, labels=labels)
    try:
        evidence = wording.spans(record.evidence, place.dimension, place.subcomponent)
        return replace(record, labels=labels, evidence=evidence)
    except AssayError as error:
        raise intake.add_place(error, record.line, "evidence") from error


def _refuse_closed(batch: Batch) -> None:
    if batch.state == Batch.State.CLOSED:
        raise Conflict(N_("The batch {name} is closed; it takes no more labels."), name=batch.name)
