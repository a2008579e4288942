"""Writes behind come in their order and before whatever else the process asks, and their errors come out."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from annotation.core.sql import Statement, Write
from annotation.core.write_behind import WriteBehind
from annotation.models import Collection

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]

INSERT = "INSERT INTO annotation_collection (name, created_at) VALUES (%s, CURRENT_TIMESTAMP)"
RENAME = "UPDATE annotation_collection SET name = %s WHERE name = %s"


@dataclass
class Held:
    """A write that begins when it is let go, at the latest after some time."""

    name: str
    seconds: float = 0.3
    go: threading.Event = field(default_factory=threading.Event)
    was_let_go: bool = False

    def run(self, cursor: Any) -> None:
        self.was_let_go = self.go.wait(self.seconds)
        cursor.execute(INSERT, [self.name])


def begin(writes: WriteBehind, *block: Write) -> None:
    writes.add(block)
    with writes.reads_ahead():
        pass


def names() -> set[str]:
    return set(Collection.objects.exclude(name="").values_list("name", flat=True))


def test_writes_come_in_their_order_over_several_blocks():
    with transaction.atomic(), WriteBehind() as writes:
        begin(writes, Held("a"))
        writes.add([Statement(RENAME, ["b", "a"]), Statement(RENAME, ["c", "b"])])
        writes.add([Statement(RENAME, ["d", "c"])])
    assert names() == {"d"}


def test_any_other_statement_sees_all_that_was_added():
    with transaction.atomic(), WriteBehind() as writes:
        begin(writes, Held("a"))
        writes.add([Held("b")])
        assert names() == {"a", "b"}
        with transaction.atomic():  # a savepoint, which takes nothing along that was added before it
            writes.add([Held("c")])
            assert names() == {"a", "b", "c"}
            transaction.set_rollback(True)
    assert names() == {"a", "b"}


def test_reads_ahead_see_what_came_before_the_last_block():
    with transaction.atomic(), WriteBehind() as writes:
        begin(writes, Held("a"))
        writes.add([Held("b")])
        with writes.reads_ahead():
            assert names() == ({"a"} if connection.vendor == "postgresql" else {"a", "b"})
        assert names() == {"a", "b"}


@pytest.mark.postgres
def test_the_process_goes_on_while_postgresql_writes():
    held = Held("a", seconds=60)
    with transaction.atomic(), WriteBehind() as writes:
        begin(writes, held)
        held.go.set()
    assert held.was_let_go
    assert names() == {"a"}


def write_twice(writes: WriteBehind) -> None:
    begin(writes, Statement(INSERT, ["b"]), Statement(INSERT, ["a"]), Statement(INSERT, ["c"]))
    names()


def test_an_error_comes_out_with_the_next_statement_as_djangos_and_nothing_is_kept():
    Collection.objects.create(name="a")
    with transaction.atomic(), WriteBehind() as writes:
        with pytest.raises(IntegrityError):
            write_twice(writes)
        transaction.set_rollback(True)
    assert names() == {"a"}


def test_an_error_at_the_end_comes_out():
    with pytest.raises(DatabaseError), transaction.atomic(), WriteBehind() as writes:
        writes.add([Statement("UPDATE annotation_collection SET no_such_column = %s", ["a"])])
    assert names() == set()


@transaction.atomic
def fail_while_writing() -> None:
    with WriteBehind() as writes:
        begin(writes, Held("a"))
        raise ValueError("of the process")


def test_what_runs_has_ended_before_the_transaction_is_rolled_back():
    with pytest.raises(ValueError, match="of the process"):
        fail_while_writing()
    assert names() == set()
    Collection.objects.create(name="b")  # the connection is free
    assert names() == {"b"}
