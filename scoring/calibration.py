"""Probabilities that mean what they say: temperatures, weights of an average, reliability. Pure numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BINS = 10
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.2, 10.0
MIN_LABELS = 20
"""Fewer held-out labels than this fit no temperature: it would follow their luck."""
TINY = 1e-12


def log_loss(logs: Array, targets: Integers) -> float:
    """The mean negative log probability of what was right; ``logs`` (n, levels) are log probabilities."""
    return float(-np.maximum(logs[np.arange(len(targets)), targets], np.log(TINY)).mean())


def apply_temperature(logs: Array, temperature: float) -> Array:
    """Log probabilities divided by the temperature, and normalised again."""
    raised = logs / temperature
    raised = raised - raised.max(axis=1, keepdims=True)
    result: Array = raised - np.log(np.exp(raised).sum(axis=1, keepdims=True))
    return result


def fit_temperature(logs: Array, targets: Integers) -> float:
    """The temperature of least log loss (Guo et al. 2017); 1 where too little is held out to tell."""
    if len(targets) < MIN_LABELS:
        return 1.0
    best = _find_minimum(
        lambda x: log_loss(apply_temperature(logs, float(np.exp(x))), targets),
        np.log(MIN_TEMPERATURE),
        np.log(MAX_TEMPERATURE),
    )
    return round(float(np.exp(best)), 4)


def _find_minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function of one minimum has it: golden sections."""
    ratio = (np.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = function(a), function(b)
    for _step in range(40):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = function(b)
    return (low + high) / 2


def average(members: Sequence[Array], weights: Sequence[float]) -> Array:
    """Log probabilities of the weighted average of the members' probabilities."""
    mixed = sum((w * np.exp(member) for w, member in zip(weights, members, strict=True)), np.zeros(1))
    result: Array = np.log(np.maximum(mixed, TINY))
    return result


def fit_weights(members: Sequence[Array], targets: Integers, importance: Array | None = None) -> list[float]:
    """Weights, each 0 or more and 1 together, of the average with the least log loss.

    By expectation maximisation, as for a mixture whose parts are fixed: log loss is convex in the weights.
    ``importance`` is how much each row counts.
    """
    if not len(targets):
        return [1 / len(members)] * len(members)
    right = np.column_stack([np.exp(member[np.arange(len(targets)), targets]) for member in members]) + TINY
    counts = np.ones(len(targets)) if importance is None else importance
    weights = np.full(len(members), 1 / len(members))
    for _step in range(500):
        share = weights * right
        weights = (counts[:, None] * share / share.sum(axis=1, keepdims=True)).sum(axis=0) / counts.sum()
    large_weights = np.where(weights < 0.01, 0, weights)
    rounded = np.round(large_weights / large_weights.sum(), 4)
    return [float(weight) for weight in rounded / rounded.sum()]


@dataclass(frozen=True)
class ReliabilityBin:
    """Predictions whose confidence lies from ``low`` to below ``high`` (the last bin includes 1)."""

    low: float
    high: float
    n: int
    confidence: float | None
    """Their mean; None where there are none, as ``accuracy``."""
    accuracy: float | None


def reliability(confidence: Array, correct: npt.NDArray[np.bool_], bins: int = BINS) -> list[ReliabilityBin]:
    """What a reliability diagram shows: bins of equal width over 0 to 1."""
    at = np.minimum((confidence * bins).astype(int), bins - 1)
    n = np.bincount(at, minlength=bins)
    sums = (
        np.bincount(at, weights=confidence, minlength=bins),
        np.bincount(at, weights=correct, minlength=bins),
    )
    return [
        ReliabilityBin(
            i / bins, (i + 1) / bins, int(n[i]), *(float(s[i] / n[i]) if n[i] else None for s in sums)
        )
        for i in range(bins)
    ]
