"""How the labels of a release were made, as far as a stored fact says it. Pure.

A label is given here (on the page, or with a token) or imported from a file. Of what was given here the manifest has
the numbers; of a file there are the words of whoever imported it, and of a bundle what its own manifest says. What none
of these says is None, and documents call it "not recorded".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from annotation.core.errors import N_, AssayError

Manifest: TypeAlias = Mapping[str, Any]
MAX_PROTOCOL_CHARACTERS = 4000
MAX_FILE_CHARACTERS = 255
MAX_CARRIED_FILES = 200
MAX_CARRIED_DEPTH = 4
"""A bundle of labels that came in a bundle carries the protocols of both: so many, one within the other."""
CHANNELS = ("page", "token", "unknown")
"""Of a label given here; ``unknown`` is one of before channels were recorded, on the page or with a token."""


def check_protocol(text: str | None) -> str | None:
    """An importer's words as they are stored; None where there are none. Raises AssayError where they are too long."""
    words = _clean_text(text or "")
    if len(words) > MAX_PROTOCOL_CHARACTERS:
        raise AssayError(
            N_("The protocol has {number} characters; at most {longest} are taken."),
            number=len(words),
            longest=MAX_PROTOCOL_CHARACTERS,
        )
    return words or None


@dataclass(frozen=True)
class CarriedFile:
    """A file that was imported where a bundle was made, with the words of whoever imported it there."""

    file: str
    sha256: str
    annotations: int
    adjudications: int
    protocol: str | None
    carried: CarriedProtocol | None

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "sha256": self.sha256,
            "annotations": self.annotations,
            "adjudications": self.adjudications,
            "protocol": self.protocol,
            "carried": self.carried.to_json() if self.carried else None,
        }


@dataclass(frozen=True)
class CarriedProtocol:
    """What a bundle's manifest says of one batch: the annotations given on its page or with a token, and the files."""

    given: int | None
    files: tuple[CarriedFile, ...]

    def to_json(self) -> dict[str, Any]:
        return {"given": self.given, "files": [file.to_json() for file in self.files]}


def read_carried_protocols(release: Manifest) -> dict[str, CarriedProtocol]:
    """Of each batch of a bundle, by the manifest of its release. A stranger may have written it: what is not as it
    should be is left out. A batch of which it says nothing of imports is left out too.
    """
    protocols, imported = release.get("protocol"), release.get("imported")
    if not isinstance(protocols, list) or not isinstance(imported, Mapping):
        return {}
    carried = {}
    for entry in protocols:
        name, total = (
            (entry.get("name"), entry.get("annotations")) if isinstance(entry, Mapping) else ("", None)
        )
        if not isinstance(name, str) or not name:
            continue
        files = [file for file in _list_objects(imported.get("files")) if file.get("batch") == name]
        protocol = _read_carried({"files": files}, MAX_CARRIED_DEPTH)
        assert protocol is not None
        rest = None
        if isinstance(total, int) and _is_number(total) and len(protocol.files) == len(files):
            rest = total - sum(file.annotations for file in protocol.files)
        carried[name] = CarriedProtocol(rest if _is_number(rest) else None, protocol.files)
    return carried


def _read_carried(stored: Any, depth: int) -> CarriedProtocol | None:
    if not isinstance(stored, Mapping) or depth == 0:
        return None
    files = tuple(
        CarriedFile(
            _clean_text(file["file"])[:MAX_FILE_CHARACTERS],
            _clean_text(str(file.get("sha256") or ""))[:64],
            file["annotations"],
            file["adjudications"] if _is_number(file.get("adjudications")) else 0,
            _clean_text(str(file.get("protocol") or ""))[:MAX_PROTOCOL_CHARACTERS] or None,
            _read_carried(file.get("carried"), depth - 1),
        )
        for file in _list_objects(stored.get("files"))[:MAX_CARRIED_FILES]
        if isinstance(file.get("file"), str) and _is_number(file.get("annotations"))
    )
    return CarriedProtocol(stored["given"] if _is_number(stored.get("given")) else None, files)


