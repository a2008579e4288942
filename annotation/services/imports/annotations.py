"""Importing labels that were made elsewhere, by the rules of annotation/domain/adjudication.py.

They go into the batch that is named, which is made of a guideline and a dataset where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.conf import settings
from django.db import transaction

from annotation.core.errors import N_, AssayError, Conflict, InputError
from annotation.core.files import read_text
from annotation.domain.batch_spec import USUAL_POLICY, BatchSpec
from annotation.domain.formats import (
    ANNOTATIONS,
    RESPONSES,
    AdjudicationRecord,
    AnnotationRecord,
    Source,
)
from annotation.domain.formats.base import Judgement
from annotation.domain.formats.labels import Wording
from annotation.domain.releases.origins import check_protocol
from annotation.models import Batch, Dataset, EvaluatedModel, Guideline
from annotation.selectors.access import record_reader
from annotation.selectors.datasets import get_dataset
from annotation.selectors.guidelines import get_guideline
from annotation.selectors.imports import is_made_by_import
from annotation.services.batches.batches import (
    add_tasks,
    create_batch,
    create_empty_batch,
    filter_responses,
    set_state,
)
from annotation.services.guidelines import load_guideline
from annotation.services.imports.datasets import store_responses
from annotation.services.imports.places import Members, TaskSlots
from annotation.services.imports.replay import Replay
from annotation.services.imports.run import PLAIN, ImportReport, Intake, Run


@dataclass(frozen=True)
class ImportRequest:
    """Names the batch that the labels go into, and of what to make it."""

    batch: str
    guideline: str | None = None
    dataset: str | None = None


@dataclass(frozen=True)
class ImportTarget:
    """The batch that the labels go into. ``dataset`` None means whichever datasets the batch is of.

    A new batch is a draft: it opens when the people who labelled in it are its members.
    """

    batch: Batch
    dataset: Dataset | None
    is_new: bool


def find_or_make_batch(request: ImportRequest, intake: Intake) -> ImportTarget:
    """The batch, locked so that two files for it go one after the other."""
    batch = (
        Batch.objects.select_for_update(no_key=True, of=("self",))
        .select_related("guideline")
        .filter(name=request.batch)
        .first()
    )
    if batch is not None:
        _refuse_other_guideline(batch, request)
    if intake.form.complete:
        return _import_content(batch, request, intake)
    dataset = get_dataset(request.dataset) if request.dataset else None
    if batch is not None:
        return ImportTarget(batch=batch, dataset=dataset, is_new=False)
    return _make_batch(request, dataset, intake)


def _refuse_other_guideline(batch: Batch, request: ImportRequest) -> None:
    if request.guideline and get_guideline(request.guideline) != batch.guideline:
        raise Conflict(
            N_("The batch {name} follows {guideline}, not {other}."),
            name=batch.name,
            guideline=str(batch.guideline),
            other=request.guideline,
        )


def _make_batch(request: ImportRequest, dataset: Dataset | None, intake: Intake) -> ImportTarget:
    """A batch of all the dataset's responses, as ``create_batch`` makes it; its people come with the file."""
    if dataset is None or not request.guideline:
        raise AssayError(
            N_("No batch is named {name}. To make it, name its guideline and its dataset."),
            name=request.batch,
        )
    spec = BatchSpec(
        name=request.batch,
        guideline=get_guideline(request.guideline).pk,
        dataset=dataset.pk,
        open_now=False,
    )
    batch = create_batch(spec, actor=intake.run.actor)
    intake.report.add_made("batches")
    intake.report.add_made("tasks", batch.tasks.count())
    return ImportTarget(batch=batch, dataset=dataset, is_new=True)


def _import_content(batch: Batch | None, request: ImportRequest, intake: Intake) -> ImportTarget:
    """The file brings everything: the dataset, its prompts and responses, and the batch with a task for each."""
    model = intake.get_model_name(1, None)
    target = ImportTarget(
        batch=batch or _make_complete_batch(request, intake),
        dataset=intake.get_or_make_dataset(request.dataset or intake.form.name),
        is_new=batch is None,
    )
    assert target.dataset is not None
    responses = _import_responses(intake, target.dataset)
    intake.report.add_made("responses", responses.imported)
    intake.report.include(responses)
    responses_of_model = filter_responses(
        dataset=target.dataset, models=list(EvaluatedModel.objects.filter(name=model)), collection=""
    )
    missing = responses_of_model.exclude(tasks__batch=target.batch)
    made = add_tasks(batch=target.batch, responses=missing)
    intake.report.add_made("tasks", made)
    return target


