"""How SQL that the ORM does not write is built of a model's columns and sent: values as the ORM stores them, prepared,
several statements at once.

It names no table: whatever does stands in annotation/models/sql/, and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from itertools import repeat
from secrets import token_hex
from typing import Any, Protocol, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from django.db import DatabaseError, connection
from django.db.models import (
    CharField,
    DateTimeField,
    Field,
    ForeignKey,
    JSONField,
    Model,
    TextField,
    UUIDField,
)

from annotation.core.databases import disable_prepared_statements

MAX_PREPARED = 100
OTHER_SERVER = ("26000", "42P05")  # a statement is not there, or is there already
_PREPARED: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()  # by the connection to the server
M = TypeVar("M", bound=Model)


class Write(Protocol):
    """What changes the database by one cursor, of Django or of its driver."""

    def run(self, cursor: Any) -> None: ...


@dataclass(frozen=True)
class Statement:
    sql: str
    params: Sequence[Any]

    def run(self, cursor: Any) -> None:
        cursor.execute(self.sql, self.params)


def fetch_first(sql: str, params: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row, or None."""
    with connection.cursor() as cursor:
        _execute_prepared(cursor, sql, params)
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row


def fetch_rows(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        _execute_prepared(cursor, sql, params)
        return list(cursor.fetchall())


def _execute_prepared(cursor: Any, sql: str, params: Sequence[Any]) -> None:
    try:
        cursor.execute(_prepare(cursor, sql, len(params)), params)
    except DatabaseError as error:
        if getattr(error.__cause__, "pgcode", None) not in OTHER_SERVER:
            raise
        disable_prepared_statements("a statement that was prepared is not there")
        if connection.in_atomic_block:  # the transaction is broken; whoever asks again is answered
            raise
        cursor.execute(sql, params)


def _prepare(cursor: Any, sql: str, params: int) -> str:
    """The same question, planned once for each connection of PostgreSQL: planning takes longer than answering.

    A statement's name is the hash of its text: whoever else uses the same connection of the server means the same by
    it. Nothing is prepared behind a pooler (annotation/core/databases.py), nor beyond the shapes that a loop needs.
    """
    if connection.vendor != "postgresql" or connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]:
        return sql
    prepared: dict[str, str] = _PREPARED.setdefault(connection.connection, {})
    execution = prepared.get(sql)
    if execution is None:
        if len(prepared) >= MAX_PREPARED:
            return sql
        places = tuple(f"${place}" for place in range(1, params + 1))
        text = sql % places if places else sql
        name = f"assay_{hashlib.sha256(text.encode()).hexdigest()[:40]}"
        cursor.execute(f"PREPARE {name} AS {text}")
        execution = prepared[sql] = (
            f"EXECUTE {name} ({placeholders(params)})" if params else f"EXECUTE {name}"
        )
    return execution


def execute(*statements: Statement) -> None:
    """Write all of them, in this order; where the database takes several at once, in one round trip."""
    if not statements:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            params = [value for statement in statements for value in statement.params]
            cursor.execute("; ".join([statement.sql for statement in statements]), params)
            return
        for statement in statements:
            cursor.execute(statement.sql, statement.params)


def load_object(model: type[M], **values: Any) -> M:
    """An object as the ORM would have read it with these columns alone; the others are read when asked for."""
    names = [field.attname for field in model._meta.concrete_fields if field.attname in values]
    if len(names) != len(values):
        raise ValueError(f"{model.__name__} has no {sorted(set(values) - set(names))}")
    return model.from_db(connection.alias, names, [values[name] for name in names])


def to_database(model: type[Model], name: str, value: Any) -> Any:
    """The value as the database stores it."""
    return field_of(model, name).get_db_prep_save(value, connection)


@lru_cache(maxsize=512)
def field_of(model: type[Model], name: str) -> Field[Any, Any]:
    field = model._meta.get_field(name.removesuffix("_id") if name.endswith("_id") else name)
    assert isinstance(field, Field)
    return field


