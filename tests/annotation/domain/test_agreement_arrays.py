"""Patterns counted out of arrays of level codes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.domain.agreement import count_label_patterns, measure_agreement
from annotation.domain.agreement import patterns as module


def test_codes_are_positions_on_the_scale_and_minus_one_is_missing() -> None:
    labels = np.array([[0, 1], [0, 1], [-1, 2], [-1, -1]])
    assert count_label_patterns(labels, [1, 3, 9]) == {(1, 3): 2, (None, 9): 1, (None, None): 1}
    assert count_label_patterns(labels) == {(0, 1): 2, (None, 2): 1, (None, None): 1}


@pytest.mark.parametrize("max_bins", [1 << 20, 1], ids=["counted", "sorted"])
@given(raters=st.integers(0, 4), labels=st.binary(max_size=60), small=st.booleans())
@settings(deadline=None, max_examples=50)
def test_every_row_is_counted_once(raters: int, labels: bytes, small: bool, max_bins: int) -> None:
    codes = np.array([byte % 5 - 1 for byte in labels], dtype=np.int8 if small else np.int64)
    rows = len(codes) // raters if raters else 3
    table = codes[: rows * raters].reshape(rows, raters)
    expected = Counter(tuple(None if code < 0 else code for code in row) for row in table.tolist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_BINS", max_bins)
        assert count_label_patterns(table) == expected


def test_more_raters_than_a_number_can_hold_are_counted_too() -> None:
    rng = np.random.default_rng(3)
    sample = rng.integers(-1, 3, size=(4, 40))
    labels = sample[rng.integers(4, size=100)]
    assert count_label_patterns(labels) == Counter(
        tuple(None if code < 0 else code for code in row) for row in labels.tolist()
    )


def test_a_hundred_thousand_units_are_measured_as_their_patterns() -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(-1, 3, size=(100_000, 2))
    result = measure_agreement(
        count_label_patterns(labels, [1, 2, 3]), values=[1, 2, 3], measurement="ordinal", intervals=False
    )
    both = labels[(labels >= 0).all(axis=1)]
    assert result.n == len(both)
    assert result.statistics["percent_agreement"].value == pytest.approx((both[:, 0] == both[:, 1]).mean())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0, 1]), "a row for each unit"),
        (np.array([[0.0, 1.0]]), "whole numbers"),
        (np.array([[0, -2]]), "codes from -2 to 0"),
        (np.array([[0, 3]]), "codes from 0 to 3 on a scale of 3 levels"),
    ],
)
def test_what_is_no_table_of_level_codes_is_refused(labels: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        count_label_patterns(labels, [1, 2, 3])
