"""The load generator, tiny: the real server on a database of its own. What it counts afterwards can fail."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from annotation.models import Annotation, Assignment, Batch, Person, Stratum, Task
from tests.conftest import ROOT
from tests.databases import MigratedDatabase
from tests.performance.annotate_loop.checks import Batches, check_batches
from tests.performance.annotate_loop.ledger import Ledger, Promise, percentile
from tests.performance.annotate_loop.probe import measured
from tests.support import label_next


def generate(*arguments: str) -> Any:
    command = [sys.executable, "-m", "tests.performance.annotate_loop", *arguments, "--json"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.fixture(scope="module")
def begun(django_db_setup: None, migrated_database: MigratedDatabase | None) -> tuple[str, ...]:
    """The migrations are no part of what is measured: on SQLite begin with a database that has them."""
    return () if migrated_database is None else ("--begin-with", str(migrated_database.template))


def test_draining_gives_every_task_its_two_labels_whatever_people_do(begun: tuple[str, ...]):
    """A batch for each way in which people work, one after the other on one server."""
    size = ("--tasks", "8", "--annotators", "4", "--rounds", "3", "--hostile", "--seed", "5")
    report = generate("drain", *size, "--via", "api", "pages", "reload", *begun)
    assert report["figures"]["loops"] == 3 * 16
    assert report["figures"]["mischief"]
    assert {"submit", "submit and ahead"} <= report["figures"]["milliseconds"].keys()
    assert {check["wrong"] for check in report["checks"]} == {0}


def test_a_loop_through_the_pages_says_how_fast_it_was(begun: tuple[str, ...]):
    size = ("--tasks", "300", "--annotators", "2", "--seconds", "1", "--warm-up", "0.3")
    figures = generate("loop", *size, "--via", "pages", *begun)["figures"]
    assert figures["loops"] == figures["milliseconds"]["submit and ahead"]["n"] > 0
    assert figures["loops_per_second"] == pytest.approx(figures["loops"] / figures["seconds"])


@pytest.mark.django_db
def test_what_is_wrong_in_the_database_is_found(batch: Batch, lin: Person, chen: Person):
    """Each rule holds at first, and is named once its row is spoilt."""
    receipts = [label_next(batch, person, 1) for person in (lin, chen, lin)]
    ledger = Ledger("lin")
    for receipt in receipts:
        assert receipt is not None
        key = Annotation.objects.get(receipt=receipt.receipt).idempotency_key
        ledger.promises.append(Promise(str(receipt.assignment), key, str(receipt.receipt)))

    def violated(*ledgers: Ledger, drained: bool = False) -> set[str]:
        batches = Batches((batch.name,), 2, drained=drained)
        return {check.rule for check in check_batches(batches, ledgers) if check.wrong}

    assert violated(ledger) == set()
    assert violated(ledger, drained=True) == {"every task has exactly 2 annotations"}
    assert violated() == {"nothing is stored that nobody was told of"}
    lost = Ledger("lin", promises=[*ledger.promises, Promise(str(receipts[0].assignment), "other", "")])
    assert violated(lost) == {"every receipt that was given is in the database"}

    task = Task.objects.filter(state="agreed").first() or Task.objects.filter(slots_taken=1).first()
    assert task is not None
    spoil(Task.objects.filter(pk=task.pk), "slots_taken", 0, violated, ledger)
    spoil(Task.objects.filter(pk=task.pk), "state", "withdrawn", violated, ledger)
    spoil(Stratum.objects.filter(batch=batch), "agreed", 7, violated, ledger)
    spoil(Assignment.objects.filter(pk=receipts[0].assignment), "state", "claimed", violated, ledger)


def spoil(rows: Any, column: str, value: Any, violated: Callable[..., set[str]], ledger: Ledger) -> None:
    before = rows.values_list(column, flat=True)[0]
    rows.update(**{column: value})
    assert violated(ledger)
    rows.update(**{column: before})
    assert violated(ledger) == set()


def test_a_percentile_is_one_of_the_values_and_of_nothing_there_is_none():
    assert percentile([], 0.5) is None
    assert [percentile(range(1, 101), share) for share in (0.5, 0.95, 0.99)] == [50, 95, 99]


def test_the_memory_of_a_command_is_its_own_and_not_that_of_who_measures_it():
    ballast = b"x" * 300_000_000
    _seconds, little = measured([sys.executable, "-c", "pass"])
    _seconds, much = measured([sys.executable, "-c", "x = b'x' * 200_000_000"])
    assert little < 100
    assert 200 <= much < len(ballast) / 1e6
