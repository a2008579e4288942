"""What an import looks up, a chunk at a time; which imports a manager may see; and the preview of an uploaded file.

The preview holds the first rows as they were read and the problems with their lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Max
from django.utils.translation import gettext

from annotation.core.errors import N_, InputError, NotFound
from annotation.domain.formats import (
    PROMPTS,
    AnnotationRecord,
    PromptRecord,
    PromptRef,
    Record,
    ResponseRecord,
    Source,
    get_format,
)
from annotation.models import (
    Assignment,
    Batch,
    Dataset,
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
    tasks = tasks.select_related("response__prompt", "response__model", "response__collection")
    if not texts:
        tasks = tasks.defer("response__text", "response__turns")
    return list(tasks.select_for_update(of=("self",)).order_by("pk"))


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


MAX_ROWS = 10
MAX_PROBLEMS = 100


@dataclass(frozen=True)
class Problem:
    """``line`` None concerns the whole file."""

    line: int | None
    field: str
    text: str


@dataclass
class Preview:
    """``count`` are the good records of the whole file; of the problems the first hundred are told."""

    rows: list[Mapping[str, Any]] = field(default_factory=list)
    count: int = 0
    problems: list[Problem] = field(default_factory=list)
    more_problems: int = 0
    unused: list[str] = field(default_factory=list)

    @property
    def filled(self) -> frozenset[str]:
        """The columns that say something in any of the rows; the others need no room."""
        names = {name for row in self.rows for name, value in row.items() if value}
        return frozenset(names | {"prompt_text"} if any(row["prompt"].text for row in self.rows) else names)


def build_source(upload: Import) -> Source:
    """The stored file, under the name that the person knows."""
    return Source(Path(settings.MEDIA_ROOT) / upload.path, upload.file_name)


def preview_upload(upload: Import, *, kind: str, format_name: str) -> Preview:
    """The whole file is read, a record at a time; nothing is looked up and nothing is written."""
    preview, source = Preview(), build_source(upload)
    for item in get_format(format_name).reader(kind).items(source):
        if isinstance(item, InputError):
            _add_problem(preview, item)
            continue
        preview.count += 1
        if len(preview.rows) < MAX_ROWS:
            preview.rows.append(_record_to_row(item))
    preview.unused = list(source.unused)
    return preview


def list_problems(upload: Import) -> list[Problem]:
    """What was wrong when the import was tried, in the reader's language."""
    return [
        Problem(
            problem["line"], problem["field"] or "", gettext(problem["template"]).format(**problem["params"])
        )
        for problem in upload.report.get("problems", [])
    ]


def list_import_notes(upload: Import) -> list[str]:
    return [gettext(note["template"]).format(**note["params"]) for note in upload.report.get("notes", [])]


def build_problem(error: InputError) -> Problem:
    return Problem(error.line, error.field or "", gettext(error.template).format(**error.params))


def _add_problem(preview: Preview, error: InputError) -> None:
    if len(preview.problems) < MAX_PROBLEMS:
        preview.problems.append(build_problem(error))
    else:
        preview.more_problems += 1


def _record_to_row(record: Record) -> dict[str, Any]:
    """A record for a table; the columns are the same for all rows of a kind."""
    if isinstance(record, PromptRecord):
        return {
            "line": record.line,
            "prompt": record.ref,
            "dimension": record.dimension,
            "subcomponent": record.subcomponent,
            "language": record.language,
            "attack_method": record.attack_method,
        }
    place = {
        "line": record.line,
        "prompt": record.ref,
        "model": record.model,
        "collection": record.collection,
    }
    if isinstance(record, ResponseRecord):
        return place | {"text": record.text, "turns": record.turns}
    is_annotation = isinstance(record, AnnotationRecord)
    return place | {
        "person": record.annotator if isinstance(record, AnnotationRecord) else record.adjudicator,
        "role": "annotator" if is_annotation else "adjudicator",
        "labels": record.labels,
        "rationale": record.rationale,
    }
