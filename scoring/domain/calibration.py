"""Probabilities that mean what they say: at the rate of the data, and as sure as they are right. Pure numpy and scipy.

A head that learned with its levels weighed says each level as often as the weights make it, not as often as it is. A
calibration undoes that on predictions out of fold: q(k) is proportional to p(k) ** (1 / temperature) * exp(offset(k)).
Two ways are fitted, and compared by their log loss on folds that they were not fitted on:

- ``rates``: one number, the temperature. The offset turns the share that level k had as it was learned into its rate in
  the data (Elkan 2001, "The Foundations of Cost-Sensitive Learning"; Saerens, Latinne and Decaestecker 2002), and is
  then moved until the mean probabilities are at the rates. The slope, 1 / temperature, is shrunk by its own doubt
  (James and Stein 1961, the positive part): where nothing was learned it is near 0, and what is left are the rates.
- ``levels``: an offset for each level too, of most likelihood (a scaling of logits with a common slope, Guo et al.
  2017), held near the first's by a ridge, as is the slope.

Of the two the one with the less log loss is taken.

Sets of levels that hold the true one as often as promised.

Least ambiguous sets (Sadinle, Lei and Wasserman 2019, "Least Ambiguous Set-Valued Classifiers With Bounded Error
Levels"): a level is in the set if its probability is at least a threshold. The threshold comes from the probabilities
that labelled responses' true levels were given by a model that had not seen them: of n of them, the k-th largest with
k = ceil((n + 1) * coverage). A further response of the same population then has its true level in its set with at
least that probability, on average over the draws of the n (split conformal prediction).

What is promised, and what not:

- Responses like those that are labelled: other prompts of the kind, answered by the models that have labels. For a
  model without labels of its own **nothing is promised**; its drift check says how different it is.
- On average over responses, not for each level, model or prompt by itself.
- The thresholds are taken of the folds' models and used with the one that learned from all of them; that the promise
  carries over is exact only if they are equally good (cross-conformal prediction, Vovk 2015; Barber et al. 2021 show
  that at worst twice the errors are possible). Responses to one prompt depend on each other, which leaves the average
  coverage as it is, and makes it vary more from one release to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from annotation.core.errors import N_
from scoring.domain.tables import NO_LABEL, PredictionTable, tabulate_labels
from scoring.domain.training_data import Distribution, Example, Head, Prediction, Value

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BINS = 10
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.2, 100.0
MIN_LABELS = 20
"""Fewer held-out labels than this fit no temperature: it would follow their luck."""
TINY = 1e-12
IMPOSSIBLE = 1e-11
"""A level that no more than this is said of was not learned at all."""
RIDGE = 2.0
"""How many squared units of offset or slope one nat over all labels is worth: it holds ``levels`` near ``rates``."""
NEWTON_STEPS = 50
MATCHING_STEPS = 20
MATCHED = 1e-9
"""Offsets that move no more than this are at the rates."""

Method = Literal["rates", "levels"]
Fit = tuple[float, Array]
"""A temperature, and an offset for each level."""


def log_loss(logs: Array, targets: Integers) -> float:
    """The mean negative log probability of what was right; ``logs`` (n, levels) are log probabilities."""
    return float(-np.maximum(logs[np.arange(len(targets)), targets], np.log(TINY)).mean())


@dataclass(frozen=True)
class Calibration:
    """``offsets``, one for each level of the scale, are added after the division by the temperature."""

    temperature: float
    offsets: tuple[float, ...]
    method: Method = "rates"
    losses: Mapping[Method, float] = field(default_factory=dict)
    """Log loss of each way on folds that it was not fitted on; empty where too little is held out to tell."""

    def apply(self, logs: Array) -> Array:
        """Calibrated log probabilities of (n, levels); what was impossible stays so."""
        return _apply_offsets(logs, 1 / self.temperature, np.array(self.offsets))


def _apply_offsets(logs: Array, slope: float, offsets: Array) -> Array:
    shares = _split_levels(logs).calibrate(slope, offsets)
    result: Array = np.maximum(shares, np.log(TINY)).T
    return result


@dataclass(frozen=True)
class _LevelLogs:
    """Log probabilities (levels, n), a level after another: a scale has few of them, and each is one run of memory.
    What is impossible is minus infinity."""

    logs: Array

    def score(self, slope: float, offsets: Array) -> Array:
        scores = slope * self.logs + offsets[:, None]
        scores -= scores.max(axis=0)
        return scores

    def calibrate(self, slope: float, offsets: Array) -> Array:
        scores = self.score(slope, offsets)
        scores -= np.log(np.exp(scores).sum(axis=0))
        return scores

    def compute_loss(self, slope: float, offsets: Array, targets: Integers) -> float:
        """What ``log_loss`` gives of these, calibrated."""
        scores = self.score(slope, offsets)
        right = scores[targets, np.arange(len(targets))] - np.log(np.exp(scores).sum(axis=0))
        return float(-np.maximum(right, np.log(TINY)).mean())


def _split_levels(logs: Array) -> _LevelLogs:
    columns = np.ascontiguousarray(logs.T)
    return _LevelLogs(np.where(columns > np.log(IMPOSSIBLE), columns, -np.inf))


def compute_rate_offsets(learned_shares: Array, rates: Array, temperature: float) -> Array:
    """(levels,): log(rate) - log(share as it was learned) / temperature, about 0; 0 for a level without a label."""
    seen = (rates > 0) & (learned_shares > 0)
    offsets = np.zeros(len(rates))
    offsets[seen] = np.log(rates[seen]) - np.log(learned_shares[seen]) / temperature
    return _centre(offsets, seen)


def fit_calibration(
    logs: Array, targets: Integers, folds: Integers, *, learned_shares: Array, rates: Array, copies: int = 1
) -> Calibration:
    """Of log probabilities out of fold (n, levels), the places of what is right, and the fold of each row.

    ``learned_shares`` (levels,) are the levels' shares as they were weighed in learning, ``rates`` those in the data.
    Fewer than ``MIN_LABELS`` responses fit nothing: the weights are undone and no more. ``copies`` is how many rows
    stand for one response, of which people said several levels.
    """
    if len(targets) < MIN_LABELS * copies:
        return Calibration(1.0, _round(compute_rate_offsets(learned_shares, rates, 1.0)))

    def fit(x: Array, y: Integers) -> dict[Method, Fit]:
        level_logs = _split_levels(x)
        by_rates = _fit_rates(level_logs, y, learned_shares, rates, copies)
        return {"rates": by_rates, "levels": _fit_levels(level_logs, y, by_rates, copies)}

    losses = _cross_fit(fit, logs, targets, folds)
    method: Method = "levels" if losses["levels"].mean() < losses["rates"].mean() else "rates"
    temperature, offsets = fit(logs, targets)[method]
    rounded: dict[Method, float] = {name: round(float(loss.mean()), 5) for name, loss in losses.items()}
    return Calibration(round(temperature, 4), _round(offsets), method, rounded)


def _round(offsets: Array) -> tuple[float, ...]:
    return tuple(round(float(offset), 4) for offset in offsets)


def _cross_fit(
    fit: Callable[[Array, Integers], dict[Method, Fit]], logs: Array, targets: Integers, folds: Integers
) -> dict[Method, Array]:
    """By method (n,): the log loss of each row by what was fitted on the other folds; of one fold alone by itself."""
    names = np.unique(folds)
    losses: dict[Method, Array] = {}
    for name in names:
        held = folds == name
        learned = ~held if len(names) > 1 else held
        for method, (temperature, offsets) in fit(logs[learned], targets[learned]).items():
            calibrated = _apply_offsets(logs[held], 1 / temperature, offsets)
            of_method = losses.setdefault(method, np.zeros(len(targets)))
            of_method[held] = -calibrated[np.arange(held.sum()), targets[held]]
    return losses


def _fit_rates(
    level_logs: _LevelLogs, targets: Integers, learned_shares: Array, rates: Array, copies: int
) -> Fit:
    def loss(slope: float) -> float:
        offsets = compute_rate_offsets(learned_shares, rates, 1 / slope)
        return level_logs.compute_loss(slope, offsets, targets)

    best = _find_minimum(lambda x: loss(float(np.exp(-x))), np.log(MIN_TEMPERATURE), np.log(MAX_TEMPERATURE))
    slope = _shrink_slope(loss, float(np.exp(-best)), len(targets) / copies)
    offsets = compute_rate_offsets(learned_shares, rates, 1 / slope)
    return 1 / slope, _match_rates(level_logs, slope, offsets, rates)


def _shrink_slope(loss: Callable[[float], float], slope: float, n: float) -> float:
    """slope * (1 - (standard error / slope) ** 2), no less than the least: the error is from the loss's curvature."""
    step = 0.05 * slope
    curvature = (loss(slope + step) - 2 * loss(slope) + loss(slope - step)) / step**2
    doubt = 1 / max(n * curvature * slope**2, TINY)
    return max(slope * (1 - doubt), 1 / MAX_TEMPERATURE)


