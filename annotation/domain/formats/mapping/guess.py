"""Which column of a table is which field, by the names of the columns and what stands in them. Pure.

``guess_mapping(columns, rows, kind)`` knows the usual names of columns in English, Chinese and Japanese, whatever
their case.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from annotation.domain.formats.base import ANNOTATIONS, PROMPTS, RESPONSES
from annotation.domain.formats.generic import TEXTS
from annotation.domain.formats.mapping.column_names import (
    ALIASES,
    FIRST_WORDS,
    ID_WORDS,
    LABEL_WORDS,
    MODEL_STEMS,
    RATER_WORDS,
    RESPONSE_WORDS,
    SECOND_WORDS,
)
from annotation.domain.formats.mapping.mapping import LABEL, LABEL_FIELD, LABELS, MESSAGES, ColumnMapping
from annotation.domain.formats.rows import as_number, is_blank
from annotation.domain.guidelines.values import TURN_SIGN

_MEASURES = frozenset(
    {
        "length",
        "len",
        "time",
        "tokens",
        "latency",
        "type",
        "language",
        "date",
        "id",
        "status",
        "长度",
        "时间",
        "長さ",
    }
)
"""``response_length`` is no response of a model ``length``."""
MAX_LEVEL = 100
_NUMBERED = re.compile(r"^(\d+|[A-Za-z])$")
"""``1`` or ``A`` alone, which names nobody and nothing."""
_UNNAMED_MODEL = re.compile(
    r"^(?:模型|model)[\s_#-]*(?:\d{1,2}|[a-z]|[甲乙丙丁戊己庚辛壬癸一二三四五六七八九十])$"
)
"""``模型甲``, ``模型A`` or ``Model 2``: as models are called where annotators must not know which they are."""
_PARENTHESES = re.compile(r"[（(［\[](.*?)[)）］\]]")


def guess_mapping(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    kind: str,
    criteria: Mapping[str, str] = {},  # read only
) -> ColumnMapping:
    """By the names of the columns and, for what their names leave open, by what the first rows hold.

    ``criteria``: the words that mean a criterion of the guideline, each with its name.
    """
    guess = _Guess(columns, rows, kind, criteria)
    guess.take_named()
    guess.take_labels()
    guess.take_identity()
    guess.take_wide()
    return guess.build()


class _Guess:
    """The mapping of one header while it is guessed; a column is taken once."""

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[Mapping[str, Any]],
        kind: str,
        criteria: Mapping[str, str],
    ) -> None:
        self._columns, self._rows, self._kind = columns, rows, kind
        self._words = {column: _list_words(column) for column in columns}
        self._criteria = {_fold(word): name for word, name in criteria.items()}
        self._fields: dict[str, tuple[str, ...]] = {}
        self._labels: dict[str, str] = {}
        self._models: dict[str, str] = {}
        self._annotators: dict[str, tuple[str, str]] = {}

    def build(self) -> ColumnMapping:
        return ColumnMapping(
            self._kind, self._fields, self._labels, self._models, self._annotators, tuple(self._free())
        )

    def _free(self) -> list[str]:
        used = {*chain.from_iterable(self._fields.values()), *self._labels, *self._models, *self._annotators}
        return [column for column in self._columns if column not in used]

    def _find(self, aliases: Iterable[str]) -> str | None:
        free = self._free()
        for alias in aliases:
            word = _fold(alias)
            for column in free:
                if word in self._words[column]:
                    return column
        return None

    def take_named(self) -> None:
        """A column that bears a field's own name is that; then the other names that it may have.

        Columns of a criterion's name are left for the labels: a criterion may be called ``rating``.
        """
        aliases = ALIASES[self._kind]
        for name in aliases:
            if name in self._columns and self._fits(name, name):
                self._fields[name] = (name,)
        for name, words in aliases.items():
            column = None if name in self._fields else self._find(words)
            if column is not None and self._fits(name, column) and not self._names_criterion(column):
                self._fields[name] = (column,)
        second = self._find(SECOND_WORDS)
        first = self._fields.get("prompt", ("",))[0]
        if second is not None and _fold(first) in FIRST_WORDS:
            self._fields["prompt"] = (first, second)

    def _names_criterion(self, column: str) -> bool:
        return self._kind == ANNOTATIONS and not self._words[column].isdisjoint(self._criteria)

    def _fits(self, name: str, column: str) -> bool:
        """Turns are a list, or JSON of one; labels and texts an object."""
        if name not in {MESSAGES, LABELS, TEXTS}:
            return True
        values = [row[column] for row in self._rows if not is_blank(row.get(column))]
        if name != MESSAGES:
            return all(isinstance(value, dict) for value in values)
        return all(isinstance(value, list) or str(value).lstrip().startswith("[{") for value in values)

    def take_labels(self) -> None:
        """``label.fairness``, and whatever bears the name of a criterion."""
        if self._kind != ANNOTATIONS:
            return
        for column in self._free():
            stem = next(
                (column[len(start) :] for start in (LABEL, "labels.") if column.lower().startswith(start)),
                None,
            )
            if stem:
                self._labels[column] = self._find_criterion(stem, {_fold(stem)}) or stem
            elif criterion := self._find_criterion(column, self._words[column]):
                self._labels[column] = criterion
        if self._labels:
            self._fields.pop(LABEL_FIELD, None)

    def _find_criterion(self, column: str, words: Iterable[str]) -> str | None:
        """The criterion that one of the words means; with its turn where the column has one: ``empathy@3``."""
        for word in words:
            if word in self._criteria:
                return self._criteria[word]
        name, sign, turn = column.partition(TURN_SIGN)
        criterion = self._criteria.get(_fold(name)) if sign and turn.strip().isdigit() else None
        return f"{criterion}{TURN_SIGN}{turn.strip()}" if criterion else None

    def take_identity(self) -> None:
        """``id`` is the prompt's where nothing else says whose response or label a row is."""
        if self._kind == PROMPTS or "prompt_id" in self._fields or {"prompt", MESSAGES} & self._fields.keys():
            return
        if column := self._find(ID_WORDS):
            self._fields["prompt_id"] = (column,)

    def take_wide(self) -> None:
        """A column for each model, or for each annotator, where no column holds the responses or the labels."""
        if self._kind == RESPONSES and not {"response", MESSAGES} & self._fields.keys():
            self._models = self._find_models()
            self._take_row_id()
        is_labelled = bool(self._labels) or {LABEL_FIELD, LABELS} & self._fields.keys()
        if self._kind == ANNOTATIONS and not is_labelled and "annotator" not in self._fields:
            self._annotators = self._find_annotators()

    def _take_row_id(self) -> None:
        """Where each model has a column, a row is a prompt: an ``id`` or ``idx`` that no two rows share is its id."""
        column = self._find(ID_WORDS) if self._models and "prompt_id" not in self._fields else None
        if column is None:
            return
        ids = [row.get(column) for row in self._rows]
        if not any(map(is_blank, ids)) and len(set(map(str, ids))) == len(ids):
            self._fields["prompt_id"] = (column,)

    def _find_models(self) -> dict[str, str]:
        """Columns called ``response_gpt4`` or ``gpt4 回答``; else those that are called as models are."""
        named = {
            column: name
            for column in self._free()
            if (name := _strip_word(column, RESPONSE_WORDS)) and _fold(name) not in _MEASURES
        }
        if named:
            return {column: column if _NUMBERED.match(name) else name for column, name in named.items()}
        return {column: column for column in self._free() if _is_model_name(column)}

    def _find_annotators(self) -> dict[str, tuple[str, str]]:
        """Columns called ``annotator_1``, ``rater A fairness`` or ``标注员1``; else all that are left and hold labels
        alone, if there are several.
        """
        people: dict[str, tuple[str, str]] = {}
        for column in self._free():
            stem, criterion = self._split_criterion(column)
            place = _strip_word(stem, LABEL_WORDS)
            is_numbered = place is not None and _NUMBERED.match(place) is not None
            if _strip_word(stem, RATER_WORDS) is not None or criterion or is_numbered:
                people[column] = (stem, criterion)
        if people:
            return people
        labelled = [column for column in self._free() if holds_numbers(column, self._rows)]
        return {column: (column, "") for column in labelled} if len(labelled) > 1 else {}

    def _split_criterion(self, column: str) -> tuple[str, str]:
        """``rater1_fairness`` or ``fairness: rater1`` as the annotator and the criterion."""
        parts = [part for part in re.split(r"[\s._:：/-]+", column) if part]
        for cut in range(1, len(parts)):
            for head, tail in ((parts[:cut], parts[cut:]), (parts[cut:], parts[:cut])):
                criterion = self._criteria.get(_fold("".join(tail)))
                if criterion is not None:
                    return " ".join(head), criterion
        return column, ""


