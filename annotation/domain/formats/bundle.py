"""What is in a bundle (docs/gold.md), and reading one that a stranger may have made. Pure.

A bundle is a zip of a few files that are known by their names; nothing is ever unpacked to a place that the zip names.
Its bytes depend on what is in it alone: the files stand in one order, with one time and the same rights.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints, ValidationError

from annotation.core.errors import N_, InputError
from annotation.domain.batch_spec import MAX_OVERLAP, Aggregation, CollectionPlan, Settling
from annotation.domain.formats.content import FREE, MAX_PACKING_RATIO
from annotation.domain.formats.rows import MAX_LINE_BYTES, FileRow, Rows, Source, json_row

KIND: Final = "assay-bundle"
FORMAT: Final = "bundle"
"""What it is called among the formats of files that go in."""
VERSION: Final = 1
VERSION_WITH_PLANS: Final = 2
"""Of a bundle with a batch whose plan or policy is another than the usual: an older site would settle it otherwise."""
MANIFEST, GOLD = "manifest.json", "gold.jsonl"
PROMPTS, RESPONSES = "prompts.jsonl", "responses.jsonl"
ANNOTATIONS, ADJUDICATIONS = "annotations.jsonl", "adjudications.jsonl"
TASKS = "tasks.jsonl"
"""Only where there is something to say of single tasks: how many annotations each has, and its probabilities."""
REQUIRED_TABLES = (PROMPTS, RESPONSES, ANNOTATIONS, ADJUDICATIONS, GOLD)
TABLES = (*REQUIRED_TABLES, TASKS)
DATASHEET = re.compile(r"datasheet(\.[a-z-]{2,12})?\.md")
GUIDELINE = re.compile(r"guidelines/[A-Za-z0-9][A-Za-z0-9._-]{0,49}@[A-Za-z0-9][A-Za-z0-9._-]{0,49}\.yaml")
# The first moment that a zip can tell.
TIME = (1980, 1, 1, 0, 0, 0)
RIGHTS = 0o644 << 16
UNIX = 3
PIECE = 1024 * 1024
# Of zlib: a third of the time of its usual 6, for a file that is a sixth larger.
LEVEL = 2
MAX_FILES = 1000
# The list of what is in a zip is read whole, before anything of it can be looked at; a bundle's takes a kilobyte.
MAX_READ_BYTES = 2 * 1024 * 1024
MAX_MANIFEST_BYTES = 16 * 1024 * 1024
MAX_TEXT_BYTES = 4 * 1024 * 1024
MAX_BYTES = 64 * 1024**3
Tell: TypeAlias = Callable[[float], None]
T = TypeVar("T")

# Without control characters: PostgreSQL cannot even be asked for a name with a NUL.
Name = Annotated[str, Strict(), StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=100)]
Sha256 = Annotated[str, Strict(), StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Whole = Annotated[int, Strict(), Field(ge=0)]


def label_place(file: str, format_name: str, *, is_decision: bool) -> str:
    """The file that a label was imported from; of a bundle with the table that its line is of."""
    if format_name != FORMAT:
        return file
    return f"{file}/{ADJUDICATIONS if is_decision else ANNOTATIONS}"


class _BundlePart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class FileFacts(_BundlePart):
    """One file of the bundle. ``lines`` is 0 for what is no table."""

    name: Annotated[str, Strict(), StringConstraints(max_length=200)]
    bytes: Whole
    lines: Whole = 0
    sha256: Sha256


ResponseName = Annotated[
    tuple[
        Annotated[str, Strict(), StringConstraints(max_length=200)],
        Annotated[str, Strict(), StringConstraints(max_length=200)],
        Annotated[str, Strict(), StringConstraints(max_length=200)],
    ],
    Field(),
]
"""A model's response by dataset, prompt id and collection."""


class StratumFacts(_BundlePart):
    """What was drawn of one stratum, and its chance (docs/gold.md); ``responses`` None: all of the batch's there."""

    model: Annotated[str, Strict(), StringConstraints(max_length=200)]
    dimension: Annotated[str, Strict(), StringConstraints(max_length=200)]
    low: Annotated[float, Field(allow_inf_nan=False)]
    high: Annotated[float, Field(allow_inf_nan=False)]
    pool: Whole
    chance: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None
    reason: Annotated[str, Strict(), StringConstraints(pattern=r"^[a-z_]{0,20}$")] = ""
    responses: tuple[ResponseName, ...] | None = None


