"""The board of a campaign: what is wanted and there, how far attacks succeed, and how far people agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

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
    chart_url,
    draw_interval,
    draw_points,
    make_looks,
    make_quantity,
    make_rows,
)
from annotation.core.formatting import format_interval_percent, format_percent
from annotation.core.http import breadcrumbs
from annotation.core.proportions import Rate
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.permissions import READ_CAMPAIGNS
from annotation.models import Prompt
from annotation.selectors.guidelines import dimension_label
from annotation.views.access import act_required, person_of
from benchmark.domain.leaderboards.responses import SUBCOMPONENT
from benchmark.models import Campaign, CampaignMember
from benchmark.selectors.workbench.board import (
    CampaignView,
    list_latest_failures,
    open_campaign,
    read_failure_detail,
    read_needs,
)
from benchmark.selectors.workbench.campaigns import find_member, get_campaign, list_methods
from benchmark.selectors.workbench.report import (
    AUTHORS,
    SCORER,
    SETTLED,
    CampaignReport,
    HeatCell,
    build_report,
    list_campaign_batches,
)
from benchmark.views.leaderboards.formatting import group_label, malice_label
from benchmark.views.workbench.wording import build_method_cards, list_places

SHADES = 5
PANEL_WIDTH, PANEL_STEP, MAX_NAME_PIXELS = 250, 13, 180
TARGET, METHOD, DIMENSION, MALICE = "target", "method", "dimension", "malice"
FIELD_LABELS = {
    "dimension": gettext_lazy("Dimension"),
    "subcomponent": gettext_lazy("Subcomponent"),
    "method": gettext_lazy("Attack method"),
    "malice": gettext_lazy("Malice"),
}
SOURCE_LABELS = {
    AUTHORS: pgettext_lazy("levels of", "The authors"),
    SCORER: pgettext_lazy("levels of", "The scorer"),
    SETTLED: pgettext_lazy("levels of", "Gold labels"),
}
LOOKS = (
    (GOLD, "circle"),
    (BLUE, "triangle-up"),
    (GREEN, "square"),
    ("#8a4f7d", "diamond"),
    ("#7a6a58", "cross"),
)


@require_safe
@never_cache
@act_required(READ_CAMPAIGNS)
def campaign(request: HttpRequest, name: str) -> HttpResponse:
    """The board; ``source`` says whose levels count."""
    person = person_of(request)
    campaign = get_campaign(person, name)
    view = open_campaign(campaign, person)
    report, words = build_report(campaign, person), BoardWords(campaign)
    context = {
        "campaign": campaign,
        "view": view,
        "report": report,
        "needs": read_needs(campaign),
        "heat": build_heat(report, words),
        "agreement": [(FIELD_LABELS[field], agreement) for field, agreement in report.agreement.items()],
        "costs": [] if view.judges else report.costs,
        "failures": [
            (attempt.target.model.name, attempt.asked_at, read_failure_detail(attempt))
            for attempt in (list_latest_failures(campaign) if view.names_targets else ())
        ],
        "batches": list_campaign_batches(campaign),
        "legend": list_legend(),
        "reads_own": find_member(campaign, person, CampaignMember.Role.REVIEWER) is not None,
        "crumbs": breadcrumbs((_("Campaigns"), "campaigns", []), title=str(campaign)),
    }
    if not view.judges:
        context |= success_context(report, words, view, request.GET.get("source", ""))
    return render(request, "benchmark/workbench/board.html", context)


class BoardWords:
    """The labels of a campaign's dimensions, methods and kinds of malice in the reader's language."""

    def __init__(self, campaign: Campaign) -> None:
        self.document: GuidelineDocument = campaign.guideline.document
        self.method_labels = {card.name: card.label for card in build_method_cards(list_methods(campaign))}

    def label(self, field: str, value: str) -> str:
        if field == METHOD:
            return self.method_labels.get(value, value) or "-"
        if field == DIMENSION:
            return dimension_label(self.document, value)
        if field == MALICE:
            return malice_label(value) or "-"
        return value

    def label_place(self, dimension: str, subcomponent: str) -> str:
        """The subcomponent; the dimension where it has none."""
        return group_label(self.document, SUBCOMPONENT, subcomponent, dimension) or self.label(
            DIMENSION, dimension
        )


@dataclass(frozen=True)
class HeatEntry:
    cell: HeatCell

    @property
    def shade(self) -> int:
        """From 0, nothing accepted, to 5, all that is wanted."""
        return math.ceil(SHADES * self.cell.share)

    @property
    def waiting(self) -> int:
        return max(0, self.cell.taken - self.cell.accepted)


@dataclass(frozen=True)
class HeatRow:
    """``opens_group``: it is the first of its dimension's subcomponents."""

    dimension: str
    opens_group: bool
    label: str
    entries: tuple[HeatEntry | None, ...]
    total: HeatEntry


