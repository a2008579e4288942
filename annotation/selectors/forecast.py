"""How fast a batch goes and when it will be done, from what a worker counted (selectors/watch.py).

It tells nothing of a label. ``docs/batches.md`` has the formula and what it assumes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.utils import timezone

from annotation.errors import N_
from annotation.forecast import HORIZON, Forecast, forecast, per_day
from annotation.models import Batch, Watch
from annotation.selectors.progress import Overall

SHOWN = 14
HOUR = 3600
CLOSED = N_("The batch is closed.")


@dataclass(frozen=True)
class Outlook:
    """``days`` are the latest ones, the last of them the day of the counting, which is not over. ``per_day`` is the
    mean of the ``seen`` whole days since work began, ``per_hour`` the annotations in an hour of the time that people
    took.
    """

    at: datetime
    days: tuple[tuple[date, int], ...]
    seen: int
    per_day: float | None
    per_hour: float | None
    left: int
    forecast: Forecast
    due: date | None

    @property
    def low(self) -> date | None:
        return self._day(self.forecast.low)

    @property
    def high(self) -> date | None:
        return self._day(self.forecast.high)

    @property
    def is_open_ended(self) -> bool:
        """Whether the later end is beyond what is told."""
        return self.forecast.high == HORIZON

    @property
    def late(self) -> float | None:
        """How probable it is that the last annotation comes after the due date, 0 to 1."""
        return None if self.due is None else self.forecast.later_than((self.due - self._first).days)

    @property
    def most(self) -> int:
        return max((n for _day, n in self.days), default=0)

    @property
    def _first(self) -> date:
        return self.days[-1][0]

    def _day(self, days: int | None) -> date | None:
        return None if days is None else self._first + timedelta(days=days)


def outlook(batch: Batch, watch: Watch | None, progress: Overall) -> Outlook | None:
    """None where no worker has counted yet."""
    if watch is None:
        return None
    counted = {date.fromisoformat(day): n for day, n in watch.days.items()}
    last = timezone.localdate(watch.at)
    whole = whole_days(counted, last)
    left = max(0, progress.needed - progress.submitted)
    return Outlook(
        at=watch.at,
        days=tuple((day, counted.get(day, 0)) for day in _latest(last)),
        seen=len(whole),
        per_day=per_day(whole),
        per_hour=watch.timed * HOUR / watch.timed_seconds if watch.timed_seconds else None,
        left=left,
        forecast=_forecast(batch, left, tuple(whole), counted.get(last, 0)),
        due=batch.due_date,
    )


def whole_days(counted: Mapping[date, int], last: date) -> Sequence[int]:
    """The numbers of the latest days before ``last``, at most ``SHOWN`` of them, from the first with any work on."""
    began = min((day for day, n in counted.items() if n), default=last)
    days = [last - timedelta(days=back) for back in range(SHOWN, 0, -1)]
    return [counted.get(day, 0) for day in days if day >= began]


def _forecast(batch: Batch, left: int, whole: tuple[int, ...], today: int) -> Forecast:
    if batch.state == Batch.State.CLOSED and left:
        return Forecast(None, None, None, reason=CLOSED)
    return forecast(left=left, days=whole, today=today)


def _latest(last: date) -> list[date]:
    return [last - timedelta(days=back) for back in range(SHOWN - 1, -1, -1)]
