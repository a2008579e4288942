"""Writing the files of an export into a folder: part by part, resumable, checked and hashed.

A gold release is written into a folder that somebody named wholly and verified, or not at all.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias
from uuid import uuid4

from annotation.core.errors import N_, InputError
from annotation.core.garbage import collect_rarely
from annotation.models import GoldRelease
from annotation.selectors.releases.rows import ReleaseContent
from annotation.services.exports.base import ExportCounts, ExportSpec, Options, Part, TextFile, Writer
from annotation.services.exports.datasheet import render_markdown
from annotation.services.exports.formats import get_writer

Report: TypeAlias = Callable[[float, str], None]
SaveProgress: TypeAlias = Callable[[Mapping[str, Any]], None]
SAVE_SECONDS = 1.0
"""How often it is written down how far the export is: a killed worker loses so much of its work at most."""
# Reading back takes about as long as writing.
WRITING_SHARE = 0.5
BLOCK = 1 << 20


@dataclass(frozen=True)
class ExportedFile:
    """``crc32`` is what a zip of the files needs."""

    name: str
    bytes: int
    sha256: str
    crc32: int


@dataclass(frozen=True)
class ExportedFiles:
    counted: ExportCounts
    files: Sequence[ExportedFile]


def _ignore(*_args: Any) -> None:
    """Nobody watches, nothing is kept."""


@dataclass
class ExportProgress:
    """The progress of an export. ``saved`` is what an earlier attempt saved,
    ``{"done": [names], "file", "bytes", "position"}``.

    ``save`` is given the same now and then, after the files are safely on the disk; ``report`` a share from 0 to 1 and
    what is being done. Both may raise what ends the export.
    """

    saved: Mapping[str, Any] = field(default_factory=dict)
    save: SaveProgress = _ignore
    report: Report = _ignore


def write_files(writer: Writer, spec: ExportSpec, folder: Path, progress: ExportProgress) -> ExportedFiles:
    """Write all files into the folder, which may hold those of an attempt that was killed, and check them.

    Nothing else may be in the folder. Raises Conflict where they do not hold what the release holds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = [*writer.parts(spec), *_list_common_parts(spec)]
    with collect_rarely():
        _PartWriter(parts, folder, progress).run()
        return _check_and_hash(writer, spec, parts, folder, progress)


def _check_and_hash(
    writer: Writer, spec: ExportSpec, parts: Sequence[Part], folder: Path, course: ExportProgress
) -> ExportedFiles:
    with ThreadPoolExecutor(1) as executor:  # hashing leaves the interpreter to those who read back
        files = [executor.submit(_measure_file, folder, part.name) for part in parts]
        counted = _check_files(writer, spec, folder, course)
        return ExportedFiles(counted, [file.result() for file in files])


def _list_common_parts(spec: ExportSpec) -> list[Part]:
    """What goes with every format."""
    return [
        _build_small_file("manifest.json", json.dumps(spec.manifest, ensure_ascii=False, indent=1) + "\n"),
        _build_small_file("datasheet.md", render_markdown(spec.manifest, "en")),
        _build_small_file("datasheet.zh.md", render_markdown(spec.manifest, "zh")),
    ]


def _build_small_file(name: str, text: str) -> TextFile:
    return TextFile(name, lambda _position: iter(()), total=0, head=text)


def _check_files(writer: Writer, spec: ExportSpec, folder: Path, course: ExportProgress) -> ExportCounts:
    rows = max(1, spec.rows)
    course.report(WRITING_SHARE, N_("reading the files back"))
    beat = _ReportTimer()

    def tell(done: int) -> None:
        if beat.is_due():
            course.report(
                WRITING_SHARE + (1 - WRITING_SHARE) * min(1, done / rows), N_("reading the files back")
            )

    return writer.check(folder, spec, tell)


def _measure_file(folder: Path, name: str) -> ExportedFile:
    sha256, crc32, size = hashlib.sha256(), 0, 0
    with (folder / name).open("rb") as file:
        while block := file.read(BLOCK):
            sha256.update(block)
            crc32 = zlib.crc32(block, crc32)
            size += len(block)
    return ExportedFile(name, size, sha256.hexdigest(), crc32)


