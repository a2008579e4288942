"""Gold releases: reading and cutting them, and their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.base import StrictSerializer
from annotation.api.manage.base import (
    MAKE,
    MAKE_KEY,
    READ,
    ListQuerySerializer,
    ManageView,
    NameField,
    NamesField,
    describe_part,
    list_manage_refusals,
    to_answer,
)
from annotation.api.manage.jobs import JobSerializer, accept_job, find_job_url
from annotation.core.errors import N_, NotFound
from annotation.core.http import is_from_beginning, stream_file
from annotation.domain.permissions import CUT_RELEASE, EXPORT_RELEASE, READ_RELEASES
from annotation.domain.release_spec import MAX_ABOUT_CHARACTERS, ReleaseSpec
from annotation.models import Export, GoldRelease, Job
from annotation.selectors.access import refuse_sealed_gold
from annotation.selectors.batches import get_batches
from annotation.selectors.exports import (
    get_export,
    get_takeable_export,
    list_export_members,
    list_exports,
    may_download,
)
from annotation.selectors.releases.releases import get_release_for, list_releases
from annotation.services.exports import WRITERS, Options
from annotation.services.exports.downloads import record_download, start_export
from annotation.services.idempotency import MadeAnswer
from annotation.services.releases import enqueue_release

BINARY = "application/octet-stream"


class ReleaseSerializer(serializers.Serializer[Any]):
    """Of a release that is sealed for me, because I judge its responses blind, the name alone; the rest is null."""

    name = serializers.CharField()
    url = serializers.CharField()
    is_sealed = serializers.BooleanField()
    title = serializers.CharField(allow_null=True)
    sha256 = serializers.CharField(allow_null=True)
    labels = serializers.IntegerField(allow_null=True)
    adjudicated = serializers.IntegerField(allow_null=True)
    batches = serializers.ListField(child=serializers.CharField(), allow_null=True)
    superseded_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField(allow_null=True)


class ReleaseManifestSerializer(ReleaseSerializer):
    about = serializers.CharField(help_text="Why it was made and for what; may be empty.")
    manifest = serializers.DictField(help_text="As docs describe it: what is in it and how it came about.")


class CutSerializer(StrictSerializer):
    name = NameField(help_text="It never changes and is never given twice.")
    batches = NamesField(default=serializers.empty, allow_empty=False)
    about = serializers.CharField(default="", allow_blank=True, max_length=MAX_ABOUT_CHARACTERS)
    supersedes = NameField(required=False, help_text="The release in whose place it comes.")


class NewExportSerializer(StrictSerializer):
    """The options that the format does not know are left aside."""

    format = serializers.ChoiceField(choices=list(WRITERS), default="jsonl")
    real_names = serializers.BooleanField(default=False, help_text="People under their names; for managers.")
    rationales = serializers.BooleanField(default=False)
    times = serializers.BooleanField(default=False)
    table = serializers.ChoiceField(choices=["csv", "jsonl"], default="csv")
    license = NameField(default="other")


class ExportFileSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    url = serializers.CharField()
    bytes = serializers.IntegerField()
    sha256 = serializers.CharField()


class ExportSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    url = serializers.CharField()
    release = serializers.CharField()
    format = serializers.CharField()
    state = serializers.ChoiceField(choices=Job.State.choices, help_text="done: its files can be taken.")
    job = serializers.CharField(allow_null=True, help_text="The address of its job.")
    rows = serializers.IntegerField(allow_null=True, help_text="Null until it is done.")
    files = ExportFileSerializer(many=True, help_text="None until it is done.")
    may_take = serializers.BooleanField(help_text="False: it names people, and I am no manager.")


ReleasePart = describe_part(ReleaseSerializer, "Release")
ExportPart = describe_part(ExportSerializer, "Export")


def build_release_url(release: GoldRelease) -> str:
    return reverse("api-manage-release", args=[release.name])


class Releases(ManageView):
    act = READ_RELEASES

    @extend_schema(
        operation_id="manage_releases",
        summary="The gold releases of the study",
        parameters=[ListQuerySerializer],
        responses={200: ReleasePart, **list_manage_refusals()},
    )
    def get(self, request: Request) -> Response:
        return self.answer_part(GoldRelease.objects.defer("manifest"), self._describe, ReleasePart)

    def _describe(self, releases: Sequence[GoldRelease]) -> Iterable[dict[str, Any]]:
        listed = GoldRelease.objects.filter(pk__in=[release.pk for release in releases])
        rows = {row.release.pk: row for row in list_releases(self.person, listed)}
        for release in releases:
            row = rows[release.pk]
            body = {"name": release.name, "url": build_release_url(release), "is_sealed": row.sealed}
            facts = {
                "title": release.title,
                "sha256": release.sha256,
                "labels": release.labels,
                "adjudicated": release.adjudicated,
                "batches": row.batches,
                "superseded_by": row.successor or None,
                "created_at": release.created_at,
            }
            yield body | (dict.fromkeys(facts) if row.sealed else facts)


class ReleaseManifest(ManageView):
    act = READ_RELEASES

    @extend_schema(
        operation_id="manage_release",
        summary="A gold release with its manifest",
        description="Whoever reads it opens the results of its batches: they cannot judge in them any more.",
        responses={200: ReleaseManifestSerializer, **READ},
    )
    def get(self, request: Request, name: str) -> Response:
        release = get_release_for(self.person, name)
        successor = release.superseded_by.first()
        body = {
            "name": release.name,
            "url": build_release_url(release),
            "is_sealed": False,
            "title": release.title,
            "sha256": release.sha256,
            "labels": release.labels,
            "adjudicated": release.adjudicated,
            "batches": sorted(batch.name for batch in release.batches.all()),
            "superseded_by": None if successor is None else successor.name,
            "created_at": release.created_at,
            "about": release.about,
            "manifest": release.manifest,
        }
        return Response(ReleaseManifestSerializer(body).data)


class CutRelease(ManageView):
    act = CUT_RELEASE

    @extend_schema(
        operation_id="manage_release_cut",
        summary="Freeze the settled labels of batches as a gold release: a job",
        parameters=[MAKE_KEY],
        request=CutSerializer,
        responses={202: JobSerializer, **MAKE},
    )
    def post(self, request: Request) -> Response:
        data = self.parse(CutSerializer).validated_data
        batches = get_batches(data["batches"])
        # In a transaction of its own: who opened results has, also where the release is refused.
        refuse_sealed_gold(self.person, batches)
        superseded = None if "supersedes" not in data else get_release_for(self.person, data["supersedes"])

        def cut() -> MadeAnswer:
            spec = ReleaseSpec(
                name=data["name"],
                batches=tuple(batch.pk for batch in batches),
                about=data["about"],
                supersedes=None if superseded is None else superseded.pk,
            )
            return accept_job(enqueue_release(spec, actor=self.person))

        return self.make_once(cut)


class _ExportView(ManageView):
    act = EXPORT_RELEASE

    def describe(self, export: Export) -> dict[str, Any]:
        """What ``ExportSerializer`` describes."""
        name = export.release.name
        is_written = export.verified_at is not None
        may_take = may_download(self.person, export)
        files = export.files if is_written and may_take else []
        lost = Job.State.FAILED if not is_written else Job.State.DONE
        return {
            "id": export.pk,
            "url": reverse("api-manage-export", args=[name, export.pk]),
            "release": name,
            "format": export.format,
            "state": lost if export.job is None else export.job.state,
            "job": find_job_url(export.job),
            "rows": export.rows if is_written else None,
            "files": [
                {
                    "name": file["name"],
                    "url": reverse("api-manage-export-file", args=[name, export.pk, file["name"]]),
                    "bytes": file["bytes"],
                    "sha256": file["sha256"],
                }
                for file in files
            ],
            "may_take": may_take,
        }


class Exports(_ExportView):
    @extend_schema(
        operation_id="manage_exports",
        summary="The exports of a release that are kept",
        parameters=[ListQuerySerializer],
        responses={200: ExportPart, **READ},
    )
    def get(self, request: Request, name: str) -> Response:
        exports = list_exports(get_release_for(self.person, name)).select_related("job", "release")
        return self.answer_part(exports, lambda listed: map(self.describe, listed), ExportPart)


class StartExport(_ExportView):
    @extend_schema(
        operation_id="manage_export_start",
        summary="Export a release in a format: a job writes the files",
        parameters=[MAKE_KEY],
        request=NewExportSerializer,
        responses={202: ExportSerializer, **MAKE},
    )
    def post(self, request: Request, name: str) -> Response:
        release = get_release_for(self.person, name)
        data = self.parse(NewExportSerializer).validated_data

        def start() -> MadeAnswer:
            options = Options(**{field.name: data[field.name] for field in fields(Options)})
            export = start_export(
                release=release, format_name=data["format"], options=options, actor=self.person
            )
            return to_answer(202, ExportSerializer, self.describe(export))

        return self.make_once(start)


class ExportState(_ExportView):
    @extend_schema(
        operation_id="manage_export",
        summary="An export: its state, and when it is done its files",
        responses={200: ExportSerializer, **READ},
    )
    def get(self, request: Request, name: str, export_id: int) -> Response:
        export = get_export(get_release_for(self.person, name), export_id)
        return Response(ExportSerializer(self.describe(export)).data)


class ExportFile(_ExportView):
    @extend_schema(
        operation_id="manage_export_file",
        summary="A file of an export; the header Range takes a part of it",
        responses={
            (200, BINARY): OpenApiTypes.BINARY,
            (206, BINARY): OpenApiResponse(OpenApiTypes.BINARY, "The part that was asked for."),
            416: OpenApiResponse(description="The file has no such part."),
            **READ,
        },
    )
    def get(self, request: Request, name: str, export_id: int, file: str) -> HttpResponseBase:
        export = get_takeable_export(self.person, name, export_id)
        members = list_export_members(export, file)
        if not members:
            raise NotFound(N_("There is no such file in this export."))
        sha256 = next(entry["sha256"] for entry in export.files if entry["name"] == file)
        answer = stream_file(
            request._request,
            members,
            name=f"{name}.{file.replace('/', '.')}",
            content_type=BINARY,
            etag=sha256,
        )
        if answer.status_code in {200, 206}:
            record_download(
                export=export, file=file, actor=self.person, goes_on=not is_from_beginning(answer)
            )
        return answer
