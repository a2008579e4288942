"""The page of correlations on a gold release: people, judges and scorers, and metrics of a file that is not kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from tempfile import NamedTemporaryFile
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import breadcrumbs
from annotation.domain.formats import Source
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.permissions import READ_JUDGES
from annotation.selectors.guidelines import criterion_label
from annotation.selectors.releases.releases import get_release_for
from annotation.views.access import accepts_body, act_required, person_of
from benchmark.domain.metric_files import MetricRow, read_metrics
from benchmark.forms.correlations import MAX_FILE_BYTES, MetricsForm
from benchmark.selectors.correlations import RESPONSE, build_correlations
from benchmark.selectors.judges.comparison import MAX_SCORERS, list_scorers
from benchmark.selectors.judges.gold import ReleaseComparison
from benchmark.selectors.leaderboards.runs import list_open_scorers
from scoring.views.scorers.wording import ScorerFigure, to_figure

MAX_LABELS = 2_000
"""Of so many gold labels a page waits for the correlations; their time grows by the square."""


@dataclass(frozen=True)
class CorrelationRow:
    """``whisker`` is Spearman's coefficient and its interval, in percent of an axis from -1 to 1."""

    first: str
    second: str
    n: int
    pearson: ScorerFigure | None
    spearman: ScorerFigure | None
    kendall: ScorerFigure | None
    kappa: ScorerFigure | None
    whisker: Mapping[str, float | None]


@require_http_methods(["GET", "POST"])
@never_cache
@accepts_body(MAX_FILE_BYTES)
@act_required(READ_JUDGES)
def correlations(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    release = get_release_for(person, name)
    form = MetricsForm(request.POST or None, request.FILES or None)
    ground = ReleaseComparison(release)
    is_large = release.labels > MAX_LABELS
    document: dict[str, Any] | None = None
    if not is_large and (not form.is_bound or form.is_valid()):
        data = form.cleaned_data if form.is_bound else {}
        open_to = set(list_open_scorers(person).values_list("pk", flat=True))
        scorers = [each for each in list_scorers(ground) if each.pk in open_to]
        try:
            document = build_correlations(
                release,
                _read_file(data.get("file")),
                scorers=scorers[:MAX_SCORERS],
                level=data.get("level", RESPONSE),
            )
        except AssayError as error:
            form.add_error("file", error_text(error))
    context = {
        "release": release,
        "form": form,
        "is_large": is_large,
        "document": document,
        "sections": _list_sections(document, ground.guideline.document) if document else [],
        "crumbs": breadcrumbs(
            (_("Boards"), "runs", []),
            (_("Judges"), "judges", []),
            (_("Compared on {release}").format(release=release.name), "judge-comparison", [release.name]),
            title=_("Correlations"),
        ),
    }
    return render(request, "benchmark/judges/correlations.html", context, status=422 if form.errors else 200)


def _read_file(file: Any) -> list[MetricRow]:
    if file is None:
        return []
    with NamedTemporaryFile() as copy:
        for chunk in file.chunks():
            copy.write(chunk)
        copy.flush()
        return list(read_metrics(Source(copy.name, file.name or "file")))


def _list_sections(
    document: Mapping[str, Any], guideline: GuidelineDocument
) -> list[tuple[str, list[CorrelationRow]]]:
    """(the criterion's name, its rows)"""
    return [
        (criterion_label(guideline, criterion), [_build_row(row) for row in rows])
        for criterion, rows in groupby(document["rows"], key=lambda row: row["criterion"])
    ]


def _build_row(row: Mapping[str, Any]) -> CorrelationRow:
    spearman = row["spearman"]
    return CorrelationRow(
        first=_name_series(row["first"]),
        second=_name_series(row["second"]),
        n=row["n"],
        pearson=to_figure(row["pearson"]),
        spearman=to_figure(spearman),
        kendall=to_figure(row["kendall"]),
        kappa=to_figure(row.get("quadratic_kappa_observed")),
        whisker={
            end: None if spearman[end] is None else 50 + 50 * spearman[end]
            for end in ("low", "value", "high")
        },
    )


def _name_series(series: Mapping[str, str]) -> str:
    kinds = {"gold": _("gold"), "judge": _("judge"), "scorer": _("scorer"), "metric": _("metric")}
    return f"{kinds[series['kind']]} {series['name']}".strip()
