"""The pages of webhooks: who opens which, what is endpoint_page once, and in both languages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from django.urls import reverse

from annotation.core.study_scope import limit_to_studies
from annotation.models import (
    AuditEvent,
    Batch,
    Person,
    Study,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
)
from annotation.services.people.people import add_person
from annotation.services.studies import create_study, find_or_make_study
from annotation.services.webhooks.endpoints import create_endpoint, send_test
from annotation.services.webhooks.sending import send_due
from tests.annotation.services.test_webhooks import settle_two
from tests.annotation.webhook_receiver import MovedClock, run_receiver
from tests.support import add_role

pytestmark = pytest.mark.django_db
SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{43}=")
FORM = {
    "url": "https://receiver.example/hook?token=abc",
    "events": ["task.settled", "run.done"],
    "note": "chat",
}


@pytest.fixture(autouse=True)
def _loopback_allowed(settings: LazySettings) -> None:
    settings.WEBHOOK_NETWORKS, settings.WEBHOOK_HTTP = (ip_network("127.0.0.0/8"),), True


def sign_in(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def make_endpoint(
    actor: Person | None = None, *, study: Study | None = None, url: str = FORM["url"], **options: Any
) -> WebhookEndpoint:
    endpoint, _secret = create_endpoint(
        study=study or find_or_make_study(),
        url=url,
        events=options.get("events", ["task.settled", "batch.closed"]),
        base_url="https://assay.example",
        actor=actor,
    )
    return endpoint


def list_pages(endpoint: WebhookEndpoint, delivery: WebhookDelivery) -> Sequence[str]:
    return [
        reverse("webhooks"),
        reverse("webhook", args=[endpoint.pk]),
        reverse("webhook-message", args=[endpoint.pk, delivery.pk]),
    ]


def test_a_manager_sets_one_up_and_reads_its_secret_once(ma: Person):
    client = sign_in(ma)
    made = client.post(reverse("webhooks"), FORM)
    page = made.content.decode()
    assert made.status_code == 200
    assert len(set(SECRET.findall(page))) == 1
    endpoint = WebhookEndpoint.objects.get()
    assert (endpoint.url, endpoint.note, endpoint.owner) == (FORM["url"], "chat", ma)
    assert [event.value for event in endpoint.subscribed_events] == FORM["events"]
    assert endpoint.base_url == "http://testserver"
    for address in (reverse("webhooks"), reverse("webhook", args=[endpoint.pk])):
        page = client.get(address).content.decode()
        assert "receiver.example" in page
        assert not SECRET.search(page)
    assert "no-store" in made.headers["Cache-Control"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"url": "http://10.0.0.1/"}, "network"),
        ({"url": "https://[::1]/"}, "network"),
        ({"url": "ftp://receiver.example/"}, "https://HOST/PATH"),
        ({"url": ""}, "required"),
        ({"events": []}, "required"),
        ({"events": ["webhook.test"]}, "webhook.test"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(ma: Person, changes: dict[str, Any], words: str):
    answer = sign_in(ma).post(reverse("webhooks"), FORM | changes)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not WebhookEndpoint.objects.exists()


def test_the_secret_is_renewed_and_read_once(ma: Person):
    endpoint, client = make_endpoint(ma), sign_in(ma)
    page = client.post(reverse("webhook-secret", args=[endpoint.pk]), {"hours": "168"})
    assert page.status_code == 200
    assert len(set(SECRET.findall(page.content.decode()))) == 1
    assert not SECRET.search(client.get(reverse("webhook", args=[endpoint.pk])).content.decode())
    salt = WebhookEndpoint.objects.get().salt
    assert salt != endpoint.salt
    assert client.post(reverse("webhook-secret", args=[endpoint.pk]), {"hours": "1"}).status_code == 422
    assert WebhookEndpoint.objects.get().salt == salt


def test_it_is_changed_tested_turned_off_and_on(ma: Person):
    client = sign_in(ma)
    with run_receiver() as receiver:
        endpoint = make_endpoint(ma)
        address = reverse("webhook", args=[endpoint.pk])
        assert client.post(address, FORM | {"url": receiver.url}).status_code == 302
        sent = client.post(reverse("webhook-test", args=[endpoint.pk]), follow=True)
        assert "A test is on its way" in sent.content.decode()
        assert send_due(clock=MovedClock()) == {"accepted": 1, "failed": 0}
        delivery = WebhookDelivery.objects.get()
        page = client.get(reverse("webhook-message", args=[endpoint.pk, delivery.pk])).content.decode()
        assert delivery.message_id in page
        assert "webhook.test" in page
        assert "accepted (204)" in page
        answer = client.post(
            reverse("webhook-again", args=[endpoint.pk]), {"message": delivery.pk}, follow=True
        )
        assert "1 message is sent again" in answer.content.decode()
        client.post(reverse("webhook-active", args=[endpoint.pk]), {})
        assert send_due(clock=MovedClock()) == {"accepted": 0, "failed": 0}
        assert client.post(reverse("webhook-test", args=[endpoint.pk])).status_code == 409
        client.post(reverse("webhook-active", args=[endpoint.pk]), {"active": "1"})
        assert send_due(clock=MovedClock()) == {"accepted": 1, "failed": 0}
        assert receiver.ids == [delivery.message_id] * 2


def test_the_history_is_filtered_and_what_failed_is_sent_again(ma: Person):
    endpoint, client = make_endpoint(ma), sign_in(ma)
    for state in ("failed", "failed", "accepted"):
        delivery = send_test(endpoint=endpoint)
        WebhookDelivery.objects.filter(pk=delivery.pk).update(state=state, attempts=1, next_attempt_at=None)
        WebhookAttempt.objects.create(
            delivery=delivery, number=1, at=delivery.occurred_at, seconds=1, status=502, trouble="status"
        )
    address = reverse("webhook", args=[endpoint.pk])
    page = client.get(address).content.decode()
    assert page.count("refused (502)") == 3
    assert "Send 2 failed messages again" in page
    assert client.get(f"{address}?state=accepted").content.decode().count("refused (502)") == 1
    assert client.get(f"{address}?state=nonsense").status_code == 200
    client.post(reverse("webhook-again", args=[endpoint.pk]))
    assert WebhookDelivery.objects.filter(state="waiting").count() == 2


@pytest.mark.parametrize("role", ["lin", "wu", "he", "stranger"])
def test_nobody_but_a_manager_sees_them(role: str, request: pytest.FixtureRequest):
    person: Person = request.getfixturevalue(role)
    endpoint = make_endpoint()
    delivery = send_test(endpoint=endpoint)
    client = sign_in(person)
    for address in list_pages(endpoint, delivery):
        assert client.get(address).status_code == 403
        assert client.post(address, FORM).status_code in {403, 405}
    for name in ("secret", "active", "test", "again"):
        assert client.post(reverse(f"webhook-{name}", args=[endpoint.pk])).status_code == 403
    assert WebhookEndpoint.objects.count() == 1
    assert WebhookDelivery.objects.count() == 1


def test_of_another_study_there_is_none(ma: Person):
    at_home = make_endpoint(ma, url="https://home.example/")
    other = create_study(name="other")
    abroad = make_endpoint(study=other)
    delivery = send_test(endpoint=abroad)
    with limit_to_studies([other.pk]):
        manager = add_person(name="manager-there", roles=["manager"])
    for address in list_pages(abroad, delivery)[1:]:
        assert sign_in(ma).get(address).status_code == 404
        assert sign_in(manager).get(address).status_code == 200
    assert sign_in(ma).post(reverse("webhook-active", args=[abroad.pk])).status_code == 404
    assert "receiver.example" not in sign_in(ma).get(reverse("webhooks")).content.decode()
    mixed = reverse("webhook-message", args=[at_home.pk, delivery.pk])
    assert sign_in(ma).get(mixed).status_code == 404


def test_the_sites_own_are_an_admins(ma: Person):
    create_study(name="other")
    admin = Person.objects.create_superuser("admin")
    client = sign_in(admin)
    assert sign_in(ma).get(reverse("operations-webhooks")).status_code == 403
    assert SECRET.search(client.post(reverse("operations-webhooks"), FORM).content.decode())
    endpoint = WebhookEndpoint.objects.get()
    assert endpoint.study is None
    assert AuditEvent.objects.get(verb="make_webhook").study is None
    address = reverse("webhook", args=[endpoint.pk])
    assert client.get(address).status_code == 200
    sent = client.post(reverse("webhook-test", args=[endpoint.pk]), follow=True)
    assert sent.status_code == 200
    assert "&quot;study&quot;:null" in sent.content.decode()
    assert sign_in(ma).get(address).status_code == 404
    assert "receiver.example" not in sign_in(ma).get(reverse("webhooks")).content.decode()


def test_whoever_judges_blind_sees_no_message_of_labels(batch: Batch, ma: Person, lin: Person):
    endpoint = make_endpoint(ma)
    add_role(lin, "manager")
    settle_two(batch)
    test = send_test(endpoint=endpoint)
    delivery = WebhookDelivery.objects.filter(type="task.settled").first()
    assert delivery is not None
    address = reverse("webhook", args=[endpoint.pk])
    readable, blind = sign_in(ma).get(address).content.decode(), sign_in(lin).get(address).content.decode()
    assert (readable.count("task:"), blind.count("task:")) == (2, 0)
    assert f"webhook:{endpoint.pk}" in blind
    assert "You work in a batch that is not closed" in blind
    message = reverse("webhook-message", args=[endpoint.pk, delivery.pk])
    assert (sign_in(ma).get(message).status_code, sign_in(lin).get(message).status_code) == (200, 404)
    assert sign_in(lin).get(reverse("webhook-message", args=[endpoint.pk, test.pk])).status_code == 200
    WebhookDelivery.objects.update(state="failed")
    sign_in(lin).post(reverse("webhook-again", args=[endpoint.pk]))
    assert list(WebhookDelivery.objects.filter(state="waiting")) == [test]
    listed = sign_in(lin).get(reverse("webhooks")).content.decode()
    assert '<td class="num">2</td>' not in listed


def test_in_chinese(ma: Person):
    endpoint = make_endpoint(ma)
    delivery = send_test(endpoint=endpoint)
    WebhookEndpoint.objects.update(turned_off=WebhookEndpoint.TurnedOff.FAILING)
    client = sign_in(ma)
    client.cookies["django_language"] = "zh-hans"
    listed, endpoint_page, message = (
        client.get(address).content.decode() for address in list_pages(endpoint, delivery)
    )
    assert "新建 Webhook 回调" in listed
    assert "接收方连续五天没有接受任何消息" in endpoint_page
    assert "尚未发送" in message
    assert "发往 receiver.example 的 Webhook 回调已被关闭" in client.get("/").content.decode()
    for page in (listed, endpoint_page, message):
        assert "Events" not in page
        assert "Secret<" not in page
