"""The pictures of a board, what they are drawn of, and what they show in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from annotation.core.text_templates import render_text
from annotation.guidelines import GuidelineDocument, Metric
from benchmark.models import BenchmarkRun
from benchmark.selectors.runs import rows_of
from benchmark.views import charting
from benchmark.views.board_columns import Column, Row, heading
from benchmark.views.charting import Dot, Draw
from benchmark.views.presenting import axis_top, metric_label

Ends = tuple[float, float]


def axes_of(document: GuidelineDocument, rows: Sequence[Row], columns: Sequence[Column]) -> dict[str, Ends]:
    """The ends of each metric's axis, in the metric's own unit: all columns of a metric are drawn over one."""
    axes: dict[str, Ends] = {}
    for metric in {column.metric.name: column.metric for column in columns}.values():
        dots = [
            dot
            for column in columns
            if column.metric.name == metric.name
            for dot in dots_of(column, rows, unit=1)
        ]
        top = axis_top(document, metric)
        axes[metric.name] = charting.reach(dots, 0.0, top) if top > 0 else charting.reach(dots)
    return axes


def dots_of(column: Column, rows: Sequence[Row], *, unit: float) -> list[Dot]:
    """Those of published rows are hollow."""
    dots = []
    for row in rows:
        statistic = column.statistic(row)
        if statistic["value"] is not None:
            kind = charting.HOLLOW if "published" in row else ""
            dots.append(dot(row["model"], statistic, unit, kind))
    return dots


def dot(model: str, statistic: Mapping[str, float | None], unit: float, kind: str = "", at: int = 0) -> Dot:
    value = statistic["value"]
    assert value is not None
    low, high = (None if end is None else end * unit for end in (statistic["low"], statistic["high"]))
    return Dot(model, value * unit, low, high, kind, at)


def unit_of(metric: Metric) -> int:
    """Rates are drawn in percent."""
    return 100 if metric.kind == "rate" else 1


def by_table(published: Sequence[Row]) -> list[list[Row]]:
    """The rows of each published table."""
    tables: dict[int, list[Row]] = {}
    for row in published:
        tables.setdefault(row["published"]["id"], []).append(row)
    return list(tables.values())


def board_charts(
    document: GuidelineDocument,
    rows: Sequence[Row],
    columns: Sequence[Column],
    axes: Mapping[str, Ends],
    draw: Draw,
    *,
    published: Sequence[Row],
) -> list[str]:
    """Dot and whisker by column; published numbers are hollow, and their models stand below those measured here."""
    panels = []
    for column in columns:
        unit = unit_of(column.metric)
        dots = dots_of(column, [*rows, *published], unit=unit)
        if any(dot.kind != charting.HOLLOW for dot in dots):
            low, high = axes[column.metric.name]
            label, metric = heading(document, column, columns)
            panels.append((metric or label, dots, (low * unit, high * unit)))
    drawn = {dot.model for _title, dots, _ends in panels for dot in dots if dot.kind == charting.HOLLOW}
    measured = [row["model"] for row in rows if row["n"]]
    published_models = [row["model"] for row in published if row["model"] in drawn]
    models = list(dict.fromkeys([*measured, *published_models]))
    percent = bool(columns) and columns[0].metric.kind == "rate"
    return charting.drawn(charting.panels(panels, models, "%" if percent else ""), draw)


def chart_alt(run: BenchmarkRun, metric: Metric, columns: Sequence[Column], published: Sequence[Row]) -> str:
    """What the pictures show, with who is highest and lowest in the first column of those measured here."""
    rows = rows_of(run)
    standing = [
        (statistic["value"], row["model"])
        for row in rows
        if columns and (statistic := columns[0].statistic(row))["value"] is not None
    ]
    if not standing:
        return ""
    (highest, best), (lowest, worst) = max(standing), min(standing)
    return render_text(
        "benchmark/wording/board_alt.txt",
        metric=columns[0].metric,
        metric_label=metric_label(metric),
        label=columns[0].label(run.scorer.guideline.document),
        highest={"model": best, "value": highest},
        lowest={"model": worst, "value": lowest},
        tables=", ".join(table[0]["published"]["name"] for table in by_table(published)),
    )
