"""Sending what is due. A job of the housekeeping queue does it; the deliveries themselves are the truth.

An attempt is claimed by a conditional update of the delivery, with its number: two workers never send the same one.
The claim has a lease. Where the process is killed between sending and writing down the answer, the message is sent
again when the lease ends, under the same id: at least once, and once for a receiver that looks at the id.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from annotation.core.study_scope import limit_to_studies
from annotation.core.tracing import Attributes, SpanKind, open_span
from annotation.domain.verbs import AnnotationVerb
from annotation.domain.webhooks.addresses import AddressRules
from annotation.domain.webhooks.client import (
    DeliveryTrouble,
    WebhookAnswer,
    build_context,
    post_message,
    run_requests,
)
from annotation.domain.webhooks.retries import GONE, is_given_up, parse_retry_after, plan_retry
from annotation.domain.webhooks.signatures import compute_fingerprint, derive_secret, sign_message
from annotation.models import Job, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from annotation.selectors.jobs import AT_WORK
from annotation.selectors.webhooks.endpoints import (
    get_address_rules,
    list_active_endpoints_due,
    select_due,
)
from annotation.selectors.webhooks.messages import build_body
from annotation.services.audit import record_in_study
from annotation.services.jobs import JobContext, enqueue

logger = logging.getLogger(__name__)
JOB_KIND = "send_webhooks"
LEASE = timedelta(minutes=2)
"""Longer than a round of requests takes, by far more than the clocks of two workers may differ."""
MAX_AT_ONCE = 16
MAX_AT_ONCE_TO_ONE = 4
FAILURE_REST = timedelta(minutes=1)
"""After a job that failed, which is a mistake of ours, none is made for so long."""
RUN_SECONDS = 20.0
"""After so long a job ends, and leaves the rest to the next: other housekeeping waits behind it."""

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class ClaimedDelivery:
    """An attempt that is this process's alone to make. ``body`` and ``headers`` are None where it cannot be signed."""

    delivery: WebhookDelivery
    number: int
    body: bytes
    headers: dict[str, str] | None


def queue_sending() -> Job | None:
    """Make the job where anything is due and none is at work; those that are done leave no trace."""
    jobs_of_kind = Job.objects.filter(kind=JOB_KIND)
    now = timezone.now()
    has_failed = Q(state=Job.State.FAILED, finished_at__gt=now - FAILURE_REST)
    if jobs_of_kind.filter(Q(state__in=AT_WORK) | has_failed).exists():
        return None
    if not any(select_due(endpoint, now).exists() for endpoint in list_active_endpoints_due(now)):
        return None
    jobs_of_kind.filter(state=Job.State.DONE).delete()
    with limit_to_studies(()):  # of the site, whichever studies there are
        return enqueue(kind=JOB_KIND, payload={})


def execute_sending(context: JobContext) -> dict[str, int]:
    """The job's result: how many requests were accepted, and how many failed."""
    return send_due(report=lambda: context.report(0.5))


def send_due(
    *, clock: Clock = timezone.now, report: Callable[[], None] = lambda: None, seconds: float = RUN_SECONDS
) -> dict[str, int]:
    """Send what is due, a round after the other, until nothing is or the time is over.

    An endpoint at which something failed is left alone until the next run: it does not hold up the others.
    """
    end, counts = time.monotonic() + seconds, {"accepted": 0, "failed": 0}
    resting: set[int] = set()
    rules, context = get_address_rules(), None
    with limit_to_studies(None):
        while time.monotonic() < end:
            report()
            claimed = claim_due(clock(), resting=resting)
            if not claimed:
                break
            context = context or build_context()
            answers = run_requests(_send_round(claimed, rules, context))
            for claim, answer in zip(claimed, answers, strict=True):
                record_answer(claim, answer, clock())
                if answer.trouble is not None:
                    resting.add(claim.delivery.endpoint_id)
                counts["failed" if answer.trouble else "accepted"] += 1
    return counts


def claim_due(now: datetime, *, resting: Iterable[int] = ()) -> list[ClaimedDelivery]:
    """The attempts that this process makes next, a few of each endpoint."""
    claimed: list[ClaimedDelivery] = []
    for endpoint in list_active_endpoints_due(now):
        if endpoint.pk in resting:
            continue
        for delivery in select_due(endpoint, now)[:MAX_AT_ONCE_TO_ONE]:
            claim = _claim(endpoint, delivery, now) if len(claimed) < MAX_AT_ONCE else None
            if claim is not None:
                claimed.append(claim)
    return claimed


@transaction.atomic
def _claim(endpoint: WebhookEndpoint, delivery: WebhookDelivery, now: datetime) -> ClaimedDelivery | None:
    """None where another worker was faster, or it was changed meanwhile."""
    number = delivery.attempts + 1
    row = WebhookDelivery.objects.filter(
        pk=delivery.pk,
        state=WebhookDelivery.State.WAITING,
        attempts=delivery.attempts,
        next_attempt_at=delivery.next_attempt_at,
    )
    if not row.update(attempts=number, tries=delivery.tries + 1, next_attempt_at=now + LEASE):
        return None
    WebhookAttempt.objects.create(delivery=delivery, number=number, at=now)
    delivery.endpoint, delivery.attempts, delivery.tries = endpoint, number, delivery.tries + 1
    body = build_body(delivery)
    return ClaimedDelivery(delivery, number, body, _build_headers(delivery, body, now))


