"""What ``tests/performance/tuning_choices.py`` prints: figures beside the first choice, over the same labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from scoring.backbones.linear import HeadTask, LinearRecipe
from scoring.domain.evaluation.cross_validation import Evaluation
from scoring.domain.evaluation.metrics import measure
from scoring.domain.evaluation.outcomes import Draws
from scoring.domain.training_data import Example, Head, Prediction, prompt_groups
from tests.conftest import missing
from tests.performance.tuning_choices import OrdinalRecipe, Results, build_choices, format_difference
from tests.scoring import lend_an_ear, snippets

HEAD = Head("c", (1, 2, 3), "ordinal")
ROWS = [
    Example(f"{i}", f"p{i}", "", f"text {i}", labels={"c": level}) for i, level in enumerate((1, 1, 3, 2))
]
RATES: list[Prediction] = [{"c": {1: 0.5, 2: 0.0, 3: 0.5}}] * 4  # no fold has learned level 2


def evaluate(*shares: tuple[float, float, float]) -> Evaluation:
    predictions: list[Prediction] = [{"c": dict(zip(HEAD.values, row, strict=True))} for row in shares]
    return Evaluation(measure(ROWS, predictions, [HEAD], rates=RATES), predictions, [0] * 4, [True] * 4)


def collect(*evaluations: Evaluation) -> Results:
    rates = Evaluation({}, RATES, [0] * 4, [True] * 4)
    return Results.collect(ROWS, [HEAD], evaluations, [rates] * len(evaluations))


FAR = evaluate((0.2, 0.1, 0.7), (0.8, 0.1, 0.1), (0.1, 0.1, 0.8), (0.8, 0.1, 0.1))
NEAR = evaluate((0.2, 0.7, 0.1), (0.8, 0.1, 0.1), (0.1, 0.1, 0.8), (0.1, 0.8, 0.1))


def test_levels_off_are_of_all_labels_and_log_loss_of_those_whose_level_was_learned():
    far, near = collect(FAR), collect(NEAR)
    accuracy, _macro, within_one, off, _kappa, loss, _error = far.list_figures()
    assert (accuracy, within_one, off) == (0.5, 0.75, pytest.approx(3 / 4))  # off by 2, 0, 0 and 1
    assert loss == pytest.approx(-(math.log(0.2) + 2 * math.log(0.8)) / 3)
    off, loss = near.list_differences(far, Draws.draw_prompts(ROWS, resamples=200))
    assert off.startswith("-0.500 (")  # 1 and 1 less, of four
    assert loss == "+0.000"


def test_several_seeds_are_one_figure():
    far, both = collect(FAR, FAR), collect(FAR, NEAR)
    difference, _loss = both.list_differences(far, Draws.draw_prompts(ROWS, resamples=200))
    assert difference.startswith("-0.250 (")
    assert both.list_figures()[0] == pytest.approx((0.5 + 0.75) / 2)
    assert format_difference({"value": 0.0, "low": None, "high": None}) == "+0.000"


def test_a_linear_scorer_learns_in_the_form_that_it_may_take_alone():
    words = {1: "never", 2: "perhaps", 3: "gladly"}
    rows = [
        Example(f"{i}", f"p{i}", "", f"{words[1 + i % 3]} number {i}", labels={"c": 1 + i % 3})
        for i in range(60)
    ]
    forms = {}
    for name, learner in build_choices("ngram", "", None).items():  # type: ignore[arg-type]
        predictor = learner.fit(rows, [HEAD])
        (head,) = predictor.heads  # type: ignore[attr-defined]
        forms[name] = head.form
        assert HEAD.most_likely(predictor.predict([replace(rows[2], response="gladly")])[0]["c"]) == 3
    assert (forms["multinomial"], forms["cumulative"]) == ("multinomial", "cumulative")


def test_a_head_learns_as_scikit_learn_does_and_nearer_with_the_ordinal_loss():
    if not find_spec("torch"):
        missing("torch", "the loss of a tuned encoder needs requirements-encoder.txt")
    chance = np.random.default_rng(0)
    targets = np.repeat(np.arange(3), 40)
    matrix = (chance.normal(size=(120, 4)) + targets[:, None] * [0.8, 0, 0, 0]).astype(np.float32)
    importance = np.array([0.5, 1.0, 1.5])[targets]
    task = HeadTask(HEAD, (0, 1, 2), matrix, targets, importance, np.ones(120))
    plain = LinearRecipe(learn_nothing, 1.0).fit(task, "multinomial", 0).probabilities(matrix)
    same = OrdinalRecipe(learn_nothing, 1.0).fit(task, "multinomial", 0).probabilities(matrix)
    assert np.abs(plain - same).max() < 0.01
    ordinal = OrdinalRecipe(learn_nothing, 1.0, ordinal=5.0).fit(task, "multinomial", 0).probabilities(matrix)
    squared = [squared_distance(shares, targets, importance) for shares in (same, ordinal)]
    assert squared[1] < squared[0]


def learn_nothing(examples: Sequence[Example]) -> Any:
    raise AssertionError


def squared_distance(shares: Any, targets: Any, importance: Any) -> float:
    """The earth mover's, of cumulative distributions."""
    reached = np.arange(3)[None, :] >= targets[:, None]
    return float((importance[:, None] * (shares.cumsum(axis=1) - reached) ** 2).sum())


def test_every_rating_of_a_dialogue_is_an_example_of_its_prompt():
    if not lend_an_ear.is_there():
        missing("shared", f"the dialogues are not in {lend_an_ear.FOLDER}")
    rated, settled = lend_an_ear.rated_dialogues(), lend_an_ear.settled_dialogues()
    assert (len(rated), len(settled)) == (3 * 50 + 196, 50)
    assert len(set(prompt_groups(rated))) == len(set(prompt_groups(settled))) == 50
    assert {level for row in rated for level in row.labels.values()} == {1, 2, 3, 4, 5}


def test_sentences_of_reviews_have_the_published_ratings():
    if not snippets.is_there():
        missing("sources", f"the source distribution of vaderSentiment is not in {snippets.FOLDER}")
    films, products = snippets.read_films(), snippets.read_products()
    assert (len(films), len(products)) == (10605, 3708)
    assert films[2].response.startswith("Effective but too tepid biopic")
    assert films[2].labels == {"sentiment": -1}
    assert Counter(row.labels["sentiment"] for row in products) == {1: 146, 2: 1119, 3: 734, 4: 1292, 5: 417}
    assert len(set(prompt_groups(products))) == 293  # of 300 reviews; some share a sentence
