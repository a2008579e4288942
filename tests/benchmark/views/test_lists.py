"""What every list has: a search, an order, pages, and an archive that changes nothing but the list."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from annotation.domain.release_spec import ReleaseSpec
from annotation.models import AuditEvent, Batch, Dataset, GoldRelease, Guideline, Import, Person
from annotation.services.batches.batches import set_state
from annotation.services.people.people import set_roles
from annotation.services.releases import cut_release
from annotation.services.studies import find_or_make_study
from benchmark.services.collection import start_collection
from benchmark.services.dialogues import DialogueSide, start_dialogues
from benchmark.services.judges.judges import create_judge
from benchmark.services.published_tables import add_published
from tests.benchmark.boards import finished_run
from tests.benchmark.support import settle_by_dimension
from tests.support import make_corpus
from tests.test_everyone_everywhere import make_choice_report

pytestmark = pytest.mark.django_db
# The list, its address, the model of its rows, and a row that is there (fixture ``rows``).
LISTS = {
    "datasets": ("/data/", "annotation.Dataset", "small"),
    "batches": ("/batches/?closed=1", "annotation.Batch", "first"),
    "releases": ("/releases/", "annotation.GoldRelease", "gold"),
    "scorers": ("/scorers/", "scoring.Scorer", "scorer-board"),
    "boards": ("/runs/", "benchmark.BenchmarkRun", "board"),
    "judges": ("/runs/-/judges/", "benchmark.Judge", "careful"),
    "tables": ("/runs/-/published/", "benchmark.PublishedTable", "paper"),
    "reports": ("/runs/-/multiple-choice/", "benchmark.ChoiceReport", "fine-1"),
}
HAVE_GUIDELINES = ("batches", "releases", "scorers", "boards", "judges", "tables")
LOGS = {
    "imports": ("/imports/", "prompts.jsonl", ("prompts", "jsonl he")),
    "collections": ("/runs/-/collection/", "Asked-7B", ("asked", "7b he")),
    "dialogues": ("/data/-/dialogues/", "d1", ("ESC-Role", "asked d1")),
}
"""What was done, with words that lead to it: it is searched, ordered and paged, and never archived."""


@pytest.fixture
def rows(batch: Batch, guideline: Guideline, ma: Person, he: Person) -> None:
    settle_by_dimension(batch)
    set_state(batch=batch, state=Batch.State.CLOSED, actor=ma)
    release = cut_release(ReleaseSpec(name="gold", batches=[batch]))
    finished_run(guideline)
    GoldRelease.objects.exclude(pk=release.pk).update(manifest=release.manifest)
    endpoint = "http://127.0.0.1:9/v1"
    create_judge(name="careful", guideline=guideline, endpoint=endpoint, served_model="m", settings={})
    numbers = {"model": "M-1", "dimensions": {"safe": {"full_compliance_rate": 0.9}}, "overall": {}, "n": {}}
    add_published(
        guideline=guideline, dataset=batch_dataset(batch), name="paper", source="A paper", rows=[numbers]
    )
    make_choice_report()
    for kind, (_address, model, _name) in LISTS.items():
        if kind != "datasets":
            apps.get_model(model).objects.update(created_by=he)


def batch_dataset(batch: Batch) -> Dataset:
    return Dataset.objects.get(prompts__responses__tasks__batch=batch, prompts__responses__tasks__position=0)


@pytest.fixture
def logs(he: Person) -> None:
    endpoint, dataset = "http://127.0.0.1:9/v1", make_corpus(prompts=2, models=(), name="asked")
    study = find_or_make_study()
    Import.objects.create(
        study=study, kind="prompts", format="jsonl", file_name="prompts.jsonl", created_by=he
    )
    start_collection(model="Asked-7B", dataset=dataset, endpoint=endpoint, send=False, actor=he)
    start_dialogues(
        name="d1",
        dataset=dataset,
        model=DialogueSide("Asked-7B", endpoint),
        agent=DialogueSide("ESC-Role", endpoint),
        collection="dialogues",
        send=False,
        actor=he,
    )


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
    place = find_place(path, row)
    before = content_of(row)
    assert office.post(f"{place}archive/", {"archived": "1"}).status_code == 302
    assert not has_row(office, address, name)
    assert has_row(office, address, name, archived="1")
    content = office.get(path).content.decode()
    (archive,) = re.findall(r'href="(\?[^"]*archived=1)"', content)
    assert has_row(office, path + archive.replace("&amp;", "&"), name)
    if kind != "scorers":  # the one that is there was never trained: it has no card to show
        assert office.get(place).status_code == 200
    row.refresh_from_db()
    assert content_of(row) == before
    assert office.post(f"{place}archive/", {"archived": "1"}).status_code == 302  # twice changes nothing
    assert office.post(f"{place}archive/").status_code == 302
    assert has_row(office, address, name)
    verbs = (
        AuditEvent.objects.filter(verb__in=["archive", "restore"])
        .order_by("pk")
        .values_list("verb", flat=True)
    )
    assert list(verbs) == ["archive", "restore"]
    row.pk, row.name = 0, "nothing"
    assert office.post(f"{find_place(path, row)}archive/", {"archived": "1"}).status_code == 404


def find_place(path: str, row: Any) -> str:
    """The address of the row's own page."""
    if row._meta.model_name == "publishedtable":
        return f"{path}{row.pk}/"
    return f"{path}judge/{row.name}/" if row._meta.model_name == "judge" else f"{path}{row.name}/"


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
    place = find_place(path, row)
    answer = office.post(f"{place}title/", {"title": " The spring of 2026 "}, follow=True)
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
    office.post(f"{place}title/", {"title": "The spring of 2026"})
    assert AuditEvent.objects.filter(verb="set_title").count() == 1
    assert office.post(f"{place}title/", {"title": "x" * 201}).status_code >= 400