def _build_headers(delivery: WebhookDelivery, body: bytes, now: datetime) -> dict[str, str] | None:
    """None where the site's key has changed: a signature that no receiver knows would only make them refuse it."""
    endpoint = delivery.endpoint
    secret = derive_secret(settings.SECRET_KEY, endpoint.salt)
    if compute_fingerprint(secret) != endpoint.fingerprint:
        return None
    secrets = [secret]
    if endpoint.previous_salt and endpoint.previous_until is not None and now < endpoint.previous_until:
        secrets.append(derive_secret(settings.SECRET_KEY, endpoint.previous_salt))
    timestamp = int(now.timestamp())
    return {
        "Content-Type": "application/json",
        "webhook-id": delivery.message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign_message(secrets, delivery.message_id, timestamp, body),
    }


async def _send_round(
    claimed: Sequence[ClaimedDelivery], rules: AddressRules, context: ssl.SSLContext
) -> list[WebhookAnswer]:
    return list(await asyncio.gather(*(_send(claim, rules, context) for claim in claimed)))


async def _send(claim: ClaimedDelivery, rules: AddressRules, context: ssl.SSLContext) -> WebhookAnswer:
    if claim.headers is None:
        return WebhookAnswer(0.0, None, DeliveryTrouble.KEY)
    try:
        with open_span("POST webhook", SpanKind.CLIENT, _describe_span(claim)) as span:
            answer = await post_message(
                claim.delivery.endpoint.url, claim.headers, claim.body, rules, context
            )
            if answer.status is not None:
                span.set_attributes({"http.response.status_code": answer.status})
            if answer.trouble is not None:
                span.mark_failed(answer.trouble)
        return answer
    except (
        Exception
    ) as error:  # a mistake of ours with one receiver must not leave the others without an answer
        logger.exception("a message of the webhook %s could not be sent", claim.delivery.endpoint_id)
        return WebhookAnswer(0.0, None, DeliveryTrouble.CONNECTION, type(error).__name__)


def _describe_span(claim: ClaimedDelivery) -> Attributes:
    """By number: whose receiver it is stands nowhere else, either."""
    return {
        "http.request.method": "POST",
        "assay.webhook": claim.delivery.endpoint_id,
        "assay.webhook.attempt": claim.number,
    }


@transaction.atomic
def record_answer(claim: ClaimedDelivery, answer: WebhookAnswer, now: datetime) -> None:
    """Write down what came of an attempt, and what follows for the message and its endpoint.

    The endpoint's row is locked first, as by whoever changes it. An attempt that was taken for lost is in the history
    as it was; of what failed then, the later attempt alone decides.
    """
    endpoint = WebhookEndpoint.objects.select_for_update(no_key=True).get(pk=claim.delivery.endpoint_id)
    WebhookAttempt.objects.filter(delivery=claim.delivery, number=claim.number).update(
        seconds=answer.seconds,
        status=answer.status,
        trouble=answer.trouble or "",
        detail=answer.detail,
    )
    row = WebhookDelivery.objects.filter(pk=claim.delivery.pk, state=WebhookDelivery.State.WAITING)
    if answer.trouble is None:
        row.update(state=WebhookDelivery.State.ACCEPTED, next_attempt_at=None, ended_at=now)
        endpoint.failing_since, endpoint.accepted_at = None, now
        endpoint.save(update_fields=["failing_since", "accepted_at"])
        return
    row.filter(attempts=claim.number).update(**_plan_next(claim, answer, now))
    _note_failure(endpoint, answer, now)


def _plan_next(claim: ClaimedDelivery, answer: WebhookAnswer, now: datetime) -> dict[str, Any]:
    retry_after = parse_retry_after(answer.headers, now)
    delay = plan_retry(claim.delivery.tries, random.random(), retry_after)  # noqa: S311
    if delay is None:
        return {"state": WebhookDelivery.State.FAILED, "next_attempt_at": None, "ended_at": now}
    return {"next_attempt_at": now + delay}


def _note_failure(endpoint: WebhookEndpoint, answer: WebhookAnswer, now: datetime) -> None:
    """Turn the endpoint off where it failed for too long, or said that it is gone: its managers are told of it."""
    if not endpoint.is_active:
        return
    endpoint.failing_since = endpoint.failing_since or now
    if answer.status == GONE:
        endpoint.turned_off = WebhookEndpoint.TurnedOff.GONE
    elif is_given_up(endpoint.failing_since, now):
        endpoint.turned_off = WebhookEndpoint.TurnedOff.FAILING
    if endpoint.turned_off:
        endpoint.turned_off_at = now
        verb, target = AnnotationVerb.WEBHOOK_GIVEN_UP, f"webhook:{endpoint.pk}"
        record_in_study(
            endpoint.study_id,
            actor=None,
            verb=verb,
            target=target,
            host=endpoint.host,
            why=endpoint.turned_off,
        )
    endpoint.save(update_fields=["failing_since", "turned_off", "turned_off_at"])
