"""Signing in by an OpenID provider that runs here: whose account it is, which roles, and until when."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.models import ApiToken, AuditEvent, Person, SignInSession, StudyMembership
from annotation.services.people.people import set_roles
from annotation.services.people.sessions import STATE
from annotation.services.people.tokens import make_token
from annotation.services.studies import create_study
from tests.annotation.sign_in.oidc_support import (
    OLD_WORDS_OF_MOCK,
    Directory,
    come_back,
    consent,
    go_to_provider,
    make_provider,
    read_message,
    read_query,
    run_directory,
    sign_in_by_provider,
)
from tests.annotation.sign_in.support import is_signed_in, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, OLD_WORDS_OF_MOCK]


@pytest.fixture(scope="module")
def running() -> Iterator[Directory]:
    with run_directory() as directory:
        yield directory


@pytest.fixture
def directory(running: Directory, settings: Any, db: None) -> Directory:
    running.put("u-1001", preferred_username="grace", name="Grace Liu", groups=["assay-managers", "staff"])
    settings.SIGN_IN_PROVIDERS = (make_provider(running.issuer),)
    create_study(name="default")
    return running


def roles_of(name: str) -> set[tuple[str, str]]:
    rows = StudyMembership.objects.filter(person__username=name)
    return set(rows.values_list("role", "given_by"))


def make_due(client: Client) -> None:
    """The provider is to be asked at the next request."""
    session = client.session
    session[STATE] = session[STATE] | {"check_at": int(time.time()) - 1}
    session.save()


# The first time.


def test_who_comes_first_gets_an_account_with_the_roles_of_their_groups(directory: Directory):
    client, answer = sign_in_by_provider("u-1001")
    assert (answer.status_code, answer["Location"]) == (302, reverse("home"))
    assert is_signed_in(client)
    grace = Person.objects.get(username="grace")
    assert (grace.display_name, grace.email, grace.has_usable_password()) == ("Grace Liu", "", False)
    assert roles_of("grace") == {("manager", "company")}
    account = SocialAccount.objects.get(user=grace)
    assert (account.provider, account.uid) == ("company", f"{directory.issuer} u-1001")
    assert set(account.extra_data) == {"username", "name", "groups", "sid", "sub"}
    verbs = list(AuditEvent.objects.order_by("pk").values_list("verb", flat=True))
    assert [verb for verb in verbs if verb != "make_study"] == [
        "add_person",
        "link_provider",
        "map_roles",
        "sign_in",
    ]


def test_the_next_time_it_is_the_same_account_under_whatever_name(directory: Directory):
    sign_in_by_provider("u-1001")
    directory.put("u-1001", preferred_username="grace.liu.married", name="Grace Wang", groups=[])
    sign_in_by_provider("u-1001")
    assert list(Person.objects.exclude(username="").values_list("username", flat=True)) == ["grace"]
    assert roles_of("grace") == set()


def test_the_request_has_a_state_a_nonce_and_a_challenge(directory: Directory):
    query = read_query(go_to_provider(Client()))
    assert query["code_challenge_method"] == "S256"
    assert len(query["nonce"]) >= 32
    assert len(query["state"]) >= 16
    assert (query["response_type"], query["client_id"]) == ("code", "assay")
    assert query["redirect_uri"] == "http://testserver/sign-in/oidc/company/callback/"


def test_who_has_an_account_of_that_name_is_not_taken_for_them(directory: Directory, lin: Person):
    directory.put("u-2", preferred_username="lin", email="lin@example.org", email_verified=False)
    client, answer = sign_in_by_provider("u-2")
    assert answer.status_code == 409
    assert "There is an account named lin already" in read_message(answer)
    assert not is_signed_in(client)
    assert not SocialAccount.objects.exists()


@pytest.mark.parametrize("is_verified", [True, False])
def test_an_address_of_mail_opens_nothing(directory: Directory, lin: Person, is_verified: bool):
    lin.email = "lin@example.org"
    lin.save()
    directory.put("u-3", preferred_username="other", email="lin@example.org", email_verified=is_verified)
    client, _answer = sign_in_by_provider("u-3")
    assert client.get(reverse("account")).context["request"].user.username == "other"
    assert not SocialAccount.objects.filter(user=lin).exists()


def test_where_the_provider_may_make_nobody_a_stranger_stays_out(directory: Directory, settings: Any):
    settings.SIGN_IN_PROVIDERS = (make_provider(directory.issuer, makes_people=False),)
    client, answer = sign_in_by_provider("u-1001")
    assert answer.status_code == 403
    assert not is_signed_in(client)
    assert not Person.objects.filter(username="grace").exists()
    assert AuditEvent.objects.get(verb="provider_refused").target == "provider:company"


def test_who_is_deactivated_stays_out(directory: Directory):
    sign_in_by_provider("u-1001")
    Person.objects.filter(username="grace").update(is_active=False)
    client, _answer = sign_in_by_provider("u-1001")
    assert not is_signed_in(client)


def test_a_wish_that_was_refused_leads_back_to_signing_in(directory: Directory):
    client = Client()
    query = read_query(go_to_provider(client))
    answer = come_back(client, f"/sign-in/oidc/company/callback/?error=access_denied&state={query['state']}")
    assert answer["Location"] == reverse("login")


def test_the_page_that_was_asked_for_comes_after_it_and_none_elsewhere(directory: Directory):
    _client, answer = sign_in_by_provider("u-1001", next="/account/")
    assert answer["Location"] == "/account/"
    _client, answer = sign_in_by_provider("u-1001", next="https://evil.example/")
    assert answer["Location"] == reverse("home")


# Fixation and replay.


def test_the_answer_to_another_browser_is_refused(directory: Directory):
    """Whoever has somebody open the address with their own code signs nobody in."""
    attacker, victim = Client(), Client()
    back = consent(go_to_provider(attacker), "u-1001")
    answer = come_back(victim, back)
    assert answer.status_code == 403
    assert not is_signed_in(victim)


def test_a_code_and_its_state_work_once(directory: Directory):
    client = Client()
    back = consent(go_to_provider(client), "u-1001")
    assert come_back(client, back).status_code == 302
    client.post(reverse("logout"))
    assert come_back(client, back).status_code == 403
    assert not is_signed_in(client)


def test_an_old_code_under_a_new_state_is_refused(directory: Directory):
    client = Client()
    first = read_query(consent(go_to_provider(client), "u-1001"))
    come_back(client, f"/sign-in/oidc/company/callback/?code={first['code']}&state={first['state']}")
    client.post(reverse("logout"))
    state = read_query(go_to_provider(client))["state"]
    answer = come_back(client, f"/sign-in/oidc/company/callback/?code={first['code']}&state={state}")
    assert answer.status_code == 403
    assert not is_signed_in(client)


def test_the_key_of_the_session_changes(directory: Directory):
    client = Client()
    go_to_provider(client)
    before = client.session.session_key
    sign_in_by_provider("u-1001", client)
    assert client.session.session_key != before


# Groups and roles.


def test_a_group_that_was_taken_away_takes_the_role_at_the_next_check(directory: Directory):
    client, _answer = sign_in_by_provider("u-1001")
    assert client.get(reverse("people")).status_code == 200
    directory.put("u-1001", preferred_username="grace", groups=["staff"])
    assert client.get(reverse("people")).status_code == 200  # within the declared interval
    make_due(client)
    assert client.get(reverse("people")).status_code == 403
    assert is_signed_in(client)
    assert roles_of("grace") == set()
    event = AuditEvent.objects.filter(verb="map_roles").first()
    assert event is not None
    assert (event.actor, event.data["roles"], event.data["provider"]) == (None, [], "company")


def test_a_new_group_gives_the_role_at_the_next_check(directory: Directory):
    directory.put("u-1001", preferred_username="grace", groups=[])
    client, _answer = sign_in_by_provider("u-1001")
    assert client.get(reverse("people")).status_code == 403
    directory.put("u-1001", preferred_username="grace", groups=["assay-managers"])
    make_due(client)
    assert client.get(reverse("people")).status_code == 200


def test_an_admins_group_makes_admins_and_unmakes_them(directory: Directory):
    directory.put("u-1001", preferred_username="grace", groups=["assay-admins"])
    client, _answer = sign_in_by_provider("u-1001")
    assert client.get(reverse("operations")).status_code == 200
    directory.put("u-1001", preferred_username="grace", groups=[])
    make_due(client)
    assert client.get(reverse("operations")).status_code == 403
    assert not Person.objects.get(username="grace").is_staff


def test_who_was_made_an_admin_by_hand_stays_one(directory: Directory):
    sign_in_by_provider("u-1001")
    Person.objects.filter(username="grace").update(is_superuser=True)
    sign_in_by_provider("u-1001")
    assert Person.objects.get(username="grace").is_superuser


def test_roles_given_by_hand_stay_unless_the_mapping_owns_them(directory: Directory, settings: Any):
    sign_in_by_provider("u-1001")
    grace = Person.objects.get(username="grace")
    set_roles(person=grace, roles=["manager", "researcher"])
    directory.put("u-1001", preferred_username="grace", groups=[])
    sign_in_by_provider("u-1001")
    assert roles_of("grace") == {("researcher", "")}
    settings.SIGN_IN_PROVIDERS = (make_provider(directory.issuer, owns_roles=True),)
    sign_in_by_provider("u-1001")
    assert roles_of("grace") == set()


def test_a_study_that_the_mapping_does_not_name_is_left_alone(directory: Directory, settings: Any):
    other = create_study(name="other")
    sign_in_by_provider("u-1001")
    grace = Person.objects.get(username="grace")
    StudyMembership.objects.create(study=other, person=grace, role="viewer")
    settings.SIGN_IN_PROVIDERS = (make_provider(directory.issuer, owns_roles=True),)
    directory.put("u-1001", preferred_username="grace", groups=[])
    sign_in_by_provider("u-1001")
    assert roles_of("grace") == {("viewer", "")}


def test_with_the_role_the_tokens_end(directory: Directory):
    client, _answer = sign_in_by_provider("u-1001")
    grace = Person.objects.get(username="grace")
    make_token(person=grace, name="t", scope="manage", days=7, actor=grace)
    directory.put("u-1001", preferred_username="grace", groups=[])
    make_due(client)
    client.get(reverse("home"))
    assert ApiToken.objects.get().ended_why == "role"


def test_odd_groups_give_nothing(directory: Directory):
    for groups in (
        {"assay-admins": True},
        7,
        None,
        [["assay-admins"]],
        [{"name": "assay-admins"}],
        "Assay-Admins",
    ):
        directory.put("u-1001", preferred_username="grace", groups=groups)
        sign_in_by_provider("u-1001")
        assert roles_of("grace") == set()
        assert not Person.objects.get(username="grace").is_superuser


# Until when.


def test_a_provider_that_refuses_ends_the_session(directory: Directory):
    client, _answer = sign_in_by_provider("u-1001")
    directory.revoke("u-1001")
    assert is_signed_in(client)
    make_due(client)
    answer = client.get(reverse("account"))
    assert answer["Location"] == f"{reverse('login')}?next={reverse('account')}"
    assert not SignInSession.objects.exists()
    assert AuditEvent.objects.get(verb="provider_ended").data["why"] == "refused"


def test_the_api_asked_from_the_browser_is_checked_like_a_page(directory: Directory):
    client, _answer = sign_in_by_provider("u-1001")
    directory.revoke("u-1001")
    make_due(client)
    assert client.get("/api/v1/batches/").status_code == 401


def test_a_provider_that_is_away_is_waited_for_a_while(directory: Directory, settings: Any, caplog: Any):
    with run_directory() as second:
        settings.SIGN_IN_PROVIDERS = (make_provider(second.issuer, outage_minutes=15),)
        client, _answer = sign_in_by_provider("u-1001")
    make_due(client)
    assert is_signed_in(client)
    assert "did not answer" in caplog.text
    SignInSession.objects.update(checked_at=timezone.now() - timedelta(minutes=16))
    make_due(client)
    assert not is_signed_in(client)
    assert AuditEvent.objects.get(verb="provider_ended").data["why"] == "unavailable"


def test_a_provider_that_left_the_document_ends_its_sessions(directory: Directory, settings: Any):
    client, _answer = sign_in_by_provider("u-1001")
    settings.SIGN_IN_PROVIDERS = ()
    make_due(client)
    assert not is_signed_in(client)


def test_a_revoked_session_of_a_provider_is_not_revived(directory: Directory):
    client, _answer = sign_in_by_provider("u-1001")
    SignInSession.objects.all().delete()
    make_due(client)
    assert not is_signed_in(client)


def test_another_issuer_under_the_same_name_is_another_account(directory: Directory, settings: Any):
    sign_in_by_provider("u-1001")
    with run_directory() as second:
        settings.SIGN_IN_PROVIDERS = (make_provider(second.issuer),)
        client, answer = sign_in_by_provider("u-1001")
        assert answer.status_code == 409
        assert not is_signed_in(client)


@pytest.mark.django_db(transaction=True)
def test_requests_at_the_same_moment_ask_once(directory: Directory, monkeypatch: pytest.MonkeyPatch):
    from annotation.services.people import oidc

    client, _answer = sign_in_by_provider("u-1001")
    make_due(client)
    calls, refresh = [], oidc.refresh

    def slow(*args: Any, **options: Any) -> Any:
        calls.append(1)
        time.sleep(0.3)
        return refresh(*args, **options)

    monkeypatch.setattr(oidc, "refresh", slow)
    statuses: list[int] = []

    def open_page() -> None:
        own = Client()
        own.cookies["sessionid"] = client.cookies["sessionid"].value
        statuses.append(own.get(reverse("account")).status_code)
        connection.close()

    threads = [threading.Thread(target=open_page) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 5
    assert len(calls) == 1


# Linking.


def link(client: Client, sub: str) -> Any:
    answer = client.post(reverse("account-provider-link", args=["company"]))
    assert answer.status_code == 200
    assert "?link=1" in answer.content.decode()
    return come_back(client, consent(go_to_provider(client, link="1"), sub))


def test_the_person_links_their_own_account(directory: Directory, lin: Person):
    client = sign_in("lin")
    answer = link(client, "u-1001")
    assert answer["Location"] == reverse("account")
    by_provider, _answer = sign_in_by_provider("u-1001")
    assert by_provider.get(reverse("account")).context["request"].user == lin
    assert roles_of("lin") == {("annotator", ""), ("manager", "company")}
    assert AuditEvent.objects.get(verb="link_provider").actor == lin


def test_an_account_that_is_linked_is_not_linked_again(directory: Directory, lin: Person, chen: Person):
    link(sign_in("lin"), "u-1001")
    assert link(sign_in("chen"), "u-1001").status_code == 409
    assert SocialAccount.objects.get().user == lin


def test_nothing_is_linked_that_its_owner_did_not_begin(directory: Directory, lin: Person):
    """An address that somebody sends: the browser would link an account at the provider that is not its owner's."""
    client = sign_in("lin")
    assert client.get(reverse("openid_connect_login", args=["company"]), {"link": "1"})[
        "Location"
    ] == reverse("account")
    assert not SocialAccount.objects.exists()


