"""How near predictions come to what people said, where they said different things. Pure.

The distribution of a response is the share of its annotators that gave each level; an adjudicator is not among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scoring.domain.calibration import TINY, Array
from scoring.domain.tables import NO_LABEL, AnnotatorLabels, PredictionTable
from scoring.domain.training_data import Head, Prediction

LABEL, DISTRIBUTION = "label", "distribution"
TARGETS = (LABEL, DISTRIBUTION)


def share_levels(annotator_labels: AnnotatorLabels, heads: Sequence[Head], size: int) -> PredictionTable:
    """Of each of ``size`` responses, by criterion that anybody answered, the share of those who did that gave each
    level of its scale."""
    table = PredictionTable(heads, size)
    for column, head in enumerate(heads):
        place = annotator_labels.places[:, column]
        counts = np.zeros((size, len(head.values)))
        np.add.at(counts, (annotator_labels.rows[place != NO_LABEL], place[place != NO_LABEL]), 1)
        answered = counts.any(axis=1)
        table.select(head)[answered] = counts[answered] / counts[answered].sum(axis=1, keepdims=True)
    return table


def measure_soft_labels(
    predictions: Sequence[Prediction], annotated: Sequence[Prediction], heads: Sequence[Head]
) -> dict[str, dict[str, Any]]:
    """By criterion, over the ``n`` responses that are predicted and that people labelled, means of

    - ``cross_entropy``: -sum(share * log(predicted)) in nats; ``entropy`` is the least that it can be;
    - ``jensen_shannon``: the distance, the root of the divergence in bits (Lin 1991; Endres and Schindelin 2003), from
      0 to 1.

    Null where there is none.
    """
    predicted_table = PredictionTable.collect(predictions, heads)
    annotated_table = PredictionTable.collect(annotated, heads)
    figures: dict[str, dict[str, Any]] = {}
    for head in heads:
        both = predicted_table.is_predicted(head) & annotated_table.is_predicted(head)
        predicted, people = predicted_table.select(head)[both], annotated_table.select(head)[both]
        figures[head.criterion] = {
            "n": len(people),
            "cross_entropy": _mean(_cross_entropies(people, predicted)),
            "entropy": _mean(_cross_entropies(people, people)),
            "jensen_shannon": _mean(_jensen_shannon(people, predicted)),
        }
    return figures


def _cross_entropies(people: Array, predicted: Array) -> Array:
    entropies: Array = -(people * np.log(np.maximum(predicted, TINY))).sum(axis=1)
    return entropies


def _jensen_shannon(people: Array, predicted: Array) -> Array:
    middle = (people + predicted) / 2
    divergence = (
        _cross_entropies((people + predicted) / 2, middle)
        - (_cross_entropies(people, people) + _cross_entropies(predicted, predicted)) / 2
    )
    distances: Array = np.sqrt(np.clip(divergence / np.log(2), 0.0, 1.0))
    return distances


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None
