"""Tables that others published, read from CSV or JSON with line-numbered errors. Pure.

docs/leaderboard.md describes the files for people. In both, ``SCOPE.METRIC`` names a number: a dimension or
``overall``, and a metric that the guideline declares; ``SCOPE.n`` the number of responses behind it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from annotation.core.errors import N_, InputError
from annotation.core.files import read_text
from annotation.core.names import MAX_NAME_CHARACTERS
from annotation.core.proportions import wilson
from annotation.domain.formats.delimited import csv_rows
from annotation.domain.formats.rows import FileRow, Source, json_row
from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.metrics import ALL, list_metrics, list_scopes

MODEL, OVERALL, N = "model", "overall", "n"
DIMENSIONS = "dimensions"
PERCENT = ("%", "％")
EMPTY_CELLS = {"", "-", "–", "—"}
MAX_FILE_BYTES = 1024 * 1024
MAX_ROWS = 500
MAX_RESPONSES = 10**9
SLACK = 0.001
"""How far beyond its range a rounded score may lie, as a share of the range."""
_NUMBER = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,18})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

_DUPLICATE = N_("this number is there twice; keep one.")

Published = dict[str, Any]
"""``{"model", "dimensions": {scope: {metric: value}}, "overall": {metric: value}, "n": {scope: n}}``."""


@dataclass(frozen=True)
class _NumberColumn:
    """What a column holds; ``metric`` None is the number of responses, ``scope`` None the overall."""

    scope: str | None
    metric: Metric | None
    percent: bool


@dataclass(frozen=True)
class _PublishedNumber:
    """A value as it is kept; ``unit`` is what the last digit that was written stands for."""

    value: Decimal
    unit: Decimal
    written: str


def read_table(source: Source, document: GuidelineDocument) -> list[Published]:
    """The rows in the file's order; the first thing that is wrong is raised with its line."""
    _check_size(source)
    published_rows: list[Published] = []
    lines: dict[str, int] = {}
    for row in _read_rows(source):
        if isinstance(row, InputError):
            raise row
        if len(published_rows) == MAX_ROWS:
            raise row.error(N_("a table has at most {most} models."), most=MAX_ROWS)
        published = _parse_row(row, document)
        if published[MODEL] in lines:
            raise row.error(
                N_("{model} is on line {first} already; keep one."),
                field=MODEL,
                model=published[MODEL],
                first=lines[published[MODEL]],
            )
        lines[published[MODEL]] = row.line
        published_rows.append(published)
    if not published_rows:
        raise InputError(N_("there are no rows in this file."), path=source.name)
    return published_rows


def compute_interval(rate: float, n: int | None) -> tuple[float | None, float | None]:
    """Wilson's 95% interval of a published rate; undefined where nobody says of how many responses."""
    return (None, None) if n is None else wilson(round(rate * n), n)


def _check_size(source: Source) -> None:
    source.check()
    if source.path.stat().st_size > MAX_FILE_BYTES:
        raise InputError(
            N_("this file is larger than 1 MiB, which no table of a paper is."), path=source.name
        )


def _read_rows(source: Source) -> Iterator[FileRow | InputError]:
    try:
        text = read_text(source.path)
    except InputError as error:
        error.path = source.name
        raise
    start = text.lstrip()[:1]
    if start == "[":
        return _read_array(text, source)
    if start == "{":
        return _read_objects(text, source)
    return csv_rows(source, required=[(MODEL,)])


