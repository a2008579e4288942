"""Sealing the audit trail: every event gets its place in the chain and its hash (docs/decisions/audit-chain.md)."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef

from annotation.domain.audit import CONTENT, GENESIS, EventContent, chain_events
from annotation.models import AuditEvent, AuditSeal
from annotation.selectors.audit.chain import find_head, find_last_seal

logger = logging.getLogger(__name__)
BLOCK = 5000
LOOK_BACK = timedelta(days=2)
"""How long before the newest sealed event another may have begun whose transaction ended after it."""


def seal_events(*, is_full: bool = False) -> int:
    """Seal what is not sealed, block by block; how many events that were.

    Nobody who records waits for it. It looks for events from two days before the newest sealed on, ``is_full``: for
    those of any time.
    """
    sealed = 0
    while number := _seal_block(is_full=is_full):
        sealed += number
    head = find_head() if sealed else None
    if head is not None:
        logger.info("audit trail sealed, head %s:%s", head.position, head.digest)
    return sealed


def _seal_block(*, is_full: bool) -> int:
    """One block, in a transaction of its own; 0 where nothing is left, or another process seals."""
    try:
        with transaction.atomic():
            last = find_last_seal(AuditSeal.objects.select_for_update(skip_locked=True))
            if last != find_last_seal(AuditSeal.objects.all()):
                return 0
            floor = 0 if last is None or is_full else _find_floor(last.event_id)
            seals = AuditSeal.objects.filter(event=OuterRef("pk"), event__gte=floor)
            unsealed = AuditEvent.objects.filter(~Exists(seals), pk__gte=floor)
            rows = unsealed.order_by("pk").values_list(*CONTENT)[:BLOCK]
            block = [EventContent(*row) for row in rows]
            position = 0 if last is None else last.position
            digests = chain_events(GENESIS if last is None else bytes(last.digest), block)
            AuditSeal.objects.bulk_create(
                AuditSeal(position=position + number, event_id=event.id, digest=digest)
                for number, (event, digest) in enumerate(zip(block, digests, strict=True), 1)
            )
    except IntegrityError:  # two began the chain at the same moment
        return 0
    return len(block)


def _find_floor(newest: int) -> int:
    """The first event of the two days before the newest sealed one, whose id is ``newest``."""
    events = AuditEvent.objects.all()
    at = events.filter(pk__lte=newest).order_by("-pk").values_list("at", flat=True).first()
    if at is None:
        return 0
    return (
        events.filter(at__gte=at - LOOK_BACK).order_by("at", "pk").values_list("pk", flat=True).first() or 0
    )
