"""The files that people bring: prompts, responses and labels, read as streams of frozen records. Pure.

Each format is one small module with a ``FORMAT``. docs/formats.md describes them for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from annotation.core.errors import N_, AssayError, NotFound
from annotation.domain.formats import (
    csv,
    cvalues,
    esc_eval,
    flames,
    inspect_ai,
    jsonl,
    label_studio,
    lm_eval,
    pandalm,
    preferences,
    table,
    xstest,
)
from annotation.domain.formats.base import (
    ANNOTATIONS,
    KINDS,
    PROMPTS,
    RESPONSES,
    AdjudicationRecord,
    AnnotationRecord,
    Format,
    Guess,
    PromptRecord,
    PromptRef,
    Reader,
    Record,
    ResponseRecord,
    guess_among,
)
from annotation.domain.formats.mapping.check import check_mapping
from annotation.domain.formats.mapping.guess import holds_labels
from annotation.domain.formats.rows import ReadOptions, Source
from annotation.domain.formats.tables import is_table

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        module.FORMAT.name: module.FORMAT
        for module in (
            flames,
            cvalues,
            xstest,
            esc_eval,
            lm_eval,
            pandalm,
            preferences,
            jsonl,
            csv,
            label_studio,
            inspect_ai,
            table,
        )
    }
)
GENERIC = frozenset({"jsonl", "csv", "flames"})
"""They are tables like others; only where they are named nothing but their own names of fields is understood."""


def get_format(name: str) -> Format:
    if name not in FORMATS:
        raise NotFound(
            N_("There is no format {name}; the formats are {known}."), name=name, known=", ".join(FORMATS)
        )
    return FORMATS[name]


def guess_format(source: Source) -> Guess | None:
    """Which format and kind the file seems to be, by its first record; None if nothing fits."""
    if inspect_ai.is_log(source):
        return Guess(format=inspect_ai.NAME, kind=RESPONSES)
    if not is_table(source):
        return guess_among(source, FORMATS.values()) or _guess_table(source)
    return _guess_table(source)


def _guess_table(source: Source) -> Guess | None:
    """A table of the kind that most of its header speaks of: labels, else responses, else prompts."""
    for kind in (ANNOTATIONS, RESPONSES, PROMPTS):
        try:
            opened, mapping, sample = table.map_table(source.reopen(), kind)
            if kind == ANNOTATIONS and holds_labels(mapping, sample):
                return Guess(format=table.NAME, kind=kind)
            check_mapping(mapping, opened.columns, source.name, annotator=None)
        except AssayError:
            continue
        return Guess(format=table.NAME, kind=kind)
    return None


def recognise_format(source: Source, kind: str) -> str:
    """The format in which a file is read where nobody names one: of a shape of its own, or a table."""
    if inspect_ai.is_log(source):
        return inspect_ai.NAME
    if is_table(source) or source.options.is_stated:
        return table.NAME
    guess = guess_among(source, (form for form in FORMATS.values() if form.name not in GENERIC))
    is_fit = guess is not None and kind in FORMATS[guess.format].kinds
    return guess.format if guess is not None and is_fit else table.NAME


__all__ = [
    "ANNOTATIONS",
    "FORMATS",
    "GENERIC",
    "KINDS",
    "PROMPTS",
    "RESPONSES",
    "AdjudicationRecord",
    "AnnotationRecord",
    "Format",
    "Guess",
    "PromptRecord",
    "PromptRef",
    "ReadOptions",
    "Reader",
    "Record",
    "ResponseRecord",
    "Source",
    "get_format",
    "guess_format",
    "recognise_format",
]
