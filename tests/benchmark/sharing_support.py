"""Runs and releases for what is shown of them: made by the product's services, without training anything."""

from __future__ import annotations

from typing import Any

from annotation.models import GoldRelease, Job
from annotation.services import jobs
from annotation.services.studies import find_or_make_study
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import list_run_responses
from scoring.models import Promotion, Scorer
from tests.benchmark.support import predict


def finish(run: BenchmarkRun) -> BenchmarkRun:
    """Done by its job, in this process; what the scorer would have said is stored before, so that nobody asks it."""
    assert run.job is not None
    for response in list_run_responses(run).exclude(predictions__scorer=run.scorer):
        predict(run.scorer, response, 3 if response.prompt.dimension == "safe" else 1, fold=0)
    assert jobs.run_now(run.job).state == Job.State.DONE
    run.refresh_from_db()
    return run


def promoted(scorer: Scorer, *, number: int = 1, **more: Any) -> Promotion:
    """As the gate keeps it once a scorer has passed."""
    return Promotion.objects.create(
        study=find_or_make_study(),
        guideline_name=scorer.guideline.name,
        number=number,
        kind=Promotion.Kind.PASSED,
        scorer=scorer,
        **more,
    )


def heir(release: GoldRelease, name: str, **more: Any) -> GoldRelease:
    """A later release of the same batches; only that it is there matters."""
    made = GoldRelease.objects.create(
        study=find_or_make_study(),
        name=name,
        sha256="cd" * 32,
        labels=1,
        adjudicated=0,
        **more,
    )
    made.batches.set(release.batches.all())
    return made
