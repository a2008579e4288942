"""What an import looks up, a chunk at a time, and which imports a manager may see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Max

from annotation.core.errors import N_, NotFound
from annotation.domain.formats import PROMPTS, PromptRef
from annotation.models import (
    Assignment,
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    Import,
    Job,
    Person,
    Prompt,
    Response,
    Task,
)
from annotation.selectors.access import sealed_batches, sealed_datasets

LATEST = 200


def find_prompts_by_key(dataset: Dataset, keys: Iterable[str]) -> dict[str, Prompt]:
    return {prompt.key: prompt for prompt in Prompt.objects.filter(dataset=dataset, key__in=set(keys))}


def find_prompts_by_text(dataset: Dataset, texts: Iterable[str]) -> dict[str, list[Prompt]]:
    """Texts need not be unique: the prompts that have each."""
    prompts: dict[str, list[Prompt]] = {}
    for prompt in Prompt.objects.filter(dataset=dataset, text__in=set(texts)).order_by("pk"):
        prompts.setdefault(prompt.text, []).append(prompt)
    return prompts


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


def lock_tasks(
    batch: Batch,
    datasets: Sequence[Dataset],
    *,
    refs: Iterable[PromptRef],
    models: Iterable[str],
    texts: bool,
) -> list[Task]:
    """The batch's tasks for these prompts and models, locked in the order of their ids.

    ``texts``: whether what was answered is read with them; it is long.
    """
    responses = Response.objects.filter(
        prompt__in=_find_prompt_ids(datasets, refs), model__name__in=set(models)
    )
    tasks = Task.objects.filter(batch=batch, kind=Task.Kind.WORK, response__in=responses.values("pk"))
    locked = list(tasks.select_for_update(of=("self",)).order_by("pk"))
    known = _read_responses({task.response_id for task in locked}, texts=texts)
    for task in locked:
        task.response = known[task.response_id]
    return locked


def _read_responses(ids: set[int], *, texts: bool) -> dict[int, Response]:
    """By id, those of one prompt, model or collection with the same object for it."""
    known = (Response.objects if texts else Response.objects.defer("text", "turns")).in_bulk(ids)
    prompts = Prompt.objects.in_bulk({response.prompt_id for response in known.values()})
    models = EvaluatedModel.objects.in_bulk({response.model_id for response in known.values()})
    collections = Collection.objects.in_bulk({response.collection_id for response in known.values()})
    for response in known.values():
        response.prompt = prompts[response.prompt_id]
        response.model = models[response.model_id]
        response.collection = collections[response.collection_id]
    return known


def _find_prompt_ids(datasets: Sequence[Dataset], refs: Iterable[PromptRef]) -> list[int]:
    """By id, which is indexed; what has none and is not known by its hash either is looked for by its text."""
    refs_by_key = {ref.key: ref for ref in refs}
    prompts = Prompt.objects.filter(dataset__in=datasets)
    keys = dict(prompts.filter(key__in=refs_by_key.keys()).values_list("pk", "key"))
    loose = (
        {ref.text for key, ref in refs_by_key.items() if not ref.id}
        if len(keys) < len(refs_by_key)
        else set()
    )
    by_text = prompts.filter(text__in=loose).values_list("pk", flat=True) if loose else ()
    return list({*keys, *by_text})


def list_visible_imports(person: Person) -> list[Import]:
    """The latest imports, but for those that would tell this person what they judge blind."""
    imports = Import.objects.select_related("job", "created_by").order_by("-id")[:LATEST]
    sealed = _SealedImports(person)
    return [upload for upload in imports if not sealed.hides(upload)]


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

    def hides(self, upload: Import) -> bool:
        if upload.kind == PROMPTS or not self._batches:
            return False
        if not upload.options:
            return upload.created_by_id != self._person.pk
        datasets = {upload.options.get("dataset"), *upload.options.get("datasets", ())}
        return upload.options.get("batch") in self._batches or not self._datasets.isdisjoint(datasets)


def is_made_by_import(batch: Batch) -> bool:
    """Whether a file of labels made the batch, so that it holds what was made elsewhere."""
    made = Import.objects.filter(options__batch=batch.name, report__made__batches__gte=1)
    return made.filter(kind=Import.Kind.ANNOTATIONS).exists()


def may_work(person: Person, batch: Batch) -> bool:
    """Whether the person can sign in, has a role here, or has worked in the batch themselves."""
    if person.has_usable_password() or person.is_superuser or person.groups.exists():
        return True
    return Assignment.objects.filter(batch=batch, person=person, imported=None).exists()


def has_running_job(upload: Import) -> bool:
    return upload.job is not None and upload.job.state in {Job.State.QUEUED, Job.State.RUNNING}
