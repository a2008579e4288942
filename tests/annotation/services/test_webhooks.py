"""Webhooks from the act to the receiver: written with the act, sent until accepted, each event once by its id."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import sha256
from hmac import new as new_hmac
from ipaddress import ip_network
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from django.conf import LazySettings
from django.conf import settings as django_settings
from django.db import connection, transaction
from django.utils import timezone

from annotation.core.errors import AssayError, Conflict
from annotation.core.study_scope import limit_to_studies
from annotation.domain.batch_spec import Policy
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.domain.verbs import AnnotationVerb
from annotation.domain.webhooks.events import SUBSCRIBED, WebhookEvent
from annotation.domain.webhooks.retries import DELAY_SECONDS, FAILING_DAYS
from annotation.domain.webhooks.signatures import read_secret
from annotation.health import check_webhooks
from annotation.models import (
    AuditEvent,
    Batch,
    Dataset,
    Guideline,
    Job,
    Person,
    Study,
    Task,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
)
from annotation.selectors.overview import list_pending_work
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.batches.batches import set_state
from annotation.services.batches.collection import end_collection
from annotation.services.imports import ImportRequest, import_annotations
from annotation.services.releases import cut_release
from annotation.services.studies import create_study, find_or_make_study
from annotation.services.upkeep.remains import clean_webhook_messages
from annotation.services.webhooks import sending
from annotation.services.webhooks.endpoints import (
    change_endpoint,
    create_endpoint,
    hold_endpoints,
    renew_secret,
    send_again,
    send_test,
    set_active,
)
from annotation.services.webhooks.sending import claim_due, queue_sending, record_answer, send_due
from tests.annotation.views.test_jobs import database_url
from tests.annotation.webhook_receiver import MovedClock, Receiver, run_receiver
from tests.conftest import ROOT
from tests.support import add_role, as_made_by_import, decide_next, label_next, make_batch, person

pytestmark = pytest.mark.django_db
EVERYTHING = [event.value for event in SUBSCRIBED]
BASE = "https://assay.example"


@pytest.fixture(autouse=True)
def _loopback_allowed(settings: LazySettings) -> None:
    settings.WEBHOOK_NETWORKS = (ip_network("127.0.0.0/8"),)
    settings.WEBHOOK_HTTP = True


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with run_receiver() as running:
        yield running


def make_endpoint(
    url: str, *, events: Sequence[str] = EVERYTHING, study: Study | None = None, actor: Person | None = None
) -> WebhookEndpoint:
    endpoint, _secret = create_endpoint(
        study=study or find_or_make_study(), url=url, events=events, base_url=BASE, actor=actor
    )
    return endpoint


def settle_two(batch: Batch) -> list[Task]:
    """One task agreed, one decided by the adjudicator."""
    for value in (1, 1):
        label_next(batch, person("lin"), value)
    label_next(batch, person("chen"), 1)
    label_next(batch, person("chen"), 3)
    decide_next(batch, person("wu"), 1)
    settled = (Task.State.AGREED, Task.State.ADJUDICATED)
    return list(Task.objects.filter(batch=batch, state__in=settled).order_by("pk"))


def later() -> MovedClock:
    return MovedClock()


# What is written, and with what.


def test_a_settled_task_is_written_with_the_submission_that_settles_it(batch: Batch):
    make_endpoint("https://receiver.example/")
    tasks = settle_two(batch)
    assert sorted(task.state for task in tasks) == ["adjudicated", "agreed"]
    rows = WebhookDelivery.objects.order_by("pk")
    assert sorted(row.target for row in rows) == sorted(f"task:{task.pk}" for task in tasks)
    for row in rows:
        assert (row.type, row.state, row.attempts, row.tries) == ("task.settled", "waiting", 0, 0)
        assert (row.study_id, row.batch_id) == (batch.study_id, batch.pk)
        assert row.occurred_at == Task.objects.get(pk=row.target.removeprefix("task:")).settled_at
        assert row.next_attempt_at == row.occurred_at
    assert len({row.message_id for row in rows}) == 2


def test_nothing_is_written_of_what_was_rolled_back(batch: Batch):
    make_endpoint("https://receiver.example/")

    class Undone(Exception):
        pass

    def act_and_fail() -> None:
        with transaction.atomic():
            settle_two(batch)
            set_state(batch=batch, state=Batch.State.CLOSED)
            assert WebhookDelivery.objects.count() == 3
            raise Undone

    with pytest.raises(Undone):
        act_and_fail()
    assert not WebhookDelivery.objects.exists()


def test_who_does_not_ask_or_is_off_is_told_nothing(batch: Batch):
    runs_alone = make_endpoint("https://receiver.example/", events=["run.done"])
    off = make_endpoint("https://off.example/")
    set_active(endpoint=off, active=False, actor=person("ma"))
    settle_two(batch)
    set_state(batch=batch, state=Batch.State.CLOSED)
    assert not WebhookDelivery.objects.filter(endpoint__in=[runs_alone, off]).exists()


def test_acts_of_the_trail_are_told_of(batch: Batch, he: Person, ma: Person):
    make_endpoint("https://receiver.example/", actor=ma)
    settle_two(batch)
    set_state(batch=batch, state=Batch.State.CLOSED, actor=ma)
    cut_release(ReleaseSpec(name="r1", batches=[batch.pk]), actor=he)
    record(actor=None, verb=AnnotationVerb.AGREEMENT_ALARM, target=f"batch:{batch.name}")
    kinds = [row.type for row in WebhookDelivery.objects.order_by("pk")]
    assert kinds == ["task.settled", "task.settled", "batch.closed", "release.cut", "agreement.alarm"]
    alarm = WebhookDelivery.objects.get(type="agreement.alarm")
    assert alarm.batch == batch


def test_an_import_that_settles_tasks_tells_of_each_once(batch: Batch, tmp_path: Path):
    make_endpoint("https://receiver.example/")
    rows: list[dict[str, Any]] = [
        {"annotator": name, "labels": {"compliance": value}, "prompt_id": prompt}
        for prompt, labels in {"p0": (3, 3), "p1": (1, 3), "p2": (1, 2)}.items()
        for name, value in zip(("lin", "chen"), labels, strict=True)
    ]
    rows.append({"adjudicator": "wu", "labels": {"compliance": 2}, "rationale": "so", "prompt_id": "p1"})
    path = tmp_path / "labels.jsonl"
    path.write_text(
        "".join(json.dumps(row | {"model": "Hidden-13B"}) + "\n" for row in rows), encoding="utf-8"
    )
    as_made_by_import(batch)
    for _time in range(2):
        request = ImportRequest(batch=batch.name, guideline=None, dataset=None)
        import_annotations(source=Source(path, path.name), format="jsonl", request=request)
    settled = Task.objects.filter(settled_at__isnull=False)
    assert sorted(task.state for task in settled) == ["adjudicated", "agreed"]
    stored = WebhookDelivery.objects.values_list("type", "target", "batch", "study")
    place = (batch.pk, batch.study_id)
    assert set(stored) == {("task.settled", f"task:{task.pk}", *place) for task in settled}
    assert len(stored) == 2
    times = set(WebhookDelivery.objects.values_list("occurred_at", flat=True))
    assert times == set(settled.values_list("settled_at", flat=True))


def test_the_end_of_a_labelling_tells_of_what_it_settles(guideline: Guideline, dataset: Dataset):
    make_endpoint("https://receiver.example/")
    annotators = [person(name) for name in ("lin", "chen", "zhou")]
    batch = make_batch(
        guideline,
        dataset,
        annotators=annotators,
        adjudicators=[person("wu")],
        policy=Policy(overlap=2, plan="open"),
    )
    for values in ((1, 1), (1, 3)):
        for annotator, value in zip(annotators, values, strict=False):
            label_next(batch, annotator, value)
    assert not WebhookDelivery.objects.exists()
    counts = end_collection(batch=batch)
    assert counts["agreed"] >= 1
    settled = Task.objects.filter(batch=batch, settled_at__isnull=False).values_list("pk", flat=True)
    targets = WebhookDelivery.objects.values_list("target", flat=True)
    assert sorted(targets) == sorted(f"task:{task}" for task in settled)


def test_nothing_crosses_a_study_and_the_sites_own_is_told_of_all(batch: Batch):
    other = create_study(name="other")
    abroad = make_endpoint("https://other.example/", study=other)
    everywhere, _secret = create_endpoint(
        study=None, url="https://site.example/", events=EVERYTHING, base_url=BASE, actor=None
    )
    at_home = make_endpoint("https://receiver.example/", study=batch.study)
    with limit_to_studies([batch.study_id]):
        settle_two(batch)
        set_state(batch=batch, state=Batch.State.CLOSED)
    counts = Counter(WebhookDelivery.objects.values_list("endpoint", flat=True))
    assert counts == {at_home.pk: 3, everywhere.pk: 3}
    assert not counts[abroad.pk]


def test_one_event_has_one_id_at_all_endpoints(batch: Batch):
    for host in ("a", "b"):
        make_endpoint(f"https://{host}.example/", events=["batch.closed"])
    set_state(batch=batch, state=Batch.State.CLOSED)
    rows = list(WebhookDelivery.objects.all())
    assert (len(rows), len({row.message_id for row in rows})) == (2, 1)


# What is sent.


def test_a_message_holds_ids_and_an_address_and_is_signed(batch: Batch, receiver: Receiver):
    endpoint, secret = create_endpoint(
        study=batch.study, url=receiver.url, events=EVERYTHING, base_url=BASE, actor=None
    )
    (adjudicated,) = [task for task in settle_two(batch) if task.state == Task.State.ADJUDICATED]
    clock = later()
    assert send_due(clock=clock) == {"accepted": 2, "failed": 0}
    by_task = {message.content["data"]["task"]: message for message in receiver.messages}
    message = by_task[adjudicated.pk]
    row = WebhookDelivery.objects.get(target=f"task:{adjudicated.pk}")
    moment = row.occurred_at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert message.content == {
        "type": "task.settled",
        "timestamp": moment,
        "data": {
            "study": "default",
            "batch": "first",
            "task": adjudicated.pk,
            "url": f"{BASE}/s/default/tasks/{adjudicated.pk}/",
        },
    }
    for word in ("Secretive", "Hidden", "Answer", "Question", "lin", "chen", "wu", "compliance", "decided"):
        assert word.encode() not in message.body
    timestamp = message.headers["webhook-timestamp"]
    assert timestamp == str(int(clock.now.timestamp()))
    content = f"{message.message_id}.{timestamp}.".encode() + message.body
    digest = b64encode(new_hmac(read_secret(secret), content, sha256).digest()).decode()
    assert message.headers["webhook-signature"] == f"v1,{digest}"
    assert message.message_id == row.message_id
    assert message.headers["content-type"] == "application/json"
    assert (row.state, row.attempts, row.next_attempt_at, row.ended_at) == ("accepted", 1, None, clock.now)
    (attempt,) = row.attempt_rows.all()
    assert (attempt.number, attempt.status, attempt.trouble, attempt.is_accepted) == (1, 204, "", True)
    endpoint.refresh_from_db()
    assert endpoint.accepted_at == clock.now


def test_each_kind_of_event_can_be_sent(batch: Batch, receiver: Receiver, he: Person):
    endpoint = make_endpoint(receiver.url)
    set_state(batch=batch, state=Batch.State.CLOSED)
    columns = {"study_id": batch.study_id, "endpoint": endpoint, "occurred_at": timezone.now()}
    for number, (kind, target) in enumerate(
        [("release.cut", "release:r 1"), ("scorer.promoted", "scorer:s1"), ("run.done", "run:b 1")]
    ):
        WebhookDelivery.objects.create(
            message_id=f"msg_{number}",
            type=kind,
            target=target,
            next_attempt_at=timezone.now(),
            **columns,
        )
    send_test(endpoint=endpoint)
    send_due(clock=later())
    data = {message.content["type"]: message.content["data"] for message in receiver.messages}
    start = f"{BASE}/s/default"
    assert data == {
        "batch.closed": {"study": "default", "batch": "first", "url": f"{start}/batches/first/"},
        "release.cut": {"study": "default", "release": "r 1", "url": f"{start}/releases/r%201/"},
        "scorer.promoted": {"study": "default", "scorer": "s1", "url": f"{start}/scorers/s1/"},
        "run.done": {"study": "default", "run": "b 1", "url": f"{start}/runs/b%201/"},
        "webhook.test": {
            "study": "default",
            "webhook": endpoint.pk,
            "url": f"{start}/webhooks/{endpoint.pk}/",
        },
    }


def test_while_a_secret_is_renewed_both_sign_and_then_the_new_one_alone(receiver: Receiver, ma: Person):
    endpoint, former = create_endpoint(
        study=find_or_make_study(), url=receiver.url, events=EVERYTHING, base_url=BASE, actor=ma
    )
    _renewed, present = renew_secret(endpoint=endpoint, hours=24, actor=ma)
    clock = later()

    def list_signers() -> list[str]:
        send_test(endpoint=endpoint)
        send_due(clock=clock)
        message = receiver.messages[-1]
        content = f"{message.message_id}.{message.headers['webhook-timestamp']}.".encode() + message.body
        signed = message.headers["webhook-signature"].split(" ")
        names = {}
        for name, secret in (("former", former), ("present", present)):
            digest = new_hmac(read_secret(secret), content, sha256).digest()
            names[f"v1,{b64encode(digest).decode()}"] = name
        return [names[signature] for signature in signed]

    assert list_signers() == ["present", "former"]
    clock.move(hours=23)
    assert list_signers() == ["present", "former"]
    clock.move(hours=2)
    assert list_signers() == ["present"]
    _renewed, present = renew_secret(endpoint=endpoint, hours=0, actor=ma)
    assert list_signers() == ["present"]
    with pytest.raises(AssayError):
        renew_secret(endpoint=endpoint, hours=5, actor=ma)


def test_a_changed_key_of_the_site_signs_nothing_and_the_doctor_says_so(
    receiver: Receiver, settings: LazySettings, ma: Person
):
    endpoint = make_endpoint(receiver.url)
    assert check_webhooks().state.value == "ok"
    settings.SECRET_KEY = "another key of the site, drawn at random: 0123456789"
    send_test(endpoint=endpoint)
    assert send_due(clock=later()) == {"accepted": 0, "failed": 1}
    assert receiver.messages == []
    assert WebhookAttempt.objects.get().trouble == "key"
    assert check_webhooks().state.value == "fault"
    renew_secret(endpoint=endpoint, hours=0, actor=ma)
    assert check_webhooks().state.value == "warning"  # it fails still
    assert send_due(clock=moved(minutes=1)) == {"accepted": 1, "failed": 0}
    assert check_webhooks().state.value == "ok"


def moved(**time: float) -> MovedClock:
    clock = MovedClock()
    clock.move(**time)
    return clock


# A receiver that is away.


def test_a_receiver_that_is_down_for_an_hour_gets_each_event_once(batch: Batch):
    """An hour of the senders' clock, in which the job looks every half minute; then the receiver is back."""
    receiver = Receiver()
    make_endpoint(receiver.url)
    settle_two(batch)
    clock = later()
    for minute in range(60):
        for _half in range(2):
            assert send_due(clock=clock)["accepted"] == 0
            clock.move(seconds=30)
        if minute == 20:
            set_state(batch=batch, state=Batch.State.CLOSED)
            WebhookDelivery.objects.filter(type="batch.closed").update(next_attempt_at=clock.now)
    expected = sorted(WebhookDelivery.objects.values_list("message_id", flat=True))
    assert len(expected) == 3
    tries = WebhookDelivery.objects.filter(type="task.settled").values_list("attempts", flat=True)
    assert set(tries) == {4}  # at once, after 5 s, 5 min and 30 min; the first ones of the hour
    receiver.start()
    try:
        for _half_minute in range(6 * 60):
            send_due(clock=clock)
            clock.move(seconds=30)
    finally:
        receiver.stop()
    assert sorted(receiver.ids) == expected
    assert set(WebhookDelivery.objects.values_list("state", flat=True)) == {"accepted"}
    endpoint = WebhookEndpoint.objects.get()
    assert (endpoint.failing_since, endpoint.is_active) == (None, True)


