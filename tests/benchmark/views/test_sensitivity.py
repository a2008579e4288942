"""Sensitivity on its page, in the report and in files: who is left out, under which name, and who may see it."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from annotation.domain.batch_spec import BatchSpec
from annotation.models import Annotation, Collection, Guideline, Job, Person
from annotation.services import jobs
from annotation.services.batches.batches import create_batch, set_state
from benchmark.models import BenchmarkRun, BoardPart
from benchmark.selectors.estimates import sensitivity
from benchmark.services.leaderboards.execution import finish_run, write_items
from benchmark.services.leaderboards.runs import create_run
from benchmark.services.sensitivity import load_sensitivity
from tests.benchmark.support import decide_all, ready_scorer, release_of, settle
from tests.support import add_role, first_batch, person

PEOPLE = ("lin", "chen", "wu")
TAGS, BLANKS = re.compile(r"<[^>]+>"), re.compile(r"\s+")


@pytest.fixture
def run(db: None) -> BenchmarkRun:
    """Lin says 3 of everything; chen says 1 of what Hidden-13B answered, and wu decides for chen."""
    batch = first_batch()
    settle(batch, [person("lin")], lambda _response: 3)
    settle(batch, [person("chen")], lambda response: 1 if response.model.name == "Hidden-13B" else 3)
    decide_all(batch, person("wu"), 1)
    set_state(batch=batch, state="closed")
    release = release_of(batch)
    scorer = ready_scorer(release, Guideline.objects.get())
    made = create_run(
        name="board",
        scorer=scorer,
        dataset=batch.tasks.first().response.prompt.dataset,  # type: ignore[union-attr]
        collection=Collection.objects.get(name=""),
        send=False,
    )
    write_items(made, lambda _done: None)
    finish_run(made)
    return made


@pytest.fixture
def researcher(db: None) -> Person:
    return person("he")


def words(content: bytes) -> str:
    return BLANKS.sub(" ", TAGS.sub(" ", content.decode()))


def read(run: BenchmarkRun) -> dict[str, Any]:
    content = load_sensitivity(run).content
    assert content is not None
    return content


def page(client: Client, run: BenchmarkRun, language: str = "en") -> str:
    answer = client.get(
        reverse("run", args=[run.name]), {"view": "sensitivity"}, headers={"Accept-Language": language}
    )
    assert answer.status_code == 200
    return words(answer.content)


def test_the_board_itself_computes_nothing_of_it(
    client: Client, run: BenchmarkRun, researcher: Person
) -> None:
    client.force_login(researcher)
    client.get(reverse("run", args=[run.name]))
    assert not BoardPart.objects.filter(run=run, name="sensitivity").exists()
    page(client, run)
    assert BoardPart.objects.filter(run=run, name="sensitivity").count() == 1


def test_without_each_person_the_gold_is_what_the_others_said(run: BenchmarkRun) -> None:
    content = read(run)
    first, second = content["models"]
    assert second == "Hidden-13B"
    assert (content["values"], content["ranks"]) == ([1.0, 0.0], [1, 2])
    lines = {
        (Person.objects.get(pk=without["person"]).username, without["role"]): without
        for without in content["without"]
    }
    assert lines.keys() == {("lin", "annotator"), ("chen", "annotator"), ("wu", "adjudicator")}
    chen = lines["chen", "annotator"]
    assert (chen["changed"], chen["dropped"]) == (4, 0)
    assert (chen["values"], chen["ranks"]) == ([1.0, 1.0], [1, 1])
    assert (lines["lin", "annotator"]["changed"], lines["lin", "annotator"]["values"]) == (0, [1.0, 0.0])
    wu = lines["wu", "adjudicator"]
    assert (wu["dropped"], wu["values"], wu["ranks"]) == (4, [1.0, None], [None, None])
    assert first != second


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "Leaving out 1 of 3 people, one at a time, changes the order of the compared models."),
        ("zh-hans", "逐一排除 3 人时，有 1 人会改变参与比较的模型的排序。"),
    ],
)
def test_the_page_says_who_moves_which_rank(
    client: Client, run: BenchmarkRun, researcher: Person, language: str, sentence: str
) -> None:
    client.force_login(researcher)
    content = page(client, run, language)
    assert sentence in content
    assert "Hidden-13B: 2 → 1" in content


def test_files_name_nobody(client: Client, run: BenchmarkRun, researcher: Person) -> None:
    client.force_login(researcher)
    names = {str(person(name)) for name in PEOPLE} | set(PEOPLE)
    for kind in ("report", "latex"):
        text = words(client.get(reverse("run-export", args=[run.name]), {"format": kind}).content)
        assert "annotator-0" in text
        assert not [name for name in names if re.search(rf"\b{name}\b", text)]
    document = json.loads(client.get(reverse("run-export", args=[run.name]), {"format": "json"}).content)
    without = document["parts"]["sensitivity"]["without"]
    assert sorted(line["person"] for line in without) == ["adjudicator-01", "annotator-01", "annotator-02"]


def test_who_judges_blind_sees_nothing_of_it(client: Client, run: BenchmarkRun) -> None:
    blind = person("lin")
    add_role(blind, "researcher")
    create_batch(
        BatchSpec(
            name="again",
            guideline=run.scorer.guideline.pk,
            dataset=run.dataset_id,
            annotators=[blind.pk, person("chen").pk],
        )
    )
    client.force_login(blind)
    assert client.get(reverse("run", args=[run.name]), {"view": "sensitivity"}).status_code == 403


def test_a_board_of_predictions_has_no_order_to_move(
    client: Client, run: BenchmarkRun, researcher: Person
) -> None:
    run.items.all().delete()
    board = run.board
    for row in board["rows"]:
        row |= {"ground": "predicted", "reason": "no_gold"}
        for cell in row["dimensions"].values():
            cell["composition"] = {"gold": 0, "out_of_fold": 0, "unseen": cell["n"]}
            cell |= {"ground": "predicted", "reason": "no_gold"}
    run.save()
    client.force_login(researcher)
    assert "Sensitivity needs two compared models" in page(client, run)
    assert read(run)["models"] == []


def test_where_nobody_can_be_left_out_no_rank_is_called_stable(
    client: Client, run: BenchmarkRun, researcher: Person
) -> None:
    read(run)
    content = BoardPart.objects.get(run=run, name="sensitivity").content
    lone = [line | {"ranks": [None, None]} for line in content["without"]]
    BoardPart.objects.filter(run=run, name="sensitivity").update(content=content | {"without": lone})
    client.force_login(researcher)
    text = page(client, run)
    assert "Without 3 of the people some compared model has no gold left" in text
    assert "changes the rank of no compared model" not in text


@pytest.fixture
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any board is a large one."""
    monkeypatch.setattr(sensitivity, "MAX_ITEMS_AT_ONCE", 0)


