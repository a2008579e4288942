"""The prompts that share a text under two ids. Pure."""

from __future__ import annotations

import hashlib
import unicodedata
from array import array

import numpy as np


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
