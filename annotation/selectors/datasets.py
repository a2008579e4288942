"""Datasets with their sizes, their models and their collections."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet

from annotation.core.errors import N_, NotFound
from annotation.core.study_scope import build_study_filter
from annotation.models import (
    Batch,
    Collection,
    Dataset,
    DialogueFault,
    EvaluatedModel,
    Import,
    Person,
    Prompt,
    Response,
    Stratum,
)
from annotation.selectors.access import sealed_datasets, select_models

MAX_SOURCES = 50


def get_dataset(name: str) -> Dataset:
    dataset = Dataset.objects.filter(name=name).first()
    if dataset is None:
        known = ", ".join(Dataset.objects.values_list("name", flat=True)) or "-"
        raise NotFound(N_("There is no dataset named {name}; known are: {known}."), name=name, known=known)
    return dataset


def list_own_datasets() -> QuerySet[Dataset]:
    """Those of the studies in question, into which data can be imported; none that another study shares."""
    return Dataset.objects.filter(**build_study_filter("study"))


def has_responses() -> bool:
    return Response.objects.filter(prompt__dataset__in=Dataset.objects.all()).exists()


def get_models(names: list[str]) -> list[EvaluatedModel]:
    """The evaluated models of these names, in this order; an unknown name is an error."""
    models = {model.name: model for model in select_models().filter(name__in=names)}
    unknown = [name for name in names if name not in models]
    if unknown:
        known = ", ".join(select_models().values_list("name", flat=True)) or "-"
        raise NotFound(
            N_("There is no evaluated model named {names}; known are: {known}."),
            names=", ".join(unknown),
            known=known,
        )
    return [models[name] for name in dict.fromkeys(names)]


@dataclass(frozen=True)
class DatasetRow:
    dataset: Dataset
    prompts: int
    responses: int
    batches: int
    changed_at: datetime | None
    """When a file was last put in."""


def list_dataset_rows(rows: QuerySet[Dataset] | None = None) -> list[DatasetRow]:
    """These datasets, or all that are not archived, with their sizes; five queries. Nothing of a model; of slates only
    the responses that stand on them.
    """
    listed = Dataset.objects.filter(archived_at=None) if rows is None else rows
    datasets = list(listed.select_related("created_by"))
    ids = [dataset.pk for dataset in datasets]
    prompt_rows = Prompt.objects.filter(dataset__in=ids).order_by()
    prompts = dict(prompt_rows.values_list("dataset").annotate(n=Count("pk")))
    response_rows = Response.objects.filter(prompt__dataset__in=ids, slate=None).order_by()
    responses = dict(response_rows.values_list("prompt__dataset").annotate(n=Count("pk")))
    batch_rows = Stratum.objects.filter(dataset__in=ids).order_by()
    batches = dict(batch_rows.values_list("dataset").annotate(n=Count("batch", distinct=True)))
    imports = Import.objects.filter(options__dataset__in=[dataset.name for dataset in datasets]).order_by()
    changed = {
        (study, name): at
        for study, name, at in imports.values_list("study", "options__dataset").annotate(at=Max("created_at"))
    }
    return [
        DatasetRow(
            dataset,
            prompts.get(dataset.pk, 0),
            responses.get(dataset.pk, 0),
            batches.get(dataset.pk, 0),
            changed.get((dataset.study_id, dataset.name)),
        )
        for dataset in datasets
    ]


@dataclass(frozen=True)
class PartCount:
    name: str
    prompts: int
    responses: int


@dataclass(frozen=True)
class DatasetParts:
    """What a dataset holds. ``models`` is None where their names are sealed for the reader; ``sources`` are those with
    the most prompts, none where no prompt has one.
    """

    prompts: int
    responses: int
    dimensions: tuple[PartCount, ...]
    languages: tuple[PartCount, ...]
    sources: tuple[PartCount, ...]
    models: tuple[PartCount, ...] | None
    batches: tuple[Batch, ...]


def count_parts(dataset: Dataset, person: Person) -> DatasetParts:
    """The prompts and responses by dimension, language and source, the responses by model, and the batches on them. Of
    a model, ``prompts`` counts those that it has answered.
    """
    prompts = Prompt.objects.filter(dataset=dataset).order_by()
    responses = Response.objects.filter(prompt__dataset=dataset, slate=None).order_by()
    n, answers = Count("pk", distinct=True), Count("responses", filter=Q(responses__slate=None))
    rows = list(
        prompts.values_list("dimension", "language").annotate(n=n, answers=answers, last=Max("source"))
    )
    cells = [row[:4] for row in rows]
    sources: tuple[PartCount, ...] = ()
    if any(last_source for *_cell, last_source in rows):
        by_source = prompts.values_list("source").annotate(n=n, answers=answers).order_by("-n", "source")
        sources = tuple(PartCount(*row) for row in by_source[:MAX_SOURCES])
    models = None
    if not sealed_datasets(person).filter(pk=dataset.pk).exists():
        counted = responses.values_list("model__name").annotate(
            answered=Count("prompt", distinct=True), n=Count("pk")
        )
        models = tuple(PartCount(*row) for row in counted.order_by("model__name"))
    return DatasetParts(
        prompts=sum(n for *_names, n, _answers in cells),
        responses=sum(answers for *_names, answers in cells),
        dimensions=_sum_cells((dimension, n, answers) for dimension, _language, n, answers in cells),
        languages=_sum_cells((language, n, answers) for _dimension, language, n, answers in cells),
        sources=sources,
        models=models,
        batches=tuple(
            Batch.objects.filter(Exists(Stratum.objects.filter(batch=OuterRef("pk"), dataset=dataset)))
        ),
    )


def _sum_cells(cells: Iterable[tuple[str, int, int]]) -> tuple[PartCount, ...]:
    sums: dict[str, list[int]] = {}
    for name, prompts, responses in cells:
        part = sums.setdefault(name, [0, 0])
        part[0] += prompts
        part[1] += responses
    return tuple(PartCount(name, *part) for name, part in sorted(sums.items()))


def list_prompt_languages() -> list[str]:
    """The languages that prompts say they are in."""
    prompts = Prompt.objects.filter(dataset__in=Dataset.objects.all()).exclude(language="")
    return list(prompts.order_by("language").values_list("language", flat=True).distinct())


def list_models(dataset: Dataset) -> QuerySet[EvaluatedModel]:
    """Those that responded; not what stands for the models of slates."""
    return EvaluatedModel.objects.filter(
        Exists(Response.objects.filter(prompt__dataset=dataset, model=OuterRef("pk"))), parts=None
    )


def list_collections(dataset: Dataset) -> QuerySet[Collection]:
    return Collection.objects.filter(
        Exists(Response.objects.filter(prompt__dataset=dataset, collection=OuterRef("pk")))
    )


def has_faults(dataset: Dataset) -> bool:
    """Whether a dialogue of the dataset has a fault."""
    return DialogueFault.objects.filter(response__prompt__dataset=dataset).exists()
