"""How two series of numbers go together: people, judges, scorers and automatic metrics of the same responses. Pure.

Intervals are 95% percentile bootstraps over prompts, because responses to one prompt are alike. Fisher's interval,
which published tables print, stands beside them: it takes responses for independent. Shapes: N responses, V different
values, B draws (the data first), M models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from annotation.core.correlation import find_fisher_bounds
from scoring.domain.evaluation import draw_groups, percentile_statistic

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Figures = dict[str, Any]

RESAMPLES = 1000
MAX_CELLS = 25_000_000
"""So many pairs of responses are held at a time."""
KENDALL = {"variance": 0.437, "lost": 4}
MIN_MODELS = 8
"""Below so many models Spearman's coefficient has no interval: with five it held in 74% of draws and promised 95."""
NAMES = ("pearson", "spearman", "kendall", "quadratic_kappa_observed")


def correlate_responses(
    first: Sequence[float],
    second: Sequence[float],
    prompts: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Figures:
    """Pearson's r, Spearman's rho, Kendall's tau-b and quadratic kappa of two series (N,) of the same responses.

    Kappa weighs by the ranks of the values that occur in either series. Undefined is None.
    """
    columns = np.array(first, dtype=np.float64), np.array(second, dtype=np.float64)
    _names, at = np.unique(np.array(prompts), return_inverse=True)
    groups = int(at.max(initial=-1)) + 1
    weights = draw_groups(groups, resamples=resamples, seed=seed).astype(np.float64).T[:, at]
    drawn = {
        "pearson": _correlate(weights, *columns),
        "spearman": _correlate_ranks(weights, *columns),
        "kendall": _measure_tau(weights, *columns),
        "quadratic_kappa_observed": _measure_kappa(weights, *columns),
    }
    return _build_figures(drawn, len(columns[0]), groups)


def correlate_models(
    first: Sequence[float],
    second: Sequence[float],
    prompts: Sequence[str],
    models: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Figures:
    """The same of the models' means of the two series; a draw of prompts has its own means. Without kappa."""
    _names, at = np.unique(np.array(prompts), return_inverse=True)
    names, model = np.unique(np.array(models), return_inverse=True)
    groups = int(at.max(initial=-1)) + 1
    weights = draw_groups(groups, resamples=resamples, seed=seed).astype(np.float64).T[:, at]
    is_of = (model[:, None] == np.arange(len(names))).astype(np.float64)
    totals = weights @ is_of
    means = [
        _divide(weights @ (np.array(series, dtype=np.float64)[:, None] * is_of), totals)
        for series in (first, second)
    ]
    # A draw without a response of some model compares the others.
    ones = np.isfinite(means[0]).astype(np.float64)
    series = [np.nan_to_num(column) for column in means]
    drawn = {
        "pearson": _correlate(ones, *series),
        "spearman": _correlate(ones, *(_rank_rows(ones, column) for column in series)),
        "kendall": np.array(
            [_measure_tau(row[None], *pair)[0] for row, *pair in zip(ones, *series, strict=True)],
            dtype=np.float64,
        ),
    }
    return _build_figures(drawn, len(names), groups)


def _build_figures(drawn: dict[str, Floats], n: int, prompts: int) -> Figures:
    figures: Figures = {"n": n, "prompts": prompts}
    for name, values in drawn.items():
        statistic: dict[str, float | None] = dict(percentile_statistic(values, prompts))
        if name != "quadratic_kappa_observed":
            value = statistic["value"]
            options = KENDALL if name == "kendall" else {}
            bounds = None if value is None else find_fisher_bounds(value, n, **options)  # type: ignore[arg-type]
            statistic["fisher_low"], statistic["fisher_high"] = bounds or (None, None)
        figures[name] = statistic
    return figures


def _correlate(weights: Floats, first: Floats, second: Floats) -> Floats:
    """(B,): Pearson's correlation with weights (B, N) of series (N,) or (B, N); NaN where one does not vary."""
    n = weights.sum(axis=1, keepdims=True)
    deviations = [
        series - _divide((weights * series).sum(axis=1, keepdims=True), n) for series in (first, second)
    ]
    products = (weights * deviations[0] * deviations[1]).sum(axis=1)
    spreads = [(weights * np.square(series)).sum(axis=1) for series in deviations]
    scale = np.sqrt(spreads[0] * spreads[1])
    return _divide(products, np.where(scale > 1e-12 * np.maximum(1, n[:, 0]), scale, np.nan))


def _correlate_ranks(weights: Floats, first: Floats, second: Floats) -> Floats:
    return _correlate(weights, _midranks(weights, first), _midranks(weights, second))


def _midranks(weights: Floats, series: Floats) -> Floats:
    """(B, N): the mid-rank of each value of the series (N,) in each draw, less a half."""
    values, place = np.unique(series, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(values)))
    counts = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks: Floats = (np.cumsum(counts, axis=1) - counts / 2)[:, place]
    return ranks


def _rank_rows(weights: Floats, series: Floats) -> Floats:
    """(B, M): the mid-ranks within each row of what weighs 1."""
    smaller = (series[:, None, :] < series[:, :, None]) * weights[:, None, :]
    equal = (series[:, None, :] == series[:, :, None]) * weights[:, None, :]
    ranks: Floats = smaller.sum(axis=2) + equal.sum(axis=2) / 2
    return ranks


def _measure_tau(weights: Floats, first: Floats, second: Floats) -> Floats:
    """(B,): tau-b (Kendall 1945), in pieces of responses, so that not all pairs are held at once."""
    size = max(1, MAX_CELLS // max(1, len(first)))
    excess = np.zeros(len(weights))
    for start in range(0, len(first), size):
        part = slice(start, start + size)
        signs = [np.sign(series[part, None] - series[None, :]) for series in (first, second)]
        excess += ((weights[:, part] @ (signs[0] * signs[1])) * weights).sum(axis=1)
    return _divide(excess, np.sqrt(_count_differing(weights, first) * _count_differing(weights, second)))


def _count_differing(weights: Floats, series: Floats) -> Floats:
    """(B,): the ordered pairs of responses that differ in the series."""
    values, place = np.unique(series, return_inverse=True)
    totals = weights @ (place[:, None] == np.arange(len(values))).astype(np.float64)
    differing: Floats = weights.sum(axis=1) ** 2 - np.square(totals).sum(axis=1)
    return differing


def _measure_kappa(weights: Floats, first: Floats, second: Floats) -> Floats:
    """(B,): Cohen's kappa (1968) with squared distances between the ranks of the values that occur in either."""
    _values, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    places = place[: len(first)].astype(np.float64), place[len(first) :].astype(np.float64)
    n = weights.sum(axis=1)
    observed = weights @ np.square(places[0] - places[1])
    means = [_divide(weights @ series, n) for series in places]
    squares = [_divide(weights @ np.square(series), n) for series in places]
    expected = n * (squares[0] + squares[1] - 2 * means[0] * means[1])
    return 1 - _divide(observed, np.where(expected > 1e-9, expected, np.nan))


def _divide(part: Floats, total: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: Floats = np.asarray(part / total)
    return ratio


def correlate_numbers(
    first: Mapping[str, float], second: Mapping[str, float], *, min_models: int = 2
) -> dict[str, Any]:
    """Spearman's coefficient over the models that have both numbers (undefined below ``min_models``, and where either
    number is the same for all), with the interval of D. G. Bonett and T. A. Wright (*Psychometrika* 65, 2000:
    23-28), which takes them for a sample of models; None where there are fewer than ``MIN_MODELS``, or where all are in
    the same order, which is no certainty.
    """
    models = sorted(first.keys() & second.keys())
    value = None
    if len(models) >= min_models:
        value = _compute_spearman([first[model] for model in models], [second[model] for model in models])
    bounds = None
    if value is not None and len(models) >= MIN_MODELS and abs(value) < 1 - 1e-9:
        bounds = find_fisher_bounds(value, len(models), variance=1 + value**2 / 2)
    low, high = bounds or (None, None)
    return {"n": len(models), "spearman": {"value": value, "low": low, "high": high}}


def _compute_spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    if len(first) < 2:
        return None
    ranks = [_rank_series(series) for series in (first, second)]
    deviations = [series - series.mean() for series in ranks]
    scale = math.sqrt(float((deviations[0] ** 2).sum() * (deviations[1] ** 2).sum()))
    return float((deviations[0] * deviations[1]).sum()) / scale if scale > 0 else None


def _rank_series(series: Sequence[float]) -> Floats:
    numbers = np.array(series, dtype=np.float64)
    smaller = (numbers[None, :] < numbers[:, None]).sum(axis=1)
    equal = (numbers[None, :] == numbers[:, None]).sum(axis=1)
    return np.asarray(smaller + (equal + 1) / 2, dtype=np.float64)
