"""Labels that were imported before get their file and line, from the key that each of them kept.

A label's key names the sha256 of its file and its line. Where the same file went into a batch more than once, as first
without and then with its decisions, the audit events tell until when each of the imports took labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db import connections, migrations
from django.db.models import F, IntegerField, Value
from django.db.models.functions import Cast, Substr

KEY = "import:{sha256}:"
LINE = r"^import:[0-9a-f]{64}:[0-9]{1,9}$"


def fill(apps: Any, schema_editor: Any) -> None:
    """One statement for each import and batch: rows are added, and nothing that is there is written."""
    alias = schema_editor.connection.alias
    for source, batch, sha256, after, until in _imports(apps, alias):
        for name in ("Annotation", "Adjudication"):
            labels = apps.get_model("annotation", name).objects.using(alias)
            if name == "Annotation":
                labels = labels.filter(revision=1)  # a later one was made here, whatever its key looks like
            labels = labels.filter(
                assignment__batch__name=batch,
                idempotency_key__startswith=KEY.format(sha256=sha256),
                idempotency_key__regex=LINE,
            )
            if after is not None:
                labels = labels.filter(created_at__gt=after)
            if until is not None:
                labels = labels.filter(created_at__lte=until)
            _insert(apps, alias, labels, source)


def _insert(apps: Any, alias: str, labels: Any, source: int) -> None:
    rows = labels.order_by().values_list(
        F("assignment_id"),
        Value(source, output_field=IntegerField()),
        Cast(Substr("idempotency_key", len(KEY.format(sha256="0" * 64)) + 1), IntegerField()),
    )
    table = apps.get_model("annotation", "ImportedLabel")._meta.db_table
    sql, params = rows.query.get_compiler(alias).as_sql()
    with connections[alias].cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} (assignment_id, source_id, line) {sql}", params)


def _imports(apps: Any, alias: str) -> Iterator[tuple[int, str, str, datetime | None, datetime | None]]:
    """Each import that took labels: its id, the batch, the file's sha256, and between which times it took them."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    rows = apps.get_model("annotation", "Import").objects.using(alias).filter(kind="annotations")
    for row in rows.order_by("pk"):
        if row.report.get("taken"):
            for batch in row.options.get("batches", {}).values() or [row.options.get("batch", "")]:
                found[row.sha256, batch].append(row.pk)
    for (sha256, batch), sources in found.items():
        ends = _ends(apps, alias, sha256, batch)
        if len(ends) != len(sources):  # which of them took what is not told: it was one file
            yield sources[0], batch, sha256, None, None
            continue
        bounds = [None, *ends[:-1], None]
        for source, after, until in zip(sources, bounds, bounds[1:], strict=False):
            yield source, batch, sha256, after, until


def _ends(apps: Any, alias: str, sha256: str, batch: str) -> list[datetime]:
    events = apps.get_model("annotation", "AuditEvent").objects.using(alias)
    events = events.filter(verb="import_annotations", target=f"batch:{batch}"[:200]).order_by("pk")
    return [one.at for one in events if one.data.get("sha256") == sha256 and one.data.get("taken")]


class Migration(migrations.Migration):
    dependencies = [("annotation", "0017_imported_labels")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
