"""Charts: Vega-Lite specifications, rendered to SVG on the server and kept by their content.

A page writes the specification and links the image; the image is rendered when it is first asked for,
so that no page waits for a chart. Where nothing can be kept, as on a full disk, the page carries the picture itself.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.conf import settings
from django.urls import reverse

from annotation.errors import N_, NotFound

if TYPE_CHECKING:
    import altair

logger = logging.getLogger(__name__)
CARRIED = "data:image/svg+xml;base64,"
_KEY = re.compile("([0-9a-f]{64})(-dark)?")  # a sha256
INK, MUTED, RULE, GOLD = "#20242c", "#5b6270", "#d9dce3", "#a8741a"
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
    "range": {"category": [GOLD, "#3b5b92", "#4b7f52", "#8a4f7d", "#7a6a58", "#2f7f86"]},
}
# What stands for a colour of a chart where the page is dark.
DARK = {
    INK: "#e9e7e2",
    MUTED: "#bbbcbd",
    RULE: "#3a3f48",
    GOLD: "#d6a63c",
    "#3b5b92": "#8fb0ea",
    "#4b7f52": "#86d0a5",
    "#8a4f7d": "#d49ac6",
    "#7a6a58": "#bfae9a",
    "#2f7f86": "#7cc7cd",
}


def chart_url(chart: altair.TopLevelMixin | Mapping[str, Any]) -> str:
    """Keep the chart's specification and answer the address of its SVG; ``components/chart.html`` shows it.

    The address with ``-dark`` before its end is the same chart for the dark theme. A plain specification is taken as
    it is, in a moment; altair first checks what it made.
    """
    spec = dict(chart) if isinstance(chart, Mapping) else chart.to_dict()
    spec["config"] = {**spec.get("config", {}), **THEME}
    text = json.dumps(spec, sort_keys=True, ensure_ascii=False)
    key = hashlib.sha256(text.encode()).hexdigest()
    try:
        path = _folder() / f"{key}.json"
        if not path.exists():
            _write(path, text)
    except OSError as error:
        logger.warning("A chart cannot be kept, so its page carries it: %s", error)
        return _carried(_rendered(text))
    return reverse("chart", args=[key])


def dark_url(url: str) -> str:
    """The address of the same chart for the dark theme."""
    if not url.startswith(CARRIED):
        return f"{url.removesuffix('.svg')}-dark.svg"
    return _carried(_in_the_dark(b64decode(url.removeprefix(CARRIED)).decode()))


def chart_svg(key: str) -> str:
    """The SVG of a kept specification, rendered once."""
    known = _KEY.fullmatch(key)
    drawn, spec = _folder() / f"{key}.svg", _folder() / f"{known[1] if known else ''}.json"
    if known is None or not (drawn.exists() or spec.exists()):
        raise NotFound(N_("There is no such chart; open its page again."))
    if drawn.exists():
        return drawn.read_text(encoding="utf-8")
    text = spec.read_text(encoding="utf-8")
    svg = _rendered(_in_the_dark(text) if known[2] else text)
    try:
        _write(drawn, svg)
    except OSError as error:
        logger.warning("A chart cannot be kept: %s", error)
    return svg


def _rendered(spec: str) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec))


def _carried(svg: str) -> str:
    """An address that holds the picture itself."""
    return CARRIED + b64encode(svg.encode()).decode()


def _in_the_dark(text: str) -> str:
    """Of a specification or of an SVG."""
    for light, dark in DARK.items():
        text = text.replace(f'"{light}"', f'"{dark}"')
    return text


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
