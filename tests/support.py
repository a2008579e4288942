"""What tests build with. Everything goes through the product's own services."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from uuid import uuid4

from django.apps import apps
from django.db import connection

from annotation.content import response_sha256
from annotation.models import (
    Assignment,
    Batch,
    Collection,
    Dataset,
    DisputeReason,
    EvaluatedModel,
    Guideline,
    Person,
    Prompt,
    Response,
)
from annotation.services.adjudications import adjudicate, record_verdict
from annotation.services.annotations import Receipt, Work, submit
from annotation.services.batches import Policy, create_batch
from annotation.services.distribution import next_assignment, next_dispute
from annotation.services.guidelines import load_guideline

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


@dataclass(frozen=True)
class GuidelineFile:
    path: Path

    def load(self) -> Guideline:
        text = self.path.read_text(encoding="utf-8")
        return load_guideline(text=text, path=str(self.path), publish=True)


XSTEST_GUIDELINE = GuidelineFile(FIXTURES / "guidelines" / "xstest.yaml")
FLAMES_GUIDELINE = GuidelineFile(FIXTURES / "guidelines" / "flames.yaml")


def put_in_reasons() -> None:
    """As the migration does, where there is none."""
    if not DisputeReason.objects.exists():
        import_module("annotation.migrations.0008_dispute_reasons").fill(
            apps, connection.schema_editor(atomic=False)
        )


def make_corpus(
    *,
    prompts: int,
    models: Sequence[str],
    name: str = "small",
    dimensions: Sequence[str] = ("safe", "unsafe"),
) -> Dataset:
    """``prompts`` prompts, their dimensions in turn, and one response of each model to each."""
    dataset = Dataset.objects.create(name=name)
    collection, _created = Collection.objects.get_or_create(name="")
    evaluated = [EvaluatedModel.objects.get_or_create(name=model)[0] for model in models]
    for number in range(prompts):
        prompt = Prompt.objects.create(
            dataset=dataset,
            key=f"p{number}",
            text=f"Question number {number}?",
            dimension=dimensions[number % len(dimensions)],
        )
        for place, model in enumerate(evaluated):
            text = f"Answer {place} to question {number}."
            Response.objects.create(
                prompt=prompt, model=model, collection=collection, text=text, sha256=response_sha256(text, [])
            )
    return dataset


def make_batch(
    guideline: Guideline,
    dataset: Dataset,
    *,
    annotators: Sequence[Person],
    adjudicators: Sequence[Person] = (),
    name: str = "first",
    pairs: Sequence[Sequence[Person]] = (),
    policy: Policy | None = None,
) -> Batch:
    """Without second readings, which a draw decides: a test that is about them sets their share."""
    batch = create_batch(
        name=name,
        guideline=guideline,
        dataset=dataset,
        annotators=annotators,
        adjudicators=adjudicators,
        pairs=pairs,
        policy=policy or Policy(),
    )
    Batch.objects.filter(pk=batch.pk).update(second_reading_share=0)
    return batch


def label(assignment: Assignment, person: Person, value: int, criterion: str = "compliance") -> Receipt:
    work = Work(labels={criterion: value})
    return submit(assignment_id=assignment.pk, person=person, key=str(uuid4()), work=work)


def label_next(batch: Batch, person: Person, value: int, criterion: str = "compliance") -> Receipt | None:
    """Claim and submit; None when nothing is left for the person."""
    assignment = next_assignment(batch=batch, person=person)
    return None if assignment is None else label(assignment, person, value, criterion)


def decide_next(batch: Batch, person: Person, value: int, criterion: str = "compliance") -> Receipt | None:
    assignment = next_dispute(batch=batch, person=person)
    return None if assignment is None else decide(assignment, person, value, criterion)


def decide(
    assignment: Assignment,
    person: Person,
    value: int,
    criterion: str = "compliance",
    *,
    reason: str = "reading_slip",
) -> Receipt:
    """A verdict first, and then the decision, which is the same."""
    labels = {criterion: value}
    record_verdict(assignment_id=assignment.pk, person=person, work=Work(labels))
    work = Work(labels, rationale="decided", reason=reason)
    return adjudicate(assignment_id=assignment.pk, person=person, key=str(uuid4()), work=work)
