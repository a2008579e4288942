"""A small release to learn from, made through the product's own services."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from annotation.domain.batch_spec import Policy
from annotation.domain.datasets import response_sha256
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    GoldRelease,
    Guideline,
    Person,
    Prompt,
    Response,
)
from annotation.services import jobs
from annotation.services.assignments import claim_next_task
from annotation.services.imports import ImportRequest, import_annotations
from annotation.services.releases import cut_release
from annotation.services.studies import find_or_make_study
from scoring.backbones.ngram import NgramBackbone
from scoring.domain import drift
from scoring.domain.evaluation import learning_curve
from scoring.domain.training_spec import TrainingSpec
from scoring.models import Scorer
from scoring.services import create_scorer, training
from tests.support import as_made_by_import, label, make_batch

TEXTS = {
    1: ("Sorry, I cannot help with that.", "I must refuse to answer this."),
    2: ("I would rather not, yet here is a hint.", "Only in part: I can say this much."),
    3: ("Sure! Here is how you do it.", "Of course, these are the steps."),
}
"""What responses of each level of compliance say."""

Level = Callable[[int, int], int]
"""The level of the response of the model (by place) to the prompt (by number)."""


def by_turns(prompt: int, model: int) -> int:
    return 1 + (prompt + model) % 3


def make_responses(
    *,
    prompts: int,
    models: Sequence[str],
    name: str = "learned",
    level: Level = by_turns,
    start: int = 0,
) -> Dataset:
    """Responses whose text tells their level: the n-th prompt is the same text in every dataset."""
    dataset = Dataset.objects.create(study=find_or_make_study(), name=name)
    collection, _created = Collection.objects.get_or_create(name="")
    evaluated = [EvaluatedModel.objects.get_or_create(name=model)[0] for model in models]
    numbers = range(start, start + prompts)
    questions = Prompt.objects.bulk_create(
        Prompt(
            dataset=dataset,
            key=f"p{number}",
            text=f"How do I do the thing {number}?",
            dimension=("safe", "unsafe")[number % 2],
        )
        for number in numbers
    )

    def response(number: int, prompt: Prompt, place: int) -> Response:
        wordings = TEXTS[level(number, place)]
        text = f"{wordings[number % len(wordings)]} ({number})"
        return Response(
            prompt=prompt,
            model=evaluated[place],
            collection=collection,
            text=text,
            sha256=response_sha256(text, []),
        )

    Response.objects.bulk_create(
        response(number, prompt, place)
        for number, prompt in zip(numbers, questions, strict=True)
        for place in range(len(evaluated))
    )
    return dataset


def true_level(response: Response) -> int:
    return next(level for level, texts in TEXTS.items() if response.text.startswith(texts))


def label_all(batch: Batch, person: Person, level: Callable[[Response], int] = true_level) -> None:
    while (assignment := claim_next_task(batch=batch, person=person)) is not None:
        label(assignment, person, level(assignment.task.response))


def make_release(
    guideline: Guideline,
    person: Person,
    *,
    name: str = "gold",
    prompts: int = 10,
    models: Sequence[str] = ("Secretive-7B", "Hidden-13B"),
    level: Level = by_turns,
) -> GoldRelease:
    """One annotator labels every response at its true level; the batch is closed by nobody.

    The labels come from a file: it is the product's shortest way to gold.
    """
    dataset = make_responses(prompts=prompts, models=models, name=f"{name}-data", level=level)
    batch = make_batch(
        guideline, dataset, annotators=[person], name=f"{name}-batch", policy=Policy(overlap=1)
    )
    as_made_by_import(batch)
    rows = [
        {
            "prompt_id": response.prompt.key,
            "model": response.model.name,
            "annotator": person.username,
            "labels": {"compliance": true_level(response)},
        }
        for response in Response.objects.filter(prompt__dataset=dataset).select_related("prompt", "model")
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "labels.jsonl")
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        import_annotations(source=Source(file), format="jsonl", request=ImportRequest(batch=batch.name))
    return cut_release(ReleaseSpec(name=name, batches=[batch]))


FOUND: dict[tuple[str, str], bytes] = {}
"""What this process has found already, by the name of the function and all that it was asked."""

WATCHING = frozenset({"report", "checkpoints"})
"""Options on which nothing that is found depends."""

Place = tuple[Any, str]
"""Where a function is looked up, and its name there."""
FIT: tuple[Place, ...] = ((NgramBackbone, "fit"),)
LEARNING: tuple[Place, ...] = (
    *FIT,
    (drift, "describe_models"),
    (learning_curve, "measure_learning_curve"),
    *(
        (training, name)
        for name in (
            "evaluate_grouped",
            "evaluate_leave_one_model_out",
            "measure",
            "measure_adaptation",
            "measure_annotators",
            "measure_between_annotators",
            "measure_majority",
            "measure_string_rules",
        )
    ),
)
"""The pure part of a training, nearly all of its time: what follows from texts, labels and seed alone."""


def find_once(patches: pytest.MonkeyPatch, places: Sequence[Place]) -> None:
    """What these functions found once in this process is recalled, a copy of it each time.

    Of a training the rest is done as ever: rows, files and the card are written anew.
    """
    for owner, name in places:
        patches.setattr(owner, name, _recalled(owner, name))


def _recalled(owner: Any, name: str) -> Callable[..., Any]:
    find = getattr(owner, name)

    def recalled(*arguments: Any, **options: Any) -> Any:
        key_options = {option: value for option, value in options.items() if option not in WATCHING}
        key = f"{owner.__name__}.{name}", repr((arguments, key_options))
        if key not in FOUND:
            FOUND[key] = pickle.dumps(find(*arguments, **options))
        return pickle.loads(FOUND[key])  # noqa: S301

    return recalled


def trained(release: GoldRelease, name: str = "s", **options: Any) -> Scorer:
    """By the job that a worker would run."""
    scorer, job = create_scorer(TrainingSpec(name=name, release=release, **options), send=False)
    assert jobs.run_now(job).state == "done"
    scorer.refresh_from_db()
    return scorer


def change_weights(folder: Path) -> None:
    """One number of the embedded backbone's weights is another one now."""
    path = folder / "weights.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    name = next(name for name, array in arrays.items() if array.dtype.kind == "f" and array.size)
    arrays[name].flat[0] += 1
    np.savez(path, **arrays)
