"""Deleting an archived study, and the certificate of what went (docs/decisions/deleting-a-study.md).

What lets somebody in ends when it begins. The rest is a job that goes on where a worker died: the rows table by table,
a block in each transaction, with the count beside them; then the files; then the certificate, and the event of the
audit trail that has its hash.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db import connection, transaction
from django.db.models import Model
from django.utils import timezone

from annotation.core.errors import N_, Conflict
from annotation.core.storage import bucket, file_cache
from annotation.core.version import code_version
from annotation.domain.erasure import CERTIFICATE_FORMAT, digest_certificate
from annotation.domain.verbs import AnnotationVerb
from annotation.models import CacheEntry, EvaluatedModel, Import, Job, Person, Study, StudyDeletion
from annotation.selectors.imports.uploads import build_preview_key
from annotation.selectors.studies.deletion import (
    ENDING,
    DeletedRows,
    KeptRows,
    check_deletable,
    check_independence,
    describe_guidelines,
    describe_releases,
    find_kept,
    get_table,
    list_candidates,
    list_kept_parts,
    list_tables,
    select_unused,
)
from annotation.services import jobs
from annotation.services.audit import record_in_study

JOB_KIND = "delete_study"
BLOCK = 2000
WAIT_SECONDS = 1.0
SCORERS = "scorers"


@transaction.atomic
def begin_deletion(*, study: Study, actor: Person | None = None, send: bool = True) -> StudyDeletion:
    """Nobody sees the study from now on, its links and invitations end, its queued jobs are cancelled, and a job
    deletes the rest. Conflict where it is not archived, a worker is at a job of it, or another study rests on what is
    not shared with it.
    """
    locked = Study._base_manager.select_for_update().get(pk=study.pk)
    if locked.deleted_at is not None:
        raise Conflict(N_("The study {name} was deleted: nothing brings it back."), name=locked.name)
    check_deletable(locked)
    kept_rows = find_kept(locked)
    rows = DeletedRows(locked.pk, kept_rows)
    check_independence(rows)
    for job in Job._base_manager.filter(study=locked, state=Job.State.QUEUED).order_by("pk"):
        jobs.cancel(job=job, actor=actor)
    locked.deleted_at = timezone.now()
    locked.save(update_fields=["deleted_at"])
    removed = Counter[str]()
    for table in list_tables():
        if table in ENDING:
            removed[table] += _delete_rows(table, rows.select(table).values_list("pk", flat=True))
    deletion = StudyDeletion.objects.create(
        study=locked, begun_by=actor, plan={"kept": kept_rows.to_json()}, removed=dict(removed)
    )
    deletion.job = jobs.enqueue(
        kind=JOB_KIND,
        payload={"deletion": deletion.pk},
        title=locked.name,
        actor=actor,
        send=send,
        is_of_site=True,
    )
    deletion.save(update_fields=["job"])
    record_in_study(
        None, actor=actor, verb=AnnotationVerb.BEGIN_STUDY_DELETION, target=f"study:{locked.name}"
    )
    return deletion


def execute_deletion(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job. What an earlier worker deleted is gone and counted; the rest goes now."""
    deletion = StudyDeletion.objects.select_related("study", "begun_by").get(pk=context.payload["deletion"])
    if deletion.finished_at is not None:
        return dict(context.job.result)
    _wait_for_jobs(deletion, context)
    rows = DeletedRows(deletion.study_id, KeptRows.from_json(deletion.plan["kept"]))
    if "files" not in deletion.plan:
        _take_stock(deletion, rows, context)
    _empty_tables(deletion, rows, context)
    _delete_unused(deletion)
    context.report(0.95, N_("deleting files"))
    _delete_files(deletion.plan)
    return _certify(deletion, rows, context)


def _wait_for_jobs(deletion: StudyDeletion, context: jobs.JobContext) -> None:
    """Of one that a worker took up while the deletion began: it was asked to stop."""
    running = Job._base_manager.filter(study=deletion.study_id, state=Job.State.RUNNING)
    while running.exists():
        context.report(0, N_("waiting for a job of the study to stop"))
        time.sleep(WAIT_SECONDS)


def _take_stock(deletion: StudyDeletion, rows: DeletedRows, context: jobs.JobContext) -> None:
    """What can be told only while it is all there: files with their hashes, releases, and how many rows there are."""
    paths = sorted(_list_paths(rows))
    files: list[dict[str, Any]] = []
    for number, path in enumerate(paths):
        context.report(0.1 * number / len(paths), N_("hashing files"))
        files += _describe_files(path)
    deletion.plan |= {
        "total": sum(rows.select(table).count() for table in list_tables()),
        "releases": describe_releases(rows),
        "guidelines": describe_guidelines(rows),
        "candidates": list_candidates(rows),
        "stays": [{"kind": part.kind, "name": part.name} for part in list_kept_parts(rows.kept_rows)],
        "paths": paths,
        "files": files,
    }
    deletion.save(update_fields=["plan"])


def _list_paths(rows: DeletedRows) -> Iterator[str]:
    """Files and folders by their names below the data folder, which are those in a bucket as well."""
    uploads = set(_select(rows, "annotation.Import").exclude(path="").values_list("path", flat=True))
    own = set(_select(rows, "annotation.Import").values_list("pk", flat=True))
    shared = set(Import._base_manager.exclude(pk__in=own).exclude(path="").values_list("path", flat=True))
    yield from (Import(path=path).stored_name for path in uploads - shared)
    for folder in _select(rows, "annotation.Export").exclude(folder="").values_list("folder", flat=True):
        yield folder
        yield f"{folder}.part"
    yield from (f"{SCORERS}/{pk}" for pk in rows.list_owners("scorer"))


def _select(rows: DeletedRows, table: str) -> Any:
    return rows.select(table)


