"""What is wrong with a dialogue as a dialogue, found in its turns without a model. Pure.

A dialogue with an agent, which plays the role card that is its prompt, begins with a scripted greeting: a turn of the
role ``opening``. The agent's turns are those of the user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from annotation.domain.annotations import OPENING

COPIED_CHARACTERS = 50
"""A run of so many characters that the card and a turn of the agent have in common is copied."""
EMPTY, CUT, UNMASKED, CARD_COPIED, REPEATED = "empty", "cut", "unmasked", "card_copied", "repeated"
AGENT = "user"
NO_SIDES = frozenset({OPENING, "system", "tool"})
"""The roles of turns that neither side of the dialogue says."""
NO_CHARACTER = "\0"
"""Between texts that are searched together: no database keeps it, so it stands in none of them."""
_AI = re.compile(
    r"\b(?:as|i am|i['’]m|being)(?: just| only)? an? (?:\w+ ){0,2}?(?:ai\b|artificial intelligence|language model"
    r"|chatbot|virtual assistant)|(?:作为|我是|我只是|身为)(?:一个|一名|一款|个|名)?[^。！？，,.!?\n]{0,6}?"
    r"(?:AI\b|AI(?=[^A-Za-z])|人工智能|语言模型|虚拟助手|聊天机器人|智能助手)",
    re.IGNORECASE,
)


def begins_with_greeting(turns: Sequence[Mapping[str, str]]) -> bool:
    return bool(turns) and turns[0]["role"] == OPENING


def list_faults(
    turns: Sequence[Mapping[str, str]], *, card: str | None = None, is_cut: bool = False
) -> list[str]:
    """The kinds of faults of a whole dialogue, in a fixed order.

    ``card``: what an agent played in it; None where there was no agent. ``is_cut``: a turn was cut off by a limit.
    """
    sides: dict[str, list[str]] = {}
    for turn in turns:
        if turn["role"] not in NO_SIDES:
            sides.setdefault(turn["role"], []).append(turn["text"])
    agent = [] if card is None else sides.get(AGENT, [])
    faults = {
        EMPTY: any(not text.strip() for texts in sides.values() for text in texts),
        CUT: is_cut,
        UNMASKED: any(_AI.search(text) for text in agent),
        CARD_COPIED: has_common_run(card or "", NO_CHARACTER.join(agent), COPIED_CHARACTERS),
        REPEATED: any(map(_repeats_itself, sides.values())),
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
