"""The page on which an admin erases a person."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from annotation.models import Batch, Person
from tests.support import label_next

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client, db: None) -> Person:
    person = Person.objects.create_superuser("root", password="glacier-lantern-42")
    client.force_login(person)
    return person


def test_only_an_admin_is_offered_the_page_and_opens_it(
    client: Client, admin: Person, lin: Person, ma: Person
) -> None:
    page, offer = reverse("person-erasure", args=["lin"]), "Erase this person"
    assert offer in client.get(reverse("person", args=["lin"])).content.decode()
    assert client.get(page).status_code == 200
    client.force_login(ma)
    assert offer not in client.get(reverse("person", args=["lin"])).content.decode()
    assert client.get(page).status_code == 403
    assert client.post(page, {"name": "lin"}).status_code == 403
    lin.refresh_from_db()
    assert lin.erased_at is None


def test_the_name_is_typed_once_more(client: Client, admin: Person, batch: Batch, lin: Person) -> None:
    label_next(batch, lin, 3)
    page = reverse("person-erasure", args=["lin"])
    preview = client.get(page).content.decode()
    assert "labels, under the pseudonym" in preview
    answer = client.post(page, {"name": "chen"})
    assert answer.status_code == 422
    assert "This is not the name of the person on this page." in answer.content.decode()
    lin.refresh_from_db()
    assert lin.username == "lin"

    answer = client.post(page, {"name": "lin"}, follow=True)
    lin.refresh_from_db()
    assert answer.redirect_chain == [(reverse("person", args=[lin.username]), 302)]
    text = answer.content.decode()
    assert f"is {lin.username} from now on" in text
    assert "This person was erased on" in text
    for form in ("person-active", "person-roles", "person-link", "person-erasure"):
        assert reverse(form, args=[lin.username]) not in text
    repeated = client.post(reverse("person-erasure", args=[lin.username]), {"name": lin.username})
    assert repeated.status_code == 409
    assert "was erased" in repeated.content.decode()


def test_an_admin_does_not_erase_themselves(client: Client, admin: Person) -> None:
    answer = client.post(reverse("person-erasure", args=["root"]), {"name": "root"})
    assert answer.status_code == 409
    assert "You cannot erase yourself" in answer.content.decode()


def test_the_audit_page_says_that_somebody_was_erased(client: Client, admin: Person, lin: Person) -> None:
    client.post(reverse("person-erasure", args=["lin"]), {"name": "lin"})
    lin.refresh_from_db()
    text = client.get(reverse("audit"), {"verb": "erase_person"}).content.decode()
    assert "erased a person, who is" in text
    assert lin.username in text
