"""The exports of a release that are kept for download."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from annotation.core.errors import N_, Conflict, Forbidden, NotFound
from annotation.core.storage import bucket, file_cache
from annotation.core.zip_stream import ZipMember
from annotation.domain.permissions import NAME_ANNOTATORS
from annotation.models import Export, GoldRelease, Job, Person
from annotation.selectors.access import may
from annotation.selectors.releases.releases import get_release_for

UNDER_WAY = (Job.State.QUEUED, Job.State.RUNNING)


def list_exports(release: GoldRelease) -> QuerySet[Export]:
    """The newest first."""
    return release.exports.select_related("job", "created_by")


def get_export(release: GoldRelease, export_id: int) -> Export:
    export = list_exports(release).filter(pk=export_id).first()
    if export is None:
        raise NotFound(N_("There is no such export."))
    return export


def check_export_release(person: Person, export_id: int) -> None:
    """Refuses whoever may not open the release of the export, if that is still there."""
    release_name = Export.objects.filter(pk=export_id).values_list("release__name", flat=True).first()
    if release_name is not None:
        get_release_for(person, release_name)


def may_name_people(person: Person, release: GoldRelease) -> bool:
    """Whether an export may have the real names of those who labelled: for managers, who know them anyway; those of
    another study do not.
    """
    return may(person, NAME_ANNOTATORS) and not release.is_borrowed


def may_download(person: Person, export: Export) -> bool:
    """Whether the person may have the files, whoever ordered them: those that name people are for managers alone."""
    return not export.options.get("real_names") or may_name_people(person, export.release)


def get_export_folder(export: Export) -> Path:
    return settings.ASSAY_DATA_DIR / export.folder


def find_export_file(export: Export, file: Mapping[str, Any]) -> Path:
    """One of ``export.files`` where this host has it; of a bucket it is fetched and compared first."""
    if not bucket.is_used():
        return get_export_folder(export) / str(file["name"])
    return file_cache.fetch_file(f"{export.folder}/{file['name']}", file["sha256"])


def is_under_way(export: Export) -> bool:
    return export.job is not None and export.job.state in UNDER_WAY


def get_takeable_export(person: Person, name: str, export_id: int) -> Export:
    """The export of the release of this name, if the person may have its files."""
    export = get_export(get_release_for(person, name), export_id)
    if not may_download(person, export):
        raise Forbidden(N_("This export names people: only a manager takes its files."))
    return export


def list_export_members(export: Export, name: str | None = None) -> list[ZipMember]:
    """The files, or the one of this name, where all of these are written and still there."""
    if export.verified_at is None:
        raise Conflict(N_("This export is not written yet."))
    members = [
        ZipMember(file["name"], find_export_file(export, file), file["bytes"], file["crc32"])
        for file in export.files
        if name in {None, file["name"]}
    ]
    if not all(member.path.is_file() for member in members):
        raise NotFound(N_("The files of this export are gone; discard it and export again."))
    return members
