"""The faults that the turns of a dialogue show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.domain.dialogues import begins_with_greeting, has_common_run, list_faults
from annotation.models import DialogueFault

CARD = "Age: 30. " + "card " * 12


def build_turns(agent: list[str], model: list[str]) -> list[dict[str, str]]:
    pairs = [
        [{"role": "user", "text": question}, {"role": "assistant", "text": answer}]
        for question, answer in zip(agent, model, strict=True)
    ]
    return [{"role": "opening", "text": ""}, *(turn for pair in pairs for turn in pair)]


@pytest.mark.parametrize(
    ("agent", "model", "is_cut", "faults"),
    [
        (["Hi", "I lost my job."], ["Oh.", "I see."], False, []),
        (["Hi", " "], ["Oh.", "I see."], False, ["empty"]),
        (["Hi", "Sad"], ["Oh.", "I see."], True, ["cut"]),
        (["Hi", "As an AI language model, I cannot feel."], ["A", "B"], False, ["unmasked"]),
        (["您好", "我是一个人工智能助手。"], ["甲", "乙"], False, ["unmasked"]),
        (["作为AI，我没有母亲。", "嗯"], ["甲", "乙"], False, ["unmasked"]),
        (["My brother works on AI.", "I am an aide."], ["As an AI, I listen.", "B"], False, []),
        (["好", "我父亲是研究人工智能的。"], ["甲", "乙"], False, []),
        (["Hi", "hi "], ["A", "B"], False, ["repeated"]),
        (["Hi", "Yes"], ["A", "A"], False, ["repeated"]),
        (["Hi", "Yes"], ["Hi", "Yes"], False, []),
        (["x" + "card " * 12, "Yes"], ["A", "B"], False, ["card_copied"]),
        (["card " * 5, "card " * 6], ["A", "card " * 12], False, []),
        (["card " * 12, ""], ["A", "card " * 12], False, ["empty", "card_copied"]),
    ],
)
def test_faults(agent: list[str], model: list[str], is_cut: bool, faults: list[str]):
    assert list_faults(build_turns(agent, model), card=CARD, is_cut=is_cut) == faults


def test_the_rules_know_every_kind_of_fault_and_no_other():
    turns = build_turns(["As an AI, I read: " + CARD, "Yes", "yes"], ["A", " ", "B"])
    assert list_faults(turns, card=CARD, is_cut=True) == DialogueFault.Kind.values


def test_without_a_card_nobody_plays_a_role():
    turns = build_turns(["As an AI, I read: " + CARD, "Yes"], ["A", "A"])
    assert list_faults(turns) == ["repeated"]


def test_a_tool_that_says_nothing_is_no_side_of_a_dialogue():
    silent = [{"role": role, "text": ""} for role in ("opening", "system", "tool", "tool")]
    turns = [*silent, {"role": "user", "text": "Add."}, {"role": "assistant", "text": "5"}]
    assert begins_with_greeting(turns)
    assert not begins_with_greeting(turns[1:])
    assert list_faults(turns, card=CARD) == []


@given(st.text("ab", max_size=30), st.text("ab", max_size=30), st.integers(1, 8))
def test_a_common_run_is_the_longest_common_substring(first: str, second: str, length: int):
    longest = max(
        (
            end - start
            for start in range(len(first))
            for end in range(start + 1, len(first) + 1)
            if first[start:end] in second
        ),
        default=0,
    )
    assert has_common_run(first, second, length) == (longest >= length)
