"""What is answered about the entries of a slate: which is the best, or how all of them rank. Pure.

Entries are counted from 1, in the slate's own order, whatever order a person reads them in. A ranking is a number whose
decimal digits are the ranks of the entries in that order: 213 ranks the second entry first, the first entry second and
the third entry third; in 112 the first two share the first rank. Ranks are dense: no rank is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product

MIN_ENTRIES, MAX_ENTRIES = 2, 5
NONE, TIE = 0, -1
"""The answers to which entry is the best that name none: that no entry is good enough, and that none is better."""


@dataclass(frozen=True)
class ShownOrder:
    """The order in which a person reads the entries of a slate: their ``places``, and of each turn the position at
    which its entry stands, from 1. Both are empty where a single response is judged.
    """

    places: tuple[int, ...] = ()
    positions: Mapping[int, int] = field(default_factory=dict)


SINGLE_RESPONSE = ShownOrder()
_NAMES = {NONE: {"en": "None of them", "zh": "都不够好"}, TIE: {"en": "Tie", "zh": "不分上下"}}


def name_choice(value: float) -> dict[str, str]:
    """What a value of a best entry is called, in each language."""
    named = _NAMES.get(int(value))
    return named or {"en": f"Response {int(value)}", "zh": f"回复 {int(value)}"}


def name_ranking(value: float) -> dict[str, str]:
    """A ranking in signs: ``2 > 1 = 3``, the best first."""
    ranks = read_ranking(int(value))
    groups = (
        " = ".join(str(place) for place, rank in enumerate(ranks, start=1) if rank == level)
        for level in range(1, max(ranks) + 1)
    )
    text = " > ".join(groups)
    return {"en": text, "zh": text}


def read_ranking(value: int) -> tuple[int, ...]:
    """The rank of each entry, in the slate's order, from 1, the best."""
    return tuple(map(int, str(value)))


def write_ranking(ranks: Sequence[int]) -> int:
    """The number of a ranking; only the order of ``ranks`` counts, so that 1, 3, 3 is 122."""
    dense = {rank: place for place, rank in enumerate(sorted(set(ranks)), start=1)}
    return int("".join(str(dense[rank]) for rank in ranks))


def move_entries(value: int, order: Sequence[int], *, kind: str, several: bool = False) -> int:
    """An answer about a slate's entries as it reads in another ``order``: the place of each position, from 1.

    ``kind`` is what was asked, ``best`` or ``ranking``.
    """
    if kind == "ranking":
        ranks = read_ranking(value)
        return write_ranking([ranks[place - 1] for place in order])
    if value in (NONE, TIE):
        return value
    if several:
        return sum(1 << position for position, place in enumerate(order) if value & 1 << place - 1)
    return order.index(value) + 1


@cache
def list_rankings(entries: int, *, ties: bool) -> tuple[int, ...]:
    """All rankings of so many entries, ascending; without ``ties`` each rank is that of one entry."""
    ranks = range(1, entries + 1)
    return tuple(
        sorted(
            write_ranking(ranking)
            for ranking in product(ranks, repeat=entries)
            if set(ranking) == set(range(1, (max(ranking) if ties else entries) + 1))
        )
    )


def list_choices(entries: int, *, none: bool, ties: bool) -> tuple[int, ...]:
    """The values of a best entry, ascending."""
    return (*([TIE] if ties else []), *([NONE] if none else []), *range(1, entries + 1))


def list_sizes(entries: int | None) -> range:
    """The numbers of entries that a question allows for: its slate's, or any."""
    return range(MIN_ENTRIES, MAX_ENTRIES + 1) if entries is None else range(entries, entries + 1)
