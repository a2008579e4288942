"""A task may have any number of annotators: the adjudicator's slot moves from 5 to where no annotator's is.

No statement holds a table for longer than some thousand rows take. From the first one on the new constraint refuses
what a worker of before still writes (its adjudications take slot 5), so that nothing it does is misread; who is refused
sends once more. Running it again goes on where it was.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models, transaction
from django.db.models import Max, Min

CHUNK = 5000
BEFORE, ADJUDICATION_SLOT, MAX_OVERLAP = 5, 2**15 - 1, 10_000
CONSTRAINT = models.CheckConstraint(
    condition=models.Q(slot=ADJUDICATION_SLOT) | models.Q(~models.Q(slot=BEFORE), slot__lte=MAX_OVERLAP),
    name="assignment_slot_in_range",
)
REPLACE_ON_POSTGRESQL = f"""
ALTER TABLE annotation_assignment DROP CONSTRAINT IF EXISTS assignment_slot_in_range,
    ADD CONSTRAINT assignment_slot_in_range
    CHECK (slot = {ADJUDICATION_SLOT} OR (slot <> {BEFORE} AND slot <= {MAX_OVERLAP})) NOT VALID
"""
VALIDATE_ON_POSTGRESQL = "ALTER TABLE annotation_assignment VALIDATE CONSTRAINT assignment_slot_in_range"


class ReplaceConstraint(migrations.RemoveConstraint):
    """On PostgreSQL the new constraint comes with the going of the old, for what is written from then on."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(REPLACE_ON_POSTGRESQL)
            return
        with transaction.atomic(using=schema_editor.connection.alias):
            super().database_forwards(app_label, schema_editor, from_state, to_state)


class HoldConstraint(migrations.AddConstraint):
    """For every row; PostgreSQL reads them without keeping anybody from writing."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(VALIDATE_ON_POSTGRESQL)
            return
        with transaction.atomic(using=schema_editor.connection.alias):
            super().database_forwards(app_label, schema_editor, from_state, to_state)


def move_adjudicators(apps: Any, schema_editor: Any) -> None:
    """By ranges of tasks, which an index knows; each in a transaction of its own."""
    alias = schema_editor.connection.alias
    assignments = apps.get_model("annotation", "Assignment").objects.using(alias)
    ends = (
        apps.get_model("annotation", "Task").objects.using(alias).aggregate(first=Min("pk"), last=Max("pk"))
    )
    for start in range(ends["first"] or 0, (ends["last"] or -1) + 1, CHUNK):
        with transaction.atomic(using=alias):
            assignments.filter(task__gte=start, task__lt=start + CHUNK, slot=BEFORE).update(
                slot=ADJUDICATION_SLOT
            )


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("annotation", "0027_imported_protocol"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="batch",
            name="batch_overlap_1_to_5",
        ),
        migrations.AddConstraint(
            model_name="batch",
            constraint=models.CheckConstraint(
                condition=models.Q(("overlap__gte", 1), ("overlap__lte", MAX_OVERLAP)),
                name="batch_overlap_in_range",
            ),
        ),
        migrations.AddField(
            model_name="membercounts",
            name="revised",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        ReplaceConstraint(
            model_name="assignment",
            name="assignment_slot_in_range",
        ),
        migrations.RunPython(move_adjudicators, migrations.RunPython.noop),
        HoldConstraint(
            model_name="assignment",
            constraint=CONSTRAINT,
        ),
    ]
