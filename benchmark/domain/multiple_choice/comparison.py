"""Two forms of one evaluation beside each other: what people and a scorer say of a model's own words, and which option
it chooses. Pure. docs/multiple-choice.md says what each number is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.grounds import MIN_PROMPTS, average_values, join_moments
from benchmark.domain.leaderboards.metrics import (
    BoardSample,
    MetricEstimate,
    build_moments,
    build_number_parts,
    estimate_part,
    estimate_value,
    find_ends,
    list_numbers,
)
from benchmark.domain.leaderboards.responses import CountedResponse

PEOPLE, SCORER, CHOICE = "people", "scorer", "choice"
FORMS = (PEOPLE, SCORER, CHOICE)
BOTH, WORDS_ONLY, CHOICE_ONLY, NEITHER = "both", "words_only", "choice_only", "neither"
QUADRANTS = (BOTH, WORDS_ONLY, CHOICE_ONLY, NEITHER)
"""At least the median of the models in their own words and in multiple choice, in one of the two, in neither."""


@dataclass(frozen=True)
class FormNumber:
    """One model's number in one form, over ``n`` responses."""

    n: int
    estimate: MetricEstimate

    def to_json(self) -> dict[str, Any]:
        return {"n": self.n, **self.estimate.to_json()}


def estimate_people(
    document: GuidelineDocument, metric: Metric, rows: Iterable[CountedResponse]
) -> dict[str, FormNumber]:
    """By model, from the responses that people judged alone."""
    return _estimate_numbers(document, metric, [replace(row, labels=row.gold) for row in rows if row.gold])


def estimate_scorer(
    document: GuidelineDocument, metric: Metric, rows: Iterable[CountedResponse]
) -> dict[str, FormNumber]:
    """By model, from predictions alone, of judged responses too."""
    predicted = [replace(row, labels=row.predicted) for row in rows if row.predicted]
    return _estimate_numbers(document, metric, predicted)


def _estimate_numbers(
    document: GuidelineDocument, metric: Metric, rows: Sequence[CountedResponse]
) -> dict[str, FormNumber]:
    """Those that are defined: a mean over columns takes all of them."""
    sample = BoardSample.build(document, rows)
    numbers = list_numbers(document, metric)
    parts = [build_number_parts(sample, number) for number in numbers]
    estimates = {}
    for model in sample.models:
        own = [by_model[model] for by_model in parts]
        values = [part.value for part in own if part.value is not None]
        if len(values) < len(own):
            continue
        ends = [find_ends(document, number) for number in numbers]
        moments = [
            build_moments(metric, part, high - low) for part, (low, high) in zip(own, ends, strict=True)
        ]
        n = sum(part.responses for part in own)
        if len(own) == 1:
            estimates[model] = FormNumber(n, estimate_part(own[0], moments[0], ends[0]))
            continue
        is_enough = min(part.responses for part in own) >= MIN_PROMPTS
        span = float(np.mean([low for low, _high in ends])), float(np.mean([high for _low, high in ends]))
        joined = join_moments(moments) if is_enough else None
        estimates[model] = FormNumber(n, estimate_value(average_values(values), joined, span))
    return estimates


def find_medians(words: Mapping[str, float], choice: Mapping[str, float]) -> tuple[float, float] | None:
    """Of the models that have both numbers; None without two of them."""
    models = words.keys() & choice.keys()
    if len(models) < 2:
        return None
    return _find_median(words, models), _find_median(choice, models)


def _find_median(series: Mapping[str, float], models: Iterable[str]) -> float:
    return float(np.median([series[model] for model in models]))


def find_quadrant(words: float, choice: float, medians: tuple[float, float]) -> str:
    is_high = words >= medians[0], choice >= medians[1]
    return {
        (True, True): BOTH,
        (True, False): WORDS_ONLY,
        (False, True): CHOICE_ONLY,
        (False, False): NEITHER,
    }[is_high]
