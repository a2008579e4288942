"""The pages of an import: uploading a file, checking what was read, choosing where it goes, and following its job."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.dateparse import parse_datetime
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, NotFound
from annotation.core.http import as_attachment, breadcrumbs
from annotation.domain.formats import ANNOTATIONS, FORMATS, KINDS
from annotation.domain.formats.bundle import FORMAT as BUNDLE
from annotation.domain.formats.bundle import Bundle
from annotation.domain.formats.preview import group_problems
from annotation.domain.formats.sample_tables import WRITERS, build_template
from annotation.domain.formats.table import NAME as TABLE
from annotation.domain.permissions import IMPORT_DATA
from annotation.forms.imports import (
    AnnotationsForm,
    BundleForm,
    ColumnsForm,
    ImportKindForm,
    ImportResponsesForm,
    TargetForm,
    UploadForm,
    build_initial,
    get_target_form,
    list_options,
    list_stated,
    read_choices,
)
from annotation.forms.lists import ListColumns
from annotation.models import Batch, Import
from annotation.selectors.datasets import list_own_datasets
from annotation.selectors.imports import (
    get_visible_import,
    has_running_job,
    list_visible_imports,
)
from annotation.selectors.imports.targets import brings_prompts, guess_guideline, guess_target
from annotation.selectors.imports.uploads import (
    build_problem,
    build_source,
    find_document,
    format_notes,
    list_columns,
    list_import_notes,
    list_outcome_problems,
    list_problems,
    preview_upload,
    read_upload_as,
)
from annotation.selectors.origins import list_imported_labels
from annotation.services.imports import ImportRefused
from annotation.services.imports.uploads import (
    check_upload,
    choose_columns,
    confirm_bundle,
    confirm_upload,
    discard_upload,
    forget_columns,
    receive_upload,
)
from annotation.views.access import accepts_body, act_required, person_of, post_form
from annotation.views.lists import narrow_by_request

PAGE = 50


@require_GET
@never_cache
@act_required(IMPORT_DATA)
def imports(request: HttpRequest) -> HttpResponse:
    visible = list_visible_imports(person_of(request))
    narrowed = narrow_by_request(request, visible, ListColumns(("file_name", "format")))
    context = {**narrowed.context, "imports": narrowed.rows, "any": visible.exists()}
    return render(request, "annotation/imports/list.html", context)


@require_http_methods(["GET", "POST"])
@act_required(IMPORT_DATA)
@accepts_body(settings.MAX_UPLOAD_BYTES)
def import_new(request: HttpRequest) -> HttpResponse:
    form = UploadForm(request.POST or None, request.FILES or None, initial=request.GET.dict())
    if request.method == "POST" and form.is_valid():
        file = form.cleaned_data["file"]
        upload = receive_upload(
            file=file,
            name=file.name,
            actor=person_of(request),
            kind=form.cleaned_data["kind"],
            dataset=form.cleaned_data["dataset"],
        )
        return redirect("import-report", upload.pk)
    context = {
        "form": form,
        "step": form["kind"].value() if form["kind"].value() in KINDS else "",
        "dataset": form["dataset"].value(),
        "kinds": Import.Kind.choices,
        "crumbs": import_breadcrumbs(_("New import")),
        "largest": settings.MAX_UPLOAD_BYTES,
    }
    return render(request, "annotation/imports/new.html", context, status=422 if form.is_bound else 200)


@require_GET
@act_required(IMPORT_DATA)
def import_template(request: HttpRequest, kind: str, ending: str) -> HttpResponseBase:
    """A table to fill in, with the columns in the reader's language."""
    form = WRITERS.get(ending)
    if kind not in KINDS or form is None:
        raise NotFound(N_("There is no such template."))
    rows = build_template(kind, get_language() or "en")
    answer = HttpResponse(form.write(rows), content_type=form.content_type)
    return as_attachment(answer, f"{Import.Kind(kind).label}.{ending}")


@require_GET
@never_cache
@act_required(IMPORT_DATA)
def import_report(request: HttpRequest, import_id: int) -> HttpResponse:
    """A file before it is imported, while it is, and afterwards."""
    upload = get_visible_import(person_of(request), import_id)
    if "taken" in upload.report or has_running_job(upload):
        return _show_report(request, upload)
    if upload.format == BUNDLE:
        return _show_bundle(request, upload)
    if request.GET:
        _read_as_stated(upload, request, ImportKindForm(request.GET))
    target = upload.reading.get("target") if "outcome" in upload.reading else upload.options
    initial = build_initial(target or guess_target(upload) | upload.reading.get("target", {}))
    initial["leave_out"] = upload.reading.get("left_out", [])
    return _show_check(request, upload, _select_form(upload)(initial=initial))


def _select_form(upload: Import) -> type[TargetForm]:
    return get_target_form(upload.kind, brings_prompts=brings_prompts(upload))


def _read_as_stated(upload: Import, request: HttpRequest, form: ImportKindForm) -> bool:
    if not form.is_valid():
        return False
    stated = form.cleaned_data
    read_upload_as(
        upload,
        person_of(request),
        kind=stated["kind"],
        format_name=stated["format"],
        sheet=stated["sheet"],
        encoding=stated["encoding"],
    )
    return True


