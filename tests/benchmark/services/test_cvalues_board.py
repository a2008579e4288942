"""CValues on boards: the shares of A and B that its report on experts' principles prints, from the counts behind them;
and responsibility from 1 to 10 by domain. Prompts of the counts, responses and ratings are invented.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from annotation.models import Collection, Dataset, Person, Prompt
from annotation.selectors.guidelines import get_guideline
from annotation.selectors.releases.releases import get_release
from benchmark.models import BenchmarkRun
from benchmark.services.leaderboards.execution import finish_run, write_items
from benchmark.services.leaderboards.runs import create_run
from tests.benchmark.support import ready_scorer
from tests.support import FIXTURES

pytestmark = pytest.mark.django_db
BEFORE, AFTER = "ChatPLUG_initial", "ChatPLUG_100Poison"
COUNTS = {
    "experts": {BEFORE: (59, 55, 70), AFTER: (111, 36, 37)},
    "others": {BEFORE: (18, 20, 28), AFTER: (48, 9, 9)},
}
"""Of A, B and C, on the experts' own prompts and on others."""
PUBLISHED = {
    "experts": {BEFORE: "61.96", AFTER: "79.89"},
    "others": {BEFORE: "57.58", AFTER: "86.36"},
}
GRADES = (3, 2, 1)
SOURCE = "X-PLUG/CValues, alignment by experts' principles, 2023"


def run(*arguments: str) -> Any:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())


def printed(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> str:
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def make_board(
    folder: Path, guideline: str, dataset: str, labels: Mapping[str, Mapping[str, dict[str, int]]]
) -> BenchmarkRun:
    """A board of gold alone: by model and prompt the labels of one person, through the files and commands."""
    rows, judged = [], []
    texts = dict(Prompt.objects.filter(dataset__name=dataset).values_list("key", "text"))
    domains = dict(Prompt.objects.filter(dataset__name=dataset).values_list("key", "subcomponent"))
    for model, own in labels.items():
        for key, answers in own.items():
            row = {"id_": key, "prompt": texts[key], "domain_en": domains[key], "model": model}
            rows.append(row | {"response": f"{model} answers {key}."})
            judged.append({"prompt_id": key, "model": model, "annotator": "expert", "labels": answers})
    run(
        "import_responses",
        write_lines(folder / f"{dataset}-responses.jsonl", rows),
        *("--dataset", dataset, "--format", "cvalues"),
    )
    run(
        *("import_annotations", write_lines(folder / f"{dataset}-labels.jsonl", judged), "--batch", dataset),
        *("--guideline", guideline, "--dataset", dataset, "--overlap", "1"),
    )
    run("release_gold", f"gold-{dataset}", "--batches", dataset)
    made = create_run(
        name=f"board-{dataset}",
        scorer=ready_scorer(get_release(f"gold-{dataset}"), get_guideline(guideline), f"scorer-{dataset}"),
        dataset=Dataset.objects.get(name=dataset),
        collection=Collection.objects.get(name=""),
        send=False,
    )
    write_items(made, lambda _done: None)
    finish_run(made)
    return made


def grade_board(folder: Path, dataset: str) -> BenchmarkRun:
    """Prompts of all domains in turn; of each model as many of every grade as were counted."""
    domains = ("law", "psychology", "barrier_free")
    grades = {
        model: [grade for grade, n in zip(GRADES, counts, strict=True) for _ in range(n)]
        for model, counts in COUNTS[dataset].items()
    }
    n = len(grades[BEFORE])
    prompts = [
        {"id_": number, "prompt": f"提示 {dataset} {number}", "domain_en": domains[number % len(domains)]}
        for number in range(n)
    ]
    path = write_lines(folder / f"{dataset}.jsonl", prompts)
    run("import_prompts", path, "--dataset", dataset, "--format", "cvalues")
    labels = {
        model: {str(number): {"grade": grade} for number, grade in enumerate(own)}
        for model, own in grades.items()
    }
    return make_board(folder, "cvalues_abc", dataset, labels)


@pytest.mark.parametrize("dataset", list(COUNTS))
def test_counts_of_grades_give_the_printed_shares_from_a_file(tmp_path: Path, dataset: str) -> None:
    rows = [
        {"model": model, "dimension": "responsibility", "predicted": grade}
        for model, counts in COUNTS[dataset].items()
        for grade, n in zip(GRADES, counts, strict=True)
        for _ in range(n)
    ]
    file = write_lines(tmp_path / "grades.jsonl", rows)
    table = printed("leaderboard", "--from-file", file, "--guideline", "cvalues_abc")
    for model, rate in PUBLISHED[dataset].items():
        assert rate in next(line for line in table.splitlines() if line.startswith(model))


@pytest.mark.parametrize("dataset", list(COUNTS))
def test_a_board_of_the_counted_grades_stands_beside_the_published_table(
    tmp_path: Path, client: Client, he: Person, dataset: str
) -> None:
    run("load_guideline", str(FIXTURES / "guidelines" / "cvalues_abc.yaml"), "--publish")
    board = grade_board(tmp_path, dataset)
    rows = {row["model"]: row for row in run("leaderboard", board.name)["rows"]}
    for model, counts in COUNTS[dataset].items():
        cell = rows[model]["dimensions"]["responsibility"]
        assert cell["levels"] == {"grade": {str(grade): n for grade, n in zip(GRADES, counts, strict=True)}}
        assert rows[model]["overall"]["ab_rate"]["value"] == pytest.approx(sum(counts[:2]) / sum(counts))
        assert rows[model]["overall"]["a_rate"]["value"] == pytest.approx(counts[0] / sum(counts))
        assert cell["ab_rate"]["low"] < cell["ab_rate"]["value"] < cell["ab_rate"]["high"]
    n = sum(COUNTS[dataset][BEFORE])
    lines = ["model,responsibility.ab_rate,responsibility.n,overall.ab_rate"]
    lines += [f"{model} paper,{rate}%,{n},{rate}%" for model, rate in PUBLISHED[dataset].items()]
    table = tmp_path / "published.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    made = run(
        *("import_published", str(table), "--guideline", "cvalues_abc", "--dataset", dataset),
        *("--name", "CValues", "--source", SOURCE),
    )
    assert made["models"] == 2
    client.force_login(he)
    page = client.get(f"/runs/{board.name}/").content.decode()
    for model, rate in PUBLISHED[dataset].items():
        assert f"{model} paper" in page
        assert page.count(rate) >= 2  # measured, and published


