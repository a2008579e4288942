"""Does a scorer know what it does not know? How its confidence agrees with being right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from scoring import calibration
from scoring.evaluation.outcomes import Array, Draws, Outcomes

COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.5)


def expected_calibration_error(head_outcomes: Sequence[Outcomes]) -> float | None:
    """Guo et al. 2017: sum over bins of equal width of |share correct - mean confidence| * the bin's share."""
    gaps = [
        (reliability_bin["n"], abs(reliability_bin["accuracy"] - reliability_bin["confidence"]))
        for reliability_bin in reliability(head_outcomes)
        if reliability_bin["n"]
    ]
    return sum(n * gap for n, gap in gaps) / sum(n for n, _gap in gaps) if gaps else None


def reliability(head_outcomes: Sequence[Outcomes]) -> list[dict[str, Any]]:
    """The bins behind that error: ``low`` to ``high``, ``n``, mean ``confidence`` and ``accuracy``; null if empty."""
    confidence, correct = _pool_confidence(head_outcomes)
    return [asdict(reliability_bin) for reliability_bin in calibration.reliability(confidence, correct > 0)]


def risk_coverage(head_outcomes: Sequence[Outcomes], draws: Draws) -> list[dict[str, Any]]:
    """Answering only where it is most sure: ``accuracy`` at each ``coverage``.

    All that are as sure as the last one needed are answered too, so ``answered``, the share, may be larger.
    ``threshold`` is the least confidence answered; the interval takes it as given.
    """
    confidence, _correct = _pool_confidence(head_outcomes)
    if not len(confidence):
        return []
    falling = -np.sort(-confidence)
    curve = []
    for coverage in COVERAGES:
        min_confidence = falling[max(0, int(np.ceil(coverage * len(falling) - 1e-9)) - 1)]
        confident = [_select_confident(each, min_confidence) for each in head_outcomes]
        curve.append(
            {
                "coverage": coverage,
                "answered": float((confidence >= min_confidence).mean()),
                "threshold": float(min_confidence),
                "n": int((confidence >= min_confidence).sum()),
                "accuracy": draws.mean_of_hits(
                    confident, [each.correct.astype(np.float64) for each in confident]
                ),
            }
        )
    return curve


def _select_confident(outcomes: Outcomes, min_confidence: float) -> Outcomes:
    selected = outcomes.confidence >= min_confidence
    return Outcomes(
        outcomes.head,
        outcomes.row[selected],
        outcomes.truth[selected],
        outcomes.predicted[selected],
        outcomes.confidence[selected],
    )


def _pool_confidence(head_outcomes: Sequence[Outcomes]) -> tuple[Array, Array]:
    """Confidence, and 1.0 where it was right, of all heads one after another."""
    confidence = np.concatenate([each.confidence for each in head_outcomes] or [np.zeros(0)])
    correct = np.concatenate([each.correct.astype(np.float64) for each in head_outcomes] or [np.zeros(0)])
    return confidence, correct
