"""People can be erased: an event of the audit trail may be rewritten where a row of its own says so.

On PostgreSQL the function of the triggers changes, and no trigger; on SQLite the trigger that refuses updates of events
is made anew. Nothing reads a row of the trail, however many there are.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import django.db.models.deletion
from django.db import migrations, models

GUARD = import_module("annotation.migrations.0055_audit_guard")
REWRITES = "annotation_auditrewrite"
REFUSE_ON_POSTGRESQL = """
CREATE OR REPLACE FUNCTION annotation_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'annotation_auditevent' THEN
        IF NEW.id = OLD.id AND NEW.at = OLD.at AND NEW.verb = OLD.verb
            AND NEW.actor_id IS NOT DISTINCT FROM OLD.actor_id
            AND NEW.study_id IS NOT DISTINCT FROM OLD.study_id
            AND EXISTS (SELECT 1 FROM annotation_auditrewrite WHERE event_id = OLD.id)
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'The audit trail is only appended to: %% on %% is refused.', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$
"""
GUARD_ON_SQLITE = """
CREATE TRIGGER annotation_auditevent_UPDATE_refused BEFORE UPDATE ON annotation_auditevent
WHEN NOT (NEW.id IS OLD.id AND NEW.at IS OLD.at AND NEW.verb IS OLD.verb
    AND NEW.actor_id IS OLD.actor_id AND NEW.study_id IS OLD.study_id
    AND EXISTS (SELECT 1 FROM annotation_auditrewrite WHERE event_id = OLD.id))
BEGIN
    SELECT RAISE(ABORT, 'The audit trail is only appended to: UPDATE on annotation_auditevent is refused.');
END
"""


def install_guard(_apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        if schema_editor.connection.vendor == "postgresql":
            cursor.execute(REFUSE_ON_POSTGRESQL, [])
            cursor.execute(GUARD.GUARD_ON_POSTGRESQL.format(table=REWRITES))
            return
        for act in ("UPDATE", "DELETE"):
            cursor.execute(GUARD.GUARD_ON_SQLITE.format(table=REWRITES, act=act))
        cursor.execute("DROP TRIGGER IF EXISTS annotation_auditevent_UPDATE_refused")
        cursor.execute(GUARD_ON_SQLITE)


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0060_chart_entry"),
    ]

    operations = [
        migrations.AddField(
            model_name="person",
            name="erased_at",
            field=models.DateTimeField(editable=False, null=True, verbose_name="erased"),
        ),
        migrations.AddConstraint(
            model_name="person",
            constraint=models.CheckConstraint(
                condition=models.Q(erased_at__isnull=True) | models.Q(is_active=False),
                name="person_erased_is_inactive",
            ),
        ),
        migrations.CreateModel(
            name="AuditRewrite",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("digest", models.BinaryField(max_length=32, verbose_name="hash")),
                (
                    "erasure",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="rewritten",
                        to="annotation.auditevent",
                        verbose_name="erasure",
                    ),
                ),
                (
                    "event",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="rewrites",
                        to="annotation.auditevent",
                        verbose_name="audit event",
                    ),
                ),
            ],
            options={
                "verbose_name": "rewrite of an audit event",
                "verbose_name_plural": "rewrites of audit events",
            },
        ),
        migrations.AddConstraint(
            model_name="auditrewrite",
            constraint=models.UniqueConstraint(
                fields=("event", "erasure"), name="audit_rewrite_once_per_erasure"
            ),
        ),
        migrations.RunPython(install_guard, migrations.RunPython.noop, elidable=False),
    ]
