"""Agreement on rankings and on the best entry: published examples, other calculations, PandaLM's people."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare, spearmanr

from annotation.domain.agreement import FEW_DISPUTES, NO_VARIATION, count_by_prompt
from annotation.domain.agreement.rankings import (
    CHOICES,
    FEW_RANKED_PROMPTS,
    NO_RANKINGS,
    compute_kendall_w,
    measure_choices,
    measure_concordance,
)
from annotation.domain.guidelines.entries import NONE, TIE
from tests.annotation.domain.test_agreement_oracles import drawn

Table = list[list[int]]

# Three executives rank six applicants: Siegel (1956), table 9.13; Siegel and Castellan (1988), section 9.5.
EXECUTIVES = [[1, 6, 3, 2, 5, 4], [1, 5, 6, 4, 2, 3], [6, 3, 2, 5, 4, 1]]
# Three rankings of ten with ties: Kendall (1948), chapter 6; Siegel (1956), section 9.6.
TIED = [
    [1, 4.5, 2, 4.5, 3, 7.5, 6, 9, 7.5, 10],
    [2.5, 1, 2.5, 4.5, 4.5, 8, 9, 6.5, 10, 6.5],
    [2, 1, 4.5, 4.5, 4.5, 4.5, 8, 8, 8, 10],
]


@st.composite
def tables(draw: st.DrawFn, least_people: int = 2) -> Table:
    """Ranks by two to six people of two to five entries, ties among them."""
    entries = draw(st.integers(2, 5))
    row = st.lists(st.integers(1, entries), min_size=entries, max_size=entries)
    return draw(st.lists(row, min_size=least_people, max_size=6))


dense_ranks = st.lists(st.integers(1, 5), min_size=2, max_size=5).map(
    lambda ranks: tuple(sorted(set(ranks)).index(rank) + 1 for rank in ranks)
)


def test_w_without_ties_is_as_siegel_published():
    assert compute_kendall_w(EXECUTIVES) == pytest.approx(25.5 / 157.5)
    assert compute_kendall_w(EXECUTIVES) == pytest.approx(0.16, abs=0.005)


def test_w_with_ties_is_as_kendall_published():
    assert compute_kendall_w(TIED) == pytest.approx(591 / (742.5 - 28.5))
    assert compute_kendall_w(TIED) == pytest.approx(0.828, abs=0.0005)


@drawn
@given(tables())
def test_w_is_friedmans_statistic_over_its_largest_value(table: Table):
    """Chi² / (m (n - 1)), where scipy has the statistic with its correction for ties: of three entries or more."""
    entries = len(table[0])
    assume(entries > 2 and any(len(set(row)) > 1 for row in table))
    chi = friedmanchisquare(*np.array(table).T).statistic
    assert compute_kendall_w(table) == pytest.approx(chi / (len(table) * (entries - 1)))


@drawn
@given(
    st.integers(2, 5).flatmap(lambda n: st.lists(st.permutations(range(1, n + 1)), min_size=2, max_size=5))
)
def test_without_ties_w_gives_the_mean_rank_correlation_of_pairs(table: Table):
    """(m W - 1) / (m - 1), as Kendall has it."""
    value, people = compute_kendall_w(table), len(table)
    assert value is not None
    pairs = [spearmanr(*pair).statistic for pair in combinations(table, 2)]
    assert (people * value - 1) / (people - 1) == pytest.approx(np.mean(pairs), abs=1e-9)


@drawn
@given(tables(), st.randoms(use_true_random=False))
def test_w_lies_between_0_and_1_and_depends_on_order_alone(table: Table, random: Any):
    value = compute_kendall_w(table)
    entries = random.sample(range(len(table[0])), len(table[0]))
    same = [
        random.sample(table, len(table)),
        [[row[place] for place in entries] for row in table],
        [[7 * rank**3 - 2 for rank in row] for row in table],
        [[-rank for rank in row] for row in table],
    ]
    assert value is None or 0 <= value <= 1 + 1e-12
    assert (value is None) == all(len(set(row)) == 1 for row in table)
    for other in same:
        assert compute_kendall_w(other) == (None if value is None else pytest.approx(value))


@drawn
@given(dense_ranks, st.integers(2, 5))
def test_w_of_people_who_rank_alike_is_1(ranks: tuple[int, ...], people: int):
    assert compute_kendall_w([ranks] * people) == (1 if len(set(ranks)) > 1 else None)


def test_w_is_undefined_of_less_than_two():
    assert compute_kendall_w([]) is None
    assert compute_kendall_w([[2, 1, 3]]) is None
    assert compute_kendall_w([[1], [1]]) is None
    assert compute_kendall_w([[1, 2], [2, 1]]) == 0
    with pytest.raises(ValueError, match="all of the same entries"):
        compute_kendall_w([[1, 2], [1, 2, 3]])


@drawn
@given(st.lists(tables(least_people=1), max_size=6))
def test_pooled_w_is_the_sum_of_squares_between_entries_over_all_of_them(items: list[Table]):
    """In whole numbers as Kendall has it: 12 S over m² (n³ - n) - m ΣT, each divided by m, summed over items."""
    between = total = chance = Fraction(0)
    measured = 0
    for table in items:
        people, entries = len(table), len(table[0])
        # Twice the mid-ranks.
        ranks = [[2 * sum(a < b for a in row) + sum(a == b for a in row) + 1 for b in row] for row in table]
        sums = [sum(column) for column in zip(*ranks, strict=True)]
        spread = 3 * sum((Fraction(people * (entries + 1)) - value) ** 2 for value in sums)
        ties = sum(n**3 - n for row in table for n in Counter(row).values())
        largest = people**2 * (entries**3 - entries) - people * ties
        if people < 2 or not largest:
            continue
        measured += 1
        between += spread / people
        total += Fraction(largest, people)
        chance += Fraction(largest, people) / people
    concordance = measure_concordance(items)
    assert concordance.items == concordance.prompts == measured
    if not measured:
        assert (concordance.w.value, concordance.w.reason, concordance.chance) == (None, NO_RANKINGS, None)
        return
    assert concordance.w.value == pytest.approx(float(between / total))
    assert concordance.chance == pytest.approx(float(chance / total))
    assert concordance.w.no_interval == FEW_RANKED_PROMPTS


@pytest.mark.parametrize("ranks", [(1, 2, 3), (1, 1, 2)])
def test_chance_is_the_mean_of_w_over_all_orders(ranks: tuple[int, ...]):
    fixed, orders = [ranks, (1, 2, 2)], list(permutations(ranks))
    values = [
        measure_concordance([[a, b], [c, d, e]]).w.value or 0
        for a in orders[:1]
        for b in permutations(fixed[1])
        for c in orders[:1]
        for d in orders
        for e in orders
    ]
    assert np.mean(values) == pytest.approx(measure_concordance([[ranks, fixed[1]], [ranks] * 3]).chance)


def make_items(seed: int, items: int) -> list[Table]:
    random = np.random.default_rng(seed)
    return [
        np.round(random.normal(size=entries) + random.normal(size=(people, entries))).astype(int).tolist()
        for people, entries in zip(random.integers(2, 4, items), random.integers(2, 6, items), strict=True)
    ]


def test_the_interval_holds_the_value_and_narrows_with_prompts():
    widths = []
    for items in (15, 40, 160):
        w = measure_concordance(make_items(1, items)).w
        assert w.value is not None
        assert w.low is not None
        assert w.high is not None
        assert 0 <= w.low < w.value < w.high <= 1
        widths.append(w.high - w.low)
    assert widths == sorted(widths, reverse=True)


def test_the_interval_depends_on_no_order_and_is_the_same_each_time():
    items = make_items(2, 30)
    assert measure_concordance(items).w == measure_concordance(items).w
    shuffled = measure_concordance(items[::-1]).w
    assert (shuffled.low, shuffled.high) == pytest.approx(
        (measure_concordance(items).w.low, measure_concordance(items).w.high)
    )


def test_items_of_a_prompt_are_drawn_together():
    """The same items three times each tell no more than once."""
    items = make_items(3, 20)
    single = measure_concordance(items).w
    tripled = measure_concordance(items * 3, list(range(20)) * 3)
    assert (tripled.items, tripled.prompts) == (60, 20)
    assert (tripled.w.value, tripled.w.low, tripled.w.high) == pytest.approx(
        (single.value, single.low, single.high)
    )
    independent = measure_concordance(items * 3).w
    assert independent.low is not None
    assert single.low is not None
    assert independent.low > single.low


def test_prompts_that_are_all_alike_give_no_interval():
    w = measure_concordance([[[1, 2], [1, 2]]] * 20).w
    assert (w.value, w.low, w.high, w.no_interval) == (1, None, None, FEW_DISPUTES)
    w = measure_concordance([[[1, 2], [2, 1]]] * 20).w
    assert (w.value, w.low, w.high, w.no_interval) == (0, None, None, NO_VARIATION)


def compute_choices(rows: list[list[int]]) -> tuple[int, float | None, float | None]:
    """Units, percent agreement and nominal alpha from their definitions in fractions, label by label."""
    units = [row for row in rows if len(row) > 1]
    if not units:
        return 0, None, None
    differing = [
        Fraction(sum(a != b for a, b in permutations(row, 2)), len(row) * (len(row) - 1)) for row in units
    ]
    labels = Counter(label for row in units for label in row)
    n = sum(labels.values())
    expected = Fraction(sum(labels[a] * labels[b] for a, b in permutations(labels, 2)), n * (n - 1))
    observed = sum(len(row) * share for row, share in zip(units, differing, strict=True)) / Fraction(n)
    agreement = 1 - sum(differing) / Fraction(len(units))
    return len(units), float(agreement), float(1 - observed / expected) if expected else None


def check_choices(rows: list[list[int]]) -> None:
    """A code for each label and -1 where there is none, for ``count_by_prompt``."""
    codes = np.array([[CHOICES.index(label) for label in row] for row in rows])
    by_prompt = measure_choices(count_by_prompt(codes, np.arange(len(rows)), CHOICES))
    by_unit = measure_choices(Counter(tuple(row) for row in rows))
    decided = [[label for label in row if label > NONE] for row in rows]
    for agreement, same, labels in (
        (by_prompt.every, by_unit.every, rows),
        (by_prompt.decided, by_unit.decided, decided),
    ):
        n, percent, alpha = compute_choices(labels)
        assert agreement.n == same.n == n
        for name, value in (("percent_agreement", percent), ("alpha_nominal", alpha)):
            expected = None if value is None else pytest.approx(value)
            assert agreement.statistics[name].value == expected
            assert same.statistics[name].value == expected


@drawn
@given(
    st.integers(2, 4).flatmap(
        lambda people: st.lists(
            st.lists(st.integers(TIE, 3), min_size=people, max_size=people), min_size=1, max_size=12
        )
    )
)
def test_choices_agree_as_the_definitions_say(rows: list[list[int]]):
    check_choices(rows)


@pytest.fixture(scope="module")
def pandalm(shared: Path) -> list[list[int]]:
    """The choices of PandaLM's three people; its 0 is a tie."""
    file = shared / "pandalm" / "testset_even.json"
    if not file.is_file():
        pytest.skip(f"the published choices are not at {file}")
    choices = {0: TIE, 1: 1, 2: 2}
    rows = json.loads(file.read_text(encoding="utf-8"))
    return [[choices[row[f"annotator{place}"]] for place in (1, 2, 3)] for row in rows]


def test_agreement_of_pandalms_people_is_what_their_labels_say(pandalm: list[list[int]]):
    assert len(pandalm) == 500
    check_choices(pandalm)
    for first, second in combinations(range(3), 2):
        check_choices([[row[first], row[second]] for row in pandalm])


def test_pandalms_people_agree_as_counted_by_hand(pandalm: list[list[int]]):
    """Equal choices of all 500, and of the comparisons that both decided: by a count of the file without this code."""
    counts = {(0, 1): (453, 441, 413), (0, 2): (461, 443, 423), (1, 2): (460, 437, 417)}
    for (first, second), (equal, decided, decided_equal) in counts.items():
        agreement = measure_choices(Counter((row[first], row[second]) for row in pandalm))
        assert (agreement.every.n, agreement.decided.n) == (500, decided)
        for part, share in ((agreement.every, equal / 500), (agreement.decided, decided_equal / decided)):
            statistic = part.statistics["percent_agreement"]
            assert statistic.value == pytest.approx(share)
            assert statistic.low is not None
            assert statistic.low < share
