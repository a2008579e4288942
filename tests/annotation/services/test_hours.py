"""Hours worked and left: what the work page measured, and what is left at the pace so far."""

from __future__ import annotations

import csv
from io import StringIO

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.models import Batch, Dataset, Guideline, Person
from annotation.selectors.batches.hours import HoursReport, HoursRow, measure_hours
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from tests.support import decide_next, make_batch

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
TASKS = 8  # of the dataset: four prompts and two models


def label(batch: Batch, person: Person, value: int, seconds: float | None) -> None:
    claim = claim_next_task(batch=batch, person=person)
    assert claim is not None
    work = Submission({"compliance": value}, seconds=seconds)
    submit(assignment_id=claim.pk, person=person, key="k", work=work)


def find_row(report: HoursReport, name: str, role: str = "annotator") -> HoursRow:
    (row,) = (row for row in report.rows if (row.person.username, row.role) == (name, role))
    return row


def test_the_rest_of_a_pool_is_shared_and_each_has_their_own_pace(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, zhou: Person, wu: Person, ma: Person
) -> None:
    batch = make_batch(guideline, dataset, annotators=[lin, chen, zhou], adjudicators=[wu])
    for number in range(4):
        label(batch, lin, 3, 10)
        label(batch, chen, 1 if number == 0 else 3, 30 if number else None)
    report = measure_hours(ma)
    assert (report.labels_left, report.disputes_waiting, report.to_come) == (
        2 * TASKS - 8,
        1,
        (TASKS - 4) / 4,
    )
    shares = {name: find_row(report, name) for name in ("lin", "chen", "zhou")}
    assert [row.left for row in shares.values()] == [pytest.approx(8 / 3)] * 3
    assert (shares["lin"].submitted, shares["lin"].timed, shares["lin"].seconds) == (4, 4, 40)
    assert (shares["chen"].submitted, shares["chen"].timed, shares["chen"].seconds) == (4, 3, 90)
    assert [row.pace for row in shares.values()] == [10, 30, pytest.approx(130 / 7)]  # zhou's is everybody's
    assert find_row(report, "wu", "adjudicator").left == 2
    assert report.is_lower_bound  # nobody has decided anything yet
    assert report.seconds_left == pytest.approx(8 / 3 * (10 + 30 + 130 / 7))
    assert decide_next(batch, wu, 3)
    set_state(batch=batch, state="closed")
    closed = measure_hours(ma)
    assert (closed.seconds, closed.labels_left, closed.seconds_left) == (report.seconds, 0, 0)
    assert not closed.is_lower_bound


def test_what_is_planned_for_somebody_is_left_for_them(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, zhou: Person, ma: Person
) -> None:
    batch = make_batch(guideline, dataset, annotators=[lin, chen, zhou], policy=Policy(pairing="balanced"))
    before = {row.person.username: row.left for row in measure_hours(ma).rows}
    assert sum(before.values()) == 2 * TASKS
    label(batch, lin, 3, 12)
    after = {row.person.username: row.left for row in measure_hours(ma).rows}
    assert after == before | {"lin": before["lin"] - 1}


def test_who_works_in_a_batch_reads_nothing_of_it_here(
    client: Client, guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, ma: Person
) -> None:
    batch = make_batch(guideline, dataset, annotators=[lin, chen, ma])
    label(batch, lin, 3, 10)
    report = measure_hours(ma)
    assert (report.rows, report.seconds, report.is_partial) == ((), 0, True)
    client.force_login(ma)
    assert "Nobody has worked yet" in client.get(reverse("hours")).content.decode()


def test_the_table_has_the_figures_of_the_page(
    client: Client, guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, ma: Person
) -> None:
    Person.objects.filter(pk=lin.pk).update(display_name="=1+1")
    batch = make_batch(guideline, dataset, annotators=[lin, chen])
    for _number in range(2):
        label(batch, lin, 3, 1800)
    client.force_login(ma)
    assert "1 h 0 min" in client.get(reverse("hours")).content.decode()
    answer = client.get(reverse("hours-file"))
    rows = {row["person"]: row for row in csv.DictReader(StringIO(answer.content.decode("utf-8-sig")))}
    assert rows["lin"] == {
        "person": "lin",
        "display_name": "'=1+1",
        "role": "annotator",
        "submitted": "2",
        "timed": "2",
        "hours_worked": "1.0",
        "seconds_per_item": "1800.0",
        "items_left": "7.0",
        "hours_left": "3.5",
    }
    assert rows["chen"]["hours_left"] == "3.5"


def test_many_batches_take_as_many_queries_as_one(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, wu: Person, ma: Person
) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            measure_hours(ma)
        return len(queries)

    make_batch(guideline, dataset, annotators=[lin, chen], adjudicators=[wu], name="a")
    number = count()
    for name in "bcd":
        make_batch(guideline, dataset, annotators=[lin, chen], adjudicators=[wu], name=name)
    assert count() == number
