"""Two boards of the same guideline beside each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.metrics import format_metric_value as metrics_printed
from benchmark.domain.leaderboards.metrics import list_metrics, list_scopes


@dataclass(frozen=True)
class MetricChange:
    """One number of a model, before and now; ``scope`` None is the overall. Undefined stays None."""

    model: str
    scope: str | None
    metric: Metric
    old: float | None
    new: float | None
    n_old: int
    n_new: int

    @property
    def delta(self) -> float | None:
        return None if self.old is None or self.new is None else self.new - self.old

    @property
    def direction(self) -> str:
        """``up``, ``down``, or nothing where it stayed or one of the two is undefined."""
        return "" if not self.delta else "up" if self.delta > 0 else "down"

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
            yield MetricChange(model, scope, metric, before, now, n_before, n_now)


def _read_value(row: Mapping[str, Any] | None, scope: str | None, metric: Metric) -> tuple[float | None, int]:
    """Boards of an older version of the guideline may lack a dimension or a metric."""
    if row is None:
        return None, 0
    held = row["overall"] if scope is None else row["dimensions"].get(scope, {})
    n = row["n"] if scope is None else held.get("n", 0)
    return held.get(metric.name, {}).get("value"), n
