"""People, the scorer and both together, for every model and dimension."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from annotation.core.proportions import wilson
from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from benchmark.domain.estimates.estimates import (
    ASSUMPTION,
    ResponseKey,
    compute_estimates,
    find_bounds,
    mix_values,
    split_thirds,
)
from benchmark.domain.estimates.estimates import _IntervalValue as Stated
from benchmark.domain.leaderboards.responses import CountedResponse
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE

DIMENSIONS = {"Fairness": "fairness", "Safety": "safety", "Morality": "morality", "Legality": "legality"}
DIMENSIONS |= {"Data protection": "data_protection"}


@pytest.fixture(scope="module")
def flames() -> GuidelineDocument:
    path = FLAMES_GUIDELINE.path
    return parse_guideline(path.read_text(encoding="utf-8"), path=str(path))


@pytest.fixture(scope="module")
def xstest() -> GuidelineDocument:
    path = XSTEST_GUIDELINE.path
    return parse_guideline(path.read_text(encoding="utf-8"), path=str(path))


def row(
    prompt: int,
    gold: int | None,
    predicted: int | None,
    sureness: float | None = 0.9,
    scope: str = "Legality",
) -> CountedResponse:
    def labels(value: int | None) -> tuple[tuple[str, int], ...]:
        return () if value is None else ((DIMENSIONS[scope], value),)

    return CountedResponse(
        model="M",
        prompt=prompt,
        scope=scope,
        labels=labels(predicted if gold is None else gold),
        gold=labels(gold),
        predicted=labels(predicted),
        sureness=sureness if predicted is not None else None,
    )


def legality(
    document: GuidelineDocument,
    rows: Sequence[CountedResponse],
    strata: dict[ResponseKey, tuple[float, float]] | None = None,
) -> dict:
    return compute_estimates(document, rows, strata=strata)["rows"][0]["cells"]["Legality"]["harmless_rate"]


def mixed_rows(n: int = 100, labelled: int = 40, seed: int = 0) -> list[CountedResponse]:
    rng = np.random.default_rng(seed)
    rows = []
    for prompt in range(n):
        truth = 3 if rng.random() < 0.7 else 1
        predicted = truth if rng.random() < 0.8 else 4 - truth
        rows.append(
            row(prompt, truth if prompt < labelled else None, predicted, sureness=0.5 + prompt % 10 / 20)
        )
    return rows


def test_the_three_numbers_stand_beside_each_other(flames: GuidelineDocument):
    rows = [row(at, 3 if at % 4 else 1, 3 if at % 5 else 1) for at in range(40)]
    rows += [row(at, None, 3 if at % 5 else 1) for at in range(40, 100)]
    cell = legality(flames, rows)
    assert cell["people"]["value"] == pytest.approx(30 / 40)
    assert (cell["people"]["low"], cell["people"]["high"]) == pytest.approx(wilson(30, 40))
    assert (cell["people"]["n"], cell["scorer"]["n"]) == (40, 100)
    assert cell["scorer"]["value"] == pytest.approx(80 / 100)
    assert (cell["scorer"]["low"], cell["scorer"]["high"]) == pytest.approx(wilson(80, 100))
    assert cell["bias"] == pytest.approx(cell["scorer"]["value"] - cell["combined"]["value"])
    assert cell["combined"]["value"] == cell["finite"]["value"]
    finite, combined = (cell[name]["high"] - cell[name]["low"] for name in ("finite", "combined"))
    assert finite < combined
    assert 0 <= cell["weight"] <= 1


def test_it_is_json_and_says_what_it_assumes(flames: GuidelineDocument):
    estimates = compute_estimates(flames, mixed_rows())
    assert json.loads(json.dumps(estimates)) == estimates
    assert estimates["assumption"] == ASSUMPTION
    assert list(estimates["strata"]) == ["Legality"]
    assert len(estimates["strata"]["Legality"]) == 2


def test_a_bias_of_the_scorer_is_found(flames: GuidelineDocument):
    """It calls half of what is harmful harmless: 60% true, 80% said."""
    rows = []
    for prompt in range(1000):
        truth = 3 if prompt % 5 < 3 else 1
        predicted = 3 if truth == 3 or prompt % 2 else 1
        rows.append(row(prompt, truth if prompt % 3 == 0 else None, predicted))
    cell = legality(flames, rows)
    assert cell["scorer"]["value"] == pytest.approx(0.8)
    assert cell["bias"] == pytest.approx(0.2, abs=0.02)
    assert cell["finite"]["low"] < 0.6 < cell["finite"]["high"]
    assert cell["combined"]["high"] < 0.7


def test_a_cell_with_less_than_two_labels_has_no_estimate(flames: GuidelineDocument):
    cell = legality(flames, [row(0, 3, 3), *(row(at, None, 3) for at in range(1, 9))])
    assert (cell["combined"], cell["finite"], cell["weight"], cell["bias"]) == (None, None, None, None)
    assert cell["people"]["n"] == 1
    assert cell["scorer"]["value"] == 1.0


def test_gold_without_a_prediction_counts_as_a_part_of_which_all_is_known(flames: GuidelineDocument):
    rows = [*mixed_rows(), *(row(at, 1, None) for at in range(200, 220))]
    cell, without = legality(flames, rows), legality(flames, mixed_rows())
    # none of the 20 is harmless: they add their number to what the 100 others come to
    assert cell["combined"]["value"] == pytest.approx(without["combined"]["value"] * 100 / 120)
    assert cell["people"]["n"] == 60
    assert cell["people"]["value"] < without["people"]["value"]


def test_nothing_at_all_is_undefined(flames: GuidelineDocument):
    cells = compute_estimates(flames, [row(0, None, 3, scope="Fairness")])["rows"][0]["cells"]
    assert cells["Legality"]["harmless_rate"]["people"] == {"value": None, "low": None, "high": None, "n": 0}
    assert cells["Legality"]["harmless_rate"]["scorer"]["value"] is None
    assert cells["overall"]["harmless_rate"]["scorer"]["value"] is None
    assert compute_estimates(flames, [])["rows"] == []


def test_all_labelled_leaves_nothing_open(flames: GuidelineDocument):
    cell = legality(flames, mixed_rows(labelled=100))
    assert cell["finite"]["low"] == cell["finite"]["value"] == cell["finite"]["high"]
    assert cell["combined"]["value"] == pytest.approx(cell["people"]["value"])
    assert cell["weight"] == 0


def test_a_score_is_in_its_own_unit(flames: GuidelineDocument):
    score = compute_estimates(flames, mixed_rows())["rows"][0]["cells"]["Legality"]["harmless_score"]
    assert score["people"]["value"] == pytest.approx(
        100 * np.mean([r.gold[0][1] for r in mixed_rows() if r.gold]) / 3, abs=5
    )
    assert 100 / 3 <= score["combined"]["low"] < score["combined"]["value"] < score["combined"]["high"] <= 100


def test_strata_are_merged_until_each_has_labels_enough(flames: GuidelineDocument):
    """One label among the surest: they are joined with those between."""
    rows = [row(at, 3 if at % 3 else 1, 3, sureness=0.5) for at in range(30)]
    rows += [row(at, 3, 3, sureness=0.7) for at in range(30, 40)]
    rows += [row(at, None, 3, sureness=0.7) for at in range(40, 60)]
    rows += [row(60, 3, 3, sureness=0.9), *(row(at, None, 3, sureness=0.9) for at in range(61, 90))]
    strata = legality(flames, rows)["strata"]
    assert [stratum["labelled"] for stratum in strata] == [30, 10, 1]
    assert [stratum["population"] for stratum in strata] == [30, 30, 30]
    assert strata[1]["variance"] == strata[2]["variance"] != strata[0]["variance"]


def test_strata_that_labels_were_drawn_within_take_the_place_of_thirds(flames: GuidelineDocument):
    rows = mixed_rows()
    drawn: dict[ResponseKey, tuple[float, float]] = {
        ("M", at): (0.0, 0.4) if at % 2 else (0.4, 1.0) for at in range(100)
    }
    strata = legality(flames, rows, drawn)["strata"]
    assert [(stratum["low"], stratum["high"], stratum["population"]) for stratum in strata] == [
        (0.0, 0.4, 50),
        (0.4, 1.0, 50),
    ]


def test_people_are_weighed_by_strata_when_the_unsure_were_labelled_more(flames: GuidelineDocument):
    """Unsure: half harmless, all labelled; sure: all harmless, a fifth labelled."""
    rows = [row(at, 3 if at % 2 else 1, 3, sureness=0.4) for at in range(100)]
    rows += [row(at, 3 if at % 5 == 0 else None, 3, sureness=0.95) for at in range(100, 200)]
    drawn: dict[ResponseKey, tuple[float, float]] = {
        ("M", at): (0.0, 0.5) if at < 100 else (0.5, 1.0) for at in range(200)
    }
    cell = legality(flames, rows, drawn)
    assert cell["people"]["value"] == pytest.approx(0.75)
    assert cell["combined"]["value"] == pytest.approx(0.75, abs=0.01)


def test_the_overall_is_the_mean_of_the_dimensions_and_needs_them_all(flames: GuidelineDocument):
    rows = []
    for place, scope in enumerate(DIMENSIONS):
        for at in range(60):
            truth = 3 if at % 6 < place + 1 else 1
            rows.append(
                row(
                    1000 * place + at, truth if at < 30 else None, truth if at % 7 else 4 - truth, scope=scope
                )
            )
    cells = compute_estimates(flames, rows)["rows"][0]["cells"]
    own = [cells[scope]["harmless_rate"]["combined"] for scope in DIMENSIONS]
    overall = cells["overall"]["harmless_rate"]["combined"]
    assert overall["value"] == pytest.approx(np.mean([cell["value"] for cell in own]))
    assert overall["value"] - overall["low"] == pytest.approx(
        np.sqrt(sum((cell["value"] - cell["low"]) ** 2 for cell in own)) / 5
    )
    fewer = [row for row in rows if row.scope != "Legality" or not row.gold]
    assert (
        compute_estimates(flames, fewer)["rows"][0]["cells"]["overall"]["harmless_rate"]["combined"] is None
    )


def test_pooled_is_weighed_by_how_many_there_are(flames: GuidelineDocument):
    metrics = [metric.model_copy(update={"overall": "pooled"}) for metric in flames.metrics]
    pooled = flames.model_copy(update={"metrics": tuple(metrics)})
    rows = [row(at, 3, 3) for at in range(30)] + [row(100 + at, 1, 1, scope="Fairness") for at in range(10)]
    cells = compute_estimates(pooled, rows)["rows"][0]["cells"]
    assert cells["overall"]["harmless_rate"]["people"]["value"] == pytest.approx(0.75)
    assert cells["overall"]["harmless_rate"]["people"]["n"] == 40


def test_a_metric_stands_only_where_it_is_declared(xstest: GuidelineDocument):
    rows = [
        CountedResponse("M", at, "safe", (("compliance", 3),), predicted=(("compliance", 3),), sureness=0.8)
        for at in range(4)
    ]
    cells = compute_estimates(xstest, rows)["rows"][0]["cells"]
    assert list(cells["safe"]) == ["full_compliance_rate"]
    assert cells["overall"] == {}


def test_edges_leave_no_stratum_empty():
    assert split_thirds([0.5, 0.6, 0.7, 0.8, 0.9, 1.0]) == pytest.approx([0.6667, 0.8333], abs=1e-3)
    assert split_thirds([1.0] * 9) == []
    assert split_thirds([0.4, *[1.0] * 9]) == [1.0]
    assert find_bounds(1.0, [1.0]) == (1.0, 1.0)
    assert find_bounds(0.6, [0.6, 0.8]) == (0.6, 0.8)
    assert find_bounds(None, [0.6, 0.8]) == (0.0, 1.0)


def test_independent_numbers_mix_as_variances_do():
    first, second = Stated(0.5, 0.4, 0.7, 10), Stated(0.7, 0.6, 0.8, 20)
    mean = mix_values([first, second], [1, 1])
    assert (mean.value, mean.n) == (pytest.approx(0.6), 30)
    assert mean.low == pytest.approx(0.6 - np.hypot(0.1, 0.1) / 2)
    assert mean.high == pytest.approx(0.6 + np.hypot(0.2, 0.1) / 2)
    assert mix_values([first, Stated(n=3)], [1, 1]) == Stated(n=13)
    assert mix_values([], []) == Stated(n=0)
