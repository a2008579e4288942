from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import DjangoAssertNumQueries
from rest_framework.authtoken.models import Token

from annotation.errors import Conflict, Forbidden
from annotation.models import AuditEvent, Batch, Person
from annotation.services.distribution import next_assignment
from annotation.services.people import (
    activate_person,
    add_person,
    api_token,
    deactivate_person,
    renew_token,
    set_display_name,
    set_password,
    set_roles,
)
from tests.support import label_next

pytestmark = pytest.mark.django_db
GOOD = "glacier-lantern-42"


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


@pytest.fixture
def admin(db: None) -> Person:
    return Person.objects.create_superuser("root", password=GOOD)


PAGES = ("people", "person-new")
ABOUT_ONE = ("person-roles", "person-name", "person-password", "person-token", "person-active")


def test_only_managers_open_the_pages(
    client: Client, lin: Person, wu: Person, he: Person, stranger: Person, ma: Person
) -> None:
    one = reverse("person", args=["lin"])
    for person in (lin, wu, he, stranger):
        client.force_login(person)
        assert [client.get(page).status_code for page in (*map(reverse, PAGES), one)] == [403] * 3
        assert [client.post(reverse(name, args=["lin"])).status_code for name in ABOUT_ONE] == [403] * 5
    client.force_login(ma)
    assert [client.get(page).status_code for page in (*map(reverse, PAGES), one)] == [200] * 3


def test_anonymous_is_sent_to_sign_in(client: Client, lin: Person) -> None:
    for url in (*map(reverse, PAGES), reverse("person", args=["lin"]), reverse("account")):
        assert client.get(url)["location"].startswith(reverse("login"))
    for name in ABOUT_ONE:
        assert client.post(reverse(name, args=["lin"]))["location"].startswith(reverse("login"))


def test_a_manager_adds_a_person_who_can_then_sign_in(manager: Client, ma: Person) -> None:
    sent = {"name": "gao", "display_name": "高", "roles": ["annotator", "adjudicator"], "password": GOOD}
    assert manager.post(reverse("person-new"), sent)["location"] == reverse("person", args=["gao"])
    made = Person.objects.get(username="gao")
    assert set(made.groups.values_list("name", flat=True)) == {"annotator", "adjudicator"}
    assert Client().login(username="gao", password=GOOD)
    assert AuditEvent.objects.filter(verb="add_person", actor=ma, target="person:gao").count() == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "lin"}, "already a person named lin"),
        ({"name": "a b"}, "cannot be a person"),
        ({"password": "12345"}, "too short"),
        ({"roles": ["king"]}, "Select a valid choice"),
    ],
)
def test_a_person_who_cannot_be_is_refused_in_words(
    manager: Client, lin: Person, changes: dict[str, object], words: str
) -> None:
    before = Person.objects.count()
    answer = manager.post(reverse("person-new"), {"name": "gao", "roles": [], "password": GOOD} | changes)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert Person.objects.count() == before


def test_a_manager_changes_groups_and_name(manager: Client, lin: Person) -> None:
    manager.post(reverse("person-roles", args=["lin"]), {"roles": ["researcher"]})
    manager.post(reverse("person-name", args=["lin"]), {"display_name": "Lin Yi"})
    lin.refresh_from_db()
    assert list(lin.groups.values_list("name", flat=True)) == ["researcher"]
    assert str(lin) == "Lin Yi"


def test_a_manager_cannot_shut_themselves_out(manager: Client, ma: Person) -> None:
    assert manager.post(reverse("person-active", args=["ma"]), {"active": "0"}).status_code == 409
    assert manager.post(reverse("person-roles", args=["ma"]), {"roles": ["annotator"]}).status_code == 409
    ma.refresh_from_db()
    assert ma.is_active
    assert ma.groups.filter(name="manager").exists()


def test_a_new_password_ends_the_old_sessions(manager: Client, lin: Person) -> None:
    elsewhere = Client()
    elsewhere.force_login(lin)
    assert manager.post(reverse("person-password", args=["lin"]), {"password": "123"}).status_code == 422
    assert elsewhere.get(reverse("account")).status_code == 200
    assert manager.post(reverse("person-password", args=["lin"]), {"password": GOOD}).status_code == 302
    assert elsewhere.get(reverse("account")).status_code == 302
    assert Client().login(username="lin", password=GOOD)