def test_a_batch_at_work_is_given_a_title_in_its_list(office: Client, batch: Batch):
    page = office.get("/batches/").content.decode()
    assert 'action="/batches/first/title/"' in page
    assert "/batches/first/archive/" not in page
    office.post("/batches/first/title/", {"title": "The spring of 2026"})
    assert has_row(office, "/batches/", "first", words="spring")


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("kind", HAVE_GUIDELINES)
def test_a_list_is_narrowed_to_a_guideline_where_there_are_several(
    office: Client, kind: str, guideline: Guideline
):
    address, model, name = LISTS[kind]
    path, _mark, fixed = address.partition("?")
    rows, choice = apps.get_model(model).objects, 'name="guideline"'
    rows.exclude(name=name).filter(archived_at=None).update(archived_at=timezone.now())
    copy_by_another(rows.get(name=name), copy_row(guideline))
    page = office.get(path, dict(parse_qsl(fixed))).content.decode()
    assert choice in page
    names = {find_guideline_name(row): row.name for row in rows.filter(archived_at=None)}
    assert len(names) == 2
    for by, of_it in names.items():
        for listed in names.values():
            assert has_row(office, address, listed, guideline=by) is (listed == of_it)
    assert has_row(office, address, name, guideline="no-such-guideline")


@pytest.mark.parametrize("kind", HAVE_GUIDELINES)
def test_where_there_is_one_guideline_no_list_offers_a_choice(office: Client, kind: str, batch: Batch):
    assert 'name="guideline"' not in office.get(LISTS[kind][0]).content.decode()


def copy_row(row: Any, **fields: Any) -> Any:
    copied = type(row).objects.get(pk=row.pk)
    copied.pk, copied.name, copied._state.adding = None, "other", True
    for field, value in fields.items():
        setattr(copied, field, value)
    copied.save()
    return copied


def copy_by_another(row: Any, other: Guideline) -> None:
    """A row of the same kind by the other guideline."""
    if hasattr(row, "guideline_name"):
        copy_row(row, guideline_name=other.name)
    elif hasattr(row, "batches"):
        copy_row(row).batches.set([copy_row(Batch.objects.get(name="first"), guideline=other)])
    elif hasattr(row, "scorer"):
        copy_row(row, scorer=copy_row(row.scorer, guideline=other))
    else:
        copy_row(row, guideline=other)


def find_guideline_name(row: Any) -> str:
    if hasattr(row, "guideline_name"):
        return str(row.guideline_name)
    of_row = row.batches.all()[0] if hasattr(row, "batches") else getattr(row, "scorer", row)
    return str(of_row.guideline.name)


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize("kind", LOGS)
def test_what_was_done_is_searched_and_paged(office: Client, kind: str):
    address, name, searches = LOGS[kind]
    assert has_row(office, address, name)
    for words in searches:
        assert has_row(office, address, name, words=words), words
    assert not has_row(office, address, name, words="nobody")
    assert "No results." in office.get(address, {"words": "nobody"}).content.decode()
    for order in ("newest", "oldest", "name"):
        assert has_row(office, address, name, order=order, page="7")
    assert "archived" not in office.get(address).content.decode()


def test_the_list_of_imports_goes_back_to_the_first(office: Client):
    study = find_or_make_study()
    Import.objects.bulk_create(
        [
            Import(study=study, kind="prompts", format="csv", file_name=f"file-{number:03}.csv")
            for number in range(260)
        ]
    )
    assert has_row(office, "/imports/", "file-259.csv")
    assert has_row(office, "/imports/", "file-000.csv", page="6")
    assert has_row(office, "/imports/", "file-000.csv", order="oldest")


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("kind", ["judges", "tables", "reports"])
def test_a_page_of_many_rows_takes_as_many_queries(
    office: Client, kind: str, django_assert_max_num_queries: Callable[..., Any]
):
    address, model, name = LISTS[kind]
    row = apps.get_model(model).objects.get(name=name)
    with CaptureQueriesContext(connection) as queries:
        office.get(address)
    for number in range(60):
        row.pk, row.name, row._state.adding = None, f"copy-{number}", True
        row.save()
    with django_assert_max_num_queries(len(queries) + 2):
        office.get(address)
