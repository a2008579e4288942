"""A backup: the database as it is at one moment, then the files that its rows name, while everybody works on.

The rows are read first. A file is written before its row says that it is there, and changed never after, so that all
files that the rows name are there to be copied; what came after that moment comes along and is named by nothing. A file
that somebody discarded meanwhile is missed, and the manifest says so.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from django.apps import apps as current_apps
from django.apps.registry import Apps
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from annotation.core.databases import run_in_snapshot
from annotation.core.errors import N_, AssayError, InputError
from annotation.core.storage import bucket
from annotation.core.version import code_version
from annotation.models import WithFiles
from annotation.models.sql import dumps
from annotation.models.sql.dumps import DumpTable, Row, Snapshot
from annotation.services.upkeep.data_folder import SECRETS, list_data_files, list_models_with_files
from annotation.services.upkeep.manifests import (
    FILES,
    TABLES,
    FileEntry,
    Manifest,
    Report,
    TableEntry,
    copy_file,
    create_file,
    hash_secret_key,
    make_folder,
    write_manifest,
)
from annotation.services.upkeep.table_files import decode_values, write_table

logger = logging.getLogger(__name__)
DATABASE_COPY = ".database.sqlite3"
T = TypeVar("T")


def ignore_progress(_share: float, _stage: str) -> None:
    """Nobody watches."""


def make_backup(folder: Path, *, with_secrets: bool = False, report: Report = ignore_progress) -> Manifest:
    """Write a backup into a folder that is empty or not there. Where it fails nothing of it stays."""
    loader = MigrationLoader(connection)
    apps = find_apps(loader, set(loader.applied_migrations))
    _check_folder(folder)
    with _remove_unless_done(folder):
        database = _read_snapshot(
            folder, lambda snapshot: _DatabaseWriter(apps, folder, report).write(snapshot)
        )
        files = _copy_files(folder, with_secrets=with_secrets, report=report)
        if bucket.is_used():
            files += _copy_objects(folder, database.names, report)
        paths = {file.path for file in files}
        return write_manifest(
            folder,
            Manifest(
                made_at=timezone.now().isoformat(timespec="seconds"),
                version=code_version(),
                database=connection.vendor,
                secret_key=hash_secret_key(),
                migrations=_group_by_app(loader.applied_migrations),
                tables=database.entries,
                tables_left_out=dumps.list_left_out(),
                files=files,
                secrets=sorted(paths & set(SECRETS)),
                missing=[path for path in database.named if not _is_among(path, paths)],
            ),
        )


def find_apps(loader: MigrationLoader, applied: set[tuple[str, str]]) -> Apps:
    """The models as they are once these migrations are applied: today's, or those of an earlier version."""
    assert loader.graph is not None
    known = set(loader.graph.nodes)
    if not applied:
        raise AssayError(N_("The database has no tables yet: run python manage.py migrate"))
    if unknown := sorted(applied - known):
        raise AssayError(
            N_("The database is of a newer version than this one, which does not know {migration}."),
            migration=".".join(unknown[0]),
        )
    if applied == known:
        return current_apps
    state = loader.project_state(sorted(applied))
    return state.apps


