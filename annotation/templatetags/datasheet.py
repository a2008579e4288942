"""The blocks of a datasheet as Markdown."""

from __future__ import annotations

import re

from django import template

from annotation.core.documents import Paragraph
from annotation.services.exports.datasheet import SheetTable

register = template.Library()
_MARKUP = re.compile(r"([\\`*_\[\]<>|#~&])")
_LIST = re.compile(r"^(\s*)(\d*)([-+=.)])")


@register.filter
def markdown_block(block: Paragraph | SheetTable) -> str:
    """A paragraph, a quotation or a table."""
    if isinstance(block, SheetTable):
        return "\n".join(_table_lines(block))
    if block.quoted:
        return "\n".join(f"> {_escape_line(line)}".rstrip() for line in block.text.splitlines())
    return _escape_line(block.text)


def _table_lines(table: SheetTable) -> list[str]:
    rule = ["--:" if column in table.numbers else "---" for column in range(len(table.head))]
    head, *rows = ([markdown_text(cell) for cell in row] for row in (table.head, *table.rows))
    lines = [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]
    return [f"**{markdown_text(table.title)}**", "", *lines]


@register.filter
def markdown_text(text: str) -> str:
    """The text so that Markdown shows it as it is, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.splitlines()))


def _escape_line(text: str) -> str:
    """The same for a line of its own, which must not begin a list."""
    return _LIST.sub(r"\1\2\\\3", markdown_text(text))
