"""A backup into an empty site: checked before anything is written, and there as a whole or not at all.

The files are put beside their places first, the rows are stored in one transaction and read back, and only then do the
files come into place and is the transaction committed. A restore that is killed leaves tables without rows, and a
folder that the next try throws away; in the moment before the commit also files in their places, which it names.

A backup of an earlier version goes into tables of that version, which are migrated on afterwards.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from django.apps.registry import Apps
from django.conf import settings
from django.core.management import call_command
from django.db import DataError, IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from annotation.core.errors import N_, AssayError, Conflict, InputError
from annotation.core.storage import bucket
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Person
from annotation.models.sql import dumps
from annotation.models.sql.dumps import DumpTable, Snapshot
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.mail.outbox import hold_mails
from annotation.services.upkeep.backups import find_apps, ignore_progress
from annotation.services.upkeep.data_folder import IN_BUCKET, STAGING, list_data_files
from annotation.services.upkeep.manifests import (
    FILES,
    Manifest,
    Report,
    TableEntry,
    check_parts,
    copy_file,
    hash_secret_key,
    make_folder,
    read_manifest,
)
from annotation.services.upkeep.table_files import hash_table, read_table
from annotation.services.webhooks.endpoints import hold_endpoints

HELD = N_(
    "It was held when a backup was restored (restore --hold-jobs): start it anew if it is still wanted."
)
Migrations = set[tuple[str, str]]


@dataclass(frozen=True)
class RestoredSite:
    """``same_secret_key``: whether pseudonyms and links of before hold; ``migrated``: the backup was of an earlier
    version.
    """

    manifest: Manifest
    held_jobs: int
    same_secret_key: bool
    migrated: bool


def check_backup(folder: Path, report: Report = ignore_progress) -> Manifest:
    """The manifest of a backup of which nothing is missing or damaged."""
    manifest = read_manifest(folder)
    check_parts(folder, manifest, report)
    return manifest


def restore_backup(
    folder: Path, *, hold_jobs: bool = False, report: Report = ignore_progress
) -> RestoredSite:
    """Put the backup into the database and the data folder, which hold nothing yet."""
    manifest = read_manifest(folder)
    loader = MigrationLoader(connection)
    migrations = {(app, name) for app, names in manifest.migrations.items() for name in names}
    _check_version(manifest, migrations, loader)
    _check_data_folder()
    _check_bucket(manifest)
    _check_database(loader, migrations)
    check_parts(folder, manifest, _scale(report, 0.0, 0.1))
    report(0.1, N_("making the tables"))
    _make_tables(migrations)
    apps = find_apps(MigrationLoader(connection), migrations)
    staging = Path(settings.ASSAY_DATA_DIR) / STAGING
    try:
        _stage_files(folder, manifest, staging, _scale(report, 0.15, 0.25))
        held = _store(folder, manifest, apps, staging, hold_jobs=hold_jobs, report=_scale(report, 0.25, 0.98))
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    is_older = _is_older(migrations, loader)
    if is_older:
        report(0.98, N_("migrating to this version"))
        call_command("migrate", verbosity=0, interactive=False)
    dumps.refresh_statistics()
    record(
        actor=None,
        verb=AnnotationVerb.RESTORE_BACKUP,
        target="site",
        made_at=manifest.made_at,
        version=manifest.version,
        sha256=manifest.sha256,
        held_jobs=held,
    )
    return RestoredSite(manifest, held, manifest.secret_key == hash_secret_key(), is_older)


def _scale(report: Report, start: float, end: float) -> Report:
    return lambda share, stage: report(start + (end - start) * share, stage)


def _check_version(manifest: Manifest, migrations: Migrations, loader: MigrationLoader) -> None:
    unknown = sorted(migrations - set(loader.graph.nodes))
    if unknown:
        raise Conflict(
            N_(
                "The backup was made by Assay {version}, which has migrations that this version lacks ({migration}):"
                " restore it with that version or a later one."
            ),
            version=manifest.version,
            migration=".".join(unknown[-1]),
        )


def _is_older(migrations: Migrations, loader: MigrationLoader) -> bool:
    return migrations != set(loader.graph.nodes)


def _check_data_folder() -> None:
    root = Path(settings.ASSAY_DATA_DIR)
    path = next(list_data_files(), None)
    if path is not None:
        raise Conflict(
            N_("The data folder {folder} is not empty (it has {path}): name an empty one in ASSAY_DATA_DIR."),
            folder=root,
            path=path,
        )


def _check_bucket(manifest: Manifest) -> None:
    """It has nothing, or what a restore of this backup that was killed put there."""
    if not bucket.is_used():
        return
    bucket.check_access()
    expected = {file.path for file in manifest.files}
    for entry in bucket.list_objects():
        if entry.name not in expected:
            raise Conflict(
                N_("The bucket {place} is not empty (it has {name}): name an empty one in ASSAY_STORAGE."),
                place=bucket.describe(),
                name=entry.name,
            )


def _check_database(loader: MigrationLoader, migrations: Migrations) -> None:
    """It has no tables, or those of the backup or of before, with nobody's rows in them."""
    applied = set(loader.applied_migrations)
    if not applied:
        if connection.introspection.table_names():
            raise Conflict(
                N_("The database has tables that are not Assay’s: name an empty one in DATABASE_URL.")
            )
        return
    tables = dumps.list_tables(find_apps(loader, applied))
    for table in dumps.list_tables_of_people(tables, Person._meta.db_table):
        if dumps.has_rows(table):
            raise Conflict(
                N_(
                    "The database is not empty (there are rows in {table}): name an empty one in DATABASE_URL."
                ),
                table=table.name,
            )
    if not applied <= migrations:
        raise Conflict(
            N_(
                "The backup is of an earlier version than the tables of this database: name a database without tables"
                " in DATABASE_URL; the backup’s are made there and migrated on."
            )
        )


