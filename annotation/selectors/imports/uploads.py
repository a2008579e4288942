"""An uploaded file before it is imported: how it is to be read, and the preview of what was read.

``Import.reading`` holds what was chosen on the page: ``sheet`` and ``encoding``, ``mapping`` (of columns to fields)
with ``remembered`` (when) where it comes from an earlier file, ``left_out`` (names of labels), ``target`` (where it is
to go), and ``outcome``: what came of trying it, a report or problems; empty for a file that was too long to be tried.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.cache import caches
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from annotation.core.errors import N_, AssayError, InputError
from annotation.core.storage import bucket, file_cache
from annotation.core.storage.bucket import SHA256
from annotation.domain.formats import (
    ANNOTATIONS,
    PROMPTS,
    AnnotationRecord,
    Format,
    PromptRecord,
    PromptRef,
    ReadOptions,
    Record,
    ResponseRecord,
    Source,
    get_format,
)
from annotation.domain.formats import table as tables
from annotation.domain.formats.labels import (
    NEAR_CRITERION,
    NO_CRITERION,
    NO_SPAN,
    add_wording,
    list_unknown_words,
)
from annotation.domain.formats.mapping.check import (
    LOOKS_LIKE_LABELS,
    NO_COLUMN,
    NO_COLUMN_OF_EITHER,
    NO_COLUMN_OR_COLUMNS,
    NO_MODEL,
)
from annotation.domain.formats.mapping.mapping import LEFT_OUT, header_key
from annotation.domain.formats.personal_data import PersonalDataScan
from annotation.domain.formats.preview import (
    Duplicates,
    FilePreview,
    ProblemGroup,
    group_problems,
    preview_file,
)
from annotation.domain.formats.tables import open_table
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.texts.personal_data import KIND_NAMES, WAYS, DatumInContext
from annotation.models import Batch, HeaderMapping, Import, Person, Prompt
from annotation.selectors.guidelines import get_guideline

MAX_ROWS = 10
MAX_PROBLEMS = 100
MAX_NAMES = 12
MAX_COMPARED = 200_000
"""So many records are looked through for duplicates on a page, in some 60 MiB of memory."""
MAX_SHOWN_CHARACTERS = 2000
CACHE_SECONDS = 7 * 24 * 60 * 60
NO_COLUMN_CHOSEN = N_("no column holds the {what}. Choose it under “Columns”.")
PAGE_WORDS = {
    NO_COLUMN: NO_COLUMN_CHOSEN,
    NO_COLUMN_OF_EITHER: NO_COLUMN_CHOSEN,
    NO_COLUMN_OR_COLUMNS: NO_COLUMN_CHOSEN,
    NO_MODEL: N_(
        "whose response is this? Choose the column of the model under “Columns”, or name the model of the whole file."
    ),
    LOOKS_LIKE_LABELS: N_(
        "these columns look like labels, and mean no criterion of the guideline: {columns}. Choose under “Columns” what"
        " each is, or “left out”. The criteria are: {known}."
    ),
    NEAR_CRITERION: N_(
        "there is no criterion “{name}”; did you mean “{nearest}”? Else tick it under “Leave out”."
    ),
    NO_CRITERION: N_(
        "there is no criterion “{name}”; the criteria are: {known}. Tick it under “Leave out” if it is none of them."
    ),
    NO_SPAN: N_(
        "a marked span is called “{name}”, which means no criterion, and no level of one criterion alone; the criteria"
        " are: {known}. Tick it under “Leave out” if it is none of them."
    ),
}
"""What a command says in its own words, said in those of the page."""
FIELD_NAMES = {
    "prompt": _("prompt"),
    "prompt_id": _("id of the prompt"),
    "id": _("id of the prompt"),
    "messages": _("chat (messages)"),
    "response": _("response"),
    "model": _("model"),
    "collection": _("collection"),
    "dimension": _("dimension"),
    "subcomponent": _("subcomponent"),
    "language": _("language"),
    "attack_method": _("attack method"),
    "malice": _("malice"),
    "source": _("source"),
    "annotator": _("annotator"),
    "adjudicator": _("adjudicator"),
    "label": _("label"),
    "labels": _("labels, as JSON"),
    "texts": _("texts, as JSON"),
    "criterion": _("criterion of the label"),
    "rationale": _("rationale"),
    "evidence": _("evidence, as JSON"),
    "flags": _("flags"),
    "seconds": _("seconds"),
    "at": _("time"),
    "round": _("labelling round"),
    LEFT_OUT: _("left out"),
    "models": _("responses of one model"),
    "annotators": _("labels of one annotator"),
}


def build_source(upload: Import) -> Source:
    """The stored file, under the name that the person knows, to be read as they said."""
    reading = upload.reading
    options = ReadOptions(
        sheet=reading.get("sheet") or None,
        encoding=reading.get("encoding") or None,
        mapping=reading.get("mapping"),
        left_out=tuple(reading.get("left_out", ())),
    )
    return Source(find_upload_file(upload), upload.file_name, options)


def find_upload_file(upload: Import) -> Path:
    """Where this host has it; of a bucket it is fetched first. Raises NotFound where it is gone."""
    if not bucket.is_used():
        return Path(settings.MEDIA_ROOT) / upload.path
    return file_cache.fetch_file(upload.stored_name, upload.reading.get(SHA256, ""))


def list_columns(upload: Import) -> Sequence[str]:
    """Those of the table's header."""
    return open_table(build_source(upload)).columns


