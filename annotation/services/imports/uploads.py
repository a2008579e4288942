"""Uploads: a file comes through the browser, is stored, guessed at and confirmed, and a job imports it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db import transaction

from annotation.core.errors import N_, Conflict, Forbidden, InputError, NoRoom
from annotation.core.storage import bucket, file_cache
from annotation.core.storage.bucket import SHA256
from annotation.domain.formats import (
    ANNOTATIONS,
    GENERIC,
    PROMPTS,
    RESPONSES,
    get_format,
    guess_format,
    table,
)
from annotation.domain.formats.bundle import FORMAT, Bundle
from annotation.domain.formats.content import ZIP, recognise
from annotation.domain.formats.labels import add_wording
from annotation.domain.formats.mapping.mapping import ColumnMapping, choose_fields, header_key
from annotation.domain.formats.preview import group_problems
from annotation.domain.formats.tables import is_table
from annotation.domain.texts.personal_data import MASK
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Batch, CacheEntry, HeaderMapping, Import, Job, Person
from annotation.selectors.access import record_reader, refuse_sealed, sealed_datasets
from annotation.selectors.imports import has_running_job
from annotation.selectors.imports.targets import brings_prompts, guess_guideline
from annotation.selectors.imports.uploads import (
    MAX_PROBLEMS,
    build_preview_key,
    build_source,
    find_document,
    find_remembered,
    group_to_json,
    list_columns,
    remember_columns,
    to_json_params,
)
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.imports import bundle
from annotation.services.imports.annotations import import_annotations
from annotation.services.imports.datasets import import_prompts, import_responses
from annotation.services.imports.run import ImportRefused, ImportReport, Run, rehearse
from annotation.services.imports.targets import ImportRequest, build_collection_policy, plan_label_files
from annotation.services.jobs import ProgressReporter
from annotation.services.studies import find_or_make_study

logger = logging.getLogger(__name__)
JOB_KIND = "import"
# A file of up to this many records is tried against the database before the job is made, in a second or two.
MAX_REHEARSED = 3000
# Reading is about half of the work; while the rest is stored, in one transaction, nobody can be told how far it is.
READING_SHARE = 0.5
Report = Callable[[float, str], None]


def receive_upload(
    *, file: File[bytes], name: str, actor: Person, kind: str = "", dataset: str = ""
) -> Import:
    """Keep the file under a random name, and guess what it is. Where that fails nothing of it stays.

    ``kind`` and ``dataset`` are what the person came for: the file is read so if it can be.
    """
    path = f"imports/{uuid4().hex}"
    upload = Import(
        study=find_or_make_study(actor=actor),
        kind=kind or PROMPTS,
        format=table.NAME,
        file_name=PurePath(name).name[:255],
        path=path,
        created_by=actor,
    )
    try:
        _keep_file(upload, file)
        return _store_upload(upload, expected=kind, dataset=dataset)
    except OSError as error:
        _delete_file(upload)
        logger.error("an upload cannot be stored: %s", error)
        raise NoRoom(
            N_("The server cannot store the file ({why}). Tell whoever runs it; nothing was imported."),
            why=error.strerror or error,
        ) from error
    except BaseException:
        _delete_file(upload)
        raise


def _keep_file(upload: Import, file: File[bytes]) -> None:
    """In the data folder; where there is a bucket, there, and here as what this host keeps of it."""
    default_storage.save(upload.path, file)
    if bucket.is_used():
        path = Path(settings.MEDIA_ROOT) / upload.path
        sha256 = upload.reading[SHA256] = bucket.hash_file(path)
        bucket.put_file(path, upload.stored_name, sha256)
        file_cache.keep(path, sha256)


def _delete_file(upload: Import) -> None:
    default_storage.delete(upload.path)
    if bucket.is_used():
        bucket.delete_unless_away(upload.stored_name)


@transaction.atomic
def _store_upload(upload: Import, *, expected: str, dataset: str) -> Import:
    guessed = guess_format(build_source(upload))
    if guessed is not None:
        upload.kind, upload.format = guessed.kind, guessed.format
    elif recognise(build_source(upload).path) == ZIP and not is_table(build_source(upload)):
        upload.kind, upload.format = ANNOTATIONS, FORMAT
    if upload.format in {
        *GENERIC,
        table.NAME,
    }:  # as any table, so that its columns are shown and may be chosen
        upload.format = table.NAME
        _read_as_expected(upload, expected)
    if upload.format != FORMAT:
        target = {"dataset": dataset, "guideline": guess_guideline(upload)}
        upload.reading["target"] = {name: value for name, value in target.items() if value}
    upload.save()
    record(
        actor=upload.created_by,
        verb=AnnotationVerb.UPLOAD,
        target=f"import:{upload.pk}",
        file=upload.file_name,
    )
    return upload


def _read_as_expected(upload: Import, kind: str) -> None:
    """A header that was mapped before is what it was then; else the file is what the person came for."""
    source = build_source(upload)
    assert upload.created_by is not None
    remembered = find_remembered(upload.created_by, source, kind)
    if remembered is None and not kind:
        remembered = find_remembered(upload.created_by, source)
    upload.kind = remembered.kind if remembered is not None else kind or upload.kind
    remember_columns(upload, remembered)


def choose_columns(*, upload: Import, choices: Mapping[str, str], actor: Person) -> bool:
    """Read the columns of the table as they were chosen, and files with the same header from now on; whether that is
    another reading than before.

    What is left as it was guessed stays a guess: the words of a guideline that is chosen later count.
    """
    if upload.format != table.NAME or not choices:
        return False
    source = build_source(upload)
    if document := find_document(upload.kind, upload.reading.get("target", {})):
        source.options = add_wording(source.options, document)
    opened, page_mapping, _sample = table.map_table(source, upload.kind)
    if dict(choices) == page_mapping.list_choices():
        return False
    source.options = replace(source.options, mapping=None)
    guess = table.map_table(source, upload.kind).mapping
    mapping = choose_fields(guess, choices, opened.columns, source.name)
    upload.reading.pop("remembered", None)
    upload.reading["mapping"] = mapping.to_json()
    _remember_header(actor, opened.columns, mapping)
    return True


def forget_columns(*, upload: Import, actor: Person) -> None:
    """Guess the columns anew, of this file and of the next ones with its header."""
    header = header_key(list_columns(upload))
    HeaderMapping.objects.filter(person=actor, kind=upload.kind, header=header).delete()
    for name in ("mapping", "remembered", "outcome"):
        upload.reading.pop(name, None)
    _save_reading(upload)


def _remember_header(actor: Person, columns: Sequence[str], mapping: ColumnMapping) -> None:
    HeaderMapping.objects.update_or_create(
        person=actor,
        kind=mapping.kind,
        header=header_key(columns),
        defaults={"mapping": mapping.to_json()},
    )


def check_upload(*, upload: Import, options: dict[str, Any] | None, actor: Person) -> None:
    """Keep how the file is read and where it is to go, and what would come of importing it: the import itself, rolled
    back. ``options`` None: the target is not complete, and the reading alone is kept.
    """
    upload.reading.pop("outcome", None)
    if options is not None:
        upload.reading["target"] = {name: value for name, value in options.items() if value}
    _save_reading(upload)
    if options is None:
        return
    _refuse_sealed(upload.kind, options, actor)
    upload.options = upload.reading["target"]
    build_source(upload).check()
    upload.reading["outcome"] = _try_import(upload, actor) if _is_short(upload) else {}
    _save_reading(upload)


def _try_import(upload: Import, actor: Person) -> dict[str, Any]:
    outcome = rehearse(lambda run: _import_file(upload, replace(run, actor=actor)))
    if isinstance(outcome, ImportReport):
        return {"report": outcome.to_stored_json()}
    return {"problems": [group_to_json(group) for group in group_problems(outcome)]}


def _save_reading(upload: Import) -> None:
    """Unless the file was confirmed meanwhile."""
    with transaction.atomic():
        locked = Import.objects.select_for_update(of=("self",)).select_related("job").get(pk=upload.pk)
        _refuse_imported(locked)
        Import.objects.filter(pk=upload.pk).update(
            kind=upload.kind, format=upload.format, reading=upload.reading
        )


def confirm_upload(
    *, upload: Import, kind: str, format_name: str, options: dict[str, Any], actor: Person
) -> Job:
    """Import the file as a job. What is wrong with a file of ordinary size is said at once (ImportRefused)."""
    get_format(format_name).reader(kind)
    options = {name: value for name, value in options.items() if value}
    _refuse_sealed(kind, options, actor)
    upload.kind, upload.format, upload.options = kind, format_name, options
    upload.reading.pop("outcome", None)
    build_source(upload).check()
    if _is_short(upload):
        _rehearse(upload, actor)
    if kind == ANNOTATIONS and (batch := Batch.objects.filter(name=options.get("batch")).first()):
        record_reader(
            actor, batch
        )  # here, and not by the job, which would hold the person's row until its end
    with transaction.atomic():
        locked = Import.objects.select_for_update(of=("self",)).select_related("job").get(pk=upload.pk)
        _refuse_imported(locked)
        upload.report = {}
        upload.job = jobs.enqueue(
            kind=JOB_KIND,
            payload={"import": upload.pk},
            title=f"import {upload.file_name}"[:200],
            actor=actor,
        )
        upload.save(update_fields=["kind", "format", "options", "reading", "report", "job"])
    return upload.job


def confirm_bundle(*, upload: Import, called: bundle.BundleNames, actor: Person) -> Job:
    """Import the bundle as a job. What its manifest and the names tell of refusals is said at once."""
    contents = Bundle(build_source(upload))
    bundle.check_coming(contents, called, actor)
    with transaction.atomic():
        locked = Import.objects.select_for_update(of=("self",)).select_related("job").get(pk=upload.pk)
        _refuse_imported(locked)
        upload.options = {"batches": dict(called.batches), "release": called.release}
        upload.options |= {"protocol": called.protocol} if called.protocol else {}
        upload.options |= {"datasets": list(contents.manifest.datasets)}
        upload.report = {}
        upload.job = jobs.enqueue(
            kind=JOB_KIND,
            payload={"import": upload.pk},
            title=f"import {upload.file_name}"[:200],
            actor=actor,
        )
        upload.save(update_fields=["options", "report", "job"])
    return upload.job


def discard_upload(*, upload: Import, actor: Person | None) -> None:
    """Forget a file that was uploaded and never imported."""
    with transaction.atomic():
        locked = Import.objects.select_for_update(of=("self",)).select_related("job").get(pk=upload.pk)
        _refuse_imported(locked)
        if not locked.path:
            raise Conflict(N_("This file was imported by a command; there is nothing to discard."))
        locked.delete()
        record(
            actor=actor,
            verb=AnnotationVerb.DISCARD_UPLOAD,
            target=f"import:{upload.pk}",
            file=upload.file_name,
        )
        transaction.on_commit(lambda: _delete_file(locked))


def execute_import(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job. Done again after a worker died, it finds what it did, or finds nothing done."""
    upload = Import.objects.select_related("created_by", "job").get(pk=context.payload["import"])
    if "taken" not in upload.report and upload.format == FORMAT:
        return _execute_bundle(upload, context)
    return execute_upload(upload.pk, report=context.report)


