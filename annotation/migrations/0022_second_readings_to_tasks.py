"""Second readings of before become tasks of kind ``repeat``, each with its claim, its verdict and its decision.

The id of a reading becomes the id of its claim, so that addresses, receipts and the order of A and B stay. A transaction
converts some rows and takes them away: a run that was interrupted goes on where it stood.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from django.db import migrations, transaction
from django.db.models import F

CHUNK = 1000
ADJUDICATION_SLOT = 5
# What a reading is as a task, and as the claim on one.
TASK_STATE = {
    "waiting": "disputed",
    "claimed": "disputed",
    "submitted": "adjudicated",
    "dropped": "withdrawn",
}
CLAIM_STATE = {
    "waiting": "released",
    "claimed": "claimed",
    "submitted": "submitted",
    "dropped": "released",
}


def convert(apps: Any, schema_editor: Any) -> None:
    alias = schema_editor.connection.alias
    readings = apps.get_model("annotation", "SecondReading").objects.using(alias)
    readings = readings.select_related("task__stratum", "task__adjudication__assignment").order_by("pk")
    while True:
        with transaction.atomic(using=alias):
            chunk = list(readings[:CHUNK])
            if not chunk:
                return
            _convert(apps, alias, chunk)
            readings.model.objects.using(alias).filter(pk__in=[reading.pk for reading in chunk]).delete()


def _convert(apps: Any, alias: str, readings: Sequence[Any]) -> None:
    strata = _find_or_make_strata(apps, alias, readings)
    tasks = _make_tasks(apps, alias, readings, strata)
    _make_claims(apps, alias, readings, tasks)
    _make_decisions(apps, alias, readings, tasks)
    _count(apps, alias, readings, strata)


def _find_or_make_strata(apps: Any, alias: str, readings: Sequence[Any]) -> dict[int, int]:
    """By the stratum of the dispute the one of its repeat adjudications."""
    strata = apps.get_model("annotation", "Stratum").objects.using(alias)
    found: dict[int, int] = {}
    for work in {reading.task.stratum_id: reading.task.stratum for reading in readings}.values():
        stratum, _created = strata.get_or_create(
            batch_id=work.batch_id,
            kind="repeat",
            dataset_id=work.dataset_id,
            dimension=work.dimension,
            language=work.language,
            model_id=work.model_id,
        )
        found[work.pk] = stratum.pk
    return found


def _make_tasks(apps: Any, alias: str, readings: Sequence[Any], strata: dict[int, int]) -> dict[Any, int]:
    """The ids of the tasks, by the reading."""
    Task = apps.get_model("annotation", "Task")
    made = Task.objects.using(alias).bulk_create(
        Task(
            batch_id=reading.batch_id,
            response_id=reading.task.response_id,
            prompt_id=reading.task.prompt_id,
            stratum_id=strata[reading.task.stratum_id],
            kind="repeat",
            state=TASK_STATE[reading.state],
            overlap=1,
            position=reading.task.position,
            rank=reading.task.position,
            settled_at=reading.submitted_at,
            repeats_id=reading.task_id,
            due_at=reading.due_at,
        )
        for reading in readings
    )
    return {reading.pk: task.pk for reading, task in zip(readings, made, strict=True)}


def _make_claims(apps: Any, alias: str, readings: Sequence[Any], tasks: dict[Any, int]) -> None:
    """What was never handed out has none."""
    Assignment = apps.get_model("annotation", "Assignment")
    reasons = _find_skip_reasons(apps, alias, readings)
    Assignment.objects.using(alias).bulk_create(
        Assignment(
            id=reading.pk,
            batch_id=reading.batch_id,
            task_id=tasks[reading.pk],
            person_id=reading.person_id,
            slot=ADJUDICATION_SLOT,
            state=CLAIM_STATE[reading.state],
            claimed_at=reading.claimed_at,
            lease_expires=reading.lease_expires,
            submitted_at=reading.submitted_at,
            skip_reason=reasons.get(reading.task_id, "-") if reading.state == "dropped" else "",
        )
        for reading in readings
        if reading.claimed_at is not None
    )


def _find_skip_reasons(apps: Any, alias: str, readings: Sequence[Any]) -> dict[int, str]:
    """By the task that was decided first: the trail alone has them."""
    targets = {
        f"task:{reading.task_id}": reading.task_id for reading in readings if reading.state == "dropped"
    }
    events = apps.get_model("annotation", "AuditEvent").objects.using(alias)
    events = events.filter(verb="skip_second_reading", target__in=targets)
    reasons = {targets[event.target]: str(event.data.get("reason") or "") for event in events.order_by("pk")}
    return {task: reason[:500] for task, reason in reasons.items() if reason}


def _make_decisions(apps: Any, alias: str, readings: Sequence[Any], tasks: dict[Any, int]) -> None:
    Verdict = apps.get_model("annotation", "Verdict")
    Verdict.objects.using(alias).bulk_create(
        Verdict(
            assignment_id=reading.pk,
            labels=reading.verdict["labels"],
            rationale=reading.verdict.get("rationale", ""),
            seconds=reading.verdict.get("seconds"),
            channel=reading.verdict.get("channel", ""),
            created_at=reading.submitted_at or reading.claimed_at,
        )
        for reading in readings
        if reading.verdict is not None
    )
    Adjudication = apps.get_model("annotation", "Adjudication")
    Adjudication.objects.using(alias).bulk_create(
        Adjudication(
            task_id=tasks[reading.pk],
            assignment_id=reading.pk,
            labels=reading.labels,
            reason_id=reading.reason_id,
            rationale=reading.rationale,
            seconds=reading.seconds,
            receipt=reading.receipt,
            idempotency_key=reading.idempotency_key,
            body_sha256=reading.body_sha256,
            channel=reading.channel,
            created_at=reading.submitted_at,
        )
        for reading in readings
        if reading.state == "submitted"
    )


def _count(apps: Any, alias: str, readings: Sequence[Any], strata: dict[int, int]) -> None:
    """Each as its member's calls would have counted it; who is no member any more is counted with the batch."""
    members = apps.get_model("annotation", "Membership").objects.using(alias).filter(role="adjudicator")
    people, batches = ({getattr(reading, name) for reading in readings} for name in ("person_id", "batch_id"))
    found = members.filter(person__in=people, batch__in=batches)
    member_of = {(member.batch_id, member.person_id): member.pk for member in found}
    counts: dict[tuple[int | None, int], Counter[str]] = defaultdict(Counter)
    for reading in readings:
        member = member_of.get((reading.batch_id, reading.person_id))
        changes = counts[member, strata[reading.task.stratum_id]]
        changes[TASK_STATE[reading.state]] += 1
        changes["skipped"] += reading.state == "dropped" and member is not None
    tallies = apps.get_model("annotation", "Tally").objects.using(alias)
    of_batches = apps.get_model("annotation", "Stratum").objects.using(alias)
    for (member, stratum), changes in counts.items():
        added = {column: F(column) + number for column, number in changes.items() if number}
        if member is None:
            of_batches.filter(pk=stratum).update(**added)
        else:
            tally, _created = tallies.get_or_create(membership_id=member, stratum_id=stratum)
            tallies.filter(pk=tally.pk).update(**added)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("annotation", "0021_repeat_adjudications")]
    operations = [
        migrations.RunPython(convert, migrations.RunPython.noop),
        migrations.DeleteModel("SecondReading"),
    ]
