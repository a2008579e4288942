"""What a provider, or whoever stands in for it, may not get away with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from annotation.core.health import CheckState
from annotation.domain.sign_in.providers import RoleRule
from annotation.models import Person, SignInSession
from annotation.services.people.sessions import STATE
from annotation.services.studies import create_study
from tests.annotation.sign_in.oidc_support import (
    Forger,
    come_back,
    forget_provider,
    go_to_provider,
    make_provider,
    read_query,
    run_forger,
)
from tests.annotation.sign_in.support import is_signed_in

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def forger(settings: Any, db: None) -> Iterator[Forger]:
    with run_forger() as forger:
        settings.SIGN_IN_PROVIDERS = (make_provider(forger.issuer, userinfo=False),)
        create_study(name="default")
        yield forger


def try_to_sign_in(forger: Forger, *, nonce: str | None = None) -> tuple[Client, Any]:
    client = Client()
    query = read_query(go_to_provider(client))
    forger.nonce = query["nonce"] if nonce is None else nonce
    return client, come_back(client, f"/sign-in/oidc/company/callback/?code=c&state={query['state']}")


def make_due(client: Client) -> None:
    session = client.session
    session[STATE] = session[STATE] | {"check_at": int(time.time()) - 1}
    session.save()


def test_a_token_that_is_right_signs_in(forger: Forger):
    client, answer = try_to_sign_in(forger)
    assert answer.status_code == 302
    assert is_signed_in(client)
    assert Person.objects.filter(username="mallory").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "another-client"},
        {"aud": ["assay", "another-client"]},
        {"aud": ["assay", "another-client"], "azp": "another-client"},
        {"aud": None},
        {"iss": "http://127.0.0.1:9"},
        {"iss": None},
        {"exp": int(time.time()) - 3600},
        {"exp": None},
        {"iat": int(time.time()) + 3600},
        {"nbf": int(time.time()) + 3600},
        {"nonce": "another-nonce"},
        {"nonce": None},
        {"sub": None},
        {"sub": 7},
        {"sub": ["u-7"]},
    ],
)
def test_a_claim_that_is_wrong_signs_nobody_in(forger: Forger, changes: dict[str, Any]):
    forger.changes = changes
    client, answer = try_to_sign_in(forger)
    assert answer.status_code == 403
    assert not is_signed_in(client)
    assert not Person.objects.filter(username="mallory").exists()


def test_a_nonce_of_another_sign_in_is_refused(forger: Forger):
    earlier = read_query(go_to_provider(Client()))["nonce"]
    client, answer = try_to_sign_in(forger, nonce=earlier)
    assert answer.status_code == 403
    assert not is_signed_in(client)


def test_another_key_signs_nobody_in(forger: Forger):
    forger.signing = forger.other_key
    client, answer = try_to_sign_in(forger)
    assert answer.status_code == 403
    assert not is_signed_in(client)


def test_a_key_that_is_not_published_is_refused(forger: Forger):
    forger.kid = "k2"
    assert try_to_sign_in(forger)[1].status_code == 403


def test_without_a_kid_the_only_key_counts(forger: Forger):
    forger.kid = None
    assert try_to_sign_in(forger)[1].status_code == 302


def test_no_signature_and_a_shared_secret_are_none(forger: Forger):
    forger.algorithm, forger.signing = "none", None
    assert try_to_sign_in(forger)[1].status_code == 403
    # The public key taken for a secret: whoever knows it, everybody, could sign.
    forger.algorithm, forger.signing = "HS256", "the-public-key-as-everybody-knows-it"
    assert try_to_sign_in(forger)[1].status_code == 403


def test_a_discovery_that_names_another_issuer_is_refused(forger: Forger):
    forger.claimed_issuer = "https://login.example"
    forget_provider()
    answer = Client().get(reverse("openid_connect_login", args=["company"]))
    assert answer.status_code == 503
    assert "calls itself https://login.example" in answer.content.decode()


def test_a_code_that_the_provider_refuses_signs_nobody_in(forger: Forger):
    client = Client()
    query = read_query(go_to_provider(client))
    forger.status = 400
    assert (
        come_back(client, f"/sign-in/oidc/company/callback/?code=c&state={query['state']}").status_code == 403
    )


def test_a_check_that_speaks_of_somebody_else_ends_the_session(forger: Forger):
    client, _answer = try_to_sign_in(forger)
    forger.changes = {"sub": "u-8", "groups": ["assay-admins"]}
    make_due(client)
    assert not is_signed_in(client)
    assert not Person.objects.get(username="mallory").is_superuser


def test_the_refresh_token_is_sent_and_its_groups_count(forger: Forger):
    client, _answer = try_to_sign_in(forger)
    forger.changes = {"groups": ["assay-managers"]}
    make_due(client)
    assert client.get(reverse("people")).status_code == 200
    path, form = forger.seen[-1]
    assert (path, form["grant_type"], form["refresh_token"]) == ("/token", ["refresh_token"], ["r"])
    assert "r" not in SignInSession.objects.get().sealed_token[:2]


# Back-channel logout.


def log_out(forger: Forger, token: str) -> int:
    return int(Client().post(reverse("oidc-logout", args=["company"]), {"logout_token": token}).status_code)


def test_the_providers_word_ends_the_session_at_once(forger: Forger):
    forger.changes = {"sid": "s-1"}
    client, _answer = try_to_sign_in(forger)
    assert log_out(forger, forger.make_logout_token(sid="s-2", sub=None)) == 200
    assert is_signed_in(client)
    assert log_out(forger, forger.make_logout_token(sid="s-1", sub=None)) == 200
    assert not is_signed_in(client)


def test_by_the_subject_it_ends_all_of_theirs(forger: Forger):
    first, second = try_to_sign_in(forger)[0], try_to_sign_in(forger)[0]
    assert log_out(forger, forger.make_logout_token()) == 200
    assert not is_signed_in(first)
    assert not is_signed_in(second)


@pytest.mark.parametrize(
    "changes",
    [
        {"events": {}},
        {"events": None},
        {"events": "logout"},
        {"nonce": "n"},
        {"sub": None},
        {"aud": "another-client"},
        {"iss": "http://127.0.0.1:9"},
        {"iat": int(time.time()) - 900},
        {"jti": None},
    ],
)
def test_a_word_that_is_wrong_ends_nothing(forger: Forger, changes: dict[str, Any]):
    client, _answer = try_to_sign_in(forger)
    assert log_out(forger, forger.make_logout_token(**changes)) == 400
    assert is_signed_in(client)


def test_a_word_works_once_and_an_id_token_is_none(forger: Forger):
    client, _answer = try_to_sign_in(forger)
    token = forger.make_logout_token(sub="u-9")
    assert [log_out(forger, token), log_out(forger, token)] == [200, 400]
    assert log_out(forger, forger.make_token()) == 400
    assert log_out(forger, "no-token") == 400
    forger.signing = forger.other_key
    assert log_out(forger, forger.make_logout_token()) == 400
    assert is_signed_in(client)


# The doctor.


def test_the_doctor_asks_the_provider(forger: Forger):
    from annotation.health import check_sign_in

    assert check_sign_in().state is CheckState.OK
    forger.claimed_issuer = "https://login.example"
    forget_provider()
    result = check_sign_in()
    assert result.state is CheckState.FAULT
    assert "calls itself https://login.example" in result.message_text


def test_the_doctor_names_studies_that_are_not_there(forger: Forger, settings: Any):
    from annotation.health import check_sign_in

    rule = RoleRule(group="g", study="nowhere", roles=("viewer",))
    settings.SIGN_IN_PROVIDERS = (make_provider(forger.issuer, roles=(rule,)),)
    result = check_sign_in()
    assert result.state is CheckState.WARNING
    assert "nowhere" in result.message_text
