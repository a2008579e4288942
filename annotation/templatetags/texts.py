"""Texts of prompts and responses on a page."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.text import Truncator
from django.utils.translation import gettext as _

from annotation.domain.annotations import MARKABLE
from annotation.domain.guidelines import prose
from annotation.domain.guidelines.entries import ShownOrder
from annotation.domain.texts import looks_like_markdown, read_words
from annotation.models import Response

EXCERPT_CHARACTERS = 160
READ_CHARACTERS = 4 * EXCERPT_CHARACTERS
"""Of a text that has markup so many are read for an excerpt."""

register = template.Library()


@register.filter
def is_blank(text: str) -> bool:
    return prose.is_blank(text)


@register.filter
def excerpt(response: Response) -> str:
    """How the response begins, of a dialogue each turn, by which items of one prompt differ; or that it is empty."""
    texts = [turn["text"] for turn in response.turns] or [response.text]
    words = (_take_words(text[:READ_CHARACTERS]) for text in texts)
    return or_empty(Truncator(" ".join(" ".join(words).split())).chars(EXCERPT_CHARACTERS))


@register.filter
def excerpt_in(response: Response, order: ShownOrder) -> str:
    """``excerpt`` of a single response; of a slate how each entry begins, after its number as it is shown."""
    if not order.places:
        return excerpt(response)
    size = EXCERPT_CHARACTERS // len(order.places)
    beginnings = {
        order.positions[place]: " ".join(_take_words(turn["text"][:READ_CHARACTERS]).split())
        for place, turn in enumerate(response.turns)
        if turn["role"] == MARKABLE
    }
    return " ".join(
        f"{position}: {Truncator(words).chars(size)}" for position, words in sorted(beginnings.items())
    )


def _take_words(text: str) -> str:
    """Without the markup that the page of the item does not show either."""
    if not looks_like_markdown(text):
        return text
    try:
        return read_words(text)
    except LookupError:  # the page shows the source of such a text
        return text


@register.filter
def or_empty(text: str) -> str:
    """A response, or that there is nothing of it to be seen."""
    if not prose.is_blank(text):
        return text
    return format_html('<span class="no-text">{}</span>', _("The response is empty."))
