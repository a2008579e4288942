"""Where gold questions come from, and the manager's pages on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client

from annotation.core.errors import AssayError, Conflict, InputError
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import AuditEvent, Batch, GoldQuestion, Guideline, Person, Response, Stratum
from annotation.services.batches.batches import set_state
from annotation.services.gold_questions.gold_questions import GoldAnswer, add_questions, set_question_active
from annotation.services.gold_questions.sources import add_from_batches, add_from_file, add_from_release
from annotation.services.people.people import set_roles
from annotation.services.releases import cut_release
from tests.annotation.gold_question_support import add_known, make_checked
from tests.annotation.services.test_qualification import BY_ACCURACY, answer
from tests.support import decide_next, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def old(guideline: Guideline, lin: Person, chen: Person, wu: Person) -> Batch:
    """A closed batch of twelve: some agreed on 1, some on 3, and some decided as 2 by wu, who says why."""
    corpus = make_corpus(prompts=12, models=["Oracle-1B"], name="old-corpus")
    batch = make_batch(guideline, corpus, annotators=[lin, chen], adjudicators=[wu], name="old")
    for person, values in ((lin, [1, 3, 1, 3]), (chen, [1, 3, 3, 3])):
        for number in range(12):
            label_next(batch, person, values[number // 2 % 4])
    while decide_next(batch, wu, 2) is not None:
        pass
    set_state(batch=batch, state=Batch.State.CLOSED)
    batch.refresh_from_db()
    return batch


@pytest.fixture
def new(guideline: Guideline, lin: Person, chen: Person) -> Batch:
    return make_checked(guideline, annotators=[lin, chen], prompts=4, name="new", check_share=0.2)


def manager(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def test_items_are_drawn_from_closed_batches_so_that_each_level_comes(old: Batch, new: Batch, ma: Person):
    made = add_from_batches(batch=new, kind="check", batches=[old], number=6, actor=ma)
    assert len(made) == 6
    assert {question.labels["compliance"] for question in made} == {1, 2, 3}
    explained = [question for question in made if question.explanation]
    assert {question.explanation for question in explained} == {"decided"}
    assert {question.labels["compliance"] for question in explained} == {2}
    assert {question.response.prompt.dimension for question in made} == {"safe", "unsafe"}
    kinds = Stratum.objects.filter(batch=new, kind="check").values_list("dimension", flat=True)
    assert set(kinds) == {"safe", "unsafe"}
    event = AuditEvent.objects.get(verb="add_known_items")
    assert (event.actor, event.data["n"]) == (ma, 6)
    more = add_from_batches(batch=new, kind="qualification", batches=[old], number=6, actor=ma)
    assert {question.response_id for question in more}.isdisjoint({question.response_id for question in made})
    with pytest.raises(AssayError, match="There are 0 responses"):
        add_from_batches(batch=new, kind="check", batches=[old], number=1)


def test_items_are_drawn_from_a_release_of_chosen_sources(old: Batch, new: Batch):
    release = cut_release(ReleaseSpec(name="r", batches=[old]))
    made = add_from_release(batch=new, kind="check", release=release, number=2, sources=["adjudicated"])
    assert {question.labels["compliance"] for question in made} == {2}
    with pytest.raises(AssayError, match="source of gold"):
        add_from_release(batch=new, kind="check", release=release, number=2, sources=[])


def test_gold_of_open_batches_or_other_guidelines_is_refused(new: Batch, old: Batch, ma: Person):
    with pytest.raises(Conflict, match="not closed yet"):
        add_from_batches(batch=new, kind="check", batches=[new], number=1)
    Guideline.objects.create(name="other", version="1", created_by=ma, content=old.guideline.content)
    Batch.objects.filter(pk=old.pk).update(guideline=Guideline.objects.get(name="other"))
    old.refresh_from_db()
    with pytest.raises(AssayError, match="another guideline version"):
        add_from_batches(batch=new, kind="check", batches=[old], number=1)


def test_what_is_work_in_the_batch_cannot_be_known_there(new: Batch):
    task = new.tasks.filter(kind="work")[0]
    with pytest.raises(Conflict, match="is work in the batch new"):
        add_questions(batch=new, kind="check", items=[GoldAnswer(task.response_id, {"compliance": 3})])
    (item,) = add_known(new, 1)
    with pytest.raises(Conflict, match="gold question of the batch new already"):
        add_questions(
            batch=new, kind="qualification", items=[GoldAnswer(item.response_id, {"compliance": 3})]
        )
    with pytest.raises(AssayError, match="no item to add"):
        add_questions(batch=new, kind="check", items=[])


# Files.

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return to


@pytest.fixture
def oracle(new: Batch) -> None:
    """Two models' responses to three prompts."""
    make_corpus(prompts=3, models=["Oracle-1B", "Oracle-2B"], name="answers")


