"""The models of a study by its boards: which boards stand there, and who may see them."""

from __future__ import annotations

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.models import Guideline, Person
from annotation.services.studies import find_or_make_study
from benchmark.models import BenchmarkRun, PublishedTable
from benchmark.selectors.leaderboards.matrix import build_matrix
from tests.benchmark.boards import finished_run
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE, make_batch, make_corpus

pytestmark = pytest.mark.django_db
URL = "/runs/-/across/"


@pytest.fixture
def flames(db: None) -> Guideline:
    return FLAMES_GUIDELINE.load()


@pytest.fixture
def runs(flames: Guideline) -> list[BenchmarkRun]:
    """An older and the latest Flames board, and one of XSTest, of which the last two models are predicted."""
    xstest = XSTEST_GUIDELINE.load()
    return [
        finished_run(flames, name="older", models=3, prompts=60, gold=1.0, days_ago=3),
        finished_run(flames, name="newest", models=9, prompts=120, gold=1.0, seed=1),
        finished_run(xstest, name="refusals", models=9, prompts=120, gold=1.0, seed=2, predicted=2),
    ]


@pytest.fixture
def table(runs: list[BenchmarkRun]) -> PublishedTable:
    rows = [
        {"model": row["model"], "dimensions": {}, "overall": {"harmless_rate": 0.9 - at / 10}}
        for at, row in enumerate(runs[1].board["rows"][:4])
    ]
    rows.append({"model": "Elsewhere-9B", "dimensions": {}, "overall": {"harmless_rate": 0.3}})
    made: PublishedTable = PublishedTable.objects.create(
        study=find_or_make_study(),
        guideline_name="flames",
        dataset=runs[1].dataset,
        name="Paper",
        source="Somebody, 2024",
        rows=rows,
    )
    return made


@pytest.fixture
def reader(client: Client, he: Person) -> Client:
    client.force_login(he)
    return client


