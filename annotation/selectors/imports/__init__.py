"""What an import looks up, a chunk at a time, and which imports a manager may see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from django.db.models import Max, QuerySet

from annotation.core.errors import N_, AssayError, NotFound
from annotation.domain.formats import PROMPTS, PromptRef
from annotation.models import (
    Assignment,
    Batch,
    Dataset,
    Import,
    Job,
    Person,
    Prompt,
    Response,
)
from annotation.models.sql.imports import ImportTask, lock_import_tasks
from annotation.selectors.access import sealed_batches, sealed_datasets


def find_prompts_by_key(dataset: Dataset, keys: Iterable[str]) -> dict[str, Prompt]:
    return {prompt.key: prompt for prompt in Prompt.objects.filter(dataset=dataset, key__in=set(keys))}


def find_prompts_by_text(dataset: Dataset, texts: Iterable[str]) -> dict[str, list[Prompt]]:
    """Texts need not be unique: the prompts that have each."""
    prompts: dict[str, list[Prompt]] = {}
    for prompt in Prompt.objects.filter(dataset=dataset, text__in=set(texts)).order_by("pk"):
        prompts.setdefault(prompt.text, []).append(prompt)
    return prompts


def find_prompts_by_place(dataset: Dataset, places: Iterable[str]) -> dict[str, Prompt]:
    """Those at these places, from 0, in the order in which the dataset's prompts were imported.

    AssayError where prompts of several languages lie in it: each language has a file of its own, which counts from 0.
    """
    prompts = Prompt.objects.filter(dataset=dataset)
    languages = sorted(prompts.order_by().values_list("language", flat=True).distinct())
    if len(languages) > 1:
        raise AssayError(
            N_(
                "The dataset {dataset} has prompts in {languages}, so a place in a file means none of them; import each"
                " language into a dataset of its own."
            ),
            dataset=dataset.name,
            languages=", ".join(language or "-" for language in languages),
        )
    ids = list(prompts.order_by("pk").values_list("pk", flat=True))
    by_id = prompts.in_bulk({ids[int(place)] for place in places if int(place) < len(ids)})
    return {place: by_id[ids[int(place)]] for place in places if int(place) < len(ids)}


def find_newest_prompt() -> int:
    """The highest id so far: what lies above it was made later."""
    return Prompt.objects.aggregate(newest=Max("pk"))["newest"] or 0


def find_newest_response() -> int:
    return Response.objects.aggregate(newest=Max("pk"))["newest"] or 0


def find_responses(
    prompts: Iterable[int], models: Iterable[int], collections: Iterable[int]
) -> dict[tuple[int, int, int], tuple[str, int]]:
    """sha256 and id of the responses to these prompts, by prompt, model and collection."""
    rows = Response.objects.filter(
        prompt__in=set(prompts), model__in=set(models), collection__in=set(collections)
    ).values_list("prompt_id", "model_id", "collection_id", "sha256", "pk")
    return {(prompt, model, collection): (sha256, pk) for prompt, model, collection, sha256, pk in rows}


def list_datasets(batch: Batch) -> list[Dataset]:
    return list(Dataset.objects.filter(pk__in=batch.strata.order_by().values("dataset")))


TasksByName: TypeAlias = dict[tuple[str, str], list[ImportTask]]
"""The tasks on a response, by the name of its prompt, which is its key or its text, and the name of its model."""


def lock_tasks(
    batch: Batch, datasets: Sequence[Dataset], refs: Mapping[tuple[str, str], PromptRef]
) -> tuple[TasksByName, TasksByName]:
    """The batch's tasks on the responses to these prompts and of these models, locked: by key, and by text.

    ``refs`` by the key of the prompt and the name of the model.
    A prompt is looked for by its id, which is indexed; one that has none and is not known by its hash either, by its
    text.
    """
    ids = [dataset.pk for dataset in datasets]
    by_key: TasksByName = {}
    for task in lock_import_tasks(batch, ids, list(refs)):
        by_key.setdefault((task.prompt_key, task.model), []).append(task)
    models: dict[str, set[str]] = {}
    for (key, model), ref in refs.items():
        if not ref.id and (key, model) not in by_key:
            models.setdefault(ref.text, set()).add(model)
    return by_key, _lock_tasks_by_text(batch, datasets, models) if models else {}


def _lock_tasks_by_text(
    batch: Batch, datasets: Sequence[Dataset], models: Mapping[str, Iterable[str]]
) -> TasksByName:
    """``models`` are the names of those whose responses to a text are meant."""
    prompts = Prompt.objects.filter(dataset__in=datasets, text__in=models.keys())
    texts = dict(prompts.values_list("key", "text"))
    pairs = [(key, model) for key, text in texts.items() for model in models[text]]
    by_text: TasksByName = {}
    for task in lock_import_tasks(batch, [dataset.pk for dataset in datasets], pairs):
        by_text.setdefault((texts[task.prompt_key], task.model), []).append(task)
    return by_text


def read_response_texts(responses: Iterable[int]) -> dict[int, tuple[str, list[dict[str, str]]]]:
    """The text and the turns of each response, by its id."""
    rows = Response.objects.filter(pk__in=set(responses)).values_list("pk", "text", "turns")
    return {pk: (text, turns) for pk, text, turns in rows}


def list_visible_imports(person: Person) -> QuerySet[Import]:
    """The imports, but for those that would tell this person what they judge blind."""
    imports = Import.objects.select_related("job", "created_by")
    return imports.exclude(pk__in=_SealedImports(person).list_hidden())


def get_visible_import(person: Person, import_id: int) -> Import:
    upload = Import.objects.select_related("job", "created_by").filter(pk=import_id).first()
    if upload is None or _SealedImports(person).hides(upload):
        raise NotFound(N_("There is no such import."))
    return upload


class _SealedImports:
    """The imports that a person must not see yet: files of responses and labels name models and annotators. Their own
    upload tells them nothing new.
    """

    def __init__(self, person: Person) -> None:
        self._person = person
        self._batches = set(sealed_batches(person).values_list("name", flat=True))
        self._datasets = (
            set(sealed_datasets(person).values_list("name", flat=True)) if self._batches else set()
        )

    def list_hidden(self) -> list[int]:
        """The ids of them; without a query for who judges nothing blind."""
        if not self._batches:
            return []
        uploads = Import.objects.exclude(kind=PROMPTS).only("kind", "options", "created_by")
        return [upload.pk for upload in uploads if self.hides(upload)]

    def hides(self, upload: Import) -> bool:
        if upload.kind == PROMPTS or not self._batches:
            return False
        if not upload.options:
            return upload.created_by_id != self._person.pk
        datasets = {upload.options.get("dataset"), *upload.options.get("datasets", ())}
        return upload.options.get("batch") in self._batches or not self._datasets.isdisjoint(datasets)


def is_made_by_import(batch: Batch) -> bool:
    """Whether a file of labels made the batch, so that it holds what was made elsewhere."""
    made = Import.objects.filter(
        study=batch.study_id, options__batch=batch.name, report__made__batches__gte=1
    )
    return made.filter(kind=Import.Kind.ANNOTATIONS).exists()


def may_work(person: Person, batch: Batch) -> bool:
    """Whether the person can sign in, has a role here, or has worked in the batch themselves."""
    if person.has_usable_password() or person.is_superuser or person.study_memberships.exists():
        return True
    return Assignment.objects.filter(batch=batch, person=person, imported=None).exists()


def has_running_job(upload: Import) -> bool:
    return upload.job is not None and upload.job.state in {Job.State.QUEUED, Job.State.RUNNING}
