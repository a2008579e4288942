"""The tasks behind a figure of the agreement page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.domain.permissions import READ_AGREEMENT
from annotation.selectors.access import sealed_batches
from annotation.selectors.agreement import Narrowing
from annotation.selectors.agreement.groupings import UNNAMED
from annotation.selectors.agreement.labels import ComparableLabels
from annotation.selectors.agreement.tasks import CriterionLabels, LabelledTasks, TaskLabels
from annotation.selectors.batches import list_readable_batches, open_readable_batches
from annotation.selectors.guidelines import criterion_label, label_text
from annotation.views.access import act_required, person_of
from annotation.views.agreement.query import encode_query, parse_batches, parse_query_narrowing
from annotation.views.agreement.wording import (
    FACETS,
    GuidelineWords,
    drop_parameter,
    list_chips,
    reasons_by_key,
)
from annotation.views.annotations.outcomes import localize_reason

PAGE = 25
FILTER_FACETS = (
    "dimension",
    "subcomponent",
    "criterion",
    "model",
    "language",
    "attack_method",
    "malice",
    "guideline_version",
    "pair",
    "week",
    "round",
)
# A list of more names than this is none to choose from.
MAX_NAMES = 200


@require_GET
@never_cache
@act_required(READ_AGREEMENT)
def agreement_tasks(request: HttpRequest) -> HttpResponse:
    person, names = person_of(request), parse_batches(request)
    narrowing = parse_query_narrowing(request.GET)
    batches = list(open_readable_batches(person, names))
    labels = ComparableLabels(batches, narrowing)
    tasks = LabelledTasks(labels)
    page = Paginator(cast("Sequence[TaskLabels]", tasks), PAGE).get_page(request.GET.get("page"))
    words = GuidelineWords(labels.guidelines.values())
    parameters = narrowing.parameters()
    context = {
        "narrowing": narrowing,
        "batches": list_readable_batches(person).order_by("name"),
        "chosen_batches": names,
        "sealed": sealed_batches(person).count(),
        "rows": [task_row(task) for task in page.object_list],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": encode_query(names, parameters),
        "units": tasks.units,
        "chips": list_chips(
            narrowing,
            words,
            lambda parameter: f"{request.path}?{encode_query(names, drop_parameter(parameters, parameter))}",
        ),
        "filters": list_filters(ComparableLabels(batches), narrowing, words),
        "hidden_fields": hidden_parameters(narrowing),
        "reasons": reasons_by_key(),
        "back": f"{reverse('agreement')}?{encode_query(names, page_parameters(narrowing))}",
    }
    return render(request, "annotation/agreement/tasks.html", context)


def page_parameters(narrowing: Narrowing) -> dict[str, str]:
    """What the agreement page should be narrowed to: no more than facets, since disputes alone never agree."""
    return Narrowing(facets=narrowing.facets, prompt=narrowing.prompt).parameters()


def list_filters(
    labels: ComparableLabels, narrowing: Narrowing, words: GuidelineWords
) -> list[dict[str, Any]]:
    """What can be chosen where there is a choice, of all that the batches have."""
    names = labels.cache("names", lambda: list_names(labels))
    facets = narrowing.named
    return [
        {
            "name": facet,
            "label": FACETS[facet],
            "options": [
                (name or UNNAMED, words.value(facet, name) or "-", facet in facets and facets[facet] == name)
                for name in options
            ],
        }
        for facet, options in names.items()
        if 1 < len(options) <= MAX_NAMES
    ]


def list_names(labels: ComparableLabels) -> dict[str, tuple[str | None, ...]]:
    split = {"pair": labels.as_pairs(), "round": labels.rounds}
    return {facet: split.get(facet, labels).sort_by_facet(facet).names for facet in FILTER_FACETS}


def hidden_parameters(narrowing: Narrowing) -> dict[str, str]:
    """What the form does not ask for and must not lose."""
    form_fields = {*FILTER_FACETS, "reason", "disputed"}
    return {name: value for name, value in narrowing.parameters().items() if name not in form_fields}


def task_row(labelled_task: TaskLabels) -> dict[str, Any]:
    task, response = labelled_task.task, labelled_task.task.response
    text = response.text or " ".join(turn["text"] for turn in response.turns)
    reason = labelled_task.decision.reason if labelled_task.decision else None
    return {
        "task": task,
        "further": labelled_task.further,
        "prompt": response.prompt,
        "response": text,
        "model": response.model.name,
        "criteria": [
            labels_row(labelled_task, criterion_labels) for criterion_labels in labelled_task.criteria
        ],
        "reason": localize_reason(reason.words) if reason else "",
        "decided_by": labelled_task.decision.assignment.person.username if labelled_task.decision else "",
    }


def labels_row(labelled_task: TaskLabels, criterion_labels: CriterionLabels) -> dict[str, Any]:
    document = labelled_task.task.batch.guideline.document
    return {
        "criterion": criterion_label(document, criterion_labels.criterion)
        if len(document.criteria) > 1
        else "",
        "values": [
            (name, label_text(document, criterion_labels.criterion, value))
            for name, value in criterion_labels.labels
        ],
        "differ": criterion_labels.differ,
        "gold": label_text(document, criterion_labels.criterion, criterion_labels.gold.value)
        if criterion_labels.gold
        else "",
        "source": criterion_labels.gold.source if criterion_labels.gold else "",
    }
