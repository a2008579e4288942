"""For how many responses each labelled one stands: one over the chance with which it was selected, where that is known.

A weight below 0 is minus the place, from 1, of why nobody knows the chance, among ``UNKNOWN``. A weight of 0 has a
response whose own chance is unknown while others stand for its model and dimension.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from annotation.domain.agreement import PromptCounts
from annotation.domain.agreement.label_table import Units
from annotation.domain.releases.selection import ALL, DRAWN, PART, UNFINISHED, UNKNOWN
from annotation.models import Batch, BatchDraw, Dataset, EvaluatedModel, Response, Stratum, Task
from annotation.selectors.agreement.label_table import COMPLETE, Marks, cache_result
from annotation.selectors.selection import NO_DIMENSION, Selection, read_selection

EQUAL = "equal"
RESPONSES_AT_ONCE = 500
Weights: TypeAlias = npt.NDArray[np.float64]
Scope: TypeAlias = tuple[str, str, str]
"""A dataset, a model and a dimension, by name."""


@dataclass(frozen=True)
class Weighing:
    """Whether figures are weighed by the chance of selection: None where that is not known. ``reason`` is why not."""

    is_weighed: bool | None
    reason: str | None


NOT_SELECTED = Weighing(False, EQUAL)


def list_weighings(rows: Iterable[Mapping[str, Any]]) -> list[Weighing]:
    """Of rows as JSON has them; of those that were written before it was kept there is none."""
    return [Weighing(row["weighed"], row["weighed_reason"]) for row in rows if row["n"] and "weighed" in row]


def summarize_weighings(weighings: Iterable[Weighing]) -> dict[str, Any] | None:
    """As ``annotation/agreement/_weighing.txt`` takes it; None where there is nothing to say."""
    states = list(weighings)
    unknown = dict.fromkeys(state.reason for state in states if state.is_weighed is None)
    weighed = any(state.is_weighed for state in states)
    return {"weighed": weighed, "unknown": list(unknown)} if weighed or unknown else None


def describe_weighing(counts: PromptCounts) -> Weighing:
    """Of what a row is measured from."""
    if counts.weights is not None:
        return Weighing(True, None)
    weights = np.broadcast_to(np.asarray(counts.weight, dtype=np.float64), len(counts.n))
    if (weights > 0).all():
        return Weighing(False, EQUAL)
    reasons = Counter[str]()
    for weight, n in zip(weights.tolist(), counts.n.tolist(), strict=True):
        if weight <= 0:
            reasons[UNKNOWN[-int(weight) - 1] if weight else PART] += n
    return Weighing(None, min(reasons, key=lambda reason: (-reasons[reason], reason)))


@dataclass(frozen=True)
class SelectionWeights:
    """By the key of a stratum, and of single ``tasks`` (T,), ascending, their own (T,)."""

    strata: Mapping[int, float]
    tasks: npt.NDArray[np.int64]
    of_tasks: Weights

    def of_units(self, units: Units) -> Weights | float:
        """(N,), or the one weight that all units have."""
        keys, place = units.kinds("stratum")
        if not len(keys):
            return 1.0
        by_stratum = np.array([self.strata.get(key, _encode(UNFINISHED)) for key in keys.tolist()])
        if not len(self.tasks) and len(set(by_stratum.tolist())) == 1:
            return float(by_stratum[0])
        weights: Weights = by_stratum[place]
        if len(self.tasks):
            at = np.minimum(np.searchsorted(self.tasks, units.task), len(self.tasks) - 1)
            is_own = self.tasks[at] == units.task
            weights[is_own] = self.of_tasks[at[is_own]]
        return weights


def _encode(reason: str) -> float:
    return -float(UNKNOWN.index(reason) + 1)


class WeightReader:
    """The weights of the labels of some batches. Responses that came since make them be read again."""

    def __init__(self, batches: Sequence[Batch], marks: Marks, strata: Mapping[int, Stratum]) -> None:
        self._batches, self._marks, self._strata = batches, marks, strata
        drawn = BatchDraw.objects.filter(batch__in=[batch.pk for batch in batches])
        self._drawn = frozenset(drawn.values_list("batch", flat=True))
        latest = Response.objects.order_by("-pk").values_list("pk", flat=True).first()
        self.key = (tuple(sorted(self._drawn)), latest)

    @cached_property
    def weights(self) -> SelectionWeights:
        return cache_result(f"chances of selection {self.key}", self._marks, self._read)

    def _read(self) -> SelectionWeights:
        """Version by version: the labels under another one are other labels of the same responses. Of batches in which
        nothing is open any more: what is labelled first nobody has drawn.
        """
        versions: dict[int, list[Batch]] = defaultdict(list)
        for batch in self._batches:
            versions[batch.guideline_id].append(batch)
        strata: dict[int, float] = {}
        tasks: dict[int, float] = {}
        marks = dict(self._marks)
        for batches in versions.values():
            judged = [batch for batch in batches if not marks[batch.pk].open]
            selection = read_selection(judged, states=COMPLETE)
            strata |= self._weigh_strata(batches, selection)
            tasks |= self._weigh_tasks(judged, selection)
        ordered = sorted(tasks)
        return SelectionWeights(
            strata, np.array(ordered, np.int64), np.array([tasks[task] for task in ordered], np.float64)
        )

    def _weigh_strata(self, batches: Sequence[Batch], selection: Selection) -> dict[int, float]:
        of_batch = {batch.pk: batch for batch in batches}
        models = dict(EvaluatedModel.objects.values_list("pk", "name"))
        datasets = dict(Dataset.objects.values_list("pk", "name"))
        rows_by_place: dict[tuple[str, Scope], list[Mapping[str, Any]]] = defaultdict(list)
        known: dict[Scope, set[str]] = defaultdict(set)
        for row in selection.rows:
            scope = row["dataset"], row["model"], row["dimension"]
            rows_by_place[row["batch"], scope].append(row)
            if row["known"]:
                known[scope].add(row["collection"])
        weights = {}
        for pk, stratum in self._strata.items():
            batch = of_batch.get(stratum.batch_id)
            if batch is not None:
                dimension = stratum.dimension if batch.guideline.document.dimensions else NO_DIMENSION
                scope = datasets[stratum.dataset_id], models[stratum.model_id], dimension
                weights[pk] = _weigh_rows(rows_by_place[batch.name, scope], known[scope])
        return weights

    def _weigh_tasks(self, batches: Iterable[Batch], selection: Selection) -> dict[int, float]:
        """Of those that were drawn with a chance of their own."""
        drawn = [batch.pk for batch in batches if batch.pk in self._drawn]
        weights: dict[int, float] = {}
        for chance, responses in selection.chances.items():
            for start in range(0, len(responses), RESPONSES_AT_ONCE):
                part = responses[start : start + RESPONSES_AT_ONCE]
                tasks = Task.objects.filter(batch__in=drawn, kind=Task.Kind.WORK, response__in=part)
                weights |= dict.fromkeys(tasks.values_list("pk", flat=True), 1 / chance)
        return weights


def _weigh_rows(rows: Sequence[Mapping[str, Any]], known: set[str]) -> float:
    """Of what is not drawn by itself. Without rows the batch is not finished."""
    if not rows:
        return 0.0 if known else _encode(UNFINISHED)
    weights = []
    for row in rows:
        if row["how"] == ALL:
            weights.append(1.0)
        elif row["how"] == DRAWN or row["collection"] in known:
            weights.append(0.0)
        else:
            weights.append(_encode(row["how"] if row["how"] in UNKNOWN else PART))
    return min(weights)
