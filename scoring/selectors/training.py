"""What a release teaches: its labelled responses as examples, and what single annotators had said of them.

The predictions that a scorer may give of what it was trained on: out of fold, kept beside its weights.

They are part of the scorer's folder, so that its hash covers them, and they are known by content: the same
prompt and response under another model, collection or dataset is what the scorer was trained on too.

What a scorer keeps beside its weights of what it has learned from, and of what it was tested on.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings

from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.storage import bucket, file_cache
from annotation.domain.guidelines.values import as_number
from annotation.domain.releases.splits import split_of
from annotation.models import (
    ADJUDICATION_SLOT,
    Annotation,
    Assignment,
    GoldRelease,
    Guideline,
    Response,
)
from scoring.backbones.folder import has_fingerprint
from scoring.domain.tables import AnnotatorLabels, tabulate_labels
from scoring.domain.training_data import (
    Example,
    Head,
    Value,
    level_name,
    prediction_from_json,
    prediction_to_json,
    transcript,
)
from scoring.domain.training_data import (
    Prediction as Predicted,
)
from scoring.models import Prediction, Scorer

CHUNK = 1000

Labels = dict[str, Value]


def get_release_guideline(release: GoldRelease) -> Guideline:
    """The guideline that a scorer of the release learns: of several versions, the one published last."""
    guidelines = list(
        Guideline.objects.filter(batches__releases=release).distinct().order_by("published_at", "pk")
    )
    names = sorted({guideline.name for guideline in guidelines})
    if len(names) != 1:
        raise AssayError(
            N_("A scorer learns one guideline; {release} has labels of {count}: {names}."),
            release=release.name,
            count=len(names),
            names=", ".join(names) or "-",
        )
    return guidelines[-1]


def build_heads(guideline: Guideline) -> tuple[Head, ...]:
    """A head for each criterion, with every value of its scale (each whole number of a range)."""
    return tuple(
        Head(criterion.name, criterion.values, criterion.measurement)
        for criterion in guideline.document.countable_criteria
    )


@dataclass(frozen=True)
class TrainingSet:
    """``responses`` are the ids of the examples' responses, in the same order.

    ``left_out`` counts labels of an older version of the guideline that are not on this version's scales.
    """

    examples: list[Example]
    responses: list[int]
    heads: tuple[Head, ...]
    left_out: int


def build_training_set(release: GoldRelease, guideline: Guideline) -> TrainingSet:
    """The examples in an order that depends on their content alone, so that any machine learns the same."""
    heads = build_heads(guideline)
    labels, left_out = _read_labels(release, heads)
    rows = sorted(_build_examples(release, labels), key=lambda pair: (pair[0].key, pair[0].content_key))
    return TrainingSet([example for example, _pk in rows], [pk for _example, pk in rows], heads, left_out)


def _read_labels(release: GoldRelease, heads: Sequence[Head]) -> tuple[dict[int, Labels], int]:
    """By response; where two versions of the guideline asked the same, the newer one's answer."""
    scales = {head.criterion: head.values for head in heads}
    labels: dict[int, Labels] = defaultdict(dict)
    left_out = 0
    labelled = release.items.filter(value__isnull=False)  # nothing is learned of what is not applicable
    rows = labelled.order_by("task__batch__guideline__published_at", "pk").values_list(
        "task__response_id", "criterion", "value"
    )
    for response, criterion, value in rows.iterator(chunk_size=CHUNK):
        number = as_number(value)
        if number is not None and number in scales.get(criterion, ()):
            labels[response][criterion] = number
        else:
            left_out += 1
    same: dict[tuple[tuple[str, Value], ...], Labels] = {}  # the same labels are in memory once
    return {pk: same.setdefault(tuple(of_one.items()), of_one) for pk, of_one in labels.items()}, left_out


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


