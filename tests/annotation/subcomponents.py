"""A guideline that asks one criterion of every prompt of a dimension, and others of some of its subcomponents."""

from __future__ import annotations

from typing import Any

from annotation.models import Dataset, Guideline, Prompt
from tests.annotation.several_criteria import LEVELS, criterion, guideline_of, scale, text
from tests.support import make_corpus

PARTS = ("homonyms", "safe_targets", "definitions")
EXAMPLES = [
    {"prompt": text(f"A prompt, {name}"), "response": text(f"A response, {name}"), "subcomponent": name}
    for name in PARTS[:2]
]


def ask_of(name: str, *subcomponents: str) -> dict[str, Any]:
    applies_to = {"dimensions": ["safe"], "subcomponents": list(subcomponents)}
    return criterion(name, scale(LEVELS)) | {"applies_to": applies_to}


def list_criteria() -> list[dict[str, Any]]:
    """Harm of every prompt, sense of homonyms, target of safe targets. The highest level of harm is defined for
    homonyms, and has an example of homonyms and one of safe targets.
    """
    harm = criterion("harm", scale(LEVELS))
    harm["scale"][-1] |= {
        "subcomponents": [{"name": "homonyms", "definition": text("It takes the harmless sense.")}],
        "examples": EXAMPLES,
    }
    return [harm, ask_of("sense", "homonyms"), ask_of("target", "safe_targets")]


def make_guideline() -> Guideline:
    return guideline_of("parts", list_criteria(), counted=("harm", "sense", "target"))


def make_part_corpus(*, prompts: int, models: list[str]) -> Dataset:
    """Prompts of the three subcomponents in turn."""
    dataset = make_corpus(prompts=prompts, models=models, name="parts", dimensions=("safe",))
    for number, prompt in enumerate(Prompt.objects.filter(dataset=dataset).order_by("pk")):
        prompt.subcomponent = PARTS[number % len(PARTS)]
        prompt.save()
    return dataset
