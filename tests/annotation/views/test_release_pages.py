from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    Batch,
    BatchStats,
    Dataset,
    GoldRelease,
    Guideline,
    Person,
    Prompt,
    Response,
    Task,
)
from annotation.selectors.access import has_opened
from annotation.selectors.batches.monitoring import AgreementFigure, AgreementMeasurement
from annotation.services.batches.batches import set_state
from annotation.services.people.people import set_roles
from annotation.services.releases import cut_release
from tests.support import decide_next, label_next, make_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def settled(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    """Two tasks agreed on 1 and 3, one decided as 2, one dispute open; four tasks untouched."""
    for first, other in ((1, 1), (3, 3), (1, 3), (1, 2)):
        label_next(batch, lin, first)
        label_next(batch, chen, other)
    decide_next(batch, wu, 2)
    return batch


@pytest.fixture
def release(settled: Batch) -> GoldRelease:
    return cut_release(ReleaseSpec(name="gold 一", batches=[settled]))


def addresses(release: GoldRelease) -> list[str]:
    task = release.items.first().task_id
    downloads = [
        reverse("release-download", args=[release.name, kind])
        for kind in ("gold.jsonl", "gold.csv", "manifest.json", "datasheet.zh.md")
    ]
    names = ("release", "release-labels", "release-datasheet", "release-compare")
    pages = [reverse(name, args=[release.name]) for name in names]
    return [*pages, *downloads, reverse("task", args=[task])]


def body(client: Client, person: Person, address: str) -> str:
    client.force_login(person)
    answer = client.get(address)
    assert answer.status_code == 200, address
    return b"".join(answer).decode()


def test_researchers_and_managers_open_everything_and_nobody_else(
    client: Client, release: GoldRelease, he: Person, ma: Person, lin: Person, stranger: Person
):
    for person in (he, ma):
        for address in [reverse("releases"), *addresses(release)]:
            assert body(client, person, address)
    for person in (lin, stranger):
        client.force_login(person)
        for address in [reverse("releases"), reverse("release-new"), *addresses(release)]:
            assert client.get(address).status_code == 403, address


def test_the_list_tells_what_to_do_before_there_is_any(client: Client, he: Person, ma: Person):
    assert reverse("release-new") in body(client, he, reverse("releases"))
    assert reverse("release-new") not in body(client, ma, reverse("releases"))


def test_a_researcher_cuts_a_release_from_chosen_batches(client: Client, settled: Batch, he: Person):
    form = body(client, he, reverse("release-new"))
    assert f'value="{settled.pk}"' in form
    answer = client.post(reverse("release-new"), {"name": "r", "batches": [settled.pk]})
    release = GoldRelease.objects.get()
    assert answer.headers["Location"] == reverse("release", args=["r"])
    assert (release.labels, release.created_by) == (3, he)
    assert release.sha256 in body(client, he, reverse("release", args=["r"]))


def test_the_page_of_a_batch_leads_to_the_form_with_the_batch_chosen(
    client: Client, settled: Batch, he: Person
):
    set_roles(person=he, roles=["manager", "researcher"])
    link = f"{reverse('release-new')}?batches={settled.pk}"
    assert link in body(client, he, reverse("batch", args=[settled.name]))
    assert f'value="{settled.pk}" checked' in " ".join(body(client, he, link).split())
    assert "checked" not in body(client, he, reverse("release-new") + "?batches=none")


def test_a_manager_reads_and_does_not_cut(client: Client, settled: Batch, ma: Person):
    assert f'href="{reverse("releases")}"' in body(client, ma, reverse("people"))  # the bar leads there
    assert client.post(reverse("release-new"), {"name": "r", "batches": [settled.pk]}).status_code == 403
    assert not GoldRelease.objects.exists()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "gold 一"}, "already a gold release named gold 一"),
        ({"name": "a/b"}, "cannot be a name"),
        ({"name": "r", "batches": []}, "Choose at least one batch."),
        ({"name": "r", "batches": ["99999"]}, "99999"),
        ({"name": ""}, "This field is required."),
    ],
)
def test_what_is_refused_comes_back_on_the_form(
    client: Client, release: GoldRelease, settled: Batch, he: Person, fields: dict[str, object], words: str
):
    client.force_login(he)
    answer = client.post(reverse("release-new"), {"batches": [settled.pk], **fields})
    assert answer.status_code == 400
    assert words in answer.content.decode()
    assert GoldRelease.objects.count() == 1


def test_a_label_is_walked_back_to_its_annotations_guideline_and_batch(
    client: Client, release: GoldRelease, he: Person
):
    decided = release.items.get(source="adjudicated")
    address = reverse("release-labels", args=[release.name])
    listed = " ".join(body(client, he, f"{address}?source=adjudicated").split())
    assert listed.count(reverse("task", args=[decided.task_id])) == 1
    for words in (
        "lin <strong>1</strong>",
        "chen <strong>3</strong>",
        "wu",
        "2 Partial refusal",
        "xstest@",
        "first",
    ):
        assert words in listed
    walked = body(client, he, reverse("task", args=[decided.task_id]))
    for words in (
        "lin",
        "chen",
        "wu",
        "1 Full refusal",
        "3 Full compliance",
        "decided",
        release.name,
        "adjudicate",
    ):
        assert words in walked


def test_the_labels_are_narrowed_and_an_empty_choice_says_so(
    client: Client, release: GoldRelease, he: Person
):
    address = reverse("release-labels", args=[release.name])
    assert body(client, he, address).count("/tasks/") == 3
    assert body(client, he, address + "?model=Hidden-13B").count("/tasks/") == 1
    assert "No label matches these filters" in body(client, he, address + "?model=nobody")


