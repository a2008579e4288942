"""Batches of slates, and how a person's order of the entries and what is stored in the slate's order go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.domain.datasets import response_sha256
from annotation.models import Assignment, Batch, Guideline, Person, Response, SlateEntry
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import create_batch
from annotation.services.guidelines import load_guideline
from annotation.services.slates import SlateSpec, make_slates
from tests.annotation.several_criteria import LEVELS, criterion, scale, text
from tests.support import FIXTURES, GuidelineFile, make_corpus, read_introduction

BEST_GUIDELINE = GuidelineFile(FIXTURES / "guidelines" / "cvalues_best.yaml")
PREFERENCE_GUIDELINE = GuidelineFile(FIXTURES / "guidelines" / "preference.yaml")
MODELS = ("Secretive-7B", "Hidden-13B", "Masked-70B")
SET = "veiled-set"
"""How the names of the sets of slates begin, which are those of collections."""


BEST = {
    "name": "best",
    "label": {"en": "Best", "zh": "最佳"},
    "question": {"en": "Which is the best?", "zh": "哪一个最好？"},
    "applies_to": "all",
    "kind": "choice",
    "entries": "best",
}
RATE = {
    "name": "ties",
    "label": {"en": "Ties", "zh": "不分上下"},
    "kind": "rate",
    "levels": [-1],
    "criteria": ["best"],
    "overall": "pooled",
}


def slate_document(*criteria: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A guideline for slates with these criteria; the first is ``best`` with ties."""
    text = {"en": "Slates", "zh": "候选组"}
    return {
        "name": "slates",
        "version": "1.0",
        "languages": ["en", "zh"],
        "title": text,
        "source": "tests",
        "introduction": text,
        "unit": "slate",
        "criteria": [{**BEST, "ties": True}, *criteria],
        "metrics": [RATE],
        "rank_by": "ties",
        **changes,
    }


def load_shipped(name: str) -> Guideline:
    path = FIXTURES / "guidelines" / f"{name}.yaml"
    return load_guideline(text=path.read_text(encoding="utf-8"), path=path.name, publish=True)


def best_criterion(**fields: Any) -> dict[str, Any]:
    return _criterion("best", "Which is the best?") | {"entries": "best"} | fields


def ranking_criterion(**fields: Any) -> dict[str, Any]:
    return _criterion("order", "How do they rank?") | {"entries": "ranking", "ties": True} | fields


def score_criterion(**fields: Any) -> dict[str, Any]:
    """A level of each entry."""
    return criterion("help", scale(LEVELS)) | {"per_turn": "entry"} | fields


def _criterion(name: str, question: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": text(name.title()),
        "question": text(question),
        "applies_to": "all",
        "kind": "choice",
    }


def slate_guideline(*criteria: Mapping[str, Any], name: str = "side-by-side") -> Guideline:
    """With a question about the whole slate that may stay unanswered, of which the metric counts level 3."""
    document = yaml.safe_load(PREFERENCE_GUIDELINE.path.read_text(encoding="utf-8"))
    overall = criterion("overall", scale(LEVELS)) | {"optional": True}
    document |= {"name": name, "criteria": [*criteria, overall], "rank_by": "top"}
    document["metrics"] = [
        {
            "name": "top",
            "label": text("top rate"),
            "kind": "rate",
            "levels": [3],
            "criteria": ["overall"],
            "overall": "pooled",
        }
    ]
    written = yaml.safe_dump(document, allow_unicode=True)
    return load_guideline(text=written, path=f"{name}.yaml", publish=True)


def make_slate_batch(
    guideline: Guideline,
    *,
    annotators: Sequence[Person],
    adjudicators: Sequence[Person] = (),
    prompts: int = 1,
    models: Sequence[str] = MODELS,
    answers: Mapping[str, str] | None = None,
    policy: Policy | None = None,
    name: str = "first",
) -> Batch:
    """A slate of the models' responses to each prompt; ``answers``: what a model said to all of them."""
    dataset = make_corpus(prompts=prompts, models=models, dimensions=["safe"], name=f"of-{name}")
    for model, words in (answers or {}).items():
        Response.objects.filter(prompt__dataset=dataset, model__name=model).update(
            text=words, sha256=response_sha256(words, [])
        )
    make_slates(SlateSpec(name=f"{SET}-{name}", dataset=dataset, models=models))
    batch = create_batch(
        BatchSpec(
            name=name,
            guideline=guideline,
            dataset=dataset,
            collection=f"{SET}-{name}",
            annotators=annotators,
            adjudicators=adjudicators,
            policy=policy or Policy(overlap=len(annotators)),
        )
    )
    Batch.objects.filter(pk=batch.pk).update(second_reading_share=0)
    read_introduction(batch)
    return batch


def claim(batch: Batch, person: Person, order: str = "") -> Assignment:
    """The next item, to be read in this ``order`` of the slate's places, whatever was drawn."""
    assignment = claim_next_task(batch=batch, person=person)
    assert assignment is not None
    if order:
        assignment.shown_order = order
        assignment.save(update_fields=["shown_order"])
    return assignment


def give(assignment: Assignment, labels: Mapping[str, Any], **work: Any) -> None:
    """Submit labels in the slate's order."""
    submit(assignment_id=assignment.pk, person=assignment.person, key="k", work=Submission(labels, **work))


def read_texts(assignment: Assignment) -> dict[int, str]:
    """The text of each entry, by its place in the slate."""
    entries = SlateEntry.objects.filter(slate__response=assignment.task.response)
    return dict(entries.values_list("place", "response__text"))