def _make_tables(migrations: Migrations) -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(sorted(node for node in migrations if not _has_child(executor, node, migrations)))


def _has_child(executor: MigrationExecutor, node: tuple[str, str], migrations: Migrations) -> bool:
    """Whether a later one of the same app is to be applied, too."""
    children = {child.key for child in executor.loader.graph.node_map[node].children}
    return any(child[0] == node[0] for child in children & migrations)


def _stage_files(folder: Path, manifest: Manifest, staging: Path, report: Report) -> None:
    """Beside their places, so that they come there by a change of names."""
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staging.mkdir(mode=0o700)
        for number, file in enumerate(manifest.files):
            report(number / len(manifest.files), N_("copying files"))
            copy = copy_file(folder / FILES / file.path, staging / file.path, file.mode)
            if copy.sha256 != file.sha256:
                raise InputError(
                    N_("the file is damaged: its SHA-256 is not that of the backup."),
                    path=str(folder / FILES / file.path),
                )
    except OSError as error:
        raise InputError(
            N_("this cannot be written: {why}."),
            path=str(error.filename or staging),
            why=error.strerror or error,
        ) from error


def _store(
    folder: Path, manifest: Manifest, apps: Apps, staging: Path, *, hold_jobs: bool, report: Report
) -> int:
    """The rows and, as the last thing before the commit, the files. How many jobs were held."""
    held, placed, stored = 0, list[Path](), list[str]()
    try:
        with connection.constraint_checks_disabled(), transaction.atomic():
            with dumps.suspend_triggers():
                _RowLoader(folder, manifest, report).load(dumps.list_tables(apps))
            if hold_jobs:
                held = jobs.hold_jobs(apps.get_model("annotation", "Job"), AssayError(HELD))
                with suppress(LookupError):  # of a version that had none
                    hold_endpoints(apps.get_model("annotation", "WebhookEndpoint"))
                hold_mails(apps)
            for number, file in enumerate(manifest.files):
                if bucket.is_used() and file.path.split("/")[0] in IN_BUCKET:
                    report(number / len(manifest.files), N_("copying files"))
                    stored.append(file.path)
                    bucket.put_file(staging / file.path, file.path, file.sha256)
                else:
                    placed.append(_put_in_place(staging, file.path))
    except BaseException:
        for path in placed:
            path.unlink(missing_ok=True)
        if stored:
            bucket.delete_unless_away(*stored)
        raise
    return held


def _put_in_place(staging: Path, path: str) -> Path:
    place = Path(settings.ASSAY_DATA_DIR) / path
    make_folder(place.parent)
    return (staging / path).replace(place)


@dataclass
class _RowLoader:
    """Stores the rows of all tables and reads them back."""

    folder: Path
    manifest: Manifest
    report: Report
    done: int = 0

    def load(self, tables: Sequence[DumpTable]) -> None:
        entries = {entry.name: entry for entry in self.manifest.tables}
        pairs = [(_order_columns(table, entries[table.name]), entries[table.name]) for table in tables]
        dumps.delete_rows(tables)
        for table, entry in pairs:
            self._load_table(table, entry)
        try:
            connection.check_constraints()
        except IntegrityError as error:
            raise Conflict(
                N_("A row of the backup names another one that it does not have: {why}"),
                why=str(error).strip(),
            ) from error
        with dumps.open_transaction() as snapshot:
            for table, entry in pairs:
                self._check_table(snapshot, table, entry)

    def _load_table(self, table: DumpTable, entry: TableEntry) -> None:
        path = self.folder / entry.path
        for rows in read_table(path):
            try:
                dumps.insert_rows(table, rows)
            except (DataError, IntegrityError) as error:
                raise InputError(
                    N_("the database refuses a row: {why}"), path=str(path), why=str(error).strip()
                ) from error
            self._advance(N_("storing rows"), len(rows))
        if entry.last_key is not None:
            dumps.set_last_key(table, entry.last_key)

    def _check_table(self, snapshot: Snapshot, table: DumpTable, entry: TableEntry) -> None:
        content = hash_table(snapshot, table, advance=partial(self._advance, N_("reading them back")))
        if (content.rows, content.sha256) != (entry.rows, entry.content_sha256):
            raise Conflict(
                N_(
                    "What the database has in {table} ({rows} rows) is not what the backup has ({expected} rows):"
                    " nothing was restored."
                ),
                table=table.name,
                rows=content.rows,
                expected=entry.rows,
            )

    def _advance(self, stage: str, rows: int) -> None:
        self.done += rows
        self.report(self.done / max(1, 2 * self.manifest.rows), stage)


def _order_columns(table: DumpTable, entry: TableEntry) -> DumpTable:
    """In the order of the file: of an earlier version the models may have had another one."""
    columns = {column.name: column for column in table.columns}
    return replace(table, columns=tuple(columns[name] for name in entry.columns))
