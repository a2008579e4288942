"""A stored board in the words and numbers of a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from annotation.guidelines import GuidelineDocument, Metric, localized
from benchmark.metrics import ALL, SMALL, metrics_in, printed, scopes
from benchmark.models import BenchmarkRun
from benchmark.printing import printed_rank


@dataclass(frozen=True)
class Number:
    """One metric: as text, and on the 0 to 100 axis of a whisker."""

    label: str
    value: str
    interval: str
    at: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class CellView:
    scope: str
    url: str
    n: int
    numbers: tuple[Number, ...]
    composition: str
    missing: int
    small: bool


@dataclass(frozen=True)
class RowView:
    model: str
    rank: str
    leads: bool
    """Clearly: no other model's interval reaches this one's."""
    overall: CellView | None
    cells: tuple[CellView, ...]


@dataclass(frozen=True)
class ColumnView:
    label: str
    metrics: tuple[str, ...]


def scope_label(document: GuidelineDocument, scope: str | None) -> str:
    if scope is None:
        return _("Overall")
    dimension = document.dimension(scope)
    return _("All responses") if dimension is None else localized(dimension.label, _language())


def metric_label(metric: Metric) -> str:
    return localized(metric.label, _language())


def _language() -> str:
    return get_language() or "en"


def overall_metrics(document: GuidelineDocument) -> list[Metric]:
    return [one for one in document.metrics if one.overall != "none"]


def columns(document: GuidelineDocument) -> list[ColumnView]:
    places: list[tuple[str | None, list[Metric]]] = [
        (scope, metrics_in(document, scope)) for scope in scopes(document)
    ]
    if overall_metrics(document):
        places.insert(0, (None, overall_metrics(document)))
    return [
        ColumnView(scope_label(document, scope), tuple(metric_label(one) for one in metrics))
        for scope, metrics in places
    ]


def rows(run: BenchmarkRun) -> list[RowView]:
    document = run.scorer.guideline.document
    return [_row(run, document, row) for row in run.board.get("rows", [])]


def _row(run: BenchmarkRun, document: GuidelineDocument, row: Mapping[str, Any]) -> RowView:
    rank = row["rank"]
    held = row["dimensions"].items()
    return RowView(
        model=row["model"],
        rank=printed_rank(rank),
        leads=rank is not None and rank["high"] == 1 and len(run.board["rows"]) > 1,
        overall=overall_view(run, row) if overall_metrics(document) else None,
        cells=tuple(cell_view(run, row["model"], scope, cell) for scope, cell in held),
    )


def overall_view(run: BenchmarkRun, row: Mapping[str, Any]) -> CellView:
    document = run.scorer.guideline.document
    cells = row["dimensions"].values()
    return CellView(
        scope="",
        url=cell_url(run, row["model"], None),
        n=row["n"],
        numbers=tuple(number(document, one, row["overall"][one.name]) for one in overall_metrics(document)),
        composition=composition(total(cells)),
        missing=sum(cell["missing"] for cell in cells),
        small=any(cell["n"] < SMALL for cell in cells),
    )


def total(cells: Any) -> dict[str, int]:
    """The composition of several cells together."""
    summed: dict[str, int] = {}
    for cell in cells:
        for basis, n in cell["composition"].items():
            summed[basis] = summed.get(basis, 0) + n
    return summed


def cell_view(run: BenchmarkRun, model: str, scope: str, cell: Mapping[str, Any]) -> CellView:
    document = run.scorer.guideline.document
    return CellView(
        scope=scope,
        url=cell_url(run, model, scope),
        n=cell["n"],
        numbers=tuple(number(document, one, cell[one.name]) for one in metrics_in(document, scope)),
        composition=composition(cell["composition"]),
        missing=cell["missing"],
        small=cell["n"] < SMALL,
    )


def cell_url(run: BenchmarkRun, model: str, scope: str | None) -> str:
    place = {"model": model} if scope is None else {"model": model, "dimension": scope}
    return f"{reverse('run-cell', args=[run.name])}?{urlencode(place)}"


def number(document: GuidelineDocument, metric: Metric, statistic: Mapping[str, float | None]) -> Number:
    value, low, high = (statistic[part] for part in ("value", "low", "high"))
    top = axis_top(document, metric)
    at, at_low, at_high = (
        None if one is None or top <= 0 else round(100 * one / top, 2) for one in (value, low, high)
    )
    interval = "-"
    if low is not None and high is not None:
        interval = _("{low} to {high}").format(low=printed(metric, low), high=printed(metric, high))
    return Number(metric_label(metric), printed(metric, value), interval, at, at_low, at_high)


def axis_top(document: GuidelineDocument, metric: Metric) -> float:
    """What a metric can reach at most: the right end of its axis. Not above 0 there is no axis to draw."""
    if metric.kind == "rate":
        return 1.0
    highest = max(
        criterion.values[-1]
        for scope in (document.dimensions_of(metric) or (ALL,))
        for criterion in document.criteria_of(metric, scope if document.dimensions else None)
    )
    return metric.of_mean(highest)


def composition(counts: Mapping[str, int]) -> str:
    """``120 gold, 30 out of fold``: what the responses of a cell rest on; nothing of what there is none of."""
    words = {
        "gold": _("{n} gold"),
        "out_of_fold": _("{n} out of fold"),
        "unseen": _("{n} unseen"),
    }
    parts = [words[basis].format(n=counts[basis]) for basis in words if counts.get(basis)]
    return ", ".join(parts) or "-"