def _import_responses(intake: Intake, dataset: Dataset) -> ImportReport:
    report = ImportReport(kind=RESPONSES, format=intake.form.name, file=intake.source.name)
    store_responses(replace(intake, report=report, run=PLAIN), dataset)
    intake.problems.refuse_any()
    return report


def _make_complete_batch(request: ImportRequest, intake: Intake) -> Batch:
    guideline = _get_or_load_guideline(request.guideline or intake.form.name, intake)
    intake.report.add_made("batches")
    return create_empty_batch(
        name=request.batch, guideline=guideline, policy=USUAL_POLICY, actor=intake.run.actor
    )


def _get_or_load_guideline(reference: str, intake: Intake) -> Guideline:
    """The one asked for; the format's own is loaded where nobody has loaded one of that name yet."""
    own = intake.form.name
    if reference == own and not Guideline.objects.filter(name=own).exists():
        path = settings.BASE_DIR / "fixtures" / "guidelines" / f"{own}.yaml"
        intake.report.add_made("guidelines")
        return load_guideline(text=read_text(path), path=path.name, publish=True, actor=intake.run.actor)
    return get_guideline(reference)


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
    target = find_or_make_batch(request, intake)
    _refuse_closed(target.batch)
    if run.actor is not None:
        record_reader(run.actor, target.batch, is_new=target.is_new)
    members = Members(
        target.batch,
        may_make=target.is_new or new_people or intake.form.complete,
        is_own=target.is_new or is_made_by_import(target.batch),
        tell=not target.is_new,
        report=intake.report,
    )
    places = TaskSlots(intake, target.batch, target.dataset)
    replay = Replay(intake=intake, batch=target.batch, members=members)
    _replay_records(intake, places, replay, without_final=without_final)
    intake.problems.refuse_any()
    if target.is_new:
        set_state(batch=target.batch, state=Batch.State.OPEN, actor=run.actor)
    return intake.finish(
        target=f"batch:{request.batch}",
        protocol=words,
        batch=request.batch,
        guideline=str(target.batch.guideline),
        dataset=target.dataset.name if target.dataset else None,
        model=intake.origin.model,
        without_final=without_final,
    )


def _replay_records(intake: Intake, places: TaskSlots, replay: Replay, *, without_final: bool) -> None:
    left_out = 0
    wording = Wording(replay.document) if intake.form.is_worded else None
    for chunk in intake.chunks(intake.form.annotation_reader()):
        records = [r for r in chunk if not (without_final and isinstance(r, AdjudicationRecord))]
        left_out += len(chunk) - len(records)
        places.load(records)
        for record in records:
            _replay_record(record, intake, places, replay, wording)
        replay.save()
    if wording is not None and wording.unused:
        intake.report.note(N_("Not used: {fields}."), fields=", ".join(wording.unused))
    if left_out:
        intake.report.note(N_("{number} final decisions were left out."), number=left_out)


def _replay_record(
    record: Judgement, intake: Intake, places: TaskSlots, replay: Replay, wording: Wording | None
) -> None:
    try:
        place = places.of(record)
        if wording is not None:
            record = _translate_labels(record, wording, place.task.response.prompt.dimension, intake)
        if isinstance(record, AdjudicationRecord):
            is_new = replay.decide(place, record)
        else:
            is_new = replay.annotate(place, record)
    except InputError as error:
        intake.problems.add(error)
    else:
        intake.report.count(is_new=is_new)


def _translate_labels(record: Judgement, wording: Wording, dimension: str, intake: Intake) -> Judgement:
    """The record with the guideline's criteria and values in place of words."""
    try:
        labels = wording.labels(record.labels, dimension)
    except AssayError as error:
        raise intake.add_place(error, record.line, "labels") from error
    if not isinstance(record, AnnotationRecord):
        return replace(record, labels=labels)
    try:
        return replace(record, labels=labels, evidence=wording.spans(record.evidence, dimension))
    except AssayError as error:
        raise intake.add_place(error, record.line, "evidence") from error


def _refuse_closed(batch: Batch) -> None:
    if batch.state == Batch.State.CLOSED:
        raise Conflict(N_("The batch {name} is closed; it takes no more labels."), name=batch.name)
