"""What a free text chose of two options, read by rules; docs/multiple-choice.md lists them. Pure.

The rules are cautious: what none of them reads, or two of them read differently, is ``need_check``, and a person says.
A rule that changes what it reads gets another ``VERSION``, so that two figures can be told apart.
"""

from __future__ import annotations

from .rules import LONGEST, read
from .shapes import (
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

__all__ = [
    "CHOICES",
    "FIRST",
    "LONGEST",
    "NEED_CHECK",
    "OTHER",
    "REFUSE",
    "RULES",
    "SECOND",
    "VERSION",
    "AnswerOption",
    "ParsedChoice",
    "read",
]