def _match_rates(level_logs: _LevelLogs, slope: float, offsets: Array, rates: Array) -> Array:
    """The offsets with which the mean probabilities are at the rates, by proportional fitting.

    The mean of a level is over the rows in which it is possible.
    """
    rows = np.isfinite(level_logs.logs).sum(axis=1)
    seen = (rates > 0) & (rows > 0)
    matched = offsets.copy()
    for _step in range(MATCHING_STEPS):
        mean = np.exp(level_logs.calibrate(slope, matched)).sum(axis=1)[seen] / rows[seen]
        change = np.log(rates[seen]) - np.log(mean)
        matched[seen] += change
        if np.abs(change).max(initial=0.0) < MATCHED:
            break
    return _centre(matched, seen)


def _centre(offsets: Array, seen: npt.NDArray[np.bool_]) -> Array:
    """About 0 over the levels that were seen: a constant in all of them changes no probability."""
    centred: Array = np.where(seen, offsets - offsets[seen].sum() / max(seen.sum(), 1), offsets)
    return centred


def _fit_levels(level_logs: _LevelLogs, targets: Integers, by_rates: Fit, copies: int) -> Fit:
    """Newton's method from the solution of ``rates``, whose offsets the ridge holds it to; the loss is convex."""
    temperature, start = by_rates
    ridge = RIDGE / copies
    bounded = np.where(np.isfinite(level_logs.logs), level_logs.logs, 0.0)
    right = np.zeros_like(bounded)
    right[targets, np.arange(len(targets))] = 1.0
    centre = np.append(start, 1 / temperature)
    at = centre.copy()

    def compute_loss(parameters: Array) -> float:
        loss = level_logs.compute_loss(float(parameters[-1]), parameters[:-1], targets)
        return len(targets) * loss + float(((parameters - centre) ** 2).sum()) / ridge

    best = compute_loss(at)
    for _step in range(NEWTON_STEPS):
        shares = np.exp(level_logs.calibrate(float(at[-1]), at[:-1]))
        gap = shares - right
        weighted = shares * bounded
        mean = weighted.sum(axis=0)
        gradient = np.append(gap.sum(axis=1), (gap * bounded).sum()) + 2 * (at - centre) / ridge
        hessian = np.zeros((len(at), len(at)))
        hessian[:-1, :-1] = np.diag(shares.sum(axis=1)) - shares @ shares.T
        hessian[:-1, -1] = hessian[-1, :-1] = (weighted - shares * mean).sum(axis=1)
        hessian[-1, -1] = (weighted * bounded).sum() - (mean**2).sum()
        hessian += np.eye(len(at)) * 2 / ridge
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > TINY and (lower := compute_loss(_bound_slope(at - size * step))) > best:
            size /= 2
        if size <= TINY or best - lower < 1e-9:
            break
        at, best = _bound_slope(at - size * step), lower
    return float(1 / at[-1]), at[:-1]