class _ReportTimer:
    """Is due once in ``SAVE_SECONDS``."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def is_due(self) -> bool:
        if time.monotonic() - self._last < SAVE_SECONDS:
            return False
        self._last = time.monotonic()
        return True


class _PartWriter:
    def __init__(self, parts: Sequence[Part], folder: Path, course: ExportProgress) -> None:
        self._parts, self._folder, self._course = parts, folder, course
        self._done: list[str] = [name for name in course.saved.get("done", ()) if (folder / name).is_file()]
        self._total = max(1, sum(part.total for part in parts))
        self._before = 0
        self._beat = _ReportTimer()

    def run(self) -> None:
        for part in self._parts:
            if part.name not in self._done:
                self._write(part)
                self._done.append(part.name)
                self._course.save({"done": self._done})
            self._before += part.total

    def _write(self, part: Part) -> None:
        self._report(0)
        path = self._folder / part.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(part, TextFile):
            self._write_text(part, path)
            return
        path.unlink(missing_ok=True)  # whoever still writes into it writes into nothing
        part.write(path, self._report_if_due)
        with path.open("rb") as file:
            os.fsync(file.fileno())

    def _write_text(self, part: TextFile, path: Path) -> None:
        size, position = self._find_written(part, path)
        with _open_from(path, size) as file:
            if not position:
                file.write(part.head.encode())
            for text, reached in part.chunks(position) if position < part.total else ():
                file.write(text.encode())
                if self._beat.is_due():
                    self._save_progress(part, file, reached)
            file.write(part.tail.encode())
            _sync(file)

    def _find_written(self, part: TextFile, path: Path) -> tuple[int, int]:
        """How many bytes of the file stand, and up to which position."""
        saved = self._course.saved
        if saved.get("file") != part.name or not path.is_file() or path.stat().st_size < saved["bytes"]:
            return 0, 0
        return saved["bytes"], saved["position"]

    def _save_progress(self, part: TextFile, file: IO[bytes], position: int) -> None:
        _sync(file)
        self._course.save({"done": self._done, "file": part.name, "bytes": file.tell(), "position": position})
        self._report(position)

    def _report_if_due(self, position: int) -> None:
        if self._beat.is_due():
            self._report(position)

    def _report(self, position: int) -> None:
        self._course.report(WRITING_SHARE * (self._before + position) / self._total, N_("writing the files"))


@contextmanager
def _open_from(path: Path, size: int) -> Iterator[IO[bytes]]:
    """The file from ``size`` on. Not for appending: a worker that lost the job would write the same bytes to the same
    places, where they do no harm.
    """
    path.touch()
    with path.open("r+b") as file:
        file.truncate(size)
        file.seek(size)
        yield file


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


@dataclass(frozen=True)
class WrittenExport:
    """What was written into ``folder``: ``rows`` rows and ``labels`` labels."""

    folder: Path
    rows: int
    labels: int
    files: tuple[ExportedFile, ...]

    @property
    def path(self) -> Path:
        """The first file, which holds the rows, or the first of them."""
        return self.folder / self.files[0].name

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.json"


def export_release(
    *,
    release: GoldRelease,
    format_name: str,
    folder: str | Path,
    options: Options | None = None,
    report: Report | None = None,
) -> WrittenExport:
    """Write the release's files into the folder, which is made if need be.

    A file of the same content is left as it is; one of other content is never overwritten. Of the options those that
    the format heeds count: a bundle never has the names of people.
    """
    writer, place = get_writer(format_name), Path(folder)
    heeded = Options.from_json((options or Options()).to_json(writer.options))
    spec = ExportSpec(ReleaseContent(release), heeded)
    with _translate_errors(place), _make_hidden_folder(place) as hidden:
        made = write_files(
            writer, spec, hidden, ExportProgress(report=report) if report else ExportProgress()
        )
        _move_files(made, hidden, place)
    return WrittenExport(place, made.counted.rows, made.counted.labels, tuple(made.files))


@contextmanager
def _translate_errors(place: Path) -> Iterator[None]:
    try:
        if place.is_file():
            raise InputError(N_("this is a file; name a folder."), path=str(place))
        yield
    except OSError as error:
        raise InputError(
            N_("this cannot be written: {why}."), path=str(error.filename or place), why=error.strerror
        ) from error


@contextmanager
def _make_hidden_folder(place: Path) -> Iterator[Path]:
    """A new folder in the place, of which nothing is left at the end."""
    path = place / f".export-{uuid4().hex}"
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _move_files(made: ExportedFiles, hidden: Path, place: Path) -> None:
    """All of the files, or none where one would take the place of another."""
    for file in made.files:
        _refuse_other_content(hidden / file.name, place / file.name)
    for file in made.files:
        (place / file.name).parent.mkdir(parents=True, exist_ok=True)
        (hidden / file.name).replace(place / file.name)


def _refuse_other_content(written: Path, target: Path) -> None:
    if target.exists() and not filecmp.cmp(written, target, shallow=False):
        raise InputError(
            N_("this file is there already with other content; name another folder."), path=str(target)
        )
