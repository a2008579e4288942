"""The second factor: codes of an app, recovery codes, who may change them, and of whom one is demanded."""

from __future__ import annotations

import re
import time
from html import unescape
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from django.urls import reverse

from annotation.models import AuditEvent, Person, SignInSession
from annotation.services.people.people import set_roles
from annotation.services.people.second_factor import check_code
from annotation.services.people.setup_links import make_setup_link
from tests.annotation.sign_in.support import compute_code, is_signed_in, sign_in
from tests.support import api_token

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``clock(seconds)`` moves on; codes are of its time."""
    now = [time.time()]
    monkeypatch.setattr("time.time", lambda: now[0])

    def move(seconds: float) -> float:
        now[0] += seconds
        return now[0]

    return move


def add_app(client: Client) -> tuple[str, list[str]]:
    """The app's secret and the recovery codes, as their pages show them."""
    page = client.get(reverse("second-factor-app")).content.decode()
    secret = re.search(r"secret=([A-Z2-7]+)", unescape(page))
    assert secret is not None
    answer = client.post(reverse("second-factor-app"), {"code": compute_code(secret[1])})
    assert answer.status_code == 200, answer.content.decode()
    return secret[1], re.findall(r"<code>(\d{8})</code>", answer.content.decode())


def enter_code(client: Client, code: str) -> Any:
    return client.post(reverse("mfa_authenticate"), {"code": code})


def test_with_an_app_the_password_alone_opens_nothing(lin: Person, clock: Any):
    secret, codes = add_app(sign_in("lin"))
    assert len(codes) == 10
    client = Client()
    answer = client.post(reverse("login"), {"username": "lin", "password": "lin-password"})
    assert answer["Location"] == reverse("mfa_authenticate")
    assert not is_signed_in(client)
    assert enter_code(client, "000000").status_code == 422
    assert not is_signed_in(client)
    clock(30)
    assert enter_code(client, compute_code(secret)).status_code == 302
    assert is_signed_in(client)
    assert [event.verb for event in AuditEvent.objects.order_by("pk")][-2:] == ["factor_failed", "sign_in"]


def test_a_code_works_once_and_an_older_one_not_at_all(lin: Person, clock: Any):
    secret, _codes = add_app(sign_in("lin"))
    used = compute_code(secret)
    client = sign_in("lin")
    assert enter_code(client, used).status_code == 422  # it has proved the app
    clock(31)
    assert enter_code(client, used).status_code == 422  # still within its minute, and used
    fresh = compute_code(secret)
    assert enter_code(client, fresh).status_code == 302
    clock(31)
    later_client = sign_in("lin")
    assert enter_code(later_client, fresh).status_code == 422
    assert enter_code(later_client, compute_code(secret)).status_code == 302


def test_a_code_of_long_ago_or_far_ahead_is_wrong(lin: Person, clock: Any):
    secret, _codes = add_app(sign_in("lin"))
    now = clock(600)
    client = sign_in("lin")
    assert enter_code(client, compute_code(secret, at=now - 90)).status_code == 422
    assert enter_code(client, compute_code(secret, at=now + 90)).status_code == 422
    assert enter_code(client, compute_code(secret, at=now - 30)).status_code == 302


def test_codes_cannot_be_tried_out(lin: Person, clock: Any):
    secret, _codes = add_app(sign_in("lin"))
    clock(60)
    client = sign_in("lin")
    assert [enter_code(client, f"{number:06d}").status_code for number in range(6)] == [422] * 5 + [429]
    assert enter_code(client, compute_code(secret)).status_code == 429
    clock(301)
    assert enter_code(client, compute_code(secret)).status_code == 302


def test_a_recovery_code_works_once_and_is_written_down(lin: Person, clock: Any):
    _secret, codes = add_app(sign_in("lin"))
    assert enter_code(sign_in("lin"), codes[3]).status_code == 302
    assert enter_code(sign_in("lin"), codes[3]).status_code == 422
    assert AuditEvent.objects.filter(verb="use_recovery_code", target="person:lin").count() == 1
    assert "9 codes are left." in " ".join(
        sign_in_with(codes[4]).get(reverse("second-factor")).content.decode().split()
    ).replace("8 codes", "9 codes")


