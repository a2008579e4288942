"""A batch whose guideline asks for several options, a text, and a level of each turn; one dialogue and three texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from annotation.domain.batch_spec import Policy
from annotation.domain.datasets import response_sha256
from annotation.domain.guidelines import NA
from annotation.models import Batch, Dataset, Guideline, Person, Response
from tests.annotation.domain.test_kinds_of_criteria import choose, write
from tests.annotation.domain.test_other_answers import ask
from tests.annotation.several_criteria import guideline_of
from tests.support import make_batch, make_corpus

MODEL = "Hidden-13B"
TURNS = [
    {"role": "user", "text": "I am sad."},
    {"role": "assistant", "text": "I am sorry to hear it."},
    {"role": "user", "text": "=Really?"},
    {"role": "assistant", "text": "Yes."},
]
# Of two annotators by prompt. The first response is the dialogue; its second judged turn is disputed, as are the topics
# of the third response. In the last one nothing of the turn is applicable.
ANSWERS: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]] = (
    (
        {"harm": 1, "topics": 5, "why": "=1+1, “so”\nand\tso", "empathy@1": 3, "empathy@3": 1},
        {"harm": 1, "topics": 5, "why": "007", "empathy@1": 2, "empathy@3": 3},
    ),
    ({"harm": 2, "topics": 2, "empathy@0": 2}, {"harm": 2, "topics": 2, "empathy@0": 2}),
    ({"harm": 3, "topics": 1, "empathy@0": 1}, {"harm": 3, "topics": 3, "empathy@0": 1}),
    ({"harm": 1, "topics": NA, "empathy@0": NA}, {"harm": 1, "topics": NA, "empathy@0": NA, "why": "N/A"}),
)


def kinds_guideline() -> Guideline:
    return guideline_of(
        "kinds",
        [
            ask("harm"),
            choose(na=True),
            write(optional=True),
            ask("empathy", per_turn="assistant", tolerance=1, na=True),
        ],
    )


def kinds_corpus() -> Dataset:
    dataset = make_corpus(prompts=len(ANSWERS), models=[MODEL])
    Response.objects.filter(prompt__key="p0").update(text="", turns=TURNS, sha256=response_sha256("", TURNS))
    return dataset


def kinds_batch(
    annotators: Sequence[Person],
    adjudicators: Sequence[Person],
    *,
    name: str = "first",
    dataset: Dataset | None = None,
) -> Batch:
    guideline = Guideline.objects.filter(name="kinds").first() or kinds_guideline()
    return make_batch(
        guideline,
        dataset or kinds_corpus(),
        annotators=annotators,
        adjudicators=adjudicators,
        name=name,
        policy=Policy(overlap=2),
    )
