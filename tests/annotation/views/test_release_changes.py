from __future__ import annotations

import csv
import json
import random
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.domain.releases.canonical import LabelKey
from annotation.models import Batch, Dataset, GoldRelease, Guideline, Person, Response, Task
from annotation.models.sql.releases import LabelChange
from annotation.selectors.releases.comparison import (
    compare_releases,
    iterate_changes,
    iterate_csv_lines,
    list_changes,
)
from annotation.services.batches.batches import set_state
from annotation.services.guidelines import load_guideline
from annotation.services.people.people import set_roles
from annotation.services.releases import cut_release
from tests.support import XSTEST_GUIDELINE, decide_next, label_next, make_batch

pytestmark = [pytest.mark.django_db]


def single(guideline: Guideline, dataset: Dataset, person: Person, name: str, values: list[int]) -> Batch:
    """A batch of one annotator each, whose first tasks got these values."""
    batch = make_batch(guideline, dataset, annotators=[person], name=name, policy=Policy(overlap=1))
    for value in values:
        label_next(batch, person, value)
    return batch


def held(release: GoldRelease) -> dict[LabelKey, tuple[str, float, str]]:
    """What a release holds by the key, written anew in Python: the version, the value and the source."""
    labels = {}
    for label in release.items.select_related(
        "task__batch__guideline", "task__response__model", "task__response__prompt__dataset"
    ):
        response, guideline = label.task.response, label.task.batch.guideline
        prompt = response.prompt
        about = (prompt.dataset.name, prompt.key, response.model.name, response.sha256, label.criterion)
        labels[LabelKey(guideline.name, *about)] = (guideline.version, label.value, label.source)
    return labels


def kinds(before: GoldRelease, after: GoldRelease) -> dict[LabelKey, str]:
    """The kind of each change, by comparing the two mappings."""
    old, new = held(before), held(after)
    kinds_by_label = {}
    for key in old.keys() | new.keys():
        if old.get(key) == new.get(key):
            continue
        if key not in old or key not in new:
            kinds_by_label[key] = "added" if key not in old else "removed"
        else:
            parts = zip(("version", "value", "source"), old[key], new[key], strict=True)
            differing = {name for name, first, other in parts if first != other}
            kinds_by_label[key] = next(name for name in ("value", "source", "version") if name in differing)
    return kinds_by_label


def describe_changes(changes: list[LabelChange]) -> list[tuple[str, str, str]]:
    return sorted((change.kind, change.prompt, change.model) for change in changes)


@pytest.fixture
def world(guideline: Guideline, dataset: Dataset, lin: Person, chen: Person) -> tuple[GoldRelease, ...]:
    """Three releases: of one batch early, of the same batch later, and of another batch over the same responses."""
    first = single(guideline, dataset, lin, "one", [1, 2, 3])
    early = cut_release(ReleaseSpec(name="early", batches=[first]))
    label_next(first, lin, 1)
    later = cut_release(ReleaseSpec(name="later", batches=[first]))
    other = single(guideline, dataset, chen, "other", [1, 3, 3, 1, 2])
    return early, later, cut_release(ReleaseSpec(name="other", batches=[other]))


@pytest.mark.both_databases
def test_what_a_later_release_of_the_same_batch_adds(world: tuple[GoldRelease, ...]):
    early, later, _other = world
    changes = compare_releases(early, later)
    # Three labels stay, the fourth is new.
    assert (changes.same, changes.count(), changes.count("added")) == (3, 1, 1)
    assert [change.kind for change in iterate_changes(early, later)] == ["added"]
    back = compare_releases(later, early)
    assert (back.same, back.count("removed")) == (3, 1)


