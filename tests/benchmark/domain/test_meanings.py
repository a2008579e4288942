from __future__ import annotations

import numpy as np
import pytest

from benchmark.domain.workbench.meanings import find_near_meanings


def draw_embeddings(count: int, width: int = 8) -> np.ndarray:
    drawn = np.random.default_rng(5).normal(size=(count, width)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def test_the_nearest_come_first_whatever_the_chunks_are():
    embeddings = draw_embeddings(200)
    cosines = embeddings @ embeddings[7]
    expected = [int(place) for place in np.argsort(-cosines) if cosines[place] >= 0.4]
    assert len(expected) > 10
    for size in (1, 7, 200):
        chunks = [
            (range(start, min(start + size, 200)), embeddings[start : start + size])
            for start in range(0, 200, size)
        ]
        near = find_near_meanings(embeddings[7], chunks, 0.4, limit=10)
        assert [key for key, _cosine in near] == expected[:10]
        assert near[0] == (7, pytest.approx(1))


def test_a_text_without_a_token_is_near_to_none():
    zeros = np.zeros(8, np.float32)
    assert find_near_meanings(zeros, [(range(5), draw_embeddings(5))], 0.1) == []


def test_embeddings_of_another_encoder_are_refused():
    embedding = draw_embeddings(1)[0]
    with pytest.raises(ValueError):
        find_near_meanings(embedding, [(range(5), draw_embeddings(5, width=9))], 0.5)
    with pytest.raises(ValueError, match="4 keys for 5"):
        find_near_meanings(embedding, [(range(4), draw_embeddings(5))], 0.5)
