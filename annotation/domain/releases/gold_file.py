"""The gold file: a row per task, as JSONL and as CSV. Pure; ``docs/gold.md`` describes both."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from annotation.domain.guidelines.values import parse_level, strip_turn
from annotation.domain.releases.canonical import Value, number
from annotation.domain.releases.splits import split_of

DANGEROUS = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")
"""What a spreadsheet may take for the start of a formula; in a Chinese or Japanese one also the wide forms."""
MARK = "\ufeff"
"""A byte-order mark, by which a Chinese Excel knows that a CSV file is in UTF-8."""
TURNS = '[{"role": '
"""How the turns of a dialogue begin in a cell."""
LEADING = 6
"""So many columns stand before the labels."""
LABELS_BY_LEVEL = "labels_by_level"
OVER_TURNS, MEAN, MINIMUM = "over_turns", "mean", "minimum"
# A response is as long as it is; the csv module reads cells of 128 KiB unless told otherwise.
MAX_CELL_CHARACTERS = 2**31 - 1


# json.dumps makes a new encoder for each call that asks for anything but its defaults.
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_quoted = json.encoder.encode_basestring
# The names that many rows share.
_word = lru_cache(maxsize=4096)(_quoted)
# Rows come prompt by prompt.
_split = lru_cache(maxsize=1024)(split_of)


LevelCounts: TypeAlias = Mapping[str, int]
"""How many annotators gave each value, by the value as a key of JSON."""


class GoldColumns(NamedTuple):
    """The ``criteria`` that a release has labels of, a name for each turn (``empathy@1``), and those whose labels are
    summed up ``over_turns``: what is asked of each turn on an ordered scale.
    """

    criteria: tuple[str, ...]
    over_turns: tuple[str, ...] = ()


class GoldRow(NamedTuple):
    """``response`` is a text, or the turns of a dialogue; ``labels`` and ``sources`` are by criterion, and so is
    ``labels_by_level``, what the annotators said of it.
    """

    dataset: str
    prompt_id: str
    dimension: str
    subcomponent: str
    model: str
    response: str | list[dict[str, str]]
    labels: Mapping[str, Value]
    sources: Mapping[str, str]
    guideline: str
    guideline_version: str
    labels_by_level: Mapping[str, LevelCounts] = MappingProxyType({})

    @property
    def split(self) -> str:
        return _split(self.dataset, self.prompt_id)


def summarize_turns(labels: Mapping[str, Value], columns: GoldColumns) -> dict[str, dict[str, float]]:
    """By criterion the mean and the minimum of its labels over the turns of a response, where it has any."""
    values: dict[str, list[float]] = {name: [] for name in columns.over_turns}
    for name, value in labels.items():
        if not isinstance(value, str) and strip_turn(name) in values:
            values[strip_turn(name)].append(value)
    return {name: {MEAN: fmean(of), MINIMUM: min(of)} for name, of in values.items() if of}


def jsonl_lines(rows: Iterable[GoldRow], columns: GoldColumns) -> Iterator[str]:
    """A JSON object per line, the fields in the order of ``GoldRow`` with the split before the last, the criteria as
    in ``columns``; what is asked of each turn is summed up in a last one, ``over_turns``.

    Put together by hand: the json module takes three times as long for the same text. What many rows share is
    written once and kept.
    """
    order = columns.criteria
    for row in rows:
        over_turns = summarize_turns(row.labels, columns) if columns.over_turns else None
        dataset, prompt, dimension, subcomponent, model, response, labels, sources, *guideline, counts = row
        yield (
            f'{{"dataset": {_word(dataset)}, "prompt_id": {_quoted(prompt)}'
            f"{_encode_source(dimension, subcomponent, model)}"
            f"{_quoted(response) if isinstance(response, str) else _ENCODER.encode(response)}"
            f', "labels": {_encode_object(tuple([(name, _label(value)) for name, value in labels.items()]), order)}'
            f', "sources": {_encode_object(tuple([(name, _word(value)) for name, value in sources.items()]), order)}'
            f"{_encode_guideline(*guideline, row.split)}"
            f"{_encode_counts(tuple([(name, tuple(levels.items())) for name, levels in counts.items()]), order)}"
            f"{'' if over_turns is None else f', {_quoted(OVER_TURNS)}: {_ENCODER.encode(over_turns)}'}"
            "}\n"
        )


def _label(value: Value) -> str:
    return _word(value) if isinstance(value, str) else repr(value)


@lru_cache(maxsize=4096)
def _encode_source(dimension: str, subcomponent: str, model: str) -> str:
    return (
        f', "dimension": {_quoted(dimension)}, "subcomponent": {_quoted(subcomponent)},'
        f' "model": {_quoted(model)}, "response": '
    )


@lru_cache(maxsize=4096)
def _encode_guideline(guideline: str, version: str, split: str) -> str:
    return (
        f', "guideline": {_quoted(guideline)}, "guideline_version": {_quoted(version)},'
        f' "split": {_quoted(split)}, "{LABELS_BY_LEVEL}": '
    )


@lru_cache(maxsize=4096)
def _encode_counts(
    counts: tuple[tuple[str, tuple[tuple[str, int], ...]], ...], criteria: tuple[str, ...]
) -> str:
    written = [(name, _ENCODER.encode(dict(levels))) for name, levels in counts]
    return _encode_object(tuple(written), criteria)


@lru_cache(maxsize=4096)
def _encode_object(written: tuple[tuple[str, str], ...], criteria: tuple[str, ...]) -> str:
    by_criterion = dict(written)
    pairs = ", ".join([f"{_quoted(name)}: {by_criterion[name]}" for name in criteria if name in by_criterion])
    return f"{{{pairs}}}"


def csv_lines(rows: Iterable[GoldRow], columns: GoldColumns) -> Iterator[str]:
    """Every text in quotes, numbers bare; a ``label.``, a ``source.`` and a ``labels_by_level.`` column for each
    criterion, and a ``mean.`` and a ``minimum.`` column for each that is asked of turns.
    """
    line = csv_writer()
    yield MARK + line(csv_header(columns))
    for row in rows:
        yield line([csv_cell(value) for value in flatten_row(row, columns)])


def csv_header(columns: GoldColumns) -> list[str]:
    criteria = columns.criteria
    labels, sources = [f"label.{name}" for name in criteria], [f"source.{name}" for name in criteria]
    before = ["dataset", "prompt_id", "dimension", "subcomponent", "model", "response"]
    counts = [f"{LABELS_BY_LEVEL}.{name}" for name in criteria]
    over_turns = [f"{name}.{criterion}" for criterion in columns.over_turns for name in (MEAN, MINIMUM)]
    return [*before, *labels, *sources, "guideline", "guideline_version", "split", *counts, *over_turns]


def safe_cell(text: str) -> str:
    """The text so that no spreadsheet takes it for a formula: an apostrophe goes before a dangerous start.

    One goes before an apostrophe as well, so that taking the first apostrophe off gives every text back.
    """
    return f"'{text}" if text.startswith((*DANGEROUS, "'")) else text


def flatten_row(row: GoldRow, columns: GoldColumns) -> list[Any]:
    """The values in the order of ``csv_header``: None where there is no gold, turns and counts as they are."""
    criteria = columns.criteria
    labels = [row.labels.get(name) for name in criteria]
    sources = [row.sources.get(name) for name in criteria]
    counts = [row.labels_by_level.get(name) for name in criteria]
    before = [row.dataset, row.prompt_id, row.dimension, row.subcomponent, row.model, row.response]
    summaries = summarize_turns(row.labels, columns)
    over_turns = [
        summaries.get(criterion, {}).get(name) for criterion in columns.over_turns for name in (MEAN, MINIMUM)
    ]
    return [*before, *labels, *sources, row.guideline, row.guideline_version, row.split, *counts, *over_turns]


def csv_cell(value: Any) -> Any:
    """A number as it is, a text made safe, anything else as JSON made safe."""
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else _ENCODER.encode(value)
    return safe_cell(text)


class _Echo:
    """A file that hands back what is written, so that the csv module makes one line at a time."""

    def write(self, text: str) -> str:
        return text


def csv_writer() -> Callable[[Sequence[Any]], str]:
    """Turns cells into a line. Quoting every text keeps a lone carriage return inside its cell, too."""
    return csv.writer(_Echo(), quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerow


def text_cell(value: str | list[dict[str, str]] | LevelCounts) -> str:
    """A text as it is, the turns of a dialogue and counts as their JSON."""
    return value if isinstance(value, str) else _ENCODER.encode(value)


def jsonl_rows(lines: Iterable[str]) -> Iterator[GoldRow]:
    """What ``jsonl_lines`` wrote, read back."""
    for line in lines:
        record = json.loads(line)
        del record["split"]
        record.pop(OVER_TURNS, None)
        yield GoldRow(**record)


def csv_rows(lines: Iterable[str], *, is_text: Callable[[str], bool]) -> Iterator[GoldRow]:
    """What ``csv_lines`` wrote, read back. ``is_text`` says of a text that reads like turns whether it is none."""
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    rows = csv.reader(lines)
    header = next(rows, [])
    width = len([name for name in header if name.startswith("label.")])
    labels = slice(LEADING, LEADING + width)
    yield from cell_rows(
        header,
        (
            [cell if labels.start <= n < labels.stop else unescape_cell(cell) for n, cell in enumerate(cells)]
            for cells in rows
        ),
        is_text=is_text,
    )


def cell_rows(
    header: Sequence[str], rows: Iterable[Sequence[Any]], *, is_text: Callable[[str], bool]
) -> Iterator[GoldRow]:
    """The rows of a table under ``csv_header``, of which no text is escaped any more."""
    labels = [
        (place, name.removeprefix("label.")) for place, name in enumerate(header) if name.startswith("label.")
    ]
    shift = len(labels)
    guideline, version = (header.index(name) for name in ("guideline", "guideline_version"))
    counts = [
        (place, name.removeprefix(f"{LABELS_BY_LEVEL}."))
        for place, name in enumerate(header)
        if name.startswith(f"{LABELS_BY_LEVEL}.")
    ]
    for cells in rows:
        dataset, prompt, dimension, subcomponent, model, response = cells[:LEADING]
        filled = [(place, name) for place, name in labels if cells[place] not in ("", None)]
        yield GoldRow(
            dataset,
            prompt,
            dimension,
            subcomponent,
            model,
            _parse_turns(response, is_text) or response,
            {name: number(parse_level(cells[place])) for place, name in filled},
            {name: cells[place + shift] for place, name in filled},
            cells[guideline],
            cells[version],
            {name: json.loads(cells[place]) for place, name in counts if cells[place] not in ("", None)},
        )


def unescape_cell(text: str) -> str:
    """What ``safe_cell`` was given."""
    return text.removeprefix("'")


def _parse_turns(text: str, is_text: Callable[[str], bool]) -> list[dict[str, str]] | None:
    """The dialogue, or the slate, where the cell holds one."""
    if not text.startswith(TURNS):
        return None
    try:
        turns = json.loads(text)
    except ValueError:
        return None
    fields = ({"role", "text"}, {"role", "text", "entry"})
    is_dialogue = _ENCODER.encode(turns) == text and all(turn.keys() in fields for turn in turns)
    return turns if is_dialogue and not is_text(text) else None


Lines: TypeAlias = Callable[[Iterable[GoldRow], GoldColumns], Iterator[str]]


@dataclass(frozen=True)
class GoldFormat:
    """How a gold file is written: what its lines are, and what a browser is told of it."""

    name: str
    lines: Lines
    content_type: str

    @property
    def file_name(self) -> str:
        return f"gold.{self.name}"


FORMATS: Mapping[str, GoldFormat] = {
    "jsonl": GoldFormat("jsonl", jsonl_lines, "application/x-ndjson; charset=utf-8"),
    "csv": GoldFormat("csv", csv_lines, "text/csv; charset=utf-8"),
}
