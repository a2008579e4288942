"""Writing a gold release into files: whole, verified, or not at all (docs/gold.md)."""

from __future__ import annotations

from annotation.services.exports.base import Options, Writer
from annotation.services.exports.files import WrittenExport, export_release
from annotation.services.exports.formats import WRITERS, get_writer
from annotation.services.exports.formats.text import export_lines, get_gold_format

__all__ = [
    "WRITERS",
    "Options",
    "Writer",
    "WrittenExport",
    "export_lines",
    "export_release",
    "get_gold_format",
    "get_writer",
]
