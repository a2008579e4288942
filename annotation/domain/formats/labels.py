"""Labels in the guideline's words: which criterion and which level of it a file means. Pure.

A criterion is meant by its name or by its label in any of the guideline's languages, a level by its value or by its
name in any of them; capitals and blanks around do not matter. What means no criterion is passed over, and told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from annotation.core.errors import N_, Unprocessable
from annotation.core.names import find_nearest
from annotation.domain.formats.generic import is_na
from annotation.domain.formats.rows import as_number
from annotation.domain.guidelines import NA, Criterion, GuidelineDocument

# What goes before the level in a span's label: ``fairness=1``.
EQUALS = "="
MAX_UNUSED = 20


class Wording:
    """One guideline's words. ``unused`` are the fields that meant nothing, in the order in which they were met."""

    def __init__(self, document: GuidelineDocument, *, is_checked: bool = False) -> None:
        self._document, self._is_checked = document, is_checked
        self._criteria: dict[str, Criterion] = {}
        for criterion in reversed(document.criteria):
            self._criteria |= dict.fromkeys(map(_fold_word, criterion.label.values()), criterion)
        self._criteria |= {_fold_word(criterion.name): criterion for criterion in document.criteria}
        self._levels = {criterion.name: _index_levels(criterion) for criterion in document.criteria}
        self.unused: dict[str, None] = {}

    def labels(self, stated_labels: Mapping[str, Any], dimension: str) -> dict[str, Any]:
        """Criterion and value of each label that means a criterion asked in this dimension; else Unprocessable."""
        values: dict[str, Any] = {}
        for field, value in stated_labels.items():
            criterion = self._find_criterion(field, dimension)
            if criterion is None or not (criterion.applies(dimension) or self._is_checked):
                self._pass_over(field)
                continue
            if criterion.name in values:
                raise Unprocessable(
                    N_('"{criterion}" is answered twice; keep one.'), criterion=criterion.name
                )
            values[criterion.name] = self._value(criterion, value)
        return values

    def _find_criterion(self, field: str, dimension: str) -> Criterion | None:
        """What the field means; "" means the only criterion that is asked in this dimension."""
        if field:
            criterion = self._criteria.get(_fold_word(field))
            if criterion is None and self._is_checked:
                raise self._refuse_criterion(field)
            return criterion
        applicable = self._document.criteria_for(dimension)
        if len(applicable) != 1:
            raise Unprocessable(
                N_("of which criterion is this label? Here {known} are asked; give each a column."),
                known=", ".join(criterion.name for criterion in applicable) or "-",
            )
        return applicable[0]

    def _refuse_criterion(self, field: str) -> Unprocessable:
        nearest = find_nearest(field, list_criterion_words(self._document))
        if nearest:
            return Unprocessable(
                N_("there is no criterion “{name}”; did you mean “{nearest}”?"), name=field, nearest=nearest
            )
        return Unprocessable(
            N_("there is no criterion “{name}”; the criteria are: {known}."),
            name=field,
            known=", ".join(criterion.name for criterion in self._document.criteria),
        )

    def spans(self, stated_spans: Sequence[Mapping[str, Any]], dimension: str) -> list[dict[str, Any]]:
        """The spans whose ``label`` means a criterion, or a level of the only criterion that has one called so."""
        evidence = []
        for span in stated_spans:
            target = self._find_target(str(span["label"]), dimension)
            if target is None:
                self._pass_over(str(span["label"]))
            else:
                evidence.append({name: span[name] for name in ("turn", "start", "end")} | target)
        return evidence

    def _pass_over(self, word: str) -> None:
        if len(self.unused) < MAX_UNUSED:
            self.unused[word[:100]] = None

    def _find_target(self, label: str, dimension: str) -> dict[str, Any] | None:
        name, equals, level = label.partition(EQUALS)
        criterion = self._criteria.get(_fold_word(name))
        if criterion is not None and criterion.applies(dimension):
            return {"criterion": criterion.name} | (
                {"level": self._value(criterion, level)} if equals else {}
            )
        applicable = self._document.criteria_for(dimension)
        having = [criterion for criterion in applicable if _fold_word(label) in self._levels[criterion.name]]
        if len(having) != 1:
            return None
        return {"criterion": having[0].name, "level": self._levels[having[0].name][_fold_word(label)]}

    def _value(self, criterion: Criterion, stated_value: object) -> Any:
        """A number as it is (the guideline checks it), a word as the level that it means."""
        if isinstance(stated_value, list):
            if len(stated_value) != 1:
                raise Unprocessable(
                    N_('"{criterion}" has {n} answers; it takes one.'),
                    criterion=criterion.name,
                    n=len(stated_value),
                )
            stated_value = stated_value[0]
        if not isinstance(stated_value, str):
            return stated_value
        if criterion.na and is_na(stated_value):
            return NA
        known = self._levels[criterion.name].get(_fold_word(stated_value))
        number = as_number(stated_value) if known is None else known
        if number is None:
            raise Unprocessable(
                N_('"{criterion}" has no level {found}; its levels are {known}.'),
                criterion=criterion.name,
                found=repr(stated_value[:60]),
                known=", ".join(
                    f"{level.value} ({' / '.join(level.name.values())})" for level in criterion.scale
                )[:400],
            )
        return number


def list_criterion_words(document: GuidelineDocument) -> dict[str, str]:
    """The words that mean a criterion, its name and its labels in every language, each with its name."""
    words = {label: criterion.name for criterion in document.criteria for label in criterion.label.values()}
    return words | {criterion.name: criterion.name for criterion in document.criteria}


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


def _index_levels(criterion: Criterion) -> dict[str, int | float]:
    """The value of each level by its names; a name that two levels share means neither."""
    values: dict[str, int | float] = {}
    ambiguous: set[str] = set()
    for level in criterion.scale:
        for name in {_fold_word(translation) for translation in level.name.values()}:
            ambiguous |= {name} & values.keys()
            values[name] = level.value
    return {name: value for name, value in values.items() if name not in ambiguous}


def _fold_word(word: str) -> str:
    return " ".join(word.casefold().split())
