"""Old beside new: every number of two runs, and what changed behind each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmark.models import BenchmarkRun
from benchmark.selectors.changes import counts

from ..figures.comparison import Change, compare


@dataclass(frozen=True)
class Moved:
    change: Change
    reasons: Counter[str]
    """How many items changed in which way (benchmark/selectors/changes.py)."""

    def to_json(self) -> dict[str, Any]:
        return self.change.to_json() | {"reasons": dict(self.reasons)}


@dataclass(frozen=True)
class Comparison:
    """``totals`` are the changes of all items, each once."""

    moved: tuple[Moved, ...] = ()
    totals: Counter[str] = field(default_factory=Counter)


def compared(run: BenchmarkRun) -> Comparison:
    """Against the run that it replaces; nothing for a run that replaces none."""
    if run.replaces is None:
        return Comparison()
    why = counts(run.replaces, run)
    found = compare(run.scorer.guideline.document, run.replaces.board, run.board)
    moved = tuple(Moved(change, _reasons(change, why)) for change in found)
    return Comparison(moved, sum(why.values(), Counter()))


def _reasons(change: Change, why: Mapping[tuple[str, str], Counter[str]]) -> Counter[str]:
    """An overall number has the changes of all its dimensions."""
    if change.scope is not None:
        return why.get((change.model, change.scope), Counter())
    total: Counter[str] = Counter()
    for (model, _scope), found in why.items():
        if model == change.model:
            total += found
    return total