def test_the_attempts_follow_the_schedule_and_end(receiver: Receiver):
    receiver.status = 500
    endpoint = make_endpoint(receiver.url)
    delivery = send_test(endpoint=endpoint)
    clock = later()
    for number in range(len(DELAY_SECONDS)):
        assert send_due(clock=clock) == {"accepted": 0, "failed": 1}
        delivery.refresh_from_db()
        if delivery.next_attempt_at is not None:
            wait = (delivery.next_attempt_at - clock.now).total_seconds()
            delay = DELAY_SECONDS[number + 1]
            assert delay <= wait <= 1.2 * delay + 1e-6
            clock.now = delivery.next_attempt_at
    assert (delivery.state, delivery.attempts, delivery.next_attempt_at) == ("failed", 10, None)
    clock.move(days=1)
    assert send_due(clock=clock) == {"accepted": 0, "failed": 0}
    assert set(receiver.ids) == {delivery.message_id}
    assert [attempt.status for attempt in delivery.attempt_rows.all()] == [500] * 10


def test_what_was_sent_is_sent_again_under_its_id(receiver: Receiver, ma: Person):
    endpoint = make_endpoint(receiver.url)
    delivery = send_test(endpoint=endpoint)
    send_due(clock=later())
    assert send_again(endpoint=endpoint, delivery=delivery, actor=ma) == 1
    send_due(clock=later())
    assert receiver.ids == [delivery.message_id] * 2
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.tries) == ("accepted", 2, 1)
    assert receiver.messages[0].body == receiver.messages[1].body
    WebhookDelivery.objects.update(state="failed")
    assert send_again(endpoint=endpoint, delivery=None, actor=ma) == 1
    assert send_again(endpoint=endpoint, delivery=None, actor=ma) == 0
    verb = AnnotationVerb.SEND_WEBHOOKS_AGAIN
    assert AuditEvent.objects.filter(verb=verb, target=f"webhook:{endpoint.pk}").count() == 2


