"""How numbers look on every page. A builtin of the template engine: no page loads it.

A filter's argument is the number of digits; without it ``annotation.core.formatting`` says how many there are. The
filters of intervals take whatever has a ``low`` and a ``high``, as attributes or keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

from annotation.core import formatting

register = template.Library()

register.filter("grouped", formatting.format_grouped)
register.filter("decimal", formatting.format_decimal)
register.filter("signed", formatting.format_signed)
register.filter("typographic", formatting.format_typographic)
register.filter("typographic_signed", formatting.format_typographic_signed)
register.filter("compact", formatting.format_compact)
register.filter("significant", formatting.format_significant)
register.filter("percent", formatting.format_percent)
register.filter("percent_number", formatting.format_percent_number)
register.filter("percent_signed", formatting.format_percent_signed)
register.filter("percent_compact", formatting.format_percent_compact)
register.filter("p_value", formatting.format_p_value)
register.filter("duration", formatting.format_duration)
register.filter("elapsed", formatting.format_elapsed)
register.filter("hours", formatting.format_hours)
register.filter("day", formatting.format_day)
register.filter("moment", formatting.format_moment)


@register.filter
def interval(statistic: Any, digits: int = 3) -> str:
    """``0.690 – 0.790``, blank where it is undefined."""
    return formatting.format_interval(*interval_ends(statistic), digits)


@register.filter
def interval_signed(statistic: Any, digits: int = 3) -> str:
    """``-0.010 – +0.120``, blank where it is undefined."""
    return formatting.format_interval_signed(*interval_ends(statistic), digits)


@register.filter
def interval_percent(statistic: Any, digits: int = 1) -> str:
    """``57.5 – 82.7``, blank where it is undefined."""
    return formatting.format_interval_percent(*interval_ends(statistic), digits)


@register.filter(name="range")
def range_filter(statistic: Any, digits: int = 3) -> str:
    """``0.690 to 0.790`` in words, blank where it is undefined."""
    ends = (formatting.format_decimal(end, digits, "") for end in interval_ends(statistic))
    return formatting.format_range(*ends)


@register.filter
def range_signed(statistic: Any, digits: int = 3) -> str:
    """``-0.010 to +0.120`` in words, blank where it is undefined."""
    ends = (formatting.format_signed(end, digits, "") for end in interval_ends(statistic))
    return formatting.format_range(*ends)


@register.filter
def range_percent(statistic: Any, digits: int = 1) -> str:
    """``57.5 to 82.7``, a share's ends in percent without the sign, blank where they are undefined."""
    ends = (formatting.format_percent_number(end, digits, "") for end in interval_ends(statistic))
    return formatting.format_range(*ends)


@register.filter
def bracketed(statistic: Any, digits: int = 3) -> str:
    """``0.743 [0.690, 0.790]``; a dash where it is undefined."""
    return formatting.format_bracketed(read_part(statistic, "value"), *interval_ends(statistic), digits)


@register.filter
def bracketed_percent(statistic: Any, digits: int = 1) -> str:
    """``42.5% [40.1, 44.9]``; a dash where it is undefined."""
    return formatting.format_bracketed_percent(
        read_part(statistic, "value"), *interval_ends(statistic), digits
    )


def interval_ends(statistic: Any) -> tuple[float | None, float | None]:
    return read_part(statistic, "low"), read_part(statistic, "high")


def read_part(statistic: Any, name: str) -> float | None:
    number: float | None
    number = statistic.get(name) if isinstance(statistic, Mapping) else getattr(statistic, name, None)
    return number
