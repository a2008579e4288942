"""The files of a release: ordering them in a format, watching them being written, taking and discarding them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST, require_safe

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, NotFound
from annotation.core.http import breadcrumbs, is_from_beginning, stream_file
from annotation.core.zip_stream import build_segments
from annotation.domain.permissions import EXPORT_RELEASE
from annotation.forms.exports import ExportForm
from annotation.models import Export, GoldRelease, Person
from annotation.selectors.exports import (
    get_export,
    get_takeable_export,
    is_under_way,
    list_export_members,
    list_exports,
    may_download,
    may_name_people,
)
from annotation.selectors.releases.releases import get_release_for
from annotation.services.exports import WRITERS, Writer, get_writer
from annotation.services.exports.downloads import discard_export, record_download, start_export
from annotation.views.access import act_required, person_of

# What a browser shall not open by itself, whatever is in it.
BINARY = "application/octet-stream"


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(EXPORT_RELEASE)
def release_exports(request: HttpRequest, name: str) -> HttpResponse:
    """The formats with their options, and what was exported before; a POST orders one."""
    person = person_of(request)
    release = get_release_for(person, name)
    forms = list_forms(person, release)
    refusal = ""
    if request.method == "POST":
        writer = get_writer(request.POST.get("format", ""))
        form = ExportForm(request.POST, writer=writer, may_name=may_name_people(person, release))
        forms[writer.name] = (writer, form)
        try:
            if form.is_valid():
                export = start_export(
                    release=release, format_name=writer.name, options=form.options, actor=person
                )
                return redirect("release-export", release.name, export.pk)
        except AssayError as error:
            refusal = error_text(error)
    context = {
        "release": release,
        "formats": [offer_format(writer, form) for writer, form in forms.values()],
        "exports": [export_row(export, person) for export in list_exports(release)],
        "refusal": refusal,
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "annotation/releases/exports.html", context, status=status)


@require_GET
@never_cache
@act_required(EXPORT_RELEASE)
def release_export(request: HttpRequest, name: str, export_id: int) -> HttpResponse:
    """One export: how far it is, and when it is done its files."""
    release, export = find_export(request, name, export_id)
    context = {
        "release": release,
        "row": export_row(export, person_of(request)),
        "job": export.job,
        "crumbs": breadcrumbs(
            (_("Gold releases"), "releases", []),
            (release.name, "release", [release.name]),
            (_("Exports"), "release-exports", [release.name]),
            title=_(get_writer(export.format).title),
        ),
    }
    return render(request, "annotation/releases/export.html", context)


@require_safe
@act_required(EXPORT_RELEASE)
def export_file(request: HttpRequest, name: str, export_id: int, file: str) -> HttpResponseBase:
    export = get_takeable_export(person_of(request), name, export_id)
    members = list_export_members(export, file)
    if not members:
        raise NotFound(N_("There is no such file in this export."))
    sha256 = next(entry["sha256"] for entry in export.files if entry["name"] == file)
    download_name = f"{name}.{file.replace('/', '.')}"
    answer = stream_file(request, members, name=download_name, content_type=BINARY, etag=sha256)
    return audit_download(request, answer, export, file)


@require_safe
@act_required(EXPORT_RELEASE)
def export_zip(request: HttpRequest, name: str, export_id: int) -> HttpResponseBase:
    """All of its files; the zip is made while it is sent."""
    export = get_takeable_export(person_of(request), name, export_id)
    members = list_export_members(export)
    etag = hashlib.sha256("".join(file["sha256"] for file in export.files).encode()).hexdigest()
    download_name = f"{name}.{export.format}.zip"
    answer = stream_file(
        request, build_segments(members), name=download_name, content_type="application/zip", etag=etag
    )
    return audit_download(request, answer, export, "*")


@require_POST
@act_required(EXPORT_RELEASE)
def export_discard(request: HttpRequest, name: str, export_id: int) -> HttpResponse:
    release, export = find_export(request, name, export_id)
    discard_export(export=export, actor=person_of(request))
    messages.success(request, _("The files were discarded. They can be written again at any time."))
    return redirect("release-exports", release.name)


def find_export(request: HttpRequest, name: str, export_id: int) -> tuple[GoldRelease, Export]:
    release = get_release_for(person_of(request), name)
    return release, get_export(release, export_id)


def audit_download(
    request: HttpRequest, answer: HttpResponseBase, export: Export, file: str
) -> HttpResponseBase:
    """The answer, once the audit trail has it; a download that goes on is told once."""
    if request.method == "GET" and answer.status_code in {200, 206}:
        record_download(
            export=export, file=file, actor=person_of(request), goes_on=not is_from_beginning(answer)
        )
    return answer


def list_forms(person: Person, release: GoldRelease) -> dict[str, tuple[Writer, ExportForm]]:
    may_name = may_name_people(person, release)
    return {name: (writer, ExportForm(writer=writer, may_name=may_name)) for name, writer in WRITERS.items()}


def offer_format(writer: Writer, form: ExportForm) -> dict[str, Any]:
    return {"name": writer.name, "title": _(writer.title), "about": _(writer.about), "form": form}


def export_row(export: Export, person: Person) -> dict[str, Any]:
    return {
        "export": export,
        "title": _(get_writer(export.format).title),
        "bytes": sum(file["bytes"] for file in export.files),
        "under_way": is_under_way(export),
        "choices": list(list_choices(export.options)),
        "may_take": may_download(person, export),
    }


def list_choices(options: dict[str, Any]) -> Iterable[str]:
    if "real_names" in options:
        yield _("with the names of people") if options["real_names"] else _("under pseudonyms")
    if options.get("rationales"):
        yield _("with rationales and evidence")
    if "table" in options:
        yield options["table"].upper()
    if options.get("license", "other") != "other":
        yield options["license"]
