"""A training that is cancelled, fails, or whose worker dies: what is kept, and what is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from annotation.core.databases import seconds_ago
from annotation.models import GoldRelease, Guideline, Job, Person
from annotation.services import jobs
from scoring.backbones.ngram import NgramBackbone
from scoring.domain.backbone import FitProgress, WorkCancelled
from scoring.domain.spec import Spec, TransformerSettings
from scoring.domain.training_spec import TrainingSpec
from scoring.models import Scorer
from scoring.services import create_scorer, progress
from scoring.services.progress import build_job_report
from tests.conftest import ROOT
from tests.scoring.support import make_release, trained

FITS = 6
"""Five folds and the final one."""


class Died(BaseException):
    """What a killed process does, as far as this one can: nothing that it would still have done is done."""


@pytest.fixture
def fits(fits_once: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of examples of all fits that were done, in order; every report is told."""
    done: list[int] = []
    fit = NgramBackbone.fit

    def counted(self: NgramBackbone, examples: Any, heads: Any, **options: Any) -> Any:
        fitted = fit(self, examples, heads, **options)
        done.append(len(examples))
        return fitted

    monkeypatch.setattr(NgramBackbone, "fit", counted)
    monkeypatch.setattr(progress, "REPORT_EVERY", 0)
    return done


def queued(release: GoldRelease, name: str = "s") -> tuple[Scorer, Job]:
    return create_scorer(TrainingSpec(name=name, release=release), send=False)


def undisturbed(release: GoldRelease) -> Scorer:
    return trained(release, "undisturbed")


def let_it_be_found(job: Job) -> None:
    """The sweep finds a row that has not beaten for too long, and was suspected before."""
    long_ago = seconds_ago(settings.JOB_STALE_SECONDS + 3 * settings.JOB_HEARTBEAT_SECONDS)
    silent = {"heartbeat": long_ago, "suspected_at": long_ago}
    assert Job.objects.filter(pk=job.pk, state="running").update(**silent) == 1
    jobs.sweep()
    job.refresh_from_db()
    assert job.state == "queued"


def test_a_training_whose_worker_died_goes_on_from_the_folds_it_kept(
    release: GoldRelease, fits: list[int]
) -> None:
    scorer, job = queued(release)

    def die_after_three_folds(_fraction: float, _stage: str) -> None:
        if len(fits) == 3:
            raise Died

    with pytest.raises(Died):
        jobs.run(job.pk, watcher=die_after_three_folds)
    assert (len(fits), scorer.predictions.count()) == (3, 0)
    let_it_be_found(job)
    assert jobs.run(job.pk).state == "done"
    # The third fold was fitted but its predictions were not kept yet: it alone is done twice.
    assert len(fits) == FITS + 1
    scorer.refresh_from_db()
    expected = undisturbed(release)
    assert scorer.weights_sha256 == expected.weights_sha256
    assert scorer.evaluation == expected.evaluation
    assert sorted(scorer.predictions.values_list("response", "value", "fold")) == sorted(
        expected.predictions.values_list("response", "value", "fold")
    )


