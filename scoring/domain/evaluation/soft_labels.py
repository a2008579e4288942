"""How near predictions come to what people said, where they said different things. Pure.

The distribution of a response is the share of its annotators that gave each level; an adjudicator is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scoring.domain.calibration import TINY, Array
from scoring.domain.training_data import Distribution, Head, Prediction, Value

LABEL, DISTRIBUTION = "label", "distribution"
TARGETS = (LABEL, DISTRIBUTION)


def share_levels(
    annotator_labels: Sequence[Mapping[str, Value]], heads: Sequence[Head]
) -> dict[str, Distribution]:
    """By criterion that anybody answered, the share of those who did that gave each level of its scale."""
    shares = {}
    for head in heads:
        values = [labels[head.criterion] for labels in annotator_labels if head.criterion in labels]
        if values:
            shares[head.criterion] = {level: values.count(level) / len(values) for level in head.values}
    return shares


def measure_soft_labels(
    predictions: Sequence[Prediction], annotated: Sequence[Mapping[str, Distribution]], heads: Sequence[Head]
) -> dict[str, dict[str, Any]]:
    """By criterion, over the ``n`` responses that are predicted and that people labelled, means of

    - ``cross_entropy``: -sum(share * log(predicted)) in nats; ``entropy`` is the least that it can be;
    - ``jensen_shannon``: the distance, the root of the divergence in bits (Lin 1991; Endres and Schindelin 2003), from
      0 to 1.

    Null where there is none.
    """
    figures: dict[str, dict[str, Any]] = {}
    for head in heads:
        name = head.criterion
        rows = [
            (p[name], s[name]) for p, s in zip(predictions, annotated, strict=True) if name in p and name in s
        ]
        predicted = np.array([[p[level] for level in head.values] for p, _s in rows]).reshape(
            -1, len(head.values)
        )
        people = np.array([[s[level] for level in head.values] for _p, s in rows]).reshape(
            -1, len(head.values)
        )
        figures[name] = {
            "n": len(rows),
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
