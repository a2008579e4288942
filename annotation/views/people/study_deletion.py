"""Archiving a study, deleting an archived one, and the certificates of those that were deleted; for admins."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError
from annotation.core.http import as_attachment, breadcrumbs
from annotation.domain.permissions import ARCHIVE_STUDY, DELETE_STUDY
from annotation.domain.verbs import AnnotationVerb
from annotation.forms.people.people import StudyDeletionForm
from annotation.models import StudyDeletion
from annotation.selectors.studies.deletion import (
    BATCH,
    DATASET,
    GUIDELINE,
    RELEASE,
    SCORER,
    check_deletable,
    describe_table,
    get_deletion,
    get_existing_study,
    list_deletions,
    preview_deletion,
)
from annotation.services.audit import record_in_study
from annotation.services.studies.archive import set_study_archived
from annotation.services.studies.deletion import begin_deletion, describe_certificate
from annotation.views.access import act_required, person_of, post_form
from annotation.views.notices import add_notice

KINDS = {
    DATASET: N_("dataset"),
    BATCH: N_("batch"),
    RELEASE: N_("gold release"),
    SCORER: N_("scorer"),
    GUIDELINE: N_("guideline"),
}


@act_required(ARCHIVE_STUDY)
@post_form("studies", is_list=True)
def study_archive(request: HttpRequest, name: str) -> HttpResponse:
    """``act`` is ``archive`` or ``restore``; the list that had the study says what came of it."""
    act = request.POST.get("act")
    if act not in {"archive", "restore"}:
        raise Http404
    study, archived = get_existing_study(name), act == "archive"
    set_study_archived(study=study, archived=archived, actor=person_of(request))
    add_notice(request, "study_archived" if archived else "study_restored", name=str(study))
    page = reverse("studies")
    return redirect(page if archived else f"{page}?archived=1")


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(DELETE_STUDY)
def study_deletion(request: HttpRequest, name: str) -> HttpResponse:
    """Ask before a study is deleted, with its name typed once more; a POST begins, and shows how far it is."""
    study = get_existing_study(name)
    refusal, preview = "", None
    try:
        check_deletable(study)
        preview = preview_deletion(study)
    except AssayError as error:
        refusal = error_text(error)
    form = StudyDeletionForm(request.POST if request.method == "POST" else None, study=study)
    if not refusal and form.is_valid():
        deletion = begin_deletion(study=study, actor=person_of(request))
        return redirect("study-certificate", deletion.pk)
    context = {
        "study": study,
        "form": form,
        "refusal": refusal,
        "preview": preview,
        "goes": [(part.label, part.number) for part in preview.goes if part.number] if preview else [],
        "stays": describe_kept(
            (part.kind, part.name, ", ".join(part.studies)) for part in (preview.stays if preview else ())
        ),
        "crumbs": breadcrumbs((_("Studies"), "studies", []), title=_("Deletion")),
    }
    status = 409 if refusal and form.is_bound else 422 if form.is_bound else 200
    return render(request, "annotation/studies/deletion.html", context, status=status)


@require_GET
@never_cache
@act_required(DELETE_STUDY)
def certificates(request: HttpRequest) -> HttpResponse:
    context = {
        "deletions": list_deletions(),
        "crumbs": breadcrumbs((_("Studies"), "studies", []), title=_("Certificates of deleted studies")),
    }
    return render(request, "annotation/studies/certificates.html", context)


@require_GET
@never_cache
@act_required(DELETE_STUDY)
def certificate(request: HttpRequest, number: int) -> HttpResponse:
    """Until all is gone it shows how far the job is."""
    deletion = get_deletion(number)
    context = {
        "deletion": deletion,
        "job": deletion.job,
        "crumbs": breadcrumbs(
            (_("Studies"), "studies", []),
            (_("Certificates of deleted studies"), "study-certificates", []),
            title=str(deletion.study),
        ),
        **(describe_contents(deletion) if deletion.finished_at else {}),
    }
    return render(request, "annotation/studies/certificate.html", context)


@require_GET
@never_cache
@act_required(DELETE_STUDY)
def certificate_file(request: HttpRequest, number: int) -> HttpResponseBase:
    deletion = get_deletion(number)
    if deletion.finished_at is None:
        raise Http404
    name = f"{deletion.study.name}-deletion.json"
    record_in_study(
        None,
        actor=person_of(request),
        verb=AnnotationVerb.DOWNLOAD_FILE,
        target=f"study:{deletion.study.name}",
        file=name,
    )
    content = json.dumps(describe_certificate(deletion), ensure_ascii=False, indent=1)
    return as_attachment(HttpResponse(content, content_type="application/json"), name)


def describe_contents(deletion: StudyDeletion) -> dict[str, Any]:
    content: Mapping[str, Any] = deletion.certificate
    sealed = describe_certificate(deletion)
    return {
        "content": content,
        "rows": [(describe_table(table), number) for table, number in content["rows"].items()],
        "hashes": [(_("gold release"), release["name"], release["sha256"]) for release in content["releases"]]
        + [(_("guideline"), row["name"], row["sha256"]) for row in content["guidelines"]],
        "stays": describe_kept((part["kind"], part["name"], "") for part in content["stays"]),
        "event": sealed["event"],
        "seal": sealed["seal"],
    }


def describe_kept(parts: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [(_(KINDS[kind]), name, studies) for kind, name, studies in parts]