def _describe_files(name: str) -> Iterator[dict[str, Any]]:
    if bucket.is_used():
        for entry in bucket.list_files(name):
            yield {"name": entry.name, "bytes": entry.bytes, "sha256": bucket.find_sha256(entry.name)}
        return
    root = Path(settings.ASSAY_DATA_DIR)
    place = root / name
    for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
        if path.is_file():
            yield {
                "name": path.relative_to(root).as_posix(),
                "bytes": path.stat().st_size,
                "sha256": bucket.hash_file(path),
            }


def _empty_tables(deletion: StudyDeletion, rows: DeletedRows, context: jobs.JobContext) -> None:
    total = max(1, deletion.plan["total"])
    for table in list_tables():
        last = None
        while True:
            with transaction.atomic():
                locked = StudyDeletion.objects.select_for_update().get(pk=deletion.pk)
                remaining = rows.select(table)
                if last is not None:
                    remaining = remaining.filter(pk__lt=last)
                ids = list(remaining.order_by("-pk").values_list("pk", flat=True)[:BLOCK])
                if not ids:
                    break
                _count_removed(locked, {table: _delete_rows(table, ids)})
            last = ids[-1]
            done = sum(locked.removed.values())
            context.report(0.1 + 0.8 * min(1.0, done / total), N_("deleting rows"))


def _count_removed(locked: StudyDeletion, numbers: dict[str, int]) -> None:
    locked.removed = dict(Counter(locked.removed) + Counter(numbers))
    locked.save(update_fields=["removed"])


def _delete_rows(table: str, ids: Iterable[int]) -> int:
    """Past the cascades of Django: what points to these rows has gone before them. Also the lines about them in the log
    of Django's own admin.
    """
    model, listed = get_table(table), list(ids)
    if not listed:
        return 0
    if model is Import:
        for number in listed:
            CacheEntry.forget(build_preview_key(number))
    if admin.site.is_registered(model):
        LogEntry.objects.filter(
            content_type__app_label=model._meta.app_label,
            content_type__model=model._meta.model_name,
            object_id__in=[str(pk) for pk in listed],
        ).delete()
    deleted = model._base_manager.filter(pk__in=listed)._raw_delete(connection.alias)
    return len(listed) if deleted is None else int(deleted)


@transaction.atomic
def _delete_unused(deletion: StudyDeletion) -> None:
    """The names of models and collections that no study has anything of any more."""
    locked = StudyDeletion.objects.select_for_update().get(pk=deletion.pk)
    for table, candidates in deletion.plan["candidates"].items():
        while ids := list(select_unused(table, candidates).values_list("pk", flat=True)):
            if table == "annotation.EvaluatedModel":
                parts: type[Model] = EvaluatedModel.parts.through
                parts._base_manager.filter(from_evaluatedmodel__in=ids).delete()
            _count_removed(locked, {table: _delete_rows(table, ids)})


def _delete_files(plan: dict[str, Any]) -> None:
    """Once no row names them. What is gone already stays so."""
    if bucket.is_used():
        bucket.delete_objects(file["name"] for file in plan["files"])
        for file in plan["files"]:
            if file["sha256"]:
                file_cache.forget(file["sha256"])
    for name in plan["paths"]:
        place = Path(settings.ASSAY_DATA_DIR) / name
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


@transaction.atomic
def _certify(deletion: StudyDeletion, rows: DeletedRows, context: jobs.JobContext) -> dict[str, Any]:
    locked = StudyDeletion.objects.select_for_update(of=("self",)).select_related("study").get(pk=deletion.pk)
    remaining = [table for table in list_tables() if rows.select(table).exists()]
    if remaining:
        raise Conflict(
            N_("Rows of the study came while it was deleted ({tables}): try the job again."),
            tables=", ".join(remaining),
        )
    finished_at = timezone.now()
    plan = locked.plan
    certificate = {
        "format": CERTIFICATE_FORMAT,
        "study": {
            "name": locked.study.name,
            "title": locked.study.title,
            "created_at": locked.study.created_at.isoformat(),
        },
        "begun_at": locked.begun_at.isoformat(),
        "finished_at": finished_at.isoformat(),
        "code_version": code_version(),
        "rows": {table: locked.removed[table] for table in sorted(locked.removed) if locked.removed[table]},
        "releases": plan["releases"],
        "guidelines": plan["guidelines"],
        "files": plan["files"],
        "stays": plan["stays"],
    }
    sha256 = digest_certificate(certificate)
    event = record_in_study(
        None,
        actor=locked.begun_by,
        verb=AnnotationVerb.DELETE_STUDY,
        target=f"study:{locked.study.name}",
        certificate=locked.pk,
        rows=sum(locked.removed.values()),
        files=len(plan["files"]),
        sha256=sha256,
    )
    locked.certificate, locked.sha256, locked.event, locked.finished_at = (
        certificate,
        sha256,
        event,
        finished_at,
    )
    locked.plan = {"kept": plan["kept"]}
    locked.save()
    result = {"certificate": locked.pk, "sha256": sha256, "rows": sum(locked.removed.values())}
    context.save_result(result)
    return result


def describe_certificate(deletion: StudyDeletion) -> dict[str, Any]:
    """As it is downloaded: the certificate as it was sealed, its hash, and the event and seal of the audit trail."""
    event = deletion.event
    assert event is not None
    seal = getattr(event, "seal", None)
    return {
        "certificate": deletion.certificate,
        "sha256": deletion.sha256,
        "event": {
            "id": event.pk,
            "at": event.at.isoformat(),
            "verb": event.verb,
            "by": None if event.actor is None else event.actor.username,
        },
        "seal": None if seal is None else {"position": seal.position, "sha256": bytes(seal.digest).hex()},
    }
