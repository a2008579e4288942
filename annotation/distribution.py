"""Who may get what next. Pure: plain values in, a decision out.

The service keeps these rules under concurrency; the database holds them whatever the service does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

# A person reads one item while the next is fetched: never more than these live claims in one batch.
MAX_LIVE_CLAIMS = 2


@dataclass(frozen=True)
class PastClaim:
    """How this person's earlier claim on a task ended; ``live`` covers claimed and submitted."""

    live: bool
    skipped: bool
    adjudication: bool


def free_slot(taken: Collection[int], overlap: int) -> int | None:
    """The lowest annotation slot that nobody holds, or None."""
    return next((slot for slot in range(overlap) if slot not in taken), None)


def may_claim_again(past: PastClaim | None, *, adjudication: bool) -> bool:
    """Whoever had a task gets it back only after an expired or given-back claim of the same kind.

    Never after a skip, never twice, and never as adjudicator of what they were given to annotate.
    """
    if past is None:
        return True
    return not past.live and not past.skipped and past.adjudication == adjudication


def claims_to_keep(live: int, *, ahead: bool) -> bool:
    """Whether the person must work on the ``live`` claims at hand before a new one is made."""
    return live >= (MAX_LIVE_CLAIMS if ahead else 1)
