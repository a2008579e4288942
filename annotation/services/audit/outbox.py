"""What the audit trail's events and settled tasks leave for webhooks: rows, in the transaction of the act itself.

Nothing is sent here, and nothing waits: a job sends what is due (annotation/services/webhooks/sending.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from django.db.models import Q, QuerySet

from annotation.domain.audit import split_target
from annotation.domain.webhooks.events import EVENT_BY_VERB, OF_OPEN_BATCHES, WebhookEvent
from annotation.models import AuditEvent, Batch, WebhookDelivery, WebhookEndpoint
from annotation.models.sql.webhooks import draw_message_id

BATCH_SIZE = 1000


def announce_event(event: AuditEvent) -> None:
    """Write a delivery for each endpoint that asks for what the event is; most verbs are for none."""
    kind = EVENT_BY_VERB.get(event.verb)
    if kind is None:
        return
    endpoints = list(select_endpoints(kind, event.study_id))
    if endpoints:
        batch_id = _find_batch(event) if kind in OF_OPEN_BATCHES else None
        origin = {"study_id": event.study_id, "batch_id": batch_id}
        _write_deliveries(kind, endpoints, [event.target], event.at, origin)


class SettledTasks:
    """The many tasks of a batch that an import or the end of a batch settles; of each ``write_settled_delivery``.

    Who asks for them is looked up once.
    """

    def __init__(self, batch: Batch) -> None:
        self._endpoints = list(select_endpoints(WebhookEvent.TASK_SETTLED, batch.study_id))
        self._origin: dict[str, int | None] = {"study_id": batch.study_id, "batch_id": batch.pk}

    def announce(self, tasks: Iterable[int], now: datetime) -> None:
        if self._endpoints:
            targets = [f"task:{task}" for task in tasks]
            _write_deliveries(WebhookEvent.TASK_SETTLED, self._endpoints, targets, now, self._origin)


def select_endpoints(kind: WebhookEvent, study_id: int | None) -> QuerySet[WebhookEndpoint]:
    """Those of the study and of the site that are on and ask for such events."""
    owners = Q(study=None) if study_id is None else Q(study=None) | Q(study=study_id)
    return WebhookEndpoint.objects.filter(owners, turned_off="", events__contains=f",{kind.value},")


def _write_deliveries(
    kind: WebhookEvent,
    endpoints: Iterable[WebhookEndpoint],
    targets: Iterable[str],
    occurred_at: datetime,
    origin: Mapping[str, int | None],
) -> None:
    ids = [(target, draw_message_id()) for target in targets]
    rows = [
        WebhookDelivery(
            endpoint=endpoint,
            message_id=message_id,
            type=kind.value,
            target=target,
            occurred_at=occurred_at,
            next_attempt_at=occurred_at,
            **origin,
        )
        for endpoint in endpoints
        for target, message_id in ids
    ]
    WebhookDelivery.objects.bulk_create(rows, batch_size=BATCH_SIZE)


def _find_batch(event: AuditEvent) -> int | None:
    name = split_target(event.target)[1]
    rows = Batch._base_manager.filter(name=name, study=event.study_id)
    return rows.values_list("pk", flat=True).first()
