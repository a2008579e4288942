"""Slates: made of the responses to the prompts of a dataset, as a named set of which a batch can be made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from django.db import transaction

from annotation.core.errors import N_, AssayError
from annotation.core.names import check_name
from annotation.domain.datasets import response_sha256
from annotation.domain.guidelines.entries import MIN_ENTRIES
from annotation.domain.slates import (
    EntryOrders,
    Pairs,
    build_turns,
    check_number,
    choose_sets,
    estimate_seconds,
    name_models,
)
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Collection, Dataset, EvaluatedModel, Person, Response, Slate, SlateEntry
from annotation.selectors.slates import PairCount, SlateCounts, count_slates
from annotation.services.audit import record

CHUNK = 2000


@dataclass(frozen=True)
class SlateSpec:
    """What slates are made of: the responses of several ``models`` of one collection, or those of one model, or of one
    each, of several ``collections``. ``pairs``: two at a time (``domain/slates.choose_sets``). ``keep_same``: slates
    whose responses are all equal are made, too; nobody can prefer any of them.
    """

    name: str
    dataset: Dataset
    models: Sequence[str] = ()
    collections: Sequence[str] = ()
    pairs: Pairs | None = None
    seed: int = 0
    keep_same: bool = False


@dataclass(frozen=True)
class MadeSlates:
    """How many prompts have no slate: ``incomplete`` because responses are missing, ``same`` because all are equal."""

    counts: SlateCounts
    incomplete: int
    same: int


@dataclass(frozen=True)
class SlatePlan:
    """What ``make_slates`` would make. ``seconds``: about how long one person takes to read and judge all of it."""

    slates: int
    prompts: int
    pairs: tuple[PairCount, ...]
    incomplete: int
    same: int
    seconds: float


Source = tuple[str, str]
"""A model and a collection, by their names."""


@dataclass(frozen=True)
class _ArrangedSlates:
    """The responses of each slate in its order; and how many prompts have none, and why."""

    slates: Sequence[Sequence[Response]]
    incomplete: int
    same: int


def plan_slates(spec: SlateSpec) -> SlatePlan:
    """Nothing is made; refused as ``make_slates`` would."""
    _refuse_known_name(spec)
    arranged = _arrange_slates(spec)
    pairs = Counter(
        pair for slate in arranged.slates for pair in combinations(sorted(r.model.name for r in slate), 2)
    )
    return SlatePlan(
        slates=len(arranged.slates),
        prompts=len({slate[0].prompt_id for slate in arranged.slates}),
        pairs=tuple(PairCount(*pair, n) for pair, n in sorted(pairs.items())),
        incomplete=arranged.incomplete,
        same=arranged.same,
        seconds=sum(
            estimate_seconds(turn["text"] for response in slate for turn in _list_turns(response))
            for slate in arranged.slates
        ),
    )


@transaction.atomic
def make_slates(spec: SlateSpec, *, actor: Person | None = None) -> MadeSlates:
    """The slates of a dataset, in a set of this name, which is new. Nothing is made where something is amiss.

    A prompt to which a response is missing gets no slate of it.
    """
    name = _refuse_known_name(spec)
    arranged = _arrange_slates(spec)
    collection = Collection.objects.create(name=name)
    write_slates(collection, arranged.slates, seed=spec.seed)
    record(
        actor=actor,
        verb=AnnotationVerb.MAKE_SLATES,
        target=f"slates:{name}",
        dataset=spec.dataset.name,
        slates=len(arranged.slates),
        seed=spec.seed,
    )
    return MadeSlates(count_slates(collection), arranged.incomplete, arranged.same)


def _refuse_known_name(spec: SlateSpec) -> str:
    name = check_name(spec.name)
    if Collection.objects.filter(name=name).exists():
        raise AssayError(N_("There is already a collection named {name}; choose another name."), name=name)
    return name


def _arrange_slates(spec: SlateSpec) -> _ArrangedSlates:
    responses = _read_responses(spec)
    sources = _list_sources(spec, responses)
    prompts = list(dict.fromkeys(prompt for prompt, _source in responses))
    orders = EntryOrders(spec.seed)
    slates: list[Sequence[Response]] = []
    same: set[int] = set()
    for prompt, side_by_side in choose_sets(sources, prompts, pairs=spec.pairs, seed=spec.seed):
        entries = [responses.get((prompt, source)) for source in orders.arrange(side_by_side)]
        complete = [entry for entry in entries if entry is not None]
        if len(complete) < len(entries):
            continue
        if not spec.keep_same and len({entry.sha256 for entry in complete}) == 1:
            same.add(complete[0].prompt_id)
        else:
            slates.append(complete)
    if not slates:
        raise AssayError(
            N_(
                "No prompt of {dataset} has a response of each; name models or collections that answered the same"
                " prompts."
            ),
            dataset=spec.dataset.name,
        )
    made = {entries[0].prompt_id for entries in slates}
    return _ArrangedSlates(slates, len(set(prompts) - made - same), len(same - made))


def write_slates(collection: Collection, slates: Sequence[Sequence[Response]], *, seed: int) -> list[Slate]:
    """A slate in the collection for each sequence of responses to one prompt, in this order."""
    models: dict[tuple[Source, ...], EvaluatedModel] = {}
    held: list[Response] = []
    for responses in slates:
        check_number(len(responses))
        turns = build_turns([_list_turns(response) for response in responses])
        held.append(
            Response(
                prompt=responses[0].prompt,
                model=_get_comparison(responses, models),
                collection=collection,
                turns=turns,
                sha256=response_sha256("", turns),
            )
        )
    Response.objects.bulk_create(held, batch_size=CHUNK)
    made = Slate.objects.bulk_create(
        [Slate(response=response, seed=seed) for response in held], batch_size=CHUNK
    )
    SlateEntry.objects.bulk_create(
        [
            SlateEntry(slate=slate, place=place, response=response)
            for slate, responses in zip(made, slates, strict=True)
            for place, response in enumerate(responses, start=1)
        ],
        batch_size=CHUNK,
    )
    return made


class StatedSlate(NamedTuple):
    """A slate that was made elsewhere: its prompt, what stands for its models, its set, and its entries' sources."""

    prompt: str
    model: str
    collection: str
    sources: tuple[Source, ...]


