"""Which column of a table is which field: guessed from the header, said by a person, and applied to rows. Pure.

``guess_mapping(columns, rows, kind)`` knows the usual names of columns in English, Chinese and Japanese, whatever
their case. ``map_fields`` overlays what a person said (``{"prompt": "问题"}``). ``apply_mapping`` makes of a row of
the table the rows that a reader of records takes: one, or one for each column of a wide table. ``to_json`` and
``from_json`` carry a mapping; ``header_key`` is what it is remembered by.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from annotation.core.errors import N_, AssayError, InputError
from annotation.core.names import find_nearest
from annotation.domain.annotations import MARKABLE
from annotation.domain.formats.base import ANNOTATIONS, PROMPTS, RESPONSES
from annotation.domain.formats.chat import SYSTEM, USER, read_messages
from annotation.domain.formats.column_names import (
    ALIASES,
    FIRST_WORDS,
    ID_WORDS,
    LABEL_WORDS,
    MODEL_STEMS,
    RATER_WORDS,
    RESPONSE_WORDS,
    SECOND_WORDS,
)
from annotation.domain.formats.rows import FileRow, as_number

LABEL = "label."
LABEL_FIELD, CRITERION, LABELS = "label", "criterion", "labels"
MODELS, ANNOTATORS = "models", "annotators"
MESSAGES = "messages"
IGNORED = ""
"""The column of a field that the file is said not to have."""

WIDE = {RESPONSES: MODELS, ANNOTATIONS: ANNOTATORS}
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
_NO_LABEL = {"", "-", "–", "—", "nan", "null", "none"}
_ROUNDED = re.compile(r"^\d(?:\.\d+)?E\+\d+$", re.IGNORECASE)
_NUMBERED = re.compile(r"^(\d+|[A-Za-z])$")
"""``1`` or ``A`` alone, which names nobody and nothing."""
_PARENTHESES = re.compile(r"[（(［\[](.*?)[)）］\]]")
MAX_EXACT_DIGITS = 15
_JOINED = {"prompt", "response", "rationale"}
"""The fields whose texts may stand in several columns."""
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
NO_ANSWER = N_("{number} cells without a response were passed over.")
SYSTEM_MESSAGES = N_("{number} system messages were passed over: a prompt is one text.")
ANSWERS = N_("{number} answers were passed over: these are prompts.")
NOT_LABELLED = N_("{number} cells without a label were passed over.")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class ColumnMapping:
    """``columns``: the column of each field; of several, whose texts are joined, the names in order. ``labels``: the
    criterion of each column of labels, "" where it is the only one asked. ``models``: in a wide table of responses the
    model of each column. ``annotators``: in one of labels the annotator and the criterion of each.

    ``unused`` are the columns that are none of these.
    """

    kind: str
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    annotators: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()

    def list_choices(self) -> dict[str, str]:
        """The field of each column, as a form calls it: ``prompt``, ``label.fairness``, ``models``; "" for none."""
        fields = {column: name for name, columns in self.columns.items() for column in columns}
        labels = {column: f"{LABEL}{name}" if name else LABEL_FIELD for column, name in self.labels.items()}
        wide = dict.fromkeys(self.models, MODELS) | dict.fromkeys(self.annotators, ANNOTATORS)
        return {**dict.fromkeys(self.unused, IGNORED), **fields, **labels, **wide}

    def describe(self) -> list[tuple[str, str]]:
        """Each column with what it was taken for, as ``prompt``, ``label.fairness``, ``model gpt4``; "" for none."""
        fields = [(column, name) for name, columns in self.columns.items() for column in columns]
        labels = [(column, f"{LABEL}{name}" if name else LABEL_FIELD) for column, name in self.labels.items()]
        models = [(column, f"model {name}") for column, name in self.models.items()]
        people = [
            (column, f"annotator {name}" + (f" {LABEL}{criterion}" if criterion else ""))
            for column, (name, criterion) in self.annotators.items()
        ]
        return [*fields, *labels, *models, *people, *((column, "") for column in self.unused)]

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "columns": {name: list(columns) for name, columns in self.columns.items()},
            "labels": dict(self.labels),
            "models": dict(self.models),
            "annotators": {column: list(pair) for column, pair in self.annotators.items()},
            "unused": list(self.unused),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ColumnMapping:
        return cls(
            kind=data["kind"],
            columns={name: tuple(columns) for name, columns in data["columns"].items()},
            labels=dict(data["labels"]),
            models=dict(data["models"]),
            annotators={column: (pair[0], pair[1]) for column, pair in data["annotators"].items()},
            unused=tuple(data["unused"]),
        )


def header_key(columns: Iterable[str]) -> str:
    """What the mapping of a header is remembered by: the same for the same columns in the same order."""
    return hashlib.sha256(json.dumps(list(columns), ensure_ascii=False).encode()).hexdigest()


def list_fields(kind: str) -> list[str]:
    """The fields that a column can be, as ``--map`` and a form call them."""
    fields = list(ALIASES[kind])
    return [*fields, WIDE[kind]] if kind in WIDE else fields


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
        """Turns are a list, or JSON of one; labels an object."""
        if name not in {MESSAGES, LABELS}:
            return True
        values = [row[column] for row in self._rows if not _is_blank(row.get(column))]
        if name == LABELS:
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
                self._labels[column] = self._criteria.get(_fold(stem), stem)
            elif criterion := next(
                (self._criteria[word] for word in self._words[column] if word in self._criteria), None
            ):
                self._labels[column] = criterion
        if self._labels:
            self._fields.pop(LABEL_FIELD, None)

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
        is_labelled = bool(self._labels) or {LABEL_FIELD, LABELS} & self._fields.keys()
        if self._kind == ANNOTATIONS and not is_labelled and "annotator" not in self._fields:
            self._annotators = self._find_annotators()

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
        labelled = [column for column in self._free() if self._holds_labels(column)]
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

    def _holds_labels(self, column: str) -> bool:
        if not column or column.lower().startswith("unnamed"):
            return False
        values = [row[column] for row in self._rows if not _is_blank(row.get(column))]
        numbers = [as_number(value) for value in values]
        return bool(values) and all(number is not None and abs(number) <= 100 for number in numbers)


def map_fields(
    mapping: ColumnMapping, fields: Mapping[str, str], columns: Sequence[str], path: str
) -> ColumnMapping:
    """The mapping with what a person said: the column of a field, the columns of ``models`` or ``annotators`` with
    commas between them, ``+`` between columns whose texts belong together, "" for a field that the file does not have.
    """
    for name, stated in fields.items():
        selected = _list_columns(name, stated, columns, path)
        mapping = _drop_rivals(_free_columns(mapping, selected), name) if selected else mapping
        if name == MODELS and mapping.kind == RESPONSES:
            mapping = replace(
                mapping, models={column: mapping.models.get(column, column) for column in selected}
            )
        elif name == ANNOTATORS and mapping.kind == ANNOTATIONS:
            mapping = replace(mapping, annotators={column: (column, "") for column in selected})
        elif name.startswith(LABEL) and mapping.kind == ANNOTATIONS:
            labels = {column: c for column, c in mapping.labels.items() if c != name.removeprefix(LABEL)}
            mapping = replace(mapping, labels=labels | dict.fromkeys(selected, name.removeprefix(LABEL)))
        elif name in ALIASES[mapping.kind]:
            rest = {field: c for field, c in mapping.columns.items() if field != name}
            mapping = replace(mapping, columns=rest | ({name: tuple(selected)} if selected else {}))
        else:
            raise _refuse_field(name, mapping.kind)
    return replace(mapping, unused=_list_unused(mapping, columns))


def choose_fields(
    guess: ColumnMapping, choices: Mapping[str, str], columns: Sequence[str], path: str
) -> ColumnMapping:
    """The mapping in which each column is the field that was chosen for it, as ``list_choices`` calls it. ``guess``
    still names the models and the annotators of a wide table.
    """
    fields: dict[str, list[str]] = {}
    labels: dict[str, str] = {}
    wide: dict[str, list[str]] = {MODELS: [], ANNOTATORS: []}
    for column in columns:
        name = choices.get(column, IGNORED)
        if name == WIDE.get(guess.kind):
            wide[name].append(column)
        elif name.startswith(LABEL) and guess.kind == ANNOTATIONS:
            labels[column] = name.removeprefix(LABEL)
        elif name in ALIASES[guess.kind]:
            fields.setdefault(name, []).append(column)
        elif name != IGNORED:
            raise _refuse_field(name, guess.kind)
    for name, selected in fields.items():
        if len(selected) > 1 and name not in _JOINED:
            raise InputError(
                N_("the columns {columns} are chosen for the same field; only one can be it."),
                path=path,
                field=selected[-1],
                columns=", ".join(f"“{column}”" for column in selected),
            )
    used = {*chain.from_iterable(fields.values()), *labels, *chain.from_iterable(wide.values())}
    return ColumnMapping(
        kind=guess.kind,
        columns={name: tuple(selected) for name, selected in fields.items()},
        labels=labels,
        models={column: guess.models.get(column, column) for column in wide[MODELS]},
        annotators={column: guess.annotators.get(column, (column, "")) for column in wide[ANNOTATORS]},
        unused=tuple(column for column in columns if column not in used),
    )


def adopt_mapping(
    guess: ColumnMapping, stated: ColumnMapping, columns: Sequence[str], path: str
) -> ColumnMapping:
    """The mapping that was stated for these columns; of one for another kind of content, the fields that both have."""
    for column, name in stated.list_choices().items():
        if name != IGNORED and column not in columns:
            raise refuse_column(column, columns, path)
    if stated.kind == guess.kind:
        return replace(stated, unused=_list_unused(stated, columns))
    fields = {name: selected for name, selected in stated.columns.items() if name in ALIASES[guess.kind]}
    freed = _free_columns(guess, chain.from_iterable(fields.values()))
    mapping = replace(freed, columns={**freed.columns, **fields})
    return replace(mapping, unused=_list_unused(mapping, columns))


def _list_unused(mapping: ColumnMapping, columns: Sequence[str]) -> tuple[str, ...]:
    used = {column for column, name in mapping.list_choices().items() if name != IGNORED}
    return tuple(column for column in columns if column not in used)


def _drop_rivals(mapping: ColumnMapping, name: str) -> ColumnMapping:
    """Responses stand in one column or in one for each model, labels likewise: what is said replaces the guess."""
    if name == "response":
        return replace(mapping, models={})
    if name in {LABEL_FIELD, LABELS} or name.startswith(LABEL):
        return replace(mapping, annotators={})
    if name in {MODELS, ANNOTATORS}:
        rivals = {"response", MESSAGES} if name == MODELS else {LABEL_FIELD, LABELS, "annotator"}
        rest = {field: columns for field, columns in mapping.columns.items() if field not in rivals}
        return replace(mapping, columns=rest, labels=mapping.labels if name == MODELS else {})
    return mapping


def _list_columns(name: str, stated: str, columns: Sequence[str], path: str) -> list[str]:
    if stated == IGNORED:
        return []
    if stated in columns:
        return [stated]
    if name in {MODELS, ANNOTATORS}:
        parts = [part.strip() for part in next(csv.reader([stated], skipinitialspace=True))]
    else:
        parts = [part.strip() for part in stated.split("+")]
    for part in parts:
        if part not in columns:
            raise refuse_column(part, columns, path)
    return parts


def refuse_column(column: str, columns: Sequence[str], path: str) -> InputError:
    nearest = find_nearest(column, columns)
    if nearest:
        return InputError(
            N_("there is no column “{column}”; did you mean “{nearest}”?"),
            path=path,
            column=column,
            nearest=nearest,
        )
    return InputError(
        N_("there is no column “{column}”; the columns are: {known}."),
        path=path,
        column=column,
        known=", ".join(columns)[:400],
    )


def _refuse_field(name: str, kind: str) -> AssayError:
    known = list_fields(kind)
    nearest = find_nearest(name, known)
    if nearest:
        return AssayError(
            N_("There is no field {field}; did you mean {nearest}?"), field=repr(name), nearest=nearest
        )
    return AssayError(
        N_("There is no field {field}; the fields are: {known}."), field=repr(name), known=", ".join(known)
    )


def _free_columns(mapping: ColumnMapping, columns: Iterable[str]) -> ColumnMapping:
    used = set(columns)
    fields = {name: tuple(c for c in selected if c not in used) for name, selected in mapping.columns.items()}
    return replace(
        mapping,
        columns={name: selected for name, selected in fields.items() if selected},
        labels={column: name for column, name in mapping.labels.items() if column not in used},
        models={column: name for column, name in mapping.models.items() if column not in used},
        annotators={column: pair for column, pair in mapping.annotators.items() if column not in used},
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


def apply_mapping(
    mapping: ColumnMapping, row: FileRow, *, annotator: str | None = None, tell: Tell = lambda _template: None
) -> Iterator[FileRow]:
    """The rows with the fields of ``ALIASES`` and ``labels``: one, or one for each filled column of a wide table.

    ``annotator``: whose labels these are where no column says it. ``tell`` is told of what is passed over, by the
    message that counts it. Raises InputError with the column's own name.
    """
    fields = _read_fields(mapping, row, tell)
    columns = {name: " + ".join(selected) for name, selected in mapping.columns.items()}
    if mapping.kind == ANNOTATIONS:
        named = replace(row, fields=fields, columns=columns)
        yield from _apply_labels(mapping, row, named, annotator, tell)
        return
    if not mapping.models:
        yield replace(row, fields=fields, columns=columns)
        return
    for column, model in mapping.models.items():
        if _is_blank(row.fields.get(column)):
            tell(NO_ANSWER)
        else:
            answer = {"response": _read_text(row, column), "model": model}
            yield replace(
                row, fields=fields | answer, columns=columns | {"response": column, "model": column}
            )


def _read_fields(mapping: ColumnMapping, row: FileRow, tell: Tell) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, selected in mapping.columns.items():
        if name == MESSAGES:
            fields |= _read_chat(mapping.kind, row, selected[0], tell)
        elif name in {LABELS, LABEL_FIELD, "evidence"}:
            fields[name] = row.fields.get(selected[0])
        elif name in {"id", "prompt_id"}:
            fields[name] = _read_id(row, selected[0])
        elif name == "flags":
            fields[name] = _read_list(row.fields.get(selected[0]))
        elif name in {"seconds", "round"}:
            fields[name] = row.fields.get(selected[0])
        else:
            texts = [_read_text(row, column) for column in selected if not _is_blank(row.fields.get(column))]
            fields.setdefault(name, "\n\n".join(texts))
    return fields


def _read_chat(kind: str, row: FileRow, column: str, tell: Tell) -> dict[str, Any]:
    """A question and its answer as the prompt and the response, a longer dialogue as turns that its first question
    prompted. A prompt is one text: of a chat it is the question, and only a chat of one has one.
    """
    turns = read_messages(row, column)
    questions = [turn["text"] for turn in turns if turn["role"] == USER]
    if not questions:
        raise row.error(N_("this chat has no message of the user; that would be the prompt."), field=column)
    if kind == PROMPTS:
        if len(questions) > 1:
            raise row.error(
                N_("this chat has {number} messages of the user; a prompt is one text."),
                field=column,
                number=len(questions),
            )
        for turn in turns:
            if turn["role"] != USER:
                tell(SYSTEM_MESSAGES if turn["role"] == SYSTEM else ANSWERS)
        return {"prompt": questions[0]}
    if [turn["role"] for turn in turns] == [USER, MARKABLE]:
        return {"prompt": questions[0], "response": turns[1]["text"]}
    if not any(turn["role"] == MARKABLE for turn in turns):
        raise row.error(
            N_("this chat has no message of the assistant; that would be the response."), field=column
        )
    return {"prompt": questions[0], "turns": turns}


def _apply_labels(
    mapping: ColumnMapping, row: FileRow, named: FileRow, annotator: str | None, tell: Tell
) -> Iterator[FileRow]:
    """``named`` is the row with the fields that are no labels."""
    fields, columns = named.fields, named.columns
    people: dict[str, dict[str, Any]] = {}
    for column, (name, criterion) in mapping.annotators.items():
        if is_label(row.fields.get(column)):
            people.setdefault(name, {})[criterion] = row.fields[column]
        else:
            tell(NOT_LABELLED)
    for name, labels in people.items():
        yield replace(named, fields={**fields, "annotator": name, LABELS: labels})
    if mapping.annotators:
        return
    labels = _read_labels(mapping, row, fields)
    if not labels:
        tell(NOT_LABELLED)
        return
    stated = {**fields, LABELS: labels}
    if annotator is not None and _is_blank(fields.get("annotator")) and _is_blank(fields.get("adjudicator")):
        stated["annotator"] = annotator
    place = mapping.columns.get(LABEL_FIELD, ()) if set(labels) == {""} else tuple(mapping.labels)
    shown_columns = {LABELS: ", ".join(place)} if place else {}
    yield replace(named, fields=stated, columns={**columns, **shown_columns})


def _read_labels(mapping: ColumnMapping, row: FileRow, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The labels by criterion, "" for the only one that is asked."""
    stated = fields.get(LABELS) or {}
    if not isinstance(stated, dict):
        raise row.error(N_('write the labels as {{"criterion": value}}.'), field=mapping.columns[LABELS][0])
    labels = {name: value for name, value in stated.items() if is_label(value)}
    labels |= {
        c: row.fields[column] for column, c in mapping.labels.items() if is_label(row.fields.get(column))
    }
    if is_label(fields.get(LABEL_FIELD)):
        labels[str(fields.get(CRITERION) or "").strip()] = fields[LABEL_FIELD]
    return labels


