"""What webhooks tell of: the types of events, and which act of the audit trail is which. Pure.

The values stand in addresses of receivers' programs and in stored rows, and never change.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from annotation.core.errors import N_


class WebhookEvent(StrEnum):
    TASK_SETTLED = "task.settled"
    BATCH_CLOSED = "batch.closed"
    AGREEMENT_ALARM = "agreement.alarm"
    RELEASE_CUT = "release.cut"
    SCORER_PROMOTED = "scorer.promoted"
    RUN_DONE = "run.done"
    TEST = "webhook.test"


EVENT_LABELS = {
    WebhookEvent.TASK_SETTLED: N_("A task is settled"),
    WebhookEvent.BATCH_CLOSED: N_("A batch is closed"),
    WebhookEvent.AGREEMENT_ALARM: N_("The agreement of a batch falls below its threshold"),
    WebhookEvent.RELEASE_CUT: N_("A gold release is cut"),
    WebhookEvent.SCORER_PROMOTED: N_("A scorer becomes the current one"),
    WebhookEvent.RUN_DONE: N_("A benchmark run is done"),
    WebhookEvent.TEST: N_("A test"),
}
SUBSCRIBED = tuple(event for event in WebhookEvent if event is not WebhookEvent.TEST)
"""What an endpoint can ask for; a test goes to each."""

EVENT_BY_VERB = {
    "batch_closed": WebhookEvent.BATCH_CLOSED,
    "agreement_alarm": WebhookEvent.AGREEMENT_ALARM,
    "release_gold": WebhookEvent.RELEASE_CUT,
    "promote_scorer": WebhookEvent.SCORER_PROMOTED,
    "go_back_to_scorer": WebhookEvent.SCORER_PROMOTED,
    "end_run": WebhookEvent.RUN_DONE,
}
"""By the stored value of the verb. A settled task is no act of the trail: its labels keep who and when themselves."""

OF_OPEN_BATCHES = frozenset({WebhookEvent.TASK_SETTLED, WebhookEvent.AGREEMENT_ALARM})
"""They tell how labels compare while people still judge blind: when a task settles says whether two agreed."""
BLIND_SAFE = frozenset({WebhookEvent.BATCH_CLOSED, WebhookEvent.TEST})
"""What whoever judges blind may read, as in the audit trail."""


def join_events(events: Iterable[str]) -> str:
    """As they are stored, in the order of their declaration: each between commas, so that one is looked for whole."""
    subscribed = set(events)
    listed = [event.value for event in SUBSCRIBED if event.value in subscribed]
    return f",{','.join(listed)}," if listed else ""


def split_events(stored: str) -> list[WebhookEvent]:
    return [WebhookEvent(part) for part in stored.split(",") if part]
