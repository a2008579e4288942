"""Slates from the set to the gold label: assigned in an order of each person's own, judged, disputed, released."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from annotation.core.errors import AssayError, Unprocessable
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.domain.datasets import response_sha256
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    Annotation,
    Assignment,
    Batch,
    Collection,
    EvaluatedModel,
    GoldLabel,
    Guideline,
    Person,
    Response,
    Slate,
    SlateEntry,
    Task,
)
from annotation.selectors.access import select_models
from annotation.selectors.adjudication import build_dispute
from annotation.selectors.agreement import LabelPatterns
from annotation.selectors.agreement.slates import list_slate_agreement
from annotation.selectors.assignments.items import build_item
from annotation.selectors.datasets import list_dataset_rows, list_models
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_dispute, claim_next_task
from annotation.services.batches.batches import create_batch, filter_responses
from annotation.services.guidelines import load_guideline
from annotation.services.releases import cut_release
from annotation.services.slates import SlateSpec, make_slates
from tests.annotation.slates import BEST, MODELS, load_shipped, make_slate_batch, slate_document
from tests.support import label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def preference() -> Guideline:
    return load_shipped("preference")


def answer(batch: Batch, person: Person, value: int, **more: object) -> Assignment:
    assignment = claim_next_task(batch=batch, person=person)
    assert assignment is not None
    submit(
        assignment_id=assignment.pk,
        person=person,
        key=str(uuid4()),
        work=Submission(labels={"best": value, **more}),
    )
    return assignment


def test_slates_are_made_of_the_responses_to_each_prompt() -> None:
    dataset = make_corpus(prompts=6, models=MODELS)
    made = make_slates(SlateSpec(name="set", dataset=dataset, seed=3))
    assert (made.counts.slates, made.counts.prompts, made.counts.sizes) == (6, 6, ((3, 6),))
    assert [pair.slates for pair in made.counts.pairs] == [6, 6, 6]
    places = Counter(SlateEntry.objects.values_list("response__model__name", "place"))
    assert set(places.values()) == {2}
    for slate in Slate.objects.select_related("response__prompt"):
        entries = [entry.response for entry in slate.entries.order_by("place")]
        assert slate.response.sha256 == response_sha256("", slate.response.turns)
        assert [turn["text"] for turn in slate.response.turns] == [entry.text for entry in entries]
        assert {entry.prompt for entry in entries} == {slate.response.prompt}
        assert slate.response.model.name == " | ".join(sorted(MODELS))
    with pytest.raises(AssayError, match="already a collection"):
        make_slates(SlateSpec(name="set", dataset=dataset))


def test_slates_count_as_no_responses_and_no_models() -> None:
    dataset = make_corpus(prompts=2, models=MODELS)
    make_slates(SlateSpec(name="set", dataset=dataset))
    assert [row.responses for row in list_dataset_rows()] == [6]
    assert {model.name for model in list_models(dataset)} == set(MODELS) == {m.name for m in select_models()}


def test_the_same_seed_makes_the_same_slates() -> None:
    hashes = []
    for name in ("one", "two"):
        dataset = make_corpus(prompts=5, models=MODELS, name=name)
        make_slates(SlateSpec(name=f"{name}-s", dataset=dataset, seed=11, pairs="balanced"))
        of_set = Response.objects.filter(collection__name=f"{name}-s").order_by("prompt__key")
        hashes.append(list(of_set.values_list("sha256", flat=True)))
    assert hashes[0] == hashes[1]


def test_samples_of_one_model_stand_side_by_side() -> None:
    dataset = make_corpus(prompts=3, models=["Hidden-13B"])
    model = EvaluatedModel.objects.get(name="Hidden-13B")
    for sample in (1, 2, 3):
        collection = Collection.objects.create(name=f"s-{sample}")
        for prompt in dataset.prompts.all():
            text = f"Sample {sample}" if prompt.key != "p2" else "The same"
            Response.objects.create(
                prompt=prompt,
                model=model,
                collection=collection,
                text=text,
                sha256=response_sha256(text, []),
            )
    made = make_slates(SlateSpec(name="set", dataset=dataset, collections=["s-1", "s-2", "s-3"]))
    assert (made.counts.slates, made.incomplete, made.same) == (2, 0, 1)
    held = Response.objects.filter(slate__isnull=False).select_related("model")
    assert {response.model.name for response in held} == {"Hidden-13B@s-1 | Hidden-13B@s-2 | Hidden-13B@s-3"}
    all_slates = make_slates(
        SlateSpec(name="all", dataset=dataset, collections=["s-1", "s-2", "s-3"], keep_same=True)
    )
    assert all_slates.counts.slates == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"models": ["Hidden-13B", "nobody"]}, "no responses of nobody"),
        ({"collections": ["none"]}, "no responses of none"),
        ({"models": ["Hidden-13B"]}, "2 to 5 responses, and not 1"),
    ],
)
def test_what_makes_no_slate_is_said(changes: dict[str, list[str]], words: str) -> None:
    dataset = make_corpus(prompts=2, models=MODELS)
    with pytest.raises(AssayError, match=words):
        make_slates(SlateSpec(name="set", dataset=dataset, **changes))
    assert not Collection.objects.filter(name="set").exists()


def test_guidelines_and_slates_must_fit(preference: Guideline, guideline: Guideline, lin: Person) -> None:
    dataset = make_corpus(prompts=2, models=MODELS)
    make_slates(SlateSpec(name="set", dataset=dataset))
    with pytest.raises(AssayError, match="is for slates"):
        make_batch(preference, dataset, annotators=[lin], policy=Policy(overlap=1))
    with pytest.raises(AssayError, match="is for single responses"):
        create_batch(
            BatchSpec(
                name="x",
                guideline=guideline,
                dataset=dataset,
                collection="set",
                annotators=[lin],
                policy=Policy(overlap=1),
            )
        )
    assert make_batch(guideline, dataset, annotators=[lin], policy=Policy(overlap=1)).tasks.count() == 6


@pytest.mark.both_databases
def test_each_entry_stands_at_each_position_equally_often(
    preference: Guideline, lin: Person, chen: Person
) -> None:
    batch = make_slate_batch(
        preference, annotators=[lin, chen], prompts=9, policy=Policy(overlap=2, lease_seconds=60)
    )
    assert batch.of_slates
    for person in (lin, chen):
        positions: Counter[tuple[str, int]] = Counter()
        for _item in range(9):
            assignment = answer(batch, person, 1)
            item = build_item(Assignment.objects.select_related("batch").get(pk=assignment.pk))
            assert "".join(map(str, item.order.places)) == assignment.shown_order
            positions.update((place, position) for position, place in enumerate(item.order.places))
        assert set(positions.values()) == {3}


def test_an_order_stays_when_an_item_comes_back(preference: Guideline, lin: Person, chen: Person) -> None:
    batch = make_slate_batch(preference, annotators=[lin, chen], prompts=4)
    first = claim_next_task(batch=batch, person=lin)
    assert first is not None
    Assignment.objects.filter(pk=first.pk).update(lease_expires=first.claimed_at)
    retaken = claim_next_task(batch=batch, person=lin)
    assert retaken is not None
    assert (retaken.pk, retaken.shown_order) == (first.pk, first.shown_order)


def test_labels_name_entries_and_settle_by_them(
    preference: Guideline, lin: Person, chen: Person, wu: Person
) -> None:
    batch = make_slate_batch(preference, annotators=[lin, chen], adjudicators=[wu], prompts=4)
    with pytest.raises(Unprocessable, match="cannot be 4"):
        answer(batch, lin, 4)
    for value in (3, -1, 1, 2):
        answer(batch, lin, value)
    for value in (3, -1, 1, 3):
        answer(batch, chen, value)
    assert dict(GoldLabel.objects.values_list("task__position", "value")) == {0: 3, 1: -1, 2: 1}
    dispute = claim_next_dispute(batch=batch, person=wu)
    assert dispute is not None
    record_verdict(assignment_id=dispute.pk, person=wu, work=Submission(labels={"best": 2}))
    built = build_dispute(Assignment.objects.select_related("batch").get(pk=dispute.pk))
    assert sorted(built.item.order.places) == [1, 2, 3]
    assert {side.labels["best"] for side in built.sides} == {2, 3}
    adjudicate(
        assignment_id=dispute.pk,
        person=wu,
        key="k",
        work=Submission(labels={"best": 3}, reason="guideline_unclear"),
    )
    assert GoldLabel.objects.get(task=dispute.task).source == "adjudicated"


def test_the_release_carries_the_slate(preference: Guideline, lin: Person, chen: Person) -> None:
    batch = make_slate_batch(preference, annotators=[lin, chen], prompts=2, models=MODELS[:2])
    for person in (lin, chen):
        for value in (1, 2):
            answer(batch, person, value)
    release = cut_release(ReleaseSpec(name="r", batches=[batch.pk]))
    assert release.labels == 2
    hashes = set(Task.objects.filter(batch=batch).values_list("response__sha256", flat=True))
    assert hashes == set(Slate.objects.values_list("response__sha256", flat=True))


def test_the_own_answer_is_asked_where_nothing_is_good(lin: Person) -> None:
    batch = make_slate_batch(
        load_shipped("cvalues_best"), annotators=[lin], policy=Policy(overlap=1), prompts=4
    )
    for labels in ({"best": 0}, {"best": 2, "score": 4}):
        with pytest.raises(Unprocessable, match="own_answer"):
            answer(batch, lin, labels.pop("best"), **labels)
    with pytest.raises(Unprocessable, match="own_answer"):
        answer(batch, lin, 2, score=5, own_answer="Needless")
    with pytest.raises(Unprocessable, match="score"):
        answer(batch, lin, 0, score=5, own_answer="Mine")
    answer(batch, lin, 2, score=5)
    answer(batch, lin, 0, own_answer="Mine")
    answer(batch, lin, 1, score=4, own_answer="Better")
    assert [annotation.texts for annotation in Annotation.objects.order_by("pk")] == [
        {},
        {"own_answer": "Mine"},
        {"own_answer": "Better"},
    ]


def test_nobody_judges_a_slate_with_a_model_of_theirs(preference: Guideline, lin: Person) -> None:
    batch = make_slate_batch(preference, annotators=[lin], policy=Policy(overlap=1), prompts=4)
    lin.own_models.add(EvaluatedModel.objects.get(name=MODELS[1]))
    assert claim_next_task(batch=batch, person=lin) is None


@pytest.mark.both_databases
def test_the_database_keeps_slates_whole(preference: Guideline, lin: Person) -> None:
    make_slate_batch(preference, annotators=[lin], policy=Policy(overlap=1), prompts=4)
    entry = SlateEntry.objects.order_by("pk")[0]
    other = Response.objects.filter(slate=None).exclude(slate_entries__slate=entry.slate)[0]
    for changes in (
        {"place": entry.place, "response": other},
        {"place": 4, "response": entry.response},
        {"place": 0, "response": other},
        {"place": 6, "response": other},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            SlateEntry.objects.create(slate=entry.slate, **changes)


def test_commands_make_slates_and_a_batch_of_them(
    preference: Guideline, lin: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    make_corpus(prompts=2, models=MODELS)
    call_command("make_slates", "set", "--dataset", "small", "--pairs", "all", "--seed", "2")
    assert "6 slates to 2 prompts: 6 of 2 responses" in capsys.readouterr().out
    call_command(
        *("create_batch", "b", "--guideline", "preference", "--dataset", "small", "--slates", "set"),
        *("--annotators", "lin", "--overlap", "1"),
    )
    assert Batch.objects.get(name="b").tasks.count() == 6


def test_responses_on_slates_are_labelled_alone_as_before(guideline: Guideline, lin: Person) -> None:
    dataset = make_corpus(prompts=1, models=MODELS)
    make_slates(SlateSpec(name="set", dataset=dataset))
    batch = make_batch(guideline, dataset, annotators=[lin], policy=Policy(overlap=1))
    assert not batch.of_slates
    label_next(batch, lin, 3)
    assert Assignment.objects.get(batch=batch).shown_order == ""


def test_pandalm_is_replayed_as_slates(shared: Path, preference: Guideline) -> None:
    file = str(shared / "pandalm" / "testset_even.json")
    call_command("import_prompts", file, "--dataset", "pandalm", "--format", "pandalm")
    call_command("import_responses", file, "--dataset", "pandalm", "--format", "pandalm")
    call_command("make_slates", "pairs", "--dataset", "pandalm", "--pairs", "all", "--keep-same")
    labels = ("import_annotations", file, "--batch", "pandalm", "--format", "pandalm")
    made = ("--guideline", "preference", "--dataset", "pandalm", "--slates", "pairs", "--overlap", "3")
    call_command(*labels, *made, "--settling", "majority")
    call_command(*labels)  # the same file once more changes nothing
    assert Annotation.objects.count() == 1500
    sources = Counter(GoldLabel.objects.values_list("source", flat=True))
    assert sources["unanimous"] == 437


def test_agreement_on_slates_is_measured_with_ties_apart(
    preference: Guideline, lin: Person, chen: Person
) -> None:
    batch = make_slate_batch(preference, annotators=[lin, chen], prompts=6, models=MODELS[:2])
    for person, values in ((lin, (1, 2, -1, 1, 2, 1)), (chen, (1, 1, -1, -1, 2, 1))):
        for value in values:
            answer(batch, person, value)
    (row,) = [row.to_json() for row in list_slate_agreement(LabelPatterns([batch]))]
    assert (row["every"]["n"], row["every"]["disputed"]) == (6, 2)
    assert row["every"]["percent_agreement"]["value"] == pytest.approx(4 / 6)
    assert (row["decided"]["n"], row["decided"]["disputed"]) == (4, 1)
    assert row["decided"]["percent_agreement"]["value"] == pytest.approx(3 / 4)


def test_agreement_on_rankings_is_kendalls_w(lin: Person, chen: Person) -> None:
    ranking = {**BEST, "name": "order", "entries": "ranking", "ties": True}
    document = slate_document() | {"criteria": [{**BEST, "ties": True}, ranking]}
    guideline = load_guideline(text=json.dumps(document), path="slates.yaml", publish=True)
    batch = make_slate_batch(guideline, annotators=[lin, chen], prompts=2)
    for person, values in ((lin, (123, 112)), (chen, (132, 112))):
        for value in values:
            answer(batch, person, 1, order=value)
    rows = {row.counted.criterion: row.to_json() for row in list_slate_agreement(LabelPatterns([batch]))}
    # Of 1, 2, 3 and 1, 3, 2: sums of squares 4 of 4 between them 3; of two equal rankings with a tie 3 of 3.
    assert rows["order"]["kendall_w"]["value"] == pytest.approx((3 + 3) / (4 + 3))
    assert rows["order"]["chance"] == pytest.approx(1 / 2)
    assert rows["order"]["n"] == 2
    assert rows["best"]["every"]["n"] == 2


def test_a_batch_may_be_of_the_slates_of_some_models(preference: Guideline, lin: Person) -> None:
    dataset = make_corpus(prompts=3, models=MODELS)
    make_slates(SlateSpec(name="set", dataset=dataset, pairs="all"))
    models = list(EvaluatedModel.objects.filter(name=MODELS[0]))
    of_model = filter_responses(dataset=dataset, models=models, collection="set")
    assert of_model.count() == 6
    assert filter_responses(dataset=dataset, models=models).count() == 3
