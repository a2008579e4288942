"""Fill what 0015_results_opened made.

Of the time before openings were recorded it is presumed who opened results: whoever could, by the roles that the audit
trail tells. In batches with gold checks that still run all submissions are shown closed in blocks from now on.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from django.db import migrations
from django.db.models import F, Q
from django.utils import timezone

READERS = frozenset({"manager", "researcher"})
ROLES_TOLD = ("add_person", "set_roles")
Span = tuple[datetime, datetime]


def presume(apps: Any, schema_editor: Any) -> None:
    """An opening for each batch that is not closed and each person who could have opened its results by now."""
    alias, now = schema_editor.connection.alias, timezone.now()
    openings = apps.get_model("annotation", "ResultOpening").objects.using(alias)
    people = apps.get_model("annotation", "Person").objects.using(alias).prefetch_related("groups")
    batches = apps.get_model("annotation", "Batch").objects.using(alias).exclude(state="closed")
    spans = _spans(_role_events(apps, alias), people, now)
    joined = _joined(apps, alias)
    for batch in batches:
        first = _first_results(apps, alias, batch)
        members = set(batch.memberships.values_list("person__username", flat=True))
        if first is None:
            continue
        presumed = []
        for person in people:
            until = joined.get((batch.name, person.username)) if person.username in members else now
            since = _since(spans[person.username], first, until) if until else None
            if since is not None:
                presumed.append(openings.model(person=person, batch=batch, first_at=since, presumed=True))
        openings.bulk_create(presumed, ignore_conflicts=True)


def _since(spans: list[Span], first: datetime, until: datetime) -> datetime | None:
    """When somebody with these spans of reading could first have read what was there from ``first`` on."""
    return min(
        (max(start, first) for start, end in spans if max(start, first) < min(end, until)), default=None
    )


def _first_results(apps: Any, alias: str, batch: Any) -> datetime | None:
    """When there first was something to read; None where there is nothing yet."""
    if apps.get_model("annotation", "KnownItem").objects.using(alias).filter(batch=batch).exists():
        return batch.created_at
    submitted = apps.get_model("annotation", "Assignment").objects.using(alias).filter(batch=batch)
    times = submitted.filter(submitted_at__isnull=False).order_by("submitted_at")
    return times.values_list("submitted_at", flat=True).first()


def _role_events(apps: Any, alias: str) -> dict[str, list[tuple[datetime, bool]]]:
    """By person: when their roles were set, and whether one of them reads results."""
    events = apps.get_model("annotation", "AuditEvent").objects.using(alias).filter(verb__in=ROLES_TOLD)
    changes: dict[str, list[tuple[datetime, bool]]] = defaultdict(list)
    for at, target, data in events.order_by("pk").values_list("at", "target", "data").iterator():
        changes[target.removeprefix("person:")].append((at, not READERS.isdisjoint(data.get("roles", ()))))
    return changes


def _spans(
    changes: dict[str, list[tuple[datetime, bool]]], people: Any, now: datetime
) -> dict[str, list[Span]]:
    """From when to when each person could read results. What no event tells of is taken to have been so always."""
    spans = {}
    for person in people:
        events = changes.get(person.username, [])
        ends = [*(at for at, _reads in events[1:]), now]
        of_person = (
            [(at, end) for (at, reads), end in zip(events, ends, strict=True) if reads] if events else []
        )
        reads_now = person.is_superuser or not READERS.isdisjoint(group.name for group in person.groups.all())
        if reads_now and (person.is_superuser or not events or not events[-1][1]):
            of_person.append((person.date_joined, now))
        spans[person.username] = of_person
    return spans


def _joined(apps: Any, alias: str) -> dict[tuple[str, str], datetime]:
    """When people joined batches that were there already, by the batch's name and theirs."""
    events = apps.get_model("annotation", "AuditEvent").objects.using(alias).filter(verb="join_batch")
    joined: dict[tuple[str, str], datetime] = {}
    for at, target, data in events.order_by("pk").values_list("at", "target", "data").iterator():
        for name in data.get("people", ()):
            joined.setdefault((target.removeprefix("batch:"), name), at)
    return joined


def begin_blocks(apps: Any, schema_editor: Any) -> None:
    """Where gold checks are mixed into work that other people close."""
    batches = apps.get_model("annotation", "Batch").objects.using(schema_editor.connection.alias)
    untold = Q(known_items__kind="check", known_items__given__told_at=None, known_items__given__isnull=False)
    checked = batches.filter(Q(check_share__gt=0, check_feedback=False) | untold).exclude(state="closed")
    ids = set(checked.filter(overlap__gt=1).order_by().values_list("pk", flat=True))
    batches.filter(pk__in=ids).update(blocks_since=F("created_at"))


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0015_results_opened"),
    ]

    operations = [
        migrations.RunPython(presume, migrations.RunPython.noop),
        migrations.RunPython(begin_blocks, migrations.RunPython.noop),
    ]