def test_a_file_brings_items_with_their_explanations(new: Batch, oracle: None, write: Write):
    lines = [
        {
            "prompt_id": f"p{n}",
            "dataset": "answers",
            "model": "Oracle-1B",
            "labels": {"compliance": n + 1},
            "explanation": "So.",
        }
        for n in range(2)
    ]
    made = add_from_file(batch=new, kind="check", path=write("k.jsonl", "\n".join(map(json.dumps, lines))))
    assert [(question.labels, question.explanation) for question in made] == [
        ({"compliance": 1}, "So."),
        ({"compliance": 2}, "So."),
    ]
    csv = "prompt,model,dataset,label.compliance\nQuestion number 2?,Oracle-2B,answers,3\n"
    (question,) = add_from_file(batch=new, kind="check", path=write("k.csv", csv))
    assert (question.labels, question.response.model.name, question.position) == (
        {"compliance": 3},
        "Oracle-2B",
        2,
    )


GOOD = {"prompt_id": "p0", "dataset": "answers", "model": "Oracle-1B", "labels": {"compliance": 3}}


@pytest.mark.parametrize(
    ("bad", "field", "words"),
    [
        ({"prompt_id": "p9"}, "prompt_id", "no such response"),
        ({"model": None}, "prompt_id", "several responses fit"),
        ({"dataset": "new-work", "model": "Secretive-7B"}, "prompt_id", "is work in the batch new"),
        ({"labels": {"compliance": 7}}, "labels", "7"),
        ({"labels": {"tone": 1}}, "labels", "tone"),
        ({"labels": {}}, "labels", "no label"),
        ({"labels": None}, "labels", "no label"),
        ({"weather": "fine"}, "weather", "no such field"),
        ({}, "prompt_id", "there twice"),
    ],
)
def test_what_is_wrong_names_line_and_field_and_nothing_is_taken(
    new: Batch, oracle: None, write: Write, bad: dict[str, Any], field: str, words: str
):
    path = write("k.jsonl", f"{json.dumps(GOOD)}\n{json.dumps({**GOOD, **bad})}\n")
    with pytest.raises(InputError, match=words) as refused:
        add_from_file(batch=new, kind="check", path=path)
    assert (refused.value.line, refused.value.field) == (2, field)
    assert not GoldQuestion.objects.exists()


def test_an_item_of_another_dimension_would_stand_out(new: Batch, write: Write):
    make_corpus(prompts=1, models=["Oracle-1B"], name="answers", dimensions=["weather"])
    with pytest.raises(InputError, match="would stand out"):
        add_from_file(batch=new, kind="check", path=write("k.jsonl", json.dumps(GOOD)))


def test_the_command_adds_from_gold_and_files(old: Batch, new: Batch, oracle: None, write: Write):
    out = StringIO()
    call_command("add_known_items", "new", "--from-batches", "old", "--number", "4", "--json", stdout=out)
    assert json.loads(out.getvalue()) == {"batch": "new", "kind": "check", "added": 4, "there": 4}
    out = StringIO()
    path = str(write("k.jsonl", json.dumps(GOOD)))
    call_command("add_known_items", "new", "--kind", "qualification", "--file", path, stdout=out)
    assert out.getvalue().strip() == "new: 1 items added as qualification, 1 are there"


