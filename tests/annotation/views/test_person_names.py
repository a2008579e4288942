"""No two people have names that a reader takes for each other; names that were there before stay as they are."""

from __future__ import annotations

import threading
import unicodedata
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.errors import AssayError
from annotation.core.names import check_person_name, look_alike_key, look_alike_keys
from annotation.models import Person
from annotation.services.people.invitations import accept_invitation, invite
from annotation.services.people.people import add_person

PASSWORD = "glacier-lantern-42"
db = pytest.mark.django_db

ALIKE = [
    ("lin", "Lin"),
    ("lin", "LIN"),
    ("lin", "ｌｉｎ"),
    ("lin", "1in"),
    ("lin", "Iin"),
    ("lin", "lіn"),  # a Cyrillic i
    ("ape", "аре"),  # Cyrillic throughout
    ("anna0", "annao"),
    ("modem", "modern"),
    ("strasse", "Straße"),
    ("王伟1", "王伟l"),
    ("研", "硏"),
    ("José", "JOSE\u0301"),
]


@pytest.mark.parametrize(("name", "other"), ALIKE)
def test_names_that_look_alike_share_a_key(name: str, other: str):
    assert look_alike_keys(name) & look_alike_keys(other)


@pytest.mark.parametrize(
    ("name", "other"),
    [("lin", "lan"), ("lin", "lim"), ("jose", "josé"), ("王伟", "王维"), ("user1", "user2"), ("ian", "lan")],
)
def test_names_that_differ_do_not(name: str, other: str):
    assert not look_alike_keys(name) & look_alike_keys(other)


@given(st.text(max_size=30))
def test_a_key_is_the_same_in_every_case_and_form(name: str):
    assert look_alike_key(name.casefold()) == look_alike_key(name)
    assert look_alike_key(unicodedata.normalize("NFKD", name)) == look_alike_key(name)


@given(st.text(min_size=1, max_size=150))
def test_a_key_fits_its_column(name: str):
    assert len(look_alike_key(unicodedata.normalize("NFKC", name)[:150])) <= 600


@pytest.mark.parametrize(
    "name",
    [
        "lin",
        "王伟",
        "王伟lin",
        "lin.王伟@lab",
        "田中はなこ",
        "김철수",
        "김철수-kim",
        "Анна",
        "Ελένη",
        "José",
        "a_1",
    ],
)
def test_one_script_or_chinese_with_latin_is_taken(name: str):
    check_person_name(name)


@pytest.mark.parametrize("name", ["lіn", "pаypal", "Ελena", "王Анна", "adminΑ"])
def test_a_mixture_of_scripts_is_refused(name: str):
    with pytest.raises(AssayError, match="scripts"):
        check_person_name(name)


# Wherever a person is made.


@db
@pytest.mark.parametrize(("name", "other"), ALIKE)
def test_a_second_name_like_the_first_is_refused(name: str, other: str):
    add_person(name=name)
    with pytest.raises(AssayError):
        add_person(name=other)
    assert Person.objects.count() == 1


@db
def test_the_refusal_says_why(client: Client, ma: Person, lin: Person):
    client.force_login(ma)
    page = client.post(reverse("person-new"), {"name": "Lin"})
    assert page.status_code == 422
    assert "looks like a name that exists already" in page.content.decode()


@db
def test_by_invitation(lin: Person, ma: Person):
    _invitation, secret = invite(roles=["annotator"], days=7, actor=ma)
    form = {"name": "1in", "password": PASSWORD, "again": PASSWORD}
    page = Client().post(reverse("join", args=[secret]), form)
    assert page.status_code == 422
    assert "looks like a name that exists already" in page.content.decode()


@db
def test_by_djangos_own_command_and_admin(client: Client, lin: Person):
    with pytest.raises(CommandError, match="looks like a name"):
        call_command("createsuperuser", interactive=False, username="LIN", email="")
    client.force_login(Person.objects.create_superuser("chief"))
    form = {"username": "1in", "password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    page = client.post("/admin/annotation/person/add/", form)
    assert "looks like a name that exists already" in page.content.decode()
    assert Person.objects.count() == 2


@db
def test_the_database_itself_refuses_what_no_form_looked_at(lin: Person):
    with pytest.raises(IntegrityError):
        Person.objects.create(username="LIN")


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_of_two_who_come_at_once_with_names_alike_one_is_let_in(ma: Person):
    secrets = [invite(roles=["annotator"], days=7, actor=ma)[1] for _ in range(6)]
    names = ["gao", "Gao", "GAO", "gAo", "ｇａｏ", "ga0"]
    outcomes: list[str] = []

    def come(secret: str, name: str) -> None:
        try:
            outcomes.append(accept_invitation(secret=secret, name=name, password=PASSWORD).username)
        except AssayError:
            outcomes.append("")
        finally:
            connection.close()

    threads = [threading.Thread(target=partial(come, *pair)) for pair in zip(secrets, names, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes)[:-1] == [""] * 5
    assert Person.objects.filter(name_key="gao").count() == 1


# Names of before.


@pytest.fixture
def before(db: None) -> list[Person]:
    """Three people whose names look alike, as before the rule."""
    people = [Person(username=name, name_key=f"free {name}") for name in ("wei", "Wei", "WEI")]
    for person in people:
        person.set_password(PASSWORD)
        person.save()
    Person.objects.update(name_key=None)
    import_module("annotation.migrations.0014_sign_in").fill(apps, connection.schema_editor(atomic=False))
    return people


def test_the_oldest_of_before_has_the_key_and_all_sign_in(before: list[Person]):
    assert list(Person.objects.order_by("pk").values_list("name_key", flat=True)) == ["wei", None, None]
    for person in before:
        form = {"username": person.username, "password": PASSWORD}
        client = Client()
        assert client.post(reverse("login"), form).status_code == 302
        assert client.session["_auth_user_id"] == str(person.pk)


def test_no_fourth_is_made(before: list[Person]):
    with pytest.raises(AssayError, match="looks like"):
        add_person(name="wEi")


def test_an_admin_can_still_change_them(client: Client, before: list[Person]):
    client.force_login(Person.objects.create_superuser("chief"))
    person = before[1]
    page = client.get(f"/admin/annotation/person/{person.pk}/change/")
    form: dict[str, Any] = {
        name: value for name, value in page.context["adminform"].form.initial.items() if value is not None
    }
    form |= {"username": person.username, "first_name": "Wei", "groups": [], "user_permissions": []}
    form |= {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "languages": "[]", "own_models": []}
    answer = client.post(f"/admin/annotation/person/{person.pk}/change/", form)
    assert answer.status_code == 302, answer.content.decode()
    person.refresh_from_db()
    assert (person.first_name, person.name_key) == ("Wei", None)
