"""Writing a gold release into a folder that somebody named: whole, verified, or not at all."""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from annotation.errors import N_, InputError
from annotation.models import GoldRelease
from annotation.selectors.released import Released
from annotation.services.exports.shape import Options, Wanted
from annotation.services.exports.writers import writer_named
from annotation.services.exports.writing import Course, FileMade, Made, Report, write_files


@dataclass(frozen=True)
class Written:
    """What was written into ``folder``: ``rows`` rows and ``labels`` labels."""

    folder: Path
    rows: int
    labels: int
    files: tuple[FileMade, ...]

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
) -> Written:
    """Write the release's files into the folder, which is made if need be.

    A file of the same content is left as it is; one of other content is never overwritten. Of the options those that
    the format heeds count: a bundle never has the names of people.
    """
    writer, place = writer_named(format_name), Path(folder)
    heeded = Options.of((options or Options()).kept(writer.options))
    wanted = Wanted(Released(release), heeded)
    with _plain_refusals(place), _hidden(place) as hidden:
        made = write_files(writer, wanted, hidden, Course(report=report) if report else Course())
        _move(made, hidden, place)
    return Written(place, made.counted.rows, made.counted.labels, tuple(made.files))


@contextmanager
def _plain_refusals(place: Path) -> Iterator[None]:
    try:
        if place.is_file():
            raise InputError(N_("this is a file; name a folder."), path=str(place))
        yield
    except OSError as error:
        raise InputError(
            N_("this cannot be written: {why}."), path=str(error.filename or place), why=error.strerror
        ) from error


@contextmanager
def _hidden(place: Path) -> Iterator[Path]:
    """A new folder in the place, of which nothing is left at the end."""
    path = place / f".export-{uuid4().hex}"
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _move(made: Made, hidden: Path, place: Path) -> None:
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
