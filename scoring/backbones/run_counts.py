"""How often each text has each run of words, counted once however many folds read it.

An evaluation fits dozens of times to nearly the same texts: counting takes most of a fit, and is the same each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from scoring.domain.training_data import Example
from scoring.inference.ngram import (
    BUCKET_BITS,
    CHUNK,
    BlockFeatures,
    Ints,
    NgramBlock,
    NgramReading,
    Sparse,
    Vocabulary,
    count_runs,
    join_blocks,
)

MIN_DOCUMENTS = 2
ROWS = 4096
"""Rows that are weighed at a time: what lies beside the matrix is small whatever its size."""
COUNT_BITS = 32 - BUCKET_BITS
MAX_COUNT = (1 << COUNT_BITS) - 1

Entries = npt.NDArray[np.uint32]
"""A bucket in the high bits, how often it occurs in the low ones: no block reads as many runs as do not fit there."""
Places = npt.NDArray[np.int64]


class CountTable:
    """Rows of entries, each in the order of its buckets, one row after another."""

    def __init__(self) -> None:
        self._entries: list[Entries] = []
        self._lengths: list[Places] = []
        self._starts: Places = np.zeros(1, np.int64)
        self.rows = 0

    def append(self, counted: Sparse) -> range:
        """The places of the rows of a matrix (texts, buckets)."""
        counts = np.minimum(counted.data, MAX_COUNT).astype(np.uint32)
        self._entries.append((counted.indices.astype(np.uint32) << np.uint32(COUNT_BITS)) | counts)
        self._lengths.append(np.diff(counted.indptr).astype(np.int64))
        first, self.rows = self.rows, self.rows + counted.shape[0]
        return range(first, self.rows)

    def select(self, rows: Places) -> tuple[Entries, Places]:
        """The entries of these rows, and (rows + 1,) where each begins among them."""
        self._join()
        starts = self._starts[rows]
        lengths = self._starts[rows + 1] - starts
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        places = np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], lengths)
        return self._entries[0][places], bounds

    def count_entries(self, rows: Places) -> int:
        self._join()
        return int((self._starts[rows + 1] - self._starts[rows]).sum())

    def _join(self) -> None:
        """Of the parts that were appended since the last time, and those of before, one."""
        if len(self._entries) > 1 or len(self._starts) <= self.rows:
            self._entries = [np.concatenate(self._entries)]
            self._lengths = [np.concatenate(self._lengths)]
            self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._lengths[0])])


class RunCounts:
    """The counts of all texts that were read so far, by block. Blocks of the same runs share what they read alike: of a
    short response the opening is all of it."""

    def __init__(self, reading: NgramReading) -> None:
        self.reading = reading
        self._tables = {block.sizes: CountTable() for block in reading.blocks}
        self._places: dict[str, dict[str, tuple[int, ...]]] = {block.source: {} for block in reading.blocks}

    def find_places(self, examples: Sequence[Example]) -> list[Places]:
        """For each block, the row of its table that each example has. New texts are counted."""
        columns: list[Places] = []
        for source, known in self._places.items():
            texts = [example.prompt if source == "prompt" else example.response for example in examples]
            new = list(dict.fromkeys(text for text in texts if text not in known))
            blocks = [block for block in self.reading.blocks if block.source == source]
            for start in range(0, len(new), CHUNK):
                chunk = new[start : start + CHUNK]
                known.update(zip(chunk, self._count(blocks, chunk), strict=True))
            places = np.array([known[text] for text in texts], np.int64).reshape(len(texts), len(blocks))
            columns += [np.ascontiguousarray(column) for column in places.T]
        return columns

    def _count(self, blocks: Sequence[NgramBlock], texts: Sequence[str]) -> Iterator[tuple[int, ...]]:
        cleaned = [self.reading.clean(text) for text in texts]
        read: dict[tuple[int, ...], dict[str, int]] = {block.sizes: {} for block in blocks}
        for block in blocks:
            rows = read[block.sizes]
            new = list(dict.fromkeys(part for part in map(block.part, cleaned) if part not in rows))
            if new:
                counted = count_runs(self.reading, block, new)
                rows.update(zip(new, self._tables[block.sizes].append(counted), strict=True))
        for text in cleaned:
            yield tuple(read[block.sizes][block.part(text)] for block in blocks)

    def learn_vocabularies(self, examples: Sequence[Example]) -> tuple[Vocabulary, ...]:
        """The buckets of each block that occur in enough of the examples.

        idf = ln((1 + documents) / (1 + documents with it)) + 1, as scikit-learn smooths it.
        """
        vocabularies = []
        for block, places in zip(self.reading.blocks, self.find_places(examples), strict=True):
            documents = np.zeros(1 << BUCKET_BITS, np.int64)
            for start in range(0, len(places), ROWS):
                entries, _bounds = self._tables[block.sizes].select(places[start : start + ROWS])
                documents += np.bincount(entries >> np.uint32(COUNT_BITS), minlength=len(documents))
            buckets = np.flatnonzero(documents >= MIN_DOCUMENTS).astype(np.int32)
            idf = np.log((1 + len(examples)) / (1 + documents[buckets])) + 1
            vocabularies.append(Vocabulary(buckets, idf.astype(np.float32)))
        return tuple(vocabularies)

    def build_matrix(self, features: BlockFeatures, examples: Sequence[Example]) -> Sparse:
        """(examples, features): what ``features.matrix`` gives of the same texts."""
        from scipy import sparse

        places = self.find_places(examples)
        columns = [vocabulary.column for vocabulary in features.vocabularies]
        width = sum(len(vocabulary.buckets) for vocabulary in features.vocabularies)
        most = sum(
            self._tables[block.sizes].count_entries(rows)
            for block, rows in zip(self.reading.blocks, places, strict=True)
        )
        # Room for all entries is asked for, and what is not written to never takes memory.
        data, indices = np.empty(most, np.float32), np.empty(most, np.int32)
        lengths: list[Ints] = [np.zeros(1, np.int32)]
        filled = 0
        for start in range(0, len(examples), ROWS):
            matrices = [
                vocabulary.weigh(self._select_counts(block, rows[start : start + ROWS], column, vocabulary))
                for block, rows, column, vocabulary in zip(
                    self.reading.blocks, places, columns, features.vocabularies, strict=True
                )
            ]
            joined = join_blocks(self.reading, matrices)
            data[filled : filled + joined.nnz] = joined.data
            indices[filled : filled + joined.nnz] = joined.indices
            lengths.append(np.diff(joined.indptr))
            filled += joined.nnz
        bounds = np.cumsum(np.concatenate(lengths), dtype=np.int64)
        if filled <= np.iinfo(np.int32).max:
            bounds = bounds.astype(np.int32)
        return sparse.csr_matrix((data[:filled], indices[:filled], bounds), shape=(len(examples), width))

    def _select_counts(self, block: NgramBlock, rows: Places, column: Ints, vocabulary: Vocabulary) -> Sparse:
        """(rows, buckets of the vocabulary): how often each occurs."""
        from scipy import sparse

        entries, bounds = self._tables[block.sizes].select(rows)
        of_entry = column[entries >> np.uint32(COUNT_BITS)]
        is_kept = of_entry >= 0
        kept_before = np.concatenate([np.zeros(1, np.int32), np.cumsum(is_kept, dtype=np.int32)])
        counts = (entries[is_kept] & np.uint32(MAX_COUNT)).astype(np.float32)
        shape = (len(rows), len(vocabulary.buckets))
        return sparse.csr_matrix((counts, of_entry[is_kept], kept_before[bounds]), shape=shape)