@pytest.mark.both_databases
def test_labels_of_other_tasks_are_matched_by_what_they_are_about(world: tuple[GoldRelease, ...]):
    _early, later, other = world
    counted = compare_releases(later, other)
    # 1 2 3 1 and 1 3 3 1 2: the second differs, the fifth is new.
    assert (counted.same, counted.count("value"), counted.count("added"), counted.count()) == (3, 1, 1, 2)
    assert counted.moves() == [("compliance", 2, 3, 1)]
    listed = list(iterate_changes(later, other))
    assert describe_changes(listed) == sorted(
        (kind, key.prompt, key.model) for key, kind in kinds(later, other).items()
    )
    changed = next(change for change in listed if change.kind == "value")
    assert changed.before is not None
    assert changed.after is not None
    assert (changed.before.value, changed.after.value) == (2, 3)
    assert Task.objects.get(pk=changed.before.task).batch.name == "one"
    assert Task.objects.get(pk=changed.after.task).batch.name == "other"


@pytest.mark.both_databases
def test_a_change_of_source_or_of_version_alone_is_one_too(
    batch: Batch, dataset: Dataset, guideline: Guideline, lin: Person, chen: Person, zhou: Person, wu: Person
):
    for person in (lin, chen):
        label_next(batch, person, 1)
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    decide_next(batch, wu, 1)
    first = cut_release(ReleaseSpec(name="first", batches=[batch]))
    single_release = single(guideline, dataset, zhou, "alone", [1, 1])
    second = cut_release(ReleaseSpec(name="second", batches=[single_release]))
    assert describe_changes(list(iterate_changes(first, second))) == sorted(
        (kind, key.prompt, key.model) for key, kind in kinds(first, second).items()
    )
    assert compare_releases(first, second).count("source") == 2
    text = XSTEST_GUIDELINE.path.read_text(encoding="utf-8")
    newer = load_guideline(
        text=text.replace(f'version: "{guideline.version}"', 'version: "9.9"'),
        path="newer.yaml",
        publish=True,
    )
    third = cut_release(ReleaseSpec(name="third", batches=[single(newer, dataset, zhou, "newer", [1, 1])]))
    assert (compare_releases(second, third).count("version"), compare_releases(second, third).count()) == (
        2,
        2,
    )
    assert second.sha256 != third.sha256


@pytest.mark.both_databases
def test_any_two_releases_differ_as_their_labels_do(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, zhou: Person
):
    chance = random.Random(7)
    batches = [
        single(guideline, dataset, person, person.username, [chance.choice([1, 2, 3]) for _ in range(count)])
        for person, count in ((lin, 3), (chen, 8), (zhou, 5))
    ]
    releases = [cut_release(ReleaseSpec(name=batch.name, batches=[batch])) for batch in batches]
    for before in releases:
        for after in releases:
            expected = kinds(before, after)
            assert describe_changes(list(iterate_changes(before, after))) == sorted(
                (kind, key.prompt, key.model) for key, kind in expected.items()
            )
            counted = compare_releases(before, after)
            assert counted.count() == len(expected)
            assert counted.same == len(held(before).keys() & held(after).keys()) - sum(
                kind in {"value", "source", "version"} for kind in expected.values()
            )
            assert (counted.count() == 0) == (before.sha256 == after.sha256)


def test_pages_and_filters_are_parts_of_all_changes(world: tuple[GoldRelease, ...]):
    _early, later, other = world
    every = list(iterate_changes(later, other))
    assert [list_changes(later, other, {}, start=at, count=1) for at in range(3)] == [
        [every[0]],
        [every[1]],
        [],
    ]
    assert describe_changes(
        list_changes(later, other, {"kind": "value"}, start=0, count=9)
    ) == describe_changes([change for change in every if change.kind == "value"])
    assert list_changes(later, other, {"criterion": "none"}, start=0, count=9) == []
    lines = list(csv.DictReader(StringIO("".join(iterate_csv_lines(every)))))
    assert [(line["change"], line["value.before"], line["value.after"]) for line in lines] == [
        (
            change.kind,
            f"{change.before.value:g}" if change.before else "",
            f"{change.after.value:g}" if change.after else "",
        )
        for change in every
    ]