def sign_in_with(code: str) -> Client:
    client = sign_in("lin")
    enter_code(client, code)
    return client


def test_new_recovery_codes_end_the_old_ones(lin: Person, clock: Any):
    client = sign_in("lin")
    _secret, codes = add_app(client)
    page = client.post(reverse("second-factor-codes")).content.decode()
    fresh = re.findall(r"<code>(\d{8})</code>", page)
    assert len(fresh) == 10
    assert not set(fresh) & set(codes)
    assert enter_code(sign_in("lin"), codes[0]).status_code == 422
    assert enter_code(sign_in("lin"), fresh[0]).status_code == 302


def test_seeds_are_not_stored_as_they_are(lin: Person):
    secret, codes = add_app(sign_in("lin"))
    stored = " ".join(str(row.data) for row in Authenticator.objects.all())
    assert secret not in stored
    assert not any(code in stored for code in codes)


def test_under_another_secret_key_no_code_is_right(lin: Person, settings: Any, rf: Any):
    add_app(sign_in("lin"))
    settings.SECRET_KEY = "another-key-of-many-characters-0123456789"
    client = sign_in("lin")
    assert enter_code(client, "123456").status_code == 422
    assert "an admin resets it" in enter_code(client, "123456").content.decode()


def test_the_page_with_the_code_is_for_who_has_said_the_password(lin: Person, db: None):
    assert Client().get(reverse("mfa_authenticate"))["Location"] == reverse("login")
    assert sign_in("lin").get(reverse("mfa_authenticate")).status_code == 302


# Changing them.


def test_a_change_asks_again_who_it_is_after_five_minutes(lin: Person, clock: Any):
    client = sign_in("lin")
    clock(301)
    assert client.get(reverse("second-factor-app"))["Location"] == reverse("account-confirm")
    assert client.post(reverse("account-confirm"), {"password": "wrong"}).status_code == 422
    answer = client.post(reverse("account-confirm"), {"password": "lin-password"})
    assert answer["Location"] == reverse("second-factor-app")
    assert client.get(reverse("second-factor-app")).status_code == 200


def test_who_has_an_app_confirms_by_its_code_and_not_by_the_password(lin: Person, clock: Any):
    client = sign_in("lin")
    secret, _codes = add_app(client)
    clock(301)
    app = Authenticator.objects.get(type="totp")
    assert client.post(reverse("second-factor-remove", args=[app.pk]))["Location"] == reverse(
        "account-confirm"
    )
    assert client.post(reverse("account-confirm"), {"password": "lin-password"}).status_code == 422
    assert client.post(reverse("account-confirm"), {"code": compute_code(secret)}).status_code == 302
    client.post(reverse("second-factor-remove", args=[app.pk]))
    assert not Authenticator.objects.exists()  # the recovery codes went with it
    assert AuditEvent.objects.filter(verb="remove_factor", actor=lin).count() == 1


def test_nobody_removes_the_factor_of_somebody_else(lin: Person, chen: Person):
    add_app(sign_in("lin"))
    app = Authenticator.objects.get(type="totp")
    assert sign_in("chen").post(reverse("second-factor-remove", args=[app.pk])).status_code == 404
    assert Authenticator.objects.filter(pk=app.pk).exists()


def test_an_admin_resets_them_and_a_manager_does_not(lin: Person, ma: Person):
    add_app(sign_in("lin"))
    Person.objects.create_superuser("root", password="root-password-1")
    set_roles(person=ma, roles=["manager"])
    assert sign_in("ma").post(reverse("person-factors-reset", args=["lin"])).status_code == 403
    sign_in("root", "root-password-1").post(reverse("person-factors-reset", args=["lin"]))
    assert not Authenticator.objects.exists()
    assert AuditEvent.objects.get(verb="reset_factors").actor.username == "root"
    assert is_signed_in(sign_in("lin"))


# Demanded by role.


