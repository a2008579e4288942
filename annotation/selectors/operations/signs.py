"""When beat and the workers were last heard of (annotation/core/signs.py), by the database's clock."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import ExpressionWrapper, F, fields
from django.db.models.functions import Now

from annotation.core.signs import FORGOTTEN_AFTER, KEY
from annotation.models import CacheEntry

STALE_SECONDS = 60
"""After so many seconds without a sign a process is taken for gone."""


@dataclass(frozen=True)
class Sign:
    kind: str
    name: str
    """Of a worker its node, as Celery calls it."""
    seconds: float
    """Since the sign."""
    queues: tuple[str, ...] = ()
    """Of a worker: those from which it takes."""

    @property
    def is_stale(self) -> bool:
        return self.seconds > STALE_SECONDS


def list_signs(kind: str) -> list[Sign]:
    """Of the last day, the latest first."""
    prefix = KEY.format(kind=kind, name="")
    age = ExpressionWrapper(Now() - F("expires"), output_field=fields.DurationField())
    entries = CacheEntry.objects.filter(cache_key__startswith=prefix, expires__gt=Now())
    rows = entries.order_by("-expires").values_list("cache_key", "value", age)
    return [
        Sign(
            kind,
            key.removeprefix(prefix),
            max(0.0, (left + FORGOTTEN_AFTER).total_seconds()),
            tuple(queues.split()),
        )
        for key, queues, left in rows
    ]
