"""A criterion: one question with its kind, its scale and its conditions; and what a criterion must hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, PrivateAttr, Tag, model_validator

from annotation.core.errors import N_, Unprocessable
from annotation.domain.guidelines.entries import (
    MAX_ENTRIES,
    MIN_ENTRIES,
    NONE,
    TIE,
    list_choices,
    list_rankings,
    list_sizes,
    move_entries,
    name_choice,
    name_ranking,
    write_ranking,
)
from annotation.domain.guidelines.values import (
    CONTROL,
    MAX_NUMBER,
    NA,
    Frozen,
    Identifier,
    Label,
    LocalizedText,
    Number,
    TaxonomyName,
    add_turn,
    as_number,
    check_unique,
    find_turn,
    flaw,
    show,
)

MAX_VALUES = 101
MAX_TEXT = 20_000
DEFAULT_TEXT = 2_000
MAX_OPTIONS = MAX_NUMBER.bit_length()
"""Each option is a power of two, none beyond the largest number."""


def check_criterion(criterion: Criterion) -> None:
    _check_kind(criterion)
    values = [level.value for level in criterion.scale]
    check_unique(values, "scale", "value")
    if criterion.entries is not None:
        _check_entries(criterion)
    elif criterion.several:
        _check_options(criterion)
    for index, (lower, upper) in enumerate(pairwise(values), start=1):
        if upper < lower:
            raise flaw(
                N_("{value} comes after {previous}; order the levels from the lowest value to the highest."),
                at=("scale", index, "value"),
                value=upper,
                previous=lower,
            )
    for index, level in enumerate(criterion.scale):
        check_unique(level.requires, "scale", index, "requires", inside=True)
        check_unique((part.name for part in level.subcomponents), "scale", index, "subcomponents", "name")
    if criterion.range is not None:
        _check_range(criterion)
    if criterion.applies_to != "all":
        for part in ("dimensions", "subcomponents"):
            check_unique(getattr(criterion.applies_to, part), "applies_to", part, inside=True)
    if criterion.tolerance is not None:
        _check_tolerance(criterion)


_FIELDS_OF_KINDS = {
    "range": ("level",),
    "tolerance": ("level",),
    "per_turn": ("level",),
    "several": ("choice",),
    "entries": ("choice",),
    "none": ("choice",),
    "ties": ("choice",),
    "or_if": ("text",),
    "scale": ("level", "choice"),
    "na": ("level", "choice"),
    "max_length": ("text",),
}
"""The fields that not every kind of criterion has, with the kinds that have them."""


def _check_kind(criterion: Criterion) -> None:
    if criterion.entries is None:
        for field in ("none", "ties"):
            if getattr(criterion, field):
                raise flaw(N_("Only a choice among entries has this; add entries: best."), at=(field,))
    for field, kinds in _FIELDS_OF_KINDS.items():
        if criterion.kind not in kinds and getattr(criterion, field) not in (None, False, ()):
            raise flaw(
                N_("A criterion of kind {kind} has no {part}; remove it."),
                at=(field,),
                kind=criterion.kind,
                part=field,
            )
    if criterion.kind != "level" and criterion.measurement != "nominal":
        raise flaw(
            N_("A criterion of kind {kind} has no order; leave the measurement out."),
            at=("measurement",),
            kind=criterion.kind,
        )
    if criterion.kind != "text" and criterion.entries is None and len(criterion.scale) < 2:
        raise flaw(N_("A scale has at least two values; add what is missing."), at=("scale",))
    if criterion.per_turn is not None and criterion.asked_if is not None:
        raise flaw(
            N_("What is asked of each turn cannot depend on another answer; remove asked_if."),
            at=("asked_if",),
        )
    if criterion.or_if is not None and criterion.asked_if is None:
        raise flaw(N_("There is no condition before or_if; call it asked_if."), at=("or_if",))


def _check_entries(criterion: Criterion) -> None:
    """The values of a slate's entries are theirs; a scale may name that none is good enough, and a tie."""
    is_best = criterion.entries == "best"
    allowed = {"none": is_best, "ties": not criterion.several, "several": is_best}
    for field, is_allowed in allowed.items():
        if getattr(criterion, field) and not is_allowed:
            raise flaw(
                N_("This cannot be asked with {other}; remove one of them."),
                at=(field,),
                other="several" if field == "ties" else f"entries: {criterion.entries}",
            )
    named = {value for value, is_asked in ((NONE, criterion.none), (TIE, criterion.ties)) if is_asked}
    for index, level in enumerate(criterion.scale):
        if criterion.entries == "ranking" or level.value not in named:
            raise flaw(
                N_(
                    "Of a slate's entries only none (0) and a tie (-1) have a name, where they may be answered."
                ),
                at=("scale", index, "value"),
            )


