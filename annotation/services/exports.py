"""Writing a gold release into a folder: whole, verified, or not at all."""

from __future__ import annotations

import csv
import filecmp
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from annotation.errors import N_, AssayError, Conflict, InputError
from annotation.goldfile import FORMATS, GoldFormat
from annotation.models import GoldRelease
from annotation.selectors.released import gold_rows, release_criteria

# A response is as long as it is; the csv module reads cells of 128 KiB unless told otherwise.
LONGEST_CELL = 2**31 - 1


@dataclass(frozen=True)
class Export:
    """What was written: ``path`` with ``rows`` rows and ``labels`` labels, and the manifest beside it."""

    path: Path
    manifest: Path
    rows: int
    labels: int


def export_release(*, release: GoldRelease, format_name: str, folder: str | Path) -> Export:
    """Write ``gold.<format>`` and ``manifest.json`` into the folder, which is made if need be.

    A file of the same content is left as it is; one of other content is never overwritten.
    """
    gold_format = format_named(format_name)
    place = Path(folder)
    target, manifest = place / gold_format.file_name, place / "manifest.json"
    with _plain_refusals(place):
        if place.is_file():
            raise InputError(N_("this is a file; name a folder."), path=str(place))
        place.mkdir(parents=True, exist_ok=True)
        with _beside(target) as data, _beside(manifest) as facts:
            _write(data, export_lines(release, gold_format))
            _write(facts, [json.dumps(release.manifest, ensure_ascii=False, indent=1, sort_keys=True) + "\n"])
            rows, labels = _counted(data, gold_format)
            _verify(release, rows=rows, labels=labels)
            for written, name in ((data, target), (facts, manifest)):
                _refuse_other_content(written, name)
            data.replace(target)
            facts.replace(manifest)
    return Export(path=target, manifest=manifest, rows=rows, labels=labels)


def export_lines(release: GoldRelease, gold_format: GoldFormat) -> Iterator[str]:
    """The lines of the release's gold file; a page streams them."""
    return gold_format.lines(gold_rows(release), release_criteria(release))


def format_named(name: str) -> GoldFormat:
    if name not in FORMATS:
        raise AssayError(
            N_("There is no format {name}; choose one of: {known}."), name=name, known=", ".join(FORMATS)
        )
    return FORMATS[name]


@contextmanager
def _plain_refusals(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            N_("this cannot be written: {why}."), path=str(error.filename or place), why=error.strerror
        ) from error


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A new name in the target's folder; whatever is left under it at the end is removed."""
    path = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("x", encoding="utf-8", newline="") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())


def _counted(path: Path, gold_format: GoldFormat) -> tuple[int, int]:
    """Rows and labels, read back from the written file."""
    with path.open(encoding="utf-8", newline="") as file:
        labels = [sum(map(_is_label, record.items())) for record in _records(file, gold_format)]
    return len(labels), sum(labels)


def _records(file: Iterable[str], gold_format: GoldFormat) -> Iterator[dict[str, Any]]:
    """Each row as a flat mapping with a ``label.<criterion>`` key for every label."""
    if gold_format.name == "csv":
        csv.field_size_limit(LONGEST_CELL)
        yield from csv.DictReader(file)
    else:
        for line in file:
            yield {f"label.{name}": value for name, value in json.loads(line)["labels"].items()}


def _is_label(item: tuple[str, Any]) -> bool:
    name, value = item
    return name.startswith("label.") and value not in ("", None)


def _verify(release: GoldRelease, *, rows: int, labels: int) -> None:
    expected = release.manifest["counts"]
    if (rows, labels) != (expected["rows"], expected["labels"]):
        raise Conflict(
            N_(
                "The file came out with {rows} rows and {labels} labels, the release has {all_rows} and {all_labels}."
            ),
            rows=rows,
            labels=labels,
            all_rows=expected["rows"],
            all_labels=expected["labels"],
        )


def _refuse_other_content(written: Path, target: Path) -> None:
    if target.exists() and not filecmp.cmp(written, target, shallow=False):
        raise InputError(
            N_("this file is there already with other content; name another folder."), path=str(target)
        )
