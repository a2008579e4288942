"""What every list has: a search, an order, pages, and an archive that changes nothing but the list."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.apps import apps
from django.test import Client

from annotation.domain.release_spec import ReleaseSpec
from annotation.models import AuditEvent, Batch, Dataset, GoldRelease, Guideline, Person
from annotation.services.batches.batches import set_state
from annotation.services.people.people import set_roles
from annotation.services.releases import cut_release
from annotation.services.studies import find_or_make_study
from tests.benchmark.boards import finished_run
from tests.benchmark.support import settle_by_dimension
from tests.support import make_corpus

pytestmark = pytest.mark.django_db
# The list, its address, the model of its rows, and a row that is there (fixture ``rows``).
LISTS = {
    "datasets": ("/data/", "annotation.Dataset", "small"),
    "batches": ("/batches/?closed=1", "annotation.Batch", "first"),
    "releases": ("/releases/", "annotation.GoldRelease", "gold"),
    "scorers": ("/scorers/", "scoring.Scorer", "scorer-board"),
    "boards": ("/runs/", "benchmark.BenchmarkRun", "board"),
}


@pytest.fixture
def rows(batch: Batch, guideline: Guideline, ma: Person, he: Person) -> None:
    settle_by_dimension(batch)
    set_state(batch=batch, state=Batch.State.CLOSED, actor=ma)
    release = cut_release(ReleaseSpec(name="gold", batches=[batch]))
    finished_run(guideline)
    GoldRelease.objects.exclude(pk=release.pk).update(manifest=release.manifest)
    for model in ("annotation.Batch", "annotation.GoldRelease", "scoring.Scorer", "benchmark.BenchmarkRun"):
        apps.get_model(model).objects.update(created_by=he)


@pytest.fixture
def office(client: Client, ma: Person) -> Client:
    """Somebody who manages and researches."""
    set_roles(person=ma, roles=["manager", "researcher"])
    client.force_login(ma)
    return client


def has_row(client: Client, address: str, name: str, **query: str) -> bool:
    path, _mark, fixed = address.partition("?")
    parameters = dict(parse_qsl(fixed))
    content = client.get(path, parameters | query).content.decode()
    table = content.partition("<tbody>")[2].rpartition("</tbody>")[0]
    return re.search(rf">\s*{name}\s*</a>", table) is not None


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("kind", LISTS)
def test_a_list_is_searched_by_name_and_by_person(office: Client, kind: str):
    address, _model, name = LISTS[kind]
    assert has_row(office, address, name)
    assert has_row(office, address, name, words=name[1:3].upper())
    assert has_row(office, address, name, words=f"{name} he") is (kind != "datasets")
    assert not has_row(office, address, name, words=f"{name} nobody")
    for order in ("newest", "oldest", "name", "no-such-order"):
        assert has_row(office, address, name, order=order)


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("kind", LISTS)
def test_what_is_archived_leaves_the_list_and_nothing_else(office: Client, kind: str):
    address, model, name = LISTS[kind]
    path = address.partition("?")[0]
    row = apps.get_model(model).objects.get(name=name)
    before = content_of(row)
    assert office.post(f"{path}{name}/archive/", {"archived": "1"}).status_code == 302
    assert not has_row(office, address, name)
    assert has_row(office, address, name, archived="1")
    content = office.get(path).content.decode()
    (archive,) = re.findall(r'href="(\?[^"]*archived=1)"', content)
    assert has_row(office, path + archive.replace("&amp;", "&"), name)
    if kind != "scorers":  # the one that is there was never trained: it has no card to show
        assert office.get(f"{path}{name}/").status_code == 200
    row.refresh_from_db()
    assert content_of(row) == before
    assert (
        office.post(f"{path}{name}/archive/", {"archived": "1"}).status_code == 302
    )  # twice changes nothing
    assert office.post(f"{path}{name}/archive/").status_code == 302
    assert has_row(office, address, name)
    verbs = (
        AuditEvent.objects.filter(verb__in=["archive", "restore"])
        .order_by("pk")
        .values_list("verb", flat=True)
    )
    assert list(verbs) == ["archive", "restore"]
    assert office.post(f"{path}nothing/archive/", {"archived": "1"}).status_code == 404


def content_of(row: Any) -> dict[str, Any]:
    return {
        field.attname: getattr(row, field.attname)
        for field in row._meta.concrete_fields
        if field.name != "archived_at"
    }


def test_a_batch_at_work_is_not_archived(office: Client, batch: Batch):
    answer = office.post("/batches/first/archive/", {"archived": "1"})
    assert answer.status_code == 409
    assert "Close the batch first before you archive it." in answer.content.decode()
    batch.refresh_from_db()
    assert batch.archived_at is None


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("order", ["newest", "oldest", "name"])
def test_a_long_list_has_pages_in_its_order(
    office: Client, order: str, django_assert_max_num_queries: Callable[..., Any]
):
    study = find_or_make_study()
    Dataset.objects.bulk_create([Dataset(study=study, name=f"data-{number:03}") for number in range(120)])
    with django_assert_max_num_queries(30):
        first = office.get("/data/", {"words": "data", "order": order}).content.decode()
    names = re.findall(r">(data-\d+)</a>", first)
    assert len(names) == 50
    expected = sorted(names, reverse=order == "newest")
    assert names == expected
    assert names[0] == ("data-119" if order == "newest" else "data-000")
    last = office.get("/data/", {"words": "data", "order": order, "page": "3"}).content.decode()
    assert len(re.findall(r">(data-\d+)</a>", last)) == 20
    assert f"words=data&amp;order={order}&amp;page=2" in last


def test_a_dataset_says_what_it_holds(office: Client, batch: Batch, lin: Person):
    page = office.get("/data/small/").content.decode()
    for words in ("Hidden-13B", "first", "New batch"):
        assert words in page
    make_corpus(prompts=2, models=(), name="asked")
    page = office.get("/data/asked/").content.decode()
    assert "Import responses" in page
    assert "2 prompts" in re.sub(r"\s+", " ", page)


def test_who_judges_a_dataset_blind_reads_no_model_in_it(client: Client, batch: Batch, lin: Person):
    set_roles(person=lin, roles=["annotator", "manager"])
    client.force_login(lin)
    page = client.get("/data/small/").content.decode()
    assert "You judge responses of this dataset blind" in re.sub(r"\s+", " ", page)
    assert "Hidden-13B" not in page


@pytest.mark.parametrize("kind", LISTS)
def test_a_title_stands_in_the_list_and_is_searched_and_the_name_stays(
    kind: str, rows: None, office: Client
) -> None:
    address, model, name = LISTS[kind]
    path = address.partition("?")[0]
    row = apps.get_model(model).objects.get(name=name)
    before = {field: value for field, value in vars(row).items() if field not in ("_state", "title")}
    assert not has_row(office, address, name, words="spring")
    answer = office.post(f"{path}{name}/title/", {"title": " The spring of 2026 "}, follow=True)
    assert "its name stays" in answer.content.decode()
    assert has_row(office, address, name, words="spring")
    assert (
        "The spring of 2026" in office.get(path, dict(parse_qsl(address.partition("?")[2]))).content.decode()
    )
    row.refresh_from_db()
    assert row.title == "The spring of 2026"
    assert {field: value for field, value in vars(row).items() if field in before} == before
    event = AuditEvent.objects.get(verb="set_title")
    assert event.data == {"title": "The spring of 2026"}
    office.post(f"{path}{name}/title/", {"title": "The spring of 2026"})
    assert AuditEvent.objects.filter(verb="set_title").count() == 1
    assert office.post(f"{path}{name}/title/", {"title": "x" * 201}).status_code >= 400
