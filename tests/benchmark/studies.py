"""Studies that have everything, alike but for their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from annotation.core.study_scope import limit_to_studies
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Collection, GoldRelease, Guideline, Job, Person, Study
from annotation.services import jobs
from annotation.services.people.people import set_roles
from annotation.services.releases import cut_release
from annotation.services.studies import create_study
from benchmark.models import BenchmarkRun
from benchmark.services.leaderboards.runs import create_run
from scoring.domain.training_spec import TrainingSpec
from scoring.models import Scorer
from scoring.services import create_scorer
from tests.benchmark.sharing_support import finish
from tests.benchmark.support import ready_scorer, settle
from tests.support import make_batch, make_corpus


@dataclass
class Part:
    """What a study has."""

    study: Study
    batch: Batch
    release: GoldRelease
    scorer: Scorer
    run: BenchmarkRun


def make_part(name: str, guideline: Guideline, people: Sequence[Person], *, train: bool = False) -> Part:
    """A study from its prompts to its board. Two of the people annotate, the third adjudicates, the fourth researches.

    With ``train`` everything is done by the product's own services; else the scorer's weights and predictions are made
    up, and it has no figures.
    """
    study = create_study(name=name)
    with limit_to_studies([study.pk]):
        for person, role in zip(people, ("annotator", "annotator", "adjudicator", "researcher"), strict=True):
            set_roles(person=person, roles=[role])
        dataset = make_corpus(prompts=12 if train else 4, models=["Hidden-13B", "Secretive-7B"])
        batch = make_batch(guideline, dataset, annotators=people[:2], adjudicators=people[2:3])
        settle(batch, people[:2], lambda response: 3 if response.prompt.dimension == "safe" else 1)
        release = cut_release(ReleaseSpec(name="gold-1", batches=[batch]))
        if train:
            scorer, training = create_scorer(TrainingSpec(name="scorer-1", release=release.pk), send=False)
            assert jobs.run_now(training).state == Job.State.DONE
            scorer.refresh_from_db()
        else:
            scorer = ready_scorer(release, guideline)
        run = create_run(
            name="board",
            scorer=scorer,
            dataset=dataset,
            collection=Collection.objects.get(name=""),
            send=False,
        )
        if train:
            assert run.job is not None
            jobs.run_now(run.job)
        else:
            finish(run)
    return Part(study, batch, release, Scorer.objects.get(pk=scorer.pk), BenchmarkRun.objects.get(pk=run.pk))