# Statements made of a model's columns, and the clauses in which the two databases differ.


def insert(model: type[Model], values: Mapping[str, Any]) -> Statement:
    """A row with ``values`` by attribute name (``task_id`` for the column of ``task``), converted as the ORM would."""
    params = [to_database(model, name, value) for name, value in values.items()]
    return Statement(_insertion(model, tuple(values)), params)


@lru_cache(maxsize=64)
def _insertion(model: type[Model], names: tuple[str, ...]) -> str:
    columns = ", ".join(_column(model, name) for name in names)
    return f"INSERT INTO {model._meta.db_table} ({columns}) VALUES ({placeholders(len(names))})"


def insert_object(row: Model) -> Statement:
    """The row of a new object; its own primary key is left to the database where there is none yet."""
    names = _attributes(type(row), with_key=row.pk is not None)
    return insert(type(row), {name: getattr(row, name) for name in names})


def write_rows(
    model: type[Model],
    names: tuple[str, ...],
    rows: Sequence[Sequence[Any]],
    constants: Mapping[str, Any] = {},  # read only
) -> None:
    """Insert rows as ``build_rows`` has them."""
    for write in build_rows(model, names, rows, constants):
        with connection.cursor() as cursor, connection.wrap_database_errors:
            write.run(cursor)


def build_rows(
    model: type[Model],
    names: tuple[str, ...],
    rows: Sequence[Sequence[Any]],
    constants: Mapping[str, Any] = {},  # read only
) -> list[Write]:
    """What inserts rows of these attributes, each converted as the ORM would, in their order; nothing for none.

    ``constants`` are the attributes that have the same value in every row; what neither names has the model's default.
    The keys that the database gives are not read back. By COPY where the database has it, else by one statement that
    is prepared once: ``bulk_create`` takes ten times as long to make its statements.
    """
    if not rows:
        return []
    constants = _list_defaults(model, frozenset(names).union(constants)) | dict(constants)
    columns = [
        _convert_column(_find_converter(model, name), column)
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    ]
    values = [_find_converter(model, name)(value) for name, value in constants.items()]
    build = _build_copy if connection.vendor == "postgresql" else _build_insertions
    return [build(model, (*names, *constants), columns, values)]


def _list_defaults(model: type[Model], stated: frozenset[str]) -> dict[str, Any]:
    """The model's default of each attribute that is not stated. Its own key, and what has a default in the database
    alone, is left to the database.
    """
    fields = [field for field in model._meta.concrete_fields if field.attname not in stated]
    return {
        field.attname: field.get_default()
        for field in fields
        if not field.primary_key and (field.has_default() or not field.has_db_default())
    }


def _convert_column(convert: Converter, column: Sequence[Any]) -> Sequence[Any]:
    return column if convert is _pass else list(map(convert, column))


COPIED_BYTES = 1 << 20
"""What the driver hands to PostgreSQL at a time."""


@dataclass(frozen=True)
class _Copy:
    sql: str
    lines: bytes

    def run(self, cursor: Any) -> None:
        cursor.copy_expert(self.sql, BytesIO(self.lines), COPIED_BYTES)


def _build_copy(
    model: type[Model],
    names: Sequence[str],
    columns: Sequence[Sequence[Any]],
    constants: Sequence[Any],
) -> Write:
    texts = list(map(_escape_column, columns))
    end = "".join([f"\t{escape_copied(value)}" for value in constants]) + "\n"
    lines = end.join(map("\t".join, zip(*texts, strict=True))) + end
    listed = ", ".join(_column(model, name) for name in names)
    return _Copy(f"COPY {model._meta.db_table} ({listed}) FROM STDIN", lines.encode())


@dataclass(frozen=True)
class _Insertions:
    sql: str
    rows: Iterable[Sequence[Any]]

    def run(self, cursor: Any) -> None:
        cursor.executemany(self.sql, self.rows)


