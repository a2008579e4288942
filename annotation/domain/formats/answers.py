"""What a file answers a criterion by, in any of the ways of writing it, as the guideline takes it. Pure.

A choice of several options is a list, their sum, or one cell with their values or names; one of its options has a field
of its own, ``topics:1``, that says yes or no. What is asked of each turn is a field for each (``empathy@3``), a list in
the order of the judged turns, or an object of turns. A text is a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from annotation.core.errors import N_, AssayError, Unprocessable
from annotation.domain.formats.generic import NO_DISTRIBUTION, is_na
from annotation.domain.formats.rows import as_number, is_blank
from annotation.domain.guidelines import NA, Criterion, GuidelineDocument
from annotation.domain.guidelines.values import TURN_SIGN, add_turn, show, strip_turn

OPTION_SIGN = ":"
"""Between a criterion and one of its options, where a field says of that option alone whether it was chosen."""
SEPARATORS = (re.compile(r"[;；\n]"), re.compile(r"[|｜]"), re.compile(r"[,，、]"))
"""What stands between several options in one cell: the first of them that the cell holds."""
YES = frozenset({"1", "1.0", "true", "yes", "y", "x", "✓", "是"})
NO = frozenset({"0", "0.0", "false", "no", "n", "否"})


class FieldFault(Unprocessable):
    """A refusal that names the field of the labels that it is about."""

    def __init__(self, field: str, error: AssayError) -> None:
        super().__init__(error.template, **error.params)
        self.field = field


class AnswerReader:
    """Reads the answers that a file has under the criteria's own names."""

    def __init__(self, document: GuidelineDocument) -> None:
        self._criteria = {criterion.name: criterion for criterion in document.criteria}
        self._levels = {criterion.name: index_levels(criterion) for criterion in document.criteria}

    def read(self, stated: Mapping[str, Any], turns: Sequence[int] = ()) -> dict[str, Any]:
        """A value for each criterion, or for each of its ``turns``; FieldFault for what can be none.

        Whether a level is one of its criterion's, and whether the criterion is asked at all, the guideline says.
        """
        answers: dict[str, Any] = {}
        options: dict[str, list[int | float]] = {}
        for field, value in stated.items():
            name, _sign, option = field.partition(OPTION_SIGN)
            criterion = self._criteria.get(strip_turn(name))
            try:
                if criterion is None:
                    answers[field] = value
                elif option and criterion.several:
                    options.setdefault(name, [])
                    options[name] += self._read_option(criterion, option, value)
                elif criterion.per_turn is not None and TURN_SIGN not in name:
                    _add_once(answers, self._spread(criterion, value, turns))
                else:
                    _add_once(answers, {name: self._read_value(criterion, value)})
            except AssayError as error:
                raise FieldFault(field, error) from error
        for name, values in options.items():
            try:
                _add_once(answers, {name: self._criteria[name].check(values)})
            except AssayError as error:
                raise FieldFault(name, error) from error
        return answers

    def _read_value(self, criterion: Criterion, value: object) -> Any:
        if criterion.kind == "text":
            return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        if isinstance(value, Mapping):
            raise Unprocessable(NO_DISTRIBUTION)
        if criterion.na and is_na(value):
            return NA
        if criterion.several:
            return criterion.check(self._list_options(criterion, value))
        if criterion.per_turn is not None:
            return read_level(criterion, value, self._levels[criterion.name])
        return read_number(criterion, value)

    def _list_options(self, criterion: Criterion, value: object) -> Any:
        """The options that a cell or a list names; a number is a sum of them already."""
        levels = self._levels[criterion.name]
        stated = parse_json(value)
        if isinstance(stated, str):
            stated = _split_cell(stated, levels)
        if not isinstance(stated, list):
            return stated
        return [read_level(criterion, part, levels) for part in stated]

    def _read_option(self, criterion: Criterion, option: str, value: object) -> list[int | float]:
        """The option's value where the field says that it was chosen, else nothing."""
        level = criterion.check_option(read_level(criterion, option, self._levels[criterion.name]))
        word = str(value).strip().casefold()
        if word not in YES | NO:
            raise Unprocessable(
                N_('{found} says neither yes nor no to option {option} of "{criterion}"; write 1 or 0.'),
                criterion=criterion.name,
                option=level,
                found=show(value),
            )
        return [level] if word in YES else []

    def _spread(self, criterion: Criterion, value: object, turns: Sequence[int]) -> dict[str, Any]:
        """The label of each turn, by the name that it has there; one that is null is none."""
        levels = self._levels[criterion.name]
        stated = parse_json(value)
        if isinstance(stated, str) and len(turns) > 1:
            stated = _split_cell(stated, levels)
        if isinstance(stated, Mapping):
            by_turn = {str(turn).strip(): label for turn, label in stated.items()}
        else:
            labels = stated if isinstance(stated, list) else [stated]
            if len(labels) != len(turns):
                raise Unprocessable(
                    N_(
                        '"{criterion}" has {n} labels, and {turns} turns of this response are judged; give a label for'
                        " each, or name the turn ({example})."
                    ),
                    criterion=criterion.name,
                    n=len(labels),
                    turns=len(turns),
                    example=add_turn(criterion.name, turns[0] if turns else 0),
                )
            by_turn = dict(zip(map(str, turns), labels, strict=True))
        return {
            f"{criterion.name}{TURN_SIGN}{turn}": self._read_value(criterion, label)
            for turn, label in by_turn.items()
            if not is_blank(label)
        }


