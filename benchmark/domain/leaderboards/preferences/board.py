"""The numbers of a board of comparisons, and what of them is undefined and why. Pure.

docs/preferences.md says what each of them is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmark.domain.leaderboards.preferences.comparisons import (
    DesignCounts,
    PairwiseComparisons,
    ShareOfPoints,
    WinTable,
    count_wins,
    measure_first_share,
    measure_win_rate,
    to_count,
)
from benchmark.domain.leaderboards.preferences.resampling import (
    MIN_PROMPTS,
    MIN_TIE_PROMPTS,
    ComparedNumber,
    bound_number,
    bound_ties,
    rank_strengths,
)
from benchmark.domain.leaderboards.preferences.strengths import (
    LENGTH,
    POSITION,
    TIES,
    FittedDraws,
    PreferenceTerms,
    StrengthFit,
    UndefinedStrengths,
    compute_elo,
    fit_draws,
    fit_strengths,
)
from benchmark.domain.leaderboards.ranks import Rank
from benchmark.domain.leaderboards.responses import Floats
from scoring.domain.evaluation import draw_groups

RESAMPLES = 1000
STRENGTHS, INTERVALS = "strengths", "intervals"
FEW_PROMPTS = "few_prompts"


@dataclass(frozen=True)
class PreferenceRow:
    """Of one model; ``n`` are its comparisons, ``win_rate`` over all of them. ``elo`` reads ``strength`` otherwise."""

    model: str
    n: int
    strength: ComparedNumber
    elo: float | None
    win_rate: ComparedNumber
    rank: Rank | None

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "n": self.n,
            "strength": self.strength.to_json(),
            "elo": self.elo,
            "win_rate": self.win_rate.to_json(),
            "rank": self.rank.to_json() if self.rank else None,
        }


@dataclass(frozen=True)
class PositionBias:
    """``share`` of the ``n`` decided comparisons that was won by what was displayed first; ``effect`` in log-odds."""

    share: ComparedNumber
    n: float
    effect: ComparedNumber

    def to_json(self) -> dict[str, Any]:
        return {"share": {**self.share.to_json(), "n": to_count(self.n)}, "effect": self.effect.to_json()}


@dataclass(frozen=True)
class UndefinedPart:
    """``part`` is ``strengths`` (and with them all that is fitted), ``position``, ``length``, ``intervals`` or
    ``ties``: the interval of nu alone."""

    part: str
    reason: str
    groups: tuple[tuple[str, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"part": self.part, "reason": self.reason, "groups": [list(group) for group in self.groups]}


@dataclass(frozen=True, eq=False)
class PreferenceBoard:
    """``rows`` are best first, or in the order of the models where strengths are undefined.

    ``terms`` are those that were fitted: what could not be told from the strengths is not among them.
    """

    comparisons: int
    prompts: int
    terms: PreferenceTerms
    rows: tuple[PreferenceRow, ...]
    nu: ComparedNumber
    position: PositionBias
    length: ComparedNumber | None
    wins: WinTable
    draws: int
    undefined_draws: int
    undefined: tuple[UndefinedPart, ...]

    def to_json(self) -> dict[str, Any]:
        terms = self.terms
        return {
            "comparisons": self.comparisons,
            "prompts": self.prompts,
            "terms": {"ties": terms.ties, "position": terms.position, "length": terms.length},
            "rows": [row.to_json() for row in self.rows],
            "ties": self.nu.to_json() if terms.ties else None,
            "position": self.position.to_json(),
            "length": self.length.to_json() if self.length else None,
            "pairs": self.wins.to_json(),
            "draws": {"n": self.draws, "undefined": self.undefined_draws},
            "undefined": [part.to_json() for part in self.undefined],
        }


def build_preference_board(
    comparisons: PairwiseComparisons,
    *,
    ties: bool = True,
    position: bool = True,
    length: bool | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> PreferenceBoard:
    """Davidson's model, or without ``ties`` Bradley and Terry's. ``length`` is asked for where lengths are known.

    An effect of position or length that the comparisons cannot tell from the strengths is left out, and named.
    """
    if length is None:
        length = comparisons.length_difference is not None
    fit, undefined = _fit_identified(
        comparisons, PreferenceTerms(ties=ties, position=position, length=length)
    )
    drawn = _draw_prompts(comparisons, resamples, seed)
    if drawn is None:
        undefined.append(UndefinedPart(INTERVALS, FEW_PROMPTS))
    elif fit.nu and comparisons.prompts < MIN_TIE_PROMPTS:
        undefined.append(UndefinedPart(TIES, FEW_PROMPTS))
    draws = None
    if drawn is not None and fit.undefined is None:
        counts = DesignCounts.build(comparisons, ties=fit.terms.ties, length=fit.terms.length)
        draws = fit_draws(counts, drawn, fit.terms, fit)
    share, n = measure_first_share(comparisons)
    prompts = comparisons.prompts
    return PreferenceBoard(
        len(comparisons.first),
        prompts,
        fit.terms,
        _build_rows(comparisons, fit, draws),
        bound_ties(fit.nu, draws.nu if draws else None, prompts),
        PositionBias(
            _state_share(share, prompts),
            n,
            bound_number(fit.position, draws.position if draws else None, prompts),
        ),
        bound_number(fit.length, draws.length if draws else None, prompts) if fit.terms.length else None,
        count_wins(comparisons),
        0 if draws is None else len(draws.nu),
        0 if draws is None else int((~draws.exists).sum()),
        tuple(undefined),
    )


def _fit_identified(
    comparisons: PairwiseComparisons, terms: PreferenceTerms
) -> tuple[StrengthFit, list[UndefinedPart]]:
    """With as many of the terms as there is a maximum for."""
    undefined = []
    fit = fit_strengths(comparisons, terms)
    while fit.undefined and fit.undefined.reason in {POSITION, LENGTH}:
        undefined.append(UndefinedPart(fit.undefined.reason, "not_identified"))
        terms = replace(terms, **{fit.undefined.reason: False})
        fit = fit_strengths(comparisons, terms)
    if fit.undefined:
        undefined.append(_name_part(fit.undefined))
    return fit, undefined


def _name_part(undefined: UndefinedStrengths) -> UndefinedPart:
    return UndefinedPart(STRENGTHS, undefined.reason, undefined.groups)


def _draw_prompts(comparisons: PairwiseComparisons, resamples: int, seed: int) -> Floats | None:
    """(P, B) how often each prompt is drawn."""
    if comparisons.prompts < MIN_PROMPTS or not resamples:
        return None
    return draw_groups(comparisons.prompts, resamples=resamples, seed=seed)[:, 1:].astype(np.float64)


def _build_rows(
    comparisons: PairwiseComparisons, fit: StrengthFit, draws: FittedDraws | None
) -> tuple[PreferenceRow, ...]:
    size, prompts = len(comparisons.models), comparisons.prompts
    met = np.bincount(comparisons.first, minlength=size) + np.bincount(comparisons.second, minlength=size)
    strengths = fit.strengths
    ranks = None if strengths is None else rank_strengths(strengths, draws, prompts)
    rows = []
    for at, model in enumerate(comparisons.models):
        value = None if strengths is None else float(strengths[at])
        rows.append(
            PreferenceRow(
                model,
                int(met[at]),
                bound_number(value, None if draws is None else draws.strengths[:, at], prompts),
                None if value is None else compute_elo(value),
                _state_share(measure_win_rate(comparisons, at), prompts),
                None if ranks is None else ranks[at],
            )
        )
    order = range(size) if ranks is None else sorted(range(size), key=lambda at: ranks[at].value)
    return tuple(rows[at] for at in order)


def _state_share(share: ShareOfPoints, prompts: int) -> ComparedNumber:
    value, low, high = share
    return ComparedNumber(value, low, high) if prompts >= MIN_PROMPTS else ComparedNumber(value)
