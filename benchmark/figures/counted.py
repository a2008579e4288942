"""One response as a run counts it: what every figure of a board is computed from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Value = int | float
Labels = tuple[tuple[str, Value], ...]
"""What one response was given: (criterion, value), sorted."""

GOLD = "gold"
"""The basis of what people settled; any other is a prediction."""

SUBCOMPONENT, ATTACK_METHOD, LANGUAGE = "subcomponent", "attack_method", "language"
ATTRIBUTES = (SUBCOMPONENT, ATTACK_METHOD, LANGUAGE)
"""What prompts are grouped by, beside their dimension."""


@dataclass(frozen=True)
class CountedResponse:
    """``labels`` are what the board counts: gold where there is gold, else predictions (``basis`` is the weakest).

    ``prompt`` pairs the models' responses to one prompt; None where nobody knows it. ``scope`` is the column of the
    board. ``gold`` and ``predicted`` are the labels of each kind, empty unless every criterion of the response has one;
    predictions are never in-sample. ``sureness`` is the least of the probabilities of its predicted levels.
    """

    model: str
    prompt: int | str | None
    scope: str
    labels: Labels
    basis: str = GOLD
    gold: Labels = ()
    predicted: Labels = ()
    sureness: float | None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    """The prompt's ``ATTRIBUTES``, those that it has."""