def _build_examples(release: GoldRelease, labels: Mapping[int, Labels]) -> Iterator[tuple[Example, int]]:
    responses = Response.objects.filter(pk__in=release.items.values("task__response"))
    same: dict[str, str] = {}  # each prompt is in memory once, however many responses it has
    for row in responses.values_list(*_FIELDS).iterator(chunk_size=CHUNK):
        pk, dataset, key, prompt, dimension, kind, model, collection, text, turns = row
        if pk in labels:
            prompt_key = same.setdefault(f"{dataset}/{key}", f"{dataset}/{key}")
            example = Example(
                key=" ".join(part for part in (prompt_key, model, collection) if part),
                prompt_key=prompt_key,
                prompt=same.setdefault(prompt, prompt),
                response=response_text(text, turns),
                model=sys.intern(model),
                dimension=sys.intern(dimension) or None,
                labels=labels[pk],
                kind=sys.intern(kind) or None,
                split=split_of(dataset, key),
            )
            yield example, pk


def response_text(text: str, turns: Sequence[Mapping[str, str]]) -> str:
    """What a scorer reads of a response: its text, or the transcript of a dialogue."""
    return transcript((turn["role"], turn["text"]) for turn in turns) if turns else text


def build_example(response: Response) -> Example:
    """A response without labels, to be predicted."""
    return Example(
        key=str(response.pk),
        prompt_key=str(response.prompt_id),
        prompt=response.prompt.text,
        response=response_text(response.text, response.turns),
        dimension=response.prompt.dimension or None,
        kind=response.prompt.subcomponent or None,
    )


def read_annotator_labels(release: GoldRelease, training_set: TrainingSet) -> AnnotatorLabels:
    """What each annotator of each example said alone: an entry for each, task by task and slot by slot.

    A response that two tasks of the release hold has the annotations of both, one after the other.
    """
    heads = training_set.heads
    scales = {head.criterion: head.values for head in heads}
    places = {response: place for place, response in enumerate(training_set.responses)}
    annotations = (
        Annotation.objects.filter(
            current=True,
            assignment__state=Assignment.State.SUBMITTED,
            assignment__slot__lt=ADJUDICATION_SLOT,
            assignment__task__in=release.items.values("task"),
        )
        .order_by("assignment__task_id", "assignment__slot")
        .values_list("assignment__task__response_id", "labels")
    )
    entries = (
        (places[response], _select_numbers(labels, scales))
        for response, labels in annotations.iterator(chunk_size=CHUNK)
        if response in places
    )
    parts = [(np.zeros(0, np.int64), tabulate_labels([], heads))]
    while chunk := list(islice(entries, CHUNK)):
        rows = np.array([row for row, _labels in chunk], np.int64)
        parts.append((rows, tabulate_labels((labels for _row, labels in chunk), heads)))
    rows, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(rows, kind="stable")
    return AnnotatorLabels(rows[order], labels[order])


def _select_numbers(labels: Mapping[str, object], scales: Mapping[str, Sequence[Value]]) -> Labels:
    """The answers that are levels of a scale."""
    numbers = {criterion: as_number(value) for criterion, value in labels.items()}
    return {c: n for c, n in numbers.items() if n is not None and n in scales.get(c, ())}


OUT_OF_FOLD = "out_of_fold.json"


@dataclass(frozen=True)
class OutOfFoldPredictions:
    """By content key: the fold, and the prediction of the model that had not seen it.

    A content of the release that no fold could predict is here with an empty prediction: it is not unseen.
    """

    predictions: Mapping[str, tuple[int, Predicted]]

    @staticmethod
    def save(folder: Path, contents: Iterable[tuple[str, tuple[int, Predicted]]]) -> None:
        """In the order of the keys; a content after another, since all at once would take hundreds of megabytes."""
        with (folder / OUT_OF_FOLD).open("w", encoding="utf-8") as file:
            between = "{"
            for key, (fold, predicted) in contents:
                row = {"fold": fold, "prediction": prediction_to_json(predicted)}
                file.write(f"{between}{json.dumps(key)}: {json.dumps(row)}")
                between = ", "
            file.write("}" if between == ", " else "{}")

    @classmethod
    def load(cls, folder: Path, heads: Sequence[Head]) -> OutOfFoldPredictions:
        rows: dict[str, Any] = json.loads((folder / OUT_OF_FOLD).read_text(encoding="utf-8"))
        return cls(
            {key: (row["fold"], prediction_from_json(row["prediction"], heads)) for key, row in rows.items()}
        )


PREDICTION_COLUMNS = ("response_id", "criterion", "value", "probabilities", "fold")


