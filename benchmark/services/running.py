"""Doing a run: score what has neither gold nor a prediction, store what counts, compute the board.

Every step finds what is already done and leaves it, so that a run which died goes on where it was.
"""

from __future__ import annotations

from typing import Any

from annotation.errors import N_
from benchmark.models import BenchmarkRun
from benchmark.services.boards import finish_run
from benchmark.services.items import unscored, write_items
from scoring.services import score
from scoring.services.predictions import Tell

SCORING = 0.8
"""The share of the work that predicting is."""
COLLECTING = N_("collecting what counts")


def perform(run: BenchmarkRun, report: Tell) -> dict[str, Any]:
    """The job's result. A run that is finished is left as it is."""
    if run.finished_at is None:
        report(0.0, COLLECTING)
        lacking = unscored(run)
        if lacking:
            score(
                scorer=run.scorer, responses=lacking, report=lambda done, stage: report(SCORING * done, stage)
            )
        write_items(run, lambda done: report(SCORING + (1 - SCORING) * done, COLLECTING))
        finish_run(run)
    return {"run": run.name, "items": run.items.count()}
