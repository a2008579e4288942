"""The agreement page: one batch, or all that the reader may open, seen from one side at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.domain.permissions import READ_AGREEMENT
from annotation.models import Batch
from annotation.selectors.access import sealed_batches
from annotation.selectors.agreement import (
    LabelPatterns,
    PatternCounts,
    applicability_to_json,
    parse_narrowing,
)
from annotation.selectors.agreement.slates import list_slate_agreement
from annotation.selectors.batches import list_readable_batches, open_readable_batches
from annotation.selectors.quality.adjudicators import measure_adjudicator_agreement
from annotation.views.access import act_required, person_of
from annotation.views.agreement.query import AgreementChoice, TabQuery, encode_query, parse_choice
from annotation.views.agreement.tabs import guideline, levels, overview, table, trend
from annotation.views.agreement.wording import (
    FACETS,
    STATISTICS,
    GuidelineWords,
    alpha_name,
    drop_parameter,
    list_chips,
)

TabContext: TypeAlias = Callable[[TabQuery], dict[str, Any]]
TAB_CONTEXTS: dict[str, TabContext] = {
    "": overview.context,
    "groups": table.context,
    "levels": levels.levels_context,
    "prompts": levels.prompts_context,
    "guideline": guideline.context,
    "time": trend.context,
}


@require_GET
@never_cache
@act_required(READ_AGREEMENT)
def agreement(request: HttpRequest) -> HttpResponse:
    person, choice = person_of(request), parse_choice(request)
    batches = open_readable_batches(person, choice.batches)
    patterns = LabelPatterns(batches, choice.narrowing)
    overall = patterns.list_counts()
    tab_query = TabQuery(
        person=person,
        choice=replace(choice, statistic=choice.statistic or find_usual_statistic(overall)),
        patterns=patterns,
        overall=overall,
        words=GuidelineWords(patterns.guidelines.values()),
        page=request.GET.get("page"),
    )
    has_labels = any(row.n for row in (*overall, *patterns.list_applicability()))
    applicability = [
        applicability_to_json(row) | {"label": tab_query.words.criterion(row.guideline, row.criterion)}
        for row in patterns.list_applicability()
    ]
    context = {
        **frame_context(tab_query, choice),
        "has_labels": has_labels,
        "coverage": patterns.labels.coverage,
        "applicability": applicability,
        "slates": [
            (tab_query.words.criterion(row.counted.guideline, row.counted.criterion), row)
            for row in list_slate_agreement(patterns)
        ],
        "differ_on_applicability": any(row["disputed"] for row in applicability),
        "sealed": sealed_batches(person).count(),
        "batches": list_readable_batches(person).order_by("name"),
        "chosen_batches": choice.batches,
        "batch_query": encode_query(choice.batches, {}),
        "n_pooled": len(patterns.labels.merged),
        "part": f"annotation/agreement/_{choice.view or 'overview'}.html",
        **(TAB_CONTEXTS[choice.view](tab_query) if has_labels else {}),
        **_second_adjudications_context(choice, batches),
    }
    return render(request, "annotation/agreement/page.html", context)


def _second_adjudications_context(choice: AgreementChoice, batches: Iterable[Batch]) -> dict[str, Any]:
    """Of the first tab, where nothing is narrowed: adjudicators are measured over whole batches."""
    if choice.view or choice.narrowing.parameters():
        return {}
    return {"second_adjudications": measure_adjudicator_agreement(batches)}


def find_usual_statistic(overall: list[PatternCounts]) -> str:
    """Alpha at the level of the scale where all scales have the same, else the one that every scale allows."""
    levels = {row.measurement for row in overall}
    return alpha_name(levels.pop()) if len(levels) == 1 else "alpha_nominal"


def frame_context(tab_query: TabQuery, choice: AgreementChoice) -> dict[str, Any]:
    """What stands around every tab."""
    return {
        "choice": tab_query.choice,
        "hidden_fields": {
            name: value for name, value in choice.parameters().items() if name not in {"statistic", "across"}
        },
        "tabs": list_tabs(choice),
        "statistics": STATISTICS.items(),
        "chips": list_chips(choice.narrowing, tab_query.words, lambda name: url_without(choice, name)),
        "several": tab_query.words.several,
        "facets": FACETS.items(),
    }


def url_without(choice: AgreementChoice, name: str) -> str:
    return choice.narrowed_url(parse_narrowing(drop_parameter(choice.narrowing.parameters(), name)))


def list_tabs(choice: AgreementChoice) -> list[dict[str, Any]]:
    words = {
        "": gettext("Overview"),
        "groups": gettext("Breakdown"),
        "levels": gettext("Levels"),
        "prompts": gettext("Prompts"),
        "guideline": gettext("Guideline"),
        "time": gettext("Over time"),
    }
    return [
        {
            "label": label,
            "url": choice.page_url(view=view, by="dimension" if view == "groups" else "", across=""),
            "current": view == choice.view,
        }
        for view, label in words.items()
    ]
