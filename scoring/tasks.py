"""What the workers do. The learning libraries are imported inside the work, never by the web process."""

from __future__ import annotations

from typing import Any

from annotation.errors import N_, AssayError
from annotation.models import Dataset, EvaluatedModel
from annotation.services import jobs
from scoring.models import Scorer
from scoring.selectors.scorers import scorers_with_all
from scoring.services import give_up, job_report, score, train
from scoring.services.predictions import SCORE, responses_to
from scoring.services.reports import cancelling
from scoring.services.scorers import TRAIN


@jobs.handles(TRAIN)
def train_scorer(context: jobs.JobContext) -> dict[str, Any]:
    scorer = _scorer(context)
    try:
        with cancelling():
            train(scorer=scorer, report=job_report(context))
    except Exception:
        if context.is_held:  # else what is kept is now another worker's
            give_up(scorer=scorer)
        raise
    return {"scorer": scorer.name, "weights_sha256": scorer.weights_sha256}


@jobs.handles(SCORE)
def score_responses(context: jobs.JobContext) -> dict[str, Any]:
    scorer = _scorer(context)
    models = EvaluatedModel.objects.filter(pk__in=context.payload["models"])
    dataset = Dataset.objects.get(pk=context.payload["dataset"])
    responses = responses_to(dataset, list(models))
    scored = score(scorer=scorer, responses=responses, report=context.report)
    return {"scorer": scorer.name, "out_of_fold": scored.out_of_fold, "unseen": scored.unseen}


def _scorer(context: jobs.JobContext) -> Scorer:
    found = scorers_with_all().filter(pk=context.payload["scorer"]).first()
    if found is None:
        raise AssayError(N_("The scorer of this job is there no more."))
    return found
