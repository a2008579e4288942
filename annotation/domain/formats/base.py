"""The records that every format is read into, the shape of a format, and a guess at a file's format.

``line`` of a record is the 1-based line of the file on which it begins. A format has a reader for each kind of
content, or none. The guess rests on the fields of a file's first record; the person may change it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeAlias, TypeVar

from annotation.core.errors import N_, AssayError, InputError
from annotation.domain.datasets import prompt_key
from annotation.domain.formats.rows import FileRow, Rows, Source, UnfitFile, is_array, json_items, read_lines


@dataclass(slots=True, unsafe_hash=True)
class PromptRef:
    """How a record names its prompt: by its id, or where it has none by its text (then ``id`` is empty).

    Nothing changes it, as nothing changes a record of labels: frozen, both take much longer to make.
    """

    id: str = ""
    text: str = ""

    @property
    def key(self) -> str:
        return self.id or prompt_key(self.text)


@dataclass(frozen=True, slots=True)
class PromptRecord:
    line: int
    ref: PromptRef
    dimension: str = ""
    subcomponent: str = ""
    language: str = ""
    attack_method: str | None = None
    malice: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """A text or the turns of a dialogue. ``prompt`` is there where the file brings its prompts along. ``is_cut``: the
    file says that a turn was cut off by the limit of tokens.

    ``model`` and ``collection`` are None where the file does not say.
    """

    line: int
    ref: PromptRef
    text: str = ""
    turns: Sequence[Mapping[str, str]] = ()
    model: str | None = None
    collection: str | None = None
    prompt: PromptRecord | None = None
    is_cut: bool = False


@dataclass(slots=True)
class AnnotationRecord:
    """What one person said of one response. The labels are checked by the guideline, not here.

    ``at`` is when; None where the file does not say. ``round`` is the round of labelling, a number or a word.
    """

    line: int
    ref: PromptRef
    annotator: str
    labels: Mapping[str, Any]
    model: str | None = None
    collection: str | None = None
    rationale: str = ""
    evidence: Sequence[Mapping[str, Any]] = ()
    flags: Sequence[str] = ()
    seconds: float | None = None
    at: datetime | None = None
    round: str = ""


@dataclass(slots=True)
class AdjudicationRecord:
    """The third person's decision on the disputed criteria of one response.

    ``is_whole``: it answers every criterion, as of somebody who did not know what was disputed.
    """

    line: int
    ref: PromptRef
    adjudicator: str
    labels: Mapping[str, Any]
    model: str | None = None
    collection: str | None = None
    rationale: str = ""
    seconds: float | None = None
    at: datetime | None = None
    round: str = ""
    reason: str = ""
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class ScoreRecord:
    """What an evaluation harness itself said of one response: its scorer or metric is the ``judge``."""

    row: FileRow
    prompt: str
    judge: str
    value: Any
    target: Any
    answer: Any
    model: str | None
    collection: str | None


def format_epoch(number: int) -> str:
    """The name of the collection of what a model answered the ``number``-th time."""
    return f"epoch {number}"


def format_options(options: Sequence[object]) -> str:
    """``A) …`` and so on, as the options stand under their question."""
    return "\n".join(f"{_LETTERS[place]}) {option}" for place, option in enumerate(options[: len(_LETTERS)]))


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


Record: TypeAlias = PromptRecord | ResponseRecord | AnnotationRecord | AdjudicationRecord

PROMPTS, RESPONSES, ANNOTATIONS = "prompts", "responses", "annotations"
KINDS = (PROMPTS, RESPONSES, ANNOTATIONS)
LABEL = "label."
MAX_UNUSED = 20
R_co = TypeVar("R_co", covariant=True)
Judgement: TypeAlias = AnnotationRecord | AdjudicationRecord


@dataclass(frozen=True)
class Reader(Generic[R_co]):
    """How one kind of content is read. ``known`` are the fields that it uses or knowingly leaves out; None where a
    field may be called anything.

    ``passes_over`` tells of a row what is not read on purpose: a message with ``{number}`` for each such thing.
    """

    rows: Callable[[Source], Rows]
    parse: Callable[[FileRow], Iterable[R_co]]
    known: frozenset[str] | None
    passes_over: Callable[[FileRow], Iterable[str]] | None = None

    def read(self, source: Source) -> Iterator[R_co]:
        """The records, as a stream; the first thing that is wrong is raised."""
        for item in self.items(source):
            if isinstance(item, InputError):
                raise item
            yield item

    def items(self, source: Source) -> Iterator[R_co | InputError]:
        """The records, and in their place what is wrong; ends where the rest cannot be read."""
        is_empty = True
        try:
            for row in self.rows(source):
                is_empty = False
                yield from [row] if isinstance(row, InputError) else self._parse_row(row, source)
        except InputError as error:
            yield error
            return
        if is_empty:
            yield InputError(N_("there are no rows in this file."), path=source.name)

    def _parse_row(self, row: FileRow, source: Source) -> Sequence[R_co | InputError]:
        if self.known is not None and not row.fields.keys() <= self.known and len(source.unused) < MAX_UNUSED:
            unused = [name for name in row.fields if name not in self.known and not name.startswith(LABEL)]
            source.unused.update(dict.fromkeys(unused[:MAX_UNUSED]))
        try:
            records = list(self.parse(row))
        except InputError as error:
            return [error]
        if self.passes_over is not None:
            source.passed_over.update(self.passes_over(row))
        return records


@dataclass(frozen=True)
class Format:
    """``joins_on_id``: the wording of a prompt may differ between files; the first is kept.

    ``names_places``: a response names its prompt by the prompt's place in the file of prompts, from 0.
    ``complete``: a file of labels brings its responses, prompts and people along.
    ``is_array``: the records may stand in one JSON array. ``is_worded``: labels may be told in the guideline's words
    (``labels.py``); with ``is_checked`` a label of a criterion that is not asked is refused, else passed over.
    ``label_field`` is what goes before a criterion in the name of a field with its label.
    ``is_log``: the log of an evaluation harness. It brings its dataset along, and its epochs are collections.
    ``guess`` says from the fields of the first record which kind of content this would be, if any.
    """

    name: str
    is_json: bool
    guess: Callable[[frozenset[str]], str | None]
    prompts: Reader[PromptRecord] | None = None
    responses: Reader[ResponseRecord] | None = None
    annotations: Reader[Judgement] | None = None
    joins_on_id: bool = False
    names_places: bool = False
    complete: bool = False
    is_array: bool = False
    is_worded: bool = False
    label_field: str = ""
    is_log: bool = False
    is_checked: bool = False
    model_of: Callable[[str], str | None] = field(default=lambda _file_name: None)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind, reader in self._readers().items() if reader is not None)

    def read_prompts(self, source: Source) -> Iterator[PromptRecord]:
        return self.prompt_reader().read(source)

    def read_responses(self, source: Source) -> Iterator[ResponseRecord]:
        return self.response_reader().read(source)

    def read_annotations(self, source: Source) -> Iterator[Judgement]:
        return self.annotation_reader().read(source)

    def prompt_reader(self) -> Reader[PromptRecord]:
        return self.prompts if self.prompts is not None else self._refuse(PROMPTS)

    def response_reader(self) -> Reader[ResponseRecord]:
        return self.responses if self.responses is not None else self._refuse(RESPONSES)

    def annotation_reader(self) -> Reader[Judgement]:
        return self.annotations if self.annotations is not None else self._refuse(ANNOTATIONS)

    def reader(self, kind: str) -> Reader[PromptRecord] | Reader[ResponseRecord] | Reader[Judgement]:
        return self._readers()[kind] or self._refuse(kind)

    def unfit_column(self, source: Source) -> str | None:
        """The column by which this is no file of people's labels, such as a judge's; None where there is none."""
        first = next(self.annotation_reader().items(source), None)
        return first.field if isinstance(first, UnfitFile) else None

    def _readers(
        self,
    ) -> Mapping[str, Reader[PromptRecord] | Reader[ResponseRecord] | Reader[Judgement] | None]:
        return {PROMPTS: self.prompts, RESPONSES: self.responses, ANNOTATIONS: self.annotations}

    def _refuse(self, kind: str) -> Reader[R_co]:
        raise AssayError(
            N_("The format {format} has no {kind}; it has: {known}."),
            format=self.name,
            kind=kind,
            known=", ".join(self.kinds),
        )


@dataclass(frozen=True)
class Guess:
    format: str
    kind: str


def guess_among(source: Source, formats: Iterable[Format]) -> Guess | None:
    """The first format that recognises the fields of the first record."""
    try:
        if is_array(source):
            fields = _item_fields(source)
            kinds = ((candidate.name, candidate.guess(fields)) for candidate in formats if candidate.is_array)
            return next((Guess(format=name, kind=kind) for name, kind in kinds if kind is not None), None)
        first = next((text for _number, text in read_lines(source) if text.strip()), "")
    except InputError:
        return None
    is_json = first.lstrip().startswith("{")
    fields = _json_fields(first) if is_json else _csv_fields(first)
    for candidate in formats:
        kind = candidate.guess(fields) if candidate.is_json == is_json else None
        if kind is not None:
            return Guess(format=candidate.name, kind=kind)
    return None


def _item_fields(source: Source) -> frozenset[str]:
    try:
        row = next(json_items(source.reopen()), None)
    except InputError:
        return frozenset()
    return frozenset() if row is None or isinstance(row, InputError) else frozenset(row.fields)


def _json_fields(line: str) -> frozenset[str]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset(record) if isinstance(record, dict) else frozenset()


def _csv_fields(line: str) -> frozenset[str]:
    try:
        return frozenset(cell.strip() for cell in next(csv.reader([line]), []))
    except csv.Error:
        return frozenset()
