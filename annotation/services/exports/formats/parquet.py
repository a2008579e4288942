"""The gold file as Parquet: typed columns, row groups, streamed. pyarrow is imported when a file is written.

A Parquet file cannot go on in its middle: its index is written last. After a worker died it is started again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotation.core.errors import N_
from annotation.domain.guidelines import NA
from annotation.domain.guidelines.values import strip_turn
from annotation.domain.releases.canonical import number
from annotation.domain.releases.gold_file import (
    LABELS_BY_LEVEL,
    MEAN,
    MINIMUM,
    GoldColumns,
    GoldRow,
    LevelCounts,
    summarize_turns,
    text_cell,
)
from annotation.selectors.releases.rows import CHUNK, ReleasedRow
from annotation.services.exports.base import ExportCounts, ExportSpec, Part, ReportPosition, WholeFile, Writer
from annotation.services.exports.verification import check_gold

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 5_000
"""Rows that are held in memory at a time, and that a reader can take by themselves."""
LEADING_COLUMNS = ("dataset", "prompt_id", "dimension", "subcomponent", "model")
TRAILING_COLUMNS = ("guideline", "guideline_version", "split")
LEVEL, LABELS = "level", "labels"
"""What a list of ``labels_by_level`` has of each level: its value, and how many annotators gave it."""
# Few different values in many rows.
DICTIONARY_COLUMNS = frozenset(
    {"dataset", "dimension", "subcomponent", "model", "guideline", "guideline_version", "split"}
)
COMPRESSION = "zstd"


class _Parquet(Writer):
    name = "parquet"
    title = N_("Parquet")
    about = N_(
        "A row for each response in compressed columns, with numbers for labels: for pandas, DuckDB, Spark."
    )

    def parts(self, spec: ExportSpec) -> list[Part]:
        def write(path: Path, tell: ReportPosition) -> None:
            write_parquet(path, spec.released.chunks(size=ROW_GROUP), build_schema(spec), tell)

        return [WholeFile("gold.parquet", write, total=spec.rows)]

    def check(self, folder: Path, spec: ExportSpec, tell: ReportPosition) -> ExportCounts:
        return check_gold(spec.release, read_parquet([folder / "gold.parquet"]), tell)


def build_schema(spec: ExportSpec, *, dictionaries: bool = True) -> pa.Schema:
    """``label.<criterion>`` is int64 where all of its values are whole, else double; null where there is no gold, and
    where the criterion is not applicable: then its source is there.

    ``dictionaries``: whether columns of few values are of the type dictionary (in the file they are kept so anyway).
    """
    import pyarrow as pa

    few = pa.dictionary(pa.int32(), pa.string()) if dictionaries else pa.string()
    entry = [("entry", pa.int64())] if spec.released.has_slates else []
    turn = pa.struct([("role", pa.string()), ("text", pa.string()), *entry])
    counts = pa.list_(pa.struct([(LEVEL, pa.string()), (LABELS, pa.int64())]))
    by_level = spec.release.manifest["counts"]["by_level"]
    criteria, over_turns = spec.released.columns
    return pa.schema(
        [
            *((name, few if name in DICTIONARY_COLUMNS else pa.string()) for name in LEADING_COLUMNS),
            ("response", pa.string()),
            ("turns", pa.list_(turn)),
            *(
                (f"label.{name}", pa.int64() if _is_integral(by_level[strip_turn(name)]) else pa.float64())
                for name in criteria
            ),
            *((f"source.{name}", few) for name in criteria),
            *((name, few) for name in TRAILING_COLUMNS),
            *((f"{LABELS_BY_LEVEL}.{name}", counts) for name in criteria),
            *((f"{summary}.{name}", pa.float64()) for name in over_turns for summary in (MEAN, MINIMUM)),
        ]
    )


def _is_integral(levels: Iterable[str]) -> bool:
    return all(float(level).is_integer() for level in levels if level != NA)


def write_parquet(
    path: Path, chunks: Iterable[Sequence[ReleasedRow]], schema: pa.Schema, tell: ReportPosition
) -> None:
    """A row group for each chunk."""
    import pyarrow as pa
    from pyarrow import parquet

    done = 0
    with parquet.ParquetWriter(path, schema, compression=COMPRESSION) as writer:
        for rows in chunks:
            columns = _build_columns([row.gold for row in rows], schema.names)
            writer.write_table(pa.Table.from_pydict(columns, schema=schema), row_group_size=len(rows))
            done += len(rows)
            tell(done)


def _build_columns(rows: Sequence[GoldRow], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: list(_read_column(rows, name)) for name in names}


def _read_column(rows: Sequence[GoldRow], name: str) -> Iterator[Any]:
    kind, _dot, criterion = name.partition(".")
    if criterion:
        return _read_criterion(rows, kind, criterion)
    if name == "response":
        return (text_cell(row.response) for row in rows)
    if name == "turns":
        return (None if isinstance(row.response, str) else row.response for row in rows)
    return (getattr(row, name) for row in rows)


def _read_criterion(rows: Sequence[GoldRow], kind: str, criterion: str) -> Iterator[Any]:
    if kind == "label":
        labels = (row.labels.get(criterion) for row in rows)
        return (None if label == NA else label for label in labels)
    if kind == "source":
        return (row.sources.get(criterion) for row in rows)
    if kind == LABELS_BY_LEVEL:
        return (_list_counts(row.labels_by_level.get(criterion)) for row in rows)
    summaries = (summarize_turns(row.labels, GoldColumns((), (criterion,))) for row in rows)
    return (summary.get(criterion, {}).get(kind) for summary in summaries)


def _list_counts(counts: LevelCounts | None) -> list[dict[str, Any]] | None:
    if counts is None:
        return None
    return [{LEVEL: level, LABELS: labels} for level, labels in counts.items()]


def read_parquet(paths: Iterable[Path]) -> Iterator[GoldRow]:
    """The rows of the files, some of a row group in memory at a time."""
    from pyarrow import parquet

    for path in paths:
        with parquet.ParquetFile(path) as file:
            for group in range(file.num_row_groups):  # iter_batches would hold on to all that it has read
                for batch in file.read_row_group(group).to_batches(max_chunksize=CHUNK):
                    yield from _build_rows(batch.to_pydict())


def _build_rows(columns: dict[str, list[Any]]) -> Iterator[GoldRow]:
    criteria = [name.removeprefix("label.") for name in columns if name.startswith("label.")]
    for place in range(len(columns["dataset"])):
        row = {name: values[place] for name, values in columns.items()}
        labelled = [name for name in criteria if row[f"source.{name}"] is not None]
        yield GoldRow(
            **{name: row[name] for name in (*LEADING_COLUMNS, "guideline", "guideline_version")},
            response=row["response"] if row["turns"] is None else _read_turns(row["turns"]),
            labels={name: number(row[f"label.{name}"]) for name in labelled},
            sources={name: row[f"source.{name}"] for name in labelled},
            labels_by_level={
                name: {count[LEVEL]: count[LABELS] for count in row[f"{LABELS_BY_LEVEL}.{name}"]}
                for name in labelled
            },
        )


def _read_turns(turns: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Only the turns of a slate name their entry."""
    return [{name: value for name, value in turn.items() if value is not None} for turn in turns]


PARQUET = _Parquet()
