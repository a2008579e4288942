"""The gold file as JSONL and as CSV (docs/gold.md says what is in each)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from annotation.core.errors import N_, AssayError
from annotation.domain.datasets import text_sha256
from annotation.domain.releases.gold_file import FORMATS as GOLD_FORMATS
from annotation.domain.releases.gold_file import TURNS, GoldFormat, GoldRow, csv_rows, jsonl_rows
from annotation.models import GoldRelease
from annotation.selectors.releases.rows import ReleaseContent
from annotation.services.exports.base import (
    Chunk,
    ExportCounts,
    ExportSpec,
    Part,
    ReportPosition,
    TextFile,
    Writer,
)
from annotation.services.exports.verification import check_gold


class _GoldText(Writer):
    form: GoldFormat

    def parts(self, spec: ExportSpec) -> list[Part]:
        columns = spec.released.columns
        head = "".join(self.form.lines([], columns))

        def chunks(start: int) -> Iterator[Chunk]:
            position = start
            for rows in spec.released.chunks(start):
                position += len(rows)
                lines = self.form.lines((row.gold for row in rows), columns)
                yield Chunk("".join(lines)[len(head) :], position)

        return [TextFile(self.form.file_name, chunks, total=spec.rows, head=head)]

    def check(self, folder: Path, spec: ExportSpec, tell: ReportPosition) -> ExportCounts:
        with (folder / self.form.file_name).open(
            encoding="utf-8", newline="" if self.name == "csv" else "\n"
        ) as file:
            return check_gold(spec.release, self.read(file, spec), tell)

    @abstractmethod
    def read(self, lines: Iterable[str], spec: ExportSpec) -> Iterator[GoldRow]:
        """The rows of the written file."""


class _Jsonl(_GoldText):
    name = "jsonl"
    title = N_("JSONL")
    about = N_("A JSON object for each response, exact to the character: for programs.")
    form = GOLD_FORMATS["jsonl"]

    def read(self, lines: Iterable[str], spec: ExportSpec) -> Iterator[GoldRow]:
        return jsonl_rows(lines)


class _Csv(_GoldText):
    name = "csv"
    title = N_("CSV")
    about = N_(
        "A row for each response, for spreadsheets: an apostrophe stands before what could be a formula."
    )
    form = GOLD_FORMATS["csv"]

    def read(self, lines: Iterable[str], spec: ExportSpec) -> Iterator[GoldRow]:
        texts = cache(lambda: spec.released.texts_like(TURNS))
        return csv_rows(lines, is_text=lambda text: text_sha256(text) in texts())


JSONL, CSV = _Jsonl(), _Csv()


def export_lines(release: GoldRelease, gold_format: GoldFormat) -> Iterator[str]:
    """The lines of the release's gold file; a page streams them."""
    released = ReleaseContent(release)
    rows = (row.gold for chunk in released.chunks() for row in chunk)
    return gold_format.lines(rows, released.columns)


def get_gold_format(name: str) -> GoldFormat:
    """One of the formats that a page streams as it reads the release."""
    if name not in GOLD_FORMATS:
        raise AssayError(
            N_("There is no format {name}; choose one of: {known}."), name=name, known=", ".join(GOLD_FORMATS)
        )
    return GOLD_FORMATS[name]
