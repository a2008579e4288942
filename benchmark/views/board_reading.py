"""What may be said of a board: who leads and how surely, what it rests on, and what it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from annotation.core.formatting import format_elapsed, format_grouped
from annotation.core.text_templates import render_text
from annotation.guidelines import GuidelineDocument, Metric
from benchmark.models import BenchmarkRun
from benchmark.selectors.runs import board_of, rows_of
from benchmark.views.board_columns import Column, Row, Statistic
from benchmark.views.presenting import composition, headed, metric_label

from ..figures.metrics import scopes_of
from ..figures.withholding import NOT_RANKED


@dataclass(frozen=True)
class HeadlineNumber:
    """A number that heads a board, and whose it is."""

    label: str
    metric: Metric
    value: float
    models: tuple[str, ...]


@dataclass(frozen=True)
class BoardFinding:
    """Who stands first by which number, and who does by other numbers; in words: ``wording/board_finding.txt``.

    ``claim`` is ``highest`` where ranks are withheld, ``only`` of a single model, ``sure`` where no other model can be
    first, and ``open`` where ``rivals`` may be first as well.
    """

    claim: str
    lead: HeadlineNumber
    statistic: Statistic
    rivals: int
    disagreeing: tuple[HeadlineNumber, ...]
    """The other headline numbers by which another model stands highest."""


def find_leader(run: BenchmarkRun) -> BoardFinding | None:
    """None where nobody has the number that the board is ranked by."""
    column = headline(run)
    rows = [row for row in rows_of(run) if column.statistic(row)["value"] is not None]
    if not rows:
        return None
    statistic, rivals = column.statistic(rows[0]), 0
    value = statistic["value"]
    assert value is not None
    models = [rows[0]["model"]]
    if rows[0]["rank"] is None:
        claim = "highest"
        models = [row["model"] for row in rows if column.statistic(row)["value"] == value]
    elif len(rows) == 1:
        claim = "only"
    else:
        rivals = sum(row["rank"]["low"] == 1 for row in rows[1:])
        # somebody is first, and all others are surely behind someone
        claim = "sure" if rows[0]["rank"]["high"] == 1 or not rivals else "open"
    lead = HeadlineNumber(headline_label(run, column), column.metric, value, tuple(models))
    return BoardFinding(claim, lead, statistic, rivals, tuple(_disagreeing(run, rows[0]["model"], column)))


def headline(run: BenchmarkRun) -> Column:
    """The column that the board is ranked by."""
    document = run.scorer.guideline.document
    return _headline_of(document, document.metric(document.rank_by))


def standing_of(run: BenchmarkRun, row: Row) -> float | None:
    """The number that the board is ranked by."""
    return headline(run).statistic(row)["value"]


def _headline_of(document: GuidelineDocument, metric: Metric) -> Column:
    """Its overall number; without one, that of its first dimension."""
    return Column(None if metric.overall != "none" else scopes_of(document, metric)[0], metric)


def headline_label(run: BenchmarkRun, column: Column) -> str:
    """The metric, and of which dimension its number is where it has several and no overall."""
    document, metric = run.scorer.guideline.document, column.metric
    label = metric_label(metric)
    several = column.scope is not None and len(scopes_of(document, metric)) > 1
    return headed(label, column.label(document)) if several else label


def _disagreeing(run: BenchmarkRun, first: str, lead: Column) -> Iterator[HeadlineNumber]:
    document = run.scorer.guideline.document
    for metric in document.metrics:
        column = _headline_of(document, metric)
        values = {row["model"]: column.statistic(row)["value"] for row in rows_of(run)}
        highest = max((value for value in values.values() if value is not None), default=None)
        if column == lead or highest is None or values.get(first) == highest:
            continue
        models = tuple(model for model, value in values.items() if value == highest)
        yield HeadlineNumber(headline_label(run, column), metric, highest, models)


def is_rank_withheld(run: BenchmarkRun) -> bool:
    """Whether ranks are not given, or not in all columns."""
    return bool(board_of(run).get(NOT_RANKED))


def board_reading(run: BenchmarkRun) -> dict[str, Any]:
    """What a reader should know before quoting a rank or a number: ``own_ranks`` and ``predicted_percent``.

    Either is None where there is nothing to say.
    """
    rows = rows_of(run)
    ranked = [row for row in rows if row["rank"] is not None]
    own = sum(row["rank"]["low"] == row["rank"]["high"] for row in ranked)
    counts = basis_counts(rows)
    predicted = counts.get("out_of_fold", 0) + counts.get("unseen", 0)
    return {
        "own_ranks": {"n": own, "all": len(ranked)} if len(ranked) > 1 else None,
        "predicted_percent": 100 * predicted / sum(counts.values()) if predicted else None,
    }


def basis_counts(rows: Sequence[Row]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for row in rows:
        for cell in row["dimensions"].values():
            for basis, n in cell.get("composition", {}).items():
                summed[basis] = summed.get(basis, 0) + n
    return summed


def tiles(run: BenchmarkRun) -> list[dict[str, Any]]:
    rows = rows_of(run)
    counts = basis_counts(rows)
    counted = [
        {"label": _("Models"), "value": format_grouped(len(rows)), "note": ""},
        {
            "label": _("Responses"),
            "value": format_grouped(sum(row["n"] for row in rows)),
            "note": composition(counts),
        },
    ]
    return counted + cost_tiles(run.cost)


def cost_tiles(cost: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What scoring took; nothing of a run that predicted nothing."""
    each = cost.get("per_response")
    if each is None:
        return []
    note = render_text("benchmark/wording/cost.txt", cost=cost)
    return [{"label": _("Cost of a response"), "value": format_elapsed(each), "note": note}]