def _read_objects(text: str, source: Source) -> Iterator[FileRow | InputError]:
    """One object a line, or one object over several lines."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > 1 and not lines[0][1].rstrip().endswith("}"):
        yield json_row(text, lines[0][0], source)
        return
    for number, line in lines:
        yield json_row(line, number, source)


def _read_array(text: str, source: Source) -> Iterator[FileRow | InputError]:
    """The objects of one array, each with the line on which it begins."""
    decoder = json.JSONDecoder()
    at = text.index("[") + 1
    while True:
        at = _skip_blanks(text, at)
        if text[at : at + 1] == "]":
            if text[at + 1 :].strip():
                raise InputError(N_("something follows the end of the array; remove it."), path=source.name)
            return
        line = text.count("\n", 0, at) + 1
        try:
            _value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise InputError(
                N_("this is not JSON ({why}); give one array of objects."),
                path=source.name,
                line=error.lineno,
                why=error.msg,
            ) from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                N_("this cannot be read: {why}."), path=source.name, line=line, why=str(error)
            ) from error
        yield json_row(text[at:end], line, source)
        at = _skip_blanks(text, end)
        if text[at : at + 1] == ",":
            at += 1
        elif text[at : at + 1] != "]":
            raise InputError(
                N_(
                    "after this object there is neither a comma nor the end of the array; the file is broken."
                ),
                path=source.name,
                line=line,
            )


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _parse_row(row: FileRow, document: GuidelineDocument) -> Published:
    published: Published = {MODEL: _parse_model(row), DIMENSIONS: {}, OVERALL: {}, N: {}}
    numbers: dict[tuple[str | None, str], _PublishedNumber] = {}
    for name, raw in _flatten_row(row):
        place = _parse_column(row, name, document)
        if raw is None or (isinstance(raw, str) and raw.strip() in EMPTY_CELLS):
            continue
        if place.metric is None:
            if place.scope in published[N]:
                raise row.error(_DUPLICATE, field=name)
            published[N][place.scope] = _parse_count(row, name, raw)
            continue
        number = _parse_number(row, name, raw, place, document)
        key = (place.scope, place.metric.name)
        if key in numbers:
            raise row.error(_DUPLICATE, field=name)
        numbers[key] = number
        held = (
            published[OVERALL] if place.scope is None else published[DIMENSIONS].setdefault(place.scope, {})
        )
        held[place.metric.name] = float(number.value)
    if not numbers:
        raise row.error(N_("this row has no number of {model}."), model=published[MODEL])
    _check_counts(row, document, numbers, published[N])
    return published


def _parse_model(row: FileRow) -> str:
    name = row.text(MODEL, longest=MAX_NAME_CHARACTERS).strip()
    if _CONTROL.search(name):
        raise row.error(N_("a name is one line of text, without control characters."), field=MODEL)
    return name


def _flatten_row(row: FileRow) -> Iterator[tuple[str, Any]]:
    """The numbers as ``SCOPE.METRIC``, also where they are nested as a board of Assay has them."""
    for name, value in row.fields.items():
        if name == MODEL:
            continue
        if name == DIMENSIONS:
            for scope, held in _parse_object(row, name, value).items():
                for metric, number in _parse_object(row, f"{name}.{scope}", held).items():
                    yield f"{scope}.{metric}", number
        elif name == OVERALL and isinstance(value, Mapping):
            for metric, number in value.items():
                yield f"{OVERALL}.{metric}", number
        else:
            yield name, value


def _parse_object(row: FileRow, field: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise row.error(N_('write this as {{"name": …}}.'), field=field)
    return value


def _parse_column(row: FileRow, name: str, document: GuidelineDocument) -> _NumberColumn:
    bare = name.strip()
    percent = bare.endswith(PERCENT)
    bare = bare.rstrip("".join(PERCENT)).rstrip()
    before, dot, metric = bare.rpartition(".")
    scope = before if dot else ALL if not document.dimensions else ""
    if scope != OVERALL and scope not in list_scopes(document):
        raise row.error(
            N_("there is no such number: write it as SCOPE.METRIC; the scopes are {known}."),
            field=name[:MAX_NAME_CHARACTERS],
            known=", ".join([*list_scopes(document), OVERALL]),
        )
    if metric == N and scope != OVERALL:
        return _NumberColumn(scope, None, percent=False)
    if scope == OVERALL:
        known = [metric for metric in document.metrics if metric.overall != "none"]
    else:
        known = list_metrics(document, scope)
    declared = next((candidate for candidate in known if candidate.name == metric), None)
    if declared is None:
        raise row.error(
            N_("the guideline declares no such metric here; it has {known}."),
            field=name[:MAX_NAME_CHARACTERS],
            known=", ".join(candidate.name for candidate in known) or "-",
        )
    return _NumberColumn(None if scope == OVERALL else scope, declared, percent)


def _parse_number(
    row: FileRow, name: str, raw: Any, place: _NumberColumn, document: GuidelineDocument
) -> _PublishedNumber:
    assert place.metric is not None
    written = _format_raw(raw)
    signed = written.endswith(PERCENT)
    bare = written.rstrip("".join(PERCENT)).strip() if signed else written
    if not _NUMBER.fullmatch(bare):
        raise row.error(
            N_("{found} is no number; write one as 45.38% or 0.4538, or leave it empty.")
            if place.metric.kind == "rate"
            else N_("{found} is no number; write one as 79.8, or leave it empty."),
            field=name,
            found=written[:60] or "-",
        )
    value, unit = Decimal(bare), Decimal(1).scaleb(-len(bare.partition(".")[2]))
    if place.metric.kind == "rate":
        return _parse_share(
            row, name, written, _PublishedNumber(value, unit, written), percent=signed or place.percent
        )
    if signed or place.percent:
        raise row.error(N_("this is a score and no share: write it without the % sign."), field=name)
    _check_range(row, name, value, place, document)
    return _PublishedNumber(value, unit, written)


def _format_raw(raw: Any) -> str:
    """A number of JSON as it would be written by hand."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        return type(raw).__name__
    if isinstance(raw, str):
        return raw.strip()
    exact = format(Decimal(repr(raw)), "f") if abs(raw) < 10**12 else ""
    return exact or "…"


