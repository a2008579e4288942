"""On a large release a job compares judges: its result is kept, and said to be out of date once labels have come."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse

import benchmark.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.models import GoldRelease, Guideline, Job, Person, Response
from annotation.services import jobs
from annotation.services.studies import find_or_make_study
from benchmark.models import Judge, JudgeComparison, JudgeLabel
from benchmark.selectors.judges import comparison
from benchmark.selectors.judges.comparison import ComparisonRequest, clear_cache, find_stored_comparison
from benchmark.services.judges.comparison import start_comparison
from tests.benchmark.support import release_of_disputes

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Any release is a large one."""
    monkeypatch.setattr(comparison, "MAX_LABELS_AT_ONCE", 0)
    clear_cache()
    yield
    clear_cache()


@pytest.fixture
def gold(guideline: Guideline) -> GoldRelease:
    release = release_of_disputes()
    judge = Judge.objects.create(
        study=find_or_make_study(),
        name="elsewhere",
        guideline=guideline,
        kind="imported",
        source="a.csv",
    )
    add_labels(judge, start=0, stop=6)
    return release


def add_labels(judge: Judge, *, start: int, stop: int) -> None:
    for response in Response.objects.order_by("pk")[start:stop]:
        JudgeLabel.objects.create(judge=judge, response=response, criterion="compliance", value=3)


def read_page(client: Client, release: GoldRelease) -> str:
    response = client.get(reverse("judge-comparison", args=[release.name]))
    assert response.status_code == 200
    return response.content.decode()


def press(client: Client, release: GoldRelease) -> Job:
    assert client.post(reverse("judge-comparison", args=[release.name])).status_code == 302
    return Job.objects.filter(kind="compare_judges").latest("pk")


@pytest.mark.both_databases
def test_a_job_compares_and_what_it_made_is_kept_until_it_is_made_anew(
    gold: GoldRelease, he: Person, client: Client
):
    client.force_login(he)
    assert "its result is kept" in read_page(client, gold)
    job = press(client, gold)
    waiting = read_page(client, gold)
    assert reverse("job-progress", args=[job.pk]) in waiting
    assert "being computed" in waiting
    assert jobs.run(job.pk).state == Job.State.DONE
    done = read_page(client, gold)
    assert "elsewhere" in done
    assert "out of date" not in done
    assert ">Compare</button></form>\n" not in done

    add_labels(Judge.objects.get(), start=6, stop=8)
    stale = read_page(client, gold)
    assert "out of date" in stale
    (row,) = [row for row in _stored(gold)["candidates"] if row["kind"] == "judge"]
    assert row["n"] == 6
    jobs.run(press(client, gold).pk)
    assert "out of date" not in read_page(client, gold)
    (row,) = [row for row in _stored(gold)["candidates"] if row["kind"] == "judge"]
    assert row["n"] == 8


def _stored(release: GoldRelease) -> dict[str, list[dict[str, object]]]:
    document: dict[str, list[dict[str, object]]] = JudgeComparison.objects.get(release=release).document
    return document


def test_labels_that_come_while_it_is_built_make_it_out_of_date(
    gold: GoldRelease, monkeypatch: pytest.MonkeyPatch
):
    request = ComparisonRequest(gold)
    job = start_comparison(request)
    build = ComparisonRequest.build

    def build_while_labels_come(self: ComparisonRequest, *arguments: object) -> dict[str, object]:
        document = build(self)
        add_labels(Judge.objects.get(), start=6, stop=8)
        return document

    monkeypatch.setattr(ComparisonRequest, "build", build_while_labels_come)
    assert jobs.run(job.pk).state == Job.State.DONE
    assert find_stored_comparison(request).is_stale


def test_there_is_one_job_at_a_time_for_a_release(gold: GoldRelease):
    first = start_comparison(ComparisonRequest(gold))
    assert start_comparison(ComparisonRequest(gold)).pk == first.pk
    assert start_comparison(ComparisonRequest(gold, common=True)).pk == first.pk
    jobs.run(first.pk)
    assert start_comparison(ComparisonRequest(gold, common=True)).pk != first.pk


def test_a_job_that_was_cancelled_leaves_what_was_kept(gold: GoldRelease, he: Person, client: Client):
    client.force_login(he)
    jobs.run(press(client, gold).pk)
    add_labels(Judge.objects.get(), start=6, stop=7)
    jobs.cancel(job=press(client, gold))
    content = read_page(client, gold)
    assert "did not come to its end" in content
    assert "elsewhere" in content


def test_the_job_says_the_same_as_the_command_does(gold: GoldRelease):
    request = ComparisonRequest(gold)
    jobs.run(start_comparison(request).pk)
    assert _stored(gold)["candidates"] == request.build()["candidates"]
