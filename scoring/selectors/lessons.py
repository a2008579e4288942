"""What a release teaches: its labelled responses as examples, and what single annotators had said of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from annotation.errors import N_, AssayError
from annotation.guidelines.values import as_number
from annotation.models import ADJUDICATION_SLOT, Annotation, Assignment, GoldRelease, Guideline, Response
from annotation.splits import split_of
from scoring.dataset import Example, Head, Value, transcript

CHUNK = 1000

Labels = dict[str, Value]


def guideline_of(release: GoldRelease) -> Guideline:
    """The guideline that a scorer of the release learns: of several versions, the one published last."""
    found = list(
        Guideline.objects.filter(batches__releases=release).distinct().order_by("published_at", "pk")
    )
    names = sorted({guideline.name for guideline in found})
    if len(names) != 1:
        raise AssayError(
            N_("A scorer learns one guideline; {release} has labels of {count}: {names}."),
            release=release.name,
            count=len(names),
            names=", ".join(names) or "-",
        )
    return found[-1]


def heads_of(guideline: Guideline) -> tuple[Head, ...]:
    """A head for each criterion, with every value of its scale (each whole number of a range)."""
    return tuple(
        Head(criterion.name, criterion.values, criterion.measurement)
        for criterion in guideline.document.criteria
    )


@dataclass(frozen=True)
class Lesson:
    """``responses`` are the ids of the examples' responses, in the same order.

    ``left_out`` counts labels of an older version of the guideline that are not on this version's scales.
    """

    examples: list[Example]
    responses: list[int]
    heads: tuple[Head, ...]
    left_out: int


def lesson_of(release: GoldRelease, guideline: Guideline) -> Lesson:
    """The examples in an order that depends on their content alone, so that any machine learns the same."""
    heads = heads_of(guideline)
    labels, left_out = _labels(release, heads)
    found = sorted(_examples(release, labels), key=lambda pair: (pair[0].key, pair[0].content_key))
    return Lesson([one for one, _pk in found], [pk for _one, pk in found], heads, left_out)


def _labels(release: GoldRelease, heads: Sequence[Head]) -> tuple[dict[int, Labels], int]:
    """By response; where two versions of the guideline asked the same, the newer one's answer."""
    scales = {head.criterion: head.values for head in heads}
    labels: dict[int, Labels] = defaultdict(dict)
    left_out = 0
    rows = release.items.order_by("task__batch__guideline__published_at", "pk").values_list(
        "task__response_id", "criterion", "value"
    )
    for response, criterion, value in rows.iterator(chunk_size=CHUNK):
        number = as_number(value)
        if number is not None and number in scales.get(criterion, ()):
            labels[response][criterion] = number
        else:
            left_out += 1
    return dict(labels), left_out


_FIELDS = (
    "pk",
    "prompt__dataset__name",
    "prompt__key",
    "prompt__text",
    "prompt__dimension",
    "prompt__subcomponent",
    "model__name",
    "collection__name",
    "text",
    "turns",
)


def _examples(release: GoldRelease, labels: Mapping[int, Labels]) -> Iterator[tuple[Example, int]]:
    responses = Response.objects.filter(pk__in=release.items.values("task__response"))
    for row in responses.values_list(*_FIELDS).iterator(chunk_size=CHUNK):
        pk, dataset, key, prompt, dimension, kind, model, collection, text, turns = row
        if pk in labels:
            example = Example(
                key=" ".join(part for part in (f"{dataset}/{key}", model, collection) if part),
                prompt_key=f"{dataset}/{key}",
                prompt=prompt,
                response=spoken(text, turns),
                model=model,
                dimension=dimension or None,
                labels=labels[pk],
                kind=kind or None,
                split=split_of(dataset, key),
            )
            yield example, pk


def spoken(text: str, turns: Sequence[Mapping[str, str]]) -> str:
    """What a scorer reads of a response: its text, or the transcript of a dialogue."""
    return transcript((turn["role"], turn["text"]) for turn in turns) if turns else text


def example_of(response: Response) -> Example:
    """A response without labels, to be predicted."""
    return Example(
        key=str(response.pk),
        prompt_key=str(response.prompt_id),
        prompt=response.prompt.text,
        response=spoken(response.text, response.turns),
        dimension=response.prompt.dimension or None,
    )


def annotations_behind(release: GoldRelease, heads: Sequence[Head]) -> dict[int, list[Labels]]:
    """By response, what each of its annotators said alone: a list for every task in the release, slot by slot.

    A response that two tasks of the release hold has the annotations of both, one after the other.
    """
    scales = {head.criterion: head.values for head in heads}
    said: dict[int, list[Labels]] = defaultdict(list)
    rows = (
        Annotation.objects.filter(
            current=True,
            assignment__state=Assignment.State.SUBMITTED,
            assignment__slot__lt=ADJUDICATION_SLOT,
            assignment__task__in=release.items.values("task"),
        )
        .order_by("assignment__task_id", "assignment__slot")
        .values_list("assignment__task__response_id", "labels")
    )
    for response, labels in rows.iterator(chunk_size=CHUNK):
        numbers = {criterion: as_number(value) for criterion, value in labels.items()}
        said[response].append({c: n for c, n in numbers.items() if n is not None and n in scales.get(c, ())})
    return dict(said)
