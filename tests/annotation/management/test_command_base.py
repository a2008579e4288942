from __future__ import annotations

from annotation.core.names import split_names
from annotation.management.base import undefined_as_null


def test_an_undefined_statistic_is_null_and_an_undefined_interval_keeps_its_value():
    undefined = {"value": None, "low": None, "high": None}
    without_interval = {"value": 1.0, "low": None, "high": None}
    data = {"rows": [{"n": 0, "rate": undefined}, {"n": 1, "rate": without_interval}]}
    assert undefined_as_null(data) == {"rows": [{"n": 0, "rate": None}, {"n": 1, "rate": without_interval}]}


def test_names_are_parted_by_commas():
    assert split_names("a, b,,c ") == ["a", "b", "c"]
