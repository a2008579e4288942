"""A length of time in words, as exact as an estimate deserves."""

from __future__ import annotations

from django.utils.translation import gettext as _


def about(seconds: float | None) -> str:
    """``3 h 20 min``, ``25 min`` or ``40 s``; ``-`` where there is no estimate."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return _("{seconds} s").format(seconds=round(seconds))
    minutes = round(seconds / 60)
    if minutes < 60:
        return _("{minutes} min").format(minutes=minutes)
    return _("{hours} h {minutes} min").format(hours=minutes // 60, minutes=minutes % 60)