@pytest.mark.usefixtures("fits_once")
def test_a_worker_that_died_while_it_registered_left_nothing_that_counts(
    release: GoldRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, job = queued(release)

    def die(*_arguments: Any) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr("scoring.services.training.write_rows", die)
        with pytest.raises(Died):
            jobs.run(job.pk)
    scorer.refresh_from_db()
    assert (scorer.ready_at, scorer.weights_sha256, scorer.weights_folder.exists()) == (None, "", True)
    let_it_be_found(job)
    assert jobs.run(job.pk).state == "done"
    scorer.refresh_from_db()
    assert scorer.weights_sha256 == undisturbed(release).weights_sha256


def test_a_finished_training_run_again_changes_nothing(scorer: Scorer, fits: list[int]) -> None:
    assert scorer.job is not None
    before = Scorer.objects.values().get(pk=scorer.pk)
    Job.objects.filter(pk=scorer.job.pk).update(state="queued")
    assert jobs.run(scorer.job.pk).state == "done"
    assert (fits, Scorer.objects.values().get(pk=scorer.pk)) == ([], before)


def test_a_cancelled_training_stops_and_the_scorer_says_so(
    release: GoldRelease, fits: list[int], he: Person
) -> None:
    scorer, job = queued(release)

    def cancel_after_two_folds(_fraction: float, _stage: str) -> None:
        if len(fits) == 2:
            jobs.cancel(job=job, actor=he)

    assert jobs.run(job.pk, watcher=cancel_after_two_folds).state == "cancelled"
    assert len(fits) < FITS
    scorer = Scorer.objects.get(pk=scorer.pk)
    assert (scorer.state, scorer.ready_at, scorer.predictions.count()) == ("cancelled", None, 0)
    assert not scorer.work_folder.exists()


def test_a_training_that_fails_says_why(release: GoldRelease, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer, job = queued(release)

    def fail(*_args: Any, **_options: Any) -> Any:
        raise MemoryError("no room for the weights")

    monkeypatch.setattr(NgramBackbone, "fit", fail)
    assert jobs.run(job.pk).error == "MemoryError: no room for the weights"
    assert Scorer.objects.get(pk=scorer.pk).state == "failed"


def test_what_another_worker_took_over_is_not_removed(release: GoldRelease, fits: list[int]) -> None:
    scorer, job = queued(release)

    def lose(_fraction: float, _stage: str) -> None:
        if len(fits) == 2:
            Job.objects.filter(pk=job.pk).update(attempt=2, worker="other:2")

    assert jobs.run(job.pk, watcher=lose).state == "running"
    assert scorer.work_folder.is_dir()
    assert Scorer.objects.get(pk=scorer.pk).ready_at is None


@pytest.mark.usefixtures("fits_once")
def test_a_worker_that_lost_the_job_leaves_the_registered_weights_alone(release: GoldRelease) -> None:
    """It stalled after the last fold, while another worker took over, trained and registered."""
    scorer, job = queued(release)
    registered = scorer.weights_folder / "of-the-other-worker"

    def lose(_fraction: float, stage: str) -> None:
        if stage == "comparing with people":
            Job.objects.filter(pk=job.pk).update(attempt=2, worker="other:2")
            registered.parent.mkdir(parents=True)
            registered.touch()

    assert jobs.run(job.pk, watcher=lose).state == "running"
    assert registered.exists()
    assert not list(scorer.folder.glob("part-*"))


def test_what_another_worker_keeps_outlives_an_error_of_the_one_that_lost_the_job(
    release: GoldRelease, fits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, job = queued(release)

    def fail(*_args: Any, **_options: Any) -> Any:
        Job.objects.filter(pk=job.pk).update(attempt=2, worker="other:2")
        raise OSError("gone")

    monkeypatch.setattr("scoring.services.training.measure_annotators", fail)
    assert jobs.run(job.pk).state == "running"
    assert scorer.work_folder.is_dir()


def test_a_registered_training_that_could_not_tidy_up_is_tidied_up(scorer: Scorer) -> None:
    assert scorer.job is not None
    for left in (scorer.work_folder, scorer.folder / "part-1"):
        left.mkdir()
    Job.objects.filter(pk=scorer.job.pk).update(state="queued")
    assert jobs.run(scorer.job.pk).state == "done"
    assert [path.name for path in scorer.folder.iterdir()] == ["weights"]


def test_a_report_tells_a_new_stage_at_once_and_losses_as_a_curve(release: GoldRelease) -> None:
    _scorer, job = queued(release)
    Job.objects.filter(pk=job.pk).update(state="running", attempt=1)
    job.refresh_from_db()
    report = build_job_report(jobs.JobContext(job))
    report(FitProgress("grouped", 0.1, loss=0.9))
    report(FitProgress("grouped", 0.11, loss=0.8))  # a moment later: not worth a write
    report(FitProgress("final", 0.5))
    job.refresh_from_db()
    assert (job.progress, job.stage) == (0.5, "learning what is kept")
    assert [(point["name"], point["value"]) for point in job.history] == [("loss", 0.9)]
    jobs.cancel(job=job)
    with pytest.raises(WorkCancelled):
        report(FitProgress("register", 0.99))


@pytest.mark.django_db(transaction=True)
def test_a_fine_tuning_whose_process_is_killed_goes_on_from_its_checkpoint(
    guideline: Guideline, lin: Person, encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # see networks.py
    tuned = TransformerSettings(
        rounds=40, patience=40, least_steps=0, batch_size=4, max_tokens=64, restarts=0
    )
    spec = Spec("encoder", encoder, "full", settings=replace(tuned, checkpoint_every=1))
    release = make_release(guideline, lin)
    scorer, job = create_scorer(TrainingSpec(name="s", release=release, backbone=spec, seeds=1), send=False)
    killed: list[int] = []

    def steps() -> list[int]:
        """Of the checkpoint: the last alone is there, and between two looks it may have changed more than once."""
        return [int(path.name.rpartition("-")[2]) for path in scorer.work_folder.rglob("step-*")]

    def kill_the_process(_fraction: float, _stage: str) -> None:
        if killed or max(steps(), default=0) < 5:
            return
        (running,) = scorer.work_folder.rglob("running-*")
        killed.append(int(running.name.rpartition("-")[2]))
        os.kill(killed[0], signal.SIGKILL)

    broken_off = jobs.run(job.pk, watcher=kill_the_process)
    assert killed, (broken_off.state, broken_off.error)
    assert (broken_off.state, broken_off.error) == ("queued", "")
    (resumed_at,) = steps()
    assert resumed_at >= 5
    first: list[int] = []

    def cancel_when_it_goes_on(_fraction: float, _stage: str) -> None:
        step = max(steps(), default=resumed_at)
        if step != resumed_at and not first:
            first.append(step)
            jobs.cancel(job=job)

    ended = jobs.run(job.pk, watcher=cancel_when_it_goes_on)
    assert (ended.state, ended.attempt) == ("cancelled", 2)
    assert first[0] > resumed_at  # and not from the beginning
    assert not scorer.work_folder.exists()


WORKER = """
import sys, time, django
django.setup()
import scoring.tasks
from annotation.services import jobs
from scoring.services import progress
from pathlib import Path

progress.REPORT_EVERY = 0

def stop(fraction, stage):
    if Path(sys.argv[2]).exists():
        time.sleep(600)

jobs.run(int(sys.argv[1]), watcher=stop)
"""
"""It gets no further than the file: the test kills it there, however fast or slow both are."""


@pytest.mark.django_db(transaction=True)
def test_kill_9_in_mid_training_and_the_next_worker_ends_with_the_same_weights(
    guideline: Guideline, lin: Person
) -> None:
    release = make_release(guideline, lin)
    scorer, job = queued(release)
    first_fold = scorer.work_folder / "grouped" / "split-1" / "predictions.npz"
    worker = run_in_a_process(job, first_fold)
    try:
        wait_for(first_fold, worker)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait(timeout=60)
    job.refresh_from_db()
    assert job.state == "running"  # nobody has told the row
    let_it_be_found(job)
    done = jobs.run(job.pk)
    assert (done.state, done.attempt) == ("done", 2)
    scorer.refresh_from_db()
    assert scorer.weights_sha256 == undisturbed(release).weights_sha256


def run_in_a_process(job: Job, until: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": database_url(),
        "ASSAY_DATA_DIR": str(settings.ASSAY_DATA_DIR),
    }
    command = [sys.executable, "-c", WORKER, str(job.pk), str(until)]
    return subprocess.Popen(command, cwd=ROOT, env=environment)


def database_url() -> str:
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{database['NAME']}"
    place = f"{database['HOST']}:{database['PORT'] or 5432}/{database['NAME']}"
    return f"postgres://{database['USER']}:{database['PASSWORD']}@{place}"


def wait_for(path: Path, worker: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + 180
    while not path.exists():
        assert worker.poll() is None, "the worker ended before it could be killed"
        assert time.monotonic() < give_up, "the worker kept no fold in three minutes"
        time.sleep(0.005)
