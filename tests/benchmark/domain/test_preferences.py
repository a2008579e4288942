"""Boards of comparisons: fits against published figures and an independent optimiser, what is undefined, and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from annotation.core.proportions import measure_rates
from benchmark.domain.leaderboards.preferences import (
    PairwiseComparisons,
    PreferenceTerms,
    StrengthFit,
    build_preference_board,
    compute_elo,
    count_wins,
    fit_bradley_terry,
    fit_davidson,
    fit_strengths,
)
from benchmark.domain.leaderboards.preferences.comparisons import DesignCounts
from benchmark.domain.leaderboards.preferences.resampling import MIN_PROMPTS, bound_number, widen_quantile
from benchmark.domain.leaderboards.preferences.strengths import find_undefined, fit_draws
from tests.performance.preference_coverage import DESIGNS, simulate_boards, summarize

# Home wins and losses of each team against each other, Eastern Division of the American League, 1987.
TEAMS = ("Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore")
BASEBALL = (
    ((4, 3), (4, 2), (4, 3), (6, 1), (4, 2), (6, 0)),
    ((3, 3), (4, 2), (4, 3), (6, 0), (6, 1), (4, 3)),
    ((2, 5), (4, 3), (2, 4), (4, 3), (4, 2), (6, 0)),
    ((3, 3), (5, 1), (2, 5), (4, 3), (4, 2), (6, 1)),
    ((5, 1), (2, 5), (3, 3), (4, 2), (5, 2), (6, 0)),
    ((2, 5), (3, 3), (3, 4), (4, 3), (4, 2), (2, 4)),
    ((2, 5), (1, 5), (1, 6), (2, 4), (1, 6), (3, 4)),
)
# Brands i and j, how many people preferred i, and j, and had no preference.
PUDDING = (
    (1, 2, 19, 22, 16),
    (1, 3, 16, 19, 12),
    (2, 3, 19, 19, 10),
    (1, 4, 18, 23, 13),
    (2, 4, 23, 19, 9),
    (3, 4, 19, 20, 15),
    (1, 5, 13, 19, 18),
    (2, 5, 16, 20, 12),
    (3, 5, 16, 15, 17),
    (4, 5, 17, 14, 16),
    (1, 6, 18, 21, 12),
    (2, 6, 22, 20, 12),
    (3, 6, 13, 18, 10),
    (4, 6, 14, 19, 18),
    (5, 6, 11, 21, 12),
)


def compare(
    models: str | tuple[str, ...], *rows: tuple[int, int, int], **columns: object
) -> PairwiseComparisons:
    """Rows of first, second and outcome, each on a prompt of its own unless ``prompt`` says otherwise."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    own = {"prompt": np.arange(len(table)), **columns}
    return PairwiseComparisons(tuple(models), table[:, 0], table[:, 1], table[:, 2], **own)  # type: ignore[arg-type]


def read_pandalm(folder: Path) -> PairwiseComparisons:
    """The majorities of three people: every row has one, of 47 it is a tie."""
    rows = json.loads((folder / "pandalm" / "testset_even.json").read_text(encoding="utf-8"))
    names = tuple(sorted({name for row in rows for name in row["cmp_key"].split("_")}))
    prompts: dict[tuple[str, str], int] = {}
    table = []
    prompt = []
    for row in rows:
        [(side, votes)] = Counter(row[f"annotator{at}"] for at in (1, 2, 3)).most_common(1)
        assert votes >= 2
        first, second = (names.index(name) for name in row["cmp_key"].split("_"))
        table.append((first, second, {1: 1, 2: -1, 0: 0}[side]))
        prompt.append(prompts.setdefault((row["instruction"], row["input"]), len(prompts)))
    return compare(names, *table, prompt=np.array(prompt))


