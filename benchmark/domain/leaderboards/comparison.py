"""Two boards of the same guideline beside each other: like with like. Pure.

A number that people's labels carry, alone or correcting predictions, is *measured*; one of predictions that no gold
corrects is *predicted*. A measured number less a predicted one is the scorer's bias, not a change of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.metrics import format_metric_value as metrics_printed
from benchmark.domain.leaderboards.metrics import list_metric_scopes, list_metrics, list_scopes
from benchmark.domain.leaderboards.withholding import is_gold

MEASURED, PREDICTED = "measured", "predicted"
"""The kinds of a number."""


@dataclass(frozen=True)
class MetricChange:
    """One number of a model, before and now; ``scope`` None is the overall. Undefined stays None.

    Numbers of different kinds have no difference; of predicted ones it has no direction, for it is no finding.
    """

    model: str
    scope: str | None
    metric: Metric
    old: float | None
    new: float | None
    n_old: int
    n_new: int
    kind_old: str = MEASURED
    kind_new: str = MEASURED

    @property
    def kind(self) -> str | None:
        """Of both; None where they differ. One that is undefined is of any kind."""
        kinds = {
            kind
            for kind, value in ((self.kind_old, self.old), (self.kind_new, self.new))
            if value is not None
        }
        return None if len(kinds) > 1 else next(iter(kinds), MEASURED)

    @property
    def delta(self) -> float | None:
        if self.old is None or self.new is None or self.kind is None:
            return None
        return self.new - self.old

    @property
    def direction(self) -> str:
        """``up``, ``down``, or nothing where it stayed, one of the two is undefined, or both are predicted."""
        return "" if not self.delta or self.kind != MEASURED else "up" if self.delta > 0 else "down"

    @property
    def is_lower_better(self) -> bool:
        return self.metric.better == "lower"

    @property
    def printed(self) -> dict[str, str]:
        """Old, new and signed difference as a page shows them; a rate's difference in percentage points."""
        unit = 100 if self.metric.kind == "rate" else 1
        delta = "" if self.delta is None else f"{self.delta * unit:+.2f}"
        texts = {"old": metrics_printed(self.metric, self.old), "new": metrics_printed(self.metric, self.new)}
        return texts | {"delta": delta if self.delta else ""}

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "dimension": self.scope,
            "metric": self.metric.name,
            "old": self.old,
            "new": self.new,
            "delta": self.delta,
            "n_old": self.n_old,
            "n_new": self.n_new,
            "kind_old": None if self.old is None else self.kind_old,
            "kind_new": None if self.new is None else self.kind_new,
        }


def compare_boards(
    document: GuidelineDocument, old: Mapping[str, Any], new: Mapping[str, Any]
) -> list[MetricChange]:
    """Every number of both boards, in the order of the new one; models that left come last."""
    before, now = _index_rows(old), _index_rows(new)
    models = [*now, *(model for model in before if model not in now)]
    return [
        change
        for model in models
        for change in _list_model_changes(document, model, before.get(model), now.get(model))
    ]


def _index_rows(board: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {row["model"]: row for row in board.get("rows", [])}


def _list_model_changes(
    document: GuidelineDocument, model: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> Iterator[MetricChange]:
    for scope in (None, *list_scopes(document)):
        metrics = (
            [metric for metric in document.metrics if metric.overall != "none"]
            if scope is None
            else list_metrics(document, scope)
        )
        for metric in metrics:
            (before, n_before), (now, n_now) = (_read_value(row, scope, metric) for row in (old, new))
            kinds = [find_kind(document, row, scope, metric) for row in (old, new)]
            yield MetricChange(model, scope, metric, before, now, n_before, n_now, *kinds)


def find_kind(
    document: GuidelineDocument, row: Mapping[str, Any] | None, scope: str | None, metric: Metric
) -> str:
    """Of a number of a board's row; a board that states no ground is judged by what its cells count."""
    if row is None:
        return MEASURED
    scopes = list_metric_scopes(document, metric) if scope is None else (scope,)
    cells = [row["dimensions"].get(own, {}) for own in scopes]
    return MEASURED if all(map(_is_measured, cells)) else PREDICTED


def _is_measured(cell: Mapping[str, Any]) -> bool:
    if "ground" in cell:
        return str(cell["ground"]) != PREDICTED
    return is_gold(cell)


def _read_value(row: Mapping[str, Any] | None, scope: str | None, metric: Metric) -> tuple[float | None, int]:
    """Boards of an older version of the guideline may lack a dimension or a metric."""
    if row is None:
        return None, 0
    held = row["overall"] if scope is None else row["dimensions"].get(scope, {})
    n = row["n"] if scope is None else held.get("n", 0)
    return held.get(metric.name, {}).get("value"), n
