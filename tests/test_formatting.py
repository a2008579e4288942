"""Numbers and times look alike on every page, in both languages."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.template import engines
from django.utils import timezone


def render(template: str, value: Any, language: str = "en") -> str:
    page = '{% load i18n %}{% language "' + language + '" %}' + template + "{% endlanguage %}"
    return engines["django"].from_string(page).render({"value": value})


@pytest.mark.parametrize(
    ("value", "expected"),
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
def test_a_count_is_grouped_and_nothing_else_is(value: Any, expected: str, language: str) -> None:
    assert render("{{ value|grouped }}", value, language) == expected


@pytest.mark.parametrize(
    ("filter_name", "value", "expected"),
    [
        ("decimal", 0.74251, "0.743"),
        ("decimal:1", 12.34, "12.3"),
        ("signed", 0.0121, "+0.012"),
        ("signed:1", -0.3, "-0.3"),
        ("typographic", -0.301, "−0.30"),
        ("typographic", -0.001, "0.00"),
        ("typographic_signed", 0.12, "+0.12"),
        ("typographic_signed", -0.12, "−0.12"),
        ("typographic_signed", 0.001, "0.00"),
        ("typographic_signed", -0.001, "0.00"),
        ("compact", 2.0, "2"),
        ("compact", 0.5, "0.5"),
        ("significant", 0.012345, "0.0123"),
        ("percent", 0.425, "42.5%"),
        ("percent:0", 0.425, "42%"),
        ("percent_number", 0.425, "42.5"),
        ("percent_signed", 0.0125, "+1.25"),
        ("percent_compact", 0.025, "2.5%"),
        ("p_value", 0.0041, "= 0.004"),
        ("p_value", 0.0004, "&lt; 0.001"),
        ("duration", 40.4, "40 s"),
        ("duration", 1500, "25 min"),
        ("duration", 12000, "3 h 20 min"),
        ("elapsed", 0.0123, "12.3 ms"),
        ("elapsed", 3.41, "3.41 s"),
        ("elapsed", 300, "5 min"),
        ("hours", 3.51, "3.5"),
        ("hours", 1250.2, "1,250"),
        ("day", 719163, "1970-01-01"),
    ],
)
def test_each_filter_has_its_own_look(filter_name: str, value: float, expected: str) -> None:
    assert render("{{ value|" + filter_name + " }}", value) == expected


@pytest.mark.parametrize(
    "filter_name",
    [
        "decimal",
        "signed",
        "typographic",
        "typographic_signed",
        "compact",
        "significant",
        "percent",
        "percent_number",
        "percent_signed",
        "percent_compact",
        "p_value",
        "duration",
        "elapsed",
        "day",
        "moment",
    ],
)
def test_what_is_undefined_is_a_dash(filter_name: str) -> None:
    assert render("{{ value|" + filter_name + " }}", None) == "-"


@pytest.mark.parametrize(
    ("filter_name", "expected"),
    [
        ("interval", "0.690 – 0.790"),
        ("interval_signed", "+0.690 – +0.790"),
        ("interval_percent", "69.0 – 79.0"),
        ("range", "0.690 to 0.790"),
        ("range_signed:2", "+0.69 to +0.79"),
        ("range_percent", "69.0 to 79.0"),
        ("bracketed", "0.743 [0.690, 0.790]"),
        ("bracketed_percent", "74.3% [69.0, 79.0]"),
    ],
)
def test_a_statistic_shows_its_interval(filter_name: str, expected: str) -> None:
    parts = {"value": 0.743, "low": 0.69, "high": 0.79}
    assert render("{{ value|" + filter_name + " }}", parts) == expected
    assert render("{{ value|" + filter_name + " }}", SimpleNamespace(**parts)) == expected


def test_an_undefined_interval_is_blank_and_a_value_stands_without_it() -> None:
    parts = {"value": 0.743, "low": None, "high": None}
    for name in ("interval", "interval_signed", "interval_percent", "range", "range_signed", "range_percent"):
        assert render("{{ value|" + name + " }}", parts) == ""
    assert render("{{ value|bracketed }}", parts) == "0.743"
    assert render("{{ value|bracketed_percent }}", parts) == "74.3%"
    assert render("{{ value|bracketed }}", None) == "-"


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_dates_are_iso_and_today_is_a_time(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 11, 22, 17, 51, 7, tzinfo=UTC)
    monkeypatch.setattr(timezone, "now", lambda: now)
    assert render("{{ value|moment }}", now, language) == "17:51"
    assert render("{{ value|moment }}", now - timedelta(hours=18), language) == "2026-11-21 23:51"
    assert render("{{ value }}", now, language) == "2026-11-22 17:51"
    assert render("{{ value }}", now.date(), language) == "2026-11-22"


def test_no_template_writes_dates_in_another_way() -> None:
    folder = Path(settings.BASE_DIR) / "templates"
    formats = {
        form
        for path in folder.rglob("*.html")
        for form in re.findall(r"\|date(?::[\"']([^\"']*)[\"'])?", path.read_text())
    }
    assert formats <= {"Y-m-d", "m-d", "c", "Y-m-d H:i:s"}
