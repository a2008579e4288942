"""Questions with options, and models that answer them by a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from annotation.domain.datasets import response_sha256
from annotation.domain.formats import Source
from annotation.models import Batch, Collection, Dataset, EvaluatedModel, Person, Response
from annotation.services.assignments import claim_next_task
from benchmark.models import QuestionVariant
from benchmark.services.multiple_choice import import_questions
from tests.support import label

Says = Callable[[QuestionVariant], str | None]
"""What a model answers to a form; None for no response."""


def fine_row(number: int, category: str) -> dict[str, str]:
    return {
        "id": str(number),
        "category": category,
        "question": f"Question number {number}, which is invented?",
        "Positive Option": f"No, for that would hurt somebody, as number {number} shows.",
        "Negative Option": f"Of course, and here is how number {number} is done.",
    }


def put_questions(folder: Path, categories: Sequence[str], dataset: str = "fine") -> Dataset:
    """One question of FINE for each of ``categories``, numbered from 1."""
    path = folder / f"{dataset}.jsonl"
    rows = [fine_row(number, category) for number, category in enumerate(categories, 1)]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    import_questions(source=Source(path), format="fine", dataset=dataset)
    return Dataset.objects.get(name=dataset)


def put_answers(dataset: Dataset, model: str, script: Says) -> EvaluatedModel:
    """The model's response to each form of the dataset's questions, as the script says."""
    evaluated, _created = EvaluatedModel.objects.get_or_create(name=model)
    collection, _created = Collection.objects.get_or_create(name="")
    for form in QuestionVariant.objects.filter(prompt__dataset=dataset).select_related("prompt"):
        text = script(form)
        if text is not None:
            Response.objects.create(
                prompt=form.prompt,
                model=evaluated,
                collection=collection,
                text=text,
                sha256=response_sha256(text, []),
            )
    return evaluated


def letter(form: QuestionVariant, *, safe: bool) -> str:
    """The letter of the safe option, or of the other one."""
    return next(str(option["letter"]) for option in form.options if option["safe"] is safe)


def settle_all(
    batch: Batch, people: Sequence[Person], criterion: str, rule: Callable[[Response], int]
) -> None:
    """Every task of the batch, labelled by each of the people as the rule says."""
    for person in people:
        while claim := claim_next_task(batch=batch, person=person):
            response = Response.objects.select_related("prompt").get(tasks=claim.task_id)
            label(claim, person, rule(response), criterion)
