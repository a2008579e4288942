"""When the next request may leave: the rate that an endpoint allows, and waiting for an endpoint that is away.

It has no clock and no loop: the caller passes the time in seconds, so that the rules can be tested without waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf, isnan, sqrt
from random import uniform

from tenacity import RetryCallState
from tenacity.wait import wait_exponential_jitter

TRIES = 6
LIMITED_TRIES = 10
"""A 429 says nothing against a question: so many of them count as one try."""
FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0
MAX_RETRY_AFTER_SECONDS = 3600.0
AWAY_AFTER = 5
"""After so many requests in a row without an answer the endpoint counts as away: one request at a time goes on."""
MAX_KNOCK_PAUSE = 5.0
PATIENCE, FIRST_PATIENCE = 300.0, 20.0
"""Seconds to wait for an endpoint that was there before, and for one that never was."""
EASE, PLATEAU = 0.04, 12.0
"""After a 429 the rate begins this share below the one that was found and is back at it after so many seconds."""
DOUBLING = 4.0
MIN_SENDING_SECONDS = 0.01
SENDING_RATIO, SUFFICIENT_SECONDS, SAME_RATE_SHARE, MIN_LET_THROUGH = 5, 2.0, 0.2, 5
"""Sending for so many times as long as was waited before shows the rate; less shows also what gathered meanwhile,
unless the limit was met at the same rate, but for this share, as the time before."""
AHEAD = 0.5
"""Seconds of its rate that wait at the gate: the caller writes each question down before, which takes a while."""
SLACK = 0.05
"""Seconds of its rate that may be made up for, where the loop woke late."""


class RetryLater(Exception):
    """A request that may be sent again. ``cost`` is the share of a try; with ``held`` the pace waits anyway."""

    def __init__(
        self, error: str, *, status: int | None = None, cost: float = 1.0, held: bool = False
    ) -> None:
        super().__init__(error)
        self.error, self.status, self.cost, self.held = error, status, cost, held


_BACKOFF = wait_exponential_jitter(multiplier=FIRST_PAUSE, max=MAX_PAUSE, jitter=FIRST_PAUSE)


def compute_backoff(state: RetryCallState) -> float:
    """Seconds until a question is asked again: exponential with jitter, none where the pace holds it back anyway."""
    trouble = state.outcome.exception() if state.outcome else None
    return 0.0 if isinstance(trouble, RetryLater) and trouble.held else _BACKOFF(state)


def parse_retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds, from a number of them or a date; None where the header says nothing that can be read."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(text) - (now or datetime.now(UTC))).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS) if not isnan(seconds) else None


@dataclass
class EndpointPace:
    """One endpoint's pace. ``began`` is the time now; all times are of one clock that only goes forward.

    Without a 429 nothing is held back. At a 429 everything waits as long as it says, and goes on at the rate that the
    limit was met at, a little eased; from there it grows like the window of CUBIC (Ha, Rhee and Xu 2008): slowly near
    that rate, then faster. Where the limit was met soon after a pause, the rate was above what lasts: what had gathered
    in the pause went out too. It is then the geometric mean of what was let through with and without the pause,
    which is a guess and grows fast.
    """

    began: float
    open_at: float = 0.0
    waited: float = 0.0
    # the limit
    top: float = inf
    seeking: bool = False
    met: float = 0.0
    epoch: float = field(init=False)
    let_through: int = 0
    pauses: int = 0
    next_at: float = 0.0
    # away
    answered_at: float | None = None
    missed: int = 0
    knocks: int = 0
    knocking: bool = False
    away_since: float | None = None

    def __post_init__(self) -> None:
        self.epoch = self.open_at = self.began

    def compute_rate(self, now: float) -> float:
        """Requests in a second, infinite as long as no limit was met."""
        since = max(0.0, now - self.open_at)
        if self.seeking:
            return self.top * 2 ** min(since / DOUBLING, 60)
        return self.top * (1 + EASE * (since / PLATEAU - 1) ** 3)

    def request_departure(self, now: float) -> float:
        """0, and the request may leave now; or the seconds after which to ask again."""
        if now < self.open_at:
            return self.open_at - now
        if self.away_since is not None:
            if self.knocking:
                return 0.05
            self.knocking = True
            return 0.0
        if now < self.next_at:
            return self.next_at - now
        rate = self.compute_rate(now)
        self.next_at = 0.0 if rate == inf else max(self.next_at, now - SLACK) + 1 / rate
        return 0.0

    def record_answer(self, now: float) -> None:
        """Any response of the endpoint itself, but for a 429."""
        self._record_presence(now)
        self.let_through += 1
        self.pauses = 0

    def record_limit(self, sent_at: float, now: float, seconds: float | None) -> None:
        """A 429 to what was sent at ``sent_at``; ``seconds`` is what it says to wait."""
        self._record_presence(now)
        if (
            sent_at >= self.epoch
        ):  # else this limit is known: everything that left before it was met comes back so
            self._learn_limit(now)
            self.pauses += 1
        if seconds is None:
            seconds = min(MAX_PAUSE, FIRST_PAUSE * 2 ** (max(1, self.pauses) - 1)) * uniform(1, 1.25)  # noqa: S311
        self._hold_requests(now, seconds)

    def record_miss(self, sent_at: float, now: float, seconds: float | None = None) -> None:
        """No connection, or a gateway that did not reach the endpoint."""
        self.missed += 1
        self.knocking = False
        if self.missed < AWAY_AFTER or (self.away_since is not None and sent_at < self.open_at):
            return
        if self.away_since is None:
            self.away_since, self.knocks = now, 0
        pause = min(MAX_KNOCK_PAUSE, FIRST_PAUSE * 2**self.knocks)
        self.knocks += 1
        self._hold_requests(now, max(pause, seconds or 0.0))

    def record_stall(self) -> None:
        """A request that ran out of time: it does not show whether the endpoint is there."""
        self.knocking = False

    def is_given_up(self, now: float, patience: float = PATIENCE) -> bool:
        """Whether the endpoint has been away for so long that it makes no sense to go on."""
        if self.away_since is None:
            return False
        return now - self.away_since > (
            min(patience, FIRST_PATIENCE) if self.answered_at is None else patience
        )

    def find_pause(self, now: float) -> str:
        """What holds everything back now: ``limited``, ``away``, or "" for nothing."""
        if self.away_since is not None:
            return "away"
        return "limited" if now < self.open_at else ""

    def count_ready(self, now: float, most: int) -> int:
        """How many questions should wait at the gate, so that none is missed and few are held back."""
        if self.away_since is not None:
            return 1
        rate = self.compute_rate(now)
        return most if rate == inf else min(most, 2 + int(rate * AHEAD))

    def _record_presence(self, now: float) -> None:
        self.answered_at, self.missed, self.knocking = now, 0, False
        if self.away_since is not None:
            self.away_since, self.open_at = None, now

    def _learn_limit(self, now: float) -> None:
        waited, sending = self.open_at - self.epoch, max(now - self.open_at, MIN_SENDING_SECONDS)
        current, let_through = self.compute_rate(now), max(1, self.let_through)
        while_sending, overall = let_through / sending, let_through / (waited + sending)
        met = while_sending if current == inf else current
        is_same = abs(met - self.met) <= SAME_RATE_SHARE * met and while_sending >= met / 2
        self.seeking = sending < max(SENDING_RATIO * waited, SUFFICIENT_SECONDS) and not is_same
        if current < inf and let_through < MIN_LET_THROUGH:
            self.top, self.seeking = current / 2, True
        elif let_through >= MIN_LET_THROUGH or waited > 0:
            self.top = sqrt(overall * min(met, while_sending)) if self.seeking else met
        self.met, self.epoch, self.let_through = met, now, 0

    def _hold_requests(self, now: float, seconds: float) -> None:
        until = max(self.open_at, now + seconds)
        self.waited += until - max(now, self.open_at)
        self.open_at = self.next_at = until
