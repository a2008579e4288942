"""How numbers and times look to a person, alike on pages, in commands and in files: the one place that formats them.

Each function takes None for what is undefined, and shows it as ``undefined``, a dash where nothing else is passed.
The template filters of the same names are in ``annotation.templatetags.formatting``.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

UNDEFINED = "-"


def format_grouped(value: Any) -> Any:
    """A count with its thousands apart, ``112,550``, alike in both languages; anything else as it is."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def format_decimal(value: float | None, digits: int = 3, undefined: str = UNDEFINED) -> str:
    """``0.743``."""
    return undefined if value is None else f"{value:.{digits}f}"


def format_signed(value: float | None, digits: int = 3, undefined: str = UNDEFINED) -> str:
    """``+0.012``, ``-0.300``."""
    return undefined if value is None else f"{value:+.{digits}f}"


def format_typographic(value: float | None, digits: int = 2, undefined: str = UNDEFINED) -> str:
    """``−0.30``: with the minus that is as wide as a plus, and without one where nothing but zeros remains."""
    return undefined if value is None else _widen_minus(f"{value:z.{digits}f}")


def format_typographic_signed(value: float | None, digits: int = 2, undefined: str = UNDEFINED) -> str:
    """``+0.12``, ``−0.30``, and ``0.00`` without a sign."""
    if value is None:
        return undefined
    text = f"{value:+z.{digits}f}"
    return _widen_minus(text if text.strip("+0.") else text.removeprefix("+"))


def format_compact(value: float | None, undefined: str = UNDEFINED) -> str:
    """Without needless zeros: ``2``, ``0.5``. Levels of scales are shown so."""
    return undefined if value is None else f"{value:g}"


def format_significant(value: float | None, digits: int = 3, undefined: str = UNDEFINED) -> str:
    """With so many digits that count: ``0.0123``, ``1.2e+04``."""
    return undefined if value is None else f"{value:.{digits}g}"


def format_percent(share: float | None, digits: int = 1, undefined: str = UNDEFINED) -> str:
    """A share of 1 as ``42.5%``."""
    return undefined if share is None else f"{share:.{digits}%}"


def format_percent_number(share: float | None, digits: int = 1, undefined: str = UNDEFINED) -> str:
    """A share of 1 in percent without the sign: ``42.5``."""
    return undefined if share is None else f"{100 * share:.{digits}f}"


def format_part(part: int, total: int, digits: int = 1) -> str:
    """How many percent of the total, without the sign: ``42.5``. Rounded once, so that a tie stays one."""
    return f"{100 * part / total:.{digits}f}"


def format_percent_signed(share: float | None, digits: int = 2, undefined: str = UNDEFINED) -> str:
    """A difference of two shares in percentage points: ``+1.25``."""
    return undefined if share is None else f"{100 * share:+.{digits}f}"


def format_percent_compact(share: float | None, undefined: str = UNDEFINED) -> str:
    """A share that somebody set, without needless zeros: ``5%``, ``2.5%``."""
    return undefined if share is None else f"{100 * share:g}%"


def format_interval(low: float | None, high: float | None, digits: int = 3, undefined: str = "") -> str:
    """``0.690 – 0.790``."""
    return _join_ends(format_decimal(low, digits, ""), format_decimal(high, digits, ""), undefined)


def format_interval_signed(
    low: float | None, high: float | None, digits: int = 3, undefined: str = ""
) -> str:
    """``-0.010 – +0.120``."""
    return _join_ends(format_signed(low, digits, ""), format_signed(high, digits, ""), undefined)


def format_interval_percent(
    low: float | None, high: float | None, digits: int = 1, undefined: str = ""
) -> str:
    """The interval of a share, in percent without the sign: ``57.5 – 82.7``."""
    return _join_ends(
        format_percent_number(low, digits, ""), format_percent_number(high, digits, ""), undefined
    )


def _join_ends(low: str, high: str, undefined: str) -> str:
    return f"{low} – {high}" if low and high else undefined


def format_range(low: str, high: str) -> str:
    """Two ends, formatted before, in words: ``0.690 to 0.790``. Blank where one is missing."""
    return _("{low} to {high}").format(low=low, high=high) if low and high else ""


def format_bracketed(value: float | None, low: float | None, high: float | None, digits: int = 3) -> str:
    """A statistic as papers print it: ``0.743 [0.690, 0.790]``; without brackets where the interval is undefined."""
    if value is None or low is None or high is None:
        return format_decimal(value, digits)
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def format_bracketed_percent(
    value: float | None, low: float | None, high: float | None, digits: int = 1
) -> str:
    """The same of a share: ``42.5% [40.1, 44.9]``."""
    if value is None or low is None or high is None:
        return format_percent(value, digits)
    return f"{100 * value:.{digits}f}% [{100 * low:.{digits}f}, {100 * high:.{digits}f}]"


def format_p_value(value: float | None, undefined: str = UNDEFINED) -> str:
    """With its sign, as it is read after a p: ``= 0.004``, ``< 0.001``."""
    if value is None:
        return undefined
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def format_duration(seconds: float | None) -> str:
    """As exact as an estimate deserves: ``3 h 20 min``, ``25 min`` or ``40 s``."""
    if seconds is None:
        return UNDEFINED
    if seconds < 60:
        return _("{seconds} s").format(seconds=round(seconds))
    minutes = round(seconds / 60)
    if minutes < 60:
        return _("{minutes} min").format(minutes=minutes)
    return _("{hours} h {minutes} min").format(hours=minutes // 60, minutes=minutes % 60)


def format_elapsed(seconds: float | None) -> str:
    """As exact as a measurement: ``12 ms``, ``3.4 s``, ``5 min``."""
    if seconds is None:
        return UNDEFINED
    if seconds < 1:
        return _("{n} ms").format(n=f"{1000 * seconds:.3g}")
    if seconds < 120:
        return _("{n} s").format(n=f"{seconds:.3g}")
    return _("{n} min").format(n=f"{seconds / 60:.0f}")


def format_hours(hours: float) -> str:
    """``3.5``, and from ten hours on whole ones: ``1,250``."""
    return f"{hours:.1f}" if hours < 10 else f"{hours:,.0f}"


def format_day(ordinal: int | None) -> str:
    """The day with this ordinal."""
    return UNDEFINED if ordinal is None else date.fromordinal(ordinal).isoformat()


def format_moment(at: datetime | None) -> str:
    """``17:51`` of today, else ``2026-11-22 17:51``, in the time zone of the pages."""
    if not at:
        return UNDEFINED
    local = timezone.localtime(at)
    return f"{local:%H:%M}" if local.date() == timezone.localdate() else f"{local:%Y-%m-%d %H:%M}"


def _widen_minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")
