"""What may be said of a board: who leads and how surely, who is compared, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.board import BIAS, COMPARED
from benchmark.domain.leaderboards.grounds import (
    FEW_LABELS,
    MIN_LABELS,
    MIN_PROMPTS,
    NO_GOLD,
    REASONS,
)
from benchmark.domain.leaderboards.metrics import (
    format_metric_difference,
    list_metric_scopes,
)
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import find_board, list_board_rows
from benchmark.views.leaderboards.formatting import (
    BoardColumn,
    BoardRow,
    Statistic,
    format_difference_interval,
    join_heading,
    metric_label,
    scope_label,
)


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

    ``claim`` is ``highest`` where no model is compared, ``only`` of a single model, ``alone`` of the only compared one,
    ``sure`` where none of the compared models can be first instead, and ``open`` where ``rivals`` of them may be.
    ``compared`` is how many they are, None if they are all.
    """

    claim: str
    lead: HeadlineNumber
    statistic: Statistic
    rivals: int
    compared: int | None
    disagreeing: tuple[HeadlineNumber, ...]
    """The other headline numbers by which another model is the best."""


def find_leader(run: BenchmarkRun) -> BoardFinding | None:
    """None where nobody has the number that the board is ranked by."""
    column = headline_column(run)
    rows = [row for row in list_board_rows(run) if column.statistic(row)["value"] is not None]
    if not rows:
        return None
    ranked = [row for row in rows if row["rank"] is not None]
    statistic, rivals = column.statistic(rows[0]), 0
    value = statistic["value"]
    assert value is not None
    models = [rows[0]["model"]]
    is_complete = len(ranked) == len(list_board_rows(run))
    if not ranked:
        claim = "highest"
        models = [row["model"] for row in rows if column.statistic(row)["value"] == value]
    elif len(ranked) == 1:
        claim = "only" if is_complete else "alone"
    else:
        rivals = sum(row["rank"]["low"] == 1 for row in ranked[1:])
        # somebody is first, and all others are surely behind someone
        claim = "sure" if ranked[0]["rank"]["high"] == 1 or not rivals else "open"
    lead = HeadlineNumber(headline_label(run, column), column.metric, value, tuple(models))
    return BoardFinding(
        claim,
        lead,
        statistic,
        rivals,
        None if is_complete else len(ranked),
        tuple(_list_disagreeing(run, column)),
    )


def headline_column(run: BenchmarkRun) -> BoardColumn:
    """The column that the board is ranked by."""
    document = run.scorer.guideline.document
    return find_headline_column(document, document.metric(document.rank_by))


def find_headline_column(document: GuidelineDocument, metric: Metric) -> BoardColumn:
    """Its overall number; without one, that of its first dimension."""
    return BoardColumn(None if metric.overall != "none" else list_metric_scopes(document, metric)[0], metric)


def headline_label(run: BenchmarkRun, column: BoardColumn) -> str:
    """The metric, and of which dimension its number is where it has several and no overall."""
    document, metric = run.scorer.guideline.document, column.metric
    label = metric_label(metric)
    several = column.scope is not None and len(list_metric_scopes(document, metric)) > 1
    return join_heading(label, column.label(document)) if several else label


def _list_disagreeing(run: BenchmarkRun, lead: BoardColumn) -> Iterator[HeadlineNumber]:
    """Those by which none of the models is the best that are the best by the number that the board is ranked by."""
    document = run.scorer.guideline.document
    _value, leaders = _list_best(run, lead)
    for metric in document.metrics:
        column = find_headline_column(document, metric)
        value, models = _list_best(run, column)
        if value is not None and set(leaders).isdisjoint(models):
            yield HeadlineNumber(headline_label(run, column), metric, value, models)


def _list_best(run: BenchmarkRun, column: BoardColumn) -> tuple[float | None, tuple[str, ...]]:
    """The best value of a column, as its metric has it, and the models that have it, in the order of the board."""
    values = {row["model"]: column.statistic(row)["value"] for row in list_board_rows(run)}
    known = [value for value in values.values() if value is not None]
    best = max(known, key=lambda value: column.metric.sign * value, default=None)
    return best, tuple(model for model, value in values.items() if value is not None and value == best)


SOME_GOLD = "some_gold"
"""Of a model that has gold in some columns and predictions alone in others, of which its number is the mean."""
REASON_CODES = (*REASONS, SOME_GOLD)


@dataclass(frozen=True)
class NotComparedCount:
    """So many ``models`` are not compared for this reason; in words: ``wording/not_compared.txt``.

    ``code`` is one of the board's reasons, or ``SOME_GOLD``.
    """

    code: str
    models: int


