"""A board over time: what each model had in the runs before, and in those after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from annotation.core.charts import chart_url
from annotation.core.text_templates import render_text
from annotation.domain.guidelines import Metric
from annotation.models import Person
from benchmark.domain.leaderboards.comparison import MEASURED, PREDICTED, find_kind
from benchmark.domain.leaderboards.metrics import format_metric_value
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import list_board_rows, list_runs_over_time
from benchmark.views.leaderboards import charts
from benchmark.views.leaderboards.charts import Draw, make_dot, unit_factor
from benchmark.views.leaderboards.formatting import (
    UNDEFINED,
    BoardColumn,
    format_interval,
    heading,
    join_heading,
    list_columns,
    list_metric_views,
    metric_label,
)
from benchmark.views.leaderboards.query import BoardQuery, Context, choose


@dataclass(frozen=True)
class PastNumber:
    """``is_predicted``: of predictions that no gold corrects, so without an interval, and in no picture."""

    value: str
    interval: str
    is_predicted: bool = False


class _RunNumber(NamedTuple):
    statistic: Mapping[str, float | None]
    kind: str

    @property
    def is_predicted(self) -> bool:
        return self.kind == PREDICTED

    @property
    def measured(self) -> Mapping[str, float | None]:
        """Undefined where it is predicted: over time like is laid beside like."""
        return UNDEFINED if self.is_predicted else self.statistic


def trend_context(
    run: BenchmarkRun, query: Mapping[str, str], *, person: Person | None, draw: Draw = chart_url
) -> Context:
    document = run.scorer.guideline.document
    place = BoardQuery.of(query)
    views = {metric_view.name: metric_view for metric_view in list_metric_views(document)}
    lead = views[choose(place.metric, views)]
    columns = {candidate.choice_name(document): candidate for candidate in list_columns(document, lead)}
    current = choose(place.scope, columns)
    column = columns[current]
    labels = {
        name: heading(document, candidate, list(columns.values()))[0] for name, candidate in columns.items()
    }
    runs = list_runs_over_time(run, person)
    rows = _rows_by_model(runs, run, column)
    measured = {model: [number.measured for number in row] for model, row in rows.items()}
    return {
        "metrics": place.list_choices("metric", {n: metric_label(m) for n, m in views.items()}, lead.name)
        if len(views) > 1
        else [],
        "scopes": place.list_choices("scope", labels, current),
        "heading": join_heading(labels[current], metric_label(column.metric)),
        "runs": [
            {"at": at, "run": past_run, "this": past_run.pk == run.pk, "before": past_run.replaces}
            for at, past_run in enumerate(runs, 1)
        ],
        "rows": [
            (model, [_past_number(number, column.metric) for number in row]) for model, row in rows.items()
        ],
        "any_predicted": any(
            number.is_predicted and number.statistic["value"] is not None
            for row in rows.values()
            for number in row
        ),
        "charts": _draw_charts(measured, column.metric, draw) if len(runs) > 1 else [],
        "chart_alt": _chart_alt(measured, labels[current], column.metric),
    }


def _rows_by_model(
    runs: Sequence[BenchmarkRun], run: BenchmarkRun, column: BoardColumn
) -> dict[str, list[_RunNumber]]:
    """By model, in the order of this run and then of whoever was only in others: its number in each run."""
    document = run.scorer.guideline.document
    boards = [{row["model"]: row for row in list_board_rows(run)} for run in runs]
    models = [row["model"] for row in list_board_rows(run)]
    models += [model for board in boards for model in board if model not in models]
    return {
        model: [
            _RunNumber(
                column.statistic(board[model]),
                find_kind(document, board[model], column.scope, column.metric),
            )
            if model in board
            else _RunNumber(UNDEFINED, MEASURED)
            for board in boards
        ]
        for model in dict.fromkeys(models)
    }


def _past_number(number: _RunNumber, metric: Metric) -> PastNumber:
    statistic = number.statistic
    if statistic["value"] is None:
        return PastNumber("", "")
    interval = "" if number.is_predicted else format_interval(metric, statistic)
    return PastNumber(format_metric_value(metric, statistic["value"]), interval, number.is_predicted)


def _draw_charts(
    rows: Mapping[str, Sequence[Mapping[str, float | None]]],
    metric: Metric,
    draw: Draw,
) -> list[str]:
    unit = unit_factor(metric)
    dots = [
        make_dot(model, statistic, unit, at=at)
        for model, row in rows.items()
        for at, statistic in enumerate(row, 1)
        if statistic["value"] is not None
    ]
    if not dots:
        return []
    models = [model for model in rows if any(dot.model == model for dot in dots)]
    unit_word = "%" if metric.kind == "rate" else ""
    return charts.draw_chart(charts.draw_multiples(dots, models, unit_word), draw)


def _chart_alt(rows: Mapping[str, Sequence[Mapping[str, float | None]]], scope: str, metric: Metric) -> str:
    model, moved = _find_most_moved(rows) or ("", None)
    return render_text(
        "benchmark/wording/time_alt.txt",
        scope=scope,
        metric=metric,
        metric_label=metric_label(metric),
        model=model,
        moved=moved,
    )


def _find_most_moved(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[str, float] | None:
    moved = [
        (model, values[-1] - values[0])
        for model, row in rows.items()
        if len(values := [statistic["value"] for statistic in row if statistic["value"] is not None]) > 1
    ]
    return max(moved, key=lambda change: abs(change[1])) if moved else None
