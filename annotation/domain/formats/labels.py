"""Labels in the guideline's words: which criterion and which level of it a file means. Pure.

A criterion is meant by its name or by its label in any of the guideline's languages, a level by its value or by its
name in any of them; capitals and blanks around do not matter. What means no criterion is passed over, and told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from annotation.core.errors import N_, Unprocessable
from annotation.domain.formats.rows import as_number
from annotation.domain.guidelines import Criterion, GuidelineDocument

# What goes before the level in a span's label: ``fairness=1``.
EQUALS = "="
MAX_UNUSED = 20


class Wording:
    """One guideline's words. ``unused`` are the fields that meant nothing, in the order in which they were met."""

    def __init__(self, document: GuidelineDocument) -> None:
        self._document = document
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
            criterion = self._criteria.get(_fold_word(field))
            if criterion is None or not criterion.applies(dimension):
                self._pass_over(field)
                continue
            if criterion.name in values:
                raise Unprocessable(
                    N_('"{criterion}" is answered twice; keep one.'), criterion=criterion.name
                )
            values[criterion.name] = self._value(criterion, value)
        return values

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
