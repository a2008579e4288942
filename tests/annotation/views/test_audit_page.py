"""The page of the audit trail: who opened these results, when, from where; and who may learn what from it."""

from __future__ import annotations

import csv
import json
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.admin import RecordedAdmin
from annotation.domain.audit import select_verbs
from annotation.domain.verbs import AnnotationVerb
from annotation.models import AuditEvent, Batch, Person, Study, StudyMembership
from annotation.selectors.audit import PAGE
from annotation.services.audit import record, record_in_study
from annotation.services.audit.chain import seal_events
from annotation.services.batches.members import join_batch
from annotation.services.studies import find_or_make_study
from tests.support import add_role, label_next, person

pytestmark = pytest.mark.django_db


def client_of(reader: Person, **more: Any) -> Client:
    client = Client(**more)
    client.force_login(reader)
    return client


@pytest.fixture
def root(db: None) -> Person:
    return Person.objects.create_superuser("root", password="a-long-root-password")


def write(actor: Person, verb: AnnotationVerb, target: str, **data: Any) -> AuditEvent:
    """In the study of the cast."""
    return record_in_study(find_or_make_study().pk, actor=actor, verb=verb, target=target, **data)


def read(client: Client, **query: Any) -> str:
    answer = client.get(reverse("audit"), query)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def read_file(client: Client, kind: str, **query: Any) -> str:
    answer = client.get(reverse("audit-file", args=[kind]), query)
    assert answer.status_code == 200
    return b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]


def test_it_says_who_opened_these_results_when_and_from_where(batch: Batch, lin: Person, ma: Person) -> None:
    label_next(batch, lin, 3)
    firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    reader = client_of(ma, REMOTE_ADDR="203.0.113.9", headers={"User-Agent": firefox})
    assert reader.get(reverse("batch-tasks", args=["first"])).status_code == 200
    event = AuditEvent.objects.get(verb="open_results")
    page = read(reader, verb="open_results", kind="batch", key="first")
    assert "<strong>ma</strong> opened the results of" in page
    assert f'<a href="{reverse("batch", args=["first"])}">batch first</a> for the first time' in page
    assert "203.0.113.9" in page
    assert "Firefox, Linux" in page
    assert f"{event.at:%Y-%m-%d %H:%M:%S}" in page
    chinese = client_of(ma, headers={"Accept-Language": "zh-hans"})
    assert "首次打开了" in read(chinese, verb="open_results")


def test_filters_and_pages(ma: Person, lin: Person) -> None:
    for number in range(PAGE + 20):
        verb = AnnotationVerb.SET_LANGUAGES if number % 2 else AnnotationVerb.SET_DISPLAY_NAME
        write(ma if number % 3 else lin, verb, "person:lin", number=number)
    events = AuditEvent.objects.filter(target="person:lin", verb__in=["set_languages", "set_display_name"])
    reader = client_of(Person.objects.create_superuser("root", password="a-long-root-password"))
    first = reader.get(reverse("audit"), {"key": "lin", "category": "people"}).context
    second = reader.get(reverse("audit"), {"key": "lin", "before": first["older"]}).context
    listed = [row["event"] for row in (*first["rows"], *second["rows"])]
    assert listed[: events.count()] == list(events.order_by("-at", "-id"))
    back = reader.get(reverse("audit"), {"key": "lin", "after": second["newer"]}).context
    assert [row["event"] for row in back["rows"]] == [row["event"] for row in first["rows"]]
    assert not back["newer"]
    for query, matching in (
        ({"person": "lin", "key": "lin", "category": "people"}, events.filter(actor=lin)),
        ({"verb": "set_languages"}, events.filter(verb="set_languages")),
        ({"until": str((timezone.now() - timedelta(days=2)).date())}, events.none()),
        ({"since": str((timezone.now() + timedelta(days=2)).date())}, events.none()),
        ({"person": "nobody"}, events.none()),
        ({"kind": "person", "verb": "set_languages"}, events.filter(verb="set_languages")),
        ({"kind": "batch", "key": "lin"}, events.none()),
    ):
        rows = reader.get(reverse("audit"), query).context["rows"]
        assert [row["event"] for row in rows] == list(matching.order_by("-at", "-id")[:PAGE]), query
    assert reader.get(reverse("audit"), {"before": "x", "since": "never", "verb": "none"}).status_code == 200


