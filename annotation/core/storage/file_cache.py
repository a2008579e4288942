"""What a host keeps of the bucket: by SHA-256, compared when it is fetched, as much of it as the setting allows.

A file or a folder comes into its place by a change of names, so that it is there whole or not at all. Of two processes
that want the same, one fetches and the other waits; a lock of a killed process is free.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from django.conf import settings

from annotation.core.errors import N_, Conflict, NoRoom, NotFound
from annotation.core.storage import bucket

FOLDER = "cache"
PART = ".part"
RECENT_SECONDS = 900
"""What was asked for since is not removed for want of room: somebody may be reading it."""
TOUCH_SECONDS = 60
MAX_DIGITS = 2


def fetch_file(name: str, sha256: str = "") -> Path:
    """The object of this name, as a file with this SHA-256, by default the one that it was put there with.

    Raises NotFound where it is gone, Conflict where it is another one.
    """
    try:
        expected = sha256 or bucket.find_sha256(name)
    except FileNotFoundError as error:
        raise _build_absence(name) from error
    if not expected:
        raise Conflict(N_("{name} in the bucket was not written by Assay."), name=name)
    return _fetch(expected, lambda part: _write_file(name, part, expected))


def fetch_folder(names: Sequence[str], sha256: str, check: Callable[[Path], bool]) -> Path:
    """The folder under the first of the names where something lies. ``check`` says whether it is the one."""

    def write(part: Path) -> None:
        for name in names:
            entries = list(bucket.list_objects(name))
            if not entries:
                continue
            for entry in entries:
                _write_file(entry.name, part / entry.name.removeprefix(f"{name}/"), None)
            if not check(part):
                raise _build_difference(name)
            return
        raise _build_absence(names[0])

    return _fetch(sha256, write)


def keep(path: Path, sha256: str) -> Path:
    """Take in a file or folder that was made here, which leaves its place."""
    place = _root() / sha256
    with _translate_errors(), _lock(sha256):
        if place.exists():
            _remove(path)
        else:
            path.replace(place)
        os.utime(place)
    _make_room()
    return place


def forget(sha256: str) -> None:
    """It is fetched again by whoever wants it next; who has it open reads on."""
    place = _root() / sha256
    with _lock(sha256), suppress(FileNotFoundError):
        _discard(place)


def measure() -> int:
    """The bytes of all that is kept."""
    return sum(_measure(path) for path in _list_entries())


def _fetch(sha256: str, write: Callable[[Path], None]) -> Path:
    place = _root() / sha256
    if _touch(place):
        return place
    with _translate_errors(), _lock(sha256):
        if _touch(place):
            return place
        part = place.with_name(f"{sha256}{PART}")
        _remove(part)  # of a process that was killed: the lock is ours
        try:
            write(part)
            part.replace(place)
        except BaseException:
            _remove(part)
            raise
    _make_room()
    return place


def _write_file(name: str, path: Path, sha256: str | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    total = hashlib.sha256()
    try:
        with open(path, "xb", opener=lambda place, flags: os.open(place, flags, 0o600)) as file:
            for block in bucket.read_blocks(name):
                total.update(block)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError as error:
        raise _build_absence(name) from error
    if sha256 is not None and total.hexdigest() != sha256:
        raise _build_difference(name)


def _build_absence(name: str) -> NotFound:
    return NotFound(N_("The file {name} is missing from the file storage."), name=name)


def _build_difference(name: str) -> Conflict:
    return Conflict(
        N_("The file {name} in the file storage is not the one that was written: it is refused."),
        name=name,
    )


def _root() -> Path:
    folder = Path(settings.ASSAY_DATA_DIR) / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _touch(place: Path) -> bool:
    """Whether it is there; from now on it counts as used."""
    try:
        if time.time() - place.stat().st_mtime > TOUCH_SECONDS:
            os.utime(place)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _lock(sha256: str) -> Iterator[None]:
    """Among all processes and threads of this host; a few others wait along."""
    folder = _root() / "locks"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / sha256[:MAX_DIGITS]).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make_room() -> None:
    """Remove what was not used for longest, until the rest is as much as the setting allows."""
    entries = []
    for path in _list_entries():
        with suppress(FileNotFoundError):
            entries.append((path.stat().st_mtime, _measure(path), path))
    total = sum(size for _at, size, _path in entries)
    for used_at, size, path in sorted(entries):
        if total <= settings.STORAGE_CACHE_BYTES or time.time() - used_at < RECENT_SECONDS:
            return
        with suppress(FileNotFoundError):
            _discard(path)
        total -= size


def _discard(place: Path) -> None:
    """At once for whoever looks for it."""
    gone = place.with_name(f"{uuid4().hex}{PART}")
    place.replace(gone)
    _remove(gone)


def _list_entries() -> list[Path]:
    return [path for path in _root().iterdir() if path.name != "locks" and path.suffix != PART]


def _measure(path: Path) -> int:
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    size = 0
    for file in files:
        with suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NoRoom(
            N_("The server cannot store the file ({why}). Tell whoever runs it; nothing was imported."),
            why=error.strerror or error,
        ) from error
