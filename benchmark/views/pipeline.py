"""The strip of the first page: from data to board, the state of each stage and what comes next there.

A fragment of its own: it reads every part of the study, and what needs the person does not wait for it.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.domain.permissions import READ_PIPELINE
from annotation.views.access import act_required, person_of
from benchmark.selectors.pipeline import read_pipeline


@require_GET
@never_cache
@act_required(READ_PIPELINE)
def pipeline(request: HttpRequest) -> HttpResponse:
    context = {"pipeline": read_pipeline(person_of(request))}
    return render(request, "benchmark/overview/pipeline.html", context)
