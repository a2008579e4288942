"""The batch that imported labels belong to: found, or made of a guideline and a dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.conf import settings

from annotation.domain.batch_spec import USUAL_POLICY, BatchSpec
from annotation.errors import N_, AssayError, Conflict
from annotation.files import read_text
from annotation.formats import RESPONSES
from annotation.models import Batch, Dataset, EvaluatedModel, Guideline
from annotation.selectors.corpus import dataset_named
from annotation.selectors.guidelines import guideline_named
from annotation.services.batches import (
    add_tasks,
    create_batch,
    new_batch,
    responses_for,
)
from annotation.services.guidelines import load_guideline
from annotation.services.imports.report import ImportReport
from annotation.services.imports.responses import store_responses
from annotation.services.imports.run import PLAIN, Intake


@dataclass(frozen=True)
class Target:
    """What was asked for, by names."""

    batch: str
    guideline: str | None = None
    dataset: str | None = None


@dataclass(frozen=True)
class Goal:
    """What it is. ``dataset`` None means whichever datasets the batch is of.

    A new batch is a draft: it opens when the people who labelled in it are its members.
    """

    batch: Batch
    dataset: Dataset | None
    is_new: bool


def find_or_make(target: Target, intake: Intake) -> Goal:
    """The batch, locked so that two files for it go one after the other."""
    batch = (
        Batch.objects.select_for_update(no_key=True, of=("self",))
        .select_related("guideline")
        .filter(name=target.batch)
        .first()
    )
    if batch is not None:
        _refuse_other_guideline(batch, target)
    if intake.form.complete:
        return _complete(batch, target, intake)
    dataset = dataset_named(target.dataset) if target.dataset else None
    if batch is not None:
        return Goal(batch=batch, dataset=dataset, is_new=False)
    return _made(target, dataset, intake)


def _refuse_other_guideline(batch: Batch, target: Target) -> None:
    if target.guideline and guideline_named(target.guideline) != batch.guideline:
        raise Conflict(
            N_("The batch {name} follows {guideline}, not {other}."),
            name=batch.name,
            guideline=str(batch.guideline),
            other=target.guideline,
        )


def _made(target: Target, dataset: Dataset | None, intake: Intake) -> Goal:
    """A batch of all the dataset's responses, as ``create_batch`` makes it; its people come with the file."""
    if dataset is None or not target.guideline:
        raise AssayError(
            N_("No batch is named {name}. To make it, name its guideline and its dataset."), name=target.batch
        )
    spec = BatchSpec(
        name=target.batch,
        guideline=guideline_named(target.guideline).pk,
        dataset=dataset.pk,
        open_now=False,
    )
    batch = create_batch(spec, actor=intake.run.actor)
    intake.report.add_made("batches")
    intake.report.add_made("tasks", batch.tasks.count())
    return Goal(batch=batch, dataset=dataset, is_new=True)


def _complete(batch: Batch | None, target: Target, intake: Intake) -> Goal:
    """The file brings everything: the dataset, its prompts and responses, and the batch with a task for each."""
    model = intake.model_of(1, None)
    goal = Goal(
        batch=batch or _complete_batch(target, intake),
        dataset=intake.dataset(target.dataset or intake.form.name),
        is_new=batch is None,
    )
    assert goal.dataset is not None
    responses = _responses(intake, goal.dataset)
    intake.report.add_made("responses", responses.taken)
    intake.report.include(responses)
    wanted = responses_for(
        dataset=goal.dataset, models=list(EvaluatedModel.objects.filter(name=model)), collection=""
    )
    missing = wanted.exclude(tasks__batch=goal.batch)
    made = add_tasks(batch=goal.batch, responses=missing)
    intake.report.add_made("tasks", made)
    return goal


def _responses(intake: Intake, dataset: Dataset) -> ImportReport:
    report = ImportReport(kind=RESPONSES, format=intake.form.name, file=intake.source.name)
    store_responses(replace(intake, report=report, run=PLAIN), dataset)
    intake.problems.refuse_any()
    return report


def _complete_batch(target: Target, intake: Intake) -> Batch:
    guideline = _guideline(target.guideline or intake.form.name, intake)
    intake.report.add_made("batches")
    return new_batch(name=target.batch, guideline=guideline, policy=USUAL_POLICY, actor=intake.run.actor)


def _guideline(reference: str, intake: Intake) -> Guideline:
    """The one asked for; the format's own is loaded where nobody has loaded one of that name yet."""
    own = intake.form.name
    if reference == own and not Guideline.objects.filter(name=own).exists():
        path = settings.BASE_DIR / "fixtures" / "guidelines" / f"{own}.yaml"
        intake.report.add_made("guidelines")
        return load_guideline(text=read_text(path), path=path.name, publish=True, actor=intake.run.actor)
    return guideline_named(reference)
