"""Prompts of nearly the same meaning, by the cosine of their embeddings. Pure: an encoder makes the embeddings.

Shapes: W, the encoder's width; N, the prompts of one chunk. An embedding has length 1, or 0 where its text has no
token.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Key = TypeVar("Key")

MAX_SIMILAR = 20


def find_near_meanings(
    embedding: Floats,
    chunks: Iterable[tuple[Sequence[Key], Floats]],
    threshold: float,
    limit: int = MAX_SIMILAR,
) -> list[tuple[Key, float]]:
    """(key, cosine) of the prompts at ``threshold`` or above, the most similar first, at most ``limit``.

    ``embedding`` is (W,); a chunk is N keys and their embeddings (N, W), so that a table is read a part at a time.
    Ties are in the order of the chunks. The threshold has no default, because the cosines of two encoders differ.
    Raises ValueError where a chunk is of another width or has another number of keys.
    """
    near: list[tuple[Key, float]] = []
    for keys, embeddings in chunks:
        if len(keys) != len(embeddings):
            raise ValueError(f"{len(keys)} keys for {len(embeddings)} embeddings")
        cosines = embeddings @ embedding
        near += [
            (keys[place], float(cosines[place])) for place in np.flatnonzero(cosines >= threshold).tolist()
        ]
        near = heapq.nlargest(limit, near, key=lambda pair: pair[1])
    return near
