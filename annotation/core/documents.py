"""Documents whose words stand in a template and which are shown in several forms: on a page, as Markdown, as LaTeX.

The template says them with the tags of ``annotation.templatetags.documents``; what it says is collected here, and each
form shows it in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string


@dataclass(frozen=True)
class Paragraph:
    """``quoted`` is a person's own text: line by line as it was written."""

    text: str
    quoted: bool = False


@dataclass(frozen=True)
class Fact:
    term: str
    text: str


@dataclass(frozen=True)
class DocumentTable:
    """The first ``words`` columns are text, the others numbers. ``name`` is for LaTeX's label and the page's id.

    ``below`` are groups of rows from elsewhere, each under a rule; the ``notes`` under the table say whence.
    """

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    below: Sequence[Sequence[Sequence[str]]] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class DocumentSection:
    title: str
    blocks: Sequence[Any]

    @property
    def facts(self) -> list[Fact]:
        return [block for block in self.blocks if isinstance(block, Fact)]

    @property
    def table(self) -> DocumentTable | None:
        return next((block for block in self.blocks if isinstance(block, DocumentTable)), None)


class DocumentBuilder:
    """Takes what the tags of a template say, in its order."""

    def __init__(self) -> None:
        self._sections: list[tuple[str, list[Any]]] = []

    def begin_section(self, title: str) -> None:
        self._sections.append((title, []))

    def add(self, block: Any) -> None:
        self._sections[-1][1].append(block)

    def build(self) -> list[DocumentSection]:
        """A section without any block is left out."""
        return [DocumentSection(title, tuple(blocks)) for title, blocks in self._sections if blocks]


def render_sections(template: str, context: Mapping[str, Any]) -> list[DocumentSection]:
    """What the template says in the active language. Its texts are plain: each form escapes them."""
    builder = DocumentBuilder()
    render_to_string(template, {**context, "document": builder})
    return builder.build()