@act_required(IMPORT_DATA)
@post_form("import-report")
def import_check(request: HttpRequest, import_id: int) -> HttpResponse:
    """Keep what was chosen, and try the import without storing anything of the file."""
    upload = get_visible_import(person_of(request), import_id)
    if upload.format == BUNDLE or not _read_as_stated(upload, request, ImportKindForm(request.POST)):
        return redirect("import-report", upload.pk)
    form = _select_form(upload)(request.POST)
    try:
        if "anew" in request.POST:
            forget_columns(upload=upload, actor=person_of(request))
            return redirect("import-report", upload.pk)
        is_new_reading = _choose_columns(upload, form, request)
        options = list_options(form) if form.is_valid() else None
        if options is not None and is_new_reading and not options.get("guideline"):
            options["guideline"] = guess_guideline(upload)  # only now are the dimensions known
        check_upload(upload=upload, options=options, actor=person_of(request))
    except AssayError as error:
        return _show_check(request, upload, form, refusal=error, status=error.status)
    if options is None:
        return _show_check(request, upload, form, status=422)
    return redirect("import-report", upload.pk)


def _choose_columns(upload: Import, form: TargetForm, request: HttpRequest) -> bool:
    """The selects are those of the columns as the page had them: of what was guessed from the target of before."""
    if "leave_out" in form.fields:
        form.is_valid()
        upload.reading["left_out"] = form.cleaned_data.get("leave_out", [])
    if upload.format != TABLE:
        return False
    choices = read_choices(request.POST, list_columns(upload))
    is_new = choose_columns(upload=upload, choices=choices, actor=person_of(request))
    upload.reading["target"] = {name: value for name, value in list_stated(form).items() if value}
    return is_new


@act_required(IMPORT_DATA)
@post_form("import-report")
def import_confirm(request: HttpRequest, import_id: int) -> HttpResponse:
    upload = get_visible_import(person_of(request), import_id)
    if upload.format == BUNDLE:
        return _confirm_bundle(request, upload)
    if not _read_as_stated(upload, request, ImportKindForm(request.POST)):
        return redirect("import-report", upload.pk)
    form = _select_form(upload)(request.POST)
    if not form.is_valid():
        return _show_check(request, upload, form, status=422)
    try:
        _choose_columns(upload, form, request)
        confirm_upload(
            upload=upload,
            kind=upload.kind,
            format_name=upload.format,
            options=list_options(form),
            actor=person_of(request),
        )
    except AssayError as error:
        return _show_check(request, upload, form, refusal=error, status=error.status)
    return redirect("import-report", upload.pk)


@require_POST
@act_required(IMPORT_DATA)
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
    form: TargetForm,
    *,
    refusal: AssayError | None = None,
    status: int = 200,
) -> HttpResponse:
    stated = {"kind": upload.kind, "format": upload.format}
    stated |= {name: upload.reading.get(name, "") for name in ("sheet", "encoding")}
    kind_form = ImportKindForm(initial=stated)
    target = list_stated(form)
    document = find_document(upload.kind, target)
    context: dict[str, Any] = {"upload": upload, "stated": stated, "form": form, "job": upload.job}
    try:
        preview = preview_upload(
            upload,
            kind=upload.kind,
            format_name=upload.format,
            document=document,
            personal_data=str(target.get("personal_data") or ""),
        )
    except AssayError as error:  # this format has nothing of this kind
        context["unreadable"] = error_text(error)
    else:
        kind_form.offer_sheets(preview.sheets)
        columns = ColumnsForm(upload.kind, preview.columns, document)
        if isinstance(form, AnnotationsForm):
            form.offer_left_out(preview.unknown_words)
        if isinstance(form, ImportResponsesForm) and not preview.names:
            form.fields["model"].required = True  # no record names it
        context |= {"preview": preview, "columns": columns}
    remembered = upload.reading.get("remembered")
    context |= {
        "kind_form": kind_form,
        "is_table": upload.format == TABLE,
        "is_mapped": "mapping" in upload.reading,
        "remembered": parse_datetime(remembered) if remembered else None,
        "complete": FORMATS[upload.format].complete,
        "is_labels": upload.kind == ANNOTATIONS,
        "batch": Batch.objects.filter(name=target.get("batch") or "").first(),
        "lacks_dataset": form.needs_dataset and not list_own_datasets().exists(),
        "crumbs": import_breadcrumbs(upload.file_name),
    }
    outcome = upload.reading.get("outcome")
    if not form.is_bound and outcome is not None:
        report = outcome.get("report", {})
        context |= {"outcome": report, "outcome_notes": format_notes(report), "is_long": not outcome}
    context |= refusal_context(refusal, upload)
    return render(request, "annotation/imports/check.html", context, status=status)


def refusal_context(error: AssayError | None, upload: Import) -> dict[str, Any]:
    """What was wrong when it was tried: now, or earlier on this page or in a job that failed."""
    if isinstance(error, ImportRefused):
        return {"refused": [build_problem(group) for group in group_problems(error.problems)]}
    if error is not None:
        return {"refusal": error_text(error)}
    if "outcome" in upload.reading:
        return {"refused": list_outcome_problems(upload)}
    return {"refused": list_problems(upload)}


def import_breadcrumbs(title: str) -> Any:
    return breadcrumbs((_("Imports"), "imports", []), title=title)
