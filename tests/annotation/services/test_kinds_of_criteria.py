"""Choices of several options, texts and questions about each turn: from the label to agreement, gold and a scorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Annotation, Batch, GoldLabel, Guideline, Person, Response, Task
from annotation.selectors.agreement import LabelPatterns
from annotation.selectors.quality.comparisons import build_comparison_table
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.releases import cut_release
from scoring.selectors.training import build_training_set
from tests.annotation.domain.test_kinds_of_criteria import choose, write
from tests.annotation.several_criteria import LEVELS, criterion, guideline_of, scale
from tests.support import as_made_by_import, make_batch, make_corpus

pytestmark = pytest.mark.django_db
Answers = Mapping[str, Any]
TURNS = [
    {"role": "user", "text": "I am sad."},
    {"role": "assistant", "text": "Why?"},
    {"role": "user", "text": "My cat died."},
    {"role": "assistant", "text": "I am sorry for your cat."},
]
SAID: Sequence[tuple[Answers, Answers]] = (
    (
        {"harm": 3, "topics": [1, 2], "empathy@1": 1, "empathy@3": 3},
        {"harm": 3, "topics": 3, "empathy@1": 2, "empathy@3": 3},
    ),
    (
        {"harm": 3, "topics": [1], "empathy@1": 2, "empathy@3": 3},
        {"harm": 3, "topics": [1, 4], "empathy@1": 2, "empathy@3": 1},
    ),
    (
        {"harm": 2, "topics": [4], "empathy@1": 1, "empathy@3": 1},
        {"harm": 2, "topics": [4], "empathy@1": 1, "empathy@3": 1},
    ),
)


def make_guideline() -> Guideline:
    return guideline_of(
        "kinds",
        [
            criterion("harm", scale(LEVELS)),
            choose(),
            write("why", optional=True),
            criterion("empathy", scale(LEVELS)) | {"per_turn": "assistant", "tolerance": 1},
        ],
    )


@pytest.fixture
def batch(lin: Person, chen: Person, wu: Person) -> Batch:
    corpus = make_corpus(prompts=len(SAID), models=["Hidden-13B"])
    Response.objects.update(turns=TURNS)
    return make_batch(
        make_guideline(), corpus, annotators=[lin, chen], adjudicators=[wu], policy=Policy(overlap=2)
    )


def say(batch: Batch, person: Person, answers: Answers) -> Any:
    assignment = claim_next_task(batch=batch, person=person)
    assert assignment is not None
    submit(assignment_id=assignment.pk, person=person, key=str(uuid4()), work=Submission(labels=answers))
    return assignment


@pytest.fixture
def labelled(batch: Batch, lin: Person, chen: Person) -> Batch:
    for first, second in SAID:
        say(batch, lin, {**first, "why": "because\nof this"})
        say(batch, chen, second)
    return batch


def test_sets_and_turns_settle_and_texts_stand_beside(labelled: Batch) -> None:
    first, second, third = Task.objects.filter(batch=labelled).order_by("position")
    gold = {label.criterion: (label.label, label.source) for label in first.gold_labels.all()}
    assert gold == {
        "harm": (3, "unanimous"),
        "topics": (3, "unanimous"),
        "empathy@1": (1, "within_tolerance"),
        "empathy@3": (3, "unanimous"),
    }
    assert (first.state, second.state, third.state) == ("agreed", "disputed", "agreed")
    assert set(second.gold_labels.values_list("criterion", flat=True)) == {"harm", "empathy@1"}
    texts = Annotation.objects.filter(assignment__task=first).order_by("assignment__slot")
    assert [annotation.texts for annotation in texts] == [{"why": "because\nof this"}, {}]
    assert not GoldLabel.objects.filter(criterion="why").exists()


def test_a_correction_keeps_the_answers_of_each_kind(batch: Batch, lin: Person) -> None:
    assignment = say(batch, lin, {**SAID[0][0], "why": "first"})
    work = Submission(labels={**SAID[0][0], "topics": [4], "why": "second"})
    assert revise(assignment_id=assignment.pk, person=lin, key="again", work=work) is not None
    latest = Annotation.objects.get(assignment=assignment, current=True)
    assert (latest.labels["topics"], latest.texts) == (4, {"why": "second"})


def test_agreement_is_measured_on_sets_and_on_turns(labelled: Batch) -> None:
    rows = {row.criterion: row.to_json() for row in LabelPatterns([labelled]).report()}
    assert list(rows) == [None, "harm", "topics", "empathy"]
    assert (rows["topics"]["n"], rows["topics"]["disputed"]) == (3, 1)
    assert (rows["empathy"]["n"], rows["empathy"]["disputed"]) == (6, 2)
    assert rows["topics"]["alpha_masi"]["value"] > rows["topics"]["alpha_nominal"]["value"]
    assert rows["topics"]["alpha_ordinal"] is None
    assert rows["empathy"]["alpha_ordinal"]["value"] is not None
    assert rows["empathy"]["alpha_masi"] is None


def test_quality_has_a_scale_for_all_turns_and_one_of_the_sets_that_occur(labelled: Batch) -> None:
    scales = {scale.criterion.name: scale.values for scale in build_comparison_table([labelled]).scales}
    assert scales == {"harm": (1, 2, 3), "topics": (1, 2, 3, 4, 5), "empathy": (1, 2, 3)}


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_pages_of_agreement_and_quality_show_them(
    labelled: Batch, ma: Person, client: Client, language: str
) -> None:
    client.force_login(ma)
    client.cookies["django_language"] = language
    set_state(batch=labelled, state=Batch.State.CLOSED)
    for address in (
        reverse("agreement") + f"?batch={labelled.name}",
        reverse("agreement") + f"?batch={labelled.name}&view=guideline",
        reverse("agreement") + f"?batch={labelled.name}&view=levels",
        reverse("agreement") + f"?batch={labelled.name}&by=criterion&across=pair",
        reverse("agreement-tasks") + f"?batch={labelled.name}&criterion=empathy",
        reverse("agreement-tasks") + f"?batch={labelled.name}&criterion=topics",
        reverse("batch-quality", args=[labelled.name]),
        reverse("batch", args=[labelled.name]),
        reverse("guideline", args=["kinds", "1.0"]),
    ):
        answer = client.get(address)
        assert answer.status_code == 200, address
    page = client.get(reverse("agreement") + f"?batch={labelled.name}").content.decode()
    assert "MASI" in page


def test_a_scorer_learns_what_is_one_level(labelled: Batch) -> None:
    """Neither sets nor turns become classes."""
    as_made_by_import(labelled)
    set_state(batch=labelled, state=Batch.State.CLOSED)
    release = cut_release(ReleaseSpec(name="kinds-gold", batches=[labelled]))
    training_set = build_training_set(release, labelled.guideline)
    assert {name for example in training_set.examples for name in dict(example.labels)} == {"harm"}


def test_a_posterior_of_sets_is_refused(lin: Person, chen: Person) -> None:
    corpus = make_corpus(prompts=2, models=["Hidden-13B"])
    with pytest.raises(AssayError, match="topics, empathy"):
        make_batch(
            make_guideline(), corpus, annotators=[lin, chen], policy=Policy(overlap=2, settling="aggregate")
        )
