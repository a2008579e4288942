"""How SQL that the ORM does not write is built of a model's columns and sent: values as the ORM stores them, prepared,
several statements at once.

It names no table: whatever does stands in annotation/models/sql.py, and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from operator import attrgetter
from typing import Any, TypeVar
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
from django.db.models.base import ModelState

from annotation.core.databases import disable_prepared_statements

MAX_PREPARED = 100
OTHER_SERVER = ("26000", "42P05")  # a statement is not there, or is there already
_PREPARED: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()  # by the connection to the server
M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Statement:
    sql: str
    params: Sequence[Any]


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
        values = ", ".join(["%s"] * params)
        execution = prepared[sql] = f"EXECUTE {name} ({values})" if params else f"EXECUTE {name}"
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
    places = ", ".join(["%s"] * len(names))
    return f"INSERT INTO {model._meta.db_table} ({columns}) VALUES ({places})"


def insert_object(row: Model) -> Statement:
    """The row of a new object; its own primary key is left to the database where there is none yet."""
    names = _attributes(type(row), with_key=row.pk is not None)
    return insert(type(row), {name: getattr(row, name) for name in names})


def copy_object(template: M, **values: Any) -> M:
    """A new object like the template, with these attributes: a tenth of what the model's own constructor takes."""
    model = type(template)
    new = model.__new__(model)
    new.__dict__ = {**template.__dict__, **values, "_state": ModelState()}
    return new


def write_objects(objects: Sequence[Model]) -> None:
    """Insert new objects of one model in their order. The keys that the database gives are not read back."""
    if objects:
        names = _attributes(type(objects[0]), with_key=objects[0].pk is not None)
        write_rows(type(objects[0]), names, list(map(attrgetter(*names), objects)))


def write_rows(model: type[Model], names: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows of these attributes, each converted as the ORM would, in their order.

    By COPY where the database has it, else by one statement that is prepared once: ``bulk_create`` takes ten times as
    long to make its statements.
    """
    if not rows:
        return
    columns = ", ".join(_column(model, name) for name in names)
    converters = [_find_converter(model, name) for name in names]
    values = [[convert(value) for convert, value in zip(converters, row, strict=True)] for row in rows]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            lines = StringIO("".join(["\t".join(map(_escape_copied, row)) + "\n" for row in values]))
            with connection.wrap_database_errors:
                cursor.copy_expert(f"COPY {model._meta.db_table} ({columns}) FROM STDIN", lines)
        else:
            cursor.executemany(_insertion(model, names), values)


Converter = Callable[[Any], Any]


def _find_converter(model: type[Model], name: str) -> Converter:
    """What makes of an attribute what the database stores, as the ORM does; of what comes again it is known."""
    field = field_of(model, name)
    while isinstance(field, ForeignKey):
        field = field.target_field
    if isinstance(field, JSONField):
        return _encode_json
    if isinstance(field, UUIDField | DateTimeField):
        return _find_keyed_converter(field)
    return _to_text if isinstance(field, CharField | TextField) else _pass


def _to_text(value: Any) -> Any:
    """The value of a choice as a plain text, which SQLite need not ask for how it is kept."""
    return value if value is None or type(value) is str else str(value)


_EMPTY_JSON: Mapping[type, str] = {list: "[]", dict: "{}"}


def _pass(value: Any) -> Any:
    return value


def _encode_json(value: Any) -> str | None:
    if value is None:
        return None
    return (not value and _EMPTY_JSON.get(type(value))) or json.dumps(value)


@lru_cache(maxsize=64)
def _find_keyed_converter(field: Field[Any, Any]) -> Converter:
    if connection.vendor == "postgresql":
        return _pass
    if isinstance(field, UUIDField):
        return _uuid_digits
    return lru_cache(maxsize=1024)(lambda value: field.get_db_prep_save(value, connection))


def _uuid_digits(value: UUID | None) -> str | None:
    return None if value is None else value.hex


_COPIED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _escape_copied(value: Any) -> str:
    """A value as COPY reads it."""
    if value is None:
        return r"\N"
    return value.translate(_COPIED) if isinstance(value, str) else str(value)


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
