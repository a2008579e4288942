"""Does a scorer know what it does not know? How its confidence agrees with being right.

The figures of predictions against labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from scoring.domain import calibration
from scoring.domain.evaluation.outcomes import (
    RESAMPLES,
    Array,
    DrawnConfusion,
    Draws,
    Outcomes,
    Statistic,
    collect_outcomes,
    percentile_statistic,
    to_finite,
)
from scoring.domain.tables import LabelPlaces, PredictionTable, tabulate_labels
from scoring.domain.training_data import Example, Head, Prediction, level_name

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
        confident = [each.select(each.confidence >= min_confidence) for each in head_outcomes]
        curve.append(
            {
                "coverage": coverage,
                "answered": float((confidence >= min_confidence).mean()),
                "threshold": float(min_confidence),
                "n": int((confidence >= min_confidence).sum()),
                "accuracy": draws.mean_of_hits(confident, [each.correct for each in confident]),
            }
        )
    return curve


def _pool_confidence(head_outcomes: Sequence[Outcomes]) -> tuple[Array, Array]:
    """Confidence, and 1.0 where it was right, of all heads one after another."""
    confidence = np.concatenate([each.confidence for each in head_outcomes] or [np.zeros(0)])
    correct = np.concatenate([each.correct.astype(np.float64) for each in head_outcomes] or [np.zeros(0)])
    return confidence, correct


def measure_probabilities(head_outcomes: Sequence[Outcomes], draws: Draws) -> dict[str, Any]:
    """How good the probabilities are, as a whole, beside always saying the rates that were learned.

    ``log_loss`` (in nats) and ``brier`` (Brier 1950: the squared distance from what was right, summed over the levels,
    from 0 to 2), each with ``commonest_log_loss`` and ``commonest_brier`` of the rates, which always name the commonest
    level. Both are means over the ``n_learned`` labels whose level what predicted had learned: of another it can know
    nothing. ``log_loss_gain`` is what the scorer says less than the rates lose, with its interval. All undefined (None)
    where the rates are not known.
    """
    learned = [_select_learned(each) for each in head_outcomes if each.rates is not None]
    own = [_log_losses(each, each.shares) for each in learned]
    rates = [_log_losses(each, each.rates) for each in learned if each.rates is not None]
    gains = [rate - loss for rate, loss in zip(rates, own, strict=True)]
    return {
        "n_learned": sum(len(each.truth) for each in learned),
        "log_loss": _mean_of(own),
        "commonest_log_loss": _mean_of(rates),
        "log_loss_gain": draws.mean_of_hits(learned, gains) if learned else UNDEFINED_STATISTIC,
        "brier": _mean_of([_squared_distances(each, each.shares) for each in learned]),
        "commonest_brier": _mean_of(
            [_squared_distances(each, each.rates) for each in learned if each.rates is not None]
        ),
    }


UNDEFINED_STATISTIC: Statistic = {"value": None, "low": None, "high": None}


def _select_learned(outcomes: Outcomes) -> Outcomes:
    assert outcomes.rates is not None
    return outcomes.select(outcomes.rates[np.arange(len(outcomes.truth)), outcomes.truth] > 0)


def _log_losses(outcomes: Outcomes, shares: Array | None) -> Array:
    assert shares is not None
    right = shares[np.arange(len(outcomes.truth)), outcomes.truth]
    losses: Array = -np.log(np.maximum(right, calibration.TINY))
    return losses


def _squared_distances(outcomes: Outcomes, shares: Array | None) -> Array:
    assert shares is not None
    truth = np.zeros_like(shares)
    truth[np.arange(len(outcomes.truth)), outcomes.truth] = 1.0
    distances: Array = ((shares - truth) ** 2).sum(axis=1)
    return distances


def _mean_of(parts: Sequence[Array]) -> float | None:
    values = np.concatenate([*parts, np.zeros(0)])
    return float(values.mean()) if len(values) else None


def level_calibration(outcomes: Outcomes) -> dict[str, dict[str, Any]]:
    """By level: its ``rate`` among the labels, its ``mean_probability``, and the ``calibration_error`` of its
    probability in ten bins of equal width (class-wise, Kull et al. 2019). Null where nothing is labelled."""
    described = {}
    for place, value in enumerate(outcomes.head.values):
        share, truth = outcomes.shares[:, place], outcomes.truth == place
        bins = [each for each in calibration.reliability(share, truth) if each.n]
        gaps = [each.n * abs((each.accuracy or 0.0) - (each.confidence or 0.0)) for each in bins]
        described[level_name(value)] = {
            "rate": float(truth.mean()) if len(truth) else None,
            "mean_probability": float(share.mean()) if len(share) else None,
            "calibration_error": sum(gaps) / len(truth) if len(truth) else None,
        }
    return described


def list_criteria_below_rates(metrics: Mapping[str, Any]) -> list[str]:
    """The criteria of an evaluation on which the scorer's log loss is not below that of the rates, which always name
    the commonest level. None where an earlier version did not measure it."""
    return [
        name
        for name, figures in metrics.get("by_criterion", {}).items()
        if None not in {figures.get("log_loss"), figures.get("commonest_log_loss")}
        and figures["log_loss"]
        >= figures["commonest_log_loss"]
        > 0  # of one level alone there is none to beat
    ]


Metrics = dict[str, Any]


def measure(
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    heads: Sequence[Head],
    *,
    new_text: Sequence[bool] | None = None,
    rates: Sequence[Prediction] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Metrics:
    """Every figure of predictions against labels, each with its n: pooled, by criterion, by model, by kind of prompt.

    ``new_text`` says of each example that what predicted it had not learned from a response of the same normalised
    text; the figures of these alone are then under that name. ``rates`` are how often what predicted each example had
    learned each level: what log losses are compared with.
    """
    draws = Draws.draw_prompts(examples, resamples=resamples, seed=seed)
    head_outcomes = collect_outcomes(
        tabulate_labels((example.labels for example in examples), heads),
        PredictionTable.collect(predictions, heads),
        None if rates is None else PredictionTable.collect(rates, heads),
    )
    models = [example.model for example in examples]
    metrics = {
        **_measure_criteria(head_outcomes, draws),
        "by_model": _measure_groups(models, head_outcomes, draws),
        "by_kind": _measure_groups([example.kind or "" for example in examples], head_outcomes, draws),
    }
    if new_text is not None:
        keep = np.array(new_text, dtype=np.bool_)
        new_outcomes = [each.select_rows(keep) for each in head_outcomes]
        metrics["new_text"] = {
            **_measure_criteria(new_outcomes, draws),
            "by_model": _measure_groups(models, new_outcomes, draws),
        }
    return metrics


def measure_briefly(
    examples: Sequence[Example],
    labels: LabelPlaces,
    predictions: PredictionTable,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Metrics:
    """``n``, accuracy, within one level and macro-F1, pooled and by each grouping: what stands beside a scorer's own.

    ``labels`` are what is right of each example."""
    draws = Draws.draw_prompts(examples, resamples=resamples, seed=seed)
    head_outcomes = collect_outcomes(labels, predictions)
    tables = [draws.count_confusion(each) for each in head_outcomes]
    groupings = {
        "by_model": [example.model for example in examples],
        "by_kind": [example.kind or "" for example in examples],
    }
    return {
        **summarise(tables),
        "by_criterion": {table.head.criterion: summarise([table]) for table in tables},
        **{
            grouping: {
                name: summarise([draws.count_confusion(each) for each in outcomes])
                for name, outcomes in _split_outcomes(names, head_outcomes)
            }
            for grouping, names in groupings.items()
        },
    }


def draw_figures(
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    heads: Sequence[Head],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Array]:
    """(1 + resamples) values of accuracy and of macro-F1, the data first: the same draws for the same examples."""
    draws = Draws.draw_prompts(examples, resamples=resamples, seed=seed)
    labels = tabulate_labels((example.labels for example in examples), heads)
    head_outcomes = collect_outcomes(labels, PredictionTable.collect(predictions, heads))
    tables = [draws.count_confusion(each) for each in head_outcomes]
    return {
        "accuracy": _near_shares(tables, 0),
        "macro_f1": _mean_defined(np.column_stack([macro_f1(table.drawn) for table in tables])),
    }


def _measure_criteria(head_outcomes: Sequence[Outcomes], draws: Draws) -> Metrics:
    tables = [draws.count_confusion(each) for each in head_outcomes]
    return {
        **_measure_pooled(head_outcomes, tables, draws),
        "by_criterion": {
            each.head.criterion: criterion_metrics(each, table, draws)
            for each, table in zip(head_outcomes, tables, strict=True)
        },
    }


def _measure_pooled(
    head_outcomes: Sequence[Outcomes], tables: Sequence[DrawnConfusion], draws: Draws
) -> Metrics:
    return {
        **summarise(tables),
        **measure_probabilities(head_outcomes, draws),
        "calibration_error": expected_calibration_error(head_outcomes),
        "reliability": reliability(head_outcomes),
        "risk_coverage": risk_coverage(head_outcomes, draws),
    }


def _measure_groups(names: Sequence[str], head_outcomes: Sequence[Outcomes], draws: Draws) -> Metrics:
    return {
        name: {
            **summarise([draws.count_confusion(each) for each in group_outcomes]),
            "calibration_error": expected_calibration_error(group_outcomes),
        }
        for name, group_outcomes in _split_outcomes(names, head_outcomes)
    }


def _split_outcomes(
    names: Sequence[str], head_outcomes: Sequence[Outcomes]
) -> Iterator[tuple[str, list[Outcomes]]]:
    """By the name of each example, of which the empty one is nobody's and left out."""
    places = {name: place for place, name in enumerate(sorted(set(names)))}
    of_row = np.array([places[name] for name in names], np.int64)
    for name, place in places.items():
        if name:
            yield name, [each.select_rows(of_row == place) for each in head_outcomes]


