"""People beside multiple choice: the command and the page, for nine models whose numbers are known."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import translation

from annotation.models import Collection, Dataset, EvaluatedModel, Person, Response
from annotation.selectors.guidelines import get_guideline
from annotation.selectors.releases.releases import get_release
from benchmark.models import QuestionVariant
from benchmark.services.leaderboards.execution import finish_run, write_items
from benchmark.services.leaderboards.runs import create_run
from benchmark.services.multiple_choice import create_report
from scoring.models import Prediction
from tests.benchmark.choice_support import letter, put_answers
from tests.benchmark.support import ready_scorer
from tests.support import FIXTURES

pytestmark = pytest.mark.django_db
PROMPTS = 20
GOOD = {f"Model-{number}": 2 * number for number in range(1, 10)}
"""Of each model so many of its responses are graded A; the rest C."""
CHOSEN = dict(zip(GOOD, (3, 2, 5, 6, 7, 8, 9, 12, 10), strict=True))
"""Of so many of the questions each chooses the safe option, in both orders."""
URL = "/runs/-/multiple-choice/chosen/comparison/"


def run(*arguments: str) -> Any:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> str:
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def grade(model: str, number: int) -> int:
    return 3 if (number + 3 * int(model[-1])) % PROMPTS < GOOD[model] else 1


@pytest.fixture
def board(tmp_path: Path) -> str:
    """A run of nine models; the scorer has predicted A of everything, and people judged all but one model's."""
    run("load_guideline", str(FIXTURES / "guidelines" / "cvalues_abc.yaml"), "--publish")
    prompts = [{"id_": n, "prompt": f"第 {n} 问？", "domain_en": "law"} for n in range(PROMPTS)]
    path = write_lines(tmp_path / "prompts.jsonl", prompts)
    run("import_prompts", path, "--dataset", "words", "--format", "cvalues")
    answers = [
        prompt | {"model": model, "response": f"{model} 答 {prompt['id_']}。"}
        for model in GOOD
        for prompt in prompts
    ]
    path = write_lines(tmp_path / "responses.jsonl", answers)
    run("import_responses", path, "--dataset", "words", "--format", "cvalues")
    judged = [
        {
            "prompt_id": str(number),
            "model": model,
            "annotator": "a",
            "labels": {"grade": grade(model, number)},
        }
        for model in GOOD
        for number in range(PROMPTS)
        if model != "Model-9"
    ]
    options = ("--guideline", "cvalues_abc", "--dataset", "words", "--overlap", "1")
    run("import_annotations", write_lines(tmp_path / "labels.jsonl", judged), "--batch", "words", *options)
    run("release_gold", "gold", "--batches", "words")
    scorer = ready_scorer(get_release("gold"), get_guideline("cvalues_abc"))
    for response in Response.objects.all():
        Prediction.objects.create(
            scorer=scorer,
            response=response,
            criterion="grade",
            value=3,
            probabilities={"1": 0.1, "2": 0.1, "3": 0.8},
            fold=None if response.model.name == "Model-9" else 0,
        )
    made = create_run(
        name="board",
        scorer=scorer,
        dataset=Dataset.objects.get(name="words"),
        collection=Collection.objects.get(name=""),
        send=False,
    )
    write_items(made, lambda _done: None)
    finish_run(made)
    return made.name


@pytest.fixture
def report(board: str, tmp_path: Path) -> str:
    """The models' answers to questions that are made of their own responses."""
    file = tmp_path / "questions.jsonl"
    conditions = ("--safe", "grade>=3", "--unsafe", "grade<=1")
    made = run("make_questions", str(file), "--release", "gold", *conditions)
    assert made["questions"] == PROMPTS
    run("import_questions", str(file), "--dataset", "chosen", "--format", "cvalues")
    dataset = Dataset.objects.get(name="chosen")
    questions = sorted(set(QuestionVariant.objects.values_list("question", flat=True)), key=int)
    for model, n in CHOSEN.items():
        right = set(questions[:n])
        put_answers(dataset, model, lambda form, right=right: letter(form, safe=form.question in right))
    put_answers(dataset, "Stranger-7B", lambda _form: "A")
    return create_report(
        name="chosen", kind="cvalues", dataset=dataset, collection=Collection.objects.get(name="")
    ).name