def test_a_busy_receiver_says_how_long_to_wait(receiver: Receiver):
    receiver.status, receiver.answer_headers = 429, {"Retry-After": "1200"}
    delivery = send_test(endpoint=make_endpoint(receiver.url))
    clock = later()
    send_due(clock=clock)
    delivery.refresh_from_db()
    assert delivery.next_attempt_at == clock.now + timedelta(minutes=20)


def test_after_five_days_of_failures_it_is_turned_off_and_its_managers_are_told(
    receiver: Receiver, ma: Person
):
    receiver.status = 503
    endpoint = make_endpoint(receiver.url, actor=ma)
    clock = later()
    for _day in range(FAILING_DAYS + 1):
        delivery = send_test(endpoint=endpoint)
        WebhookDelivery.objects.filter(pk=delivery.pk).update(next_attempt_at=clock.now)
        send_due(clock=clock)
        endpoint.refresh_from_db()
        if not endpoint.is_active:
            break
        clock.move(days=1)
    assert endpoint.turned_off == WebhookEndpoint.TurnedOff.FAILING
    event = AuditEvent.objects.get(verb=AnnotationVerb.WEBHOOK_GIVEN_UP)
    assert (event.actor, event.study_id, event.target) == (
        None,
        endpoint.study_id,
        f"webhook:{endpoint.pk}",
    )
    number = len(receiver.messages)
    clock.move(days=1)
    assert send_due(clock=clock) == {"accepted": 0, "failed": 0}
    assert len(receiver.messages) == number
    with pytest.raises(Conflict):
        send_test(endpoint=endpoint)
    assert [(line.code, line.n) for line in list_pending_work(ma)] == [("webhook", endpoint.pk)]
    assert check_webhooks().state.value == "warning"
    # Turned on, what waits is sent.
    receiver.status = 200
    endpoint = set_active(endpoint=endpoint, active=True, actor=ma)
    assert list_pending_work(ma) == []
    clock.move(days=5)
    waiting = WebhookDelivery.objects.filter(state="waiting").count()
    assert waiting
    assert send_due(clock=clock) == {"accepted": waiting, "failed": 0}


