"""A published table stands beside the boards of its own dataset, and before outsiders only where that was asked for."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from annotation.core.errors import Forbidden
from annotation.models import AuditEvent, Dataset, Guideline, Person
from annotation.services.studies import find_or_make_study
from benchmark.models import BenchmarkRun, PublishedTable
from benchmark.selectors.published_tables import list_reference_rows
from benchmark.services.published_tables import place_published
from benchmark.services.sharing import share_run
from tests.benchmark.boards import finished_run
from tests.support import FLAMES_GUIDELINE, make_batch, make_corpus

ROWS = [{"model": "Paper-1", "dimensions": {"Legality": {"harmless_rate": 0.9}}, "overall": {}, "n": {}}]


@pytest.fixture
def flames(db: None) -> Guideline:
    return FLAMES_GUIDELINE.load()


@pytest.fixture
def run(flames: Guideline) -> BenchmarkRun:
    return finished_run(flames, models=3, prompts=60)


@pytest.fixture
def table(run: BenchmarkRun) -> PublishedTable:
    """As every table was before tables had a dataset."""
    return PublishedTable.objects.create(
        study=find_or_make_study(),
        guideline_name="flames",
        name="A paper",
        source="Somebody, 2024",
        rows=ROWS,
    )


def is_on_board(client: Client, run: BenchmarkRun) -> bool:
    return "Paper-1" in client.get(reverse("run", args=[run.name])).content.decode()


def test_a_table_of_no_known_dataset_stands_on_no_board(
    client: Client, run: BenchmarkRun, table: PublishedTable, he: Person
):
    client.force_login(he)
    assert not is_on_board(client, run)
    page = client.get(reverse("published-table", args=[table.pk])).content.decode()
    assert "It stands on no board yet" in page


def test_a_table_stands_on_the_boards_of_its_dataset_alone(
    client: Client, run: BenchmarkRun, table: PublishedTable, he: Person
):
    other = Dataset.objects.create(study=find_or_make_study(), name="other data")
    client.force_login(he)
    address = reverse("published-dataset", args=[table.pk])
    assert client.post(address, {"dataset": other.pk}).status_code == 302
    assert not is_on_board(client, run)
    assert client.post(address, {"dataset": run.dataset_id}).status_code == 302
    assert is_on_board(client, run)
    verbs = AuditEvent.objects.filter(verb="place_published_table").order_by("pk")
    assert [event.data["dataset"] for event in verbs] == ["other data", "invented"]


def test_it_is_placed_by_researchers_and_only_on_what_they_may_read(
    client: Client, table: PublishedTable, flames: Guideline, he: Person, ma: Person, lin: Person
):
    corpus = make_corpus(prompts=2, models=["Other-1B"], name="blind", dimensions=("Safety", "Legality"))
    address = reverse("published-dataset", args=[table.pk])
    client.force_login(ma)
    assert client.post(address, {"dataset": corpus.pk}).status_code == 403
    client.force_login(he)
    assert client.post(address, {"dataset": 999_999}).status_code == 422
    make_batch(flames, corpus, annotators=[he, lin], name="blind")
    assert client.post(address, {"dataset": corpus.pk}).status_code == 403
    with pytest.raises(Forbidden):
        place_published(table=table, dataset=corpus, actor=he)
    table.refresh_from_db()
    assert table.dataset is None


def test_outsiders_read_a_published_table_only_where_that_was_asked_for(
    run: BenchmarkRun, table: PublishedTable, he: Person
):
    table.dataset = run.dataset
    table.save()
    for options, is_listed in (({}, False), ({"with_published": True}, True)):
        _link, token = share_run(run=run, actor=he, **options)
        page = Client().get(reverse("shared", args=[token])).content.decode()
        assert ("Paper-1" in page) == is_listed


def test_the_form_of_a_link_asks_and_the_list_says_what_was_chosen(
    client: Client, run: BenchmarkRun, table: PublishedTable, he: Person
):
    table.dataset = run.dataset
    table.save()
    client.force_login(he)
    links, make = reverse("run-links", args=[run.name]), reverse("run-share", args=[run.name])
    assert 'name="with_published"' in client.get(links).content.decode()
    client.post(make, {"note": "plain"})
    client.post(make, {"note": "whole", "with_published": "on"})
    assert list(run.share_links.order_by("pk").values_list("note", "with_published")) == [
        ("plain", False),
        ("whole", True),
    ]
    assert client.get(links).content.decode().count("with published tables") == 1


def test_the_command_needs_the_dataset(
    flames: Guideline, tmp_path: Path, capsys: pytest.CaptureFixture[str], run: BenchmarkRun
):
    file = tmp_path / "table.csv"
    file.write_text("model,Legality.harmless_rate\nPaper-1,50%\n", encoding="utf-8")
    arguments = [str(file), "--guideline", "flames", "--name", "T", "--source", "A paper"]
    with pytest.raises(SystemExit):
        call_command("import_published", *arguments)
    assert "--dataset" in capsys.readouterr().err
    call_command("import_published", *arguments, "--dataset", "invented", "--json")
    assert [row["model"] for row in list_reference_rows(run, None)] == ["Paper-1"]


def test_tables_of_before_get_the_dataset_that_all_boards_of_their_guideline_are_of(
    run: BenchmarkRun, table: PublishedTable, flames: Guideline
):
    place_tables = import_module("benchmark.migrations.0004_published_beside_their_dataset").place_tables
    stranger = PublishedTable.objects.create(
        study=find_or_make_study(),
        guideline_name="none",
        name="T",
        source="S",
        rows=ROWS,
    )
    place_tables(apps, None)
    table.refresh_from_db()
    stranger.refresh_from_db()
    assert (table.dataset, stranger.dataset) == (run.dataset, None)
    table.dataset = None
    table.save()
    second = finished_run(flames, name="second", models=3, prompts=60)
    second.dataset = Dataset.objects.create(study=find_or_make_study(), name="other data")
    second.save()
    place_tables(apps, None)
    table.refresh_from_db()
    assert table.dataset is None
