"""Labels and predictions of many responses as arrays: a tenth of the memory that a dict for each takes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from scoring.domain.training_data import Head, Prediction, Value

Array = npt.NDArray[np.float64]
LabelPlaces = npt.NDArray[np.int32]
"""(responses, heads): the place of each label on its scale, ``NO_LABEL`` where there is none."""

NO_LABEL = -1
CHUNK = 4096
"""Rows that are read at a time as Python's own numbers."""


def tabulate_labels(labels: Iterable[Mapping[str, Value]], heads: Sequence[Head]) -> LabelPlaces:
    """Of the labels of each response, by criterion. Those of a criterion without a head are left out."""
    places = {
        head.criterion: (column, {value: place for place, value in enumerate(head.values)})
        for column, head in enumerate(heads)
    }
    rows = list(labels)
    entries = [
        (row, places[criterion][0], places[criterion][1][value])
        for row, by_criterion in enumerate(rows)
        for criterion, value in by_criterion.items()
        if criterion in places
    ]
    table = np.full((len(rows), len(heads)), NO_LABEL, np.int32)
    if entries:
        row, column, place = np.array(entries).T
        table[row, column] = place
    return table


@dataclass(frozen=True)
class AnnotatorLabels:
    """What single annotators said of responses, response by response: an entry for each annotator of each."""

    rows: npt.NDArray[np.int64]
    """The place of the response, never falling."""
    places: LabelPlaces

    @classmethod
    def collect(
        cls, labels: Iterable[Iterable[Mapping[str, Value]]], heads: Sequence[Head]
    ) -> AnnotatorLabels:
        """Of the labels of each annotator of each response."""
        entries = [(row, label) for row, annotators in enumerate(labels) for label in annotators]
        rows = np.array([row for row, _label in entries], np.int64)
        return cls(rows, tabulate_labels((label for _row, label in entries), heads))

    def list_pairs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The entries of each two annotators of a response, the earlier and the later."""
        bounds = np.flatnonzero(np.diff(self.rows, prepend=-1, append=-1)).tolist()
        pairs = [pair for first, last in pairwise(bounds) for pair in combinations(range(first, last), 2)]
        earlier, later = np.array(pairs, np.int64).reshape(-1, 2).T
        return earlier, later


class PredictionTable(Sequence[Prediction]):
    """A prediction of each of ``size`` responses: a probability for each level of each head, NaN of a criterion that is
    not predicted. It reads as a sequence of predictions; at first nothing is predicted."""

    def __init__(self, heads: Sequence[Head], size: int) -> None:
        self.heads = tuple(heads)
        self._parts = {head.criterion: np.full((size, len(head.values)), np.nan) for head in heads}
        self._size = size

    @classmethod
    def collect(cls, predictions: Sequence[Prediction], heads: Sequence[Head]) -> PredictionTable:
        """The predictions as a table, which they may be already; a level that one does not name has no probability."""
        if isinstance(predictions, cls) and predictions.heads == tuple(heads):
            return predictions
        table = cls(heads, len(predictions))
        for head in heads:
            name = head.criterion
            rows = [row for row, predicted in enumerate(predictions) if name in predicted]
            shares = [[predictions[row][name].get(value, 0.0) for value in head.values] for row in rows]
            table.select(head)[rows] = np.array(shares).reshape(len(rows), len(head.values))
        return table

    @classmethod
    def repeat(cls, prediction: Prediction, heads: Sequence[Head], size: int) -> PredictionTable:
        """The same of each response."""
        table = cls(heads, size)
        table.put_all(range(size), prediction)
        return table

    @classmethod
    def from_labels(cls, labels: LabelPlaces, heads: Sequence[Head]) -> PredictionTable:
        """Certain of the level that each label says."""
        table = cls(heads, len(labels))
        for column, head in enumerate(heads):
            rows = np.flatnonzero(labels[:, column] != NO_LABEL)
            table.select(head)[rows] = np.eye(len(head.values))[labels[rows, column]]
        return table

    def select(self, head: Head) -> Array:
        """(responses, levels) of one head, to read and to write."""
        return self._parts[head.criterion]

    def is_predicted(self, head: Head) -> npt.NDArray[np.bool_]:
        predicted: npt.NDArray[np.bool_] = ~np.isnan(self._parts[head.criterion][:, 0])
        return predicted

    def take(self, rows: Sequence[int]) -> PredictionTable:
        """Of these rows, one after another."""
        table = PredictionTable(self.heads, len(rows))
        for name, part in self._parts.items():
            table._parts[name][:] = part[list(rows)]
        return table

    def put(self, rows: Sequence[int], predictions: PredictionTable) -> None:
        """Predictions of these rows, one after another, by the same heads."""
        for name, part in self._parts.items():
            part[list(rows)] = predictions._parts[name]

    def put_all(self, rows: Sequence[int], prediction: Prediction) -> None:
        """The same prediction of all these rows."""
        for head in self.heads:
            if head.criterion in prediction:
                shares = [prediction[head.criterion].get(value, 0.0) for value in head.values]
                self._parts[head.criterion][list(rows)] = shares

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Prediction]:
        for start in range(0, self._size, CHUNK):
            by_head = [part[start : start + CHUNK].tolist() for part in self._parts.values()]
            for shares in zip(*by_head, strict=True):
                yield self._build_prediction(shares)

    def _build_prediction(self, shares: Iterable[Sequence[float]]) -> Prediction:
        """Of the shares of each head, a number that is not equal to itself where it is not predicted."""
        return {
            head.criterion: dict(zip(head.values, of_head, strict=True))
            for head, of_head in zip(self.heads, shares, strict=True)
            if of_head[0] == of_head[0]  # as no NaN is
        }

    @overload
    def __getitem__(self, row: int) -> Prediction: ...

    @overload
    def __getitem__(self, row: slice) -> list[Prediction]: ...

    def __getitem__(self, row: int | slice) -> Prediction | list[Prediction]:
        if isinstance(row, slice):
            return [self[place] for place in range(*row.indices(self._size))]
        if not -self._size <= row < self._size:
            raise IndexError(row)
        return self._build_prediction(part[row].tolist() for part in self._parts.values())

    def __repr__(self) -> str:
        return f"PredictionTable({list(self)!r})"

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, PredictionTable)
            and self.heads == other.heads
            and all(
                np.array_equal(part, other.select(head), equal_nan=True)
                for head, part in zip(self.heads, self._parts.values(), strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]
