"""Patterns of labels, counted: out of arrays, over several criteria, and as the arrays that are measured.

The module also has the words of the statistics: what enters them, what results, and why a statistic is undefined.

Shapes: N units, R rater positions, V values of the scale, M distinct sets of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from annotation.core.errors import N_, AssayError

Value: TypeAlias = int | float
Pattern: TypeAlias = tuple[Value | None, ...]
Patterns: TypeAlias = Mapping[Pattern, int]
"""How many units carry each tuple of labels, by rater position; None where a label is missing."""
Measurement: TypeAlias = Literal["nominal", "ordinal", "interval", "masi"]

MASI: Measurement = "masi"
"""Of sets of options, each the sum of its options' values: nominal, but for the distance between two sets."""
MEASUREMENTS: tuple[Measurement, ...] = ("nominal", "ordinal", "interval")
"""From weakest to strongest: a scale allows the statistics of its own level and of the weaker ones."""

NO_PAIRS = N_("No unit has labels from two annotators.")
ONE_CATEGORY = N_("All labels that can be compared are the same, so agreement by chance is certain.")
NO_DIFFERENT_UNITS = N_(
    "Labels differ no more between units than within them, so this correlation is undefined."
)
MORE_THAN_TWO = N_("Cohen's kappa compares two annotators; here there are more.")
POOL = N_("This compares two fixed annotators; here the labels are of more people.")
MORE_THAN_TWO_FOR_PI = N_("Scott's pi compares two annotators; here there are more.")
MORE_THAN_TWO_TO_CORRELATE = N_("A correlation is of two annotators; here there are more.")
NO_ORDER = N_("The levels of a nominal scale have no order.")
NO_DISTANCES = N_("The levels of this scale have no distances between them.")
NO_SETS = N_("Only one option is chosen here, so there are no sets to compare.")


EQUAL_WEIGHTS = 1e-9
"""Weights that differ by no larger a part are the same, rounded in another order."""

FEW_PROMPTS = "few_prompts"
FEW_DISPUTES = "few_disputes"
FEW_UNCOMMON = "few_uncommon"
NO_VARIATION = "no_variation"
"""Why a value has no interval, as codes: pages have the words."""


@dataclass(frozen=True)
class Statistic:
    """A value with its interval over prompts; what is undefined is None, and ``reason`` says why.

    ``no_interval`` says why a value has no interval. ``design_effect`` is the variance by prompts over that of as many
    independent units. ``standard_error`` is the closed-form one, where a statistic has one (AC1 and AC2). ``fisher``
    is the interval of a correlation by Fisher's transformation, which takes units for independent.
    """

    value: float | None
    low: float | None
    high: float | None
    reason: str | None = None
    standard_error: float | None = None
    design_effect: float | None = None
    no_interval: str | None = None
    fisher: tuple[float, float] | None = None


@dataclass(frozen=True)
class Agreement:
    """``n`` units of ``prompts`` prompts have at least two labels; in ``disputed`` of them these are not all equal."""

    n: int
    disputed: int
    statistics: Mapping[str, Statistic]
    prompts: int


Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.integer[Any]]

MAX_BINS = 1 << 20
"""So many possible rows are counted by their number; where there could be more, the rows are sorted."""


def count_label_patterns(labels: Codes, values: Sequence[Value] | None = None) -> dict[Pattern, int]:
    """The patterns of an (N, R) array of level codes, counted: positions in ``values``, -1 where a label is missing.

    Without ``values`` the codes are the values. Each row becomes one number, so no unit is looked at in Python.
    """
    codes = np.asarray(labels)
    levels = _check_levels(codes, values)
    rows, counts = _count_rows(codes, len(levels) + 1)
    names: list[Value | None] = [*levels, None]  # -1 picks the last
    patterns = (tuple([names[code] for code in row]) for row in rows.tolist())
    return dict(zip(patterns, counts.tolist(), strict=True))


