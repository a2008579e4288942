"""The boards of comparisons: which releases of slates there are, and how the models of one of them rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.charts import (
    GOLD,
    PADDING,
    Spec,
    chart_url,
    draw_interval,
    draw_points,
    draw_rules,
    make_picture,
    make_quantity,
    make_rows,
)
from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.formatting import format_decimal, format_interval
from annotation.core.http import as_attachment, breadcrumbs
from annotation.domain.guidelines import localize
from annotation.domain.permissions import READ_BOARDS
from annotation.models import GoldRelease
from annotation.selectors.guidelines import dimension_label
from annotation.selectors.releases.releases import get_release_for
from annotation.selectors.releases.rows import ReleaseContent
from annotation.services.audit import record_file
from annotation.views.access import act_required, person_of
from benchmark.domain.leaderboards.preferences.board import PreferenceRow
from benchmark.selectors.preferences import (
    ComparedResult,
    PreferenceQuery,
    build_comparison,
    build_query,
    list_compared_releases,
    list_entry_criteria,
    list_judges_on_slates,
)

STEP, MARGIN = 28, 0.1


@require_GET
@act_required(READ_BOARDS)
def preference_boards(request: HttpRequest) -> HttpResponse:
    releases = list_compared_releases(person_of(request))
    return render(request, "benchmark/preferences/list.html", {"releases": releases})


@require_GET
@never_cache
@act_required(READ_BOARDS)
def preference_board(request: HttpRequest, name: str) -> HttpResponseBase:
    """The board of a release, of all labels or of what the address narrows it to; as JSON for programs."""
    release = get_release_for(person_of(request), name)
    query = read_query(request, release)
    if "json" in request.GET:
        document = {
            "release": release.name,
            "sha256": release.sha256,
            **build_comparison(release, query).to_json(),
            "judges": [row.to_json() for row in list_judges_on_slates(release, query)],
        }
        file = f"{release.name}-comparisons.json"
        record_file(actor=person_of(request), target=f"release:{release.name}", file=file)
        return as_attachment(JsonResponse(document), file)
    context = {"release": release, "query": query, **filter_context(release, query)}
    context["crumbs"] = breadcrumbs(
        (_("Boards"), "runs", []), (_("Comparisons"), "preference-boards", []), title=release.name
    )
    try:
        context |= board_context(build_comparison(release, query))
        context["judges"] = list_judges_on_slates(release, query)
    except AssayError as error:
        return render(
            request,
            "benchmark/preferences/board.html",
            {**context, "error": error_text(error)},
            status=error.status,
        )
    return render(request, "benchmark/preferences/board.html", context)


def read_query(request: HttpRequest, release: GoldRelease) -> PreferenceQuery:
    return build_query(
        release,
        criterion=request.GET.get("criterion") or None,
        basis=request.GET.get("labels") or "gold",
        dimension=request.GET.get("dimension") or None,
        length="length" in request.GET,
    )


def filter_context(release: GoldRelease, query: PreferenceQuery) -> dict[str, Any]:
    documents = ReleaseContent(release).documents
    language = get_language() or "en"
    dimensions = {
        dimension.name: dimension_label(document, dimension.name)
        for document in documents
        for dimension in document.dimensions
    }
    parameters = {
        "criterion": query.criterion,
        "labels": query.basis,
        "dimension": query.dimension or "",
        **({"length": "1"} if query.length else {}),
    }
    return {
        "criteria": [
            (name, localize(criterion.label, language))
            for name, criterion in list_entry_criteria(documents).items()
        ],
        "dimension_labels": dimensions,
        "json_query": urlencode({**parameters, "json": "1"}),
    }


@dataclass(frozen=True)
class ComparedLine:
    row: PreferenceRow
    bradley_terry: float | None


def board_context(result: ComparedResult) -> dict[str, Any]:
    board = result.ranking
    rates = board.wins.rates.tolist()
    models = [row.model for row in board.rows]
    place = {model: number for number, model in enumerate(board.wins.models)}
    return {
        "result": result,
        "board": board,
        "lines": [ComparedLine(row, result.bradley_terry[row.model]) for row in board.rows],
        "models": models,
        "pairs": [
            (
                model,
                [
                    None if model == rival else _describe_pair(board, rates, place[model], place[rival])
                    for rival in models
                ],
            )
            for model in models
        ],
        "chart": _draw_strengths(board.rows),
        "chart_alt": _describe_strengths(board.rows),
        "reasons": {part.part: part for part in board.undefined},
    }


def _describe_pair(board: Any, rates: list[list[float]], at: int, other: int) -> Mapping[str, Any]:
    n = board.wins.n[at, other]
    return {"n": int(n), "rate": None if not n else 100 * rates[at][other]}


def _draw_strengths(rows: tuple[PreferenceRow, ...]) -> str | None:
    """The strengths with their intervals; none where they are undefined."""
    strengths = {row.model: row.strength for row in rows if row.strength.value is not None}
    if not strengths:
        return None
    values = [{"model": model, **strength.to_json()} for model, strength in strengths.items()]
    ends = [
        end
        for strength in strengths.values()
        for end in (strength.low, strength.value, strength.high)
        if end is not None
    ]
    margin = MARGIN * (max(ends) - min(ends) or 1)
    x = make_quantity("value", gettext("Strength (log-odds)"), (min(ends) - margin, max(ends) + margin))
    y = make_rows("model", list(strengths))
    layers: list[Spec] = [
        *draw_rules([0], x=x),
        draw_interval(x, y),
        draw_points(x, y, mark={"size": 70, "color": GOLD}),
    ]
    return chart_url(make_picture(layers, values, width=460, height={"step": STEP}, padding=PADDING))


def _describe_strengths(rows: tuple[PreferenceRow, ...]) -> str:
    return "; ".join(
        f"{row.model} {format_decimal(row.strength.value, 2)}"
        f" ({format_interval(row.strength.low, row.strength.high, 2)})"
        for row in rows
    )
