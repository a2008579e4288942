"""A dataset is deleted for good where nothing rests on it, and else not at all."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from annotation.core.errors import Conflict
from annotation.models import AuditEvent, Batch, Dataset, Guideline, Person, Prompt, Response
from annotation.services.datasets import delete_dataset
from annotation.services.lists import set_archived
from tests.benchmark.boards import finished_run
from tests.support import make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def archive(dataset: Dataset, actor: Person) -> Dataset:
    set_archived(row=dataset, archived=True, actor=actor)
    return dataset


def count() -> tuple[int, int, int]:
    return Dataset.objects.count(), Prompt.objects.count(), Response.objects.count()


def test_what_nothing_rests_on_goes_and_nothing_else_does(ma: Person) -> None:
    make_corpus(prompts=2, models=["Hidden-13B"], name="kept")
    left = count()
    spare = make_corpus(prompts=3, models=["Hidden-13B", "Secretive-7B"], name="spare")
    with pytest.raises(Conflict, match="Archive the dataset spare before you delete it"):
        delete_dataset(dataset=spare, actor=ma)
    delete_dataset(dataset=archive(spare, ma), actor=ma)
    assert count() == left
    event = AuditEvent.objects.get(target="dataset:spare", verb="delete")
    assert (event.actor, event.data) == (ma, {"prompts": 3, "responses": 6})


def test_tasks_of_a_batch_keep_their_dataset(batch: Batch, dataset: Dataset, ma: Person) -> None:
    before = count()
    with pytest.raises(Conflict, match=r"cannot be deleted: \d+ tasks rest on it"):
        delete_dataset(dataset=archive(dataset, ma), actor=ma)
    assert count() == before
    assert not AuditEvent.objects.filter(verb="delete").exists()


def test_a_board_keeps_its_dataset(guideline: Guideline, ma: Person) -> None:
    run = finished_run(guideline)
    before = count()
    with pytest.raises(Conflict, match="cannot be deleted"):
        delete_dataset(dataset=archive(run.dataset, ma), actor=ma)
    assert count() == before


def test_the_archive_offers_it_and_the_page_says_why_not(
    client: Client, batch: Batch, dataset: Dataset, ma: Person
) -> None:
    client.force_login(ma)
    make_corpus(prompts=1, models=["Hidden-13B"], name="spare")
    list_url = reverse("datasets")
    assert "Delete" not in client.get(list_url).content.decode()
    for name in ("spare", dataset.name):
        client.post(reverse("dataset-archive", args=[name]), {"archived": "1"})
    assert "Delete spare" in client.get(list_url, {"archived": "1"}).content.decode()
    answer = client.post(reverse("dataset-delete", args=["spare"]), follow=True)
    assert "spare is deleted." in answer.content.decode()
    refused = client.post(reverse("dataset-delete", args=[dataset.name]))
    assert refused.status_code == 409
    assert "rest on it" in refused.content.decode()
    assert [row.name for row in Dataset.objects.all()] == [dataset.name]
