"""Whole tables out of the database and into it, as values that JSON has and both databases mean the same by.

What tables and columns there are is read off Django's models, of today or of an earlier migration: a new model is in
the next backup without a word here. A type of column that is not known here is refused by name.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

from django.apps import apps
from django.apps.registry import Apps
from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import connection
from django.db.models import Field, ForeignKey, Model

from annotation.core.sql import escape_copied

Row: TypeAlias = Sequence[Any]
Convert: TypeAlias = Callable[[Any], Any]
MIN_ROWS, MAX_ROWS = 20, 4000
BLOCK_CHARACTERS = 1 << 20
"""So much of a table is in memory at a time, about: rows of long texts come in smaller blocks."""

TEXT, INTEGER, FLOAT, BOOLEAN, MOMENT, DATE, UUID_DIGITS, JSON_TEXT, BINARY = (
    "text",
    "integer",
    "float",
    "boolean",
    "moment",
    "date",
    "uuid",
    "json",
    "binary",
)
KINDS: Mapping[str, str] = {
    "AutoField": INTEGER,
    "BigAutoField": INTEGER,
    "BigIntegerField": INTEGER,
    "BinaryField": BINARY,
    "BooleanField": BOOLEAN,
    "CharField": TEXT,
    "DateField": DATE,
    "DateTimeField": MOMENT,
    "FloatField": FLOAT,
    "GenericIPAddressField": TEXT,
    "IntegerField": INTEGER,
    "JSONField": JSON_TEXT,
    "PositiveBigIntegerField": INTEGER,
    "PositiveIntegerField": INTEGER,
    "PositiveSmallIntegerField": INTEGER,
    "SlugField": TEXT,
    "SmallAutoField": INTEGER,
    "SmallIntegerField": INTEGER,
    "TextField": TEXT,
    "UUIDField": UUID_DIGITS,
}
"""By what Django calls the column inside; a URL or an address of mail is a CharField there."""


@dataclass(frozen=True)
class DumpColumn:
    name: str
    kind: str


@dataclass(frozen=True)
class DumpTable:
    """``columns`` are all that rows are written with; ``parents`` the tables that its rows name."""

    name: str
    model: type[Model]
    columns: tuple[DumpColumn, ...]
    parents: frozenset[str]

    @property
    def key(self) -> str:
        column = self.model._meta.pk.column
        assert column
        return column

    @property
    def is_numbered(self) -> bool:
        """Whether the database gives the keys itself."""
        return self.model._meta.pk.get_internal_type() in {"AutoField", "BigAutoField", "SmallAutoField"}

    @cached_property
    def json_places(self) -> list[int]:
        return [place for place, column in enumerate(self.columns) if column.kind == JSON_TEXT]


def list_tables(registry: Apps) -> list[DumpTable]:
    """The tables of all models, those that others name first; without those of ``list_left_out``."""
    left_out = set(list_left_out())
    tables = {
        table.name: table for table in map(_build_table, _list_models(registry)) if table.name not in left_out
    }
    parents = {name: (set(table.parents) & set(tables)) - {name} for name, table in tables.items()}
    return [tables[name] for name in _sort_by_parents(parents)]


def list_left_out() -> list[str]:
    """The tables that no backup has: sessions, and what the cache remembers."""
    sessions = [
        model._meta.db_table
        for model in apps.get_models()
        if issubclass(model, AbstractBaseSession) or getattr(model, "IS_SESSION", False)
    ]
    configured: Any = settings.CACHES
    caches = [cache["LOCATION"] for cache in configured.values() if "DatabaseCache" in cache["BACKEND"]]
    return sorted(sessions + caches)


def list_tables_of_people(tables: Sequence[DumpTable], people: str) -> list[DumpTable]:
    """The table of people, and all whose rows may belong to one, however far: what migrations alone never fill."""
    names = {people}
    while True:
        more = {table.name for table in tables if table.parents & names} - names
        if not more:
            return [table for table in tables if table.name in names]
        names |= more


def _list_models(registry: Apps) -> list[type[Model]]:
    models = registry.get_models(include_auto_created=True)
    return [model for model in models if model._meta.managed and not model._meta.proxy]


def _build_table(model: type[Model]) -> DumpTable:
    fields = [
        field
        for field in model._meta.concrete_fields
        if not getattr(field, "generated", False) and field.column
    ]
    parents = {field.related_model._meta.db_table for field in fields if isinstance(field, ForeignKey)}
    columns = tuple(DumpColumn(str(field.column), _get_kind(field)) for field in fields)
    return DumpTable(model._meta.db_table, model, columns, frozenset(parents))


def _get_kind(field: Field[Any, Any]) -> str:
    while isinstance(field, ForeignKey):
        field = field.target_field
    kind = KINDS.get(field.get_internal_type())
    if kind is None:
        raise TypeError(f"{field}: a backup knows no column of the type {field.get_internal_type()}")
    return kind


def _sort_by_parents(parents: Mapping[str, set[str]]) -> list[str]:
    """Parents first; where tables name each other in a circle it is cut, since the database checks at the end."""
    while True:
        try:
            return list(TopologicalSorter(parents).static_order())
        except CycleError as error:
            circle = error.args[1]
            parents[circle[1]].discard(circle[0])


# Out of the database.


class Snapshot(ABC):
    """The database at one moment."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def read(self, table: DumpTable) -> Iterator[list[Row]]:
        """All rows in the order of their keys, a block at a time."""
        converters = [_WRITTEN.get(column.kind) for column in table.columns]
        with closing(self._open(table)) as cursor:
            size = MIN_ROWS
            while rows := cursor.fetchmany(size):
                columns = [
                    column if convert is None else [None if v is None else convert(v) for v in column]
                    for convert, column in zip(converters, zip(*rows, strict=True), strict=True)
                ]
                yield list(zip(*columns, strict=True))
                characters = sum(len(v) for column in columns for v in column if isinstance(v, str)) + len(
                    rows
                )
                size = max(MIN_ROWS, min(MAX_ROWS, 2 * size, len(rows) * BLOCK_CHARACTERS // characters))

    def count(self, table: DumpTable) -> int:
        name = connection.ops.quote_name(table.name)
        self._cursor.execute(f"SELECT COUNT(*) FROM {name}")
        number: int = self._cursor.fetchone()[0]
        return number

    @abstractmethod
    def _open(self, table: DumpTable) -> Any:
        """A cursor that has been asked for the rows."""

    @abstractmethod
    def find_last_key(self, table: DumpTable) -> int | None:
        """The highest number that was ever given in this table, of rows that are gone as well."""


class SqliteSnapshot(Snapshot):
    def _open(self, table: DumpTable) -> Any:
        cursor = self._cursor.connection.cursor()
        cursor.execute(_select(table))
        return cursor

    def find_last_key(self, table: DumpTable) -> int | None:
        if not table.is_numbered:
            return None
        row = self._cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [table.name]).fetchone()
        return row[0] if row else 0


class PostgresSnapshot(Snapshot):
    def _open(self, table: DumpTable) -> Any:
        """A cursor of the server's own, behind a pooler, too: a transaction stays on its connection."""
        cursor = connection.create_cursor(name="table_rows")
        cursor.itersize = MAX_ROWS
        cursor.execute(_select(table))
        return cursor

    def find_last_key(self, table: DumpTable) -> int | None:
        if not table.is_numbered:
            return None
        self._cursor.execute("SELECT pg_get_serial_sequence(%s, %s)", [table.name, table.key])
        self._cursor.execute(f"SELECT last_value, is_called FROM {self._cursor.fetchone()[0]}")
        last, is_used = self._cursor.fetchone()
        return last if is_used else 0


def copy_sqlite(path: Path) -> None:
    """The whole database as it is at this moment into a file, by SQLite's own means: what stands in its log as well,
    and without holding up who writes.
    """
    connection.ensure_connection()
    with closing(sqlite3.connect(path)) as copy:
        connection.connection.backup(copy)


@contextmanager
def open_copy(path: Path) -> Iterator[Snapshot]:
    with closing(sqlite3.connect(path)) as copy:
        yield SqliteSnapshot(copy.cursor())


@contextmanager
def open_transaction() -> Iterator[Snapshot]:
    """What the transaction under way sees."""
    connection.ensure_connection()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            yield PostgresSnapshot(cursor)
    else:
        with closing(connection.connection.cursor()) as cursor:
            yield SqliteSnapshot(cursor)


def _select(table: DumpTable) -> str:
    """Texts in the order of their characters' numbers, which is SQLite's."""
    quote = connection.ops.quote_name
    columns = ", ".join(quote(column.name) for column in table.columns)
    key = next(column for column in table.columns if column.name == table.key)
    collation = ' COLLATE "C"' if connection.vendor == "postgresql" and key.kind == TEXT else ""
    return f"SELECT {columns} FROM {quote(table.name)} ORDER BY {quote(table.key)}{collation}"


def _write_moment(value: Any) -> str:
    """In UTC, with six decimals or none: SQLite's clock writes three, and Python six."""
    text = str(value).removesuffix("+00:00")
    second, dot, decimals = text.partition(".")
    if not dot or len(decimals) == 6:
        return text
    decimals = decimals.ljust(6, "0")
    return f"{second}.{decimals}" if int(decimals) else second


_WRITTEN: Mapping[str, Convert] = {
    # A zero with a sign comes back from SQLite without it.
    FLOAT: lambda value: value + 0.0,
    BOOLEAN: bool,
    MOMENT: _write_moment,
    DATE: str,
    UUID_DIGITS: lambda value: value.hex if isinstance(value, UUID) else value,
    BINARY: lambda value: b64encode(bytes(value)).decode(),
}


# Into the database, within one transaction of the caller's.


def insert_rows(table: DumpTable, rows: Sequence[Row]) -> None:
    columns = [
        column if convert is None else [None if v is None else convert(v) for v in column]
        for convert, column in zip(_list_readers(table), zip(*rows, strict=True), strict=True)
    ]
    quote = connection.ops.quote_name
    names = ", ".join(quote(column.name) for column in table.columns)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            texts = [[r"\N" if v is None else v for v in column] for column in columns]
            lines = StringIO("\n".join(map("\t".join, zip(*texts, strict=True))) + "\n")
            with connection.wrap_database_errors:
                cursor.copy_expert(f"COPY {quote(table.name)} ({names}) FROM STDIN", lines)
        else:
            places = ", ".join(["%s"] * len(columns))
            statement = f"INSERT INTO {quote(table.name)} ({names}) VALUES ({places})"
            cursor.executemany(statement, list(zip(*columns, strict=True)))


def _list_readers(table: DumpTable) -> list[Convert | None]:
    return [_READ[connection.vendor].get(column.kind) for column in table.columns]


_READ: Mapping[str, Mapping[str, Convert]] = {
    "sqlite": {BINARY: b64decode},
    "postgresql": {
        TEXT: escape_copied,
        JSON_TEXT: escape_copied,
        INTEGER: str,
        FLOAT: repr,
        BOOLEAN: lambda value: "t" if value else "f",
        MOMENT: lambda value: f"{value}+00",
        BINARY: lambda value: rf"\\x{b64decode(value).hex()}",
    },
}


def has_rows(table: DumpTable) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {connection.ops.quote_name(table.name)} LIMIT 1")
        return cursor.fetchone() is not None


def delete_rows(tables: Sequence[DumpTable]) -> None:
    """All of them, those that name others first; a table without any is left alone."""
    for table in reversed(tables):
        if has_rows(table):
            with connection.cursor() as cursor:
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(table.name)}")


