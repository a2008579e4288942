"""ESC-Eval: its role cards, and the guidelines for dialogues that come with Assay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from annotation.core.errors import InputError
from annotation.domain.formats import PROMPTS, Guess, Source, get_format, guess_format
from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from benchmark.domain.leaderboards.metrics import format_metric_bound, format_metric_value
from tests.support import FIXTURES

CARDS = [
    {
        "id": 101,
        "base": "Age: not mentioned\nProblem: The seeker lost a bicycle.",
        "res": "社会与其他",
        "source": "invented",
        "base_biaozhu": "年龄：未提及\n问题：求助者丢了自行车。",
        "language": "english",
    },
    {"id": 102, "base": "年龄：年轻\n问题：考试前睡不着。", "res": "工作学习", "language": "chinese"},
]


def write(path: Path, cards: list[dict[str, Any]]) -> Source:
    path.write_text(json.dumps(cards, ensure_ascii=False, indent=4), encoding="utf-8")
    return Source(path)


def load(name: str) -> GuidelineDocument:
    path = FIXTURES / "guidelines" / f"{name}.yaml"
    return parse_guideline(path.read_text(encoding="utf-8"), path=path.name)


def test_a_role_card_is_a_prompt(tmp_path: Path) -> None:
    source = write(tmp_path / "cards.json", CARDS)
    assert guess_format(source) == Guess(format="esc_eval", kind=PROMPTS)
    first, second = get_format("esc_eval").read_prompts(source)
    assert (first.ref.id, first.dimension, first.language) == ("101", "社会与其他", "en")
    assert (first.source, second.source) == ("invented", "")
    assert first.ref.text == CARDS[0]["base"]
    assert (second.ref.id, second.dimension, second.language) == ("102", "工作学习", "zh")
    assert not source.unused


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"language": "klingon"}, "language"),
        ({"base": " "}, "base"),
        ({"res": ""}, "res"),
        ({"source": ["ESConv"]}, "source"),
        ({"source": "x" * 201}, "source"),
    ],
)
def test_a_card_that_lacks_something_names_its_place(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    source = write(tmp_path / "cards.json", [CARDS[0], CARDS[1] | change])
    with pytest.raises(InputError) as caught:
        list(get_format("esc_eval").read_prompts(source))
    assert (caught.value.line, caught.value.field) == (2, field)


@pytest.mark.parametrize(
    ("name", "criteria", "values", "prompt_shown"),
    [("esc_eval", 7, (0, 1, 2, 3, 4), "folded"), ("lend_an_ear", 6, (1, 2, 3, 4, 5), "yes")],
)
def test_the_guidelines_for_dialogues(
    name: str, criteria: int, values: tuple[int, ...], prompt_shown: str
) -> None:
    document = load(name)
    assert (document.unit, document.prompt_shown, len(document.criteria)) == (
        "dialogue",
        prompt_shown,
        criteria,
    )
    for criterion in document.criteria:
        assert (criterion.values, criterion.tolerance, criterion.measurement) == (values, 1, "ordinal")
        for language in document.languages:
            assert len({level.definition[language] for level in criterion.scale}) == len(values)


def test_the_published_fluency_of_gpt_4_has_its_two_decimals() -> None:
    """A sum of 984 over 331 English dialogues, as ESC-Eval publishes it: 74.32."""
    metric = load("esc_eval").metric("fluency")
    assert format_metric_value(metric, metric.of_mean(984 / 331)) == "74.32"
    assert format_metric_value(metric, 74.3) == "74.30"
    assert format_metric_bound(metric, 74.3) == "74.30"
    assert format_metric_value(metric, None) == "-"


@pytest.mark.parametrize(("written", "value"), [("no", "no"), ("yes", "yes"), ("folded", "folded")])
def test_yes_and_no_need_no_quotes(written: str, value: str) -> None:
    text = (FIXTURES / "guidelines" / "esc_eval.yaml").read_text(encoding="utf-8")
    changed = text.replace("prompt_shown: folded", f"prompt_shown: {written}")
    assert parse_guideline(changed, path="x.yaml").prompt_shown == value


DIALOGUE = [
    "AI assitant：Hello, I am here.",
    "ESC-Role：I lost: my bicycle.",
    "AI assistant: \nOh no！",
    "ESC-Role：",
]


def write_members(path: Path, members: object) -> Source:
    path.write_text(json.dumps(members, ensure_ascii=False, indent=1), encoding="utf-8")
    return Source(path)


def test_a_dialogue_names_its_card_by_its_place(tmp_path: Path) -> None:
    source = write_members(tmp_path / "Qwen_7B_en.json", {"0": DIALOGUE, "12": DIALOGUE[:2]})
    first, second = get_format("esc_eval").read_responses(source)
    assert (first.ref.id, second.ref.id, second.line) == ("0", "12", 2)
    assert [(turn["role"], turn["text"]) for turn in first.turns] == [
        ("opening", "Hello, I am here."),
        ("user", "I lost: my bicycle."),
        ("assistant", " \nOh no！"),
        ("user", ""),
    ]
    assert get_format("esc_eval").model_of("result/Qwen_7B_en.json") == "Qwen_7B"
    assert get_format("esc_eval").model_of("dialogues.json") is None


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([DIALOGUE], "no JSON object"),
        ({}, "no rows"),
        ({"0": "AI assitant：Hello"}, "list of lines"),
        ({"0": DIALOGUE[:1]}, "list of lines"),
        ({"0": ["Hello", "ESC-Role：Hi"]}, "none of the speakers"),
        ({"0": ["System：Hello", "ESC-Role：Hi"]}, "none of the speakers"),
        ({"first": DIALOGUE}, "no place of a role card"),
        ({"-1": DIALOGUE}, "no place of a role card"),
    ],
)
def test_what_is_wrong_with_a_file_of_dialogues(tmp_path: Path, members: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        list(get_format("esc_eval").read_responses(write_members(tmp_path / "x.json", members)))


@pytest.mark.parametrize("text", ['{"0": ', '{"0": [] "1": []}', '{"0": []} x', '{"0" []}', "{", ""])
def test_a_broken_object_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        list(get_format("esc_eval").read_responses(Source(path)))
