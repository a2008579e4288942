"""How the texts of prompts and responses are shown: as they are, or as the Markdown that they are written in. Pure."""

from __future__ import annotations

from annotation.domain.texts.formats import TextFormat, is_shown_as_markdown, looks_like_markdown
from annotation.domain.texts.html import Draw, Part, draw_plainly, escape_words, write_html
from annotation.domain.texts.markdown import (
    Close,
    Formula,
    Image,
    Node,
    Open,
    TextRun,
    read_markdown,
    read_plain_text,
    read_words,
)

__all__ = [
    "Close",
    "Draw",
    "Formula",
    "Image",
    "Node",
    "Open",
    "Part",
    "TextFormat",
    "TextRun",
    "draw_plainly",
    "escape_words",
    "is_shown_as_markdown",
    "looks_like_markdown",
    "read_markdown",
    "read_plain_text",
    "read_words",
    "write_html",
]
