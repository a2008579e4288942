from __future__ import annotations

import json
import random
from typing import Any

import pytest

from scoring.domain.drift import describe_models, domain_auc, measure_drift, script
from scoring.domain.training_data import Example, Head, Prediction

HEAD = Head("compliance", (1, 2, 3), "ordinal")
WORDS = [
    "rain",
    "tea",
    "river",
    "lamp",
    "stone",
    "paper",
    "bread",
    "window",
    "garden",
    "letter",
    "market",
    "winter",
    "summer",
    "bottle",
]


def build_example(model: str, prompt: int, *, style: str = "", same: bool = False) -> Example:
    """What a model says; models of no style draw from the same words."""
    words = " ".join(random.Random(f"{model} {prompt}").sample(WORDS, 7))
    text = "I cannot answer that." if same else f"{style}{words}."
    return Example(f"{model}{prompt}", f"p{prompt}", f"What of {WORDS[prompt % 14]} {prompt}?", text, model)


def model(name: str, **options: Any) -> list[Example]:
    return [build_example(name, i, **options) for i in range(60)]


def sure(examples: list[Example], p: float) -> list[Prediction]:
    return [{"compliance": {1: p, 2: (1 - p) / 2, 3: (1 - p) / 2}} for _ in examples]


@pytest.fixture(scope="module")
def training() -> list[Example]:
    return [*model("a"), *model("b"), *model("c")]


@pytest.fixture(scope="module")
def before(training: list[Example]) -> dict[str, Any]:
    return describe_models(training, sure(training, 0.8), [HEAD], lost={"a": 0.02, "b": -0.01})


def test_the_training_models_stand_beside_with_what_leaving_them_out_cost(before: dict[str, Any]) -> None:
    assert list(before["models"]) == ["a", "b", "c"]
    assert {name: figures["accuracy_lost"] for name, figures in before["models"].items()} == {
        "a": 0.02,
        "b": -0.01,
        "c": None,
    }
    # They draw from the same words: a classifier guesses.
    assert all(0.3 < figures["auc"] < 0.7 for figures in before["models"].values())
    assert before["all"]["confidence"] == pytest.approx(0.8)
    assert before["all"]["repeated"] == {"share": 0.0, "commonest": None}


def test_a_model_of_the_same_kind_shows_no_drift(training: list[Example], before: dict[str, Any]) -> None:
    new = model("d")
    drift = measure_drift(training, new, sure(new, 0.8), [HEAD], reference=before)
    assert 0.3 < drift["new"]["auc"] < 0.7
    assert (drift["new"]["auc_prompts"], drift["known_prompts"]) == ("shared", 1.0)
    assert drift["shift"]["length"] < 0.25
    assert drift["shift"]["scripts"] == 0.0


def test_a_model_with_one_sentence_for_everything_is_told_with_the_sentence(
    training: list[Example], before: dict[str, Any]
) -> None:
    new = [build_example("d", i, same=i % 2 == 0) for i in range(60)]
    drift = measure_drift(training, new, sure(new, 0.99), [HEAD], reference=before)
    assert drift["new"]["repeated"] == {
        "share": 0.5,
        "commonest": {"text": "I cannot answer that.", "n": 30, "share": 0.5, "in_training": False},
    }
    assert drift["new"]["auc"] > 0.7
    assert drift["most_different"] is True
    assert drift["new"]["confidence"] == pytest.approx(0.99)
    assert drift["known_texts"] == 0.0


def test_another_script_and_other_lengths_are_told(training: list[Example], before: dict[str, Any]) -> None:
    new = [
        build_example("d", i, style="对不起，我不能回答这个问题，请您咨询专业人士。" * 5) for i in range(60)
    ]
    drift = measure_drift(training, new, sure(new, 0.5), [HEAD], reference=before)
    assert drift["new"]["scripts"] == {"Han": 1.0}
    assert (drift["shift"]["scripts"], drift["shift"]["length"]) == (1.0, 1.0)
    assert drift["new"]["auc"] > 0.95


def test_it_is_plain_json_and_the_same_again(training: list[Example], before: dict[str, Any]) -> None:
    new = model("d", style="Sure! ")
    first, second = (measure_drift(training, new, sure(new, 0.8), [HEAD], reference=before) for _ in range(2))
    assert json.loads(json.dumps(first)) == first == second
    assert json.loads(json.dumps(before)) == before


def test_a_copy_of_a_training_response_counts_as_known(
    training: list[Example], before: dict[str, Any]
) -> None:
    new = [
        Example(f"d{i}", e.prompt_key, e.prompt, f" {e.response.upper()} ", "d")
        for i, e in enumerate(training[:60])
    ]
    assert measure_drift(training, new, sure(new, 0.8), [HEAD], reference=before)["known_texts"] == 1.0


def test_too_few_responses_have_no_auc_and_nothing_is_no_crash(before: dict[str, Any]) -> None:
    few = model("d")[:5]
    assert domain_auc(model("a"), few) == {"auc": None, "auc_prompts": "all"}
    drift = measure_drift([], [], [], [HEAD], reference=describe_models([], [], [HEAD]))
    assert drift["new"]["auc"] is None
    assert drift["most_different"] is None
    assert drift["shift"] == {"scripts": None, "length": None}
    assert describe_models(few, sure(few, 0.9), [HEAD])["models"]["d"]["auc"] is None


def test_half_a_pair_of_surrogates_is_a_character_like_any_other() -> None:
    broken = [build_example("d", i, style="\ud83d ") for i in range(60)]
    assert domain_auc(model("a"), broken)["auc"] > 0.8


def test_other_prompts_are_said_to_be_other_prompts(training: list[Example]) -> None:
    new = [build_example("d", i) for i in range(100, 140)]
    assert domain_auc(training, new)["auc_prompts"] == "all"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Hello, 世界", "Latin"),
        ("你好，world", "Latin"),
        ("这是中文", "Han"),
        ("これは", "Kana"),
        ("Привет", "Cyrillic"),
        ("42!", "none"),
    ],
)
def test_the_script_is_that_of_most_letters(text: str, name: str) -> None:
    assert script(text) == name
