"""The statistics of counted patterns, and how far two independent sets of patterns differ in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import hypot, isnan, sqrt

import numpy as np

from annotation.core.correlation import find_fisher_bounds
from annotation.core.errors import N_, AssayError
from annotation.domain.agreement import coefficients as formulas
from annotation.domain.agreement.coefficients import Estimate
from annotation.domain.agreement.intervals import (
    AgreementInterval,
    Entries,
    Influences,
    Sample,
    build_difference_interval,
    build_interval,
    build_share_interval,
    measure_influences,
    measure_values,
)
from annotation.domain.agreement.patterns import (
    MASI,
    MEASUREMENTS,
    MORE_THAN_TWO,
    MORE_THAN_TWO_FOR_PI,
    MORE_THAN_TWO_TO_CORRELATE,
    NO_DIFFERENT_UNITS,
    NO_DISTANCES,
    NO_ORDER,
    NO_PAIRS,
    NO_SETS,
    ONE_CATEGORY,
    Agreement,
    Floats,
    LabelSets,
    Measurement,
    Pattern,
    Patterns,
    PromptCounts,
    Statistic,
    Value,
    tabulate,
)

MAX_CACHED_PATTERNS = 256
"""Results of so many patterns at most are kept in memory."""


def measure_agreement(
    patterns: Patterns | PromptCounts,
    *,
    values: Sequence[Value],
    measurement: Measurement,
    statistics: Iterable[str] | None = None,
    intervals: bool = True,
    confidence: float = 0.95,
) -> Agreement:
    """The agreement statistics of the units, each with its interval over prompts.

    Of ``Patterns`` each unit is the one unit of a prompt. Where the weights of ``PromptCounts`` are known and differ
    the statistics are weighed by them; the numbers of units, disputes and prompts are of those that occur. ``values``
    is the whole scale in its order, with the levels that nobody chose; distances on an interval scale are differences
    of values. ``statistics`` names those that are wanted (all, without it). A result depends neither on the order of
    ``patterns`` nor on what else is measured.
    """
    names = tuple(_select_rules(statistics, measurement))
    options = values, measurement, names, intervals, confidence
    if isinstance(patterns, PromptCounts):
        return _measure(patterns, *options)
    measure = _measure_cached if len(patterns) <= MAX_CACHED_PATTERNS else _measure_cached.__wrapped__
    measured = measure(frozenset(patterns.items()), tuple(values), *options[1:])
    return replace(measured, statistics=dict(measured.statistics))


@lru_cache(maxsize=4096)
def _measure_cached(  # noqa: PLR0917  # what is kept is found again by position
    patterns: frozenset[tuple[Pattern, int]],
    values: tuple[Value, ...],
    measurement: Measurement,
    names: tuple[str, ...],
    intervals: bool,
    confidence: float,
) -> Agreement:
    """Kept, because a page shows many small groups and shows them again: equal counts have equal statistics."""
    return _measure(dict(patterns), values, measurement, names, intervals, confidence)


def _measure(  # noqa: PLR0917  # as the other
    patterns: Patterns | PromptCounts,
    values: Sequence[Value],
    measurement: Measurement,
    names: Sequence[str],
    intervals: bool,
    confidence: float,
) -> Agreement:
    sample = _build_sample(patterns, values)
    rules = {name: _RULES[measurement][name] for name in names}
    reasons = {name: rule.obstacle(sample.units, measurement) for name, rule in rules.items()}
    formulas_by_name = {name: rule.estimate for name, rule in rules.items() if reasons[name] is None}
    measured: Mapping[str, Statistic] = {}
    if formulas_by_name and intervals:
        influences = measure_influences(sample, formulas_by_name)
        measured = {
            name: _build_statistic(influences[name], rules[name], name, confidence)
            for name in formulas_by_name
        }
    elif formulas_by_name:
        observed = measure_values(sample, formulas_by_name)
        measured = {name: _build_value(value, rules[name]) for name, value in observed.items()}
    return Agreement(
        n=sample.units.n,
        disputed=sample.units.disputed,
        statistics={name: measured.get(name) or Statistic(None, None, None, reasons[name]) for name in rules},
        prompts=sample.prompts,
    )


def _build_sample(patterns: Patterns | PromptCounts, values: Sequence[Value]) -> Sample:
    if isinstance(patterns, PromptCounts):
        units = tabulate(patterns.counts, values)
        return Sample(units, Entries.of(units, patterns))
    return Sample(tabulate(patterns, values))


def measure_difference(
    first: Patterns | PromptCounts,
    second: Patterns | PromptCounts,
    *,
    values: Sequence[Value],
    measurement: Measurement,
    statistic: str,
    confidence: float = 0.95,
) -> Statistic:
    """By how much a statistic of ``second`` is above that of ``first``, with its interval over prompts.

    The two are different units on one scale; prompts that both have are counted as the same. An interval without 0 is
    a change. Undefined where either statistic is, for its reason.
    """
    (rule,) = _select_rules([statistic], measurement).values()
    samples = [_build_sample(patterns, values) for patterns in (first, second)]
    reason = next(
        (obstacle for sample in samples if (obstacle := rule.obstacle(sample.units, measurement))), None
    )
    if reason is not None:
        return Statistic(None, None, None, reason)
    before, after = (measure_influences(sample, {statistic: rule.estimate})[statistic] for sample in samples)
    if isnan(before.observed) or isnan(after.observed):
        return Statistic(None, None, None, rule.undefined)
    ends = tuple(_build_interval(influences, rule, statistic, confidence) for influences in (before, after))
    interval = build_difference_interval(before, after, (ends[0], ends[1]))
    errors = [error for sample in samples if (error := rule.error(sample)) is not None]
    return Statistic(
        after.observed - before.observed,
        interval.low,
        interval.high,
        standard_error=hypot(*errors) if len(errors) == 2 else None,
        no_interval=interval.no_interval,
    )


@dataclass(frozen=True)
class _Rule:
    """How one statistic is measured, and what it asks of the data."""

    estimate: Estimate
    needs: Measurement = "nominal"
    two_raters: str | None = None
    """Why it is undefined with more than two raters."""
    undefined: str = ONE_CATEGORY
    """Why it may have no value where it applies."""
    closed_form: Callable[[LabelSets, Floats | None], Floats | None] | None = None
    """What a unit with each set (M,) adds to it, as its author has the standard error; counts (M,) are its weights."""

    squared: formulas.Distances | None = None
    """Its distances between levels, where these are squares."""

    has_fisher: bool = False
    """Whether Fisher's interval, which takes units for independent, is reported beside its own."""

    def obstacle(self, units: LabelSets, measurement: Measurement) -> str | None:
        """Why the statistic cannot apply to these units on this scale, whatever their labels are."""
        if self.needs == MASI and measurement != MASI:
            return NO_SETS if units.n else NO_PAIRS
        if self.needs != MASI and _find_strength(measurement) < _find_strength(self.needs):
            return NO_DISTANCES if measurement == "ordinal" else NO_ORDER
        if self.two_raters is not None and units.positions > 2:
            return self.two_raters
        return NO_PAIRS if units.n == 0 else None

    def error(self, sample: Sample) -> float | None:
        """By prompts, as the intervals are."""
        counts = sample.counts[0] if sample.is_weighed else None
        of_sets = None if self.closed_form is None else self.closed_form(sample.units, counts)
        if of_sets is None:
            return None
        squares = sample.sum_squares(np.tile(of_sets, 2))
        return None if isnan(squares) else sqrt(squares)