def _build_insertions(
    model: type[Model],
    names: Sequence[str],
    columns: Sequence[Sequence[Any]],
    constants: Sequence[Any],
) -> Write:
    """A value that is not the same in all rows is a parameter, and so is a constant text."""
    literals = [_build_literal(value) for value in constants]
    parameters = [
        repeat(value) for value, literal in zip(constants, literals, strict=True) if literal is None
    ]
    places = ", ".join(["%s"] * len(columns) + [literal or "%s" for literal in literals])
    listed = ", ".join(_column(model, name) for name in names)
    sql = f"INSERT INTO {model._meta.db_table} ({listed}) VALUES ({places})"
    return _Insertions(sql, zip(*columns, *parameters, strict=False))


def _build_literal(value: Any) -> str | None:
    """What SQL writes for nothing, a truth and a whole number, which cost more as parameters; None for the others."""
    if value is None:
        return "NULL"
    return str(int(value)) if isinstance(value, int) else None


_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
DRAWN_IDS = 512


def draw_ids() -> Iterator[str]:
    """UUIDs of version 7 (RFC 9562) as their digits, without end: the time in milliseconds, then 74 random bits.

    Many are drawn at a time, in a tenth of what a call for each takes. By the time they come in order, so that an index
    of hundreds of thousands of them grows at its end and not everywhere.
    """
    while True:
        moment = f"{time.time_ns() // 1_000_000:012x}"
        drawn = token_hex(10 * DRAWN_IDS)
        for start in range(0, len(drawn), 20):
            digits = drawn[start : start + 20]
            yield f"{moment}7{digits[:3]}{_VARIANT[digits[3]]}{digits[4:19]}"


Converter = Callable[[Any], Any]


def _find_converter(model: type[Model], name: str) -> Converter:
    """What makes of an attribute what the database stores, as the ORM does; of what comes again it is known."""
    field = field_of(model, name)
    while isinstance(field, ForeignKey):
        field = field.target_field
    if isinstance(field, JSONField):
        return _JsonTexts().encode
    if isinstance(field, UUIDField | DateTimeField):
        return _find_keyed_converter(field)
    return _to_text if isinstance(field, CharField | TextField) else _pass


def _to_text(value: Any) -> Any:
    """The value of a choice as a plain text, which SQLite need not ask for how it is kept."""
    return value if value is None or type(value) is str else str(value)


def _pass(value: Any) -> Any:
    return value


_EMPTY_JSON: Mapping[type, str] = {list: "[]", dict: "{}"}


class _JsonTexts:
    """Encodes the values of one column, an object that stands in several rows once."""

    def __init__(self) -> None:
        self._texts: dict[
            int, tuple[Any, str]
        ] = {}  # by the object's identity; held, so that it stays its own

    def encode(self, value: Any) -> str | None:
        if value is None:
            return None
        if not value and type(value) in _EMPTY_JSON:
            return _EMPTY_JSON[type(value)]
        known = self._texts.get(id(value))
        if known is None:
            known = self._texts[id(value)] = (value, json.dumps(value))
        return known[1]


@lru_cache(maxsize=64)
def _find_keyed_converter(field: Field[Any, Any]) -> Converter:
    if isinstance(field, UUIDField):
        return _uuid_digits
    if connection.vendor == "postgresql":
        return lru_cache(maxsize=1024)(lambda value: None if value is None else str(value))
    return lru_cache(maxsize=1024)(lambda value: field.get_db_prep_save(value, connection))


def _uuid_digits(value: UUID | str | None) -> str | None:
    """Both databases read a UUID as its digits."""
    return value.hex if isinstance(value, UUID) else value


_COPIED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_COPIED_LETTERS = str.maketrans(_COPIED)


def escape_copied(value: Any) -> str:
    """A value as COPY reads it."""
    if value is None:
        return r"\N"
    return value.translate(_COPIED_LETTERS) if isinstance(value, str) else str(value)