def test_left_off_the_notice_is_gone(ma: Person):
    endpoint = make_endpoint("https://receiver.example/", actor=ma)
    WebhookEndpoint.objects.update(turned_off=WebhookEndpoint.TurnedOff.FAILING)
    assert len(list_pending_work(ma)) == 1
    set_active(endpoint=endpoint, active=False, actor=ma)
    assert list_pending_work(ma) == []


def test_a_receiver_that_is_gone_is_turned_off_at_once(receiver: Receiver):
    receiver.status = 410
    endpoint = make_endpoint(receiver.url)
    send_test(endpoint=endpoint)
    send_due(clock=later())
    endpoint.refresh_from_db()
    assert endpoint.turned_off == WebhookEndpoint.TurnedOff.GONE


def test_a_dead_receiver_does_not_hold_up_another(receiver: Receiver):
    dead = Receiver()
    failing, well = make_endpoint(dead.url), make_endpoint(receiver.url)
    for _number in range(30):
        send_test(endpoint=failing)
        send_test(endpoint=well)
    assert send_due(clock=later()) == {"accepted": 30, "failed": 4}
    assert len(receiver.messages) == 30


def test_an_inner_address_is_never_asked(receiver: Receiver, settings: LazySettings):
    """Neither when it is typed nor when it was allowed before, nor by a name that means this machine."""
    endpoint = make_endpoint(receiver.url)
    named = make_endpoint(f"http://localhost:{receiver.port}/")
    settings.WEBHOOK_NETWORKS = ()
    with pytest.raises(AssayError):
        make_endpoint(receiver.url)
    for each_endpoint in (endpoint, named):
        send_test(endpoint=each_endpoint)
    assert send_due(clock=later()) == {"accepted": 0, "failed": 2}
    assert receiver.messages == []
    assert set(WebhookAttempt.objects.values_list("trouble", "detail")) == {("address", "")}


