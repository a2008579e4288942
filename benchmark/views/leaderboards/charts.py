"""The pictures of a board.

What would be longer than a printed page comes as several pictures over one axis. ``Draw`` keeps a specification and
gives the address of its picture, which is another for outsiders.

The pictures of a board, what they are drawn of, and what they show in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.utils.translation import gettext as _

from annotation.core.charts import (
    BLUE,
    GOLD,
    GREEN,
    INK,
    MUTED,
    PADDING,
    SCHEMA,
    Look,
    Spec,
    draw_interval,
    draw_line,
    draw_points,
    draw_rules,
    make_looks,
    make_quantity,
    make_rows,
)
from annotation.core.text_templates import render_text
from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.grounds import PREDICTED
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import list_board_rows
from benchmark.views.leaderboards.formatting import BoardColumn, BoardRow, axis_top, heading, metric_label

PANELS_IN_A_ROW = 3
PANEL_WIDTH = 240
WIDTH = 560
STEP, CLOSE_STEP = 24, 17  # pixels for a model; closer where there are many
MANY_MODELS = 20
MODELS_IN_A_PICTURE = 20
MULTIPLE_WIDTH, MULTIPLE_HEIGHT, MULTIPLES_IN_A_ROW, MULTIPLES_IN_A_PICTURE = 150, 90, 4, 20
TRADE_OFF_HEIGHT = 360
MAX_NAME_PIXELS = 200  # pixels; a longer one ends in an ellipsis
HOLLOW, PREDICTED_DOT = "published", "predicted"
"""The kinds of dots that others measured, and of numbers that a scorer predicted and that are not compared."""

Draw = Callable[[Spec], str]
Ends = tuple[float, float]


@dataclass(frozen=True)
class Dot:
    """A number of a model with its interval, in the unit that is drawn (percent for a rate)."""

    model: str
    value: float
    low: float | None
    high: float | None
    kind: str = ""
    at: int = 0


def _dot_values(dots: Sequence[Dot]) -> list[dict[str, Any]]:
    """As Vega wants them; a number without an interval has its dot alone."""
    return [
        asdict(dot)
        | {
            "low": dot.value if dot.low is None else dot.low,
            "high": dot.value if dot.high is None else dot.high,
        }
        for dot in dots
    ]


def axis_domain(
    dots: Sequence[Dot], lowest: float = -math.inf, highest: float = math.inf
) -> tuple[float, float]:
    """A scale's ends in round numbers: all whiskers, and no more room than that."""
    ends = [end for dot in dots for end in (dot.value, dot.low, dot.high) if end is not None]
    if not ends:
        return 0.0, 1.0
    low, high = min(ends), max(ends)
    step = _round_step(max(high - low, 1e-6))
    low, high = step * math.floor(low / step), step * math.ceil(high / step)
    return max(lowest, low), min(highest, max(high, low + step))


def _round_step(span: float) -> float:
    """1, 2 or 5 of a power of ten: at most ten steps in the span."""
    power: float = 10 ** math.floor(math.log10(span / 10))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * 10 >= span)


def _model_axis(names: Sequence[str]) -> Spec:
    return make_rows("model", names, labelLimit=MAX_NAME_PIXELS)


def _value_axis(title: str, domain: Sequence[float]) -> Spec:
    return make_quantity("value", title, domain, tickCount=5, titlePadding=8, labelOverlap=True)


def _step(models: Sequence[str]) -> int:
    return CLOSE_STEP if len(models) > MANY_MODELS else STEP


def _picture(**spec: Any) -> Spec:
    return {"$schema": SCHEMA, "padding": PADDING, **spec}


def draw_panels(
    columns: Sequence[tuple[str, Sequence[Dot], tuple[float, float]]], models: Sequence[str], unit: str
) -> list[Spec]:
    """Dot and whisker of each column beside the others, in rows of three: (title, dots, ends of its axis)."""
    rows = [columns[at : at + PANELS_IN_A_ROW] for at in range(0, len(columns), PANELS_IN_A_ROW)]
    return [_row_of_panels(row, models, unit) for row in rows]


