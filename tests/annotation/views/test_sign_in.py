"""Signing in: how often anybody may try, what every failure says, and what the audit trail keeps of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.db import connection
from django.test import Client
from django.urls import NoReverseMatch, reverse

from annotation.models import AuditEvent, Person
from annotation.selectors.people import describe_agent
from annotation.services.people.people import add_person
from annotation.services.people.sign_ins import warn_of_unnamed_proxy
from tests.conftest import ROOT
from tests.support import api_token

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

HOME, ELSEWHERE = "198.51.100.7", "203.0.113.9"
PER_ACCOUNT_AND_ADDRESS, PER_ADDRESS, PER_ACCOUNT, TOKENS = 5, 30, 50, 20


WRONG = "wrong-guess"


def try_to_sign_in(name: str, password: str = WRONG, *, address: str = HOME, **more: Any) -> Any:
    form = {"username": name, "password": password}
    return Client(REMOTE_ADDR=address).post(reverse("login"), form, **more)


def events(verb: str) -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(verb=verb).order_by("pk"))


# How often.


def test_guesses_at_one_account_end_after_five_and_the_right_one_is_not_taken_either(lin: Person):
    guesses = [try_to_sign_in("lin").status_code for _ in range(PER_ACCOUNT_AND_ADDRESS)]
    assert set(guesses) == {200}
    refused = try_to_sign_in("lin", "lin-password")
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) == 300
    assert "sessionid" not in refused.cookies
    assert "Too many attempts" in refused.content.decode()


def test_the_owner_elsewhere_and_others_here_are_not_shut_out(lin: Person, chen: Person):
    for _ in range(PER_ACCOUNT_AND_ADDRESS + 1):
        try_to_sign_in("lin")
    assert try_to_sign_in("lin", "lin-password", address=ELSEWHERE).status_code == 302
    assert try_to_sign_in("chen", "chen-password").status_code == 302


def test_writing_the_name_otherwise_gives_no_more_guesses(lin: Person):
    for name in ("lin", "Lin", "LIN", " lin ", "ｌｉｎ"):
        assert try_to_sign_in(name).status_code == 200
    assert try_to_sign_in("lIn").status_code == 429


def test_one_address_that_goes_through_many_names_is_stopped(lin: Person):
    for number in range(PER_ADDRESS):
        assert try_to_sign_in(f"person-{number}").status_code == 200
    assert try_to_sign_in("lin", "lin-password").status_code == 429
    assert try_to_sign_in("lin", "lin-password", address=ELSEWHERE).status_code == 302


def test_many_addresses_at_one_account_are_stopped_but_not_where_its_owner_is_at_home(lin: Person):
    assert try_to_sign_in("lin", "lin-password", address=HOME).status_code == 302
    for number in range(PER_ACCOUNT):
        assert try_to_sign_in("lin", address=f"192.0.2.{number}").status_code == 200
    assert try_to_sign_in("lin", "lin-password", address=ELSEWHERE).status_code == 429
    assert try_to_sign_in("lin", "lin-password", address=HOME).status_code == 302


def test_the_form_itself_can_be_sent_a_hundred_and_twenty_times_a_minute(db: None):
    assert {try_to_sign_in("", "").status_code for _ in range(120)} == {200}
    refused = try_to_sign_in("", "")
    assert (refused.status_code, refused["Retry-After"]) == (429, "60")
    assert "Many people have tried to sign in from your address" in refused.content.decode()


def test_who_signs_in_rightly_uses_nothing_up(lin: Person):
    for _ in range(2 * PER_ACCOUNT_AND_ADDRESS):
        assert try_to_sign_in("lin", "lin-password").status_code == 302


def test_after_five_minutes_it_is_over(lin: Person, monkeypatch: pytest.MonkeyPatch):
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)  # however long the tries take on a busy machine
    for _ in range(PER_ACCOUNT_AND_ADDRESS + 3):
        try_to_sign_in("lin")
    monkeypatch.setattr("time.time", lambda: now + 299)
    assert try_to_sign_in("lin", "lin-password").status_code == 429
    monkeypatch.setattr("time.time", lambda: now + 301)
    assert try_to_sign_in("lin", "lin-password").status_code == 302


@pytest.mark.django_db(transaction=True)
def test_guesses_at_the_same_moment_are_counted_each(lin: Person):
    statuses: Counter[int] = Counter()

    def guess() -> None:
        statuses[try_to_sign_in("lin").status_code] += 1
        connection.close()

    threads = [threading.Thread(target=guess) for _ in range(4 * PER_ACCOUNT_AND_ADDRESS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses[200] <= PER_ACCOUNT_AND_ADDRESS
    assert statuses[200] + statuses[429] == len(threads)


GUESS = """
import django; django.setup()
from django.conf import settings
settings.ALLOWED_HOSTS = ["testserver"]
from django.test import Client
for _ in range(5):
    answer = Client(REMOTE_ADDR="198.51.100.7").post(
        "/sign-in/", {"username": "lin", "password": "wrong-guess"}
    )
    assert answer.status_code == 200, answer.status_code
