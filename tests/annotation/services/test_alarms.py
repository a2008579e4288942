"""The watch over a batch: what it measures, the alarm at a low agreement, the pause, and two workers at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.domain.agreement import intervals
from annotation.domain.batch_spec import Policy, Terms
from annotation.models import Alarm, AuditEvent, Batch, BatchStats, Guideline, Person
from annotation.selectors.agreement import LabelPatterns, report
from annotation.selectors.batches.monitoring import (
    AgreementMeasurement,
    append_point,
    count_days,
    list_agreement_rows,
    measure_time,
)
from annotation.services.batches import monitoring
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import join_batch
from annotation.services.batches.monitoring import MIN_UNITS, mark_alarm_seen, watch_batch, watch_batches
from annotation.services.batches.policy import set_terms
from tests.support import label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "MIN_INTERVAL", timedelta(0))
    monkeypatch.setattr(monitoring, "REST_FACTOR", 0)


def a_batch(
    guideline: Guideline, people: Sequence[Person], *, prompts: int = 6, action: str = "tell", name: str = "b"
) -> Batch:
    corpus = make_corpus(prompts=prompts, models=["m"], name=name)
    policy = Policy(agreement_threshold=0.6, alarm_action=action)
    return make_batch(guideline, corpus, annotators=people, name=name, policy=policy)


def label_both(batch: Batch, first: Person, second: Person, labels: Sequence[tuple[int, int]]) -> None:
    for value, other in labels:
        label_next(batch, first, value)
        label_next(batch, second, other)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believed from four units on: thirty, of ten prompts, would take every test thirty labels of each."""
    monkeypatch.setattr(monitoring, "MIN_UNITS", 4)
    monkeypatch.setattr(intervals, "MIN_PROMPTS", 2)
    monkeypatch.setattr(intervals, "MIN_DISPUTES", 1)
    monkeypatch.setattr(intervals, "MIN_UNCOMMON", 1)
    monkeypatch.setattr(intervals, "MIN_UNCOMMON_SQUARED", 1)
    monkeypatch.setattr(report, "_MEASURED", report._MeasuredCache())


LOW = [(1, 3), (3, 1), (1, 1), (3, 3)]
HIGH = [(1, 1), (3, 3), (1, 1), (3, 3)]


def test_the_watch_measures_what_the_report_does(guideline: Guideline, lin: Person, chen: Person) -> None:
    batch = a_batch(guideline, [lin, chen])
    label_both(batch, lin, chen, [(1, 1), (3, 3), (2, 3)])
    stats = watch_batch(batch)
    (row,) = list_agreement_rows(stats)
    (reported,) = LabelPatterns([batch]).report()
    alpha = reported.agreement.statistics["alpha_ordinal"]
    assert (row.criterion, row.measurement, row.n, row.disputed) == ("compliance", "ordinal", 3, 1)
    assert (row.alpha.value, row.alpha.low, row.alpha.high) == (alpha.value, alpha.low, alpha.high)
    assert row.percent.value == pytest.approx(2 / 3)
    assert (stats.complete, stats.days) == (3, {timezone.localdate().isoformat(): 6})
    assert measure_time(batch) == (0, 0.0)  # nobody's time was measured
    assert not Alarm.objects.exists()  # three units say little


def test_a_batch_with_nothing_in_it_is_undefined_and_alarms_nobody(
    guideline: Guideline, lin: Person, chen: Person, few: None
) -> None:
    batch = a_batch(guideline, [lin, chen])
    assert list_agreement_rows(watch_batch(batch))[0].alpha.value is None
    label_both(batch, lin, chen, [(1, 1)] * 5)  # one category alone: chance is certain
    row = list_agreement_rows(watch_batch(batch))[0]
    assert (row.n, row.alpha.value) == (5, None)
    assert row.alpha.reason
    assert not Alarm.objects.exists()


