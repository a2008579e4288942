"""What came after a run, said in words, and the one click that runs it again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from annotation.core.errors import AssayError, Conflict
from annotation.domain.datasets import response_sha256
from annotation.models import (
    AuditEvent,
    Collection,
    Dataset,
    EvaluatedModel,
    GoldRelease,
    Guideline,
    Person,
    Response,
)
from annotation.services import jobs
from annotation.services.guidelines import load_guideline
from annotation.services.people.people import set_roles
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.freshness import AddedResponses, compute_freshness, find_stale_kinds
from benchmark.selectors.leaderboards.runs import list_current_runs, list_runs
from benchmark.services.leaderboards.runs import create_run, rerun_board, retrain
from scoring.models import Scorer
from tests.benchmark.sharing_support import finish, heir, promoted
from tests.benchmark.support import ready_scorer
from tests.support import XSTEST_GUIDELINE, make_batch, make_corpus, small_dataset


@pytest.fixture(scope="module")
def board(settled: str) -> str:
    """The name of a finished run of ``scorer-1``."""
    release = GoldRelease.objects.get(name=settled)
    scorer = ready_scorer(release, Guideline.objects.get())
    return made(scorer, small_dataset(), "board").name


@pytest.fixture
def run(db: None, board: str) -> BenchmarkRun:
    return BenchmarkRun.objects.get(name=board)


@pytest.fixture
def scorer(run: BenchmarkRun) -> Scorer:
    return run.scorer


def made(scorer: Scorer, dataset: Dataset, name: str, **more: Any) -> BenchmarkRun:
    usual = Collection.objects.get(name="")
    run = create_run(name=name, scorer=scorer, dataset=dataset, collection=usual, send=False, **more)
    return finish(run)


def anew(run: BenchmarkRun) -> BenchmarkRun:
    return list_runs().get(pk=run.pk)


def kinds(run: BenchmarkRun) -> tuple[str, ...]:
    """As the page of the run has them, and as the list does: both must say the same."""
    stale_kinds = compute_freshness(anew(run)).kinds
    assert find_stale_kinds([anew(run)]) == ({run.pk: stale_kinds} if stale_kinds else {})
    return stale_kinds


def answer(dataset: Dataset, model: str, collection: str = "", *, to: int | None = None) -> list[Response]:
    """Responses of the model to the prompts of the dataset that it has not answered there, or to the first so many."""
    target, _made = Collection.objects.get_or_create(name=collection)
    evaluated, _made = EvaluatedModel.objects.get_or_create(name=model)
    return [
        Response.objects.create(
            prompt=prompt,
            model=evaluated,
            collection=target,
            text=f"{model} says {prompt.key}",
            sha256=response_sha256(f"{model} says {prompt.key}", []),
        )
        for prompt in list(dataset.prompts.exclude(responses__model=evaluated).order_by("pk"))[:to]
    ]


def test_a_run_is_fresh_until_something_comes(run: BenchmarkRun):
    assert kinds(run) == ()


def test_a_run_that_is_not_finished_is_neither(scorer: Scorer, dataset: Dataset):
    waiting = create_run(
        name="waiting",
        scorer=scorer,
        dataset=dataset,
        collection=Collection.objects.get(name=""),
        send=False,
    )
    heir(scorer.release, "gold-2")
    assert kinds(waiting) == ()


def test_a_later_release_of_the_same_batches_makes_it_stale(run: BenchmarkRun, release: GoldRelease):
    heir(release, "gold-2")
    newest = heir(release, "gold-3")
    assert kinds(run) == ("newer_release",)
    assert compute_freshness(run).release == newest


def test_a_release_that_supersedes_it_makes_it_stale_along_the_chain(run: BenchmarkRun, release: GoldRelease):
    second = heir(release, "gold-2", supersedes=release)
    third = heir(release, "gold-3", supersedes=second)
    third.batches.clear()  # of other batches altogether: being the heir is enough
    assert compute_freshness(run).release == third
    assert kinds(run) == ("newer_release",)


def test_releases_of_other_batches_and_older_ones_do_not(
    run: BenchmarkRun, release: GoldRelease, guideline: Guideline, lin: Person, chen: Person
):
    other = make_batch(
        guideline, make_corpus(prompts=2, models=["M"], name="o"), annotators=[lin, chen], name="b2"
    )
    heir(release, "other").batches.set([other])
    older = heir(release, "older")
    GoldRelease.objects.filter(pk=older.pk).update(created_at=release.created_at - timedelta(days=1))
    assert kinds(run) == ()


def test_a_scorer_promoted_since_makes_it_stale(
    run: BenchmarkRun, release: GoldRelease, guideline: Guideline
):
    promoted(run.scorer)
    assert kinds(run) == ()
    newer = ready_scorer(release, guideline, "scorer-2")
    assert kinds(run) == ()
    promoted(newer, number=2)
    assert kinds(run) == ("newer_scorer",)
    assert compute_freshness(run).newer_scorer == newer


def test_a_run_with_a_scorer_newer_than_the_current_one_is_not_stale_for_that(
    release: GoldRelease, guideline: Guideline, dataset: Dataset
):
    promoted(ready_scorer(release, guideline, "current"))
    ahead = made(ready_scorer(release, guideline, "ahead"), dataset, "ahead of it")
    current = made(Scorer.objects.get(name="current"), dataset, "with it")
    assert kinds(ahead) == kinds(current) == ()


def test_going_back_from_the_runs_scorer_makes_it_stale(
    release: GoldRelease, guideline: Guideline, dataset: Dataset
):
    first, second = ready_scorer(release, guideline, "s1"), ready_scorer(release, guideline, "s2")
    promoted(first)
    promoted(second, number=2)
    run = made(second, dataset, "by the second")
    assert kinds(run) == ()
    promoted(first, number=3)
    assert compute_freshness(run).newer_scorer == first


def test_a_newer_published_guideline_makes_it_stale(run: BenchmarkRun, guideline: Guideline):
    text = XSTEST_GUIDELINE.path.read_text(encoding="utf-8")
    version = f'version: "{guideline.version}"'
    assert version in text
    newer = load_guideline(text=text.replace(version, 'version: "99"'), path="x.yaml", publish=False)
    assert kinds(run) == ()
    Guideline.objects.filter(pk=newer.pk).update(published_at=timezone.now())
    assert kinds(run) == ("newer_guideline",)
    assert str(compute_freshness(run).guideline) == "xstest@99"


def test_responses_that_came_since_are_counted_by_model(run: BenchmarkRun, dataset: Dataset):
    make_prompt(dataset)
    answer(dataset, "Hidden-13B")
    answer(dataset, "New-7B", to=3)
    assert kinds(run) == ("responses",)
    assert compute_freshness(run).added == (
        AddedResponses("Hidden-13B", 1, new=False),
        AddedResponses("New-7B", 3, new=True),
    )


def test_responses_elsewhere_and_models_left_out_before_are_none_of_its_business(
    scorer: Scorer, dataset: Dataset
):
    answer(dataset, "Left-Out")
    run = made(scorer, dataset, "two", models=list(EvaluatedModel.objects.exclude(name="Left-Out")))
    assert kinds(run) == ()
    answer(dataset, "Hidden-13B", "another collection")
    make_corpus(prompts=3, models=["Hidden-13B"], name="another dataset")
    assert kinds(run) == ()
    make_prompt(dataset)
    answer(dataset, "Left-Out")
    assert compute_freshness(run).added == (AddedResponses("Left-Out", 1, new=True),)


def test_responses_that_came_while_it_ran_and_were_not_counted_are_told(
    scorer: Scorer, dataset: Dataset, run: BenchmarkRun
):
    """They came after the run was made and before it was finished, and it has nothing of them."""
    make_prompt(dataset)
    answer(dataset, "Hidden-13B")
    BenchmarkRun.objects.filter(pk=run.pk).update(finished_at=timezone.now() + timedelta(minutes=1))
    assert kinds(run) == ("responses",)


def make_prompt(dataset: Dataset) -> None:
    dataset.prompts.create(key=uuid4().hex, text="One more?", dimension="safe")


# Again.


def test_again_takes_what_came_since_and_replaces_the_old(run: BenchmarkRun, dataset: Dataset, he: Person):
    answer(dataset, "New-7B", to=1)
    second = rerun_board(run=run, actor=he, send=False)
    assert (second.name, second.replaces, second.scorer) == ("board @ scorer-1", run, run.scorer)
    assert {evaluated_model.name for evaluated_model in second.evaluated_models.all()} == {
        "Secretive-7B",
        "Hidden-13B",
        "New-7B",
    }
    assert compute_freshness(run).repetition == second
    assert list(list_current_runs("xstest")) == [run]
    finish(second)
    assert kinds(run) == ("replaced",)
    assert compute_freshness(run).replaced_by == second
    assert kinds(second) == ()
    assert list(list_current_runs("xstest")) == [second]
    assert "New-7B" in {row["model"] for row in second.board["rows"]}


def test_again_leaves_out_who_was_left_out_before(scorer: Scorer, dataset: Dataset):
    answer(dataset, "Left-Out")
    run = made(scorer, dataset, "two", models=list(EvaluatedModel.objects.exclude(name="Left-Out")))
    second = rerun_board(run=run, send=False)
    assert {evaluated_model.name for evaluated_model in second.evaluated_models.all()} == {
        "Secretive-7B",
        "Hidden-13B",
    }


def test_again_is_with_the_current_scorer(run: BenchmarkRun, release: GoldRelease, guideline: Guideline):
    promoted(ready_scorer(release, guideline, "scorer-2"))
    assert rerun_board(run=run, send=False).name == "board @ scorer-2"


def test_a_second_press_makes_nothing_until_the_first_is_over(run: BenchmarkRun):
    first = rerun_board(run=run, send=False)
    with pytest.raises(Conflict, match="being run again already, as board @ scorer-1"):
        rerun_board(run=anew(run), send=False)
    assert first.job is not None
    jobs.cancel(job=first.job)
    second = rerun_board(run=anew(run), send=False)
    assert second.name == "board @ scorer-1 (2)"
    finish(second)
    with pytest.raises(Conflict, match="replaced by board @ scorer-1"):
        rerun_board(run=anew(run), send=False)


def test_of_two_that_replaced_one_run_the_later_stands_for_the_earlier(run: BenchmarkRun, dataset: Dataset):
    """As two chains at once leave them; else the earlier, run again, would double the board."""
    first = made(run.scorer, dataset, "first", replaces=run)
    second = made(run.scorer, dataset, "second", replaces=run)
    assert compute_freshness(anew(first)).replaced_by == second
    assert kinds(second) == ()
    assert list(list_current_runs("xstest")) == [second]
    with pytest.raises(Conflict, match="replaced by second"):
        rerun_board(run=anew(first), send=False)


def test_an_unfinished_run_is_not_run_again(scorer: Scorer, dataset: Dataset):
    usual = Collection.objects.get(name="")
    waiting = create_run(name="w", scorer=scorer, dataset=dataset, collection=usual, send=False)
    with pytest.raises(AssayError, match="no leaderboard yet"):
        rerun_board(run=waiting, send=False)


def test_retraining_after_again_repeats_the_newest_run_alone(run: BenchmarkRun, release: GoldRelease):
    second = finish(rerun_board(run=run, send=False))
    chain = retrain(release=release, send=False)
    assert [benchmark_run.replaces for benchmark_run in BenchmarkRun.objects.filter(retraining=chain)] == [
        second
    ]
    assert compute_freshness(anew(second)).repetition is not None  # the chain's run is on its way


# In words, and by a click.


def render_freshness(run: BenchmarkRun, *, may_run: bool = True) -> str:
    request = RequestFactory().get("/")
    freshness = compute_freshness(anew(run))
    context = {"run": run, "freshness": freshness, "may": {"run_benchmark": may_run}}
    return render_to_string("benchmark/leaderboards/_freshness.html", context, request=request)


def test_each_reason_is_said_with_its_link(run: BenchmarkRun, release: GoldRelease, guideline: Guideline):
    assert render_freshness(run).strip() == ""
    heir(release, "gold-2")
    promoted(ready_scorer(release, guideline, "scorer-2"))
    answer(run.dataset, "New-7B", to=3)
    words = render_freshness(run)
    for link in (reverse("release", args=["gold-2"]), reverse("scorer", args=["scorer-2"])):
        assert f'href="{link}"' in words
    assert "New-7B 3" in words
    assert f'href="{reverse("retrain", args=["gold-2"])}"' in words
    assert f'action="{reverse("run-again", args=["board"])}"' in words
    assert "Run it again with scorer-2" in words
    assert "<form" not in render_freshness(run, may_run=False)


def test_the_current_scorer_has_the_newer_gold_so_nothing_need_be_trained(
    run: BenchmarkRun, release: GoldRelease, guideline: Guideline
):
    promoted(ready_scorer(heir(release, "gold-2"), guideline, "scorer-2"))
    words = render_freshness(run)
    assert reverse("retrain", args=["gold-2"]) not in words
    assert "Run it again with scorer-2" in words


def test_a_chain_that_is_under_way_is_linked_and_not_started_twice(run: BenchmarkRun, release: GoldRelease):
    newer = heir(release, "gold-2")
    BenchmarkRun.objects.filter(pk=run.pk).update(replaces=None)
    chain = retrain(release=release, send=False)  # on the old gold; its run is on its way
    words = render_freshness(run)
    assert newer.name in words
    assert chain.runs.get().name in words
    assert "<form" not in words


def test_one_click_runs_it_again(run: BenchmarkRun, he: Person, ma: Person, client: Client):
    client.force_login(ma)
    assert client.post(reverse("run-again", args=["board"])).status_code == 403
    client.force_login(he)
    assert client.get(reverse("run-again", args=["board"])).status_code == 405
    assert client.post(reverse("run-again", args=["none"])).status_code == 404
    done = client.post(reverse("run-again", args=["board"]))
    assert done.headers["Location"] == reverse("run", args=["board @ scorer-1"])
    assert client.post(reverse("run-again", args=["board"])).status_code == 409
    assert AuditEvent.objects.filter(verb="create_run", actor=he).count() == 1


def test_who_judges_behind_the_run_cannot_run_it_again(run: BenchmarkRun, lin: Person, client: Client):
    set_roles(person=lin, roles=["annotator", "researcher"])
    client.force_login(lin)
    assert client.post(reverse("run-again", args=["board"])).status_code == 403


def test_a_list_of_runs_takes_no_more_queries_for_more_runs(run: BenchmarkRun, dataset: Dataset):
    def queries() -> int:
        runs = list(list_runs())
        with CaptureQueriesContext(connection) as statements:
            find_stale_kinds(runs)
        return len(statements)

    before = queries()
    for number in range(4):
        made(run.scorer, dataset, f"more {number}")
    assert queries() == before
    assert before <= 8
