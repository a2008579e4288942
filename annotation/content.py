"""How texts are known: ids and hashes of content. Pure."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence


def text_sha256(text: str) -> str:
    """The sha256 (hex) of the NFC form of ``text`` in UTF-8."""
    return hashlib.sha256(unicodedata.normalize("NFC", text).encode()).hexdigest()


def prompt_key(text: str) -> str:
    """The id of a prompt that brings none: the first 16 hex digits of its text's sha256."""
    return text_sha256(text)[:16]


def response_sha256(text: str, turns: Sequence[Mapping[str, str]]) -> str:
    """The hash of a response: of its text, or of ``[[role, text], ..]`` as compact JSON for a dialogue."""
    if not turns:
        return text_sha256(text)
    pairs = [[turn["role"], turn["text"]] for turn in turns]
    return text_sha256(json.dumps(pairs, ensure_ascii=False, separators=(",", ":")))
