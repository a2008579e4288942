"""What one person's client saw: the times, the answers, and what it was promised."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Timing:
    """``kind`` is the call, ``end`` on the monotonic clock, ``seconds`` what the person waited."""

    kind: str
    end: float
    seconds: float


@dataclass(frozen=True)
class Promise:
    """The server said that this was taken, and gave the ``receipt``; under which key, it knows best: of several
    that said the same at once it keeps one.
    """

    assignment: str
    key: str
    receipt: str
    decision: bool = False


@dataclass
class Ledger:
    person: str
    timings: list[Timing] = field(default_factory=list)
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    promises: list[Promise] = field(default_factory=list)
    handed: set[str] = field(default_factory=set)
    surprises: list[str] = field(default_factory=list)
    lost: int = 0
    reopened: int = 0
    mischief: Counter[str] = field(default_factory=Counter)

    def record_surprise(self, event: str) -> None:
        self.surprises.append(f"{self.person}: {event}")


def percentile(values: Sequence[float], share: float) -> float | None:
    """By nearest rank; None of nothing."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def spread(timings: Iterable[Timing]) -> dict[str, dict[str, float | int | None]]:
    """``{call: {n, p50, p95, p99}}`` in milliseconds."""
    by_kind: dict[str, list[float]] = {}
    for timing in timings:
        by_kind.setdefault(timing.kind, []).append(timing.seconds * 1000)
    return {
        kind: {"n": len(values)} | {f"p{share}": percentile(values, share / 100) for share in (50, 95, 99)}
        for kind, values in sorted(by_kind.items())
    }


def answered(ledgers: Iterable[Ledger]) -> dict[str, int]:
    """``{"submit 201": how often, ..}``"""
    total: Counter[tuple[str, int]] = Counter()
    for ledger in ledgers:
        total.update(ledger.answers)
    return {f"{kind} {status}": count for (kind, status), count in sorted(total.items())}
