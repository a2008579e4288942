"""How the numbers of a board look: in the unit of their metric, a rate in percent."""

from __future__ import annotations

from collections.abc import Mapping

from django import template

from annotation.core.formatting import format_decimal, format_significant
from annotation.domain.guidelines import Metric
from benchmark.domain.leaderboards.metrics import format_metric_difference, format_metric_value
from benchmark.views.leaderboards import formatting

register = template.Library()


@register.filter
def metric_value(value: float | None, metric: Metric) -> str:
    """``45.38%`` or ``79.8``; a dash where it is undefined."""
    return format_metric_value(metric, value)


@register.filter
def metric_interval(statistic: Mapping[str, float | None], metric: Metric) -> str:
    """``57.5% to 82.7%``; a dash where it is undefined."""
    return formatting.format_interval(metric, statistic) or "-"


@register.filter
def metric_difference(value: float | None, metric: Metric) -> str:
    """With its sign; of rates in percentage points."""
    return format_metric_difference(metric, value)


@register.filter
def metric_difference_interval(statistic: Mapping[str, float | None], metric: Metric) -> str:
    """``-1.20 to +3.40``; blank where it is undefined."""
    return formatting.format_difference_interval(metric, statistic)


@register.filter
def exact_percent(percent: float) -> str:
    """``42%``, and with two digits that count where a whole percent would say none or all: ``0.43%``."""
    is_whole = 1 <= percent <= 99 or percent == 100
    return f"{format_decimal(percent, 0) if is_whole else format_significant(percent, 2)}%"
