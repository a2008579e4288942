"""The operator's pages: whether beat and the workers live, what waits in which queue, and what failed and why.

An admin opens them when somebody says that nothing happens, reads there what is missing or broken, and tries the
failed jobs again.
"""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.errors import N_, NotFound
from annotation.core.http import breadcrumbs
from annotation.core.signs import BEAT, WORKER
from annotation.core.study_scope import limit_to_studies
from annotation.domain.permissions import OPERATE
from annotation.forms.operations import JobFilterForm
from annotation.models import Job
from annotation.selectors.jobs import diagnose, list_jobs_of_site
from annotation.selectors.mail.mail import is_mail_on, list_failures, measure_mail_load
from annotation.selectors.operations.queues import get_queue, list_queues
from annotation.selectors.operations.signs import list_signs
from annotation.services import jobs
from annotation.views.access import act_required, person_of, post_form

PAGE = 50


@act_required(OPERATE)
@require_GET
@never_cache
def operations(request: HttpRequest) -> HttpResponse:
    with limit_to_studies(None):
        form = JobFilterForm(request.GET)
        listed = form.select(list_jobs_of_site(person_of(request)).select_related("study", "created_by"))
        page = Paginator(listed, PAGE).get_page(request.GET.get("page"))
        context = {
            **_describe_processes(),
            "form": form,
            "query": form.query,
            "jobs": [(job, get_queue(job.kind)) for job in page.object_list],
            "page": page,
            "pages": page.paginator.get_elided_page_range(page.number),
            "anchor": "jobs-title",
        }
        return render(request, "annotation/operations/operations.html", context)


@act_required(OPERATE)
@require_GET
@never_cache
def operations_live(request: HttpRequest) -> HttpResponse:
    """The part that asks again: beat, the queues and the workers."""
    return render(request, "annotation/operations/_processes.html", _describe_processes())


@act_required(OPERATE)
@require_GET
@never_cache
def operations_job(request: HttpRequest, job_id: int) -> HttpResponse:
    with limit_to_studies(None):
        job = _get_job(request, job_id)
        context = {
            "job": job,
            "queue": get_queue(job.kind),
            "trouble": diagnose(job),
            "crumbs": breadcrumbs((_("Operations"), "operations", []), title=_("Job")),
        }
        return render(request, "annotation/operations/job.html", context)


@act_required(OPERATE)
@post_form("operations-job")
def operations_job_retry(request: HttpRequest, job_id: int) -> HttpResponse:
    with limit_to_studies(None):
        jobs.retry(job=_get_job(request, job_id), actor=person_of(request))
    return redirect("operations-job", job_id)


@act_required(OPERATE)
@post_form("operations-job")
def operations_job_cancel(request: HttpRequest, job_id: int) -> HttpResponse:
    with limit_to_studies(None):
        jobs.cancel(job=_get_job(request, job_id), actor=person_of(request))
    return redirect("operations-job", job_id)


def _get_job(request: HttpRequest, job_id: int) -> Job:
    job = (
        list_jobs_of_site(person_of(request)).select_related("study", "created_by").filter(pk=job_id).first()
    )
    if job is None:
        raise NotFound(N_("There is no such job."))
    return job


def _describe_processes() -> dict[str, Any]:
    beats = list_signs(BEAT)
    return {
        "beat": beats[0] if beats else None,
        "queues": list_queues(),
        "workers": list_signs(WORKER),
        "mail": measure_mail_load() if is_mail_on() else None,
        "mail_failures": list_failures() if is_mail_on() else (),
    }
