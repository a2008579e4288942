from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any

from django.conf import settings

from annotation.models import GoldRelease, Job
from annotation.names import LONGEST
from benchmark.models import BenchmarkRun, Retraining
from benchmark.selectors.lineages import Lineages
from benchmark.selectors.runs import current_runs, runs_with_all
from scoring.domain.training_spec import TrainingSpec
from scoring.models import Scorer
from scoring.selectors.lessons import guideline_of
from scoring.spec import Spec


@dataclass(frozen=True)
class RetrainingPlan:
    """What a retraining would do: the scorer that it trains like ``latest``, and the ``boards`` that it runs again.

    ``latest`` is the scorer behind the latest of the boards, None where there is none.
    """

    release: GoldRelease
    training: TrainingSpec
    latest: Scorer | None
    boards: Sequence[BenchmarkRun]

    @property
    def scorer(self) -> str:
        return self.training.name

    @property
    def backbone(self) -> str:
        return (self.training.backbone or Spec.of(default_encoder=settings.ASSAY_ENCODER)).title

    @property
    def models(self) -> dict[int, list[str]]:
        """By board, those that it has."""
        return {board.pk: [model.name for model in board.evaluated_models.all()] for board in self.boards}

    @property
    def digest(self) -> str:
        """Another one where something else would be trained or run again."""
        seen = [self.release.pk, self.scorer, *(board.pk for board in self.boards)]
        return sha256(repr(seen).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {
            "scorer": self.scorer,
            "release": self.release.name,
            "backbone": self.backbone,
            "boards": [
                {
                    "run": board.name,
                    "dataset": board.dataset.name,
                    "collection": board.collection.name,
                    "models": self.models[board.pk],
                    "scorer": board.scorer.name,
                }
                for board in self.boards
            ],
        }


def plan_retraining(
    release: GoldRelease, *, name: str | None = None, spec: Spec | None = None
) -> RetrainingPlan:
    """The boards are those of the release's lineage; without a name or a spec, those of the latest are followed."""
    boards = boards_of_lineage(release)
    latest = boards[-1].scorer if boards else None
    training = TrainingSpec(
        name=name or _next_name(latest.name if latest else f"{release.name}-scorer"),
        release=release.pk,
        backbone=spec or (latest.spec if latest else None),
        evaluate=latest.config.get("evaluate", ()) if latest else (),
        seed=latest.seed if latest else 0,
    )
    return RetrainingPlan(release, training, latest, boards)


def boards_of_lineage(release: GoldRelease) -> list[BenchmarkRun]:
    """The current runs of the release's guideline whose scorers learned gold of its lineage, the oldest first."""
    related = Lineages.read().related_to(release.pk)
    found = current_runs(guideline_of(release).name).filter(scorer__release__in=related)
    return list(found.prefetch_related("evaluated_models"))


def _next_name(name: str) -> str:
    """``scorer-1`` is followed by the first of ``scorer-2``, ``scorer-3`` .. that is free."""
    numbered = re.fullmatch(r"(.+)-([0-9]{1,6})", name)
    stem, number = (numbered[1], int(numbered[2])) if numbered else (name, 1)
    names = (f"{stem[: LONGEST - 8]}-{n}" for n in count(number + 1))
    return next(name for name in names if not Scorer.objects.filter(name=name).exists())


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
