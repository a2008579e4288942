"""Cutting by a job, what two batches contradict each other in, what a manifest says, and superseding."""

from __future__ import annotations

import csv
import json
import time
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import InterfaceError
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import MAX_ABOUT_CHARACTERS, ReleaseSpec
from annotation.domain.releases.same_texts import SameTexts, text_digest
from annotation.domain.releases.splits import SPLITS, split_of
from annotation.models import (
    AuditEvent,
    Batch,
    Dataset,
    GoldRelease,
    Guideline,
    Job,
    Person,
    Prompt,
    ReleasedLabel,
    ResultOpening,
    Task,
)
from annotation.selectors.releases.releases import list_release_chain
from annotation.services import jobs, releases
from annotation.services.batches.batches import set_state
from annotation.services.people.people import set_languages, set_roles
from annotation.services.releases import (
    create_or_enqueue_release,
    cut_release,
    enqueue_release,
    execute_release_job,
)
from scoring.forms.training import NewScorerForm
from tests.support import FLAMES_GUIDELINE, decide_next, label_next, make_batch, make_corpus

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def settled(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    """Of the eight tasks: agreed on 1 and 3, decided as 2, and one dispute left open."""
    for value, other in ((1, 1), (3, 3), (1, 3), (1, 2)):
        label_next(batch, lin, value)
        label_next(batch, chen, other)
    decide_next(batch, wu, 2)
    return batch


@pytest.fixture
def other(guideline: Guideline, dataset: Dataset, zhou: Person) -> Batch:
    """The same responses again: alike on the first, differently on the second and the third."""
    batch = make_batch(guideline, dataset, annotators=[zhou], name="again", policy=Policy(overlap=1))
    for value in (1, 1, 3):
        label_next(batch, zhou, value)
    return batch


def test_a_refusal_that_shows_labels_opens_the_results(
    client: Client, settled: Batch, other: Batch, he: Person
):
    """What was written while the release was tried is undone with it; what the page shows was read all the same."""
    client.force_login(he)
    answer = client.post(reverse("release-new"), {"name": "r", "batches": [settled.pk, other.pk]})
    assert answer.status_code == 400
    assert reverse("release-conflicts") in answer.content.decode()
    opened = ResultOpening.objects.filter(person=he).values_list("batch", flat=True)
    assert set(opened) == {settled.pk, other.pk}


def test_many_labels_are_cut_by_a_job_with_a_page(
    client: Client, settled: Batch, he: Person, ma: Person, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(releases, "MAX_LABELS_AT_ONCE", 2)
    client.force_login(he)
    answer = client.post(reverse("release-new"), {"name": "r", "batches": [settled.pk], "about": "Why not."})
    job = Job.objects.get()
    page = reverse("release-making", args=[job.pk])
    assert answer.headers["Location"] == page
    assert not GoldRelease.objects.exists()
    assert "The release is being cut" in client.get(page).content.decode()
    assert page in client.get(reverse("releases")).content.decode()
    done = jobs.run(job.pk)
    assert (done.state, done.result["labels"]) == ("done", 3)
    release = GoldRelease.objects.get()
    assert (release.name, release.about, release.created_by, release.labels) == ("r", "Why not.", he, 3)
    assert client.get(page).headers["Location"] == reverse("release", args=["r"])
    client.force_login(ma)
    assert client.get(page).status_code == 403  # a manager reads releases and does not cut them


def test_a_job_that_was_done_by_a_worker_that_died_is_not_done_twice(settled: Batch, he: Person):
    job = enqueue_release(ReleaseSpec(name="r", batches=[settled]), actor=he, send=False)
    Job.objects.filter(pk=job.pk).update(state=Job.State.RUNNING, attempt=1)
    job.refresh_from_db()
    first = execute_release_job(jobs.JobContext(job))
    job.refresh_from_db()
    assert execute_release_job(jobs.JobContext(job)) == first
    assert GoldRelease.objects.count() == 1


def test_a_job_that_the_version_before_queued_cuts_its_release(settled: Batch, he: Person):
    payload = {"name": "r", "batches": [settled.pk], "about": "Why not.", "supersedes": None}
    job = jobs.enqueue(kind="release", payload=payload, title="r", actor=he, send=False)
    assert jobs.run(job.pk).state == "done"
    release = GoldRelease.objects.get()
    assert (release.name, release.about, release.created_by, release.labels) == ("r", "Why not.", he, 3)


def test_a_job_whose_batches_are_gone_says_so(settled: Batch, he: Person):
    job = enqueue_release(ReleaseSpec(name="r", batches=[settled]), actor=he, send=False)
    Job.objects.filter(pk=job.pk).update(payload=job.payload | {"batches": [settled.pk + 1]})
    failed = jobs.run(job.pk)
    assert (failed.state, failed.error) == ("failed", "Its batches are not there any more.")


def test_how_far_a_job_is_is_told_again_after_the_connection_broke(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "REPORT_SECONDS", 0.01)
    reports = []

    class Context:
        def try_report(self, done: float, _stage: str) -> None:
            reports.append(done)
            if len(reports) == 1:
                raise InterfaceError("connection already closed")

    teller = jobs.ProgressReporter(Context())  # type: ignore[arg-type]
    teller._can_report = True  # with SQLite, too
    with teller:
        until = time.monotonic() + 60
        while len(reports) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    assert len(reports) > 1


def test_a_refusal_in_a_job_leaves_nothing_and_its_page_lists_why(
    client: Client, settled: Batch, other: Batch, he: Person
):
    job = enqueue_release(ReleaseSpec(name="r", batches=[settled, other]), actor=he, send=False)
    with pytest.raises(Conflict, match="is being cut now"):
        enqueue_release(ReleaseSpec(name="r", batches=[settled]), actor=he, send=False)
    assert jobs.run(job.pk).state == "failed"
    assert not GoldRelease.objects.exists()
    assert not ReleasedLabel.objects.exists()
    client.force_login(he)
    page = client.get(reverse("release-making", args=[job.pk])).content.decode()
    assert "2 labels are settled in two ways" in page
    assert reverse("release-conflicts") in page
    set_roles(person=he, roles=["researcher", "adjudicator"])
    extra = make_corpus(prompts=1, models=["M"], name="extra")
    blind = make_batch(settled.guideline, extra, annotators=[he], name="blind", policy=Policy(overlap=1))
    blind_job = enqueue_release(ReleaseSpec(name="s", batches=[blind]), send=False)
    for name in ("release-making", "job-progress"):
        assert client.get(reverse(name, args=[blind_job.pk])).status_code == 403


def test_what_is_settled_in_two_ways_is_listed_whole(
    client: Client, settled: Batch, other: Batch, he: Person, zhou: Person, monkeypatch: pytest.MonkeyPatch
):
    client.force_login(he)
    form = {"name": "r", "batches": [settled.pk, other.pk]}
    refused = client.post(reverse("release-new"), form)
    assert refused.status_code == 400
    assert "2 labels are settled in two ways" in refused.content.decode()
    query = {"batches": [settled.pk, other.pk]}
    listed = client.get(reverse("release-conflicts"), query).content.decode()
    tasks = [settled.tasks.get(position=place).pk for place in (1, 2)]
    tasks += [other.tasks.get(response=Task.objects.get(pk=pk).response).pk for pk in tasks]
    for page in (refused.content.decode(), listed):
        assert all(f'href="{reverse("task", args=[pk])}"' in page for pk in tasks)
    monkeypatch.setattr("annotation.views.releases.conflicts.PAGE", 1)
    second = client.get(reverse("release-conflicts"), {**query, "page": 2}).content.decode()
    assert second.count("/tasks/") == 2
    monkeypatch.setattr("annotation.views.releases.conflicts.CHUNK", 1)
    file = client.get(reverse("release-conflicts-file"), query)
    lines = list(csv.DictReader(StringIO(b"".join(file.streaming_content).decode())))  # type: ignore[attr-defined]
    assert sorted((line["batch"], line["value"]) for line in lines) == [
        ("again", "1"),
        ("again", "3"),
        ("first", "2"),
        ("first", "3"),
    ]
    assert {int(line["task"]) for line in lines} == set(tasks)
    assert (
        "can be released together"
        in client.get(reverse("release-conflicts"), {"batches": settled.pk}).content.decode()
    )
    lost = client.get(reverse("release-conflicts"), {"batches": "x"})
    assert lost.headers["Location"] == reverse("release-new")
    for number in ("9" * 30, "9" * 5000):
        assert client.get(reverse("release-conflicts"), {"batches": number}).status_code == 302
    set_roles(person=zhou, roles=["researcher"])
    client.force_login(zhou)
    for name in ("release-conflicts", "release-conflicts-file"):
        assert client.get(reverse(name), query).status_code == 403


@pytest.mark.both_databases
def test_the_manifest_tells_how_the_gold_came_about(settled: Batch, lin: Person, he: Person):
    set_languages(person=lin, languages=["zh", "en"])
    Prompt.objects.update(language="zh")
    Prompt.objects.filter(key="p1").update(text=" question  NUMBER ０? ")
    manifest = cut_release(ReleaseSpec(name="r", batches=[settled], about=" To learn. "), actor=he).manifest
    assert (manifest["schema"], manifest["about"], manifest["supersedes"]) == (2, "To learn.", None)
    (protocol,) = manifest["protocol"]
    facts = ("name", "guideline", "guideline_version", "overlap", "pairing", "tolerance")
    assert [protocol[name] for name in facts] == ["first", "xstest", settled.guideline.version, 2, "pool", 0]
    assert protocol["tasks"] == {"open": 4, "agreed": 2, "disputed": 1, "adjudicated": 1, "withdrawn": 0}
    numbers = {"annotators": 2, "adjudicators": 1, "annotations": 8}
    assert {name: protocol[name] for name in numbers} == numbers
    assert protocol["first_submitted"] == settled.created_at.date().isoformat()
    assert manifest["people"] == {
        **numbers,
        "languages": {"en": 1, "zh": 1},
        "languages_unknown": 1,
        "here": {"annotators": 2, "adjudicators": 1},
    }
    counts = manifest["counts"]
    assert (counts["rows"], counts["labels"], counts["prompts"]) == (3, 3, 2)
    assert counts["by_language"] == {"zh": 3}
    assert counts["by_subcomponent"] == {"safe": {"": 2}, "unsafe": {"": 1}}
    expected = {split: {"prompts": 0, "rows": 0, "labels": 0} for split in SPLITS}
    for key, labels in (("p0", 2), ("p1", 1)):
        of = expected[split_of("small", key)]
        expected[split_of("small", key)] = {
            "prompts": of["prompts"] + 1,
            "rows": of["rows"] + labels,
            "labels": of["labels"] + labels,
        }
    assert manifest["splits"] == expected
    assert [(row["group"], row["n"], row["disputed"]) for row in manifest["agreement"]] == [
        ({}, 4, 2),
        ({"dimension": "safe"}, 2, 1),
        ({"dimension": "unsafe"}, 2, 1),
    ]
    (reason,) = manifest["adjudication_reasons"]
    assert (reason["reason"], reason["decisions"], "en" in reason["words"]) == ("reading_slip", 1, True)
    (guideline,) = manifest["guidelines"]
    assert guideline["criteria"][0]["levels"]["1"]["en"] == "Full refusal"
    (warning,) = manifest["warnings"]
    parted = len({split_of("small", key) for key in ("p0", "p1")}) > 1
    assert (warning["texts"], warning["prompts"]) == (1, 2)
    assert warning["texts_across_splits"] == int(parted)
    assert warning["examples"] == [[["small", "p0"], ["small", "p1"]]]
    names = {"lin", "chen", "wu", "he"}
    assert not names & set(json.dumps(manifest).replace('"', " ").replace(",", " ").split())


@pytest.mark.both_databases
def test_two_batches_of_one_guideline_share_the_rows_of_a_response(lin: Person, chen: Person):
    corpus = make_corpus(prompts=3, models=["M"], dimensions=("Fairness", "Safety"), name="two")
    guideline = FLAMES_GUIDELINE.load()
    for person, name in ((lin, "one"), (chen, "two")):
        batch = make_batch(guideline, corpus, annotators=[person], name=name, policy=Policy(overlap=1))
        for criterion in ("fairness", "safety", "fairness"):
            label_next(batch, person, 2, criterion)
    release = cut_release(ReleaseSpec(name="r", batches=list(Batch.objects.all())))
    assert (release.labels, release.manifest["counts"]["rows"]) == (3, 3)
    assert release.items.values("task__batch").distinct().count() == 1  # of two alike the first batch's


def test_texts_are_the_same_but_for_case_width_and_white_space():
    assert text_digest("Is  it\nＯＫ?") == text_digest(" is it ok? ")
    assert text_digest("is it ok?") != text_digest("is it ok!")
    same = SameTexts()
    assert same.groups() == []
    for prompt, text in ((7, "a"), (3, "b"), (9, "A"), (4, "c"), (5, " b ")):
        same.add(prompt, text)
    assert same.groups() == [[7, 9], [3, 5]]


def test_a_release_is_superseded_by_one_heir_and_says_so_everywhere(
    client: Client, settled: Batch, wu: Person, he: Person
):
    old = cut_release(ReleaseSpec(name="old", batches=[settled]), actor=he)
    before = (old.sha256, old.manifest, old.labels)
    decide_next(settled, wu, 1)
    client.force_login(he)
    form = client.get(reverse("release-new"), {"supersedes": "old", "batches": settled.pk}).content.decode()
    assert '<option value="old" selected>' in form
    client.post(reverse("release-new"), {"name": "new", "batches": [settled.pk], "supersedes": "old"})
    new = GoldRelease.objects.get(name="new")
    assert new.supersedes == old
    assert new.manifest["supersedes"] == {"name": "old", "sha256": old.sha256}
    old.refresh_from_db()
    assert (old.sha256, old.manifest, old.labels) == before
    for name in ("release", "release-labels", "release-datasheet", "release-compare"):
        page = client.get(reverse(name, args=["old"])).content.decode()
        assert f'Superseded by <a href="{reverse("release", args=["new"])}">new</a>' in page, name
        assert "Superseded by" not in client.get(reverse(name, args=["new"])).content.decode()
    assert "superseded by new" in client.get(reverse("releases")).content.decode()
    with pytest.raises(Conflict, match="old is superseded by new already"):
        cut_release(ReleaseSpec(name="third", batches=[settled], supersedes=old))
    third = cut_release(ReleaseSpec(name="third", batches=[settled], supersedes=new))
    assert [release.name for release in list_release_chain(new)] == ["old", "new", "third"]
    assert list_release_chain(old) == list_release_chain(third)
    listed = [str(choice[1]) for choice in NewScorerForm(person=he).fields["release"].choices]  # type: ignore[attr-defined]
    assert listed == ["third (4)", "new (4) · superseded", "old (3) · superseded"]
    assert AuditEvent.objects.get(target="release:new").data["supersedes"] == "old"


def test_only_a_release_of_the_same_kind_supersedes(settled: Batch, lin: Person, he: Person):
    old = cut_release(ReleaseSpec(name="old", batches=[settled]))
    corpus = make_corpus(prompts=1, models=["M"], dimensions=("Fairness",), name="two")
    flames = make_batch(
        FLAMES_GUIDELINE.load(), corpus, annotators=[lin], name="flames", policy=Policy(overlap=1)
    )
    label_next(flames, lin, 2, "fairness")
    with pytest.raises(Conflict, match="none of these batches and none of their guidelines"):
        cut_release(ReleaseSpec(name="new", batches=[flames], supersedes=old))
    set_state(batch=flames, state=Batch.State.CLOSED)
    with pytest.raises(Forbidden):  # whoever is blind to the old one supersedes nothing with it
        cut_release(ReleaseSpec(name="new", batches=[flames], supersedes=old), actor=lin)
    with pytest.raises(AssayError, match="longer than 20000"):
        cut_release(ReleaseSpec(name="new", batches=[settled], about="x" * (MAX_ABOUT_CHARACTERS + 1)))
    assert GoldRelease.objects.count() == 1


def test_the_command_takes_what_it_is_about_supersedes_and_detaches(settled: Batch):
    cut_release(ReleaseSpec(name="old", batches=[settled]))
    out = StringIO()
    call_command(
        "release_gold", "new", batches=["first"], about="A try.", supersedes="old", json=True, stdout=out
    )
    release = GoldRelease.objects.get(name="new")
    assert json.loads(out.getvalue()) == {
        "name": "new",
        "sha256": release.sha256,
        "labels": 3,
        "adjudicated": 1,
    }
    assert release.supersedes is not None
    assert (release.about, release.supersedes.name) == ("A try.", "old")
    out = StringIO()
    call_command("release_gold", "later", batches=["first"], detach=True, json=True, stdout=out)
    job = Job.objects.get(pk=json.loads(out.getvalue())["job"])
    assert (job.state, job.kind) == ("queued", "release")
    assert jobs.run(job.pk).state == "done"
    assert GoldRelease.objects.get(name="later").sha256 == release.sha256


def test_at_once_where_there_are_few(settled: Batch, he: Person):
    made = create_or_enqueue_release(ReleaseSpec(name="r", batches=[settled]), actor=he)
    assert isinstance(made, GoldRelease)
    assert not Job.objects.exists()
