"""How long a plan takes, in words: for a batch that is being made, and for a draft."""

from __future__ import annotations

from datetime import date
from typing import Any

from django.utils import timezone

from annotation.durations import about
from annotation.selectors.plans import Plan


def plan_times(plan: Plan, due: date | None) -> dict[str, Any]:
    """The time of all and of each; of each on every day until it is due; and the sharing with a time for each row."""
    rows = plan.sharing.rows if plan.sharing else ()
    seconds, each = plan.seconds, plan.each_seconds
    days = 0 if due is None else (due - timezone.localdate()).days + 1
    return {
        "total_time": about(plan.total_seconds),
        "each_time": about(each),
        "daily_time": about(each / days) if each is not None and days > 0 else "",
        "shares": [(row, about(None if seconds is None else row.tasks * seconds)) for row in rows],
    }
