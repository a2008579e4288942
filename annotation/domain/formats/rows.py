"""Files as streams of rows, whose fields are taken with checks. Memory holds one record, however long the file is.

A field is a value of the right kind, or an error that says where it stands. An error that makes the rest of a file
unreadable is raised; an error of one row is yielded in its place, so that a check of the whole file can continue."""

from __future__ import annotations

import codecs
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any, TypeAlias

from annotation.core.errors import N_, AssayError, InputError
from annotation.core.files import check_file
from annotation.core.names import MAX_NAME_CHARACTERS, check_printable_name
from annotation.domain.formats.content import detect_encoding, open_utf8

MAX_ID_CHARACTERS = 200
MAX_LANGUAGE_CHARACTERS = 20
MAX_SOURCE_CHARACTERS = 200


@dataclass(slots=True)
class FileRow:
    """Nothing changes it; frozen, it would take three times as long to make.

    ``within`` goes before the name of a field where the fields are a part of the record: ``data.``

    ``columns`` says what the fields are called in the file, where it calls them otherwise. ``criteria`` are the words
    that name a criterion, as ``ReadOptions`` has them.
    """

    file: str
    line: int
    fields: Mapping[str, Any]
    within: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    criteria: Mapping[str, str] = field(default_factory=dict)

    def error(self, template: str, *, field: str | None = None, **params: Any) -> InputError:
        place = None if field is None else self.columns.get(field, f"{self.within}{field}")
        return InputError(template, path=self.file, line=self.line, field=place, **params)

    def has(self, field: str) -> bool:
        """Whether anything stands there: null, blank text and a missing field are nothing."""
        value = self.fields.get(field)
        return value is not None and not (isinstance(value, str) and not value.strip())

    def raw_text(self, field: str) -> str:
        """The text as it stands, which may be empty; it must be there."""
        if field not in self.fields:
            raise self.error(
                N_("there is no such field; this row has: {known}."),
                field=field,
                known=", ".join(self.fields) or "-",
            )
        value = self.fields[field]
        if not isinstance(value, str):
            raise self.error(N_("this is no text; put it in quotation marks."), field=field)
        return value

    def text(self, field: str, *, longest: int | None = None) -> str:
        """The text, which must say something."""
        value = self.raw_text(field)
        if not value.strip():
            raise self.error(N_("this is empty."), field=field)
        if longest is not None and len(value) > longest:
            raise self.error(
                N_("this has {found} characters; at most {longest} are possible."),
                field=field,
                found=len(value),
                longest=longest,
            )
        return value

    def optional(self, field: str, *, longest: int = MAX_NAME_CHARACTERS) -> str:
        """The text, or "" where there is nothing."""
        return self.text(field, longest=longest) if self.has(field) else ""

    def identifier(self, field: str) -> str:
        """An id or "" where there is none; a whole number will do."""
        value = self.fields.get(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.optional(field, longest=MAX_ID_CHARACTERS).strip()

    def name(self, field: str) -> str:
        """A name that somebody gave elsewhere."""
        value = self.text(field)
        try:
            return check_printable_name(value)
        except AssayError as error:
            raise self.error(error.template, field=field, **error.params) from error

    def optional_name(self, field: str) -> str | None:
        return self.name(field) if self.has(field) else None

    def seconds(self, field: str = "seconds") -> float | None:
        """A span of time in seconds, or None where there is nothing."""
        if not self.has(field):
            return None
        number = as_number(self.fields[field])
        if number is None or number < 0:
            raise self.error(N_("this is no number of seconds; write 0 or more."), field=field)
        return number


def is_blank(value: object) -> bool:
    """Whether nothing stands there: null, or a text without a letter."""
    return value is None or (isinstance(value, str) and not value.strip())


def as_number(value: object) -> float | None:
    """A finite number, a whole one as int, also one that is written as text (as in CSV); None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


# An escaped NUL, and not an escaped backslash before the letters u0000.
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
UNSTORABLE = N_("a text holds \\u0000 or half of a surrogate pair; remove it.")
MAX_LINE_BYTES = 64 * 1024 * 1024
PIECE = 1024 * 1024
BEGINNING = 4096
_BLANK = re.compile(r"[ \t\r\n]*")
Rows: TypeAlias = Iterator[FileRow | InputError]


class UnfitFile(InputError):
    """The file is well formed and holds something else: its ``field`` is the column that shows it."""


@dataclass(frozen=True)
class ReadOptions:
    """What a person said of how a file is to be read; None and empty where the file says it itself.

    ``sheet``: of a spreadsheet, or the split of a folder of Hugging Face. ``fields`` maps fields to columns
    (``mapping.py``), ``mapping`` is a whole mapping as JSON, to which they are added. ``annotator``: whose labels these
    are. ``criteria``: the words that name a criterion of the guideline, each with its name; ``levels``: what each
    criterion's labels may be (``labels.py``). ``left_out``: the columns, controls and criteria that are to be left out.
    ``keeps_quotations``: evidence whose words stand nowhere in the response becomes a part of the rationale.
    """

    sheet: str | None = None
    encoding: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    mapping: Mapping[str, Any] | None = None
    annotator: str | None = None
    criteria: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    keeps_quotations: bool = False

    @property
    def is_stated(self) -> bool:
        """Whether something was said that only a table can heed."""
        return bool(self.sheet or self.fields or self.annotator)


class Source:
    """A file to read: where it lies, the name by which errors call it, and how far it has been read.

    What is left out of it while it is read is told: fields in ``unused``, things by the message that counts them in
    ``passed_over``, anything else as a message with its parameters in ``notes``. ``recodes``: whether another
    encoding than UTF-8 is understood, as of every table; a format that was named is in UTF-8.
    """

    def __init__(self, path: str | Path, name: str | None = None, options: ReadOptions | None = None) -> None:
        self.path = Path(path)
        self.name = str(path) if name is None else name
        self.options = options or ReadOptions()
        self.recodes = False
        self.bytes_read = 0
        self.unused: dict[str, None] = {}
        self.passed_over: Counter[str] = Counter()
        self.notes: dict[str, dict[str, Any]] = {}
        self._encoding: str | None = None

    def reopen(self) -> Source:
        source = Source(self.path, self.name, self.options)
        source.recodes, source._encoding = self.recodes, self._encoding
        return source

    def open(self) -> IO[bytes]:
        """The file's bytes, unpacked; with ``recodes`` as UTF-8, whatever it is encoded in."""
        return open_utf8(self.path, self.name, self.encoding if self.recodes else None)

    @property
    def encoding(self) -> str | None:
        """As it was named, or as the bytes tell it; None where they do not."""
        if self._encoding is None:
            self._encoding = self.options.encoding or detect_encoding(self.path, self.name) or "?"
        return None if self._encoding == "?" else self._encoding

    @property
    def fraction(self) -> float:
        """How much of the file has been read, from 0 to 1; of a folder and a packed file about as much."""
        return min(1.0, self.bytes_read / max(1, self.path.stat().st_size))

    @property
    def is_folder(self) -> bool:
        try:
            return self.path.is_dir()
        except OSError:  # a name that no file can have
            return False

    @property
    def sha256(self) -> str:
        """Of the bytes as they lie there; of a folder, of the names and bytes of all that is in it."""
        if not self.is_folder:
            self.check()
            with self.path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256()
        for path in sorted(path for path in self.path.rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(self.path).as_posix()}\0".encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def check(self) -> None:
        """Raise InputError unless this is a readable file with something in it."""
        try:
            check_file(self.path)
        except InputError as error:
            error.path = self.name
            raise


def read_lines(source: Source) -> Iterator[tuple[int, str]]:
    """The physical lines with their numbers from 1, line ends kept, without a byte-order mark."""
    source.check()
    with source.open() as file:
        for number in count(1):
            content = file.readline(MAX_LINE_BYTES + 1)
            if not content:
                return
            source.bytes_read += len(content)
            yield number, _decode_line(content, number, source)


def _decode_line(content: bytes, number: int, source: Source) -> str:
    if b"\0" in content:
        raise InputError(
            N_("this is a binary file; give a text file in UTF-8."), path=source.name, line=number
        )
    if len(content) > MAX_LINE_BYTES:
        raise InputError(N_("this line is longer than 64 MiB."), path=source.name, line=number)
    try:
        return content.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(N_("this is not text in UTF-8."), path=source.name, line=number) from error


def json_rows(source: Source) -> Rows:
    """One JSON object a line; blank lines are passed over."""
    for number, text in read_lines(source):
        if text.strip():
            yield json_row(text, number, source)


def json_row(text: str, number: int, source: Source) -> FileRow | InputError:
    try:
        fields = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        return InputError(
            N_("this is not JSON ({why}, column {column}); write one object a line."),
            path=source.name,
            line=number,
            why=error.msg,
            column=error.colno,
        )
    except (ValueError, RecursionError) as error:
        return InputError(N_("this cannot be read: {why}."), path=source.name, line=number, why=str(error))
    if not isinstance(fields, dict):
        return InputError(N_("this is no JSON object; write one a line."), path=source.name, line=number)
    return _build_row(fields, text, number, source)


def _build_row(fields: dict[str, Any], text: str, number: int, source: Source) -> FileRow | InputError:
    if "\\u" in text and not is_storable(fields):
        return InputError(UNSTORABLE, path=source.name, line=number)
    return FileRow(file=source.name, line=number, fields=fields, criteria=source.options.criteria)


def json_items(source: Source) -> Rows:
    """The objects of one JSON array, each numbered from 1 in place of its line; or one object a line.

    Memory holds one of them, however the array is broken into lines.
    """
    source.check()
    with source.open() as file:
        text = _TextBuffer(file, source)
        if text.next() != "[":
            yield from json_rows(source.reopen())
            return
        text.at += 1
        for number in count(1):
            if text.next() == "]" and number == 1:
                break
            item, piece = text.value(number)
            if isinstance(item, dict):
                yield _build_row(item, piece, number, source)
            else:
                yield InputError(N_("this is no JSON object."), path=source.name, line=number)
            if text.next() == "]":
                break
            text.skip(",", number)
        text.at += 1
        if text.next():
            raise InputError(N_("something follows the end of the array; remove it."), path=source.name)


def json_members(source: Source, value: str) -> Rows:
    """The members of one JSON object, each numbered from 1 in place of its line: its name as ``id``, and what it is
    as ``value``. Memory holds one of them.
    """
    source.check()
    with source.open() as file:
        text = _TextBuffer(file, source)
        if text.next() != "{":
            raise InputError(N_("this is no JSON object."), path=source.name)
        text.at += 1
        for number in count(1):
            if text.next() == "}" and number == 1:
                break
            name, _piece = text.value(number)
            text.skip(":", number)
            member, piece = text.value(number)
            yield _build_row({"id": str(name), value: member}, piece, number, source)
            if text.next() == "}":
                break
            text.skip(",", number)
        text.at += 1
        if text.next():
            raise InputError(N_("something follows the end of the object; remove it."), path=source.name)


def is_array(source: Source) -> bool:
    """Whether the file begins as one JSON array does; its first line may be the whole of it, and is not read."""
    source.check()
    with source.open() as file:
        return file.read(BEGINNING).lstrip(codecs.BOM_UTF8 + b" \t\r\n").startswith(b"[")


class _TextBuffer:
    """A text file that is read as far as it is needed; ``at`` is where in what is held the reading stands."""

    def __init__(self, file: IO[bytes], source: Source) -> None:
        self._file, self._source = file, source
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._held, self._ended = "", False
        self.at = 0

    def next(self) -> str:
        """The next character that is no blank, or "" at the end; ``at`` stands on it."""
        while True:
            match = _BLANK.match(self._held, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self._held) or not self._more():
                return self._held[self.at : self.at + 1]

    def skip(self, character: str, number: int) -> None:
        if self.next() != character:
            raise InputError(
                N_(
                    "after this object there is neither a comma nor the end of the array; the file is broken."
                ),
                path=self._source.name,
                line=number,
            )
        self.at += 1

    def value(self, number: int) -> tuple[Any, str]:
        """The next value, and how it is written."""
        self.next()
        while True:
            try:
                value, end = _STRICT.raw_decode(self._held, self.at)
            except json.JSONDecodeError as error:
                if not self._more():
                    raise InputError(
                        N_("this is not JSON ({why}); give one array of objects."),
                        path=self._source.name,
                        line=number,
                        why=error.msg,
                    ) from error
            except (ValueError, RecursionError) as error:
                raise InputError(
                    N_("this cannot be read: {why}."), path=self._source.name, line=number, why=str(error)
                ) from error
            else:
                if end < len(self._held) or not self._more():
                    piece, self.at = self._held[self.at : end], end
                    return value, piece

    def _more(self) -> bool:
        """Read on, at least as much again as is waiting: what is tried anew is not tried often."""
        waiting = self._held[self.at :]
        if self._ended:
            return False
        if len(waiting) > MAX_LINE_BYTES:
            raise InputError(N_("this object is longer than 64 MiB."), path=self._source.name)
        content = self._file.read(max(PIECE, len(waiting)))
        self._source.bytes_read += len(content)
        self._ended = not content
        try:
            self._held, self.at = waiting + self._decoder.decode(content, final=self._ended), 0
        except UnicodeDecodeError as error:
            raise InputError(N_("this is not text in UTF-8."), path=self._source.name) from error
        if b"\0" in content:
            raise InputError(N_("this is a binary file; give a text file in UTF-8."), path=self._source.name)
        return True


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _value in pairs]
        raise ValueError(f'"{next(name for name in names if names.count(name) > 1)}" is there twice')
    return fields


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)


def is_storable(fields: dict[str, Any]) -> bool:
    """No database keeps half a surrogate pair, and PostgreSQL keeps no NUL."""
    content = json.dumps(fields, ensure_ascii=False)
    try:
        content.encode()
    except UnicodeEncodeError:
        return False
    return ESCAPED_NUL.search(content) is None