def test_a_low_agreement_is_told_once(
    guideline: Guideline, lin: Person, chen: Person, ma: Person, few: None
) -> None:
    batch = a_batch(guideline, [lin, chen], prompts=12)
    label_both(batch, lin, chen, LOW)
    watch_batches()
    watch_batches()
    alarm = Alarm.objects.get()
    assert (alarm.criterion, alarm.units, alarm.threshold, alarm.paused) == ("compliance", 4, 0.6, False)
    assert alarm.low < 0.6
    batch.refresh_from_db()
    assert batch.state == "open"
    assert AuditEvent.objects.get(verb="agreement_alarm").actor is None
    assert mark_alarm_seen(batch=batch, actor=ma)
    assert not mark_alarm_seen(batch=batch, actor=ma)
    label_both(batch, lin, chen, LOW[:3])
    watch_batches()
    assert Alarm.objects.count() == 1  # three more units are not enough for another one
    label_both(batch, lin, chen, LOW[:1])
    watch_batches()
    assert [alarm.units for alarm in Alarm.objects.all()] == [8, 4]


def test_a_low_agreement_pauses_where_it_should(
    guideline: Guideline, lin: Person, chen: Person, few: None
) -> None:
    batch = a_batch(guideline, [lin, chen], action="pause")
    label_both(batch, lin, chen, LOW)
    watch_batches()
    batch.refresh_from_db()
    assert batch.state == "paused"
    assert Alarm.objects.get().paused
    paused = AuditEvent.objects.get(verb="batch_paused")
    assert paused.actor is None
    set_state(batch=batch, state="open")
    watch_batches()
    batch.refresh_from_db()
    assert batch.state == "open"  # the alarm stands already; whoever went on knew of it


def test_no_alarm_where_nobody_asked_for_one_or_people_agree(
    guideline: Guideline, lin: Person, chen: Person, ma: Person, few: None
) -> None:
    good = a_batch(guideline, [lin, chen], name="good")
    label_both(good, lin, chen, HIGH)
    bare = a_batch(guideline, [lin, chen], name="bare")
    set_terms(batch=bare, terms=Terms(agreement_threshold=None), actor=ma)
    label_both(bare, lin, chen, LOW)
    watch_batches()
    assert not Alarm.objects.exists()
    assert BatchStats.objects.count() == 2
    set_terms(batch=bare, terms=Terms(agreement_threshold=0.5), actor=ma)
    watch_batches()  # nothing new was measured, and the threshold is new
    assert Alarm.objects.get().batch == bare


def test_thirty_units_are_needed() -> None:
    def low(n: int) -> bool:
        interval = {"value": 0.3, "low": 0.1, "high": 0.5}
        row = {"criterion": None, "measurement": "nominal", "n": n, "disputed": 9, "alpha": interval}
        (measured,) = list_agreement_rows(BatchStats(agreement=[{**row, "percent": interval}]))
        return monitoring._is_low(Batch(state="open", agreement_threshold=0.2), measured)

    assert MIN_UNITS == 30
    assert [low(29), low(30)] == [False, True]


def test_a_closed_batch_is_measured_once_more_and_then_left_alone(
    guideline: Guideline, lin: Person, chen: Person, few: None
) -> None:
    batch = a_batch(guideline, [lin, chen])
    watch_batches()
    label_both(batch, lin, chen, LOW)
    set_state(batch=batch, state="closed")
    watch_batches()
    stats = BatchStats.objects.get()
    assert (stats.final, stats.complete) == (True, 4)
    assert not Alarm.objects.exists()
    watch_batches()
    assert BatchStats.objects.get().at == stats.at


