"""The pure rules of webhooks: the published signature, the schedule, and which addresses may be reached."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest

from annotation.core.errors import AssayError
from annotation.domain.audit import list_verbs
from annotation.domain.webhooks import client
from annotation.domain.webhooks.addresses import (
    AddressRefused,
    AddressRules,
    Target,
    choose_address,
    read_target,
)
from annotation.domain.webhooks.client import DeliveryTrouble, build_context, post_message, run_requests
from annotation.domain.webhooks.events import (
    BLIND_SAFE,
    EVENT_BY_VERB,
    EVENT_LABELS,
    OF_OPEN_BATCHES,
    WebhookEvent,
    join_events,
    split_events,
)
from annotation.domain.webhooks.retries import (
    DELAY_SECONDS,
    JITTER,
    is_given_up,
    parse_retry_after,
    plan_retry,
)
from annotation.domain.webhooks.signatures import (
    compute_fingerprint,
    derive_secret,
    read_secret,
    sign_message,
    write_secret,
)
from tests.annotation.webhook_receiver import run_receiver

# Of the specification's own libraries (standardwebhooks.com, "sign function works").
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
TIMESTAMP = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
OPEN = AddressRules(allows_http=True)


def test_the_signature_is_the_published_one():
    assert sign_message([read_secret(SECRET)], MESSAGE_ID, TIMESTAMP, BODY) == SIGNATURE


def test_two_secrets_make_two_signatures_of_which_each_verifies():
    secrets = [read_secret(SECRET), derive_secret("key", "salt")]
    first, second = sign_message(secrets, MESSAGE_ID, TIMESTAMP, BODY).split(" ")
    assert first == SIGNATURE
    content = f"{MESSAGE_ID}.{TIMESTAMP}.".encode() + BODY
    digest = hmac.new(secrets[1], content, hashlib.sha256).digest()
    assert b64decode(second.removeprefix("v1,")) == digest


def test_a_secret_depends_on_the_sites_key_and_its_salt():
    secret = derive_secret("a key", "salt")
    assert len(secret) == 32
    assert read_secret(write_secret(secret)) == secret
    assert write_secret(secret).startswith("whsec_")
    other_secrets = {derive_secret("another key", "salt"), derive_secret("a key", "another salt")}
    assert secret not in other_secrets
    assert compute_fingerprint(secret) not in map(compute_fingerprint, other_secrets)


def test_events_are_stored_between_commas_in_their_order():
    stored = join_events(["run.done", "task.settled"])
    assert stored == ",task.settled,run.done,"
    assert split_events(stored) == [WebhookEvent.TASK_SETTLED, WebhookEvent.RUN_DONE]
    assert join_events([]) == ""
    assert set(EVENT_LABELS) == set(WebhookEvent)


def test_each_event_of_the_trail_is_a_verb_and_what_is_shown_to_the_blind_is_what_the_trail_shows():
    verbs = {verb.value: verb for verb in list_verbs()}
    for value, event in EVENT_BY_VERB.items():
        assert verbs[value].meaning.is_blind_safe == (event in BLIND_SAFE), value
    assert not OF_OPEN_BATCHES & BLIND_SAFE


def test_the_schedule_is_that_of_the_specification_with_a_random_part():
    totals = [sum(DELAY_SECONDS[: number + 1]) for number in range(len(DELAY_SECONDS))]
    assert [str(timedelta(seconds=total)) for total in totals] == [
        *("0:00:00", "0:00:05", "0:05:05", "0:35:05", "2:35:05", "7:35:05", "17:35:05"),
        *("1 day, 7:35:05", "2 days, 3:35:05", "3 days, 3:35:05"),
    ]
    for tries in range(1, len(DELAY_SECONDS)):
        delay = timedelta(seconds=DELAY_SECONDS[tries])
        assert plan_retry(tries, 0.0) == delay
        longest = plan_retry(tries, 1.0)
        assert longest is not None
        assert longest == delay * (1 + JITTER)
    assert plan_retry(len(DELAY_SECONDS), 0.5) is None


def test_what_the_receiver_asks_for_is_waited_for_within_a_day():
    assert plan_retry(1, 0.0, 3600) == timedelta(hours=1)
    assert plan_retry(3, 0.0, 5) == timedelta(minutes=30)
    assert plan_retry(1, 0.0, 1e12) == timedelta(days=1)
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert parse_retry_after({"retry-after": "120"}, now) == 120
    assert parse_retry_after({"retry-after": "Mon, 30 Nov 2026 12:01:00 GMT"}, now) == 60
    assert parse_retry_after({"retry-after": "Mon, 30 Nov 2020 12:01:00 GMT"}, now) == 0
    for headers in ({}, {"retry-after": ""}, {"retry-after": "soon"}, {"retry-after": "-5"}):
        assert parse_retry_after(headers, now) is None


def test_an_endpoint_is_given_up_after_five_days():
    now = datetime(2026, 11, 30, tzinfo=UTC)
    assert not is_given_up(None, now)
    assert not is_given_up(now - timedelta(days=4, hours=23), now)
    assert is_given_up(now - timedelta(days=5), now)


INSIDE = [
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",  # noqa: S104 (it is refused)
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",  # where clouds tell a machine its keys
    "168.63.129.16",  # the same of another one, at a public address
    "100.100.100.200",  # the same of a third, in the networks of providers
    "100.64.0.1",
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:10.1.2.3",
    "64:ff9b::7f00:1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]
OUTSIDE = ["8.8.8.8", "93.184.216.34", "::ffff:8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001:82b::200e"]


@pytest.mark.parametrize("address", INSIDE)
def test_what_is_not_of_the_public_internet_is_refused(address: str):
    with pytest.raises(AddressRefused):
        choose_address([address], OPEN)
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(AssayError):
        read_target(f"http://{host}/", OPEN)


@pytest.mark.parametrize("address", OUTSIDE)
def test_what_is_of_the_public_internet_is_taken(address: str):
    assert choose_address([address], OPEN)


def test_a_host_that_is_also_inside_is_refused_whole():
    with pytest.raises(AddressRefused):
        choose_address(["8.8.8.8", "10.0.0.1"], OPEN)
    with pytest.raises(AddressRefused):
        choose_address([], OPEN)


def test_an_operator_allows_networks_and_no_more():
    rules = AddressRules(networks=(ip_network("10.1.0.0/16"), ip_network("fd00:1::/32")))
    assert choose_address(["10.1.2.3"], rules) == "10.1.2.3"
    assert choose_address(["::ffff:10.1.2.3"], rules)
    assert choose_address(["fd00:1::5", "8.8.8.8"], rules) == "fd00:1::5"
    for refused in ("10.2.0.1", "fd00:2::1", "127.0.0.1", "169.254.169.254"):
        with pytest.raises(AddressRefused):
            choose_address([refused], rules)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "receiver.example/hook",
        "ftp://receiver.example/",
        "file:///etc/passwd",
        "http://receiver.example/",
        "https://",
        "https:///hook",
        "https://user:word@receiver.example/",
        "https://receiver.example@127.0.0.1/",
        "https://receiver.example/#part",
        "https://receiver.example\\@127.0.0.1/",
        "https://receiver.example/a b",
        "https://receiver.example/\r\nHost: x",
        "https://rec\u00e9iver.example/",
        "https://receiver.example:0/",
        "https://receiver.example:99999/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.1/",
        "https://017700000001/",
        "https://127.0.0.1./",
        "https://[::1]/",
        "https://[::1%25eth0]/",
        "https://receiver..example/",
        "https://receiver.example/" + "x" * 500,
    ],
)
def test_what_is_no_address_of_a_receiver_is_refused(url: str):
    with pytest.raises(AssayError):
        read_target(url, AddressRules())


def test_an_address_is_kept_with_its_query_and_pinned_to_a_number():
    target = read_target("https://Receiver.Example:8443/hook?token=a%20b", AddressRules())
    assert target == Target("https", "receiver.example", 8443, "/hook?token=a%20b")
    assert target.url == "https://receiver.example:8443/hook?token=a%20b"
    assert target.netloc == "receiver.example:8443"
    assert target.pin("8.8.8.8") == "https://8.8.8.8:8443/hook?token=a%20b"
    assert target.pin("2606:4700::1") == "https://[2606:4700::1]:8443/hook?token=a%20b"
    assert read_target("https://receiver.example", AddressRules()).url == "https://receiver.example/"
    assert read_target("https://[2606:4700::1111]/x", AddressRules()).netloc == "[2606:4700::1111]"


LOOPBACK = AddressRules(networks=(ip_network("127.0.0.0/8"),), allows_http=True)


def post(url: str, rules: AddressRules = LOOPBACK) -> client.WebhookAnswer:
    return run_requests(post_message(url, {"webhook-id": "m"}, b"{}", rules, build_context()))


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch):
    """A name is resolved once for a request: what it means a moment later does not count."""
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    async def resolve(_host: str, _port: int) -> list[str]:
        return answers.pop(0)

    monkeypatch.setattr(client, "_resolve", resolve)
    with run_receiver() as receiver:
        url = f"http://rebinding.example:{receiver.port}/hook"
        assert post(url).status == 204
        assert receiver.messages[0].headers["host"] == f"rebinding.example:{receiver.port}"
        refused = post(url)
        assert (refused.trouble, refused.detail) == (DeliveryTrouble.ADDRESS, "")
        assert len(receiver.messages) == 1


def test_a_name_of_this_machine_is_refused_without_an_allowance():
    with run_receiver() as receiver:
        answer = post(f"http://localhost:{receiver.port}/", OPEN)
        assert (answer.trouble, answer.status, receiver.messages) == (DeliveryTrouble.ADDRESS, None, [])


def test_a_redirect_is_not_followed():
    with run_receiver() as other, run_receiver(status=302, answer_headers={"Location": other.url}) as first:
        answer = post(first.url)
        assert (answer.status, answer.trouble) == (302, DeliveryTrouble.REDIRECT)
        assert other.messages == []


def test_no_more_than_a_little_of_an_answer_is_read_and_nothing_of_it_is_told():
    with run_receiver(status=500, answer_body=b"secret of the inside" * 1_000_000) as receiver:
        answer = post(receiver.url)
        assert (answer.status, answer.trouble, answer.detail) == (500, DeliveryTrouble.STATUS, "")


def test_a_receiver_that_does_not_answer_is_left_in_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client, "TIMEOUT_SECONDS", 0.3)
    with run_receiver(holds=True) as receiver:
        answer = post(receiver.url)
        assert (answer.trouble, answer.status) == (DeliveryTrouble.TIMEOUT, None)
        assert answer.seconds < 5


def test_nobody_there_and_no_such_name_are_told_apart():
    with run_receiver() as receiver:
        url = receiver.url
    assert post(url).trouble == DeliveryTrouble.CONNECTION
    assert post("http://nobody.invalid/").trouble == DeliveryTrouble.NAME
    with run_receiver() as receiver:
        assert post(receiver.url.replace("http:", "https:")).trouble == DeliveryTrouble.CERTIFICATE
