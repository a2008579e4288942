"""No manager and no admin can be somebody else: over the addresses alone, as an attacker would try it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from annotation.core.study_scope import limit_to_studies
from annotation.models import AuditEvent, Person
from annotation.services.people.people import activate_person, deactivate_person, set_roles
from annotation.services.studies import create_study

pytestmark = pytest.mark.django_db
GOOD = "glacier-lantern-42"
TOKEN = re.compile(r"(?:assay_)?[0-9a-f]{40,64}")
SENT = {"name": "notebook", "scope": "manage", "days": "30"}


def visit(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def token_of(person: Person, **changes: str) -> str:
    """What the person's own page shows once."""
    page = visit(person).post("/account/token/", SENT | changes).content.decode()
    return next(token for token in TOKEN.findall(page.partition('id="token')[2] or page))


def call(token: str, path: str = "/api/v1/batches/") -> Any:
    return Client().get(path, headers={"Authorization": f"Token {token}"})


def everything_stored() -> str:
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        rows = []
        for table in tables:
            cursor.execute(f'SELECT * FROM "{table}"')  # noqa: S608
            rows.append(str(cursor.fetchall()))
    return "\n".join(rows)


def test_a_manager_makes_no_token_for_somebody_and_sets_no_password(lin: Person, ma: Person) -> None:
    manager = visit(ma)
    answers = [
        manager.post("/people/lin/token/"),
        manager.post("/people/lin/token/", SENT),
        manager.post("/people/lin/password/", {"password": GOOD}),
    ]
    assert [answer.status_code for answer in answers] == [404] * 3
    assert not Client().login(username="lin", password=GOOD)
    assert Client().login(username="lin", password="lin-password")


def test_a_manager_chooses_no_first_password(ma: Person) -> None:
    visit(ma).post("/people/-/new/", {"name": "gao", "roles": ["annotator"], "password": GOOD})
    assert not Person.objects.get(username="gao").has_usable_password()


def test_an_admin_sets_no_password_and_reads_no_token(lin: Person) -> None:
    admin = visit(Person.objects.create_superuser("root"))
    token = token_of(lin)
    path = f"/admin/annotation/person/{lin.pk}/password/"
    fields = {"password1": GOOD, "password2": GOOD, "usable_password": "true"}
    assert [admin.get(path).status_code, admin.post(path, fields).status_code] == [403, 403]
    assert not Client().login(username="lin", password=GOOD)
    person = admin.get(f"/admin/annotation/person/{lin.pk}/change/").content.decode()
    assert "../password/" not in person
    assert "pbkdf2" not in person
    assert admin.get("/admin/authtoken/tokenproxy/").status_code == 404
    assert token not in admin.get("/admin/").content.decode()


def test_an_admin_adds_somebody_without_a_password(db: None) -> None:
    admin = visit(Person.objects.create_superuser("root"))
    sent = {"username": "gao", "password1": GOOD, "password2": GOOD, "usable_password": "true"}
    assert admin.post("/admin/annotation/person/add/", sent).status_code == 302
    assert not Person.objects.get(username="gao").has_usable_password()


def test_no_table_holds_a_token(lin: Person) -> None:
    token = token_of(lin)
    assert call(token).status_code == 200
    assert token not in everything_stored()


def test_a_token_ends_with_the_account_and_does_not_revive(lin: Person, ma: Person) -> None:
    token = token_of(lin)
    deactivate_person(person=lin, actor=ma)
    assert call(token).status_code == 401
    activate_person(person=Person.objects.get(pk=lin.pk), actor=ma)
    assert call(token).status_code == 401


@pytest.mark.parametrize("way", ["service", "row", "rows"])
def test_a_token_ends_with_any_role_that_is_taken_away(lin: Person, ma: Person, way: str) -> None:
    set_roles(person=lin, roles=["annotator"])
    with limit_to_studies([create_study(name="other").pk]):
        set_roles(person=lin, roles=["researcher"])
    token = token_of(lin)
    lin = Person.objects.get(pk=lin.pk)
    researching = lin.study_memberships.filter(role="researcher")
    if way == "service":
        with limit_to_studies([researching.get().study_id]):
            set_roles(person=lin, roles=[], actor=None)
    elif way == "row":
        researching.get().delete()
    else:
        researching.delete()
    assert call(token).status_code == 401
    assert not Person.objects.get(pk=lin.pk).study_memberships.filter(role="researcher").exists()


def test_a_role_that_is_given_ends_no_token(lin: Person) -> None:
    token = token_of(lin)
    set_roles(person=lin, roles=["annotator", "researcher"])
    assert call(token).status_code == 200


def test_what_a_statement_deactivated_revives_no_token(lin: Person, ma: Person) -> None:
    """No signal tells of it, so that the tokens end at the latest when the account is activated again."""
    for activate in (lambda: activate_person(person=lin, actor=ma), lin.save):
        token = token_of(lin)
        Person.objects.filter(pk=lin.pk).update(is_active=False)
        activate()
        assert Person.objects.get(pk=lin.pk).is_active
        assert call(token).status_code == 401


def test_a_token_ends_when_its_owner_is_an_admin_no_more(lin: Person) -> None:
    lin.is_superuser = True
    lin.save()
    token = token_of(lin)
    lin.is_superuser = False
    lin.save()
    assert call(token).status_code == 401


@pytest.mark.parametrize("way", ["own_page", "shell", "taken_away"])
def test_a_token_ends_with_the_password_whoever_changes_it(lin: Person, way: str) -> None:
    token, client = token_of(lin), visit(lin)
    if way == "own_page":
        fields = {"old_password": "lin-password", "password": GOOD}
        assert client.post("/account/password/", fields).status_code == 302
    elif way == "shell":  # as manage.py changepassword does it
        lin.set_password(GOOD)
        lin.save()
    else:
        lin.set_unusable_password()
        lin.save()
    assert Client().login(username="lin", password=GOOD) == (way != "taken_away")
    assert call(token).status_code == 401
    event = AuditEvent.objects.get(verb="set_password")
    assert event.actor == (lin if way == "own_page" else None)


def test_the_admin_has_no_form_for_ones_own_password_either(lin: Person) -> None:
    Person.objects.filter(pk=lin.pk).update(is_staff=True)
    client, fields = (
        visit(lin),
        {"old_password": "lin-password", "new_password1": GOOD, "new_password2": GOOD},
    )
    for answer in (client.get("/admin/password_change/"), client.post("/admin/password_change/", fields)):
        assert (answer.status_code, answer["Location"]) == (302, reverse("account"))
    assert Client().login(username="lin", password="lin-password")


def test_a_hash_that_is_merely_brought_up_to_date_ends_no_token(lin: Person, settings: Any) -> None:
    """Django writes a password anew at the first sign-in after its hashing became stronger."""
    token, before = token_of(lin), lin.password
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.ScryptPasswordHasher",
        *settings.PASSWORD_HASHERS,
    ]
    assert Client().login(username="lin", password="lin-password")
    lin.refresh_from_db()
    assert lin.password != before
    assert call(token).status_code == 200
