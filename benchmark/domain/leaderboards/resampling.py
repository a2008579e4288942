"""One response as a run counts it: what every figure of a board is computed from. Pure.

The responses of one column of a board, drawn again: the same prompts for every model. Pure.

The draws of a column depend on the seed, its name and its prompts alone, never on the order of anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

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


Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

RESAMPLES = 2000


@dataclass(frozen=True)
class ResponseBlock:
    """Responses that are drawn together: to the same prompts, or of one model where nobody knows the prompts.

    A unit is what is drawn: a prompt, or one kind of response (``shared`` says which). ``weights`` (1 + RESAMPLES,
    units) is how often each unit is there, the first row as counted. ``unit``, ``model`` and ``pattern`` have an entry
    for each response (for each kind of response): places in ``weights``, ``models`` and ``patterns``.
    """

    models: tuple[str, ...]
    shared: bool
    patterns: tuple[Labels, ...]
    groups: tuple[Mapping[str, str], ...]
    weights: Floats
    unit: Integers
    model: Integers
    pattern: Integers

    def sum_by_model(self, by_pattern: Sequence[float]) -> Floats:
        """(units, models): the sum of a number that each pattern has, over the responses of a model in a unit."""
        size = len(self.groups) * len(self.models)
        place = self.unit * len(self.models) + self.model
        values = np.asarray(by_pattern, dtype=float)[self.pattern]
        sums = np.bincount(place, weights=values, minlength=size).astype(np.float64)
        return sums.reshape(len(self.groups), -1)

    def count_labels(self, keep: Mask | None = None) -> dict[str, Counter[Labels]]:
        """By model, how many of its responses were given which labels; ``keep`` says which units are meant."""
        is_counted = np.ones(len(self.unit), dtype=bool) if keep is None else keep[self.unit]
        place = (self.model * len(self.patterns) + self.pattern)[is_counted]
        size = len(self.models) * len(self.patterns)
        table = np.bincount(place, weights=self.weights[0, self.unit[is_counted]], minlength=size)
        rows = table.astype(np.int64).reshape(len(self.models), -1).tolist()
        return {
            model: Counter({labels: n for labels, n in zip(self.patterns, row, strict=True) if n})
            for model, row in zip(self.models, rows, strict=True)
        }

    def select_units(self, attribute: str, value: str) -> Mask:
        """Which units are of this group."""
        return np.array([group.get(attribute) == value for group in self.groups], dtype=bool)


def build_blocks(rows: Iterable[CountedResponse], scope: str, seed: int) -> tuple[ResponseBlock, ...]:
    """The rows of one column: one block of the models whose prompts are known, one for each other model."""
    by_model: dict[str, list[CountedResponse]] = defaultdict(list)
    for row in rows:
        by_model[row.model].append(row)
    known = [model for model in sorted(by_model) if all(row.prompt is not None for row in by_model[model])]
    unpaired = [model for model in sorted(by_model) if model not in set(known)]
    shared = [_build_prompt_block([by_model[model] for model in known], scope, seed)] if known else []
    return (*shared, *(_build_kind_block(by_model[model], scope, seed) for model in unpaired))


def _build_prompt_block(rows: Sequence[Sequence[CountedResponse]], scope: str, seed: int) -> ResponseBlock:
    """Prompts are drawn with replacement, each as likely as any other, with whatever was answered to it."""
    groups: dict[int | str, Mapping[str, str]] = {row.prompt: row.groups for own in rows for row in own}  # type: ignore[misc]
    order = sorted(groups, key=lambda prompt: (isinstance(prompt, str), prompt))
    place = {prompt: at for at, prompt in enumerate(order)}
    patterns = _number_patterns(row.labels for own in rows for row in own)
    entries = [
        (place[row.prompt], model, patterns[row.labels])  # type: ignore[index]
        for model, own in enumerate(rows)
        for row in own
    ]
    n = len(order)
    draws = _make_generator(seed, scope).multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
    return _assemble_block(
        tuple(own[0].model for own in rows),
        patterns,
        entries,
        weights=np.vstack([np.ones(n), draws]),
        groups=[groups[prompt] for prompt in order],
        shared=True,
    )


def _build_kind_block(rows: Sequence[CountedResponse], scope: str, seed: int) -> ResponseBlock:
    """A response to a prompt that nobody knows is drawn by itself; those that are alike make one unit."""
    model = rows[0].model
    kinds = Counter((row.labels, tuple(sorted(row.groups.items()))) for row in rows)
    order = sorted(kinds)
    patterns = _number_patterns(labels for labels, _groups in order)
    times = np.array([kinds[kind] for kind in order], dtype=float)
    draws = _make_generator(seed, f"{scope}\0{model}").multinomial(
        len(rows), times / times.sum(), size=RESAMPLES
    )
    return _assemble_block(
        (model,),
        patterns,
        [(unit, 0, patterns[labels]) for unit, (labels, _groups) in enumerate(order)],
        weights=np.vstack([times, draws]),
        groups=[dict(groups) for _labels, groups in order],
        shared=False,
    )


def _assemble_block(
    models: tuple[str, ...],
    patterns: Mapping[Labels, int],
    entries: Sequence[tuple[int, int, int]],
    *,
    weights: Floats,
    groups: Sequence[Mapping[str, str]],
    shared: bool,
) -> ResponseBlock:
    unit, model, pattern = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    # In Fortran's order, so that the draws of some units are read without a copy of all.
    weights = np.asfortranarray(weights)
    return ResponseBlock(models, shared, tuple(patterns), tuple(groups), weights, unit, model, pattern)


def _number_patterns(patterns: Iterable[Labels]) -> dict[Labels, int]:
    return {pattern: place for place, pattern in enumerate(sorted(set(patterns)))}


def _make_generator(seed: int, name: str) -> np.random.Generator:
    """Its own for each name, whatever else is drawn before."""
    return np.random.default_rng([seed, *name.encode()])