class PlanFacts(_BundlePart):
    """How many labels the responses of a batch got, and how its gold was settled, in the words of its policy.

    ``annotations`` counts those of the batch in the bundle.
    """

    plan: CollectionPlan
    overlap_share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
    settling: Settling
    aggregation: Aggregation
    aggregation_threshold: Annotated[float, Field(gt=0.5, lt=1, allow_inf_nan=False)]
    annotations: Whole

    @property
    def lists_tasks(self) -> bool:
        """Whether the bundle says something of each task: not where they are alike, and settle by their labels."""
        return self.plan == "open" or self.overlap_share < 1 or self.settling == "aggregate"

    @property
    def ends_collection(self) -> bool:
        """Whether nothing of the batch was settled before its collection was ended."""
        return self.plan == "open" or self.settling == "aggregate"


class BatchFacts(_BundlePart):
    """A batch with labels in the release, as it is made again elsewhere.

    ``selection`` is None where the release does not know how its responses were selected, ``plan`` where every response
    has ``overlap`` labels and a third person decides every difference.
    """

    name: Name
    guideline: Annotated[str, Strict(), StringConstraints(max_length=101)]
    overlap: Annotated[int, Strict(), Field(ge=1, le=MAX_OVERLAP)]
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    tasks: Whole
    selection: tuple[StratumFacts, ...] | None = None
    plan: PlanFacts | None = None

    @property
    def annotations(self) -> int:
        return self.overlap * self.tasks if self.plan is None else self.plan.annotations


class GuidelineFacts(_BundlePart):
    name: Name
    version: Name
    sha256: Sha256

    @property
    def reference(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def file(self) -> str:
        return f"guidelines/{self.reference}.yaml"


class BundleManifest(_BundlePart):
    """``release`` is the manifest of the release, as it was cut; ``people`` is how many there are under pseudonyms."""

    kind: Literal["assay-bundle"]
    version: Literal[1, 2]
    release: dict[str, Any]
    sha256: Sha256
    datasets: tuple[Name, ...]
    guidelines: tuple[GuidelineFacts, ...]
    batches: Annotated[tuple[BatchFacts, ...], Field(min_length=1)]
    people: Whole
    files: tuple[FileFacts, ...]

    def to_json(self) -> str:
        facts = self.model_dump(mode="json")
        for batch in facts["batches"]:
            if batch["plan"] is None:
                del batch["plan"]  # as in every bundle of the first version
        return json.dumps(facts, ensure_ascii=False, indent=1, sort_keys=True) + "\n"

    @property
    def name(self) -> str:
        return str(self.release.get("name", ""))

    def lines(self, name: str) -> int:
        return next((file.lines for file in self.files if file.name == name), 0)

    @classmethod
    def of(cls, text: str) -> Self:
        return cls.model_validate_json(text)


class BundleWriter:
    """Files into a zip, in the order in which they are added; ``facts`` tell what was written."""

    def __init__(self, zipped: zipfile.ZipFile) -> None:
        self._zipped = zipped
        self.facts: list[FileFacts] = []

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        with zipfile.ZipFile(path, "x", allowZip64=True) as zipped:
            yield cls(zipped)

    def add(self, name: str, content: bytes) -> None:
        with self._zipped.open(_build_info(name), "w", force_zip64=True) as file:
            file.write(content)
        sha256 = hashlib.sha256(content).hexdigest()
        self.facts.append(FileFacts(name=name, bytes=len(content), lines=0, sha256=sha256))

    def add_table(self, table: TablePacker) -> None:
        """The bytes of its own zip, which a zip of many files holds alike."""
        target = self._zipped.fp
        assert target is not None
        with zipfile.ZipFile(table.path) as packed, table.path.open("rb") as file:
            (info,) = packed.infolist()
            target.seek(self._zipped.start_dir)
            for piece in _split(file, packed.start_dir):
                target.write(piece)
        info.header_offset = self._zipped.start_dir
        self._zipped.filelist.append(info)
        self._zipped.NameToInfo[info.filename] = info
        self._zipped.start_dir = target.tell()
        self.facts.append(table.facts)


class TablePacker:
    """A table of a bundle, packed into a zip of its own by a thread of ``executor`` while its next lines are made."""

    def __init__(self, path: Path, name: str, executor: Executor) -> None:
        self.path, self._name, self._executor = path, name, executor
        self._digest, self._bytes, self._lines = hashlib.sha256(), 0, 0
        self._packing: Future[None] | None = None
        self._zipped = zipfile.ZipFile(path, "x", allowZip64=True)
        self._file = self._zipped.open(_build_info(name), "w", force_zip64=True)

    def write(self, lines: str) -> None:
        self._finish()
        if lines:
            self._packing = self._executor.submit(self._pack, lines.encode())

    def close(self) -> None:
        with self._zipped, self._file:
            self._finish()

    @property
    def facts(self) -> FileFacts:
        return FileFacts(
            name=self._name, bytes=self._bytes, lines=self._lines, sha256=self._digest.hexdigest()
        )

    def _pack(self, piece: bytes) -> None:
        self._file.write(piece)
        self._digest.update(piece)
        self._bytes += len(piece)
        self._lines += piece.count(b"\n")

    def _finish(self) -> None:
        if self._packing is not None:
            packing, self._packing = self._packing, None
            packing.result()


def _build_info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, TIME)
    info._compresslevel = LEVEL  # type: ignore[attr-defined]  # the name that every version takes
    info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, RIGHTS, UNIX
    return info


