"""The statistics of counted patterns, and how far two independent sets of patterns differ in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import hypot, isnan

from annotation.core.errors import N_, AssayError
from annotation.domain.agreement import coefficients as formulas
from annotation.domain.agreement.bootstrap import Estimates, estimate_statistics, interval
from annotation.domain.agreement.coefficients import Estimate
from annotation.domain.agreement.patterns import (
    MEASUREMENTS,
    MORE_THAN_TWO,
    MORE_THAN_TWO_FOR_PI,
    NO_DISTANCES,
    NO_ORDER,
    NO_PAIRS,
    ONE_CATEGORY,
    Agreement,
    LabelSets,
    Measurement,
    Pattern,
    Patterns,
    Statistic,
    Value,
    tabulate,
)

MAX_CACHED_PATTERNS = 256
"""Results of so many patterns at most are kept in memory."""


def measure_agreement(
    patterns: Patterns,
    *,
    values: Sequence[Value],
    measurement: Measurement,
    statistics: Iterable[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Agreement:
    """The agreement statistics of the units, each with a bootstrap interval over units (BCa).

    ``values`` is the whole scale in its order, with the levels that nobody chose; distances on an interval
    scale are differences of values. ``statistics`` names those that are wanted (all, without it). A result depends
    neither on the order of ``patterns`` nor on what else is measured.
    """
    names = tuple(_select_rules(statistics, measurement))
    measure = _measure_cached if len(patterns) <= MAX_CACHED_PATTERNS else _measure_cached.__wrapped__
    measured = measure(
        patterns=frozenset(patterns.items()),
        values=tuple(values),
        measurement=measurement,
        names=names,
        resamples=resamples,
        seed=seed,
        confidence=confidence,
    )
    return replace(measured, statistics=dict(measured.statistics))


@lru_cache(maxsize=4096)
def _measure_cached(
    *,
    patterns: frozenset[tuple[Pattern, int]],
    values: tuple[Value, ...],
    measurement: Measurement,
    names: tuple[str, ...],
    resamples: int,
    seed: int,
    confidence: float,
) -> Agreement:
    """Kept, because a page shows many small groups and shows them again: equal counts have equal statistics."""
    units = tabulate(dict(patterns), values)
    rules = {name: _RULES[measurement][name] for name in names}
    reasons = {name: rule.obstacle(units, measurement) for name, rule in rules.items()}
    formulas_by_name = {name: rule.estimate for name, rule in rules.items() if reasons[name] is None}
    estimates = (
        estimate_statistics(units, formulas_by_name, resamples=resamples, seed=seed)
        if formulas_by_name
        else {}
    )
    measured_statistics = {
        name: _build_statistic(estimates[name], rule.error(units), confidence)
        if name in estimates
        else Statistic(None, None, None, reasons[name])
        for name, rule in rules.items()
    }
    return Agreement(n=units.n, disputed=units.disputed, statistics=measured_statistics)


def measure_difference(
    first: Patterns,
    second: Patterns,
    *,
    values: Sequence[Value],
    measurement: Measurement,
    statistic: str,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Statistic:
    """By how much a statistic of ``other`` is above that of ``one``, with its bootstrap interval.

    The two are different units on one scale, so each is resampled by itself; an interval without 0 is a change.
    Undefined where either statistic is, for its reason.
    """
    (rule,) = _select_rules([statistic], measurement).values()
    parts = [tabulate(patterns, values) for patterns in (first, second)]
    reason = next((obstacle for part in parts if (obstacle := rule.obstacle(part, measurement))), None)
    if reason is not None:
        return Statistic(None, None, None, reason)
    before, after = (
        estimate_statistics(part, {statistic: rule.estimate}, resamples=resamples, seed=seed, stream=stream)[
            statistic
        ]
        for stream, part in enumerate(parts)
    )
    errors = [error for part in parts if (error := rule.error(part)) is not None]
    return _build_statistic(after.minus(before), hypot(*errors) if len(errors) == 2 else None, confidence)


@dataclass(frozen=True)
class _Rule:
    """How one statistic is measured, and what it asks of the data."""

    estimate: Estimate
    needs: Measurement = "nominal"
    two_raters: str | None = None
    """Why it is undefined with more than two raters."""
    closed_form: Callable[[LabelSets], float | None] | None = None

    def obstacle(self, units: LabelSets, measurement: Measurement) -> str | None:
        """Why the statistic cannot apply to these units on this scale, whatever their labels are."""
        if MEASUREMENTS.index(measurement) < MEASUREMENTS.index(self.needs):
            return NO_ORDER if measurement == "nominal" else NO_DISTANCES
        if self.two_raters is not None and units.positions > 2:
            return self.two_raters
        return NO_PAIRS if units.n == 0 else None

    def error(self, units: LabelSets) -> float | None:
        return None if self.closed_form is None else self.closed_form(units)


def _build_statistic(estimates: Estimates, error: float | None, confidence: float) -> Statistic:
    if isnan(estimates.observed):
        return Statistic(None, None, None, ONE_CATEGORY)
    low, high = interval(estimates, confidence)
    return Statistic(estimates.observed, low, high, None, error)


def _build_rules(measurement: Measurement) -> Mapping[str, _Rule]:
    """The statistics in the order in which they are reported; AC2 weighs disagreement as the scale measures."""
    kappa = partial(_Rule, two_raters=MORE_THAN_TWO)
    weights = formulas.quadratic_weights if measurement == "interval" else formulas.ordinal_weights
    return {
        "percent_agreement": _Rule(formulas.percent_agreement),
        "cohen_kappa": kappa(partial(formulas.cohen_kappa, distances=formulas.nominal)),
        "cohen_kappa_linear": kappa(partial(formulas.cohen_kappa, distances=formulas.steps), "ordinal"),
        "cohen_kappa_quadratic": kappa(
            partial(formulas.cohen_kappa, distances=formulas.squared_steps), "ordinal"
        ),
        "scott_pi": _Rule(formulas.scott_pi, two_raters=MORE_THAN_TWO_FOR_PI),
        "fleiss_kappa": _Rule(formulas.fleiss_kappa),
        "alpha_nominal": _Rule(partial(formulas.alpha, distances=formulas.nominal)),
        "alpha_ordinal": _Rule(formulas.alpha_ordinal, "ordinal"),
        "alpha_interval": _Rule(partial(formulas.alpha, distances=formulas.squared_differences), "interval"),
        "gwet_ac1": _build_gwet_rule(formulas.nominal, "nominal"),
        "gwet_ac2": _build_gwet_rule(weights, "ordinal"),
    }


def _build_gwet_rule(distances: formulas.Distances, needs: Measurement) -> _Rule:
    return _Rule(
        partial(formulas.gwet, distances=distances),
        needs,
        closed_form=partial(formulas.gwet_error, distances=distances),
    )


_RULES: Mapping[Measurement, Mapping[str, _Rule]] = {name: _build_rules(name) for name in MEASUREMENTS}

STATISTICS: tuple[str, ...] = tuple(_RULES["nominal"])
"""Their names, in the order in which they are reported."""


def _select_rules(names: Iterable[str] | None, measurement: Measurement) -> Mapping[str, _Rule]:
    rules = _RULES[measurement]
    selection = STATISTICS if names is None else tuple(names)
    for name in selection:
        if name not in rules:
            raise AssayError(
                N_("There is no agreement statistic {name}; choose among: {known}."),
                name=name,
                known=", ".join(STATISTICS),
            )
    return {name: rules[name] for name in STATISTICS if name in selection}
