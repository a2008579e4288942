"""Ranks are withheld wherever predictions take part, on every way out of the product; on gold alone they stand."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils.translation import override

from annotation.models import Guideline, Person
from benchmark.models import BenchmarkRun
from benchmark.services.sharing import share_run
from benchmark.views.leaderboards.reports.exports import as_json, board_to_csv, board_to_latex
from tests.benchmark.boards import finished_run
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE

CLAIMS = {
    "en": ("no other model can be first", "may be first as well", "have a rank of their own", "surely"),
    "zh-hans": ("不可能排第一", "也可能排第一", "自己的名次", "确定较高", "确定较低"),
}
REASON = {"en": "Ranks are not given where predictions take part", "zh-hans": "不给出名次"}
RANGE = re.compile(r"\b\d+ \(\d+-\d+\)")
"""A rank with those that remain possible: ``2 (1-4)``."""


@pytest.fixture
def flames(db: None) -> Guideline:
    return FLAMES_GUIDELINE.load()


@pytest.fixture
def predicted(flames: Guideline) -> BenchmarkRun:
    return finished_run(flames, name="predicted", models=4, prompts=120, gold=0.3)


@pytest.fixture
def labelled(flames: Guideline) -> BenchmarkRun:
    return finished_run(flames, name="labelled", models=4, prompts=120, gold=1.0)


@pytest.fixture
def partly(flames: Guideline) -> BenchmarkRun:
    """Gold alone, but for one response of the second model in Legality."""
    run = finished_run(flames, name="partly", models=4, prompts=120, gold=1.0)
    cell = run.board["rows"][1]["dimensions"]["Legality"]
    cell["composition"] = {"gold": cell["n"] - 1, "out_of_fold": 0, "unseen": 1}
    run.save()
    return run


def page(client: Client, run: BenchmarkRun, language: str = "en", **query: str) -> str:
    content = client.get(reverse("run", args=[run.name]), query, headers={"Accept-Language": language})
    assert content.status_code == 200
    return words(content.content.decode())


def words(content: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", content))


def printed(run: BenchmarkRun, *options: str) -> str:
    out = io.StringIO()
    call_command("leaderboard", run.name, *options, stdout=out)
    return out.getvalue()


def as_data(run: BenchmarkRun, *options: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(printed(run, *options, "--json"))
    return report


def ranks(board: dict[str, Any], scope: str | None = None) -> list[Any]:
    return [(row if scope is None else row["dimensions"][scope])["rank"] for row in board["rows"]]


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("view", ["", "pairs"])
def test_no_page_ranks_models_that_a_scorer_judged(
    language: str, view: str, client: Client, predicted: BenchmarkRun, he: Person
):
    client.force_login(he)
    content = page(client, predicted, language, view=view)
    assert REASON[language] in content
    assert not RANGE.search(content)
    assert not any(claim in content for claim in CLAIMS[language])


def test_every_model_that_a_scorer_judged_keeps_its_numbers(
    client: Client, predicted: BenchmarkRun, he: Person
):
    client.force_login(he)
    content = page(client, predicted)
    for row in predicted.board["rows"]:
        assert row["model"] in content
        assert f"{round(100 * row['overall']['harmless_rate']['value'], 2)}%" in content


def test_the_page_for_outsiders_withholds_them_too(predicted: BenchmarkRun, he: Person):
    _link, token = share_run(run=predicted, actor=he)
    for view in ("", "pairs"):
        content = words(Client().get(reverse("shared", args=[token]), {"view": view}).content.decode())
        assert REASON["en"] in content
        assert not RANGE.search(content)
        assert not any(claim in content for claim in CLAIMS["en"])


def test_the_list_of_runs_does_not_say_who_is_surely_first(
    client: Client, predicted: BenchmarkRun, labelled: BenchmarkRun, he: Person
):
    client.force_login(he)
    content = client.get(reverse("runs")).content.decode()
    rows = {
        name: words(row) for name, row in re.findall(r'<a href="/runs/(\w+)/">(.*?)</tr>', content, re.DOTALL)
    }
    assert "not ranked" in rows["predicted"]
    assert "not ranked" not in rows["labelled"]


def test_json_has_null_for_what_is_withheld_and_says_where(predicted: BenchmarkRun):
    board = as_data(predicted, "--pairs")
    assert ranks(board) == [None] * 4
    assert ranks(board, "Legality") == [None] * 4
    assert board["not_ranked"] == [
        "overall",
        "Fairness",
        "Safety",
        "Morality",
        "Legality",
        "Data protection",
    ]
    for cells in board["pairs"]["pairs"].values():
        for cell in cells.values():
            assert cell["value"] is not None
            assert (cell["low"], cell["high"], cell["predicted"]) == (None, None, True)


def test_the_exports_withhold_what_the_command_withholds(predicted: BenchmarkRun):
    exported = json.loads(as_json(predicted, None))
    report = as_data(predicted, "--pairs")
    assert exported["rows"] == report["rows"]
    assert exported["not_ranked"] == report["not_ranked"]
    assert exported["parts"]["pairs"] == report["pairs"]
    lines = list(csv.DictReader(io.StringIO(board_to_csv(predicted, None))))
    assert {(line["rank"], line["rank_low"], line["rank_high"]) for line in lines} == {("", "", "")}


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_report_and_latex_withhold_them(
    language: str, client: Client, predicted: BenchmarkRun, he: Person
):
    with override(language):
        text = board_to_latex(predicted, language, None)
    client.force_login(he)
    answer = client.get(
        reverse("run-export", args=[predicted.name]),
        {"format": "report"},
        headers={"Accept-Language": language},
    )
    for content in (text, words(answer.content.decode())):
        assert REASON[language] in content
        assert not RANGE.search(content)
        assert not any(claim in content for claim in CLAIMS[language])


def test_the_table_on_a_terminal_says_why(predicted: BenchmarkRun):
    table = printed(predicted, "--pairs")
    assert REASON["en"] in table
    assert not RANGE.search(table)
    assert not re.search(r"[+-]\d+\.\d+ to [+-]\d+\.\d+", table)


def test_on_gold_alone_everything_stands_as_it_was_computed(
    client: Client, labelled: BenchmarkRun, he: Person
):
    board = as_data(labelled, "--pairs")
    assert ranks(board) == [row["rank"] for row in labelled.board["rows"]]
    assert None not in ranks(board)
    assert "not_ranked" not in board
    assert board["pairs"] == labelled.parts.get(name="pairs").content
    client.force_login(he)
    assert REASON["en"] not in page(client, labelled)
    assert RANGE.search(page(client, labelled)) or "no other model can be first" in page(client, labelled)


def test_one_prediction_withholds_what_it_takes_part_in_and_nothing_else(partly: BenchmarkRun):
    board = as_data(partly, "--pairs")
    assert ranks(board) == [None] * 4  # the overall number has Legality in it
    assert ranks(board, "Legality") == [None] * 4
    assert None not in ranks(board, "Fairness")
    assert board["not_ranked"] == ["overall", "Legality"]
    stored = partly.parts.get(name="pairs").content["pairs"]
    for key, cells in board["pairs"]["pairs"].items():
        second = "1" in key.split("-")
        for scope, cell in cells.items():
            if second and scope in ("overall", "Legality"):
                assert cell["low"] is None
            else:
                assert cell == stored[key][scope]


def test_what_was_computed_stays_stored(predicted: BenchmarkRun):
    as_data(predicted, "--pairs")
    predicted.refresh_from_db()
    assert None not in ranks(predicted.board)


def test_labels_in_a_file_are_ranked_unless_a_scorer_made_them(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    rows = [
        {"model": model, "dimension": "safe", "predicted": level, "prompt_id": f"p{at}"}
        for at in range(40)
        for model, level in (("A", 3), ("B", 1))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    out = io.StringIO()
    arguments = ["--from-file", str(path), "--guideline", str(XSTEST_GUIDELINE.path), "--json", "--pairs"]
    call_command("leaderboard", *arguments, stdout=out)
    assert ranks(json.loads(out.getvalue()))[0]["high"] == 1
    out = io.StringIO()
    call_command("leaderboard", *arguments, "--predicted", stdout=out)
    board = json.loads(out.getvalue())
    assert ranks(board) == [None, None]
    assert board["pairs"]["pairs"]["0-1"]["safe"]["low"] is None


READERS = {
    "benchmark/selectors/leaderboards/runs.py",  # which withholds
    "benchmark/selectors/leaderboards/comparison.py",  # numbers alone, of two runs
    "benchmark/services/leaderboards/execution.py",  # which writes it
    "benchmark/domain/leaderboards/board.py",
    "benchmark/management/commands/leaderboard.py",  # of a file
}


def test_nobody_reads_a_stored_board_past_what_withholds():
    root = Path(__file__).parents[3]
    readers = {
        str(path.relative_to(root))
        for app in ("annotation", "scoring", "benchmark")
        for path in (root / app).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "board"
    }
    assert readers <= READERS | {"annotation/views/batches/batches.py"}  # that board is a batch's
