"""Slates, read: how many a set holds, and what stands on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection as Sized
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from django.db.models import Count, QuerySet

from annotation.domain.slates import group_entries
from annotation.models import Collection, Dataset, Response, SlateEntry, Task


@dataclass(frozen=True)
class PairCount:
    """How many slates of a set two models stand on together."""

    first: str
    second: str
    slates: int


@dataclass(frozen=True)
class SlateCounts:
    """A set of slates. ``sizes``: how many slates there are by their number of entries."""

    name: str
    dataset: str
    slates: int
    prompts: int
    sizes: tuple[tuple[int, int], ...]
    pairs: tuple[PairCount, ...]


def list_sets(dataset: Dataset) -> QuerySet[Collection]:
    """The sets of slates of a dataset's prompts, the newest first."""
    held = Response.objects.filter(prompt__dataset=dataset, slate__isnull=False)
    return Collection.objects.filter(pk__in=held.order_by().values("collection")).order_by("-pk")


def list_sources(dataset: Dataset) -> tuple[list[str], list[str]]:
    """The models that responded to its prompts, and the collections of their responses, by their names."""
    responses = Response.objects.filter(prompt__dataset=dataset, slate=None).order_by()
    models = responses.values_list("model__name", flat=True).distinct()
    collections = responses.values_list("collection__name", flat=True).distinct()
    return sorted(models), sorted(collections)


def count_slates(collection: Collection) -> SlateCounts:
    held = Response.objects.filter(collection=collection, slate__isnull=False).order_by()
    sizes = Counter(held.annotate(n=Count("slate__entries")).values_list("n", flat=True))
    pairs: Counter[tuple[str, str]] = Counter()
    entries = SlateEntry.objects.filter(slate__response__collection=collection)
    for sources in _group_sources(entries).values():
        pairs.update(
            (first, second) for first, second in combinations(sorted(model for model, _c in sources), 2)
        )
    return SlateCounts(
        name=collection.name,
        dataset=held.values_list("prompt__dataset__name", flat=True).first() or "",
        slates=sum(sizes.values()),
        prompts=held.values("prompt").distinct().count(),
        sizes=tuple(sorted(sizes.items())),
        pairs=tuple(PairCount(*pair, n) for pair, n in sorted(pairs.items())),
    )


def read_sources(slates: Sized[int]) -> dict[int, list[tuple[str, str]]]:
    """The model and the collection of each entry of these slates, by their names, in the slate's order."""
    return _group_sources(SlateEntry.objects.filter(slate__in=slates))


def _group_sources(entries: QuerySet[SlateEntry]) -> dict[int, list[tuple[str, str]]]:
    rows = entries.order_by("slate", "place").values_list(
        "slate", "response__model__name", "response__collection__name"
    )
    sources: dict[int, list[tuple[str, str]]] = {}
    for slate, model, collection in rows:
        sources.setdefault(slate, []).append((model, collection))
    return sources


@dataclass(frozen=True)
class EntryContent:
    """A response on a slate. ``messages`` are its turns in the order in which they were said; of a text it is one."""

    model: str
    collection: str
    messages: tuple[dict[str, str], ...]

    @property
    def text(self) -> str:
        return "\n\n".join(message["text"] for message in self.messages)


@dataclass(frozen=True)
class SlateContent:
    """A slate of a task, its entries in their order."""

    response: int
    sha256: str
    dataset: str
    prompt: str
    prompt_text: str
    entries: tuple[EntryContent, ...]


def read_slates(tasks: Sized[int]) -> dict[int, SlateContent]:
    """What stands on the slate of each of these tasks; nothing of a task of a single response."""
    rows = Task.objects.filter(pk__in=tasks, response__slate__isnull=False).select_related(
        "response__prompt__dataset"
    )
    held = {task.pk: task.response for task in rows}
    sources = read_sources({response.pk for response in held.values()})
    return {task: _build_content(response, sources[response.pk]) for task, response in held.items()}


def _build_content(response: Response, sources: Sequence[tuple[str, str]]) -> SlateContent:
    groups = group_entries(response.turns)
    return SlateContent(
        response=response.pk,
        sha256=response.sha256,
        dataset=response.prompt.dataset.name,
        prompt=response.prompt.key,
        prompt_text=response.prompt.text,
        entries=tuple(
            EntryContent(
                model,
                collection,
                tuple(
                    {name: response.turns[turn][name] for name in ("role", "text")} for turn in groups[place]
                ),
            )
            for place, (model, collection) in enumerate(sources, start=1)
        ),
    )
