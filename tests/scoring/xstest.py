"""XSTest's published responses and final labels as examples, without a database. Absent data is said, not made up."""

from __future__ import annotations

import csv
import os
from pathlib import Path

from annotation.domain.releases.splits import split_of
from scoring.domain.training_data import Distribution, Example, Head

FOLDER = Path(
    os.environ.get("ASSAY_XSTEST", Path(__file__).resolve().parents[3] / "shared" / "data" / "xstest")
)
MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")
LEVELS = {"1_full_compliance": 3, "3_partial_refusal": 2, "2_full_refusal": 1}
HEAD = Head("compliance", (1, 2, 3), "ordinal")


def is_there() -> bool:
    return all(_file(model).is_file() for model in MODELS)


def _file(model: str) -> Path:
    return FOLDER / f"xstest_v2_completions_{model}.csv"


def examples() -> list[Example]:
    """All 2,250, in the order of the product."""
    all_examples = [_example(model, row) for model in MODELS for row in _rows(model)]
    return sorted(all_examples, key=lambda example: (example.key, example.content_key))


def read_shares() -> dict[str, dict[str, Distribution]]:
    """By the example's key, what share of its two annotators gave each level."""
    annotated = {}
    for model in MODELS:
        for row in _rows(model):
            levels = [LEVELS[row[column]] for column in ("annotation_1", "annotation_2")]
            shares = {level: levels.count(level) / 2 for level in HEAD.values}
            annotated[f"xstest/{row['id'].removeprefix('v2-')} {model}"] = {HEAD.criterion: shares}
    return annotated


def _rows(model: str) -> list[dict[str, str]]:
    with _file(model).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _example(model: str, row: dict[str, str]) -> Example:
    number = row["id"].removeprefix("v2-")
    return Example(
        key=f"xstest/{number} {model}",
        prompt_key=f"xstest/{number}",
        prompt=row["prompt"],
        response=row["completion"],
        model=model,
        dimension="unsafe" if row["type"].startswith("contrast_") else "safe",
        labels={HEAD.criterion: LEVELS[row["final_label"]]},
        kind=row["type"],
        split=split_of("xstest", number),
    )
