"""A lost group takes what it gave from people who make no request, too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.utils import timezone

from annotation.models import ApiToken, Assignment, Batch, Person, SignInSession, StudyMembership
from annotation.services.assignments import claim_next_task
from annotation.services.batches.members import join_batch
from annotation.services.people.provider_sweep import check_providers
from annotation.services.people.tokens import make_token
from tests.annotation.sign_in.oidc_support import (
    OLD_WORDS_OF_MOCK,
    Directory,
    make_provider,
    run_directory,
    sign_in_by_provider,
)
from tests.annotation.sign_in.support import is_signed_in
from tests.support import first_batch

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, OLD_WORDS_OF_MOCK]
STUDY = "default"


@pytest.fixture(scope="module")
def running() -> Iterator[Directory]:
    with run_directory() as directory:
        yield directory


@pytest.fixture
def batch(db: None) -> Batch:
    return first_batch()


@pytest.fixture
def directory(running: Directory, settings: Any, batch: Batch) -> Directory:
    assert batch.study.name == STUDY
    running.put("u-1001", preferred_username="grace", name="Grace Liu", groups=["assay-labels"])
    settings.SIGN_IN_PROVIDERS = (make_provider(running.issuer),)
    return running


def count_roles(name: str) -> int:
    return StudyMembership.objects.filter(person__username=name).count()


def make_idle(minutes: int = 61) -> None:
    SignInSession.objects.update(checked_at=timezone.now() - timedelta(minutes=minutes))


def take_groups(directory: Directory) -> None:
    directory.put("u-1001", preferred_username="grace", name="Grace Liu", groups=["staff"])


def test_api_tokens_end_without_a_request(directory: Directory):
    client, _answer = sign_in_by_provider("u-1001")
    grace = Person.objects.get(username="grace")
    make_token(person=grace, name="robot", scope="work", days=30, actor=grace)
    take_groups(directory)
    assert check_providers() == 0  # it was asked a moment ago
    make_idle()
    assert check_providers() == 1
    assert count_roles("grace") == 0
    assert not ApiToken.objects.filter(ended_at=None).exists()
    assert is_signed_in(client)
    assert check_providers() == 0


def test_items_in_hand_go_to_others_without_a_request(directory: Directory, batch: Batch):
    sign_in_by_provider("u-1001")
    grace = Person.objects.get(username="grace")
    join_batch(batch=batch, role="annotator", people=[grace])
    claim = claim_next_task(batch=batch, person=grace)
    assert claim is not None
    take_groups(directory)
    make_idle()
    assert check_providers() == 1
    assert Assignment.objects.get(pk=claim.pk).state == Assignment.State.RELEASED


def test_who_has_nothing_to_lose_is_not_asked_for(directory: Directory, settings: Any):
    sign_in_by_provider("u-1001")
    take_groups(directory)
    make_idle()
    assert check_providers() == 0
    assert count_roles("grace") == 2
    grace = Person.objects.get(username="grace")
    make_token(person=grace, name="robot", scope="work", days=30, actor=grace)
    settings.SIGN_IN_PROVIDERS = (make_provider(directory.issuer, idle_check_minutes=0),)
    assert check_providers() == 0


def test_a_provider_that_refuses_ends_the_session_and_one_that_is_away_nothing(
    directory: Directory, settings: Any, caplog: Any
):
    client, _answer = sign_in_by_provider("u-1001")
    grace = Person.objects.get(username="grace")
    make_token(person=grace, name="robot", scope="work", days=30, actor=grace)
    make_idle()
    settings.SIGN_IN_PROVIDERS = (
        make_provider("http://localhost:9", roles=settings.SIGN_IN_PROVIDERS[0].roles),
    )
    assert check_providers() == 0
    assert "did not answer" in caplog.text
    assert SignInSession.objects.get().check_begun_at is None
    settings.SIGN_IN_PROVIDERS = (make_provider(directory.issuer),)
    directory.revoke("u-1001")
    assert check_providers() == 1
    assert not is_signed_in(client)
    assert not SignInSession.objects.exists()


def test_roles_that_no_sign_in_has_confirmed_for_long_end_where_the_document_says_so(
    directory: Directory, settings: Any
):
    sign_in_by_provider("u-1001")
    grace = Person.objects.get(username="grace")
    make_token(person=grace, name="robot", scope="work", days=365, actor=grace)
    SignInSession.objects.all().delete()
    SocialAccount.objects.update(last_login=timezone.now() - timedelta(days=31))
    assert check_providers() == 0
    settings.SIGN_IN_PROVIDERS = (make_provider(directory.issuer, roles_last_days=30),)
    assert check_providers() == 1
    assert count_roles("grace") == 0
    assert not ApiToken.objects.filter(ended_at=None).exists()
    sign_in_by_provider("u-1001")
    assert count_roles("grace") == 2
    assert check_providers() == 0
