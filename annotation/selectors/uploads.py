"""What an uploaded file holds, before it is imported: the first rows as they were read, and what is wrong where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.translation import gettext

from annotation.errors import InputError
from annotation.formats import (
    AnnotationRecord,
    PromptRecord,
    Record,
    ResponseRecord,
    Source,
    format_named,
)
from annotation.models import Import

MOST_ROWS = 10
MOST_PROBLEMS = 100


@dataclass(frozen=True)
class Problem:
    """``line`` None concerns the whole file."""

    line: int | None
    field: str
    text: str


@dataclass
class Preview:
    """``count`` are the good records of the whole file; of the problems the first hundred are told."""

    rows: list[Mapping[str, Any]] = field(default_factory=list)
    count: int = 0
    problems: list[Problem] = field(default_factory=list)
    more_problems: int = 0
    unused: list[str] = field(default_factory=list)

    @property
    def filled(self) -> frozenset[str]:
        """The columns that say something in any of the rows; the others need no room."""
        names = {name for row in self.rows for name, value in row.items() if value}
        return frozenset(names | {"prompt_text"} if any(row["prompt"].text for row in self.rows) else names)


def source_of(upload: Import) -> Source:
    """The stored file, under the name that the person knows."""
    return Source(Path(settings.MEDIA_ROOT) / upload.path, upload.file_name)


def preview(upload: Import, *, kind: str, format_name: str) -> Preview:
    """The whole file is read, a record at a time; nothing is looked up and nothing is written."""
    found, source = Preview(), source_of(upload)
    for item in format_named(format_name).reader(kind).items(source):
        if isinstance(item, InputError):
            _add_problem(found, item)
            continue
        found.count += 1
        if len(found.rows) < MOST_ROWS:
            found.rows.append(_row(item))
    found.unused = list(source.unused)
    return found


def problems_of(upload: Import) -> list[Problem]:
    """What was wrong when the import was tried, in the reader's language."""
    return [
        Problem(one["line"], one["field"] or "", gettext(one["template"]).format(**one["params"]))
        for one in upload.report.get("problems", [])
    ]


def notes_of(upload: Import) -> list[str]:
    return [gettext(note["template"]).format(**note["params"]) for note in upload.report.get("notes", [])]


def problem_of(error: InputError) -> Problem:
    return Problem(error.line, error.field or "", gettext(error.template).format(**error.params))


def _add_problem(found: Preview, error: InputError) -> None:
    if len(found.problems) < MOST_PROBLEMS:
        found.problems.append(problem_of(error))
    else:
        found.more_problems += 1


def _row(record: Record) -> dict[str, Any]:
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
