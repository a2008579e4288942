"""Does a scorer know what it does not know? How its confidence agrees with being right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from scoring import calibration
from scoring.evaluation.outcomes import Array, Draws, Outcomes

COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.5)


def expected_calibration_error(found: Sequence[Outcomes]) -> float | None:
    """Guo et al. 2017: sum over bins of equal width of |share correct - mean confidence| * the bin's share."""
    gaps = [(one["n"], abs(one["accuracy"] - one["confidence"])) for one in reliability(found) if one["n"]]
    return sum(n * gap for n, gap in gaps) / sum(n for n, _gap in gaps) if gaps else None


def reliability(found: Sequence[Outcomes]) -> list[dict[str, Any]]:
    """The bins behind that error: ``low`` to ``high``, ``n``, mean ``confidence`` and ``accuracy``; null if empty."""
    confidence, correct = _pooled(found)
    return [asdict(one) for one in calibration.reliability(confidence, correct > 0)]


def risk_coverage(found: Sequence[Outcomes], draws: Draws) -> list[dict[str, Any]]:
    """Answering only where it is most sure: ``accuracy`` at each ``coverage``.

    All that are as sure as the last one needed are answered too, so ``answered``, the share, may be larger.
    ``threshold`` is the least confidence answered; the interval takes it as given.
    """
    confidence, _correct = _pooled(found)
    if not len(confidence):
        return []
    falling = -np.sort(-confidence)
    curve = []
    for coverage in COVERAGES:
        least = falling[max(0, int(np.ceil(coverage * len(falling) - 1e-9)) - 1)]
        kept = [_at_least(each, least) for each in found]
        curve.append(
            {
                "coverage": coverage,
                "answered": float((confidence >= least).mean()),
                "threshold": float(least),
                "n": int((confidence >= least).sum()),
                "accuracy": draws.shares(kept, [each.correct.astype(np.float64) for each in kept]),
            }
        )
    return curve


def _at_least(found: Outcomes, least: float) -> Outcomes:
    kept = found.confidence >= least
    return Outcomes(
        found.head, found.row[kept], found.truth[kept], found.predicted[kept], found.confidence[kept]
    )


def _pooled(found: Sequence[Outcomes]) -> tuple[Array, Array]:
    """Confidence, and 1.0 where it was right, of all heads one after another."""
    confidence = np.concatenate([each.confidence for each in found] or [np.zeros(0)])
    correct = np.concatenate([each.correct.astype(np.float64) for each in found] or [np.zeros(0)])
    return confidence, correct
