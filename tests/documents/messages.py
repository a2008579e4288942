"""The messages of some files, as ``./run messages`` gathers them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_file
from babel.messages.frontend import parse_keywords

ROOT = Path(__file__).resolve().parents[2]
KEYWORDS = DEFAULT_KEYWORDS | parse_keywords(
    ["gettext_lazy", "pgettext_lazy:1c,2", "ngettext_lazy:1,2", "npgettext_lazy:1c,2,3"]
)


@cache
def list_messages(path: str) -> frozenset[str]:
    """Every message of a template or a module, without its context, each form of a plural by itself."""
    from config.templates import extract_messages

    method = "python" if path.endswith(".py") else extract_messages
    rows = extract_from_file(method, ROOT / path, KEYWORDS)
    return frozenset(text for _line, message, *_rest in rows for text in _list_forms(message))


def _list_forms(message: str | tuple[str, ...]) -> Iterable[str]:
    return (message,) if isinstance(message, str) else message