def read_upload_as(
    upload: Import, person: Person, *, kind: str, format_name: str, sheet: str = "", encoding: str = ""
) -> None:
    """Read the file in another way; nothing is stored. The columns of another table are guessed, or remembered."""
    stated = {"sheet": sheet, "encoding": encoding}
    current = {name: upload.reading.get(name, "") for name in stated}
    if (upload.kind, upload.format, current) == (kind, format_name, stated):
        return
    upload.kind, upload.format = kind, format_name
    upload.reading = {"target": upload.reading.get("target", {}), **stated}
    remember_columns(upload, find_remembered(person, build_source(upload), kind))


def remember_columns(upload: Import, remembered: HeaderMapping | None) -> None:
    """Read the columns as they were taken before, where they were."""
    if remembered is not None and upload.format == tables.NAME:
        upload.reading["mapping"] = remembered.mapping
        upload.reading["remembered"] = remembered.changed_at.isoformat()


def find_remembered(person: Person, source: Source, kind: str = "") -> HeaderMapping | None:
    """What the person took the columns of a file with this header for, of this kind or whichever was the latest."""
    try:
        columns = open_table(source.reopen()).columns
    except AssayError:
        return None
    mappings = HeaderMapping.objects.filter(person=person, header=header_key(columns))
    return (mappings.filter(kind=kind) if kind else mappings).order_by("-changed_at").first()


def find_document(kind: str, target: Mapping[str, Any]) -> GuidelineDocument | None:
    """The guideline that the file is to follow, as far as its target says it."""
    reference = str(target.get("guideline") or "")
    try:
        if reference:
            return get_guideline(reference).document
    except AssayError:
        return None
    if kind != ANNOTATIONS:
        return None
    batch = Batch.objects.select_related("guideline").filter(name=target.get("batch") or "").first()
    return batch.guideline.document if batch is not None else None


@dataclass(frozen=True)
class Problem:
    """Alike problems, in the reader's language: how many, and the first of their lines (none of the whole file)."""

    text: str
    field: str = ""
    number: int = 1
    lines: Sequence[int] = ()
    is_mixed: bool = False

    @property
    def has_more(self) -> bool:
        return self.number > len(self.lines) > 0


@dataclass(frozen=True)
class Column:
    """A column of the file, the first thing that stands in it, and the field that it was taken for; "" for none."""

    name: str
    sample: str
    field: str


@dataclass
class Preview:
    """``count`` are the good records of the whole file. ``columns`` are empty where the format knows its fields."""

    rows: list[Mapping[str, Any]] = field(default_factory=list)
    count: int = 0
    problems: list[Problem] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    shape: str = ""
    sheet: str = ""
    sheets: Sequence[str] = ()
    columns: list[Column] = field(default_factory=list)
    names: list[tuple[str, int]] = field(default_factory=list)
    more_names: int = 0
    duplicates: Duplicates = field(default_factory=Duplicates)
    left_out: list[str] = field(default_factory=list)
    unknown_words: list[str] = field(default_factory=list)
    personal_data: list[tuple[str, int, list[DatumInContext]]] | None = None
    """By kind; None where nobody asked for it."""

    @property
    def filled(self) -> frozenset[str]:
        """The columns that say something in any of the rows; the others need no room."""
        names = {name for row in self.rows for name, value in row.items() if value}
        return frozenset(names | {"prompt_text"} if any(row["prompt"].text for row in self.rows) else names)

    @property
    def is_wrong(self) -> bool:
        """Whether an import is refused for what stands in the file itself."""
        return bool(self.problems or self.duplicates.contradicting)

    @property
    def problem_count(self) -> int:
        return sum(problem.number for problem in self.problems)


