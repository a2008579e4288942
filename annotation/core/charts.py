"""Charts: Vega-Lite specifications built of a few layers over one theme, rendered to SVG on the server.

A page builds the specification and links the image; the image is kept by its content and rendered when it is first
requested, so that no page waits for a chart. On a full disk the page carries the picture itself.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from django.conf import settings
from django.core.cache import caches
from django.urls import reverse

from annotation.core.errors import N_, NotFound
from annotation.core.storage import bucket

logger = logging.getLogger(__name__)
CACHE = "charts"
DAY_SECONDS = 86_400
EMBEDDED = "data:image/svg+xml;base64,"
_KEY = re.compile("([0-9a-f]{64})(-dark)?")  # a sha256
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
INK, MUTED, RULE, GOLD = "#20242c", "#5b6270", "#d9dce3", "#a8741a"
BLUE, GREEN = "#3b5b92", "#4b7f52"
DASHES = [5, 4]
PADDING = {"left": 26, "top": 6, "right": 18, "bottom": 6}
"""A browser's fonts are wider than those that the picture is measured with."""
FONT = "system-ui, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"
THEME = {
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "gridColor": RULE,
        "domainColor": RULE,
        "tickColor": RULE,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 220,
    },
    "legend": {"labelColor": INK, "titleColor": MUTED, "labelFontSize": 12, "titleFontSize": 12},
    "header": {"labelColor": INK, "titleColor": MUTED, "labelFontSize": 12},
    "mark": {"color": GOLD},
    "range": {"category": [GOLD, BLUE, GREEN, "#8a4f7d", "#7a6a58", "#2f7f86"]},
}
# What stands for a colour of a chart where the page is dark.
DARK = {
    INK: "#e9e7e2",
    MUTED: "#bbbcbd",
    RULE: "#3a3f48",
    GOLD: "#d6a63c",
    BLUE: "#8fb0ea",
    GREEN: "#86d0a5",
    "#8a4f7d": "#d49ac6",
    "#7a6a58": "#bfae9a",
    "#2f7f86": "#7cc7cd",
}


Spec = dict[str, Any]


@dataclass(frozen=True)
class Look:
    """What marks one kind of point: a word, a colour and a shape, never the colour alone."""

    word: str
    colour: str
    shape: str


def make_picture(layer: Sequence[Spec], values: Sequence[Mapping[str, Any]], **spec: Any) -> Spec:
    """A specification of layers over the same values."""
    return {"$schema": SCHEMA, "data": {"values": list(values)}, **spec, "layer": list(layer)}


def make_quantity(
    field: str,
    title: str | None,
    domain: Sequence[float] | None = None,
    *,
    scale: Spec | None = None,
    **axis: Any,
) -> Spec:
    """A channel of numbers; ``domain`` has the ends of its scale, ``axis`` the options of its axis."""
    ends = {"domain": list(domain), "nice": False} if domain else {}
    channel: Spec = {"field": field, "type": "quantitative", "title": title}
    channel |= {"scale": ends | (scale or {})} if domain or scale else {}
    return channel | ({"axis": axis} if axis else {})


def make_rows(field: str, order: Sequence[str] | None = None, **axis: Any) -> Spec:
    """The names down the left side, in the order of the values or in ``order``."""
    options = {"ticks": False, "domain": False, "labelColor": INK, **axis}
    sort = None if order is None else list(order)
    return {"field": field, "type": "nominal", "sort": sort, "title": None, "axis": options}


def make_looks(field: str, looks: Sequence[Look], legend: Spec | None, **channel: Any) -> tuple[Spec, Spec]:
    """The channels of colour and shape; ``legend`` explains both, None where nothing needs it."""
    words = [look.word for look in looks]
    base = {"field": field, "type": "nominal", "title": None, "legend": legend, **channel}
    colours, shapes = ([getattr(look, part) for look in looks] for part in ("colour", "shape"))
    return (
        {**base, "scale": {"domain": words, "range": colours}},
        {**base, "scale": {"domain": words, "range": shapes}},
    )


def draw_interval(x: Spec, y: Spec, *, along: str = "x", mark: Spec | None = None, **channels: Spec) -> Spec:
    """A whisker from ``low`` to ``high``."""
    value = x if along == "x" else y
    ends = {along: {**value, "field": "low"}, f"{along}2": {"field": "high"}}
    return {
        "mark": {"type": "rule", "strokeWidth": 2, **(mark or {})},
        "encoding": {"x": x, "y": y, **ends, **channels},
    }