def _bound_slope(parameters: Array) -> Array:
    bounded = parameters.copy()
    bounded[-1] = min(max(bounded[-1], 1 / MAX_TEMPERATURE), 1 / MIN_TEMPERATURE)
    return bounded


def _find_minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function of one minimum has it (Brent 1973)."""
    from scipy.optimize import minimize_scalar

    minimum = minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": 1e-8})
    return float(minimum.x)


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


PROMISE = N_(
    "For responses like those that are labelled, a set holds the true level as often as its coverage says, on average. "
    "For a model without labels of its own nothing is promised."
)
COVERAGES = (0.8, 0.9, 0.95)
DEFAULT_COVERAGE = 0.9
NO_THRESHOLD = 0.0
"""The threshold under which no level falls: what too few labels leave."""
ROUNDING = 1e-9
"""A probability that was written down and read again is still at its threshold."""


def coverage_name(coverage: float) -> str:
    """0.8 is ``"0.8"`` on a card."""
    return f"{coverage:g}"


def true_probabilities(examples: Sequence[Example], predictions: Sequence[Prediction], head: Head) -> Array:
    """What each labelled and predicted response's true level was given."""
    return _list_true(examples, PredictionTable.collect(predictions, [head]))[0][1]


def _list_true(examples: Sequence[Example], predictions: PredictionTable) -> list[tuple[Array, Array]]:
    """By head, the distributions (n, levels) of the labelled and predicted responses, and what the true level was
    given."""
    labels = tabulate_labels((example.labels for example in examples), predictions.heads)
    pairs = []
    for column, head in enumerate(predictions.heads):
        rows = np.flatnonzero((labels[:, column] != NO_LABEL) & predictions.is_predicted(head))
        distributions = predictions.select(head)[rows]
        pairs.append((distributions, distributions[np.arange(len(rows)), labels[rows, column]]))
    return pairs


