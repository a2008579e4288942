"""Old beside new: every number of two runs, and what changed behind each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmark.models import BenchmarkRun
from benchmark.selectors.changes import counts

from ..figures.comparison import MetricChange, compare


@dataclass(frozen=True)
class ExplainedChange:
    change: MetricChange
    reasons: Counter[str]
    """How many items changed in which way (benchmark/selectors/changes.py)."""

    def to_json(self) -> dict[str, Any]:
        return self.change.to_json() | {"reasons": dict(self.reasons)}


@dataclass(frozen=True)
class RunComparison:
    """``totals`` are the changes of all items, each once."""

    moved: tuple[ExplainedChange, ...] = ()
    totals: Counter[str] = field(default_factory=Counter)


def compared(run: BenchmarkRun) -> RunComparison:
    """Against the run that it replaces; nothing for a run that replaces none."""
    if run.replaces is None:
        return RunComparison()
    change_counts = counts(run.replaces, run)
    changes = compare(run.scorer.guideline.document, run.replaces.board, run.board)
    moved = tuple(ExplainedChange(change, _reasons(change, change_counts)) for change in changes)
    return RunComparison(moved, sum(change_counts.values(), Counter()))


def _reasons(change: MetricChange, change_counts: Mapping[tuple[str, str], Counter[str]]) -> Counter[str]:
    """An overall number has the changes of all its dimensions."""
    if change.scope is not None:
        return change_counts.get((change.model, change.scope), Counter())
    total: Counter[str] = Counter()
    for (model, _scope), cell_counts in change_counts.items():
        if model == change.model:
            total += cell_counts
    return total
