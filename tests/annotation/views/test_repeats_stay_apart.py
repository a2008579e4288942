"""No page, command, count, release or export of the work tells of repeat adjudications, however they stand.

Whoever adds a query over tasks, assignments, verdicts or adjudications adds what shows it here.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import update_last_login
from django.contrib.auth.signals import user_logged_in
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from annotation.core.errors import NotFound
from annotation.models import (
    Adjudication,
    Assignment,
    Batch,
    Guideline,
    Membership,
    Person,
    Task,
    WellbeingSettings,
)
from annotation.models.sql.counts import fetch_stratum_standings
from annotation.selectors.adjudication import (
    count_waiting_disputes,
    list_reasons_with_use,
    list_waiting_disputes,
)
from annotation.selectors.annotations.statistics import list_own_counts, measure_own_pace
from annotation.selectors.batches.members import list_membership_counts, list_workloads, preview_leaving
from annotation.selectors.batches.needs import list_needs
from annotation.selectors.batches.own_progress import measure_own_progress
from annotation.selectors.batches.progress import measure_annotations, measure_progress
from annotation.selectors.counts import count_by_member, count_by_stratum, count_decisions, count_tasks
from annotation.selectors.quality.adjudicators import SecondAdjudications, list_adjudicators
from annotation.selectors.quality.summary import summarize_adjudicator
from annotation.selectors.releases.lineage import get_task_history
from annotation.selectors.releases.manifest import describe_people, describe_protocol
from annotation.selectors.reports import build_batches_report
from annotation.services.assignments import claim_next_dispute, release_assignment
from benchmark.selectors.estimates.label_plan import measure_effort
from tests.annotation.invariants import nothing_is_broken
from tests.annotation.views.test_work_pages import text, visit
from tests.support import add_role, decide_next, label_next, make_batch, make_corpus, make_repeat

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
# The pages of a batch by the names of their addresses.
PAGES = (
    *("batch", "batch-progress", "batch-policy", "batch-members", "batch-tasks", "batch-needs"),
    *("batch-needs-notice", "batch-known", "batch-rounds", "batch-items", "batch-quality"),
)
OVER_ALL = ("batches", "people", "quality", "dispute-reasons", "releases", "care")
INTRA_RATER = "measure_intra_rater_agreement"
WITH_INTRA_RATER = (
    "annotation.views.batches.batches",
    "annotation.selectors.reports",
    "annotation.selectors.quality.adjudicators",
)


@pytest.fixture(autouse=True)
def no_sign_in_times() -> Iterator[None]:
    """The page of people says when somebody signed in last, which changes with the minute."""
    name = "update_last_login"
    user_logged_in.disconnect(dispatch_uid=name)
    yield
    user_logged_in.connect(update_last_login, dispatch_uid=name)


@pytest.fixture
def settled(guideline: Guideline, lin: Person, chen: Person, wu: Person, ma: Person) -> Batch:
    """Four disputes are decided, one waits, and some tasks are agreed on or open."""
    add_role(ma, "manager", "researcher")
    corpus = make_corpus(prompts=6, models=["A-1", "B-1"])
    batch = make_batch(guideline, corpus, annotators=[lin, chen], adjudicators=[wu])
    for value in (1, 1, 1, 1, 1, 3, 3):
        label_next(batch, lin, value)
        label_next(batch, chen, 3)
    for value in (1, 2, 3, 3):
        decide_next(batch, wu, value)
    return batch


@pytest.fixture
def without_intra_rater(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one figure that is of repeat adjudications."""
    for module in WITH_INTRA_RATER:
        monkeypatch.setattr(f"{module}.{INTRA_RATER}", lambda _batch=None: [])


def begin_all(batch: Batch, wu: Person) -> dict[str, Assignment]:
    """Of four repeat adjudications one is decided, one skipped, one in progress, and one waits."""
    past = timezone.now() - timedelta(days=1)
    for dispute in batch.tasks.filter(kind="work", state="adjudicated"):
        make_repeat(dispute, due_at=past)
    decide_next(batch, wu, 2)
    claims = {"decided": Assignment.objects.get(state="submitted", person=wu, task__kind="repeat")}
    for name in ("skipped", "in progress"):
        claim = claim_next_dispute(batch=batch, person=wu)
        assert claim is not None
        assert claim.task.kind == "repeat"
        claims[name] = claim
        if name == "skipped":
            release_assignment(assignment_id=claim.pk, person=wu, skip_reason="I know the author")
    assert Task.objects.filter(kind="repeat", state="disputed").count() == 2
    return claims