def test_a_published_share_that_no_count_gives_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("load_guideline", str(FIXTURES / "guidelines" / "cvalues_abc.yaml"), "--publish")
    grade_board(tmp_path, "others")
    table = tmp_path / "published.csv"
    table.write_text("model,responsibility.ab_rate,responsibility.n\nM,61.96%,66\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        call_command(
            *("import_published", str(table), "--guideline", "cvalues_abc", "--dataset", "others"),
            *("--name", "CValues", "--source", SOURCE),
        )
    assert "no whole number of 66 responses gives 61.96%" in capsys.readouterr().err


def test_responsibility_is_averaged_by_domain(
    shared: Path, tmp_path: Path, client: Client, he: Person
) -> None:
    """The experts' prompts: one model is rated 8, and 6 in law; the other 5 everywhere."""
    run("load_guideline", str(FIXTURES / "guidelines" / "cvalues.yaml"), "--publish")
    file = str(shared / "cvalues" / "cvalues_responsibility_prompts.jsonl")
    options = ("--dataset", "cvalues", "--format", "cvalues", "--guideline", "cvalues")
    reports = [run("import_prompts", file, *options) for _time in range(2)]
    assert [(report["taken"], report["already_there"]) for report in reports] == [(664, 0), (0, 664)]
    assert reports[0]["notes"] == []
    domains = Counter(Prompt.objects.values_list("subcomponent", flat=True))
    assert domains["lesser_known_major"] == 10
    assert domains["law"] == 93
    first = Prompt.objects.get(key="1")
    assert (first.dimension, first.subcomponent, first.language) == (
        "responsibility",
        "environmental_science",
        "zh",
    )
    rated_prompts = Prompt.objects.filter(key__in=[str(number) for number in range(1, 665, 3)])
    ratings = {prompt.key: 6 if prompt.subcomponent == "law" else 8 for prompt in rated_prompts}
    labels = {
        "Good-7B": {key: {"responsibility": rating} for key, rating in ratings.items()},
        "Fair-7B": {key: {"responsibility": 5} for key in ratings},
    }
    board = make_board(tmp_path, "cvalues", "cvalues", labels)
    data = run("leaderboard", board.name, "--by", "subcomponent")
    groups = data["groups"]["subcomponent"]
    names = [column["name"] for column in groups["columns"]]
    assert set(names) == set(domains)
    cells = {row["model"]: dict(zip(names, row["cells"], strict=True)) for row in groups["rows"]}
    for name in names:
        expected = 6 if name == "law" else 8
        assert cells["Good-7B"][name]["mean_responsibility"]["value"] == pytest.approx(expected)
        assert cells["Fair-7B"][name]["mean_responsibility"]["value"] == pytest.approx(5)
    mean = sum(ratings.values()) / len(ratings)
    row = next(row for row in data["rows"] if row["model"] == "Good-7B")
    assert row["dimensions"]["responsibility"]["mean_responsibility"]["value"] == pytest.approx(mean)
    client.force_login(he)
    page = client.get(f"/runs/{board.name}/?view=groups&by=subcomponent").content.decode()
    assert "Intimate relations" in page
    assert "8.00" in page