def test_a_token_is_shown_once_and_replaced_by_the_next(manager: Client, lin: Person) -> None:
    url = reverse("person-token", args=["lin"])
    first = manager.post(url)
    token = Token.objects.get(user=lin).key
    assert token in first.content.decode()
    assert "no-store" in first["Cache-Control"]
    assert token not in manager.get(reverse("person", args=["lin"])).content.decode()
    manager.post(url)
    assert Token.objects.get(user=lin).key != token
    assert manager.post(url, {"revoke": "1"}).status_code == 302
    assert not Token.objects.filter(user=lin).exists()


@pytest.mark.both_databases
def test_shutting_out_gives_back_what_is_at_hand_and_ends_session_and_token(
    manager: Client, batch: Batch, lin: Person
) -> None:
    label_next(batch, lin, 3)
    held = next_assignment(batch=batch, person=lin)
    assert held is not None
    token = api_token(person=lin)
    elsewhere = Client()
    elsewhere.force_login(lin)
    assert manager.post(reverse("person-active", args=["lin"]), {"active": "0"}).status_code == 302
    held.refresh_from_db()
    held.task.refresh_from_db()
    assert (held.state, held.task.slots_taken) == ("released", 0)
    assert lin.assignments.filter(state="submitted").count() == 1
    assert elsewhere.get(reverse("account")).status_code == 302
    api = Client().post(
        reverse("api-schema").replace("schema/", f"batches/{batch.name}/next/"),
        headers={"Authorization": f"Token {token}"},
    )
    assert api.status_code == 401
    assert AuditEvent.objects.get(verb="deactivate").data == {"released": 1}
    assert manager.post(reverse("person-active", args=["lin"]), {"active": "1"}).status_code == 302
    assert next_assignment(batch=batch, person=Person.objects.get(pk=lin.pk)) == held


def test_shutting_out_twice_changes_nothing(lin: Person, ma: Person) -> None:
    assert deactivate_person(person=lin, actor=ma) == 0
    assert deactivate_person(person=lin, actor=ma) == 0
    assert AuditEvent.objects.filter(verb="deactivate").count() == 1
    activate_person(person=lin, actor=ma)
    activate_person(person=lin, actor=ma)
    assert AuditEvent.objects.filter(verb="activate").count() == 1


def test_a_manager_has_no_power_over_an_admin(manager: Client, ma: Person, admin: Person) -> None:
    with pytest.raises(Forbidden):
        set_password(person=admin, password=GOOD, actor=ma)
    with pytest.raises(Forbidden):
        renew_token(person=admin, actor=ma)
    with pytest.raises(Forbidden):
        deactivate_person(person=admin, actor=ma)
    with pytest.raises(Forbidden):
        set_roles(person=admin, roles=[], actor=ma)
    with pytest.raises(Forbidden):
        set_display_name(person=admin, display_name="x", actor=ma)
    sent = {"password": GOOD, "active": "0", "roles": []}
    assert [manager.post(reverse(name, args=["root"]), sent).status_code for name in ABOUT_ONE] == [403] * 5
    assert manager.get(reverse("person", args=["root"])).status_code == 200
    with pytest.raises(Conflict):
        deactivate_person(person=admin, actor=admin)


# ---------------------------------------------------------------- one's own account


def test_everybody_changes_their_own_name_and_password(client: Client, stranger: Person) -> None:
    client.force_login(stranger)
    client.post(reverse("account-name"), {"display_name": "Someone"})
    wrong = {"old_password": "not it", "password": GOOD}
    assert client.post(reverse("account-password"), wrong).status_code == 422
    right = {"old_password": "stranger-password", "password": GOOD}
    assert client.post(reverse("account-password"), right).status_code == 302
    assert client.get(reverse("account")).status_code == 200  # this session goes on
    stranger.refresh_from_db()
    assert str(stranger) == "Someone"
    assert Client().login(username="stranger", password=GOOD)


def test_everybody_makes_their_own_token(client: Client, lin: Person) -> None:
    client.force_login(lin)
    page = client.post(reverse("account-token")).content.decode()
    assert Token.objects.get(user=lin).key in page
    client.post(reverse("account-token"), {"revoke": "1"})
    assert not Token.objects.filter(user=lin).exists()


def test_the_menu_leads_to_the_account_and_names_the_groups(client: Client, wu: Person) -> None:
    client.force_login(wu)
    page = client.get(reverse("account")).content.decode()
    assert f'href="{reverse("account")}"' in page
    assert "Adjudicator" in page


def test_the_list_asks_no_query_for_each_person(
    manager: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(12):
        add_person(name=f"p{number}", roles=["annotator"])
    with django_assert_max_num_queries(9):
        manager.get(reverse("people"))