def test_separating_takes_the_roles_and_the_sessions_of_the_provider(directory: Directory, lin: Person):
    client = sign_in("lin")
    link(client, "u-1001")
    by_provider, _answer = sign_in_by_provider("u-1001")
    client.post(reverse("account-provider-unlink", args=[SocialAccount.objects.get().pk]))
    assert roles_of("lin") == {("annotator", "")}
    assert not is_signed_in(by_provider)
    assert is_signed_in(client)


def test_who_has_no_other_way_in_does_not_separate_themselves(directory: Directory):
    client, _answer = sign_in_by_provider("u-1001")
    account = SocialAccount.objects.get()
    assert client.post(reverse("account-provider-unlink", args=[account.pk])).status_code == 409


def test_an_admin_links_by_the_subject_and_a_manager_does_not(directory: Directory, lin: Person, ma: Person):
    set_roles(person=ma, roles=["manager"])
    Person.objects.create_superuser("root", password="root-password-1")
    form = {"provider": "company", "subject": "u-1001"}
    address = reverse("person-provider-link", args=["lin"])
    assert sign_in("ma").post(address, form).status_code == 403
    sign_in("root", "root-password-1").post(address, form)
    client, _answer = sign_in_by_provider("u-1001")
    assert client.get(reverse("account")).context["request"].user == lin


