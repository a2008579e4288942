"""Gold releases: what would enter one, what is in one, and who may open it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db.models import Count, Q, QuerySet

from annotation.adjudication import ADJUDICATED
from annotation.errors import N_, Forbidden, NotFound
from annotation.gold import SettledLabel, number
from annotation.goldfile import GoldRow
from annotation.models import Batch, GoldLabel, GoldRelease, Person, ReleasedLabel, Response, Task
from annotation.selectors.blindness import refuse_sealed, sealed_batches, sealed_datasets

CHUNK = 1000


def release_named(name: str) -> GoldRelease:
    found = GoldRelease.objects.filter(name=name).first()
    if found is None:
        known = ", ".join(GoldRelease.objects.values_list("name", flat=True)[:20]) or "-"
        raise NotFound(N_("No gold release is named {name}; known are: {known}."), name=name, known=known)
    return found


def refuse_sealed_gold(person: Person, batches: Iterable[Batch]) -> None:
    """Forbidden where a batch is sealed for the person, or they judge responses of the same dataset blind."""
    chosen = [batch.pk for batch in batches]
    refuse_sealed(person, Batch.objects.filter(pk__in=chosen))
    sealed = sealed_datasets(person).filter(strata__batch__in=chosen).first()
    if sealed is not None:
        raise Forbidden(
            N_("You judge responses of {name} blind now: this opens for you when your batch closes."),
            name=sealed.name,
        )


def release_for(person: Person, name: str) -> GoldRelease:
    """The release, if the person may open it."""
    release = release_named(name)
    refuse_sealed_gold(person, release.batches.all())
    return release


@dataclass(frozen=True)
class Listed:
    """A release as its list shows it; of a ``sealed`` one nothing but its name is shown."""

    release: GoldRelease
    batches: tuple[str, ...]
    sealed: bool


def releases_for(person: Person) -> list[Listed]:
    sealed = set(sealed_batches(person).values_list("pk", flat=True))
    datasets = set(sealed_datasets(person).values_list("name", flat=True))
    releases = GoldRelease.objects.select_related("created_by").prefetch_related("batches")
    return [
        Listed(
            release=release,
            batches=tuple(sorted(batch.name for batch in release.batches.all())),
            sealed=not sealed.isdisjoint(batch.pk for batch in release.batches.all())
            or not datasets.isdisjoint(release.manifest.get("datasets", ())),
        )
        for release in releases
    ]


@dataclass(frozen=True)
class BatchChoice:
    """A batch that a release could take; the counts of a sealed one are None."""

    batch: Batch
    sealed: bool
    settled: int | None
    open: int | None
    disputed: int | None


def batch_choices(person: Person) -> list[BatchChoice]:
    """Every batch with its work tasks by state: settled (agreed or adjudicated), open and disputed."""
    sealed = set(sealed_batches(person).values_list("pk", flat=True))
    work = Q(tasks__kind=Task.Kind.WORK)
    batches = Batch.objects.select_related("guideline").annotate(
        settled_tasks=Count(
            "tasks", filter=work & Q(tasks__state__in=[Task.State.AGREED, Task.State.ADJUDICATED])
        ),
        open_tasks=Count("tasks", filter=work & Q(tasks__state=Task.State.OPEN)),
        disputed_tasks=Count("tasks", filter=work & Q(tasks__state=Task.State.DISPUTED)),
    )
    return [_choice(batch, sealed=batch.pk in sealed) for batch in batches]


def _choice(batch: Any, *, sealed: bool) -> BatchChoice:
    counts = (None, None, None) if sealed else (batch.settled_tasks, batch.open_tasks, batch.disputed_tasks)
    return BatchChoice(batch, sealed, *counts)


@dataclass(frozen=True)
class Candidate:
    """A gold label that may enter a release, with where it comes from."""

    label: SettledLabel
    gold_label: int
    task: int
    batch: str
    position: int
    adjudication: int | None
    dimension: str

    @property
    def order(self) -> tuple[bytes, str, int]:
        """Which of several equal labels is taken: the first in this order, the same on any machine."""
        return self.label.line, self.batch, self.position


_CANDIDATE = (
    "task__batch__guideline__name",
    "task__batch__guideline__version",
    "task__response__prompt__dataset__name",
    "task__response__prompt__key",
    "task__response__model__name",
    "task__response__sha256",
    "criterion",
    "value",
    "source",
    "pk",
    "task_id",
    "task__batch__name",
    "task__position",
    "task__adjudication__pk",
    "task__response__prompt__dimension",
)


def candidates(batches: Sequence[Batch]) -> Iterator[Candidate]:
    """The settled labels of the batches' work tasks, prompt by prompt. Withdrawn tasks are left out."""
    settled = GoldLabel.objects.filter(task__batch__in=batches, task__kind=Task.Kind.WORK)
    rows = settled.exclude(task__state=Task.State.WITHDRAWN).order_by("task__response__prompt_id", "pk")
    for row in rows.values_list(*_CANDIDATE).iterator(chunk_size=CHUNK):
        label = SettledLabel(*row[:9])
        gold_label, task, batch, position, adjudication, dimension = row[9:]
        decided = adjudication if label.source == ADJUDICATED else None
        yield Candidate(label, gold_label, task, batch, position, decided, dimension)


