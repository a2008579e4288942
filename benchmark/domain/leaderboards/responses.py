"""One response as a run counts it, what every figure of a board is computed from; and those of a column. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Value = int | float
Labels = tuple[tuple[str, Value], ...]
"""What one response was given: (criterion, value), sorted."""

GOLD = "gold"
"""The basis of what people settled; any other is a prediction."""

SUBCOMPONENT, ATTACK_METHOD, MALICE, LANGUAGE = "subcomponent", "attack_method", "malice", "language"
PROMPT_ATTRIBUTES = (SUBCOMPONENT, ATTACK_METHOD, MALICE, LANGUAGE)
"""What a prompt may have beside its dimension, each a field of it."""
CROSS = "*"
METHOD_BY_MALICE = f"{ATTACK_METHOD}{CROSS}{MALICE}"
ATTRIBUTES = (SUBCOMPONENT, ATTACK_METHOD, MALICE, METHOD_BY_MALICE, LANGUAGE)
"""What prompts are grouped by. One that is crossed is had by a prompt that has both of its parts."""


def group_prompt(attributes: Mapping[str, str]) -> dict[str, str]:
    """By ``ATTRIBUTES``, of the ``PROMPT_ATTRIBUTES`` that a prompt has; a crossed group is ``METHOD*MALICE``."""
    groups = dict(attributes)
    if ATTACK_METHOD in groups and MALICE in groups:
        groups[METHOD_BY_MALICE] = CROSS.join((groups[ATTACK_METHOD], groups[MALICE]))
    return groups


def split_crossed(name: str) -> tuple[str, str]:
    """The attack method and the malice of a crossed group."""
    method, _cross, malice = name.rpartition(CROSS)
    return method, malice


@dataclass(frozen=True)
class CountedResponse:
    """``labels`` are what the board counts: gold where there is gold, else predictions (``basis`` is the weakest).

    ``prompt`` pairs the models' responses to one prompt; None where nobody knows it. ``scope`` is the column of the
    board. ``gold`` are the labels of people who judged all of the response, without what they may leave out and did;
    ``predicted`` those of every criterion of it; else either is empty. Predictions are never in-sample. ``sureness`` is
    the least of the probabilities of its predicted levels.
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


Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ColumnResponses:
    """The responses of one column of a board.

    ``rows``, ``unit``, ``model`` and ``pattern`` have an entry for each response; the last three are places in
    ``groups``, ``models`` and ``patterns``. A unit is a prompt, or a response whose prompt nobody knows. ``known`` says
    of each model whether all its prompts are.
    """

    models: tuple[str, ...]
    rows: tuple[CountedResponse, ...]
    patterns: tuple[Labels, ...]
    groups: tuple[Mapping[str, str], ...]
    unit: Integers
    model: Integers
    pattern: Integers
    known: Mask

    @classmethod
    def build(cls, rows: Iterable[CountedResponse], models: Sequence[str]) -> ColumnResponses:
        """``models`` are those of the board, whether they have a response here or not. No order changes anything."""
        ordered = tuple(sorted(rows, key=_sort_key))
        units: dict[object, int] = {}
        groups: list[Mapping[str, str]] = []
        place = {model: at for at, model in enumerate(models)}
        patterns = {labels: at for at, labels in enumerate(sorted({response.labels for response in ordered}))}
        entries = np.zeros((3, len(ordered)), dtype=np.int64)
        known = np.ones(len(models), dtype=bool)
        for at, response in enumerate(ordered):
            unit = units.setdefault((at,) if response.prompt is None else response.prompt, len(units))
            if unit == len(groups):
                groups.append(response.groups)
            known[place[response.model]] &= response.prompt is not None
            entries[:, at] = unit, place[response.model], patterns[response.labels]
        unit_places, model_places, pattern_places = entries
        return cls(
            tuple(models),
            ordered,
            tuple(patterns),
            tuple(groups),
            unit_places,
            model_places,
            pattern_places,
            known,
        )

    def count_labels(self, keep: Mask | None = None) -> dict[str, Counter[Labels]]:
        """By model, how many of its responses were given which labels; ``keep`` says which units are meant."""
        is_counted = np.ones(len(self.unit), dtype=bool) if keep is None else keep[self.unit]
        place = (self.model * len(self.patterns) + self.pattern)[is_counted]
        table = np.bincount(place, minlength=len(self.models) * len(self.patterns))
        rows = table.reshape(len(self.models), -1).tolist() if self.models else []
        return {
            model: Counter({labels: n for labels, n in zip(self.patterns, row, strict=True) if n})
            for model, row in zip(self.models, rows, strict=True)
        }

    def select_units(self, attribute: str, value: str) -> Mask:
        """Which units are of this group."""
        return np.array([group.get(attribute) == value for group in self.groups], dtype=bool)

    def select_rows(self, model: str, keep: Mask | None = None) -> list[CountedResponse]:
        """The responses of a model, to the units that are meant."""
        is_own = self.model == self.models.index(model)
        if keep is not None:
            is_own &= keep[self.unit]
        return [self.rows[at] for at in np.flatnonzero(is_own)]


def _sort_key(response: CountedResponse) -> tuple[bool, bool, int | str, str, Labels, list[tuple[str, str]]]:
    prompt = "" if response.prompt is None else response.prompt
    is_text = isinstance(prompt, str)
    return (
        response.prompt is None,
        is_text,
        prompt,
        response.model,
        response.labels,
        sorted(response.groups.items()),
    )
