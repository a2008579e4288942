from __future__ import annotations

from annotation.core.http import MAX_DIGITS, parse_int
from annotation.core.terminal import format_lines, format_table, measure_width


def test_columns_stand_under_each_other_in_both_languages() -> None:
    rows = [["name", "n"], ["模型", "12"], ["a", "3"]]
    assert format_table(rows) == ["name   n", "模型  12", "a      3"]
    assert {measure_width(line) for line in format_table(rows)} == {8}
    assert format_table([["a", "b", "c"], ["aa", "bb", "c"]], texts=2) == ["a   b   c", "aa  bb  c"]
    assert format_lines([["a", "1"]], [3, 4]) == ["a       1"]


def test_a_number_that_comes_with_a_request_is_one_that_an_id_can_be() -> None:
    assert [parse_int(text) for text in ("0", "17", "9" * MAX_DIGITS)] == [0, 17, 10**MAX_DIGITS - 1]
    assert {
        parse_int(text) for text in ("", "-1", "1.5", "one", "²", "9" * (MAX_DIGITS + 1), "1" * 5000)
    } == {None}
