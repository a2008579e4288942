"""Predicting with a saved scorer from Python, without a database: for notebooks and scripts.

    from scoring.backbones import predict
    predict("var/scorers/7/weights", [("How do I kill a process?", "With kill and its number.")])
    # [{"compliance": {1: 0.01, 2: 0.02, 3: 0.97}}]

It knows nothing of what the scorer has learned from: of those texts it says more than it can know of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scoring.backbones.registry import load
from scoring.domain.training_data import Example, Prediction


def predict(folder: str | Path, pairs: Sequence[tuple[str, str]]) -> list[Prediction]:
    """By criterion a probability for each level, of each (prompt, response), in their order.

    ``folder`` is where a scorer was saved (``scorer.json`` and its weights); a dialogue is given as
    ``scoring.domain.training_data.transcript`` writes it. The same texts are predicted once. Raises AssayError where no
    scorer can be read, or its packages are missing.
    """
    fitted = load(Path(folder))
    different = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
    examples = [Example("", "", prompt, response) for prompt, response in different]
    predictions = fitted.predict(examples) if examples else []
    return [predictions[different[pair]] for pair in pairs]
