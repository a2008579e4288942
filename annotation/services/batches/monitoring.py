"""Monitoring a batch: a worker measures its agreement and throughput, and a low agreement raises an alarm.

Any number of workers may watch at once, and any number of times: what is measured is written over, and an alarm is
raised under the batch's lock (``docs/decisions/agreement-alarm.md``).
"""

from __future__ import annotations

import logging
from datetime import timedelta
from time import monotonic

from django.db import transaction
from django.utils import timezone

from annotation.domain.verbs import AnnotationVerb
from annotation.models import Alarm, Batch, BatchStats, Person
from annotation.selectors.agreement import MIN_OPEN_LABELS
from annotation.selectors.batches.monitoring import (
    AgreementMeasurement,
    append_point,
    count_complete_tasks,
    count_days,
    count_decision_days,
    find_batch_stats,
    list_agreement_rows,
    list_measured_batches,
    measure_agreement,
    measure_time,
)
from annotation.selectors.batches.needs import MAX_TOLD, list_needs
from annotation.services.annotations.closings import close_blocks
from annotation.services.audit import record
from annotation.services.batches.batches import set_state
from annotation.services.counts import lock_memberships
from annotation.services.mail.reminders import post_alarm

logger = logging.getLogger(__name__)
# So many units must be complete before an interval is believed, and so many more after an alarm before the next.
MIN_UNITS = 30
# A batch is measured this often, and never for more than a twentieth of a worker's time.
MIN_INTERVAL = timedelta(seconds=25)
REST_FACTOR = 20


def watch_batches() -> None:
    """Measure every batch that is due. What goes wrong with one must not keep the others from it."""
    for batch in list_measured_batches():
        try:
            close_blocks(batch)
            watch_batch(batch)
        except Exception:
            logger.exception("could not watch the batch %s", batch.name)


def watch_batch(batch: Batch) -> BatchStats:
    """Measure the batch if it is due, and raise the alarm that its agreement asks for."""
    before = find_batch_stats(batch)
    stats = before if before is not None and not _is_due(batch, before) else _measure_batch(batch, before)
    rows = list_agreement_rows(stats)
    if rows and _is_low(batch, rows[0]):
        _raise_alarm(batch, rows[0])
    return stats


@transaction.atomic
def mark_alarm_seen(*, batch: Batch, actor: Person) -> bool:
    """A manager has seen to the alarm; False where none stands (any more)."""
    standing = Alarm.objects.filter(batch=batch, seen_at=None)
    if not standing.update(seen_at=timezone.now(), seen_by=actor):
        return False
    record(actor=actor, verb=AnnotationVerb.ALARM_SEEN, target=f"batch:{batch.name}")
    return True


def _is_due(batch: Batch, watch: BatchStats) -> bool:
    if batch.state == Batch.State.CLOSED:
        return not watch.final
    return timezone.now() - watch.at >= max(MIN_INTERVAL, timedelta(seconds=REST_FACTOR * watch.took))


def _measure_batch(batch: Batch, before: BatchStats | None) -> BatchStats:
    now, started = timezone.now(), monotonic()
    final = batch.state == Batch.State.CLOSED
    complete = count_complete_tasks(batch)
    # A complete task's labels do not change any more, so neither does agreement without another complete task; but
    # where more than two people label a task, it counts before it is complete.
    is_settled = batch.overlap <= MIN_OPEN_LABELS and batch.plan == Batch.Plan.FIXED
    same = before is not None and before.complete == complete and is_settled and not final
    agreement = before.agreement if before is not None and same else measure_agreement(batch)
    timed, timed_seconds = measure_time(batch)
    measured = {
        "at": now,
        "complete": complete,
        "agreement": agreement,
        "days": count_days(batch, before, now),
        "decision_days": count_decision_days(batch, now),
        "timed": timed,
        "timed_seconds": timed_seconds,
        "stuck": 0 if final else len(list_needs(batch, limit=MAX_TOLD + 1)),
        "final": final,
    }
    rows = list_agreement_rows(BatchStats(agreement=agreement))
    measured["history"] = append_point(before.history if before else [], rows[0] if rows else None)
    measured["took"] = monotonic() - started
    stats, _created = BatchStats.objects.update_or_create(batch=batch, defaults=measured)
    return stats


def _is_low(batch: Batch, first: AgreementMeasurement) -> bool:
    """Whether enough is known, and the whole interval does not stay above the threshold."""
    threshold, low = batch.agreement_threshold, first.alpha.low
    if threshold is None or low is None or batch.state not in (Batch.State.OPEN, Batch.State.PAUSED):
        return False
    return first.n >= MIN_UNITS and low < threshold


@transaction.atomic
def _raise_alarm(batch: Batch, first: AgreementMeasurement) -> None:
    """Unless one stands, or too little has come since the last one. Lock order: memberships, batch."""
    if batch.alarm_action == Batch.AlarmAction.PAUSE:
        lock_memberships(batch)
    locked = Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
    alpha, threshold = first.alpha, locked.agreement_threshold
    assert alpha.value is not None
    assert alpha.low is not None
    assert alpha.high is not None
    last = Alarm.objects.filter(batch=batch).first()
    if last is not None and (last.seen_at is None or first.n < last.units + MIN_UNITS):
        return
    if threshold is None or not _is_low(locked, first):
        return
    pausing = locked.state == Batch.State.OPEN and batch.alarm_action == Batch.AlarmAction.PAUSE
    if pausing:
        set_state(batch=batch, state=Batch.State.PAUSED)
    alarm = Alarm.objects.create(
        batch=batch,
        at=timezone.now(),
        criterion=first.criterion or "",
        value=alpha.value,
        low=alpha.low,
        high=alpha.high,
        units=first.n,
        threshold=threshold,
        paused=pausing,
    )
    post_alarm(alarm)
    record(
        actor=None,
        verb=AnnotationVerb.AGREEMENT_ALARM,
        target=f"batch:{batch.name}",
        criterion=first.criterion,
        value=alpha.value,
        low=alpha.low,
        units=first.n,
        threshold=threshold,
        paused=pausing,
    )
