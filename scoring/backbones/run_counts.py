"""How often each text has each run of words, counted once however many folds read it.

An evaluation fits dozens of times to nearly the same texts: counting takes most of a fit, and is the same each time.
So is most of a matrix: which runs a text has, and how often. They are gathered once for all folds of a fit, and weighed
by what each fold learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from scoring.domain.training_data import Example
from scoring.inference.ngram import (
    BUCKET_BITS,
    CHUNK,
    BlockFeatures,
    Floats,
    Ints,
    NgramBlock,
    NgramReading,
    Sparse,
    Vocabulary,
    count_runs,
)

MIN_DOCUMENTS = 2
ROWS = 256
"""Rows that are gathered or weighed at a time: what lies beside the matrix is small whatever its size, and stays near
the processor."""
COUNTED_ROWS = 2048
"""Rows whose runs are added up at a time: the sums of all buckets are written once for them."""
COUNT_BITS = 32 - BUCKET_BITS
RUN_BITS = 10
MAX_COUNT = (1 << RUN_BITS) - 1
"""A block reads 901 characters at most, so that a count fits; and the columns of four blocks fit beside it."""

Entries = npt.NDArray[np.uint32]
"""A bucket in the high bits and its count in the low ones."""
Places = npt.NDArray[np.int64]


class CountTable:
    """Rows of entries, each in the order of its buckets. They stay where they were appended: a table of hundreds of
    megabytes is not copied to grow."""

    def __init__(self) -> None:
        self._rows: list[Entries] = []

    def append(self, counted: Sparse) -> range:
        """The rows that a matrix (texts, buckets) becomes."""
        first = len(self._rows)
        counts = np.minimum(counted.data, MAX_COUNT).astype(np.uint32)
        entries = (counted.indices.astype(np.uint32) << np.uint32(COUNT_BITS)) | counts
        self._rows += (entries[start:end] for start, end in pairwise(counted.indptr.tolist()))
        return range(first, len(self._rows))

    def list_rows(self, rows: Places) -> list[Entries]:
        return list(map(self._rows.__getitem__, rows.tolist()))


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

    def gather(self, places: Sequence[Places], buckets: Sequence[Ints]) -> GatheredRuns:
        """The runs of the examples in these places, of each block those in its ``buckets``."""
        column = _number_columns(buckets)
        rows = [
            row
            for of_example in zip(*map(self._list_rows, self.reading.blocks, places), strict=True)
            for row in of_example
        ]
        # Room for all runs is asked for, and what is not written to never takes memory.
        runs = np.empty(sum(map(len, rows)), np.uint32)
        lengths, filled = [np.zeros(0, np.int64)], 0
        for start in range(0, len(rows), ROWS * len(buckets)):
            chunk, chunk_lengths = _select_runs(rows[start : start + ROWS * len(buckets)], column)
            runs[filled : filled + len(chunk)] = chunk
            lengths.append(chunk_lengths)
            filled += len(chunk)
        weights = np.array([block.weight for block in self.reading.blocks], np.float32)
        by_block = np.concatenate(lengths).reshape(-1, len(buckets))
        return GatheredRuns(runs[:filled], by_block, tuple(buckets), weights)

    def build_matrix(self, features: BlockFeatures, places: Sequence[Places]) -> Sparse:
        """(examples, features): what ``features.matrix`` gives of the texts of the examples in these places."""
        runs = self.gather(places, [vocabulary.buckets for vocabulary in features.vocabularies])
        return runs.weigh(features.vocabularies, np.arange(len(places[0])))

    def _list_rows(self, block: NgramBlock, rows: Places) -> list[Entries]:
        return self._tables[block.sizes].list_rows(rows)


def _number_columns(buckets: Sequence[Ints]) -> Ints:
    """(blocks, all buckets): the column of each bucket of each block, block after block; -1 of those without."""
    column = np.full((len(buckets), 1 << BUCKET_BITS), -1, np.int32)
    first = 0
    for block, of_block in enumerate(buckets):
        column[block, of_block] = np.arange(first, first + len(of_block), dtype=np.int32)
        first += len(of_block)
    return column


def _select_runs(rows: Sequence[Entries], column: Ints) -> tuple[Entries, Places]:
    """All runs that have a column, and how many they are in each of the rows, which are of each block by turns."""
    lengths = np.array(list(map(len, rows)), np.int64)
    entries = np.concatenate(rows)
    first = np.arange(len(column), dtype=np.uint32) << np.uint32(BUCKET_BITS)
    bucket_of_block = entries >> np.uint32(COUNT_BITS)
    bucket_of_block += np.repeat(np.tile(first, len(rows) // len(column)), lengths)
    columns = column.ravel().take(bucket_of_block, mode="clip")
    is_known = columns >= 0
    if not is_known.all():
        known_before = _bound(is_known)
        columns, entries, lengths = (
            columns[is_known],
            entries[is_known],
            np.diff(known_before[_bound(lengths)]),
        )
    entries &= np.uint32(MAX_COUNT)
    entries |= columns.view(np.uint32) << np.uint32(RUN_BITS)
    return entries, lengths


def _bound(lengths: npt.ArrayLike) -> Places:
    """Where each row begins, and where the last ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


_LOGS = 1 + np.log(np.maximum(np.arange(1 << RUN_BITS, dtype=np.float32), 1))
"""What each count weighs before its run's rarity."""