def jobs_of(run: BenchmarkRun) -> list[Job]:
    return list(Job.objects.filter(kind="compute_sensitivity", payload__run=run.pk).order_by("pk"))


def correct_label(run: BenchmarkRun) -> None:
    """Chen says 3 of one response after all."""
    annotation = Annotation.objects.filter(assignment__person=person("chen"), labels__compliance=1).first()
    assert annotation is not None
    Annotation.objects.filter(pk=annotation.pk).update(current=False)
    annotation.pk, annotation.revision, annotation.receipt = None, annotation.revision + 1, uuid4()
    annotation.idempotency_key, annotation.labels = "again", {"compliance": 3}
    annotation.save(force_insert=True)


@pytest.mark.both_databases
@pytest.mark.usefixtures("_large")
def test_on_a_large_board_a_job_computes_it_once_until_labels_change(
    client: Client, run: BenchmarkRun, researcher: Person
) -> None:
    client.force_login(researcher)
    waiting = page(client, run)
    (job,) = jobs_of(run)
    assert "This is being computed. You can leave this page" in waiting
    assert "Ranks by model" not in waiting
    page(client, run)
    assert jobs_of(run) == [job]
    assert jobs.run(job.pk).state == Job.State.DONE
    assert "Hidden-13B: 2 → 1" in page(client, run)
    assert jobs_of(run) == [job]

    correct_label(run)
    stale = page(client, run)
    assert "out of date" in stale
    assert "Hidden-13B: 2 → 1" in stale
    assert "This is being computed." in stale
    _first, second_job = jobs_of(run)
    jobs.run(second_job.pk)
    fresh = page(client, run)
    assert "out of date" not in fresh
    assert not load_sensitivity(run).is_stale
    assert len(jobs_of(run)) == 2


@pytest.mark.usefixtures("_large")
def test_files_say_that_it_is_being_computed(client: Client, run: BenchmarkRun, researcher: Person) -> None:
    client.force_login(researcher)
    export = reverse("run-export", args=[run.name])
    for kind in ("report", "latex"):
        assert "without each person is being computed" in words(client.get(export, {"format": kind}).content)
    document = json.loads(client.get(export, {"format": "json"}).content)
    assert document["parts"]["sensitivity"] == {"state": "computing"}
    (job,) = jobs_of(run)
    jobs.run(job.pk)
    document = json.loads(client.get(export, {"format": "json"}).content)
    assert document["parts"]["sensitivity"]["state"] == "current"
    assert "key" not in document["parts"]["sensitivity"]
    correct_label(run)
    document = json.loads(client.get(export, {"format": "json"}).content)
    assert document["parts"]["sensitivity"]["state"] == "stale"


@pytest.mark.usefixtures("_large")
def test_a_job_that_was_cancelled_is_repeated_where_somebody_asks(
    client: Client, run: BenchmarkRun, researcher: Person
) -> None:
    client.force_login(researcher)
    page(client, run)
    (job,) = jobs_of(run)
    jobs.cancel(job=job)
    content = page(client, run)
    assert "The last attempt did not come to its end: cancelled" in content
    assert "Recompute" in content
    assert jobs_of(run) == [job]
    export = reverse("run-export", args=[run.name])
    assert "did not come to its end" in words(client.get(export, {"format": "report"}).content)
    assert client.post(reverse("run-sensitivity", args=[run.name])).status_code == 302
    _cancelled, second_job = jobs_of(run)
    jobs.run(second_job.pk)
    assert "Hidden-13B: 2 → 1" in page(client, run)


@pytest.mark.usefixtures("_large")
def test_the_job_says_the_same_as_a_small_board_at_once(
    run: BenchmarkRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = load_sensitivity(run).job
    assert job is not None
    jobs.run(job.pk)
    by_job = read(run)
    BoardPart.objects.filter(run=run, name="sensitivity").delete()
    monkeypatch.setattr(sensitivity, "MAX_ITEMS_AT_ONCE", 500)
    assert read(run) == by_job
    assert len(jobs_of(run)) == 1


def test_a_part_of_before_keys_were_kept_is_computed_again(run: BenchmarkRun) -> None:
    content = read(run)
    BoardPart.objects.filter(run=run, name="sensitivity").update(content=content | {"tasks": 0})
    assert read(run) == content