def _escape_column(column: Sequence[Any]) -> Sequence[str]:
    """The values of a column as COPY reads them. Texts are looked through all at once: few of them change."""
    kinds = set(map(type, column))
    if kinds == {int}:
        return list(map(str, column))
    if kinds != {str}:
        return list(map(escape_copied, column))
    texts = "\0".join(column)
    if texts.count("\0") >= len(column):  # a text with a NUL, which the database refuses
        return list(map(escape_copied, column))
    special = [letter for letter in _COPIED if letter in texts]  # the backslash first
    for letter in special:
        texts = texts.replace(letter, _COPIED[letter])
    return texts.split("\0") if special else column


@lru_cache(maxsize=64)
def _attributes(model: type[Model], *, with_key: bool) -> tuple[str, ...]:
    fields = model._meta.concrete_fields
    return tuple(field.attname for field in fields if with_key or not field.primary_key)


def update(model: type[Model], pk: Any, values: Mapping[str, Any]) -> Statement:
    """The row with primary key ``pk``; a value that is a ``Raw`` is SQL."""
    assignments, params = [], []
    for name, value in values.items():
        if isinstance(value, Raw):
            assignments.append(f"{_column(model, name)} = {value.sql}")
        else:
            assignments.append(f"{_column(model, name)} = %s")
            params.append(to_database(model, name, value))
    key = model._meta.pk.attname
    params.append(to_database(model, key, pk))
    sql = f"UPDATE {model._meta.db_table} SET {', '.join(assignments)} WHERE {_column(model, key)} = %s"
    return Statement(sql, params)


@dataclass(frozen=True)
class Raw:
    """SQL that stands for itself: ``slots_taken + 1``."""

    sql: str


def placeholders(count: int) -> str:
    return ", ".join(["%s"] * count)


AMONG = {"postgresql": " = ANY(%s)", "sqlite": " IN (SELECT value FROM json_each(%s))"}
"""After a column: that it is one of a list, however long, which is one parameter."""


def is_among() -> str:
    return AMONG[connection.vendor]


def to_list(ids: Sequence[Any]) -> Any:
    """The parameter of ``is_among``."""
    return list(ids) if connection.vendor == "postgresql" else json.dumps(list(ids))


def fetch_among(sql: str, ids: Sequence[Any], *params: Any, end: str = "") -> list[Any]:
    """The rows of a query that ends with the column that is to be one of the ids; ``end`` follows."""
    with connection.cursor() as cursor:
        cursor.execute(sql + is_among() + end, [*params, to_list(ids)])
        return list(cursor.fetchall())


def indexed_by(name: str) -> str:
    """Names the partial index on SQLite, which would rather walk a whole one; PostgreSQL weighs them by itself."""
    return f" INDEXED BY {name}" if connection.vendor == "sqlite" else ""


def for_update(*tables: str, skip_locked: bool = False) -> str:
    """The clause that locks the rows of these tables; SQLite's transaction holds the whole database anyway."""
    if not connection.features.has_select_for_update:
        return ""
    return f" FOR NO KEY UPDATE OF {', '.join(tables)}{' SKIP LOCKED' if skip_locked else ''}"


@lru_cache(maxsize=512)
def _column(model: type[Model], name: str) -> str:
    column = field_of(model, name).column
    assert column
    return connection.ops.quote_name(column)


# The tables as PostgreSQL's planner knows them.


def find_grown_tables(models: Sequence[type[Model]], *, rows: int) -> list[str]:
    """Those of the models' tables that the planner takes to have fewer than so many rows."""
    with connection.cursor() as cursor:
        cursor.execute(GROWN_TABLES, [[model._meta.db_table for model in models], rows])
        return sorted(name for (name,) in cursor.fetchall())


GROWN_TABLES = "SELECT oid::regclass::text FROM pg_class WHERE oid = ANY(%s::regclass[]) AND reltuples < %s"


def analyze_tables(names: Sequence[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join(names)}")