def test_a_manager_sees_their_study_and_nothing_of_another_or_of_accounts(ma: Person, root: Person) -> None:
    own, boss = StudyMembership.objects.get(person=ma).study, person("he")
    other = Study.objects.create(name="other")
    StudyMembership.objects.create(person=boss, study=other, role="manager")
    for study, word in ((own, "mine"), (other, "theirs")):
        AuditEvent.append(
            actor=root, verb=AnnotationVerb.SET_CARE, target="care", study_id=study.pk, data={"word": word}
        )
    record(actor=root, verb=AnnotationVerb.SIGN_IN, target="person:root")
    page = read(client_of(ma))
    assert "mine" in page
    assert "theirs" not in page
    assert "signed in" not in re.sub(r"<option.*?</option>", "", page)
    assert "theirs" not in read_file(client_of(ma), "csv")
    assert "theirs" not in read(client_of(ma), study=other.pk)
    assert client_of(ma).get("/s/other/audit/").status_code == 404
    all_text = read(client_of(root))
    assert "mine" in all_text
    assert "theirs" in all_text
    of_one = client_of(root).get("/s/other/audit/").content.decode()
    assert "theirs" in of_one
    assert "mine" not in of_one


def test_only_managers_and_admins_read_it(lin: Person, he: Person, ma: Person) -> None:
    assert [client_of(reader).get(reverse("audit")).status_code for reader in (lin, he, ma)] == [
        403,
        403,
        200,
    ]
    assert client_of(he).get(reverse("audit-file", args=["csv"])).status_code == 403
    assert client_of(ma).get(reverse("audit-file", args=["xml"])).status_code == 404


@pytest.mark.parametrize("is_admin", [False, True])
def test_whoever_judges_blind_learns_nothing_of_labels_or_models(
    batch: Batch, ma: Person, is_admin: bool
) -> None:
    wu = person("wu")
    Person.objects.filter(pk=ma.pk).update(is_superuser=is_admin, is_staff=is_admin)
    ma.refresh_from_db()
    add_role(ma, "annotator")
    join_batch(batch=batch, role="annotator", people=[ma])
    task = batch.tasks.first()
    write(wu, AnnotationVerb.ADJUDICATE, f"task:{task.pk}", labels={"compliance": 3})  # type: ignore[union-attr]
    write(wu, AnnotationVerb.UPLOAD, "import:1", file="Secretive-7B.jsonl")
    write(wu, AnnotationVerb.SET_LANGUAGES, "person:wu", languages=["zh"])
    write(ma, AnnotationVerb.SKIP, "assignment:mine", reason="too_hard")
    for text in (read(client_of(ma)), read_file(client_of(ma), "csv"), read_file(client_of(ma), "jsonl")):
        assert "Secretive" not in text
        assert "adjudicate" not in re.sub(r"<option.*?</option>", "", text)
        assert f"task {task.pk}" not in text  # type: ignore[union-attr]
        assert "person wu" in text
        assert "assignment mine" in text
    assert "You judge blind in a batch" in read(client_of(ma))
    for verb in ("adjudicate", "import_responses", "open_results"):
        safe = verb in select_verbs(is_blind_safe=True)
        assert safe == (verb == "open_results")
    Batch.objects.update(state=Batch.State.CLOSED)
    assert "Secretive" in read(client_of(ma))


def test_labels_stand_nowhere_in_it(batch: Batch, ma: Person) -> None:
    """Reading them here would be an opening of results that nothing records."""
    labels = {"compliance": "a-secret-label"}
    write(ma, AnnotationVerb.ADJUDICATE, "task:1", labels=labels, file="f")
    for text in (read(client_of(ma)), read_file(client_of(ma), "jsonl")):
        assert "a-secret-label" not in text
        assert "ma decided" in text.replace("<strong>ma</strong>", "ma")