def test_what_costs_much_is_measured_seldom(
    guideline: Guideline, lin: Person, chen: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    batch = a_batch(guideline, [lin, chen])
    first = watch_batch(batch)
    assert watch_batch(batch).at == first.at
    BatchStats.objects.update(at=timezone.now() - timedelta(seconds=60), took=10)
    assert watch_batch(batch).took == 10  # ten seconds of work, so three minutes of rest
    BatchStats.objects.update(took=1)
    assert watch_batch(batch).took != 1


def test_a_batch_that_cannot_be_measured_keeps_the_others_from_nothing(
    guideline: Guideline, lin: Person, chen: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = (a_batch(guideline, [lin, chen], name=name) for name in ("bad", "good"))

    def measure(batch: Batch) -> list[dict[str, object]]:
        if batch == bad:
            raise ValueError("broken")
        return []

    monkeypatch.setattr(monitoring, "measure_agreement", measure)
    watch_batches()
    assert BatchStats.objects.get().batch == good


def test_days_that_are_over_are_counted_once(guideline: Guideline, lin: Person, chen: Person) -> None:
    batch = a_batch(guideline, [lin, chen])
    now = timezone.now()
    label_both(batch, lin, chen, HIGH[:2])
    yesterday, today = (timezone.localdate(now - timedelta(days=days)).isoformat() for days in (1, 0))
    batch.assignments.filter(person=lin).update(submitted_at=now - timedelta(days=1))
    assert count_days(batch, None, now) == {yesterday: 2, today: 2}
    stored = BatchStats(at=now, days={"2001-01-01": 5, yesterday: 70, today: 1})
    assert count_days(batch, stored, now) == {yesterday: 70, today: 2}
    stored = BatchStats(at=now - timedelta(days=1), days={yesterday: 1})
    assert count_days(batch, stored, now) == {yesterday: 2, today: 2}


def test_the_history_stays_short(guideline: Guideline) -> None:
    def row(n: int) -> AgreementMeasurement:
        figure = {"value": 0.5, "low": 0.4, "high": 0.6}
        fields = {"criterion": None, "measurement": "nominal", "n": n, "disputed": 0}
        return list_agreement_rows(BatchStats(agreement=[{**fields, "alpha": figure, "percent": figure}]))[0]

    history: list[list[float]] = []
    for n in range(0, 5000, 5):
        history = append_point(history, row(n))
    assert 30 <= len(history) <= 60
    assert history[-1][0] == 4990
    assert [point[0] for point in history] == sorted(point[0] for point in history)


# ---------------------------------------------------------------- two workers at once


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("action", ["tell", "pause"])
def test_two_workers_raise_one_alarm(
    guideline: Guideline, lin: Person, chen: Person, action: str, few: None
) -> None:
    batch = a_batch(guideline, [lin, chen], action=action)
    label_both(batch, lin, chen, LOW)
    start, errors = threading.Barrier(4), []

    def work() -> None:
        with closing(connection):
            start.wait()
            try:
                watch_batch(Batch.objects.get(pk=batch.pk))
            except Exception as error:
                errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    assert Alarm.objects.count() == 1
    assert AuditEvent.objects.filter(verb="batch_paused").count() == (1 if action == "pause" else 0)


# ---------------------------------------------------------------- who sees it


def test_managers_see_the_alarm_and_one_of_them_marks_it(
    client: Client, guideline: Guideline, lin: Person, chen: Person, ma: Person, few: None
) -> None:
    batch = a_batch(guideline, [lin, chen])
    label_both(batch, lin, chen, LOW)
    watch_batches()
    client.force_login(ma)
    page = client.get(reverse("batch", args=[batch.name])).content.decode()
    assert "Agreement is below the threshold" in page
    assert "0.600" in page
    listing = client.get(reverse("batches"))
    assert "nav__count" in listing.content.decode()
    assert "alarm" in listing.content.decode()
    assert client.post(reverse("batch-alarm-seen", args=[batch.name])).status_code == 302
    assert Alarm.objects.get().seen_by == ma
    page = client.get(reverse("batch", args=[batch.name])).content.decode()
    assert "Agreement is below the threshold" not in page
    assert "nav__count" not in page
    assert client.post(reverse("batch-alarm-seen", args=[batch.name])).status_code == 302


@pytest.mark.both_databases
def test_whoever_works_in_the_batch_reads_no_figure_of_its_alarm(
    client: Client, guideline: Guideline, lin: Person, chen: Person, ma: Person, few: None
) -> None:
    batch = a_batch(guideline, [lin, chen], action="pause")
    join_batch(batch=batch, role="annotator", people=[ma])
    label_both(batch, lin, chen, LOW)
    watch_batches()
    alarm = Alarm.objects.get()
    figures = {f"{number:.3f}" for number in (alarm.value, alarm.low, alarm.high)}
    client.force_login(ma)
    for name in ("batch", "batch-progress", "batch-policy", "batch-close"):
        answer = client.get(reverse(name, args=[batch.name]))
        assert answer.status_code == 200
        page = answer.content.decode()
        assert not [figure for figure in figures if figure in page], name
        assert "agreement-title" not in page
        assert "matrix-title" not in page
    page = client.get(reverse("batch", args=[batch.name])).content.decode()
    assert "Agreement is below the threshold" in page
    listing = client.get(reverse("batches")).content.decode()
    assert not [figure for figure in figures if figure in listing]
