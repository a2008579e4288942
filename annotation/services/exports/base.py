"""The shape that every export format has: a ``Writer`` says which files it makes and how they are checked.

A format is one small module, registered in ``formats/__init__.py``. ``files.py`` writes its parts in order into a
hidden folder, resumes where a killed worker was, and has the files checked against the manifest; only then are they
renamed. ``manifest.json`` and the datasheet are added to every format.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from django.conf import settings

from annotation.domain.releases.pseudonyms import assign_pseudonyms
from annotation.models import GoldRelease, Person
from annotation.selectors.origins import add_origins
from annotation.selectors.releases.rows import ReleaseContent

ReportPosition: TypeAlias = Callable[[int], None]
"""Told how many positions of a part are done; raises what ends the export, which must be let pass."""


@dataclass(frozen=True)
class Options:
    """What a person may choose. A writer names those that it heeds in ``Writer.options``.

    ``real_names``: people under their names, not under pseudonyms. ``rationales``: what people wrote beside their
    labels, and the evidence they marked. ``times``: when they said it. ``table``: csv or jsonl, for the raw
    labels. ``license``: as Hugging Face
    writes it.
    """

    real_names: bool = False
    rationales: bool = False
    times: bool = False
    table: str = "csv"
    license: str = "other"

    def to_json(self, heeded: frozenset[str]) -> dict[str, Any]:
        """As an export's row keeps them: those that count for its format."""
        return {name: value for name, value in asdict(self).items() if name in heeded}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Options:
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True)
class ExportSpec:
    """A release to be written, as ``annotation/selectors/releases/rows.py`` reads it, with these options."""

    released: ReleaseContent
    options: Options

    @property
    def release(self) -> GoldRelease:
        return self.released.release

    @property
    def rows(self) -> int:
        """The rows of the gold file, from the manifest: it costs nothing."""
        return int(self.release.manifest["counts"]["rows"])

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """With sorted names, as no database keeps them: what is written of it is the same everywhere."""
        manifest: dict[str, Any] = json.loads(json.dumps(add_origins(self.release), sort_keys=True))
        return manifest

    @cached_property
    def people(self) -> Mapping[int, str]:
        """What each person behind the release is called in the files, by id."""
        roles = self.released.people()
        if self.options.real_names:
            return dict(Person.objects.filter(pk__in=roles).values_list("pk", "username"))
        scope = f"{self.release.name}\n{self.release.sha256}"
        return assign_pseudonyms(roles, secret=settings.SECRET_KEY, scope=scope)


class Chunk(NamedTuple):
    """Some text, and the position in the part up to which the file is written with it."""

    text: str
    position: int


@dataclass(frozen=True)
class TextFile:
    """A file that can go on after any chunk: it is cut back to the last one that was surely written.

    ``chunks(position)`` gives the text after that position, 0 for all of it; the same texts every time. ``head`` comes
    before it, ``tail`` after it. ``total`` is the last position, for the progress.
    """

    name: str
    chunks: Callable[[int], Iterator[Chunk]]
    total: int
    head: str = ""
    tail: str = ""


@dataclass(frozen=True)
class WholeFile:
    """A file that cannot go on in its middle: after a worker died it is started again, but not those before it.

    ``write(path, tell)`` makes the file; ``total`` is the last position that it tells.
    """

    name: str
    write: Callable[[Path, ReportPosition], None]
    total: int


Part: TypeAlias = TextFile | WholeFile


class ExportCounts(NamedTuple):
    """What was read back from the written files."""

    rows: int
    labels: int


class Writer(ABC):
    """``name`` is what commands and rows call the format; ``title`` (two or three words) and
    ``about`` (a sentence) are English to be translated.
    """

    name: str
    title: str
    about: str
    options: frozenset[str] = frozenset()

    @abstractmethod
    def parts(self, spec: ExportSpec) -> Sequence[Part]:
        """The files in the order in which they are written; names may have a folder: ``data/x.parquet``."""

    @abstractmethod
    def check(self, folder: Path, spec: ExportSpec, tell: ReportPosition) -> ExportCounts:
        """Read the files back and compare them with the release: Conflict if they do not hold what it holds.

        ``tell`` is told how many rows were read. ``verification.check_gold`` compares rows with the manifest and
        recomputes the release's sha256 from them.
        """
