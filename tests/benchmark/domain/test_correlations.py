"""Correlations against the packages, and what is undefined."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from annotation.core.correlation import find_fisher_bounds
from annotation.core.errors import InputError
from annotation.domain.agreement import measure_agreement
from annotation.domain.formats import Source
from benchmark.domain import correlations
from benchmark.domain.correlations import correlate_models, correlate_responses
from benchmark.domain.metric_files import read_metrics, split_column


def draw_series(seed: int, n: int, levels: int) -> tuple[list[float], list[float], list[str]]:
    random = np.random.default_rng(seed)
    first = random.integers(levels, size=n).astype(float)
    second = np.clip(first + random.integers(-1, 3, size=n), 0, levels).astype(float)
    return list(first), list(second), [f"p{number}" for number in random.integers(max(2, n // 3), size=n)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cells", [correlations.MAX_CELLS, 50])
def test_each_value_is_that_of_the_packages(seed: int, cells: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(correlations, "MAX_CELLS", cells)
    first, second, prompts = draw_series(seed, 30 + seed, 2 + seed)
    figures = correlate_responses(first, second, prompts, resamples=50)
    assert figures["pearson"]["value"] == pytest.approx(stats.pearsonr(first, second).statistic)
    assert figures["spearman"]["value"] == pytest.approx(stats.spearmanr(first, second).statistic)
    assert figures["kendall"]["value"] == pytest.approx(stats.kendalltau(first, second).statistic)
    observed = sorted({*first, *second})
    columns = [[observed.index(value) for value in series] for series in (first, second)]
    assert figures["quadratic_kappa_observed"]["value"] == pytest.approx(
        cohen_kappa_score(*columns, weights="quadratic", labels=range(len(observed)))
    )
    for name in correlations.NAMES:
        assert figures[name]["low"] <= figures[name]["value"] <= figures[name]["high"]


def test_a_draw_is_what_the_same_responses_have_when_they_are_written_out():
    """Of prompts that are drawn twice both responses count twice."""
    first, second, prompts = draw_series(3, 12, 4)
    _names, at = np.unique(prompts, return_inverse=True)
    weights = correlations.draw_groups(int(at.max()) + 1, resamples=20, seed=0).astype(float).T[:, at]
    columns = np.array(first), np.array(second)
    ranked = correlations._correlate_ranks(weights, *columns)
    taus = correlations._measure_tau(weights, *columns)
    for row, rank, tau in zip(weights.astype(int), ranked, taus, strict=True):
        written = [np.repeat(series, row) for series in columns]
        assert rank == pytest.approx(stats.spearmanr(*written).statistic, nan_ok=True)
        assert tau == pytest.approx(stats.kendalltau(*written).statistic, nan_ok=True)


def test_of_models_their_means_are_compared():
    random = np.random.default_rng(1)
    models = [f"m{number % 5}" for number in range(60)]
    first = [int(model[1]) + random.normal() for model in models]
    second = [int(model[1]) + random.normal() for model in models]
    prompts = [f"p{number // 5}" for number in range(60)]
    figures = correlate_models(first, second, prompts, models)
    means = [
        [
            float(np.mean([v for v, m in zip(series, models, strict=True) if m == name]))
            for name in sorted(set(models))
        ]
        for series in (first, second)
    ]
    assert (figures["n"], figures["prompts"]) == (5, 12)
    assert figures["pearson"]["value"] == pytest.approx(stats.pearsonr(*means).statistic)
    assert figures["spearman"]["value"] == pytest.approx(stats.spearmanr(*means).statistic)
    assert figures["kendall"]["value"] == pytest.approx(stats.kendalltau(*means).statistic)
    assert "quadratic_kappa_observed" not in figures


@pytest.mark.parametrize(("first", "second"), [([], []), ([1.0], [2.0]), ([1.0, 1.0], [1.0, 2.0])])
def test_what_does_not_vary_has_no_correlation(first: list[float], second: list[float]):
    figures = correlate_responses(first, second, [str(n) for n in range(len(first))])
    assert figures["n"] == len(first)
    for name in ("pearson", "spearman", "kendall"):
        assert figures[name] == dict.fromkeys(("value", "low", "high", "fisher_low", "fisher_high"))


def test_fishers_bounds():
    low, high = find_fisher_bounds(0.79, 50) or (0, 0)
    width = 1.959963984540054 / math.sqrt(47)
    assert (low, high) == (math.tanh(math.atanh(0.79) - width), math.tanh(math.atanh(0.79) + width))
    assert find_fisher_bounds(0.5, 3) is None
    assert find_fisher_bounds(1.0, 10) == (1.0, 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_agreement_has_the_same_spearman_and_the_anovas_intraclass_correlations(seed: int):
    random = np.random.default_rng(seed)
    values = [1, 2, 4, 7]
    codes = random.integers(4, size=(25, 2))
    codes[:, 1] = np.where(random.random(25) < 0.6, codes[:, 0], codes[:, 1])
    labels = np.array(values)[codes].astype(float)
    patterns: dict[tuple[int | None, ...], int] = {}
    for row in labels.astype(int).tolist():
        patterns[tuple(row)] = patterns.get(tuple(row), 0) + 1
    measured = measure_agreement(patterns, values=values, measurement="ordinal").statistics
    assert measured["spearman"].value == pytest.approx(stats.spearmanr(*labels.T).statistic)
    n, mean = len(labels), labels.mean()
    rows, columns = labels.mean(axis=1), labels.mean(axis=0)
    between_rows = 2 * np.square(rows - mean).sum() / (n - 1)
    between_columns = n * np.square(columns - mean).sum()
    rest = np.square(labels - rows[:, None] - columns + mean).sum() / (n - 1)
    single = (between_rows - rest) / (between_rows + rest + 2 * (between_columns - rest) / n)
    average = (between_rows - rest) / (between_rows + (between_columns - rest) / n)
    assert measured["icc_single"].value == pytest.approx(single)
    assert measured["icc_average"].value == pytest.approx(average)


# Files of metrics.


def write(folder: Path, text: str) -> Source:
    path = folder / "metrics.csv"
    path.write_text(text, encoding="utf-8")
    return Source(path)


def test_a_file_of_metrics(tmp_path: Path):
    rows = list(read_metrics(write(tmp_path, "prompt_id,model,bleu,crowd.empathy\np1,A,0.5,3\np2,,NaN,\n")))
    assert [(row.prompt, row.model, row.collection, row.values) for row in rows] == [
        ("p1", "A", None, {"bleu": 0.5, "crowd.empathy": 3}),
        ("p2", None, None, {}),
    ]
    criteria = {"empathy": None}
    assert split_column("crowd.empathy", criteria) == ("crowd", "empathy")
    assert split_column("rouge.l", criteria) == ("rouge.l", None)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", None, "empty|no rows|nothing"),
        ("prompt_id,bleu\n", None, "no rows"),
        ("model,bleu\nA,1\n", "prompt_id", "no such column"),
        ("prompt_id,model\np1,A\n", None, "no column with a metric"),
        ("prompt_id,bleu\n,1\n", "prompt_id", "empty"),
        ("prompt_id,bleu\np1,good\n", "bleu", "no number"),
    ],
)
def test_what_is_wrong_with_a_file_of_metrics(tmp_path: Path, text: str, place: str | None, words: str):
    with pytest.raises(InputError, match=words) as caught:
        list(read_metrics(write(tmp_path, text)))
    assert caught.value.field == place
