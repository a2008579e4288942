"""Sessions: what is listed of them, and ending them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.models import AuditEvent, Person, SignInSession
from annotation.selectors.people import list_sessions
from annotation.services.people.sessions import clean_up_rows
from tests.annotation.sign_in.support import FIREFOX, PHONE, is_signed_in, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_each_sign_in_is_a_session_with_its_device_and_address(lin: Person):
    sign_in("lin", agent=FIREFOX, address="198.51.100.7")
    sign_in("lin", agent=PHONE, address="203.0.113.9")
    rows = list_sessions(lin)
    assert [(row.device, row.session.address, row.session.method) for row in rows] == [
        ("Safari, iOS", "203.0.113.9", "password"),
        ("Firefox, Linux", "198.51.100.7", "password"),
    ]


def test_a_failed_sign_in_is_none(lin: Person):
    Client().post(reverse("login"), {"username": "lin", "password": "wrong-guess"})
    assert list_sessions(lin) == []


def test_the_owner_ends_another_session_of_theirs_at_once(lin: Person):
    laptop, elsewhere = sign_in("lin", agent=FIREFOX), sign_in("lin", agent=PHONE)
    page = laptop.get(reverse("account")).content.decode()
    assert "this one" in page
    row = SignInSession.objects.get(session_key=elsewhere.session.session_key)
    laptop.post(reverse("account-session-revoke", args=[row.pk]))
    assert not is_signed_in(elsewhere)
    assert is_signed_in(laptop)
    event = AuditEvent.objects.get(verb="revoke_session")
    assert (event.actor, event.target) == (lin, "person:lin")
    assert event.data["sessions"][0]["id"] == row.pk


def test_ending_all_the_others_leaves_this_one(lin: Person):
    laptop, phones = sign_in("lin"), [sign_in("lin") for _ in range(3)]
    answer = laptop.post(reverse("account-sessions-revoke"), follow=True)
    assert "3 sessions have ended." in answer.content.decode()
    assert is_signed_in(laptop)
    assert not any(is_signed_in(other) for other in phones)


def test_nobody_ends_the_session_of_somebody_else_by_its_number(lin: Person, chen: Person):
    of_lin, of_chen = sign_in("lin"), sign_in("chen")
    row = SignInSession.objects.get(person=lin)
    assert of_chen.post(reverse("account-session-revoke", args=[row.pk])).status_code == 404
    assert is_signed_in(of_lin)


def test_an_admin_ends_anybodys_and_a_manager_nobodys(lin: Person, ma: Person):
    Person.objects.create_superuser("root", password="root-password-1")
    of_lin, of_manager, of_admin = sign_in("lin"), Client(), sign_in("root", "root-password-1")
    of_manager.force_login(ma)
    row = SignInSession.objects.get(person=lin)
    assert of_manager.post(reverse("person-session-revoke", args=["lin", row.pk])).status_code == 403
    assert "sessions-title" not in of_manager.get(reverse("person", args=["lin"])).content.decode()
    assert is_signed_in(of_lin)
    assert "sessions-title" in of_admin.get(reverse("person", args=["lin"])).content.decode()
    of_admin.post(reverse("person-sessions-revoke", args=["lin"]))
    assert not is_signed_in(of_lin)
    assert AuditEvent.objects.get(verb="revoke_session").actor.username == "root"


def test_the_key_of_a_session_changes_with_the_sign_in(lin: Person):
    """Whoever planted a key in the browser before has nothing of it afterwards."""
    client = Client()
    session = client.session
    session["planted"] = True
    session.save()
    client.cookies["sessionid"] = planted = session.session_key
    client.post(reverse("login"), {"username": "lin", "password": "lin-password"})
    assert client.session.session_key != planted
    assert not Session.objects.filter(session_key=planted).exists()
    assert SignInSession.objects.get(person=lin).session_key == client.session.session_key


def test_a_new_password_ends_the_others_and_this_one_goes_on_listed(lin: Person):
    laptop, elsewhere = sign_in("lin"), sign_in("lin")
    form = {"old_password": "lin-password", "password": "quite-another-1", "again": "quite-another-1"}
    laptop.post(reverse("account-password"), form)
    assert is_signed_in(laptop)
    assert not is_signed_in(elsewhere)
    rows = list_sessions(lin, own_key=laptop.session.session_key)
    assert [(row.is_own, row.session.method) for row in rows] == [(True, "password")]


def test_signing_out_and_deactivating_leave_no_row(lin: Person, ma: Person):
    client = sign_in("lin")
    client.post(reverse("logout"))
    assert not SignInSession.objects.filter(person=lin).exists()
    sign_in("lin")
    lin.is_active = False
    lin.save()
    assert not SignInSession.objects.filter(person=lin).exists()


def test_a_row_outlives_its_session_by_a_day_at_most(lin: Person):
    client = sign_in("lin")
    Session.objects.all().delete()
    SignInSession.objects.update(began_at=timezone.now() - timedelta(hours=1))
    assert list_sessions(lin) == []
    assert clean_up_rows() == 1
    assert not is_signed_in(client)


def test_it_is_seen_again_when_it_is_used_later(lin: Person, monkeypatch: pytest.MonkeyPatch):
    client = sign_in("lin")
    earlier = timezone.now() - timedelta(hours=1)
    SignInSession.objects.update(seen_at=earlier)
    session = client.session
    session["used_at"] = int(earlier.timestamp())
    session.save()
    client.get(reverse("account"), REMOTE_ADDR="203.0.113.44")
    row = SignInSession.objects.get(person=lin)
    assert row.seen_at > earlier
    assert row.address == "203.0.113.44"
