"""The shapes in which people have their tables: each is written with the libraries that write it for people."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import openpyxl
import pyarrow as pa
import zstandard
from pyarrow import parquet

Rows = Sequence[Sequence[Any]]
Write = Callable[[Path, Sequence[str], Rows], Path]


def csv_text(header: Sequence[str], rows: Rows, *, delimiter: str = ",", end: str = "\r\n") -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerows([header, *rows])
    return out.getvalue()


def _write_csv(
    encoding: str = "utf-8", *, delimiter: str = ",", end: str = "\r\n", before: str = ""
) -> Write:
    def write(folder: Path, header: Sequence[str], rows: Rows) -> Path:
        path = folder / "prompts.dat"
        text = before + csv_text(header, rows, delimiter=delimiter, end=end)
        path.write_bytes(text.encode(encoding))
        return path

    return write


def _write_empty_rows(folder: Path, header: Sequence[str], rows: Rows) -> Path:
    path = folder / "prompts.dat"
    path.write_text(csv_text(header, rows) + ("," * (len(header) - 1) + "\r\n") * 4 + "\r\n", newline="")
    return path


def _write_upper_case(folder: Path, header: Sequence[str], rows: Rows) -> Path:
    path = folder / "PROMPTS.CSV"
    path.write_text(csv_text([name.upper() for name in header], rows), newline="")
    return path


def _write_xlsx(*, sheets: int = 1, title: bool = False) -> Write:
    def write(folder: Path, header: Sequence[str], rows: Rows) -> Path:
        book = openpyxl.Workbook()
        sheet = book.active
        if title:
            sheet.append(["标注结果 2026"])
            sheet.append([])
        for row in [header, *rows]:
            sheet.append(list(row))
            for cell in sheet[sheet.max_row]:  # a text, also where it begins as a formula does
                cell.data_type = "s"
        for number in range(1, sheets):
            book.create_sheet(f"备注{number}").append(["别的"])
        path = folder / "prompts.bin"
        book.save(path)
        return path

    return write


def records(header: Sequence[str], rows: Rows) -> list[dict[str, Any]]:
    return [dict(zip(header, row, strict=True)) for row in rows]


def _json_lines(header: Sequence[str], rows: Rows) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in records(header, rows)).encode()


def _write_bytes(build: Callable[[Sequence[str], Rows], bytes]) -> Write:
    def write(folder: Path, header: Sequence[str], rows: Rows) -> Path:
        path = folder / "prompts.dat"
        path.write_bytes(build(header, rows))
        return path

    return write


def _write_parquet(folder: Path, header: Sequence[str], rows: Rows) -> Path:
    path = folder / "prompts.dat"
    parquet.write_table(pa.Table.from_pylist(records(header, rows)), path)
    return path


def _build_dataset(header: Sequence[str], rows: Rows) -> datasets.Dataset:
    return datasets.Dataset.from_list(records(header, rows))


def _save_to_disk(folder: Path, header: Sequence[str], rows: Rows) -> Path:
    dataset = _build_dataset(header, rows)
    half = len(rows) // 2
    splits = {"train": dataset.select(range(half)), "test": dataset.select(range(half, len(rows)))}
    datasets.DatasetDict(splits).save_to_disk(folder / "saved")
    return folder / "saved"


def _save_for_hub(write: Callable[[datasets.Dataset, Path], object], suffix: str) -> Write:
    def save(folder: Path, header: Sequence[str], rows: Rows) -> Path:
        (folder / "hub" / "data").mkdir(parents=True)
        (folder / "hub" / "README.md").write_text("---\nlicense: mit\n---\n")
        dataset, half = _build_dataset(header, rows), len(rows) // 2
        write(dataset.select(range(half)), folder / "hub" / "data" / f"test-00000-of-00001.{suffix}")
        write(
            dataset.select(range(half, len(rows))), folder / "hub" / "data" / f"train-00000-of-00001.{suffix}"
        )
        return folder / "hub"

    return save


SHAPES: dict[str, Write] = {
    "CSV with commas": _write_csv(),
    "CSV with semicolons": _write_csv(delimiter=";"),
    "CSV with tabs": _write_csv(delimiter="\t"),
    "CSV with sep=": _write_csv(delimiter=";", before="sep=;\r\n"),
    "CSV with Unix line ends": _write_csv(end="\n"),
    "CSV with Mac line ends": _write_csv(end="\r"),
    "CSV with empty rows at the end": _write_empty_rows,
    "CSV in upper case": _write_upper_case,
    "CSV with a byte-order mark": _write_csv("utf-8-sig"),
    "CSV in UTF-16": _write_csv("utf-16", delimiter="\t"),
    "CSV in UTF-16 without a mark": _write_csv("utf-16-le"),
    "CSV in GB18030": _write_csv("gb18030"),
    "xlsx": _write_xlsx(),
    "xlsx with three sheets": _write_xlsx(sheets=3),
    "xlsx with a title": _write_xlsx(title=True),
    "JSON array": _write_bytes(lambda h, r: json.dumps(records(h, r), ensure_ascii=False, indent=1).encode()),
    "JSON lines": _write_bytes(_json_lines),
    "JSON lines, gzip": _write_bytes(lambda h, r: gzip.compress(_json_lines(h, r))),
    "JSON lines, zstd": _write_bytes(lambda h, r: zstandard.ZstdCompressor().compress(_json_lines(h, r))),
    "CSV, gzip": _write_bytes(lambda h, r: gzip.compress(csv_text(h, r).encode("gb18030"))),
    "CSV, zstd": _write_bytes(lambda h, r: zstandard.ZstdCompressor().compress(csv_text(h, r).encode())),
    "Parquet": _write_parquet,
    "Hugging Face, saved": _save_to_disk,
    "Hugging Face, Parquet": _save_for_hub(lambda part, path: part.to_parquet(path), "parquet"),
    "Hugging Face, JSON lines": _save_for_hub(
        lambda part, path: part.to_json(path, force_ascii=False), "jsonl"
    ),
}
