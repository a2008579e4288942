"""What this app leaves behind, for the nightly clean-up."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Model, QuerySet
from django.utils import timezone

from annotation.core.errors import Conflict
from annotation.domain.verbs import AnnotationVerb
from annotation.models import AuditEvent, Batch, CacheEntry, Draft, Export, IdempotencyKey, Import
from annotation.selectors.exports import UNDER_WAY, get_export_folder
from annotation.services.exports.downloads import FOLDER, PART, discard_export
from annotation.services.imports.uploads import discard_upload
from annotation.services.upkeep.clean_up import Remains, find_cutoff, list_old, measure

logger = logging.getLogger(__name__)
M = TypeVar("M", bound=Model)
STRAY_DAYS = 1
"""A file that no row names may be on its way into one, for some minutes."""
NOTHING = Remains(0)


def clean_sessions(remove: bool) -> Remains:
    return delete_rows(Session.objects.filter(expire_date__lt=timezone.now()), remove=remove)


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
        uploads, Import.list_files, lambda upload: discard_upload(upload=upload, actor=None), remove=remove
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
        lambda export: [get_export_folder(export)],
        lambda export: discard_export(export=export, actor=None),
        remove=remove,
    )


def clean_charts(remove: bool) -> Remains:
    """Pictures that a page draws again."""
    return remove_paths(
        list_old(Path(settings.ASSAY_DATA_DIR) / "charts", settings.CHART_DAYS), remove=remove
    )


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
    return remove_paths(stray, remove=remove)


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
    list_files: Callable[[M], Iterable[Path]],
    discard: Callable[[M], None],
    *,
    remove: bool,
) -> Remains:
    """As a person would; what somebody took up meanwhile stays."""
    number = size = 0
    for row in rows:
        own = measure(list_files(row))
        if remove:
            try:
                discard(row)
            except Conflict as error:
                logger.info("%s stays: %s", row, error)
                continue
        number, size = number + 1, size + own
    return Remains(number, size)