# The page of signing in, and local passwords.


def test_the_page_has_a_button_for_each_provider_in_the_readers_language(directory: Directory):
    page = Client().get(reverse("login"), {"next": "/account/"}).content.decode()
    assert 'href="/sign-in/oidc/company/?next=%2Faccount%2F"' in page
    assert "Sign in with the company" in page
    chinese = Client(HTTP_ACCEPT_LANGUAGE="zh-hans").get(reverse("login")).content.decode()
    assert "公司账号" in chinese


def test_local_passwords_can_be_switched_off(directory: Directory, settings: Any, lin: Person):
    before = sign_in("lin")
    settings.LOCAL_PASSWORDS = False
    assert not is_signed_in(before)
    page = Client().get(reverse("login")).content.decode()
    assert 'type="password"' not in page
    client = sign_in("lin")
    assert not is_signed_in(client)
    by_provider, _answer = sign_in_by_provider("u-1001")
    assert is_signed_in(by_provider)


def test_the_page_of_who_mistypes_is_no_oracle_of_passwords(directory: Directory, settings: Any, lin: Person):
    settings.LOCAL_PASSWORDS = False
    right = Client().post(reverse("login"), {"username": "lin", "password": "lin-password"})
    wrong = Client().post(reverse("login"), {"username": "lin", "password": "wrong-guess"})
    assert "Passwords are off on this site" in right.content.decode()
    assert "Passwords are off on this site" in wrong.content.decode()


def test_an_admin_gets_in_by_the_command_alone_and_not_for_long(directory: Directory, settings: Any):
    from django.core.management import call_command

    settings.LOCAL_PASSWORDS = False
    root = Person.objects.create_superuser("root", password="root-password-1")
    assert not is_signed_in(sign_in("root", "root-password-1"))
    call_command("allow_password", "root", "--minutes", "5")
    client = sign_in("root", "root-password-1")
    assert is_signed_in(client)
    assert 'type="password"' in Client().get(reverse("login"), {"password": ""}).content.decode()
    root.refresh_from_db()
    root.password_until = timezone.now() - timedelta(seconds=1)
    root.save()
    assert not is_signed_in(sign_in("root", "root-password-1"))
    assert AuditEvent.objects.get(verb="allow_password").target == "person:root"