def _row_of_panels(
    columns: Sequence[tuple[str, Sequence[Dot], tuple[float, float]]], models: Sequence[str], unit: str
) -> Spec:
    """Where a number is hollow, the picture itself says why, for it may leave its page."""
    texts = {
        HOLLOW: _("Hollow: published, and not measured here"),
        PREDICTED_DOT: _("Hollow circles: predicted by a scorer, all or in part; not compared"),
    }
    hollow = [
        text for kind, text in texts.items() if any(_has_kind(dots, kind) for _title, dots, _ends in columns)
    ]
    words = {
        "text": hollow[0] if len(hollow) == 1 else hollow,
        "anchor": "start",
        "orient": "bottom",
        "offset": 8,
        "fontSize": 12,
        "fontWeight": "normal",
        "color": MUTED,
    }
    panels = [_panel(*column, models, unit) for column in columns]
    return _picture(hconcat=panels, spacing=18, **({"title": words} if hollow else {}))


def _has_kind(dots: Sequence[Dot], kind: str) -> bool:
    return any(dot.kind == kind for dot in dots)


def _panel(
    title: str, dots: Sequence[Dot], domain: tuple[float, float], models: Sequence[str], unit: str
) -> Spec:
    y, x = _model_axis(models), _value_axis(unit, domain)
    y["scale"] = {"domain": list(models)}
    title_of = {
        "text": title,
        "anchor": "start",
        "fontSize": 13,
        "fontWeight": "bold",
        "color": INK,
        "offset": 6,
    }
    return {
        "title": {**title_of, "limit": PANEL_WIDTH + MAX_NAME_PIXELS},
        "data": {"values": _dot_values(dots)},
        "width": PANEL_WIDTH,
        "height": {"step": _step(models)},
        "layer": [
            mark
            for kind in ("", HOLLOW, PREDICTED_DOT)
            if not kind or _has_kind(dots, kind)
            for mark in _marks(x, y, kind)
        ],
    }


def _marks(x: Spec, y: Spec, kind: str) -> list[Spec]:
    """A dot on its whisker; published ones have another shape and a thinner whisker, predicted ones have no whisker."""
    own = {"transform": [{"filter": f"datum.kind == '{kind}'"}]}
    looks: dict[str, Spec] = {
        "": {"size": 55, "color": GOLD},
        HOLLOW: {"filled": False, "size": 75, "color": INK, "shape": "diamond"},
        PREDICTED_DOT: {"filled": False, "size": 55, "color": MUTED},
    }
    points = own | draw_points(x, y, mark=looks[kind])
    if kind == PREDICTED_DOT:
        return [points]
    return [own | draw_interval(x, y, mark={"strokeWidth": 1 if kind else 2, "color": MUTED}), points]


def _choose_looks(looks: Sequence[Look]) -> tuple[Spec, Spec]:
    legend = {"orient": "top", "labelLimit": 300, "columnPadding": 40, "symbolSize": 80}
    return make_looks("kind", looks, legend, sort=None)


def draw_differences(dots: Sequence[Dot], title: str) -> Spec:
    """Differences about a line at 0; ``kind`` is one of the words of ``difference_looks``."""
    looks = [look for look in difference_looks().values() if any(dot.kind == look.word for dot in dots)]
    colour, shape = _choose_looks(looks)
    low, high = axis_domain(dots)
    names = [dot.model for dot in dots]
    y, x = _model_axis(names), _value_axis(title, (min(low, 0.0), max(high, 0.0)))
    layer = [
        *draw_rules([0], x=x),
        draw_interval(x, y, color=colour),
        draw_points(x, y, mark={"size": 70}, color=colour, shape=shape),
    ]
    return _picture(
        data={"values": _dot_values(dots)}, width=WIDTH, height={"step": _step(names)}, layer=layer
    )


def draw_trade_off(
    across: tuple[str, Mapping[str, Dot], Ends], up: tuple[str, Mapping[str, Dot], Ends]
) -> Spec:
    """One number of each model against another, each (title, dots by model, ends of its axis): a cross of whiskers with
    the model's name beside it, where there are not too many names to read."""
    models = [model for model in across[1] if model in up[1]]
    sides = {"x": across, "y": up}
    points: list[dict[str, Any]] = []
    for model in models:
        point: dict[str, Any] = {"model": model}
        for side, (_title, dots, _ends) in sides.items():
            (ends,) = _dot_values([dots[model]])
            point |= {side: ends["value"], f"{side}_low": ends["low"], f"{side}_high": ends["high"]}
        is_predicted = any(dots[model].kind == PREDICTED_DOT for _title, dots, _ends in sides.values())
        points.append(point | {"predicted": is_predicted})
    x, y = (
        make_quantity(side, title, ends, tickCount=5, titlePadding=8)
        for side, (title, _dots, ends) in sides.items()
    )
    whiskers = {
        "x": {"x": {**x, "field": "x_low"}, "x2": {"field": "x_high"}, "y": y},
        "y": {"y": {**y, "field": "y_low"}, "y2": {"field": "y_high"}, "x": x},
    }
    look = {"condition": {"test": "datum.predicted", "value": MUTED}, "value": GOLD}
    layer = [
        *({"mark": {"type": "rule", "color": MUTED}, "encoding": channels} for channels in whiskers.values()),
        draw_points(x, y, mark={"size": 70}, color=look),
    ]
    if len(models) <= MANY_MODELS:
        name = {"type": "text", "align": "left", "dx": 8, "dy": -8, "color": INK, "limit": MAX_NAME_PIXELS}
        layer.append(
            {"mark": name, "encoding": {"x": x, "y": y, "text": {"field": "model", "type": "nominal"}}}
        )
    return _picture(data={"values": points}, width=WIDTH, height=TRADE_OFF_HEIGHT, layer=layer)