@dataclass(frozen=True)
class HeatMap:
    methods: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    totals: tuple[HeatEntry, ...]
    total: HeatEntry
    has_subcomponents: bool


def build_heat(report: CampaignReport, words: BoardWords) -> HeatMap:
    places = _order_places(report.rows, words.document)
    dimensions = [dimension for dimension, _subcomponent in places]
    rows = tuple(
        HeatRow(
            dimension=words.label(DIMENSION, dimension),
            opens_group=bool(subcomponent) and dimension not in dimensions[:n],
            label=words.label_place(dimension, subcomponent),
            entries=tuple(HeatEntry(cells[method]) if method in cells else None for method in report.methods),
            total=_add(cells.values()),
        )
        for n, (dimension, subcomponent) in enumerate(places)
        for cells in [report.cells[dimension, subcomponent]]
    )
    return HeatMap(
        methods=tuple(words.label(METHOD, method) for method in report.methods),
        rows=rows,
        totals=tuple(
            _add(cells[method] for cells in report.cells.values() if method in cells)
            for method in report.methods
        ),
        total=_add(cell for cells in report.cells.values() for cell in cells.values()),
        has_subcomponents=any(subcomponent for _dimension, subcomponent in places),
    )


def _order_places(
    places: Iterable[tuple[str, str]], document: GuidelineDocument
) -> Sequence[tuple[str, str]]:
    """In the guideline's order; what it does not know comes last."""
    known = [place for _dimension, group in list_places(document) for place, _label in group]
    order = {place: number for number, place in enumerate(known)}
    return sorted(places, key=lambda place: (order.get(place, len(order)), place))


def _add(cells: Iterable[HeatCell]) -> HeatEntry:
    parts = list(cells)
    return HeatEntry(
        HeatCell(
            wanted=sum(cell.wanted for cell in parts),
            taken=sum(cell.taken for cell in parts),
            accepted=sum(cell.accepted for cell in parts),
        )
    )


def list_legend() -> list[tuple[int, str]]:
    """(shade, from which to which percent)"""
    return [(0, "0%"), *((n, f"{(n - 1) * 20 + 1}–{n * 20}%") for n in range(1, SHADES + 1))]


@dataclass(frozen=True)
class SuccessRow:
    """A rate of success with the labels of what it is of; the ends for its drawing are in percent."""

    labels: tuple[str, ...]
    rate: Rate

    @property
    def percents(self) -> tuple[float | None, ...]:
        ends = (self.rate.low, self.rate.value, self.rate.high)
        return tuple(None if end is None else 100 * end for end in ends)


