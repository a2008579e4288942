"""The audit trail: its verbs, the study and the origin of its events, its chain, and the guard of its tables."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.core.request_origin import RequestOrigin, get_request_origin, set_request_origin
from annotation.core.study_scope import limit_to_studies
from annotation.domain.audit import CATEGORY_LABELS, KINDS, EventContent, Verb, find_verb, list_verbs
from annotation.domain.verbs import AnnotationVerb
from annotation.models import AuditEvent, AuditSeal, Batch, Person, ResultOpening, Study
from annotation.models.sql.audit import list_unguarded_tables
from annotation.selectors.access import refuse_sealed
from annotation.selectors.audit.chain import list_trail_problems, verify_trail
from annotation.selectors.audit.targets import find_study_of
from annotation.services.audit import record, record_in_study, record_view
from annotation.services.audit.chain import seal_events
from annotation.services.studies import find_or_make_study
from tests.conftest import ROOT
from tests.support import label_next, without_audit_guard

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NOW = timezone.now()


def write_events(number: int, actor: Person) -> list[AuditEvent]:
    return [
        record(actor=actor, verb=AnnotationVerb.SET_LANGUAGES, target="person:lin", languages=[str(n), "zh"])
        for n in range(number)
    ]


# The verbs.


def test_every_verb_is_declared_once_with_its_words_and_targets() -> None:
    verbs = list_verbs()
    assert len(verbs) > 120
    assert len({verb.value for verb in verbs}) == len(verbs)
    for verb in verbs:
        assert verb.meaning.category in CATEGORY_LABELS
        assert set(verb.meaning.targets) <= KINDS.keys(), verb
        assert verb.meaning.targets, verb
        assert verb.meaning.sentence.format(actor="lin", target="it")
        assert find_verb(verb.value) is verb


def test_the_kinds_of_targets_name_models_and_pages_that_are_there() -> None:
    for kind in KINDS.values():
        if kind.model:
            model = apps.get_model(kind.model)
            assert kind.field == "pk" or model._meta.get_field(kind.field)
            if kind.study:
                model._base_manager.filter(**{kind.study: 1}).exists()
        if kind.page:
            key = "1" if kind.field == "pk" else "name"
            assert reverse(kind.page, args=[key])


def test_nothing_but_a_declared_verb_is_written_in_the_code() -> None:
    """mypy refuses a string where a verb belongs; here nobody writes an event past ``record``."""
    for app in ("annotation", "scoring", "benchmark", "config"):
        for file in (ROOT / app).rglob("*.py"):
            if "migrations" in file.parts or file.parts[-2:] == ("models", "audit.py"):
                continue
            text = file.read_text(encoding="utf-8")
            assert "AuditEvent.objects.create" not in text, file
            assert "AuditEvent(" not in text, file
            assert 'record(actor=actor, verb="' not in text, file


def test_a_target_of_another_kind_is_refused(ma: Person) -> None:
    with pytest.raises(ValueError, match="sign_in"):
        record(actor=ma, verb=AnnotationVerb.SIGN_IN, target="batch:first")
    assert not AuditEvent.objects.filter(target="batch:first", verb="sign_in").exists()
    with pytest.raises(KeyError):
        AnnotationVerb.get("import_nonsense")
    assert issubclass(AnnotationVerb, Verb)


# Study and origin.


def test_an_event_is_of_the_study_under_way_or_of_its_target(batch: Batch, ma: Person) -> None:
    other = Study.objects.create(name="other")
    assert find_study_of("batch:first") == batch.study_id
    assert find_study_of("batch:none") is None
    assert find_study_of("task:not-a-number") is None
    assert find_study_of(f"task:{batch.tasks.first().pk}") == batch.study_id  # type: ignore[union-attr]
    event = record(actor=ma, verb=AnnotationVerb.ALARM_SEEN, target="batch:first")
    assert event.study_id == batch.study_id
    with limit_to_studies([other.pk]):
        assert record(actor=ma, verb=AnnotationVerb.SET_CARE, target="care").study_id == other.pk
        assert record(actor=ma, verb=AnnotationVerb.SIGN_IN, target="person:ma").study_id is None
    with limit_to_studies([other.pk, batch.study_id]):
        assert record(actor=ma, verb=AnnotationVerb.ALARM_SEEN, target="batch:first").study == batch.study
    Batch.objects.filter(pk=batch.pk).update(study=other)
    event = record_in_study(batch.study_id, actor=ma, verb=AnnotationVerb.ALARM_SEEN, target="batch:first")
    assert event.study_id == batch.study_id


def test_what_a_request_causes_says_from_where(
    client: Client, ma: Person, lin: Person, settings: Any
) -> None:
    settings.TRUSTED_PROXIES = 1
    client.force_login(ma)
    headers = {"X-Forwarded-For": "198.51.100.1, 203.0.113.9", "User-Agent": "curl/8"}
    form = {"display_name": "Lin the first"}
    assert client.post(reverse("person-name", args=["lin"]), form, headers=headers).status_code == 302
    event = AuditEvent.objects.get(verb="set_display_name")
    assert (event.address, event.agent, event.actor) == ("203.0.113.9", "curl/8", ma)
    assert get_request_origin() == RequestOrigin()
    assert record(actor=ma, verb=AnnotationVerb.SET_CARE, target="care").address == ""


def test_the_first_opening_of_results_is_recorded_once(
    client: Client, batch: Batch, lin: Person, ma: Person
) -> None:
    label_next(batch, lin, 3)
    with set_request_origin(RequestOrigin("203.0.113.9", "Firefox")):
        refuse_sealed(ma, [batch])
        refuse_sealed(ma, [batch])
    (event,) = AuditEvent.objects.filter(verb="open_results")
    assert (event.actor, event.target, event.study_id) == (ma, "batch:first", batch.study_id)
    assert event.address == "203.0.113.9"
    assert ResultOpening.objects.get(person=ma).batch == batch


def test_a_view_is_recorded_once_an_hour(ma: Person) -> None:
    for batch in ("first", "first", "second"):
        record_view(actor=ma, verb=AnnotationVerb.VIEW_WORK, target="person:lin", batch=batch)
    assert AuditEvent.objects.filter(verb="view_work").count() == 2


# The guard.


def test_an_event_can_be_neither_changed_nor_removed(ma: Person) -> None:
    write_events(2, ma)
    seal_events()
    acts: list[Any] = [
        lambda: AuditEvent.objects.update(target="person:chen"),
        lambda: AuditEvent.objects.all()._raw_delete(using="default"),
        lambda: AuditSeal.objects.update(position=99),
        lambda: AuditSeal.objects.all().delete(),
    ]
    for act in acts:
        with pytest.raises(IntegrityError, match="only appended to"), transaction.atomic():
            act()
    assert list_unguarded_tables() == []


def test_a_missing_guard_is_a_problem(ma: Person) -> None:
    with without_audit_guard():
        problems = list_trail_problems()
    assert [problem.code for problem in problems] == ["unguarded"] * 3
    assert "annotation_auditevent" in str(problems[0])


# The chain.


def test_what_was_sealed_verifies(ma: Person) -> None:
    events = write_events(7, ma)
    assert seal_events() == AuditEvent.objects.count()
    assert seal_events() == 0
    report = verify_trail()
    assert (report.problems, report.unsealed, report.sealed) == ((), 0, AuditEvent.objects.count())
    assert report.head is not None
    assert report.head.event == events[-1].pk
    write_events(1, ma)
    assert (verify_trail().unsealed, verify_trail().problems) == (1, ())


def test_blocks_make_one_chain(ma: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annotation.services.audit.chain.BLOCK", 3)
    monkeypatch.setattr("annotation.selectors.audit.chain.BLOCK", 4)
    write_events(10, ma)
    seal_events()
    assert list(AuditSeal.objects.order_by("position").values_list("position", flat=True)) == list(
        range(1, AuditEvent.objects.count() + 1)
    )
    assert verify_trail().problems == ()


@pytest.mark.parametrize(
    "change",
    [
        {"target": "person:chen"},
        {"data": {"languages": ["9"]}},
        {"address": "192.0.2.1"},
        {"verb": "set_roles"},
        {"at": NOW - timedelta(days=1)},
        {"actor": None},
    ],
)
def test_a_changed_event_is_named_and_no_other(ma: Person, change: dict[str, Any]) -> None:
    events = write_events(5, ma)
    seal_events()
    with without_audit_guard():
        AuditEvent.objects.filter(pk=events[2].pk).update(**change)
    (problem,) = list_trail_problems()
    assert (problem.code, problem.event) == ("event_changed", events[2].pk)
    assert str(events[2].pk) in str(problem)


def test_a_removed_event_and_removed_seals_are_found(ma: Person) -> None:
    events = write_events(6, ma)
    seal_events()
    with without_audit_guard():
        AuditEvent.objects.filter(pk=events[1].pk)._raw_delete(using="default")
    assert [(problem.code, problem.event) for problem in list_trail_problems()] == [
        ("event_removed", events[1].pk)
    ]
    with without_audit_guard():
        AuditSeal.objects.filter(event=events[1].pk).delete()
        AuditSeal.objects.filter(event=events[2].pk).delete()
        AuditEvent.objects.filter(pk=events[2].pk)._raw_delete(using="default")
    (problem,) = list_trail_problems()
    assert problem.code == "seals_removed"


def test_a_cut_tail_is_found_by_a_head_that_was_kept(ma: Person) -> None:
    events = write_events(4, ma)
    seal_events()
    head = verify_trail().head
    assert head is not None
    assert verify_trail(head=(head.position, head.digest)).problems == ()
    with without_audit_guard():
        AuditSeal.objects.filter(event=events[-1].pk).delete()
        AuditEvent.objects.filter(pk=events[-1].pk)._raw_delete(using="default")
    assert verify_trail().problems == ()  # as the decision says: nothing within the database can show it
    (problem,) = verify_trail(head=(head.position, head.digest)).problems
    assert problem.code == "head"


def test_an_event_of_a_transaction_that_ended_late_is_sealed_after_later_ones(ma: Person) -> None:
    """Its id is lower than those that were sealed before it was there."""
    events = write_events(3, ma)
    with without_audit_guard():
        late = AuditEvent.objects.filter(pk=events[0].pk)
        values = late.values().get()
        late._raw_delete(using="default")
    seal_events()
    AuditEvent.objects.bulk_create([AuditEvent(**values)])
    assert seal_events() == 1
    assert AuditSeal.objects.order_by("-position").values_list("event", flat=True)[0] == values["id"]
    assert verify_trail().problems == ()


def test_events_that_wait_too_long_for_their_seal_are_a_problem(ma: Person) -> None:
    event = write_events(1, ma)[0]
    seal_events()
    old = AuditEvent.objects.create(actor=ma, verb="set_care", target="care")
    with without_audit_guard():
        AuditEvent.objects.filter(pk=old.pk).update(at=event.at - timedelta(days=30))
    AuditEvent.objects.filter(pk=old.pk).get()
    (problem,) = list_trail_problems()
    assert problem.code == "unsealed"
    assert "1 events" in str(problem)
    seal_events(is_full=True)
    assert list_trail_problems() == []


def test_the_content_is_the_same_whatever_database_hands_it_back() -> None:
    def build(data: dict[str, Any]) -> bytes:
        return EventContent(1, NOW, 2, "v", "t", None, "", "", data).to_bytes()

    assert build({"a": 1.0, "b": [1e22, 2.5]}) == build({"b": [10**22, 2.5], "a": 1})
    assert build({"a": "1"}) != build({"a": 1})
    assert build({"a": None}) != build({})


def test_the_command_verifies_and_prints_the_head(ma: Person) -> None:
    events = write_events(3, ma)

    def run(*arguments: str) -> dict[str, Any]:
        output = StringIO()
        with suppress(SystemExit):
            call_command("audit_trail", *arguments, "--json", stdout=output)
        result: dict[str, Any] = json.loads(output.getvalue())
        return result

    head = run("--seal")["head"]
    kept_head = f"{head['position']}:{head['digest']}"
    assert run("--verify", "--head", kept_head)["problems"] == []
    with without_audit_guard():
        AuditEvent.objects.filter(pk=events[1].pk).update(agent="another")
    (problem,) = run("--verify")["problems"]
    assert (problem["code"], problem["event"]) == ("event_changed", events[1].pk)
    output = StringIO()
    with pytest.raises(SystemExit):
        call_command("audit_trail", "--verify", stdout=output)
    assert f"Event {events[1].pk} of the audit trail" in output.getvalue()


# The migration.


def test_events_of_before_get_their_origin_and_their_study(batch: Batch, ma: Person) -> None:
    migration = import_module("annotation.migrations.0055_audit_guard")
    study = find_or_make_study()
    data = {"address": "203.0.113.9", "agent": "Firefox"}
    sign_in = AuditEvent.objects.create(verb="sign_in", target="person:lin", data=data)
    of_batch = AuditEvent.objects.create(verb="alarm_seen", target="batch:first")
    of_care = AuditEvent.objects.create(verb="set_care", target="care")
    task = batch.tasks.order_by("pk")[0]
    of_task = AuditEvent.objects.create(verb="adjudicate", target=f"task:{task.pk}")
    Study.objects.create(name="other")
    with without_audit_guard():
        migration.fill(apps, SimpleNamespace(connection=connection))
    for event in (sign_in, of_batch, of_care, of_task):
        event.refresh_from_db()
    assert (sign_in.address, sign_in.agent, sign_in.study) == ("203.0.113.9", "Firefox", None)
    assert (of_batch.study, of_task.study, of_care.study) == (study, study, None)
    Study.objects.filter(name="other").delete()
    with without_audit_guard():
        migration.fill(apps, SimpleNamespace(connection=connection))
    of_care.refresh_from_db()
    sign_in.refresh_from_db()
    assert (of_care.study, sign_in.study) == (study, None)


@pytest.mark.postgres
def test_nor_can_its_tables_be_emptied(ma: Person) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        with pytest.raises(IntegrityError, match="TRUNCATE on annotation_auditseal"), transaction.atomic():
            cursor.execute("TRUNCATE annotation_auditseal")


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_two_that_seal_at_once_make_one_chain(ma: Person) -> None:
    """And whoever records meanwhile waits for none of them."""
    write_events(400, ma)
    barrier = threading.Barrier(4)

    def seal() -> None:
        try:
            barrier.wait()
            for _round in range(5):
                seal_events()
        finally:
            connection.close()

    def write() -> None:
        try:
            barrier.wait()
            write_events(100, ma)
        finally:
            connection.close()

    threads = [threading.Thread(target=act) for act in (seal, seal, write, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seal_events()
    assert AuditSeal.objects.count() == AuditEvent.objects.count()
    assert verify_trail().problems == ()


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_whoever_records_does_not_wait_for_a_sealing(ma: Person) -> None:
    write_events(10, ma)
    seal_events()
    writer_done = threading.Event()

    def write() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '200ms'")
            write_events(5, ma)
            writer_done.set()
        finally:
            connection.close()

    with transaction.atomic():
        list(AuditSeal.objects.select_for_update().order_by("-position")[:1])
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert writer_done.is_set()
