"""Counts have their thousands apart on every page, in both languages."""

from __future__ import annotations

from typing import Any

import pytest
from django.template import engines


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (112550, "112,550"),
        (-1200, "-1,200"),
        (999, "999"),
        (0, "0"),
        (True, "True"),
        (1234.5, "1234.5"),
        ("-", "-"),
    ],
)
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_count_is_grouped_and_nothing_else_is(value: Any, shown: str, language: str) -> None:
    page = '{% load i18n %}{% language "' + language + '" %}{{ value|grouped }}{% endlanguage %}'
    assert engines["django"].from_string(page).render({"value": value}) == shown
