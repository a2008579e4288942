"""A zip of files as they are, made while it is sent: its length is known before, and any part of it can be sent. Pure.

The files are stored, not compressed; so a zip is the files with a header before each and a directory at the end
(APPNOTE.TXT of PKWARE, sections 4.3 to 4.5). The larger fields of zip64 are used where the usual ones are too small.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

BLOCK = 1 << 18
LIMIT32 = 0xFFFFFFFF
LIMIT16 = 0xFFFF
PLAIN, ZIP64 = 20, 45  # the version of the format that a reader needs
UTF8 = 0x0800
ZIP64_FIELD = 0x0001
MADE_ON_UNIX = 3 << 8
READABLE = 0o100644 << 16
# 1 January 1980, the first day that the format knows: the same files are the same zip.
DATE = (1 << 5) | 1


@dataclass(frozen=True)
class Member:
    """A file with the name that it has in the zip, its length in bytes and its CRC-32."""

    name: str
    path: Path
    size: int
    crc32: int


Segment: TypeAlias = bytes | Member
"""Bytes that stand for themselves, or a whole file."""


def segments(members: Sequence[Member]) -> list[Segment]:
    """The zip as what stands one after the other in it."""
    found: list[Segment] = []
    directory = b""
    offset = 0
    for member in members:
        header = _local_header(member)
        directory += _entry(member, offset)
        found += [header, member]
        offset += len(header) + member.size
    return [*found, directory + _end(len(members), len(directory), offset)]


def length(parts: Sequence[Segment]) -> int:
    return sum(map(_size, parts))


def blocks(parts: Sequence[Segment], start: int, stop: int) -> Iterator[bytes]:
    """The bytes from ``start`` on and before ``stop``, a block at a time."""
    at = 0
    for part in parts:
        first, last = max(start - at, 0), min(stop - at, _size(part))
        if first < last:
            yield from _blocks(part, first, last)
        at += _size(part)


def _size(part: Segment) -> int:
    return len(part) if isinstance(part, bytes) else part.size


def _blocks(part: Segment, start: int, stop: int) -> Iterator[bytes]:
    if isinstance(part, bytes):
        yield part[start:stop]
        return
    with part.path.open("rb") as file:
        file.seek(start)
        while start < stop and (block := file.read(min(BLOCK, stop - start))):
            start += len(block)
            yield block


def _local_header(member: Member) -> bytes:
    is_large = member.size >= LIMIT32
    extra = _extra(member.size, member.size) if is_large else b""
    return (
        struct.pack("<4s", b"PK\3\4")
        + _common(member, ZIP64 if is_large else PLAIN, extra)
        + _named(member, extra)
    )


def _entry(member: Member, offset: int) -> bytes:
    """A file in the directory. The large fields come in the order of size, stored size, offset."""
    is_large = member.size >= LIMIT32
    large = [member.size, member.size] if is_large else []
    large += [offset] if offset >= LIMIT32 else []
    extra = _extra(*large) if large else b""
    version = ZIP64 if large else PLAIN
    return (
        struct.pack("<4sH", b"PK\1\2", MADE_ON_UNIX | version)
        + _common(member, version, extra)
        + struct.pack("<HHHLL", 0, 0, 0, READABLE, _capped(offset))
        + _named(member, extra)
    )


def _common(member: Member, version: int, extra: bytes) -> bytes:
    """What a file's own header and its entry have in common."""
    size = _capped(member.size)
    lengths = (len(member.name.encode()), len(extra))
    return struct.pack("<HHHHHLLLHH", version, UTF8, 0, 0, DATE, member.crc32, size, size, *lengths)


def _capped(value: int) -> int:
    """The value, or the mark that the larger field has it."""
    return min(value, LIMIT32)


def _named(member: Member, extra: bytes) -> bytes:
    return member.name.encode() + extra


def _extra(*values: int) -> bytes:
    return struct.pack(f"<HH{len(values)}Q", ZIP64_FIELD, 8 * len(values), *values)


def _end(number: int, size: int, offset: int) -> bytes:
    short = struct.pack(
        "<4sHHHHLLH",
        b"PK\5\6",
        0,
        0,
        min(number, LIMIT16),
        min(number, LIMIT16),
        _capped(size),
        _capped(offset),
        0,
    )
    if number < LIMIT16 and size < LIMIT32 and offset < LIMIT32:
        return short
    version = MADE_ON_UNIX | ZIP64
    long = struct.pack("<4sQHHLLQQQQ", b"PK\6\6", 44, version, ZIP64, 0, 0, number, number, size, offset)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, offset + size, 1)
    return long + locator + short
