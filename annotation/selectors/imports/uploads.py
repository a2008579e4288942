"""An uploaded file before it is imported: how it is to be read, and the preview of what was read.

``Import.reading`` holds what was chosen on the page: ``sheet`` and ``encoding``, ``mapping`` (of columns to fields)
with ``remembered`` (when) where it comes from an earlier file, ``target`` (where it is to go), and ``outcome``: what
came of trying it, a report or problems; empty for a file that was too long to be tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from annotation.core.errors import N_, AssayError, InputError
from annotation.domain.formats import (
    ANNOTATIONS,
    PROMPTS,
    AnnotationRecord,
    PromptRecord,
    ReadOptions,
    Record,
    ResponseRecord,
    Source,
    get_format,
)
from annotation.domain.formats import table as tables
from annotation.domain.formats.labels import list_criterion_words
from annotation.domain.formats.mapping import (
    NO_COLUMN,
    NO_COLUMN_OF_EITHER,
    NO_COLUMN_OR_COLUMNS,
    NO_MODEL,
    ColumnMapping,
    header_key,
)
from annotation.domain.formats.preview import (
    Duplicates,
    FilePreview,
    ProblemGroup,
    group_problems,
    preview_file,
)
from annotation.domain.formats.tables import open_table
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import Batch, Guideline, HeaderMapping, Import, Person
from annotation.selectors.guidelines import get_guideline

MAX_ROWS = 10
MAX_PROBLEMS = 100
MAX_NAMES = 12
MAX_SAMPLED = 3000
"""So many records say of which guideline the dimensions are."""
MAX_COMPARED = 200_000
"""So many records are looked through for duplicates on a page, in some 60 MiB of memory."""
NO_COLUMN_CHOSEN = N_("no column holds the {what}. Choose it under “Columns”.")
PAGE_WORDS = {
    NO_COLUMN: NO_COLUMN_CHOSEN,
    NO_COLUMN_OF_EITHER: NO_COLUMN_CHOSEN,
    NO_COLUMN_OR_COLUMNS: NO_COLUMN_CHOSEN,
    NO_MODEL: N_(
        "whose response is this? Choose the column of the model under “Columns”, or name the model of the whole file."
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
    "annotator": _("annotator"),
    "adjudicator": _("adjudicator"),
    "label": _("label"),
    "labels": _("labels, as JSON"),
    "criterion": _("criterion of the label"),
    "rationale": _("rationale"),
    "evidence": _("evidence, as JSON"),
    "flags": _("flags"),
    "seconds": _("seconds"),
    "at": _("time"),
    "round": _("labelling round"),
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
    )
    return Source(Path(settings.MEDIA_ROOT) / upload.path, upload.file_name, options)


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


def guess_guideline(upload: Import) -> str:
    """The latest version of the guideline that knows at least half of the prompts' dimensions, and the most of them."""
    if upload.kind == ANNOTATIONS:
        return ""
    dimensions = _count_dimensions(upload)
    best, most = "", dimensions.total() / 2
    names = (
        Guideline.objects.exclude(published_at=None)
        .values_list("name", flat=True)
        .distinct()
        .order_by("name")
    )
    for name in names if dimensions else ():
        guideline = get_guideline(name)
        known = sum(
            number for dimension, number in dimensions.items() if guideline.document.dimension(dimension)
        )
        if known >= most and known:
            best, most = str(guideline), known + 1
    return best


def _count_dimensions(upload: Import) -> Counter[str]:
    dimensions: Counter[str] = Counter()
    items = get_format(upload.format).reader(upload.kind).items(build_source(upload))
    for item in islice(items, MAX_SAMPLED):
        prompt = item if isinstance(item, PromptRecord) else getattr(item, "prompt", None)
        if prompt is not None and prompt.dimension:
            dimensions[prompt.dimension] += 1
    return dimensions


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
    mapping: ColumnMapping | None = None

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


def preview_upload(
    upload: Import, *, kind: str, format_name: str, document: GuidelineDocument | None = None
) -> Preview:
    """The whole file is read, a record at a time; nothing stored is compared and nothing is written."""
    source = build_source(upload)
    if document is not None and kind == ANNOTATIONS:
        source.options = add_criteria(source.options, document)
    is_taxonomy = kind != ANNOTATIONS
    seen = preview_file(
        source,
        get_format(format_name),
        kind,
        document if is_taxonomy else None,
        most_rows=MAX_ROWS,
        most_compared=MAX_COMPARED,
    )
    return Preview(
        rows=[_record_to_row(record) for record in seen.rows],
        count=seen.count,
        problems=[build_problem(group) for group in seen.problems],
        unused=seen.unused,
        shape=seen.shape,
        sheet=seen.sheet,
        sheets=seen.sheets,
        columns=_list_columns(seen),
        names=[] if kind == PROMPTS else [(n, c) for n, c in seen.names.most_common(MAX_NAMES) if n],
        more_names=max(0, len(seen.names) - MAX_NAMES),
        duplicates=seen.duplicates,
        left_out=[gettext(text).format(number=number) for text, number in seen.left_out.items()],
        mapping=seen.mapping,
    )


def add_criteria(options: ReadOptions, document: GuidelineDocument) -> ReadOptions:
    return replace(options, criteria=list_criterion_words(document))


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
            "prompt": record.ref,
            "dimension": record.dimension,
            "subcomponent": record.subcomponent,
            "language": record.language,
            "attack_method": record.attack_method,
        }
    place = {
        "line": record.line,
        "prompt": record.ref,
        "model": record.model,
        "collection": record.collection,
    }
    if isinstance(record, ResponseRecord):
        return place | {"text": record.text, "turns": record.turns}
    is_annotation = isinstance(record, AnnotationRecord)
    return place | {
        "person": record.annotator if isinstance(record, AnnotationRecord) else record.adjudicator,
        "role": "annotator" if is_annotation else "adjudicator",
        "labels": record.labels,
        "rationale": record.rationale,
    }
