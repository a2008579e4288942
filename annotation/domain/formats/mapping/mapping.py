"""What each column of a table is, and what a person says of it. Pure.

``map_fields`` overlays a guess with what a person said (``{"prompt": "问题"}``), ``choose_fields`` is what was chosen
on a page for every column, ``leave_out`` what is knowingly left out. ``to_json`` and ``from_json`` carry a mapping;
``header_key`` is what it is remembered by.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from annotation.core.errors import N_, AssayError, InputError
from annotation.core.names import find_nearest
from annotation.domain.formats.base import ANNOTATIONS, RESPONSES
from annotation.domain.formats.mapping.column_names import ALIASES

LABEL = "label."
LABEL_FIELD, CRITERION, LABELS = "label", "criterion", "labels"
MODELS, ANNOTATORS = "models", "annotators"
MESSAGES = "messages"
IGNORED = ""
"""The column of a field that the file is said not to have, and the field of a column that is none."""
LEFT_OUT = "-"
"""The field of a column that somebody decided to leave out."""
WIDE = {RESPONSES: MODELS, ANNOTATIONS: ANNOTATORS}
_JOINED = {"prompt", "response", "rationale"}
"""The fields whose texts may stand in several columns."""


@dataclass(frozen=True)
class ColumnMapping:
    """``columns``: the column of each field; of several, whose texts are joined, the names in order. ``labels``: the
    criterion of each column of labels, "" where it is the only one asked. ``models``: in a wide table of responses the
    model of each column. ``annotators``: in one of labels the annotator and the criterion of each.

    ``unused`` are the columns that are none of these, ``left_out`` those that somebody decided to leave out.
    """

    kind: str
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    annotators: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def list_choices(self) -> dict[str, str]:
        """The field of each column, as a form calls it: ``prompt``, ``label.fairness``, ``models``; "" for none."""
        ignored = dict.fromkeys(self.unused, IGNORED) | dict.fromkeys(self.left_out, LEFT_OUT)
        fields = {column: name for name, columns in self.columns.items() for column in columns}
        labels = {column: f"{LABEL}{name}" if name else LABEL_FIELD for column, name in self.labels.items()}
        wide = dict.fromkeys(self.models, MODELS) | dict.fromkeys(self.annotators, ANNOTATORS)
        return {**ignored, **fields, **labels, **wide}

    def describe(self) -> list[tuple[str, str]]:
        """Each column with what it was taken for, as ``prompt``, ``label.fairness``, ``model gpt4``; "" for none, "-"
        for one that somebody decided to leave out.
        """
        fields = [(column, name) for name, columns in self.columns.items() for column in columns]
        labels = [(column, f"{LABEL}{name}" if name else LABEL_FIELD) for column, name in self.labels.items()]
        models = [(column, f"model {name}") for column, name in self.models.items()]
        people = [
            (column, f"annotator {name}" + (f" {LABEL}{criterion}" if criterion else ""))
            for column, (name, criterion) in self.annotators.items()
        ]
        left_out = [(column, LEFT_OUT) for column in self.left_out]
        unused = [(column, IGNORED) for column in self.unused]
        return [*fields, *labels, *models, *people, *left_out, *unused]

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "columns": {name: list(columns) for name, columns in self.columns.items()},
            "labels": dict(self.labels),
            "models": dict(self.models),
            "annotators": {column: list(pair) for column, pair in self.annotators.items()},
            "unused": list(self.unused),
            "left_out": list(self.left_out),
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
            left_out=tuple(data.get("left_out", ())),
        )


def header_key(columns: Iterable[str]) -> str:
    """What the mapping of a header is remembered by: the same for the same columns in the same order."""
    return hashlib.sha256(json.dumps(list(columns), ensure_ascii=False).encode()).hexdigest()


def list_fields(kind: str) -> list[str]:
    """The fields that a column can be, as ``--map`` and a form call them."""
    fields = list(ALIASES[kind])
    return [*fields, WIDE[kind]] if kind in WIDE else fields


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
    left_out: list[str] = []
    for column in columns:
        name = choices.get(column, IGNORED)
        if name == WIDE.get(guess.kind):
            wide[name].append(column)
        elif name.startswith(LABEL) and guess.kind == ANNOTATIONS:
            labels[column] = name.removeprefix(LABEL)
        elif name in ALIASES[guess.kind]:
            fields.setdefault(name, []).append(column)
        elif name == LEFT_OUT:
            left_out.append(column)
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
    used = {*chain.from_iterable(fields.values()), *labels, *chain.from_iterable(wide.values()), *left_out}
    return ColumnMapping(
        kind=guess.kind,
        columns={name: tuple(selected) for name, selected in fields.items()},
        labels=labels,
        models={column: guess.models.get(column, column) for column in wide[MODELS]},
        annotators={column: guess.annotators.get(column, (column, "")) for column in wide[ANNOTATORS]},
        unused=tuple(column for column in columns if column not in used),
        left_out=tuple(left_out),
    )


def leave_out(mapping: ColumnMapping, names: Iterable[str], columns: Sequence[str]) -> ColumnMapping:
    """The mapping without what was said to be left out; of the names those that are columns."""
    stated = [column for column in columns if column in set(names)]
    freed = replace(
        _free_columns(mapping, stated), left_out=tuple(dict.fromkeys([*mapping.left_out, *stated]))
    )
    return replace(freed, unused=_list_unused(freed, columns))


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
        left_out=tuple(column for column in mapping.left_out if column not in used),
        models={column: name for column, name in mapping.models.items() if column not in used},
        annotators={column: pair for column, pair in mapping.annotators.items() if column not in used},
    )
