"""Signing in by SAML, at an identity provider that runs here."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.urls import reverse

from annotation.models import AuditEvent, Person, SignInSession, StudyMembership
from annotation.services.people.sessions import STATE
from annotation.services.studies import create_study
from tests.annotation.sign_in.saml_support import SamlDirectory, run_saml_directory
from tests.annotation.sign_in.support import is_signed_in

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture(scope="module")
def running() -> Iterator[SamlDirectory]:
    with run_saml_directory() as directory:
        yield directory


@pytest.fixture
def directory(running: SamlDirectory, settings: Any, db: None) -> Iterator[SamlDirectory]:
    settings.SIGN_IN_PROVIDERS = (running.make_provider(),)
    create_study(name="default")
    before = dict(running.attributes)
    yield running
    running.attributes, running.changes, running.tampers = before, {}, None
    running.signs_with = (running.key, running.certificate)


def fetch_answer(client: Client) -> dict[str, str]:
    """What the provider's page has the browser send."""
    answer = client.get(reverse("saml_login", args=["campus"]))
    assert answer.status_code == 302, answer.content.decode()
    page = requests.get(answer["Location"], timeout=10).text
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))


def bring(client: Client, form: dict[str, str]) -> Any:
    """Both steps: the post from the provider's page, and the page that it leads to."""
    answer = client.post(reverse("saml_acs", args=["campus"]), form)
    assert answer.status_code == 302
    return client.get(answer["Location"])


def sign_in_by_saml(client: Client | None = None) -> tuple[Client, Any]:
    client = client or Client()
    return client, bring(client, fetch_answer(client))


def test_who_comes_first_gets_an_account_with_the_roles_of_their_groups(directory: SamlDirectory):
    client, answer = sign_in_by_saml()
    assert (answer.status_code, answer["Location"]) == (302, reverse("home"))
    assert is_signed_in(client)
    ada = Person.objects.get(username="ada")
    assert (ada.display_name, ada.has_usable_password()) == ("Ada Zhang", False)
    assert set(StudyMembership.objects.values_list("role", "given_by")) == {("manager", "campus")}
    assert SocialAccount.objects.get().uid == "https://idp.test/metadata s-2002"
    row = SignInSession.objects.get()
    assert (row.method, row.provider) == ("provider", "campus")
    assert row.ends_at is not None


def test_without_the_group_the_role_goes_at_the_next_sign_in(directory: SamlDirectory):
    sign_in_by_saml()
    directory.attributes["groups"] = []
    client, _answer = sign_in_by_saml()
    assert client.get(reverse("people")).status_code == 403
    assert not StudyMembership.objects.exists()


def test_a_session_ends_by_the_clock_because_nothing_can_be_asked(directory: SamlDirectory):
    client, _answer = sign_in_by_saml()
    session = client.session
    assert session[STATE]["ends_at"] - time.time() <= 3600
    session[STATE] = session[STATE] | {"ends_at": int(time.time()) - 1}
    session.save()
    assert not is_signed_in(client)


@pytest.mark.parametrize(
    "changes",
    [
        {"audience": "https://elsewhere.test/"},
        {"issuer": "https://another-idp.test/"},
        {"until": "2020-01-01T00:00:00Z"},
        {"since": "2199-01-01T00:00:00Z"},
        {"acs": "https://elsewhere.test/acs"},
        {"request": "ONELOGIN_of_nobody"},
        {"subject": ""},
    ],
)
def test_an_assertion_that_is_wrong_signs_nobody_in(directory: SamlDirectory, changes: dict[str, str]):
    directory.changes = changes
    client, answer = sign_in_by_saml()
    assert answer.status_code == 403
    assert not is_signed_in(client)
    assert not Person.objects.filter(username="ada").exists()


def test_another_key_or_none_signs_nobody_in(directory: SamlDirectory):
    for signs_with in ((directory.other_key, directory.other_certificate), None):
        directory.signs_with = signs_with  # type: ignore[assignment]
        client, answer = sign_in_by_saml()
        assert answer.status_code == 403
        assert not is_signed_in(client)
    assert AuditEvent.objects.filter(verb="provider_refused", target="provider:campus").count() == 2


def test_a_changed_assertion_is_refused(directory: SamlDirectory):
    directory.tampers = lambda text: text.replace("s-2002", "s-0001")
    assert sign_in_by_saml()[1].status_code == 403


def test_an_answer_works_once_and_in_its_browser_alone(directory: SamlDirectory):
    client, other = Client(), Client()
    form = fetch_answer(client)
    assert bring(other, form).status_code == 403
    assert not is_signed_in(other)
    assert bring(client, form).status_code == 302
    client.post(reverse("logout"))
    assert bring(client, form).status_code == 403
    assert not is_signed_in(client)


def test_nobody_is_signed_in_who_did_not_begin_here(directory: SamlDirectory):
    """The provider's own portal: whoever gets a browser to send an answer of theirs would sign its owner in as them."""
    form = fetch_answer(Client())
    directory.changes = {"request": ""}
    assert bring(Client(), form).status_code == 403


@pytest.mark.parametrize("answer", ["", "x", "PHg+", "PHg+PC94Pg==", "////", "é"])
def test_nonsense_is_refused(directory: SamlDirectory, answer: str):
    client = Client()
    fetch_answer(client)
    assert bring(client, {"SAMLResponse": answer}).status_code == 403
    assert bring(client, {}).status_code == 403
    assert not is_signed_in(client)


def test_the_metadata_name_the_address_of_the_answer(directory: SamlDirectory):
    answer = Client().get(reverse("saml_metadata", args=["campus"]))
    assert answer["Content-Type"] == "text/xml"
    assert "http://testserver/sign-in/saml/campus/acs/" in answer.content.decode()


def test_a_wish_to_sign_out_that_nobody_signed_ends_nothing(directory: SamlDirectory):
    client, _answer = sign_in_by_saml()
    assert client.get(reverse("saml_sls", args=["campus"]), {"SAMLRequest": "x"}).status_code == 400
    assert is_signed_in(client)


def test_only_providers_of_the_document_have_addresses(directory: SamlDirectory):
    for name in ("saml_login", "saml_acs", "saml_finish_acs", "saml_metadata", "saml_sls"):
        assert Client().get(reverse(name, args=["nowhere"])).status_code == 404
    assert Client().get(reverse("openid_connect_login", args=["campus"])).status_code == 404
    assert urlsplit(directory.address).path == "/sso"
