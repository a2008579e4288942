"""The files that people bring: prompts, responses and labels, read as streams of frozen records. Pure.

Each format is one small module with a ``FORMAT``. docs/formats.md describes them for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from annotation.core.errors import N_, NotFound
from annotation.domain.formats import csv, flames, inspect_ai, jsonl, label_studio, lm_eval, xstest
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
from annotation.domain.formats.rows import Source

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        module.FORMAT.name: module.FORMAT
        for module in (flames, xstest, lm_eval, jsonl, csv, label_studio, inspect_ai)
    }
)


def get_format(name: str) -> Format:
    if name not in FORMATS:
        raise NotFound(
            N_("There is no format {name}; the formats are {known}."), name=name, known=", ".join(FORMATS)
        )
    return FORMATS[name]


def guess_format(source: Source) -> Guess | None:
    """Which format and kind the file seems to be, by its name and first record; None if nothing fits."""
    if inspect_ai.is_log(source):
        return Guess(format=inspect_ai.NAME, kind=RESPONSES)
    return guess_among(source, FORMATS.values())


__all__ = [
    "ANNOTATIONS",
    "FORMATS",
    "KINDS",
    "PROMPTS",
    "RESPONSES",
    "AdjudicationRecord",
    "AnnotationRecord",
    "Format",
    "Guess",
    "PromptRecord",
    "PromptRef",
    "Reader",
    "Record",
    "ResponseRecord",
    "Source",
    "get_format",
    "guess_format",
]
