"""Files that are put in: uploading one, trying how it reads and what would come of it, and importing it by a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.base import NumberField, StrictSerializer
from annotation.api.manage.base import (
    MAKE,
    MAKE_KEY,
    READ,
    ListQuerySerializer,
    ManageView,
    NameField,
    describe_part,
    list_manage_refusals,
    to_answer,
)
from annotation.api.manage.jobs import JobSerializer, accept_job, find_job_url
from annotation.core.errors import N_, Conflict
from annotation.domain.batch_spec import MAX_OVERLAP
from annotation.domain.formats import ANNOTATIONS, FORMATS
from annotation.domain.formats.bundle import FORMAT as BUNDLE
from annotation.domain.permissions import IMPORT_DATA
from annotation.models import Batch, Import, Job
from annotation.selectors.guidelines import get_guideline
from annotation.selectors.imports import get_visible_import, has_running_job, list_visible_imports
from annotation.selectors.imports.uploads import (
    Problem,
    find_document,
    format_notes,
    list_outcome_problems,
    list_problems,
    preview_upload,
    read_upload_as,
)
from annotation.services.idempotency import MadeAnswer
from annotation.services.imports.uploads import check_upload, choose_columns, confirm_upload, receive_upload

FORM_BYTES = 1024 * 1024
"""What an upload has beside its file."""
MAX_PROTOCOL_CHARACTERS = 20_000
OF_READING = frozenset({"kind", "format", "sheet", "encoding", "columns", "leave_out"})


class UploadSerializer(StrictSerializer):
    file = serializers.FileField(allow_empty_file=True)
    kind = serializers.ChoiceField(
        choices=Import.Kind.choices, required=False, help_text="Read it so, if it can be; else it is guessed."
    )
    dataset = NameField(required=False, help_text="Where it is to go.")


class ReadingSerializer(StrictSerializer):
    """How the file is read and where it goes. What is left out stays as it was guessed, or was said before."""

    kind = serializers.ChoiceField(choices=Import.Kind.choices, required=False)
    format = serializers.ChoiceField(choices=sorted(FORMATS), required=False)
    sheet = NameField(required=False, allow_blank=True)
    encoding = NameField(required=False, allow_blank=True)
    columns = serializers.DictField(
        child=NameField(allow_blank=True),
        required=False,
        help_text="Of a table: the field that each column holds, empty where it is not used.",
    )
    leave_out = serializers.ListField(
        child=NameField(), required=False, max_length=100, help_text="Names of labels that are not taken."
    )
    dataset = NameField(required=False, allow_blank=True)
    model = NameField(
        required=False, allow_blank=True, help_text="Whose responses these are, where the file does not say."
    )
    collection = NameField(required=False, allow_blank=True)
    guideline = NameField(
        required=False, allow_blank=True, max_length=200, help_text="G, the latest published one, or G@V."
    )
    batch = NameField(
        required=False, allow_blank=True, help_text="Of labels: an existing batch, or a new one."
    )
    without_final = serializers.BooleanField(required=False, help_text="Leave final decisions out.")
    protocol = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=MAX_PROTOCOL_CHARACTERS,
        help_text="How these labels were made, as datasheets quote it.",
    )
    overlap = serializers.IntegerField(required=False, min_value=1, max_value=MAX_OVERLAP)
    plan = serializers.ChoiceField(choices=Batch.Plan.choices, required=False)
    settling = serializers.ChoiceField(choices=Batch.Settling.choices, required=False)
    aggregation = serializers.ChoiceField(choices=Batch.Aggregation.choices, required=False)
    aggregation_threshold = NumberField(required=False)
    tolerance = NumberField(required=False, min_value=0)


class CountedProblemSerializer(serializers.Serializer[Any]):
    """Problems that are alike."""

    message = serializers.CharField(source="text", help_text="What is wrong, and how to mend it.")
    field = serializers.CharField(help_text="Empty: of no field.")
    number = serializers.IntegerField(help_text="How many there are.")
    lines = serializers.ListField(child=serializers.IntegerField(), help_text="The first of them, from 1.")


class ImportSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    url = serializers.CharField()
    file_name = serializers.CharField()
    kind = serializers.ChoiceField(choices=Import.Kind.choices)
    format = serializers.CharField()
    state = serializers.ChoiceField(
        choices=["uploaded", *Job.State.values], help_text="uploaded: not confirmed; else that of its job."
    )
    job = serializers.CharField(allow_null=True, help_text="The address of its job.")
    created_at = serializers.DateTimeField()
    taken = serializers.IntegerField(allow_null=True, help_text="What was new in it; null until it is done.")
    already_there = serializers.IntegerField(allow_null=True)
    made = serializers.DictField(child=serializers.IntegerField(), help_text="What was made beside it.")
    notes = serializers.ListField(child=serializers.CharField())
    problems = CountedProblemSerializer(many=True, help_text="Why its job refused it.")


class ColumnSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    sample = serializers.CharField(help_text="The first thing that stands in it.")
    field = serializers.CharField(help_text="What it was taken for; empty: not used.")


class OutcomeSerializer(serializers.Serializer[Any]):
    """What came of trying the import without storing anything."""

    taken = serializers.IntegerField(allow_null=True, help_text="Null where it would be refused.")
    already_there = serializers.IntegerField(allow_null=True)
    made = serializers.DictField(child=serializers.IntegerField())
    notes = serializers.ListField(child=serializers.CharField())
    problems = CountedProblemSerializer(many=True)


class PreviewSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=Import.Kind.choices)
    format = serializers.CharField()
    count = serializers.IntegerField(help_text="The good records of the file.")
    sheets = serializers.ListField(child=serializers.CharField())
    columns = ColumnSerializer(many=True)
    problems = CountedProblemSerializer(many=True, help_text="What is wrong in the file itself.")
    repeated = serializers.IntegerField(help_text="Records that say the same again.")
    outcome = OutcomeSerializer(
        allow_null=True, help_text="Null where the target is not complete, or the file too long to be tried."
    )


ImportPart = describe_part(ImportSerializer, "Import")


def describe_import(upload: Import) -> dict[str, Any]:
    """What ``ImportSerializer`` describes."""
    report = upload.report
    is_done = "taken" in report
    state = upload.job.state if upload.job is not None else Job.State.DONE if is_done else "uploaded"
    return {
        "id": upload.pk,
        "url": reverse("api-manage-import", args=[upload.pk]),
        "file_name": upload.file_name,
        "kind": upload.kind,
        "format": upload.format,
        "state": state,
        "job": find_job_url(upload.job),
        "created_at": upload.created_at,
        "taken": report.get("taken"),
        "already_there": report.get("already_there"),
        "made": report.get("made", {}),
        "notes": format_notes(report),
        "problems": list_problems(upload),
    }


def _describe_all(uploads: Sequence[Import]) -> Iterable[dict[str, Any]]:
    return (describe_import(upload) for upload in uploads)


class Imports(ManageView):
    act = IMPORT_DATA

    @extend_schema(
        operation_id="manage_imports",
        summary="The files that were put in, with what was taken of them",
        parameters=[ListQuerySerializer],
        responses={200: ImportPart, **list_manage_refusals()},
    )
    def get(self, request: Request) -> Response:
        return self.answer_part(list_visible_imports(self.person), _describe_all, ImportPart)


class Upload(ManageView):
    act = IMPORT_DATA
    parser_classes = (MultiPartParser,)
    max_body = settings.MAX_UPLOAD_BYTES + FORM_BYTES

    @extend_schema(
        operation_id="manage_import_upload",
        summary="Upload a file: it is kept, and nothing of it is stored before it is confirmed",
        parameters=[MAKE_KEY],
        request=UploadSerializer,
        responses={201: ImportSerializer, **MAKE},
    )
    def post(self, request: Request) -> Response:
        data = self.parse(UploadSerializer).validated_data
        file = data["file"]

        def receive() -> MadeAnswer:
            upload = receive_upload(
                file=file,
                name=file.name,
                actor=self.person,
                kind=data.get("kind", ""),
                dataset=data.get("dataset", ""),
            )
            return to_answer(201, ImportSerializer, describe_import(upload))

        return self.make_once(receive)


class ImportState(ManageView):
    act = IMPORT_DATA

    @extend_schema(
        operation_id="manage_import",
        summary="A file that was put in: its state, and when it is done what was taken",
        responses={200: ImportSerializer, **READ},
    )
    def get(self, request: Request, import_id: int) -> Response:
        return Response(ImportSerializer(describe_import(get_visible_import(self.person, import_id))).data)


class _ReadingView(ManageView):
    act = IMPORT_DATA

    def get_upload(self, import_id: int) -> Import:
        upload = get_visible_import(self.person, import_id)
        if upload.format == BUNDLE:
            raise Conflict(
                N_("This file is a bundle: import it on its page, or by the command import_bundle.")
            )
        return upload

    def read_as_stated(self, upload: Import, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Have the file read as was said, and give the target: what was kept before, and what was said now."""
        if "taken" in upload.report:
            raise Conflict(N_("This file was imported already."))
        if has_running_job(upload):
            raise Conflict(N_("This file is being imported now."))
        target = dict(upload.reading.get("target", {}))
        read_upload_as(
            upload,
            self.person,
            kind=stated.get("kind", upload.kind),
            format_name=stated.get("format", upload.format),
            sheet=stated.get("sheet", upload.reading.get("sheet", "")),
            encoding=stated.get("encoding", upload.reading.get("encoding", "")),
        )
        target |= {name: value for name, value in stated.items() if name not in OF_READING}
        if target.get("guideline"):
            target["guideline"] = str(get_guideline(target["guideline"]))
        if "leave_out" in stated:
            upload.reading["left_out"] = stated["leave_out"]
        upload.reading["target"] = {name: value for name, value in target.items() if value}
        if stated.get("columns"):
            choose_columns(upload=upload, choices=stated["columns"], actor=self.person)
        return dict(upload.reading["target"])


