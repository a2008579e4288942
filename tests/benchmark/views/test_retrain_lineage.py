"""Retraining touches the boards of its own lineage, names them beforehand, and starts nothing unasked."""

from __future__ import annotations

import io
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from annotation.models import Collection, Dataset, GoldRelease, Guideline, Job, Person
from benchmark.models import BenchmarkRun, Retraining
from benchmark.selectors.leaderboards.freshness import compute_freshness, find_stale_kinds
from benchmark.selectors.leaderboards.runs import list_retraining_runs, list_runs
from benchmark.services.leaderboards.runs import create_run, rerun_board, retrain
from scoring.domain.spec import Spec
from scoring.models import Scorer
from tests.benchmark.sharing_support import finish, heir, promoted
from tests.benchmark.support import ready_scorer, release_of, settle_by_dimension
from tests.support import first_batch, make_batch, make_corpus, person, small_dataset

pytestmark = pytest.mark.django_db


def made(scorer: Scorer, dataset: Dataset, name: str) -> BenchmarkRun:
    usual = Collection.objects.get(name="")
    return finish(create_run(name=name, scorer=scorer, dataset=dataset, collection=usual, send=False))


@pytest.fixture(scope="module")
def boards(module_db: None) -> tuple[str, str]:
    """``board`` on the gold of the batch ``first``, and ``elsewhere``: other data and gold, by the same guideline."""
    batch = first_batch()
    settle_by_dimension(batch)
    release = release_of(batch)
    guideline = Guideline.objects.get()
    scorer = ready_scorer(release, guideline)
    scorer.config = {"spec": Spec().to_json()}
    scorer.save()
    run = made(scorer, small_dataset(), "board")
    corpus = make_corpus(prompts=2, models=["Stranger-3B"], name="other data")
    people = [person("lin"), person("chen")]
    other = heir(release, "other gold")
    other.batches.set([make_batch(guideline, corpus, annotators=people, name="another batch")])
    return run.name, made(ready_scorer(other, guideline, "stranger"), corpus, "elsewhere").name


@pytest.fixture
def run(db: None, boards: tuple[str, str]) -> BenchmarkRun:
    return list_runs().get(name=boards[0])


@pytest.fixture
def elsewhere(db: None, boards: tuple[str, str]) -> BenchmarkRun:
    return list_runs().get(name=boards[1])


@pytest.fixture
def newer(run: BenchmarkRun) -> GoldRelease:
    return release_of(run.scorer.release.batches.get(), "gold-2")


def words(content: bytes) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", content.decode()))


def retraining_page(client: Client, release: GoldRelease) -> Any:
    return client.get(reverse("retrain", args=[release.name]))


def test_boards_of_other_gold_are_not_run_again(
    run: BenchmarkRun, elsewhere: BenchmarkRun, newer: GoldRelease
):
    chain = retrain(release=newer, send=False)
    assert [retraining_run.replaces for retraining_run in list_retraining_runs(chain)] == [run]
    assert chain.scorer.name == "scorer-2"  # after the scorer of its own lineage


def test_a_release_that_superseded_the_gold_of_a_board_is_of_its_lineage(
    run: BenchmarkRun, elsewhere: BenchmarkRun, newer: GoldRelease
):
    newer.supersedes = run.scorer.release
    newer.save()
    newer.batches.set(elsewhere.scorer.release.batches.all())
    assert {
        retraining_run.replaces for retraining_run in list_retraining_runs(retrain(release=newer, send=False))
    } == {run, elsewhere}


def test_a_promoted_scorer_of_other_gold_makes_no_board_stale(
    run: BenchmarkRun, elsewhere: BenchmarkRun, guideline: Guideline
):
    promoted(elsewhere.scorer)
    promoted(ready_scorer(elsewhere.scorer.release, guideline, "stranger-2"), number=2)
    assert compute_freshness(run).kinds == ()
    assert compute_freshness(elsewhere).kinds == ("newer_scorer",)
    assert find_stale_kinds([run, elsewhere]) == {elsewhere.pk: ("newer_scorer",)}


def test_run_again_takes_the_scorer_that_was_promoted_last_of_its_own_lineage(
    run: BenchmarkRun, elsewhere: BenchmarkRun, guideline: Guideline
):
    second = ready_scorer(run.scorer.release, guideline, "scorer-2")
    promoted(second)
    promoted(elsewhere.scorer, number=2)
    assert compute_freshness(run).newer_scorer == second
    assert rerun_board(run=run, send=False).scorer == second
    assert rerun_board(run=elsewhere, send=False).scorer == elsewhere.scorer


def test_nothing_starts_before_it_is_confirmed(
    client: Client, run: BenchmarkRun, elsewhere: BenchmarkRun, newer: GoldRelease, he: Person
):
    client.force_login(he)
    address = reverse("retrain", args=[newer.name])
    before = (Scorer.objects.count(), BenchmarkRun.objects.count(), Job.objects.count())
    answer = client.get(address)
    assert answer.status_code == 200
    content = words(answer.content)
    for name in ("scorer-2", "board", "small", "Secretive-7B", "Hidden-13B", newer.name):
        assert name in content
    for other in ("elsewhere", "Stranger-3B", "other data"):
        assert other not in content
    assert client.post(address).status_code == 409  # the first click of a page of before
    assert (Scorer.objects.count(), BenchmarkRun.objects.count(), Job.objects.count()) == before
    (seen,) = re.findall(r'name="seen" value="([^"]*)"', answer.content.decode())
    assert client.post(address, {"seen": seen}).status_code == 302
    assert [retraining_run.replaces for retraining_run in list_retraining_runs(Retraining.objects.get())] == [
        run
    ]


