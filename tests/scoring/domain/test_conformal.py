from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from scoring.domain.calibration import (
    COVERAGES,
    NO_THRESHOLD,
    abstains,
    compute_threshold,
    compute_thresholds,
    find_card_threshold,
    level_set,
)
from scoring.domain.training_data import Distribution, Example, Head, Prediction

HEAD = Head("compliance", (1, 2, 3), "ordinal")
SPLITS = 200

Floats = npt.NDArray[np.float64]


def population(n: int, *, sharpness: float, seed: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Distributions of a model that is too sure of itself, and true levels drawn from flatter ones."""
    chance = np.random.default_rng(seed)
    scores = chance.normal(size=(n, 3)) * 2
    true = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    labels = np.array([chance.choice(3, p=p) for p in true])
    weights = np.exp(sharpness * scores)
    return weights / weights.sum(axis=1, keepdims=True), labels


def covered(distributions: Floats, labels: npt.NDArray[np.int64], least: float) -> float:
    held = [
        HEAD.values[label] in level_set(dict(zip(HEAD.values, row, strict=True)), least)
        for row, label in zip(distributions.tolist(), labels.tolist(), strict=True)
    ]
    return float(np.mean(held))


@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize("sharpness", [1.0, 2.5])
def test_sets_cover_as_promised_on_200_random_splits_of_one_population(
    coverage: float, sharpness: float
) -> None:
    """Of exchangeable responses the mean is between the coverage and the coverage + 1 / (n + 1)."""
    distributions, labels = population(600, sharpness=sharpness, seed=5)
    chance, shares = np.random.default_rng(9), []
    for _split in range(SPLITS):
        order = chance.permutation(len(labels))
        known, new = order[:400], order[400:]
        least = compute_threshold(distributions[known, labels[known]], coverage)
        shares.append(covered(distributions[new], labels[new], least))
    # A split's share varies by sqrt(p (1 - p) (1/400 + 1/200)), the mean of 200 by a fourteenth of it.
    error = np.sqrt(coverage * (1 - coverage) * (1 / 400 + 1 / 200) / SPLITS)
    assert coverage - 3 * error < np.mean(shares) < coverage + 1 / 401 + 3 * error


def test_of_another_population_nothing_is_promised() -> None:
    distributions, labels = population(2000, sharpness=1.0, seed=5)
    least = compute_threshold(distributions[np.arange(2000), labels], 0.9)
    strange, strange_labels = population(2000, sharpness=6.0, seed=6)
    assert covered(strange, strange_labels, least) < 0.85


def test_the_threshold_is_the_probability_with_that_rank() -> None:
    probabilities = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    # n = 9: k = ceil(10 * .8) = 8, the eighth largest; ceil(10 * .9) = 9, the least; ceil(9.5) = 10 > n
    assert compute_threshold(probabilities, 0.8) == 0.2
    assert compute_threshold(probabilities, 0.9) == 0.1
    assert compute_threshold(probabilities, 0.95) == NO_THRESHOLD
    assert level_set({1: 1.0, 2: 0.0, 3: 0.0}, NO_THRESHOLD) == (1, 2, 3)


@pytest.mark.parametrize(
    ("distribution", "levels"),
    [
        ({1: 0.1, 2: 0.1, 3: 0.8}, (3,)),
        ({1: 0.1, 2: 0.45, 3: 0.45}, (2, 3)),
        ({1: 0.34, 2: 0.33, 3: 0.33}, ()),
    ],
)
def test_only_a_single_level_is_an_answer(distribution: Distribution, levels: tuple[int, ...]) -> None:
    assert level_set(distribution, 0.4) == levels
    assert abstains(distribution, 0.4) == (len(levels) != 1)


def test_a_card_tells_thresholds_by_criterion_and_what_they_do() -> None:
    distributions, labels = population(300, sharpness=1.0, seed=2)
    examples = [
        Example(f"r{i}", f"p{i}", f"{i}", "x", labels={"compliance": HEAD.values[label]})
        for i, label in enumerate(labels.tolist())
    ]
    predictions: list[Prediction] = [
        {"compliance": dict(zip(HEAD.values, row, strict=True))} for row in distributions.tolist()
    ]
    predictions[0] = {}  # not predicted: it counts nowhere
    thresholds = compute_thresholds(examples, predictions, [HEAD, Head("tone", (1, 2))])
    assert set(thresholds) == {"compliance"}
    assert thresholds["compliance"]["n"] == 299
    coverages = thresholds["compliance"]["coverages"]
    assert set(coverages) == {"0.8", "0.9", "0.95"}
    assert coverages["0.8"]["threshold"] > coverages["0.9"]["threshold"] > coverages["0.95"]["threshold"]
    for coverage in COVERAGES:
        assert coverage <= coverages[f"{coverage:g}"]["covered"] <= coverage + 2 / 299
    card = {"conformal": {"criteria": thresholds}}
    assert find_card_threshold(card, "compliance", 0.8) == coverages["0.8"]["threshold"]
    assert find_card_threshold(card, "compliance", 0.5) is None
    assert find_card_threshold({}, "compliance") is None