def _is_complete(kind: str, target: Mapping[str, Any]) -> bool:
    return bool(target.get("batch" if kind == ANNOTATIONS else "dataset"))


class PreviewImport(_ReadingView):
    @extend_schema(
        operation_id="manage_import_preview",
        summary="How the file reads, and what would come of importing it; nothing of it is stored",
        request=ReadingSerializer,
        responses={200: PreviewSerializer, **list_manage_refusals(404, 409, 413, 415)},
    )
    def post(self, request: Request, import_id: int) -> Response:
        upload = self.get_upload(import_id)
        target = self.read_as_stated(upload, self.parse(ReadingSerializer).validated_data)
        check_upload(
            upload=upload,
            options=target if _is_complete(upload.kind, target) else None,
            actor=self.person,
        )
        document = find_document(upload.kind, target)
        preview = preview_upload(upload, kind=upload.kind, format_name=upload.format, document=document)
        body = {
            "kind": upload.kind,
            "format": upload.format,
            "count": preview.count,
            "sheets": preview.sheets,
            "columns": preview.columns,
            "problems": preview.problems,
            "repeated": preview.duplicates.repeated,
            "outcome": _describe_outcome(upload),
        }
        return Response(PreviewSerializer(body).data)


def _describe_outcome(upload: Import) -> dict[str, Any] | None:
    outcome = upload.reading.get("outcome")
    if not outcome:
        return None
    report: Mapping[str, Any] = outcome.get("report", {})
    problems: list[Problem] = list_outcome_problems(upload)
    return {
        "taken": report.get("taken"),
        "already_there": report.get("already_there"),
        "made": report.get("made", {}),
        "notes": format_notes(report),
        "problems": problems,
    }


class ConfirmImport(_ReadingView):
    @extend_schema(
        operation_id="manage_import_confirm",
        summary="Import the file: a job, or at once a refusal that lists what is wrong in which lines",
        parameters=[MAKE_KEY],
        request=ReadingSerializer,
        responses={202: JobSerializer, **MAKE},
    )
    def post(self, request: Request, import_id: int) -> Response:
        upload = self.get_upload(import_id)
        stated = self.parse(ReadingSerializer).validated_data

        def confirm() -> MadeAnswer:
            target = self.read_as_stated(upload, stated)
            if not _is_complete(upload.kind, target):
                name = "batch" if upload.kind == ANNOTATIONS else "dataset"
                raise ValidationError({name: [_("Choose where the file goes.")]})
            job = confirm_upload(
                upload=upload,
                kind=upload.kind,
                format_name=upload.format,
                options=target,
                actor=self.person,
            )
            return accept_job(job)

        return self.make_once(confirm)
