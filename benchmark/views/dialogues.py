"""The pages of dialogues: the runs, beginning a run, a run at work, and a dialogue turn by turn as it grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.core.http import Crumb, breadcrumbs, parse_int
from annotation.domain.permissions import COLLECT_RESPONSES, READ_COLLECTIONS
from annotation.forms.lists import ListColumns
from annotation.models import DialogueFault
from annotation.views.access import act_required, person_of
from benchmark.domain.dialogues import ANY_LANGUAGE
from benchmark.domain.llm_client.protocol import CUT
from benchmark.forms.dialogues import DialogueForm
from benchmark.models import DialogueRun
from benchmark.selectors.dialogues import (
    COMPLETE,
    DIALOGUES_JOB,
    FAILED,
    FAULTY,
    OPEN,
    STATES,
    build_dialogue_rows,
    build_dialogue_run_rows,
    compute_dialogue_progress,
    count_faults,
    count_finish_reasons,
    count_served_models,
    get_dialogue,
    get_dialogue_run,
    list_dialogue_prompts,
)
from benchmark.selectors.endpoint_runs import list_jobs
from benchmark.services.dialogues import resume_dialogues, start_dialogues
from benchmark.services.endpoint_runs import refuse_unlisted_endpoints
from benchmark.views.endpoint_runs import (
    build_live_context,
    format_setting,
    is_listed,
    render_list,
    render_live,
    render_new_run,
)

PER_PAGE = 50
STATE_LABELS = {
    "": gettext_lazy("All"),
    COMPLETE: gettext_lazy("Complete"),
    OPEN: gettext_lazy("Not complete"),
    FAILED: gettext_lazy("Without an answer"),
    FAULTY: gettext_lazy("With a fault"),
}


@require_safe
@act_required(READ_COLLECTIONS)
def dialogue_runs(request: HttpRequest) -> HttpResponse:
    columns = ListColumns(("name", "model__name", "agent", "dataset__name"))
    return render_list(
        request, "benchmark/dialogues/list.html", DialogueRun, build_dialogue_run_rows, columns
    )


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(COLLECT_RESPONSES)
def new_dialogue_run(request: HttpRequest) -> HttpResponse:
    return render_new_run(
        request,
        "benchmark/dialogues/new.html",
        DialogueForm,
        start_dialogues,
        run_page="dialogue-run",
        crumbs=_crumbs(title=_("Make dialogues")),
    )


@require_safe
@never_cache
@act_required(READ_COLLECTIONS)
def dialogue_run(request: HttpRequest, number: str) -> HttpResponse:
    run = get_dialogue_run(person_of(request), parse_int(number))
    state, fault = request.GET.get("state", ""), request.GET.get("fault", "")
    state = state if state in STATES else ""
    fault = fault if fault in DialogueFault.Kind.values else ""
    page = Paginator(list_dialogue_prompts(run, state, fault), PER_PAGE).get_page(request.GET.get("page"))
    context = _live_context(run) | {
        "crumbs": _crumbs(title=run.name),
        "is_listed": is_listed(_list_urls(run), DIALOGUES_JOB),
        "faults": [(kind, DialogueFault.Kind(kind).label, n) for kind, n in count_faults(run).items()],
        "state": state,
        "fault": fault,
        "states": STATE_LABELS.items(),
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "rows": build_dialogue_rows(run, list(page)),
        "turns": 2 * run.rounds,
        "sides": _list_sides(run),
        "templates": _list_texts(run.templates),
        "openings": _list_texts(run.openings),
        "reasons": [(role, reason, n, reason == CUT) for role, reason, n in count_finish_reasons(run)],
        "served": count_served_models(run),
        "jobs": list_jobs([run.pk], DIALOGUES_JOB),
    }
    return render(request, "benchmark/dialogues/run.html", context)


def _list_texts(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """(the languages of the cards, the text for them)"""
    by_text: dict[str, list[str]] = {}
    for language, text in texts.items():
        by_text.setdefault(text, []).append(language if language != ANY_LANGUAGE else _("other languages"))
    return [(", ".join(languages), text) for text, languages in by_text.items()]


def _list_sides(run: DialogueRun) -> Sequence[tuple[str, str, str, str, list[tuple[str, str]]]]:
    """(which side, its name here, its endpoint, its name there, its settings)"""
    return [
        (title, name, url, served, [(key, format_setting(value)) for key, value in values.items()])
        for title, name, url, served, values in (
            (_("Model under test"), run.model.name, run.endpoint, run.served_model, run.settings),
            (_("Agent"), run.agent, run.agent_endpoint, run.agent_model, run.agent_settings),
        )
    ]


@require_safe
@never_cache
@act_required(READ_COLLECTIONS)
def dialogue_progress(request: HttpRequest, number: str) -> HttpResponse:
    context = _live_context(get_dialogue_run(person_of(request), parse_int(number)))
    return render_live(request, "benchmark/dialogues/live.html", context, goes_on=context["at_work"])


@require_POST
@act_required(COLLECT_RESPONSES)
def dialogue_resume(request: HttpRequest, number: str) -> HttpResponse:
    """Go on: ask for the turns that are missing."""
    person = person_of(request)
    run = get_dialogue_run(person, parse_int(number))
    refuse_unlisted_endpoints(_list_urls(run), settings.ASSAY_ENDPOINTS, DIALOGUES_JOB)
    resume_dialogues(run=run, actor=person)
    return redirect("dialogue-run", run.pk)


@require_safe
@never_cache
@act_required(READ_COLLECTIONS)
def dialogue(request: HttpRequest, number: str, prompt: str) -> HttpResponse:
    context = _dialogue_context(request, number, prompt)
    run = context["run"]
    context["crumbs"] = _crumbs((run.name, "dialogue-run", [run.pk]), title=context["dialogue"].prompt.key)
    return render(request, "benchmark/dialogues/dialogue.html", context)


@require_safe
@never_cache
@act_required(READ_COLLECTIONS)
def dialogue_turns(request: HttpRequest, number: str, prompt: str) -> HttpResponse:
    context = _dialogue_context(request, number, prompt)
    return render_live(request, "benchmark/dialogues/_turns.html", context, goes_on=context["is_growing"])


def _dialogue_context(request: HttpRequest, number: str, prompt: str) -> dict[str, Any]:
    run = get_dialogue_run(person_of(request), parse_int(number))
    dialogue = get_dialogue(run, parse_int(prompt))
    at_work = run.job is not None and not run.job.is_over
    return {
        "run": run,
        "dialogue": dialogue,
        "is_growing": at_work and not dialogue.is_complete and dialogue.failure is None,
        "faults": [DialogueFault.Kind(kind).label for kind in dialogue.faults],
        "n_turns": 2 * run.rounds,
    }


def _live_context(run: DialogueRun) -> dict[str, Any]:
    progress, turns = compute_dialogue_progress(run), 2 * run.rounds
    done = turns * progress.imported + progress.answers
    return build_live_context(run, progress, "turns a second", done=done, total=turns * progress.prompts)


def _list_urls(run: DialogueRun) -> list[str]:
    return [run.endpoint, run.agent_endpoint]


def _crumbs(*parents: tuple[str, str, list[Any]], title: str) -> list[Crumb]:
    return breadcrumbs(
        (_("Data"), "datasets", []), (_("Dialogues"), "dialogue-runs", []), *parents, title=title
    )
