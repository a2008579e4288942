"""By what agreement can be grouped, and to what part of the labels a page can be narrowed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from annotation.core.errors import N_, AssayError
from annotation.domain.guidelines.values import MAX_NUMBER

FACETS = (
    "dimension",
    "subcomponent",
    "criterion",
    "guideline_version",
    "model",
    "pair",
    "week",
    "language",
    "attack_method",
    "malice",
    "round",
)
NARROWED_BY = (*FACETS, "guideline")
"""A page can also be narrowed to a guideline, whatever its versions; the report tells these apart by itself."""
UNNAMED = "-"
"""How an address says that a prompt has no dimension, subcomponent, language, attack method or malice."""

Grouping: TypeAlias = tuple[str, ...]
Group: TypeAlias = Mapping[str, str | None]

_LEVELS = re.compile(r"(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_groupings(text: str) -> tuple[Grouping, ...]:
    """``a,b`` as two groupings, ``a*b`` as one crossed; an unknown facet is an error."""
    groupings = [tuple(_split_parts(part, "*")) for part in _split_parts(text, ",")]
    unknown = sorted({facet for grouping in groupings for facet in grouping} - set(FACETS))
    if unknown:
        raise AssayError(
            N_("Agreement cannot be grouped by {unknown}; choose among: {known}."),
            unknown=", ".join(unknown),
            known=", ".join(FACETS),
        )
    return tuple(dict.fromkeys(groupings))


def _split_parts(text: str, separator: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(separator) if part.strip()))


@dataclass(frozen=True)
class Narrowing:
    """A part of the labels. ``facets`` holds names by facet, None for units that have none there.

    ``levels`` are two values of one unit: of the first and the second of the pair where the facets name one and
    ``either`` is not set, else in either order; ``level`` is one that somebody gave. ``day`` is the ISO date of a
    unit's last label.
    """

    facets: tuple[tuple[str, str | None], ...] = ()
    levels: tuple[float, float] | None = None
    either: bool = False
    level: float | None = None
    prompt: int | None = None
    day: str = ""
    reason: str = ""
    disputed: bool = False

    @property
    def named(self) -> dict[str, str | None]:
        return dict(self.facets)

    def with_group(self, group: Group) -> Narrowing:
        return replace(self, facets=tuple((self.named | dict(group)).items()))

    def between(self, level: float, other_level: float) -> Narrowing:
        """Where one person gave the one level and another the other, whoever of them gave which."""
        return replace(self, levels=(level, other_level), either="pair" in self.named)

    def parameters(self) -> dict[str, str]:
        """As an address says it; ``parse_narrowing`` reads it back."""
        parameters = {facet: UNNAMED if name is None else name for facet, name in self.facets}
        if self.levels is not None:
            parameters["levels"] = "{:g}-{:g}".format(*self.levels)
            parameters |= {"either": "1"} if self.either else {}
        if self.level is not None:
            parameters["level"] = f"{self.level:g}"
        if self.prompt is not None:
            parameters["prompt"] = str(self.prompt)
        parameters |= {name: value for name in ("day", "reason") if (value := getattr(self, name))}
        return parameters | ({"disputed": "1"} if self.disputed else {})


EVERYTHING = Narrowing()


def parse_narrowing(parameters: Mapping[str, str]) -> Narrowing:
    """What the parameters of an address narrow to; other parameters are not looked at."""
    values = {name: value.strip() for name, value in parameters.items() if value.strip()}
    return Narrowing(
        facets=tuple((facet, _parse_name(values[facet])) for facet in NARROWED_BY if facet in values),
        levels=_parse_levels(values["levels"]) if "levels" in values else None,
        either="levels" in values and "either" in values,
        level=_parse_number("level", values["level"]) if "level" in values else None,
        prompt=_parse_int("prompt", values["prompt"]) if "prompt" in values else None,
        day=_parse_day(values["day"]) if "day" in values else "",
        reason=values.get("reason", ""),
        disputed="disputed" in values,
    )


def _parse_name(text: str) -> str | None:
    return None if text == UNNAMED else text


def _parse_levels(text: str) -> tuple[float, float]:
    match = _LEVELS.fullmatch(text)
    if match is None:
        raise AssayError(N_("{value} are no two levels; write them as 1-3."), value=text)
    return _parse_number("levels", match[1]), _parse_number("levels", match[2])


def _parse_number(name: str, text: str) -> float:
    """A number that a level may be; not infinite, nor nan, which is not even itself."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) <= MAX_NUMBER:
        raise AssayError(N_("{name} takes a number, not {value}."), name=name, value=text)
    return number


def _parse_int(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:  # the keys are 32 bits
        raise AssayError(N_("{name} takes a number, not {value}."), name=name, value=text)
    return int(text)


def _parse_day(text: str) -> str:
    if not _DAY.fullmatch(text):
        raise AssayError(N_("{value} is no day; write it as 2026-03-31."), value=text)
    return text
