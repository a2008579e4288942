"""What a mapping must have before a row of its table is read, and what it must not leave over. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from annotation.core.errors import N_, InputError
from annotation.domain.formats.answers import OPTION_SIGN
from annotation.domain.formats.base import ANNOTATIONS, PROMPTS, RESPONSES
from annotation.domain.formats.generic import NO_DISTRIBUTION, is_distribution, is_na
from annotation.domain.formats.labels import fold_label
from annotation.domain.formats.mapping.apply import is_label
from annotation.domain.formats.mapping.mapping import (
    ANNOTATORS,
    LABEL_FIELD,
    LABELS,
    MESSAGES,
    MODELS,
    ColumnMapping,
)
from annotation.domain.formats.rows import ReadOptions

MAX_SLIP_CHARACTERS = 2
"""So many letters too many or too few are a slip: ``Fairnes``, but not ``fairness_example``."""
MIN_SLIPPED_CHARACTERS = 5
NO_MODEL = N_("whose response is this? Name the model in the file, or for the whole file (--model).")
NO_COLUMN = N_(
    "no column was taken for the {what}; say which it is ({what}=COLUMN). The columns are: {known}."
)
NO_COLUMN_OF_EITHER = N_(
    "no column was taken for the {what}; say which it is ({what}=COLUMN or {other}=COLUMN). The columns are: {known}."
)
NO_COLUMN_OR_COLUMNS = N_(
    "no column was taken for the {what}; say which it is ({what}=COLUMN), or which columns there are of it"
    " ({other}=COLUMN,COLUMN). The columns are: {known}."
)
LOOKS_LIKE_LABELS = N_(
    "these columns look like labels, and mean no criterion of the guideline: {columns}. Say which each is"
    " (--map label.CRITERION=COLUMN), or that it is left out (--leave-out COLUMN). The criteria are: {known}."
)


def check_mapping(mapping: ColumnMapping, columns: Sequence[str], path: str, annotator: str | None) -> None:
    """InputError for what no row could be read without: it says which column is missing, and how to name it."""
    fields = mapping.columns.keys()
    missing: tuple[str, str] | None = None
    if mapping.kind == PROMPTS and not {"prompt", MESSAGES} & fields:
        missing = ("prompt", "")
    elif mapping.kind != PROMPTS and not {"prompt", "prompt_id", MESSAGES} & fields:
        missing = ("prompt", "prompt_id")
    elif mapping.kind == RESPONSES and not ({"response", MESSAGES} & fields or mapping.models):
        missing = ("response", MODELS)
    elif mapping.kind == ANNOTATIONS and not (
        {LABEL_FIELD, LABELS} & fields or mapping.labels or mapping.annotators
    ):
        distribution = next(filter(is_distribution, columns), None)
        if distribution is not None:
            raise InputError(NO_DISTRIBUTION, path=path, field=distribution)
        missing = (LABEL_FIELD, ANNOTATORS)
    elif mapping.kind == ANNOTATIONS and not (
        {"annotator", "adjudicator"} & fields or mapping.annotators or annotator
    ):
        missing = ("annotator", "")
    if missing is not None:
        raise _refuse_missing(*missing, columns, path)


def _refuse_missing(name: str, otherwise: str, columns: Sequence[str], path: str) -> InputError:
    known = ", ".join(columns)[:400] or "-"
    if otherwise in {MODELS, ANNOTATORS}:
        template = NO_COLUMN_OR_COLUMNS
    else:
        template = NO_COLUMN_OF_EITHER if otherwise else NO_COLUMN
    return InputError(template, path=path, what=name, other=otherwise, known=known)


def check_leftovers(
    mapping: ColumnMapping, rows: Sequence[Mapping[str, Any]], options: ReadOptions, path: str
) -> None:
    """InputError for columns of labels that nothing was taken for: no label is left out unless somebody says so."""
    strays = [column for column in mapping.unused if _looks_like_labels(column, rows, options)]
    if strays:
        raise InputError(
            LOOKS_LIKE_LABELS,
            path=path,
            columns=", ".join(strays)[:400],
            known=", ".join(
                dict.fromkeys(field.partition(OPTION_SIGN)[0] for field in options.criteria.values())
            ),
        )


def _looks_like_labels(column: str, rows: Sequence[Mapping[str, Any]], options: ReadOptions) -> bool:
    """A column that is nearly called as a criterion, or in which nothing stands but levels of one."""
    if not column or column.lower().startswith("unnamed"):  # as programs call a column of numbers of rows
        return False
    if is_named_as(column, options.criteria):
        return True
    values = (row.get(column) for row in rows)
    labels = {fold_label(value) for value in values if is_label(value) and not is_na(value)}
    return bool(labels) and any(labels <= levels for levels in options.levels.values())


def is_named_as(name: str, words: Iterable[str]) -> bool:
    """Whether it is one of the words, or one with a slip."""
    return any(
        _count_other_characters(name.casefold(), word.casefold()) <= _allow_slip(word) for word in words
    )


def _count_other_characters(name: str, word: str) -> int:
    same = sum(
        block.size for block in SequenceMatcher(None, name, word, autojunk=False).get_matching_blocks()
    )
    return len(name) + len(word) - 2 * same


def _allow_slip(word: str) -> int:
    return MAX_SLIP_CHARACTERS if len(word) >= MIN_SLIPPED_CHARACTERS else 0
