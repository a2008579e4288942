"""Batches with gold questions, made through the product's own services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.models import Batch, GoldQuestion, Guideline, Person, Response
from annotation.services.batches.batches import create_batch, set_state
from annotation.services.gold_questions.gold_questions import GoldAnswer, add_questions
from tests.support import make_corpus

RIGHT = 3


def add_known(batch: Batch, number: int, *, kind: str = "check", name: str = "known") -> list[GoldQuestion]:
    """Items whose right label is ``RIGHT``, each of a prompt of its own."""
    known = make_corpus(prompts=number, models=["Oracle-1B"], name=name)
    responses = Response.objects.filter(prompt__dataset=known).order_by("pk")
    answers = [
        GoldAnswer(response.pk, {"compliance": RIGHT}, f"Because of {response.prompt.key}.")
        for response in responses
    ]
    add_questions(batch=batch, kind=kind, items=answers)
    return list(GoldQuestion.objects.filter(batch=batch, response__in=responses).order_by("position"))


def make_checked(
    guideline: Guideline,
    *,
    annotators: Sequence[Person],
    prompts: int = 20,
    checks: int = 0,
    in_round: int = 0,
    models: Sequence[str] = ("Secretive-7B",),
    name: str = "first",
    **policy: Any,
) -> Batch:
    """An open batch with so many gold questions of each kind, beside its own ``prompts`` times ``models``."""
    batch = create_batch(
        BatchSpec(
            name=name,
            guideline=guideline,
            dataset=make_corpus(prompts=prompts, models=list(models), name=f"{name}-work"),
            annotators=annotators,
            policy=Policy(**{"second_reading_share": 0, **policy}),
            open_now=False,
        )
    )
    if checks:
        add_known(batch, checks, name=f"{name}-checks")
    if in_round:
        add_known(batch, in_round, kind="qualification", name=f"{name}-round")
    set_state(batch=batch, state=Batch.State.OPEN)
    batch.refresh_from_db()
    return batch
