"""The tasks behind a figure of the agreement page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.models import MANAGER, RESEARCHER
from annotation.selectors.access import sealed_batches
from annotation.selectors.agreement import Narrowing
from annotation.selectors.agreement.groupings import UNNAMED
from annotation.selectors.agreement.labels import Labels
from annotation.selectors.agreement.tasks import Said, TaskBehind, TasksBehind
from annotation.selectors.batches import batches_for, readable_batches
from annotation.selectors.guidelines import criterion_label, label_text
from annotation.views.access import person_of, role_required
from annotation.views.agreement.query import parse_query_narrowing
from annotation.views.agreement.wording import FACETS, Words, chips, named, reasons_by_key
from annotation.views.annotations.outcomes import reason_words

PAGE = 25
CHOSEN_BY = (
    "dimension",
    "subcomponent",
    "criterion",
    "model",
    "language",
    "guideline_version",
    "pair",
    "week",
)
# A list of more names than this is none to choose from.
MOST_NAMES = 200


@require_GET
@never_cache
@role_required(MANAGER, RESEARCHER)
def agreement_tasks(request: HttpRequest) -> HttpResponse:
    person, name = person_of(request), request.GET.get("batch", "").strip()
    narrowing = parse_query_narrowing(request.GET)
    batches = list(batches_for(person, name))
    labels = Labels(batches, narrowing)
    found = TasksBehind(labels)
    page = Paginator(cast("Sequence[TaskBehind]", found), PAGE).get_page(request.GET.get("page"))
    words = Words(labels.guidelines.values())
    batch = {"batch": name} if name else {}
    parameters = batch | narrowing.parameters()
    context = {
        "batch": name,
        "narrowing": narrowing,
        "batches": readable_batches(person).order_by("name"),
        "sealed": sealed_batches(person).count(),
        "lines": [_line(one) for one in page.object_list],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode(parameters),
        "units": found.units,
        "chips": chips(narrowing, words, lambda one: f"{request.path}?{urlencode(named(parameters, one))}"),
        "filters": _filters(Labels(batches), narrowing, words),
        "kept": _kept(narrowing),
        "reasons": reasons_by_key(),
        "back": f"{reverse('agreement')}?{urlencode(batch | _of_the_page(narrowing))}",
    }
    return render(request, "annotation/agreement/tasks.html", context)


def _of_the_page(narrowing: Narrowing) -> dict[str, str]:
    """What the agreement page should be narrowed to: no more than facets, since disputes alone never agree."""
    return Narrowing(facets=narrowing.facets, prompt=narrowing.prompt).parameters()


def _filters(labels: Labels, narrowing: Narrowing, words: Words) -> list[dict[str, Any]]:
    """What can be chosen where there is a choice, of all that the batches have."""
    names = labels.kept("names", lambda: _names(labels))
    chosen = narrowing.named
    return [
        {
            "name": facet,
            "label": FACETS[facet],
            "options": [
                (one or UNNAMED, words.value(facet, one) or "-", facet in chosen and chosen[facet] == one)
                for one in known
            ],
        }
        for facet, known in names.items()
        if 1 < len(known) <= MOST_NAMES
    ]


def _names(labels: Labels) -> dict[str, tuple[str | None, ...]]:
    pairs = labels.as_pairs()
    return {facet: (pairs if facet == "pair" else labels).sorted_by(facet).names for facet in CHOSEN_BY}


def _kept(narrowing: Narrowing) -> dict[str, str]:
    """What the form does not ask for and must not lose."""
    asked = {*CHOSEN_BY, "reason", "disputed"}
    return {name: value for name, value in narrowing.parameters().items() if name not in asked}


def _line(one: TaskBehind) -> dict[str, Any]:
    task, response = one.task, one.task.response
    text = response.text or " ".join(turn["text"] for turn in response.turns)
    reason = one.decision.reason if one.decision else None
    return {
        "task": task,
        "prompt": response.prompt,
        "response": text,
        "model": response.model.name,
        "said": [_said(one, said) for said in one.said],
        "reason": reason_words(reason.words) if reason else "",
        "decided_by": one.decision.assignment.person.username if one.decision else "",
    }


def _said(one: TaskBehind, said: Said) -> dict[str, Any]:
    document = one.task.batch.guideline.document
    return {
        "criterion": criterion_label(document, said.criterion) if len(document.criteria) > 1 else "",
        "labels": [(name, label_text(document, said.criterion, value)) for name, value in said.labels],
        "differ": said.differ,
        "gold": label_text(document, said.criterion, said.gold.value) if said.gold else "",
        "source": said.gold.source if said.gold else "",
    }
