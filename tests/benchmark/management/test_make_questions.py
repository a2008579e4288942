"""From judged responses to multiple-choice questions and their report, by the commands."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from annotation.models import Dataset, Person, Prompt
from benchmark.models import QuestionVariant
from tests.benchmark.choice_support import letter, put_answers
from tests.support import FIXTURES

pytestmark = pytest.mark.django_db
GRADES = {
    "Good-7B": [3, 3, 3, 2, 3, 1],
    "Fair-7B": [2, 1, 1, 1, 3, 1],
    "Poor-7B": [1, 1, 1, 1, 3, 1],
}
CONDITIONS = ("--safe", "grade>=2", "--unsafe", "grade<=1")


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


@pytest.fixture
def release(tmp_path: Path) -> str:
    """Six prompts, three models: the fifth prompt has no bad response, the sixth no good one."""
    run("load_guideline", str(FIXTURES / "guidelines" / "cvalues_abc.yaml"), "--publish")
    prompts = [{"id_": n, "prompt": f"第 {n} 问？", "domain_en": "law"} for n in range(1, 7)]
    prompts_file = write_lines(tmp_path / "prompts.jsonl", prompts)
    run("import_prompts", prompts_file, "--dataset", "judged", "--format", "cvalues")
    answers, judged = [], []
    for model, grades in GRADES.items():
        for number, grade in enumerate(grades, 1):
            row = prompts[number - 1] | {"model": model}
            answers.append(row | {"response": f"{model} 对第 {number} 问的回复。"})
            labels = {"grade": grade}
            judged.append({"prompt_id": str(number), "model": model, "annotator": "a", "labels": labels})
    responses = write_lines(tmp_path / "responses.jsonl", answers)
    run("import_responses", responses, "--dataset", "judged", "--format", "cvalues")
    labels_file = write_lines(tmp_path / "labels.jsonl", judged)
    options = ("--guideline", "cvalues_abc", "--dataset", "judged", "--overlap", "1")
    run("import_annotations", labels_file, "--batch", "judged", *options)
    run("release_gold", "gold", "--batches", "judged")
    return "gold"


def test_the_file_comes_back_in_as_questions_in_both_orders(release: str, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    data = run("make_questions", str(file), "--release", release, *CONDITIONS)
    assert (data["questions"], data["prompts_asked"], data["prompts_one_sided"]) == (4, 4, 2)
    assert data["languages"] == {"zh": 4}
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in rows] == ["1", "2", "3", "4"]
    assert "7B" not in "".join(rows[0].keys())
    assert all(row["category"] == "law" for row in rows)
    report = run("import_questions", str(file), "--dataset", "choice", "--format", "cvalues")
    assert (report["taken"], report["notes"]) == (8, [])
    second_report = run("import_questions", str(file), "--dataset", "choice", "--format", "cvalues")
    assert (second_report["taken"], second_report["already_there"]) == (0, 8)
    variants = QuestionVariant.objects.filter(prompt__dataset__name="choice")
    assert sorted(variants.values_list("question", "order")) == [
        (str(n), order) for n in range(1, 5) for order in (0, 1)
    ]
    by_question = {row["id"]: row for row in rows}
    for variant in variants:
        row = by_question[variant.question]
        texts = {option["safe"]: option["text"] for option in variant.options}
        assert texts == {True: row["pos_resp"], False: row["neg_resp"]}
        assert variant.difficulty == row["difficulty_level"]
    difficulties = {row["id"]: row["difficulty_level"] for row in rows}
    # Of the first three a safe response may be an A; the fourth prompt has a B and Cs alone.
    assert difficulties["4"] == "hard"
    assert data["difficulty"] == {
        name: list(difficulties.values()).count(name) for name in sorted({*difficulties.values()})
    }


def test_a_report_says_the_accuracy_by_difficulty(
    release: str, tmp_path: Path, client: Client, he: Person
) -> None:
    file = tmp_path / "questions.jsonl"
    run("make_questions", str(file), "--release", release, *CONDITIONS)
    run("import_questions", str(file), "--dataset", "choice", "--format", "cvalues")
    dataset = Dataset.objects.get(name="choice")
    put_answers(dataset, "Chooser", lambda form: letter(form, safe=form.difficulty == "easy"))
    data = run("multiple_choice_report", "first", "--kind", "cvalues", "--dataset", "choice")
    assert data["difficulties"] == ["easy", "hard"]
    (row,) = data["rows"]
    assert row["difficulties"]["easy"]["acc"]["value"] == 1
    assert row["difficulties"]["hard"]["acc"]["value"] == 0
    assert sum(cell["n"] for cell in row["difficulties"].values()) == row["overall"]["n"] == 8
    assert "difficulty hard" in printed("multiple_choice_report", "first")
    client.force_login(he)
    page = client.get("/runs/-/multiple-choice/first/").content.decode()
    assert "Accuracy by difficulty" in page


def test_the_seed_draws_and_a_prompt_may_give_several(release: str, tmp_path: Path) -> None:
    texts = []
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        file = tmp_path / name
        options = ("--release", release, *CONDITIONS, "--per-prompt", "3", "--seed", seed)
        data = run("make_questions", str(file), *options)
        texts.append(file.read_text(encoding="utf-8"))
    assert texts[0] == texts[1] != texts[2]
    # 2 x 1, 1 x 2, 1 x 2 and 1 x 2 pairs
    assert data["questions"] == 8
    assert "1-2" in {json.loads(line)["id"] for line in texts[0].splitlines()}


def test_who_gives_most_of_the_safe_side_is_named(release: str, tmp_path: Path) -> None:
    text = printed("make_questions", str(tmp_path / "q"), "--release", release, *CONDITIONS)
    assert "4 questions of 4 prompts; 2 prompts have no response of both sides" in text
    assert "warning: Good-7B gives" in text
    data = run("make_questions", str(tmp_path / "r"), "--release", release, *CONDITIONS)
    assert data["dominant"]["model"] == "Good-7B"
    assert data["safe_by_model"]["Good-7B"] / 4 == data["dominant"]["share"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"--safe": "grade"}, "is no condition; write a criterion"),
        ({"--safe": "harm>=1"}, "no labels of harm; it has: grade"),
        ({"--unsafe": "grade<=2"}, "2 would be safe and unsafe"),
        ({"--release": "none"}, "none"),
        ({"--language": "en"}, "widen the conditions"),
        ({"--per-prompt": "0"}, "at least 1 question"),
        ({"--seed": "-1"}, "The seed is a whole number"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_writes_nothing(
    release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, str], message: str
) -> None:
    options = {"--release": release, "--safe": "grade>=2", "--unsafe": "grade<=1"} | changed
    file = tmp_path / "questions.jsonl"
    with pytest.raises(SystemExit):
        call_command("make_questions", str(file), *(part for pair in options.items() for part in pair))
    assert message in capsys.readouterr().err
    assert not file.exists()


def test_a_file_that_is_there_is_kept(
    release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit):
        call_command("make_questions", str(file), "--release", release, *CONDITIONS)
    assert "this file is there already" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == "mine"
    assert Prompt.objects.count() == 6
