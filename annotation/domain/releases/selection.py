"""With which chance a response came to have gold, so that a figure over the labelled stands for all responses. Pure.

A cell is what one model answered to the prompts of one dimension in one collection of a dataset. Its pool are the
responses that there are. Gold of the whole pool has chance 1. Where a draw within strata is recorded, a response has
the chance of its stratum: as many as were drawn of as many as there were (D. Horvitz, D. Thompson, Journal of the
American Statistical Association 47, 1952). Every other way has no chance that anybody knows: None.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

ALL, DRAWN = "all", "drawn"
ABSTAINED, PART, UNFINISHED = "abstained", "part", "unfinished"
GROWN, EARLIER, LEAST_SURE, UNRECORDED = "grown", "earlier", "least_sure", "unrecorded"
UNKNOWN = (ABSTAINED, PART, UNFINISHED, GROWN, EARLIER, LEAST_SURE, UNRECORDED)
"""What no chance that anybody knows has chosen."""

Bounds: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class DrawnStratum:
    """What a draw took from one stratum of a cell: ``size`` responses of the ``pool``.

    ``chance`` is that of each of them, None with its ``reason`` where there is none to weigh by. ``responses`` are the
    ids of those that were drawn; None means every response of the batch in the cell.
    """

    model: str
    dimension: str
    low: float
    high: float
    pool: int
    size: int
    chance: float | None
    reason: str = ""
    responses: tuple[int, ...] | None = None

    @property
    def bounds(self) -> Bounds:
        return self.low, self.high

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "dimension": self.dimension,
            "low": self.low,
            "high": self.high,
            "pool": self.pool,
            "wanted": self.size,
            "chance": self.chance,
            "reason": self.reason,
            "responses": None if self.responses is None else list(self.responses),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> DrawnStratum:
        responses = content.get("responses")
        return cls(
            content["model"],
            content["dimension"],
            float(content["low"]),
            float(content["high"]),
            int(content["pool"]),
            int(content["wanted"]),
            content["chance"],
            content.get("reason") or "",
            None if responses is None else tuple(responses),
        )


def compute_chance(size: int, *, pool: int, held: int, drawn_before: int) -> tuple[float | None, str]:
    """The chance of a response of a stratum in one draw, and why there is none.

    ``held`` of the pool could not be drawn, because people have them already. Where all of these are of earlier
    recorded draws of the same stratum, any response of the pool could have been in either, and the chance in this draw
    is ``size / pool``. Else what is left is not the whole, and a draw of it stands for no known part.
    """
    if held != drawn_before:
        return None, EARLIER
    return (size / pool if pool else None), ""


@dataclass(frozen=True)
class BatchGold:
    """The gold of one batch in one cell: ``labelled`` responses of its ``tasks``, withdrawn ones among these.

    ``strata`` are those of its recorded draw, each with how many of its responses have gold; None without a draw.
    ``abstained`` names the scorer that was not sure of it. ``imported`` says that its pool is on another site.
    """

    batch: str
    tasks: int
    labelled: int
    strata: Sequence[tuple[DrawnStratum, int]] | None = None
    abstained: str = ""
    imported: bool = False


@dataclass(frozen=True)
class CellSelection:
    """How the gold of a cell was selected: ``methods`` by batch, and the chance by stratum where it is known.

    ``is_whole`` says that everything has gold, and so the chance 1.
    """

    is_whole: bool
    methods: Mapping[str, str]
    chances: Mapping[Bounds, float]


def judge_cell(pool: int, labelled: int, parts: Sequence[BatchGold]) -> CellSelection:
    """Of a cell with so many responses, of which so many have gold of any of the batches.

    The chance is known if the recorded draws together are of exactly this pool and all that was drawn has gold.
    Several draws of a stratum take different responses: their chances add.
    """
    imported = any(part.imported for part in parts)
    if labelled == pool and not imported:
        return CellSelection(True, {part.batch: ALL for part in parts}, {})
    methods = {part.batch: _judge_part(part, pool) for part in parts}
    drawn = [part for part in parts if methods[part.batch] == DRAWN]
    pools: dict[Bounds, set[int]] = defaultdict(set)
    chances: dict[Bounds, float] = defaultdict(float)
    for part in drawn:
        for stratum, _n in part.strata or ():
            pools[stratum.bounds].add(stratum.pool)
            if stratum.chance is not None:
                chances[stratum.bounds] += stratum.chance
    if not drawn:
        return CellSelection(False, methods, {})
    reason = _find_gap(pools, chances, pool, imported=imported)
    if reason:
        return CellSelection(False, methods | {part.batch: reason for part in drawn}, {})
    chances = {bounds: min(1.0, chance) for bounds, chance in chances.items() if chance}
    if all(chance == 1 for chance in chances.values()):
        methods |= {part.batch: ALL for part in drawn}
    return CellSelection(False, methods, chances)


def _judge_part(part: BatchGold, pool: int) -> str:
    if part.strata is None:
        if part.abstained:
            return ABSTAINED
        return PART if part.tasks != pool else UNFINISHED
    known = [(stratum, n) for stratum, n in part.strata if stratum.chance is not None]
    if not known:
        reasons = [stratum.reason for stratum, _n in part.strata if stratum.reason]
        return reasons[0] if reasons else UNRECORDED
    if any(n != stratum.size for stratum, n in known):
        return UNFINISHED
    return DRAWN


def _find_gap(
    pools: Mapping[Bounds, set[int]], chances: Mapping[Bounds, float], pool: int, *, imported: bool
) -> str:
    """Why draws stand for another pool than the one that there is; empty where they do not."""
    if any(len(sizes) > 1 for sizes in pools.values()):
        return GROWN
    size = sum(max(sizes) for sizes in pools.values())
    if size < pool or (size > pool and not imported):
        return GROWN
    if any(max(sizes) and not chances.get(bounds) for bounds, sizes in pools.items()):
        return EARLIER
    return ""


def summarize_selection(rows: Iterable[Mapping[str, Any]] | None) -> dict[str, Any]:
    """Of a manifest's selection: labelled responses of known chance, of unknown chance by reason, and in all.

    None, of a release that was cut before this was kept, is unknown for all: ``recorded`` is False.
    """
    if rows is None:
        return {"recorded": False, "known": 0, "unknown": 0, "whole": False, "drawn": 0, "reasons": {}}
    known = drawn = 0
    reasons: dict[str, int] = defaultdict(int)
    for row in rows:
        known += row["known"]
        drawn += row["known"] if row["how"] != ALL else 0
        if row["labels"] > row["known"]:
            reasons[row["how"] if row["how"] in UNKNOWN else LEAST_SURE] += row["labels"] - row["known"]
    unknown = sum(reasons.values())
    return {
        "recorded": True,
        "known": known,
        "unknown": unknown,
        "whole": not unknown and not drawn,
        "drawn": drawn,
        "reasons": dict(sorted(reasons.items())),
    }


def describe_selection(rows: Iterable[Mapping[str, Any]] | None) -> dict[str, Any]:
    """The summary as ``annotation/releases/_selection.html`` takes it: with the reasons as pairs of code and number."""
    return present_summary(summarize_selection(rows))


def present_summary(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **summary,
        "labels": summary["known"] + summary["unknown"],
        "reasons": list(summary["reasons"].items()),
    }