def set_last_key(table: DumpTable, number: int) -> None:
    """The next row gets a key after this number and after all that are there."""
    name, key = connection.ops.quote_name(table.name), connection.ops.quote_name(table.key)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT MAX({key}) FROM {name}")
        last = max(number, cursor.fetchone()[0] or 0)
        if connection.vendor == "postgresql":
            sequence = "SELECT setval(pg_get_serial_sequence(%s, %s), %s, %s)"
            cursor.execute(sequence, [table.name, table.key, max(last, 1), last > 0])
        else:
            cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [table.name])
            cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table.name, last])


@contextmanager
def suspend_triggers() -> Iterator[None]:
    """Rows come as they were, whatever the database does by itself with new ones. Constraints are no triggers here."""
    with connection.cursor() as cursor:
        disable, enable = _list_trigger_statements(cursor)
        for statement in disable:
            cursor.execute(statement)
    yield
    with connection.cursor() as cursor:
        for statement in enable:
            cursor.execute(statement)


_ENABLE = {"O": "ENABLE TRIGGER", "A": "ENABLE ALWAYS TRIGGER", "R": "ENABLE REPLICA TRIGGER"}


def _list_trigger_statements(cursor: Any) -> tuple[list[str], list[str]]:
    """What takes away the triggers of this database's tables, and what brings them back."""
    quote = connection.ops.quote_name
    if connection.vendor == "sqlite":
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = cursor.fetchall()
        return [f"DROP TRIGGER {quote(name)}" for name, _sql in triggers], [sql for _name, sql in triggers]
    cursor.execute(
        "SELECT tgrelid::regclass::text, tgname, tgenabled FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
        " JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE NOT tgisinternal AND tgenabled <> 'D' AND nspname = current_schema()"
    )
    triggers = cursor.fetchall()
    return (
        [f"ALTER TABLE {table} DISABLE TRIGGER {quote(name)}" for table, name, _when in triggers],
        [f"ALTER TABLE {table} {_ENABLE[when]} {quote(name)}" for table, name, when in triggers],
    )


def refresh_statistics() -> None:
    """What PostgreSQL's planner knows of tables that were filled at once."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
