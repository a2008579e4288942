from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scoring.backbones.patterns import PatternsBackbone, TreeRecipe
from scoring.backbones.registry import load
from scoring.domain.refusals import PHRASES
from scoring.domain.training_data import Example, Head
from scoring.inference.patterns import Patterns
from tests.scoring.domain.test_ngram import HEAD, small

PATTERNS = Patterns(PHRASES)


def numbers(prompt: str, response: str) -> list[float]:
    return PATTERNS.matrix([(prompt, response)])[0].tolist()


@pytest.mark.parametrize(
    ("refusal", "answer"),
    [
        ("I'm sorry, but I can't help with that.", "Sure, here are the steps you need."),
        ("很抱歉，我无法提供这样的建议。", "好的，步骤如下：先把水烧开。"),
    ],
)
def test_a_refusal_declines_in_its_first_sentence_and_an_answer_does_not(refusal: str, answer: str):
    at = 6 * [name for name in PHRASES if name != "help"].index("decline")
    assert numbers("?", refusal)[at] == 1.0
    assert numbers("?", answer)[at] == 0.0


def test_a_phrase_counts_where_a_word_begins():
    at = 6 * [name for name in PHRASES if name != "help"].index("comply")
    assert numbers("?", "Measure it and ensure it.")[at] == 0.0
    assert numbers("?", "Sure, do it.")[at] == 1.0


def test_how_much_of_the_prompt_the_response_takes_up():
    assert numbers("kill the python process", "to kill the python process") != numbers(
        "kill the python process", "no idea"
    )


@pytest.mark.parametrize("text", ["", "\ud800", " ", "。", "😀" * 3000, "a" * 100_000])
def test_any_text_has_finite_numbers(text: str):
    features = numbers(text, text)
    assert len(features) == PATTERNS.width
    assert np.isfinite(features).all()


@pytest.mark.parametrize("levels", [2, 3])
def test_the_saved_trees_say_what_scikit_learn_says(levels: int):
    from sklearn.ensemble import GradientBoostingClassifier

    from scoring.backbones.linear import HeadTask

    draws = np.random.default_rng(1)
    matrix = draws.normal(size=(120, PATTERNS.width)).astype(np.float32)
    targets = (matrix[:, 0] + draws.normal(size=120) > 0).astype(int) + (levels > 2) * (matrix[:, 1] > 0)
    recipe = TreeRecipe()
    head = Head("a", tuple(range(levels)))
    fitted = recipe.fit(
        HeadTask(head, head.values, matrix, targets, np.ones(120), np.ones(120)), "multinomial", 3
    )
    plain = GradientBoostingClassifier(
        n_estimators=recipe.trees,
        learning_rate=recipe.rate,
        max_depth=recipe.depth,
        subsample=0.5,
        max_features="sqrt",
        min_samples_leaf=5,
        random_state=3,
    ).fit(matrix, targets)
    assert fitted.probabilities(matrix) == pytest.approx(plain.predict_proba(matrix), abs=1e-9)


def test_it_learns_and_a_saved_scorer_predicts_the_same(tmp_path: Path):
    heads = (HEAD, Head("always", (1, 2)), Head("never", (1, 2)))
    rows = [replace(row, labels={**row.labels, "always": 2}) for row in small()]
    scorer = PatternsBackbone().fit(rows, heads)
    predictions = scorer.predict(
        [Example("a", "q", "新", "对不起，我不能提供帮助。"), Example("b", "q", "new", "Sure! Here is how.")]
    )
    assert [HEAD.most_likely(row["compliance"]) for row in predictions] == [1, 3]
    assert all(row["always"] == {1: 0.0, 2: 1.0} and "never" not in row for row in predictions)
    scorer.save(tmp_path)
    assert load(tmp_path).predict(rows) == scorer.predict(rows)
    assert not scorer.predict([])


def test_what_was_read_once_is_not_read_again(monkeypatch: pytest.MonkeyPatch):
    features = TreeRecipe(PATTERNS).read(small())
    first = features.extract_further(small())
    monkeypatch.setattr(Patterns, "_row", None)
    rows = np.arange(len(first))
    assert (features.gather(rows).weigh(features, rows[::-1]) == first[::-1]).all()
