"""Datasets with their sizes, their models and their collections."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef, QuerySet

from annotation.core.errors import N_, NotFound
from annotation.core.study_scope import build_study_filter
from annotation.models import Collection, Dataset, EvaluatedModel, Prompt, Response
from annotation.selectors.access import select_models


def get_dataset(name: str) -> Dataset:
    dataset = Dataset.objects.filter(name=name).first()
    if dataset is None:
        known = ", ".join(Dataset.objects.values_list("name", flat=True)) or "-"
        raise NotFound(N_("There is no dataset named {name}; known are: {known}."), name=name, known=known)
    return dataset


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


def list_dataset_rows() -> list[DatasetRow]:
    """Every dataset with its size; two queries. Nothing of a model."""
    prompt_rows = Prompt.objects.filter(**build_study_filter("dataset__study")).order_by()
    prompts = dict(prompt_rows.values_list("dataset").annotate(n=Count("pk")))
    response_rows = Response.objects.filter(**build_study_filter("prompt__dataset__study")).order_by()
    responses = dict(response_rows.values_list("prompt__dataset").annotate(n=Count("pk")))
    return [
        DatasetRow(dataset, prompts.get(dataset.pk, 0), responses.get(dataset.pk, 0))
        for dataset in Dataset.objects.all()
    ]


def list_prompt_languages() -> list[str]:
    """The languages that prompts say they are in."""
    prompts = Prompt.objects.filter(**build_study_filter("dataset__study")).exclude(language="")
    return list(prompts.order_by("language").values_list("language", flat=True).distinct())


def list_models(dataset: Dataset) -> QuerySet[EvaluatedModel]:
    return EvaluatedModel.objects.filter(
        Exists(Response.objects.filter(prompt__dataset=dataset, model=OuterRef("pk")))
    )


def list_collections(dataset: Dataset) -> QuerySet[Collection]:
    return Collection.objects.filter(
        Exists(Response.objects.filter(prompt__dataset=dataset, collection=OuterRef("pk")))
    )
