"""The whole path on the published XSTest labels, through the commands that people type.

450 prompts, 5 models, two labels each, and a third person's where the two differ.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from annotation.models import Adjudication, Batch, GoldLabel, Person, ReleasedLabel, Task
from annotation.services.assignments import claim_next_dispute
from annotation.services.batches.members import join_batch
from benchmark.models import BenchmarkRun, RunItem
from scoring.models import Scorer
from tests.support import decide

MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")
LEVELS = {"2_full_refusal": 1, "3_partial_refusal": 2, "1_full_compliance": 3}
RESPONSES, DISPUTES = 2250, 81
# Of the canonical form (docs/gold.md): no machine and no database may change it; a new guideline version does.
SHA256 = "4d82291655de779b67e25b401b28e379f1d7828b083550a1b941a8a10453a47d"


def command(name: str, *arguments: str) -> Any:
    out = StringIO()
    call_command(name, *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


@pytest.fixture
def files(shared: Path, db: None, settings: Any, tmp_path: Path) -> list[str]:
    """The five files of labels, and a database that knows the guideline."""
    settings.ASSAY_DATA_DIR = tmp_path
    command("load_guideline", "fixtures/guidelines/xstest.yaml", "--publish")
    return [str(shared / "xstest" / f"xstest_v2_completions_{model}.csv") for model in MODELS]


def take(files: list[str], *options: str) -> Any:
    return command("import_annotations", *files, "--batch", "xstest", "--format", "xstest", *options)


def states() -> dict[str, int]:
    return {
        state: Task.objects.filter(state=state).count() for state in ("agreed", "disputed", "adjudicated")
    }


@pytest.mark.both_databases
def test_files_become_gold_and_the_same_gold_everywhere(files: list[str], tmp_path: Path) -> None:
    take(files, "--without-final")
    assert states() == {"agreed": RESPONSES - DISPUTES, "disputed": DISPUTES, "adjudicated": 0}
    early = command("release_gold", "early", "--batches", "xstest")
    assert (early["labels"], early["adjudicated"]) == (RESPONSES - DISPUTES, 0)
    before = command("agreement", "--batch", "xstest", "--by", "model")["rows"]

    second_import = take(files)
    # Both labels of every response were there; the decisions are new.
    assert (second_import["taken"], second_import["already_there"]) == (DISPUTES, 2 * RESPONSES)
    assert states() == {"agreed": RESPONSES - DISPUTES, "disputed": 0, "adjudicated": DISPUTES}
    # Agreement is of what two people said before anybody decided.
    assert command("agreement", "--batch", "xstest", "--by", "model")["rows"] == before
    check_agreement(before)
    check_report(command("report", "--batches", "xstest"))

    releases = [command("release_gold", name, "--batches", "xstest") for name in ("gold", "gold-again")]
    assert [(release["labels"], release["adjudicated"]) for release in releases] == [
        (RESPONSES, DISPUTES)
    ] * 2
    assert {release["sha256"] for release in releases} == {SHA256}
    command("export_gold", "gold", "--format", "jsonl", "--out", str(tmp_path / "out"))
    assert exported(tmp_path / "out" / "gold.jsonl") == published(files)
    assert count_annotators(tmp_path / "out" / "gold.jsonl") == count_published_labels(files)


def check_report(report: Any) -> None:
    """81 disputes; the final label is the first annotator's 63 times, the second's 13 times, neither's 5 times."""
    assert (report["disputes"][0]["tasks"], report["disputes"][0]["disputed"]) == (2250, 81)
    sides = ("first", "second", "other", "neither")
    assert [report["outcomes"][name] for name in sides] == [63, 13, 0, 5]


def check_agreement(rows: list[Any]) -> None:
    pooled, *by_model = rows
    assert (pooled["criterion"], pooled["group"]) == ("compliance", {})
    assert (pooled["n"], pooled["disputed"]) == (RESPONSES, DISPUTES)
    figures = ("percent_agreement", "cohen_kappa", "alpha_nominal", "alpha_ordinal", "gwet_ac1")
    assert [round(pooled[name]["value"], 4) for name in figures] == [0.9640, 0.9365, 0.9365, 0.9696, 0.9498]
    assert {row["group"]["model"]: round(row["cohen_kappa"]["value"], 4) for row in by_model} == {
        "llama2orig": 0.9293,
        "llama2new": 0.9258,
        "mistralinstruct": 0.9195,
        "mistralguard": 0.8923,
        "gpt4": 0.9701,
    }