def _find_strength(measurement: Measurement) -> int:
    """The place among the levels of measurement; sets have no order."""
    return 0 if measurement == MASI else MEASUREMENTS.index(measurement)


def _build_statistic(influences: Influences, rule: _Rule, name: str, confidence: float) -> Statistic:
    if isnan(influences.observed):
        return Statistic(None, None, None, rule.undefined)
    interval = _build_interval(influences, rule, name, confidence)
    return Statistic(
        influences.observed,
        interval.low,
        interval.high,
        standard_error=rule.error(influences.sample),
        fisher=find_fisher_bounds(influences.observed, influences.sample.n) if rule.has_fisher else None,
        design_effect=influences.design_effect,
        no_interval=interval.no_interval,
    )


def _build_value(value: float, rule: _Rule) -> Statistic:
    return Statistic(None, None, None, rule.undefined) if isnan(value) else Statistic(value, None, None)


def _build_interval(influences: Influences, rule: _Rule, name: str, confidence: float) -> AgreementInterval:
    if name == "percent_agreement":
        return build_share_interval(influences, confidence)
    return build_interval(influences, confidence, squared=rule.squared)


def _build_rules(measurement: Measurement) -> Mapping[str, _Rule]:
    """The statistics in the order in which they are reported; AC2 weighs disagreement as the scale measures."""
    kappa = partial(_Rule, two_raters=MORE_THAN_TWO)
    correlation = partial(_Rule, two_raters=MORE_THAN_TWO_TO_CORRELATE, squared=formulas.squared_steps)
    within_class = partial(correlation, undefined=NO_DIFFERENT_UNITS)
    weights = formulas.quadratic_weights if measurement == "interval" else formulas.ordinal_weights
    return {
        "percent_agreement": _Rule(formulas.percent_agreement),
        "cohen_kappa": kappa(partial(formulas.cohen_kappa, distances=formulas.nominal)),
        "cohen_kappa_linear": kappa(partial(formulas.cohen_kappa, distances=formulas.steps), "ordinal"),
        "cohen_kappa_quadratic": kappa(
            partial(formulas.cohen_kappa, distances=formulas.squared_steps),
            "ordinal",
            squared=formulas.squared_steps,
        ),
        "cohen_kappa_quadratic_observed": kappa(
            formulas.cohen_kappa_observed, "ordinal", squared=formulas.squared_steps
        ),
        "scott_pi": _Rule(formulas.scott_pi, two_raters=MORE_THAN_TWO_FOR_PI),
        "fleiss_kappa": _Rule(formulas.fleiss_kappa),
        "alpha_nominal": _Rule(partial(formulas.alpha, distances=formulas.nominal)),
        "alpha_ordinal": _Rule(formulas.alpha_ordinal, "ordinal"),
        "alpha_interval": _Rule(
            partial(formulas.alpha, distances=formulas.squared_differences),
            "interval",
            squared=formulas.squared_differences,
        ),
        "alpha_masi": _Rule(partial(formulas.alpha, distances=formulas.masi), MASI),
        "gwet_ac1": _build_gwet_rule(formulas.nominal, "nominal"),
        "gwet_ac2": _build_gwet_rule(weights, "ordinal"),
        "spearman": correlation(formulas.spearman, "ordinal", has_fisher=True),
        "icc_single": within_class(partial(formulas.intraclass, average=False), "ordinal"),
        "icc_average": within_class(partial(formulas.intraclass, average=True), "ordinal"),
    }


def _build_gwet_rule(distances: formulas.Distances, needs: Measurement) -> _Rule:
    return _Rule(
        partial(formulas.gwet, distances=distances),
        needs,
        closed_form=partial(formulas.gwet_influence, distances=distances),
        squared=distances if distances is formulas.quadratic_weights else None,
    )


_RULES: Mapping[Measurement, Mapping[str, _Rule]] = {
    name: _build_rules(name) for name in (*MEASUREMENTS, MASI)
}

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
