"""Pairs of models: their differences, and which of them are significantly different."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.translation import gettext as _

from annotation.core.charts import chart_url
from annotation.core.text_templates import render_text
from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.metrics import find_metric, format_metric_difference, format_metric_value
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import find_part, list_board_rows
from benchmark.views.leaderboards import charts
from benchmark.views.leaderboards.charts import Draw, make_dot, unit_factor
from benchmark.views.leaderboards.formatting import (
    BoardColumn,
    format_difference_interval,
    format_interval,
    metric_label,
    scope_label,
)
from benchmark.views.leaderboards.query import OVERALL, BoardQuery, Context, choose
from benchmark.views.leaderboards.tabs.reading import count_compared

AHEAD, SAME, BEHIND = "ahead", "same", "behind"
MATRIX_MODELS = 10
"""With more models a matrix of all pairs cannot be read."""
CHANCE = 0.05


@dataclass(frozen=True)
class PairDifference:
    """Of one model less another. ``state`` is blank where the difference or its interval is undefined.

    ``compared`` is false where predictions that no gold corrects take part: then there is no interval.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    paired: bool
    state: str
    compared: bool = True

    @classmethod
    def of(cls, held: Mapping[str, Any] | None, *, turned: bool) -> PairDifference:
        """From the kept difference; ``turned``, of the second less the first."""
        if held is None:
            return cls(None, None, None, 0, paired=False, state="")
        value, low, high = held["value"], held["low"], held["high"]
        if turned:
            # Subtracted, for a 0 turned by its sign would be printed as -0.00.
            value, low, high = (None if bound is None else 0.0 - bound for bound in (value, high, low))
        return cls(
            value, low, high, held["n"], bool(held["paired"]), _state(low, high), held.get("compared", True)
        )

    @property
    def statistic(self) -> dict[str, float | None]:
        return {"value": self.value, "low": self.low, "high": self.high}


def _state(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return AHEAD if low > 0 else BEHIND if high < 0 else SAME


@dataclass(frozen=True)
class ModelPairs:
    """The part ``pairs`` in one scope: ``order`` are places of ``models``, the compared first, best first.

    ``not_compared`` names the models that have no place among the others.
    """

    models: tuple[str, ...]
    order: tuple[int, ...]
    scope: str
    held: Mapping[str, Mapping[str, Any]]
    not_compared: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        content: Mapping[str, Any],
        scope: str,
        values: Mapping[str, float | None],
        not_compared: frozenset[str] = frozenset(),
    ) -> ModelPairs:
        """``values`` are the models' numbers in the scope; who has none comes last."""
        models = tuple(content["models"])
        known = {place: values.get(model) for place, model in enumerate(models)}
        order = sorted(
            known,
            key=lambda place: (
                models[place] in not_compared,
                known[place] is None,
                -(known[place] or 0.0),
                place,
            ),
        )
        return cls(models, tuple(order), scope, content["pairs"], not_compared)

    def get_difference(self, first: int, second: int) -> PairDifference:
        return self._differences[first, second]

    @cached_property
    def _differences(self) -> dict[tuple[int, int], PairDifference]:
        """Both ways round."""
        differences = {}
        for first in range(len(self.models)):
            for later in range(first + 1, len(self.models)):
                held = self.held.get(f"{first}-{later}", {}).get(self.scope)
                differences[first, later] = PairDifference.of(held, turned=False)
                differences[later, first] = PairDifference.of(held, turned=True)
        return differences

    def list_pairs(self) -> Iterator[tuple[int, int, PairDifference]]:
        """Each pair once, the better placed one first."""
        for place, first in enumerate(self.order):
            for second in self.order[place + 1 :]:
                yield first, second, self.get_difference(first, second)


