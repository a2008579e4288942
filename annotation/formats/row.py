"""One row of a file, and how its fields are taken: a value of the right kind, or an error that says where."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from annotation.errors import N_, AssayError, InputError
from annotation.names import LONGEST, check_name

LONGEST_ID = 200
LONGEST_LANGUAGE = 20


@dataclass(frozen=True, slots=True)
class Row:
    """``within`` goes before the name of a field where the fields are a part of the record: ``data.``"""

    file: str
    line: int
    fields: Mapping[str, Any]
    within: str = ""

    def error(self, template: str, *, field: str | None = None, **params: Any) -> InputError:
        place = None if field is None else f"{self.within}{field}"
        return InputError(template, path=self.file, line=self.line, field=place, **params)

    def has(self, field: str) -> bool:
        """Whether anything stands there: null, blank text and a missing field are nothing."""
        value = self.fields.get(field)
        return value is not None and not (isinstance(value, str) and not value.strip())

    def whole(self, field: str) -> str:
        """The text as it stands, which may be empty; it must be there."""
        if field not in self.fields:
            raise self.error(
                N_("there is no such field; this row has: {known}."),
                field=field,
                known=", ".join(self.fields) or "-",
            )
        value = self.fields[field]
        if not isinstance(value, str):
            raise self.error(N_("this is no text; put it in quotation marks."), field=field)
        return value

    def text(self, field: str, *, longest: int | None = None) -> str:
        """The text, which must say something."""
        value = self.whole(field)
        if not value.strip():
            raise self.error(N_("this is empty."), field=field)
        if longest is not None and len(value) > longest:
            raise self.error(
                N_("this has {found} characters; at most {longest} are possible."),
                field=field,
                found=len(value),
                longest=longest,
            )
        return value

    def optional(self, field: str, *, longest: int = LONGEST) -> str:
        """The text, or "" where there is nothing."""
        return self.text(field, longest=longest) if self.has(field) else ""

    def identifier(self, field: str) -> str:
        """An id or "" where there is none; a whole number will do."""
        value = self.fields.get(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.optional(field, longest=LONGEST_ID).strip()

    def name(self, field: str) -> str:
        """A name as it can stand in an address."""
        value = self.text(field)
        try:
            return check_name(value)
        except AssayError as error:
            raise self.error(error.template, field=field, **error.params) from error

    def optional_name(self, field: str) -> str | None:
        return self.name(field) if self.has(field) else None

    def seconds(self, field: str = "seconds") -> float | None:
        """A span of time in seconds, or None where there is nothing."""
        if not self.has(field):
            return None
        number = as_number(self.fields[field])
        if number is None or number < 0:
            raise self.error(N_("this is no number of seconds; write 0 or more."), field=field)
        return number


def as_number(value: object) -> float | None:
    """A finite number, a whole one as int, also one that is written as text (as in CSV); None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number
