"""How often a judge, a scorer or a person agrees with gold: one set of figures for all of them. Pure.

A label off the scale (a judge's own refusal, a level that is none) is a label that is wrong: it stays in every
denominator. An undefined figure is None. A statistic is ``{"value", "low", "high"}``, a 95% percentile bootstrap over
prompts, because the responses to one prompt are not independent of each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scoring.domain.calibration import BINS
from scoring.domain.evaluation import draw_groups, percentile_statistic
from scoring.domain.evaluation.metrics import count_near
from scoring.domain.evaluation.weighing import WeighedLabel, measure_weighed
from scoring.domain.training_data import Head, Value, level_name

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Tables = list[tuple[Head, Array]]
Statistic = dict[str, float | None]
Figures = dict[str, Any]

RESAMPLES = 1000
UNDEFINED: Statistic = {"value": None, "low": None, "high": None}


@dataclass(frozen=True)
class LabelPair:
    """A gold label and the candidate's answer, which is None off the scale.

    ``confidence`` is the probability that the candidate gave its own label, None where it gives none. ``was_seen``
    says of a scorer that it learned from responses of this model; None of anybody else. ``chance`` is that with which
    the response came to have gold, None where nobody knows it.
    """

    prompt: str
    model: str
    dimension: str
    criterion: str
    truth: Value
    answer: Value | None
    confidence: float | None = None
    was_seen: bool | None = None
    chance: float | None = None


@dataclass(frozen=True)
class _PairColumns:
    """The pairs as columns. ``weights`` (prompts, 1 + resamples): how often each draw has a prompt.

    ``at`` is the place of the prompt, ``criterion`` that of the head, ``truth`` and ``answer`` are places on its scale,
    where ``answer`` of a label off the scale is the place after the last. ``confidence`` is NaN where there is none.
    Arrays, because a release may have a hundred thousand labels, and each part of them is counted again.
    """

    weights: Array
    at: Places
    criterion: Places
    truth: Places
    answer: Places
    off_scale: npt.NDArray[np.bool_]
    confidence: Array

    def select(self, rows: Sequence[int]) -> _PairColumns:
        columns = (self.at, self.criterion, self.truth, self.answer, self.off_scale, self.confidence)
        return _PairColumns(self.weights, *(column[rows] for column in columns))  # type: ignore[arg-type]

    @property
    def prompts(self) -> int:
        return len(np.unique(self.at))

    def sum_draws(self, groups: Places, counts: Array) -> Array:
        """(1 + resamples, ...): the counts of these prompts, (prompts, ...), summed as often as each draw has them."""
        weights = self.weights if len(groups) == len(self.weights) else self.weights[groups]
        flat = weights.T @ counts.reshape(len(groups), -1)
        return flat.reshape(weights.shape[1], *counts.shape[1:])


def compute_figures(
    pairs: Sequence[LabelPair],
    heads: Sequence[Head],
    *,
    n_gold: int,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Figures:
    """``n_gold`` is the number of gold labels: what ``coverage`` is a share of.

    Pooled, by criterion and level, by dimension, by model, and by whether the model was seen in training; ``weighed``
    by the chance of selection, where chances are known and differ.
    """
    column = _build_columns(pairs, heads, resamples, seed)
    return {
        **_summarize(column, _count_tables(column, heads)),
        "coverage": len(pairs) / n_gold if n_gold else None,
        "weighed": measure_weighed(_list_weighed(pairs), heads, resamples=resamples, seed=seed),
        "by_criterion": _group_figures(column, heads, [pair.criterion for pair in pairs], with_levels=True),
        "by_dimension": _group_figures(column, heads, [pair.dimension for pair in pairs], with_levels=True),
        "by_model": _group_figures(column, heads, [pair.model for pair in pairs]),
        "by_seen": _group_figures(column, heads, [_SEEN[pair.was_seen] for pair in pairs]),
    }


def _list_weighed(pairs: Sequence[LabelPair]) -> list[WeighedLabel]:
    return [
        WeighedLabel(pair.prompt, pair.criterion, pair.truth, pair.answer, pair.confidence, pair.chance)
        for pair in pairs
    ]


def _build_columns(
    pairs: Sequence[LabelPair], heads: Sequence[Head], resamples: int, seed: int
) -> _PairColumns:
    prompts = {prompt: place for place, prompt in enumerate(sorted({pair.prompt for pair in pairs}))}
    head_at = {head.criterion: at for at, head in enumerate(heads)}
    scales = [{value: place for place, value in enumerate(head.values)} for head in heads]
    criterion = [head_at[pair.criterion] for pair in pairs]
    truth = [scales[at][pair.truth] for at, pair in zip(criterion, pairs, strict=True)]
    answer = [
        len(scales[at]) if pair.answer is None else scales[at][pair.answer]
        for at, pair in zip(criterion, pairs, strict=True)
    ]
    return _PairColumns(
        weights=draw_groups(len(prompts), resamples=resamples, seed=seed).astype(np.float64),
        at=np.array([prompts[pair.prompt] for pair in pairs], dtype=np.int64),
        criterion=np.array(criterion, dtype=np.int64),
        truth=np.array(truth, dtype=np.int64),
        answer=np.array(answer, dtype=np.int64),
        off_scale=np.array([pair.answer is None for pair in pairs], dtype=np.bool_),
        confidence=np.array(
            [np.nan if pair.confidence is None else pair.confidence for pair in pairs], dtype=np.float64
        ),
    )


_SEEN = {True: "seen", False: "unseen", None: ""}


def _group_figures(
    column: _PairColumns, heads: Sequence[Head], names: Sequence[str], *, with_levels: bool = False
) -> dict[str, Figures]:
    """The figures by name. ``names`` has a name for each pair; pairs with an empty name are in no group."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(names):
        if name:
            rows[name].append(row)
    figures_by_name: dict[str, Figures] = {}
    for name in sorted(rows):
        part = column.select(rows[name])
        tables = _count_tables(part, heads)
        figures_by_name[name] = _summarize(part, tables)
        if with_levels:
            figures_by_name[name]["criteria"] = _compute_criteria(part, tables)
    return figures_by_name