def _check_options(criterion: Criterion) -> None:
    for index, level in enumerate(criterion.scale):
        value = level.value
        if not isinstance(value, int) or value < 1 or value & (value - 1):
            raise flaw(
                N_(
                    "{value} is no power of two; where several options can be chosen, their values are 1, 2, 4, 8"
                    " and so on, and a label is the sum of those chosen."
                ),
                at=("scale", index, "value"),
                value=value,
            )


def _check_tolerance(criterion: Criterion) -> None:
    assert criterion.tolerance is not None
    if criterion.measurement == "nominal":
        raise flaw(N_("A nominal scale has no distances; remove the tolerance."), at=("tolerance",))
    if criterion.tolerance < 0:
        raise flaw(N_("The tolerance is 0 or more."), at=("tolerance",))


def _check_range(criterion: Criterion) -> None:
    bounds = criterion.range
    assert bounds is not None
    if criterion.measurement == "nominal":
        raise flaw(N_("A nominal scale has no range; name every level instead."), at=("range",))
    for side, value in (("min", bounds.min), ("max", bounds.max)):
        if not isinstance(value, int):
            raise flaw(N_("{value} is not a whole number; use one."), at=("range", side), value=value)
    if not 0 < bounds.max - bounds.min < MAX_VALUES:
        raise flaw(
            N_("A range runs upwards and holds at most {most} values; correct min or max."),
            at=("range", "max"),
            most=MAX_VALUES,
        )
    for index, level in enumerate(criterion.scale):
        if level.value not in criterion.values:
            raise flaw(
                N_("{value} is not a whole number from {low} to {high}; correct it or the range."),
                at=("scale", index, "value"),
                value=level.value,
                low=bounds.min,
                high=bounds.max,
            )


def check_condition(condition: AskedIf) -> None:
    """Exactly one comparison; what it refers to is checked with the document."""
    comparisons = [name for name in COMPARISONS if getattr(condition, name) is not None]
    if len(comparisons) != 1:
        raise flaw(N_("Give one of is, at_most and at_least."), at=tuple(comparisons[1:2]))


class LevelExample(Frozen):
    """``subcomponent`` is that of its prompt, where its criterion is asked of several; None: it serves for all."""

    prompt: LocalizedText
    response: LocalizedText
    note: LocalizedText | None = None
    subcomponent: TaxonomyName | None = None


class SubcomponentText(Frozen):
    """What a level means for the prompts of one subcomponent."""

    name: TaxonomyName
    definition: LocalizedText


class Level(Frozen):
    """``requires`` names what whoever chooses this level must give beside it."""

    value: Number
    name: LocalizedText
    definition: LocalizedText
    reason: LocalizedText | None = None
    requires: tuple[Literal["evidence", "rationale"], ...] = ()
    examples: tuple[LevelExample, ...] = ()
    subcomponents: tuple[SubcomponentText, ...] = ()

    def at_subcomponent(self, subcomponent: str) -> Level:
        """The level as it is defined for this subcomponent, with the examples that serve for it, or else all."""
        definitions = {text.name: text.definition for text in self.subcomponents}
        fitting = tuple(e for e in self.examples if e.subcomponent in (None, subcomponent))
        return self.model_copy(
            update={
                "definition": definitions.get(subcomponent, self.definition),
                "examples": fitting or self.examples,
            }
        )


class Range(Frozen):
    """Every whole number from min to max is a value; the scale then names anchors only."""

    min: Number
    max: Number