def difference_looks() -> dict[str, Look]:
    return {
        "ahead": Look(_("surely higher"), GOLD, "triangle-up"),
        "same": Look(_("not significantly different"), MUTED, "circle"),
        "behind": Look(_("surely lower"), BLUE, "triangle-down"),
    }


def draw_estimates(
    dots: Sequence[Dot], models: Sequence[str], title: str, domain: tuple[float, float]
) -> list[Spec]:
    """For each model a whisker for each ``kind``, a word of ``estimate_looks``, one under another."""
    looks = [look for look in estimate_looks().values() if any(dot.kind == look.word for dot in dots)]
    parts = [models[at : at + MODELS_IN_A_PICTURE] for at in range(0, len(models), MODELS_IN_A_PICTURE)]
    return [
        _estimates_picture([dot for dot in dots if dot.model in set(part)], part, looks, title, domain)
        for part in parts
    ]


def _estimates_picture(
    dots: Sequence[Dot],
    models: Sequence[str],
    looks: Sequence[Look],
    title: str,
    domain: tuple[float, float],
) -> Spec:
    colour, shape = _choose_looks(looks)
    y, x = _model_axis(models), _value_axis(title, domain)
    y["scale"] = {"paddingInner": 0.3}
    offset = {"field": "kind", "type": "nominal", "sort": [look.word for look in looks]}
    layer = [
        draw_interval(x, y, yOffset=offset, color=colour),
        draw_points(x, y, mark={"size": 50}, yOffset=offset, color=colour, shape=shape),
    ]
    return _picture(
        data={"values": _dot_values(dots)},
        width=WIDTH,
        height=11 * (len(looks) + 1) * len(models),
        layer=layer,
    )


def estimate_looks() -> dict[str, Look]:
    return {
        "people": Look(_("gold only"), INK, "diamond"),
        "scorer": Look(_("scorer only"), BLUE, "triangle-up"),
        "combined": Look(_("combined"), GOLD, "circle"),
        "finite": Look(_("combined, these prompts only"), GREEN, "square"),
    }


def draw_multiples(dots: Sequence[Dot], models: Sequence[str], unit: str) -> list[Spec]:
    """A small picture for each model: its number at each run (``at``, from 1). All axes are equally long, so that a
    change looks as large as another model's, and each is where its model is. ``unit`` is blank or ``%``.
    """
    own = {model: [dot for dot in dots if dot.model == model] for model in models}
    limits = (0.0, 100.0) if unit == "%" else (-math.inf, math.inf)
    ends = {model: axis_domain(model_dots, *limits) for model, model_dots in own.items()}
    span = max((high - low for low, high in ends.values()), default=1.0)
    runs = sorted({dot.at for dot in dots})
    small = [
        _multiple(own[model], model, _widen_ends(ends[model], span, limits), runs, unit) for model in models
    ]
    return [
        _picture(concat=small[at : at + MULTIPLES_IN_A_PICTURE], columns=MULTIPLES_IN_A_ROW, spacing=16)
        for at in range(0, len(small), MULTIPLES_IN_A_PICTURE)
    ]


def _widen_ends(ends: tuple[float, float], span: float, limits: tuple[float, float]) -> tuple[float, float]:
    """As long as ``span``, around these ends and within the limits."""
    low = max(limits[0], min(sum(ends) / 2 - span / 2, limits[1] - span))
    return low, low + span


