"""Writing a gold release into files: whole, verified, or not at all (docs/gold.md)."""

from __future__ import annotations

from annotation.services.exports.folder import Written, export_release
from annotation.services.exports.gold_text import export_lines, format_named
from annotation.services.exports.shape import Options, Writer
from annotation.services.exports.writers import WRITERS, writer_named

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
