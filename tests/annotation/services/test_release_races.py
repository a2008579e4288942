"""A release that is cut while people work on its batches, where others commit between its statements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest
from django.db import connection

from annotation.core.errors import Conflict
from annotation.domain.batch_spec import Policy, Terms
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Dataset, GoldRelease, Guideline, Job, Person, ReleasedLabel
from annotation.services import jobs, releases
from annotation.services.batches.policy import set_terms
from annotation.services.releases import cut_release, enqueue_release
from tests.annotation.services.test_races import at_once, crowd
from tests.support import label_next, make_batch, make_corpus

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


@pytest.fixture
def people(db: None) -> list[Person]:
    return crowd(2)


@pytest.fixture
def busy(guideline: Guideline, people: list[Person]) -> Batch:
    """Sixty tasks that two people label alike; three are settled."""
    corpus: Dataset = make_corpus(prompts=30, models=["a", "b"])
    busy = make_batch(guideline, corpus, annotators=people, policy=Policy(overlap=2))
    settle(busy, people, 3)
    return busy


def settle(batch: Batch, people: Sequence[Person], tasks: int) -> None:
    for _turn in range(tasks):
        for person in people:
            label_next(batch, person, 3)


def settle_elsewhere(batch: Batch, people: Sequence[Person], tasks: int = 1) -> None:
    """On a connection of its own, committed when this returns."""

    def act() -> None:
        try:
            settle(batch, people, tasks)
        finally:
            connection.close()

    thread = Thread(target=act)
    thread.start()
    thread.join(timeout=120)
    assert not thread.is_alive()


def count_everywhere(release: GoldRelease) -> dict[str, int]:
    """What the release and its manifest say of how many labels there are; one criterion, one task a label."""
    manifest = release.manifest
    (protocol,) = manifest["protocol"]
    return {
        "rows": ReleasedLabel.objects.filter(release=release).count(),
        "labels": release.labels,
        "counts": manifest["counts"]["labels"],
        "splits": sum(split["labels"] for split in manifest["splits"].values()),
        "selection": sum(row["labels"] for row in manifest["selection"]),
        "settled": protocol["tasks"]["agreed"] + protocol["tasks"]["adjudicated"],
        "agreement": sum(row["n"] for row in manifest["agreement"] if not row["group"]),
    }


def check_consistent(release: GoldRelease) -> int:
    counts = count_everywhere(release)
    assert len(set(counts.values())) == 1, counts
    is_whole = all(row["how"] == "all" for row in release.manifest["selection"])
    chances = set(ReleasedLabel.objects.filter(release=release).values_list("chance", flat=True))
    assert (chances == {1.0}) == is_whole
    return release.labels


@pytest.mark.parametrize("step", ["read_selection", "_freeze_labels", "store_chances", "build_manifest"])
@pytest.mark.parametrize("tasks", [1, 57])
def test_what_is_settled_between_two_steps_is_in_none_of_them(
    busy: Batch, people: list[Person], monkeypatch: pytest.MonkeyPatch, step: str, tasks: int
) -> None:
    """With all 57 the whole pool is settled by the next step, and its chances would be 1."""
    act = getattr(releases, step)

    def act_late(*arguments: Any, **options: Any) -> Any:
        settle_elsewhere(busy, people, tasks)
        return act(*arguments, **options)

    monkeypatch.setattr(releases, step, act_late)
    assert check_consistent(cut_release(ReleaseSpec(name="r", batches=[busy]))) == 3
    monkeypatch.setattr(releases, step, act)
    assert check_consistent(cut_release(ReleaseSpec(name="later", batches=[busy]))) == 3 + tasks


def test_cuts_while_people_work_and_a_manager_changes_the_policy(busy: Batch, people: list[Person]) -> None:
    done = Event()

    def work(person: Person) -> None:
        while label_next(busy, person, 3) is not None:
            pass

    def change_terms(manager: Person) -> None:
        seconds = 1800
        while not done.wait(0.02):
            seconds += 60
            set_terms(batch=busy, actor=manager, terms=Terms(lease_seconds=seconds))

    def cut() -> list[GoldRelease]:
        try:
            return [cut_release(ReleaseSpec(name=f"r{n}", batches=[busy])) for n in range(8)]
        finally:
            done.set()

    manager = people[0]
    cuts, *_workers = at_once(
        [cut, *(partial(work, person) for person in people), lambda: change_terms(manager)]
    )
    assert isinstance(cuts, list), cuts
    sizes = [check_consistent(release) for release in cuts]
    assert sizes == sorted(sizes)


def test_a_job_reports_while_it_cuts_and_is_done_once(
    busy: Batch, people: list[Person], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is written from another connection meanwhile, which must not break the release's snapshot."""
    monkeypatch.setattr(jobs, "REPORT_SECONDS", 0.01)
    build = releases.build_manifest

    def build_slowly(*arguments: Any) -> Any:
        settle_elsewhere(busy, people, 4)
        return build(*arguments)

    monkeypatch.setattr(releases, "build_manifest", build_slowly)
    job = enqueue_release(ReleaseSpec(name="r", batches=[busy]), send=False)
    first = jobs.run(job.pk)
    assert (first.state, first.result["labels"], first.error) == ("done", 3, "")
    Job.objects.filter(pk=job.pk).update(state=Job.State.QUEUED, result={})  # died before the result was kept
    rerun = jobs.run(job.pk)
    assert (rerun.state, rerun.result) == ("done", first.result)
    assert check_consistent(GoldRelease.objects.get()) == 3


def test_another_release_of_the_same_name_is_not_the_jobs_own(busy: Batch) -> None:
    job = enqueue_release(ReleaseSpec(name="r", batches=[busy]), send=False)
    cut_release(ReleaseSpec(name="r", batches=[busy]))
    failed = jobs.run(job.pk)
    assert failed.state == "failed"
    assert "There is already a gold release named r" in failed.error


@pytest.mark.parametrize("same_name", [False, True])
def test_of_two_that_supersede_a_release_at_once_one_is_refused(busy: Batch, same_name: bool) -> None:
    old = cut_release(ReleaseSpec(name="old", batches=[busy]))
    specs = [
        ReleaseSpec(name="new" if same_name else f"new{n}", batches=[busy], supersedes=old.pk)
        for n in range(3)
    ]
    ends = at_once([partial(cut_release, spec) for spec in specs])
    assert sum(isinstance(end, GoldRelease) for end in ends) == 1
    assert sum(isinstance(end, Conflict) for end in ends) == 2, ends
    assert GoldRelease.objects.filter(supersedes=old).count() == 1