def test_a_release_without_agreement_of_old_still_compares(
    client: Client, world: tuple[GoldRelease, ...], he: Person
):
    early, _later, _other = world
    counts = {name: early.manifest["counts"][name] for name in OLD_COUNTS}
    guidelines = [
        {name: g[name] for name in ("name", "version", "sha256")} for g in early.manifest["guidelines"]
    ]
    old = {name: early.manifest[name] for name in OLD_KEYS} | {"counts": counts, "guidelines": guidelines}
    GoldRelease.objects.filter(pk=early.pk).update(manifest=old)
    client.force_login(he)
    for name in ("release", "release-labels", "release-datasheet", "release-compare"):
        assert client.get(reverse(name, args=["early"])).status_code == 200, name
    page = client.get(reverse("release-compare", args=["early"]), {"with": "later"}).content.decode()
    assert "Agreement of the annotators" in page
    assert call(["early", "later"])["agreement"][0]["before"] is None


# What a manifest held before it had a schema.
OLD_KEYS = ("name", "sha256", "created", "code_version", "batches", "datasets")
OLD_COUNTS = ("rows", "labels", "adjudicated", "by_dimension", "by_model", "by_source", "by_level")


def call(arguments: list[str]) -> dict[str, object]:
    out = StringIO()
    call_command("compare_releases", *arguments, "--json", stdout=out)
    answer: dict[str, object] = json.loads(out.getvalue())
    return answer


def test_the_command_tells_counts_and_writes_every_change(world: tuple[GoldRelease, ...], tmp_path: Path):
    output = call(["later", "other", "--changes", str(tmp_path / "changes.csv")])
    assert {name: output[name] for name in ("same", "value", "source", "version", "added", "removed")} == {
        "same": 3,
        "value": 1,
        "source": 0,
        "version": 0,
        "added": 1,
        "removed": 0,
    }
    assert output["values"] == [{"criterion": "compliance", "before": 2, "after": 3, "labels": 1}]
    assert len((tmp_path / "changes.csv").read_text(encoding="utf-8").splitlines()) == 3
    out = StringIO()
    call_command("compare_releases", "later", "other", stdout=out)
    assert "changed in value: 1" in out.getvalue()


def test_the_page_lists_what_changed_and_leads_to_the_tasks(
    client: Client, world: tuple[GoldRelease, ...], he: Person
):
    _early, later, other = world
    client.force_login(he)
    address = reverse("release-compare", args=["other"])
    page = client.get(address, {"with": "later"}).content.decode()
    for change in iterate_changes(later, other):
        for side in (change.before, change.after):
            assert side is None or f'href="{reverse("task", args=[side.task])}"' in page
    assert "2 Partial refusal" in page
    narrowed = client.get(address, {"with": "later", "kind": "added"}).content.decode()
    assert narrowed.count("/tasks/") == 1
    assert client.get(address, {"with": "nobody"}).status_code == 404
    file = client.get(reverse("release-changes", args=["other"]), {"with": "later"})
    assert len(b"".join(file.streaming_content).splitlines()) == 3  # type: ignore[attr-defined]


def test_whoever_is_blind_to_one_of_the_two_compares_nothing(
    client: Client, world: tuple[GoldRelease, ...], chen: Person, dataset: Dataset
):
    set_roles(person=chen, roles=["researcher"])
    set_state(batch=Batch.objects.get(name="one"), state=Batch.State.CLOSED)
    client.force_login(chen)
    for name in ("release-compare", "release-changes"):
        refused = client.get(reverse(name, args=["later"]), {"with": "other"})
        assert refused.status_code == 403
        assert b"Secretive-7B" not in refused.content


def test_hostile_texts_are_shown_and_not_run(client: Client, world: tuple[GoldRelease, ...], he: Person):
    _early, later, other = world
    changed = next(change for change in iterate_changes(later, other) if change.kind == "value")
    assert changed.after is not None
    response = Response.objects.get(tasks=changed.after.task)
    type(response.prompt).objects.filter(pk=response.prompt_id).update(text="<img src=x onerror=alert(1)>")
    client.force_login(he)
    page = client.get(reverse("release-compare", args=["other"]), {"with": "later"}).content.decode()
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page