"""


def database_url() -> str:
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{database['NAME']}"
    login = database["USER"] + (f":{database['PASSWORD']}" if database["PASSWORD"] else "")
    return f"postgres://{login}@{database['HOST']}:{database['PORT']}/{database['NAME']}"


@pytest.mark.django_db(transaction=True)
def test_what_one_process_counted_another_one_knows(lin: Person, tmp_path: Any):
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "DATABASE_URL": database_url()}
    environment["ASSAY_DATA_DIR"] = str(tmp_path)
    other = subprocess.run(
        [sys.executable, "-c", GUESS], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert other.returncode == 0, other.stderr
    assert try_to_sign_in("lin", "lin-password").status_code == 429


# The admin.


def test_the_admins_own_form_takes_no_password(db: None):
    Person.objects.create_superuser("root", password="glacier-lantern-42")
    client = Client()
    answer = client.post("/admin/login/", {"username": "root", "password": "glacier-lantern-42"})
    assert (answer.status_code, answer["Location"][:15]) == (302, "/sign-in/?next=")
    assert "_auth_user_id" not in client.session
    signed_in = client.post(
        "/sign-in/?next=/admin/", {"username": "root", "password": "glacier-lantern-42", "next": "/admin/"}
    )
    assert signed_in["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200


def test_nothing_of_allauth_is_served_but_the_sign_in():
    for name in ("signup", "reset_password", "email", "change_password", "inactive", "logout"):
        with pytest.raises(NoReverseMatch):
            reverse(f"account_{name}")


def test_nobody_is_sent_to_another_site(lin: Person):
    answer = try_to_sign_in("lin", "lin-password", query_params={"next": "https://evil.example/"})
    assert answer["Location"] == "/"


# Tokens.


def call(token: str, *, address: str = HOME) -> Any:
    client = Client(REMOTE_ADDR=address, headers={"Authorization": f"Token {token}"})
    return client.get(reverse("api-batches"))


def test_tokens_that_are_none_are_refused_and_after_twenty_told_to_wait(lin: Person):
    assert {call("f" * 40).status_code for _ in range(TOKENS)} == {401}
    refused = call("e" * 40)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "throttled")
    assert int(refused["Retry-After"]) == 300
    assert call("f" * 40, address=ELSEWHERE).status_code == 401


def test_a_program_with_a_good_token_does_not_suffer_from_its_neighbour(lin: Person):
    for _ in range(TOKENS + 2):
        call("f" * 40)
    assert call(api_token(person=lin)).status_code == 200


def test_refused_tokens_are_in_the_audit_trail_without_the_token(lin: Person):
    for _ in range(TOKENS + 2):
        call("f" * 40)
    (event,) = events("token_refused")
    assert event.address == HOME
    assert "ffff" not in json.dumps(event.data)


def test_an_open_screen_is_no_place_to_guess_the_password(client: Client, lin: Person):
    client.force_login(lin)

    def change(old: str) -> str:
        form = {"old_password": old, "password": "glacier-lantern-42"}
        return str(client.post(reverse("account-password"), form, follow=True).content.decode())

    for _ in range(PER_ACCOUNT_AND_ADDRESS):
        assert "This is not your present password" in change(WRONG)
    assert "Too many attempts" in change("lin-password")
    assert client.login(username="lin", password="lin-password")


def test_who_knows_the_present_password_uses_nothing_up(client: Client, lin: Person):
    client.force_login(lin)
    present = "lin-password"
    for number in range(PER_ACCOUNT_AND_ADDRESS + 2):
        form = {"old_password": present, "password": f"glacier-lantern-{number}"}
        assert client.post(reverse("account-password"), form).status_code == 302
        present = form["password"]


def test_ipv4_addresses_at_a_socket_for_both_kinds_are_not_one(lin: Person):
    for number in range(PER_ADDRESS + 1):
        try_to_sign_in(f"person-{number}", address=f"::ffff:{ELSEWHERE}")
    assert try_to_sign_in("lin", "lin-password", address=f"::ffff:{ELSEWHERE}").status_code == 429
    assert try_to_sign_in("lin", "lin-password", address=f"::ffff:{HOME}").status_code == 302
    assert events("sign_in")[0].address == HOME


# The same answer for every failure.


class CountingHasher(MD5PasswordHasher):
    algorithm = "counting"
    hashed = 0

    def encode(self, password: str, salt: str) -> str:
        type(self).hashed += 1
        return super().encode(password, salt)


def without_what_changes(page: str) -> str:
    page = re.sub(r'("csrfmiddlewaretoken" value|X-CSRFToken)[^>]*>', "", page)
    return re.sub(r'value="[^"]*"', "", page)


@pytest.fixture
def counted(settings: Any) -> None:
    settings.PASSWORD_HASHERS = [f"{__name__}.CountingHasher"]


def test_every_failure_has_the_same_answer_and_takes_a_hash(counted: None):
    for name in ("active", "leaver"):
        add_person(name=name, password="glacier-lantern-42")
    Person.objects.filter(username="leaver").update(is_active=False)
    add_person(name="rater")
    guesses = {
        "unknown": ("nobody", "glacier-lantern-42"),
        "wrong": ("active", "wrong-guess"),
        "deactivated": ("leaver", "glacier-lantern-42"),
        "deactivated and wrong": ("leaver", "wrong-guess"),
        "no password": ("rater", "!"),
    }
    answers, hashes = {}, {}
    for case, (name, password) in guesses.items():
        before = CountingHasher.hashed
        answer = try_to_sign_in(name, password)
        hashes[case] = CountingHasher.hashed - before
        answers[case] = (answer.status_code, without_what_changes(answer.content.decode()))
    assert set(hashes.values()) == {1}, hashes
    assert len(set(answers.values())) == 1
    assert "name or the password is wrong" in answers["unknown"][1]


def test_the_refusal_to_go_on_does_not_tell_whether_the_name_exists(lin: Person):
    pages = []
    for name in ("lin", "nobody"):
        for _ in range(PER_ACCOUNT_AND_ADDRESS):
            try_to_sign_in(name)
        refused = try_to_sign_in(name)
        pages.append((refused.status_code, without_what_changes(refused.content.decode())))
    assert pages[0] == pages[1]
    assert pages[0][0] == 429


# The audit trail.


def test_signing_in_and_out_is_recorded_with_address_and_agent(lin: Person):
    client = Client(REMOTE_ADDR=HOME, headers={"User-Agent": "Firefox" * 100})
    client.post(reverse("login"), {"username": "lin", "password": "lin-password"})
    client.post(reverse("logout"))
    for verb in ("sign_in", "sign_out"):
        (event,) = events(verb)
        assert (event.actor, event.target) == (lin, "person:lin")
        assert (event.address, event.agent) == (HOME, ("Firefox" * 100)[:200])


def test_a_failure_is_recorded_at_its_person_and_blames_nobody(lin: Person):
    try_to_sign_in("lin", headers={"User-Agent": "curl/8"})
    (event,) = events("sign_in_failed")
    assert (event.actor, event.target) == (None, "person:lin")
    assert (event.address, event.agent, event.data) == (HOME, "curl/8", {})


def test_of_a_name_that_is_nobodys_little_is_kept_for_it_may_be_a_password(lin: Person):
    try_to_sign_in("my-secret-password", "lin")
    (event,) = events("sign_in_failed")
    assert (event.actor, event.target) == (None, "sign_in")
    assert event.data["name"] == "my-…"
    stored = json.dumps(list(AuditEvent.objects.values("target", "data")), default=str)
    assert "secret" not in stored


def test_no_password_is_ever_stored(lin: Person):
    for password in ("wrong-guess", "lin-password"):
        try_to_sign_in("lin", password)
    for _ in range(PER_ACCOUNT_AND_ADDRESS + 2):
        try_to_sign_in("lin")
    stored = json.dumps(list(AuditEvent.objects.values("target", "data")), default=str)
    assert "wrong-guess" not in stored
    assert "lin-password" not in stored


def test_attempts_beyond_the_limit_are_recorded_once_and_fill_nothing(lin: Person):
    for number in range(PER_ADDRESS + 40):
        try_to_sign_in(f"person-{number}")
    (event,) = events("sign_in_throttled")
    assert event.address == HOME
    assert len(events("sign_in_failed")) == PER_ADDRESS


# The address.


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, None, "10.0.0.1"),
        (0, "203.0.113.9", "10.0.0.1"),
        (1, None, "10.0.0.1"),
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "1.2.3.4, 203.0.113.9", "203.0.113.9"),
        (2, "1.2.3.4, 203.0.113.9, 10.0.0.2", "203.0.113.9"),
        (2, "203.0.113.9", "203.0.113.9"),
        (1, "203.0.113.9:4711", "203.0.113.9"),
        (1, "[2001:db8::5]:4711", "2001:db8::5"),
        (1, "2001:DB8::5", "2001:db8::5"),
        (1, "not an address", "10.0.0.1"),
        (1, "", "10.0.0.1"),
    ],
)
def test_the_address_is_the_one_that_the_trusted_proxies_saw(
    lin: Person, settings: Any, proxies: int, forwarded: str | None, address: str
):
    settings.TRUSTED_PROXIES = proxies
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    answer = try_to_sign_in("lin", "lin-password", address="10.0.0.1", headers=headers)
    assert answer.status_code == 302
    assert events("sign_in")[0].address == address


def test_inventing_addresses_gives_no_more_guesses(lin: Person, settings: Any):
    settings.TRUSTED_PROXIES = 1
    for number in range(PER_ACCOUNT_AND_ADDRESS):
        try_to_sign_in("lin", headers={"X-Forwarded-For": f"192.0.2.{number}, {ELSEWHERE}"})
    refused = try_to_sign_in("lin", headers={"X-Forwarded-For": f"192.0.2.99, {ELSEWHERE}"})
    assert refused.status_code == 429


def test_a_proxy_that_nobody_named_is_told_of_in_the_log(lin: Person, caplog: pytest.LogCaptureFixture):
    warn_of_unnamed_proxy.cache_clear()
    for _ in range(2):
        try_to_sign_in("lin", headers={"X-Forwarded-For": ELSEWHERE})
    assert caplog.text.count("ASSAY_TRUSTED_PROXIES") == 1


# Where it is read.


def test_everybody_sees_their_own_last_sign_ins_and_managers_those_of_a_person(
    client: Client, lin: Person, chen: Person, ma: Person
):
    try_to_sign_in("lin", "lin-password", headers={"User-Agent": "Mozilla/5.0 (X11; Linux) Firefox/140.0"})
    try_to_sign_in("lin", address=ELSEWHERE)
    for reader, address in ((lin, reverse("account")), (ma, reverse("person", args=["lin"]))):
        client.force_login(reader)
        page = client.get(address).content.decode()
        assert HOME in page
        assert ELSEWHERE in page
        assert "Firefox, Linux" in page
    client.force_login(chen)
    assert HOME not in client.get(reverse("account")).content.decode()


@pytest.mark.parametrize(
    ("agent", "device"),
    [
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/140.0.0.0 Safari/537.36 Edg/140.0", "Edge, Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", "Safari, iOS"),
        ("Mozilla/5.0 (Linux; Android 15) Chrome/140.0 Mobile MicroMessenger/8.0", "WeChat, Android"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Chrome/140.0.0.0 Safari/537.36", "Chrome, macOS"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("", ""),
    ],
)
def test_a_device_is_named_by_browser_and_system(agent: str, device: str):
    assert describe_agent(agent) == device