class PredictionRowBuilder:
    """Makes the rows of one scorer's predictions."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._document = scorer.guideline.document
        self._heads = {head.criterion: head for head in build_heads(scorer.guideline)}
        self._criteria_by_place: dict[tuple[str | None, str | None], list[str]] = {}
        heads = scorer.card.get("heads", {})
        self._unlearned = {name for name, head in heads.items() if head["state"] == "empty"}

    def list_criteria(self, dimension: str | None) -> list[str]:
        """The criteria that may be asked of a prompt of this dimension, whatever its subcomponent."""
        return [criterion.name for criterion in self._document.countable_for(dimension)]

    def list_expected_criteria(self, example: Example) -> list[str]:
        """Of those asked of its prompt the ones that the scorer had labels to learn."""
        return [name for name in self._list_asked(example) if name not in self._unlearned]

    def _list_asked(self, example: Example) -> list[str]:
        place = (example.dimension, example.kind)
        if place not in self._criteria_by_place:  # a guideline has few, and a release many responses
            criteria = self._document.countable_at(example.dimension, example.kind or "")
            self._criteria_by_place[place] = [criterion.name for criterion in criteria]
        return self._criteria_by_place[place]

    def build_rows(
        self, response: int, example: Example, predicted: Predicted, fold: int | None
    ) -> list[Prediction]:
        """A row for each applicable criterion that the scorer could predict."""
        return [
            Prediction(scorer=self._scorer, **dict(zip(PREDICTION_COLUMNS, values, strict=True)))
            for values in self.list_values(response, example, predicted, fold)
        ]

    def list_values(
        self, response: int, example: Example, predicted: Predicted, fold: int | None
    ) -> list[tuple[Any, ...]]:
        """The ``PREDICTION_COLUMNS`` of the same rows."""
        return [
            (
                response,
                name,
                self._heads[name].most_likely(predicted[name]),
                {level_name(value): p for value, p in predicted[name].items()},
                fold,
            )
            for name in self._list_asked(example)
            if name in predicted
        ]


TRAINED = "trained.json"
TESTED = "test.json"


@dataclass(frozen=True)
class TrainingRecord:
    """``learned`` are the contents that the scorer which is kept has learned from, by their keys.

    ``tested`` is what it said of the test split of its release when it was trained. A scorer of the first version
    wrote neither: it had learned from its whole release.
    """

    learned: frozenset[str]
    tested: Mapping[str, Predicted]

    @classmethod
    def load(cls, scorer: Scorer) -> TrainingRecord:
        """Raises AssayError where its files are gone or changed: what they say would be no evidence."""
        folder, heads = find_weights(scorer), build_heads(scorer.guideline)
        check_weights(folder, scorer.weights_sha256)
        learned = _read_json(folder / TRAINED)
        if learned is None:
            return cls(frozenset(_read_json(folder / OUT_OF_FOLD) or ()), {})
        tested = _read_json(folder / TESTED) or {}
        return cls(
            frozenset(learned),
            {key: prediction_from_json(prediction, heads) for key, prediction in tested.items()},
        )


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def find_weights(scorer: Scorer, *, afresh: bool = False) -> Path:
    """The folder with the scorer's weights, card and out-of-fold predictions on this host; of a bucket it is fetched
    and compared first, ``afresh`` even where this host has it. It need not be there where there is no bucket.
    """
    if not bucket.is_used() or not scorer.is_ready:
        return scorer.weights_folder
    path = scorer.weights_folder.relative_to(settings.ASSAY_DATA_DIR).as_posix()
    sha256 = scorer.weights_sha256
    if afresh:
        file_cache.forget(sha256)
    return file_cache.fetch_folder(
        scorer.list_names(path), sha256, lambda folder: has_fingerprint(folder, sha256)
    )


def check_weights(folder: Path, weights_sha256: str) -> None:
    """Weights that are not the registered ones are refused: no number may rest on them. Reads all of them."""
    if not folder.is_dir():
        raise AssayError(N_("The scorer's weights are not at {folder}."), folder=str(folder))
    if not has_fingerprint(folder, weights_sha256):
        raise Conflict(N_("The weights at {folder} are not those that were registered."), folder=str(folder))
