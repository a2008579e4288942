"""What a program makes by a call is made once, however often the call is sent.

The row of the key is written in the transaction of what is made: either both are there or neither is. Of two calls with
one key at the same time the second waits for the first, and then gets its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, Unprocessable
from annotation.models import IdempotencyKey, Person


@dataclass(frozen=True)
class MadeAnswer:
    """``body`` is JSON. An answer that ``is_repeated`` was given to an earlier call."""

    status: int
    body: dict[str, Any]
    is_repeated: bool = False


@transaction.atomic
def answer_once(*, person: Person, key: str, sha256: str, act: Callable[[], MadeAnswer]) -> MadeAnswer:
    """What ``act`` answers, or answered to the person's first call with this key. ``sha256`` is of all that the call
    says; Unprocessable where the first one said something else. What ``act`` raises undoes the row, too.
    """
    attempt = uuid4()
    # Waits for a call with this key whose transaction has not ended.
    IdempotencyKey.objects.bulk_create(
        [IdempotencyKey(person=person, key=key, sha256=sha256, attempt=attempt, created_at=timezone.now())],
        ignore_conflicts=True,
    )
    row = IdempotencyKey.objects.get(person=person, key=key)
    if row.attempt == attempt:
        answer = act()
        IdempotencyKey.objects.filter(pk=row.pk).update(status=answer.status, body=answer.body)
        return answer
    if row.sha256 != sha256:
        raise Unprocessable(
            N_("This Idempotency-Key was sent before with something else: take a new key for a new call.")
        )
    return MadeAnswer(row.status, row.body, is_repeated=True)