class AppliesTo(Frozen):
    """Prompts of these dimensions; with ``subcomponents`` only those of these parts of them."""

    dimensions: Annotated[tuple[TaxonomyName, ...], Field(min_length=1)]
    subcomponents: tuple[TaxonomyName, ...] = ()


def _applicability_tag(value: object) -> str | None:
    if isinstance(value, Mapping | AppliesTo):
        return "<dimensions>"
    return "<all>" if value == "all" else None


# A tag in angle brackets shows up in the location of an error, and the reader takes it out again.
Applicability = Annotated[
    Annotated[Literal["all"], Tag("<all>")] | Annotated[AppliesTo, Tag("<dimensions>")],
    Discriminator(_applicability_tag),
]


COMPARISONS = ("is_", "at_most", "at_least")


class AskedIf(Frozen):
    """A criterion is asked only where an earlier one has such a value; "not applicable" is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    criterion: Identifier
    is_: Annotated[Number | None, Field(alias="is")] = None
    at_most: Number | None = None
    at_least: Number | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_condition(self)
        return self

    @property
    def comparison(self) -> str:
        """``is``, ``at_most`` or ``at_least``."""
        return next(name for name in COMPARISONS if getattr(self, name) is not None).rstrip("_")

    @property
    def sign(self) -> str:
        """The comparison in no language."""
        return {"is": "=", "at_most": "≤", "at_least": "≥"}[self.comparison]

    @property
    def value(self) -> int | float:
        return next(bound for bound in (self.is_, self.at_most, self.at_least) if bound is not None)

    def holds(self, label: object) -> bool:
        """Whether the criterion is asked beside this label of the earlier one; None: that has none."""
        number = as_number(label)
        if number is None:
            return False
        match self.comparison:
            case "is":
                return number == self.value
            case "at_most":
                return number <= self.value
        return number >= self.value


class Criterion(Frozen):
    """``kind``: ``level``, a value of an ordered or nominal scale; ``choice``, an option or, with ``several``, a set of
    options, whose label is the sum of their values; ``text``, words, which enter no agreement, gold or scorer.

    ``na``: "not applicable" is an answer, too. ``optional``: it may stay unanswered. ``tolerance`` is in place of
    the batch's. ``per_turn``: it is asked of each turn of this role, or of each entry of a slate (``at_turn``).
    ``max_length`` counts characters.

    ``entries``: what is chosen are entries of a slate, the ``best`` (with ``several`` all that are best), or a
    ``ranking`` of all; ``none``: no entry may be good enough; ``ties``: none may be better. ``or_if`` is a second
    condition beside which a text is asked.
    """

    name: Identifier
    label: LocalizedText
    question: LocalizedText
    applies_to: Applicability
    kind: Literal["level", "choice", "text"] = "level"
    measurement: Literal["nominal", "ordinal", "interval"]
    range: Range | None = None
    scale: tuple[Level, ...] = ()
    several: Annotated[bool, Field(strict=True)] = False
    na: Annotated[bool, Field(strict=True)] = False
    optional: Annotated[bool, Field(strict=True)] = False
    asked_if: AskedIf | None = None
    or_if: AskedIf | None = None
    tolerance: Number | None = None
    per_turn: Literal["assistant", "entry"] | None = None
    entries: Literal["best", "ranking"] | None = None
    none: Annotated[bool, Field(strict=True)] = False
    ties: Annotated[bool, Field(strict=True)] = False
    max_length: Annotated[int, Field(strict=True, ge=1, le=MAX_TEXT)] | None = None
    # How many entries the slate has that is asked about; None: any number.
    _n_entries: int | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Only a level is measured in one of several ways."""
        if isinstance(data, Mapping) and data.get("kind") in ("choice", "text"):
            return {"measurement": "nominal", **data}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_criterion(self)
        return self

    @property
    def values(self) -> tuple[int | float, ...]:
        """Every value a label may take, in order; with a range, every whole number of it. Of a choice of several the
        options, whose sums are labels; of a text none.
        """
        if self.entries is not None:
            return self._list_entry_values()
        if self.range is not None:
            return tuple(range(int(self.range.min), int(self.range.max) + 1))
        return tuple(sorted(level.value for level in self.scale))

    def _list_entry_values(self) -> tuple[int, ...]:
        sizes = list_sizes(self._n_entries)
        if self.entries == "ranking":
            return tuple(value for size in sizes for value in list_rankings(size, ties=self.ties))
        if self.several:
            return (*([NONE] if self.none else []), *(1 << place for place in range(max(sizes))))
        return list_choices(max(sizes), none=self.none, ties=self.ties)

    @property
    def worded_levels(self) -> tuple[Level, ...]:
        """The levels that have words: the scale, or of a best entry what may be answered."""
        if self.entries != "best" or self.several:
            return self.scale
        return tuple(level for level in map(self.level, self.values) if level is not None)

    def level(self, value: Label | None) -> Level | None:
        """The level of this value; None between the anchors of a range and off the scale."""
        level = next((level for level in self.scale if level.value == value), None)
        if level is None and self.entries is not None and isinstance(value, int | float):
            return self._build_entry_level(value)
        return level

    def _build_entry_level(self, value: float) -> Level | None:
        """What a value of the entries says, by their places in the slate."""
        if value not in self.values:
            return None
        place = int(value).bit_length() if self.several else value
        name = name_ranking(value) if self.entries == "ranking" else name_choice(place)
        return Level(value=int(value), name=name, definition=name)

    def list_levels(self, value: Label | None) -> tuple[Level, ...]:
        """The levels that a label stands for: one, or all that were chosen; none off the scale."""
        total = as_number(value)
        if self.several and isinstance(total, int) and total:
            if self.entries is not None:
                levels = (self.level(1 << place) for place in range(MAX_ENTRIES) if total & 1 << place)
                return tuple(level for level in levels if level)
            return tuple(level for level in self.scale if total & int(level.value))
        level = self.level(value)
        return (level,) if level else ()

    @property
    def is_countable(self) -> bool:
        """Whether a response has one level here: what metrics count, and what scorers and judges predict."""
        is_single = not self.several and self.per_turn is None and self.entries != "ranking"
        return self.kind != "text" and is_single

    @property
    def agreement_scale(self) -> Literal["nominal", "ordinal", "interval", "masi"]:
        """How agreement on it is measured: by its measurement, and that on sets of options by their distance."""
        return "masi" if self.several else self.measurement

    @property
    def text_limit(self) -> int | None:
        """The most characters of a text; None of what is no text."""
        return (self.max_length or DEFAULT_TEXT) if self.kind == "text" else None

    @property
    def turn(self) -> int | None:
        """Of what ``at_turn`` gives the turn, counted from 0."""
        return find_turn(self.name)

    def at_turn(self, turn: int) -> Criterion:
        """The same question of one turn, counted from 0; its words count from 1, as the pages do."""
        words = {
            field: {language: f"{text} #{turn + 1}" for language, text in getattr(self, field).items()}
            for field in ("label", "question")
        }
        return self.model_copy(update={"name": add_turn(self.name, turn), "per_turn": None, **words})

    def at_entries(self, number: int) -> Criterion:
        """The same question of a slate of so many entries; of what is not asked of entries the criterion itself."""
        if self.entries is None:
            return self
        copied = self.model_copy()
        copied._n_entries = number
        return copied

    def show_in(self, order: Sequence[int], label: Label) -> Label:
        """The label as it reads where a slate's entries stand in this order; of what is not asked of entries, and where
        no order is given, the label itself.
        """
        if self.entries is None or not order or not isinstance(label, int):
            return label
        return move_entries(label, order, kind=self.entries, several=self.several)

    @cached_property
    def has_subcomponent_texts(self) -> bool:
        """Whether a definition or an example of a level is that of one subcomponent."""
        return any(
            level.subcomponents or any(example.subcomponent for example in level.examples)
            for level in self.scale
        )

    def at_subcomponent(self, subcomponent: str) -> Criterion:
        """The same criterion, its levels as they are defined for this subcomponent."""
        if not self.has_subcomponent_texts:
            return self
        return self.model_copy(
            update={"scale": tuple(level.at_subcomponent(subcomponent) for level in self.scale)}
        )

    def applies_in(self, dimension: str | None) -> bool:
        """Whether it is asked of any prompt of the dimension."""
        return self.applies_to == "all" or dimension in self.applies_to.dimensions

    def applies(self, dimension: str | None, subcomponent: str = "") -> bool:
        """Whether it is asked of a prompt of this dimension and subcomponent."""
        if self.applies_to == "all":
            return True
        parts = self.applies_to.subcomponents
        return dimension in self.applies_to.dimensions and (not parts or subcomponent in parts)

    @property
    def may_lack_value(self) -> bool:
        """Whether a response that was judged may have no number here."""
        return self.na or self.optional or self.asked_if is not None

    @property
    def answers(self) -> str:
        """What may be answered, as an error message lists it."""
        if self.entries == "ranking":
            return "12, 21" if self._n_entries == MIN_ENTRIES else "123, 213, .."
        return ", ".join(map(str, (*self.values, NA) if self.na else self.values))

    def check(self, label: object) -> Label:
        """The label as a number of the scale, or ``NA`` where that is allowed; else Unprocessable.

        Of a choice of several the sum of the options; a list of them is taken, too.
        """
        if self.na and label == NA:
            return NA
        return self._check_number(label, self.answers)

    def check_level(self, label: object) -> int | float:
        """The label as a number of the scale; else Unprocessable, also where it is ``NA``."""
        return self._check_number(label, ", ".join(map(str, self.values)))

    def check_option(self, label: object) -> int | float:
        """One of the values of the scale, even where several can be chosen; else Unprocessable."""
        number = as_number(label)
        if number is None or number not in self.values:
            raise self._refuse(label, ", ".join(map(str, self.values)))
        return number

    def check_text(self, text: object) -> str:
        """The text without outer blanks; Unprocessable where it is none, too long, or holds control characters."""
        if not isinstance(text, str):
            raise Unprocessable(
                N_('"{criterion}" is answered by a text, not by {value}.'),
                criterion=self.name,
                value=show(text),
            )
        limit = self.text_limit or 0
        if len(text) > limit:
            raise Unprocessable(
                N_('The text of "{criterion}" has {n} characters; write at most {most}.'),
                criterion=self.name,
                n=len(text),
                most=limit,
            )
        if CONTROL.search(text):
            raise Unprocessable(
                N_('The text of "{criterion}" holds a control character; remove it.'), criterion=self.name
            )
        return text.strip()

    def _check_number(self, label: object, allowed: str) -> int | float:
        if self.entries == "ranking" and isinstance(label, list | tuple):
            label = self._join_ranks(label)
        number = self._add_options(label) if self.several else as_number(label)
        if number is None or (not self.several and number not in self.values):
            raise self._refuse(label, allowed)
        return number

    def _add_options(self, label: object) -> int | None:
        """The sum of the options that were chosen, at least one; None for what names no options."""
        if self.none and as_number(label) == NONE:
            return NONE
        parts = label if isinstance(label, list | tuple) else (label,)
        options = [as_number(part) for part in parts]
        total = 0
        for option in options:
            if not isinstance(option, int) or option < 1:
                return None
            total |= option
        known = sum(int(value) for value in self.values)
        return total if total and total & known == total else None

    @staticmethod
    def _join_ranks(label: list[object] | tuple[object, ...]) -> object:
        """The ranking of a list of ranks, one of each entry; what is none comes back as it is."""
        ranks = [as_number(rank) for rank in label]
        if not all(isinstance(rank, int) and 1 <= rank <= MAX_ENTRIES for rank in ranks):
            return label
        return write_ranking([int(rank) for rank in ranks if rank is not None])

    def _refuse(self, label: object, allowed: str) -> Unprocessable:
        return Unprocessable(
            N_('"{criterion}" cannot be {value}; use one of {allowed}.'),
            criterion=self.name,
            value=show(label),
            allowed=allowed,
        )

    def is_asked(self, labels: Mapping[str, object]) -> bool:
        """Whether it is asked beside these labels of the same response."""
        if self.asked_if is None:
            return True
        conditions = (self.asked_if, self.or_if) if self.or_if is not None else (self.asked_if,)
        return any(condition.holds(labels.get(condition.criterion)) for condition in conditions)
