"""Exports for download: a job writes them into the data folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict, Forbidden
from annotation.core.storage import bucket, file_cache
from annotation.domain.verbs import AnnotationVerb
from annotation.models import AuditEvent, Export, GoldRelease, Person
from annotation.selectors.access import refuse_sealed_gold
from annotation.selectors.exports import UNDER_WAY, get_export_folder, is_under_way, may_name_people
from annotation.selectors.releases.rows import ReleaseContent
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.exports.base import ExportSpec, Options
from annotation.services.exports.files import ExportedFiles, ExportProgress, write_files
from annotation.services.exports.formats import get_writer

JOB_KIND = "export"
FOLDER = "exports"
PART = ".part"


@transaction.atomic
def start_export(
    *, release: GoldRelease, format_name: str, options: Options, actor: Person, send: bool = True
) -> Export:
    """The export, which a job writes. Refused for whoever may not open the release, or see who labelled it."""
    chosen_options = options.to_json(get_writer(format_name).options)
    refuse_sealed_gold(actor, release.batches.all())
    if chosen_options.get("real_names") and not may_name_people(actor, release):
        raise Forbidden(N_("Only a manager exports the names of people; choose pseudonyms."))
    GoldRelease.objects.select_for_update(no_key=True).get(pk=release.pk)
    same = release.exports.filter(format=format_name, options=chosen_options, job__state__in=UNDER_WAY)
    if same.exists():
        raise Conflict(N_("This export is being written now."))
    export = Export.objects.create(
        release=release,
        format=format_name,
        options=chosen_options,
        folder=f"{FOLDER}/{uuid4().hex}",
        created_by=actor,
    )
    export.job = jobs.enqueue(
        kind=JOB_KIND,
        payload={"export": export.pk},
        title=f"{release.name}, {format_name}"[:200],
        actor=actor,
        send=send,
    )
    export.save(update_fields=["job"])
    _record_act(export, AnnotationVerb.EXPORT_GOLD, actor)
    return export


def execute_export(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job: done again after a worker died, it goes on where the files were surely written."""
    export = Export.objects.select_related("release").get(pk=context.payload["export"])
    if export.verified_at is not None:
        return dict(context.job.result)
    if bucket.is_used():
        bucket.check_access()  # before much work, not after it
    try:
        made = _write_export(export, context)
    except Exception as error:
        if not context.is_final(error):
            raise  # whoever goes on, here or elsewhere, needs the files
        _remove_files(get_export_folder(export), export.folder)
        if isinstance(error, OSError):
            raise AssayError(
                N_("The files cannot be written: {why}."), why=error.strerror or error
            ) from error
        raise
    return _save_result(export, made, context)


def _write_export(export: Export, context: jobs.JobContext) -> ExportedFiles:
    final = get_export_folder(export)
    part = _get_partial_folder(final)
    if final.exists():  # a worker died between the name and the row
        final.rename(part)
    course = ExportProgress(
        saved=context.job.result.get("course", {}),
        save=lambda progress: context.save_result({"course": dict(progress)}),
        report=context.report,
    )
    spec = ExportSpec(ReleaseContent(export.release), Options.from_json(export.options))
    made = write_files(get_writer(export.format), spec, part, course)
    context.report(1, N_("reading the files back"))
    if bucket.is_used():
        _put_into_bucket(export, part, made)
    else:
        part.rename(final)
    return made


def _put_into_bucket(export: Export, folder: Path, made: ExportedFiles) -> None:
    """Whoever writes the same export puts the same there; the row says that they are there."""
    for file in made.files:
        bucket.put_file(folder / file.name, f"{export.folder}/{file.name}", file.sha256)
    for file in made.files:
        file_cache.keep(folder / file.name, file.sha256)
    shutil.rmtree(folder, ignore_errors=True)


@transaction.atomic
def _save_result(export: Export, made: ExportedFiles, context: jobs.JobContext) -> dict[str, Any]:
    result = {"rows": made.counted.rows, "labels": made.counted.labels}
    context.save_result(result)
    export.rows, export.files = made.counted.rows, [asdict(file) for file in made.files]
    export.verified_at = timezone.now()
    export.save(update_fields=["rows", "files", "verified_at"])
    return result


def discard_export(*, export: Export, actor: Person | None) -> None:
    """Remove the files and the row; the audit trail keeps that it was there, and that nobody did it where it was the
    nightly clean-up.
    """
    with transaction.atomic():
        locked = (
            Export.objects.select_for_update(of=("self",)).select_related("job", "release").get(pk=export.pk)
        )
        if is_under_way(locked):
            raise Conflict(N_("This export is being written; cancel it first."))
        _record_act(locked, AnnotationVerb.DISCARD_EXPORT, actor)
        locked.delete()
        transaction.on_commit(partial(_remove_files, get_export_folder(locked), locked.folder))


def record_download(*, export: Export, file: str, actor: Person, goes_on: bool = False) -> None:
    """Into the audit trail: who took which file out, and whether it names people. One that ``goes_on`` where it broke
    off is there already, unless it never began.
    """
    about = {"verb": AnnotationVerb.DOWNLOAD_EXPORT.value, "target": _build_target(export), "actor": actor}
    if goes_on and AuditEvent.objects.filter(**about, data__export=export.pk, data__file=file).exists():
        return
    _record_act(export, AnnotationVerb.DOWNLOAD_EXPORT, actor, file=file)


def record_direct_download(*, release: GoldRelease, file: str, actor: Person) -> None:
    record(
        actor=actor,
        verb=AnnotationVerb.DOWNLOAD_GOLD,
        target=f"release:{release.name}",
        file=file,
        real_names=False,
    )


def _record_act(export: Export, verb: AnnotationVerb, actor: Person | None, **more: str) -> None:
    options: Mapping[str, Any] = export.options
    record(
        actor=actor,
        verb=verb,
        target=_build_target(export),
        export=export.pk,
        format=export.format,
        real_names=bool(options.get("real_names")),
        rationales=bool(options.get("rationales")),
        **more,
    )


def _build_target(export: Export) -> str:
    return f"release:{export.release.name}"


def _get_partial_folder(final: Path) -> Path:
    return final.with_name(final.name + PART)


def _remove_files(final: Path, name: str) -> None:
    for folder in (final, _get_partial_folder(final)):
        shutil.rmtree(folder, ignore_errors=True)
    if bucket.is_used():
        bucket.delete_unless_away(name)