def _group_by_app(migrations: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for app, name in sorted(migrations):
        grouped.setdefault(app, []).append(name)
    return grouped


def _check_folder(folder: Path) -> None:
    root = Path(settings.ASSAY_DATA_DIR)
    if folder.resolve().is_relative_to(root.resolve()):
        raise InputError(
            N_("this is in the data folder, which is to be backed up: name another one."), path=str(folder)
        )
    try:
        make_folder(folder)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise InputError(
            N_("this cannot be written: {why}."), path=str(folder), why=error.strerror
        ) from error
    if not is_empty:
        raise InputError(N_("the folder is not empty: name a new one for each backup."), path=str(folder))


@contextmanager
def _remove_unless_done(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(
                N_("this cannot be written: {why}."),
                path=str(error.filename or folder),
                why=error.strerror or error,
            ) from error
        raise


def _read_snapshot(folder: Path, read: Callable[[Snapshot], T]) -> T:
    """On SQLite of a copy, since a transaction of this process would hold up who writes."""
    if connection.vendor == "postgresql":
        return run_in_snapshot(lambda: _read_transaction(read))
    copy = folder / DATABASE_COPY
    copy.touch(mode=0o600)
    dumps.copy_sqlite(copy)
    with dumps.open_copy(copy) as snapshot:
        result = read(snapshot)
    copy.unlink()
    return result


def _read_transaction(read: Callable[[Snapshot], T]) -> T:
    with dumps.open_transaction() as snapshot:
        return read(snapshot)


@dataclass
class _DatabaseWriter:
    """Writes the tables, and notes the files that their rows name."""

    apps: Apps
    folder: Path
    report: Report
    entries: list[TableEntry] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    names: list[tuple[str, list[str]]] = field(default_factory=list)
    """Of each file that is named: where a bucket may have it."""
    rows: int = 0

    def write(self, snapshot: Snapshot) -> _DatabaseWriter:
        tables = dumps.list_tables(self.apps)
        total = max(1, sum(snapshot.count(table) for table in tables))
        owners = {model._meta.label: model for model in list_models_with_files()}

        def advance(rows: int) -> None:
            self.rows += rows
            self.report(0.9 * min(1.0, self.rows / total), N_("reading the database"))

        for table in tables:
            owner = owners.get(table.model._meta.label)
            path = self.folder / TABLES / f"{table.name}.jsonl.zst"
            self.entries.append(
                write_table(snapshot, table, path, advance=advance, watch=self._build_watch(table, owner))
            )
        return self

    def _build_watch(
        self, table: DumpTable, owner: type[WithFiles] | None
    ) -> Callable[[Sequence[Row]], None]:
        if owner is None:
            return lambda _rows: None
        root = Path(settings.ASSAY_DATA_DIR)

        def note_files(rows: Sequence[Row]) -> None:
            for row in rows:
                values = decode_values(table, row)
                instance = owner.from_db("default", list(values), list(values.values()))
                paths = [path.relative_to(root).as_posix() for path in instance.list_files()]
                self.named += paths
                self.names += [(path, instance.list_names(path)) for path in paths]

        return note_files


def _copy_files(folder: Path, *, with_secrets: bool, report: Report) -> list[FileEntry]:
    root = Path(settings.ASSAY_DATA_DIR)
    paths = list(list_data_files(with_secrets=with_secrets))
    entries = []
    for number, path in enumerate(paths):
        report(0.9 + 0.1 * number / len(paths), N_("copying files"))
        try:
            mode = (root / path).stat().st_mode & 0o777
            copy = copy_file(root / path, folder / FILES / path)
        except FileNotFoundError:  # discarded since it was listed
            logger.info("%s is gone", path)
            continue
        entries.append(FileEntry(str(path), copy.bytes, copy.sha256, mode))
    return entries


def _copy_objects(
    folder: Path, names: Sequence[tuple[str, Sequence[str]]], report: Report
) -> list[FileEntry]:
    """What the rows name, out of the bucket: under the paths that the data folder would have."""
    entries = []
    for number, (path, places) in enumerate(names):
        report(0.95 + 0.05 * number / len(names), N_("copying files"))
        for place in places:
            stored = bucket.list_files(place)
            for item in stored:
                target = path + item.name.removeprefix(place)
                try:
                    entries.append(_copy_object(item.name, folder, target))
                except FileNotFoundError:  # discarded since it was listed
                    logger.info("%s is gone", item.name)
            if stored:
                break
    return entries


def _copy_object(name: str, folder: Path, path: str) -> FileEntry:
    blocks = bucket.read_blocks(name)
    first = next(blocks, b"")
    with create_file(folder / FILES / path) as copy:
        copy.write(first)
        for block in blocks:
            copy.write(block)
    return FileEntry(path, copy.bytes, copy.sha256, 0o600)


def _is_among(path: str, files: set[str]) -> bool:
    """Itself, or something in it."""
    return path in files or any(file.startswith(f"{path}/") for file in files)
