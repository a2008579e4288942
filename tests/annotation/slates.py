"""Slates for tests: a corpus of which they are made, guidelines by which they are judged, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.models import Batch, Dataset, Guideline, Person
from annotation.services.batches.batches import create_batch
from annotation.services.guidelines import load_guideline
from annotation.services.slates import SlateSpec, make_slates
from tests.support import FIXTURES, make_corpus, read_introduction

MODELS = ("Hidden-13B", "Secret-7B", "Veiled-70B")
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
    path = Path(FIXTURES) / "guidelines" / f"{name}.yaml"
    return load_guideline(text=path.read_text(encoding="utf-8"), path=path.name, publish=True)


def make_slate_batch(
    guideline: Guideline,
    *,
    annotators: Sequence[Person],
    adjudicators: Sequence[Person] = (),
    prompts: int = 4,
    models: Sequence[str] = MODELS,
    policy: Policy | None = None,
    name: str = "sided",
    dimensions: Sequence[str] = ("",),
) -> Batch:
    dataset: Dataset = make_corpus(prompts=prompts, models=models, name=name, dimensions=dimensions)
    make_slates(SlateSpec(name=f"{name}-slates", dataset=dataset, seed=7))
    batch = create_batch(
        BatchSpec(
            name=name,
            guideline=guideline,
            dataset=dataset,
            collection=f"{name}-slates",
            annotators=annotators,
            adjudicators=adjudicators,
            policy=policy or Policy(),
        )
    )
    Batch.objects.filter(pk=batch.pk).update(second_reading_share=0)
    read_introduction(batch)
    return batch
