"""What the page for training a scorer asks."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from annotation.models import GoldRelease, Person
from scoring.forms.training import NewScorerForm

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("target", ["label", "distribution"])
def test_the_form_says_what_is_learned(graded: GoldRelease, he: Person, target: str) -> None:
    fields = {"name": "soft", "release": graded.name, "kind": "ngram", "tuning": "frozen", "seed": "0"}
    form = NewScorerForm(fields | {"target": target}, person=he)
    assert form.is_valid(), form.errors
    assert form.build_spec().target == target


def test_what_nobody_learns_is_refused(graded: GoldRelease, he: Person) -> None:
    fields = {"name": "soft", "release": graded.name, "kind": "ngram", "tuning": "frozen", "seed": "0"}
    form = NewScorerForm(fields | {"target": "luck"}, person=he)
    assert "target" in form.errors


def test_the_page_says_that_soft_labels_do_not_help_on_xstest(
    client: Client, graded: GoldRelease, he: Person
) -> None:
    client.force_login(he)
    body = client.get(reverse("scorer-new"), {"target": "distribution"}).content.decode()
    assert "On XSTest, where annotators seldom differ, they do not help." in body