# Pages.


def test_a_manager_adds_items_and_takes_a_bad_one_out(old: Batch, new: Batch, ma: Person, oracle: None):
    client = manager(ma)
    page = "/batches/new/gold-questions/"
    assert "There are none yet." in client.get(page).content.decode()
    drawn = {
        "from": "gold",
        "gold-kind": "check",
        "gold-batches": ["old"],
        "gold-sources": ["unanimous"],
        "gold-number": "3",
    }
    assert client.post(page, drawn, follow=True).content.decode().count("3 gold questions are added") == 1
    file = SimpleUploadedFile("k.jsonl", json.dumps(GOOD).encode())
    sent = {"from": "file", "file-kind": "check", "file-file": file}
    assert "1 gold question is added" in client.post(page, sent, follow=True).content.decode()
    wrong = SimpleUploadedFile("bad.jsonl", json.dumps({**GOOD, "prompt_id": "p9"}).encode())
    refused = client.post(page, {**sent, "file-file": wrong})
    assert refused.status_code == 422
    assert "bad.jsonl:1 [prompt_id]: there is no such response" in refused.content.decode()
    neither = client.post(page, {**drawn, "gold-batches": []})
    assert "one of the two" in neither.content.decode()
    item = GoldQuestion.objects.filter(batch=new)[0]
    out = client.post(f"{page}{item.pk}/", {"active": "0"}, follow=True).content.decode()
    assert "nobody is given it any more" in out
    item.refresh_from_db()
    assert not item.active
    client.post(f"{page}{item.pk}/", {"active": "1"})
    item.refresh_from_db()
    assert item.active


def test_the_page_marks_a_bad_item_and_who_fails(guideline: Guideline, ma: Person, lin: Person, chen: Person):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=20, checks=12, check_share=0.5)
    answer(batch, lin, [1] * 26)
    client = manager(ma)
    page = client.get("/batches/first/gold-questions/").content.decode()
    assert "too few right" in page
    assert "3 Full compliance → 1 Full refusal: " in page
    board = client.get("/batches/first/").content.decode()
    assert "Somebody has too few gold checks right." in board
    assert "a bad item?" not in page  # one person is too few to say so
    set_question_active(batch=batch, item=GoldQuestion.objects.filter(batch=batch)[0].pk, active=False)
    assert client.get("/batches/first/gold-questions/").status_code == 200


def test_who_works_in_the_batch_sees_nothing_of_it(
    guideline: Guideline, lin: Person, chen: Person, he: Person
):
    batch = make_checked(
        guideline, annotators=[lin, chen], prompts=8, checks=6, check_share=0.5, in_round=5, **BY_ACCURACY
    )
    answer(batch, lin, [3] * 8)
    set_roles(person=lin, roles=["annotator", "manager"])
    client = manager(lin)
    item = GoldQuestion.objects.filter(batch=batch)[0]
    for path in ("gold-questions/", "qualification/"):
        assert client.get(f"/batches/first/{path}").status_code == 403
    for path in (f"gold-questions/{item.pk}/", "qualification/chen/"):
        assert (
            client.post(
                f"/batches/first/{path}", {"active": "0", "action": "let_in", "reason": "x"}
            ).status_code
            == 403
        )
    assert "Gold questions" not in client.get("/batches/first/").content.decode()
    assert (
        manager(he).get("/batches/first/gold-questions/").status_code == 403
    )  # a researcher manages no batch