def _multiple(
    dots: Sequence[Dot], model: str, domain: tuple[float, float], runs: Sequence[int], unit: str
) -> Spec:
    axis = {"labelAngle": 0, "ticks": False}
    x = {"field": "at", "type": "ordinal", "title": None, "axis": axis, "scale": {"domain": list(runs)}}
    y = {**_value_axis("", domain), "axis": {"tickCount": 3, "labelExpr": f"datum.label + '{unit}'"}}
    heading = {"text": model, "anchor": "start", "fontSize": 12, "color": INK, "limit": MULTIPLE_WIDTH + 30}
    layer = [
        draw_interval(x, y, along="y", mark={"color": MUTED}),
        draw_line(x, y),
        draw_points(x, y, mark={"color": GOLD, "size": 45}),
    ]
    size = {"width": MULTIPLE_WIDTH, "height": MULTIPLE_HEIGHT}
    return {"title": heading, "data": {"values": _dot_values(dots)}, **size, "layer": layer}


def draw_chart(pictures: Sequence[Mapping[str, Any]], draw: Draw) -> list[str]:
    """Their addresses."""
    return [draw(dict(picture)) for picture in pictures]


def axes_by_metric(
    document: GuidelineDocument, rows: Sequence[BoardRow], columns: Sequence[BoardColumn]
) -> dict[str, Ends]:
    """The ends of each metric's axis, in the metric's own unit: all columns of a metric are drawn over one."""
    axes: dict[str, Ends] = {}
    for metric in {column.metric.name: column.metric for column in columns}.values():
        dots = [
            dot
            for column in columns
            if column.metric.name == metric.name
            for dot in list_dots(column, rows, unit=1)
        ]
        top = axis_top(document, metric)
        axes[metric.name] = axis_domain(dots, 0.0, top) if top > 0 else axis_domain(dots)
    return axes


def list_dots(column: BoardColumn, rows: Sequence[BoardRow], *, unit: float) -> list[Dot]:
    """Those of published rows and of predicted numbers are hollow."""
    dots = []
    for row in rows:
        statistic = column.statistic(row)
        if statistic["value"] is not None:
            kind = HOLLOW if "published" in row else _find_kind(column, row)
            dots.append(make_dot(row["model"], statistic, unit, kind))
    return dots


def _find_kind(column: BoardColumn, row: BoardRow) -> str:
    return PREDICTED_DOT if column.ground(row) == PREDICTED else ""


def make_dot(
    model: str, statistic: Mapping[str, float | None], unit: float, kind: str = "", at: int = 0
) -> Dot:
    value = statistic["value"]
    assert value is not None
    low, high = (None if end is None else end * unit for end in (statistic["low"], statistic["high"]))
    return Dot(model, value * unit, low, high, kind, at)


def unit_factor(metric: Metric) -> int:
    """Rates are drawn in percent."""
    return 100 if metric.kind == "rate" else 1


def group_by_table(published: Sequence[BoardRow]) -> list[list[BoardRow]]:
    """The rows of each published table."""
    tables: dict[int, list[BoardRow]] = {}
    for row in published:
        tables.setdefault(row["published"]["id"], []).append(row)
    return list(tables.values())


def board_charts(
    document: GuidelineDocument,
    rows: Sequence[BoardRow],
    columns: Sequence[BoardColumn],
    axes: Mapping[str, Ends],
    draw: Draw,
    *,
    published: Sequence[BoardRow],
) -> list[str]:
    """Dot and whisker by column; published numbers are hollow, and their models stand below those measured here."""
    panels = []
    for column in columns:
        unit = unit_factor(column.metric)
        dots = list_dots(column, [*rows, *published], unit=unit)
        if any(dot.kind != HOLLOW for dot in dots):
            low, high = axes[column.metric.name]
            label, metric = heading(document, column, columns)
            panels.append((metric or label, dots, (low * unit, high * unit)))
    drawn = {dot.model for _title, dots, _ends in panels for dot in dots if dot.kind == HOLLOW}
    measured = [row["model"] for row in rows if row["n"]]
    published_models = [row["model"] for row in published if row["model"] in drawn]
    models = list(dict.fromkeys([*measured, *published_models]))
    percent = bool(columns) and columns[0].metric.kind == "rate"
    return draw_chart(draw_panels(panels, models, "%" if percent else ""), draw)


def chart_alt(
    run: BenchmarkRun, metric: Metric, columns: Sequence[BoardColumn], published: Sequence[BoardRow]
) -> str:
    """What the pictures show, with who is highest and lowest in the first column of those measured here."""
    rows = list_board_rows(run)
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
        tables=", ".join(table[0]["published"]["name"] for table in group_by_table(published)),
    )
