"""A small batch with everything in it that can be carried elsewhere: several criteria of each kind, a tolerance, texts
and a dialogue, evidence, disputes settled and left open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.datasets import response_sha256
from annotation.models import (
    Assignment,
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    Guideline,
    Person,
    Prompt,
    Response,
)
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.annotations.submission import compute_outcome, submit
from annotation.services.assignments import claim_next_dispute, claim_next_task
from annotation.services.guidelines import load_guideline
from annotation.services.studies import find_or_make_study
from tests.support import make_batch


def _scale(*names: str, first: int = 0) -> str:
    return "\n    scale:" + "".join(
        f"\n      - {{value: {value}, name: {{en: {name}, zh: {name}级}}, definition: {{en: is {name}, zh: 是{name}}}}}"
        for value, name in enumerate(names, first)
    )


CARE = f"""
name: care
version: "1.0"
languages: [en, zh]
title: {{en: Care, zh: 关怀}}
source: Made up for tests.
introduction: {{en: Rate it., zh: 请评分。}}
criteria:
  - name: fluency
    label: {{en: Fluency, zh: 流畅}}
    question: {{en: How fluent, zh: 流畅吗}}
    applies_to: all
    measurement: interval{_scale("none", "little", "some", "much", "all")}
  - name: warmth
    label: {{en: Warmth, zh: 温暖}}
    question: {{en: How warm, zh: 温暖吗}}
    applies_to: all
    measurement: interval{_scale("cold", "cool", "mild", "warm", "hot", first=1)}
  - name: depth
    label: {{en: Depth, zh: 深度}}
    question: {{en: How deep, zh: 有多深}}
    applies_to: all
    measurement: interval
    range: {{min: 0, max: 100}}
    scale:
      - {{value: 0, name: {{en: flat, zh: 浅}}, definition: {{en: flat, zh: 浅}}}}
      - {{value: 100, name: {{en: deep, zh: 深}}, definition: {{en: deep, zh: 深}}}}
  - name: tone
    label: {{en: Tone, zh: 语气}}
    question: {{en: Which tone, zh: 什么语气}}
    applies_to: all
    measurement: nominal{_scale("plain", "odd")}
metrics:
  - name: fluent
    label: {{en: Fluent, zh: 流畅}}
    kind: mean
    formula: 25 * mean
    criteria: [fluency]
    overall: pooled
rank_by: fluent
"""
TURNS = [
    {"role": "user", "text": "我很难过。"},
    {"role": "assistant", "text": "😢 I am sorry\nto hear <that> & more."},
]
# fluency, warmth, depth, tone, from two people.
AGREED = ((3, 4, 50, 0), (3, 4, 50, 0))
NEAR = ((3, 4, 50, 1), (2, 5, 51, 1))
DISPUTED = ((0, 4, 10, 0), (4, 4, 90, 1))
CRITERIA = ("fluency", "warmth", "depth", "tone")


def care_guideline(version: str = "1.0") -> Guideline:
    return load_guideline(text=CARE.replace('"1.0"', f'"{version}"'), path="care.yaml", publish=True)


def care_corpus(*, name: str = "care", prompts: int = 4, model: str = "Model 1") -> Dataset:
    """``prompts`` prompts; the first response is a dialogue, the others are texts, one of them empty."""
    dataset, _new = Dataset.objects.get_or_create(study=find_or_make_study(), name=name)
    evaluated, _new = EvaluatedModel.objects.get_or_create(name=model)
    collection, _new = Collection.objects.get_or_create(name="")
    for number in range(prompts):
        prompt, _new = Prompt.objects.get_or_create(
            dataset=dataset,
            key=f"问 {number}",
            defaults={
                "text": f'=Who "{number}"?\n…',
                "language": "zh",
                "source": "" if number else "Hotline 2019",
                "malice": "" if number else "implicit",
            },
        )
        text = "" if number in {0, 3} else f"Answer {number} 🙂 <b>of</b> {model}\r\n\tcafé"
        turns: Sequence[Mapping[str, str]] = TURNS if number == 0 else []
        Response.objects.get_or_create(
            prompt=prompt,
            model=evaluated,
            collection=collection,
            defaults={"text": text, "turns": turns, "sha256": response_sha256(text, turns)},
        )
    return dataset


def labels_of(values: Sequence[int]) -> dict[str, int]:
    return dict(zip(CRITERIA, values, strict=True))


def settled_care(
    annotators: Sequence[Person],
    adjudicator: Person,
    *,
    name: str = "care-1",
    labels_by_task: Sequence[Sequence[Sequence[int]]] = (AGREED, NEAR, DISPUTED, DISPUTED),
    decide: int = 1,
) -> Batch:
    """Tasks in the order of ``said``; of the disputes the first ``decide`` are decided, the others stay open."""
    batch = make_batch(
        care_guideline(),
        care_corpus(prompts=len(labels_by_task)),
        annotators=annotators,
        adjudicators=[adjudicator],
        name=name,
        policy=Policy(overlap=len(annotators), tolerance=1),
    )
    for values in labels_by_task:
        for person, person_values in zip(annotators, values, strict=True):
            assignment = claim_next_task(batch=batch, person=person)
            assert assignment is not None
            say(assignment, person, person_values)
    for _dispute in range(decide):
        settle_dispute(batch, adjudicator)
    return batch


def say(assignment: Assignment, person: Person, values: Sequence[int]) -> None:
    response = assignment.task.response
    turn, length = (1, len(response.turns[1]["text"])) if response.turns else (0, len(response.text))
    spans = [
        {"turn": turn, "start": 0, "end": 8, "criterion": "fluency", "level": values[0]},
        {"turn": turn, "start": 2, "end": length, "criterion": "depth", "level": values[2]},
    ]
    work = Submission(
        labels=labels_of(values),
        rationale=f"因为 {person.username}: 'so'\n…",
        evidence=spans if length else [],
        flags=["unsure"],
        seconds=12.5,
    )
    submit(assignment_id=assignment.pk, person=person, key=str(uuid4()), work=work)


def settle_dispute(batch: Batch, adjudicator: Person) -> None:
    assignment = claim_next_dispute(batch=batch, person=adjudicator)
    assert assignment is not None
    disputed = compute_outcome(assignment.task, batch).disputed
    labels: dict[str, Any] = {name: labels_of((2, 3, 33, 1))[name] for name in disputed}
    record_verdict(assignment_id=assignment.pk, person=adjudicator, work=Submission(labels))
    work = Submission(labels, rationale="decided", reason="reading_slip", seconds=4)
    adjudicate(assignment_id=assignment.pk, person=adjudicator, key=str(uuid4()), work=work)
