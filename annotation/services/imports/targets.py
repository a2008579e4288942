"""The batch that a file of labels goes into: the one that is named, or made of a guideline and a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.db import transaction

from annotation.core.errors import N_, AssayError, Conflict
from annotation.domain.batch_spec import USUAL_POLICY, BatchSpec, Policy
from annotation.domain.formats import (
    RESPONSES,
    AnnotationRecord,
    Source,
    get_format,
    table,
)
from annotation.domain.formats.answers import fold_word
from annotation.domain.formats.labels import add_wording
from annotation.domain.formats.mapping.mapping import MESSAGES
from annotation.models import Batch, Dataset, EvaluatedModel, Guideline
from annotation.selectors.datasets import get_dataset
from annotation.selectors.guidelines import get_guideline, read_shipped
from annotation.services.batches.batches import (
    add_tasks,
    create_batch,
    create_empty_batch,
    filter_responses,
)
from annotation.services.guidelines import load_guideline
from annotation.services.imports.datasets import store_responses
from annotation.services.imports.run import PLAIN, ImportReport, Intake
from annotation.services.studies import find_or_make_study

FEWEST_PEOPLE = USUAL_POLICY.overlap
"""For whom a batch is that is made of labels: of one person's labels the second may come."""


@dataclass(frozen=True)
class LabelFiles:
    """Files of labels, each with the name of its format."""

    files: Sequence[tuple[Source, str]]

    @cached_property
    def overlap(self) -> int:
        """The most people who labelled the same response, or ``FEWEST_PEOPLE``; all files are read for it, once."""
        people: dict[tuple[str, str | None, str | None], set[str]] = {}
        for source, format_name in self.files:
            left_out = set(map(fold_word, source.options.left_out))
            for item in get_format(format_name).annotation_reader().items(source.reopen()):
                if not isinstance(item, AnnotationRecord) or not item.labels:
                    continue
                if not left_out or not set(map(fold_word, item.labels)) <= left_out:
                    people.setdefault((item.ref.key, item.model, item.collection), set()).add(item.annotator)
        return max(FEWEST_PEOPLE, max(map(len, people.values()), default=0))


@dataclass(frozen=True)
class ImportRequest:
    """Names the batch that the labels go into, and of what to make it, with which policy. ``overlap``: for how many
    people, where the policy's own is not meant; ``counted``: whose overlap it is, where nobody said it. ``slates``: the
    set of slates that it is of. ``stated``: what of the policy a batch that is there must have, too.
    """

    batch: str
    guideline: str | None = None
    dataset: str | None = None
    overlap: int | None = None
    counted: LabelFiles | None = None
    slates: str | None = None
    policy: Policy = USUAL_POLICY
    stated: frozenset[str] = frozenset()

    def build_policy(self) -> Policy:
        if self.overlap is None:
            return self.policy
        return Policy.model_validate(self.policy.model_dump() | {"overlap": self.overlap})


COLLECTION_TERMS = ("plan", "settling", "aggregation", "aggregation_threshold", "tolerance")


def build_collection_policy(options: Mapping[str, Any]) -> Policy:
    """The policy of a batch that an import makes, of what was said of it. An open plan is content with one label: there
    are as many as there are.
    """
    stated = {name: options[name] for name in COLLECTION_TERMS if options.get(name) is not None}
    is_open = stated.get("plan") == Batch.Plan.OPEN
    return Policy.model_validate({"overlap": 1 if is_open else USUAL_POLICY.overlap} | stated)


def plan_label_files(files: Sequence[tuple[Source, str]], request: ImportRequest) -> ImportRequest:
    """The request with the overlap of these files, where their batch is still to be made, and the tables told what the
    criteria of their guideline are called.
    """
    batch = Batch.objects.select_related("guideline").filter(name=request.batch).first()
    if batch is None and not request.guideline:
        return request
    document = (batch.guideline if batch is not None else get_guideline(str(request.guideline))).document
    tables = [source for source, format_name in files if format_name == table.NAME]
    for source in tables:
        source.options = add_wording(source.options, document)
    is_named = request.overlap is not None or request.policy.plan == "open"
    if batch is not None or is_named:
        return request
    return replace(request, counted=LabelFiles(files))


@dataclass(frozen=True)
class ImportTarget:
    """The batch that the labels go into. ``dataset`` None means whichever datasets the batch is of.

    A new batch is a draft: it opens when the people who labelled in it are its members.
    """

    batch: Batch
    dataset: Dataset | None
    is_new: bool


def find_or_make_batch(request: ImportRequest, intake: Intake) -> ImportTarget:
    """The batch, locked so that two files for it go one after the other."""
    batch = (
        Batch.objects.select_for_update(no_key=True, of=("self",))
        .select_related("guideline")
        .filter(name=request.batch)
        .first()
    )
    if batch is not None:
        _refuse_other_guideline(batch, request)
        _refuse_other_policy(batch, request)
    if intake.form.complete:
        return _import_content(batch, request, intake)
    if batch is None and request.dataset and request.guideline and holds_responses(intake):
        document, source = get_guideline(request.guideline).document, table.read_as(intake.source, RESPONSES)
        _import_responses(
            replace(intake, document=document, source=source), intake.get_or_make_dataset(request.dataset)
        )
    dataset = get_dataset(request.dataset) if request.dataset else None
    if batch is not None:
        return ImportTarget(batch=batch, dataset=dataset, is_new=False)
    return _make_batch(request, dataset, intake)


