"""The canonical form of a gold release, and its hash. Pure.

``docs/gold.md`` defines the form; what is not in it (people, times, database ids, collections, the release's
name) cannot change the hash.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import math
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import IO, NamedTuple, TypeAlias, overload

from annotation.core.errors import N_, AssayError
from annotation.domain.guidelines.values import NA, Label

Value: TypeAlias = Label

RUN = 50_000
"""Lines that are sorted in memory at a time; more of them go through temporary files."""
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class LabelKey(NamedTuple):
    """What a label is about, wherever and in whichever batch it was settled.

    The guideline is here without its version: a criterion asks the same thing in every version of its guideline.
    """

    guideline: str
    dataset: str
    prompt: str
    model: str
    response_sha256: str
    criterion: str


class SettledLabel(NamedTuple):
    """One gold label as the canonical form knows it, in the order of its fields."""

    guideline: str
    version: str
    dataset: str
    prompt: str
    model: str
    response_sha256: str
    criterion: str
    value: Value
    source: str

    @property
    def key(self) -> LabelKey:
        return LabelKey(
            self.guideline, self.dataset, self.prompt, self.model, self.response_sha256, self.criterion
        )

    @property
    def line(self) -> bytes:
        """The canonical line with its line feed: a compact JSON array in UTF-8, the value as ``number`` says."""
        return (_encode([*self[:7], number(self.value), self.source]) + "\n").encode()


@overload
def number(value: float) -> int | float: ...
@overload
def number(value: Value | None) -> Value: ...
def number(value: Value | None) -> Value:
    """3.0 as 3, and 2.5 as it is; None, which stands for "not applicable" in a table, as ``NA``.

    Anything else that is no number is refused.
    """
    if value is None or value == NA:
        return NA
    if isinstance(value, str) or not math.isfinite(value):
        raise AssayError(N_("{value} is not a number and cannot be a gold label."), value=value)
    return int(value) if value == int(value) else value


def release_sha256(lines: Iterable[bytes], *, run: int = RUN) -> str:
    """The sha256 (hex) of the lines in the order of their bytes, in memory for ``run`` lines at most."""
    digest = hashlib.sha256()
    with ExitStack() as files:
        for line in heapq.merge(*_sorted_runs(iter(lines), run, files)):
            digest.update(line)
    return digest.hexdigest()


def _sorted_runs(lines: Iterator[bytes], run: int, files: ExitStack) -> list[Iterable[bytes]]:
    """The lines as sorted runs: the last in memory, those before it in temporary files."""
    runs: list[Iterable[bytes]] = []
    while True:
        part = sorted(islice(lines, run))
        if len(part) < run:
            return [*runs, part]
        file = files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
        runs.append(_spill(part, file))


def _spill(lines: Iterable[bytes], file: IO[bytes]) -> IO[bytes]:
    file.writelines(lines)
    file.seek(0)
    return file