@dataclass(frozen=True)
class GatheredRuns:
    """The runs of some texts, text by text and in each block by block."""

    runs: Entries
    """The column of a run in the high bits, its count in the low ``RUN_BITS``."""
    lengths: Places
    """(texts, blocks): how many runs there are."""
    buckets: tuple[Ints, ...]
    """By block, the buckets that its columns are of; the columns of one block follow those of another."""
    weights: Floats
    """Of the blocks."""

    @property
    def width(self) -> int:
        return sum(map(len, self.buckets))

    def weigh(self, vocabularies: Sequence[Vocabulary], texts: Places) -> Sparse:
        """(texts, columns): in each block (1 + ln(count)) * idf, of length 1, at the block's weight. Runs that a
        vocabulary has not are 0."""
        from scipy import sparse

        idf, bounds = self._list_idf(vocabularies), _bound(self.lengths.sum(axis=1))
        filled = _bound(self.lengths[texts].sum(axis=1))
        data, indices = np.empty(filled[-1], np.float32), np.empty(filled[-1], np.int32)
        for start in range(0, len(texts), ROWS):
            chunk = texts[start : start + ROWS]
            at = slice(filled[start], filled[start + len(chunk)])
            runs = np.concatenate([self.runs[bounds[text] : bounds[text + 1]] for text in chunk.tolist()])
            indices[at] = runs >> np.uint32(RUN_BITS)
            np.take(idf, indices[at], out=data[at], mode="clip")
            counts = runs & np.uint32(MAX_COUNT)
            repeated = np.flatnonzero(counts > 1)  # the logarithm of 1 is 0
            data[at][repeated] *= _LOGS[counts[repeated]]
            self._normalise(data[at], self.lengths[chunk])
        return sparse.csr_matrix((data, indices, filled), (len(texts), self.width))

    def _normalise(self, data: Floats, lengths: Places) -> None:
        """Each block of each text to length 1 (or 0 if it has nothing of the vocabulary), at the block's weight."""
        from scipy import sparse

        bounds = _bound(lengths)
        squares = sparse.csr_matrix((data * data, np.zeros(len(data), np.int32), bounds), (lengths.size, 1))
        norms = np.sqrt(np.asarray(squares.sum(axis=1))).reshape(lengths.shape)
        norms[norms == 0] = 1
        norms /= self.weights
        data /= np.repeat(norms.ravel(), lengths.ravel())

    def _list_idf(self, vocabularies: Sequence[Vocabulary]) -> Floats:
        by_block = [np.zeros(0, np.float32)]
        for vocabulary, buckets in zip(vocabularies, self.buckets, strict=True):
            idf = np.zeros(1 << BUCKET_BITS, np.float32)
            idf[vocabulary.buckets] = vocabulary.idf
            by_block.append(idf[buckets])
        return np.concatenate(by_block)

    def match_columns(self, vocabularies: Sequence[Vocabulary]) -> tuple[Places, Places]:
        """The columns whose bucket the vocabularies have, too, and the place of each among all buckets of these."""
        columns, features = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        first_column = first_feature = 0
        for vocabulary, buckets in zip(vocabularies, self.buckets, strict=True):
            _common, of_block, of_vocabulary = np.intersect1d(
                buckets, vocabulary.buckets, assume_unique=True, return_indices=True
            )
            columns.append(first_column + of_block)
            features.append(first_feature + of_vocabulary)
            first_column += len(buckets)
            first_feature += len(vocabulary.buckets)
        return np.concatenate(columns), np.concatenate(features)


def _count_rows_with(table: CountTable, rows: Places) -> Ints:
    """By bucket, how many of the rows have it. A row that comes again, as of a prompt, is read once."""
    from scipy import sparse

    documents = np.zeros(1 << BUCKET_BITS, np.float32)  # exact below 2**24
    distinct, times = np.unique(rows, return_counts=True)
    for start in range(0, len(distinct), COUNTED_ROWS):
        entries = table.list_rows(distinct[start : start + COUNTED_ROWS])
        buckets = (np.concatenate(entries) >> np.uint32(COUNT_BITS)).view(np.int32)
        bounds = _bound(list(map(len, entries)))
        has = sparse.csr_matrix(
            (np.ones(len(buckets), np.float32), buckets, bounds), (len(entries), len(documents))
        )
        documents += has.T @ times[start : start + COUNTED_ROWS].astype(np.float32)
    return documents.astype(np.int32)


def frequent_buckets(documents: Ints) -> Ints:
    """The buckets that occur in enough examples to be in a vocabulary."""
    return np.flatnonzero(documents >= MIN_DOCUMENTS).astype(np.int32)


def learn_vocabularies(documents: Sequence[Ints], size: int) -> tuple[Vocabulary, ...]:
    """The buckets of each block that occur in enough of ``size`` examples, of which so many have each.

    idf = ln((1 + documents) / (1 + documents with it)) + 1, as scikit-learn smooths it.
    """
    vocabularies = []
    for with_it in documents:
        buckets = frequent_buckets(with_it)
        idf = np.log((1 + size) / (1 + with_it[buckets])) + 1
        vocabularies.append(Vocabulary(buckets, idf.astype(np.float32)))
    return tuple(vocabularies)