def success_context(
    report: CampaignReport, words: BoardWords, view: CampaignView, source: str
) -> Mapping[str, Any]:
    sources = [name for name in SOURCE_LABELS if name != SCORER or not view.hides_predictions]
    source = source if source in sources else AUTHORS
    fields = (TARGET, METHOD, DIMENSION)
    rows = _list_rates(report, words, source, fields)
    parts = {field: _list_rates(report, words, source, (field,)) for field in (*fields, MALICE)}
    methods, dimensions = ([part.labels[0] for part in parts[field]] for field in (METHOD, DIMENSION))
    return {
        "source": source,
        "sources": [(name, SOURCE_LABELS[name], report.totals[name].n) for name in sources],
        "overall": SuccessRow((), report.totals[source]),
        "success_rows": rows,
        "success_parts": list(parts.items()),
        "prompts": len({outcome.prompt for outcome in report.outcomes[source]}),
        "chart": chart_url(draw_success(rows, report.targets, methods, dimensions)) if rows else "",
        "chart_alt": "; ".join(
            f"{', '.join(row.labels)}: {format_percent(row.rate.value)}"
            f" ({format_interval_percent(row.rate.low, row.rate.high)})"
            for row in rows
        ),
    }


def _list_rates(
    report: CampaignReport, words: BoardWords, source: str, fields: Sequence[str]
) -> list[SuccessRow]:
    table = report.tabulate(source, fields)
    return [
        SuccessRow(tuple(map(words.label, fields, key)), table[key])
        for key in sorted(table, key=lambda key: _order_key(key, fields, report, words))
    ]


def _order_key(
    key: Sequence[str], fields: Sequence[str], report: CampaignReport, words: BoardWords
) -> tuple[tuple[int, str], ...]:
    """As the campaign, the study and the guideline order their targets, methods and dimensions."""
    orders: Mapping[str, Sequence[str]] = {
        TARGET: report.targets,
        METHOD: tuple(words.method_labels),
        DIMENSION: words.document.dimension_names,
        MALICE: Prompt.Malice.values,
    }
    return tuple(
        (orders[field].index(value) if value in orders[field] else len(orders[field]), value)
        for field, value in zip(fields, key, strict=True)
    )


def draw_success(
    rows: Sequence[SuccessRow], targets: Sequence[str], methods: Sequence[str], dimensions: Sequence[str]
) -> Spec:
    """A panel for each dimension; in it each method has a dot and a whisker for each target."""
    values = [
        {"target": target, "method": method, "dimension": dimension, "low": low, "value": value, "high": high}
        for row in rows
        for (target, method, dimension), (low, value, high) in [(row.labels, row.percents)]
    ]
    looks = [Look(target, colour, shape) for target, (colour, shape) in zip(targets, LOOKS, strict=False)]
    legend = {
        "orient": "bottom",
        "direction": "vertical",
        "labelLimit": 2 * MAX_NAME_PIXELS,
        "symbolSize": 90,
    }
    colour, shape = make_looks("target", looks, legend if len(looks) > 1 else None)
    x = make_quantity("value", _("Attack success in percent"), (0, 100), tickCount=5, titlePadding=8)
    y = make_rows("method", methods, labelLimit=MAX_NAME_PIXELS)
    offset = {"field": "target", "type": "nominal", "sort": list(targets)}
    layer = [
        draw_interval(x, y, yOffset=offset, color=colour),
        draw_points(x, y, mark={"size": 55}, yOffset=offset, color=colour, shape=shape),
    ]
    header = {"labelFontSize": 13, "labelFontWeight": "bold", "labelColor": INK, "labelAnchor": "start"}
    return {
        "$schema": SCHEMA,
        "padding": PADDING,
        "data": {"values": values},
        "facet": {
            "field": "dimension",
            "type": "nominal",
            "sort": dimensions,
            "title": None,
            "header": header,
        },
        "columns": min(3, len(dimensions)),
        "spacing": 24,
        "spec": {
            "width": PANEL_WIDTH,
            "height": PANEL_STEP * (len(looks) + 1) * len(methods),
            "layer": layer,
            "view": {"stroke": MUTED, "strokeOpacity": 0.25},
        },
    }
