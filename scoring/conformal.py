"""Sets of levels that hold the true one as often as promised. Pure: numpy alone.

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
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from annotation.errors import N_
from scoring.dataset import Distribution, Example, Head, Prediction, Value

Array = npt.NDArray[np.float64]

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
    name = head.criterion
    return np.array(
        [
            prediction[name].get(example.labels[name], 0.0)
            for example, prediction in zip(examples, predictions, strict=True)
            if name in example.labels and name in prediction
        ],
        dtype=np.float64,
    )


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
    for head in heads:
        true = true_probabilities(examples, predictions, head)
        if len(true):
            distributions = _true_distributions(examples, predictions, head)
            by_criterion[head.criterion] = {
                "n": len(true),
                "coverages": {
                    coverage_name(coverage): _shares(distributions, true, compute_threshold(true, coverage))
                    for coverage in coverages
                },
            }
    return by_criterion


def _true_distributions(examples: Sequence[Example], predictions: Sequence[Prediction], head: Head) -> Array:
    """(responses, levels): the distributions behind ``true_probabilities``."""
    name = head.criterion
    rows = [
        [prediction[name][value] for value in head.values]
        for example, prediction in zip(examples, predictions, strict=True)
        if name in example.labels and name in prediction
    ]
    return np.array(rows, dtype=np.float64)


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
