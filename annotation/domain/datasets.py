"""How texts are identified: ids and hashes of content, and the prompts that share a text under two ids; and the malice
of prompts. Pure.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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


def text_digest(text: str) -> int:
    """64 bits of the text's sha256, alike for texts that differ in width, case or white space alone."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:8], "big")


class SameTexts:
    """Collects prompts by id, 16 bytes each, and afterwards knows which of them share a text."""

    def __init__(self) -> None:
        self._prompts, self._digests = array("q"), array("Q")

    def add(self, prompt: int, text: str) -> None:
        self._prompts.append(prompt)
        self._digests.append(text_digest(text))

    def groups(self) -> list[list[int]]:
        """The ids of the prompts that share a text with another, text by text, in the order of adding."""
        digests = np.frombuffer(self._digests, dtype=np.uint64) if self._digests else np.empty(0, np.uint64)
        _unique, first, inverse, counts = np.unique(
            digests, return_index=True, return_inverse=True, return_counts=True
        )
        groups: dict[int, list[int]] = {}
        for place in np.flatnonzero(counts[inverse] > 1).tolist():
            groups.setdefault(int(first[inverse[place]]), []).append(self._prompts[place])
        return [groups[place] for place in sorted(groups)]
