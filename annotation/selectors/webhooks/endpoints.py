"""Webhooks as their managers see them: the endpoints, what waits or failed, and what was sent.

A manager sees those of their studies, an admin those of the site, too. Whoever judges blind sees no message that tells
of labels, models or results, until their batches close: the rule of the audit trail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Min, Q, QuerySet
from django.utils import timezone

from annotation.core.errors import N_, NotFound
from annotation.core.study_scope import limit_to_studies
from annotation.domain.permissions import MANAGE_WEBHOOKS
from annotation.domain.webhooks.addresses import AddressRules
from annotation.domain.webhooks.events import BLIND_SAFE
from annotation.domain.webhooks.signatures import compute_fingerprint, derive_secret
from annotation.models import Person, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from annotation.selectors.access import list_studies_to, sealed_batches


@dataclass(frozen=True)
class EndpointRow:
    endpoint: WebhookEndpoint
    waiting: int
    failed: int


@dataclass(frozen=True)
class WebhookLoad:
    """Of the whole site. ``overdue_seconds`` is the age of the oldest attempt that is due at an endpoint that is on."""

    waiting: int
    overdue_seconds: float
    failing: int
    given_up: int


def get_address_rules() -> AddressRules:
    return AddressRules(settings.WEBHOOK_NETWORKS, settings.WEBHOOK_HTTP)


def list_endpoints(reader: Person, study_id: int | None) -> list[EndpointRow]:
    """Those of the study, or of the site where it is None."""
    endpoints = list(WebhookEndpoint.objects.filter(study=study_id).order_by("pk"))
    counts = {
        (endpoint, state): number
        for endpoint, state, number in select_visible(reader, endpoints)
        .exclude(state=WebhookDelivery.State.ACCEPTED)
        .order_by()
        .values_list("endpoint", "state")
        .annotate(Count("pk"))
    }
    waiting, failed = WebhookDelivery.State.WAITING.value, WebhookDelivery.State.FAILED.value
    return [
        EndpointRow(endpoint, counts.get((endpoint.pk, waiting), 0), counts.get((endpoint.pk, failed), 0))
        for endpoint in endpoints
    ]


def get_endpoint(reader: Person, endpoint_id: int) -> WebhookEndpoint:
    """NotFound for those of other studies, and of the site for whoever is no admin."""
    endpoint = WebhookEndpoint.objects.select_related("study", "owner").filter(pk=endpoint_id).first()
    if endpoint is None or not _may_manage(reader, endpoint):
        raise NotFound(N_("There is no such webhook."))
    return endpoint


def _may_manage(reader: Person, endpoint: WebhookEndpoint) -> bool:
    if endpoint.study_id is None:
        return reader.is_superuser
    studies = list_studies_to(reader, MANAGE_WEBHOOKS)
    return studies is None or endpoint.study_id in studies


def select_visible(reader: Person, endpoints: Iterable[WebhookEndpoint]) -> QuerySet[WebhookDelivery]:
    """The deliveries that the reader may see. What is sealed in any study counts: a site's endpoint is told of all."""
    deliveries = WebhookDelivery.objects.filter(endpoint__in=[endpoint.pk for endpoint in endpoints])
    if is_blinded_everywhere(reader):
        deliveries = deliveries.filter(type__in=[event.value for event in BLIND_SAFE])
    return deliveries


def is_blinded_everywhere(reader: Person) -> bool:
    with limit_to_studies(None):
        return sealed_batches(reader).exists()


def get_delivery(reader: Person, endpoint: WebhookEndpoint, delivery_id: int) -> WebhookDelivery:
    delivery = select_visible(reader, [endpoint]).filter(pk=delivery_id).first()
    if delivery is None:
        raise NotFound(N_("There is no such message."))
    delivery.endpoint = endpoint
    return delivery


def list_attempts(delivery: WebhookDelivery) -> list[WebhookAttempt]:
    """Newest first."""
    return list(delivery.attempt_rows.order_by("-number"))


def list_last_attempts(deliveries: Iterable[WebhookDelivery]) -> dict[int, WebhookAttempt]:
    """The latest of each, by delivery."""
    numbers = {delivery.pk: delivery.attempts for delivery in deliveries if delivery.attempts}
    rows = WebhookAttempt.objects.filter(delivery__in=numbers)
    return {row.delivery_id: row for row in rows if row.number == numbers[row.delivery_id]}


def select_due(endpoint: WebhookEndpoint, now: datetime) -> QuerySet[WebhookDelivery]:
    """What is to be sent to it now, the earliest first. What is sealed for its owner waits until it is not."""
    due = WebhookDelivery.objects.filter(
        endpoint=endpoint, state=WebhookDelivery.State.WAITING, next_attempt_at__lte=now
    )
    if endpoint.owner is not None:
        with limit_to_studies(None):
            sealed = list(sealed_batches(endpoint.owner).values_list("pk", flat=True))
        due = due.exclude(batch__in=sealed)
    return due.order_by("next_attempt_at", "pk")


def list_active_endpoints_due(now: datetime) -> list[WebhookEndpoint]:
    """Those that are on and have something due, whether it may be sent or not."""
    due = WebhookDelivery.objects.filter(state=WebhookDelivery.State.WAITING, next_attempt_at__lte=now)
    with_due = due.order_by().values("endpoint").distinct()
    endpoints = WebhookEndpoint.objects.filter(turned_off="", pk__in=with_due)
    return list(endpoints.select_related("owner").order_by("pk"))


def has_lost_key(endpoint: WebhookEndpoint) -> bool:
    """Whether SECRET_KEY has changed since its secret was made, so that another one would sign."""
    secret = derive_secret(settings.SECRET_KEY, endpoint.salt)
    return compute_fingerprint(secret) != endpoint.fingerprint


def list_given_up(studies: Iterable[int] | None) -> list[WebhookEndpoint]:
    """Those of the studies that were turned off because their receivers took nothing, until somebody acts on it."""
    given_up = WebhookEndpoint.objects.filter(
        turned_off__in=(WebhookEndpoint.TurnedOff.FAILING, WebhookEndpoint.TurnedOff.GONE)
    )
    of_studies = Q(study__isnull=False) if studies is None else Q(study__in=studies)
    return list(given_up.filter(of_studies).order_by("pk"))


def measure_load() -> WebhookLoad:
    now = timezone.now()
    endpoints = WebhookEndpoint.objects.all()
    active = endpoints.filter(turned_off="")
    waiting = WebhookDelivery.objects.filter(state=WebhookDelivery.State.WAITING)
    overdue = waiting.filter(endpoint__in=active, batch=None).aggregate(first=Min("next_attempt_at"))["first"]
    reasons = (WebhookEndpoint.TurnedOff.FAILING, WebhookEndpoint.TurnedOff.GONE)
    return WebhookLoad(
        waiting=waiting.count(),
        overdue_seconds=max(0.0, (now - overdue).total_seconds()) if overdue else 0.0,
        failing=active.filter(failing_since__isnull=False).count(),
        given_up=endpoints.filter(turned_off__in=reasons).count(),
    )
