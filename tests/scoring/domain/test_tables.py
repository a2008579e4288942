"""Labels and predictions as arrays say what they said one by one."""

from __future__ import annotations

import numpy as np
import pytest

from scoring.domain.evaluation import draw_groups, measure, measure_briefly
from scoring.domain.evaluation.baselines import shorten_metrics
from scoring.domain.evaluation.outcomes import Draws
from scoring.domain.tables import NO_LABEL, AnnotatorLabels, PredictionTable, tabulate_labels
from scoring.domain.training_data import Example, Head, Prediction

GRADE, TONE = Head("grade", (1, 2, 3), "ordinal"), Head("tone", (1, 2))
HEADS = (GRADE, TONE)
PREDICTIONS: list[Prediction] = [
    {"grade": {1: 0.2, 2: 0.3, 3: 0.5}, "tone": {1: 1.0, 2: 0.0}},
    {},
    {"tone": {1: 0.25, 2: 0.75}},
]


def test_a_table_reads_as_the_predictions_that_it_was_made_of():
    table = PredictionTable.collect(PREDICTIONS, HEADS)
    assert (list(table), len(table), table[-1], table[1:]) == (
        PREDICTIONS,
        3,
        PREDICTIONS[2],
        PREDICTIONS[1:],
    )
    assert PredictionTable.collect(table, HEADS) is table
    with pytest.raises(IndexError):
        table[3]


def test_a_level_that_a_prediction_does_not_name_has_no_probability():
    table = PredictionTable.collect([{"grade": {3: 1.0}}], HEADS)
    assert list(table) == [{"grade": {1: 0.0, 2: 0.0, 3: 1.0}}]


def test_rows_are_taken_and_put_where_they_belong():
    table = PredictionTable.collect(PREDICTIONS, HEADS)
    assert list(table.take([2, 0])) == [PREDICTIONS[2], PREDICTIONS[0]]
    other = PredictionTable(HEADS, 4)
    assert list(other) == [{}] * 4
    other.put([3, 1, 0], table)
    other.put_all([2], {"tone": {1: 0.5, 2: 0.5}})
    assert list(other) == [PREDICTIONS[2], {}, {"tone": {1: 0.5, 2: 0.5}}, PREDICTIONS[0]]
    assert other != table
    assert other.take([3, 1, 0]) == table
    assert list(PredictionTable.repeat(PREDICTIONS[0], HEADS, 2)) == [PREDICTIONS[0]] * 2


def test_labels_are_places_on_their_scales_and_a_certain_prediction():
    labels = tabulate_labels([{"grade": 3}, {}, {"tone": 1, "grade": 1, "another": 9}], HEADS)
    assert labels.tolist() == [[2, NO_LABEL], [NO_LABEL, NO_LABEL], [0, 0]]
    assert list(PredictionTable.from_labels(labels, HEADS)) == [
        {"grade": GRADE.certain(3)},
        {},
        {"grade": GRADE.certain(1), "tone": TONE.certain(1)},
    ]


def test_annotators_are_paired_within_a_response():
    labels = AnnotatorLabels.collect(
        [[{"tone": 1}] * 3, [], [{"tone": 2}], [{"tone": 1}, {"tone": 2}]], HEADS
    )
    assert labels.rows.tolist() == [0, 0, 0, 2, 3, 3]
    earlier, later = labels.list_pairs()
    assert list(zip(earlier.tolist(), later.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2), (4, 5)]
    nobody = AnnotatorLabels.collect([[], []], HEADS)
    assert [len(entries) for entries in nobody.list_pairs()] == [0, 0]


def list_examples(chance: np.random.Generator, size: int = 120) -> list[Example]:
    return [
        Example(
            f"r{i}",
            f"p{i // 3}",
            f"prompt {i // 3}",
            f"response {i}",
            model="abc"[i % 3],
            kind=("why", "how", None)[i % 3],
            labels={"grade": int(chance.integers(1, 4)), "tone": int(chance.integers(1, 3))},
        )
        for i in range(size)
    ]


def predict(chance: np.random.Generator, size: int) -> list[Prediction]:
    shares = {head: chance.dirichlet(np.ones(len(head.values)), size).tolist() for head in HEADS}
    return [
        {head.criterion: dict(zip(head.values, of_head[i], strict=True)) for head, of_head in shares.items()}
        for i in range(size)
    ]


def test_what_is_measured_briefly_is_part_of_all_that_is_measured():
    chance = np.random.default_rng(3)
    examples = list_examples(chance)
    predictions = predict(chance, len(examples))
    labels = tabulate_labels((example.labels for example in examples), HEADS)
    brief = measure_briefly(examples, labels, PredictionTable.collect(predictions, HEADS), seed=5)
    assert brief == shorten_metrics(measure(examples, predictions, HEADS, seed=5))


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_sums_of_cells_are_those_of_the_drawn_groups(kind: type):
    chance = np.random.default_rng(4)
    draws = Draws.draw_prompts(list_examples(chance), resamples=50, seed=2)
    rows, cells = chance.integers(0, 120, 300), chance.integers(0, 4, 300)
    values = (10 * chance.random(300)).astype(kind)
    table = np.zeros((40, 4))
    np.add.at(table, (draws.group[rows], cells), values)
    expected = draw_groups(40, resamples=50, seed=2).astype(np.float64).T @ table
    assert draws.sum_cells(rows, cells, values, 4) == pytest.approx(expected)
    assert (draws.sum_cells(rows[:0], cells[:0], values[:0], 4) == 0).all()


def test_a_draw_has_as_many_groups_as_there_are_and_is_the_same_again():
    drawn = draw_groups(30, resamples=20, seed=1)
    assert drawn.shape == (30, 21)
    assert drawn.dtype == np.float32
    assert (drawn.sum(axis=0) == 30).all()
    drawn[:] = 0  # a copy: the next who asks gets the draws as they were
    assert (draw_groups(30, resamples=20, seed=1).sum(axis=0) == 30).all()