def _execute_bundle(upload: Import, context: jobs.JobContext) -> dict[str, Any]:
    """One transaction, in which it takes long to store and to check: another thread tells how far it is."""
    context.report(0, N_("storing"))
    called = bundle.BundleNames(
        upload.options["batches"], upload.options["release"], upload.options.get("protocol", "")
    )
    actor = context.job.created_by
    with ProgressReporter(context) as reporter:
        run = Run(actor=actor, upload=upload, progress=lambda done: reporter.report(done, N_("storing")))
        return bundle.import_bundle(source=build_source(upload), called=called, run=run).to_stored_json()


def execute_upload(import_id: int, *, report: Report) -> dict[str, Any]:
    """The same of a file of prompts, responses or labels."""
    upload = Import.objects.select_related("created_by", "job").get(pk=import_id)
    if "taken" in upload.report:
        discard_unmasked(upload)
        return dict(upload.report)
    _read_file(upload, report)
    report(READING_SHARE, N_("storing"))
    actor = upload.job.created_by if upload.job is not None else upload.created_by
    try:
        done = _import_file(upload, Run(actor=actor, most_problems=MAX_PROBLEMS, upload=upload))
    except ImportRefused as error:
        _save_problems(import_id, error.problems)
        raise
    discard_unmasked(upload)
    return done.to_stored_json()


