"""The pages of an import: uploading a file, checking what was read, choosing where it goes, and following its job."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import breadcrumbs
from annotation.domain.formats import ANNOTATIONS, FORMATS
from annotation.domain.formats.bundle import FORMAT as BUNDLE
from annotation.domain.formats.bundle import Bundle
from annotation.forms.imports import (
    BundleForm,
    ImportKindForm,
    TargetForm,
    UploadForm,
    get_target_form,
    list_options,
)
from annotation.models import MANAGER, Dataset, Import
from annotation.selectors.imports import (
    build_problem,
    build_source,
    get_visible_import,
    has_running_job,
    list_import_notes,
    list_problems,
    list_visible_imports,
    preview_upload,
)
from annotation.selectors.origins import list_imported_labels
from annotation.services.imports import ImportRefused
from annotation.services.imports.uploads import confirm_bundle, confirm_upload, discard_upload, receive_upload
from annotation.views.access import accepts_body, person_of, post_form, role_required

PAGE = 50


@require_GET
@never_cache
@role_required(MANAGER)
def imports(request: HttpRequest) -> HttpResponse:
    context = {"imports": list_visible_imports(person_of(request))}
    return render(request, "annotation/imports/list.html", context)


@require_http_methods(["GET", "POST"])
@role_required(MANAGER)
@accepts_body(settings.MAX_UPLOAD_BYTES)
def import_new(request: HttpRequest) -> HttpResponse:
    form = UploadForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        file = form.cleaned_data["file"]
        upload = receive_upload(file=file, name=file.name, actor=person_of(request))
        return redirect("import-report", upload.pk)
    context = {
        "form": form,
        "crumbs": import_breadcrumbs(_("New import")),
        "largest": settings.MAX_UPLOAD_BYTES,
    }
    return render(request, "annotation/imports/new.html", context, status=422 if form.is_bound else 200)


@require_GET
@never_cache
@role_required(MANAGER)
def import_report(request: HttpRequest, import_id: int) -> HttpResponse:
    """A file before it is imported, while it is, and afterwards."""
    upload = get_visible_import(person_of(request), import_id)
    if "taken" in upload.report or has_running_job(upload):
        return _show_report(request, upload)
    if upload.format == BUNDLE:
        return _show_bundle(request, upload)
    kind_form = ImportKindForm(request.GET or None, initial={"kind": upload.kind, "format": upload.format})
    if kind_form.is_bound and kind_form.is_valid():
        upload.kind, upload.format = kind_form.cleaned_data["kind"], kind_form.cleaned_data["format"]
    form = get_target_form(upload.kind, upload.format)(initial=upload.options or guess_target(upload))
    return _show_check(request, upload, kind_form, form)


@role_required(MANAGER)
@post_form("import-report")
def import_confirm(request: HttpRequest, import_id: int) -> HttpResponse:
    upload = get_visible_import(person_of(request), import_id)
    if upload.format == BUNDLE:
        return _confirm_bundle(request, upload)
    kind_form = ImportKindForm(request.POST)
    if not kind_form.is_valid():
        return redirect("import-report", upload.pk)
    upload.kind, upload.format = kind_form.cleaned_data["kind"], kind_form.cleaned_data["format"]
    form = get_target_form(upload.kind, upload.format)(request.POST)
    if not form.is_valid():
        return _show_check(request, upload, kind_form, form, status=422)
    try:
        confirm_upload(
            upload=upload,
            kind=upload.kind,
            format_name=upload.format,
            options=list_options(form),
            actor=person_of(request),
        )
    except AssayError as error:
        return _show_check(request, upload, kind_form, form, refusal=error, status=error.status)
    return redirect("import-report", upload.pk)


@require_POST
@role_required(MANAGER)
def import_discard(request: HttpRequest, import_id: int) -> HttpResponse:
    upload = get_visible_import(person_of(request), import_id)
    discard_upload(upload=upload, actor=person_of(request))
    messages.success(request, _("The file was discarded; nothing of it was stored."))
    return redirect("imports")


def _confirm_bundle(request: HttpRequest, upload: Import) -> HttpResponse:
    try:
        form = BundleForm(Bundle(build_source(upload)).manifest, request.POST)
    except AssayError as error:  # the page says why it cannot be read
        return _show_bundle(request, upload, status=error.status)
    if not form.is_valid():
        return _show_bundle(request, upload, form, status=422)
    try:
        confirm_bundle(upload=upload, called=form.called, actor=person_of(request))
    except AssayError as error:
        return _show_bundle(request, upload, form, refusal=error, status=error.status)
    return redirect("import-report", upload.pk)


def _show_bundle(
    request: HttpRequest,
    upload: Import,
    form: BundleForm | None = None,
    *,
    refusal: AssayError | None = None,
    status: int = 200,
) -> HttpResponse:
    """What is in a bundle, and what it is to be called here; or why it cannot be read."""
    context: dict[str, Any] = {
        "upload": upload,
        "job": upload.job,
        "crumbs": import_breadcrumbs(upload.file_name),
    }
    try:
        manifest = Bundle(build_source(upload)).manifest
    except AssayError as error:
        context["unreadable"] = error_text(error)
    else:
        context |= {"manifest": manifest, "form": form or BundleForm(manifest)}
    context |= {"refusal": error_text(refusal)} if refusal else {}
    return render(request, "annotation/imports/bundle.html", context, status=status)


def _show_report(request: HttpRequest, upload: Import) -> HttpResponse:
    page = Paginator(list_imported_labels(upload), PAGE).get_page(request.GET.get("page"))
    context = {
        "upload": upload,
        "job": upload.job,
        "notes": list_import_notes(upload),
        "labels": page.object_list,
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "crumbs": import_breadcrumbs(upload.file_name),
    }
    return render(request, "annotation/imports/report.html", context)


def _show_check(
    request: HttpRequest,
    upload: Import,
    kind_form: ImportKindForm,
    form: TargetForm,
    *,
    refusal: AssayError | None = None,
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {"upload": upload, "kind_form": kind_form, "form": form, "job": upload.job}
    try:
        context["preview"] = preview_upload(upload, kind=upload.kind, format_name=upload.format)
    except AssayError as error:  # this format has nothing of this kind
        context["unreadable"] = error_text(error)
    context |= {"complete": FORMATS[upload.format].complete, "is_labels": upload.kind == ANNOTATIONS}
    context |= {"crumbs": import_breadcrumbs(upload.file_name)} | refusal_context(refusal, upload)
    return render(request, "annotation/imports/check.html", context, status=status)


def refusal_context(error: AssayError | None, upload: Import) -> dict[str, Any]:
    """What was wrong when it was tried: now, or earlier in a job that failed."""
    if isinstance(error, ImportRefused):
        return {"refused": [build_problem(problem) for problem in error.problems]}
    if error is not None:
        return {"refusal": error_text(error)}
    return {"refused": list_problems(upload)}


def guess_target(upload: Import) -> dict[str, str]:
    """A complete format names its own dataset and batch; with one dataset there is nothing to choose."""
    form = FORMATS[upload.format]
    names = list(Dataset.objects.values_list("name", flat=True)[:2])
    only = names[0] if len(names) == 1 else ""
    return {
        "dataset": form.name if form.complete else only,
        "batch": form.name if form.complete else "",
        "model": form.model_of(upload.file_name) or "",
    }


def import_breadcrumbs(title: str) -> Any:
    return breadcrumbs((_("Imports"), "imports", []), title=title)
