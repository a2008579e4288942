"""The protocol of dialogues."""

from __future__ import annotations

import pytest

from annotation.core.errors import AssayError
from benchmark.domain.dialogues import (
    OPENING_FAULT,
    OPENINGS,
    TEMPLATES,
    Script,
    build_model_messages,
    by_language,
    check_texts,
    put_card,
)
from scoring.domain.training_data import transcript

SCRIPT = Script(by_language(TEMPLATES), by_language(OPENINGS), 5)
CARD = "年龄：中年\n问题：求助者的母亲三个月前去世，他至今不能平静地走进她的房间。"


def test_the_agent_reads_template_and_card_the_greeting_and_the_model_as_its_user():
    messages = SCRIPT.build_agent_messages(CARD, "zh-Hans", ["难过。", "我在听。"])
    assert [(message["role"], message["content"]) for message in messages] == [
        ("system", TEMPLATES["zh"] + CARD),
        ("user", OPENINGS["zh"]),
        ("assistant", "难过。"),
        ("user", "我在听。"),
    ]
    assert SCRIPT.build_agent_messages("x", "ja", [])[0]["content"] == TEMPLATES["en"] + "x"


def test_the_card_stands_where_the_template_says_so():
    assert put_card("Play {card}. Be natural.", "a {card} of mine") == "Play a {card} of mine. Be natural."
    assert put_card("Play: ", "somebody") == "Play: somebody"


def test_the_model_reads_the_agent_alone():
    turns = ["难过。", "我在听。", "谢谢。"]
    assert [(message["role"], message["content"]) for message in build_model_messages({}, turns)] == [
        ("user", "难过。"),
        ("assistant", "我在听。"),
        ("user", "谢谢。"),
    ]
    first = build_model_messages({"system": "Be kind.", "temperature": 0}, turns[:1])
    assert [message["role"] for message in first] == ["system", "user"]


def test_the_response_begins_with_the_greeting_which_no_scorer_reads():
    turns = SCRIPT.build_turns("en", ["Sad.", "I hear you."])
    assert [turn["role"] for turn in turns] == ["opening", "user", "assistant"]
    text = transcript((turn["role"], turn["text"]) for turn in turns)
    assert text == "user:\nSad.\n\nassistant:\nI hear you."


@pytest.mark.parametrize("text", ["", "  \n", "x" * 40_001, "a\x00"])
def test_a_text_that_cannot_be_sent_is_refused(text: str):
    with pytest.raises(AssayError, match="greeting must have"):
        check_texts({"": text}, OPENING_FAULT)