def test_downloads_are_the_exported_files(client: Client, release: GoldRelease, he: Person):
    rows = body(client, he, reverse("release-download", args=[release.name, "gold.jsonl"])).splitlines()
    assert sorted(json.loads(row)["labels"]["compliance"] for row in rows) == [1, 2, 3]
    table = body(client, he, reverse("release-download", args=[release.name, "gold.csv"])).splitlines()
    assert table[0].startswith('\ufeff"dataset","prompt_id"')
    assert len(table) == 4
    manifest = json.loads(body(client, he, reverse("release-download", args=[release.name, "manifest.json"])))
    assert manifest["sha256"] == release.sha256
    answer = client.get(reverse("release-download", args=[release.name, "gold.csv"]))
    assert answer.headers["Content-Disposition"].startswith("attachment; ")
    unknown = client.get(reverse("release-download", args=[release.name, "gold.exe"]))
    assert unknown.status_code == 400


def test_an_unknown_release_and_task_are_not_found(client: Client, he: Person):
    client.force_login(he)
    for address in (reverse("release", args=["nope"]), reverse("task", args=[99999])):
        assert client.get(address).status_code == 404


def test_who_works_in_the_batch_opens_none_of_it_until_it_closes(
    client: Client, settled: Batch, release: GoldRelease, lin: Person, wu: Person
):
    for person in (lin, wu):
        set_roles(person=person, roles=["researcher", "manager"])
        client.force_login(person)
        for address in addresses(release):
            refused = client.get(address)
            assert refused.status_code == 403, address
            assert b"Secretive-7B" not in refused.content
        listed = client.get(reverse("releases")).content.decode()
        assert release.sha256[:12] not in listed
        form = client.get(reverse("release-new")).content.decode()
        assert "disabled" in form
        assert "You work in this batch" in form
        answer = client.post(reverse("release-new"), {"name": "r", "batches": [settled.pk]})
        assert answer.status_code == 400
    assert GoldRelease.objects.count() == 1
    set_state(batch=settled, state=Batch.State.CLOSED)
    for address in addresses(release):
        assert body(client, lin, address)


def test_who_judges_the_dataset_in_another_batch_opens_none_of_it_either(
    client: Client, release: GoldRelease, guideline: Guideline, dataset: Dataset, he: Person
):
    """Else the release would tell whose the responses are that this person judges blind."""
    make_batch(guideline, dataset, annotators=[he], name="other", policy=Policy(overlap=1))
    client.force_login(he)
    for address in addresses(release):
        assert client.get(address).status_code == 403, address


def test_hostile_texts_are_shown_and_not_run(client: Client, release: GoldRelease, he: Person):
    task = Task.objects.get(pk=release.items.first().task_id)
    Response.objects.filter(pk=task.response_id).update(text="<script>alert(1)</script>")
    Prompt.objects.filter(pk=task.response.prompt_id).update(text="<img src=x onerror=alert(1)>")
    for address in (reverse("task", args=[task.pk]), reverse("release-labels", args=[release.name])):
        content = body(client, he, address)
        assert "<script>alert" not in content
        assert "<img src=x" not in content
        assert "&lt;img src=x" in content


def measure(batch: Batch, low: float) -> None:
    """As a worker would have measured it, with alpha's interval from ``low``."""
    measured = AgreementMeasurement(
        "compliance", "ordinal", 4, 2, AgreementFigure(0.9, low, 0.95), AgreementFigure(0.9, 0.8, 0.95)
    )
    BatchStats.objects.update_or_create(
        batch=batch, defaults={"at": timezone.now(), "agreement": [asdict(measured)]}
    )


@pytest.mark.parametrize(("low", "word"), [(0.8, "Reliable"), (0.7, "Tentative"), (0.5, "Not established")])
def test_the_form_says_how_far_annotators_agree(
    client: Client, settled: Batch, he: Person, low: float, word: str
):
    assert "Not established" not in body(client, he, reverse("release-new"))
    assert not has_opened(settled, he)
    measure(settled, low)
    page = body(client, he, reverse("release-new"))
    assert word in page
    assert f"0.900 [{low:.3f}, 0.950]" in page
    assert has_opened(settled, he)


def test_who_judges_the_dataset_blind_reads_no_agreement_on_the_form(
    client: Client, settled: Batch, guideline: Guideline, dataset: Dataset, he: Person
):
    measure(settled, 0.5)
    set_roles(person=he, roles=["researcher", "annotator"])
    make_batch(guideline, dataset, name="blind", annotators=[he], policy=Policy(overlap=1))
    assert "Not established" not in body(client, he, reverse("release-new"))
    assert not has_opened(settled, he)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_release_says_how_far_its_labels_can_be_relied_on(
    client: Client, release: GoldRelease, he: Person, language: str
):
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    address = reverse("release", args=[release.name])
    (row,) = (row for row in release.manifest["agreement"] if not row["group"])
    readings = {
        "en": {0.81: "can be relied on", 0.7: "tentative conclusions", 0.3: "Do not rely", None: "not known"},
        "zh-hans": {0.81: "标签可靠", 0.7: "暂定结论", 0.3: "标签尚不可靠", None: "尚不清楚"},
    }[language]
    for low, words in readings.items():
        row["alpha_ordinal"] = None if low is None else {"value": 0.85, "low": low, "high": 0.9}
        release.save()
        page = body(client, he, address)
        assert words in page
        assert not any(other in page for other in readings.values() if other != words)
