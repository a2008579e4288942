"""After a bulk write PostgreSQL's planner knows of the rows at once, without waiting for autovacuum."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from annotation.domain.batch_spec import BatchSpec
from annotation.domain.formats import Source
from annotation.models import Annotation, Assignment, Batch, GoldLabel, Guideline, Prompt, Response, Task
from annotation.services.batches.batches import create_batch
from annotation.services.imports import ImportRequest, import_annotations, import_prompts, import_responses
from annotation.services.table_statistics import MIN_ROWS, refresh_statistics
from tests.support import make_corpus

TABLES = (Prompt, Response, Task, Assignment, Annotation, GoldLabel)


def names() -> list[str]:
    return [model._meta.db_table for model in TABLES]


@pytest.fixture
def without_autovacuum(transactional_db: None) -> Iterator[None]:
    with connection.cursor() as cursor:
        for name in names():
            cursor.execute(f"ALTER TABLE {name} SET (autovacuum_enabled = false)")
            cursor.execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", [name])
            cursor.execute("UPDATE pg_class SET reltuples = -1 WHERE oid = %s::regclass", [name])
    yield
    with connection.cursor() as cursor:
        for name in names():
            cursor.execute(f"ALTER TABLE {name} RESET (autovacuum_enabled)")


def known_rows(model: Any) -> int:
    """How many rows the planner thinks that the table has; -1 where it was never looked at."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples FROM pg_class WHERE oid = %s::regclass", [model._meta.db_table])
        return int(cursor.fetchone()[0])


def known_columns(model: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stats WHERE tablename = %s", [model._meta.db_table])
        return int(cursor.fetchone()[0])


def write(folder: Path, rows: list[dict[str, Any]]) -> Source:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Source(path)


def take_all(folder: Path, number: int) -> None:
    """So many prompts, a response to each, and a batch with two annotations for each."""
    prompts = [{"id": f"p{n}", "prompt": f"Question {n}?", "dimension": "safe"} for n in range(number)]
    import_prompts(source=write(folder, prompts), format="jsonl", dataset="d")
    places = [{"prompt_id": f"p{n}", "model": "m"} for n in range(number)]
    responses = [place | {"response": "Answer."} for place in places]
    import_responses(source=write(folder, responses), format="jsonl", dataset="d")
    labels = [
        place | {"annotator": name, "labels": {"compliance": 3}}
        for place in places
        for name in ("ann", "ben")
    ]
    target = ImportRequest(batch="b", guideline="xstest", dataset="d")
    import_annotations(source=write(folder, labels), format="jsonl", request=target)


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_imports_leave_statistics_of_what_they_wrote(
    without_autovacuum: None, guideline: Guideline, tmp_path: Path
):
    assert [known_rows(model) for model in TABLES] == [-1] * len(TABLES)
    take_all(tmp_path, MIN_ROWS)
    assert [known_rows(model) for model in TABLES] == [
        MIN_ROWS,
        MIN_ROWS,
        MIN_ROWS,
        2 * MIN_ROWS,
        2 * MIN_ROWS,
        MIN_ROWS,
    ]
    assert all(known_columns(model) > 0 for model in TABLES)


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_batch_of_many_tasks_leaves_them_too(without_autovacuum: None, guideline: Guideline):
    dataset = make_corpus(prompts=MIN_ROWS, models=["m"], name="many", dimensions=("safe",))
    create_batch(BatchSpec(name="many", guideline=guideline, dataset=dataset, open_now=False))
    assert known_rows(Task) == MIN_ROWS


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_small_file_costs_no_look_at_the_tables(
    without_autovacuum: None, guideline: Guideline, tmp_path: Path
):
    take_all(tmp_path, 20)
    assert [known_rows(model) for model in TABLES] == [-1] * len(TABLES)


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_is_not_looked_at(without_autovacuum: None):
    with transaction.atomic():
        refresh_statistics(Task, rows=MIN_ROWS)
        transaction.set_rollback(True)
    assert known_rows(Task) == -1


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_table_that_hardly_changed_is_left_alone(without_autovacuum: None):
    with connection.cursor() as cursor:
        table = Task._meta.db_table
        cursor.execute("UPDATE pg_class SET reltuples = 1000000 WHERE oid = %s::regclass", [table])
    refresh_statistics(Task, rows=MIN_ROWS)
    assert known_rows(Task) == 1_000_000


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_the_lock_is_not_held_until_the_end_of_the_import(without_autovacuum: None, batch: Batch):
    """Inside the transaction nothing is locked: ANALYZE would make two imports wait for each other."""
    with transaction.atomic():
        refresh_statistics(Task, rows=MIN_ROWS)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE relation = %s::regclass AND mode = 'ShareUpdateExclusiveLock'",
                [Task._meta.db_table],
            )
            assert cursor.fetchone() == (0,)


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_what_was_imported_stays_where_the_look_fails(
    without_autovacuum: None, guideline: Guideline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_models: Any, **_limit: Any) -> None:
        raise DatabaseError("canceling statement due to statement timeout")

    monkeypatch.setattr("annotation.core.sql.find_grown_tables", fail)
    take_all(tmp_path, MIN_ROWS)
    assert Annotation.objects.count() == 2 * MIN_ROWS
