"""The leaderboard as dots with their intervals, one panel for each column."""

from __future__ import annotations

from typing import Any

from annotation.charts import chart_url
from annotation.guidelines import GuidelineDocument, Metric
from benchmark.metrics import metrics_in, scopes
from benchmark.models import BenchmarkRun
from benchmark.views.presenting import metric_label, overall_metrics, scope_label

PANELS_IN_A_ROW = 3
PANEL_WIDTH = 240


def board_chart(run: BenchmarkRun) -> str | None:
    """The address of the chart's SVG; None where there is nothing to draw."""
    document = run.scorer.guideline.document
    rows = [row for row in run.board.get("rows", []) if row["n"]]
    panels = [(scope, one) for scope, one in _panels(document) if _points(document, rows, scope, one)]
    if not panels:
        return None
    points = [point for scope, one in panels for point in _points(document, rows, scope, one)]
    return chart_url(_chart(points, [row["model"] for row in rows], _unit(document)))


def _panels(document: GuidelineDocument) -> list[tuple[str | None, Metric]]:
    """The metric that the board is ranked by, and those of its kind where it has none of a column."""
    lead = document.metric(document.rank_by)
    overall: list[tuple[str | None, Metric]] = [(None, lead)] if lead in overall_metrics(document) else []
    columns = [(scope, one) for scope in scopes(document) if (one := _metric_of(document, scope, lead))]
    return [*overall, *columns]


def _metric_of(document: GuidelineDocument, scope: str, lead: Metric) -> Metric | None:
    there = metrics_in(document, scope)
    return lead if lead in there else next((one for one in there if one.kind == lead.kind), None)


def _unit(document: GuidelineDocument) -> int:
    """Rates are drawn in percent."""
    return 100 if document.metric(document.rank_by).kind == "rate" else 1


def _points(
    document: GuidelineDocument, rows: list[dict[str, Any]], scope: str | None, metric: Metric
) -> list[dict[str, Any]]:
    lead = metric.name == document.rank_by
    panel = scope_label(document, scope) if lead else metric_label(metric)
    points = []
    for row in rows:
        statistic = (row["overall"] if scope is None else row["dimensions"][scope])[metric.name]
        if statistic["value"] is not None:
            scaled = {part: _scaled(statistic[part], _unit(document)) for part in ("value", "low", "high")}
            points.append({"model": row["model"], "panel": panel, **scaled})
    return points


def _scaled(value: float | None, unit: int) -> float | None:
    return None if value is None else value * unit


def _chart(points: list[dict[str, Any]], models: list[str], unit: int) -> Any:
    import altair

    panels = list(dict.fromkeys(point["panel"] for point in points))
    title = "%" if unit == 100 else ""
    x = altair.X("value:Q", title=title, scale=altair.Scale(zero=False, nice=True))
    y = altair.Y("model:N", sort=models, title=None)
    base = altair.Chart().encode(y=y)
    whiskers = base.mark_rule(strokeWidth=2, color="#5b6270").encode(
        x=altair.X("low:Q", title=title), x2="high:Q"
    )
    dots = base.mark_point(size=60, filled=True, opacity=1).encode(x=x)
    panel = altair.layer(whiskers, dots).properties(width=PANEL_WIDTH, height=max(60, 22 * len(models)))
    facet = altair.Facet(
        "panel:N", sort=panels, title=None, header=altair.Header(labelLimit=PANEL_WIDTH + 40)
    )
    return panel.facet(facet, columns=PANELS_IN_A_ROW, data=altair.InlineData(values=points))
