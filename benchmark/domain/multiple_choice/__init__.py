"""Which of two options a free text names, read by rules; docs/multiple-choice.md lists them. Pure.

The rules are cautious: what none of them reads, or two of them read differently, is ``need_check``, and a person
decides.
A rule that changes what it reads gets another ``VERSION``, so that figures of different rules can be distinguished.
"""

from __future__ import annotations

from benchmark.domain.multiple_choice.answer import (
    CHOICES,
    FIRST,
    NEED_CHECK,
    OTHER,
    REFUSE,
    RULES,
    SECOND,
    VERSION,
    AnswerOption,
    ParsedChoice,
)
from benchmark.domain.multiple_choice.rules import MAX_ANSWER_CHARACTERS, parse_choice

__all__ = [
    "CHOICES",
    "FIRST",
    "MAX_ANSWER_CHARACTERS",
    "NEED_CHECK",
    "OTHER",
    "REFUSE",
    "RULES",
    "SECOND",
    "VERSION",
    "AnswerOption",
    "ParsedChoice",
    "parse_choice",
]
