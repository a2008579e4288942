"""Numbers that come with a request, which anybody may have written by hand."""

from __future__ import annotations

LONGEST = 18
"""Digits: what any database keeps as a whole number."""


def whole(text: str) -> int | None:
    """The number from 0 on; None for what is none, and for one that no id or count here can be."""
    return int(text) if text.isdecimal() and len(text) <= LONGEST else None
