"""A database of before: its second readings, in whatever state, are tasks of kind ``repeat`` afterwards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Assignment,
    Batch,
    Membership,
    Person,
    Task,
    Verdict,
)
from annotation.selectors.adjudication import count_waiting_disputes
from annotation.selectors.quality.adjudicators import measure_intra_rater_agreement
from tests.annotation.invariants import counts_are_right, nothing_is_broken, repeats_are_right
from tests.annotation.models.test_migrations import Old
from tests.former_databases import BringTo, bring_to, elsewhere  # noqa: F401  (fixtures)
from tests.support import XSTEST_GUIDELINE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
BEFORE = [("annotation", "0020_job_deaths")]
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
VERDICT = {"labels": {"compliance": 1}, "rationale": "so it seems", "seconds": 3.5, "channel": "page"}
OLD_VERDICT = {"labels": {"compliance": 3}, "rationale": ""}
# How readings of before stood, and as what their tasks and claims stand afterwards.
READINGS = {
    "new": ({"state": "waiting"}, "disputed", None),
    "given back": ({"state": "waiting", "claimed_at": AT, "verdict": OLD_VERDICT}, "disputed", "released"),
    "in progress": ({"state": "claimed", "claimed_at": AT}, "disputed", "claimed"),
    "decided alike": (
        {
            "state": "submitted",
            "claimed_at": AT,
            "verdict": VERDICT,
            "labels": {"compliance": 2},
            "rationale": "again",
            "seconds": 7.0,
            "idempotency_key": "k",
            "body_sha256": "f" * 64,
            "channel": "token",
            "submitted_at": AT + timedelta(hours=1),
        },
        "adjudicated",
        "submitted",
    ),
    "skipped": ({"state": "dropped", "claimed_at": AT}, "withdrawn", "released"),
    "of one who left": ({"state": "waiting", "claimed_at": AT}, "disputed", "released"),
}


class Site(Old):
    """Each dispute was decided by ``wu``, the last by ``zhou``, who has left."""

    def __init__(self, models_of_before: Any) -> None:
        super().__init__(models_of_before)
        source = XSTEST_GUIDELINE.path.read_text(encoding="utf-8")
        self.model("Guideline").objects.update(name="xstest", source=source)
        members = self.model("Membership").objects
        members.filter(person=self.people["zhou"], role="adjudicator").update(active=False)
        self.members = {
            (member.person.username, member.role): member for member in members.select_related("person")
        }
        self.readings = {
            name: self.reading(decided_by="zhou" if name == "of one who left" else "wu", **columns)
            for name, (columns, _task, _claim) in READINGS.items()
        }
        self.model("AuditEvent").objects.create(
            actor=self.people["wu"],
            verb="skip_second_reading",
            target=f"task:{self.readings['skipped'].task_id}",
            data={"reason": "I know the author"},
        )

    def reading(self, *, decided_by: str, **columns: Any) -> Any:
        task = self.adjudicated_task(decided_by)
        if columns.get("claimed_at"):
            columns["lease_expires"] = AT + timedelta(minutes=30)
        if columns["state"] == "submitted":
            columns["reason"] = self.model("DisputeReason").objects.order_by("pk").first()
        readings = self.model("SecondReading").objects
        return readings.create(
            batch=self.batch,
            task=task,
            person=self.people[decided_by],
            due_at=AT + timedelta(days=14),
            **columns,
        )

    def adjudicated_task(self, decided_by: str) -> Any:
        number = len(self.tasks)
        prompt = self.model("Prompt").objects.create(
            dataset=self.dataset, key=f"p{number}", text="?", dimension="safe"
        )
        response = self.model("Response").objects.create(
            prompt=prompt,
            model=self.models[number % 2],
            collection=self.collection,
            text=f"{number}",
            sha256=f"{number:064}",
        )
        stratum, _created = self.model("Stratum").objects.get_or_create(
            batch=self.batch, dataset=self.dataset, dimension="safe", model=self.models[number % 2]
        )
        task = self.model("Task").objects.create(
            batch=self.batch,
            response=response,
            prompt=prompt,
            stratum=stratum,
            overlap=2,
            slots_taken=2,
            position=number,
            rank=number,
            state="adjudicated",
            settled_at=AT,
        )
        self.tasks.append(task)
        for slot, (name, value) in enumerate((("lin", 1), ("chen", 3))):
            self.submitted(task, name, slot, "annotator", submitted=1)
            self.model("Annotation").objects.create(
                **self.filled("Annotation", assignment=self.claim, labels={"compliance": value})
            )
        self.submitted(task, decided_by, 5, "adjudicator", adjudicated=1)
        self.model("Adjudication").objects.create(
            **self.filled("Adjudication", task=task, assignment=self.claim, labels={"compliance": 2})
        )
        self.model("GoldLabel").objects.create(
            task=task, criterion="compliance", value=2, source="adjudicated", created_at=AT
        )
        return task

    def submitted(self, task: Any, name: str, slot: int, role: str, **counts: int) -> None:
        self.claim = self.model("Assignment").objects.create(
            batch=self.batch,
            task=task,
            person=self.people[name],
            slot=slot,
            state="submitted",
            claimed_at=AT,
            lease_expires=AT,
            submitted_at=AT,
        )
        tally, _created = self.model("Tally").objects.get_or_create(
            stratum=task.stratum, membership=self.members[name, role]
        )
        for column, number in counts.items():
            setattr(tally, column, getattr(tally, column) + number)
        tally.save()


@pytest.fixture
def site(bring_to: BringTo) -> Site:  # noqa: F811
    return Site(bring_to(BEFORE))


def migrate_forward() -> None:
    """Of this app alone: the others' tables are not asked for."""
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes("annotation"))


