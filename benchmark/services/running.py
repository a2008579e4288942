"""Doing a run: have the scorer predict what it has not yet, store what counts, compute the board.

Every step finds what is already done and leaves it, so that a run which died goes on where it was.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from annotation.errors import N_
from annotation.models import Response
from benchmark.models import BenchmarkRun
from benchmark.services.boards import finish_run
from benchmark.services.items import asked, unscored, write_items
from scoring.models import Prediction
from scoring.services import score
from scoring.services.predictions import PREDICTING

SCORING = 0.8
"""The share of the work that predicting is."""
COLLECTING = N_("collecting what counts")
COMPUTING = N_("computing the board")
PREDICTED = N_("responses predicted")
RATE = N_("responses a second")

FEWEST, MOST = 50, 1000
"""Responses that are predicted between two reports."""
SECONDS = 2.0
"""How long that should take."""


class Tell(Protocol):
    """A job's ``report``: the fraction that is done, the stage, and values that are shown while it runs."""

    def __call__(self, progress: float, stage: str = "", **values: float) -> None: ...


@dataclass
class Cost:
    """What scoring took, over all attempts: ``predicted`` of so many ``responses``, seconds and processor seconds."""

    responses: int = 0
    predicted: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0

    @classmethod
    def of(cls, run: BenchmarkRun) -> Cost:
        stored = {name: value for name, value in run.cost.items() if name != "per_response"}
        return cls(**stored)

    def to_json(self) -> dict[str, Any]:
        """``per_response`` are seconds; None where nothing had to be predicted."""
        each = self.seconds / self.predicted if self.predicted else None
        return asdict(self) | {"per_response": each}


def perform(run: BenchmarkRun, report: Tell) -> dict[str, Any]:
    """The job's result. A run that is finished is left as it is."""
    if run.finished_at is None:
        report(0.0, COLLECTING)
        _predict(run, report)
        write_items(run, lambda done: report(SCORING + 0.8 * (1 - SCORING) * done, COLLECTING))
        report(1 - 0.2 * (1 - SCORING), COMPUTING)
        finish_run(run)
    return {"run": run.name, "items": run.items.count(), "cost": run.cost}


def _predict(run: BenchmarkRun, report: Tell) -> None:
    """Predict what lacks a prediction, copies of a text together; cost and progress are told every few seconds."""
    cost = Cost.of(run)
    pending = list(unscored(run).order_by("prompt_id", "sha256", "pk").values_list("pk", flat=True))
    cost.responses = asked(run).count()
    _keep(run, cost)
    began, done, size = time.monotonic(), 0, FEWEST
    while done < len(pending):
        chunk = pending[done : done + size]
        took = _timed(run, chunk, cost)
        done += len(chunk)
        _keep(run, cost)
        rate = done / (time.monotonic() - began)
        report(
            SCORING * done / len(pending),
            PREDICTING,
            **{PREDICTED: cost.predicted, RATE: round(rate, 1)},
        )
        size = max(FEWEST, min(MOST, int(len(chunk) * SECONDS / max(took, 0.001))))


def _timed(run: BenchmarkRun, keys: list[int], cost: Cost) -> float:
    """Predict these and add what it took to the cost. The seconds."""
    wall, processor = time.monotonic(), time.process_time()
    predicted = Prediction.objects.filter(scorer=run.scorer, response__in=keys).values("response").distinct()
    before = predicted.count()
    score(scorer=run.scorer, responses=Response.objects.filter(pk__in=keys))
    took = time.monotonic() - wall
    cost.predicted += predicted.count() - before  # of a criterion that was not learned there is none
    cost.seconds += took
    cost.processor_seconds += time.process_time() - processor
    return took


def _keep(run: BenchmarkRun, cost: Cost) -> None:
    run.cost = cost.to_json()
    BenchmarkRun.objects.filter(pk=run.pk).update(cost=run.cost)