# Blindness.


def test_what_is_sealed_for_who_set_it_up_waits_until_the_batch_closes(batch: Batch, receiver: Receiver):
    """When a task settles tells whether two agreed: not to one of the two, by a program of their own."""
    lin = person("lin")
    add_role(lin, "manager")
    endpoint = make_endpoint(receiver.url, actor=lin)
    settle_two(batch)
    clock = later()
    assert send_due(clock=clock) == {"accepted": 0, "failed": 0}
    assert queue_sending() is None
    with run_receiver() as other:
        make_endpoint(other.url, actor=person("ma"), events=["task.settled"])
        label_next(batch, lin, 1)
        label_next(batch, person("chen"), 1)
        clock.move(seconds=1)
        assert send_due(clock=clock) == {"accepted": 1, "failed": 0}
    set_state(batch=batch, state=Batch.State.CLOSED, actor=person("ma"))
    clock.move(seconds=1)
    assert send_due(clock=clock) == {"accepted": 4, "failed": 0}
    assert Counter(message.content["type"] for message in receiver.messages) == {
        "task.settled": 3,
        "batch.closed": 1,
    }
    assert endpoint.deliveries.filter(state="accepted").count() == 4


def test_who_takes_the_address_over_is_held_to_the_same(batch: Batch, receiver: Receiver):
    endpoint = make_endpoint("http://127.0.0.1:9/", actor=person("ma"))
    lin = person("lin")
    add_role(lin, "manager")
    change_endpoint(endpoint=endpoint, url=receiver.url, events=EVERYTHING, base_url=BASE, actor=lin)
    settle_two(batch)
    assert send_due(clock=later()) == {"accepted": 0, "failed": 0}