def simulate(
    seed: int, *, models: int = 4, n: int = 400, nu: float = 0.5, position: float = 0.0, length: float = 0.0
) -> PairwiseComparisons:
    rng = np.random.default_rng(seed)
    strengths = np.linspace(0.6, -0.6, models)
    first = rng.integers(models, size=n)
    second = (first + rng.integers(1, models, size=n)) % models
    longer = rng.normal(0, 0.5, n)
    eta = strengths[first] - strengths[second] + position + length * longer
    parts = np.stack([np.exp(eta / 2), np.full(n, nu), np.exp(-eta / 2)], axis=1)
    outcome = 1 - (rng.random(n)[:, None] > (parts / parts.sum(axis=1)[:, None]).cumsum(axis=1)[:, :2]).sum(1)
    return PairwiseComparisons(
        tuple("ABCDEFGH"[:models]),
        first,
        second,
        outcome,
        rng.integers(max(1, n // 8), size=n),
        longer if length else None,
    )


def maximise_davidson(comparisons: PairwiseComparisons, terms: PreferenceTerms) -> dict[str, object]:
    """The likelihood as Davidson (1970) and Davidson and Beaver (1977) write it, in worths p_i and an order effect g
    on the second: p_i, g p_j and nu (g p_i p_j)^(1/2), the last in the parametrisation of the module."""
    models = len(comparisons.models)
    is_counted = (comparisons.outcome != 0) | terms.ties
    first, second, outcome, counts = (
        column[is_counted]
        for column in (comparisons.first, comparisons.second, comparisons.outcome, comparisons.counts)
    )
    longer = comparisons.length_difference[is_counted] if terms.length else np.zeros(len(first))  # type: ignore[index]

    def read(theta: np.ndarray) -> tuple[np.ndarray, float, float, float]:
        worth = np.exp(np.append(theta[: models - 1], 0.0))
        order = np.exp(-theta[-3]) if terms.position else 1.0
        return worth, order, theta[-2] if terms.length else 0.0, np.exp(theta[-1]) if terms.ties else 0.0

    def lose(theta: np.ndarray) -> float:
        worth, order, slope, nu = read(theta)
        left, right = worth[first] * np.exp(slope * longer), order * worth[second]
        even = nu * np.sqrt(left * right)
        chance = np.where(outcome == 1, left, np.where(outcome == -1, right, even))
        return -float((counts * np.log(chance / (left + right + even))).sum())

    solved = minimize(lose, np.zeros(models + 2), method="BFGS", options={"gtol": 1e-7, "maxiter": 2000})
    worth, order, slope, nu = read(solved.x)
    strengths = np.log(worth)
    return {
        "strengths": strengths - strengths.mean(),
        "position": -np.log(order),
        "length": slope,
        "nu": nu,
    }


def check_fit(comparisons: PairwiseComparisons, terms: PreferenceTerms, precision: float = 2e-5) -> None:
    fit, expected = fit_strengths(comparisons, terms), maximise_davidson(comparisons, terms)
    assert fit.undefined is None
    assert fit.strengths == pytest.approx(expected["strengths"], abs=precision)
    for name in ("position", "length"):
        assert (getattr(fit, name) or 0.0) == pytest.approx(expected[name], abs=precision)
    assert (fit.nu or 0.0) == pytest.approx(expected["nu"], abs=precision)


# Published data


def test_pandalm(shared: Path):
    comparisons = read_pandalm(shared)
    assert (comparisons.outcome != 0).sum() == 453
    assert [name.split("-")[0] for name in comparisons.models] == [
        "bloom",
        "cerebras",
        "llama",
        "opt",
        "pythia",
    ]
    fit = fit_bradley_terry(comparisons)
    assert fit.strengths == pytest.approx([0.021141, -0.469645, 0.648325, -0.276591, 0.076770], abs=1e-5)
    for terms in (PreferenceTerms(position=False), PreferenceTerms()):
        check_fit(comparisons, terms)
    board = build_preference_board(comparisons, position=False)
    assert [row.model.split("-")[0] for row in board.rows] == ["llama", "pythia", "bloom", "opt", "cerebras"]
    assert (board.undefined, board.undefined_draws) == ((), 0)


def test_baseball_of_1987():
    """A. Agresti, Categorical Data Analysis (2nd edition, 2002), section 10.6; to four digits as the R package
    BradleyTerry2 prints the same fits (H. Turner and D. Firth, Journal of Statistical Software 48 (9), 2012)."""
    rows = [
        (home, away, wins, losses)
        for home, results in enumerate(BASEBALL)
        for away, (wins, losses) in zip([at for at in range(7) if at != home], results, strict=True)
    ]
    comparisons = compare(
        TEAMS,
        *[(home, away, side) for home, away, _wins, _losses in rows for side in (1, -1)],
        weights=np.maximum([n for *_teams, wins, losses in rows for n in (wins, losses)], 1e-12),
    )
    plain, at_home = fit_bradley_terry(comparisons), fit_bradley_terry(comparisons, position=True)
    assert plain.strengths is not None
    assert at_home.strengths is not None
    assert plain.strengths - plain.strengths[-1] == pytest.approx(
        [1.5814, 1.4364, 1.2945, 1.2476, 1.1077, 0.6839, 0], abs=6e-5
    )
    assert at_home.strengths - at_home.strengths[-1] == pytest.approx(
        [1.6196, 1.4754, 1.3271, 1.2813, 1.1438, 0.7047, 0], abs=6e-5
    )
    assert at_home.position == pytest.approx(0.3023, abs=6e-5)


def test_chocolate_pudding():
    """Davidson (1970), example 2; the digits are those that the R package PlackettLuce prints after as many steps as
    he took, which is not quite the maximum."""
    comparisons = compare(
        "123456",
        *[(first - 1, second - 1, side) for first, second, *_n in PUDDING for side in (1, -1, 0)],
        weights=np.array([n for _first, _second, *counts in PUDDING for n in counts]),
    )
    fit = fit_davidson(comparisons)
    assert fit.strengths is not None
    worths = np.exp(fit.strengths) / np.exp(fit.strengths).sum()
    assert worths == pytest.approx(
        [0.1388005, 0.1729985, 0.1617420, 0.1653930, 0.1586805, 0.2023855], abs=3e-5
    )
    assert fit.nu == pytest.approx(0.7468147, abs=2e-5)
    check_fit(comparisons, PreferenceTerms(position=False))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "terms",
    [
        PreferenceTerms(ties=ties, position=position, length=length)
        for ties in (True, False)
        for position in (True, False)
        for length in (True, False)
    ],
)
def test_fits_are_those_of_an_independent_optimiser(terms: PreferenceTerms, seed: int):
    comparisons = simulate(seed, models=3 + seed, position=0.4, length=0.7)
    if (
        terms.position and terms.ties
    ):  # nu is another where a position counts: theirs times the root of the effect
        assert fit_strengths(comparisons, terms).undefined is None
    check_fit(comparisons, terms)


# Position


def test_five_points_of_position_are_measured_and_corrected():
    """Two models meet in one order more often than in the other, so that the plain fit takes position for strength."""
    rng = np.random.default_rng(5)
    n = 6000
    is_turned = rng.random(n) < 0.15
    first, second = np.where(is_turned, 1, 0), np.where(is_turned, 0, 1)
    outcome = np.where(rng.random(n) < 0.25, 0, np.where(rng.random(n) < 0.55, 1, -1))
    comparisons = PairwiseComparisons(("A", "B"), first, second, outcome, np.arange(n) // 3)
    board = build_preference_board(comparisons)
    share, effect = board.position.share, board.position.effect
    assert share.value == pytest.approx(0.55, abs=0.02)
    assert share.low is not None
    assert share.high is not None
    assert 0.5 < share.low < 0.55 < share.high
    assert effect.low is not None
    assert effect.high is not None
    assert 0 < effect.low < np.log(0.55 / 0.45) < effect.high
    plain = build_preference_board(comparisons, position=False)
    assert [row.rank.to_json()["high"] for row in plain.rows if row.rank] == [1, 2]  # a false first
    assert [row.rank.to_json()["high"] for row in board.rows if row.rank] == [2, 2]
    by_model = {row.model: row.strength for row in board.rows}
    assert by_model["A"].low is not None
    assert by_model["A"].high is not None
    assert by_model["A"].low < 0 < by_model["A"].high


def test_the_share_of_the_first_has_the_interval_of_rates_in_clusters():
    comparisons = simulate(3, position=0.3)
    is_decided = comparisons.outcome != 0
    own = comparisons.prompt[is_decided]
    [rate] = measure_rates(comparisons.outcome[is_decided] == 1, np.zeros(len(own)), own, groups=1)
    share = build_preference_board(comparisons, resamples=20).position.share
    assert (share.value, share.low, share.high) == pytest.approx((rate.value, rate.low, rate.high))


def test_a_position_that_is_always_the_same_is_not_told_from_strength():
    """The stronger of two is displayed first, always."""
    comparisons = compare("AB", *[(0, 1, 1)] * 24, *[(0, 1, -1)] * 16, *[(0, 1, 0)] * 8)
    assert fit_davidson(comparisons, position=True).undefined is not None
    board = build_preference_board(comparisons)
    assert not board.terms.position
    assert [part.to_json() for part in board.undefined] == [
        {"part": "position", "reason": "not_identified", "groups": []}
    ]
    assert board.position.effect.value is None
    assert board.position.share.value == 0.6
    assert board.rows[0].strength.value is not None


def test_a_length_that_is_always_the_same_multiple_is_not_told_from_position():
    comparisons = simulate(2, length=0.5)
    constant = PairwiseComparisons(
        comparisons.models,
        comparisons.first,
        comparisons.second,
        comparisons.outcome,
        comparisons.prompt,
        np.full(len(comparisons.first), 0.3),
    )
    board = build_preference_board(constant)
    assert (board.terms.position, board.terms.length, board.length) == (True, False, None)
    assert [part.part for part in board.undefined] == ["length"]


# Undefined


@pytest.mark.parametrize("fit", [fit_bradley_terry, fit_davidson])
def test_a_model_that_never_lost_has_no_strength(fit: Callable[[PairwiseComparisons], StrengthFit]):
    comparisons = compare("ABC", (0, 1, 1), (2, 0, -1), (1, 2, 1), (1, 2, -1), (1, 2, 0))
    outcome = fit(comparisons)
    assert outcome.strengths is None
    assert outcome.undefined is not None
    assert (outcome.undefined.reason, outcome.undefined.groups) == ("separated", (("A",), ("B", "C")))


@pytest.mark.parametrize("fit", [fit_bradley_terry, fit_davidson])
def test_models_that_never_met_have_no_strengths(fit: Callable[[PairwiseComparisons], StrengthFit]):
    both = [(0, 1, 1), (0, 1, -1), (0, 1, 0), (2, 3, 1), (2, 3, -1), (2, 3, 0)]
    outcome = fit(compare("ABCD", *both))
    assert outcome.undefined is not None
    assert (outcome.undefined.reason, outcome.undefined.groups) == ("disconnected", (("A", "B"), ("C", "D")))
    outcome = fit(compare("ABCDE", *both, (1, 2, 1), (1, 2, -1)))
    assert outcome.undefined is not None
    assert (outcome.undefined.reason, outcome.undefined.groups) == (
        "disconnected",
        (("A", "B", "C", "D"), ("E",)),
    )


def test_who_only_tied_is_connected_by_ties_alone():
    comparisons = compare("ABC", (0, 1, 1), (0, 1, -1), (1, 0, 1), (0, 1, -1), *[(1, 2, 0)] * 3)
    plain, davidson = fit_bradley_terry(comparisons), fit_davidson(comparisons)
    assert plain.undefined is not None
    assert (plain.undefined.reason, plain.undefined.groups) == ("disconnected", (("A", "B"), ("C",)))
    assert davidson.undefined is None or davidson.undefined.reason == "ties"


def test_a_win_and_a_tie_have_no_maximum():
    """Each step apart, with as many more ties, makes both likelier: 1/4 is reached at infinity alone."""
    outcome = fit_davidson(compare("AB", (0, 1, 1), (0, 1, 0)))
    assert outcome.undefined is not None
    assert outcome.undefined.reason == "ties"


def test_nothing_decided():
    for comparisons in (compare("AB"), compare("AB", (0, 1, 0)), compare(())):
        board = build_preference_board(comparisons)
        assert next((part.part, part.reason) for part in board.undefined) == ("strengths", "no_decision")
        assert all(row.strength.value is row.rank is row.elo is None for row in board.rows)
        json.dumps(board.to_json(), allow_nan=False)


def test_without_ties_davidson_is_bradley_and_terry():
    comparisons = simulate(1, nu=0.0)
    plain, davidson = fit_bradley_terry(comparisons), fit_davidson(comparisons)
    assert davidson.nu == 0
    assert davidson.strengths == pytest.approx(plain.strengths, abs=1e-9)


def test_few_prompts_have_no_intervals():
    comparisons = simulate(1, n=120)
    assert comparisons.prompts < MIN_PROMPTS
    board = build_preference_board(comparisons)
    assert ("intervals", "few_prompts") in [(part.part, part.reason) for part in board.undefined]
    for row in board.rows:
        assert row.strength.value is not None
        assert (row.strength.low, row.strength.high) == (None, None)
        assert row.rank is not None
        assert (row.rank.low, row.rank.high) == (1, 4)
    assert board.position.share.low is None


def test_nu_takes_more_prompts_than_strengths():
    board = build_preference_board(simulate(1, n=200))
    assert board.prompts == 25
    assert [(part.part, part.reason) for part in board.undefined] == [("ties", "few_prompts")]
    assert board.nu.value is not None
    assert board.nu.low is None
    assert board.rows[0].strength.low is not None


def test_draws_without_a_maximum_open_the_intervals():
    """A lost on a single prompt of many, which more than a third of the draws have not."""
    rows = [(0, 1, 1)] * 24 + [(1, 0, 1)]
    board = build_preference_board(compare("AB", *rows), ties=False, position=False)
    assert 250 < board.undefined_draws < 450
    for row in board.rows:
        assert row.strength.value is not None
        assert (row.strength.low, row.strength.high) == (None, None)
        assert row.rank is not None
        assert (row.rank.low, row.rank.high, row.rank.low_each, row.rank.high_each) == (1, 2, 1, 2)


def test_undefined_draws_widen_both_ends():
    draws = np.random.default_rng(0).permutation(np.linspace(0, 1, 1000))
    full = bound_number(0.5, draws, 1000)
    draws[::50] = np.nan  # 2% is less than 5%
    holed = bound_number(0.5, draws, 1000)
    assert full.low is not None
    assert full.high is not None
    assert holed.low is not None
    assert holed.high is not None
    assert holed.low < full.low - 0.005
    assert holed.high > full.high + 0.005
    draws[::15] = np.nan
    assert bound_number(0.5, draws, 1000).to_json() == {"value": 0.5, "low": None, "high": None}


def test_few_prompts_are_further_out():
    assert widen_quantile(1.959964, 20) == pytest.approx(2.093024 * np.sqrt(20 / 19), abs=1e-5)
    assert widen_quantile(1.959964, 100_000) == pytest.approx(1.959964, abs=1e-4)
    assert widen_quantile(np.inf, 20) == np.inf


def test_prompts_that_are_all_alike_settle_nothing():
    rows = [row for _ in range(20) for row in ((0, 1, 1), (1, 0, -1), (0, 1, -1))]
    board = build_preference_board(
        compare("AB", *rows, prompt=np.arange(60) // 3), ties=False, position=False
    )
    assert [(row.rank.low, row.rank.high) for row in board.rows if row.rank] == [(1, 2), (1, 2)]
    assert board.rows[0].strength.low is None


def test_linear_programming_and_newton_agree_on_what_has_a_maximum():
    """Of small sets, most of which have none for some reason or other."""
    rng = np.random.default_rng(0)
    reasons: Counter[str | None] = Counter()
    for _ in range(400):
        models, n = int(rng.integers(2, 5)), int(rng.integers(1, 16))
        first = rng.integers(models, size=n)
        comparisons = PairwiseComparisons(
            tuple("ABCD"[:models]),
            first,
            (first + rng.integers(1, models, size=n)) % models,
            rng.choice([1, 1, 0, -1], size=n),
            np.arange(n),
            np.round(rng.normal(size=n), 1),
        )
        terms = PreferenceTerms(*rng.integers(2, size=3).astype(bool).tolist())
        counts = DesignCounts.build(comparisons, ties=terms.ties, length=terms.length)
        undefined = find_undefined(comparisons.models, counts, terms)
        exists = fit_draws(counts, np.ones((counts.prompts, 1)), terms).exists[0]
        assert exists == (undefined is None)
        reasons[undefined.reason if undefined else None] += 1
    assert len(reasons) == 7
    assert reasons[None] > 100


def test_strengths_far_apart_have_a_maximum():
    """A chain: each beats the next 200 to 1, so that the ends are 26 apart, and no other pair met."""
    rows = [(at, at + 1, side) for at in range(5) for side in (1, -1)]
    comparisons = compare("ABCDEF", *rows, weights=np.array([200.0, 1.0] * 5))
    fit = fit_bradley_terry(comparisons)
    assert fit.strengths is not None
    assert np.diff(fit.strengths) == pytest.approx([-np.log(200)] * 5, abs=1e-7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": np.array([0, 5])}, "first: not the place of a model"),
        ({"second": np.array([0, 1])}, "compared with itself"),
        ({"outcome": np.array([2, 0])}, "outcome: not 1, 0 or -1"),
        ({"outcome": np.array([1])}, "outcome: 1 entries"),
        ({"outcome": np.array([0.5, 1])}, "outcome: not whole numbers"),
        ({"prompt": np.array([[1, 2]])}, "prompt: 2 dimensions"),
        ({"models": ("A", "A")}, "twice"),
        ({"weights": np.array([0.0, 1])}, "weights: not above 0"),
        ({"length_difference": np.array([np.nan, 1])}, "length_difference: an entry is not"),
    ],
)
def test_bad_columns_are_named(change: dict[str, object], message: str):
    columns = {
        "models": ("A", "B"),
        "first": np.array([0, 1]),
        "second": np.array([1, 0]),
        "outcome": np.array([1, 0]),
        "prompt": np.array([0, 1]),
    }
    with pytest.raises(ValueError, match=message):
        PairwiseComparisons(**{**columns, **change})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="length_difference: missing"):
        fit_davidson(PairwiseComparisons(**columns), length=True)  # type: ignore[arg-type]


# Invariances

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, 0, -1]), st.integers(0, 30)).filter(
        lambda row: row[0] != row[1]
    ),
    max_size=80,
)
TERMS = st.builds(PreferenceTerms, ties=st.booleans(), position=st.booleans(), length=st.just(False))


