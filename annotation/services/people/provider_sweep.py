"""What groups gave to people who make no request: their API tokens work, and their claims keep items from others.

Whoever has such a thing, and a session that was begun by an OpenID provider, is asked for there now and then, as a
request would do it. Without a session nothing can be asked: then roles that no sign-in has confirmed for long are taken
away, where the document of the providers says after how many days.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from allauth.socialaccount.models import SocialAccount
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation.domain.sign_in.providers import AnyProvider, OidcProvider
from annotation.models import ApiToken, Assignment, Person, SignInSession, StudyMembership
from annotation.services.people import oidc
from annotation.services.people.providers import (
    REFUSALS,
    apply_groups,
    ask_provider,
    claim_check,
    end_by_provider,
    list_providers,
)

logger = logging.getLogger(__name__)
MAX_CHECKS = 50
"""Of one provider in one sweep: each may take seconds, and other housekeeping waits. The next goes on."""


def check_providers() -> int:
    """Ask for whoever is due; how many people were asked for, or lost what no sign-in has confirmed."""
    number = 0
    for provider in list_providers():
        if isinstance(provider, OidcProvider) and provider.idle_check_minutes:
            number += _check_idle_people(provider)
        if provider.roles_last_days:
            number += _end_stale_roles(provider)
    return number


def _check_idle_people(provider: OidcProvider) -> int:
    """By one session of each person, the one that was checked last."""
    due = timezone.now() - timedelta(minutes=provider.idle_check_minutes)
    sessions = SignInSession.objects.filter(provider=provider.name).exclude(sealed_token="")
    later = sessions.filter(person=OuterRef("person"), checked_at__gt=OuterRef("checked_at"))
    idle = sessions.filter(~Exists(later), checked_at__lt=due, person__in=_select_people_at_work(provider))
    number = 0
    for row in idle.select_related("person").order_by("checked_at")[:MAX_CHECKS]:
        if not claim_check(row):
            continue
        try:
            ask_provider(row, row.person, provider)
        except REFUSALS:
            end_by_provider(row.person, [row], reason="refused")
        except oidc.ProviderUnavailable:
            SignInSession.objects.filter(pk=row.pk).update(check_begun_at=None)
            logger.warning("the provider %s did not answer when people were to be checked", provider.name)
            break
        number += 1
    return number


def _select_people_at_work(provider: AnyProvider) -> QuerySet[Person]:
    """Who has roles of the provider, and an API token that works or an item in hand."""
    now = timezone.now()
    tokens = ApiToken.objects.filter(Q(expires_at=None) | Q(expires_at__gt=now), ended_at=None)
    claims = Assignment.objects.filter(state=Assignment.State.CLAIMED)
    own = OuterRef("pk")
    return _select_people_of(provider).filter(
        Exists(tokens.filter(person=own)) | Exists(claims.filter(person=own))
    )


def _select_people_of(provider: AnyProvider) -> QuerySet[Person]:
    roles = StudyMembership.objects.filter(person=OuterRef("pk"), given_by=provider.name)
    return Person.objects.filter(Exists(roles) | Q(admin_given_by=provider.name), is_active=True)


def _end_stale_roles(provider: AnyProvider) -> int:
    """The next sign-in gives back what the groups of then give."""
    since = timezone.now() - timedelta(days=provider.roles_last_days)
    accounts = SocialAccount.objects.filter(provider=provider.name, last_login__lt=since)
    stale = accounts.filter(user__in=_select_people_of(provider)).select_related("user").order_by("pk")
    people = [account.user for account in stale[:MAX_CHECKS]]
    for person in people:
        logger.warning("the provider %s has not confirmed person %s for long", provider.name, person.pk)
        apply_groups(person, provider, [])
    return len(people)