# The job, and processes that die.


def test_a_job_of_the_housekeeping_sends_and_leaves_one_trace(receiver: Receiver):
    assert queue_sending() is None
    endpoint = make_endpoint(receiver.url)
    for _number in range(2):
        send_test(endpoint=endpoint)
        job = queue_sending()
        assert job is not None
        assert job.study is None
        assert queue_sending() is None  # one is enough
        assert jobs.run(job.pk).state == Job.State.DONE
        job.refresh_from_db()
        assert job.result == {"accepted": 1, "failed": 0}
    assert len(receiver.messages) == 2
    assert Job.objects.filter(kind=sending.JOB_KIND).count() == 1
    assert django_settings.JOB_QUEUES[sending.JOB_KIND] == django_settings.HOUSEKEEPING_QUEUE
    scheduled = {entry["task"] for entry in django_settings.CELERY_BEAT_SCHEDULE.values()}
    assert "annotation.queue_webhooks" in scheduled


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_two_workers_never_send_the_same_attempt(receiver: Receiver):
    endpoint = make_endpoint(receiver.url)
    deliveries = [send_test(endpoint=endpoint) for _number in range(40)]
    clock, start = later(), Barrier(2)

    def work(_worker: int) -> dict[str, int]:
        try:
            start.wait(timeout=60)
            return send_due(clock=clock, seconds=60)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(work, range(2)))
    assert sum(count["accepted"] for count in counts) == 40
    assert Counter(receiver.ids) == dict.fromkeys((row.message_id for row in deliveries), 1)
    assert WebhookAttempt.objects.count() == 40


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_one_claim_of_many_gets_the_attempt():
    endpoint = make_endpoint("http://127.0.0.1:9/")
    send_test(endpoint=endpoint)
    clock, start = later(), Barrier(4)

    def claim(_worker: int) -> int:
        try:
            start.wait(timeout=60)
            return len(claim_due(clock.now))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(claim, range(4))) == [0, 0, 0, 1]


