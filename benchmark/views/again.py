"""One click on a run that is out of date: the same once more, with what came since."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from annotation.core.text_templates import render_text
from annotation.models import RESEARCHER
from annotation.views.access import person_of, role_required
from benchmark.selectors.runs import refuse_sealed_run, run_named
from benchmark.services.again import run_again as start


@require_POST
@role_required(RESEARCHER)
def run_again(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    run = run_named(name)
    refuse_sealed_run(person, run)
    made = start(run=run, actor=person)
    messages.success(request, render_text("benchmark/wording/message.txt", code="run_again", name=run.name))
    return redirect("run", made.name)