def test_hostile_text_is_escaped(ma: Person) -> None:
    write(ma, AnnotationVerb.ALARM_SEEN, "batch:<script>x</script>{actor}", note="<b>")
    page = read(client_of(ma))
    assert "<script>x" not in page
    assert "&lt;script&gt;x&lt;/script&gt;{actor}" in page
    write(ma, AnnotationVerb.SET_CARE, "care", word="=1+1")
    row = list(csv.DictReader(StringIO(read_file(client_of(ma), "csv").removeprefix("\ufeff"))))[-2]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row.values())


def test_files_hold_what_the_filters_leave_and_are_events_themselves(batch: Batch, ma: Person) -> None:
    for number in range(3):
        write(ma, AnnotationVerb.SET_CARE, "care", number=number)
    seal_events()
    reader = client_of(ma, REMOTE_ADDR="203.0.113.9")
    lines = [json.loads(line) for line in read_file(reader, "jsonl", verb="set_care").splitlines()]
    assert [line["details"]["number"] for line in lines] == [0, 1, 2]
    assert lines[0]["what"] == "ma set the limits of exposure"
    assert all(len(line["sha256"]) == 64 and line["position"] for line in lines)
    rows = list(csv.DictReader(StringIO(read_file(reader, "csv", verb="set_care").removeprefix("\ufeff"))))
    assert [row["verb"] for row in rows] == ["set_care"] * 3
    first, second = AuditEvent.objects.filter(verb="export_audit").order_by("id")
    assert (first.data, second.data["file"], first.address) == (
        {"file": "audit.jsonl", "filters": {"verb": "set_care"}},
        "audit.csv",
        "203.0.113.9",
    )


def test_many_more_than_a_block_are_streamed(ma: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annotation.selectors.audit.BLOCK", 7)
    for number in range(20):
        write(ma, AnnotationVerb.SET_CARE, "care", number=number)
    lines = read_file(client_of(ma), "jsonl", verb="set_care").splitlines()
    assert [json.loads(line)["details"]["number"] for line in lines] == list(range(20))


def test_views_of_the_work_of_others_are_recorded(
    batch: Batch, lin: Person, chen: Person, ma: Person
) -> None:
    for annotator in (lin, chen):
        label_next(batch, annotator, 3)
    reader = client_of(ma, REMOTE_ADDR="203.0.113.9")
    task = batch.tasks.filter(assignments__person=lin)[0]
    for _round in range(2):
        for address in (
            reverse("person", args=["lin"]),
            reverse("person", args=["ma"]),
            reverse("task", args=[task.pk]),
            reverse("batch-quality-person", args=["first", "lin"]),
        ):
            assert reader.get(address).status_code == 200
    events = AuditEvent.objects.filter(verb__in=["view_work", "view_labels"]).order_by("id")
    assert [(event.verb, event.target, event.data) for event in events] == [
        ("view_work", "person:lin", {}),
        ("view_labels", f"task:{task.pk}", {}),
        ("view_work", "person:lin", {"batch": "first"}),
    ]
    assert {event.address for event in events} == {"203.0.113.9"}


def test_acts_in_the_admin_are_recorded(root: Person, lin: Person) -> None:
    for model_admin in admin.site._registry.values():
        assert isinstance(model_admin, RecordedAdmin), model_admin
    client = client_of(root, REMOTE_ADDR="203.0.113.9")
    added = client.post(reverse("admin:annotation_person_add"), {"username": "gao"})
    assert added.status_code == 302
    gao = Person.objects.get(username="gao")
    form = {"username": "gao", "display_name": "Gao", "is_active": "on", "email": ""}
    form |= {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    assert client.post(reverse("admin:annotation_person_change", args=[gao.pk]), form).status_code == 302
    assert (
        client.post(reverse("admin:annotation_person_delete", args=[gao.pk]), {"post": "yes"}).status_code
        == 302
    )
    events = AuditEvent.objects.filter(verb__startswith="admin_").order_by("id")
    assert [(event.verb, event.target) for event in events] == [
        ("admin_add", "admin:person gao"),
        ("admin_change", "admin:person Gao"),
        ("admin_delete", "admin:person Gao"),
    ]
    assert {(event.actor, event.address, event.study) for event in events} == {(root, "203.0.113.9", None)}
