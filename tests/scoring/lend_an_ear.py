"""Three experts' ratings of fifty dialogues, six criteria from 1 to 5, as examples, without a database.

Each criterion is settled by the lower median of the three, as a batch of overlap 3 and tolerance 4 settles it.
"""

from __future__ import annotations

import csv
import os
import statistics
from dataclasses import replace
from pathlib import Path

from scoring.domain.training_data import Distribution, Example, Head, transcript

FOLDER = Path(
    os.environ.get(
        "ASSAY_LEND_AN_EAR", Path(__file__).resolve().parents[3] / "shared" / "data" / "lend_an_ear"
    )
)
CRITERIA = (
    "validating_emotions",
    "encouraging_elaboration",
    "demonstrating_understanding",
    "advice_giving",
    "self_oriented",
    "dismissing_emotions",
)
LEVELS = (1, 2, 3, 4, 5)
HEADS = tuple(Head(criterion, LEVELS, "ordinal") for criterion in CRITERIA)
EXPERTS = ("expert1", "expert2", "expert3")
ROLES = {"Seeker": "user", "Supporter": "assistant"}


def is_there() -> bool:
    return (FOLDER / "conversations.csv").is_file()


def read_ratings() -> dict[str, list[dict[str, int]]]:
    """By dialogue what each expert said."""
    ratings: dict[str, list[dict[str, int]]] = {}
    for expert in EXPERTS:
        for row in _read_rows(f"{expert}_ratings.csv"):
            labels = {criterion: int(float(row[criterion])) for criterion in CRITERIA}
            ratings.setdefault(row["conversation_id"], []).append(labels)
    return ratings


def read_dialogues() -> dict[str, list[tuple[str, str]]]:
    """By id the (role, text) turns; a line that names no speaker goes on with the turn before it."""
    dialogues = {}
    for row in _read_rows("conversations.csv"):
        turns: list[tuple[str, str]] = []
        for line in row["full_conversation"].splitlines():
            speaker, colon, text = line.partition(": ")
            if colon and speaker in ROLES:
                turns.append((ROLES[speaker], text))
            elif turns:
                turns[-1] = (turns[-1][0], f"{turns[-1][1]}\n{line}")
        dialogues[row["conversation_id"]] = turns
    return dialogues


def examples() -> list[Example]:
    """All fifty, in the order of their ids."""
    ratings = read_ratings()
    return [
        Example(
            key=name,
            prompt_key=f"lend_an_ear/{name}",
            prompt=turns[0][1],
            response=transcript(turns),
            model="people",
            labels={
                criterion: statistics.median_low(labels[criterion] for labels in ratings[name])
                for criterion in CRITERIA
            },
        )
        for name, turns in sorted(read_dialogues().items())
        if name in ratings
    ]


def settled_dialogues() -> list[Example]:
    """All fifty, each its own prompt: the opening, which is one of three, is in the transcript and groups nothing."""
    return [replace(example, prompt="") for example in examples()]


def rated_dialogues() -> list[Example]:
    """Each rating of an expert or of the crowd by itself, under the dialogue; what somebody left out is not there."""
    ratings: dict[str, list[dict[str, int]]] = read_ratings()
    for row in _read_rows("crowd_annotations.csv"):
        labels = {criterion: int(float(row[criterion])) for criterion in CRITERIA if row[criterion]}
        ratings[row["conversation_id"]].append(labels)
    return [
        replace(example, key=f"{example.key} {place}", labels=labels)
        for example in settled_dialogues()
        for place, labels in enumerate(ratings[example.key])
    ]


def shares(name: str) -> dict[str, Distribution]:
    """By criterion the share of the experts that gave each level of a dialogue."""
    labels = read_ratings()[name]
    return {
        criterion: {level: sum(row[criterion] == level for row in labels) / len(labels) for level in LEVELS}
        for criterion in CRITERIA
    }


def _read_rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