def add_slates(dataset: Dataset, stated: Sequence[StatedSlate]) -> None:
    """Slates of responses that are stored, as their entries are. One that is there stays as it is."""
    responses = {
        (response.prompt.key, response.model.name, response.collection.name): response
        for response in Response.objects.filter(
            prompt__dataset=dataset, prompt__key__in=[slate.prompt for slate in stated]
        ).select_related("prompt", "model", "collection")
    }
    for slate in stated:
        held = responses[slate.prompt, slate.model, slate.collection]
        made, created = Slate.objects.get_or_create(response=held, defaults={"seed": 0})
        if not created:
            continue
        entries = [responses[slate.prompt, *source] for source in slate.sources]
        SlateEntry.objects.bulk_create(
            SlateEntry(slate=made, place=place, response=response)
            for place, response in enumerate(entries, start=1)
        )
        held.model.parts.set({response.model for response in entries})


def _list_turns(response: Response) -> Sequence[Mapping[str, str]]:
    return response.turns or [{"role": "assistant", "text": response.text}]


def _get_comparison(
    responses: Sequence[Response], made: dict[tuple[Source, ...], EvaluatedModel]
) -> EvaluatedModel:
    """What stands for the models of these responses together."""
    sources = tuple(sorted((response.model.name, response.collection.name) for response in responses))
    if sources not in made:
        made[sources], created = EvaluatedModel.objects.get_or_create(name=name_models(sources))
        if created:
            made[sources].parts.set({response.model for response in responses})
    return made[sources]


def _read_responses(spec: SlateSpec) -> dict[tuple[int, Source], Response]:
    """The responses by prompt and source, in the order of the prompts."""
    responses = Response.objects.filter(prompt__dataset=spec.dataset, slate=None).filter(
        collection__name__in=list(spec.collections) or [""]
    )
    if spec.models:
        responses = responses.filter(model__name__in=list(spec.models))
    rows = responses.select_related("prompt", "model", "collection").order_by("prompt_id", "pk")
    return {
        (response.prompt_id, (response.model.name, response.collection.name)): response for response in rows
    }


def _list_sources(spec: SlateSpec, responses: Mapping[tuple[int, Source], Response]) -> list[Source]:
    sources = sorted({source for _prompt, source in responses})
    for names, kind in ((spec.models, 0), (spec.collections, 1)):
        missing = [name for name in names if name not in {source[kind] for source in sources}]
        if missing:
            raise AssayError(
                N_("The dataset {dataset} has no responses of {missing}; it has those of: {known}."),
                dataset=spec.dataset.name,
                missing=", ".join(missing),
                known=", ".join(_list_known(spec.dataset, kind)) or "-",
            )
    if spec.pairs is None or len(sources) < MIN_ENTRIES:
        check_number(len(sources))
    return sources


def _list_known(dataset: Dataset, kind: int) -> list[str]:
    field = ("model__name", "collection__name")[kind]
    rows = Response.objects.filter(prompt__dataset=dataset, slate=None).order_by(field)
    return [name or '""' for name in rows.values_list(field, flat=True).distinct()]
