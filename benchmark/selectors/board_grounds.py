"""What each model's number on a board rests on, and so which models are compared."""

from __future__ import annotations

from dataclasses import dataclass

from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import get_finished_board


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
    return {
        row["model"]: ModelGround(row["ground"], row["reason"]) for row in get_finished_board(run)["rows"]
    }
