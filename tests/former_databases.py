"""Databases of before, for the tests of migrations: an empty one beside the tests' own, and one as some migrations left
it. Going back takes four times as long as going forward from nothing, and both take most of such a test.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests.databases import hash_migrations

BringTo = Callable[[Sequence[tuple[str, str]]], Any]


@contextmanager
def another_database(file: Path) -> Iterator[None]:
    """An empty database (on SQLite in this file), or schema, beside the tests' own."""
    settings = connection.settings_dict
    tests_own = dict(settings)
    if connection.vendor == "sqlite":
        settings["NAME"] = str(file)
    else:
        with connection.cursor() as cursor:
            cursor.execute("DROP SCHEMA IF EXISTS before CASCADE")
            cursor.execute("CREATE SCHEMA before")
        settings["OPTIONS"] = {**settings["OPTIONS"], "options": "-c search_path=before"}
    connection.close()
    try:
        yield
    finally:
        connection.close()
        settings.update(tests_own)
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("DROP SCHEMA before CASCADE")


@pytest.fixture
def elsewhere(tmp_path: Path, transactional_db: None) -> Iterator[None]:
    """An empty database, or schema, beside the tests' own."""
    with another_database(tmp_path / "before.sqlite3"):
        yield


@pytest.fixture
def bring_to(elsewhere: None, request: pytest.FixtureRequest) -> BringTo:
    """``bring_to(migrations)`` applies these and what they need to the empty database, and gives the models of then.
    On SQLite the first test makes a file, which the next ones copy.
    """

    def bring(targets: Sequence[tuple[str, str]]) -> Any:
        if connection.vendor == "sqlite":
            _copy(request.config.cache.mkdir("former"), targets)
        else:
            MigrationExecutor(connection).migrate(targets)
        return MigrationExecutor(connection).loader.project_state(targets).apps

    return bring


def _copy(folder: Path, targets: Sequence[tuple[str, str]]) -> None:
    ours = Path(connection.settings_dict["NAME"])
    name = hashlib.sha256(f"{hash_migrations()} {targets}".encode()).hexdigest()
    file = folder / f"{name}.sqlite3"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if file.exists():
            connection.close()
            shutil.copyfile(file, ours)
            return
        MigrationExecutor(connection).migrate(targets)
        part = file.with_suffix(".part")
        part.unlink(missing_ok=True)
        with closing(sqlite3.connect(ours)) as database:
            database.execute("VACUUM INTO ?", (str(part),))
        part.replace(file)