def draw_points(x: Spec, y: Spec, *, mark: Spec, **channels: Spec) -> Spec:
    return {
        "mark": {"type": "point", "filled": True, "opacity": 1, **mark},
        "encoding": {"x": x, "y": y, **channels},
    }


def draw_line(x: Spec, y: Spec, *, mark: Spec | None = None, **channels: Spec) -> Spec:
    return {
        "mark": {"type": "line", "color": GOLD, "strokeWidth": 2, **(mark or {})},
        "encoding": {"x": x, "y": y, **channels},
    }


def draw_band(x: Spec, y: Spec, *, opacity: float) -> Spec:
    """The area from ``low`` to ``high`` about a line."""
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    return {"mark": {"type": "area", "color": GOLD, "opacity": opacity}, "encoding": {"x": x, **ends}}


def draw_rules(places: Sequence[Any], *, mark: Spec | None = None, **channels: Spec) -> list[Spec]:
    """Dashed lines at values of ``at`` of the one channel that is given; none where there are no places."""
    if not places:
        return []
    ((name, channel),) = channels.items()
    return [
        {
            "data": {"values": [{"at": place} for place in places]},
            "mark": {"type": "rule", "color": MUTED, "strokeDash": DASHES, "strokeWidth": 2, **(mark or {})},
            "encoding": {name: {**channel, "field": "at"}},
        }
    ]


def chart_url(spec: Mapping[str, Any]) -> str:
    """Keep the chart's specification and answer the address of its SVG; ``components/chart.html`` shows it.

    The address with ``-dark`` before its end is the same chart for the dark theme.
    """
    spec = {**spec, "config": {**spec.get("config", {}), **THEME}}
    text = json.dumps(spec, sort_keys=True, ensure_ascii=False)
    key = hashlib.sha256(text.encode()).hexdigest()
    try:
        _keep(f"{key}.json", text)
    except OSError as error:
        logger.warning("A chart cannot be kept, so its page carries it: %s", error)
        return _embed(_render(text))
    return reverse("chart", args=[key])


def dark_url(url: str) -> str:
    """The address of the same chart for the dark theme."""
    if not url.startswith(EMBEDDED):
        return f"{url.removesuffix('.svg')}-dark.svg"
    return _embed(_darken(b64decode(url.removeprefix(EMBEDDED)).decode()))


def chart_svg(key: str) -> str:
    """The SVG of a kept specification, rendered once."""
    known = _KEY.fullmatch(key)
    if known is None:
        raise NotFound(N_("There is no such chart; open its page again."))
    drawn = _find(f"{key}.svg")
    if drawn is not None:
        return drawn
    text = _find(f"{known[1]}.json")
    if text is None:
        raise NotFound(N_("There is no such chart; open its page again."))
    svg = _render(_darken(text) if known[2] else text)
    try:
        _keep(f"{key}.svg", svg)
    except OSError as error:
        logger.warning("A chart cannot be kept: %s", error)
    return svg


def _render(spec: str) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec))


def _embed(svg: str) -> str:
    """An address that holds the picture itself."""
    return EMBEDDED + b64encode(svg.encode()).decode()


def _darken(text: str) -> str:
    """Of a specification or of an SVG."""
    for light, dark in DARK.items():
        text = text.replace(f'"{light}"', f'"{dark}"')
    return text


def _find(name: str) -> str | None:
    """What is kept under the name: in the data folder, or in the database where hosts share a bucket and no folder."""
    if bucket.is_used():
        return cast("str | None", caches[CACHE].get(name))
    try:
        return (_folder() / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _keep(name: str, text: str) -> None:
    """Raises OSError where it cannot be kept."""
    if bucket.is_used():
        _keep_in_database(name, text)
        return
    path = _folder() / name
    if not path.exists():
        _write(path, text)


def _keep_in_database(name: str, text: str) -> None:
    cache = caches[CACHE]
    if cache.has_key(name):
        return
    days: int = settings.CHART_DAYS
    cache.set(name, text, timeout=days * DAY_SECONDS if days else None)
    if not cache.has_key(name):  # the cache of Django is silent about it
        raise OSError("the database does not keep it")


def _folder() -> Path:
    folder = Path(settings.ASSAY_DATA_DIR) / "charts"
    folder.mkdir(exist_ok=True)
    return folder


def _write(path: Path, text: str) -> None:
    """Whole or not at all, whoever else writes the same."""
    half = path.with_suffix(f".{uuid4().hex}")
    try:
        half.write_text(text, encoding="utf-8")
        half.replace(path)
    except OSError:
        half.unlink(missing_ok=True)
        raise
