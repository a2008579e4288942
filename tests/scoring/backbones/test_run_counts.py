"""Counting once gives what counting anew gives."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.backbones import run_counts
from scoring.backbones.linear import list_pairs
from scoring.backbones.ngram import NgramCorpus
from scoring.backbones.run_counts import MIN_DOCUMENTS, RunCounts, learn_vocabularies
from scoring.domain.training_data import Example
from scoring.inference import ngram as portable

WORDS = ("I", "cannot", "help", "抱歉", "我不能", "sure", "can't", "\n", "🙂", "é")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=400).map(" ".join)
"""Up to long ones, of which a block reads a part."""
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=8)


def list_examples(pairs: list[tuple[str, str]]) -> list[Example]:
    return [Example(f"{i}", f"{i}", prompt, response) for i, (prompt, response) in enumerate(pairs)]


@pytest.mark.parametrize("reading", portable.READINGS)
@settings(max_examples=40, deadline=None)
@given(known=PAIRS, new=PAIRS)
def test_a_matrix_is_that_of_the_portable_predictor(
    reading: str, known: list[tuple[str, str]], new: list[tuple[str, str]]
):
    counts = RunCounts(portable.READINGS[reading])
    places = counts.find_places(list_examples(known))
    vocabularies = learn_vocabularies(counts.count_documents(places), len(known))
    features = portable.BlockFeatures(reading, vocabularies)
    for pairs in (known, new, known[::-1] + new + known[:1]):
        examples = list_examples(pairs)
        matrix, expected = (
            counts.build_matrix(features, counts.find_places(examples)),
            features.matrix(list_pairs(examples)),
        )
        assert matrix.shape == expected.shape
        for array in ("data", "indices", "indptr"):
            assert (getattr(matrix, array) == getattr(expected, array)).all()


@given(pairs=PAIRS)
@settings(max_examples=40, deadline=None)
def test_a_vocabulary_is_the_buckets_of_enough_examples(pairs: list[tuple[str, str]]):
    reading = portable.WORDS
    counts = RunCounts(reading)
    places = counts.find_places(list_examples(pairs))
    vocabularies = learn_vocabularies(counts.count_documents(places), len(pairs))
    for block, vocabulary in zip(reading.blocks, vocabularies, strict=True):
        texts = portable.block_texts(reading, pairs)[block.name]
        documents: Counter[int] = Counter()
        for text in texts:
            documents.update(set(portable.count_runs(reading, block, [text]).indices.tolist()))
        frequent = sorted(bucket for bucket, n in documents.items() if n >= MIN_DOCUMENTS)
        assert vocabulary.buckets.tolist() == frequent
        expected = [np.log((1 + len(pairs)) / (1 + documents[bucket])) + 1 for bucket in frequent]
        assert vocabulary.idf.tolist() == pytest.approx(expected)


def test_a_text_is_counted_once_and_a_short_response_is_its_own_opening(monkeypatch: pytest.MonkeyPatch):
    counted: list[str] = []

    def count(reading: Any, block: Any, texts: list[str]) -> Any:
        counted.extend(texts)
        return portable.count_runs(reading, block, texts)

    monkeypatch.setattr(run_counts, "count_runs", count)
    counts = RunCounts(portable.WORDS)
    long = "very " * 60
    first = list_examples([("why", "because"), ("why", "so"), ("how", long)])
    counts.find_places(first)
    counts.find_places(first + list_examples([("why", "because of it")]))
    assert sorted(counted) == sorted(
        ["why", "how", "because", "so", long.strip(), long[:200], "because of it"]
    )


def test_rows_are_the_same_whatever_is_weighed_at_a_time(monkeypatch: pytest.MonkeyPatch):
    examples = list_examples([("why", "I cannot say"), ("how", "I cannot"), ("why", "sure"), ("how", "")])
    counts = RunCounts(portable.WORDS)
    places = counts.find_places(examples)
    vocabularies = learn_vocabularies(counts.count_documents(places), len(examples))
    features = portable.BlockFeatures("words", vocabularies)
    at_once = counts.build_matrix(features, places)
    monkeypatch.setattr(run_counts, "ROWS", 3)
    in_parts = counts.build_matrix(features, places)
    assert at_once.nnz > 0
    assert (at_once != in_parts).nnz == 0


@given(pairs=PAIRS, data=st.data())
@settings(max_examples=40, deadline=None)
def test_what_some_rows_teach_is_what_they_teach_alone(pairs: list[tuple[str, str]], data: st.DataObject):
    counts = RunCounts(portable.WORDS)
    places = counts.find_places(list_examples(pairs))
    rows = np.array(data.draw(st.permutations(range(len(pairs)))), np.int64)[: (2 * len(pairs) + 2) // 3]
    for subset in (rows, rows[:1], rows[:0]):
        own_places = [of_block[subset] for of_block in places]
        expected = learn_vocabularies(counts.count_documents(own_places), len(subset))
        learned = NgramCorpus(counts, places).learn(subset).portable.vocabularies
        for vocabulary, other in zip(learned, expected, strict=True):
            assert vocabulary.buckets.tolist() == other.buckets.tolist()
            assert vocabulary.idf.tolist() == other.idf.tolist()


@given(pairs=PAIRS, data=st.data())
@settings(max_examples=60, deadline=None)
def test_gathered_runs_are_weighed_as_the_portable_predictor_weighs_texts(
    pairs: list[tuple[str, str]], data: st.DataObject
):
    counts = RunCounts(portable.WORDS)
    corpus = NgramCorpus(counts, counts.find_places(list_examples(pairs)))
    all_rows = st.lists(st.integers(0, max(len(pairs) - 1, 0)), max_size=len(pairs))
    gathered_rows = np.unique(np.array(data.draw(all_rows), np.int64))
    places = np.array(data.draw(all_rows), np.int64) % max(len(gathered_rows), 1)
    places = places if len(gathered_rows) else places[:0]
    features = corpus.learn(np.unique(np.array(data.draw(all_rows), np.int64)))
    rows = corpus.gather(gathered_rows)
    weighed = rows.weigh(features, places).toarray()
    expected = features.portable.matrix([pairs[row] for row in gathered_rows[places]] or [("", "")])
    expected = expected.toarray()[: len(places)]
    columns, matched = rows.runs.match_columns(features.portable.vocabularies)
    # Sums of squares among zeros of other columns are rounded otherwise.
    assert weighed[:, columns] == pytest.approx(expected[:, matched], rel=1e-6)
    for matrix, known in ((weighed, columns), (expected, matched)):
        assert not np.delete(matrix, known, axis=1).any()
    weights = np.arange(weighed.shape[1], dtype=np.float32)[:, None]
    head = portable.LinearHead("c", (1, 2), (0, 1), weights, np.zeros(1, np.float32), "cumulative")
    wide = rows.widen(features, head)
    assert wide.weights.shape == (features.width, 1)
    assert expected @ wide.weights == pytest.approx(weighed @ weights, rel=1e-5, abs=1e-3)