def _summarize(column: _PairColumns, tables: Tables) -> Figures:
    """``accuracy`` of all labels; ``within_one``, at most one level away, of those on ordered scales of three levels or
    more; ``macro_f1`` the unweighted mean of the criteria's; kappas of one criterion alone."""
    groups = column.prompts
    right = sum((np.einsum("nii->n", drawn[:, :, :-1]) for _head, drawn in tables), np.zeros(1))
    total = sum((drawn.sum(axis=(1, 2)) for _head, drawn in tables), np.zeros(1))
    f1 = [_average_defined(_compute_f1(drawn)) for _head, drawn in tables]
    only_table = tables[0] if len(tables) == 1 else None
    return {
        "n": len(column.at),
        "prompts": groups,
        "off_scale": int(column.off_scale.sum()),
        "accuracy": percentile_statistic(_divide(right, total), groups) if tables else UNDEFINED,
        "within_one": _compute_within_one(tables, groups),
        "macro_f1": percentile_statistic(_average_defined(np.column_stack(f1)), groups) if f1 else UNDEFINED,
        "cohen_kappa": percentile_statistic(_compute_kappa(only_table[1], None), groups)
        if only_table
        else UNDEFINED,
        "quadratic_kappa": _compute_weighted_kappa(only_table, groups),
        "calibration_error": compute_calibration_error(column),
    }


def _compute_within_one(tables: Tables, groups: int) -> Statistic:
    """A label off the scale is not near any level."""
    ordered = [drawn for head, drawn in tables if head.measurement != "nominal" and len(head.values) > 2]
    if not ordered:
        return UNDEFINED
    near = np.sum([count_near(drawn[:, :, :-1], 1) for drawn in ordered], axis=0)
    total = np.sum([drawn.sum(axis=(1, 2)) for drawn in ordered], axis=0)
    return percentile_statistic(_divide(near, total), groups)


def _compute_criteria(column: _PairColumns, tables: Tables) -> dict[str, Figures]:
    return {
        head.criterion: {
            "confusion": {"levels": list(head.values), "counts": drawn[0].astype(int).tolist()},
            "levels": _compute_levels(drawn, head, column.prompts),
        }
        for head, drawn in tables
    }