def release_criteria(release: GoldRelease) -> list[str]:
    """The criteria that the release has labels of, by name."""
    return sorted(release.items.order_by().values_list("criterion", flat=True).distinct())


def gold_rows(release: GoldRelease) -> Iterator[GoldRow]:
    """The rows of the gold file, in the order of guideline, version, dataset, prompt id, model and response.

    Labels of the same response that came from different tasks stand in one row.
    """
    contents = _contents(release)
    for start in range(0, len(contents), CHUNK // 2):
        part = contents[start : start + CHUNK // 2]
        tasks = [task for _content, ids in part for task in ids]
        labels = _labels_by_task(release, tasks)
        responses = _responses_by_task(tasks)
        for content, ids in part:
            yield _gold_row(content, responses[ids[0]], [label for task in ids for label in labels[task]])


def _contents(release: GoldRelease) -> list[tuple[tuple[str, ...], list[int]]]:
    """What was labelled, sorted by code points (no database's collation), with the tasks of each."""
    fields = [*_CANDIDATE[:6], "task_id"]
    rows = sorted(release.items.order_by().values_list(*fields).distinct())
    return [(content, [row[6] for row in same]) for content, same in groupby(rows, key=lambda row: row[:6])]


def _labels_by_task(release: GoldRelease, tasks: Sequence[int]) -> dict[int, list[tuple[str, float, str]]]:
    found: dict[int, list[tuple[str, float, str]]] = {task: [] for task in tasks}
    for label in release.items.filter(task__in=tasks).order_by("criterion"):
        found[label.task_id].append((label.criterion, label.value, label.source))
    return found


def _responses_by_task(tasks: Sequence[int]) -> Mapping[int, Response]:
    found = Task.objects.filter(pk__in=tasks).select_related("response__prompt")
    return {task.pk: task.response for task in found}


def _gold_row(
    content: tuple[str, ...], response: Response, labels: Sequence[tuple[str, float, str]]
) -> GoldRow:
    guideline, version, dataset, prompt, model, _sha256 = content
    return GoldRow(
        dataset=dataset,
        prompt_id=prompt,
        dimension=response.prompt.dimension,
        subcomponent=response.prompt.subcomponent,
        model=model,
        response=response.turns or response.text,
        labels={criterion: number(value) for criterion, value, _source in labels},
        sources={criterion: source for criterion, _value, source in labels},
        guideline=guideline,
        guideline_version=version,
    )


def released_labels(release: GoldRelease, filters: Mapping[str, str]) -> QuerySet[ReleasedLabel]:
    """The release's labels for reading, narrowed by any of criterion, source, model, dimension."""
    paths = {
        "criterion": "criterion",
        "source": "source",
        "model": "task__response__model__name",
        "dimension": "task__response__prompt__dimension",
    }
    chosen = {paths[name]: value for name, value in filters.items() if value}
    return (
        release.items.filter(**chosen)
        .select_related("task__response__prompt__dataset", "task__response__model", "task__batch__guideline")
        .order_by("task_id", "criterion")
    )
