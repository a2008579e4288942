"""The audit trail can be read by time, study, person and verb; then triggers refuse every change of it.

Events of before get their address and browser out of their data, where they had them, and their study where it is
known: of a batch, a dataset, a release or a task, and on a site of one study of whatever is of a study. Block by block
in small transactions, each of which may be repeated: people can go on working meanwhile. On PostgreSQL nobody waits for
the building of an index, either.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models, transaction
from django.db.models import Max

CHUNK = 10_000
EVENTS, SEALS = "annotation_auditevent", "annotation_auditseal"
# What is of an account or of the site, whose events are of no study.
OF_SITE = (
    "end_tokens",
    "make_setup_link",
    "make_token",
    "revoke_setup_link",
    "revoke_token",
    "set_password",
    "sign_in",
    "sign_in_failed",
    "sign_in_throttled",
    "sign_out",
    "token_refused",
    "use_setup_link",
)
FILL_ORIGIN = {
    "postgresql": """
UPDATE annotation_auditevent
SET address = left(coalesce(data->>'address', ''), 45), agent = left(coalesce(data->>'agent', ''), 200)
WHERE id > %s AND id <= %s AND address = '' AND jsonb_exists(data, 'address')
""",
    "sqlite": """
UPDATE annotation_auditevent
SET address = substr(coalesce(json_extract(data, '$.address'), ''), 1, 45),
    agent = substr(coalesce(json_extract(data, '$.agent'), ''), 1, 200)
WHERE id > %s AND id <= %s AND address = '' AND json_extract(data, '$.address') IS NOT NULL
""",
}
# On a site of several studies: what has its name in one of them alone.
FILL_NAMED = (
    """
UPDATE annotation_auditevent SET study_id = (
    SELECT min(b.study_id) FROM annotation_batch b WHERE b.name = substr(target, 7) HAVING count(*) = 1
) WHERE id > %s AND id <= %s AND study_id IS NULL AND target LIKE 'batch:%%'
""",
    """
UPDATE annotation_auditevent SET study_id = (
    SELECT min(d.study_id) FROM annotation_dataset d WHERE d.name = substr(target, 9) HAVING count(*) = 1
) WHERE id > %s AND id <= %s AND study_id IS NULL AND target LIKE 'dataset:%%'
""",
    """
UPDATE annotation_auditevent SET study_id = (
    SELECT min(r.study_id) FROM annotation_goldrelease r WHERE r.name = substr(target, 9) HAVING count(*) = 1
) WHERE id > %s AND id <= %s AND study_id IS NULL AND target LIKE 'release:%%'
""",
    """
UPDATE annotation_auditevent SET study_id = (
    SELECT b.study_id FROM annotation_task t JOIN annotation_batch b ON b.id = t.batch_id
    WHERE t.id = CAST(substr(target, 6) AS bigint)
) WHERE id > %s AND id <= %s AND study_id IS NULL AND target LIKE 'task:%%'
""",
)
IS_VALID_ON_POSTGRESQL = """
SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relname = %s AND pg_table_is_visible(c.oid)
"""
REFUSE_ON_POSTGRESQL = """
CREATE OR REPLACE FUNCTION annotation_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'The audit trail is only appended to: %% on %% is refused.', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$
"""
GUARD_ON_POSTGRESQL = """
DROP TRIGGER IF EXISTS {table}_row_stays ON {table};
CREATE TRIGGER {table}_row_stays BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION annotation_refuse_audit_change();
DROP TRIGGER IF EXISTS {table}_stays ON {table};
CREATE TRIGGER {table}_stays BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION annotation_refuse_audit_change();
"""
GUARD_ON_SQLITE = """
CREATE TRIGGER IF NOT EXISTS {table}_{act}_refused BEFORE {act} ON {table} BEGIN
    SELECT RAISE(ABORT, 'The audit trail is only appended to: {act} on {table} is refused.');
END
"""


class BuildIndex(migrations.AddIndex):
    """Only where it is not there: a migration that broke off is begun again. PostgreSQL builds it while others write; what
    is left of a building that broke off is taken away first.
    """

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        connection = schema_editor.connection
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(IS_VALID_ON_POSTGRESQL, [self.index.name])
                is_valid = cursor.fetchone()
            if is_valid == (True,):
                return
            if is_valid is not None:
                schema_editor.execute(f'DROP INDEX CONCURRENTLY "{self.index.name}"')
            model = to_state.apps.get_model(app_label, self.model_name)
            schema_editor.add_index(model, self.index, concurrently=True)
            return
        with connection.cursor() as cursor:
            is_there = self.index.name in connection.introspection.get_constraints(cursor, EVENTS)
        if not is_there:
            super().database_forwards(app_label, schema_editor, from_state, to_state)


def fill(apps: Any, schema_editor: Any) -> None:
    connection = schema_editor.connection
    events = apps.get_model("annotation", "AuditEvent").objects.using(connection.alias)
    studies = (
        apps.get_model("annotation", "Study").objects.using(connection.alias).values_list("pk", flat=True)
    )
    only_study = studies[0] if len(studies[:2]) == 1 else None
    last = events.aggregate(last=Max("pk"))["last"] or 0
    for start in range(0, last, CHUNK):
        block = [start, start + CHUNK]
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute(FILL_ORIGIN[connection.vendor], block)
            if only_study is not None:
                of_block = events.filter(pk__gt=start, pk__lte=start + CHUNK, study=None)
                of_block.exclude(verb__in=OF_SITE).update(study=only_study)
            else:
                for statement in FILL_NAMED:
                    cursor.execute(statement, block)


def install_guard(_apps: Any, schema_editor: Any) -> None:
    is_postgresql = schema_editor.connection.vendor == "postgresql"
    with schema_editor.connection.cursor() as cursor:
        if is_postgresql:
            cursor.execute(REFUSE_ON_POSTGRESQL, [])
        for table in (EVENTS, SEALS):
            if is_postgresql:
                cursor.execute(GUARD_ON_POSTGRESQL.format(table=table))
            else:
                for act in ("UPDATE", "DELETE"):
                    cursor.execute(GUARD_ON_SQLITE.format(table=table, act=act))


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("annotation", "0054_audit_origin"),
    ]

    operations = [
        BuildIndex("auditevent", models.Index(fields=["at", "id"], name="audit_by_time")),
        BuildIndex("auditevent", models.Index(fields=["study", "at", "id"], name="audit_by_study")),
        BuildIndex("auditevent", models.Index(fields=["actor", "at", "id"], name="audit_by_actor")),
        BuildIndex("auditevent", models.Index(fields=["verb", "at", "id"], name="audit_by_verb")),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.RunPython(install_guard, migrations.RunPython.noop),
    ]
