"""How much of a figure is the luck of the deal: the same evaluation with other folds and another seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scoring.evaluation.figures import Metrics

SEED_METRICS = ("accuracy", "within_one", "macro_f1", "calibration_error")


def compare_seeds(measured: Mapping[int, Metrics]) -> dict[str, Any]:
    """``{"seeds": [{"seed", "n", "accuracy", ..}], "spread": {"accuracy": {"mean", "sd", "low", "high"}, ..}}``.

    ``low`` and ``high`` are the least and the largest; ``sd`` is the sample's standard deviation, null of one seed.
    """
    rows = [
        {"seed": seed, "n": metrics["n"], **{name: _value(metrics[name]) for name in SEED_METRICS}}
        for seed, metrics in measured.items()
    ]
    return {"seeds": rows, "spread": {name: _spread([row[name] for row in rows]) for name in SEED_METRICS}}


def _value(figure: Any) -> float | None:
    value: float | None = figure["value"] if isinstance(figure, Mapping) else figure
    return value


def _spread(values: Sequence[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    if not known:
        return {"mean": None, "sd": None, "low": None, "high": None}
    return {
        "mean": float(np.mean(known)),
        "sd": float(np.std(known, ddof=1)) if len(known) > 1 else None,
        "low": min(known),
        "high": max(known),
    }