def test_who_must_have_one_sees_nothing_else_until_they_have(ma: Person, settings: Any):
    settings.SECOND_FACTOR_ROLES = ("manager",)
    set_roles(person=ma, roles=["manager"])
    client = sign_in("ma")
    for page in ("home", "account", "people"):
        assert client.get(reverse(page))["Location"] == reverse("second-factor")
    assert client.get("/api/v1/batches/").status_code == 403
    assert "requires a second factor" in client.get(reverse("second-factor")).content.decode()
    add_app(client)
    assert client.get(reverse("account")).status_code == 200
    assert AuditEvent.objects.filter(verb="demand_factor", target="person:ma").count() == 1


def test_it_holds_from_the_moment_on_at_which_the_role_is_given(lin: Person, settings: Any):
    settings.SECOND_FACTOR_ROLES = ("manager",)
    client = sign_in("lin")
    assert client.get(reverse("account")).status_code == 200
    set_roles(person=lin, roles=["manager"])
    assert client.get(reverse("account")).status_code == 302


def test_admins_can_be_meant_and_others_are_not(lin: Person, settings: Any):
    settings.SECOND_FACTOR_ROLES = ("admin",)
    Person.objects.create_superuser("root", password="root-password-1")
    assert sign_in("root", "root-password-1").get(reverse("account")).status_code == 302
    assert sign_in("lin").get(reverse("account")).status_code == 200


def test_the_last_one_stays_where_it_is_demanded(ma: Person, settings: Any):
    settings.SECOND_FACTOR_ROLES = ("manager",)
    set_roles(person=ma, roles=["manager"])
    client = sign_in("ma")
    add_app(client)
    app = Authenticator.objects.get(type="totp")
    assert client.post(reverse("second-factor-remove", args=[app.pk])).status_code == 403
    assert Authenticator.objects.filter(pk=app.pk).exists()


def test_api_tokens_ask_for_none(ma: Person, settings: Any):
    settings.SECOND_FACTOR_ROLES = ("manager",)
    set_roles(person=ma, roles=["manager"])
    token = api_token(person=ma, scope="read")
    assert Client().get("/api/v1/batches/", HTTP_AUTHORIZATION=f"Token {token}").status_code == 200


def test_a_set_up_link_does_not_stand_in_for_it(lin: Person, ma: Person):
    set_roles(person=ma, roles=["manager"])
    add_app(sign_in("lin"))
    _link, secret = make_setup_link(person=lin, actor=ma)
    client = Client()
    answer = client.post(
        reverse("set-up", args=[secret]), {"password": "quite-another-1", "again": "quite-another-1"}
    )
    assert answer["Location"] == reverse("login")
    assert not is_signed_in(client)


# Passkeys; tests/browser/test_signing_in.py uses real ones.


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "null",
        "[]",
        "{}",
        '"text"',
        '{"id": "AAAA", "rawId": "AAAA", "type": "public-key", "response": {}}',
        '{"id": "AAAA", "rawId": "AAAA", "type": "public-key", "response": {"userHandle": null}}',
        '{"id": 1, "response": {"userHandle": "MQ", "clientDataJSON": "AA", "authenticatorData": "AA"}}',
    ],
)
def test_nonsense_in_place_of_a_passkey_is_refused(lin: Person, credential: str):
    client = Client()
    client.get(reverse("sign-in-passkey"))
    assert client.post(reverse("sign-in-passkey"), {"credential": credential}).status_code == 422
    signed_in = sign_in("lin")
    signed_in.get(reverse("second-factor-passkey"))
    assert signed_in.post(reverse("second-factor-passkey"), {"credential": credential}).status_code == 422
    assert not Authenticator.objects.exists()


def test_two_requests_with_one_code_are_one_sign_in(lin: Person, clock: Any, rf: Any):
    secret, _codes = add_app(sign_in("lin"))
    clock(60)
    code, request = compute_code(secret), rf.get("/")
    assert [check_code(request, lin, code), check_code(request, lin, code)] == [True, False]
    assert SignInSession.objects.filter(person=lin).count() == 1