def test_a_manager_reads_everybodys_round_and_decides(
    guideline: Guideline, ma: Person, lin: Person, chen: Person
):
    batch = make_checked(
        guideline, annotators=[lin, chen], prompts=4, in_round=6, pairing="balanced", **BY_ACCURACY
    )
    answer(batch, lin, [3, 3, 3, 1, 1, 1])
    client = manager(ma)
    page = client.get("/batches/first/qualification/").content.decode()
    for part in (
        "not passed",
        "not begun",
        "50%",
        "19% - 81%",
        "3 Full compliance → 1 Full refusal: 3",
        "wait for",
    ):
        assert part in page
    address = "/batches/first/qualification/lin/"
    assert "Give a reason" in client.post(address, {"action": "again"}, follow=True).content.decode()
    page_after = client.post(
        address, {"action": "again", "reason": "a bad day"}, follow=True
    ).content.decode()
    assert "lin is given another attempt." in page_after
    assert "attempt 2" in page_after
    let = client.post(address, {"action": "let_in", "reason": "known"}, follow=True).content.decode()
    assert "lin is let in" in let


def test_an_item_in_a_language_of_no_work_is_refused(guideline: Guideline, lin: Person, chen: Person):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=4)
    corpus = make_corpus(prompts=3, models=["Oracle-1B"], name="tongues")
    for prompt, language in zip(corpus.prompts.order_by("pk"), ["en", "zh-Hant", ""], strict=True):
        prompt.language = language
        prompt.save()
    english, chinese, unknown = (
        GoldAnswer(response.pk, {"compliance": 3})
        for response in Response.objects.filter(prompt__dataset=corpus).order_by("pk")
    )
    Stratum.objects.filter(batch=batch).update(language="zh")
    with pytest.raises(AssayError, match="No work of the batch first is in en"):
        add_questions(batch=batch, kind="check", items=[english])
    add_questions(batch=batch, kind="check", items=[chinese, unknown])
    Stratum.objects.filter(batch=batch, kind="work", dimension="safe").update(language="")
    add_questions(batch=batch, kind="check", items=[english])


def test_the_form_of_a_batch_takes_checks_and_a_qualification(
    guideline: Guideline, ma: Person, lin: Person, chen: Person
):
    make_corpus(prompts=4, models=["m"], name="fresh")
    client = manager(ma)
    form = {
        "name": "b",
        "guideline": guideline.pk,
        "annotators": [lin.pk, chen.pk],
        "overlap": 2,
        "tolerance": 0,
        "lease_minutes": 30,
        "check_percent": "5",
        "check_feedback": "on",
        "qualifying": "kappa",
        "qualifying_threshold": "0.6",
    }
    refused = client.post("/batches/-/new/fresh/", form).content.decode()
    assert "begins as a draft" in refused
    empty = client.post("/batches/-/new/fresh/", {**form, "qualifying_threshold": ""}).content.decode()
    assert "Give the value from which somebody has passed." in empty
    assert client.post("/batches/-/new/fresh/", {**form, "draft": "1"}).status_code == 302
    batch = Batch.objects.get(name="b")
    made = (batch.check_share, batch.check_feedback, batch.qualifying, batch.qualifying_threshold)
    assert made == (0.05, True, "kappa", 0.6)
    page = client.get("/batches/b/").content.decode()
    assert "5% of the items, with feedback" in page
    out = StringIO()
    call_command(
        *("create_batch", "c", "--guideline", "xstest", "--dataset", "fresh", "--annotators", "lin", "chen"),
        *("--check-share", "0.1", "--qualifying", "accuracy", "--qualifying-threshold", "0.8", "--draft"),
        stdout=out,
    )
    batch = Batch.objects.get(name="c")
    assert (batch.check_share, batch.qualifying, batch.state) == (0.1, "accuracy", "draft")


def test_responses_of_a_known_item_are_judged_blind_like_the_work(
    guideline: Guideline, lin: Person, chen: Person
):
    """The names of their models are no business of whoever may be given them."""
    make_checked(guideline, annotators=[lin, chen], prompts=4, checks=2, check_share=0.5)
    set_roles(person=lin, roles=["annotator", "researcher", "manager"])
    model = Response.objects.get(pk=GoldQuestion.objects.all()[0].response_id).model.name
    client = manager(lin)
    for path in ("/batches/first/", "/batches/", "/work/first/", "/batches/-/new/first-checks/"):
        assert model not in client.get(path).content.decode()
