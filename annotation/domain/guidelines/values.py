"""The scalar values of a guideline: names, texts in several languages, numbers; and how a flaw is raised."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Annotated, Any, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, StringConstraints
from pydantic_core import PydanticCustomError

from annotation.core.errors import N_

FLAW = "guideline"
NA = "na"
"""The label "not applicable": outside every scale, and never a number. A gold label stores it as null."""
Label: TypeAlias = int | float | str
"""What a person answers: a value of the scale, or ``NA``."""
NOT_APPLICABLE = {"en": "Not applicable", "zh": "不适用"}
MAX_NUMBER = 1_000_000
TURN_SIGN = "@"
Location: TypeAlias = tuple[str | int, ...]
PROMPT, RESPONSE = "{prompt}", "{response}"
MAX_TEMPLATE_CHARACTERS = 2000
FORMULA = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*\*\s*mean\s*(?:/\s*([0-9]+(?:\.[0-9]+)?)\s*)?")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Without what was computed from the fields of the original and kept (``cached_property``)."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


def read_switch(value: object) -> object:
    """``yes`` and ``no`` without quotes, which YAML reads as a truth value."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


def flaw(template: str, *, at: tuple[str | int, ...] = (), **params: Any) -> PydanticCustomError:
    """A validation error that keeps its translatable template; ``at`` is relative to the validated object."""
    context = {"message": template.format(**params), "template": template, "params": params, "at": at}
    return PydanticCustomError(FLAW, "{message}", context)


def check_unique(names: Iterable[Hashable], *place: str | int, inside: bool = False) -> None:
    """Refuse the second of two equals in the list at ``place``.

    The names are the entries themselves (``inside``), or a field of the entries: the last of ``place``.
    """
    seen: set[Hashable] = set()
    for index, name in enumerate(names):
        if name in seen:
            at: Location = (*place, index) if inside else (*place[:-1], index, place[-1])
            raise flaw(N_("{name} is there twice; remove or rename one."), at=at, name=show(name))
        seen.add(name)


def add_turn(criterion: str, turn: int) -> str:
    """The name under which a criterion that is asked of each turn has its label of this turn: ``empathy@3``.

    Turns are counted from 0, as in a span of evidence.
    """
    return f"{criterion}{TURN_SIGN}{turn}"


def strip_turn(name: str) -> str:
    """The criterion of ``add_turn``; any other name as it is."""
    return name.partition(TURN_SIGN)[0]


def find_turn(name: str) -> int | None:
    """The turn of ``add_turn``; None for any other name."""
    turn = name.partition(TURN_SIGN)[2]
    return int(turn) if turn.isascii() and turn.isdigit() and str(int(turn)) == turn else None


def as_number(value: object) -> int | float | None:
    """The number, whole ones as int (3.0 is 3); None for what is no finite number, bool included."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


def order_level(value: str) -> float:
    """By which the values of a scale are sorted where they are keys of JSON; ``NA`` comes last."""
    return math.inf if value == NA else float(value)


def level_key(value: object) -> str:
    """What somebody answered as a key of JSON: 3 and 3.0 are ``"3"``; what is neither a number nor a text as JSON."""
    number = as_number(value)
    if number is not None:
        return str(number)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def order_level_key(key: str) -> tuple[float, str]:
    """By which keys of any answers are sorted: numbers by size, then ``NA`` and texts."""
    try:
        number = float(key)
    except ValueError:
        number = math.inf
    return (number if math.isfinite(number) else math.inf), key


def parse_level(value: str) -> Label:
    """A value of a scale that is a key of JSON."""
    return NA if value == NA else float(value)


def show(value: object) -> str:
    """A value as an error message quotes it: short, and in no language."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value[:60]}…"' if len(value) > 60 else f'"{value}"'
        case Mapping():
            return "{…}"
        case list() | tuple():
            return "[…]"
    return str(value)[:60]


def _read_number(value: object) -> int | float:
    number = as_number(value)
    if number is None or abs(number) > MAX_NUMBER:
        raise flaw(
            N_("{found} is not a number within ±{largest}; write a number, without quotes."),
            found=show(value),
            largest=MAX_NUMBER,
        )
    return number


def _read_text(text: str) -> str:
    if CONTROL.search(text):
        raise flaw(N_("This text holds a control character; remove it."))
    if not text.strip():
        raise flaw(N_("This text is empty; write it."))
    return text.strip()


def _read_template(text: str) -> str:
    for place in (PROMPT, RESPONSE):
        if text.count(place) != 1:
            raise flaw(N_("This must hold {place} once; it stands for the text."), place=place)
    if text.index(PROMPT) > text.index(RESPONSE):
        raise flaw(
            N_("{response} comes before {prompt} here; turn them round."), prompt=PROMPT, response=RESPONSE
        )
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        raise flaw(N_("This is longer than {most} characters; shorten it."), most=MAX_TEMPLATE_CHARACTERS)
    return text


Number: TypeAlias = Annotated[int | float, BeforeValidator(_read_number)]
Text: TypeAlias = Annotated[str, Strict(), AfterValidator(_read_text)]
ScorerTemplate: TypeAlias = Annotated[Text, AfterValidator(_read_template)]
"""How an encoder is given a prompt and its response: a text that holds ``{prompt}`` and, behind it, ``{response}``."""
Identifier: TypeAlias = Annotated[str, Strict(), StringConstraints(pattern=r"^[a-z_]+$", max_length=50)]
MetricName: TypeAlias = Annotated[
    str, Strict(), StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=50)
]
# No "@": a version is asked for as NAME@VERSION.
Slug: TypeAlias = Annotated[
    str, Strict(), StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=50)
]
TaxonomyName: TypeAlias = Annotated[
    str, Strict(), StringConstraints(pattern=r"^\S(.*\S)?$", max_length=100), AfterValidator(_read_text)
]
Language: TypeAlias = Annotated[
    str, Strict(), StringConstraints(pattern=r"^[a-z]{2,3}(-[a-z0-9]+)*$", max_length=20)
]
LocalizedText: TypeAlias = Annotated[dict[Annotated[str, Strict()], Text], Field(min_length=1)]


def _primary(language: str) -> str:
    return language.lower().replace("_", "-").partition("-")[0]


def localize(text: Mapping[str, str], language: str) -> str:
    """The text in the language, else in one of the same primary subtag (zh-hans: zh), else in the first."""
    if language in text:
        return text[language]
    kin = (text[known] for known in text if _primary(known) == _primary(language))
    return next(kin, next(iter(text.values())))


def find_language(text: Mapping[str, str], language: str) -> str:
    """The language in which ``localized`` finds the text."""
    chosen_text = localize(text, language)
    return next(name for name, words in text.items() if words == chosen_text)
