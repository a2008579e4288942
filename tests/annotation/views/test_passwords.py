"""A password like a name is refused, wherever a password is set."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import StringIO
from typing import Any
from unicodedata import normalize
from unittest import mock

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.passwords import MIN_CHARACTERS, NameValidator
from annotation.models import Person
from annotation.services.people.invitations import invite
from annotation.services.people.setup_links import make_setup_link

LIKE_THE_NAME = (
    ("lin", "", "linlinlin"),
    ("lin", "", "lin12345"),
    ("lin", "", "LIN-2026"),
    ("lin", "", "ｌｉｎ12345"),
    ("gao.xin", "", "xingao2026"),
    ("g7", "Zhang Wei", "zhangwei2026zhangwei"),
    ("g7", "Zhang Wei", "weizhang1"),
    ("王伟", "", "王伟王伟王伟王伟"),
)
GOOD = (("lin", "", "lin-password"), ("lin", "", "glacier-lantern-42"), ("a", "", "abracadabra-9"))

cases = pytest.mark.parametrize(("name", "display_name", "password"), LIKE_THE_NAME)


@cases
def test_django_lets_some_of_these_pass_and_ours_does_not(name: str, display_name: str, password: str):
    with pytest.raises(ValidationError):
        NameValidator().validate(password, Person(username=name, display_name=display_name))


@pytest.mark.parametrize(("name", "display_name", "password"), GOOD)
def test_a_password_with_enough_of_its_own_is_taken(name: str, display_name: str, password: str):
    NameValidator().validate(password, Person(username=name, display_name=display_name))


def test_without_a_person_there_is_nothing_to_compare():
    NameValidator().validate("linlinlin", None)


@given(st.text(min_size=2, max_size=20), st.text(max_size=MIN_CHARACTERS - 1))
def test_no_name_with_a_little_behind_it_is_a_password(name: str, more: str):
    person = Person(username=name)
    if not name.isascii() or not name.isalnum() or len(normalize("NFKC", more)) >= MIN_CHARACTERS:
        return  # normal forms may join letters or take more of them, and blanks at the ends are cut
    with pytest.raises(ValidationError):
        NameValidator().validate(name + more.replace(name, ""), person)


def read_errors(answer: Any) -> str:
    assert answer.status_code == 422
    return str(answer.content.decode())


def by_invitation(name: str, display_name: str, password: str) -> str:
    chief = Person.objects.create_superuser("chief")
    _invitation, secret = invite(roles=["annotator"], days=7, actor=chief)
    form = {"name": name, "display_name": display_name, "password": password, "again": password}
    return read_errors(Client().post(reverse("join", args=[secret]), form))


def by_setup_link(name: str, display_name: str, password: str) -> str:
    person = Person.objects.create(username=name, display_name=display_name)
    _link, secret = make_setup_link(person=person, actor=Person.objects.create_superuser("chief"))
    return read_errors(
        Client().post(reverse("set-up", args=[secret]), {"password": password, "again": password})
    )


def by_owner(name: str, display_name: str, password: str) -> str:
    client = Client()
    person = Person.objects.create(username=name, display_name=display_name)
    person.set_password("glacier-lantern-42")
    person.save()
    client.force_login(person)
    form = {"old_password": "glacier-lantern-42", "password": password}
    return read_errors(client.post(reverse("account-password"), form))


def by_command(name: str, display_name: str, password: str) -> str:
    output = StringIO()
    with mock.patch("sys.stdin", StringIO(f"{password}\n")), pytest.raises(SystemExit):
        call_command("add_person", name, "--password", display_name=display_name, stderr=output)
    return output.getvalue()


def by_createsuperuser(name: str, display_name: str, password: str) -> str:
    if display_name:
        return "like the name"  # the command asks for none
    with mock.patch.dict(os.environ, {"DJANGO_SUPERUSER_PASSWORD": password}):
        with pytest.raises(CommandError) as refused:
            call_command("createsuperuser", interactive=False, username=name, email="")
        return str(refused.value)


WAYS = [by_invitation, by_setup_link, by_owner, by_command, by_createsuperuser]


@pytest.mark.django_db
@cases
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_it_is_refused_on_every_way(way: Callable[..., str], name: str, display_name: str, password: str):
    words = way(name, display_name, password)
    assert "like the name" in words or "too similar" in words or "too common" in words
    known = Person.objects.filter(username=name).first()
    assert known is None or not known.check_password(password)