def pairs_context(
    run: BenchmarkRun, query: Mapping[str, str], *, public: bool = False, draw: Draw = chart_url
) -> Context:
    """``not_computed`` where the run has no pairs: one that was finished before they were computed, or of one model."""
    content = find_part(run, "pairs")
    if content is None or not content["scopes"]:
        return {"not_computed": content is None, "too_few": content is not None, "public": public}
    document = run.scorer.guideline.document
    place = BoardQuery.of(query)
    scope = choose(place.scope, content["scopes"])
    metric = metric_of(document, content["metric"], scope)
    values = statistics_by_model(run, scope, metric)
    pairs = ModelPairs.of(
        content,
        scope,
        {model: statistic["value"] for model, statistic in values.items()},
        find_not_compared(run, scope),
    )
    first = pairs.models[pairs.order[0]] if pairs.order else ""
    model = choose(place.model, [first, *pairs.models])
    labels = {name: scope_label(document, None if name == OVERALL else name) for name in content["scopes"]}
    known = [difference for _first, _second, difference in pairs.list_pairs() if difference.state]
    opponents = _opponent_rows(pairs, pairs.models.index(model), values, metric) if model else []
    return {
        "scopes": place.list_choices("scope", labels, scope),
        "scope": labels[scope],
        "metric": metric_label(metric),
        "rate": metric.kind == "rate",
        "standing": neighbour_rows(pairs, values, metric, place),
        "finding": find_significant_pairs(pairs, metric),
        "compared_models": count_compared(run, None if scope == OVERALL else scope),
        "compared": bool(known),
        "matrix": _matrix(pairs, metric) if len(pairs.models) <= MATRIX_MODELS else [],
        "matrix_models": [pairs.models[index] for index in pairs.order],
        "models": [pairs.models[index] for index in pairs.order],
        "model": model,
        "opponents": opponents,
        "place": place,
        "charts": _draw_charts(opponents, metric, model, draw),
        "chart_alt": _chart_alt(opponents, model),
        "count": len(known),
        "chance": round(CHANCE * len(known)),
        "unpaired": any(
            not difference.paired
            for _first, _second, difference in pairs.list_pairs()
            if difference.value is not None
        ),
    }


def metric_of(document: GuidelineDocument, name: str, scope: str) -> Metric:
    metric = document.metric(name)
    return metric if scope == OVERALL else find_metric(document, scope, metric) or metric


def statistics_by_model(
    run: BenchmarkRun, scope: str, metric: Metric
) -> dict[str, Mapping[str, float | None]]:
    column = BoardColumn(None if scope == OVERALL else scope, metric)
    return {row["model"]: column.statistic(row) for row in list_board_rows(run)}


def find_not_compared(run: BenchmarkRun, scope: str) -> frozenset[str]:
    """The models whose number in the scope no gold bears out."""
    rows = list_board_rows(run)
    return frozenset(
        row["model"]
        for row in rows
        if (row if scope == OVERALL else row["dimensions"].get(scope, {})).get("reason") is not None
    )


def neighbour_rows(
    pairs: ModelPairs,
    values: Mapping[str, Mapping[str, float | None]],
    metric: Metric,
    place: BoardQuery,
) -> list[dict[str, Any]]:
    """A line for each model, best first: how it stands to the next one and to all others.

    A model that is not compared has no ``place``.
    """
    lines = []
    for at, index in enumerate(pairs.order):
        model = pairs.models[index]
        states = [pairs.get_difference(index, other).state for other in pairs.order if other != index]
        below = pairs.order[at + 1] if at + 1 < len(pairs.order) else None
        statistic = values.get(model) or {"value": None, "low": None, "high": None}
        lines.append(
            {
                "place": None if model in pairs.not_compared else at + 1,
                "model": model,
                "url": place.link(model=model),
                "value": format_metric_value(metric, statistic["value"]),
                "interval": format_interval(metric, statistic),
                "next": None if below is None else _next_row(pairs, index, below, metric),
                "ahead": states.count(AHEAD),
                "same": states.count(SAME),
                "behind": states.count(BEHIND),
            }
        )
    return lines


def _next_row(pairs: ModelPairs, upper: int, lower: int, metric: Metric) -> dict[str, Any]:
    neighbour_difference = pairs.get_difference(upper, lower)
    badge = "success" if neighbour_difference.state in (AHEAD, BEHIND) else "plain"
    return difference_row(neighbour_difference, metric) | {
        "model": pairs.models[lower],
        "badge": badge,
        "word": significance_word(neighbour_difference),
    }