def test_readings_are_tasks_and_nothing_else_changes(site: Site) -> None:
    """Of one migration, which takes long."""
    migrate_forward()
    check_that_each_reading_is_a_task(site)
    check_that_verdicts_and_decisions_are_kept_to_the_letter(site)
    check_that_the_work_and_its_counts_are_what_they_were()


def check_that_each_reading_is_a_task(site: Site) -> None:
    assert "annotation_secondreading" not in connection.introspection.table_names()
    assert Task.objects.filter(kind="repeat").count() == len(READINGS)
    for name, (_columns, task_state, claim_state) in READINGS.items():
        reading = site.readings[name]
        task = Task.objects.get(repeats=reading.task_id)
        assert (task.kind, task.state, task.overlap, task.slots_taken) == ("repeat", task_state, 1, 0)
        assert (task.due_at, task.settled_at) == (reading.due_at, reading.submitted_at)
        assert (task.stratum.kind, task.stratum.dimension) == ("repeat", "safe")
        claims = list(Assignment.objects.filter(task=task))
        assert [claim.state for claim in claims] == ([claim_state] if claim_state else [])
        for claim in claims:
            assert (claim.pk, claim.person_id, claim.slot) == (
                reading.pk,
                reading.person_id,
                ADJUDICATION_SLOT,
            )
            assert (claim.claimed_at, claim.lease_expires) == (reading.claimed_at, reading.lease_expires)
            assert claim.skip_reason == ("I know the author" if name == "skipped" else "")


def check_that_verdicts_and_decisions_are_kept_to_the_letter(site: Site) -> None:
    reading = site.readings["decided alike"]
    decision = Adjudication.objects.get(assignment=reading.pk)
    for column in (
        *("labels", "reason_id", "rationale", "seconds", "receipt"),
        *("idempotency_key", "body_sha256", "channel"),
    ):
        assert getattr(decision, column) == getattr(reading, column)
    assert decision.created_at == decision.assignment.submitted_at == reading.submitted_at
    verdict = Verdict.objects.get(assignment=reading.pk)
    assert {name: getattr(verdict, name) for name in VERDICT} == VERDICT
    older = Verdict.objects.get(assignment=site.readings["given back"].pk)
    assert (older.labels, older.seconds, older.channel) == (OLD_VERDICT["labels"], None, "")
    assert Verdict.objects.count() == 2


def check_that_the_work_and_its_counts_are_what_they_were() -> None:
    batch = Batch.objects.get()
    now = nothing_is_broken(batch, and_needs=False)
    repeats_are_right(now)
    counts_are_right(batch, now)
    (agreement,) = measure_intra_rater_agreement(batch)
    assert (agreement.person.username, agreement.rate.n, agreement.rate.equal) == ("wu", 1, 1)
    member = Membership.objects.get(person__username="wu", role="adjudicator")
    Assignment.objects.filter(state="claimed").update(state="released")
    assert [row.n for row in count_waiting_disputes(member)] == [3]
    assert Person.objects.get(username="zhou").assignments.filter(state="claimed").count() == 0


def test_some_rows_at_a_time_and_again_where_it_was_interrupted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = import_module("annotation.migrations.0022_second_readings_to_tasks")
    monkeypatch.setattr(migration, "CHUNK", 2)
    convert, chunks = migration._convert, []

    def interrupt(apps: Any, alias: str, readings: Any) -> None:
        chunks.append(len(readings))
        convert(apps, alias, readings)
        if len(chunks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(migration, "_convert", interrupt)
    with pytest.raises(KeyboardInterrupt):
        migrate_forward()
    assert site.model("SecondReading").objects.count() == len(READINGS) - 2
    migrate_forward()
    assert chunks == [2] * 4
    assert Task.objects.filter(kind="repeat").count() == len(READINGS)
    nothing_is_broken(Batch.objects.get(), and_needs=False)
