"""What a plan means, in words: for a batch that is being made, and for a draft."""

from __future__ import annotations

from datetime import date
from typing import Any

from django.utils import timezone

from annotation.core.formatting import format_duration
from annotation.models import Guideline
from annotation.selectors.plans import Plan
from annotation.views.levels import dimension_label


def plan_words(plan: Plan, guideline: Guideline | None, due: date | None) -> dict[str, Any]:
    """The time of all and of each; of each on every day until it is due; the sharing with a time for each row; and the
    dimensions in the reader's language.
    """
    rows = plan.sharing.rows if plan.sharing else ()
    seconds, each = plan.seconds, plan.each_seconds
    days = 0 if due is None else (due - timezone.localdate()).days + 1
    return {
        "total_time": format_duration(plan.total_seconds),
        "each_time": format_duration(each),
        "daily_time": format_duration(each / days) if each is not None and days > 0 else "",
        "dimension_lines": [
            (dimension_label(guideline.document, name) if guideline else name, n)
            for name, n in plan.dimensions.items()
        ],
        "shares": [(row, format_duration(None if seconds is None else row.tasks * seconds)) for row in rows],
    }
