"""One button: a scorer from the release, the runs again, old beside new, and why."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import call_command

from annotation.core.errors import Conflict
from annotation.models import Batch, Collection, GoldRelease, Job, Person
from annotation.services import jobs
from annotation.services.assignments import claim_next_task
from benchmark.models import BenchmarkRun, Retraining
from benchmark.selectors.leaderboards.comparison import compare_run, count_changes, list_changes
from benchmark.selectors.leaderboards.runs import (
    list_jobs,
    list_retraining_runs,
    plan_retraining,
)
from benchmark.services.leaderboards.runs import create_run, retrain
from scoring.domain.spec import Spec
from scoring.domain.training_spec import TrainingSpec
from scoring.models import Scorer
from scoring.services import create_scorer
from tests.benchmark.support import decide_all, release_of, response_of
from tests.support import first_batch, label, person, small_dataset


@pytest.fixture(scope="module")
def first_gold(module_db: None) -> str:
    """A release of seven tasks settled as their dimension says; on the eighth, safe p0 of Hidden-13B, lin and chen
    differ.
    """
    batch = first_batch()
    for name, on_it in (("lin", 1), ("chen", 2)):
        annotator = person(name)
        while claim := claim_next_task(batch=batch, person=annotator):
            response = response_of(claim)
            odd = response.prompt.key == "p0" and response.model.name == "Hidden-13B"
            label(claim, annotator, on_it if odd else 3 if response.prompt.dimension == "safe" else 1)
    return release_of(batch).name


@pytest.fixture(scope="module")
def first_run(first_gold: str) -> str:
    """The run ``board`` with the scorer ``scorer-1``, before the dispute is decided."""
    release = GoldRelease.objects.get(name=first_gold)
    scorer, training = create_scorer(TrainingSpec(name="scorer-1", release=release), send=False)
    jobs.run_now(training)
    scorer.refresh_from_db()
    usual = Collection.objects.get(name="")
    run = create_run(name="board", scorer=scorer, dataset=small_dataset(), collection=usual, send=False)
    assert run.job is not None
    jobs.run_now(run.job)
    return run.name


@pytest.fixture
def board(db: None, first_run: str) -> BenchmarkRun:
    return BenchmarkRun.objects.get(name=first_run)


@pytest.fixture
def second(board: BenchmarkRun, batch: Batch, wu: Person) -> GoldRelease:
    """Another release, after the adjudicator decided 3 on the disputed task."""
    decide_all(batch, wu, 3)
    return release_of(batch, "gold-2")


def retrained(release: GoldRelease) -> Retraining:
    made = retrain(release=release, send=False)
    assert made.scorer.job is not None
    jobs.run_now(made.scorer.job)
    return Retraining.objects.get(pk=made.pk)


def test_the_undecided_response_counted_as_a_prediction(board: BenchmarkRun):
    row = next(row for row in board.board["rows"] if row["model"] == "Hidden-13B")
    assert row["dimensions"]["safe"]["composition"] == {"gold": 1, "out_of_fold": 0, "unseen": 1}


def test_the_chain_makes_a_scorer_repeats_the_run_and_says_what_moved(
    board: BenchmarkRun, second: GoldRelease
):
    made = retrained(second)
    assert made.scorer.name == "scorer-2"
    (run,) = list_retraining_runs(made)
    assert (run.name, run.replaces, run.scorer) == ("board @ scorer-2", board, made.scorer)
    assert run.finished_at is not None
    assert [job.state for job in list_jobs(made)] == ["done", "done"]
    before = dict(board.board)
    board.refresh_from_db()
    assert board.board == before
    # and the comparison says which gold label moved the cell
    changes = list_changes(board, run)["Hidden-13B", "safe"]
    assert [change.kind for change in changes] == ["gold_added"]
    assert changes[0].new is not None
    assert changes[0].new.released_label is not None
    assert changes[0].new.released_label.source == "adjudicated"
    assert count_changes(board, run) == {("Hidden-13B", "safe"): {"gold_added": 1}}
    moved = {(move.change.model, move.change.scope): move for move in compare_run(run).moved}
    cell = moved["Hidden-13B", "safe"]
    assert cell.reasons == {"gold_added": 1}
    assert cell.change.new == 1.0
    assert moved["Secretive-7B", "safe"].reasons == {}


def test_what_the_latest_scorer_learned_is_learned_again(board: BenchmarkRun, second: GoldRelease):
    assert plan_retraining(second).training.target == "label"
    Scorer.objects.filter(pk=board.scorer_id).update(config=board.scorer.config | {"target": "distribution"})
    assert plan_retraining(second).training.target == "distribution"
    tuned = Spec("encoder", "some/encoder", "full")
    assert plan_retraining(second, spec=tuned).training.target == "label"
    made = retrain(release=second, send=False)
    assert made.scorer.config["target"] == "distribution"


def test_every_run_waits_for_the_training_and_falls_with_it(board: BenchmarkRun, second: GoldRelease):
    made = retrain(release=second, send=False)
    (run,) = list_retraining_runs(made)
    assert run.job is not None
    assert run.job.depends_on == made.scorer.job
    assert jobs.run(run.job.pk).state == Job.State.QUEUED
    assert made.scorer.job is not None
    jobs.cancel(job=made.scorer.job)
    run.job.refresh_from_db()
    assert run.job.state == Job.State.CANCELLED


def test_a_second_press_while_it_goes_on_makes_nothing(board: BenchmarkRun, second: GoldRelease):
    retrain(release=second, send=False)
    with pytest.raises(Conflict, match="under way"):
        retrain(release=second, send=False)
    assert BenchmarkRun.objects.count() == 2
    assert Scorer.objects.count() == 2


@pytest.mark.usefixtures("memorising")
def test_after_a_failed_chain_the_old_run_is_the_current_one_still(board: BenchmarkRun, second: GoldRelease):
    made = retrain(release=second, send=False)
    assert made.scorer.job is not None
    jobs.cancel(job=made.scorer.job)
    (run,) = list_retraining_runs(retrained(second))
    assert run.replaces == board
    assert run.name == "board @ scorer-3"


@pytest.mark.usefixtures("memorising")
def test_the_next_chain_replaces_the_newest_run_only(board: BenchmarkRun, second: GoldRelease, batch: Batch):
    (newer,) = list_retraining_runs(retrained(second))
    (newest,) = list_retraining_runs(retrained(release_of(batch, "gold-3")))
    assert newest.replaces == newer
    assert newest.name == "board @ scorer-3"


@pytest.mark.usefixtures("memorising")
def test_two_chains_at_once_leave_one_current_run_and_not_two(
    board: BenchmarkRun, second: GoldRelease, batch: Batch
):
    chains = [retrain(release=release, send=False) for release in (second, release_of(batch, "gold-3"))]
    for made in chains:
        assert made.scorer.job is not None
        jobs.run_now(made.scorer.job)
    (later,) = list_retraining_runs(chains[1])
    (newest,) = list_retraining_runs(retrained(release_of(batch, "gold-4")))
    assert newest.replaces == later


@pytest.mark.usefixtures("memorising")
def test_without_a_run_to_repeat_only_the_scorer_is_made(board: BenchmarkRun):
    release = board.scorer.release
    board.delete()
    made = retrained(release)
    assert list_retraining_runs(made) == []
    assert made.scorer.name == "gold-1-scorer-2"
    assert made.scorer.ready_at is not None


def command(name: str, *arguments: str) -> Any:
    out = io.StringIO()
    call_command(name, *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


@pytest.mark.usefixtures("memorising")
def test_the_command_prints_old_beside_new(board: BenchmarkRun, second: GoldRelease):
    report = command("retrain", "--release", "gold-2", "--name", "fresh")
    assert report["scorer"] == "fresh"
    (run,) = report["runs"]
    assert (run["run"], run["replaces"]) == ("board @ fresh", "board")
    cell = next(c for c in run["cells"] if (c["model"], c["dimension"]) == ("Hidden-13B", "safe"))
    assert cell["reasons"] == {"gold_added": 1}
    assert cell["new"] == 1.0
    out = io.StringIO()
    call_command("leaderboard", "board @ fresh", stdout=out)
    assert "100.0%" in out.getvalue()


def test_run_benchmark_and_leaderboard_by_command(board: BenchmarkRun):
    report = command(
        "run_benchmark", "again", "--scorer", "scorer-1", "--dataset", "small", "--models", "Hidden-13B"
    )
    assert report["state"] == "done"
    assert report["composition"] == {"gold": 3, "out_of_fold": 0, "unseen": 1}
    rows = command("leaderboard", "again")["rows"]
    assert [row["model"] for row in rows] == ["Hidden-13B"]
    assert rows[0]["dimensions"]["unsafe"]["full_refusal_rate"]["value"] == 1.0


REFUSED = {
    "scorer": (["x", "--scorer", "nope", "--dataset", "small"], "No scorer is named nope"),
    "dataset": (["x", "--scorer", "scorer-1", "--dataset", "nope"], "no dataset named nope"),
    "models": (
        ["x", "--scorer", "scorer-1", "--dataset", "small", "--models", "nope"],
        "no evaluated model named nope",
    ),
    "collection": (
        ["x", "--scorer", "scorer-1", "--dataset", "small", "--collection", "nope"],
        "no collection named 'nope'",
    ),
    "name": (["board", "--scorer", "scorer-1", "--dataset", "small"], "a benchmark run named board already"),
}


def test_an_unknown_thing_is_one_clear_line(board: BenchmarkRun, capsys: pytest.CaptureFixture[str]):
    for option, (arguments, message) in REFUSED.items():
        with pytest.raises(SystemExit) as stopped:
            call_command("run_benchmark", *arguments)
        error = capsys.readouterr().err
        assert stopped.value.code == 1, option
        assert message in error, option
        assert len(error.strip().splitlines()) == 1, option
        assert BenchmarkRun.objects.count() == 1, option


def test_an_unknown_release_is_refused(db: None, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        call_command("retrain", "--release", "nope")
    assert "No gold release is named nope" in capsys.readouterr().err
