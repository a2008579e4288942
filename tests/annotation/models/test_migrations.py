"""A database of before: its tasks get their rank, prompt and stratum, and what is counted along starts right."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from django.db import IntegrityError, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from annotation.models import ADJUDICATION_SLOT as SLOT_SINCE
from annotation.models import (
    PRIORITY_STEP,
    Assignment,
    Batch,
    MemberCounts,
    Membership,
    Person,
    Stratum,
    StudyMembership,
    Task,
)
from annotation.selectors.counts import count_by_member, count_by_stratum, count_submitted, count_tasks
from annotation.services.assignments import claim_next_dispute, claim_next_task
from tests.former_databases import BringTo, bring_to, elsewhere  # noqa: F401  (fixtures)
from tests.support import FormerApps

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
BEFORE = ("annotation", "0003_correction_once")
ADJUDICATION_SLOT = 5


@pytest.fixture
def before(bring_to: BringTo) -> Any:  # noqa: F811
    """The models of before, on a database that is as it was then."""
    return bring_to([BEFORE])


class Old:
    """A batch of before: ``lin`` and ``chen`` annotate, ``wu`` decides, ``zhou`` does both and only skipped."""

    def __init__(self, models_of_before: Any) -> None:
        self.model = lambda name: models_of_before.get_model("annotation", name)
        self.people = {
            name: self.model("Person").objects.create(username=name, password="!")
            for name in ("lin", "chen", "zhou", "wu")
        }
        guideline = self.model("Guideline").objects.create(
            **self.filled("Guideline", name="g", version="1.0", sha256="0" * 64)
        )
        self.batch = self.model("Batch").objects.create(name="old", guideline=guideline, state="open")
        roles = [("lin", "annotator"), ("chen", "annotator"), ("zhou", "annotator")]
        for name, role in [*roles, ("zhou", "adjudicator"), ("wu", "adjudicator")]:
            self.model("Membership").objects.create(batch=self.batch, person=self.people[name], role=role)
        self.dataset = self.model("Dataset").objects.create(name="d")
        self.collection = self.model("Collection").objects.get_or_create(name="")[0]
        self.models = [self.model("EvaluatedModel").objects.create(name=name) for name in ("A", "B")]
        self.tasks: list[Any] = []

    def filled(self, model: str, **values: Any) -> dict[str, Any]:
        """Every column that has no default and is not given: an empty object, or the time."""
        for field in self.model(model)._meta.concrete_fields:
            if field.primary_key or field.name in values or field.has_default() or field.null:
                continue
            kind = field.get_internal_type()
            if kind == "JSONField":
                values[field.name] = {}
            elif kind == "DateTimeField":
                values[field.name] = timezone.now()
        return values

    def task(self, *, state: str, priority: int = 0, dimension: str = "safe", language: str = "") -> Any:
        number = len(self.tasks)
        prompt = self.model("Prompt").objects.create(
            dataset=self.dataset, key=f"p{number}", text="?", dimension=dimension, language=language
        )
        response = self.model("Response").objects.create(
            prompt=prompt,
            model=self.models[number % 2],
            collection=self.collection,
            text=f"{number}",
            sha256=f"{number:064}",
        )
        task = self.model("Task").objects.create(
            batch=self.batch,
            response=response,
            overlap=2,
            position=number,
            priority=priority,
            state=state,
        )
        self.tasks.append(task)
        return task

    def assigned(self, task: Any, name: str, slot: int, *, state: str = "submitted", skip: str = "") -> None:
        now = timezone.now()
        self.model("Assignment").objects.create(
            batch=self.batch,
            task=task,
            person=self.people[name],
            slot=slot,
            state=state,
            claimed_at=now,
            lease_expires=now,
            submitted_at=now if state == "submitted" else None,
            skip_reason=skip,
        )
        if slot < ADJUDICATION_SLOT and state in ("claimed", "submitted"):
            task.slots_taken += 1
            task.save(update_fields=["slots_taken"])


@pytest.fixture
def migrated(before: Any) -> Batch:
    """Tasks in every state, two of some, with skips, a released and an expired claim, and priorities."""
    old = Old(before)
    old.task(state="open", priority=2)
    migration = old.task(state="open", language="zh")
    old.assigned(migration, "lin", 0)
    old.assigned(migration, "zhou", 1, state="released", skip="I know the author")
    for priority in (0, -1):
        agreed = old.task(state="agreed", priority=priority, dimension="unsafe")
        old.assigned(agreed, "lin", 0)
        old.assigned(agreed, "chen", 1)
    for decider in (None, "zhou", "wu"):
        task = old.task(state="adjudicated" if decider else "disputed")
        old.assigned(task, "lin", 0)
        old.assigned(task, "chen", 1)
        if decider:
            old.assigned(task, decider, ADJUDICATION_SLOT)
    old.assigned(old.tasks[4], "zhou", ADJUDICATION_SLOT, state="released", skip="too close")
    withdrawn = old.task(state="withdrawn")
    old.assigned(withdrawn, "lin", 0)
    old.assigned(withdrawn, "chen", 1, state="expired")
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes("annotation"))
    for member in Membership.objects.select_related("batch"):  # who works has the role
        role = {"study_id": member.batch.study_id, "person_id": member.person_id, "role": member.role}
        StudyMembership.objects.get_or_create(**role)
    return Batch.objects.get(name="old")


def test_a_database_of_before_is_brought_up_and_goes_on(migrated: Batch):
    """One test, because going back and forward takes longer than all that is asked of it."""
    each_task_has_its_rank_prompt_and_stratum(migrated)
    the_adjudicators_have_a_slot_that_is_no_annotators(migrated)
    the_counts_are_what_is_there(migrated)
    filling_again_changes_nothing(migrated)
    the_work_goes_on_by_priority_and_skips_are_kept(migrated)


def the_adjudicators_have_a_slot_that_is_no_annotators(migrated: Batch):
    deciding = Assignment.objects.filter(batch=migrated, slot=SLOT_SINCE)
    assert sorted(deciding.values_list("person__username", "state")) == [
        ("wu", "submitted"),
        ("zhou", "released"),
        ("zhou", "submitted"),
    ]
    assert set(Assignment.objects.exclude(slot=SLOT_SINCE).values_list("slot", flat=True)) == {0, 1}
    # A worker of before, which still decides in slot 5, is refused: nobody takes its decision for a label.
    with pytest.raises(IntegrityError, match="assignment_slot_in_range"):
        deciding.filter(state="released").update(slot=ADJUDICATION_SLOT)


def each_task_has_its_rank_prompt_and_stratum(migrated: Batch):
    tasks = list(migrated.tasks.select_related("stratum", "response__prompt").order_by("position"))
    assert len(tasks) == 8
    for task in tasks:
        prompt = task.response.prompt
        assert task.rank == task.position - task.priority * PRIORITY_STEP
        assert task.prompt_id == prompt.pk
        kind = (task.stratum.kind, task.stratum.dimension, task.stratum.language, task.stratum.model_id)
        assert kind == ("work", prompt.dimension, prompt.language, task.response.model_id)
        assert task.stratum.batch_id == migrated.pk
        assert (task.panel_id, task.requeued) == (None, False)
    assert Stratum.objects.filter(batch=migrated).count() == len({task.stratum_id for task in tasks})


def the_counts_are_what_is_there(migrated: Batch):
    assert count_tasks(migrated) == 8
    counted = count_by_stratum([migrated.pk])
    for stratum, counts in counted.items():
        tasks = Task.objects.filter(stratum=stratum)
        for state in ("open", "agreed", "disputed", "adjudicated", "withdrawn"):
            assert counts[state] == tasks.filter(state=state).count(), state
        standing = tasks.exclude(state="withdrawn").filter(
            assignments__state="submitted", assignments__slot__lt=ADJUDICATION_SLOT
        )
        assert counts["submitted"] == standing.count()
    assert sum(counts["submitted"] for counts in counted.values()) == 11
    members = {
        (membership.person.username, membership.role): count_by_member(migrated).get(membership.pk, {})
        for membership in migrated.memberships.select_related("person")
    }
    # lin labelled all but the first, chen those that were full.
    assert members["lin", "annotator"] == {
        "submitted": 7,
        "adjudicated": 0,
        "skipped": 0,
        "checks": 0,
        "repeats": 0,
    }
    assert members["chen", "annotator"] == {
        "submitted": 5,
        "adjudicated": 0,
        "skipped": 0,
        "checks": 0,
        "repeats": 0,
    }
    assert members["wu", "adjudicator"] == {
        "submitted": 0,
        "adjudicated": 1,
        "skipped": 0,
        "checks": 0,
        "repeats": 0,
    }
    assert members["zhou", "annotator"] == {
        "submitted": 0,
        "adjudicated": 0,
        "skipped": 1,
        "checks": 0,
        "repeats": 0,
    }
    assert members["zhou", "adjudicator"] == {
        "submitted": 0,
        "adjudicated": 1,
        "skipped": 1,
        "checks": 0,
        "repeats": 0,
    }
    assert count_submitted(Membership.objects.get(batch=migrated, person__username="lin")) == 7


def the_work_goes_on_by_priority_and_skips_are_kept(migrated: Batch):
    lin, zhou, wu = (Person.objects.get(username=name) for name in ("lin", "zhou", "wu"))
    first = claim_next_task(batch=migrated, person=lin)
    assert first is not None
    assert first.task.position == 0  # of priority 2
    assert claim_next_task(batch=migrated, person=lin, ahead=True) in (None, first)
    own_tasks = claim_next_task(batch=migrated, person=zhou)
    assert own_tasks is not None
    assert own_tasks.task.position == 0
    assert claim_next_dispute(batch=migrated, person=zhou) is None  # skipped
    assert claim_next_dispute(batch=migrated, person=wu) is not None


def filling_again_changes_nothing(migrated: Batch):
    """It may be killed and begun again."""
    before = (list(Stratum.objects.order_by("pk").values()), tallies())
    migration = import_module("annotation.migrations.0005_distribution_fill")
    with mock.patch.object(migration, "ADJUDICATION_SLOT", SLOT_SINCE):  # it moved since
        migration.fill(FormerApps(), SimpleNamespace(connection=connection))
    assert (list(Stratum.objects.order_by("pk").values()), tallies()) == before


def tallies() -> list[dict[str, Any]]:
    rows = MemberCounts.objects.order_by("membership", "stratum").values()
    return [{name: value for name, value in row.items() if name != "id"} for row in rows]
