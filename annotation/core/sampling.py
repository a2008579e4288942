"""A share that is exact, at places that nobody can tell. Pure.

Things are numbered from 1 and cut into blocks, each of which holds one that is drawn: at a share of one in twenty the
numbers 1 to 20, 21 to 40 and so on. Which one of a block it is, a draw decides whose seed only the site knows.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction

MAX_DENOMINATOR = 10_000  # shares are taken as fractions with at most this denominator


@dataclass(frozen=True)
class DrawBlock:
    """The numbers ``first`` to ``last``, of which ``drawn`` is the one; ``index`` counts the blocks from 0."""

    index: int
    first: int
    last: int
    drawn: int


def block_of(number: int, *, share: float, seed: str) -> DrawBlock | None:
    """The block of a number, at a ``share`` from 0 to 1; None where the share is 0."""
    exact = Fraction(share).limit_denominator(MAX_DENOMINATOR)
    if exact <= 0:
        return None
    index = math.floor((number - 1) * exact)
    first, last = _begin(index, exact), _begin(index + 1, exact) - 1
    drawn = random.Random(f"{seed}:{index}").randint(first, last)  # noqa: S311  # repeatable; the seed is the secret
    return DrawBlock(index, first, last, drawn)


def count_drawn(number: int, *, share: float, seed: str) -> int:
    """How many of the numbers from 1 to ``number`` are drawn."""
    block = block_of(number, share=share, seed=seed) if number > 0 else None
    return 0 if block is None else block.index + (block.drawn <= number)


def _begin(index: int, share: Fraction) -> int:
    """The first number of a block."""
    return math.ceil(index / share) + 1