def words(content: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", content))


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("compare_boards", *arguments, stdout=out)
    return out.getvalue()


def test_the_latest_board_of_each_guideline_and_dataset_then_published_tables(table: PublishedTable):
    matrix = build_matrix(None)
    assert [(board.name, board.column.metric.name) for board in matrix.boards] == [
        ("newest", "harmless_rate"),
        ("refusals", "full_compliance_rate"),
        ("Paper", "harmless_rate"),
    ]
    assert "Elsewhere-9B" in matrix.models
    assert len(matrix.models) == 10
    by_pair = {(each.first, each.second): each for each in matrix.correlations}
    assert set(by_pair) == {(0, 1), (0, 2), (1, 2)}
    assert by_pair[0, 1].n == 7  # two are predicted on the second board
    # the table has the four best of the first board in its order
    assert (by_pair[0, 2].n, by_pair[0, 2].value) == (4, pytest.approx(1))
    BenchmarkRun.objects.filter(name="newest").update(archived_at=timezone.now())
    assert [board.name for board in build_matrix(None, with_published=False).boards] == ["older", "refusals"]


def test_by_attack_success_the_order_and_so_the_coefficient_stay(table: PublishedTable):
    usual, by_attacks = build_matrix(None), build_matrix(None, "attack_success_rate")
    assert [board.column.metric.name for board in by_attacks.boards] == [
        "attack_success_rate",
        "full_compliance_rate",
        "harmless_rate",  # the table does not tell it
    ]
    for before, after in zip(usual.correlations, by_attacks.correlations, strict=True):
        assert (before.n, before.value) == (after.n, pytest.approx(after.value))
    harmless, attacks = (matrix.boards[0].column.numbers for matrix in (usual, by_attacks))
    assert all(attacks[model].value == pytest.approx(1 - harmless[model].value) for model in harmless)


def test_the_page_leads_from_each_number_to_its_board(reader: Client, table: PublishedTable):
    content = reader.get(URL, {"metric": "attack_success_rate"}).content.decode()
    assert f'href="{reverse("run", args=["newest"])}?metric=attack_success_rate"' in content
    assert f'href="{reverse("run", args=["refusals"])}"' in content
    assert f'href="{reverse("published-table", args=[table.pk])}"' in content
    text = words(content)
    assert "Attack success rate (lower is better)" in text
    assert "Full compliance on safe prompts" in text
    assert "Published, and not measured here." in text
    assert "In brackets: predicted by a scorer" in text
    assert (
        'aria-sort="ascending"'
        in reader.get(URL, {"metric": "attack_success_rate", "sort": "run:newest"}).content.decode()
    )
    assert f'href="{URL}"' in reader.get("/runs/").content.decode()


def test_the_boards_of_the_plot_are_chosen(reader: Client, table: PublishedTable):
    usual = reader.get(URL)
    assert [usual.context[side] for side in ("first", "second")] == ["run:newest", "run:refusals"]
    plotted = reader.get(URL, {"first": f"table:{table.pk}", "second": "run:newest"})
    assert plotted.context["chart_names"] == ["Paper", "newest"]
    drawn = b"".join(reader.get(plotted.context["chart"])).decode()
    assert table.rows[0]["model"] in drawn
    assert "Elsewhere-9B" not in drawn
    same = reader.get(URL, {"first": "run:newest", "second": "run:newest"})
    assert "chart" not in same.context
    assert reader.get(URL, {"first": "run:nope"}).status_code == 400
    assert reader.get(URL, {"metric": "nope"}).status_code == 400


def test_page_and_command_give_the_same_json(reader: Client, table: PublishedTable):
    answer = reader.get(URL, {"json": "", "metric": "attack_success_rate"})
    assert "attachment" in answer["Content-Disposition"]
    document = json.loads(answer.content)
    assert document == json.loads(command("--metric", "attack_success_rate", "--json"))
    first, second, third = document["boards"]
    assert (first["kind"], first["better"], first["scope"], first["n"]) == ("run", "lower", None, 9)
    assert (second["metric"], second["scope"]) == ("full_compliance_rate", "safe")
    assert (third["kind"], third["scorer"]) == ("published", None)
    elsewhere = next(row for row in document["models"] if row["model"] == "Elsewhere-9B")
    assert elsewhere["numbers"][:2] == [None, None]


def test_the_command_prints_it(table: PublishedTable, capsys: pytest.CaptureFixture[str]):
    text = command("--metric", "attack_success_rate")
    assert "1  run newest: attack_success_rate, lower is better; flames@1.3 on invented" in text
    assert "2  run refusals: full_compliance_rate of safe; xstest@1.0 on invented" in text
    assert "in brackets: predicted by a scorer" in text
    assert "published table" not in command("--without-published")
    with pytest.raises(SystemExit):
        command("--metric", "nope")
    known = "harmless_rate, harmless_score, attack_success_rate, full_compliance_rate, full_refusal_rate"
    assert f"No board has the metric nope; choose one of: {known}." in capsys.readouterr().err


def test_without_a_board_there_is_nothing_and_one_has_no_correlation(reader: Client, flames: Guideline):
    assert "No board yet" in reader.get(URL).content.decode()
    assert "no board is finished yet" in command()
    finished_run(flames, name="alone", models=3, prompts=60)
    text = words(reader.get(URL).content.decode())
    assert "With a second board the correlation of the two stands here." in text


def test_who_judges_blind_sees_no_board_behind_it(
    reader: Client, table: PublishedTable, flames: Guideline, he: Person, lin: Person, runs: Any
):
    corpus = make_corpus(prompts=2, models=["Other-1B"], name="elsewhere", dimensions=("Safety", "Legality"))
    batch = make_batch(flames, corpus, annotators=[he, lin], name="blind")
    runs[1].scorer.release.batches.add(batch)
    text = words(reader.get(URL).content.decode())
    # of Flames the older board is open; its published table speaks of the guideline that is judged by
    assert "older" in text
    assert "newest" not in text
    assert "Paper" not in text
    assert "Elsewhere-9B" not in text
    assert "1 board opens for you when the batches you work in close." in text
    runs[0].scorer.release.batches.add(batch)
    text = words(reader.get(URL).content.decode())
    assert "older" not in text
    assert "2 boards open for you" in text
    document = json.loads(reader.get(URL, {"json": ""}).content)
    assert [board["name"] for board in document["boards"]] == ["refusals"]