def _split(file: IO[bytes], length: int) -> Iterator[bytes]:
    while length and (piece := file.read(min(PIECE, length))):
        length -= len(piece)
        yield piece


class _BoundedFile(io.FileIO):
    """A file of which nobody reads much at once, whatever a zip says of its parts."""

    def read(self, size: int | None = -1, /) -> bytes:
        length = size if size is not None and size >= 0 else max(0, self._length() - self.tell())
        if length > MAX_READ_BYTES:
            raise zipfile.BadZipFile("a part is too long")
        return super().read(length) or b""

    def _length(self) -> int:
        return os.fstat(self.fileno()).st_size


class Bundle:
    """A bundle whose names, sizes and manifest were looked at; ``check`` looks at its contents.

    Whatever is wrong is an InputError that names the file within the bundle.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        source.check()
        with self._zip() as zipped:
            self._sizes = self._check_members(zipped)
            self.manifest = self._manifest()
        self._check_names()

    def check(self, tell: Tell = lambda _done: None, *, later: str = "") -> None:
        """Every file is what the manifest says: its length, its lines and its sha256. Reads all of it once, but for the
        one that is checked ``later``, by ``checked_lines``.
        """
        total, done = max(1, sum(self._sizes.values())), 0
        for facts in self.manifest.files:
            if facts.name == later:
                continue
            digest, lines = hashlib.sha256(), 0
            with self._open(facts.name) as file:
                while piece := file.read(PIECE):
                    digest.update(piece)
                    lines += piece.count(b"\n")
                    done += len(piece)
                    tell(min(1.0, done / total))
            self._check_content(facts, digest.hexdigest(), lines if facts.name in TABLES else 0)

    def checked_lines(self, name: str) -> Iterator[bytes]:
        """The lines of one of its tables; at the end the table is checked as ``check`` does."""
        digest, count = hashlib.sha256(), 0
        for line in self.lines(name):
            digest.update(line)
            count += 1
            yield line
        (facts,) = (file for file in self.manifest.files if file.name == name)
        self._check_content(facts, digest.hexdigest(), count)

    def _check_content(self, facts: FileFacts, sha256: str, lines: int) -> None:
        if (sha256, lines) != (facts.sha256, facts.lines):
            raise self.error(
                N_("this is not what the bundle's manifest says of it (sha256); ask for the bundle again."),
                facts.name,
            )

    def text(self, name: str) -> str:
        """A short text of the bundle, whole."""
        return self._text(name, MAX_TEXT_BYTES)

    def rows(self, name: str) -> Rows:
        """The objects of one of its tables, as a stream."""
        place = Source(self.source.path, self.place(name))
        for number, line in enumerate(self.lines(name), 1):
            yield self._row(line, number, place, name)

    def lines(self, name: str) -> Iterator[bytes]:
        """The lines of one of its tables, as a stream."""
        with self._open(name) as file:
            lines = io.BufferedReader(cast("io.RawIOBase", file), PIECE)
            number = 0
            while line := lines.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise self.error(N_("this line is longer than 64 MiB."), name, line=number)
                yield line

    def error(
        self, template: str, file: str | None = None, /, *, line: int | None = None, **params: Any
    ) -> InputError:
        """About a ``file`` of the bundle, or about the bundle."""
        path = self.source.name if file is None else self.place(file)
        return InputError(template, path=path, line=line, **params)

    def place(self, name: str) -> str:
        """How errors call a file of the bundle."""
        return f"{self.source.name}/{name}"

    def _row(self, line: bytes, number: int, place: Source, name: str) -> FileRow | InputError:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            return self.error(N_("this is not text in UTF-8."), name, line=number)
        return json_row(text, number, place)

    @contextmanager
    def _zip(self) -> Iterator[zipfile.ZipFile]:
        try:
            with _BoundedFile(self.source.path) as file, zipfile.ZipFile(file) as zipped:
                yield zipped
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            zlib.error,
            EOFError,
            ValueError,
            OverflowError,
        ) as error:
            raise self.error(
                N_("this is no bundle, or it is broken ({why}); ask for it again."), why=str(error)[:200]
            ) from error
        except (OSError, RuntimeError) as error:
            raise self.error(N_("the file cannot be read: {why}."), why=str(error)[:200]) from error

    @contextmanager
    def _open(self, name: str) -> Iterator[IO[bytes]]:
        with self._zip() as zipped, zipped.open(name) as file:
            yield file

    def _check_members(self, zipped: zipfile.ZipFile) -> dict[str, int]:
        """The sizes of its files by name: what the zip says, and what no reading goes beyond."""
        members = zipped.infolist()
        sizes = {member.filename: member.file_size for member in members}
        if len(members) > MAX_FILES or len(sizes) < len(members):
            raise self.error(N_("this holds too many files, or one twice; it is no bundle."))
        for member in members:
            if not _is_bundle_name(member.filename):
                raise self.error(
                    N_("{name} has no place in a bundle; nothing was read."), name=repr(member.filename[:200])
                )
            if member.flag_bits & 1:
                raise self.error(N_("this bundle is encrypted; export it without a password."))
        packed, unpacked = self.source.path.stat().st_size, sum(sizes.values())
        if unpacked > MAX_BYTES or unpacked > max(FREE, MAX_PACKING_RATIO * packed):
            raise self.error(
                N_("this would unpack to {n} MB, which no bundle of its size does; nothing was read."),
                n=unpacked // 1_000_000,
            )
        return sizes

    def _manifest(self) -> BundleManifest:
        if MANIFEST not in self._sizes:
            raise self.error(N_("there is no {name} in this file; it is no bundle."), name=MANIFEST)
        try:
            return BundleManifest.of(self._text(MANIFEST, MAX_MANIFEST_BYTES))
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(
                N_("this is no manifest of a bundle that can be read here ({why})."),
                path=self.place(MANIFEST),
                field=".".join(map(str, first["loc"])) or None,
                why=first["msg"],
            ) from error

    def _check_names(self) -> None:
        """What the manifest names is there in its length, and nothing else is."""
        named = {file.name: file.bytes for file in self.manifest.files}
        sizes = {name: size for name, size in self._sizes.items() if name != MANIFEST}
        required = {*REQUIRED_TABLES, *(guideline.file for guideline in self.manifest.guidelines)}
        for name in sorted(named.keys() ^ sizes.keys() | required - sizes.keys()):
            raise self.error(N_("the manifest and the files of this bundle differ in {name}."), name=name)
        for name, size in sizes.items():
            if named[name] != size:
                raise self.error(
                    N_(
                        "this is not what the bundle's manifest says of it (sha256); ask for the bundle again."
                    ),
                    name,
                )
        known = {guideline.reference for guideline in self.manifest.guidelines}
        for batch in self.manifest.batches:
            if batch.guideline not in known:
                raise self.error(
                    N_("the guideline {guideline} of the batch {batch} is not in this bundle."),
                    MANIFEST,
                    guideline=batch.guideline,
                    batch=batch.name,
                )

    def _text(self, name: str, max_bytes: int) -> str:
        with self._open(name) as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise self.error(N_("this is longer than {n} MB."), name, n=max_bytes // 1_000_000)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(N_("this is not text in UTF-8."), name) from error


def _is_bundle_name(name: str) -> bool:
    return name in {MANIFEST, *TABLES} or bool(DATASHEET.fullmatch(name) or GUIDELINE.fullmatch(name))