def test_an_answer_that_comes_after_the_lease_counts_if_it_accepts(receiver: Receiver):
    endpoint = make_endpoint(receiver.url)
    delivery = send_test(endpoint=endpoint)
    clock = later()
    (slow,) = claim_due(clock.now)
    clock.move(minutes=1)
    assert claim_due(clock.now) == []
    clock.move(minutes=2)
    (second,) = claim_due(clock.now)
    assert (slow.number, second.number) == (1, 2)
    assert slow.delivery.message_id == second.delivery.message_id
    answer = sending.WebhookAnswer
    record_answer(slow, answer(200.0, 500, sending.DeliveryTrouble.STATUS), clock.now)
    delivery.refresh_from_db()
    assert delivery.next_attempt_at == clock.now + sending.LEASE  # the second is under way
    record_answer(second, answer(0.1, 204), clock.now)
    record_answer(slow, answer(201.0, 500, sending.DeliveryTrouble.STATUS), clock.now)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.next_attempt_at) == ("accepted", None)


SEND = "import django, ipaddress; django.setup(); from annotation.services.webhooks.sending import send_due; send_due()"


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_killed_between_sending_and_writing_down_it_sends_the_same_id_again(
    receiver: Receiver, tmp_path: Any
):
    """At least once: the receiver gets the message twice, under one id, and no message is lost."""
    delivery = send_test(endpoint=make_endpoint(receiver.url))
    receiver.holds = True
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": database_url(),
        "ASSAY_DATA_DIR": str(tmp_path),
        "SECRET_KEY": django_settings.SECRET_KEY,
        "ASSAY_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "ASSAY_WEBHOOK_HTTP": "true",
    }
    with subprocess.Popen([sys.executable, "-c", SEND], cwd=ROOT, env=environment) as process:
        assert receiver.arrived.wait(60)
        process.kill()
    receiver.holds = False
    receiver.released.set()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == ("waiting", 1)
    assert send_due() == {"accepted": 0, "failed": 0}  # its lease holds
    assert send_due(clock=moved(minutes=3)) == {"accepted": 1, "failed": 0}
    assert receiver.ids == [delivery.message_id] * 2
    assert receiver.messages[0].body == receiver.messages[1].body
    first_attempt, second_attempt = delivery.attempt_rows.all()
    assert (first_attempt.seconds, second_attempt.status) == (None, 204)


# Setting up.


def test_setting_up_is_in_the_trail_without_what_an_address_may_hide(ma: Person):
    url = "https://chat.example/hooks/very-secret?token=abc"
    endpoint = make_endpoint(url, events=["run.done"], actor=ma)
    renew_secret(endpoint=endpoint, hours=24, actor=ma)
    change_endpoint(endpoint=endpoint, url=url, events=["batch.closed"], base_url=BASE, actor=ma)
    for active in (False, False, True):
        set_active(endpoint=endpoint, active=active, actor=ma)
    events = AuditEvent.objects.filter(target=f"webhook:{endpoint.pk}").order_by("pk")
    assert [event.verb for event in events] == [
        "make_webhook",
        "renew_webhook_secret",
        "change_webhook",
        "turn_off_webhook",
        "turn_on_webhook",
    ]
    assert {event.study_id for event in events} == {endpoint.study_id}
    stored = json.dumps([event.data for event in events])
    assert "chat.example" in stored
    assert "secret?" not in stored
    assert "token" not in stored


