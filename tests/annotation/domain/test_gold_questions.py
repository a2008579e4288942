"""The pure rules of gold questions: when one is due, which are chosen, how a qualification is scored."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.core.sampling import block_of, count_drawn
from annotation.domain.gold_questions import (
    TOO_FEW,
    Answer,
    GoldScale,
    count_checks_to_come,
    count_confusion,
    draw_balanced,
    is_bad_item,
    is_due,
    is_poor,
    pick_item,
    score_answers,
)

SCALES = {"a": GoldScale((1, 2, 3), nominal=False), "b": GoldScale((0, 1), nominal=True)}
shares = st.sampled_from([0.05, 0.1, 1 / 3, 0.4, 0.5])
seeds = st.text(max_size=8)
few = settings(deadline=None, max_examples=40)


@few
@given(share=shares, seed=seeds, blocks=st.integers(1, 6))
def test_every_block_holds_exactly_one_and_the_blocks_follow_each_other(share: float, seed: str, blocks: int):
    number = 1
    for index in range(blocks):
        block = block_of(number, share=share, seed=seed)
        assert block is not None
        assert (block.index, block.first) == (index, number)
        due = [n for n in range(block.first, block.last + 1) if is_due(n, share=share, seed=seed)]
        assert due == [block.drawn]
        number = block.last + 1
    # After so many whole blocks the share is what was asked for, to within one item.
    assert abs((number - 1) * share - blocks) < 1
    assert count_drawn(number - 1, share=share, seed=seed) == blocks


def test_nothing_is_due_at_no_share():
    assert not any(is_due(number, share=0, seed="s") for number in range(1, 100))
    assert count_drawn(50, share=0, seed="s") == 0


def test_the_place_in_a_block_differs_from_person_to_person():
    places = {block_of(1, share=0.05, seed=f"person {n}").drawn for n in range(200)}  # type: ignore[union-attr]
    assert places == set(range(1, 21))


@few
@given(share=shares, seed=seeds, start=st.integers(0, 100), work=st.integers(0, 80), most=st.integers(0, 50))
def test_what_is_left_goes_down_by_one_with_every_item_whatever_it_is(
    share: float, seed: str, start: int, work: int, most: int
):
    """As a person counts who is handed a check wherever one is due, while there are any."""
    left = work + count_checks_to_come(start, work, share=share, seed=seed, most=most)
    for number in range(start + 1, start + left + 1):
        assert work > 0
        if most and is_due(number, share=share, seed=seed):
            most -= 1
        else:
            work -= 1
        now = work + count_checks_to_come(number, work, share=share, seed=seed, most=most)
        assert now == left - 1
        left = now
    assert work == left == 0


def test_a_draw_takes_each_kind_as_often_as_it_can():
    items = [(f"{kind}{n}", kind) for kind, many in (("a", 50), ("b", 3), ("c", 50)) for n in range(many)]
    sample = draw_balanced(items, 20, seed=7)
    assert len(set(sample)) == 20
    counts = Counter(item[0] for item in sample)
    assert counts["b"] == 3  # all that there are; the other 17 are shared between a and c
    assert sorted((counts["a"], counts["c"])) == [8, 9]
    assert draw_balanced(items, 20, seed=7) == sample != draw_balanced(items, 20, seed=8)
    assert len(draw_balanced(items, 500, seed=7)) == 103


def test_a_pick_is_the_same_for_the_same_turn_alone():
    every = list(range(100))
    assert pick_item(every, seed="s", turn=4) == pick_item(every, seed="s", turn=4)
    assert len({pick_item(every, seed="s", turn=turn) for turn in range(60)}) > 20
    assert len({pick_item(every, seed=f"{n}", turn=4) for n in range(60)}) > 20


def test_an_item_is_right_when_every_label_is():
    answer = Answer({"a": 2, "b": 1}, {"a": 3, "b": 1})
    assert not answer.is_right
    assert Answer({"a": 3, "b": 1}, {"a": 3.0, "b": 1}).is_right
    assert not answer.is_within(0, SCALES)
    assert answer.is_within(1, SCALES)
    assert not Answer({"a": 3, "b": 0}, {"a": 3, "b": 1}).is_within(
        5, SCALES
    )  # a nominal scale has no distances
    assert count_confusion([answer, answer]) == {"a": Counter({(3, 2): 2}), "b": Counter({(1, 1): 2})}


def answers(*pairs: tuple[float, float]) -> list[Answer]:
    """(right, given) on the criterion ``b``."""
    return [Answer({"b": label}, {"b": right}) for right, label in pairs]


def test_accuracy_is_the_share_of_right_labels_with_wilsons_interval():
    score = score_answers(answers((1, 1), (1, 1), (0, 0), (0, 1), (0, 0)), by="accuracy", scales=SCALES)
    assert (score.n, score.value) == (5, 4 / 5)
    # Wilson for 4 of 5: centre (0.8 + z2/10) / (1 + z2/5), z2 = 3.841459
    assert score.low == pytest.approx(0.37553, abs=1e-4)
    assert score.high == pytest.approx(0.96376, abs=1e-4)
    assert score.passes(0.8)
    assert not score.passes(0.81)


def test_kappa_is_cohens_with_the_known_labels():
    right = [(1, 1)] * 4 + [(0, 0)] * 4 + [(0, 1)] * 2
    score = score_answers(answers(*right), by="kappa", scales=SCALES)
    # observed 8/10; by chance 4/10 * 6/10 + 6/10 * 4/10 = 48/100; kappa = (0.8 - 0.48) / 0.52
    assert score.value == pytest.approx(0.32 / 0.52)
    assert (score.low, score.high) == (None, None)  # two wrong answers are too few for an interval
    assert score.passes(0.6)
    more = score_answers(answers(*[(1, 1)] * 8, *[(0, 0)] * 7, *[(0, 1)] * 5), by="kappa", scales=SCALES)
    assert more.value is not None
    assert more.low is not None
    assert more.high is not None
    assert more.low < more.value < more.high


def test_a_kappa_that_is_the_threshold_passes():
    half = [(1, 1)] * 7 + [(0, 0)] * 7 + [(0, 1)] * 3 + [(1, 0)] * 3
    score = score_answers(answers(*half), by="kappa", scales=SCALES)
    assert score.value == pytest.approx(0.4)  # (0.7 - 0.5) / 0.5, which is less than 0.4 in binary
    assert score.passes(0.4)
    assert not score.passes(0.4001)


def test_what_is_undefined_is_no_pass_and_says_why():
    same = score_answers(answers(*[(1, 1)] * 6), by="kappa", scales=SCALES)
    assert same.value is None
    assert same.reason
    assert not same.passes(-1)
    empty = score_answers([], by="accuracy", scales=SCALES)
    assert (empty.n, empty.value) == (0, None)
    few = score_answers(answers((1, 1), (0, 0)), by="accuracy", scales=SCALES)
    assert few.value == 1
    assert few.reason == TOO_FEW.format(least=5)
    assert not few.passes(0.5)


def test_whoever_surely_has_too_few_right_is_told_of_and_an_item_that_hardly_anybody_has_right():
    assert is_poor(10, 3)  # the interval of 3 in 10 ends at 0.60
    assert not is_poor(10, 6)
    assert not is_poor(2, 1)  # too few to say so
    assert not is_poor(0, 0)
    assert is_bad_item(6, 2)
    assert not is_bad_item(6, 3)
    assert not is_bad_item(2, 0)
