"""Which of an adjudicator's decisions come back to be read a second time. Pure.

The decisions of one person in one batch are numbered from 1; ``annotation/draws.py`` says which of them are drawn.
"""

from __future__ import annotations

from annotation.draws import block_of


def is_drawn(number: int, *, share: float, seed: str) -> bool:
    """Whether the ``number``-th decision (from 1) comes back, at a ``share`` from 0 to 1."""
    block = block_of(number, share=share, seed=seed)
    return block is not None and block.drawn == number
