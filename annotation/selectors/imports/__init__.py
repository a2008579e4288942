"""What an import looks up, a chunk at a time, and which imports a manager may see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

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


class ResponseName(NamedTuple):
    """How a file names a response: by the key of its prompt, its model and perhaps its collection.

    ``has_id``: the key is the file's, and not made of the prompt's text.
    """

    key: str
    has_id: bool
    model: str
    collection: str | None


def lock_tasks(
    batch: Batch, datasets: Sequence[Dataset], refs: Mapping[ResponseName, PromptRef], *, is_new: bool = False
) -> dict[ResponseName, list[ImportTask]]:
    """The batch's tasks on responses of each of these models to these prompts, of any collection, locked.

    ``is_new``: the transaction made the batch, whose tasks nobody else can lock.
    A prompt is looked for by its id, which is indexed; where the file has none and its hash is not known either, by
    its text.
    """
    lock = partial(lock_import_tasks, batch, [dataset.pk for dataset in datasets], is_new=is_new)
    by_key: dict[tuple[str, str], list[ImportTask]] = {}
    for task in lock(list({(name.key, name.model) for name in refs})):
        by_key.setdefault((task.prompt_key, task.model), []).append(task)
    tasks = {name: by_key.get((name.key, name.model), []) for name in refs}
    texts = {name: refs[name].text for name, group in tasks.items() if not group and not name.has_id}
    return tasks | _lock_tasks_by_text(lock, datasets, texts) if texts else tasks


def _lock_tasks_by_text(
    lock: Callable[[list[tuple[str, str]]], list[ImportTask]],
    datasets: Sequence[Dataset],
    texts: Mapping[ResponseName, str],
) -> dict[ResponseName, list[ImportTask]]:
    models: dict[str, set[str]] = {}
    for name, text in texts.items():
        models.setdefault(text, set()).add(name.model)
    prompts = Prompt.objects.filter(dataset__in=datasets, text__in=models.keys())
    text_by_key = dict(prompts.values_list("key", "text"))
    pairs = [(key, model) for key, text in text_by_key.items() for model in models[text]]
    by_text: dict[tuple[str, str], list[ImportTask]] = {}
    for task in lock(pairs):
        by_text.setdefault((text_by_key[task.prompt_key], task.model), []).append(task)
    return {name: by_text.get((text, name.model), []) for name, text in texts.items()}


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
