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
ROWS = 1024
"""Rows that are weighed at a time: what lies beside the matrix is small whatever its size, and near the processor."""
COUNT_BITS = 32 - BUCKET_BITS
MAX_COUNT = (1 << COUNT_BITS) - 1

Entries = npt.NDArray[np.uint32]
"""A bucket in the high bits and its count in the low ones. A block reads 901 characters at most, so that it fits."""
Places = npt.NDArray[np.int64]


class CountTable:
    """Rows of entries, each in the order of its buckets, one row after another."""

    def __init__(self) -> None:
        self._entries: Entries = np.zeros(0, np.uint32)
        self._bounds: Places = np.zeros(1, np.int64)
        """(rows + 1,): where each row begins."""
        self._appended: list[tuple[Entries, Ints]] = []

    def append(self, counted: Sparse) -> range:
        """The rows that a matrix (texts, buckets) becomes."""
        first = len(self._bounds) - 1 + sum(len(lengths) for _entries, lengths in self._appended)
        counts = np.minimum(counted.data, MAX_COUNT).astype(np.uint32)
        entries = (counted.indices.astype(np.uint32) << np.uint32(COUNT_BITS)) | counts
        self._appended.append((entries, np.diff(counted.indptr)))
        return range(first, first + counted.shape[0])

    def select(self, rows: Places) -> tuple[Entries, Places]:
        """The entries of these rows, and (rows + 1,) where each begins among them."""
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.measure(rows))])
        firsts, ends = self._bounds[rows].tolist(), self._bounds[rows + 1].tolist()
        parts = [self._entries[first:end] for first, end in zip(firsts, ends, strict=True)]
        return np.concatenate(parts) if parts else self._entries[:0], bounds

    def measure(self, rows: Places) -> Places:
        """How many entries each of these rows has."""
        self._join()
        lengths: Places = self._bounds[rows + 1] - self._bounds[rows]
        return lengths

    def _join(self) -> None:
        if self._appended:
            entries, lengths = zip(*self._appended, strict=True)
            bounds = self._bounds[-1] + np.cumsum(np.concatenate(lengths), dtype=np.int64)
            self._entries = np.concatenate([self._entries, *entries])
            self._bounds = np.concatenate([self._bounds, bounds])
            self._appended = []


