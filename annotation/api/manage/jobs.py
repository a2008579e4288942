"""Long work: how far a job is, and cancelling it."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.base import EmptySerializer, NumberField
from annotation.api.manage.base import READ, ManageView, list_manage_refusals, to_answer
from annotation.domain.permissions import STOP_JOBS, WATCH_JOBS, Act
from annotation.models import Job
from annotation.selectors.access import may
from annotation.selectors.jobs import get_job_for
from annotation.services import jobs
from annotation.services.idempotency import MadeAnswer


class JobSerializer(serializers.Serializer[Any]):
    """Ask its address again until ``state`` is done, failed or cancelled."""

    id = serializers.IntegerField()
    url = serializers.CharField(help_text="The address of the job.")
    kind = serializers.CharField()
    title = serializers.CharField(help_text="What it works at, such as the name of a release.")
    state = serializers.ChoiceField(choices=Job.State.choices)
    stage = serializers.CharField(help_text="What it is doing; may be empty.")
    progress = NumberField(help_text="From 0 to 1.")
    error = serializers.CharField(help_text="Why it failed; else empty.")
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


def describe_job(job: Job) -> dict[str, Any]:
    """What ``JobSerializer`` describes."""
    return {
        "id": job.pk,
        "url": build_job_url(job),
        "kind": job.kind,
        "title": job.title,
        "state": job.state,
        "stage": gettext(job.stage) if job.stage else "",
        "progress": job.progress,
        "error": job.error_text,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
    }


def build_job_url(job: Job) -> str:
    return reverse("api-manage-job", args=[job.pk])


def find_job_url(job: Job | None) -> str | None:
    return None if job is None else build_job_url(job)


def accept_job(job: Job) -> MadeAnswer:
    """202: a worker does it; the answer is the job."""
    job.refresh_from_db()
    return to_answer(202, JobSerializer, describe_job(job))


class _JobView(ManageView):
    def get_job(self, job_id: int, act: Act) -> Job:
        """The person's own job, or where they may do the act any of the study."""
        return get_job_for(self.person, job_id, any_job=may(self.person, act))


class JobState(_JobView):
    @extend_schema(
        operation_id="manage_job",
        summary="How far a job is: mine, or with a role that watches jobs any of the study",
        responses={200: JobSerializer, **READ},
    )
    def get(self, request: Request, job_id: int) -> Response:
        return Response(JobSerializer(describe_job(self.get_job(job_id, WATCH_JOBS))).data)


class CancelJob(_JobView):
    @extend_schema(
        operation_id="manage_job_cancel",
        summary="Cancel a job: at once if it waits, soon if it runs; twice changes nothing",
        request=EmptySerializer,
        responses={200: JobSerializer, **list_manage_refusals(404, 409, 413, 415)},
    )
    def post(self, request: Request, job_id: int) -> Response:
        job = self.get_job(job_id, STOP_JOBS)
        self.parse(EmptySerializer)
        return Response(JobSerializer(describe_job(jobs.cancel(job=job, actor=self.person))).data)
