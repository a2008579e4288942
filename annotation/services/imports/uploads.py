"""Uploads: a file comes through the browser, is stored, guessed at and confirmed, and a job imports it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice
from pathlib import PurePath
from typing import Any
from uuid import uuid4

from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db import transaction

from annotation.core.errors import N_, Conflict, Forbidden, InputError, NoRoom
from annotation.domain.formats import ANNOTATIONS, PROMPTS, RESPONSES, get_format, guess_format
from annotation.domain.formats.bundle import FORMAT, Bundle, is_zip
from annotation.models import Batch, Import, Job, Person
from annotation.selectors.access import record_reader, refuse_sealed, sealed_datasets
from annotation.selectors.imports import MAX_PROBLEMS, build_source, has_running_job
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.imports import bundle
from annotation.services.imports.annotations import ImportRequest, import_annotations
from annotation.services.imports.datasets import import_prompts, import_responses
from annotation.services.imports.run import ImportRefused, ImportReport, Run
from annotation.services.jobs import ProgressReporter

logger = logging.getLogger(__name__)
JOB_KIND = "import"
# A file of up to this many records is tried against the database before the job is made, in a second or two.
MAX_REHEARSED = 3000
# Reading is about half of the work; while the rest is stored, in one transaction, nobody can be told how far it is.
READING_SHARE = 0.5
Report = Callable[[float, str], None]


def receive_upload(*, file: File[bytes], name: str, actor: Person) -> Import:
    """Keep the file under a random name, and guess what it is. Where that fails nothing of it stays."""
    path = f"imports/{uuid4().hex}"
    try:
        return _store_upload(path, file, name, actor)
    except OSError as error:
        default_storage.delete(path)
        logger.error("an upload cannot be stored: %s", error)
        raise NoRoom(
            N_("The server cannot store the file ({why}). Tell whoever runs it; nothing was imported."),
            why=error.strerror or error,
        ) from error
    except BaseException:
        default_storage.delete(path)
        raise


@transaction.atomic
def _store_upload(path: str, file: File[bytes], name: str, actor: Person) -> Import:
    default_storage.save(path, file)
    upload = Import(
        kind=PROMPTS, format="jsonl", file_name=PurePath(name).name[:255], path=path, created_by=actor
    )
    guessed = guess_format(build_source(upload))
    if guessed is not None:
        upload.kind, upload.format = guessed.kind, guessed.format
    elif is_zip(build_source(upload)):
        upload.kind, upload.format = ANNOTATIONS, FORMAT
    upload.save()
    record(actor=actor, verb="upload", target=f"import:{upload.pk}", file=upload.file_name)
    return upload


def confirm_upload(
    *, upload: Import, kind: str, format_name: str, options: dict[str, Any], actor: Person
) -> Job:
    """Import the file as a job. What is wrong with a file of ordinary size is said at once (ImportRefused)."""
    get_format(format_name).reader(kind)
    options = {name: value for name, value in options.items() if value}
    _refuse_sealed(kind, options, actor)
    upload.kind, upload.format, upload.options = kind, format_name, options
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
        upload.save(update_fields=["kind", "format", "options", "report", "job"])
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


def discard_upload(*, upload: Import, actor: Person) -> None:
    """Forget a file that was uploaded and never imported."""
    with transaction.atomic():
        locked = Import.objects.select_for_update(of=("self",)).select_related("job").get(pk=upload.pk)
        _refuse_imported(locked)
        if not locked.path:
            raise Conflict(N_("This file was imported by a command; there is nothing to discard."))
        path = locked.path
        locked.delete()
        record(actor=actor, verb="discard_upload", target=f"import:{upload.pk}", file=upload.file_name)
        transaction.on_commit(lambda: default_storage.delete(path))


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
        return dict(upload.report)
    _read_file(upload, report)
    report(READING_SHARE, N_("storing"))
    actor = upload.job.created_by if upload.job is not None else upload.created_by
    try:
        done = _import_file(upload, Run(actor=actor, most_problems=MAX_PROBLEMS, upload=upload))
    except ImportRefused as error:
        _save_problems(import_id, error.problems)
        raise
    return done.to_stored_json()


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
    with transaction.atomic():
        _import_file(upload, Run(actor=actor, most_problems=MAX_PROBLEMS))
        transaction.set_rollback(True)


def _import_file(upload: Import, run: Run) -> ImportReport:
    source, options = build_source(upload), upload.options
    if upload.kind == PROMPTS:
        return import_prompts(source=source, format=upload.format, dataset=options["dataset"], run=run)
    if upload.kind == RESPONSES:
        return import_responses(
            source=source,
            format=upload.format,
            dataset=options["dataset"],
            model=options.get("model"),
            collection=options.get("collection"),
            run=run,
        )
    return import_annotations(
        source=source,
        format=upload.format,
        request=ImportRequest(
            batch=options["batch"], guideline=options.get("guideline"), dataset=options.get("dataset")
        ),
        model=options.get("model"),
        without_final=bool(options.get("without_final")),
        protocol=options.get("protocol"),
        run=run,
    )


def _save_problems(import_id: int, problems: list[InputError]) -> None:
    records = [
        {"line": problem.line, "field": problem.field, "template": problem.template, "params": problem.params}
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
