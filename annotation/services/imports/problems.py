"""What is wrong with a file: the first thing only (a command), or as much as fits on a page (an upload)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from annotation.errors import InputError

T = TypeVar("T")


class ImportRefused(InputError):
    """Reads as the first of its ``problems``."""

    def __init__(self, problems: list[InputError]) -> None:
        first = problems[0]
        super().__init__(first.template, path=first.path, line=first.line, field=first.field, **first.params)
        self.problems = problems


class Problems:
    """Collects up to ``most`` problems, then refuses the file."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: list[InputError] = []

    def add(self, error: InputError) -> None:
        self._found.append(error)
        if len(self._found) >= self._most:
            raise ImportRefused(self._found)

    def refuse_any(self) -> None:
        if self._found:
            raise ImportRefused(self._found)

    def sift(self, items: Iterable[T | InputError]) -> Iterator[T]:
        """What is right goes through; what is wrong stays here."""
        for item in items:
            if isinstance(item, InputError):
                self.add(item)
            else:
                yield item
