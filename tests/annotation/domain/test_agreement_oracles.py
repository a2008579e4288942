"""Against other implementations and against definitions in exact fractions, on random tables with missing labels.

ASSAY_EXAMPLES is how many tables each test draws.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from annotation.domain.agreement import (
    MEASUREMENTS,
    Agreement,
    Measurement,
    Pattern,
    Value,
    measure_agreement,
)

Table = tuple[list[Value], list[Pattern]]

EXAMPLES = int(os.environ.get("ASSAY_EXAMPLES", "100"))
drawn = settings(deadline=None, max_examples=EXAMPLES)


@st.composite
def tables(draw: st.DrawFn, most_raters: int = 4) -> Table:
    """A scale of uneven steps in ascending order, and a row of labels per unit: of few levels or many, or with gaps.

    Drawn as bytes, a byte a label, because label by label takes a hundred times as long.
    """
    values = draw(scales)
    width = draw(st.integers(2, most_raters))
    choices = [*values[: draw(st.integers(1, len(values)))], *[None] * draw(st.integers(0, 2))]
    labels = [choices[byte % len(choices)] for byte in draw(st.binary(max_size=20 * width))]
    return values, [tuple(labels[i : i + width]) for i in range(0, len(labels) - width + 1, width)]


@st.composite
def even_tables(draw: st.DrawFn) -> Table:
    """As above, with as many labels on every unit, from a changing choice of the raters."""
    values, rows = draw(tables())
    gaps = [None] * draw(st.integers(0, 2))
    full = [[value if value is not None else values[0] for value in row] for row in rows]
    return values, [tuple([*gaps, *row][i % 3 :] + [*gaps, *row][: i % 3]) for i, row in enumerate(full)]


scales: st.SearchStrategy[list[Value]] = st.sets(st.integers(0, 10), min_size=2, max_size=4).map(sorted)


def measured(table: Table, *names: str, measurement: Measurement = "interval") -> Agreement:
    values, rows = table
    return measure_agreement(
        Counter(rows), values=values, measurement=measurement, statistics=names, intervals=False
    )


def value_of(result: Agreement, name: str) -> float | None:
    return result.statistics[name].value


def labels_of(row: Pattern) -> list[Value]:
    return [label for label in row if label is not None]


def levels_compared(rows: list[Pattern]) -> set[Value]:
    return {label for row in rows if len(labels_of(row)) > 1 for label in labels_of(row)}


@given(table=tables(), level=st.sampled_from(MEASUREMENTS))
@drawn
def test_alpha_equals_the_krippendorff_package(table: Table, level: Measurement) -> None:
    values, rows = table
    ours = value_of(measured(table, f"alpha_{level}"), f"alpha_{level}")
    if len(levels_compared(rows)) < 2:
        assert ours is None
        return
    matrix = np.array([[np.nan if label is None else label for label in row] for row in rows]).T
    expected = krippendorff.alpha(reliability_data=matrix, value_domain=values, level_of_measurement=level)
    assert ours == pytest.approx(expected, abs=1e-9)


@given(table=tables(most_raters=2), weights=st.sampled_from([None, "linear", "quadratic"]))
@drawn
def test_the_kappas_of_two_raters_equal_scikit_learn_and_statsmodels(
    table: Table, weights: str | None
) -> None:
    values, rows = table
    name = "cohen_kappa" if weights is None else f"cohen_kappa_{weights}"
    result = measured(table, name, "scott_pi")
    ours = value_of(result, name)
    both = [row for row in rows if None not in row]
    if len(levels_compared(both)) < 2:
        assert ours is None
        assert value_of(result, "scott_pi") is None
        return
    first, second = zip(*both, strict=True)
    sklearn = cohen_kappa_score(first, second, labels=values, weights=weights)
    assert ours == pytest.approx(sklearn, abs=1e-9)
    cells = np.array([[both.count((value, other)) for other in values] for value in values])
    assert ours == pytest.approx(cohens_kappa(cells, wt=weights, return_results=False), abs=1e-9)
    # Scott's pi is Fleiss' kappa of two raters
    counts = np.array([[row.count(value) for value in values] for row in both])
    assert value_of(result, "scott_pi") == pytest.approx(fleiss_kappa(counts), abs=1e-9)


@given(table=even_tables())
@drawn
def test_fleiss_kappa_equals_statsmodels(table: Table) -> None:
    values, rows = table
    ours = value_of(measured(table, "fleiss_kappa"), "fleiss_kappa")
    if len(levels_compared(rows)) < 2:
        assert ours is None
        return
    assert len({len(labels_of(row)) for row in rows}) == 1
    counts = np.array([[row.count(value) for value in values] for row in rows])
    assert ours == pytest.approx(fleiss_kappa(counts), abs=1e-9)


# In exact fractions, unit by unit and pair by pair


def nominal(_values: list[Value], first: Value, second: Value) -> Fraction:
    return Fraction(first != second)


def ordinal(values: list[Value], first: Value, second: Value) -> Fraction:
    between = abs(values.index(first) - values.index(second)) + 1
    return Fraction(between * (between - 1), len(values) * (len(values) - 1))


def quadratic(values: list[Value], first: Value, second: Value) -> Fraction:
    return Fraction(int(first - second) ** 2, int(max(values) - min(values)) ** 2)


Distance = Callable[[list[Value], Value, Value], Fraction]
GWETS: tuple[tuple[str, Measurement, Distance], ...] = (
    ("gwet_ac1", "nominal", nominal),
    ("gwet_ac2", "ordinal", ordinal),
    ("gwet_ac2", "interval", quadratic),
)


def exact(table: Table, distance: Distance) -> tuple[Fraction, list[Fraction]]:
    """The mean distance of two labels of one unit, and the prevalence of each value."""
    values, rows = table
    labelled = [labels for labels in map(labels_of, rows) if labels]
    pairs = [list(combinations(labels, 2)) for labels in labelled if len(labels) > 1]
    steps_apart = [Fraction(sum(distance(values, *pair) for pair in unit), len(unit)) for unit in pairs]
    shares = [[Fraction(labels.count(value), len(labels)) for labels in labelled] for value in values]
    return sum(steps_apart, Fraction(0)) / len(steps_apart), [sum(of, Fraction(0)) / len(of) for of in shares]


@given(table=tables())
@drawn
def test_percent_agreement_and_fleiss_kappa_equal_exact_arithmetic(table: Table) -> None:
    result = measured(table, "percent_agreement", "fleiss_kappa")
    labelled = [labels for labels in map(labels_of, table[1]) if labels]
    assert result.n == sum(len(labels) > 1 for labels in labelled)
    assert result.disputed == sum(len(set(labels)) > 1 for labels in labelled)
    if result.n == 0:
        assert value_of(result, "percent_agreement") is None
        assert value_of(result, "fleiss_kappa") is None
        return
    distance, prevalences = exact(table, nominal)
    assert value_of(result, "percent_agreement") == pytest.approx(float(1 - distance), abs=1e-9)
    by_chance = sum(p * (1 - p) for p in prevalences)
    kappa = None if by_chance == 0 else pytest.approx(float(1 - distance / by_chance), abs=1e-9)
    assert value_of(result, "fleiss_kappa") == kappa


@given(table=tables(), coefficient=st.sampled_from(GWETS))
@drawn
def test_gwets_coefficients_equal_exact_arithmetic(
    table: Table, coefficient: tuple[str, Measurement, Distance]
) -> None:
    values, rows = table
    name, measurement, distance = coefficient
    ours = value_of(measured(table, name, measurement=measurement), name)
    if all(len(labels_of(row)) < 2 for row in rows):
        assert ours is None
        return
    weights_by_pair, prevalences = exact(table, distance)
    weights = sum(1 - distance(values, value, other) for value in values for other in values)
    share = weights / (len(values) * (len(values) - 1))
    exactly = 1 - weights_by_pair / (1 - share * sum(p * (1 - p) for p in prevalences))
    assert ours == pytest.approx(float(exactly), abs=1e-9)


@given(table=tables())
@settings(drawn, max_examples=EXAMPLES // 3)
def test_no_number_is_ever_nan_or_beyond_one(table: Table) -> None:
    values, rows = table
    result = measure_agreement(Counter(rows), values=values, measurement="interval")
    for statistic in result.statistics.values():
        numbers = [
            number for number in (statistic.value, statistic.low, statistic.high) if number is not None
        ]
        assert all(np.isfinite(number) and number <= 1 + 1e-12 for number in numbers)
        assert numbers == [] or statistic.low is None or numbers[1] <= numbers[0] <= numbers[2]
        assert (statistic.value is None) == (statistic.reason is not None)
