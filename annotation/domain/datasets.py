"""How texts are identified, by ids and hashes of content, and the malice of prompts. Pure.

The models import it, and so every process: it needs no numpy.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

EXPLICIT, IMPLICIT = "explicit", "implicit"
"""The malice of a prompt: asked for openly, or hidden in a question that looks ordinary (arXiv:2311.06899)."""
_MALICE = {
    EXPLICIT: EXPLICIT,
    "显性": EXPLICIT,
    "顯性": EXPLICIT,
    IMPLICIT: IMPLICIT,
    "隐性": IMPLICIT,
    "隱性": IMPLICIT,
}


def find_malice(text: str) -> str | None:
    """``EXPLICIT`` or ``IMPLICIT`` of a word of a file, English or Chinese; "" of nothing, None of any other word."""
    word = text.strip().casefold()
    return _MALICE.get(word) if word else ""


def text_sha256(text: str) -> str:
    """The sha256 (hex) of the NFC form of ``text`` in UTF-8."""
    return hashlib.sha256(unicodedata.normalize("NFC", text).encode()).hexdigest()


def prompt_key(text: str) -> str:
    """The id of a prompt that brings none: the first 16 hex digits of its text's sha256."""
    return text_sha256(text)[:16]


def response_sha256(text: str, turns: Sequence[Mapping[str, Any]]) -> str:
    """The hash of a response: of its text, or of ``[[role, text], ..]`` as compact JSON for a dialogue; of a slate of
    ``[[role, text, entry], ..]``.
    """
    if not turns:
        return text_sha256(text)
    rows = [[turn[name] for name in ("role", "text", "entry") if name in turn] for turn in turns]
    return text_sha256(json.dumps(rows, ensure_ascii=False, separators=(",", ":")))