@settings(max_examples=40)
@given(ROWS, TERMS, st.permutations(range(4)))
def test_names_and_order_of_the_models_change_nothing(
    rows: list[tuple[int, ...]], terms: PreferenceTerms, order: list[int]
):
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    comparisons = PairwiseComparisons(tuple("ABCD"), table[:, 0], table[:, 1], table[:, 2], table[:, 3])
    places = np.argsort(order)
    moved = PairwiseComparisons(
        tuple("ABCD"[at] for at in order), places[table[:, 0]], places[table[:, 1]], table[:, 2], table[:, 3]
    )
    boards = [
        build_preference_board(each, ties=terms.ties, position=terms.position, resamples=60)
        for each in (comparisons, moved)
    ]
    assert boards[0].terms == boards[1].terms
    assert boards[0].undefined_draws == boards[1].undefined_draws
    assert [part.reason for part in boards[0].undefined] == [part.reason for part in boards[1].undefined]
    by_model = [{row.model: row for row in board.rows} for board in boards]
    for model in "ABCD":
        own, other = (rows_of[model] for rows_of in by_model)
        assert own.strength.value == pytest.approx(other.strength.value, abs=1e-6)
        assert own.win_rate.value == pytest.approx(other.win_rate.value)
        assert own.rank == other.rank
    json.dumps(boards[0].to_json(), allow_nan=False)


