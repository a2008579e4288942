"""What this app leaves behind, for the nightly clean-up."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Model, QuerySet
from django.utils import timezone

from annotation.core.errors import Conflict
from annotation.core.storage import bucket
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    AuditEvent,
    Batch,
    CacheEntry,
    ChartEntry,
    Draft,
    Export,
    IdempotencyKey,
    Import,
    OutgoingMail,
    WebhookDelivery,
)
from annotation.models.imports import UPLOADS
from annotation.selectors.exports import UNDER_WAY, get_export_folder
from annotation.services.exports.downloads import FOLDER, PART, discard_export
from annotation.services.imports.uploads import discard_upload
from annotation.services.people.sessions import clean_up_rows
from annotation.services.upkeep.clean_up import Remains, find_cutoff, list_old, measure

logger = logging.getLogger(__name__)
M = TypeVar("M", bound=Model)
STRAY_DAYS = 1
"""A file that no row names may be on its way into one, for some minutes."""
NOTHING = Remains(0)


def clean_sessions(remove: bool) -> Remains:
    outcome = delete_rows(Session.objects.filter(expire_date__lt=timezone.now()), remove=remove)
    if remove:
        clean_up_rows()
    return outcome


def clean_cache(remove: bool) -> Remains:
    return delete_rows(CacheEntry.objects.filter(expires__lt=timezone.now()), remove=remove)


def clean_drafts(remove: bool) -> Remains:
    """Unfinished work of batches that are closed. What was submitted and refused stays: it is somebody's word."""
    cutoff = find_cutoff(settings.DRAFT_DAYS)
    if cutoff is None:
        return NOTHING
    drafts = Draft.objects.filter(
        assignment__batch__state=Batch.State.CLOSED, updated_at__lt=cutoff, why__isnull=True
    )
    return delete_rows(drafts, remove=remove)


def clean_webhook_messages(remove: bool) -> Remains:
    """Messages of webhooks that were accepted or failed, with their attempts; what waits stays."""
    cutoff = find_cutoff(settings.WEBHOOK_DAYS)
    if cutoff is None:
        return NOTHING
    return delete_rows(WebhookDelivery.objects.filter(ended_at__lt=cutoff), remove=remove)


def clean_idempotency_keys(remove: bool) -> Remains:
    """Whoever has not asked again by now does not."""
    cutoff = find_cutoff(settings.IDEMPOTENCY_KEY_DAYS)
    return delete_rows(IdempotencyKey.objects.filter(created_at__lt=cutoff), remove=remove)


def clean_uploads(remove: bool) -> Remains:
    """Files that came through the browser and that nobody confirmed."""
    cutoff = find_cutoff(settings.UPLOAD_DAYS)
    if cutoff is None:
        return NOTHING
    unconfirmed = Import.objects.filter(job=None, created_at__lt=cutoff).exclude(path="")
    uploads = [upload for upload in unconfirmed if "taken" not in upload.report]
    return _discard(
        uploads, _measure_upload, lambda upload: discard_upload(upload=upload, actor=None), remove=remove
    )


def clean_exports(remove: bool) -> Remains:
    """Exports that nobody ordered or downloaded for long: the release that they are of is written again when asked."""
    cutoff = find_cutoff(settings.EXPORT_DAYS)
    if cutoff is None:
        return NOTHING
    recent = AuditEvent.objects.filter(verb=AnnotationVerb.DOWNLOAD_EXPORT.value, at__gte=cutoff).values_list(
        "data__export", flat=True
    )
    exports = Export.objects.filter(verified_at__lt=cutoff).exclude(pk__in=list(recent))
    return _discard(
        list(exports),
        _measure_export,
        lambda export: discard_export(export=export, actor=None),
        remove=remove,
    )