class RunCounts:
    """The counts of all texts that were read so far, by block. Blocks of the same runs share what they read alike: of a
    short response the opening is all of it."""

    def __init__(self, reading: NgramReading) -> None:
        self.reading = reading
        self._tables = {block.sizes: CountTable() for block in reading.blocks}
        self._places: dict[str, dict[str, tuple[int, ...]]] = {block.source: {} for block in reading.blocks}
        """By source and text, its row in the table of each block of the source."""

    def find_places(self, examples: Sequence[Example]) -> list[Places]:
        """For each block, the row of its table that each example has. New texts are counted."""
        by_block: dict[str, Places] = {}
        for source, known in self._places.items():
            texts = [example.prompt if source == "prompt" else example.response for example in examples]
            new = list(dict.fromkeys(text for text in texts if text not in known))
            blocks = [block for block in self.reading.blocks if block.source == source]
            for start in range(0, len(new), CHUNK):
                chunk = new[start : start + CHUNK]
                known.update(zip(chunk, self._count(blocks, chunk), strict=True))
            places = np.array([known[text] for text in texts], np.int64).reshape(len(texts), len(blocks))
            by_block |= {block.name: column for block, column in zip(blocks, places.T, strict=True)}
        return [by_block[block.name] for block in self.reading.blocks]

    def _count(self, blocks: Sequence[NgramBlock], texts: Sequence[str]) -> Iterator[tuple[int, ...]]:
        """For each text, its row in the table of each block; the rows are appended."""
        cleaned = [self.reading.clean(text) for text in texts]
        rows: dict[tuple[int, ...], dict[str, int]] = {block.sizes: {} for block in blocks}
        for block in blocks:
            known = rows[block.sizes]
            new = list(dict.fromkeys(part for part in map(block.part, cleaned) if part not in known))
            if new:
                counted = count_runs(self.reading, block, new)
                known.update(zip(new, self._tables[block.sizes].append(counted), strict=True))
        for text in cleaned:
            yield tuple(rows[block.sizes][block.part(text)] for block in blocks)

    def count_documents(self, places: Sequence[Places]) -> list[Ints]:
        """For each block, by bucket in how many of the examples in these places it is."""
        return [
            _count_rows_with(self._tables[block.sizes], rows)
            for block, rows in zip(self.reading.blocks, places, strict=True)
        ]

    def build_matrix(self, features: BlockFeatures, places: Sequence[Places]) -> Sparse:
        """(examples, features): what ``features.matrix`` gives of the texts of the examples in these places."""
        from scipy import sparse

        size = len(places[0])
        columns = [vocabulary.column for vocabulary in features.vocabularies]
        width = sum(len(vocabulary.buckets) for vocabulary in features.vocabularies)
        most = sum(
            int(self._tables[block.sizes].measure(rows).sum())
            for block, rows in zip(self.reading.blocks, places, strict=True)
        )
        # Room for all entries is asked for, and what is not written to never takes memory.
        data, indices = np.empty(most, np.float32), np.empty(most, np.int32)
        lengths: list[Ints] = [np.zeros(1, np.int32)]
        filled = 0
        for start in range(0, size, ROWS):
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
        return sparse.csr_matrix((data[:filled], indices[:filled], bounds), shape=(size, width))

    def _select_counts(self, block: NgramBlock, rows: Places, column: Ints, vocabulary: Vocabulary) -> Sparse:
        """(rows, buckets of the vocabulary): how often each occurs."""
        from scipy import sparse

        entries, bounds = self._tables[block.sizes].select(rows)
        of_entry = column.take(entries >> np.uint32(COUNT_BITS), mode="clip")
        is_known = of_entry >= 0
        if not is_known.all():
            known_before = np.concatenate([np.zeros(1, np.int32), np.cumsum(is_known, dtype=np.int32)])
            of_entry, entries, bounds = of_entry[is_known], entries[is_known], known_before[bounds]
        counts = (entries & np.uint32(MAX_COUNT)).astype(np.float32)
        return sparse.csr_matrix((counts, of_entry, bounds), shape=(len(rows), len(vocabulary.buckets)))


def _count_rows_with(table: CountTable, rows: Places) -> Ints:
    """By bucket, how many of the rows have it. A row that comes again, as of a prompt, is read once."""
    from scipy import sparse

    documents = np.zeros(1 << BUCKET_BITS, np.float32)  # exact below 2**24
    distinct, times = np.unique(rows, return_counts=True)
    for start in range(0, len(distinct), ROWS):
        entries, bounds = table.select(distinct[start : start + ROWS])
        buckets = (entries >> np.uint32(COUNT_BITS)).view(np.int32)
        shape = (len(bounds) - 1, len(documents))
        has = sparse.csr_matrix((np.ones(len(buckets), np.float32), buckets, bounds), shape=shape)
        documents += has.T @ times[start : start + ROWS].astype(np.float32)
    return documents.astype(np.int32)


def learn_vocabularies(documents: Sequence[Ints], size: int) -> tuple[Vocabulary, ...]:
    """The buckets of each block that occur in enough of ``size`` examples, of which so many have each.

    idf = ln((1 + documents) / (1 + documents with it)) + 1, as scikit-learn smooths it.
    """
    vocabularies = []
    for with_it in documents:
        buckets = np.flatnonzero(with_it >= MIN_DOCUMENTS).astype(np.int32)
        idf = np.log((1 + size) / (1 + with_it[buckets])) + 1
        vocabularies.append(Vocabulary(buckets, idf.astype(np.float32)))
    return tuple(vocabularies)
