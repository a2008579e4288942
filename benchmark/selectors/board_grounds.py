"""What each model's number on a board rests on, and so which models are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmark.domain.estimates.selection import UNKNOWN
from benchmark.domain.leaderboards.metrics import list_metric_scopes
from benchmark.domain.leaderboards.withholding import is_gold
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import find_part, get_finished_board

GOLD, COMBINED, PREDICTED = "gold", "combined", "predicted"
NO_GOLD, SELECTION, NO_RESPONSES = "no_gold", "selection", "no_responses"


@dataclass(frozen=True)
class ModelGround:
    """``name`` is None without a response; ``reason`` says why the model is not compared, None if it is."""

    name: str | None
    reason: str | None = None

    @property
    def is_compared(self) -> bool:
        return self.name is not None and self.reason is None


def find_grounds(run: BenchmarkRun) -> dict[str, ModelGround]:
    """By model, best first, of the number that the board is ranked by. Raises AssayError of an unfinished run."""
    rows = get_finished_board(run)["rows"]
    if all("ground" in row for row in rows):
        return {row["model"]: ModelGround(row["ground"], row["reason"]) for row in rows}
    return _infer_grounds(run, rows)


def _infer_grounds(run: BenchmarkRun, rows: list[dict[str, Any]]) -> dict[str, ModelGround]:
    """Of a board that does not state them: from its cells and its estimates."""
    document = run.scorer.guideline.document
    metric = document.metric(document.rank_by)
    scopes = list_metric_scopes(document, metric)
    ranked = "overall" if metric.overall != "none" else scopes[0]
    estimates: Mapping[str, Any] = find_part(run, "estimates") or {"rows": []}
    combined = {
        row["model"]
        for row in estimates["rows"]
        if row["cells"].get(ranked, {}).get(metric.name, {}).get("combined")
    }
    spoiled = {
        selection["model"]
        for selection in estimates.get("selection", ())
        if selection["how"] in UNKNOWN and selection["dimension"] in scopes
    }
    grounds = {}
    for row in rows:
        cells = [row["dimensions"][scope] for scope in scopes]
        if not any(cell["n"] for cell in cells):
            ground = ModelGround(None, NO_RESPONSES)
        elif all(is_gold(cell) for cell in cells):
            ground = ModelGround(GOLD)
        elif row["model"] in spoiled:
            ground = ModelGround(PREDICTED, SELECTION)
        elif row["model"] in combined:
            ground = ModelGround(COMBINED)
        else:
            ground = ModelGround(PREDICTED, NO_GOLD)
        grounds[row["model"]] = ground
    return grounds
