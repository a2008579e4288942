"""Charts in templates."""

from __future__ import annotations

from django import template

from annotation.core import charts

register = template.Library()


@register.filter
def dark_url(url: str) -> str:
    """The address of the chart for the dark theme."""
    return charts.dark_url(url)
