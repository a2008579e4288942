"""The messages of Django's templates, for Babel (babel.cfg)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import IO, Any

from django.utils.translation.template import templatize

TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|'''.*?''')"""
CALL = re.compile(rf"(?:\bu?n?p?gettext|\b_)\((?:\s*u?(?:{TEXT}|count)\s*,?)+\)", re.DOTALL)


def extract_messages(
    file: IO[bytes], keywords: dict[str, Any], comment_tags: list[str], options: dict[str, Any]
) -> Iterator[tuple[int, str | tuple[str, ...], list[str], str | None]]:
    """Django turns a template into calls of gettext and blotted text, which is no Python; Babel reads the calls."""
    from babel.messages.extract import extract_python

    calls = CALL.findall(templatize(file.read().decode("utf-8")))
    yield from extract_python(io.BytesIO("\n".join(calls).encode()), keywords, comment_tags, options)  # type: ignore[arg-type]
