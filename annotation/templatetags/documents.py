"""The tags of a document that is collected by ``annotation.core.documents``; none of them prints anything.

Around them stands ``{% autoescape off %}``: the texts are plain, and each form of the document escapes them.
"""

from __future__ import annotations

from typing import Any

from django import template
from django.template import Context

from annotation.core.documents import Fact, Paragraph

register = template.Library()


@register.simple_tag(takes_context=True)
def section(context: Context, title: str) -> str:
    """Begins a section, which ends where the next one begins; without any block it is left out."""
    context["document"].begin_section(unmark_safe(title))
    return ""


@register.simple_block_tag(takes_context=True)
def paragraph(context: Context, content: str) -> str:
    context["document"].add(Paragraph(unmark_safe(content).strip()))
    return ""


@register.simple_block_tag(takes_context=True)
def fact(context: Context, content: str, term: str, join: str = " ") -> str:
    """A term with its text, whose lines are joined."""
    lines = (line.strip() for line in unmark_safe(content).splitlines())
    context["document"].add(Fact(unmark_safe(term), join.join(line for line in lines if line)))
    return ""


@register.simple_tag(takes_context=True)
def quotation(context: Context, text: str) -> str:
    """A person's own text."""
    context["document"].add(Paragraph(unmark_safe(text), quoted=True))
    return ""


@register.simple_tag(takes_context=True)
def table(context: Context, content: Any) -> str:
    """A table that was made before; nothing where there is none."""
    if content is not None:
        context["document"].add(content)
    return ""


def unmark_safe(text: str) -> str:
    """Not marked as safe: a page must escape it."""
    return "".join(list(text))
