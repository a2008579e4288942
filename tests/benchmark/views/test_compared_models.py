"""Only what gold bears out is compared on every way out: gold alone, and predictions that it corrects."""

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
from benchmark.domain.estimates.board_numbers import StratifiedCombiner
from benchmark.domain.estimates.estimates import compute_estimates
from benchmark.domain.leaderboards.board import BoardFigures
from benchmark.domain.leaderboards.withholding import convert_estimates
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import find_board, find_part, list_board_tops
from benchmark.services.sharing import share_run
from benchmark.views.leaderboards.reports.exports import as_json, board_to_csv, board_to_latex
from benchmark.views.leaderboards.tabs.pairs import pairs_context
from tests.benchmark.boards import finished_run, invented
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE

CLAIMS = {
    "en": ("no other model can be first", "may be first as well", "have a rank of their own", "surely"),
    "zh-hans": ("不可能排第一", "也可能排第一", "自己的名次", "确定较高", "确定较低"),
}
REASON = {"en": "predicted by a scorer; not compared", "zh-hans": "由评分器预测，不参与比较"}
AMONG = {"en": "among the 2 compared", "zh-hans": "参与比较的 2 个"}
OF_THEM = {"en": "no other of them can be first", "zh-hans": "其中其他模型不可能排第一"}
EVERY = {"en": "Every model has", "zh-hans": "每个模型都有"}
RANGE = re.compile(r"\b\d+ \(\d+-\d+\)")
"""A rank with those that remain possible: ``2 (1-4)``."""


@pytest.fixture
def flames(db: None) -> Guideline:
    return FLAMES_GUIDELINE.load()


@pytest.fixture
def predicted(flames: Guideline) -> BenchmarkRun:
    return finished_run(flames, name="predicted", models=4, prompts=120, gold=0.0)


@pytest.fixture
def labelled(flames: Guideline) -> BenchmarkRun:
    return finished_run(flames, name="labelled", models=4, prompts=120, gold=1.0)


@pytest.fixture
def half(flames: Guideline) -> BenchmarkRun:
    """Two models with gold alone, two that a scorer judged."""
    return finished_run(flames, name="half", models=4, prompts=120, gold=1.0, predicted=2)


@pytest.fixture
def sampled(flames: Guideline) -> BenchmarkRun:
    """A chance sample of gold stands behind every model."""
    return finished_run(flames, name="sampled", models=3, prompts=1200, gold=0.3)


@pytest.fixture
def earlier(flames: Guideline) -> BenchmarkRun:
    """As an earlier version stored it: without grounds, of gold alone but for one response of the second model."""
    run = finished_run(flames, name="earlier", models=4, prompts=120, gold=1.0)
    for name in ("compared", "bias"):
        del run.board[name]
    for row in run.board["rows"]:
        for held in (row, *row["dimensions"].values()):
            del held["ground"], held["reason"]
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


def test_the_page_for_outsiders_compares_no_more(predicted: BenchmarkRun, he: Person):
    _link, token = share_run(run=predicted, actor=he)
    for view in ("", "pairs"):
        content = words(Client().get(reverse("shared", args=[token]), {"view": view}).content.decode())
        assert REASON["en"] in content
        assert not RANGE.search(content)
        assert not any(claim in content for claim in CLAIMS["en"])


def test_the_list_of_runs_does_not_say_who_is_surely_first(
    client: Client, predicted: BenchmarkRun, labelled: BenchmarkRun, half: BenchmarkRun, he: Person
):
    client.force_login(he)
    content = client.get(reverse("runs")).content.decode()
    rows = {
        name: words(row) for name, row in re.findall(r'<a href="/runs/(\w+)/">(.*?)</tr>', content, re.DOTALL)
    }
    assert "not ranked" in rows["predicted"]
    assert "among the 2 compared" in rows["half"]
    assert not any(words in rows["labelled"] for words in ("not ranked", "among"))


@pytest.mark.parametrize("name", ["predicted", "labelled", "half", "earlier"])
def test_the_list_reads_of_a_board_what_the_board_says(name: str, request: pytest.FixtureRequest):
    run = request.getfixturevalue(name)
    board = find_board(run)
    top = list_board_tops([run])[run.pk]
    assert top.row == board["rows"][0]
    assert top.compared == board["compared"]