@settings(max_examples=40)
@given(ROWS, TERMS)
def test_displaying_them_the_other_way_turns_the_position_alone(
    rows: list[tuple[int, ...]], terms: PreferenceTerms
):
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    comparisons = PairwiseComparisons(tuple("ABCD"), table[:, 0], table[:, 1], table[:, 2], table[:, 3])
    turned = PairwiseComparisons(tuple("ABCD"), table[:, 1], table[:, 0], -table[:, 2], table[:, 3])
    fits = [fit_strengths(each, terms) for each in (comparisons, turned)]
    assert fits[0].undefined == fits[1].undefined
    if fits[0].strengths is None:
        return
    assert fits[0].strengths == pytest.approx(fits[1].strengths, abs=1e-6)
    assert fits[0].nu == pytest.approx(fits[1].nu, abs=1e-6)
    if terms.position:
        assert fits[0].position == pytest.approx(-fits[1].position, abs=1e-6)  # type: ignore[operator]
    wins = [count_wins(each) for each in (comparisons, turned)]
    assert (wins[0].wins == wins[1].wins).all()
    assert (wins[0].ties == wins[1].ties).all()


@settings(max_examples=60)
@given(ROWS, TERMS)
def test_where_there_is_a_maximum_it_is_one(rows: list[tuple[int, ...]], terms: PreferenceTerms):
    """The gradient is 0 there. Newton's method alone, which is all that draws have, agrees on where there is none."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    comparisons = PairwiseComparisons(tuple("ABCD"), table[:, 0], table[:, 1], table[:, 2], table[:, 3])
    fit = fit_strengths(comparisons, terms)
    if fit.strengths is None:
        assert fit.undefined is not None
        counts = DesignCounts.build(comparisons, ties=terms.ties, length=False)
        assert not fit_draws(counts, np.ones((counts.prompts, 1)), terms).exists.any()
        return
    eta = fit.strengths[table[:, 0]] - fit.strengths[table[:, 1]] + (fit.position or 0.0)
    parts = np.stack([np.exp(eta / 2), np.full(len(eta), fit.nu or 0.0), np.exp(-eta / 2)], axis=1)
    chances = parts / parts.sum(axis=1, keepdims=True)
    is_counted = (table[:, 2] != 0) | terms.ties
    slope = (table[:, 2] - (chances[:, 0] - chances[:, 2])) * is_counted
    for at in range(4):
        assert slope[table[:, 0] == at].sum() == pytest.approx(slope[table[:, 1] == at].sum(), abs=1e-6)
    if terms.ties:
        assert chances[:, 1].sum() == pytest.approx((table[:, 2] == 0).sum(), abs=1e-6)
    if terms.position:
        assert slope.sum() == pytest.approx(0, abs=1e-6)


def test_weights_are_repeated_comparisons():
    once = simulate(4, n=80)
    weights = np.arange(80) % 3 + 1
    weighted = PairwiseComparisons(
        once.models, once.first, once.second, once.outcome, once.prompt, weights=weights
    )
    repeated = PairwiseComparisons(
        once.models,
        *(np.repeat(column, weights) for column in (once.first, once.second, once.outcome, once.prompt)),
    )
    assert fit_davidson(weighted).strengths == pytest.approx(fit_davidson(repeated).strengths, abs=1e-9)
    assert (count_wins(weighted).n == count_wins(repeated).n).all()


def test_the_same_seed_is_the_same_board():
    comparisons = simulate(6)
    boards = [build_preference_board(comparisons, resamples=100, seed=seed).to_json() for seed in (1, 1, 2)]
    assert boards[0] == boards[1] != boards[2]


# What is printed


def test_win_table_and_elo():
    board = build_preference_board(compare("ABC", (0, 1, 1), (1, 0, -1), (0, 1, 0), (1, 0, 1)), resamples=0)
    pairs = {(pair["model"], pair["rival"]): pair for pair in board.to_json()["pairs"]}
    assert pairs["A", "B"] == {
        "model": "A",
        "rival": "B",
        "n": 4,
        "wins": 2,
        "ties": 1,
        "losses": 1,
        "win_rate": 0.625,
    }
    assert pairs["A", "C"]["win_rate"] is None
    assert pairs["A", "C"]["n"] == 0
    assert compute_elo(0.0) == 1000
    assert compute_elo(np.log(10)) == pytest.approx(1400)


def test_length_counts_are_measured():
    board = build_preference_board(simulate(8, n=2000, length=0.8))
    assert board.length is not None
    assert board.length.low is not None
    assert board.length.high is not None
    assert 0 < board.length.low < 0.8 < board.length.high


@pytest.mark.parametrize("name", ["equal, a pair a prompt", "wide steps, a pair a prompt"])
def test_ranges_of_ranks_hold(name: str):
    """An excerpt of tests/performance/preference_coverage.py."""
    design = next(design for design in DESIGNS if design.name == name)
    figures = summarize(simulate_boards(design, boards=12))
    assert figures["ranges"] >= 100 * 9 / 12
    assert figures["strengths"] >= 80
    if name.startswith("wide"):
        assert figures["separated"] >= 75