def summarise(tables: Sequence[DrawnConfusion]) -> Metrics:
    """Accuracy, correct of all labels; ``within_one``, at most one level away, of the labels on ordered scales of three
    levels or more alone; macro-F1, the unweighted mean of the heads' macro-F1."""
    ordered = [
        table for table in tables if table.head.measurement != "nominal" and len(table.head.values) > 2
    ]
    macro = _mean_defined(np.column_stack([macro_f1(table.drawn) for table in tables]))
    return {
        "n": int(sum(table.counts.sum() for table in tables)),
        "accuracy": _statistic(tables, _near_shares(tables, 0)),
        "within_one": _statistic(ordered, _near_shares(ordered, 1)),
        "macro_f1": _statistic(tables, macro),
    }


def _statistic(tables: Sequence[DrawnConfusion], draws: Array) -> Statistic:
    groups = np.concatenate([table.groups for table in tables] or [np.zeros(0, np.int64)])
    return percentile_statistic(draws, len(np.unique(groups)))


def _near_shares(tables: Sequence[DrawnConfusion], distance: int) -> Array:
    """Of all labels, the share whose prediction is at most so many levels away, in each draw."""
    if not tables:
        return np.array([np.nan])
    near = np.sum([count_near(table.drawn, distance) for table in tables], axis=0)
    return _ratio(near, np.sum([table.drawn.sum(axis=(1, 2)) for table in tables], axis=0))


