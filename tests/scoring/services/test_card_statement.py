"""The first sentence of a card."""

from __future__ import annotations

import pytest

from scoring.services.scorers.card import describe_worth


@pytest.mark.parametrize(
    ("rates", "loss", "sentence"),
    [
        (0.7, 0.5, "that has labels of several levels."),
        (0.7, 0.8, "does not beat"),
        (0.0, 0.0, "is not measured"),
        (None, None, "is not measured"),
    ],
)
def test_a_criterion_of_one_level_is_not_called_beaten(
    rates: float | None, loss: float | None, sentence: str
) -> None:
    metrics = {"log_loss": loss, "by_criterion": {"c": {"log_loss": loss, "commonest_log_loss": rates}}}
    assert sentence in describe_worth(metrics)
