"""Guidelines that ask much of a page: three criteria, and a long one with many levels and long texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from annotation.domain.guidelines import Criterion
from annotation.models import Guideline
from annotation.services.guidelines import load_guideline
from tests.support import XSTEST_GUIDELINE

LEVELS = {1: "Harmful", 2: "Careless", 3: "Harmless"}
LONG = "This definition is as long as people write them: it names the case, its neighbour, and what tells them apart."


def text(words: str) -> dict[str, str]:
    return {"en": words, "zh": f"中文：{words}"}


def scale(
    levels: Mapping[float, str],
    *,
    requires: Mapping[float, Sequence[str]] | None = None,
    definition: str = "",
) -> list[dict[str, Any]]:
    """Levels as a document has them; ``requires`` by level value."""
    return [
        {
            "value": value,
            "name": text(name),
            "definition": text(definition or f"The response is {name.lower()}."),
            "requires": list((requires or {}).get(value, ())),
        }
        for value, name in levels.items()
    ]


def criterion(name: str, levels: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "label": text(name.title()),
        "question": text(f"What does the response do for {name}?"),
        "applies_to": "all",
        "measurement": "ordinal",
        "scale": levels,
    }


def as_criterion(*values: float) -> Criterion:
    return Criterion.model_validate(criterion("harm", scale({value: f"Level {value}" for value in values})))


def guideline_of(
    name: str, criteria: Sequence[Mapping[str, Any]], *, version: str = "1.0", counted: Sequence[str] = ()
) -> Guideline:
    """XSTest's guideline with other criteria; the metric counts the highest level of the first, or of those named."""
    document = yaml.safe_load(XSTEST_GUIDELINE.path.read_text(encoding="utf-8"))
    document |= {"name": name, "version": version, "criteria": [*criteria], "rank_by": "top"}
    document["metrics"] = [
        {
            "name": "top",
            "label": text("top rate"),
            "kind": "rate",
            "levels": [criteria[0]["scale"][-1]["value"]],
            "criteria": list(counted) or [criteria[0]["name"]],
            "overall": "pooled",
        }
    ]
    written = yaml.safe_dump(document, allow_unicode=True)
    return load_guideline(text=written, path=f"{name}.yaml", publish=True)


def three_criteria() -> Guideline:
    """Three criteria of three levels; the careless level of the second needs evidence, of the third a rationale."""
    return guideline_of(
        "three",
        [
            criterion("fairness", scale(LEVELS)),
            criterion("safety", scale(LEVELS, requires={2: ["evidence"]})),
            criterion("morality", scale(LEVELS, requires={2: ["rationale"]})),
        ],
    )


def many_kinds() -> Guideline:
    """A level, twelve options with long names, a text, and three questions about each turn."""
    options = {2**place: f"Option {place + 1} with a longer name" for place in range(12)}
    by_turn = [
        criterion(name, scale(LEVELS)) | {"per_turn": "assistant"}
        for name in ("fluency", "empathy", "information")
    ]
    topics = criterion("topics", scale(options, definition=LONG)) | {
        "kind": "choice",
        "several": True,
        "na": True,
    }
    reason = criterion("reason", []) | {"kind": "text", "max_length": 500}
    for untyped in (topics, reason):
        del untyped["measurement"]
    del reason["scale"]
    return guideline_of("many-kinds", [criterion("harm", scale(LEVELS)), topics, reason, *by_turn])


def many_levels() -> Guideline:
    """Three criteria of ten, five and three levels with long texts, the last of which asks for everything."""
    names = {value: f"Level {value} of a long scale" for value in range(1, 11)}
    short = {value: f"Answer {value} with a long name" for value in range(5)}
    requires = {value: ["evidence", "rationale"] for value in LEVELS}
    return guideline_of(
        "many",
        [
            criterion("empathy", scale(names, definition=LONG)),
            criterion("fluency", scale(short, definition=LONG)),
            criterion("safety", scale(LEVELS, requires=requires, definition=LONG)),
        ],
    )


def seven_criteria() -> Guideline:
    """Seven criteria of five levels each, as in a rubric of the quality of an answer."""
    levels = dict(enumerate(("Very poor", "Poor", "Acceptable", "Good", "Excellent"), start=1))
    names = ("fairness", "safety", "morality", "legality", "privacy", "helpfulness", "honesty")
    return guideline_of("seven", [criterion(name, scale(levels, definition=LONG)) for name in names])
