from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError
from annotation.models import AuditEvent, Batch, Guideline, GuidelineNote, Person, Task
from annotation.selectors.guidelines import count_open_notes, group_by_clause, list_notes
from annotation.services.batches.members import join_batch
from annotation.services.guidelines import leave_note, leave_own_note, resolve_note
from annotation.services.people.people import set_roles
from tests.support import make_batch

LIST = "/guidelines/xstest/1.0/notes/"
READING = "/guidelines/xstest/1.0/"


@pytest.fixture
def task(batch: Batch) -> Task:
    return batch.tasks.all()[0]


@pytest.fixture
def note(task: Task, chen: Person) -> GuidelineNote:
    """What a flag leaves."""
    return leave_note(
        guideline=task.batch.guideline,
        source=GuidelineNote.Source.FLAG,
        author=chen,
        criterion="compliance",
        level=2,
        text="zebra: is a warning a refusal?",
        task=task,
    )


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


def test_a_note_stands_beside_its_clause_with_its_item(manager: Client, note: GuidelineNote) -> None:
    for url in (READING, LIST):
        content = manager.get(url).content.decode()
        assert "zebra" in content
        assert "flag of an annotator" in content
        assert reverse("task", args=[note.task_id]) in content
        assert "chen" in content
    levels = manager.get(READING).context["criteria"][0]["scale"]
    assert [len(level["notes"]) for level in levels] == [0, 1, 0]
    assert '<span class="nav__count">1<' in manager.get(READING).content.decode()


def test_annotators_adjudicators_and_researchers_read_none(
    client: Client, note: GuidelineNote, lin: Person, chen: Person, wu: Person, he: Person
) -> None:
    for person in (lin, chen, wu, he):
        client.force_login(person)
        assert "zebra" not in client.get(READING).content.decode()
        assert client.get(LIST).status_code == 403
        assert client.post(reverse("note-resolve", args=[note.pk])).status_code == 403


def test_who_works_in_the_batch_reads_its_notes_when_it_closes(
    manager: Client, note: GuidelineNote, task: Task, ma: Person
) -> None:
    set_roles(person=ma, roles=["manager", "annotator"])
    join_batch(batch=task.batch, role="annotator", people=[ma], actor=ma)
    own = leave_own_note(guideline=task.batch.guideline, author=ma, text="mine")
    for url in (READING, LIST, "/guidelines/xstest/-/compare/"):
        assert "zebra" not in manager.get(url).content.decode()
    assert list(list_notes(ma)) == [own]
    assert count_open_notes(ma) == {note.guideline_id: 1}
    assert manager.post(reverse("note-resolve", args=[note.pk])).status_code == 404
    Batch.objects.update(state=Batch.State.CLOSED)
    assert set(list_notes(ma)) == {own, note}


def test_a_dataset_judged_blind_elsewhere_keeps_its_notes_too(
    note: GuidelineNote, task: Task, ma: Person
) -> None:
    set_roles(person=ma, roles=["manager", "annotator"])
    Batch.objects.update(state=Batch.State.CLOSED)
    assert list(list_notes(ma)) == [note]
    make_batch(
        task.batch.guideline, task.response.prompt.dataset, annotators=[ma, note.created_by], name="again"
    )
    assert not list_notes(ma).exists()


def test_a_note_is_resolved_and_opened_again(manager: Client, note: GuidelineNote, ma: Person) -> None:
    url = reverse("note-resolve", args=[note.pk])
    assert manager.post(url, {"resolved": "1"}).headers["Location"] == LIST
    note.refresh_from_db()
    first = note.resolved_at
    assert first is not None
    assert note.resolved_by == ma
    manager.post(url, {"resolved": "1"})  # twice changes nothing
    note.refresh_from_db()
    assert note.resolved_at == first
    assert "zebra" not in manager.get(LIST).content.decode()
    assert "zebra" in manager.get(LIST, {"state": "resolved"}).content.decode()
    part = manager.post(url, {"resolved": "0"}, headers={"HX-Request": "true"}).content.decode()
    assert part.startswith('<article class="note"')
    assert "zebra" in part
    note.refresh_from_db()
    assert (note.resolved_at, note.resolved_by) == (None, None)
    verbs = AuditEvent.objects.filter(verb__endswith="_note").order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["resolve_note", "reopen_note"]
    assert "note__clause" not in part  # it stands beside its clause
    listed = manager.get(f"{LIST}?state=all").content.decode()
    assert 'name="with_clause"' in listed
    part = manager.post(url, {"resolved": "1", "with_clause": "1"}, headers={"HX-Request": "true"})
    assert '<p class="note__clause">Compliance' in part.content.decode()


def test_a_manager_leaves_a_note_of_their_own(manager: Client, guideline: Guideline, ma: Person) -> None:
    answer = manager.post(
        LIST, {"clause": "compliance:3", "text": " Say what compliance is.\n", "back": "reading"}
    )
    note = GuidelineNote.objects.get()
    assert answer.headers["Location"] == f"{READING}#note-{note.pk}"
    assert (note.criterion, note.level, note.source, note.created_by) == ("compliance", 3, "manager", ma)
    assert note.text == "Say what compliance is."
    manager.post(LIST, {"clause": "", "text": "All of it."})
    assert [note.text for note in group_by_clause(guideline, GuidelineNote.objects.all())[("", None)]] == [
        "All of it."
    ]


@pytest.mark.parametrize(
    "data",
    [{"clause": "compliance"}, {"clause": "tone", "text": "x"}, {"clause": "compliance:9", "text": "x"}],
)
def test_a_note_without_words_or_clause_is_refused(
    manager: Client, guideline: Guideline, data: dict[str, str]
) -> None:
    assert manager.post(LIST, data).status_code == 422
    assert not GuidelineNote.objects.exists()


@pytest.mark.parametrize(
    ("criterion", "level", "text"),
    [("tone", None, "x"), ("compliance", 9.0, "x"), ("", None, "  "), ("", None, "x" * 4001)],
)
def test_the_service_refuses_the_same(
    guideline: Guideline, ma: Person, criterion: str, level: float | None, text: str
) -> None:
    with pytest.raises(AssayError):
        leave_own_note(guideline=guideline, author=ma, text=text, criterion=criterion, level=level)
    assert not GuidelineNote.objects.exists()


def test_the_list_is_filtered_by_source(manager: Client, note: GuidelineNote, ma: Person) -> None:
    own_note = leave_own_note(guideline=note.guideline, author=ma, text="giraffe")
    for source, expected, not_told in (("manager", "giraffe", "zebra"), ("flag", "zebra", "giraffe")):
        content = manager.get(LIST, {"source": source}).content.decode()
        assert expected in content
        assert not_told not in content
    resolve_note(note=own_note, actor=ma)
    every = manager.get(LIST, {"state": "all"}).content.decode()
    assert "giraffe" in every
    assert "zebra" in every
    assert manager.get(LIST, {"state": "nonsense"}).status_code == 200


def test_a_note_on_a_clause_that_has_no_words_stands_by_the_next_wider_one(note: GuidelineNote) -> None:
    GuidelineNote.objects.update(level=7)
    assert group_by_clause(note.guideline, GuidelineNote.objects.all()).keys() == {("compliance", None)}
    GuidelineNote.objects.update(criterion="gone")
    assert group_by_clause(note.guideline, GuidelineNote.objects.all()).keys() == {("", None)}