def _list_objects(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _clean_text(text: str) -> str:
    """Without what a database or a page cannot hold: lone surrogates and control characters but for line feeds."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(mark for mark in lines if mark.isprintable() or mark in "\n\t\u3000\u00a0").strip()


@dataclass(frozen=True)
class LabelOrigins:
    """Where the labels of a batch, or of all batches of a release, came from; None is not recorded.

    ``imported`` and ``given_here`` count annotations, ``imported_decisions`` and ``decided_here`` decisions. The days
    are the first and the last on which somebody submitted here.
    """

    imported: int | None = None
    imported_decisions: int | None = None
    given_here: int | None = None
    decided_here: int | None = None
    annotators_here: int | None = None
    adjudicators_here: int | None = None
    channels: Mapping[str, int] | None = None
    gold_checks: int | None = None
    first_day: str | None = None
    last_day: str | None = None

    @property
    def has_imported(self) -> bool:
        return bool(self.imported or self.imported_decisions)

    @property
    def is_known(self) -> bool:
        return self.imported is not None


def count_imported(batch: str, imported: Mapping[str, Any] | None, kind: str = "annotations") -> int:
    """How many ``annotations`` or ``adjudications`` of a batch were imported, of what a manifest says of imports."""
    files = imported["files"] if imported else ()
    return sum(file[kind] for file in files if file["batch"] == batch)


def find_batch_origins(entry: Mapping[str, Any], imported: Mapping[str, Any] | None) -> LabelOrigins:
    """Of a batch, from its entry of the manifest's ``protocol`` and from the manifest's ``imported``.

    A manifest of before has no numbers of what was given here: they follow where nothing, or everything, was imported.
    """
    if imported is None:
        return LabelOrigins()
    annotations = count_imported(entry["name"], imported)
    decisions = count_imported(entry["name"], imported, "adjudications")
    own_work = entry.get("here")
    if own_work is not None:
        return LabelOrigins(
            annotations,
            decisions,
            own_work["annotations"],
            own_work["adjudications"],
            own_work["annotators"],
            own_work["adjudicators"],
            own_work["channels"],
            own_work["gold_checks"],
            own_work["first_submitted"],
            own_work["last_submitted"],
        )
    if annotations or decisions:
        rest = max(0, entry["annotations"] - annotations)
        return LabelOrigins(annotations, decisions, rest, annotators_here=None if rest else 0)
    return LabelOrigins(
        0,
        0,
        entry["annotations"],
        None,
        entry["annotators"],
        entry["adjudicators"],
        first_day=entry["first_submitted"],
        last_day=entry["last_submitted"],
    )


def count_origins(manifest: Manifest) -> LabelOrigins:
    """Of all batches of a release or a report together."""
    imported, people = manifest.get("imported"), manifest.get("people")
    if imported is None:
        return LabelOrigins()
    annotations, decisions = imported["annotations"], imported["adjudications"]
    if people is None:
        return LabelOrigins(annotations, decisions)
    entries = [find_batch_origins(entry, imported) for entry in manifest.get("protocol") or ()]
    is_here_alone = not annotations and not decisions
    people_here = people.get("here") or (people if is_here_alone else {})
    return LabelOrigins(
        annotations,
        decisions,
        max(0, people["annotations"] - annotations),
        _add_numbers([entry.decided_here for entry in entries]),
        people_here.get("annotators"),
        people_here.get("adjudicators"),
        _add_channels([entry.channels for entry in entries]),
        _add_numbers([entry.gold_checks for entry in entries]),
    )


def _add_numbers(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def _add_channels(channels: Sequence[Mapping[str, int] | None]) -> dict[str, int] | None:
    known = [counts for counts in channels if counts is not None]
    if not known or len(known) < len(channels):
        return None
    return {name: sum(counts.get(name, 0) for counts in known) for name in CHANNELS}


@dataclass(frozen=True)
class ImportProtocol:
    """What is recorded of how the labels of some files were made: a paragraph of a datasheet.

    ``words`` are the importer's own, None is not recorded. Of a bundle ``given_there`` is how many annotations of the
    batch its manifest calls given on the page or with a token of the site that made it; ``through`` are the bundles in
    which a file came.
    """

    batch: str
    files: tuple[str, ...]
    words: str | None
    given_there: int | None = None
    through: tuple[str, ...] = ()


def list_import_protocols(manifest: Manifest) -> list[ImportProtocol]:
    """In the order of the files; files of one batch with the same words, or with none, are one paragraph."""
    paragraphs: dict[tuple[Any, ...], ImportProtocol] = {}
    for file in (manifest.get("imported") or {}).get("files") or ():
        for protocol in _iterate_protocols(file, file["batch"], (), MAX_CARRIED_DEPTH):
            key = (protocol.batch, protocol.words, protocol.given_there, protocol.through)
            earlier = paragraphs.get(key)
            files = (*earlier.files, *protocol.files) if earlier else protocol.files
            paragraphs[key] = ImportProtocol(
                protocol.batch, files, protocol.words, protocol.given_there, protocol.through
            )
    return list(paragraphs.values())


def _iterate_protocols(
    file: Mapping[str, Any], batch: str, through: tuple[str, ...], depth: int
) -> Iterator[ImportProtocol]:
    carried = file.get("carried") if depth else None
    given_there = carried.get("given") if carried else None
    words = file.get("protocol")
    if words or not carried or not (given_there or carried["files"]):
        yield ImportProtocol(batch, (file["file"],), words, through=through)
    if carried:
        if given_there:
            yield ImportProtocol(batch, (file["file"],), None, given_there, through)
        for inner in carried["files"]:
            yield from _iterate_protocols(inner, batch, (*through, file["file"]), depth - 1)
