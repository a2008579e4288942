"""What the workers do. The learning libraries are imported inside the work, never by the web process."""

from __future__ import annotations

import time
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.models import Dataset, EvaluatedModel
from annotation.services import jobs
from annotation.services.upkeep.clean_up import register_cleaner
from scoring.models import Scorer
from scoring.selectors.scorers import DRIFT, JUDGE, select_scorers
from scoring.services import build_job_report, remove_work_files, score, train
from scoring.services.predictions.predictions import SCORE, StageReport, list_responses
from scoring.services.predictions.requests import PREDICT, answer_request
from scoring.services.progress import translate_cancelling
from scoring.services.remains import clean_requests, clean_trainings
from scoring.services.scorers.drift import run_drift_check
from scoring.services.scorers.promotion import run_promotion
from scoring.services.scorers.scorers import TRAIN

RATE = N_("responses a second")
"""The name of the curve, translated where it is shown."""
RATE_EVERY = 1.0
"""Seconds between its points."""


@jobs.register_handler(TRAIN)
def train_scorer(context: jobs.JobContext) -> dict[str, Any]:
    scorer = _get_job_scorer(context)
    try:
        with translate_cancelling():
            train(scorer=scorer, report=build_job_report(context))
    except Exception as error:
        if context.is_final(error):  # else whoever goes on needs what is kept
            remove_work_files(scorer=scorer)
        raise
    return {"scorer": scorer.name, "weights_sha256": scorer.weights_sha256}


@jobs.register_handler(SCORE)
def score_responses(context: jobs.JobContext) -> dict[str, Any]:
    scorer = _get_job_scorer(context)
    models = EvaluatedModel.objects.filter(pk__in=context.payload["models"])
    dataset = Dataset.objects.get(pk=context.payload["dataset"])
    responses = list_responses(dataset, list(models))
    number, started = responses.count(), time.monotonic()
    scored = score(scorer=scorer, responses=responses, report=add_rate(context, number))
    return {
        "scorer": scorer.name,
        "out_of_fold": scored.out_of_fold,
        "unseen": scored.unseen,
        "asked": scored.predicted,
        "responses": number,
        "seconds": round(time.monotonic() - started, 2),
    }


def add_rate(context: jobs.JobContext, number: int) -> StageReport:
    """The job's report, which also draws how many of the ``number`` responses a second are done."""
    started = last_report = time.monotonic()

    def report(fraction: float, stage: str) -> None:
        nonlocal last_report
        now = time.monotonic()
        if fraction and now - last_report >= RATE_EVERY:
            last_report = now
            context.report(fraction, stage, **{RATE: round(fraction * number / (now - started), 1)})
        else:
            context.report(fraction, stage)

    return report


@jobs.register_handler(JUDGE)
def promote_scorer(context: jobs.JobContext) -> dict[str, Any]:
    return run_promotion(context)


@jobs.register_handler(DRIFT)
def check_drift(context: jobs.JobContext) -> dict[str, Any]:
    return run_drift_check(context)


@jobs.register_handler(PREDICT)
def predict_texts(context: jobs.JobContext) -> dict[str, Any]:
    return answer_request(context)


register_cleaner("trainings")(clean_trainings)
register_cleaner("prediction requests")(clean_requests)


def _get_job_scorer(context: jobs.JobContext) -> Scorer:
    scorer = select_scorers().filter(pk=context.payload["scorer"]).first()
    if scorer is None:
        raise AssayError(N_("The scorer of this job is there no more."))
    return scorer
