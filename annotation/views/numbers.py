"""Numbers and days that come with a request, which anybody may have written by hand: each has bounds.

What is outside of them is no number and no day, so that no sum over it leaves what Python and a database can keep.
"""

from __future__ import annotations

from datetime import date
from math import isfinite
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator

LONGEST = 18
"""Digits: what any database keeps as a whole number."""
MIN_DAY, MAX_DAY = date(1970, 1, 1), date(2999, 12, 31)
"""Nothing here is older; and a day more, or another time zone, is still a date."""


def whole(text: str) -> int | None:
    """The number from 0 on; None for what is none, and for one that no id or count here can be."""
    return int(text) if text.isdecimal() and len(text) <= LONGEST else None


def parse_signed(text: str) -> int | None:
    """As ``whole``, and below 0 as well."""
    number = whole(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number


def parse_level(text: str) -> float | None:
    """The value of a level; None for what is none, such as an infinite one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def parse_ordinal(text: str) -> int | None:
    """The ordinal of a day; None for what is none."""
    day = whole(text)
    return day if day is not None and MIN_DAY.toordinal() <= day <= MAX_DAY.toordinal() else None


class DayField(forms.DateField):
    """A date within the bounds; what is outside is refused in words that name them."""

    def __init__(self, **options: Any) -> None:
        widget = forms.DateInput(attrs={"type": "date", "min": MIN_DAY, "max": MAX_DAY}, format="%Y-%m-%d")
        super().__init__(**{"required": False, "widget": widget, **options})
        self.validators += [MinValueValidator(MIN_DAY), MaxValueValidator(MAX_DAY)]
