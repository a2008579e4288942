"""What a backup says of itself: the state of the database that it is of, and the SHA-256 of each of its files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

from django.utils.crypto import salted_hmac

from annotation.core.errors import N_, InputError

MANIFEST = "manifest.json"
FORMAT = 1
TABLES, FILES = "tables", "files"
BLOCK = 1 << 20
Report: TypeAlias = Callable[[float, str], None]


@dataclass(frozen=True)
class TableEntry:
    """``sha256`` is of the compressed file; ``content_sha256`` of the rows, whichever database they are in.

    ``last_key`` is the highest number that the table ever gave to a row, null where it numbers none.
    """

    name: str
    columns: Sequence[str]
    rows: int
    bytes: int
    sha256: str
    content_sha256: str
    last_key: int | None

    @property
    def path(self) -> str:
        return f"{TABLES}/{self.name}.jsonl.zst"


@dataclass(frozen=True)
class FileEntry:
    """A file of the data folder, under ``files`` in the backup."""

    path: str
    bytes: int
    sha256: str
    mode: int


@dataclass(frozen=True)
class Manifest:
    """``missing`` are files that rows name and the data folder had no more; ``migrations`` by app, in their order."""

    made_at: str
    version: str
    database: str
    secret_key: str
    migrations: Mapping[str, Sequence[str]]
    tables: Sequence[TableEntry]
    tables_left_out: Sequence[str]
    files: Sequence[FileEntry]
    secrets: Sequence[str] = ()
    missing: Sequence[str] = ()
    format: int = FORMAT
    sha256: str = field(default="", compare=False)

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    @property
    def bytes(self) -> int:
        return sum(size for _path, size, _sha256 in self.list_parts())

    def list_parts(self) -> Iterator[tuple[str, int, str]]:
        """Of each file in the backup: its path, its size and its SHA-256."""
        for table in self.tables:
            yield table.path, table.bytes, table.sha256
        for file in self.files:
            yield f"{FILES}/{file.path}", file.bytes, file.sha256


def hash_secret_key() -> str:
    """By which a restore sees whether the key is the same; nothing of it can be read off this."""
    return salted_hmac("annotation.backup", "secret key", algorithm="sha256").hexdigest()[:16]


def write_manifest(folder: Path, manifest: Manifest) -> Manifest:
    """Last of all: a backup without it is none."""
    content = asdict(manifest)
    content["sha256"] = _hash_content(content)
    part = folder / f".{MANIFEST}"
    with create_file(part) as file:
        file.write(json.dumps(content, ensure_ascii=False, indent=1).encode())
    part.replace(folder / MANIFEST)
    sync_folder(folder)
    return read_manifest(folder)


def read_manifest(folder: Path) -> Manifest:
    """Raises InputError where there is none, or another one than was written."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise InputError(N_("there is no such folder."), path=str(folder))
    if not path.is_file():
        raise InputError(
            N_("there is no {name}: this folder is no backup, or one that did not come to its end."),
            path=str(folder),
            name=MANIFEST,
        )
    try:
        content = json.loads(path.read_bytes())
        number, is_whole = content["format"], content["sha256"] == _hash_content(content)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(N_("this is not what a backup wrote: it is damaged."), path=str(path)) from error
    except OSError as error:
        raise InputError(N_("the file cannot be read: {why}."), path=str(path), why=error.strerror) from error
    if not is_whole:
        raise InputError(N_("this is not what a backup wrote: it is damaged."), path=str(path))
    if number != FORMAT:
        raise InputError(
            N_(
                "the backup was made by Assay {version}, in a format that this version does not read: use that one."
            ),
            path=str(folder),
            version=content["version"],
        )
    tables = [TableEntry(**table) for table in content["tables"]]
    files = [FileEntry(**file) for file in content["files"]]
    return Manifest(**{**content, "tables": tables, "files": files})


def _hash_content(content: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check_parts(folder: Path, manifest: Manifest, report: Report) -> None:
    """Read every file of the backup. Raises InputError for the first that is missing or is not what was written."""
    done, total = 0, max(1, manifest.bytes)
    for path, size, sha256 in manifest.list_parts():
        report(done / total, N_("checking the backup"))
        try:
            is_right = hash_file(folder / path) == (size, sha256)
        except FileNotFoundError as error:
            raise InputError(
                N_("the backup is incomplete: this file is missing."), path=str(folder / path)
            ) from error
        except OSError as error:
            raise InputError(
                N_("the file cannot be read: {why}."), path=str(folder / path), why=error.strerror
            ) from error
        if not is_right:
            raise InputError(
                N_("the file is damaged: its SHA-256 is not that of the backup."), path=str(folder / path)
            )
        done += size


class HashedFile:
    """A file that is written, with its size and its SHA-256."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash, self.bytes = file, hashlib.sha256(), 0

    def write(self, block: bytes) -> int:
        self._hash.update(block)
        self.bytes += len(block)
        return self._file.write(block)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


@contextmanager
def create_file(path: Path, mode: int = 0o600) -> Iterator[HashedFile]:
    """A file that is not there yet, for its owner's eyes; on the disk for sure at the end."""
    make_folder(path.parent)
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        yield HashedFile(file)
        file.flush()
        os.fsync(file.fileno())


def make_folder(path: Path) -> None:
    """And those around it that are not there yet, for their owner's eyes."""
    for folder in reversed([path, *path.parents]):
        folder.mkdir(mode=0o700, exist_ok=True)


def copy_file(source: Path, target: Path, mode: int = 0o600) -> HashedFile:
    with source.open("rb") as file, create_file(target, mode) as copy:
        while block := file.read(BLOCK):
            copy.write(block)
    return copy


def hash_file(path: Path) -> tuple[int, str]:
    """Its size and its SHA-256."""
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
