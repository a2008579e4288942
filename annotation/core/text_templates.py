"""Plain text of templates, for LaTeX, a picture's description or a message; and how a language joins its parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.template import Context, Engine
from django.utils.translation import get_language
from django.utils.translation import gettext as _


def render_text(template: str, **values: Any) -> str:
    """The text of a template, with nothing escaped and no blank at its ends."""
    context = Context(values, autoescape=False)
    return Engine.get_default().get_template(template).render(context).strip()


def join_sentences(sentences: Iterable[str]) -> str:
    """One after another; Chinese has no blank between them."""
    return ("" if (get_language() or "en").startswith("zh") else " ").join(sentences)


def join_names(names: Iterable[str]) -> str:
    """``a, b, c``, with the comma of the language."""
    return _(", ").join(names)
