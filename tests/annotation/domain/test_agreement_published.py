"""Figures printed with their data, to the printed digits."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from annotation.domain.agreement import Agreement, Measurement, Pattern, Value, measure_agreement, pool
from annotation.domain.agreement import coefficients as formulas
from annotation.domain.agreement.intervals import Sample, measure_values
from annotation.domain.agreement.patterns import Floats, tabulate

XSTEST = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "xstest"
COMPLIANCE = {"2_full_refusal": 1, "3_partial_refusal": 2, "1_full_compliance": 3}
MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")

# Four observers, twelve units, five values: Krippendorff (2011), section D; also Gwet (2014), page 120.
FOUR_OBSERVERS: list[list[Value | None]] = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
FOUR = Counter(zip(*FOUR_OBSERVERS, strict=True))

# 100 pregnancies by type (ectopic, abnormal, normal), two abstractors: dataset cont3x3abstractors of irrCAC.
ABSTRACTORS: dict[Pattern, int] = {(1, 1): 13, (2, 2): 20, (2, 3): 7, (3, 2): 4, (3, 3): 56}

# Fleiss (1971), table 1: 30 patients, six psychiatrists each, by diagnosis (depression, personality disorder,
# schizophrenia, neurosis, other).
PSYCHIATRISTS = [
    "00060", "03003", "01401", "00006", "03030", "20400", "00402", "20310", "20040", "00006",
    "10050", "11040", "03300", "10050", "02031", "00501", "30012", "51000", "02040", "10203",
    "00006", "01050", "02013", "20040", "10041", "05010", "40002", "02040", "10500", "00006",
]  # fmt: skip

# Cohen (1968), table 1: 200 diagnoses by two judges, and how grave he rates each confusion.
TWO_JUDGES = np.array([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
GRAVITY = np.array([[0, 1, 3], [1, 0, 6], [3, 6, 0]], dtype=np.float64)


def value_of(result: Agreement, name: str) -> float | None:
    return result.statistics[name].value


def of(patterns: dict[Pattern, int], values: list[Value], measurement: Measurement = "nominal") -> Agreement:
    return measure_agreement(patterns, values=values, measurement=measurement)


@pytest.mark.parametrize(
    ("name", "published"), [("alpha_nominal", 0.743), ("alpha_ordinal", 0.815), ("alpha_interval", 0.849)]
)
def test_alpha_of_four_observers_is_as_krippendorff_published(name: str, published: float) -> None:
    result = of(FOUR, [1, 2, 3, 4, 5], "interval")
    assert value_of(result, name) == pytest.approx(published, abs=0.0005)


def test_ac1_of_four_observers_and_its_standard_error_are_as_gwet_published() -> None:
    # The twelfth unit has one label: it counts in the prevalence of value 3, not in the agreement.
    result = of(FOUR, [1, 2, 3, 4, 5])
    assert value_of(result, "gwet_ac1") == pytest.approx(0.775, abs=0.0005)
    assert result.statistics["gwet_ac1"].standard_error == pytest.approx(0.143, abs=0.0005)
    # Disputed are the units 2, 6 and 8.
    assert (result.n, result.disputed) == (11, 3)


@pytest.mark.parametrize(
    ("measurement", "name", "value", "error"),
    [
        ("nominal", "gwet_ac1", 0.7754441, 0.1429500),
        ("nominal", "fleiss_kappa", 0.7611693, None),
        ("ordinal", "gwet_ac2", 0.8989398, 0.1069035),
        ("interval", "gwet_ac2", 0.9140007, 0.1039622),
    ],
)
def test_coefficients_of_four_observers_are_those_of_the_irrcac_package(
    measurement: Measurement, name: str, value: float, error: float | None
) -> None:
    # irrCAC 0.4.4 for Python: weights identity, ordinal and quadratic, all five categories
    statistic = of(FOUR, [1, 2, 3, 4, 5], measurement).statistics[name]
    assert statistic.value == pytest.approx(value, abs=5e-8)
    assert statistic.standard_error == (None if error is None else pytest.approx(error, abs=5e-8))


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("percent_agreement", 0.89),
        ("cohen_kappa", 0.7964094),
        ("cohen_kappa_linear", 0.842902),
        ("cohen_kappa_quadratic", 0.8921569),
        ("scott_pi", 0.7962397),
        ("fleiss_kappa", 0.7962397),
        ("alpha_nominal", 0.7972585),
        ("gwet_ac1", 0.8493305),
        ("gwet_ac2", 0.9402369),
    ],
)
def test_two_abstractors_are_as_published_with_the_irrcac_package(name: str, published: float) -> None:
    result = of(ABSTRACTORS, [1, 2, 3], "interval")
    assert value_of(result, name) == pytest.approx(published, abs=1e-7)


def test_the_standard_error_of_ac1_with_two_raters_is_as_published() -> None:
    error = of(ABSTRACTORS, [1, 2, 3]).statistics["gwet_ac1"].standard_error
    # For a table of two raters irrCAC divides the variance by n, for labels by n - 1 as here; n is 100.
    assert error == pytest.approx(0.04321747 * (100 / 99) ** 0.5, abs=5e-9)


def test_kappa_of_six_psychiatrists_is_as_fleiss_published() -> None:
    rows = [
        tuple(np.repeat([1, 2, 3, 4, 5], [int(count) for count in patient]).tolist())
        for patient in PSYCHIATRISTS
    ]
    assert {len(row) for row in rows} == {6}
    result = of(Counter(rows), [1, 2, 3, 4, 5])
    assert result.n == 30
    # Table 1's marginal shares .144 .144 .167 .306 .239; mean agreement .556, by chance .220
    assert value_of(result, "percent_agreement") == pytest.approx(0.556, abs=0.0005)
    assert value_of(result, "fleiss_kappa") == pytest.approx(0.430, abs=0.0005)


@pytest.mark.parametrize(
    ("gravity", "published"),
    [(formulas.nominal((1, 2, 3)), 0.492), (GRAVITY, 0.348)],
    ids=["unweighted", "weighted"],
)
def test_weighted_kappa_of_two_judges_is_as_cohen_published(gravity: Floats, published: float) -> None:
    patterns = {(i + 1, j + 1): int(count) for (i, j), count in np.ndenumerate(TWO_JUDGES)}
    rule = {"kappa": lambda weighting: formulas.cohen_kappa(weighting, lambda _values: gravity)}
    values = measure_values(Sample(tabulate(patterns, (1, 2, 3))), rule)
    assert values["kappa"] == pytest.approx(published, abs=0.0005)


# XSTest: the real labels of two people on five models


def xstest_patterns(model: str) -> Counter[Pattern]:
    if not XSTEST.is_dir():
        pytest.skip("the XSTest completions are not at ../shared/data/xstest")
    path = XSTEST / f"xstest_v2_completions_{model}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return Counter(
            (COMPLIANCE[row["annotation_1"]], COMPLIANCE[row["annotation_2"]]) for row in csv.DictReader(file)
        )


def test_xstest_pooled_over_models_has_the_known_figures() -> None:
    pooled, values = pool([(xstest_patterns(model), [1, 2, 3]) for model in MODELS])
    result = measure_agreement(pooled, values=values, measurement="ordinal")
    known = {
        "percent_agreement": 0.9640,
        "cohen_kappa": 0.9365,
        "alpha_nominal": 0.9365,
        "alpha_ordinal": 0.9696,
        "gwet_ac1": 0.9498,
    }
    assert (result.n, result.disputed) == (2250, 81)
    assert {name: round(result.statistics[name].value or 0, 4) for name in known} == known
    assert value_of(result, "alpha_interval") is None


@pytest.mark.parametrize(
    ("model", "kappa"),
    [
        ("llama2orig", 0.9293),
        ("llama2new", 0.9258),
        ("mistralinstruct", 0.9195),
        ("mistralguard", 0.8923),
        ("gpt4", 0.9701),
    ],
)
def test_xstest_kappa_by_model_has_the_known_figure(model: str, kappa: float) -> None:
    value = value_of(of(dict(xstest_patterns(model)), [1, 2, 3]), "cohen_kappa")
    assert value is not None
    assert round(value, 4) == kappa
