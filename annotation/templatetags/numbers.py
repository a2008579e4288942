"""How numbers look on every page. A builtin of the template engine: no page loads it."""

from __future__ import annotations

from typing import Any

from django import template

register = template.Library()


@register.filter
def grouped(value: Any) -> Any:
    """A count with its thousands apart, ``112,550``, alike in both languages; anything else as it is."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
