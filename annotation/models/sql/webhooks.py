"""A settled task for the webhooks of its study: one statement in the transaction that settles it."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from annotation.core.sql import Statement, to_database
from annotation.domain.webhooks.events import WebhookEvent
from annotation.models import WebhookDelivery
from annotation.models.sql.tables import BATCHES, WEBHOOK_DELIVERIES, WEBHOOK_ENDPOINTS


def draw_message_id() -> str:
    return f"msg_{uuid4().hex}"


def write_settled_delivery(task_id: int, batch_id: int, now: datetime) -> Statement:
    """A row for each endpoint that asks for it; where nobody does, nothing is written."""
    moment = to_database(WebhookDelivery, "occurred_at", now)
    event = WebhookEvent.TASK_SETTLED.value
    state = WebhookDelivery.State.WAITING.value
    params = [draw_message_id(), event, f"task:{task_id}", moment, state, moment, batch_id, f"%,{event},%"]
    return Statement(WRITE_SETTLED, params)


WRITE_SETTLED = f"""
INSERT INTO {WEBHOOK_DELIVERIES}
    (endpoint_id, message_id, type, target, study_id, batch_id, occurred_at, state, tries, attempts, next_attempt_at)
SELECT e.id, %s, %s, %s, b.study_id, b.id, %s, %s, 0, 0, %s
FROM {WEBHOOK_ENDPOINTS} e JOIN {BATCHES} b ON e.study_id IS NULL OR e.study_id = b.study_id
WHERE b.id = %s AND e.turned_off = '' AND e.events LIKE %s
"""
