"""The tests' databases: made fast, and emptied fast after a test that could not be rolled back."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction

from tests.support import put_in_reasons, without_audit_guard

ROOT = Path(__file__).resolve().parent.parent
KEPT = ("django_migrations", "django_content_type", "auth_permission", "auth_group", "auth_group_permissions")
"""Tables that stay as the migrations filled them."""


def hash_migrations() -> str:
    """Of the code that makes a database: Django's version, the apps and their migrations."""
    code = hashlib.sha256(repr((django.VERSION, settings.INSTALLED_APPS)).encode())
    for file in sorted(ROOT.glob("*/migrations/*.py")):
        code.update(file.read_bytes())
    return code.hexdigest()


class MigratedDatabase:
    """A SQLite database that all migrations of this code were applied to, kept from run to run. The first worker of a
    first run makes it, which takes ten seconds; the others wait for it, and all work on copies of ``template``.
    """

    def __init__(self, folder: Path) -> None:
        self.template = folder / f"{hash_migrations()}.sqlite3"
        self._lock = (folder / "lock").open("w")

    def copy_to(self, ours: Path) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if self.template.exists():
            shutil.copyfile(self.template, ours)

    def keep(self, ours: Path) -> None:
        if not self.template.exists():
            for old in self.template.parent.glob("*.sqlite3"):
                old.unlink()
            made = self.template.with_suffix(".part")
            made.unlink(missing_ok=True)
            with closing(sqlite3.connect(ours)) as database:  # what still stands in its log as well
                database.execute("VACUUM INTO ?", (str(made),))
            made.replace(self.template)
        self._lock.close()
        self._source = sqlite3.connect(self.template, check_same_thread=False)

    def restore(self) -> None:
        """Bring the tests' database back to where the migrations left it."""
        connection.ensure_connection()
        self._source.backup(connection.connection)


def make_postgres_template(folder: Path) -> str:
    """A PostgreSQL database that all migrations of this code were applied to, beside the tests' own: its name. It is
    kept from run to run. The first worker of a first run makes it; the others wait for it, and all work on copies.
    """
    own = connection.settings_dict["NAME"]
    beginning = f"{own}_migrated_"
    name = f"{beginning}{hash_migrations()[:12]}"
    unfinished = f"{own}_migrating"
    with (folder / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with connection._nodb_cursor() as cursor:
            cursor.execute(
                "SELECT datname FROM pg_database WHERE starts_with(datname, %s) OR datname = %s",
                [beginning, unfinished],
            )
            present = [row[0] for row in cursor.fetchall()]
            if name in present:
                return name
            for old in present:
                cursor.execute(f"DROP DATABASE {connection.ops.quote_name(old)}")
            cursor.execute(f"CREATE DATABASE {connection.ops.quote_name(unfinished)}")
        connection.settings_dict["NAME"] = unfinished
        try:
            call_command("migrate", verbosity=0, interactive=False)
        finally:
            connection.close()
            connection.settings_dict["NAME"] = own
        with connection._nodb_cursor() as cursor:
            names = [connection.ops.quote_name(database) for database in (unfinished, name)]
            cursor.execute(f"ALTER DATABASE {names[0]} RENAME TO {names[1]}")
    return name


def cut_other_sessions() -> int:
    """As a PostgreSQL server that restarts: every connection to the database but this one ends. How many there were."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return len(cursor.fetchall())


def empty() -> None:
    """Take away all rows of PostgreSQL but those that the migrations put in."""
    names = connection.introspection.django_table_names(only_existing=True)
    tables = [connection.ops.quote_name(name) for name in names if name not in KEPT]
    one_of_each = " UNION ALL ".join(f"(SELECT '{table}' FROM {table} LIMIT 1)" for table in tables)  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(one_of_each)
        filled = [table for (table,) in cursor.fetchall()]
        # Not TRUNCATE, which takes a hundred times as long for a few rows. Foreign keys are checked at the commit.
        with without_audit_guard(), transaction.atomic():
            for table in filled:
                cursor.execute(f"DELETE FROM {table}")  # noqa: S608
    put_in_reasons()
