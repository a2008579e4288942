"""When a webhook is sent again, and when its endpoint is turned off. Pure.

The schedule is that of Standard Webhooks 1.0: ten tries over three days, each later than the one before, and a random
part on top, so that what failed together is not sent together again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

DELAY_SECONDS = (0, 5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Before each try, from the end of the one before."""
JITTER = 0.2
"""The greatest random part, of the delay."""
MAX_RETRY_AFTER_SECONDS = 86_400
FAILING_DAYS = 5
"""An endpoint that took nothing for so long is turned off."""
GONE = 410
"""The receiver wants nothing more: its endpoint is turned off at once."""


def plan_retry(tries: int, draw: float, retry_after: float | None = None) -> timedelta | None:
    """How long to wait after so many tries that failed; None where there are no more.

    ``draw`` is a random number from 0 to 1; ``retry_after`` the seconds that the receiver asked for.
    """
    if tries >= len(DELAY_SECONDS):
        return None
    seconds = DELAY_SECONDS[tries] * (1 + JITTER * draw)
    return timedelta(seconds=max(seconds, min(retry_after or 0, MAX_RETRY_AFTER_SECONDS)))


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds, of a number or a date; None where there is none, or what is none."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())


def is_given_up(failing_since: datetime | None, now: datetime) -> bool:
    """Whether the endpoint has failed for so long that it is turned off."""
    return failing_since is not None and now - failing_since >= timedelta(days=FAILING_DAYS)
