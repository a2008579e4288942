"""Writing a gold release into files: whole, verified, or not at all (docs/gold.md)."""

from __future__ import annotations

from annotation.services.exports.base import Options, Writer
from annotation.services.exports.files import Written, export_release
from annotation.services.exports.formats import WRITERS, writer_named
from annotation.services.exports.formats.text import export_lines, format_named

__all__ = [
    "WRITERS",
    "Options",
    "Writer",
    "Written",
    "export_lines",
    "export_release",
    "format_named",
    "writer_named",
]