def compute_threshold(probabilities: Array, coverage: float) -> float:
    """The probability from which on a level belongs to the set; ``EVERYTHING`` where n is too small to promise."""
    n = len(probabilities)
    k = math.ceil((n + 1) * coverage - ROUNDING)
    return float(np.sort(probabilities)[n - k]) if k <= n else NO_THRESHOLD


def compute_thresholds(
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    heads: Sequence[Head],
    *,
    coverages: Sequence[float] = COVERAGES,
) -> dict[str, dict[str, Any]]:
    """For a card, by criterion, of predictions out of fold.

    ``{"n", "coverages": {"0.9": {"threshold", "covered", "single", "mean_size"}}}``: on these very responses, the
    share whose set holds the true level, the share whose set is one level, and the mean number of levels in a set.
    """
    by_criterion: dict[str, dict[str, Any]] = {}
    by_head = _list_true(examples, PredictionTable.collect(predictions, heads))
    for head, (distributions, true) in zip(heads, by_head, strict=True):
        if len(true):
            by_criterion[head.criterion] = {
                "n": len(true),
                "coverages": {
                    coverage_name(coverage): _shares(distributions, true, compute_threshold(true, coverage))
                    for coverage in coverages
                },
            }
    return by_criterion


def _shares(distributions: Array, true: Array, min_probability: float) -> dict[str, float]:
    sizes = (distributions >= min_probability - ROUNDING).sum(axis=1)
    return {
        "threshold": min_probability,
        "covered": float((true >= min_probability - ROUNDING).mean()),
        "single": float((sizes == 1).mean()),
        "mean_size": float(sizes.mean()),
    }


def level_set(distribution: Distribution, min_probability: float) -> tuple[Value, ...]:
    """The levels that may be the true one, in the order of the scale; none where no level is likely enough."""
    return tuple(value for value, p in distribution.items() if p >= min_probability - ROUNDING)


def abstains(distribution: Distribution, min_probability: float) -> bool:
    """Is this one for people? It is if its set is not a single level."""
    return len(level_set(distribution, min_probability)) != 1


def find_card_threshold(
    card: Mapping[str, Any], criterion: str, coverage: float = DEFAULT_COVERAGE
) -> float | None:
    """The threshold that a scorer's card holds; None where it has none for the criterion or the coverage."""
    criterion_figures = card.get("conformal", {}).get("criteria", {}).get(criterion, {})
    figures = criterion_figures.get("coverages", {}).get(coverage_name(coverage))
    return None if figures is None else float(figures["threshold"])
