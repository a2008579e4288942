"""Labels in the guideline's words: which criterion and which level of it a file means. Pure.

A criterion is meant by its name or by its label in any of the guideline's languages, a level by its value or by its
name in any of them; capitals and blanks around do not matter. What means no criterion is refused, unless somebody said
that it is to be left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from annotation.core.errors import N_, Unprocessable
from annotation.core.names import find_nearest
from annotation.domain.formats.answers import OPTION_SIGN, fold_word, index_levels, name_at_turn, read_level
from annotation.domain.formats.generic import NO_DISTRIBUTION
from annotation.domain.formats.rows import ReadOptions, as_number
from annotation.domain.guidelines import Criterion, GuidelineDocument
from annotation.domain.guidelines.values import TURN_SIGN

# What goes before the level in a span's label: ``fairness=1``.
EQUALS = "="
NEAR_CRITERION = N_(
    "there is no criterion “{name}”; did you mean “{nearest}”? Else leave it out (--leave-out {name})."
)
NO_CRITERION = N_(
    "there is no criterion “{name}”; the criteria are: {known}. What is none of them is left out only if you say so"
    " (--leave-out {name})."
)
NO_SPAN = N_(
    "a marked span is called “{name}”, which means no criterion, and no level of one criterion alone; the criteria"
    " are: {known}. It is left out only if you say so (--leave-out {name})."
)


class Wording:
    """One guideline's words. ``left_out`` counts what was to be left out, by its name; ``not_asked`` the labels of
    criteria that are not asked in their prompt's dimension, which ``is_checked`` leaves for the guideline to refuse.
    """

    def __init__(
        self, document: GuidelineDocument, *, is_checked: bool = False, left_out: Iterable[str] = ()
    ) -> None:
        self._document, self._is_checked = document, is_checked
        self._left_out = frozenset(map(fold_word, left_out))
        self.left_out: Counter[str] = Counter()
        self.not_asked = 0
        self._criteria = index_criteria(document)
        self._levels = {criterion.name: index_levels(criterion) for criterion in document.criteria}

    def labels(
        self, stated_labels: Mapping[str, Any], dimension: str, subcomponent: str = ""
    ) -> dict[str, Any]:
        """Criterion and value of each label; Unprocessable for one that means no criterion.

        One of the options of a criterion is ``topics:1`` and one of its turns ``empathy@3``, as in the file.
        """
        values: dict[str, Any] = {}
        for field, value in stated_labels.items():
            if self._is_left_out(field):
                continue
            word, suffix = _split_field(field, self._criteria)
            criterion = self._get_criterion(word, dimension, subcomponent)
            if not (criterion.applies(dimension, subcomponent) or self._is_checked):
                self.not_asked += 1
                continue
            name = f"{criterion.name}{suffix}"
            if name in values:
                raise Unprocessable(N_('"{criterion}" is answered twice; keep one.'), criterion=name)
            values[name] = self._value(criterion, value)
        return values

    def _is_left_out(self, word: str) -> bool:
        is_left_out = fold_word(word) in self._left_out
        if is_left_out:
            self.left_out[word] += 1
        return is_left_out

    def _get_criterion(self, field: str, dimension: str, subcomponent: str) -> Criterion:
        """What the field means; "" means the only criterion that is asked in this dimension."""
        if field:
            criterion = self._criteria.get(fold_word(field))
            if criterion is None:
                raise self._refuse_criterion(field)
            return criterion
        applicable = self._document.criteria_at(dimension, subcomponent)
        if len(applicable) != 1:
            raise Unprocessable(
                N_("of which criterion is this label? Here {known} are asked; give each a column."),
                known=", ".join(criterion.name for criterion in applicable) or "-",
            )
        return applicable[0]

    def _refuse_criterion(self, field: str) -> Unprocessable:
        nearest = find_nearest(field, list_criterion_words(self._document))
        if nearest:
            return Unprocessable(NEAR_CRITERION, name=field, nearest=nearest)
        return Unprocessable(NO_CRITERION, name=field, known=self._list_criteria())

    def _list_criteria(self) -> str:
        return ", ".join(criterion.name for criterion in self._document.criteria)

    def spans(
        self, stated_spans: Sequence[Mapping[str, Any]], dimension: str, subcomponent: str = ""
    ) -> list[dict[str, Any]]:
        """The spans whose ``label`` means a criterion, or a level of the only criterion that has one called so; and
        those without a ``label``, which name their criterion themselves.
        """
        evidence = []
        for span in stated_spans:
            if "label" not in span:
                evidence.append(dict(span))
                continue
            label = str(span["label"])
            if self._is_left_out(label):
                continue
            target = self._find_target(label, dimension, subcomponent, span["turn"])
            if target is not None:
                evidence.append({name: span[name] for name in ("turn", "start", "end")} | target)
        return evidence

    def _find_target(self, label: str, dimension: str, subcomponent: str, turn: int) -> dict[str, Any] | None:
        """The criterion, and its level where the label says it; None where it is not asked in this dimension."""
        name, equals, level = label.partition(EQUALS)
        word, suffix = _split_field(name, self._criteria)
        criterion = self._criteria.get(fold_word(word))
        if criterion is not None and criterion.applies(dimension, subcomponent):
            levels = self._levels[criterion.name]
            return {"criterion": f"{criterion.name}{suffix}" if suffix else name_at_turn(criterion, turn)} | (
                {"level": read_level(criterion, level, levels)} if equals else {}
            )
        if criterion is not None:
            self.not_asked += 1
            return None
        applicable = self._document.criteria_at(dimension, subcomponent)
        having = [criterion for criterion in applicable if fold_word(label) in self._levels[criterion.name]]
        if len(having) != 1:
            raise Unprocessable(NO_SPAN, name=label, known=self._list_criteria())
        target = having[0]
        return {
            "criterion": name_at_turn(target, turn),
            "level": self._levels[target.name][fold_word(label)],
        }

    def _value(self, criterion: Criterion, stated_value: object) -> Any:
        """Of what is one level its value; anything else is left to the ``AnswerReader``."""
        if not criterion.is_countable:
            return stated_value
        if isinstance(stated_value, Mapping):
            raise Unprocessable(NO_DISTRIBUTION)
        return read_level(criterion, stated_value, self._levels[criterion.name])


def list_unknown_words(
    document: GuidelineDocument, words: Iterable[str], spans: Iterable[str], left_out: Iterable[str]
) -> list[str]:
    """The names of labels and of marked spans that mean nothing in the guideline and are not to be left out; an empty
    name means the only criterion.
    """
    known = index_criteria(document)
    criteria = {"", *known, *map(fold_word, left_out)}
    levels = {name for criterion in document.criteria for name in index_levels(criterion)}
    unknown = [word for word in words if fold_word(_split_field(word, known)[0]) not in criteria]
    unknown += [
        word
        for word in spans
        if not {fold_word(word), fold_word(_split_field(word.partition(EQUALS)[0], known)[0])} & criteria
        and fold_word(word) not in levels
    ]
    return list(dict.fromkeys(unknown))


def add_wording(options: ReadOptions, document: GuidelineDocument) -> ReadOptions:
    """With the words of the guideline, by which a table's columns are known."""
    return replace(options, criteria=list_criterion_words(document), levels=list_level_words(document))