def holds_numbers(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether nothing but numbers stands in it, such as levels have."""
    if not column or column.lower().startswith("unnamed"):
        return False
    values = [row[column] for row in rows if not is_blank(row.get(column))]
    numbers = [as_number(value) for value in values]
    return bool(values) and all(number is not None and abs(number) <= MAX_LEVEL for number in numbers)


def holds_labels(mapping: ColumnMapping, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each row says who labelled which prompt, beside numbers that a guideline may know as labels."""
    fields = mapping.columns.keys()
    is_of_person = {"annotator", "adjudicator"} & fields and {"prompt", "prompt_id", MESSAGES} & fields
    return bool(is_of_person) and any(holds_numbers(column, rows) for column in mapping.unused)


def _fold(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", word).casefold() if c.isalnum())


def _list_words(column: str) -> frozenset[str]:
    """What a column may be called: ``问题 (prompt)`` is both."""
    inside = _PARENTHESES.findall(column)
    return frozenset(filter(None, map(_fold, (column, _PARENTHESES.sub("", column), *inside))))


def _strip_word(column: str, words: Iterable[str]) -> str | None:
    """What is left of ``response_gpt4`` or ``gpt4的回答`` without the word; None where it has none."""
    folded = column.strip()
    for word in sorted(words, key=len, reverse=True):
        for pattern in (rf"^{re.escape(word)}[\s._:：/-]*(.+)$", rf"^(.+?)[\s._:：/的-]*{re.escape(word)}$"):
            match = re.match(pattern, folded, re.IGNORECASE)
            if match and match[1].strip():
                return match[1].strip()
    return None


def _is_model_name(column: str) -> bool:
    """``gpt-4``, ``llama 2``, ``文心一言`` and ``模型甲``, but not ``command line``'s ``commander``."""
    name = unicodedata.normalize("NFKC", column).strip().casefold()
    if _UNNAMED_MODEL.match(name):
        return True
    starts = [stem for stem in MODEL_STEMS if name.startswith(stem)]
    return any(not stem.isascii() or not name[len(stem) :][:1].isalpha() for stem in starts)
