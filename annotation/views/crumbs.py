from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse


@dataclass(frozen=True)
class Crumb:
    """One step of the way to a page; the last one is where the reader is, and has no address."""

    label: str
    url: str = ""


def trail(*steps: tuple[str, str, list[str]], here: str) -> list[Crumb]:
    """``steps`` are (label, URL name, its arguments)."""
    return [*(Crumb(label, reverse(name, args=args)) for label, name, args in steps), Crumb(here)]
