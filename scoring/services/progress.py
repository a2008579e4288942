"""Between long work in the pure core, which knows no jobs, and the job's row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from annotation.core.errors import N_
from annotation.services import jobs
from scoring.domain.backbone import FitProgress, ProcessKilled, Report, WorkCancelled

REPORT_EVERY = 0.25
LOSS_EVERY = 1.0
"""Seconds. A step of training can be much shorter, and each report writes the row."""

STAGES = {
    "read": N_("reading the release"),
    "grouped": N_("learning and predicting, fold by fold"),
    "leave-one-model-out": N_("learning without one model, model by model"),
    "learning-curve": N_("learning from fewer prompts, fold by fold"),
    "adaptation": N_("learning without the labels of the model, fold by fold"),
    "final": N_("learning what is kept"),
    "compare": N_("comparing with people"),
    "register": N_("registering the scorer"),
}
LOSS = N_("loss")
METRICS = {
    "validation_loss": N_("validation loss"),
    "validation_accuracy": N_("validation accuracy"),
}
"""The names of the curves, translated where they are shown."""


def build_job_report(context: jobs.JobContext) -> Report:
    """A report that writes the job's row: a new stage at once, else some times a second.

    A cancelled job raises the core's ``Cancelled`` through the work (``cancelling`` turns it back); a job that
    another worker took over raises ``jobs.LostJob``.
    """
    pace = _ReportPace()

    def report(progress: FitProgress) -> None:
        if not pace.is_due(progress.stage) and not progress.metrics:  # which come seldom, and are all told
            return
        metrics = {METRICS.get(name, name): value for name, value in progress.metrics.items()}
        if progress.loss is not None and pace.is_loss_due():
            metrics[LOSS] = progress.loss
        try:
            context.report(progress.fraction, STAGES.get(progress.stage, progress.stage), **metrics)
        except jobs.Cancelled as cancelled:
            raise WorkCancelled from cancelled

    return report


@contextmanager
def translate_cancelling() -> Iterator[None]:
    """Around work with a ``job_report``: tell the job that the work let its cancelling pass, or was killed."""
    try:
        yield
    except WorkCancelled as cancelled:
        raise jobs.Cancelled from cancelled
    except ProcessKilled as killed:
        raise jobs.WorkerDied(str(killed)) from killed


class _ReportPace:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stage = ""
        self._last_report = self._last_loss = float("-inf")

    def is_due(self, stage: str) -> bool:
        now = self._clock()
        if stage == self._stage and now - self._last_report < REPORT_EVERY:
            return False
        self._stage, self._last_report = stage, now
        return True

    def is_loss_due(self) -> bool:
        now = self._clock()
        if now - self._last_loss < LOSS_EVERY:
            return False
        self._last_loss = now
        return True
