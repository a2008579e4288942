"""What a board and its parts may claim: of an earlier version, and of numbers that are not compared. Pure.

Earlier versions took every label for the truth. What rests on predictions there has no interval and no rank, and
neither has an overall number of few prompts; a run that is made again has the numbers that know of the scorer's errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from annotation.domain.guidelines import GuidelineDocument
from benchmark.domain.leaderboards.board import COMPARED
from benchmark.domain.leaderboards.grounds import (
    EARLIER,
    FEW_PROMPTS,
    MIN_PROMPTS,
    NO_RESPONSES,
    PREDICTED,
    SELECTION,
)
from benchmark.domain.leaderboards.metrics import find_metric, list_metric_scopes, list_scopes
from benchmark.domain.leaderboards.pairs import OVERALL
from benchmark.domain.leaderboards.responses import GOLD


def is_earlier(board: Mapping[str, Any]) -> bool:
    """Whether the board was computed before numbers had a ground."""
    return COMPARED not in board


def is_gold(cell: Mapping[str, Any]) -> bool:
    """Whether people settled all that the cell counts."""
    return not any(n for basis, n in cell.get("composition", {}).items() if basis != GOLD)


@dataclass(frozen=True)
class EarlierBoard:
    """``reasons`` say why a model is not compared in a column."""

    document: GuidelineDocument
    board: Mapping[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.board["rows"]
        return rows

    def find_reason(self, row: Mapping[str, Any], scope: str) -> str | None:
        """``scope`` is a column, or OVERALL: what the board is ranked by, over all the columns of it."""
        columns = self._list_columns(scope)
        cells = [row["dimensions"].get(column, {}) for column in columns]
        if not all(cell.get("n") for cell in cells):
            return NO_RESPONSES
        if not all(is_gold(cell) for cell in cells):
            return EARLIER
        is_mean = scope == OVERALL and self._lead_overall == "mean_of_dimensions"
        return FEW_PROMPTS if is_mean and min(cell["n"] for cell in cells) < MIN_PROMPTS else None

    def _list_columns(self, scope: str) -> tuple[str, ...]:
        lead = self.document.metric(self.document.rank_by)
        return list_metric_scopes(self.document, lead) if scope == OVERALL else (scope,)

    @property
    def _lead_overall(self) -> str:
        return self.document.metric(self.document.rank_by).overall

    @property
    def ranked_scope(self) -> str:
        return OVERALL if self._lead_overall != "none" else self._list_columns(OVERALL)[0]

    def list_scopes(self) -> list[str]:
        """Those that have ranks."""
        lead = self.document.metric(self.document.rank_by)
        own = [scope for scope in list_scopes(self.document) if find_metric(self.document, scope, lead)]
        return [*([OVERALL] if self.ranked_scope == OVERALL else []), *own]

    def is_ranked(self, scope: str) -> bool:
        """A rank compares with every model, so one that is not compared withholds those of its column."""
        return all(self.find_reason(row, scope) in (None, NO_RESPONSES) for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        ranked = {scope: self.is_ranked(scope) for scope in self.list_scopes()}
        rows = [self._convert_row(row, ranked) for row in self.rows]
        compared = {
            scope: {
                "n": sum(
                    is_kept and self.find_reason(row, scope) is None and self._has_rank(row, scope)
                    for row in self.rows
                ),
                "of": len(rows),
            }
            for scope, is_kept in ranked.items()
        }
        return {**self.board, COMPARED: compared, "rows": rows}

    def _has_rank(self, row: Mapping[str, Any], scope: str) -> bool:
        rank = row["rank"] if scope == self.ranked_scope else row["dimensions"].get(scope, {}).get("rank")
        return rank is not None

    def _convert_row(self, row: Mapping[str, Any], ranked: Mapping[str, bool]) -> dict[str, Any]:
        reason = self.find_reason(row, self.ranked_scope)
        is_kept = ranked.get(self.ranked_scope, False)
        return {
            **row,
            "rank": row["rank"] if is_kept else None,
            **_state_ground(reason),
            "dimensions": {
                scope: self._convert_cell(row, scope, is_ranked=ranked.get(scope, False))
                for scope in row["dimensions"]
            },
            "overall": {
                name: statistic if reason is None else _without_interval(statistic)
                for name, statistic in row["overall"].items()
            },
        }

    def _convert_cell(self, row: Mapping[str, Any], scope: str, *, is_ranked: bool) -> dict[str, Any]:
        cell, reason = row["dimensions"][scope], self.find_reason(row, scope)
        numbers = {
            name: value if reason is None else _without_interval(value)
            for name, value in cell.items()
            if isinstance(value, Mapping) and "value" in value and name != "rank"
        }
        rank = {"rank": cell.get("rank") if is_ranked else None} if "rank" in cell or not is_ranked else {}
        return {**cell, **numbers, **rank, **_state_ground(reason)}


def _state_ground(reason: str | None) -> dict[str, str | None]:
    ground = None if reason == NO_RESPONSES else PREDICTED if reason == EARLIER else GOLD
    return {"ground": ground, "reason": reason}


def _without_interval(statistic: Mapping[str, Any]) -> dict[str, Any]:
    return {**statistic, "low": None, "high": None}


def convert_board(document: GuidelineDocument, board: dict[str, Any]) -> dict[str, Any]:
    """A board as it may be read: of this version as it is."""
    return EarlierBoard(document, board).to_json() if board and is_earlier(board) else board


def convert_pairs(
    document: GuidelineDocument, board: Mapping[str, Any], pairs: dict[str, Any]
) -> dict[str, Any]:
    """The pairs beside the board; a difference of an earlier version that predictions take part in has no interval."""
    if not is_earlier(board):
        return pairs
    earlier = EarlierBoard(document, board)
    by_model = {row["model"]: row for row in earlier.rows}
    models = pairs["models"]

    def convert(cell: dict[str, Any] | None, scope: str, names: Iterable[str]) -> dict[str, Any] | None:
        is_compared = all(
            name in by_model and earlier.find_reason(by_model[name], scope) is None for name in names
        )
        return cell if cell is None or is_compared else {**_without_interval(cell), "compared": False}

    held = {
        key: {
            scope: convert(cell, scope, [models[int(at)] for at in key.split("-")])
            for scope, cell in cells.items()
        }
        for key, cells in pairs["pairs"].items()
    }
    return {**pairs, "pairs": held}


def convert_groups(board: Mapping[str, Any], groups: dict[str, Any]) -> dict[str, Any]:
    """The groups beside the board; an earlier version did not keep what each rests on, so of such a board with
    predictions they have no interval."""
    if not is_earlier(board) or all(
        is_gold(cell) for row in board.get("rows", []) for cell in row["dimensions"].values()
    ):
        return groups
    return {
        attribute: {
            **table,
            "rows": [
                {**row, "cells": [cell and _convert_group(cell) for cell in row["cells"]]}
                for row in table["rows"]
            ],
        }
        for attribute, table in groups.items()
    }


def _convert_group(cell: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_interval(value) if isinstance(value, Mapping) else value
        for name, value in cell.items()
    } | {
        "ground": PREDICTED,
        "reason": EARLIER,
    }


def convert_estimates(board: Mapping[str, Any], estimates: dict[str, Any]) -> dict[str, Any]:
    """The estimates on the grounds of the board: where a number is not compared there, the one that rests on gold and
    predictions has no interval here either, for the same ``reason``.
    """
    rows = {row["model"]: row for row in board.get("rows", [])}
    return {
        **estimates,
        "rows": [
            {**row, "cells": _convert_estimates_row(rows.get(row["model"], {}), row["cells"])}
            for row in estimates["rows"]
        ],
    }


def _convert_estimates_row(
    row: Mapping[str, Any], cells: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    return {
        scope: {
            name: _convert_estimate(cell, find_number_reason(row, scope, name))
            for name, cell in metrics.items()
        }
        for scope, metrics in cells.items()
    }


def find_number_reason(row: Mapping[str, Any], scope: str, metric: str) -> str | None:
    """Why a number of the board's row is not compared; ``scope`` is a column, or OVERALL."""
    columns = row.get("dimensions", {})
    if scope != OVERALL:
        reason: str | None = columns.get(scope, {}).get("reason")
        return reason
    if row.get("overall", {}).get(metric, {}).get("low") is not None:
        return None
    # The row states that of the number that it is ranked by; another one may rest on other columns.
    reasons = (row.get("reason"), *(cell.get("reason") for cell in columns.values()))
    return next((reason for reason in reasons if reason), None)


def _convert_estimate(cell: Mapping[str, Any], reason: str | None) -> dict[str, Any]:
    if reason is None:
        return dict(cell)
    withheld = {name: cell.get(name) and _without_interval(cell[name]) for name in ("combined", "finite")}
    # What the scorer is off by is off itself where somebody chose what it is measured on.
    bias = {"bias": None} if reason == SELECTION else {}
    return {**cell, **withheld, **bias, "reason": reason}
