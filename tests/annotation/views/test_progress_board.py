"""The board of a batch: the matrix of people and dimensions, the pace, the live agreement, and who sees what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format

from annotation.core.errors import Forbidden
from annotation.domain.batch_spec import Terms
from annotation.domain.batches import TOO_FEW_DAYS
from annotation.models import (
    Alarm,
    Assignment,
    AuditEvent,
    Batch,
    BatchStats,
    Dataset,
    Guideline,
    Membership,
    Person,
)
from annotation.selectors.batches import progress
from annotation.selectors.batches.outlook import build_outlook, join_outlooks
from annotation.selectors.batches.progress import AnnotationProgress, ProgressCell, build_progress_matrix
from annotation.selectors.batches.tasks import TaskFilter, find_tasks
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import join_batch
from annotation.services.batches.monitoring import watch_batch
from annotation.services.batches.policy import set_terms
from tests.support import XSTEST_GUIDELINE, decide_next, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


@pytest.fixture
def at_work(batch: Batch, lin: Person, chen: Person, zhou: Person, wu: Person) -> Batch:
    """Of eight tasks, four safe and four unsafe: one decided, one disputed, one at hand, two claims that ran out."""
    for label in (1, 2):
        label_next(batch, lin, label)  # tasks 0 (safe) and 2 (unsafe)
        label_next(batch, chen, 3)
    decide_next(batch, wu, 2)
    claims = [claim_next_task(batch=batch, person=person) for person in (lin, chen, zhou)]
    assert all(claims)
    expired, overdue = claims[1], claims[2]
    assert expired is not None
    assert overdue is not None
    past = timezone.now() - timedelta(minutes=1)
    Assignment.objects.filter(pk=overdue.pk).update(lease_expires=past)
    Assignment.objects.filter(pk=expired.pk).update(state="expired", lease_expires=past)
    return batch


def counts(cell: ProgressCell) -> tuple[int, int, int | None, int]:
    return cell.done, cell.open, cell.disputed, cell.expired


# ---------------------------------------------------------------- the matrix


@pytest.mark.both_databases
def test_the_matrix_says_who_is_how_far_in_which_dimension(
    at_work: Batch, lin: Person, chen: Person, zhou: Person, wu: Person
) -> None:
    cells = build_progress_matrix(at_work, disputes=1)
    decided = at_work.tasks.get(state="adjudicated").stratum.dimension
    disputed = at_work.tasks.get(state="disputed").stratum.dimension
    assert {decided, disputed} == {"safe", "unsafe"}
    assert counts(cells.of_person(lin.pk)) == (2, 1, 1, 0)
    assert counts(cells.of_person(chen.pk)) == (2, 0, 1, 1)
    assert counts(cells.of_person(zhou.pk)) == (0, 0, 0, 1)
    assert counts(cells.of_person(wu.pk)) == (1, 0, 0, 0)
    assert cells.of(wu.pk, decided).done == 1
    assert cells.of(wu.pk, disputed).is_empty
    assert cells.of(lin.pk, disputed).disputed == 1
    assert cells.of(lin.pk, decided).disputed == 0
    dimension_cell = cells.of_dimension("safe")
    dimension_cell.add(cells.of_dimension("unsafe"))
    assert counts(dimension_cell) == (5, 1, 2, 2)


def test_too_many_disputes_are_not_counted_by_person(
    at_work: Batch, lin: Person, zhou: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "MAX_DISPUTES", 0)
    cells = build_progress_matrix(at_work, disputes=1)
    assert cells.of_person(lin.pk).disputed is None
    assert cells.of(zhou.pk, "nothing").disputed is None
    assert cells.of_person(lin.pk).done == 2


def test_the_matrix_asks_as_often_however_many_there_are(
    at_work: Batch, guideline: Guideline, lin: Person, chen: Person
) -> None:
    small = make_batch(
        guideline, make_corpus(prompts=1, models=["a"], name="s"), annotators=[lin, chen], name="s"
    )
    numbers = []
    for batch in (small, at_work):
        with CaptureQueriesContext(connection) as captured:
            build_progress_matrix(batch, disputes=1)
        numbers.append(len(captured))
    assert numbers == [5, 5]


def test_every_number_leads_to_its_items(manager: Client, at_work: Batch) -> None:
    page = manager.get(reverse("batch-progress", args=[at_work.name])).content.decode()
    links = {
        link.replace("&amp;", "&") for link in re.findall(r'href="(/batches/first/tasks/\?[^"]+)"', page)
    }
    assert any("person=lin" in link and "state=disputed" in link for link in links)
    assert any("person=zhou" in link and "claim=expired" in link for link in links)
    for link in (link for link in links if "state=" in link or "claim=" in link):
        assert manager.get(link).context["rows"], link
    # The reader's words, never the guideline's names.
    assert "matrix-title" in page


def test_items_are_found_by_their_claims(at_work: Batch) -> None:
    def find_people(**filters: str) -> list[set[str]]:
        return [
            {assignment.person.username for assignment in item.assignments if assignment.state != "submitted"}
            for item in find_tasks(at_work, TaskFilter(**filters), limit=10).items
        ]

    # chen's claim ran out and was swept away, zhou's ran out just now; lin is at work.
    assert len(find_people(claim="expired")) == 2
    assert "chen" in find_people(claim="expired", person="chen")[0]
    assert "zhou" in find_people(claim="expired", person="zhou")[0]
    assert ["lin" in people for people in find_people(claim="held")] == [True]
    assert find_people(claim="held", person="zhou") == []
    assert find_people(claim="expired", person="zhou", state="agreed") == []


# ---------------------------------------------------------------- pace and forecast


def a_watch(days: Sequence[int], *, today: int = 0, **values: Any) -> BatchStats:
    """Counted now; ``days`` are the whole days before today, the latest last."""
    last = timezone.localdate()
    counted = {last - timedelta(days=len(days) - place): n for place, n in enumerate(days)} | {last: today}
    stats = {"days": {day.isoformat(): n for day, n in counted.items() if n}}
    return BatchStats(at=timezone.now(), **(stats | values))


def test_the_outlook_is_undefined_until_a_week_was_seen(batch: Batch) -> None:
    counts = AnnotationProgress(submitted=10, needed=40)
    assert build_outlook(batch, None, counts, people=2, disputes=0) is None
    forecast = build_outlook(batch, a_watch([5, 5]), counts, people=2, disputes=0)
    assert forecast is not None
    assert (forecast.seen, forecast.per_day, forecast.left) == (2, 5, 30)
    assert (forecast.low, forecast.high, forecast.late, forecast.forecast.reason) == (
        None,
        None,
        None,
        TOO_FEW_DAYS,
    )


def test_the_outlook_tells_when_and_how_probably_late(batch: Batch) -> None:
    counts = AnnotationProgress(submitted=10, needed=40)
    today = timezone.localdate()

    def of(due: date | None, days: Sequence[int] = (10,) * 7) -> tuple[Any, Any, Any]:
        batch.due_date = due
        forecast = build_outlook(
            batch, a_watch(days, timed=30, timed_seconds=900.0), counts, people=2, disputes=0
        )
        assert forecast is not None
        assert forecast.per_hour == 120  # thirty in a quarter of an hour
        return forecast.low, forecast.high, forecast.late

    end = today + timedelta(days=2)
    assert of(None) == (end, end, None)
    assert of(end) == (end, end, 0.0)
    assert of(today + timedelta(days=1)) == (end, end, 1.0)
    assert of(today - timedelta(days=9)) == (end, end, 1.0)
    # Days without work count from the first day with work on: seven days here, of which three had none.
    low, high, _late = of(None, (0, 0, 30, 0, 30, 0, 30, 0, 20))
    assert low < high


def test_before_a_week_the_pace_says_between_which_days_it_ends(batch: Batch) -> None:
    """60 left at two minutes each are two hours of work: an hour for each of two people."""
    today = timezone.localdate()

    def of(left: int, *, people: int = 2, disputes: float | None = 0, timed: int = 10) -> Any:
        counted = a_watch([], today=20, timed=timed, timed_seconds=timed * 120.0)
        counts = AnnotationProgress(submitted=20, needed=20 + left)
        outlook = build_outlook(batch, counted, counts, people=people, disputes=disputes)
        assert outlook is not None
        return outlook

    outlook = of(60)
    assert (outlook.low, outlook.high, outlook.late) == (today, today, None)
    outlook = of(600)  # ten hours each
    assert (outlook.low, outlook.high) == (today + timedelta(days=1), today + timedelta(days=9))
    assert outlook.forecast.reason == TOO_FEW_DAYS
    outlook = of(540, disputes=59.2)  # the same, with disputes
    assert (outlook.low, outlook.high, outlook.has_disputes) == (
        today + timedelta(days=1),
        today + timedelta(days=9),
        True,
    )
    assert of(600, timed=9).low is None
    assert of(600, people=0).low is None
    assert of(10**8).is_open_ended


def test_settling_the_disputes_is_counted(batch: Batch) -> None:
    today = timezone.localdate()
    days = {(today - timedelta(days=back)).isoformat(): 2 for back in range(1, 8)}
    counts = AnnotationProgress(submitted=10, needed=40)

    def of(counted: BatchStats, progress: AnnotationProgress, disputes: float | None) -> Any:
        return build_outlook(batch, counted, progress, people=2, disputes=disputes)

    settling = a_watch([10] * 7, decision_days=days)
    outlook = of(settling, counts, 11.5)  # twelve at two a day, where the annotations take three days
    assert (outlook.low, outlook.high, outlook.has_disputes) == (
        today + timedelta(days=5),
        today + timedelta(days=5),
        True,
    )
    unseen = of(a_watch([10] * 7), counts, 11.5)
    assert (unseen.low, unseen.has_disputes, unseen.disputes_left) == (today + timedelta(days=2), False, 12)
    all_done = AnnotationProgress(submitted=40, needed=40)
    assert of(settling, all_done, 4).high == today + timedelta(days=1)
    assert of(settling, all_done, 0).is_done
    assert of(settling, counts, None).low == today + timedelta(days=2)  # who works in it is told nothing


def test_the_end_of_a_study_is_that_of_its_last_batch(batch: Batch) -> None:
    today = timezone.localdate()

    def of(days: Sequence[int], left: int = 30, **values: Any) -> Any:
        counts = AnnotationProgress(submitted=10, needed=10 + left)
        return build_outlook(batch, a_watch(days, **values), counts, people=1, disputes=0)

    end = join_outlooks([of([10] * 7), of([5] * 7), of([10] * 7, left=0)])
    assert end is not None
    assert (end.low, end.high, end.is_early, end.unknown) == (
        today + timedelta(days=5),
        today + timedelta(days=5),
        False,
        0,
    )
    varied = join_outlooks([of([10, 30, 5, 10, 20, 0, 5]), of([5, 0, 25, 0, 10, 10, 0])])
    assert varied is not None
    assert varied.low >= max(of([10, 30, 5, 10, 20, 0, 5]).low, of([5, 0, 25, 0, 10, 10, 0]).low)
    early = join_outlooks([of([10] * 7), of([], today=20, timed=20, timed_seconds=72000.0), None])
    assert early is not None
    assert (early.low, early.high, early.is_early, early.unknown) == (
        today + timedelta(days=3),  # thirty hours
        today + timedelta(days=29),
        True,
        1,
    )
    assert join_outlooks([of([10] * 7, left=0)]) is None
    nothing_known = join_outlooks([None])
    assert nothing_known is not None
    assert (nothing_known.low, nothing_known.unknown) == (None, 1)


def test_a_batch_that_is_closed_has_no_end_to_come(batch: Batch) -> None:
    batch.state = Batch.State.CLOSED
    forecast = build_outlook(
        batch, a_watch([10] * 7), AnnotationProgress(submitted=10, needed=40), people=2, disputes=0
    )
    assert forecast is not None
    assert forecast.low is None


def test_the_page_draws_the_days_and_says_them_in_a_table(manager: Client, at_work: Batch) -> None:
    empty = manager.get(reverse("batch", args=[at_work.name])).content.decode()
    assert "nothing was counted yet" in empty
    counted = a_watch([4, 0, 6, 2, 3, 4, 0, 6], today=4)
    counted.batch = at_work
    counted.save()
    page = manager.get(reverse("batch", args=[at_work.name]))
    assert page.content.decode().count('class="bars__room"') == 14
    assert [bar.n for bar in page.context["bars"]][-4:] == [4, 0, 6, 4]
    assert "Likely end" in page.content.decode()


def test_the_list_warns_of_a_due_date(manager: Client, at_work: Batch) -> None:
    Batch.objects.update(due_date=timezone.localdate())
    counted = a_watch([1] * 7)
    counted.batch = at_work
    counted.save()
    (row,) = manager.get(reverse("batches")).context["rows"]
    assert (row["at_risk"], row["late"], row["alarm"]) == (True, "more than 99%", False)


# ---------------------------------------------------------------- agreement, and who sees it


def test_the_board_shows_what_was_measured_and_measures_nothing(
    manager: Client, at_work: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_batch(at_work)
    monkeypatch.setattr(
        "annotation.selectors.agreement.label_table._iterate_tasks", None
    )  # a page that reads labels breaks
    page = manager.get(reverse("batch-progress", args=[at_work.name]))
    (line,) = page.context["agreement"]
    assert (line.n, line.disputed, line.percent) == (2, 2, "0.0%")
    assert line.alpha
    assert "as of" in page.content.decode()


def test_figures_of_another_day_say_of_which(manager: Client, at_work: Batch) -> None:
    watch_batch(at_work)
    then = timezone.now() - timedelta(days=3)
    BatchStats.objects.update(at=then)
    page = manager.get(reverse("batch-progress", args=[at_work.name])).content.decode()
    stamp = date_format(timezone.localtime(then), "SHORT_DATETIME_FORMAT")
    assert page.count(f"as of {stamp}") == 2  # of the pace, and of the agreement


def test_the_board_leads_to_the_disputed_items_and_to_the_people(
    manager: Client, at_work: Batch, ma: Person
) -> None:
    page = manager.get(reverse("batch-progress", args=[at_work.name])).content.decode()
    assert f'href="{reverse("batch-tasks", args=[at_work.name])}?state=disputed"' in page
    matrix_table = page.partition('id="matrix-title"')[2].partition("</table>")[0]
    assert f'href="{reverse("person", args=["lin"])}"' in matrix_table


def test_criteria_are_named_in_the_readers_language(manager: Client, at_work: Batch) -> None:
    watch_batch(at_work)
    manager.cookies["django_language"] = "zh-hans"
    page = manager.get(reverse("batch-progress", args=[at_work.name]))
    document = XSTEST_GUIDELINE.load().document
    assert page.context["agreement"][0].criterion == document.criteria[0].label["zh"]
    assert [dimension["label"] for dimension in page.context["dimensions"]] == [
        dimension.label["zh"] for dimension in document.dimensions
    ]


@pytest.mark.both_databases
def test_whoever_works_in_the_batch_sees_the_pace_and_nothing_of_a_label(
    client: Client, at_work: Batch, ma: Person
) -> None:
    Membership.objects.create(batch=at_work, person=ma, role="annotator", active=False)  # left long ago
    watch_batch(at_work)
    client.force_login(ma)
    for name in ("batch", "batch-progress"):
        answer = client.get(reverse(name, args=[at_work.name]))
        page = answer.content.decode()
        assert answer.context["outlook"] is not None
        for name_of in ("agreement", "matrix", "dimensions", "people", "consistency", "curve"):
            assert name_of not in answer.context
        for word in ("alpha", "Disputed", "matrix-title", "trend"):
            assert word not in page
    set_state(batch=at_work, state="closed")
    assert client.get(reverse("batch", args=[at_work.name])).context["agreement"]


def test_whoever_judges_the_same_responses_elsewhere_reads_no_agreement(
    manager: Client, at_work: Batch, guideline: Guideline, lin: Person, ma: Person
) -> None:
    watch_batch(at_work)
    dataset = at_work.strata.first().dataset  # type: ignore[union-attr]
    make_batch(guideline, dataset, annotators=[lin, ma], name="second")
    page = manager.get(reverse("batch-progress", args=[at_work.name]))
    assert page.context["agreement_open"] is False
    assert "alpha" not in page.content.decode()


# ---------------------------------------------------------------- the policy


def terms(**changes: str) -> dict[str, str]:
    fields = {"lease_minutes": "30", "due_date": "", "agreement_threshold": "", "alarm_action": "tell"}
    return fields | {"second_reading_percent": "5", "second_reading_days": "14"} | changes


def test_a_manager_changes_the_policy_of_a_batch_at_work(manager: Client, batch: Batch, ma: Person) -> None:
    page = reverse("batch-policy", args=[batch.name])
    assert manager.get(page).context["form"]["lease_minutes"].value() == 30
    changed = terms(
        due_date="2026-12-24", agreement_threshold="0.6", alarm_action="pause", second_reading_percent="12.5"
    )
    assert manager.post(page, changed).status_code == 302
    batch.refresh_from_db()
    assert (batch.due_date, batch.agreement_threshold, batch.alarm_action) == (
        date(2026, 12, 24),
        0.6,
        "pause",
    )
    assert (batch.second_reading_share, batch.second_reading_days, batch.lease_seconds) == (0.125, 14, 1800)
    event = AuditEvent.objects.get(verb="set_terms")
    assert event.actor == ma
    assert event.data == {
        "due_date": "2026-12-24",
        "agreement_threshold": 0.6,
        "alarm_action": "pause",
        "second_reading_share": 0.125,
    }
    manager.post(page, changed)
    assert AuditEvent.objects.filter(verb="set_terms").count() == 1  # nothing changed, nothing to tell


def test_a_lease_that_the_form_cannot_show_stays(manager: Client, batch: Batch) -> None:
    Batch.objects.update(lease_seconds=100)
    manager.post(
        reverse("batch-policy", args=[batch.name]), terms(lease_minutes="2", second_reading_days="3")
    )
    batch.refresh_from_db()
    assert (batch.lease_seconds, batch.second_reading_days) == (100, 3)


@pytest.mark.parametrize(
    "wrong", [{"agreement_threshold": "1.2"}, {"lease_minutes": "0"}, {"alarm_action": "shout"}]
)
def test_a_wrong_policy_comes_back_with_its_words(
    manager: Client, batch: Batch, wrong: dict[str, str]
) -> None:
    answer = manager.post(reverse("batch-policy", args=[batch.name]), terms(**wrong))
    assert answer.status_code == 422
    assert next(iter(wrong)) in answer.context["form"].errors


def test_whoever_judges_blind_cannot_feel_for_the_agreement_with_the_threshold(
    client: Client, batch: Batch, ma: Person
) -> None:
    join_batch(batch=batch, role="annotator", people=[ma])
    client.force_login(ma)
    page = reverse("batch-policy", args=[batch.name])
    assert client.get(page).context["form"]["agreement_threshold"].field.disabled
    answer = client.post(page, terms(agreement_threshold="0.9", lease_minutes="45"))
    assert answer.status_code == 302
    batch.refresh_from_db()
    assert (batch.agreement_threshold, batch.lease_seconds) == (None, 2700)
    with pytest.raises(Forbidden, match="another manager"):
        set_terms(batch=batch, terms=Terms(agreement_threshold=0.9), actor=ma)


def test_the_policy_of_a_closed_batch_stays(manager: Client, batch: Batch) -> None:
    set_state(batch=batch, state="closed")
    page = reverse("batch-policy", args=[batch.name])
    assert b"<form class=" not in manager.get(page).content.split(b"<main")[1]
    assert manager.post(page, terms(lease_minutes="5")).status_code == 422
    batch.refresh_from_db()
    assert batch.lease_seconds == 1800


def test_a_new_batch_takes_the_terms_of_its_form(
    manager: Client, dataset: Dataset, guideline: Guideline, lin: Person, chen: Person
) -> None:
    form = terms(agreement_threshold="0.5", alarm_action="pause", second_reading_percent="0") | {
        "name": "new",
        "guideline": str(guideline.pk),
        "annotators": [str(lin.pk), str(chen.pk)],  # type: ignore[dict-item]
        "overlap": "2",
        "tolerance": "0",
    }
    assert manager.post(reverse("batch-new", args=["small"]), form).status_code == 302
    made = Batch.objects.get(name="new")
    assert (made.agreement_threshold, made.alarm_action, made.second_reading_share) == (0.5, "pause", 0)
    assert not Alarm.objects.exists()


def test_the_line_of_the_agreement_stays_in_its_drawing(manager: Client, at_work: Batch) -> None:
    Batch.objects.update(agreement_threshold=-0.9)
    history = [[10, 0.2, -0.13, 0.4], [30, 0.5, 0.3, 0.6], [80, 0.9, 0.8, 1.0]]
    BatchStats.objects.create(batch=at_work, at=timezone.now(), history=history)
    curve = manager.get(reverse("batch-progress", args=[at_work.name])).context["curve"]
    assert (curve["lowest"], curve["from"], curve["to"], curve["threshold"]) == ("-0.2", 10, 80, "40.0")
    points = [tuple(map(float, point.split(","))) for point in f"{curve['line']} {curve['band']}".split()]
    assert all(0 <= x <= 100 and 0 <= y <= 40 for x, y in points)
    assert points[:3] == [(0.0, 26.7), (28.6, 16.7), (100.0, 3.3)]


def test_the_command_sets_the_alarm(
    dataset: Dataset, guideline: Guideline, lin: Person, chen: Person
) -> None:
    options = {"guideline": "xstest", "dataset": "small", "annotators": ["lin", "chen"], "stdout": StringIO()}
    call_command("create_batch", "july", agreement_threshold=0.5, alarm="pause", **options)
    made = Batch.objects.get(name="july")
    assert (made.agreement_threshold, made.alarm_action, made.second_reading_share) == (0.5, "pause", 0.05)


def test_the_plan_says_in_words_how_long_it_takes(
    manager: Client, dataset: Dataset, guideline: Guideline, lin: Person, chen: Person
) -> None:
    form = terms(due_date=(timezone.localdate() + timedelta(days=1)).isoformat()) | {
        "guideline": str(guideline.pk),
        "annotators": [str(lin.pk), str(chen.pk)],  # type: ignore[dict-item]
        "overlap": "2",
        "pairing": "balanced",
        "seconds": "900",
    }
    page = manager.post(reverse("batch-plan", args=["small"]), form)
    words = page.content.decode()
    # Eight responses for both: 16 annotations of a quarter of an hour; two days, today and tomorrow.
    assert (
        "2 people label about 8 items each: 2 h 0 min of work for everybody, and 4 h 0 min for all" in words
    )
    assert "about 1 h 0 min a day for each" in words
    assert [(row.tasks, time) for row, time in page.context["shares"]] == [(8, "2 h 0 min")] * 2
