"""What tests build with. Everything goes through the product's own services."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.apps import apps
from django.db import connection

from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.domain.datasets import response_sha256
from annotation.models import (
    Assignment,
    AuditEvent,
    Batch,
    Collection,
    Dataset,
    DisputeReason,
    EvaluatedModel,
    Guideline,
    Import,
    IntroductionReading,
    Person,
    Prompt,
    Response,
    Stratum,
    StudyMembership,
    Task,
)
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.annotations.submission import Receipt, submit
from annotation.services.assignments import claim_next_dispute, claim_next_task
from annotation.services.batches.batches import create_batch
from annotation.services.counts import add_member_counts
from annotation.services.guidelines import load_guideline
from annotation.services.people.people import add_person
from annotation.services.people.tokens import make_token
from annotation.services.studies import find_or_make_study

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
# Source distributions that ./run test downloads into its environment, for the data in them.
SOURCES = Path(sys.prefix) / "sources"


def examples(usual: int) -> int:
    """How many a property's test draws: so many, or ASSAY_EXAMPLES for a longer hunt than the suite has time for."""
    return int(os.environ.get("ASSAY_EXAMPLES", usual))


@dataclass(frozen=True)
class GuidelineFile:
    path: Path

    def load(self) -> Guideline:
        text = self.path.read_text(encoding="utf-8")
        return load_guideline(text=text, path=str(self.path), publish=True)


XSTEST_GUIDELINE = GuidelineFile(FIXTURES / "guidelines" / "xstest.yaml")
FLAMES_GUIDELINE = GuidelineFile(FIXTURES / "guidelines" / "flames.yaml")


@contextmanager
def without_audit_guard() -> Iterator[None]:
    """What the triggers of the audit trail refuse can be done, as by somebody who may change the database's schema."""
    tables = ("annotation_auditevent", "annotation_auditseal", "annotation_auditrewrite")
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # A table is altered only while none of its constraints waits to be checked.
            check = "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED"
            cursor.execute(check)
            for table in tables:
                cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            yield
            cursor.execute(check)
            for table in tables:
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
            return
        cursor.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN (%s, %s, %s)", tables
        )
        triggers = cursor.fetchall()
        for name, _text in triggers:
            cursor.execute(f"DROP TRIGGER {name}")
        yield
        for _name, text in triggers:
            cursor.execute(text)


def date_event(event: AuditEvent, at: datetime) -> None:
    """The event, as if it had been recorded at another time."""
    with without_audit_guard():
        AuditEvent.objects.filter(pk=event.pk).update(at=at)


def put_in_reasons() -> None:
    """As the migration does, where there is none."""
    if not DisputeReason.objects.exists():
        import_module("annotation.migrations.0008_dispute_reasons").fill(
            apps, connection.schema_editor(atomic=False)
        )


CAST: dict[str, tuple[str, ...]] = {
    "lin": ("annotator",),
    "chen": ("annotator",),
    "zhou": ("annotator",),
    "wu": ("adjudicator",),
    "ma": ("manager",),
    "he": ("researcher",),
    "stranger": (),
}


def person(name: str) -> Person:
    """The one of the cast, made where a fixture of the module did not."""
    existing = Person.objects.filter(username=name).first()
    return existing or add_person(name=name, roles=CAST[name], password=f"{name}-password")


def api_token(*, person: Person, scope: str = "manage") -> str:
    """A token of the person's own, by which a test's program speaks."""
    _token, text = make_token(person=person, name=uuid4().hex, scope=scope, days=1, actor=person)
    return text


def small_dataset() -> Dataset:
    """The dataset ``small``, made where it is not there."""
    existing = Dataset.objects.filter(name="small").first()
    return existing or make_corpus(prompts=4, models=["Secretive-7B", "Hidden-13B"])


def first_batch() -> Batch:
    """The batch ``first`` over the dataset ``small`` with lin, chen and zhou, and wu; made where it is not there."""
    existing = Batch.objects.filter(name="first").first()
    return existing or make_batch(
        XSTEST_GUIDELINE.load(),
        small_dataset(),
        annotators=[person(name) for name in ("lin", "chen", "zhou")],
        adjudicators=[person("wu")],
    )


def as_made_by_import(batch: Batch) -> Batch:
    """The batch, as if a file of labels had made it: its files may name people who work here."""
    made = {"taken": 0, "already_there": 0, "made": {"batches": 1}}
    Import.objects.create(
        study=batch.study, kind="annotations", format="jsonl", options={"batch": batch.name}, report=made
    )
    return batch