def count_near(drawn: Array, distance: int) -> Array:
    """(draws,): of (draws, truth, predicted) the labels that were predicted at most so many levels away."""
    levels = np.arange(drawn.shape[-1])
    near: Array = (drawn * (np.abs(levels[:, None] - levels[None, :]) <= distance)).sum(axis=(1, 2))
    return near


def f1_by_level(confusion: Array) -> Array:
    """2 TP / (2 TP + FP + FN) for (..., truth, predicted) counts; undefined where a level is in neither."""
    hits = np.diagonal(confusion, axis1=-2, axis2=-1)
    return _ratio(2 * hits, confusion.sum(axis=-1) + confusion.sum(axis=-2))


def macro_f1(confusion: Array) -> Array:
    """The unweighted mean of F1 over the levels that are labelled or predicted anywhere."""
    return _mean_defined(f1_by_level(confusion))


def _mean_defined(values: Array) -> Array:
    """Means along the last axis of what is not NaN; NaN where nothing is."""
    known = ~np.isnan(values)
    return _ratio(np.where(known, values, 0).sum(axis=-1), known.sum(axis=-1))


def _ratio(part: Array, total: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: Array = part / total
    return ratio


def criterion_metrics(outcomes: Outcomes, table: DrawnConfusion, draws: Draws) -> Metrics:
    by_level = level_calibration(outcomes)
    errors = [
        level["calibration_error"] for level in by_level.values() if level["calibration_error"] is not None
    ]
    kappa = _statistic([table], quadratic_kappas(table.drawn, outcomes.head))
    return {
        **_measure_pooled([outcomes], [table], draws),
        "quadratic_kappa": kappa["value"],
        "intervals": {"quadratic_kappa": [kappa["low"], kappa["high"]]},
        "confusion": {
            "levels": list(outcomes.head.values),
            "counts": table.counts.astype(int).tolist(),
        },
        "levels": level_metrics(table),
        "level_calibration": by_level,
        "classwise_calibration_error": sum(errors) / len(errors) if errors else None,
    }


def level_metrics(table: DrawnConfusion) -> Metrics:
    """By level: ``n`` labelled so, ``predicted`` so, precision, recall, F1, and the ``intervals`` of these."""
    hits = np.diagonal(table.drawn, axis1=-2, axis2=-1)
    drawn = {
        "precision": _ratio(hits, table.drawn.sum(axis=-2)),
        "recall": _ratio(hits, table.drawn.sum(axis=-1)),
        "f1": f1_by_level(table.drawn),
    }
    metrics: Metrics = {}
    for i, value in enumerate(table.head.values):
        statistics = {name: _statistic([table], each[:, i]) for name, each in drawn.items()}
        metrics[level_name(value)] = {
            "n": int(table.counts[i].sum()),
            "predicted": int(table.counts[:, i].sum()),
            **{name: statistic["value"] for name, statistic in statistics.items()},
            "intervals": {
                name: [statistic["low"], statistic["high"]] for name, statistic in statistics.items()
            },
        }
    return metrics


def quadratic_kappa(confusion: Array, head: Head) -> float | None:
    """Cohen's weighted kappa (1968) with squared distances: of ranks, or of values on an interval scale.

    kappa = 1 - sum(w * observed) / sum(w * expected). Undefined on a nominal scale, and if nothing varies.
    """
    return to_finite(quadratic_kappas(confusion[None], head)[0])


def quadratic_kappas(drawn: Array, head: Head) -> Array:
    """That kappa of each of (draws, truth, predicted); NaN where it is undefined."""
    if head.measurement == "nominal":
        return np.full(len(drawn), np.nan)
    interval = head.measurement == "interval"
    at = np.array(head.values if interval else range(len(head.values)), dtype=np.float64)
    distance = (at[:, None] - at[None, :]) ** 2
    rows, columns = drawn.sum(axis=2), drawn.sum(axis=1)
    chance = np.einsum("ni,ij,nj->n", rows, distance, columns) / np.maximum(drawn.sum(axis=(1, 2)), 1)
    return 1 - _ratio((distance * drawn).sum(axis=(1, 2)), np.where(chance > 0, chance, np.nan))


__all__ = [
    "Metrics",
    "collect_outcomes",
    "measure",
    "percentile_statistic",
    "quadratic_kappa",
]
