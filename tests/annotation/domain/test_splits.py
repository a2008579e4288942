from __future__ import annotations

import doctest
import hashlib
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.domain.releases import splits
from annotation.domain.releases.splits import SPLITS, split_of


def test_the_documented_string_decides():
    for dataset, prompt in (("xstest", "6"), ("弗莱姆斯", '带"引号"\n的'), ("", "")):
        quoted = [
            text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for text in (dataset, prompt)
        ]
        text = f'["assay-split-1","{quoted[0]}","{quoted[1]}"]'
        number = int(hashlib.sha256(text.encode("utf-8")).hexdigest()[:16], 16)
        tenth = number * 10 // 2**64
        assert split_of(dataset, prompt) == ("train" if tenth < 8 else ("validation", "test")[tenth - 8])


def test_the_example_in_the_docstring_holds():
    assert doctest.testmod(splits).failed == 0


def test_eight_one_and_one_of_ten_prompts():
    counts = Counter(split_of("flames", str(number)) for number in range(20_000))
    # The standard deviation of the share of 20,000 is 0.28% for 0.8 and 0.21% for 0.1: five of them are allowed.
    for split, share, spread in zip(SPLITS, (0.8, 0.1, 0.1), (0.0142, 0.0107, 0.0107), strict=True):
        assert abs(counts[split] / 20_000 - share) < spread


@settings(max_examples=10, deadline=None)
@given(st.text(), st.text())
def test_any_name_and_id_have_one_split_and_where_they_are_parted_matters(dataset: str, prompt: str):
    assert split_of(dataset, prompt) in SPLITS
    assert split_of(dataset, prompt) == split_of(dataset, prompt)


def test_the_name_of_the_dataset_and_the_id_are_not_run_together():
    parted = {(f"a{'b' * place}", f"{'b' * (40 - place)}c") for place in range(40)}
    assert len({split_of(*parts) for parts in parted}) > 1