def add_role(person: Person, *roles: str) -> None:
    """Beside those that the person has, in the only study."""
    for role in roles:
        StudyMembership.objects.get_or_create(person=person, study=find_or_make_study(), role=role)


def make_corpus(
    *,
    prompts: int,
    models: Sequence[str],
    name: str = "small",
    dimensions: Sequence[str] = ("safe", "unsafe"),
) -> Dataset:
    """``prompts`` prompts, their dimensions in turn, and one response of each model to each."""
    dataset = Dataset.objects.create(study=find_or_make_study(), name=name)
    collection, _created = Collection.objects.get_or_create(name="")
    evaluated = [EvaluatedModel.objects.get_or_create(name=model)[0] for model in models]
    made = Prompt.objects.bulk_create(
        Prompt(
            dataset=dataset,
            key=f"p{number}",
            text=f"Question number {number}?",
            dimension=dimensions[number % len(dimensions)],
        )
        for number in range(prompts)
    )
    texts = [
        f"Answer {place} to question {number}." for number in range(prompts) for place in range(len(models))
    ]
    Response.objects.bulk_create(
        Response(
            prompt=prompt, model=model, collection=collection, text=text, sha256=response_sha256(text, [])
        )
        for (prompt, model), text in zip(product(made, evaluated), texts, strict=True)
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
    without_faults: bool = False,
) -> Batch:
    """Without repeat adjudications, which a draw decides: a test that is about them sets their share. Its people have
    read the guideline's introduction.
    """
    batch = create_batch(
        BatchSpec(
            name=name,
            guideline=guideline,
            dataset=dataset,
            annotators=annotators,
            adjudicators=adjudicators,
            pairs=pairs,
            policy=policy or Policy(),
            without_faults=without_faults,
        )
    )
    Batch.objects.filter(pk=batch.pk).update(second_reading_share=0)
    read_introduction(batch)
    return batch


def read_introduction(batch: Batch) -> None:
    """Everybody of the batch has read the introduction of its guideline: their first page is an item."""
    people = batch.memberships.values_list("person_id", flat=True).distinct()
    readings = [IntroductionReading(guideline=batch.guideline, person_id=person) for person in people]
    IntroductionReading.objects.bulk_create(readings, ignore_conflicts=True)


def label(assignment: Assignment, person: Person, value: int, criterion: str = "compliance") -> Receipt:
    work = Submission(labels={criterion: value})
    return submit(assignment_id=assignment.pk, person=person, key=str(uuid4()), work=work)


def label_next(batch: Batch, person: Person, value: int, criterion: str = "compliance") -> Receipt | None:
    """Claim and submit; None when nothing is left for the person."""
    assignment = claim_next_task(batch=batch, person=person)
    return None if assignment is None else label(assignment, person, value, criterion)


def decide_next(batch: Batch, person: Person, value: int, criterion: str = "compliance") -> Receipt | None:
    assignment = claim_next_dispute(batch=batch, person=person)
    return None if assignment is None else decide(assignment, person, value, criterion)


def make_repeat(dispute: Task, *, due_at: datetime, kind: str = "repeat") -> Task:
    """A decided dispute comes back to its adjudicator, or goes to a ``second``, whatever the draw says."""
    work = dispute.stratum
    same_level = {
        name: getattr(work, name) for name in ("batch_id", "dataset_id", "dimension", "language", "model_id")
    }
    stratum, _created = Stratum.objects.get_or_create(kind=kind, **same_level)
    member = dispute.batch.memberships.get(person=dispute.adjudication.assignment.person, role="adjudicator")
    add_member_counts({(member.pk, stratum.pk): {"disputed": 1}})
    return Task.objects.create(
        batch=dispute.batch,
        response=dispute.response,
        prompt=dispute.prompt,
        stratum=stratum,
        kind=kind,
        state=Task.State.DISPUTED,
        overlap=1,
        position=dispute.position,
        rank=dispute.position,
        repeats=dispute,
        due_at=due_at,
    )


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
    record_verdict(assignment_id=assignment.pk, person=person, work=Submission(labels))
    work = Submission(labels, rationale="decided", reason=reason)
    return adjudicate(assignment_id=assignment.pk, person=person, key=str(uuid4()), work=work)


NAMES_SINCE = {"KnownItem": "GoldQuestion", "Tally": "MemberCounts"}


class FormerApps:
    """The models of today under the names that a migration of before asks for."""

    def get_model(self, app: str, name: str) -> Any:
        return apps.get_model(app, NAMES_SINCE.get(name, name))