def _check_levels(codes: Codes, values: Sequence[Value] | None) -> Sequence[Value]:
    if codes.ndim != 2 or not np.issubdtype(codes.dtype, np.integer):
        raise ValueError("labels are whole numbers: a row for each unit, a column for each rater")
    low, high = (int(codes.min()), int(codes.max())) if codes.size else (-1, -1)
    levels = range(high + 1) if values is None else values
    if low < -1 or high >= len(levels):
        raise ValueError(
            f"codes from {low} to {high} on a scale of {len(levels)} levels; -1 is a missing label"
        )
    return levels


def _count_rows(codes: Codes, base: int) -> tuple[Ints, Ints]:
    """The rows that occur and how often, in a fixed order."""
    width = codes.shape[1]
    if base**width >= 1 << 62:
        rows, counts = np.unique(codes.astype(np.int64), axis=0, return_counts=True)
        return rows, counts.astype(np.int64)
    numbers = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        numbers *= base
        numbers += column
        numbers += 1
    distinct_numbers, counts = _count_numbers(numbers, base**width)
    digits = [distinct_numbers // base ** (width - 1 - place) % base - 1 for place in range(width)]
    return np.stack(digits, axis=1) if digits else np.zeros(
        (len(distinct_numbers), 0), dtype=np.int64
    ), counts


def _count_numbers(numbers: Ints, bound: int) -> tuple[Ints, Ints]:
    if bound <= MAX_BINS:
        bins = np.bincount(numbers)
        distinct_numbers = np.flatnonzero(bins)
        return distinct_numbers.astype(np.int64), bins[distinct_numbers].astype(np.int64)
    distinct_numbers, counts = np.unique(numbers, return_counts=True)
    return distinct_numbers, counts.astype(np.int64)


@dataclass(frozen=True, eq=False)
class PromptCounts:
    """How many units of each prompt carry each pattern, where that is any: E entries over M different patterns.

    place (E,) is that of the pattern, prompt (E,) the key of the prompt, n (E,) the number of units. ``weight`` (E,) is
    for how many units each of them stands: one over its chance of selection; 0 where that is unknown and others stand
    for it, negative where nobody knows what stands for what. It is a number where all units have the same.
    Equal where the digests are: what was measured can be kept without the entries.
    """

    patterns: tuple[Pattern, ...]
    place: Ints
    prompt: Ints
    n: Ints
    weight: Floats | float = 1.0

    @cached_property
    def digest(self) -> bytes:
        digest = blake2b(repr(self.patterns).encode(), digest_size=16)
        for column in (self.place, self.prompt, self.n):
            digest.update(column.astype(np.int64).tobytes())
        if self.weights is not None:
            digest.update(self.weights.tobytes())
        return digest.digest()

    @cached_property
    def weights(self) -> Floats | None:
        """(E,): by which what is measured is weighed; None where all weights are equal or one is not known."""
        if isinstance(self.weight, float) or not len(self.weight):
            return None
        low, high = float(self.weight.min()), float(self.weight.max())
        return None if low < 0 or high - low <= EQUAL_WEIGHTS * high else self.weight

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PromptCounts) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def counts(self) -> dict[Pattern, int]:
        """The units with each pattern, whatever their prompts."""
        totals = np.bincount(self.place, weights=self.n, minlength=len(self.patterns)).astype(np.int64)
        counts: Counter[Pattern] = Counter()
        for pattern, n in zip(self.patterns, totals.tolist(), strict=True):
            counts[pattern] += n
        return dict(counts)

    def rename(self, patterns: Iterable[Pattern]) -> PromptCounts:
        """The same entries under other patterns, which stand in the places of these."""
        return replace(self, patterns=tuple(patterns))


