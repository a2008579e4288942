"""Which of an adjudicator's decisions come back to be read a second time. Pure.

The decisions of one person in one batch are numbered from 1 and cut into blocks, each of which holds one second
reading: at a share of one in twenty the decisions 1 to 20, 21 to 40 and so on. Which one of a block it is, a draw
decides whose seed only the site knows. So the share is exact after every block, and nobody can tell when.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction

FINEST = 10_000  # shares are taken as fractions with at most this denominator


def is_drawn(number: int, *, share: float, seed: str) -> bool:
    """Whether the ``number``-th decision (from 1) comes back, at a ``share`` from 0 to 1."""
    exact = Fraction(share).limit_denominator(FINEST)
    if exact <= 0:
        return False
    block = math.floor((number - 1) * exact)
    first, last = _begin(block, exact), _begin(block + 1, exact) - 1
    drawn = random.Random(f"{seed}:{block}").randint(first, last)  # noqa: S311  # repeatable; the seed is the secret
    return number == drawn


def _begin(block: int, share: Fraction) -> int:
    """The first number of a block."""
    return math.ceil(block / share) + 1