def _parse_share(
    row: FileRow, name: str, written: str, number: _PublishedNumber, *, percent: bool
) -> _PublishedNumber:
    """A rate as a fraction. What is in percent says so, or 0.5 could be both a half and half a percent."""
    if percent:
        number = _PublishedNumber(number.value / 100, number.unit / 100, written)
    elif number.value > 1:
        raise row.error(
            N_("{found} is no fraction: write {found}% if it is in percent, or a number from 0 to 1."),
            field=name,
            found=written,
        )
    if not 0 <= number.value <= 1:
        raise row.error(N_("{found} is no share; a rate is from 0% to 100%."), field=name, found=written)
    return number


def _check_range(
    row: FileRow, name: str, value: Decimal, place: _NumberColumn, document: GuidelineDocument
) -> None:
    """A mean lies between what its lowest and its highest level would give."""
    metric = place.metric
    assert metric is not None
    places = (document.dimensions_of(metric) or (ALL,)) if place.scope is None else (place.scope,)
    levels = [
        level
        for scope in places
        for criterion in document.criteria_of(metric, scope if document.dimensions else None)
        for level in criterion.values
    ]
    low, high = sorted((metric.of_mean(min(levels)), metric.of_mean(max(levels))))
    slack = SLACK * (high - low)
    if not low - slack <= float(value) <= high + slack:
        raise row.error(
            N_("{found} cannot be: {metric} is from {low} to {high} here."),
            field=name,
            found=str(value),
            metric=metric.name,
            low=f"{low:.4g}",
            high=f"{high:.4g}",
        )


def _parse_count(row: FileRow, name: str, raw: Any) -> int:
    written = _format_raw(raw)
    number = int(written) if written.isascii() and written.isdigit() and len(written) < 12 else 0
    if not 1 <= number <= MAX_RESPONSES:
        raise row.error(
            N_("this is no number of responses; write a whole number from 1 on, or leave it empty."),
            field=name,
        )
    return number


def _check_counts(
    row: FileRow,
    document: GuidelineDocument,
    numbers: Mapping[tuple[str | None, str], _PublishedNumber],
    counts: Mapping[str, int],
) -> None:
    """Some whole number of the n responses must give the rate, as far as it was rounded or cut off."""
    for (scope, metric), number in numbers.items():
        n = counts.get(scope) if scope is not None else None
        if n is None or document.metric(metric).kind != "rate":
            continue
        if abs(Decimal(round(number.value * n)) / n - number.value) >= number.unit + Decimal("1e-9"):
            raise row.error(
                N_("no whole number of {n} responses gives {found}: correct n, or leave it out."),
                field=f"{scope}.{metric}",
                n=n,
                found=number.written,
            )
