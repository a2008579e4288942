"""What a board does not claim where predictions take part: ranks, and which of two models is higher. Pure.

Ranks and differences take every label for the truth. A scorer's errors differ from model to model and reach neither, so
that their intervals hold too seldom (docs/decisions/ranks-without-predictions.md). What is withheld is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from annotation.domain.guidelines import GuidelineDocument
from benchmark.domain.leaderboards.metrics import find_metric, list_metric_scopes, list_scopes
from benchmark.domain.leaderboards.pairs import OVERALL
from benchmark.domain.leaderboards.resampling import GOLD

NOT_RANKED = "not_ranked"
"""The field of a board that names the columns in which ranks are withheld."""


@dataclass(frozen=True)
class PredictedModels:
    """The models whose numbers rest on predictions, by column."""

    document: GuidelineDocument
    by_scope: Mapping[str, frozenset[str]]

    @classmethod
    def from_board(cls, document: GuidelineDocument, board: Mapping[str, Any]) -> PredictedModels:
        """By what each cell of the board says that it rests on."""
        rows = board.get("rows", [])
        return cls(
            document,
            {
                scope: frozenset(
                    row["model"] for row in rows if not is_gold(row["dimensions"].get(scope, {}))
                )
                for scope in list_scopes(document)
            },
        )

    @classmethod
    def build_for_all(cls, document: GuidelineDocument, models: Iterable[str]) -> PredictedModels:
        return cls(document, dict.fromkeys(list_scopes(document), frozenset(models)))

    def list_models(self, scope: str) -> frozenset[str]:
        """``scope`` is a column, or OVERALL: what the board is ranked by, over all the columns of it."""
        lead = self.document.metric(self.document.rank_by)
        columns = list_metric_scopes(self.document, lead) if scope == OVERALL else (scope,)
        return frozenset().union(*(self.by_scope.get(column, frozenset()) for column in columns))

    @property
    def not_ranked(self) -> list[str]:
        """The columns whose ranks are withheld, as ``list_compared_scopes`` names them."""
        lead = self.document.metric(self.document.rank_by)
        columns = [scope for scope in list_scopes(self.document) if find_metric(self.document, scope, lead)]
        return [
            scope
            for scope in ([OVERALL] if lead.overall != "none" else []) + columns
            if self.list_models(scope)
        ]


def is_gold(cell: Mapping[str, Any]) -> bool:
    """Whether people settled all that the cell counts."""
    return not any(n for basis, n in cell.get("composition", {}).items() if basis != GOLD)


def withhold_ranks(board: dict[str, Any], predicted: PredictedModels) -> dict[str, Any]:
    """A rank compares with every model, so one number that rests on predictions withholds those of its column."""
    withheld = predicted.not_ranked
    if not withheld:
        return board
    document = predicted.document
    lead = document.metric(document.rank_by)
    ranked_in = list_metric_scopes(document, lead)[0] if lead.overall == "none" else OVERALL
    rows = [_withhold_rank(row, withheld, is_overall=ranked_in in withheld) for row in board["rows"]]
    return board | {"rows": rows, NOT_RANKED: withheld}


def _withhold_rank(row: dict[str, Any], withheld: Iterable[str], *, is_overall: bool) -> dict[str, Any]:
    cells = {scope: row["dimensions"][scope] | {"rank": None} for scope in withheld if scope != OVERALL}
    overall_rank = {"rank": None} if is_overall else {}
    return row | overall_rank | {"dimensions": row["dimensions"] | cells}


def withhold_claims(pairs: dict[str, Any], predicted: PredictedModels) -> dict[str, Any]:
    """A difference keeps its value, and no interval, where either model's number rests on predictions."""
    models = pairs["models"]
    unsure = {scope: predicted.list_models(scope) for scope in pairs["scopes"]}
    held = {
        key: {
            scope: _withhold_interval(cell)
            if unsure[scope] & {models[int(at)] for at in key.split("-")}
            else cell
            for scope, cell in cells.items()
        }
        for key, cells in pairs["pairs"].items()
    }
    return pairs | {"pairs": held}


def _withhold_interval(cell: dict[str, Any] | None) -> dict[str, Any] | None:
    return cell and cell | {"low": None, "high": None, "predicted": True}