def join_prompt_counts(parts: Iterable[PromptCounts]) -> PromptCounts:
    """The entries of all parts: a prompt that several have is one prompt."""
    places: dict[Pattern, int] = {}
    columns: tuple[list[Ints], ...] = ([], [], [])
    weights: list[tuple[Floats | float, int]] = []
    for part in parts:
        moved = [places.setdefault(pattern, len(places)) for pattern in part.patterns]
        of_part = np.array(moved, dtype=np.int64)[part.place] if moved else part.place
        for column, values in zip(columns, (of_part, part.prompt, part.n), strict=True):
            column.append(values)
        if len(part.n):
            weights.append((part.weight, len(part.n)))
    place, prompt, n = (
        np.concatenate(column).astype(np.int64) if column else np.zeros(0, np.int64) for column in columns
    )
    return PromptCounts(tuple(places), place, prompt, n, _join_weights(weights))


def _join_weights(parts: Sequence[tuple[Floats | float, int]]) -> Floats | float:
    common = {weight for weight, _n in parts if isinstance(weight, float)}
    if len(common) < 2 and all(isinstance(weight, float) for weight, _n in parts):
        return common.pop() if common else 1.0
    return np.concatenate([np.broadcast_to(np.asarray(weight, dtype=np.float64), n) for weight, n in parts])


def count_by_prompt(
    labels: Codes,
    prompts: npt.NDArray[Any],
    values: Sequence[Value] | None = None,
    *,
    weight: Floats | float = 1.0,
) -> PromptCounts:
    """As ``count_label_patterns``, with the prompt (N,) of each unit and for how many units it stands."""
    codes = np.asarray(labels)
    levels: list[Value | None] = [*_check_levels(codes, values), None]
    rows, place = np.unique(codes.astype(np.int64), axis=0, return_inverse=True)
    keys, of_prompt = np.unique(prompts, return_inverse=True)
    at = place.ravel() * len(keys) + of_prompt
    weights = np.zeros(1)
    if not isinstance(weight, float):
        weights, of_weight = np.unique(weight, return_inverse=True)
        at = at * len(weights) + of_weight
    entries, n = np.unique(at, return_counts=True)
    patterns = tuple(tuple([levels[code] for code in row]) for row in rows.tolist())
    sets = entries // max(1, len(weights))
    return PromptCounts(
        patterns,
        sets // max(1, len(keys)),
        keys[sets % max(1, len(keys))].astype(np.int64),
        n,
        weight if isinstance(weight, float) else weights[entries % max(1, len(weights))],
    )


def pool(parts: Iterable[tuple[Patterns, Sequence[Value]]]) -> tuple[dict[Pattern, int], tuple[Value, ...]]:
    """Patterns and values of several criteria as one nominal scale: the same value is the same level.

    Each part is one criterion's patterns and its scale; a unit is then one criterion of one response.
    """
    counts: Counter[Pattern] = Counter()
    values: set[Value] = set()
    for patterns, scale in parts:
        counts.update(patterns)
        values.update(scale)
    return dict(counts), tuple(sorted(values))


