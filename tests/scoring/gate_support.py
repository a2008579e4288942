"""Scorers whose answers a test writes down itself: the gate reads what they said when they were trained."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.datasets import response_sha256
from annotation.domain.release_spec import ReleaseSpec
from annotation.domain.releases.splits import split_of
from annotation.models import (
    Collection,
    Dataset,
    EvaluatedModel,
    GoldRelease,
    Guideline,
    Person,
    Prompt,
    Response,
)
from annotation.services import jobs
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from annotation.services.releases import cut_release
from annotation.services.studies import find_or_make_study
from scoring.backbones.folder import fingerprint
from scoring.domain.training_data import Example, Head, Prediction, describe_heads, prediction_to_json
from scoring.models import Scorer
from scoring.selectors.training import build_training_set
from scoring.services import promote
from tests.support import make_batch

FAIRNESS, SAFETY = "Fairness", "Safety"
Says = Callable[[Example, Head], float]
"""What a scorer says of an example."""


def keys_of(split: str, number: int, dataset: str) -> list[str]:
    """The first ids of prompts that are in the split."""
    keys: list[str] = []
    n = 0
    while len(keys) < number:
        if split_of(dataset, f"q{n}") == split:
            keys.append(f"q{n}")
        n += 1
    return keys


def labelled_release(
    guideline: Guideline,
    person: Person,
    *,
    name: str = "graded",
    dimensions: Sequence[str],
    test: int = 6,
    train: int = 2,
) -> GoldRelease:
    """In each dimension so many prompts of the test split and of the training split, each answered by one model.

    Every criterion of a prompt is labelled at the highest level of its scale.
    """
    dataset = Dataset.objects.create(study=find_or_make_study(), name=f"{name}-data")
    collection, _created = Collection.objects.get_or_create(name="")
    model, _created = EvaluatedModel.objects.get_or_create(name="Secretive-7B")
    pools = {split: iter(keys_of(split, 200, dataset.name)) for split in ("test", "train")}
    for dimension in dimensions:
        for split, number in (("test", test), ("train", train)):
            for _turn in range(number):
                key = next(pools[split])
                text = f"The answer to {key} of {name}."
                prompt = Prompt.objects.create(
                    dataset=dataset, key=key, text=f"What of {key} in {name}?", dimension=dimension
                )
                Response.objects.create(
                    prompt=prompt,
                    model=model,
                    collection=collection,
                    text=text,
                    sha256=response_sha256(text, []),
                )
    batch = make_batch(
        guideline, dataset, annotators=[person], name=f"{name}-batch", policy=Policy(overlap=1)
    )
    while (assignment := claim_next_task(batch=batch, person=person)) is not None:
        criteria = guideline.document.criteria_for(assignment.task.response.prompt.dimension)
        labels = {criterion.name: criterion.values[-1] for criterion in criteria}
        work = Submission(labels, rationale="as it is")
        submit(assignment_id=assignment.pk, person=person, key=f"k{assignment.pk}", work=work)
    return cut_release(ReleaseSpec(name=name, batches=[batch]))


def right(example: Example, head: Head) -> float:
    return example.labels.get(head.criterion, head.values[-1])


def wrong_on(*criteria: str) -> Says:
    """The lowest level on these criteria, else what is right."""

    def choose_level(example: Example, head: Head) -> float:
        return head.values[0] if head.criterion in criteria else right(example, head)

    return choose_level


def scorer_that_says(
    release: GoldRelease,
    guideline: Guideline,
    *,
    name: str,
    choose_level: Says = right,
    learned: Sequence[str] | None = None,
    card: Mapping[str, Any] | None = None,
) -> Scorer:
    """Registered, and kept as training keeps it; ``learned`` are further contents that it learned from."""
    lesson = build_training_set(release, guideline)
    heads = describe_heads(lesson.examples, lesson.heads)
    scorer = Scorer.objects.create(
        study=find_or_make_study(),
        name=name,
        guideline=guideline,
        release=release,
        backbone="ngram",
        ready_at=timezone.now(),
        card={"heads": heads} if card is None else dict(card),
        evaluation={"grouped": {"by_criterion": {}}},
    )
    folder = scorer.weights_folder
    folder.mkdir(parents=True)

    def predict(example: Example) -> dict[str, dict[str, float]]:
        heads = [head for head in lesson.heads if head.criterion in example.labels]
        return prediction_to_json(
            {head.criterion: head.certain(choose_level(example, head)) for head in heads}
        )

    tested = {example.content_key: predict(example) for example in lesson.examples if example.split == "test"}
    folds = {example.content_key: {"fold": 0, "prediction": predict(example)} for example in lesson.examples}
    trained = [example.content_key for example in lesson.examples if example.split != "test"]
    for file, content in (
        ("test.json", tested),
        ("trained.json", [*trained, *(learned or ())]),
        ("out_of_fold.json", folds),
        ("heads.json", [head.to_json() for head in lesson.heads]),
    ):
        (folder / file).write_text(json.dumps(content), encoding="utf-8")
    scorer.weights_sha256 = fingerprint(folder)
    scorer.save(update_fields=["weights_sha256"])
    return scorer


def judged(scorer: Scorer, actor: Person | None = None, **options: Any) -> dict[str, Any]:
    """What the job that judges it finds."""
    return jobs.run_now(promote(scorer=scorer, actor=actor, send=False, **options)).result


def promoted(scorer: Scorer, researcher: Person) -> dict[str, Any]:
    """The same with a reason, for these releases are too small to show anything."""
    return judged(scorer, researcher, reason="It is a test.")


class Decided:
    """A loaded scorer that gives every response the same level."""

    def __init__(self, heads: Sequence[Head], place: int) -> None:
        self.heads, self.place = tuple(heads), place
        self.content_keys: list[str] = []

    def predict(self, examples: Sequence[Example], **_options: Any) -> list[Prediction]:
        self.content_keys += [example.content_key for example in examples]
        certain = {head.criterion: head.certain(head.values[self.place]) for head in self.heads}
        return [certain for _example in examples]


def decide(monkeypatch: pytest.MonkeyPatch, place: int, *, unlearned: Sequence[str] = ()) -> list[Decided]:
    """Whatever is loaded from now on says the level at this place of each scale, nothing of the ``unlearned``."""
    made: list[Decided] = []

    def load(folder: Path) -> Decided:
        heads = [Head.from_json(load) for load in json.loads((folder / "heads.json").read_text())]
        made.append(Decided([head for head in heads if head.criterion not in unlearned], place))
        return made[-1]

    monkeypatch.setattr("scoring.services.predictions.predictions.load", load)
    return made
