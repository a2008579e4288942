"""Importing labels that were made elsewhere, by the rules of annotation/domain/adjudication.py.

They go into the batch that is named, which is made of a guideline and a dataset where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from annotation.core.errors import N_, AssayError, Conflict, InputError
from annotation.core.garbage import freeze_garbage
from annotation.domain.batch_spec import USUAL_POLICY, BatchSpec, Policy
from annotation.domain.formats import (
    ANNOTATIONS,
    RESPONSES,
    AdjudicationRecord,
    AnnotationRecord,
    Source,
    get_format,
    table,
)
from annotation.domain.formats.answers import fold_word
from annotation.domain.formats.base import Judgement
from annotation.domain.formats.labels import Wording, add_wording, list_criterion_words
from annotation.domain.formats.mapping.check import is_named_as
from annotation.domain.formats.mapping.mapping import LABEL, MESSAGES
from annotation.domain.formats.rows import FileRow
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.releases.origins import check_protocol
from annotation.domain.slates import place_label
from annotation.models import Batch, Dataset, EvaluatedModel, Guideline
from annotation.models.sql.imports import look_up_by_indexes
from annotation.selectors.access import record_reader
from annotation.selectors.datasets import get_dataset
from annotation.selectors.guidelines import get_guideline, read_shipped
from annotation.selectors.imports import is_made_by_import
from annotation.services.batches.batches import (
    add_tasks,
    count_annotators,
    create_batch,
    create_empty_batch,
    filter_responses,
    set_state,
)
from annotation.services.guidelines import load_guideline
from annotation.services.imports.datasets import store_responses
from annotation.services.imports.places import Members, TaskSlot, TaskSlots
from annotation.services.imports.replay import Replay
from annotation.services.imports.run import PLAIN, ImportReport, Intake, Run
from annotation.services.studies import find_or_make_study

STRAY_FIELD = N_(
    "this field is called as a criterion, and this format has labels elsewhere (label.CRITERION in CSV, labels in JSON"
    " lines): name no format, so that it is read as any table, or leave it out (--leave-out)."
)
ALL_LEFT_OUT = N_("{number} records hold no label but those left out.")


@dataclass(frozen=True)
class ImportRequest:
    """Names the batch that the labels go into, and of what to make it, with which policy. ``overlap``: for how many
    people, where the policy's own is not meant. ``slates``: the set of slates that it is of. ``stated``: what of the
    policy a batch that is there must have, too.
    """

    batch: str
    guideline: str | None = None
    dataset: str | None = None
    overlap: int | None = None
    slates: str | None = None
    policy: Policy = USUAL_POLICY
    stated: frozenset[str] = frozenset()

    def build_policy(self) -> Policy:
        if self.overlap is None:
            return self.policy
        return Policy.model_validate(self.policy.model_dump() | {"overlap": self.overlap})


COLLECTION_TERMS = ("plan", "settling", "aggregation", "aggregation_threshold", "tolerance")


def build_collection_policy(options: Mapping[str, Any]) -> Policy:
    """The policy of a batch that an import makes, of what was said of it. An open plan is content with one label: there
    are as many as there are.
    """
    stated = {name: options[name] for name in COLLECTION_TERMS if options.get(name) is not None}
    is_open = stated.get("plan") == Batch.Plan.OPEN
    return Policy.model_validate({"overlap": 1 if is_open else USUAL_POLICY.overlap} | stated)


def plan_label_files(files: Sequence[tuple[Source, str]], request: ImportRequest) -> ImportRequest:
    """The request with the overlap that these files have, where their batch is still to be made, and the tables told
    what the criteria of their guideline are called. Two is the least: of one person's labels the second may come.
    """
    batch = Batch.objects.select_related("guideline").filter(name=request.batch).first()
    if batch is None and not request.guideline:
        return request
    document = (batch.guideline if batch is not None else get_guideline(str(request.guideline))).document
    tables = [source for source, format_name in files if format_name == table.NAME]
    for source in tables:
        source.options = add_wording(source.options, document)
    is_named = request.overlap is not None or request.policy.plan == "open"
    if batch is not None or is_named:
        return request
    return replace(request, overlap=max(USUAL_POLICY.overlap, _count_people(files)))


def _count_people(files: Sequence[tuple[Source, str]]) -> int:
    """The most people who labelled the same response."""
    people: dict[tuple[str, str | None, str | None], set[str]] = {}
    for source, format_name in files:
        left_out = set(map(fold_word, source.options.left_out))
        for item in get_format(format_name).annotation_reader().items(source.reopen()):
            if isinstance(item, AnnotationRecord) and not set(map(fold_word, item.labels)) <= left_out:
                people.setdefault((item.ref.key, item.model, item.collection), set()).add(item.annotator)
    return max(map(len, people.values()), default=0)


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
        _refuse_other_policy(batch, request)
    if intake.form.complete:
        return _import_content(batch, request, intake)
    if batch is None and request.dataset and request.guideline and holds_responses(intake):
        document, source = get_guideline(request.guideline).document, table.read_as(intake.source, RESPONSES)
        _import_responses(
            replace(intake, document=document, source=source), intake.get_or_make_dataset(request.dataset)
        )
    dataset = get_dataset(request.dataset) if request.dataset else None
    if batch is not None:
        return ImportTarget(batch=batch, dataset=dataset, is_new=False)
    return _make_batch(request, dataset, intake)


def holds_responses(intake: Intake) -> bool:
    """Whether the table of labels has the prompts and the responses beside them, as one spreadsheet for all has."""
    if intake.form.name != table.NAME:
        return False
    fields = table.map_table(table.read_as(intake.source, RESPONSES), RESPONSES).mapping.columns
    return {"response", MESSAGES} & fields.keys() != set()


def _refuse_other_guideline(batch: Batch, request: ImportRequest) -> None:
    if request.guideline and get_guideline(request.guideline) != batch.guideline:
        raise Conflict(
            N_("The batch {name} follows {guideline}, not {other}."),
            name=batch.name,
            guideline=str(batch.guideline),
            other=request.guideline,
        )


def _refuse_other_policy(batch: Batch, request: ImportRequest) -> None:
    policy = request.build_policy()
    for name in sorted(request.stated):
        if getattr(batch, name) != getattr(policy, name):
            raise Conflict(
                N_("The batch {name} is there already, and its {term} is {known}, not {other}; it stays so."),
                name=batch.name,
                term=name,
                known=getattr(batch, name),
                other=getattr(policy, name),
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
        collection=request.slates,
        open_now=False,
        policy=request.build_policy(),
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
    _import_responses(intake, target.dataset)
    responses_of_model = filter_responses(
        dataset=target.dataset, models=list(EvaluatedModel.objects.filter(name=model)), collection=""
    )
    missing = responses_of_model.exclude(tasks__batch=target.batch)
    made = add_tasks(batch=target.batch, responses=missing)
    intake.report.add_made("tasks", made)
    return target


def _import_responses(intake: Intake, dataset: Dataset) -> None:
    report = ImportReport(kind=RESPONSES, format=intake.form.name, file=intake.source.name)
    store_responses(replace(intake, report=report, run=PLAIN), dataset)
    intake.problems.refuse_any()
    intake.report.add_made("responses", report.imported)
    if intake.form.complete:
        intake.report.include(report)
        return
    # What of the file is no response is read again as labels: only then is it used or left out.
    for kind, number in report.made.items():
        intake.report.add_made(kind, number)


def _make_complete_batch(request: ImportRequest, intake: Intake) -> Batch:
    guideline = _get_or_load_guideline(request.guideline or intake.form.name, intake)
    intake.report.add_made("batches")
    return create_empty_batch(
        name=request.batch,
        study=find_or_make_study(actor=intake.run.actor),
        guideline=guideline,
        policy=request.build_policy(),
        actor=intake.run.actor,
    )


def _get_or_load_guideline(reference: str, intake: Intake) -> Guideline:
    """The one asked for; the format's own is loaded where nobody has loaded one of that name yet."""
    own = intake.form.name
    if reference == own and not Guideline.objects.filter(name=own).exists():
        intake.report.add_made("guidelines")
        return load_guideline(
            text=read_shipped(own), path=f"{own}.yaml", publish=True, actor=intake.run.actor
        )
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
        may_make=target.is_new or new_people or intake.form.complete or _is_of_one_person(intake),
        is_own=target.is_new or is_made_by_import(target.batch),
        tell=not target.is_new,
        report=intake.report,
    )
    places = TaskSlots(intake, target.batch, target.dataset)
    replay = Replay(intake=intake, batch=target.batch, members=members)
    _replay_records(intake, places, replay, without_final=without_final)
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


def _replay_records(intake: Intake, places: TaskSlots, replay: Replay, *, without_final: bool) -> None:
    finals_left_out = 0
    wording = None
    if intake.form.is_worded:
        left_out = intake.source.options.left_out
        wording = Wording(replay.document, is_checked=intake.form.is_checked, left_out=left_out)
        intake.source.options = add_wording(intake.source.options, replay.document)
    else:
        _refuse_strays(intake, replay.document)
    with freeze_garbage(), look_up_by_indexes():
        for chunk in intake.chunks(intake.form.annotation_reader()):
            records = [r for r in chunk if not (without_final and isinstance(r, AdjudicationRecord))]
            finals_left_out += len(chunk) - len(records)
            places.load(records)
            for record in records:
                _replay_record(record, intake, places, replay, wording)
            replay.save()
    replay.save_counts()
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
