"""What is wrong with a dialogue as a dialogue, found in its texts without a model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmark.domain.llm_client import protocol

COPIED_CHARACTERS = 50
"""A run of so many characters that the card and a turn of the agent have in common is copied."""
EMPTY, CUT, UNMASKED, CARD_COPIED, REPEATED = "empty", "cut", "unmasked", "card_copied", "repeated"
_AI = re.compile(
    r"\b(?:as|i am|i['’]m|being)(?: just| only)? an? (?:\w+ ){0,2}?(?:ai\b|artificial intelligence|language model"
    r"|chatbot|virtual assistant)|(?:作为|我是|我只是|身为)(?:一个|一名|一款|个|名)?[^。！？，,.!?\n]{0,6}?"
    r"(?:AI\b|AI(?=[^A-Za-z])|人工智能|语言模型|虚拟助手|聊天机器人|智能助手)",
    re.IGNORECASE,
)


def list_faults(card: str, turns: Sequence[str], finish_reasons: Sequence[str]) -> list[str]:
    """The kinds of faults of a whole dialogue, in a fixed order. Even places are the agent's turns, from 0."""
    agent = turns[::2]
    faults = {
        EMPTY: any(not text.strip() for text in turns),
        CUT: protocol.CUT in finish_reasons,
        UNMASKED: any(_AI.search(text) for text in agent),
        CARD_COPIED: any(has_common_run(card, text, COPIED_CHARACTERS) for text in agent),
        REPEATED: _repeats_itself(agent) or _repeats_itself(turns[1::2]),
    }
    return [kind for kind, is_there in faults.items() if is_there]


def has_common_run(first: str, second: str, length: int) -> bool:
    """Whether ``length`` characters in a row stand in both texts."""
    runs = {first[place : place + length] for place in range(len(first) - length + 1)}
    return any(second[place : place + length] in runs for place in range(len(second) - length + 1))


def _repeats_itself(texts: Sequence[str]) -> bool:
    """Whether two of the texts that say something are alike but for case and white space."""
    plain = [text for text in (" ".join(text.casefold().split()) for text in texts) if text]
    return len(set(plain)) < len(plain)