@dataclass(frozen=True)
class ComparedModels:
    """``n`` of ``of`` models are compared in a column; about ``labels`` more would let the others that lack labels be.

    ``min_labels`` and ``min_prompts`` are the bounds that the reasons speak of.
    """

    n: int
    of: int
    reasons: tuple[NotComparedCount, ...]
    labels: int
    min_labels: int = MIN_LABELS
    min_prompts: int = MIN_PROMPTS

    @property
    def are_all(self) -> bool:
        return self.n == self.of


def count_compared(run: BenchmarkRun, scope: str | None = None) -> ComparedModels:
    """In the number that the board is ranked by, or in a column; a column without ranks compares as many as it has."""
    column = headline_column(run)
    name = scope or column.name
    rows = list_board_rows(run)
    known = find_board(run).get(COMPARED, {}).get(name) or {"n": len(rows), "of": len(rows)}
    document = run.scorer.guideline.document
    is_ranked = name == column.name
    scopes = list_metric_scopes(document, column.metric) if is_ranked and column.scope is None else (name,)
    reasons = [
        _refine_reason((row if is_ranked else row["dimensions"].get(name, {})).get("reason"), row, scopes)
        for row in rows
    ]
    return ComparedModels(
        known["n"],
        known["of"],
        tuple(NotComparedCount(code, reasons.count(code)) for code in REASON_CODES if code in reasons),
        sum(
            _count_missing_labels(row, scopes)
            for row, reason in zip(rows, reasons, strict=True)
            if reason in (NO_GOLD, SOME_GOLD, FEW_LABELS)
        ),
    )


def _refine_reason(reason: str | None, row: BoardRow, scopes: Sequence[str]) -> str | None:
    """Of a model that lacks gold whether it does in all of these columns, or in some."""
    cells = [row["dimensions"].get(scope, {}) for scope in scopes]
    has_gold = any(cell.get("composition", {}).get("gold") for cell in cells)
    return SOME_GOLD if reason == NO_GOLD and has_gold else reason


def _count_missing_labels(row: BoardRow, scopes: Sequence[str]) -> int:
    """Until each column has as many as a chance sample needs, or all that there are."""
    cells = [row["dimensions"].get(scope, {}) for scope in scopes]
    return sum(
        max(0, min(MIN_LABELS, cell.get("n", 0)) - cell.get("composition", {}).get("gold", 0))
        for cell in cells
    )


@dataclass(frozen=True)
class BiasRow:
    """What the scorer's labels of a model are off by, on ``n`` responses with gold; blank where it is not known."""

    model: str
    n: int
    cells: tuple[tuple[str, str], ...]


def list_bias(run: BenchmarkRun) -> dict[str, Any]:
    """The heads and the rows of the scorer's bias by model; nothing where no response has gold and a prediction."""
    content = find_board(run).get(BIAS) or {"rows": []}
    document = run.scorer.guideline.document
    metric = document.metric(document.rank_by)
    has_overall = any(row["overall"] for row in content["rows"])
    scopes = content.get("scopes", [])
    several = document.dimensions and len(scopes) > 1
    heads = [
        *([_("Overall")] if has_overall else []),
        *([scope_label(document, scope) for scope in scopes] if several or not has_overall else []),
    ]
    rows = []
    for row in content["rows"]:
        statistics = [
            *([row["overall"]] if has_overall else []),
            *([row["dimensions"].get(scope) for scope in scopes] if several or not has_overall else []),
        ]
        if any(statistics):
            cells = tuple(
                (
                    format_metric_difference(metric, statistic["value"]),
                    format_difference_interval(metric, statistic),
                )
                if statistic
                else ("", "")
                for statistic in statistics
            )
            rows.append(BiasRow(row["model"], row["n"], cells))
    return {
        "bias_heads": heads,
        "bias": rows,
        "bias_rate": metric.kind == "rate",
        "bias_metric": metric_label(metric),
    }


def reading_context(run: BenchmarkRun) -> dict[str, Any]:
    """What a reader should know before quoting a rank or a number: ``own_ranks`` and ``predicted_percent``.

    Either is None where there is nothing to say.
    """
    rows = list_board_rows(run)
    ranked = [row for row in rows if row["rank"] is not None]
    own = sum(row["rank"]["low"] == row["rank"]["high"] for row in ranked)
    counts = count_bases(rows)
    predicted = counts.get("out_of_fold", 0) + counts.get("unseen", 0)
    return {
        "own_ranks": {"n": own, "all": len(ranked), "are_all": len(ranked) == len(rows)}
        if len(ranked) > 1
        else None,
        "predicted_percent": 100 * predicted / sum(counts.values()) if predicted else None,
    }


def count_bases(rows: Sequence[BoardRow]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for row in rows:
        for cell in row["dimensions"].values():
            for basis, n in cell.get("composition", {}).items():
                summed[basis] = summed.get(basis, 0) + n
    return summed
