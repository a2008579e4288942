"""Whether texts are Markdown."""

from __future__ import annotations

import re
from typing import Literal

TextFormat = Literal["auto", "markdown", "plain"]
"""``auto``: each text as it looks."""

# Of longer ones the source is shown: a page of them would keep its reader waiting.
MAX_MARKDOWN = 100_000

_FENCE = re.compile(r"^ {0,3}(?:```|~~~)[^`\n]*$", re.MULTILINE)
# What people type into plain text for other reasons is no sign: a number and a dot, a hyphen, a single star.
_SIGNS = re.compile(
    r"^ {0,3}#{2,6} \S"  # a heading; one sign alone also begins a comment in code
    r"|(?<![\w*])\*\*(?=[^\s*])[^*\n]+(?<=[^\s*])\*\*(?![\w*])"  # **strong**
    r"|^ {0,3}\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)+\|?[ \t]*$"  # the second line of a table
    r"|(?<!\w)\[[^\[\]\n]+\]\(https?://[^\s)]+\)"  # a link
    r"|\\\[|\\\(|^\$\$",  # a formula
    re.MULTILINE,
)


def looks_like_markdown(text: str) -> bool:
    return bool(_FENCE.search(text) or _SIGNS.search(text))


def is_shown_as_markdown(text: str, text_format: str) -> bool:
    if text_format == "plain" or len(text) > MAX_MARKDOWN:
        return False
    return text_format == "markdown" or looks_like_markdown(text)
