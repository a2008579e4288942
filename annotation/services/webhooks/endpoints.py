"""Setting webhooks up: where they go, what they tell of, their secret, and sending again what was sent.

A secret is told once, to who makes or renews it. The one before it goes on signing for as long as that person says.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict
from annotation.domain.verbs import AnnotationVerb
from annotation.domain.webhooks.addresses import read_target
from annotation.domain.webhooks.events import SUBSCRIBED, WebhookEvent, join_events
from annotation.domain.webhooks.signatures import compute_fingerprint, derive_secret, write_secret
from annotation.models import Person, Study, WebhookDelivery, WebhookEndpoint
from annotation.models.sql.webhooks import draw_message_id
from annotation.selectors.webhooks.endpoints import get_address_rules, select_visible
from annotation.services.audit import record_in_study

MAX_ENDPOINTS = 20
"""Of a study, and of the site, those that are on: each is asked for at every event."""
OVERLAP_HOURS = (0, 24, 168)
"""For how long the former secret may go on signing: not at all where it leaked."""


@transaction.atomic
def create_endpoint(
    *,
    study: Study | None,
    url: str,
    events: Sequence[str],
    base_url: str,
    actor: Person | None,
    note: str = "",
) -> tuple[WebhookEndpoint, str]:
    """The endpoint, and its secret in words. ``base_url`` is where the site's own addresses begin."""
    if study is not None:
        Study.objects.select_for_update(no_key=True).get(pk=study.pk)
    if WebhookEndpoint.objects.filter(study=study, turned_off="").count() >= MAX_ENDPOINTS:
        raise Conflict(
            N_("There are {most} webhooks already: turn off one that is not used."), most=MAX_ENDPOINTS
        )
    endpoint = WebhookEndpoint(study=study, created_by=actor, owner=actor)
    _set_content(endpoint, url, events, base_url, note)
    text = _draw_secret(endpoint)
    endpoint.save()
    _record(endpoint, actor, AnnotationVerb.MAKE_WEBHOOK, host=endpoint.host, events=list(events))
    return endpoint, text


@transaction.atomic
def change_endpoint(
    *,
    endpoint: WebhookEndpoint,
    url: str,
    events: Sequence[str],
    base_url: str,
    actor: Person,
    note: str = "",
) -> WebhookEndpoint:
    """What waits goes to the new address, too."""
    locked = _lock(endpoint)
    _set_content(locked, url, events, base_url, note)
    locked.owner = actor
    locked.save(update_fields=["url", "events", "base_url", "note", "owner"])
    _record(locked, actor, AnnotationVerb.CHANGE_WEBHOOK, host=locked.host, events=list(events))
    return locked


@transaction.atomic
def renew_secret(*, endpoint: WebhookEndpoint, hours: int, actor: Person) -> tuple[WebhookEndpoint, str]:
    """A new secret, in words; the former one signs beside it for so many hours."""
    if hours not in OVERLAP_HOURS:
        raise AssayError(
            N_("Choose for how many hours the old secret still signs: {known}."),
            known=", ".join(map(str, OVERLAP_HOURS)),
        )
    locked = _lock(endpoint)
    locked.previous_salt = locked.salt if hours else ""
    locked.previous_until = timezone.now() + timedelta(hours=hours) if hours else None
    locked.owner = actor
    text = _draw_secret(locked)
    locked.save(update_fields=["salt", "fingerprint", "previous_salt", "previous_until", "owner"])
    _record(locked, actor, AnnotationVerb.RENEW_WEBHOOK_SECRET, hours=hours)
    return locked, text


@transaction.atomic
def set_active(*, endpoint: WebhookEndpoint, active: bool, actor: Person) -> WebhookEndpoint:
    """Off: nothing is sent, and events leave nothing. On: what waited is sent. Twice changes nothing."""
    locked = _lock(endpoint)
    reason = "" if active else WebhookEndpoint.TurnedOff.PERSON
    if locked.turned_off == reason:
        return locked
    was_active = locked.is_active
    locked.turned_off, locked.turned_off_at = reason, None if active else timezone.now()
    locked.failing_since = None
    locked.save(update_fields=["turned_off", "turned_off_at", "failing_since"])
    if was_active != active:
        verb = AnnotationVerb.TURN_ON_WEBHOOK if active else AnnotationVerb.TURN_OFF_WEBHOOK
        _record(locked, actor, verb)
    return locked


def hold_endpoints(endpoint_model: type[WebhookEndpoint]) -> int:
    """Turn all off, so that a copy of a site sends nothing; how many. The model may be that of an earlier version."""
    off = {"turned_off": WebhookEndpoint.TurnedOff.PERSON, "turned_off_at": timezone.now()}
    return endpoint_model.objects.filter(turned_off="").update(**off)


def send_test(*, endpoint: WebhookEndpoint) -> WebhookDelivery:
    """Queue a message of the type ``webhook.test``, which tells of the webhook itself."""
    if not endpoint.is_active:
        raise Conflict(N_("The webhook is off: turn it on first."))
    now = timezone.now()
    return WebhookDelivery.objects.create(
        endpoint=endpoint,
        message_id=draw_message_id(),
        type=WebhookEvent.TEST.value,
        target=f"webhook:{endpoint.pk}",
        study_id=endpoint.study_id,
        occurred_at=now,
        next_attempt_at=now,
    )


@transaction.atomic
def send_again(*, endpoint: WebhookEndpoint, delivery: WebhookDelivery | None, actor: Person) -> int:
    """Queue the message anew, accepted or not; with None all that failed, as far as the person sees them. Their ids
    stay. How many.
    """
    locked = _lock(endpoint)
    if not locked.is_active:
        raise Conflict(N_("The webhook is off: turn it on first."))
    rows = select_visible(actor, [locked])
    choice = {"state": WebhookDelivery.State.FAILED} if delivery is None else {"pk": delivery.pk}
    rows = rows.filter(**choice)
    number = rows.update(
        state=WebhookDelivery.State.WAITING, tries=0, next_attempt_at=timezone.now(), ended_at=None
    )
    if number:
        _record(locked, actor, AnnotationVerb.SEND_WEBHOOKS_AGAIN, messages=number)
    return number


def _lock(endpoint: WebhookEndpoint) -> WebhookEndpoint:
    return WebhookEndpoint.objects.select_for_update(no_key=True).get(pk=endpoint.pk)


def _set_content(
    endpoint: WebhookEndpoint, url: str, events: Sequence[str], base_url: str, note: str
) -> None:
    unknown = set(events) - {event.value for event in SUBSCRIBED}
    if unknown or not events:
        known = ", ".join(event.value for event in SUBSCRIBED)
        raise AssayError(N_("Choose at least one event of: {known}."), known=known)
    endpoint.url = read_target(url.strip(), get_address_rules()).url
    endpoint.events, endpoint.base_url, endpoint.note = join_events(events), base_url, note.strip()


def _draw_secret(endpoint: WebhookEndpoint) -> str:
    endpoint.salt = secrets.token_hex(32)
    secret = derive_secret(settings.SECRET_KEY, endpoint.salt)
    endpoint.fingerprint = compute_fingerprint(secret)
    return write_secret(secret)


def _record(endpoint: WebhookEndpoint, actor: Person | None, verb: AnnotationVerb, **data: Any) -> None:
    record_in_study(endpoint.study_id, actor=actor, verb=verb, target=f"webhook:{endpoint.pk}", **data)
