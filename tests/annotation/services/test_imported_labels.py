"""Labels that came from a file say so, down to the file, its hash and the line; nobody who works here is given them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from annotation.core.errors import Conflict, InputError
from annotation.domain.annotations import Submission
from annotation.domain.formats import Source
from annotation.models import (
    Adjudication,
    Annotation,
    Assignment,
    AuditEvent,
    Batch,
    Dataset,
    Guideline,
    Import,
    ImportedLabel,
    Person,
)
from annotation.services.annotations.submission import revise
from annotation.services.batches.members import join_batch
from annotation.services.imports import ImportRequest, Run, import_annotations
from annotation.services.people.people import add_person, set_roles
from tests.support import as_made_by_import, label_next

pytestmark = pytest.mark.django_db

MODEL = "Hidden-13B"
Write = Callable[..., Source]
fill = import_module("annotation.migrations.0018_imported_labels_of_before").fill


def build_row(annotator: str, value: float, prompt: str = "p0") -> dict[str, Any]:
    return {"prompt_id": prompt, "model": MODEL, "annotator": annotator, "labels": {"compliance": value}}


def decided(adjudicator: str, value: float, prompt: str = "p0") -> dict[str, Any]:
    return {"prompt_id": prompt, "model": MODEL, "adjudicator": adjudicator, "labels": {"compliance": value}}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(*rows: dict[str, Any], name: str = "labels.jsonl") -> Source:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return Source(path, name)

    return make


def put(source: Source, batch: str = "elsewhere", actor: Person | None = None, **options: Any) -> Any:
    target = ImportRequest(batch=batch, guideline="xstest", dataset="small")
    return import_annotations(source=source, format="jsonl", request=target, run=Run(actor=actor), **options)


def origins() -> list[tuple[str, str, int, str]]:
    """Of each imported label: who, which file, which line, and its sha256."""
    rows = ImportedLabel.objects.select_related("source", "assignment__person").order_by("source", "line")
    return [(row.assignment.person.username, row.place, row.line, row.source.sha256) for row in rows]


@pytest.mark.both_databases
def test_each_imported_label_knows_its_file_and_its_line(
    dataset: Dataset, guideline: Guideline, ma: Person, write: Write
):
    source = write(build_row("ann", 3), build_row("ben", 1), decided("cleo", 1))
    put(source, actor=ma)
    sha256 = hashlib.sha256(source.path.read_bytes()).hexdigest()
    assert origins() == [
        (name, "labels.jsonl", n, sha256) for n, name in enumerate(("ann", "ben", "cleo"), 1)
    ]
    event = AuditEvent.objects.get(verb="import_annotations")
    data = {name: event.data[name] for name in ("file", "sha256", "taken")}
    assert data == {"file": "labels.jsonl", "sha256": sha256, "taken": 3}
    assert (event.target, event.actor) == ("batch:elsewhere", ma)


def test_of_a_refused_file_nothing_stays(dataset: Dataset, guideline: Guideline, write: Write):
    with pytest.raises(InputError):
        put(write(build_row("ann", 3), build_row("ben", 7)))
    assert not Import.objects.exists()
    assert not ImportedLabel.objects.exists()


# -- who works here ----------------------------------------------------------------------------------


def test_nothing_is_written_under_somebody_who_works_in_the_batch(batch: Batch, lin: Person, write: Write):
    with pytest.raises(InputError) as refusal:
        put(write(build_row("ann-elsewhere", 3), build_row("lin", 3)), batch="first")
    error = refusal.value
    assert (error.line, error.field) == (1, "annotator")  # nobody is of that name
    add_person(name="ann-elsewhere")
    with pytest.raises(InputError) as refusal:
        put(write(build_row("ann-elsewhere", 3), build_row("lin", 3)), batch="first")
    error = refusal.value
    assert (error.path, error.line, error.field) == ("labels.jsonl", 2, "annotator")
    assert "lin can work here" in str(error)
    assert "add_person lin-imported" in str(error)
    assert not Annotation.objects.exists()


def test_who_brings_labels_has_read_them(dataset: Dataset, guideline: Guideline, ma: Person, write: Write):
    """Neither may they join when they are no manager any more, nor do they get work because the file names them."""
    put(write(build_row("ann", 3), build_row("ben", 1)), actor=ma)
    batch = Batch.objects.get(name="elsewhere")
    set_roles(person=ma, roles=["annotator"])
    with pytest.raises(Conflict, match="ma opened the results of elsewhere"):
        join_batch(batch=batch, role="annotator", people=[ma])
    put(write(build_row("ma", 3, "p1"), build_row("ann", 3, "p1")), actor=ma)
    assert batch.memberships.get(person=ma).active is False


def test_a_decision_is_not_written_under_an_adjudicator_of_the_batch(batch: Batch, wu: Person, write: Write):
    for name in ("ann", "ben"):
        add_person(name=name)
    with pytest.raises(InputError) as refusal:
        put(write(build_row("ann", 3), build_row("ben", 1), decided("wu", 1)), batch="first")
    assert (refusal.value.line, refusal.value.field) == (3, "adjudicator")


def test_without_password_and_role_who_worked_in_the_batch_is_refused_too(
    batch: Batch, lin: Person, write: Write
):
    label_next(batch, lin, 3)
    lin.study_memberships.all().delete()
    lin.set_unusable_password()
    lin.save()
    free = Assignment.objects.get(person=lin).task.response.prompt.key
    other = next(key for key in ("p0", "p1") if key != free)
    with pytest.raises(InputError, match="lin can work here"):
        put(write(build_row("lin", 3, other)), batch="first")


def test_a_batch_that_an_import_made_takes_them(
    dataset: Dataset, lin: Person, guideline: Guideline, write: Write
):
    put(write(build_row("lin", 3), build_row("ann", 3)))
    assert put(write(build_row("lin", 1, "p1"), name="more.jsonl")).imported == 1


def test_who_cannot_sign_in_may_stand_in_a_file_for_any_batch(batch: Batch, write: Write):
    add_person(name="ann")
    assert put(write(build_row("ann", 3)), batch="first").imported == 1


# -- what was imported before ------------------------------------------------------------------------


def of_before() -> list[tuple[str, str, int, str]]:
    """The origins, made anew from what was stored before they were."""
    ImportedLabel.objects.all().delete()
    fill(apps, SimpleNamespace(connection=connection))
    return origins()


@pytest.mark.both_databases
def test_labels_of_before_are_walked_back_by_their_keys(
    batch: Batch, dataset: Dataset, lin: Person, ma: Person, write: Write
):
    """One file twice, first without its decisions; a correction and a label made here; a key that looks like one."""
    source = write(build_row("lin", 3), build_row("ann", 1), decided("cleo", 1), build_row("lin", 2, "p1"))
    put(source, actor=ma, without_final=True)
    put(source, new_people=True)
    put(write(build_row("ben", 3, "p2"), name="other.jsonl"), new_people=True)
    corrected = Assignment.objects.get(person=lin, task__response__prompt__key="p1", batch__name="elsewhere")
    revise(
        person=lin,
        assignment_id=corrected.pk,
        work=Submission(labels={"compliance": 1}, reason="slip"),
        key="k",
    )
    label_next(batch, lin, 3)
    Annotation.objects.filter(assignment__batch=batch).update(idempotency_key="import:not-a-hash:x")
    before = origins()
    assert len(before) == 5
    assert of_before() == before
    by_person = {
        imported_label.assignment.person.username: imported_label.source.created_by
        for imported_label in ImportedLabel.objects.all()
    }
    assert (by_person["lin"], by_person["cleo"]) == (ma, None)


@pytest.mark.both_databases
def test_a_correction_whose_key_looks_like_a_line_is_none(
    dataset: Dataset, guideline: Guideline, lin: Person, write: Write
):
    """Programs choose their keys: of one item two could name the file, and the item has one origin at most."""
    put(write(build_row("lin", 3), build_row("ann", 3, "p1")))
    assignment = Assignment.objects.get(person=lin)
    key = Annotation.objects.get(assignment=assignment).idempotency_key
    submission = Submission(labels={"compliance": 1}, reason="slip")
    revise(person=lin, assignment_id=assignment.pk, work=submission, key=f"{key}2")
    before = origins()
    assert of_before() == before


def test_two_batches_of_one_file_are_told_apart(dataset: Dataset, guideline: Guideline, write: Write):
    source = write(build_row("ann", 3), build_row("ben", 1))
    put(source, batch="one")
    put(source, batch="two")
    before = list(ImportedLabel.objects.order_by("pk").values_list("pk", "source", "line"))
    of_before()
    assert list(ImportedLabel.objects.order_by("pk").values_list("pk", "source", "line")) == before


def test_nothing_of_before_is_nothing_to_do(batch: Batch, lin: Person):
    label_next(batch, lin, 3)
    assert of_before() == []
    assert Adjudication.objects.count() == 0
    assert as_made_by_import(batch) == batch
    assert of_before() == []
