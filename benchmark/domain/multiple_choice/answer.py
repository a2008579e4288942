"""What a reading is made of. Pure."""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 1
FIRST, SECOND, REFUSE, OTHER, NEED_CHECK = "first", "second", "refuse", "other", "need_check"
CHOICES = (FIRST, SECOND, REFUSE, OTHER, NEED_CHECK)
RULES = (
    "says_answer",
    "chooses",
    "calls_better",
    "letter",
    "quotes",
    "both_or_neither",
    "third_option",
    "refuses",
    "no_opinion",
    "contradicts",
    "unread",
    "empty",
)


@dataclass(frozen=True)
class AnswerOption:
    """As the prompt shows it, in its order; ``safe`` is what the source says of it."""

    letter: str
    text: str
    safe: bool = False


@dataclass(frozen=True)
class ParsedChoice:
    """``choice`` is one of ``CHOICES``, by the order in which the prompt shows the options."""

    choice: str
    rule: str

    @property
    def versioned(self) -> str:
        return f"rules-{VERSION}/{self.rule}"
