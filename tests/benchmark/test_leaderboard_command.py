from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.models import Guideline
from tests.support import FLAMES_GUIDELINE

DIMENSIONS = ("Fairness", "Safety", "Morality", "Legality", "Data protection")


def leaderboard(*arguments: str) -> str:
    out = io.StringIO()
    call_command("leaderboard", *arguments, stdout=out)
    return out.getvalue()


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        leaderboard(*arguments)
    assert stopped.value.code == 1
    lines = capsys.readouterr().err.strip().splitlines()
    return next(line for line in lines if "as shipped" not in line)


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="session")
def published(shared: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((shared / "flames" / "flames_leaderboard.json").read_text("utf-8"))
    return data


@pytest.fixture
def expanded(published: dict[str, Any], tmp_path: Path) -> str:
    scale = published["rules"]["scale"]
    rows = [
        {"model": model["model"], "dimension": dimension, "predicted": level}
        for model in published["models"]
        for dimension, cell in model["dimensions"].items()
        for level, count in zip((1, 2, 3), cell["labels"], strict=True)
        for _ in range(count)
        if level in scale[dimension] or count == 0
    ]
    return write(tmp_path / "flames.jsonl", rows)


@pytest.mark.django_db
def test_the_published_flames_table_to_the_last_digit(published: dict[str, Any], expanded: str):
    table = leaderboard("--from-file", expanded, "--guideline", "flames")
    printed = {" ".join(line.split()).rsplit(" ", 0)[0] for line in table.splitlines()}
    for model in published["models"]:
        line = next(one for one in printed if one.startswith(f"{model['model']} "))
        cells = [c for d in DIMENSIONS for c in _printed(model["dimensions"][d])]
        numbers = [part for part in line.removeprefix(model["model"]).split() if not part.startswith("(")]
        # rank, overall rate, overall score, then rate and score of the five, then n of the five
        assert numbers[1] == model["overall_printed"]
        assert numbers[3:13] == cells
        assert numbers[13:] == [str(published["rules"]["prompts"][d]) for d in DIMENSIONS]


def _printed(cell: dict[str, Any]) -> list[str]:
    return [cell["rate_printed"], cell["score_printed"]]


@pytest.mark.django_db
def test_json_has_rates_as_fractions_and_scores_to_a_hundred(published: dict[str, Any], expanded: str):
    rows = json.loads(leaderboard("--from-file", expanded, "--guideline", "flames", "--json"))["rows"]
    found = {row["model"]: row for row in rows}
    assert len(found) == 17
    for model in published["models"]:
        row = found[model["model"]]
        assert row["overall"]["harmless_rate"]["value"] == pytest.approx(model["overall"] / 100, abs=1e-12)
        for dimension, cell in model["dimensions"].items():
            mine = row["dimensions"][dimension]
            assert mine["n"] == cell["n"]
            assert mine["harmless_rate"]["value"] == pytest.approx(cell["rate"] / 100, abs=1e-12)
            assert mine["harmless_score"]["value"] == pytest.approx(cell["score"], abs=1e-12)
            assert mine["harmless_rate"]["low"] < mine["harmless_rate"]["value"]


ROW = {"model": "M", "dimension": "Fairness", "predicted": 3}


@pytest.mark.django_db
def test_a_guideline_in_the_database_is_used_and_one_that_is_not_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = write(tmp_path / "rows.jsonl", [ROW])
    leaderboard("--from-file", path, "--guideline", "flames", "--json")
    assert "using flames@1.1 as shipped" in capsys.readouterr().err
    FLAMES_GUIDELINE.load()
    assert Guideline.objects.count() == 1
    leaderboard("--from-file", path, "--guideline", "flames", "--json")
    assert "shipped" not in capsys.readouterr().err
    leaderboard("--from-file", path, "--guideline", str(FLAMES_GUIDELINE.path), "--json")


@pytest.mark.django_db
def test_small_cells_bring_their_intervals_unasked(tmp_path: Path):
    path = write(tmp_path / "rows.jsonl", [ROW])
    # 1 of 1: Wilson from 1 / (1 + 3.8415) = 20.65 % to 100 %
    assert "20.65% - 100.0%" in leaderboard("--from-file", path, "--guideline", "flames")
    many = write(tmp_path / "many.jsonl", [ROW] * 30)
    assert "95%" not in leaderboard("--from-file", many, "--guideline", "flames")
    assert "95%" in leaderboard("--from-file", many, "--guideline", "flames", "--intervals")


@pytest.mark.django_db
def test_a_missing_dimension_makes_the_overall_undefined(tmp_path: Path):
    path = write(tmp_path / "rows.jsonl", [ROW] * 30)
    line = leaderboard("--from-file", path, "--guideline", "flames").splitlines()[2].split()
    assert line == ["M", "-", "-", "-", "100.0%", "100.0", *["-"] * 8, "30", "0", "0", "0", "0"]


@pytest.mark.django_db
def test_the_table_names_a_dimension_once_over_its_metrics(tmp_path: Path):
    path = write(tmp_path / "rows.jsonl", [ROW] * 30)
    above, heads, *_rows = leaderboard("--from-file", path, "--guideline", "flames").splitlines()
    assert above.split() == ["overall", *" ".join(DIMENSIONS).split(), "n"]
    # six times both metrics, named without the word that they share, then n of the five
    assert heads.split() == [
        "model",
        "rank",
        *["rate", "score"] * 6,
        "Fairn",
        "Safet",
        "Moral",
        "Legal",
        "Data",
    ]
    for dimension in DIMENSIONS:  # it ends where the second of its metrics does
        assert heads[: above.index(dimension) + len(dimension)].endswith("score")


BAD = {
    "bad JSON on line 7": ('{"model": "M",', ":7: this is not JSON"),
    "a list": ("[1]", ":7: a row must be a JSON object"),
    "an unknown dimension": (
        {**ROW, "dimension": "Kindness"},
        ':7 [dimension]: flames has no dimension "Kindness"',
    ),
    "a label off the scale": (
        {**ROW, "predicted": 4},
        ':7 [predicted]: "fairness" cannot be 4; use one of 1, 2, 3',
    ),
    "a level this dimension lacks": (
        {**ROW, "dimension": "Legality", "predicted": 2},
        ':7 [predicted]: "legality" cannot be 2; use one of 1, 3',
    ),
    "a label as text": ({**ROW, "predicted": "3"}, ":7 [predicted]"),
    "not a number": ('{"model": "M", "dimension": "Fairness", "predicted": NaN}', ":7 [predicted]"),
    "no model": ({"dimension": "Fairness", "predicted": 3}, ":7 [model]: this field is missing"),
    "no dimension": ({"model": "M", "predicted": 3}, ":7 [dimension]: this field is missing"),
    "no label": ({"model": "M", "dimension": "Fairness"}, ":7 [predicted]: this field is missing"),
    "an empty model": ({**ROW, "model": " "}, ":7 [model]"),
    "nested too deep": ("[" * 100_000, ":7: this is not JSON"),
}


@pytest.mark.django_db
@pytest.mark.parametrize(("row", "said"), BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_named(row: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = write(tmp_path / "rows.jsonl", [ROW] * 6)
    with Path(path).open("a") as file:
        file.write(row if isinstance(row, str) else json.dumps(row))
    assert f"{path}{said}" in refusal(capsys, "--from-file", path, "--guideline", "flames")


@pytest.mark.django_db
@pytest.mark.parametrize("content", [b"", b"\n\n", b"\x00\x01\xff\xfe", b"{\x00}"])
def test_an_empty_or_binary_file_is_refused(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    assert refusal(capsys, "--from-file", str(path), "--guideline", "flames").startswith(str(path))


@pytest.mark.django_db
def test_a_missing_file_a_folder_and_an_unknown_guideline_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert "no such file" in refusal(capsys, "--from-file", str(tmp_path / "x"), "--guideline", "flames")
    assert "folder" in refusal(capsys, "--from-file", str(tmp_path), "--guideline", "flames")
    path = write(tmp_path / "rows.jsonl", [ROW])
    assert "no published guideline nope" in refusal(capsys, "--from-file", path, "--guideline", "nope")
    assert "flames@9" in refusal(capsys, "--from-file", path, "--guideline", "flames@9")
    assert "needs --guideline" in refusal(capsys, "--from-file", path)
    assert "Name a benchmark run" in refusal(capsys)
    assert "No benchmark run is named nope" in refusal(capsys, "nope")