def difference_row(pair_difference: PairDifference, metric: Metric) -> dict[str, Any]:
    """A difference as a table prints it."""
    return {
        "value": format_metric_difference(metric, pair_difference.value),
        "interval": format_difference_interval(metric, pair_difference.statistic),
        "n": pair_difference.n,
        "paired": pair_difference.paired,
        "state": pair_difference.state,
        "word": state_word(pair_difference),
        "badge": {AHEAD: "success", BEHIND: "warning", SAME: "plain"}.get(pair_difference.state, "plain"),
        "sign": {AHEAD: "▲", BEHIND: "▼", SAME: "≈"}.get(pair_difference.state, ""),
    }


def state_word(pair_difference: PairDifference) -> str:
    if not pair_difference.compared:
        return _("not compared")
    return charts.difference_looks()[pair_difference.state].word if pair_difference.state else _("not known")


def significance_word(pair_difference: PairDifference) -> str:
    """Of two neighbours it matters only whether they are told apart."""
    return (
        _("significantly different")
        if pair_difference.state in (AHEAD, BEHIND)
        else state_word(pair_difference)
    )


@dataclass(frozen=True)
class PairsFinding:
    """How many of ``n`` pairs are told apart, and how the first two models differ.

    In words: ``wording/pairs_finding.txt``.
    """

    n: int
    different: int
    metric: Metric
    first: str
    second: str
    difference: PairDifference


def find_significant_pairs(pairs: ModelPairs, metric: Metric) -> PairsFinding | None:
    """None where no pair is compared."""
    states = [difference.state for _first, _second, difference in pairs.list_pairs() if difference.state]
    if not states:
        return None
    first, second, first_difference = next(pairs.list_pairs())
    different = sum(state != SAME for state in states)
    return PairsFinding(
        len(states), different, metric, pairs.models[first], pairs.models[second], first_difference
    )


def _matrix(pairs: ModelPairs, metric: Metric) -> list[dict[str, Any]]:
    """Row less column, for each pair of models; None on the diagonal."""
    return [
        {
            "model": pairs.models[row],
            "cells": [
                None if row == column else difference_row(pairs.get_difference(row, column), metric)
                for column in pairs.order
            ],
        }
        for row in pairs.order
    ]


def _opponent_rows(
    pairs: ModelPairs, chosen_model: int, values: Mapping[str, Mapping[str, float | None]], metric: Metric
) -> list[dict[str, Any]]:
    """The chosen model less each other one, in their order on the board."""
    return [
        {
            "name": pairs.models[other],
            "standing": format_metric_value(
                metric, (values.get(pairs.models[other]) or {"value": None})["value"]
            ),
            "found": pair_difference,
            **difference_row(pair_difference, metric),
        }
        for other in pairs.order
        if other != chosen_model
        for pair_difference in [pairs.get_difference(chosen_model, other)]
    ]


def _draw_charts(opponents: Sequence[Mapping[str, Any]], metric: Metric, model: str, draw: Draw) -> list[str]:
    looks = charts.difference_looks()
    dots = [
        make_dot(
            opponent["name"], opponent["found"].statistic, unit_factor(metric), looks[opponent["state"]].word
        )
        for opponent in opponents
        if opponent["state"]
    ]
    if not dots:
        return []
    unit = _("percentage points") if metric.kind == "rate" else metric_label(metric)
    title = _("{model} less each other model, {unit}").format(model=model, unit=unit)
    return charts.draw_chart([charts.draw_differences(dots, title)], draw)


def _chart_alt(opponents: Sequence[Mapping[str, Any]], model: str) -> str:
    states = [opponent["state"] for opponent in opponents]
    return render_text(
        "benchmark/wording/pairs_alt.txt",
        model=model,
        ahead=states.count(AHEAD),
        same=states.count(SAME),
        behind=states.count(BEHIND),
    )
