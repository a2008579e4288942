"""Whether the triggers that refuse changes of the audit trail are there."""

from __future__ import annotations

from django.db import connection

from annotation.models import AuditEvent, AuditRewrite, AuditSeal

GUARDED = (AuditEvent._meta.db_table, AuditSeal._meta.db_table, AuditRewrite._meta.db_table)
ON_POSTGRESQL = """
SELECT c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = to_regclass(%s) AND t.tgenabled IN ('O', 'A') AND p.proname = 'annotation_refuse_audit_change'
"""
ON_SQLITE = "SELECT tbl_name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s AND sql LIKE '%%RAISE(ABORT%%'"
TRIGGERS_OF_TABLE = 2


def list_unguarded_tables() -> list[str]:
    """The tables of the trail on which a trigger is missing, or is turned off."""
    statement = ON_POSTGRESQL if connection.vendor == "postgresql" else ON_SQLITE
    unguarded = []
    with connection.cursor() as cursor:
        for table in GUARDED:
            cursor.execute(statement, [table])
            if len(cursor.fetchall()) < TRIGGERS_OF_TABLE:
                unguarded.append(table)
    return unguarded