def discard_unmasked(upload: Import) -> None:
    """Of a file whose texts were masked, the file itself and what its previews showed: they have what was to go."""
    if upload.options.get("personal_data") != MASK or not upload.path:
        return
    with transaction.atomic():
        Import.objects.filter(pk=upload.pk).update(path="")
        CacheEntry.forget(build_preview_key(upload.pk))
        transaction.on_commit(partial(_delete_file, Import(path=upload.path)))


def _read_file(upload: Import, report: Report) -> None:
    """Tells how far it is, and can be cancelled; what is wrong is found again when storing."""
    source = build_source(upload)
    source.check()
    for number, _item in enumerate(get_format(upload.format).reader(upload.kind).items(source)):
        if number % 1000 == 0:
            report(READING_SHARE * source.fraction, N_("reading the file"))


def _is_short(upload: Import) -> bool:
    items = get_format(upload.format).reader(upload.kind).items(build_source(upload))
    return sum(1 for _item in islice(items, MAX_REHEARSED + 1)) <= MAX_REHEARSED


def _rehearse(upload: Import, actor: Person) -> None:
    """The import itself, rolled back: raises what it would raise."""
    outcome = rehearse(lambda run: _import_file(upload, replace(run, actor=actor)))
    if not isinstance(outcome, ImportReport):
        raise ImportRefused(outcome)


