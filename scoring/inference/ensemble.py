"""Texts to probabilities with an ensemble: the weighted average of its members, whose folders its own folder holds.

    from ensemble import EnsembleScorer
    EnsembleScorer.load("folder").probabilities([("the prompt", "the response")])

Needs numpy and scipy; torch, transformers and safetensors too where a member has an encoder; and beside itself the
files of its members.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING or __package__:
    from .ngram import Doubles, Pair, calibrate
else:  # laid beside the weights, where there is no package
    from ngram import Doubles, Pair, calibrate

CARD = "scorer.json"
MEMBERS = {
    "ngram": ("ngram", "NgramScorer"),
    "patterns": ("patterns", "PatternsScorer"),
    "embedding": ("embedding", "EmbeddingScorer"),
    "transformer": ("encoder", "EncoderScorer"),
}
"""The module and class of each kind of member."""


def average_members(
    members: Sequence[Doubles], weights: Sequence[float], temperature: float, offsets: Sequence[float] = ()
) -> Doubles:
    """Probabilities (rows, levels): the members' weighted mean, calibrated by a temperature and an offset a level."""
    mixed = sum((w * member for w, member in zip(weights, members, strict=True)), np.zeros(members[0].shape))
    with np.errstate(divide="ignore"):  # what all members find impossible stays so
        result: Doubles = np.exp(calibrate(np.log(mixed), temperature, offsets))
    return result


@dataclass(frozen=True)
class EnsembleScorer:
    """Members by name; by criterion the weight of each, and the temperature and the offsets of their mean."""

    scales: Mapping[str, tuple[float, ...]]
    members: Mapping[str, Any]
    mixtures: Mapping[str, Mapping[str, Any]]

    @classmethod
    def load(cls, folder: str | Path) -> EnsembleScorer:
        folder = Path(folder)
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
        scales = {head["criterion"]: tuple(head["values"]) for head in card["heads"]}
        return cls(scales, {name: _load_member(folder / name) for name in card["members"]}, card["mixtures"])

    def probabilities(self, pairs: Sequence[Pair]) -> list[dict[str, dict[float, float]]]:
        """For each pair ``{criterion: {level: probability}}``."""
        member_predictions = {name: member.probabilities(pairs) for name, member in self.members.items()}
        return mix_predictions(self.scales, self.mixtures, member_predictions, len(pairs))


def mix_predictions(
    scales: Mapping[str, tuple[float, ...]],
    mixtures: Mapping[str, Mapping[str, Any]],
    member_predictions: Mapping[str, Sequence[Mapping[str, Mapping[float, float]]]],
    rows: int,
) -> list[dict[str, dict[float, float]]]:
    """What the members said, averaged; a criterion that one of its members never learned is absent."""
    result: list[dict[str, dict[float, float]]] = [{} for _row in range(rows)]
    for criterion, values in scales.items():
        mixture = mixtures[criterion]
        names = [name for name, weight in mixture["weights"].items() if weight > 0]
        if not rows or any(criterion not in member_predictions[name][0] for name in names):
            continue
        members = [
            np.array([[prediction[criterion][v] for v in values] for prediction in member_predictions[name]])
            for name in names
        ]
        weights = [mixture["weights"][name] for name in names]
        averages = average_members(members, weights, mixture["temperature"], mixture.get("offsets", ()))
        for row, levels in zip(result, averages.tolist(), strict=True):
            row[criterion] = dict(zip(values, levels, strict=True))
    return result


def _load_member(folder: Path) -> Any:
    kind = json.loads((folder / CARD).read_text(encoding="utf-8"))["kind"]
    module, name = MEMBERS[kind]
    package = __package__ or ""
    member_module = import_module(f".{module}", package) if package else import_module(module)
    return getattr(member_module, name).load(folder)