@dataclass(frozen=True)
class LabelSets:
    """The distinct sets of labels, with at least one each: who gave which label matters to Cohen's kappa alone.

    values: the scale, V of them. positions: the raters, R of them. counts (M,): units with each set.
    value_counts (M, V): how many labels of the set have each value, r_ik. turned (M,): of two raters' units with
    two different labels, those where the first rater gave the later value. kinds: by pattern the place of its set,
    and M more where it is turned; unlabelled patterns have none.
    """

    values: tuple[Value, ...]
    positions: int
    counts: Ints
    value_counts: Floats
    turned: Ints
    kinds: Mapping[Pattern, int]

    @cached_property
    def labelled(self) -> Floats:
        """(M,): labels on a unit, r_i."""
        counts: Floats = self.value_counts.sum(axis=1)
        return counts

    @cached_property
    def pairable(self) -> Floats:
        """(M,): 1 where a unit has the two labels that a comparison needs, else 0."""
        return (self.labelled >= 2).astype(np.float64)

    @cached_property
    def pairable_counts(self) -> Floats:
        """(M, V): the value counts of the pairable units, 0 for the others."""
        return self.value_counts * self.pairable[:, None]

    @cached_property
    def shares(self) -> Floats:
        """(M, V): the share of each value in a unit's labels, r_ik / r_i."""
        return self.value_counts / self.labelled[:, None]

    @cached_property
    def n(self) -> int:
        return int(self.counts @ self.pairable)

    @property
    def disputed(self) -> int:
        return int(self.counts @ (np.count_nonzero(self.value_counts, axis=1) > 1))

    def count_uncommon(
        self, distances: Floats | None, *, counts: Floats | None = None, squares: Floats | None = None
    ) -> float:
        """Units with two labels of which one at least is not the commonest level. With distances (V, V) each weighs as
        far as its farthest label lies from that level, and the number is that of as many equal weights (Kish 1965).
        So it is with ``counts`` (M,), the weights of the units with each set, and ``squares`` (M,), the sums of theirs.
        """
        if not len(self.counts):
            return 0.0
        of_sets = self.counts if counts is None else counts
        commonest = int((of_sets @ self.pairable_counts).argmax())
        away = 1 - np.eye(len(self.values)) if distances is None else distances
        weights = ((self.pairable_counts > 0) * away[commonest]).max(axis=1)
        total_squares = float((of_sets if squares is None else squares) @ np.square(weights))
        return float(of_sets @ weights) ** 2 / total_squares if total_squares else 0.0

    def disagreement(self, distances: Floats) -> Floats:
        """(M,): the mean distance (V, V) of two labels of one unit, over its ordered pairs; 0 for a single label."""
        pairs: Floats = ((self.value_counts @ distances) * self.value_counts).sum(axis=1)
        return pairs / np.maximum(self.labelled * (self.labelled - 1), 1)


def tabulate(patterns: Patterns, values: Sequence[Value]) -> LabelSets:
    """Patterns as sets of labels in a fixed order; unlabelled units are left out."""
    index = {value: position for position, value in enumerate(values)}
    positions = max(map(len, patterns), default=0)
    counts: Counter[tuple[int, ...]] = Counter()
    turned: Counter[tuple[int, ...]] = Counter()
    sets: dict[Pattern, tuple[tuple[int, ...], bool]] = {}
    for pattern, count in patterns.items():
        codes = [_get_code(label, index) for label in pattern if label is not None]
        labels = tuple(sorted(codes))
        is_turned = positions == 2 and labels[:1] != tuple(codes[:1])
        counts[labels] += count
        sets[pattern] = labels, is_turned
        if is_turned:
            turned[labels] += count
    label_sets = sorted(labels for labels, count in counts.items() if labels and count > 0)
    places = {labels: place for place, labels in enumerate(label_sets)}
    return LabelSets(
        values=tuple(values),
        positions=positions,
        counts=np.array([counts[labels] for labels in label_sets], dtype=np.int64),
        value_counts=_count_values(label_sets, len(index)),
        turned=np.array([turned[labels] for labels in label_sets], dtype=np.int64),
        kinds={
            pattern: places[labels] + len(places) * is_turned
            for pattern, (labels, is_turned) in sets.items()
            if labels in places
        },
    )


def _get_code(label: Value, index: Mapping[Value, int]) -> int:
    code = index.get(label)
    if code is None:
        scale = ", ".join(str(value) for value in index)
        raise AssayError(N_("The label {label} is not on the scale {scale}."), label=label, scale=scale)
    return code


def _count_values(label_sets: Sequence[tuple[int, ...]], size: int) -> Floats:
    """(M, V): how many labels of each set have each value."""
    rows = np.repeat(np.arange(len(label_sets)), [len(labels) for labels in label_sets])
    codes = np.array([code for labels in label_sets for code in labels], dtype=np.int64)
    flat = np.bincount(rows * size + codes, minlength=len(label_sets) * size)
    return flat.reshape(len(label_sets), size).astype(np.float64)
