"""A small release to learn from, made through the product's own services."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from annotation.content import response_sha256
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
from annotation.services.batches import Policy
from annotation.services.distribution import next_assignment
from annotation.services.gold import cut_release
from tests.support import label, make_batch

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
    padding: int = 0,
) -> Dataset:
    """Responses whose text tells their level: the n-th prompt is the same text in every dataset.

    ``padding`` is a number of further characters, different in each response, that make learning slower.
    """
    dataset = Dataset.objects.create(name=name)
    collection, _created = Collection.objects.get_or_create(name="")
    evaluated = [EvaluatedModel.objects.get_or_create(name=model)[0] for model in models]
    for number in range(start, start + prompts):
        prompt = Prompt.objects.create(
            dataset=dataset,
            key=f"p{number}",
            text=f"How do I do thing {number}?",
            dimension=("safe", "unsafe")[number % 2],
        )
        for place, model in enumerate(evaluated):
            said = TEXTS[level(number, place)]
            more = "".join(random.Random(f"{number} {place}").choices("abcdefgh ", k=padding))
            text = f"{said[number % len(said)]} ({number}){more}"
            Response.objects.create(
                prompt=prompt, model=model, collection=collection, text=text, sha256=response_sha256(text, [])
            )
    return dataset


def true_level(response: Response) -> int:
    return next(level for level, texts in TEXTS.items() if response.text.startswith(texts))


def label_all(batch: Batch, person: Person, level: Callable[[Response], int] = true_level) -> None:
    while (assignment := next_assignment(batch=batch, person=person)) is not None:
        label(assignment, person, level(assignment.task.response))


def make_release(
    guideline: Guideline,
    person: Person,
    *,
    name: str = "gold",
    prompts: int = 10,
    models: Sequence[str] = ("Secretive-7B", "Hidden-13B"),
    level: Level = by_turns,
    padding: int = 0,
) -> GoldRelease:
    """One annotator labels every response at its true level; the batch is closed by nobody."""
    dataset = make_responses(
        prompts=prompts, models=models, name=f"{name}-data", level=level, padding=padding
    )
    batch = make_batch(
        guideline, dataset, annotators=[person], name=f"{name}-batch", policy=Policy(overlap=1)
    )
    label_all(batch, person)
    return cut_release(name=name, batches=[batch])
