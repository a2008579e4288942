"""Sentences of reviews with many people's ratings from -4 to 4, as examples, without a database.

Hutto and Gilbert 2014 (VADER, ICWSM; MIT licence): sentences of 300 reviews of products, each rated by 20 people, and
10,605 of reviews of films, rated by 14 to 20. They lie in the source distribution of vaderSentiment, which ``./run
test`` downloads; or in the folder that ``ASSAY_SNIPPETS`` names.
"""

from __future__ import annotations

import ast
import io
import os
import statistics
import sys
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from scoring.domain.training_data import Example, Head

FOLDER = Path(os.environ.get("ASSAY_SNIPPETS", Path(sys.prefix) / "sources"))
INSIDE = "additional_resources/hutto_ICWSM_2014.tar.gz"
RATINGS = tuple(range(-4, 5))
FIVE_LEVELS = {-4: 1, -3: 1, -2: 2, -1: 2, 0: 3, 1: 4, 2: 4, 3: 5, 4: 5}
FILMS = Head("sentiment", RATINGS, "ordinal")
PRODUCTS = Head("sentiment", (1, 2, 3, 4, 5), "ordinal")


def is_there() -> bool:
    return _find_archive() is not None


def read_films() -> list[Example]:
    """Each sentence by itself; the level is the lower median of nine."""
    return _read_examples("movieReviewSnippets", FILMS, {rating: rating for rating in RATINGS})


def read_products() -> list[Example]:
    """The sentences of a review answer one prompt; the level is the lower median, of which two make one of five."""
    return _read_examples("amazonReviewSnippets", PRODUCTS, FIVE_LEVELS)


def _read_examples(name: str, head: Head, levels: Mapping[int, int]) -> list[Example]:
    texts = {row[0]: row[2] for row in _read_rows(f"{name}_GroundTruth.txt")}
    return [
        Example(
            key=key,
            prompt_key=f"{name}/{key.partition('_')[0]}",
            prompt="",
            response=texts[key],
            labels={head.criterion: levels[statistics.median_low(ast.literal_eval(ratings))]},
        )
        for key, _mean, _deviation, ratings in _read_rows(f"{name}_anonDataRatings.txt")
    ]


def _read_rows(name: str) -> list[list[str]]:
    text = _read_files()[name].decode("utf-8-sig", "replace")
    return [line.split("\t") for line in text.splitlines() if line]


def _find_archive() -> Path | None:
    return next(FOLDER.glob("[vV]ader[sS]entiment-3.3.2.tar.gz"), None)


@cache
def _read_files() -> dict[str, bytes]:
    """By name, of the archive in the archive."""
    archive = _find_archive()
    assert archive, f"the source distribution of vaderSentiment is not in {FOLDER}"
    with tarfile.open(archive) as outer:
        inner_name = next(name for name in outer.getnames() if name.endswith(INSIDE))
        inner = outer.extractfile(inner_name)
        assert inner
        with tarfile.open(fileobj=io.BytesIO(inner.read())) as files:
            return {
                Path(member.name).name: file.read()
                for member in files
                if (file := files.extractfile(member)) is not None
            }
