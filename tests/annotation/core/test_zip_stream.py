from __future__ import annotations

import zipfile
import zlib
from io import BytesIO
from pathlib import Path

import pytest

from annotation.core.zip_stream import ZipMember, build_segments, measure_length, read_blocks


def member(folder: Path, name: str, content: bytes) -> ZipMember:
    path = folder / name.replace("/", "-")
    path.write_bytes(content)
    return ZipMember(name, path, len(content), zlib.crc32(content))


@pytest.fixture
def members(tmp_path: Path) -> list[ZipMember]:
    contents = {"data/金.jsonl": b'{"a":1}\n' * 50, "empty": b"", "manifest.json": b"{}"}
    return [member(tmp_path, name, content) for name, content in contents.items()]


@pytest.mark.parametrize("limit", [zipfile.ZIP64_LIMIT, 300, 1])
def test_a_zip_reader_finds_every_file_with_small_and_with_large_fields(
    members: list[ZipMember], monkeypatch: pytest.MonkeyPatch, limit: int
):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
    parts = build_segments(members)
    content = b"".join(read_blocks(parts, 0, measure_length(parts)))
    assert len(content) == measure_length(parts)
    with zipfile.ZipFile(BytesIO(content)) as read:
        assert read.testzip() is None
        assert {info.filename: read.read(info) for info in read.infolist()} == {
            member.name: member.path.read_bytes() for member in members
        }


def test_any_part_of_the_zip_can_be_sent(members: list[ZipMember]):
    parts = build_segments(members)
    content = b"".join(read_blocks(parts, 0, measure_length(parts)))
    for start in range(0, len(content), 37):
        for stop in (start, start + 1, start + 100, len(content)):
            assert b"".join(read_blocks(parts, start, stop)) == content[start:stop]