def _import_file(upload: Import, run: Run) -> ImportReport:
    source, options = build_source(upload), upload.options
    if upload.kind == PROMPTS:
        return import_prompts(
            source=source,
            format=upload.format,
            dataset=options["dataset"],
            guideline=options.get("guideline"),
            personal_data=options.get("personal_data", ""),
            run=run,
        )
    if upload.kind == RESPONSES:
        return import_responses(
            source=source,
            format=upload.format,
            dataset=options["dataset"],
            model=options.get("model"),
            collection=options.get("collection"),
            guideline=options.get("guideline"),
            make_dataset=brings_prompts(upload),
            personal_data=options.get("personal_data", ""),
            run=run,
        )
    request = ImportRequest(
        batch=options["batch"],
        guideline=options.get("guideline"),
        dataset=options.get("dataset"),
        overlap=options.get("overlap"),
        policy=build_collection_policy(options),
    )
    return import_annotations(
        source=source,
        format=upload.format,
        request=plan_label_files([(source, upload.format)], request),
        model=options.get("model"),
        without_final=bool(options.get("without_final")),
        protocol=options.get("protocol"),
        run=run,
    )


def _save_problems(import_id: int, problems: list[InputError]) -> None:
    records = [
        {
            "line": problem.line,
            "field": problem.field,
            "template": problem.template,
            "params": to_json_params(problem.params),
        }
        for problem in problems
    ]
    Import.objects.filter(pk=import_id).update(report={"problems": records})


def _refuse_imported(upload: Import) -> None:
    if "taken" in upload.report:
        raise Conflict(N_("This file was imported already."))
    if has_running_job(upload):
        raise Conflict(N_("This file is being imported now."))


def _refuse_sealed(kind: str, options: dict[str, Any], actor: Person) -> None:
    """A report on responses and labels would tell whoever judges them blind too much."""
    if kind == PROMPTS:
        return
    if kind == ANNOTATIONS:
        refuse_sealed(actor, Batch.objects.filter(name=options.get("batch")))
    if sealed_datasets(actor).filter(name=options.get("dataset")).exists():
        raise Forbidden(
            N_("You work in a batch of the dataset {name}: somebody else must import this."),
            name=options["dataset"],
        )