def test_what_has_changed_since_the_page_was_read_is_shown_first(
    client: Client, run: BenchmarkRun, newer: GoldRelease, he: Person
):
    client.force_login(he)
    address = reverse("retrain", args=[newer.name])
    (seen,) = re.findall(r'name="seen" value="([^"]*)"', client.get(address).content.decode())
    made(run.scorer, run.dataset, "another board")
    answer = client.post(address, {"seen": seen})
    assert answer.status_code == 409
    assert "another board" in words(answer.content)
    assert not Retraining.objects.exists()


def test_neither_the_release_nor_a_stale_board_starts_it_with_one_click(
    client: Client, run: BenchmarkRun, newer: GoldRelease, he: Person
):
    client.force_login(he)
    address = reverse("retrain", args=[newer.name])
    for page in (reverse("release", args=[newer.name]), reverse("run", args=[run.name])):
        content = client.get(page).content.decode()
        assert f'href="{address}"' in content
        assert f'action="{address}"' not in content


def test_who_judges_a_board_blind_neither_reads_nor_starts_it(
    client: Client, run: BenchmarkRun, newer: GoldRelease, he: Person, lin: Person, guideline: Guideline
):
    corpus = make_corpus(prompts=2, models=["Fresh-1B"], name="blind data")
    board = made(run.scorer, corpus, "sealed board")
    make_batch(guideline, corpus, annotators=[he, lin], name="blind")
    client.force_login(he)
    answer = retraining_page(client, newer)
    assert answer.status_code == 403
    assert board.name not in words(answer.content)
    assert client.post(reverse("retrain", args=[newer.name]), {"seen": "x"}).status_code == 403


def test_a_release_without_a_board_says_that_none_is_run_again(
    client: Client, elsewhere: BenchmarkRun, run: BenchmarkRun, he: Person
):
    corpus = make_corpus(prompts=2, models=["M"], name="third")
    people = [person("lin"), person("chen")]
    lonely = heir(run.scorer.release, "lonely")
    lonely.batches.set([make_batch(run.scorer.guideline, corpus, annotators=people, name="b3")])
    client.force_login(he)
    content = words(retraining_page(client, lonely).content)
    assert "No board rests on this gold" in content
    assert "lonely-scorer" in content
    assert "board elsewhere" not in content


def test_the_command_lists_what_it_would_do_and_does_nothing_when_dry(
    run: BenchmarkRun, elsewhere: BenchmarkRun, newer: GoldRelease
):
    out = io.StringIO()
    call_command("retrain", "--release", newer.name, "--dry-run", "--json", stdout=out)
    report = json.loads(out.getvalue())
    assert report["plan"] == {
        "scorer": "scorer-2",
        "release": "gold-2",
        "backbone": "ngram",
        "seconds": None,
        "boards": [
            {
                "run": "board",
                "dataset": "small",
                "collection": "",
                "models": ["Hidden-13B", "Secretive-7B"],
                "scorer": "scorer-1",
            }
        ],
    }
    assert report["runs"] == []
    assert not Retraining.objects.exists()
    out = io.StringIO()
    call_command("retrain", "--release", newer.name, "--dry-run", stdout=out)
    assert "board (small: Hidden-13B, Secretive-7B)" in out.getvalue()
    assert "about" not in out.getvalue()  # neither the training nor the run was timed


@pytest.mark.parametrize(("language", "expected"), [("en", "about 5 min"), ("zh-hans", "约 5 分钟")])
def test_the_plan_says_about_how_long_it_takes(
    run: BenchmarkRun, newer: GoldRelease, he: Person, client: Client, language: str, expected: str
):
    """As the latest training with half as many labels took, twice over, and as the board's run took."""
    client.force_login(he)
    page = client.get(reverse("retrain", args=[newer.name]), headers={"accept-language": language})
    assert expected not in words(page.content)
    started = timezone.now()
    run.scorer.job = Job.objects.create(
        kind="train_scorer", state="done", started_at=started, finished_at=started + timedelta(seconds=120)
    )
    run.scorer.save()
    Job.objects.filter(pk=run.job_id).update(
        state="done", started_at=started, finished_at=started + timedelta(seconds=60)
    )
    GoldRelease.objects.filter(pk=newer.pk).update(labels=2 * run.scorer.release.labels)
    page = client.get(reverse("retrain", args=[newer.name]), headers={"accept-language": language})
    assert expected in words(page.content)
    out = io.StringIO()
    with translation.override("en"):
        call_command("retrain", "--release", newer.name, "--dry-run", stdout=out)
    assert "about 5 min" in out.getvalue()
    Job.objects.filter(pk=run.job_id).update(state="failed")
    page = client.get(reverse("retrain", args=[newer.name]), headers={"accept-language": language})
    assert expected not in words(page.content)