def name_at_turn(criterion: Criterion, turn: int) -> str:
    """What a span of this turn is evidence of."""
    return criterion.name if criterion.per_turn is None else add_turn(criterion.name, turn)


def read_level(criterion: Criterion, stated: object, levels: Mapping[str, int | float]) -> Any:
    """A number as it is (the guideline checks it), a word as the level that it means."""
    stated = _unwrap(criterion, stated)
    if not isinstance(stated, str):
        return stated
    if criterion.na and is_na(stated):
        return NA
    known = levels.get(fold_word(stated))
    number = as_number(stated) if known is None else known
    if number is None:
        raise Unprocessable(
            N_('"{criterion}" has no level {found}; its levels are {known}.'),
            criterion=criterion.name,
            found=repr(stated[:60]),
            known=", ".join(
                f"{level.value} ({' / '.join(level.name.values())})" for level in criterion.scale
            )[:400],
        )
    return number


def read_number(criterion: Criterion, stated: object) -> Any:
    """A number, also one that is written as text; a word is none, but for those that mean ``NA``."""
    stated = _unwrap(criterion, stated)
    if not isinstance(stated, str):
        return stated
    if is_na(stated):
        return NA
    number = as_number(stated)
    if number is None:
        raise Unprocessable(N_("{found} is no number; write a level's value."), found=repr(stated[:60]))
    return number


def _unwrap(criterion: Criterion, stated: object) -> object:
    """What is in a list of one."""
    if not isinstance(stated, list):
        return stated
    if len(stated) != 1:
        raise Unprocessable(
            N_('"{criterion}" has {n} answers; it takes one.'), criterion=criterion.name, n=len(stated)
        )
    return stated[0]


def parse_json(value: object) -> object:
    """The list or the object that a cell holds as JSON; anything else as it is."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _split_cell(cell: str, levels: Mapping[str, int | float]) -> list[str]:
    """The options in a cell; a name that holds a separator is one of them."""
    if fold_word(cell) in levels:
        return [cell]
    separator = next((separator for separator in SEPARATORS if separator.search(cell)), None)
    parts = separator.split(cell) if separator else [cell]
    return [part.strip() for part in parts if part.strip()]


def _add_once(answers: dict[str, Any], new: Mapping[str, Any]) -> None:
    for name, value in new.items():
        if name in answers:
            raise Unprocessable(N_('"{criterion}" is answered twice; keep one.'), criterion=name)
        answers[name] = value


def index_levels(criterion: Criterion) -> dict[str, int | float]:
    """The value of each level by its names; a name that two levels share means neither."""
    values: dict[str, int | float] = {}
    ambiguous: set[str] = set()
    for level in criterion.scale:
        for name in {fold_word(translation) for translation in level.name.values()}:
            ambiguous |= {name} & values.keys()
            values[name] = level.value
    return {name: value for name, value in values.items() if name not in ambiguous}


def fold_word(word: str) -> str:
    return " ".join(word.casefold().split())
