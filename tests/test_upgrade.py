"""An upgrade: code of before runs beside this code while the processes are exchanged one by one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import AddField, RenameField, RenameModel
from django.db.models import NOT_PROVIDED

from tests.conftest import ROOT
from tests.performance.old_sites.__main__ import BASE

APPS = ("annotation", "scoring", "benchmark")
FIRST_UNDER_THE_RULE = {"annotation": "0057", "scoring": "0011", "benchmark": "0021"}


def list_breaks(migration: Migration) -> Iterator[str]:
    """What code of before cannot go on with once the migration was applied."""
    for operation in migration.operations:
        if isinstance(operation, AddField) and not operation.field.many_to_many:
            if not operation.field.null and operation.field.db_default is NOT_PROVIDED:
                yield f"{operation.model_name}.{operation.name} has neither null nor db_default"
        elif isinstance(operation, RenameField | RenameModel):
            yield operation.describe()


def test_code_of_before_reads_and_inserts_rows_of_a_migrated_database():
    """It names neither a new column nor a new name of an old one (docs/releasing.md)."""
    breaks = [
        f"{app}.{name}: {text}"
        for (app, name), migration in MigrationLoader(None).disk_migrations.items()
        if name >= FIRST_UNDER_THE_RULE.get(app, "9999")
        for text in list_breaks(migration)
    ]
    assert not breaks


def list_releases() -> list[str]:
    """The tags of earlier versions that this code comes from: none in a clone without tags, or without git."""
    command = ["git", "tag", "--list", "v[0-9]*", "--merged", "HEAD", "--no-contains", "HEAD"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return []
    return sorted(done.stdout.split(), key=_read_version)


def _read_version(tag: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", tag))


def test_versions_are_in_their_order():
    assert sorted(["v0.10.0", "v0.2.0", "v0.2.1"], key=_read_version) == ["v0.2.0", "v0.2.1", "v0.10.0"]
    assert all(_read_version(tag) for tag in list_releases())


@pytest.mark.parametrize("base", [BASE, *list_releases()])
def test_sites_of_an_earlier_version_come_through(base: str):
    """Their pages, releases, boards, receipts, claims, tokens and waiting jobs. A quarter of an hour for the first."""
    if not os.environ.get("ASSAY_TEST_INSTALL"):
        pytest.skip("ASSAY_TEST_INSTALL does not ask for an upgrade of old sites")
    command = [sys.executable, "-m", "tests.performance.old_sites", "--base", base]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.splitlines()[-1] == "all came through"
