"""How many prompts a study takes, before the first label: for an interval of agreement, or to separate two models.

Both are normal approximations of the estimators that are used later (docs/batches.md names their conditions);
``tests/performance/study_plans.py`` draws studies as large as planned and looks whether the plan is kept. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt

import numpy as np
from scipy.special import ndtr, ndtri  # scipy.stats would make every start a second longer

from annotation.core.errors import N_, AssayError
from annotation.core.proportions import Z
from annotation.domain.agreement.intervals import MIN_DISPUTES, MIN_PROMPTS

POWER = 0.80
MAX_PROMPTS = 1_000_000
MAX_LEVELS, MAX_MODELS = 11, 200
MAX_RATERS = 5
DRAWS = 40_000
"""Units drawn to find the spread of a unit's influence on alpha; its relative error is then below 2%."""
CURVE_POINTS = 40
WIDENING = 1.06
"""The printed interval is so much wider than the normal approximation, which knows neither its t quantile nor its
skewness: the mean over the rows of ``study_plans``."""


@dataclass(frozen=True)
class AgreementDesign:
    """``alpha`` is the nominal alpha that is expected; ``shares`` are those of the levels (they sum to 1), ``raters``
    label each response, of which each prompt has ``responses``. ``similarity`` is the intraclass correlation of
    what the responses to one prompt add to alpha: 0 if they have nothing in common, 1 if they are alike. A design
    effect D that was measured with m responses to a prompt is one of (D - 1) / (m - 1).
    """

    alpha: float
    shares: tuple[float, ...]
    raters: int = 2
    responses: int = 1
    similarity: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < 1:
            raise AssayError(N_("The expected alpha is from 0 to below 1."))
        if not 2 <= len(self.shares) <= MAX_LEVELS or min(self.shares) <= 0:
            raise AssayError(N_("A scale has from 2 to {most} levels, each with a share."), most=MAX_LEVELS)
        if not 2 <= self.raters <= MAX_RATERS:
            raise AssayError(
                N_("A study is planned for 2 to {most} labels of each response."), most=MAX_RATERS
            )
        _check_prompts(self.responses, self.similarity)

    @property
    def design_effect(self) -> float:
        """Kish's: by how much the variance grows because the responses to one prompt are alike."""
        return 1 + (self.responses - 1) * self.similarity

    @property
    def dispute_share(self) -> float:
        """The share of the responses on which not all raters agree."""
        return _draw_influences(self)[1]

    def half_width(self, prompts: float) -> float:
        """Half of the expected 95% interval of alpha with so many prompts."""
        spread, _disputes = _draw_influences(self)
        return WIDENING * Z * spread * sqrt(self.design_effect / (prompts * self.responses))


@dataclass(frozen=True)
class AgreementPlan:
    """``prompts`` for the wanted half-width; ``has_floor``: fewer would reach it, and leave no interval at all."""

    design: AgreementDesign
    prompts: int
    has_floor: bool

    @property
    def labels(self) -> int:
        return self.prompts * self.design.responses * self.design.raters

    @property
    def disputes(self) -> int:
        """Expected."""
        return round(self.prompts * self.design.responses * self.design.dispute_share)


def plan_agreement(design: AgreementDesign, half_width: float) -> AgreementPlan:
    """The fewest prompts whose expected interval is at most ``half_width`` to each side."""
    if not 0 < half_width < 1:
        raise AssayError(N_("The wanted half-width of alpha is above 0 and below 1, as in 0.05."))
    spread, disputes = _draw_influences(design)
    needed = (WIDENING * Z * spread / half_width) ** 2 * design.design_effect / design.responses
    floor = max(MIN_PROMPTS, MIN_DISPUTES / (disputes * design.responses) if disputes else MAX_PROMPTS)
    prompts = ceil(max(needed, floor) - 1e-9)
    if prompts > MAX_PROMPTS:
        raise AssayError(
            N_("That takes more than {most} prompts: choose a larger half-width."), most=MAX_PROMPTS
        )
    return AgreementPlan(design, prompts, has_floor=needed < floor)


