"""Releases of slates as files: preferences, best answers, and the formats that any release has."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

from annotation.core.errors import AssayError, Conflict
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Collection, GoldLabel, GoldRelease, Person, Response, SlateEntry
from annotation.selectors.access import select_models
from annotation.selectors.releases.rows import ReleaseContent
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import create_batch, set_state
from annotation.services.exports import WRITERS, Options, export_release
from annotation.services.exports.base import ExportSpec
from annotation.services.exports.formats import get_writer
from annotation.services.own_answers import make_expert_responses
from annotation.services.releases import cut_release
from tests.annotation.services.test_bundle import arrives, elsewhere, packed
from tests.annotation.slates import MODELS, load_shipped, make_slate_batch
from tests.support import add_role, label_next, make_batch, make_corpus, read_introduction

pytestmark = pytest.mark.django_db


def say(batch: Batch, person: Person, **labels: object) -> None:
    assignment = claim_next_task(batch=batch, person=person)
    assert assignment is not None
    submit(assignment_id=assignment.pk, person=person, key=str(uuid4()), work=Submission(labels=labels))


def cut(batch: Batch) -> GoldRelease:
    return cut_release(ReleaseSpec(name="r", batches=[batch.pk]))


def export(release: GoldRelease, name: str, folder: Path, **options: Any) -> list[list[dict[str, Any]]]:
    done = export_release(release=release, format_name=name, folder=str(folder), options=Options(**options))
    written = [folder / file.name for file in done.files if file.name.endswith(".jsonl")]
    return [[json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in written]


@pytest.fixture
def release(lin: Person, chen: Person) -> GoldRelease:
    """Of three slates of three: entry 2 is the best, a tie, entry 1 is the best."""
    batch = make_slate_batch(load_shipped("preference"), annotators=[lin, chen], prompts=3)
    for person in (lin, chen):
        for value in (2, -1, 1):
            say(batch, person, best=value)
    return cut(batch)


def test_pairs_of_a_choice_and_of_a_tie(release: GoldRelease, tmp_path: Path) -> None:
    preferences, ties = export(release, "preferences", tmp_path, real_names=True)
    assert len(preferences) == 4
    assert len(ties) == 3
    task = release.items.get(value=2).task
    entries = [entry.response for entry in task.response.slate.entries.order_by("place")]
    first = [line for line in preferences if line["slate_sha256"] == task.response.sha256]
    assert {line["chosen"] for line in first} == {entries[1].text}
    assert {line["rejected"] for line in first} == {entries[0].text, entries[2].text}
    assert {line["prompt"] for line in first} == {task.prompt.text}
    assert first[0]["chosen_model"] == entries[1].model.name
    assert first[0]["labels"] == [
        {"annotator": name, "label": entries[1].model.name} for name in ("lin", "chen")
    ]
    assert first[0]["source"] == "unanimous"
    assert {line["labels"][0]["label"] for line in ties} == {"tie"}


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_every_format_holds_the_release(name: str, release: GoldRelease, tmp_path: Path) -> None:
    done = export_release(release=release, format_name=name, folder=str(tmp_path), options=Options())
    assert done.labels == 3


def test_a_changed_line_is_found(release: GoldRelease, tmp_path: Path) -> None:
    export(release, "preferences", tmp_path)
    writer, spec = get_writer("preferences"), ExportSpec(ReleaseContent(release), Options())
    path = tmp_path / "preferences.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    writer.check(tmp_path, spec, lambda _done: None)
    for changed in (lines[:-1], [*lines, lines[0]], [lines[0].replace("chosen", "Chosen"), *lines[1:]]):
        path.write_text("".join(changed), encoding="utf-8")
        with pytest.raises(Conflict):
            writer.check(tmp_path, spec, lambda _done: None)


def test_an_own_answer_is_better_than_the_best(lin: Person, tmp_path: Path) -> None:
    batch = make_slate_batch(
        load_shipped("cvalues_best"), annotators=[lin], prompts=3, models=MODELS[:2], policy=Policy(overlap=1)
    )
    say(batch, lin, best=1, score=9)
    say(batch, lin, best=0, own_answer="None of these, but this.")
    say(batch, lin, best=2, score=3, own_answer="Better so.")
    (answers,) = export(cut(batch), "sft", tmp_path)
    assert [(line["completion"], line["source"]) for line in answers[1:]] == [
        ("None of these, but this.", "own_answer"),
        ("Better so.", "own_answer"),
    ]
    assert answers[0]["author"] in MODELS
    assert answers[0]["prompt"] == "Question number 0?"


def test_a_release_of_single_responses_has_no_preferences(
    guideline: Any, lin: Person, tmp_path: Path
) -> None:
    dataset = make_corpus(prompts=1, models=MODELS[:1])
    batch = make_batch(guideline, dataset, annotators=[lin], policy=Policy(overlap=1))
    label_next(batch, lin, 3)
    with pytest.raises(AssayError, match="has no slates"):
        export(cut(batch), "preferences", tmp_path)


def test_answers_of_experts_become_responses_that_others_judge(
    guideline: Any, lin: Person, chen: Person, wu: Person
) -> None:
    batch = make_slate_batch(load_shipped("cvalues_best"), annotators=[lin, chen], prompts=2)
    with pytest.raises(Conflict, match="Close the batch"):
        make_expert_responses(batch=batch)
    for person in (lin, chen):
        say(batch, person, best=0, own_answer=f"Of {person.username}.")
        say(batch, person, best=1, score=9)
    set_state(batch=batch, state=Batch.State.CLOSED)
    batch.refresh_from_db()
    other = Collection.objects.create(name=f"{batch.name}-2")
    with pytest.raises(Conflict, match=f"collection named {batch.name}-2"):
        make_expert_responses(batch=batch)
    assert not Response.objects.filter(model__name="expert").exists()
    other.delete()
    made = make_expert_responses(batch=batch)
    assert (made.responses, made.authors, made.collections) == (2, 2, (batch.name, f"{batch.name}-2"))
    with pytest.raises(Conflict, match="already a collection"):
        make_expert_responses(batch=batch)
    written = Response.objects.filter(model__name="expert").order_by("pk")
    assert [response.text for response in written] == ["Of lin.", "Of chen."]
    judged = create_batch(
        BatchSpec(
            name="judged",
            guideline=guideline,
            dataset=written[0].prompt.dataset,
            collection=batch.name,
            annotators=[lin, wu],
            policy=Policy(overlap=1),
        )
    )
    read_introduction(judged)
    add_role(wu, "annotator")
    assert claim_next_task(batch=judged, person=lin) is None
    assert claim_next_task(batch=judged, person=wu) is not None


def test_a_bundle_takes_slates_to_another_site(release: GoldRelease, tmp_path: Path) -> None:
    def describe() -> dict[str, Any]:
        entries = SlateEntry.objects.order_by("slate__response__sha256", "place")
        return {
            "entries": list(
                entries.values_list(
                    "slate__response__sha256", "place", "response__text", "response__model__name"
                )
            ),
            "models": sorted(model.name for model in select_models()),
        }

    def arrive() -> tuple[str, dict[str, Any]]:
        release_there, _report = arrives(source)
        return release_there.sha256, describe()

    source = packed(release, tmp_path)
    before = describe()
    assert before["models"] == sorted(MODELS)
    assert elsewhere(arrive) == (release.sha256, before)


def test_exported_preferences_come_back_as_slates(release: GoldRelease, tmp_path: Path) -> None:
    export(release, "preferences", tmp_path, real_names=True)
    files = [str(tmp_path / name) for name in ("preferences.jsonl", "ties.jsonl")]
    values = sorted(GoldLabel.objects.values_list("task__prompt__key", "value"))
    winners = read_winners()

    def arrive() -> tuple[object, object]:
        load_shipped("preference")
        for command in ("import_prompts", "import_responses"):
            for file in files:
                call_command(command, file, "--dataset", "back", "--format", "preferences", stdout=StringIO())
        call_command("make_slates", "again", "--dataset", "back", "--seed", "0", stdout=StringIO())
        call_command(
            *("import_annotations", *files, "--batch", "back", "--format", "preferences"),
            *("--guideline", "preference", "--dataset", "back", "--slates", "again"),
            stdout=StringIO(),
        )
        return sorted(GoldLabel.objects.values_list("task__prompt__key", flat=True)), read_winners()

    assert elsewhere(arrive) == ([key for key, _value in values], winners)


def read_winners() -> list[tuple[str, str]]:
    """By prompt the preferred model, or a tie."""
    rows = []
    for gold in GoldLabel.objects.select_related("task__prompt", "task__response__slate"):
        entry = gold.task.response.slate.entries.filter(place=gold.value).first()
        rows.append((gold.task.prompt.key, entry.response.model.name if entry else "tie"))
    return sorted(rows)
