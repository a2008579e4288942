from __future__ import annotations

from annotation.models import Job
from benchmark.models import BenchmarkRun, Retraining
from benchmark.selectors.runs import runs_with_all


def runs_of(retraining: Retraining) -> list[BenchmarkRun]:
    return list(runs_with_all().filter(retraining=retraining).order_by("pk"))


def jobs_of(retraining: Retraining) -> list[Job]:
    """The chain: the training first, then the runs that wait for it."""
    training = [retraining.scorer.job] if retraining.scorer.job else []
    return training + [run.job for run in runs_of(retraining) if run.job]


def under_way(release_id: int) -> Retraining | None:
    """A retraining on the release whose chain is not over."""
    for retraining in Retraining.objects.filter(release=release_id).select_related("scorer__job"):
        if any(not job.is_over for job in jobs_of(retraining)):
            return retraining
    return None