def test_the_sites_own_is_of_no_study_wherever_it_is_set_up(batch: Batch):
    with limit_to_studies([batch.study_id]):
        create_endpoint(study=None, url="https://a.example/", events=EVERYTHING, base_url=BASE, actor=None)
    assert AuditEvent.objects.get(verb="make_webhook").study is None


def test_the_database_holds_no_secret():
    _endpoint, secret = create_endpoint(
        study=find_or_make_study(), url="https://a.example/", events=EVERYTHING, base_url=BASE, actor=None
    )
    row = WebhookEndpoint.objects.values().get()
    stored = json.dumps({name: str(value) for name, value in row.items()})
    assert secret not in stored
    assert secret.removeprefix("whsec_") not in stored
    assert read_secret(secret).hex() not in stored


@pytest.mark.parametrize("events", [[], ["no.such"], ["webhook.test"]])
def test_a_webhook_tells_of_something_that_there_is(events: list[str]):
    with pytest.raises(AssayError):
        make_endpoint("https://a.example/", events=events)


def test_there_are_no_more_than_twenty():
    for number in range(20):
        make_endpoint(f"https://a{number}.example/")
    with pytest.raises(Conflict):
        make_endpoint("https://b.example/")


def test_the_clean_up_takes_what_ended_long_ago(receiver: Receiver, settings: LazySettings):
    endpoint = make_endpoint(receiver.url)
    old, recent, waiting = (send_test(endpoint=endpoint) for _number in range(3))
    long_ago = timezone.now() - timedelta(days=91)
    WebhookDelivery.objects.filter(pk=old.pk).update(state="accepted", ended_at=long_ago)
    WebhookDelivery.objects.filter(pk=recent.pk).update(state="failed", ended_at=timezone.now())
    WebhookDelivery.objects.filter(pk=waiting.pk).update(occurred_at=long_ago)
    WebhookAttempt.objects.create(delivery=old, number=1, at=long_ago)
    clean_webhook_messages(True)
    assert set(WebhookDelivery.objects.values_list("pk", flat=True)) == {recent.pk, waiting.pk}
    settings.WEBHOOK_DAYS = 0
    WebhookDelivery.objects.update(ended_at=long_ago)
    clean_webhook_messages(True)
    assert WebhookDelivery.objects.count() == 2


def test_a_copy_of_a_site_that_holds_its_jobs_sends_nothing(receiver: Receiver):
    endpoint = make_endpoint(receiver.url)
    send_test(endpoint=endpoint)
    assert hold_endpoints(WebhookEndpoint) == 1
    assert hold_endpoints(WebhookEndpoint) == 0
    assert send_due(clock=later()) == {"accepted": 0, "failed": 0}
    assert WebhookDelivery.objects.get().state == "waiting"


def test_after_a_job_that_failed_none_is_made_for_a_minute(receiver: Receiver):
    send_test(endpoint=make_endpoint(receiver.url))
    job = queue_sending()
    assert job is not None
    Job.objects.filter(pk=job.pk).update(state=Job.State.FAILED, finished_at=timezone.now())
    assert queue_sending() is None
    Job.objects.filter(pk=job.pk).update(finished_at=timezone.now() - timedelta(minutes=2))
    assert queue_sending() is not None


def test_a_mistake_with_one_receiver_is_a_failure_of_that_one_alone(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    post = sending.post_message

    async def fail_for_one(url: str, *rest: Any) -> sending.WebhookAnswer:
        if "broken" in url:
            raise RuntimeError("something nobody thought of")
        return await post(url, *rest)

    monkeypatch.setattr(sending, "post_message", fail_for_one)
    for url in (receiver.url, "https://broken.example/"):
        send_test(endpoint=make_endpoint(url))
    assert send_due(clock=later()) == {"accepted": 1, "failed": 1}
    broken = WebhookAttempt.objects.get(delivery__endpoint__url="https://broken.example/")
    assert (broken.trouble, broken.detail) == ("connection", "RuntimeError")


def test_the_types_that_can_be_asked_for_are_the_six():
    assert EVERYTHING == [
        "task.settled",
        "batch.closed",
        "agreement.alarm",
        "release.cut",
        "scorer.promoted",
        "run.done",
    ]
    assert WebhookEvent.TEST.value not in EVERYTHING
