"""Which prompts are for training, for validation and for testing: the same in every release, anywhere. Pure.

The split of a prompt depends on the name of its dataset and on its id alone (``docs/gold.md``), so that nothing
that a scorer was ever tested on is trained on in a later release, and nobody has to keep a list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Literal, TypeAlias

Split: TypeAlias = Literal["train", "validation", "test"]

SPLITS: tuple[Split, ...] = ("train", "validation", "test")
TENTHS: Mapping[Split, int] = {"train": 8, "validation": 1, "test": 1}
"""How many of ten prompts each split is given, in this order."""
SALT = "assay-split-1"
_OF_TENTH: tuple[Split, ...] = tuple(split for split in SPLITS for _tenth in range(TENTHS[split]))
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def split_of(dataset: str, prompt_id: str) -> Split:
    """The sha256 of ``["assay-split-1",dataset,prompt id]`` as compact JSON in UTF-8 decides.

    Its first eight bytes as a big-endian number, times ten and divided by 2**64, are a tenth from 0 to 9: those
    below 8 are for training, 8 is for validation, 9 for testing.

    >>> [split_of("xstest", str(number)) for number in (6, 7, 15)]
    ['train', 'validation', 'test']
    """
    digest = hashlib.sha256(_encode([SALT, dataset, prompt_id]).encode()).digest()
    return _OF_TENTH[int.from_bytes(digest[:8], "big") * 10 >> 64]