def is_label(value: object) -> bool:
    """Whether the cell says something: neither blank nor a dash nor what programs write for nothing."""
    return value is not None and not (isinstance(value, str) and value.strip().casefold() in _NO_LABEL)


def _read_text(row: FileRow, column: str) -> str:
    value = row.fields.get(column)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    raise row.error(N_("this is no text; put it in quotation marks."), field=column)


def _read_id(row: FileRow, column: str) -> str:
    """An id that a spreadsheet took for a number and rounded is no id any more."""
    value = row.fields.get(column)
    if (isinstance(value, float) and abs(value) >= 10**MAX_EXACT_DIGITS) or (
        isinstance(value, str) and _ROUNDED.match(value.strip())
    ):
        raise row.error(
            N_(
                "a spreadsheet rounded this id to {value}; make the column text before the ids go in, and save it"
                " again."
            ),
            field=column,
            value=value,
        )
    return _read_text(row, column).strip()


def _read_list(value: object) -> list[str]:
    if isinstance(value, list):
        return [str(part) for part in value]
    return [part.strip() for part in re.split(r"[;；]", str(value or "")) if part.strip()]


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
    """``gpt-4``, ``llama 2`` and ``文心一言``, but not ``command line``'s ``commander``."""
    name = column.strip().casefold()
    starts = [stem for stem in MODEL_STEMS if name.startswith(stem)]
    return any(not stem.isascii() or not name[len(stem) :][:1].isalpha() for stem in starts)


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