def clean_charts(remove: bool) -> Remains:
    """Pictures that a page draws again: in the data folder, and in the database where there is a bucket."""
    files = remove_paths(
        list_old(Path(settings.ASSAY_DATA_DIR) / "charts", settings.CHART_DAYS), remove=remove
    )
    rows = delete_rows(ChartEntry.objects.filter(expires__lt=timezone.now()), remove=remove)
    return Remains(files.number + rows.number, files.bytes)


def clean_mails(remove: bool) -> Remains:
    """Rows of mails that were sent or given up. Their words stand nowhere."""
    old = OutgoingMail.objects.filter(ended_at__lt=find_cutoff(settings.MAIL_DAYS))
    return delete_rows(old, remove=remove)


def clean_stray_files(remove: bool) -> Remains:
    """Uploads and exports without a row, and what exports left half-written: of processes that were killed."""
    uploads = set(Import.objects.exclude(path="").values_list("path", flat=True))
    exports = set(Export.objects.exclude(folder="").values_list("folder", flat=True))
    unfinished = {
        f"{folder}{PART}"
        for folder in Export.objects.filter(job__state__in=UNDER_WAY).values_list("folder", flat=True)
    }
    media, root = Path(settings.MEDIA_ROOT), Path(settings.ASSAY_DATA_DIR)
    stray = [
        path
        for path in list_old(media / "imports", STRAY_DAYS)
        if str(path.relative_to(media)) not in uploads
    ]
    stray += [
        path
        for path in list_old(root / FOLDER, STRAY_DAYS)
        if str(path.relative_to(root)) not in exports | unfinished
    ]
    remains = remove_paths(stray, remove=remove)
    if bucket.is_used():
        in_bucket = clean_bucket((UPLOADS, FOLDER), _is_named(uploads, exports), remove=remove)
        remains = Remains(remains.number + in_bucket.number, remains.bytes + in_bucket.bytes)
    return remains


def _is_named(uploads: Container[str], exports: Container[str]) -> Callable[[str], bool]:
    """Whether a row names what a bucket has: an upload is an object, and an export a folder of them."""

    def is_named(name: str) -> bool:
        return name.removeprefix(f"{UPLOADS}/") in uploads or "/".join(name.split("/")[:2]) in exports

    return is_named


def clean_bucket(folders: Iterable[str], is_named: Callable[[str], bool], *, remove: bool) -> Remains:
    """What lies there for a day and no row names, and what killed processes began to put there."""
    cutoff = find_cutoff(STRAY_DAYS)
    assert cutoff is not None
    stray = [
        entry
        for folder in folders
        for entry in bucket.list_objects(folder)
        if entry.changed_at < cutoff and not is_named(entry.name)
    ]
    if remove:
        bucket.delete_objects(entry.name for entry in stray)
    broken_off = bucket.abort_uploads(cutoff, remove=remove)
    return Remains(len(stray) + broken_off, sum(entry.bytes for entry in stray))


def _measure_upload(upload: Import) -> int:
    if bucket.is_used():
        return sum(entry.bytes for entry in bucket.list_files(upload.stored_name))
    return measure(upload.list_files())


def _measure_export(export: Export) -> int:
    if bucket.is_used():
        return sum(file["bytes"] for file in export.files)
    return measure([get_export_folder(export)])


def delete_rows(rows: QuerySet[M], *, remove: bool) -> Remains:
    return Remains(rows.delete()[0] if remove else rows.count())


def remove_paths(paths: Sequence[Path], *, remove: bool) -> Remains:
    size = measure(paths)
    if remove:
        for path in paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    return Remains(len(paths), size)


def _discard(
    rows: Sequence[M],
    measure_files: Callable[[M], int],
    discard: Callable[[M], None],
    *,
    remove: bool,
) -> Remains:
    """As a person would; what somebody took up meanwhile stays."""
    number = size = 0
    for row in rows:
        own = measure_files(row)
        if remove:
            try:
                discard(row)
            except Conflict as error:
                logger.info("%s stays: %s", row, error)
                continue
        number, size = number + 1, size + own
    return Remains(number, size)
