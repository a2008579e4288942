"""A database of before: its tokens are hashed where they are, and nothing of them stays in the clear."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.test import Client

from annotation.models import ApiToken
from tests.annotation.models.test_migrations import Old
from tests.former_databases import BringTo, bring_to, elsewhere  # noqa: F401  (fixtures)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
BEFORE = [("annotation", "0011_job_kind"), ("contenttypes", "0002_remove_content_type_name")]
KEYS = {"lin": "a" * 40, "chen": "b" * 40}
MADE = datetime(2026, 3, 4, 5, 6, 7, 890, tzinfo=UTC)
# As rest_framework.authtoken made it.
TABLE = """
CREATE TABLE authtoken_token (
    key varchar(40) PRIMARY KEY, created {time} NOT NULL,
    user_id bigint NOT NULL UNIQUE REFERENCES annotation_person (id)
)
"""


@pytest.fixture
def old(bring_to: BringTo) -> Old:  # noqa: F811
    old = Old(bring_to(BEFORE))
    old.model("Person").objects.filter(username="chen").update(is_active=False)
    time = "timestamptz" if connection.vendor == "postgresql" else "datetime"
    with connection.cursor() as cursor:
        cursor.execute(TABLE.format(time=time))
        for name, key in KEYS.items():
            cursor.execute(
                "INSERT INTO authtoken_token (key, created, user_id) VALUES (%s, %s, %s)",
                [key, connection.ops.adapt_datetimefield_value(MADE), old.people[name].pk],
            )
        cursor.execute(
            "INSERT INTO django_content_type (app_label, model) VALUES ('authtoken', 'tokenproxy')"
        )
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('authtoken', '0001_initial', %s)",
            [connection.ops.adapt_datetimefield_value(MADE)],
        )
    return old


def forward() -> None:
    MigrationExecutor(connection).migrate([("annotation", "0013_annotation_channel")])


def test_tokens_are_hashed_in_place_and_their_table_goes(old: Old) -> None:
    forward()
    assert "authtoken_token" not in connection.introspection.table_names()
    lin, chen = (ApiToken.objects.get(person_id=old.people[name].pk) for name in ("lin", "chen"))
    assert lin.sha256 == hashlib.sha256(KEYS["lin"].encode()).hexdigest()
    assert (lin.scope, lin.created_at, lin.expires_at, lin.ended_at) == ("work", MADE, None, None)
    assert (chen.ended_why, chen.ended_at is not None) == ("account", True)
    with connection.cursor() as cursor:
        for table in ("django_content_type", "django_migrations"):
            column = "app_label" if table == "django_content_type" else "app"
            cursor.execute(f"SELECT count(*) FROM {table} WHERE {column} = 'authtoken'")  # noqa: S608
            assert cursor.fetchone() == (0,)
    MigrationExecutor(connection).migrate(MigrationExecutor(connection).loader.graph.leaf_nodes())
    answers = [
        Client().get("/api/v1/batches/", headers={"Authorization": f"Token {key}"}).status_code
        for key in KEYS.values()
    ]
    assert answers == [200, 401]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL removes a table's file")
def test_free_pages_of_the_file_keep_no_token(old: Old) -> None:
    """SQLite leaves what is dropped in them, but where it was built otherwise."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA secure_delete = OFF")
    assert KEYS["lin"].encode() in connection.connection.serialize()
    forward()
    assert KEYS["lin"].encode() not in connection.connection.serialize()