VARYING = (
    r'(csrfmiddlewaretoken" value|nonce|data-saved|name="key" value)="[^"]*"|X-CSRFToken[^}]*'
    # Every visit is a sign-in: its minute may end between two of them.
    r"|\b\d\d:\d\d\b"
)


def plain(page: str) -> str:
    return re.sub(VARYING, "", page)


def run(*command: str) -> str:
    out = io.StringIO()
    call_command(*command, stdout=out)
    return out.getvalue()


def read_everything(batch: Batch, ma: Person, lin: Person, wu: Person) -> Iterator[tuple[str, Any]]:
    """What is shown and counted of a batch, but for what its adjudicators themselves are shown."""
    batch = Batch.objects.get(pk=batch.pk)
    yield "tasks", count_tasks(batch)
    yield "strata", {str(stratum): dict(+counts) for stratum, counts in count_by_stratum([batch.pk]).items()}
    of_work = {pk: +Counter({**counts, "repeats": 0}) for pk, counts in count_by_member(batch).items()}
    yield "members", {pk: counts for pk, counts in of_work.items() if counts}
    yield "progress", measure_progress(batch)
    yield "overall", measure_annotations(batch)
    yield "needs", list_needs(batch, limit=100)
    yield "protocol", describe_protocol(batch)
    yield "people", describe_people([batch])
    yield "report", build_batches_report([batch])
    yield "effort", asdict(measure_effort(batch.guideline.name))
    yield "reasons", {reason.key: reason.used for reason in list_reasons_with_use()}
    yield "adjudicators", list_adjudicators([batch])
    yield "decisions", summarize_adjudicator(wu, [batch.pk])
    yield "workloads", list_workloads([lin, wu], reader=ma)
    yield "counts", list_membership_counts(Membership.objects.filter(batch=batch))
    yield "leaving", preview_leaving(wu, reader=ma)
    yield "my tallies", list_own_counts(lin)
    yield (
        "waiting",
        set(
            list_waiting_disputes(Membership.objects.get(person=wu, batch=batch)).values_list("pk", flat=True)
        ),
    )
    for name in PAGES:
        yield name, plain(text(visit(ma).get(reverse(name, args=[batch.name]))))
    for name in OVER_ALL:
        yield name, plain(text(visit(ma).get(reverse(name))))
    for name in ("agreement", "report"):
        yield name, plain(text(visit(ma).get(f"{reverse(name)}?batch={batch.name}")))
    for name in ("home", "my-work", "history"):
        yield name, plain(text(visit(lin).get(reverse(name))))
    yield "agreement", run("agreement", "--batch", batch.name, "--by", "dimension", "--json")
    yield "quality", run("people_quality", "--batch", batch.name, "--json")


def release_and_export(batch: Batch, name: str, folder: Path) -> dict[str, Any]:
    """What two releases of the same gold have alike: all but what names them and their time."""
    cut = json.loads(run("release_gold", name, "--batches", batch.name, "--json"))
    release: dict[str, Any] = {key: cut[key] for key in ("sha256", "labels", "adjudicated")}
    for form in ("jsonl", "csv", "bundle"):
        out = folder / name / form
        run("export_gold", name, "--format", form, "--out", str(out))
        for path in sorted(file for file in out.rglob("*") if file.is_file()):
            for part, content in list_parts(path):
                names_release = any(
                    word in part.lower() for word in ("manifest", "datasheet", "readme", "sha256")
                )
                release[f"{form}/{part}"] = None if names_release else without_pseudonyms(content)
    return release


def without_pseudonyms(content: bytes) -> list[bytes]:
    """The lines in order; each release draws its pseudonyms anew."""
    return sorted(re.sub(rb"(annotator|adjudicator)-\d+", rb"\1", content).splitlines())


