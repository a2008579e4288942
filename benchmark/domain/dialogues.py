"""Who says what to whom: the requests that lead to each turn of a dialogue, as ESC-Eval publishes its protocol.

The agent reads the template and the card as its system message, the greeting and the model's turns as the user's. The
model under test reads the agent's turns alone, as the user's: never the card, nor the greeting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.domain.annotations import MARKABLE, OPENING
from annotation.domain.dialogues import AGENT
from benchmark.domain.llm_client.protocol import replace_unstorable

ANY_LANGUAGE = ""
MODEL = MARKABLE
"""The role of the model under test in the response; the other side is the agent."""
CARD = "{card}"
MAX_ROUNDS = 50
MAX_TEXT_CHARACTERS = 40_000
TEMPLATES = {
    "zh": (
        "请扮演下面角色卡所描述的人，向对方倾诉您的烦恼。\n"
        "- 始终以这个人的身份、用第一人称说话；不要说明您在扮演角色，也不要提到角色卡。\n"
        "- 每次只说一两句话，像日常聊天那样，一点一点说出烦恼；不要一次说完，也不要照抄角色卡。\n"
        "- 对方的话没有帮到您时，就直接说出来；感到好些了，也可以说。\n"
        "- 不要反过来安慰对方或给对方建议。\n\n"
        "角色卡：\n"
    ),
    "en": (
        "Play the person on the role card below, who talks about a trouble with somebody.\n"
        "- Speak as that person, in the first person. Never say that you play a role, and never mention the card.\n"
        "- Say one or two sentences at a time, as in a chat, and tell the trouble little by little; do not tell all of"
        " it at once, and do not copy the card.\n"
        "- Say so when an answer does not help, and also when you feel better.\n"
        "- Do not comfort or advise the other side.\n\n"
        "Role card:\n"
    ),
}
OPENINGS = {
    "zh": "您好，我在这里。您想聊聊什么？",
    "en": "Hello, I am here for you. What would you like to talk about?",
}


@dataclass(frozen=True)
class Script:
    """``templates`` and ``openings`` by the card's language; that under "" is for every other language."""

    templates: Mapping[str, str]
    openings: Mapping[str, str]
    rounds: int

    @property
    def turns(self) -> int:
        """How many turns a whole dialogue has beside the greeting."""
        return 2 * self.rounds

    def get_opening(self, language: str) -> str:
        return _choose(self.openings, language)

    def build_agent_messages(
        self, card: str, language: str, turns: Sequence[str]
    ) -> tuple[Mapping[str, str], ...]:
        """What the agent is sent for its next turn, after an even number of turns."""
        system = {"role": "system", "content": put_card(_choose(self.templates, language), card)}
        greeting = {"role": "user", "content": self.get_opening(language)}
        return (system, greeting, *_alternate(turns, "assistant", "user"))

    def build_turns(self, language: str, turns: Sequence[str]) -> list[dict[str, str]]:
        """The turns of the response: the greeting, then both sides in turn."""
        return [
            {"role": OPENING, "text": self.get_opening(language)},
            *({"role": get_role(place), "text": text} for place, text in enumerate(turns)),
        ]


def put_card(template: str, card: str) -> str:
    """The card where the template says ``{card}``, else at its end."""
    return template.replace(CARD, card) if CARD in template else template + card


def build_model_messages(settings: Mapping[str, Any], turns: Sequence[str]) -> tuple[Mapping[str, str], ...]:
    """What the model under test is sent for its next turn: its own system message, if any, and the turns."""
    system = settings.get("system")
    first = ({"role": "system", "content": system},) if system else ()
    return (*first, *_alternate(turns, "user", "assistant"))


def get_role(place: int) -> str:
    """Whose turn it is at this place, from 0."""
    return MODEL if place % 2 else AGENT


TEMPLATE_FAULT = N_("The text before the card must have 1 to {longest} characters, and no NUL.")
OPENING_FAULT = N_("The greeting must have 1 to {longest} characters, and no NUL.")


def check_texts(texts: Mapping[str, str], fault: str) -> dict[str, str]:
    """The texts by language; AssayError with the ``fault`` where a text is empty, too long or not storable."""
    for text in texts.values():
        if not text.strip() or len(text) > MAX_TEXT_CHARACTERS or replace_unstorable(text)[1]:
            raise AssayError(fault, longest=MAX_TEXT_CHARACTERS)
    return dict(texts)


def by_language(texts: Mapping[str, str]) -> dict[str, str]:
    """The shipped texts, of which English is for every other language."""
    return {**texts, ANY_LANGUAGE: texts["en"]}


def _choose(texts: Mapping[str, str], language: str) -> str:
    """That of the language, or of its first part: ``zh`` for ``zh-Hans``."""
    for key in (language, language.partition("-")[0]):
        if key in texts:
            return texts[key]
    return texts[ANY_LANGUAGE]


def _alternate(turns: Sequence[str], agent: str, model: str) -> tuple[Mapping[str, str], ...]:
    return tuple({"role": model if place % 2 else agent, "content": text} for place, text in enumerate(turns))
