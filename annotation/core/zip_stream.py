"""A zip of files as they are, made while it is sent: its length is known before, and any part of it can be sent.

The files are stored, not compressed; so a zip is the files with a header before each and a directory at the end.
``zipfile`` writes both, into a file in which the contents are passed over.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

BLOCK = 1 << 18
READABLE = 0o100644 << 16
UNIX = 3
UTF8 = 0x800
# The first day that the format knows: the same files are the same zip.
DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class ZipMember:
    """A file with the name that it has in the zip, its length in bytes and its CRC-32."""

    name: str
    path: Path
    size: int
    crc32: int


Segment: TypeAlias = bytes | ZipMember
"""Bytes that stand for themselves, or a whole file."""


class HeaderFile(io.BytesIO):
    """A file of which only the end is in memory; it begins at ``base``."""

    base = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET:
            self.base, offset = offset, 0
            self.truncate(0)
        return self.base + super().seek(offset, whence)

    def tell(self) -> int:
        return self.base + super().tell()


def build_segments(members: Sequence[ZipMember]) -> list[Segment]:
    """The zip as what stands one after the other in it."""
    parts: list[Segment] = []
    offset = 0
    file = HeaderFile()
    with zipfile.ZipFile(file, "w") as archive:
        for member in members:
            info = make_entry(member, offset)
            header = info.FileHeader()
            archive.filelist.append(info)
            parts += [header, member]
            offset += len(header) + member.size
        archive.start_dir = offset  # where closing it writes the directory
    return [*parts, file.getvalue()]


def make_entry(member: ZipMember, offset: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(member.name, DATE)
    info.create_system, info.external_attr, info.flag_bits = UNIX, READABLE, UTF8
    info.CRC, info.header_offset = member.crc32, offset
    info.file_size = info.compress_size = member.size
    return info


def measure_length(parts: Sequence[Segment]) -> int:
    return sum(map(_size, parts))


def read_blocks(parts: Sequence[Segment], start: int, stop: int) -> Iterator[bytes]:
    """The bytes from ``start`` on and before ``stop``, a block at a time."""
    at = 0
    for part in parts:
        first, last = max(start - at, 0), min(stop - at, _size(part))
        if first < last:
            yield from _read_part(part, first, last)
        at += _size(part)


def _size(part: Segment) -> int:
    return len(part) if isinstance(part, bytes) else part.size


def _read_part(part: Segment, start: int, stop: int) -> Iterator[bytes]:
    if isinstance(part, bytes):
        yield part[start:stop]
        return
    with part.path.open("rb") as file:
        file.seek(start)
        while start < stop and (block := file.read(min(BLOCK, stop - start))):
            start += len(block)
            yield block
