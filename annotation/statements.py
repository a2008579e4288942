"""Plain SQL for the annotation loop, on PostgreSQL and SQLite alike.

Building one of these queries with the ORM takes several times as long as the database takes to answer it
(docs/benchmarks.md); everything outside the loop uses the ORM. Values are always parameters, never text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from django.db import DatabaseError, connection
from django.db.models import Field, Model

from annotation.databases import prepare_nothing

MOST_PREPARED = 100
OTHER_SERVER = ("26000", "42P05")  # a statement is not there, or is there already
_PREPARED: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()  # by the connection to the server
M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Statement:
    sql: str
    params: Sequence[Any]


def first(sql: str, params: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row, or None."""
    with _asked(sql, params) as cursor:
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row


def rows(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with _asked(sql, params) as cursor:
        return list(cursor.fetchall())


@contextmanager
def _asked(sql: str, params: Sequence[Any]) -> Iterator[Any]:
    with connection.cursor() as cursor:
        try:
            cursor.execute(_prepared(cursor, sql, len(params)), params)
        except DatabaseError as error:
            if getattr(error.__cause__, "pgcode", None) not in OTHER_SERVER:
                raise
            prepare_nothing("a statement that was prepared is not there")
            if connection.in_atomic_block:  # it is broken; whoever asks again is answered
                raise
            cursor.execute(sql, params)
        yield cursor


def _prepared(cursor: Any, sql: str, params: int) -> str:
    """The same question, planned once for each connection of PostgreSQL: planning takes longer than answering.

    A statement's name is the hash of its text: whoever else uses the same connection of the server means the same by
    it. Nothing is prepared behind a pooler (annotation/databases.py), nor beyond the shapes that a loop needs.
    """
    if connection.vendor != "postgresql" or connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]:
        return sql
    known: dict[str, str] = _PREPARED.setdefault(connection.connection, {})
    name = known.get(sql)
    if name is None:
        if len(known) >= MOST_PREPARED:
            return sql
        places = tuple(f"${place}" for place in range(1, params + 1))
        text = sql % places if places else sql
        name = f"assay_{hashlib.sha256(text.encode()).hexdigest()[:40]}"
        cursor.execute(f"PREPARE {name} AS {text}")
        known[sql] = name
    return f"EXECUTE {name} ({', '.join(['%s'] * params)})" if params else f"EXECUTE {name}"


def execute(*statements: Statement) -> None:
    """Write all of them, in this order; where the database takes several at once, in one round trip."""
    if not statements:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            params = [value for statement in statements for value in statement.params]
            cursor.execute("; ".join(statement.sql for statement in statements), params)
            return
        for statement in statements:
            cursor.execute(statement.sql, statement.params)


def insert(model: type[Model], values: Mapping[str, Any]) -> Statement:
    """A row with ``values`` by attribute name (``task_id`` for the column of ``task``), converted as the ORM would."""
    names = tuple(values)
    columns = ", ".join(_quoted(model, name) for name in names)
    places = ", ".join(["%s"] * len(names))
    sql = f"INSERT INTO {model._meta.db_table} ({columns}) VALUES ({places})"
    return Statement(sql, [stored(model, name, value) for name, value in values.items()])


def insert_of(row: Model) -> Statement:
    """The row of a new object; its own primary key is left to the database where there is none yet."""
    names = [
        field.attname for field in row._meta.concrete_fields if not (field.primary_key and row.pk is None)
    ]
    return insert(type(row), {name: getattr(row, name) for name in names})


def loaded(model: type[M], **values: Any) -> M:
    """An object as the ORM would have read it with these columns alone; the others are read when asked for."""
    names = [field.attname for field in model._meta.concrete_fields if field.attname in values]
    if len(names) != len(values):
        raise ValueError(f"{model.__name__} has no {sorted(set(values) - set(names))}")
    return model.from_db(connection.alias, names, [values[name] for name in names])


def update(model: type[Model], pk: Any, values: Mapping[str, Any], **where: Any) -> Statement:
    """The row with primary key ``pk``, if it is as ``where`` says; a value that is a ``Raw`` is SQL."""
    sets, params = [], []
    for name, value in values.items():
        if isinstance(value, Raw):
            sets.append(f"{_quoted(model, name)} = {value.sql}")
        else:
            sets.append(f"{_quoted(model, name)} = %s")
            params.append(stored(model, name, value))
    wheres = {model._meta.pk.attname: pk, **where}
    condition = " AND ".join(f"{_quoted(model, name)} = %s" for name in wheres)
    params += [stored(model, name, value) for name, value in wheres.items()]
    sql = f"UPDATE {model._meta.db_table} SET {', '.join(sets)} WHERE {condition}"
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


def stored(model: type[Model], name: str, value: Any) -> Any:
    """The value as the database stores it."""
    return _field(model, name).get_db_prep_save(value, connection)


@lru_cache(maxsize=512)
def _field(model: type[Model], name: str) -> Field[Any, Any]:
    found = model._meta.get_field(name.removesuffix("_id") if name.endswith("_id") else name)
    assert isinstance(found, Field)
    return found


@lru_cache(maxsize=512)
def _quoted(model: type[Model], name: str) -> str:
    column = _field(model, name).column
    assert column
    return connection.ops.quote_name(column)