def _compute_levels(drawn: Array, head: Head, groups: int) -> dict[str, Figures]:
    """By level: how often gold and the candidate have it, precision, recall, F1. The last column is off the scale."""
    hits = np.diagonal(drawn[:, :, :-1], axis1=1, axis2=2)
    precision = _divide(hits, drawn.sum(axis=1)[:, :-1])
    recall, f1 = _divide(hits, drawn.sum(axis=2)), _compute_f1(drawn)
    return {
        level_name(value): {
            "n": int(drawn[0, place].sum()),
            "said": int(drawn[0, :, place].sum()),
            "precision": percentile_statistic(precision[:, place], groups),
            "recall": percentile_statistic(recall[:, place], groups),
            "f1": percentile_statistic(f1[:, place], groups),
        }
        for place, value in enumerate(head.values)
    }


def _count_tables(column: _PairColumns, heads: Sequence[Head]) -> Tables:
    """Of each criterion with a label, (1 + resamples, truth, answer and one more for off the scale): counts of each
    draw, the data first."""
    tables = []
    for place, head in enumerate(heads):
        rows = np.flatnonzero(column.criterion == place)
        if len(rows):
            levels = len(head.values)
            groups, at = np.unique(column.at[rows], return_inverse=True)
            cells = (at * levels + column.truth[rows]) * (levels + 1) + column.answer[rows]
            counts = np.bincount(cells, minlength=len(groups) * levels * (levels + 1))
            table = counts.reshape(len(groups), levels, levels + 1).astype(np.float64)
            tables.append((head, column.sum_draws(groups, table)))
    return tables


def _compute_f1(drawn: Array) -> Array:
    """By level 2 hits / (labelled so + said so); NaN where it is in neither."""
    hits = np.diagonal(drawn[:, :, :-1], axis1=1, axis2=2)
    return _divide(2 * hits, drawn.sum(axis=2) + drawn.sum(axis=1)[:, :-1])


def _compute_weighted_kappa(table: tuple[Head, Array] | None, groups: int) -> Statistic:
    if table is None or table[0].measurement == "nominal":
        return UNDEFINED
    return percentile_statistic(_compute_kappa(table[1], table[0]), groups)


def _compute_kappa(drawn: Array, head: Head | None) -> Array:
    """Cohen's kappa (1960) of each draw; with a head his weighted one (1968), of squared distances.

    Off the scale is a category of its own, as far from each level as the farthest level is. NaN if nothing varies.
    """
    levels = drawn.shape[1]
    weight = np.ones((levels, levels + 1))
    if head is None:
        weight[:, :-1] -= np.eye(levels)
    else:
        at = np.array(head.values if head.measurement == "interval" else range(levels), dtype=np.float64)
        weight[:, :-1] = (at[:, None] - at[None, :]) ** 2
        weight[:, -1] = weight[:, :-1].max(axis=1)
    rows, columns = drawn.sum(axis=2), drawn.sum(axis=1)
    chance = np.einsum("ni,ij,nj->n", rows, weight, columns) / np.maximum(drawn.sum(axis=(1, 2)), 1)
    return 1 - _divide((weight * drawn).sum(axis=(1, 2)), np.where(chance > 0, chance, np.nan))


def compute_calibration_error(column: _PairColumns) -> Statistic:
    """Guo et al. 2017: over ten bins of confidence, |share right - mean confidence| weighted by the bin's share.

    Of the labels with a probability alone. The error of few labels is biased upwards, and so is its interval.
    """
    rows = np.flatnonzero(~np.isnan(column.confidence))
    if not len(rows):
        return UNDEFINED
    confidence, at = column.confidence[rows], column.at[rows]
    right = (column.answer[rows] == column.truth[rows]).astype(np.float64)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    groups, place = np.unique(at, return_inverse=True)
    gaps = np.bincount(place * BINS + bins, weights=right - confidence, minlength=len(groups) * BINS)
    counts = np.column_stack([gaps.reshape(len(groups), BINS), np.bincount(place, minlength=len(groups))])
    drawn = column.sum_draws(groups, counts)
    return percentile_statistic(_divide(np.abs(drawn[:, :-1]).sum(axis=1), drawn[:, -1]), len(groups))


def _average_defined(values: Array) -> Array:
    """Means along the last axis of what is not NaN; NaN where nothing is."""
    known = ~np.isnan(values)
    return _divide(np.where(known, values, 0).sum(axis=-1), known.sum(axis=-1))


def _divide(part: Array, total: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: Array = np.asarray(part / total)
    return ratio