@dataclass(frozen=True)
class _Reading:
    """What was read of a file, in no language, as the cache keeps it."""

    rows: list[dict[str, Any]]
    count: int
    problems: list[dict[str, Any]]
    unused: list[str]
    shape: str
    sheet: str
    sheets: Sequence[str]
    columns: list[Column]
    names: list[tuple[str, int]]
    more_names: int
    words: Counter[str]
    spans: Counter[str]
    duplicates: Duplicates
    left_out: list[tuple[str, int]]
    personal_data: list[tuple[str, int, list[DatumInContext]]]


def preview_upload(
    upload: Import,
    *,
    kind: str,
    format_name: str,
    document: GuidelineDocument | None = None,
    personal_data: str = "",
) -> Preview:
    """The whole file is read, a record at a time; nothing stored is compared and nothing is written. The page may be
    opened again, in any language, without reading it again.
    """
    form = get_format(format_name)
    form.reader(kind)
    way = personal_data if kind != ANNOTATIONS and personal_data in WAYS else ""
    key = _build_key(upload, kind, format_name, document, way)
    reading = caches["default"].get(key)
    if reading is None:
        reading = _read_upload(upload, form, kind, document, way)
        caches["default"].set(key, reading, CACHE_SECONDS)
    problems = [_write_problem(group) for group in reading.problems]
    left_out = upload.reading.get("left_out", ())
    unknown = []
    if document is not None and kind == ANNOTATIONS:
        unknown = list_unknown_words(document, reading.words, reading.spans, left_out)
        problems += [_build_word_problem(word, reading, document) for word in unknown]
    return Preview(
        rows=reading.rows,
        count=reading.count,
        problems=problems,
        unused=reading.unused,
        shape=reading.shape,
        sheet=reading.sheet,
        sheets=reading.sheets,
        columns=reading.columns,
        names=reading.names,
        more_names=reading.more_names,
        duplicates=reading.duplicates,
        left_out=[gettext(template).format(number=number) for template, number in reading.left_out],
        unknown_words=[*left_out, *unknown],
        personal_data=[
            (gettext(KIND_NAMES[kind]), number, examples) for kind, number, examples in reading.personal_data
        ]
        if way
        else None,
    )


def _build_key(
    upload: Import, kind: str, format_name: str, document: GuidelineDocument | None, way: str
) -> str:
    """Of all that decides how the file is read: the file, which never changes, what was said of it, the guideline."""
    stated = {name: upload.reading.get(name) for name in ("sheet", "encoding", "mapping", "left_out")}
    guideline = document.model_dump_json() if document is not None else ""
    parts = json.dumps([upload.path, kind, format_name, stated, guideline, way], sort_keys=True)
    return build_preview_key(upload.pk, hashlib.sha256(parts.encode()).hexdigest())


def build_preview_key(import_id: int, sha256: str = "") -> str:
    """Where the cache has a preview of the file; without a hash, how the keys of all of them begin."""
    return f"import-preview:2:{import_id}:{sha256}"


def _read_upload(
    upload: Import, form: Format, kind: str, document: GuidelineDocument | None, way: str
) -> _Reading:
    source = build_source(upload)
    if document is not None and kind == ANNOTATIONS:
        source.options = add_wording(source.options, document)
    seen = preview_file(
        source,
        form,
        kind,
        document if kind != ANNOTATIONS else None,
        most_rows=MAX_ROWS,
        most_compared=MAX_COMPARED,
        personal_data=PersonalDataScan(way) if way else None,
    )
    return _Reading(
        rows=[_record_to_row(record) for record in seen.rows],
        count=seen.count,
        problems=[group_to_json(group) for group in seen.problems],
        unused=seen.unused,
        shape=seen.shape,
        sheet=seen.sheet,
        sheets=seen.sheets,
        columns=_list_columns(seen),
        names=[] if kind == PROMPTS else [(n, c) for n, c in seen.names.most_common(MAX_NAMES) if n],
        more_names=max(0, len(seen.names) - MAX_NAMES),
        words=seen.words,
        spans=seen.spans,
        duplicates=seen.duplicates,
        left_out=list(seen.left_out.items()),
        personal_data=[] if seen.personal_data is None else _list_personal_data(seen.personal_data),
    )


