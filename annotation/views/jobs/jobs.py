"""The live part of every page that waits for a job."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.domain.permissions import STOP_JOBS, WATCH_JOBS, Act
from annotation.models import Job
from annotation.selectors.jobs import diagnose, get_job_for, list_curves
from annotation.selectors.operations.queues import get_queue
from annotation.services import jobs
from annotation.views.access import may, person_of


def get_job(request: HttpRequest, job_id: int, act: Act) -> Job:
    """The person's own job, or where they may do the act any of the study."""
    person = person_of(request)
    return get_job_for(person, job_id, any_job=may(person, act))


@require_GET
@never_cache
def job_progress(request: HttpRequest, job_id: int) -> HttpResponse:
    """The progress as a fragment that asks again; once the job is over the whole page is loaded anew."""
    job = get_job(request, job_id, WATCH_JOBS)
    context = {
        "job": job,
        "curves": list_curves(job),
        "trouble": diagnose(job),
        "queue": get_queue(job.kind),
    }
    answer = render(request, "jobs/_live.html", context)
    if job.is_over:
        answer["HX-Refresh"] = "true"
    return answer


@require_POST
def job_cancel(request: HttpRequest, job_id: int) -> HttpResponse:
    """Cancel, and go back to the page that showed the job."""
    jobs.cancel(job=get_job(request, job_id, STOP_JOBS), actor=person_of(request))
    back = request.headers.get("referer", "")
    safe = url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()})
    return redirect(back if safe else "home")
