"""What of a board leaves the product: CSV, JSON, LaTeX and the page that prints."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.translation import override

from annotation.models import Batch, Guideline, Person
from benchmark.models import BenchmarkRun, BoardPart, PublishedTable
from benchmark.services.published_tables import add_published
from benchmark.views.leaderboards.reports.exports import as_json, board_to_csv, board_to_latex
from benchmark.views.leaderboards.tabs.table import board_context
from tests.benchmark.boards import finished_run
from tests.support import FLAMES_GUIDELINE, make_batch, make_corpus

FORMATS = ("csv", "json", "latex", "report")


@pytest.fixture
def flames(db: None) -> Guideline:
    return FLAMES_GUIDELINE.load()


@pytest.fixture
def run(flames: Guideline) -> BenchmarkRun:
    return finished_run(flames, models=4, prompts=120, gold=1.0)


def export(client: Client, run: BenchmarkRun, kind: str):  # type: ignore[no-untyped-def]
    return client.get(reverse("run-export", args=[run.name]), {"format": kind})


def lines(run: BenchmarkRun) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(board_to_csv(run, None))))


@pytest.mark.parametrize("kind", FORMATS)
def test_only_who_may_read_the_run_takes_it_along(
    kind: str, client: Client, run: BenchmarkRun, he: Person, ma: Person, zhou: Person, wu: Person
):
    for person, status in ((he, 200), (ma, 200), (zhou, 403), (wu, 403)):
        client.force_login(person)
        assert export(client, run, kind).status_code == status
    client.logout()
    assert export(client, run, kind).status_code == 302


def test_who_judges_behind_the_run_blind_does_not(
    client: Client, run: BenchmarkRun, flames: Guideline, he: Person, lin: Person
):
    corpus = make_corpus(prompts=2, models=["Other-1B"], name="elsewhere", dimensions=("Safety", "Legality"))
    batch: Batch = make_batch(flames, corpus, annotators=[he, lin], name="blind")
    run.scorer.release.batches.add(batch)
    client.force_login(he)
    assert {export(client, run, kind).status_code for kind in FORMATS} == {403}


def test_an_unknown_format_and_a_run_without_a_board_are_refused(
    client: Client, run: BenchmarkRun, he: Person
):
    client.force_login(he)
    assert export(client, run, "exe" * 2000).status_code == 400
    BenchmarkRun.objects.update(finished_at=None)
    assert export(client, run, "csv").status_code == 409


def test_the_csv_has_a_row_for_each_model_scope_and_metric(run: BenchmarkRun):
    csv_lines = lines(run)
    assert len(csv_lines) == 4 * 6 * 3
    row = run.board["rows"][1]
    assert {(line["metric"], line["better"]) for line in csv_lines} == {
        ("harmless_rate", "higher"),
        ("harmless_score", "higher"),
        ("attack_success_rate", "lower"),
    }
    csv_line = next(
        line
        for line in csv_lines
        if (line["model"], line["scope"], line["metric"]) == (row["model"], "Legality", "harmless_rate")
    )
    cell = row["dimensions"]["Legality"]
    assert float(csv_line["value"]) == cell["harmless_rate"]["value"]
    assert (float(csv_line["low"]), float(csv_line["high"])) == (
        cell["harmless_rate"]["low"],
        cell["harmless_rate"]["high"],
    )
    assert (
        int(csv_line["n"])
        == cell["n"]
        == sum(int(csv_line[basis]) for basis in ("gold", "out_of_fold", "unseen"))
    )
    assert (csv_line["rank"], csv_line["rank_high"]) == (str(row["rank"]["value"]), str(row["rank"]["high"]))


def test_what_is_undefined_is_blank_in_the_csv_and_no_name_starts_a_formula(run: BenchmarkRun):
    row = run.board["rows"][0]
    row["model"] = '=HYPERLINK("http://x")'
    row["overall"]["harmless_rate"] = {"value": None, "low": None, "high": None}
    row["rank"] = None
    first = lines(run)[0]
    assert first["model"] == '\'=HYPERLINK("http://x")'
    assert (first["value"], first["low"], first["rank"]) == ("", "", "")


def test_the_json_is_the_board_with_its_parts(client: Client, run: BenchmarkRun, he: Person):
    BoardPart.objects.create(run=run, name="unlabelled", content={"responses": [1], "strata": [0]})
    client.force_login(he)
    answer = export(client, run, "json")
    assert "attachment" in answer["Content-Disposition"]
    board = json.loads(answer.content)
    assert board["rows"] == run.board["rows"]
    assert board["better"] == {
        "harmless_rate": "higher",
        "harmless_score": "higher",
        "attack_success_rate": "lower",
    }
    stored = BoardPart.objects.get(run=run, name="pairs").content
    assert board["parts"]["pairs"] == {name: stored[name] for name in stored if name != "as_labels"}
    assert set(board["parts"]) == {"groups", "pairs", "estimates", "sensitivity"}
    assert json.loads(as_json(run, None)) == board


def test_latex_has_a_table_of_each_part_with_intervals_and_ranges_of_ranks(run: BenchmarkRun):
    text = board_to_latex(run, "en", None)
    for name in ("board-harmless_rate", "board-harmless_score", "neighbours", "estimates", "by-subcomponent"):
        assert rf"\label{{tab:{name}}}" in text
    assert r"\caption{Attack success rate (lower is better) with 95\% intervals" in text
    assert r"\label{tab:by-attack_method-and-malice}" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\toprule") == text.count(r"\bottomrule")
    statistic = run.board["rows"][0]["overall"]["harmless_rate"]
    figure = f"{100 * statistic['value']:.1f} [{100 * statistic['low']:.1f}, {100 * statistic['high']:.1f}]"
    assert figure in text
    rank = run.board["rows"][0]["rank"]
    assert f"& {rank['value']}" in text
    assert r"\hat\theta_\lambda" in text
    for line in text.splitlines():
        if line.endswith(r"\\") and not line.startswith("\\"):
            assert not re.search(r"(?<!\\)[#$%_]", line), line


PAPER = {"name": "Paper", "source": "Somebody & others, 2024", "url": "https://example.org/a_b"}


@pytest.fixture
def published(run: BenchmarkRun, flames: Guideline) -> list[str]:
    """The models of a published table: one that is measured here as well, and one that is not."""
    models = [run.board["rows"][1]["model"], "Elsewhere-9B"]
    rows = [
        {
            "model": model,
            "dimensions": {"Legality": {"harmless_rate": rate}},
            "overall": {"harmless_rate": rate},
            "n": {"Legality": 50},
        }
        for model, rate in zip(models, (0.42, 0.9038), strict=True)
    ]
    add_published(guideline=flames, dataset=run.dataset, rows=rows, **PAPER)
    return models


def test_the_csv_marks_what_was_published_and_has_no_line_for_what_was_not_told(
    run: BenchmarkRun, published: list[str]
):
    csv_lines = lines(run)
    own, published_lines = csv_lines[: 4 * 6 * 3], csv_lines[4 * 6 * 3 :]
    assert {line["origin"] for line in own} == {"measured"}
    assert {line["table"] + line["source"] + line["url"] for line in own} == {""}
    assert [(line["model"], line["scope"]) for line in published_lines] == [
        (model, scope) for model in published for scope in ("overall", "Legality")
    ]
    last = published_lines[-1]
    assert (last["origin"], last["table"], last["source"], last["url"]) == ("published", *PAPER.values())
    assert (last["value"], last["n"], last["rank"], last["gold"], last["missing"]) == (
        "0.9038",
        "50",
        "",
        "",
        "",
    )
    assert 0 < float(last["low"]) < 0.9038 < float(last["high"]) < 1


def test_the_json_has_published_rows_apart_from_the_board(run: BenchmarkRun, published: list[str]):
    board = json.loads(as_json(run, None))
    assert board["rows"] == run.board["rows"]
    assert [row["model"] for row in board["published"]] == published
    assert [row["published"] for row in board["published"]] == [PAPER | {"language": ""}] * 2
    assert board["published"][0]["overall"]["harmless_rate"] == {"value": 0.42, "low": None, "high": None}


def test_latex_and_the_page_put_published_rows_below_a_rule_with_a_dagger_and_a_note(
    client: Client, run: BenchmarkRun, published: list[str], he: Person
):
    text = board_to_latex(run, "en", None)
    by_rate = text[text.index("tab:board-harmless_rate") : text.index("tab:board-harmless_score")]
    _head, measured, below = by_rate[: by_rate.index(r"\bottomrule")].split(r"\midrule")
    assert r"\dag" not in measured
    assert rf"{published[1]}\dag{{}} & - & - & 90.38 & " in below
    assert below.count(r"\dag{}") == 2
    note = by_rate[by_rate.index(r"\bottomrule") :]
    assert r"\dag{} Published, and not measured here: Paper (Somebody \& others, 2024, " in note
    assert r"https://example.org/a\_b" in note
    by_score = text[text.index("tab:board-harmless_score") : text.index("tab:neighbours")]
    assert r"\dag" not in by_score  # the table tells no score
    client.force_login(he)
    page = export(client, run, "report").content.decode()
    assert "Elsewhere-9B†</th>" in page
    assert (
        "† Published, and not measured here: Paper (Somebody &amp; others, 2024, https://example.org/a_b)"
        in page
    )


def test_two_published_tables_have_two_marks(run: BenchmarkRun, published: list[str], flames: Guideline):
    rows = [{"model": "Third", "dimensions": {}, "overall": {"harmless_rate": 0.5}, "n": {}}]
    add_published(guideline=flames, dataset=run.dataset, rows=rows, name="Then", source="B")
    text = board_to_latex(run, "en", None)
    assert r"Elsewhere-9B\dag{}1 & -" in text
    assert r"Third\dag{}2 & -" in text
    assert r"\dag{}2 Published, and not measured here: Then (B)." in text


def test_published_numbers_are_hollow_in_the_chart_and_none_of_ours_is(
    run: BenchmarkRun, published: list[str]
):
    specs: list[dict[str, Any]] = []

    def draw(spec: dict[str, Any]) -> str:
        specs.append(spec)
        return ""

    context = board_context(run, {}, reader=None, draw=draw)
    panels = [panel for spec in specs for panel in spec["hconcat"]]
    ours = [row["model"] for row in run.board["rows"]]
    for panel in panels:
        dots = panel["data"]["values"]
        hollow = [dot for dot in dots if dot["kind"] == "published"]
        assert [dot["model"] for dot in dots if dot["kind"] == ""] == ours
        has_published = panel["title"]["text"] in ("Overall", "Legality")
        assert [dot["model"] for dot in hollow] == (published if has_published else [])
        assert len(panel["layer"]) == (4 if has_published else 2)
        assert panel["layer"][0]["encoding"]["y"]["scale"]["domain"] == [*ours, "Elsewhere-9B"]
    assert "not measured here" in specs[0]["title"]["text"]
    assert context["chart_alt"].endswith("Hollow marks are published and not measured here: Paper.")
    PublishedTable.objects.all().delete()
    specs.clear()
    board_context(run, {}, reader=None, draw=draw)
    assert not any("title" in spec for spec in specs)


def test_a_hostile_name_stays_text_in_latex_and_on_the_page(client: Client, run: BenchmarkRun, he: Person):
    run.board["rows"][0]["model"] = r"\input{/etc/passwd}<script>alert(1)</script>"
    run.save()
    assert r"\input" not in board_to_latex(run, "en", None)
    client.force_login(he)
    content = export(client, run, "report").content.decode()
    assert "<script>alert(1)" not in content


def test_the_report_has_all_that_a_paper_must_say(client: Client, run: BenchmarkRun, he: Person):
    client.force_login(he)
    content = export(client, run, "report").content.decode()
    for table in (
        *("board-harmless_rate", "board-harmless_score", "neighbours", "not-separated"),
        *("estimates", "combined", "by-subcomponent", "by-attack_method", "by-language"),
    ):
        assert f'id="table-{table}"' in content, table
    scorer = run.scorer
    for phrase in (
        scorer.release.sha256,
        scorer.guideline.sha256,
        str(scorer.guideline),
        "Wilson (1927)",
        "√",
    ):
        assert phrase in content
    assert re.findall(r'<img class="report__chart"[^>]*alt="([^"]{30,})"', content)


def test_a_run_without_parts_has_a_shorter_report(client: Client, run: BenchmarkRun, he: Person):
    BoardPart.objects.all().delete()
    client.force_login(he)
    content = export(client, run, "report").content.decode()
    assert 'id="table-board-harmless_rate"' in content
    assert 'id="table-neighbours"' not in content
    assert "arXiv:2311.01453" in content  # the references are those of all methods


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_report_is_made_in_both_languages(language: str, client: Client, run: BenchmarkRun, he: Person):
    client.force_login(he)
    client.cookies["django_language"] = language
    assert export(client, run, "report").status_code == 200
    with override(language):
        assert r"\toprule" in board_to_latex(run, language, None)