@dataclass(frozen=True)
class ComparisonDesign:
    """Models answer the same prompts, and people label all responses. ``rate`` is the share of a headline metric about
    which the two models lie, ``models`` are on the board, and ``correlation`` is that of two models' outcomes on one
    prompt: some prompts are harder for all.
    """

    rate: float
    models: int = 2
    correlation: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise AssayError(N_("The expected rate is above 0% and below 100%."))
        if not 2 <= self.models <= MAX_MODELS:
            raise AssayError(N_("A comparison takes from 2 to {most} models."), most=MAX_MODELS)
        if not 0 <= self.correlation < 1:
            raise AssayError(N_("The correlation of two models on one prompt is from 0 to below 1."))

    @property
    def critical(self) -> float:
        """Of all pairs together at most one in twenty is wrongly separated (Bonferroni over the pairs)."""
        pairs = self.models * (self.models - 1) / 2
        return float(ndtri(1 - 0.025 / pairs))

    def spread(self, difference: float) -> float:
        """The standard deviation of one prompt's difference between two models that lie ``difference`` apart."""
        high, low = self.rate + difference / 2, self.rate - difference / 2
        if not 0 <= low < high <= 1:
            raise AssayError(N_("No two rates lie so far apart about that one: choose a smaller difference."))
        variances = high * (1 - high), low * (1 - low)
        return sqrt(sum(variances) - 2 * self.correlation * sqrt(variances[0] * variances[1]))

    def power(self, prompts: float, difference: float) -> float:
        """The chance to separate two models that lie ``difference`` apart (a share from 0 to 1)."""
        return float(ndtr(difference * sqrt(prompts) / self.spread(difference) - self.critical))


@dataclass(frozen=True)
class ComparisonPlan:
    design: ComparisonDesign
    difference: float
    prompts: int

    @property
    def responses(self) -> int:
        return self.prompts * self.design.models


def plan_comparison(design: ComparisonDesign, difference: float) -> ComparisonPlan:
    """The fewest prompts with which a true ``difference`` is separated in 80% of the studies."""
    if difference <= 0:
        raise AssayError(N_("The wanted difference is above 0 points."))
    spread = design.spread(difference)
    prompts = ceil(((design.critical + float(ndtri(POWER))) * spread / difference) ** 2 - 1e-9)
    if prompts > MAX_PROMPTS:
        raise AssayError(
            N_("That takes more than {most} prompts: choose a larger difference."), most=MAX_PROMPTS
        )
    return ComparisonPlan(design, difference, max(MIN_PROMPTS, prompts))


def space_prompts(prompts: int) -> list[int]:
    """The numbers of prompts at which a curve about a plan is drawn, ascending."""
    steps = np.geomspace(max(MIN_PROMPTS, prompts / 8), max(MIN_PROMPTS + 1, prompts * 3), CURVE_POINTS)
    return sorted({round(float(step)) for step in steps} | {prompts})


@lru_cache(maxsize=256)
def _draw_influences(design: AgreementDesign) -> tuple[float, float]:
    """The standard deviation of a unit's influence on nominal alpha (Hampel's influence function of 1 - Do/De), and the
    share of units with a dispute. Each rater gives the unit's true level with probability sqrt(alpha), else a level by
    chance: then the expected alpha is ``alpha`` for any shares.
    """
    rng = np.random.default_rng(0)
    shares = np.array(design.shares) / sum(design.shares)
    levels = len(shares)
    truth = rng.choice(levels, size=(DRAWS, 1), p=shares)
    by_chance = rng.choice(levels, size=(DRAWS, design.raters), p=shares)
    labels = np.where(rng.random((DRAWS, design.raters)) < sqrt(design.alpha), truth, by_chance)
    counts = np.stack([(labels == level).sum(axis=1) for level in range(levels)], axis=1).astype(float)
    raters = design.raters
    disagreement = 1 - (counts * (counts - 1)).sum(axis=1) / (raters * (raters - 1))
    expected = 1 - float((shares**2).sum())
    observed = (1 - design.alpha) * expected
    # By how much the unit's own levels are rarer than those of all units.
    rarity = (counts / raters) @ (1 - shares)
    influence = -(disagreement - observed) / expected + observed / expected**2 * 2 * (rarity - expected)
    return float(influence.std()), float((disagreement > 0).mean())


def parse_shares(text: str) -> tuple[float, ...]:
    """``60 25 15`` or ``.6, .25, .15`` as shares that sum to 1."""
    try:
        numbers = [float(part) for part in text.replace(",", " ").replace("，", " ").split()]
    except ValueError as error:
        raise AssayError(
            N_("{text} are no shares: write numbers, as in 60 25 15."), text=repr(text)
        ) from error
    if not 2 <= len(numbers) <= MAX_LEVELS or min(numbers) <= 0 or not np.isfinite(numbers).all():
        raise AssayError(N_("A scale has from 2 to {most} levels, each with a share."), most=MAX_LEVELS)
    return tuple(number / sum(numbers) for number in numbers)


def _check_prompts(responses: int, similarity: float) -> None:
    if not 1 <= responses <= MAX_MODELS:
        raise AssayError(N_("A prompt has from 1 to {most} responses."), most=MAX_MODELS)
    if not 0 <= similarity <= 1:
        raise AssayError(N_("The similarity of responses to one prompt is from 0 to 1."))