def holds_responses(intake: Intake) -> bool:
    """Whether the table of labels has the prompts and the responses beside them, as one spreadsheet for all has."""
    if intake.form.name != table.NAME:
        return False
    fields = table.map_table(table.read_as(intake.source, RESPONSES), RESPONSES).mapping.columns
    return {"response", MESSAGES} & fields.keys() != set()


def _refuse_other_guideline(batch: Batch, request: ImportRequest) -> None:
    if request.guideline and get_guideline(request.guideline) != batch.guideline:
        raise Conflict(
            N_("The batch {name} follows {guideline}, not {other}."),
            name=batch.name,
            guideline=str(batch.guideline),
            other=request.guideline,
        )


def _refuse_other_policy(batch: Batch, request: ImportRequest) -> None:
    policy = request.build_policy()
    for name in sorted(request.stated):
        if getattr(batch, name) != getattr(policy, name):
            raise Conflict(
                N_("The batch {name} is there already, and its {term} is {known}, not {other}; it stays so."),
                name=batch.name,
                term=name,
                known=getattr(batch, name),
                other=getattr(policy, name),
            )


def _make_batch(request: ImportRequest, dataset: Dataset | None, intake: Intake) -> ImportTarget:
    """A batch of all the dataset's responses, as ``create_batch`` makes it; its people come with the file."""
    if dataset is None or not request.guideline:
        raise AssayError(
            N_("No batch is named {name}. To make it, name its guideline and its dataset."),
            name=request.batch,
        )
    guideline = get_guideline(request.guideline).pk

    def make(policy: Policy) -> Batch:
        spec = BatchSpec(
            name=request.batch,
            guideline=guideline,
            dataset=dataset.pk,
            collection=request.slates,
            open_now=False,
            policy=policy,
        )
        return create_batch(spec, actor=intake.run.actor)

    if request.counted is None:
        batch = make(request.build_policy())
    else:
        batch = _make_while_counting(request.counted, request, make)
    intake.report.add_made("batches")
    intake.report.add_made("tasks", batch.tasks.count())
    return ImportTarget(batch=batch, dataset=dataset, is_new=True)


def _make_while_counting(files: LabelFiles, request: ImportRequest, make: Callable[[Policy], Batch]) -> Batch:
    """The files are read while the database makes the batch for the fewest people; for more, it is made anew."""
    fewest = replace(request, overlap=FEWEST_PEOPLE).build_policy()
    with ThreadPoolExecutor(1, "count-people") as executor, transaction.atomic():
        counting = executor.submit(lambda: files.overlap)
        batch = make(fewest)
        overlap = counting.result()
        is_enough = overlap == FEWEST_PEOPLE
        transaction.set_rollback(not is_enough)
    return batch if is_enough else make(replace(request, overlap=overlap).build_policy())


def _import_content(batch: Batch | None, request: ImportRequest, intake: Intake) -> ImportTarget:
    """The file brings everything: the dataset, its prompts and responses, and the batch with a task for each."""
    model = intake.get_model_name(1, None)
    target = ImportTarget(
        batch=batch or _make_complete_batch(request, intake),
        dataset=intake.get_or_make_dataset(request.dataset or intake.form.name),
        is_new=batch is None,
    )
    assert target.dataset is not None
    _import_responses(intake, target.dataset)
    responses_of_model = filter_responses(
        dataset=target.dataset, models=list(EvaluatedModel.objects.filter(name=model)), collection=""
    )
    missing = responses_of_model.exclude(tasks__batch=target.batch)
    made = add_tasks(batch=target.batch, responses=missing)
    intake.report.add_made("tasks", made)
    return target


def _import_responses(intake: Intake, dataset: Dataset) -> None:
    report = ImportReport(kind=RESPONSES, format=intake.form.name, file=intake.source.name)
    store_responses(replace(intake, report=report, run=PLAIN), dataset)
    intake.problems.refuse_any()
    intake.report.add_made("responses", report.imported)
    if intake.form.complete:
        intake.report.include(report)
        return
    # What of the file is no response is read again as labels: only then is it used or left out.
    for kind, number in report.made.items():
        intake.report.add_made(kind, number)


def _make_complete_batch(request: ImportRequest, intake: Intake) -> Batch:
    guideline = _get_or_load_guideline(request.guideline or intake.form.name, intake)
    intake.report.add_made("batches")
    if request.counted is not None:
        request = replace(request, overlap=request.counted.overlap)
    return create_empty_batch(
        name=request.batch,
        study=find_or_make_study(actor=intake.run.actor),
        guideline=guideline,
        policy=request.build_policy(),
        actor=intake.run.actor,
    )


def _get_or_load_guideline(reference: str, intake: Intake) -> Guideline:
    """The one asked for; the format's own is loaded where nobody has loaded one of that name yet."""
    own = intake.form.name
    if reference == own and not Guideline.objects.filter(name=own).exists():
        intake.report.add_made("guidelines")
        return load_guideline(
            text=read_shipped(own), path=f"{own}.yaml", publish=True, actor=intake.run.actor
        )
    return get_guideline(reference)