def test_json_has_null_for_what_is_not_compared_and_says_why(predicted: BenchmarkRun):
    board = as_data(predicted, "--pairs", "--by", "language")
    assert ranks(board) == [None] * 4
    assert ranks(board, "Legality") == [None] * 4
    assert set(board["compared"]) == {"overall", *predicted.scorer.guideline.document.dimension_names}
    assert all(counts == {"n": 0, "of": 4} for counts in board["compared"].values())
    for row in board["rows"]:
        for held in (row, *row["dimensions"].values()):
            assert (held["ground"], held["reason"]) == ("predicted", "no_gold")
        for statistic in row["overall"].values():
            assert statistic["value"] is not None
            assert (statistic["low"], statistic["high"]) == (None, None)
    for cells in board["pairs"]["pairs"].values():
        for cell in cells.values():
            assert cell["value"] is not None
            assert (cell["low"], cell["high"], cell["compared"]) == (None, None, False)
    for row in board["groups"]["language"]["rows"]:
        for cell in row["cells"]:
            assert (cell["ground"], cell["harmless_rate"]["low"]) == ("predicted", None)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_ranks_are_among_the_compared(language: str, client: Client, half: BenchmarkRun, he: Person):
    board = as_data(half, "--pairs")
    assert board["compared"]["overall"] == {"n": 2, "of": 4}
    assert [row["ground"] for row in board["rows"]] == ["gold", "gold", "predicted", "predicted"]
    assert {rank and rank["high"] for rank in ranks(board)} <= {1, 2, None}
    assert ranks(board)[2:] == [None, None]
    compared = {key for key, cells in board["pairs"]["pairs"].items() if cells["overall"]["low"] is not None}
    assert compared == {"0-1"}
    client.force_login(he)
    content = page(client, half, language)
    assert AMONG[language] in content
    assert REASON[language] in content
    assert OF_THEM[language] in content
    assert "no other model can be first" not in content
    assert EVERY[language] not in content
    link = reverse("label-next", args=[half.name])
    assert link in client.get(reverse("run", args=[half.name])).content.decode()


def test_models_whose_predictions_a_chance_sample_corrects_are_compared(
    client: Client, sampled: BenchmarkRun, he: Person
):
    board = as_data(sampled, "--pairs")
    assert board["compared"]["overall"] == {"n": 3, "of": 3}
    estimates = {row["model"]: row["cells"] for row in sampled.parts.get(name="estimates").content["rows"]}
    for row in board["rows"]:
        assert (row["ground"], row["reason"]) == ("combined", None)
        assert row["rank"] is not None
        for scope, cell in row["dimensions"].items():
            combined = estimates[row["model"]][scope]["harmless_rate"]["combined"]
            for end in ("value", "low", "high"):
                assert cell["harmless_rate"][end] == pytest.approx(combined[end], abs=1e-9)
    bias = {row["model"]: row["overall"] for row in board["bias"]["rows"]}
    assert all(statistic["low"] < statistic["value"] < statistic["high"] for statistic in bias.values())
    client.force_login(he)
    content = page(client, sampled)
    assert "Bias of the scorer by model" in content
    assert "gold, combined" in content
    assert content.index("Bias of the scorer by model") < content.index("Ranked by")


