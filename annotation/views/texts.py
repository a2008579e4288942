"""Texts of prompts and responses as HTML for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from annotation.domain.annotations import MARKABLE
from annotation.domain.texts import (
    Draw,
    Node,
    draw_plainly,
    is_shown_as_markdown,
    read_markdown,
    read_plain_text,
    write_html,
)
from annotation.models import Batch
from annotation.selectors.assignments.items import WorkItem


@dataclass(frozen=True)
class RenderedText:
    """``source`` is the text as it was written; ``markdown`` what its Markdown says, None where it is plain."""

    source: SafeString
    markdown: SafeString | None = None


def choose_format(batch: Batch | WorkItem, role: str) -> str:
    """How the batch shows the turns of a role: what the model wrote as a response, all else as a prompt."""
    return batch.response_format if role == MARKABLE else batch.prompt_format


def render_text(text: str, text_format: str, draw: Draw = draw_plainly) -> RenderedText:
    """The text in the format, which is that of a batch or ``auto``; ``draw`` may add marks."""
    source = _render(read_plain_text(text), draw)
    if not is_shown_as_markdown(text, text_format):
        return RenderedText(source)
    try:
        return RenderedText(source, _render(read_markdown(text), draw))
    except LookupError:  # the place of a word is not known: marks on it would not be exact
        return RenderedText(source)


def _render(nodes: Sequence[Node], draw: Draw) -> SafeString:
    image = escape(_("Image:"))
    return mark_safe(write_html(nodes, image=image, draw=draw))  # noqa: S308  (known elements, all else escaped)
