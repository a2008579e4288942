from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from scoring.domain.calibration import (
    average,
    fit_calibration,
    fit_weights,
    log_loss,
    reliability,
)

DRAWS = np.random.default_rng(7)


def honest(n: int = 4000, levels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities, and outcomes drawn from just these."""
    shares = DRAWS.dirichlet(np.ones(levels), n)
    outcomes = (shares.cumsum(axis=1) < DRAWS.random((n, 1))).sum(axis=1)
    return np.log(shares), outcomes


def test_what_knows_nothing_gets_no_weight_and_what_knows_gets_it_all():
    logs, outcomes = honest()
    uniform = np.log(np.full_like(logs, 1 / 3))
    assert fit_weights([logs, uniform], outcomes) == pytest.approx([1, 0], abs=0.05)
    assert fit_weights([uniform, logs], outcomes) == pytest.approx([0, 1], abs=0.05)


def test_two_that_know_different_halves_do_better_together():
    logs, outcomes = honest()
    half = np.arange(len(logs)) % 2 == 0
    uniform = np.log(np.full_like(logs, 1 / 3))
    first, other = np.where(half[:, None], logs, uniform), np.where(half[:, None], uniform, logs)
    weights = fit_weights([first, other], outcomes)
    assert weights == pytest.approx([0.5, 0.5], abs=0.1)
    assert log_loss(average([first, other], weights), outcomes) < min(
        log_loss(first, outcomes), log_loss(other, outcomes)
    )


def test_importance_counts_a_row_so_many_times():
    logs, outcomes = honest(400)
    other, _ = honest(400)
    twice = fit_weights([logs, other], outcomes, np.where(np.arange(400) < 100, 2.0, 1.0))
    rows = np.concatenate([np.arange(400), np.arange(100)])
    assert twice == pytest.approx(fit_weights([logs[rows], other[rows]], outcomes[rows]), abs=1e-3)


def test_nothing_to_weigh_by_weighs_all_the_same():
    none = np.zeros((0, 3))
    assert fit_weights([none, none], np.zeros(0, dtype=int)) == [0.5, 0.5]


def test_a_reliability_bin_has_its_own_mean_confidence_and_accuracy():
    bins = reliability(np.array([0.95, 1.0, 0.31]), np.array([True, False, True]))
    assert (bins[9].n, bins[9].accuracy, bins[9].confidence) == (2, 0.5, pytest.approx(0.975))
    assert (bins[3].n, bins[3].accuracy) == (1, 1.0)
    assert (bins[0].n, bins[0].accuracy, bins[0].confidence) == (0, None, None)
    assert sum(reliability_bin.n for reliability_bin in bins) == 3


RATES = np.array([0.2, 0.2, 0.6])
EVEN = np.full(3, 1 / 3)


def weighed(n: int, strength: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logs of a head that learned every level as often as any other, outcomes at the rates, and three folds."""
    draws = np.random.default_rng(11)
    outcomes = draws.choice(3, n, p=RATES)
    scores = draws.normal(size=(n, 3)) + strength * np.eye(3)[outcomes]
    logs = log_softmax(scores * max(strength, 1.0), axis=1)
    return logs, outcomes, np.arange(n) % 3


def test_noise_that_was_learned_at_equal_weights_comes_back_to_the_rates_and_names_the_commonest():
    logs, outcomes, folds = weighed(600, 0.0)
    fitted = fit_calibration(logs, outcomes, folds, learned_shares=EVEN, rates=RATES)
    shares = np.exp(fitted.apply(logs))
    assert np.exp(logs).mean(axis=0) == pytest.approx(EVEN, abs=0.05)
    assert shares.mean(axis=0) == pytest.approx(RATES, abs=0.02)
    assert (shares.argmax(axis=1) == 2).mean() > 0.98
    assert fitted.temperature > 5


@pytest.mark.parametrize("strength", [1.0, 2.0])
def test_what_was_learned_stays_and_its_mean_is_at_the_rates(strength: float):
    logs, outcomes, folds = weighed(3000, strength)
    fitted = fit_calibration(logs, outcomes, folds, learned_shares=EVEN, rates=RATES)
    calibrated = fitted.apply(logs)
    assert np.exp(calibrated).mean(axis=0) == pytest.approx(RATES, abs=0.02)
    entropy = -(RATES * np.log(RATES)).sum()
    assert log_loss(calibrated, outcomes) < min(log_loss(logs, outcomes), entropy) - 0.02
    assert fitted.temperature == pytest.approx(1.0, rel=0.15)
    # Bayes: the offsets are the log ratio of the rates to equal shares.
    offsets = np.array(fitted.offsets)
    assert offsets - offsets.mean() == pytest.approx(np.log(RATES) - np.log(RATES).mean(), abs=0.25)


def test_too_few_labels_undo_the_weights_and_no_more():
    logs, outcomes, folds = weighed(19, 2.0)
    fitted = fit_calibration(logs, outcomes, folds, learned_shares=EVEN, rates=RATES)
    assert (fitted.temperature, fitted.losses) == (1.0, {})
    ratio = np.exp(fitted.apply(logs) - logs)
    assert ratio[:, 2] / ratio[:, 0] == pytest.approx(3.0, rel=1e-3)


def test_a_level_that_one_fold_never_learned_stays_impossible_there_and_upsets_nothing():
    logs, outcomes, folds = weighed(300, 2.0)
    outcomes[outcomes == 0] = np.where(np.arange((outcomes == 0).sum()) < 3, 0, 1)
    rates = np.bincount(outcomes, minlength=3) / 300
    unseen = (folds == 0) & (outcomes != 0)
    logs[unseen, 0] = np.log(1e-12)
    possible = (folds != 0) | (outcomes != 0)
    fitted = fit_calibration(
        logs[possible], outcomes[possible], folds[possible], learned_shares=EVEN, rates=rates
    )
    shares = np.exp(fitted.apply(logs[possible]))
    assert shares[unseen[possible], 0].max() < 1e-9
    assert log_loss(fitted.apply(logs[possible]), outcomes[possible]) < 1.2