def list_level_words(document: GuidelineDocument) -> dict[str, frozenset[str]]:
    """How each criterion's labels may be written, as ``fold_label`` writes them."""
    return {
        criterion.name: frozenset(
            {fold_label(level.value) for level in criterion.scale} | set(index_levels(criterion))
        )
        for criterion in document.criteria
    }


def fold_label(value: object) -> str:
    """One way to write what stands in a cell: 2.0 is 2, and capitals do not matter."""
    number = as_number(value)
    return fold_word(str(value)) if number is None else str(number)


def list_criterion_words(document: GuidelineDocument) -> dict[str, str]:
    """The words that mean a criterion, its name and its labels in every language, each with its name; of a choice of
    several options those that mean one of them, too, each with the field of that option.
    """
    words: dict[str, str] = {}
    for criterion in document.criteria:
        for word in (*criterion.label.values(), criterion.name) if criterion.several else ():
            for level in criterion.scale:
                field = f"{criterion.name}{OPTION_SIGN}{level.value}"
                words |= {f"{word}{OPTION_SIGN}{name}": field for name in (*level.name.values(), level.value)}
    words |= {label: criterion.name for criterion in document.criteria for label in criterion.label.values()}
    return words | {criterion.name: criterion.name for criterion in document.criteria}


def _split_field(field: str, criteria: Mapping[str, Criterion]) -> tuple[str, str]:
    """The word for the criterion, and what goes behind it for one of its options or turns."""
    if fold_word(field) in criteria:
        return field, ""
    for sign in (OPTION_SIGN, TURN_SIGN):
        word, present, rest = field.partition(sign)
        criterion = criteria.get(fold_word(word)) if present else None
        if criterion is not None and (criterion.several if sign == OPTION_SIGN else criterion.per_turn):
            return word, f"{sign}{rest.strip()}"
    return field, ""


def index_criteria(document: GuidelineDocument) -> dict[str, Criterion]:
    """The criteria by what they are called, as ``fold_word`` writes it; a name comes before another one's label."""
    criteria: dict[str, Criterion] = {}
    for criterion in reversed(document.criteria):
        criteria |= dict.fromkeys(map(fold_word, criterion.label.values()), criterion)
    return criteria | {fold_word(criterion.name): criterion for criterion in document.criteria}


class TaxonomyFault(NamedTuple):
    """What is wrong with a prompt's dimension or subcomponent, and which of the two it is."""

    field: str
    error: Unprocessable


def find_taxonomy_fault(
    document: GuidelineDocument, dimension: str, subcomponent: str
) -> TaxonomyFault | None:
    """A dimension or a subcomponent that the guideline does not know, with the one that may be meant."""
    known = document.dimension(dimension) if dimension else None
    if dimension and document.dimensions and known is None:
        error = _refuse_name(
            N_("the guideline has no dimension “{name}”; did you mean “{nearest}”?"),
            N_("the guideline has no dimension “{name}”; it has: {known}."),
            dimension,
            document.dimension_names,
        )
        return TaxonomyFault("dimension", error)
    names = [part.name for part in known.subcomponents] if known is not None else []
    if not subcomponent or not names or subcomponent in names:
        return None
    error = _refuse_name(
        N_("this dimension has no subcomponent “{name}”; did you mean “{nearest}”?"),
        N_("this dimension has no subcomponent “{name}”; it has: {known}."),
        subcomponent,
        names,
    )
    return TaxonomyFault("subcomponent", error)


def _refuse_name(near: str, far: str, name: str, known: Sequence[str]) -> Unprocessable:
    nearest = find_nearest(name, known)
    if nearest:
        return Unprocessable(near, name=name, nearest=nearest)
    return Unprocessable(far, name=name, known=", ".join(known))
