"""Tokens as hashes with a scope and an end, and links by which people set their own passwords.

The tokens of before are hashed where they are, with the scope that they were used for, and their table, which held them
in the clear, goes: forward only.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.utils import timezone

BEFORE = "authtoken_token"
AT_ONCE = 1000


def hash_tokens(apps: Any, schema_editor: Any) -> None:
    """Whoever is deactivated keeps none: theirs would work again with the account."""
    connection = schema_editor.connection
    if BEFORE not in connection.introspection.table_names():
        return
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT key, created, user_id FROM {BEFORE}")  # noqa: S608  (a constant)
        rows = cursor.fetchall()
    people = apps.get_model("annotation", "Person").objects.using(connection.alias)
    active = set(people.filter(is_active=True).values_list("pk", flat=True))
    model = apps.get_model("annotation", "ApiToken")
    made = [_token(model, *row, active=row[2] in active) for row in rows]
    model.objects.using(connection.alias).bulk_create(made, batch_size=AT_ONCE)


def _token(model: Any, key: str, created: datetime | str, person: int, *, active: bool) -> Any:
    now = timezone.now()
    if isinstance(created, str):  # SQLite has no times
        created = datetime.fromisoformat(created)
    if timezone.is_naive(created):
        created = created.replace(tzinfo=UTC)
    return model(
        person_id=person,
        name="earlier token",
        sha256=hashlib.sha256(key.encode()).hexdigest(),
        scope="work",
        created_at=created,
        ended_at=None if active else now,
        ended_why="" if active else "account",
    )


def drop_what_was_before(apps: Any, schema_editor: Any) -> None:
    """The table, and what Django remembers of the app that it belonged to."""
    connection = schema_editor.connection
    tables = connection.introspection.table_names()
    if BEFORE in tables:
        if connection.vendor == "sqlite":  # which else leaves the rows in free pages of its file
            schema_editor.execute("PRAGMA secure_delete = ON")
        schema_editor.execute(f"DROP TABLE {BEFORE}")
    if "django_migrations" in tables:
        schema_editor.execute("DELETE FROM django_migrations WHERE app = 'authtoken'")
    content_types = apps.get_model("contenttypes", "ContentType").objects.using(connection.alias)
    content_types.filter(app_label="authtoken").delete()  # with the permissions on them


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0011_job_kind"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100, verbose_name="name")),
                ("sha256", models.CharField(max_length=64, unique=True)),
                (
                    "scope",
                    models.CharField(
                        choices=[("work", "work"), ("read", "read"), ("manage", "manage")],
                        max_length=6,
                        verbose_name="scope",
                    ),
                ),
                ("created_at", models.DateTimeField(verbose_name="created")),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="expires")),
                ("last_used_at", models.DateTimeField(blank=True, null=True, verbose_name="last used")),
                ("ended_at", models.DateTimeField(blank=True, null=True, verbose_name="ended")),
                (
                    "ended_why",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("revoked", "revoked"),
                            ("password", "the password changed"),
                            ("role", "a group was taken away"),
                            ("account", "the account was deactivated"),
                        ],
                        max_length=8,
                        verbose_name="why it ended",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tokens",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="person",
                    ),
                ),
            ],
            options={
                "verbose_name": "API token",
                "verbose_name_plural": "API tokens",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="SetupLink",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                ("secret_sha256", models.CharField(max_length=64, unique=True)),
                ("expires_at", models.DateTimeField(verbose_name="expires")),
                ("accepted_at", models.DateTimeField(blank=True, null=True, verbose_name="accepted")),
                ("revoked_at", models.DateTimeField(blank=True, null=True, verbose_name="revoked")),
                ("seen_at", models.DateTimeField(blank=True, null=True, verbose_name="seen")),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="by",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="setup_links",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="person",
                    ),
                ),
            ],
            options={
                "verbose_name": "set-up link",
                "verbose_name_plural": "set-up links",
                "ordering": ["-id"],
            },
        ),
        migrations.RunPython(hash_tokens, migrations.RunPython.noop),
        migrations.RunPython(drop_what_was_before, migrations.RunPython.noop),
    ]