def test_the_exports_compare_what_the_command_compares(predicted: BenchmarkRun):
    exported = json.loads(as_json(predicted, None))
    report = as_data(predicted, "--pairs")
    assert exported["rows"] == report["rows"]
    assert exported["compared"] == report["compared"]
    assert exported["parts"]["pairs"] == report["pairs"]
    lines = list(csv.DictReader(io.StringIO(board_to_csv(predicted, None))))
    assert {(line["rank"], line["rank_low"], line["rank_high"]) for line in lines} == {("", "", "")}
    assert {(line["ground"], line["reason"], line["low"]) for line in lines} == {("predicted", "no_gold", "")}


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_report_and_latex_compare_no_more(
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
    assert "predicted by a scorer" in table
    assert not RANGE.search(table)
    assert not re.search(r"[+-]\d+\.\d+ to [+-]\d+\.\d+", table)


def test_on_gold_alone_everything_stands_as_it_was_computed(
    client: Client, labelled: BenchmarkRun, he: Person
):
    board = as_data(labelled, "--pairs")
    assert ranks(board) == [row["rank"] for row in labelled.board["rows"]]
    assert None not in ranks(board)
    assert board["compared"]["overall"] == {"n": 4, "of": 4}
    stored = labelled.parts.get(name="pairs").content
    assert board["pairs"] == {name: stored[name] for name in stored if name != "as_labels"}
    client.force_login(he)
    assert REASON["en"] not in page(client, labelled)
    assert RANGE.search(page(client, labelled)) or "no other model can be first" in page(client, labelled)


def test_a_board_of_an_earlier_version_keeps_what_rests_on_gold(
    client: Client, earlier: BenchmarkRun, he: Person
):
    board = as_data(earlier, "--pairs")
    assert ranks(board) == [None] * 4  # the overall number has Legality in it
    assert ranks(board, "Legality") == [None] * 4
    assert None not in ranks(board, "Fairness")
    assert board["compared"]["overall"] == {"n": 0, "of": 4}
    assert board["compared"]["Fairness"] == {"n": 4, "of": 4}
    second = board["rows"][1]
    assert (second["reason"], second["dimensions"]["Legality"]["reason"]) == ("earlier", "earlier")
    assert second["overall"]["harmless_rate"]["low"] is None
    assert second["dimensions"]["Fairness"]["harmless_rate"]["low"] is not None
    stored = earlier.parts.get(name="pairs").content["pairs"]
    for key, cells in board["pairs"]["pairs"].items():
        for scope, cell in cells.items():
            if "1" in key.split("-") and scope in ("overall", "Legality"):
                assert (cell["low"], cell["compared"]) == (None, False)
            else:
                assert cell == stored[key][scope]
    client.force_login(he)
    assert "of an earlier version" in page(client, earlier)


def test_gold_that_chance_did_not_choose_corrects_nothing(flames: Guideline):
    rows = list(invented(flames.document, models=2, prompts=1200, gold=0.3, seed=1))
    selected_cells = [("GPT-4", scope) for scope in flames.document.dimension_names]
    figures = BoardFigures(
        flames.document,
        rows,
        combiner=StratifiedCombiner(flames.document, rows),
        selected_cells=selected_cells,
    )
    grounds = {row["model"]: (row["ground"], row["reason"]) for row in figures.board["rows"]}
    assert grounds == {"GPT-4": ("predicted", "selection"), "Claude": ("combined", None)}
    assert figures.board["bias"]["rows"][1]["overall"] is None


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
    "benchmark/domain/leaderboards/withholding.py",
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


def test_pairs_put_those_that_are_not_compared_last_and_number_none_of_them(half: BenchmarkRun):
    context = pairs_context(half, {})
    not_compared = [row["model"] for row in half.board["rows"] if row["reason"]]
    assert len(not_compared) == 2
    assert [row["place"] for row in context["standing"]] == [1, 2, None, None]
    assert {row["model"] for row in context["standing"][2:]} == set(not_compared)
    assert context["finding"].difference.compared
    assert context["unpaired"]


def test_a_board_says_of_some_gold_that_its_model_is_predicted_in_part(
    client: Client, flames: Guideline, he: Person
):
    client.force_login(he)
    mixed = finished_run(flames, name="mixed", models=2, prompts=60, gold=0.1)
    assert all(row["reason"] for row in mixed.board["rows"])
    assert "partly predicted by a scorer; not compared" in page(client, mixed)


def test_no_bias_reaches_beyond_its_scale(flames: Guideline):
    board = finished_run(flames, name="few", models=2, prompts=120, gold=0.3).board
    known = [
        statistic
        for row in board["bias"]["rows"]
        for statistic in (row["overall"], *row["dimensions"].values())
        if statistic
    ]
    assert known
    assert all(-1 <= statistic["low"] <= statistic["high"] <= 1 for statistic in known)


def test_the_difference_of_combined_numbers_is_that_of_the_board(sampled: BenchmarkRun):
    """All models answered all prompts here, so nothing else could be between them."""
    board = {row["model"]: row["overall"]["harmless_rate"]["value"] for row in sampled.board["rows"]}
    content = find_part(sampled, "pairs")
    assert content
    for key, scopes in content["pairs"].items():
        first, second = (content["models"][int(at)] for at in key.split("-"))
        difference = scopes["overall"]
        assert difference["value"] == pytest.approx(board[first] - board[second], abs=1e-9)
        assert difference["low"] <= difference["value"] <= difference["high"]


def test_estimates_say_where_the_board_has_another_interval(
    client: Client, sampled: BenchmarkRun, he: Person
):
    client.force_login(he)
    note = "an interval by another method"
    assert note in page(client, sampled, view="estimates")
    assert note not in page(client, sampled, view="estimates", scope="Fairness")


def test_estimates_have_the_number_of_the_board_beside_them(
    client: Client, sampled: BenchmarkRun, he: Person
):
    client.force_login(he)
    for scope in ("Fairness", "overall"):
        answer = client.get(reverse("run", args=[sampled.name]), {"view": "estimates", "scope": scope})
        lines = {line.model: line.on_board for line in answer.context["lines"]}
        assert len(lines) == len(sampled.board["rows"])
        for row in sampled.board["rows"]:
            cell = row["overall"] if scope == "overall" else row["dimensions"][scope]
            shown_percent = float(lines[row["model"]].value.removesuffix("%"))
            assert shown_percent == pytest.approx(100 * cell["harmless_rate"]["value"], abs=0.006)
        assert "On the board" in answer.content.decode()


def test_estimates_have_no_interval_where_the_board_has_none(flames: Guideline):
    rows = list(invented(flames.document, models=2, prompts=1200, gold=0.3, seed=1))
    figures = BoardFigures(
        flames.document,
        rows,
        combiner=StratifiedCombiner(flames.document, rows),
        selected_cells=[("GPT-4", "Fairness")],
    )
    computed = compute_estimates(flames.document, rows)
    read = {row["model"]: row["cells"] for row in convert_estimates(figures.board, computed)["rows"]}
    before = {row["model"]: row["cells"] for row in computed["rows"]}
    assert read["Claude"] == before["Claude"]
    for scope in ("Fairness", "overall"):
        own, stored = read["GPT-4"][scope]["harmless_rate"], before["GPT-4"][scope]["harmless_rate"]
        assert (own["reason"], own["bias"]) == ("selection", None)
        for kind in ("combined", "finite"):
            assert own[kind] == {"value": stored[kind]["value"], "low": None, "high": None}
        assert own["people"] == stored["people"]
    assert read["GPT-4"]["Legality"] == before["GPT-4"]["Legality"]


@pytest.mark.parametrize(
    ("language", "reason", "gain"),
    [
        ("en", "not compared: chance did not choose its gold", "What the scorer added"),
        ("zh-hans", "不参与比较：金标不是随机选出的", "评分器带来了什么"),
    ],
)
def test_the_estimates_tab_gives_the_reason_of_the_board(
    language: str, reason: str, gain: str, client: Client, sampled: BenchmarkRun, he: Person
):
    client.force_login(he)
    before = page(client, sampled, language, view="estimates")
    assert reason not in before
    assert gain in before
    for row in sampled.board["rows"]:
        row |= {"ground": "predicted", "reason": "selection", "rank": None}
        for cell in row["dimensions"].values():
            cell |= {"ground": "predicted", "reason": "selection"}
        row["overall"]["harmless_rate"] |= {"low": None, "high": None}
    sampled.save()
    content = page(client, sampled, language, view="estimates")
    assert content.count(reason) == len(sampled.board["rows"])
    assert gain not in content
    assert "- " in printed(sampled, "--estimates")
    report = words(
        client.get(
            reverse("run-export", args=[sampled.name]),
            {"format": "report"},
            headers={"Accept-Language": language},
        ).content.decode()
    )
    assert reason in report


@pytest.mark.parametrize(
    ("language", "wholly_predicted", "partly_predicted"),
    [
        (
            "en",
            "{n} models are wholly predicted by a scorer; not compared.",
            "{n} model has gold in some of its columns and predictions alone in others; not compared.",
        ),
        (
            "zh-hans",
            "{n} 个模型的数值全部由评分器预测，不参与比较。",
            "{n} 个模型部分列有金标、部分列仅有评分器的预测，不参与比较。",
        ),
    ],
)
def test_a_model_with_gold_in_some_columns_is_told_from_one_without(
    language: str,
    wholly_predicted: str,
    partly_predicted: str,
    client: Client,
    half: BenchmarkRun,
    he: Person,
):
    client.force_login(he)
    content = page(client, half, language)
    assert wholly_predicted.format(n=2) in content
    assert partly_predicted.format(n=1) not in content
    row = next(row for row in half.board["rows"] if row["ground"] == "gold")
    row |= {"ground": "predicted", "reason": "no_gold", "rank": None}
    row["dimensions"]["Legality"] |= {"ground": "predicted", "reason": "no_gold", "rank": None}
    row["dimensions"]["Legality"]["composition"] = {"gold": 0, "out_of_fold": 0, "unseen": 24}
    half.save()
    content = page(client, half, language)
    assert wholly_predicted.format(n=2) in content
    assert partly_predicted.format(n=1) in content