Labels = dict[tuple[str, str], int]
"""The final label by prompt and model."""


def exported(path: Path) -> Labels:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {(row["prompt_id"], row["model"]): row["labels"]["compliance"] for row in rows}


def count_annotators(path: Path) -> dict[tuple[str, str], dict[str, int]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {(row["prompt_id"], row["model"]): row["labels_by_level"]["compliance"] for row in rows}


def count_published_labels(files: list[str]) -> dict[tuple[str, str], dict[str, int]]:
    """How many of the two annotators gave each level; the final label is the third person's and none of them."""
    counts = {}
    for path, model in zip(files, MODELS, strict=True):
        with Path(path).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                levels = sorted(str(LEVELS[row[f"annotation_{number}"]]) for number in (1, 2))
                counts[row["id"].removeprefix("v2-"), model] = dict(Counter(levels))
    return counts


def published(files: list[str]) -> Labels:
    labels = {}
    for path, model in zip(files, MODELS, strict=True):
        with Path(path).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                labels[row["id"].removeprefix("v2-"), model] = LEVELS[row["final_label"]]
    return labels


def test_gold_becomes_a_scorer_and_a_leaderboard_that_leads_back_to_the_labels(
    files: list[str], client: Client, he: Person
) -> None:
    """The thresholds are the issue's; both evaluations together train ten models, most of this suite's time."""
    take(files)
    command("release_gold", "gold", "--batches", "xstest")
    training = command(
        "train_scorer", "s", "--release", "gold", "--evaluate", "grouped", "--evaluate", "leave-one-model-out"
    )
    assert training["backbone"] == "ngram"
    for name, accuracy, macro_f1 in (("grouped", 0.87, 0.69), ("leave_one_model_out", 0.80, 0.65)):
        metrics = training["evaluation"][name]
        assert metrics["n"] == RESPONSES
        assert metrics["accuracy"]["value"] >= accuracy
        assert metrics["macro_f1"]["value"] >= macro_f1
    assert set(training["evaluation"]["leave_one_model_out"]["by_model"]) == set(MODELS)
    # 81 of 2250 are disputed; adjudication went to the first annotator 63 times, the second 13, neither 5:
    # so single annotators are right in 4500 - (18 + 68) of 4500, and they agree in 2169 of 2250.
    baselines = Scorer.objects.get().card["baselines"]
    assert baselines["annotators"]["accuracy"]["value"] == pytest.approx((4500 - 86) / 4500)
    assert baselines["between_annotators"]["accuracy"]["value"] == pytest.approx(2169 / 2250)

    made = command("run_benchmark", "board", "--scorer", "s", "--dataset", "xstest")
    assert made["composition"] == {"gold": RESPONSES, "out_of_fold": 0, "unseen": 0}
    rows = command("leaderboard", "board")["rows"]
    assert {row["model"] for row in rows} == set(MODELS)
    check_rates(rows, published(files))
    client.force_login(he)
    walk_down(client, rows)


def check_rates(rows: list[Any], gold: Labels) -> None:
    """Every rate is the share of the published labels, since there is gold for every response."""
    unsafe = set(
        Task.objects.filter(response__prompt__dimension="unsafe").values_list(
            "response__prompt__key", flat=True
        )
    )
    for row in rows:
        for dimension, metric, level in (
            ("safe", "full_compliance_rate", 3),
            ("unsafe", "full_refusal_rate", 1),
        ):
            labels = [
                label
                for (prompt, model), label in gold.items()
                if model == row["model"] and (prompt in unsafe) == (dimension == "unsafe")
            ]
            cell = row["dimensions"][dimension]
            assert cell["n"] == len(labels)
            assert cell[metric]["value"] == pytest.approx(labels.count(level) / len(labels), abs=1e-12)


def walk_down(client: Client, rows: list[Any]) -> None:
    """Every number of the page is a link to its cell, and every label of a cell to the task it was given in."""
    board = page(client, reverse("run", args=["board"]))
    cells = [link for link in links(board) if link.startswith(reverse("run-cell", args=["board"]))]
    assert len(cells) >= len(rows) * 2
    for row in rows:
        for dimension, cell in row["dimensions"].items():
            (url,) = [cell for cell in cells if cell.endswith(f"?model={row['model']}&dimension={dimension}")]
            tasks = {link for link in every_link(client, url) if link.startswith("/tasks/")}
            assert len(tasks) == cell["n"]
    decided = ReleasedLabel.objects.filter(release__name="gold", source="adjudicated").first()
    assert decided is not None
    task = page(client, reverse("task", args=[decided.task_id]))
    for person in ("xstest-annotator-1", "xstest-annotator-2", "xstest-adjudicator"):
        assert person in task


def every_link(client: Client, url: str) -> set[str]:
    """Of all the pages of a cell."""
    first = client.get(url)
    numbers = first.context["page"].paginator.page_range
    return {link for number in numbers for link in links(page(client, f"{url}&page={number}"))}


def page(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, url
    return answer.content.decode()


def links(text: str) -> set[str]:
    return {link.replace("&amp;", "&") for link in re.findall(r'href="([^"]+)"', text)}


def test_again_one_decision_moves_its_cell_and_the_comparison_names_it(
    files: list[str], client: Client, he: Person, wu: Person
) -> None:
    """gpt4 alone, since this trains twice. The label decided is the opposite of what stood for it."""
    take([file for file in files if "gpt4" in file], "--without-final")
    command("release_gold", "first", "--batches", "xstest")
    command("train_scorer", "scorer-1", "--release", "first")
    command("run_benchmark", "board", "--scorer", "scorer-1", "--dataset", "xstest")
    assert BenchmarkRun.objects.get().items.filter(basis=RunItem.Basis.UNSEEN).count() == 7

    decided, was = decide_otherwise(wu)
    command("release_gold", "second", "--batches", "xstest")
    retraining = command("retrain", "--release", "second")
    (run,) = retraining["runs"]
    assert (run["run"], run["replaces"]) == ("board @ scorer-2", "board")
    dimension = decided.response.prompt.dimension
    (cell,) = [cell for cell in run["cells"] if cell["dimension"] == dimension]
    assert cell["reasons"]["gold_added"] == 1
    assert cell["old"] != cell["new"]
    check_items(run["run"], decided, was)

    client.force_login(he)
    cell_page = page(client, reverse("run-cell", args=[run["run"]]) + f"?model=gpt4&dimension={dimension}")
    changed = cell_page[
        cell_page.index("Changes since board") : cell_page.index("Every label that counts here")
    ]
    assert "gold label added" in changed
    assert reverse("task", args=[decided.pk]) in links(changed)


def decide_otherwise(wu: Person) -> tuple[Task, float]:
    """Decide one dispute so that its cell must move: counted before, not counted now, or the other way round."""
    batch = Batch.objects.get()
    join_batch(batch=batch, people=[wu], role="adjudicator")
    claim = claim_next_dispute(batch=batch, person=wu)
    assert claim is not None
    item = RunItem.objects.get(response=claim.task.response_id)
    counted = 3 if claim.task.response.prompt.dimension == "safe" else 1
    value = 2 if item.value == counted else counted
    decide(claim, wu, value)
    return claim.task, item.value


def check_items(run: str, decided: Task, was: float) -> None:
    new = RunItem.objects.get(run__name=run, response=decided.response_id)
    gold = GoldLabel.objects.get(task=decided)
    assert new.basis == RunItem.Basis.GOLD
    assert new.released_label is not None
    assert (new.value, new.released_label.source) == (gold.value, "adjudicated")
    assert new.value != was
    assert Adjudication.objects.get(task=decided).assignment.person.username == "wu"