def list_parts(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.suffix != ".zip":
        yield path.name, path.read_bytes()
        return
    with zipfile.ZipFile(path) as archive:
        for part in archive.namelist():
            yield part, archive.read(part)


def test_nothing_but_intra_rater_agreement_tells_of_them(
    settled: Batch, without_intra_rater: None, ma: Person, lin: Person, wu: Person
) -> None:
    before = dict(read_everything(settled, ma, lin, wu))
    begin_all(settled, wu)
    after = dict(read_everything(settled, ma, lin, wu))
    for name, content in before.items():
        assert after[name] == content, name
    nothing_is_broken(settled)


def begin_seconds(batch: Batch, zhou: Person) -> None:
    """Of four second adjudications one is decided, one skipped, one in progress, and one waits."""
    for dispute in batch.tasks.filter(kind="work", state="adjudicated"):
        make_repeat(dispute, due_at=timezone.now(), kind="second")
    decide_next(batch, zhou, 2)
    for is_skipped in (True, False):
        claim = claim_next_dispute(batch=batch, person=zhou)
        assert claim is not None
        assert claim.task.kind == "second"
        if is_skipped:
            release_assignment(assignment_id=claim.pk, person=zhou, skip_reason="I know the author")
    states = Task.objects.filter(kind="second").values_list("state", flat=True)
    assert sorted(states) == ["adjudicated", "disputed", "disputed", "disputed"]


def test_nothing_but_the_agreement_among_adjudicators_tells_of_second_adjudications(
    settled: Batch, monkeypatch: pytest.MonkeyPatch, ma: Person, lin: Person, wu: Person, zhou: Person
) -> None:
    no_seconds = SecondAdjudications(0, 0, [])
    for module in (
        "annotation.views.batches.batches",
        "annotation.views.agreement.page",
        "annotation.selectors.reports",
    ):
        monkeypatch.setattr(f"{module}.measure_adjudicator_agreement", lambda _batches: no_seconds)
    add_role(zhou, "adjudicator")
    settled.memberships.create(person=zhou, role="adjudicator")
    before = dict(read_everything(settled, ma, lin, wu))
    begin_seconds(settled, zhou)
    after = dict(read_everything(settled, ma, lin, wu))
    for name, content in before.items():
        assert after[name] == content, name
    nothing_is_broken(settled)


def test_gold_and_its_exports_are_the_same(settled: Batch, wu: Person, tmp_path: Path) -> None:
    before = release_and_export(settled, "before", tmp_path)
    begin_all(settled, wu)
    assert release_and_export(settled, "after", tmp_path) == before
    assert not Task.objects.filter(kind="repeat", gold_labels__isnull=False).exists()


def test_their_adjudicator_counts_and_sees_them_as_others(settled: Batch, wu: Person) -> None:
    member = settled.memberships.get(person=wu)
    claims = begin_all(settled, wu)
    assert count_decisions(member) == 4
    assert count_decisions(member, with_repeats=True) == 5
    progress = measure_own_progress(member)
    assert (progress.done, progress.left) == (5, 3)  # two repeats, one of them in progress, and the dispute
    assert sum(row.n for row in count_waiting_disputes(member)) == 2
    assignment_ids = [line.history_row.assignment for line in visit(wu).get("/history/").context["rows"]]
    assert claims["decided"].pk in assignment_ids
    assert len(assignment_ids) == 5
    assert measure_own_pace(wu).days[-1].decisions == 5
    kinds = {standing.kind for standing in fetch_stratum_standings(member).values()}
    assert kinds == {"work", "repeat"}


def test_times_of_repeats_are_no_times_of_decisions(settled: Batch, wu: Person) -> None:
    Adjudication.objects.update(seconds=10)
    before = measure_own_pace(wu)
    begin_all(settled, wu)
    Adjudication.objects.filter(task__kind="repeat").update(seconds=1000)
    after = measure_own_pace(wu)
    assert (after.seconds_decision, after.today) == (before.seconds_decision, before.today)


def test_no_page_has_one_by_the_id_of_its_task(settled: Batch, wu: Person, ma: Person) -> None:
    claims = begin_all(settled, wu)
    with pytest.raises(NotFound):
        get_task_history(ma, claims["decided"].task_id)
    assert get_task_history(ma, claims["decided"].task.repeats_id).adjudication is not None


def test_one_in_progress_counts_for_the_days_exposure(settled: Batch, wu: Person) -> None:
    WellbeingSettings.objects.update_or_create(pk=WellbeingSettings.ONE, defaults={"daily_exposure": 1000})
    begin_all(settled, wu)
    assert claim_next_dispute(batch=settled, person=wu) is not None


def test_nobody_else_is_given_one(settled: Batch, wu: Person, zhou: Person) -> None:
    add_role(zhou, "adjudicator")
    other = settled.memberships.create(person=zhou, role="adjudicator")
    begin_all(settled, wu)
    assert sum(row.n for row in count_waiting_disputes(other)) == 1
    claim = claim_next_dispute(batch=settled, person=zhou)
    assert claim is not None
    assert claim.task.kind == "work"
    assert decide_next(settled, zhou, 2) is not None
    assert claim_next_dispute(batch=settled, person=zhou) is None