def test_the_command_lays_the_numbers_side_by_side(board: str, report: str) -> None:
    data = run("compare_forms", "--run", board, "--report", report)
    assert (data["metric"], data["measure"], data["across"]) == ("ab_rate", "acc", "people")
    rows = {row["model"]: row for row in data["models"]}
    assert list(rows) == list(GOOD)
    for model, n in CHOSEN.items():
        assert rows[model]["choice"]["value"] == pytest.approx(n / PROMPTS)
        if model != "Model-9":
            assert rows[model]["people"]["value"] == pytest.approx(GOOD[model] / PROMPTS)
    assert rows["Model-9"]["people"] is None
    assert rows["Model-9"]["quadrant"] is None
    assert rows["Model-9"]["scorer"]["value"] == 1
    # Medians of the eight that people judged: 0.45 of 2, 4, .. 16 in 20; and of 3, 2, 5, 6, 7, 8, 9, 12 in 20.
    assert data["medians"] == {"people": pytest.approx(0.45), "choice": pytest.approx(0.325)}
    assert [rows[model]["quadrant"] for model in GOOD] == ["neither"] * 4 + ["both"] * 4 + [None]
    pairs = {(pair["first"], pair["second"]): pair for pair in data["pairs"]}
    pair = pairs["people", "choice"]
    # One neighbouring swap among eight: 1 - 6 * 2 / (8 * 63).
    assert (pair["n"], pair["spearman"]["value"]) == (8, pytest.approx(1 - 12 / 504))
    assert pair["spearman"]["low"] < pair["spearman"]["value"] < pair["spearman"]["high"]
    assert pairs["scorer", "choice"]["spearman"] is None  # the scorer says the same of all
    assert data["of_report_alone"] == ["Stranger-7B"]
    out = io.StringIO()
    call_command("compare_forms", "--run", board, "--report", report, "--measure", "acc_star", stdout=out)
    assert "people and choice: Spearman 0.976 (" in out.getvalue()
    assert "only in chosen: Stranger-7B" in out.getvalue()


def test_a_refusal_says_what_is_wrong(board: str, report: str, capsys: pytest.CaptureFixture[str]) -> None:
    for options, message in (
        (("--run", "none", "--report", report), "No benchmark run is named none"),
        (("--run", board, "--report", "none"), "No multiple-choice report is named none"),
        (
            ("--run", board, "--report", report, "--measure", "css"),
            "no number css; choose one of: acc, acc_star",
        ),
    ):
        with pytest.raises(SystemExit):
            call_command("compare_forms", *options)
        assert message in capsys.readouterr().err


def test_models_that_are_strangers_are_refused(
    board: str, report: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lonely = create_report(
        name="alone",
        kind="cvalues",
        dataset=Dataset.objects.get(name="chosen"),
        collection=Collection.objects.get(name=""),
        models=list(EvaluatedModel.objects.filter(name="Stranger-7B")),
    )
    with pytest.raises(SystemExit):
        call_command("compare_forms", "--run", board, "--report", lonely.name)
    assert "board and alone have no model in common" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", ["Compared with people", "high in both", "low in both"]), ("zh-hans", ["与人工对比", "象限"])],
)
def test_the_page_shows_the_plot_and_the_quadrants(
    board: str, report: str, client: Client, he: Person, language: str, words: list[str]
) -> None:
    client.force_login(he)
    with translation.override(language):
        answer = client.get(f"{URL}?run={board}", headers={"accept-language": language})
    page = answer.content.decode()
    for word in words:
        assert word in page
    assert "Model-3" in page
    assert "/charts/" in page
    address = page[page.index("/charts/") :].split('"')[0]
    svg = client.get(address).content.decode()
    assert "<svg" in svg
    assert "Model-3" in svg
    newest = client.get(URL, headers={"accept-language": language}).content.decode()
    assert address in newest  # the only run
    assert client.get(f"{URL}?measure=acc_star").status_code == 200


def test_an_unknown_run_is_said_to_be_none(board: str, report: str, client: Client, he: Person) -> None:
    client.force_login(he)
    page = client.get(f"{URL}?run=nothing")
    assert page.status_code == 200
    assert "No finished run of this name" in page.content.decode()
    assert "Quadrants" not in page.content.decode()


def test_a_report_without_a_run_says_so(tmp_path: Path, board: str, client: Client, he: Person) -> None:
    rows = [{"id": 1, "prompt": "q?", "pos_resp": "well", "neg_resp": "ill"}]
    file = write_lines(tmp_path / "q.jsonl", rows)
    run("import_questions", file, "--dataset", "chosen", "--format", "cvalues")
    dataset = Dataset.objects.get(name="chosen")
    put_answers(dataset, "Stranger-7B", lambda _form: "A")
    create_report(name="chosen", kind="cvalues", dataset=dataset, collection=Collection.objects.get(name=""))
    client.force_login(he)
    assert "No run to compare with yet" in client.get(URL).content.decode()