def _list_personal_data(scan: PersonalDataScan) -> list[tuple[str, int, list[DatumInContext]]]:
    """By kind, the most frequent first: how many, and the first of them."""
    return [
        (kind, number, [example for example in scan.examples if example.kind == kind])
        for kind, number in scan.counts.most_common()
    ]


def _build_word_problem(word: str, reading: _Reading, document: GuidelineDocument) -> Problem:
    template = NO_CRITERION if word in reading.words else NO_SPAN
    known = ", ".join(criterion.name for criterion in document.criteria)
    params = {"name": word, "known": known}
    number = reading.words[word] + reading.spans[word]
    return Problem(gettext(PAGE_WORDS[template]).format(**params), number=number)


def _list_columns(seen: FilePreview) -> list[Column]:
    """In the order of the file."""
    if seen.mapping is None:
        return []
    choices = seen.mapping.list_choices()
    return [Column(name, seen.samples.get(name, ""), choices.get(name, "")) for name in seen.header]


def list_problems(upload: Import) -> list[Problem]:
    """What was wrong when the import was tried, in the reader's language."""
    problems = [
        InputError(
            problem["template"], path="", line=problem["line"], field=problem["field"], **problem["params"]
        )
        for problem in upload.report.get("problems", [])
    ]
    return [build_problem(group) for group in group_problems(problems)]


def list_import_notes(upload: Import) -> list[str]:
    return format_notes(upload.report)


def format_notes(report: Mapping[str, Any]) -> list[str]:
    return [gettext(note["template"]).format(**note["params"]) for note in report.get("notes", [])]


def build_problem(group: ProblemGroup) -> Problem:
    return _write_problem(group_to_json(group))


def group_to_json(group: ProblemGroup) -> dict[str, Any]:
    """In no language, as a row keeps it."""
    return {
        "template": group.first.template,
        "params": to_json_params(group.first.params),
        "field": group.first.field,
        "number": group.number,
        "lines": group.lines,
        "is_mixed": group.is_mixed,
    }


def to_json_params(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, int | float) else str(value) for name, value in params.items()}


def list_outcome_problems(upload: Import) -> list[Problem]:
    """What was wrong when it was last tried on the page."""
    return [_write_problem(problem) for problem in upload.reading["outcome"].get("problems", [])]


def _write_problem(group: Mapping[str, Any]) -> Problem:
    template, params = group["template"], group["params"]
    if template in PAGE_WORDS and "what" in params:
        params = {**params, "what": FIELD_NAMES.get(params["what"], params["what"])}
    return Problem(
        text=gettext(PAGE_WORDS.get(template, template)).format(**params),
        field=group["field"] or "",
        number=group["number"],
        lines=group["lines"],
        is_mixed=group["is_mixed"],
    )


def _record_to_row(record: Record) -> dict[str, Any]:
    """A record for a table; the columns are the same for all rows of a kind."""
    if isinstance(record, PromptRecord):
        return {
            "line": record.line,
            "prompt": _shorten_ref(record.ref),
            "dimension": record.dimension,
            "subcomponent": record.subcomponent,
            "language": record.language,
            "attack_method": record.attack_method,
            "malice": Prompt.Malice(record.malice).label if record.malice else "",
            "source": record.source,
        }
    place = {
        "line": record.line,
        "prompt": _shorten_ref(record.ref),
        "model": record.model,
        "collection": record.collection,
    }
    if isinstance(record, ResponseRecord):
        turns = [{**turn, "text": turn["text"][:MAX_SHOWN_CHARACTERS]} for turn in record.turns[:MAX_ROWS]]
        return place | {"text": record.text[:MAX_SHOWN_CHARACTERS], "turns": turns}
    is_annotation = isinstance(record, AnnotationRecord)
    return place | {
        "person": record.annotator if isinstance(record, AnnotationRecord) else record.adjudicator,
        "role": "annotator" if is_annotation else "adjudicator",
        "labels": dict(record.labels),
        "rationale": record.rationale[:MAX_SHOWN_CHARACTERS],
    }


def _shorten_ref(ref: PromptRef) -> PromptRef:
    """A text of any length is shown by its beginning; the key of one without an id is that of the whole."""
    return PromptRef(id=ref.key, text=ref.text[:MAX_SHOWN_CHARACTERS])
