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


@pytest.fixture(scope="module")
def expanded(published: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    scale = published["rules"]["scale"]
    rows = [
        {"model": model["model"], "dimension": dimension, "predicted": level}
        for model in published["models"]
        for dimension, cell in model["dimensions"].items()
        for level, count in zip((1, 2, 3), cell["labels"], strict=True)
        for _ in range(count)
        if level in scale[dimension] or count == 0
    ]
    return write(tmp_path_factory.mktemp("published") / "flames.jsonl", rows)


@pytest.fixture(scope="module")
def measured(module_db: None, expanded: str) -> dict[str, Any]:
    """What the command says of the published labels, as JSON."""
    output = leaderboard("--from-file", expanded, "--guideline", "flames", "--pairs", "--json")
    data: dict[str, Any] = json.loads(output)
    return data


@pytest.mark.django_db
def test_the_published_flames_table_to_the_last_digit(published: dict[str, Any], expanded: str):
    table = leaderboard("--from-file", expanded, "--guideline", "flames")
    board, attacks = table.split("\nlower is better\n")
    printed = {" ".join(line.split()).rsplit(" ", 0)[0] for line in board.splitlines()}
    for model in published["models"]:
        line = next(line for line in printed if line.startswith(f"{model['model']} "))
        cells = [c for d in DIMENSIONS for c in _printed(model["dimensions"][d])]
        numbers = [part for part in line.removeprefix(model["model"]).split() if not part.startswith("(")]
        # rank, overall rate, overall score, then rate and score of the five, then n of the five
        assert numbers[1] == model["overall_printed"]
        assert numbers[3:13] == cells
        assert numbers[13:] == [str(published["rules"]["prompts"][d]) for d in DIMENSIONS]
    # 100 less the mean of 44.98, 43.78, 46.79, 58.70 and 40.30 percent, before they were rounded
    assert next(line for line in attacks.splitlines() if line.startswith("ChatGPT ")).split()[3] == "53.09%"


def _printed(cell: dict[str, Any]) -> list[str]:
    return [cell["rate_printed"], cell["score_printed"]]


def test_json_has_rates_as_fractions_and_scores_to_a_hundred(
    published: dict[str, Any], measured: dict[str, Any]
):
    rows_by_model = {row["model"]: row for row in measured["rows"]}
    assert len(rows_by_model) == 17
    for model in published["models"]:
        row = rows_by_model[model["model"]]
        assert row["overall"]["harmless_rate"]["value"] == pytest.approx(model["overall"] / 100, abs=1e-12)
        for dimension, cell in model["dimensions"].items():
            measured_cell = row["dimensions"][dimension]
            assert measured_cell["n"] == cell["n"]
            assert measured_cell["harmless_rate"]["value"] == pytest.approx(cell["rate"] / 100, abs=1e-12)
            assert measured_cell["harmless_score"]["value"] == pytest.approx(cell["score"], abs=1e-12)
            assert measured_cell["harmless_rate"]["low"] < measured_cell["harmless_rate"]["value"]


def test_attacks_succeed_where_a_response_is_not_harmless(
    published: dict[str, Any], measured: dict[str, Any]
):
    rows_by_model = {row["model"]: row for row in measured["rows"]}
    for model in published["models"]:
        row = rows_by_model[model["model"]]
        assert row["overall"]["attack_success_rate"]["value"] == pytest.approx(
            1 - model["overall"] / 100, abs=1e-12
        )
        for dimension, cell in model["dimensions"].items():
            attacked = row["dimensions"][dimension]
            succeeded = sum(cell["labels"][:2])
            assert attacked["attack_success_rate"]["value"] == pytest.approx(succeeded / cell["n"], abs=1e-12)
            # Wilson's interval of the complement
            assert attacked["attack_success_rate"]["low"] == pytest.approx(
                1 - attacked["harmless_rate"]["high"], abs=1e-12
            )
    assert round(100 * rows_by_model["ChatGPT"]["overall"]["attack_success_rate"]["value"], 2) == 53.09


ROW = {"model": "M", "dimension": "Fairness", "predicted": 3}


@pytest.mark.django_db
def test_a_guideline_in_the_database_is_used_and_one_that_is_not_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = write(tmp_path / "rows.jsonl", [ROW])
    leaderboard("--from-file", path, "--guideline", "flames", "--json")
    assert "using flames@1.3 as shipped" in capsys.readouterr().err
    FLAMES_GUIDELINE.load()
    assert Guideline.objects.count() == 1
    leaderboard("--from-file", path, "--guideline", "flames", "--json")
    assert "shipped" not in capsys.readouterr().err
    leaderboard("--from-file", path, "--guideline", str(FLAMES_GUIDELINE.path), "--json")


@pytest.mark.django_db
def test_small_cells_bring_their_intervals_unasked(tmp_path: Path):
    path = write(tmp_path / "rows.jsonl", [ROW])
    # 1 of 1: Wilson from 1 / (1 + 3.8415) = 20.65 % to 100 %
    assert "20.7% - 100.0%" in leaderboard("--from-file", path, "--guideline", "flames")
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
    "half a character": ({**ROW, "model": "\ud800"}, ":7: a text holds"),
    "half a character elsewhere": ({**ROW, "language": "\udfff"}, ":7: a text holds"),
    "nested too deep": ("[" * 100_000, ":7: this is not JSON"),
}


@pytest.mark.django_db
@pytest.mark.parametrize(("row", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_named(row: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = write(tmp_path / "rows.jsonl", [ROW] * 6)
    with Path(path).open("a") as file:
        file.write(row if isinstance(row, str) else json.dumps(row))
    assert f"{path}{message}" in refusal(capsys, "--from-file", path, "--guideline", "flames")


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


def pair_of(data: dict[str, Any], first: str, later: str, scope: str) -> tuple[int, dict[str, Any]]:
    """The difference of two models, and 1 if it is the first minus the later, else -1."""
    places = [data["pairs"]["models"].index(name) for name in (first, later)]
    low, high = sorted(places)
    return (1 if places[0] < places[1] else -1), data["pairs"]["pairs"][f"{low}-{high}"][scope]


def test_the_published_table_does_not_tell_the_best_two_on_legality_apart(measured: dict[str, Any]):
    """71.74% and 76.09% of 46 prompts each: the order that the published table prints says nothing."""
    rows = {row["model"]: row for row in measured["rows"]}
    claude = rows["Claude"]["dimensions"]["Legality"]["harmless_rate"]
    other = rows["InternLM-7B"]["dimensions"]["Legality"]["harmless_rate"]
    assert [round(100 * claude[part], 1) for part in ("low", "high")] == [57.5, 82.7]
    assert [round(100 * other[part], 1) for part in ("low", "high")] == [62.1, 86.1]
    sign, cell = pair_of(measured, "InternLM-7B", "Claude", "Legality")
    assert sign * cell["value"] == pytest.approx(2 / 46)
    assert cell["low"] < 0 < cell["high"]
    assert (cell["n"], cell["paired"]) == (46, False)
    ranks = {name: row["dimensions"]["Legality"]["rank"] for name, row in rows.items()}
    assert (ranks["InternLM-7B"]["value"], ranks["Claude"]["value"]) == (1, 2)
    assert ranks["Claude"]["low"] == 1
    assert ranks["InternLM-7B"]["high"] >= 2
    assert ranks["Minimax"]["low"] > 1


def test_the_published_table_by_its_overall_has_ranks_that_overlap(measured: dict[str, Any]):
    ranks = {row["model"]: row["rank"] for row in measured["rows"]}
    assert (ranks["Claude"]["value"], ranks["InternLM-20B"]["value"]) == (1, 2)
    assert ranks["InternLM-20B"]["low"] == 1  # 63.77% and 58.56%: they are not told apart
    assert ranks["Claude"]["high"] >= 2
    assert ranks["Minimax"]["low"] > 10  # but the last is not the first
    assert len(measured["pairs"]["pairs"]) == 17 * 16 // 2
    for cells in measured["pairs"]["pairs"].values():
        assert set(cells) == {"overall", *DIMENSIONS}
        assert all(cell["low"] <= cell["value"] <= cell["high"] for cell in cells.values())


def paired_rows() -> list[dict[str, Any]]:
    return [
        {"model": model, "dimension": "Fairness", "predicted": level, "prompt_id": prompt, **groups}
        for prompt, groups in (
            (1, {"language": "zh"}),
            ("p2", {"language": "en", "subcomponent": "Toxic language"}),
        )
        for model, level in (("A", 3), ("B", 1))
    ]


@pytest.mark.django_db
def test_a_file_may_name_prompts_and_their_groups(tmp_path: Path):
    path = write(tmp_path / "rows.jsonl", paired_rows())
    arguments = (
        "--from-file",
        path,
        "--guideline",
        "flames",
        "--by",
        "language",
        "--by",
        "subcomponent",
        "--pairs",
    )
    data = json.loads(leaderboard(*arguments, "--json"))
    assert data["pairs"]["pairs"]["0-1"]["Fairness"]["paired"] is True
    assert data["pairs"]["pairs"]["0-1"]["overall"] is None  # the other dimensions have no response
    assert [column["name"] for column in data["groups"]["language"]["columns"]] == ["en", "zh"]
    assert [column["name"] for column in data["groups"]["subcomponent"]["columns"]] == ["Toxic language"]
    table = leaderboard(*arguments)
    assert "by language" in table
    assert "Fairness / Toxic language" in table
    assert "+100.00" in table
    assert "not paired" not in table


@pytest.mark.django_db
def test_only_what_is_asked_for_is_printed(tmp_path: Path):
    path = write(tmp_path / "rows.jsonl", [ROW | {"model": model} for model in "MN" for _ in range(30)])
    data = json.loads(leaderboard("--from-file", path, "--guideline", "flames", "--json"))
    assert set(data) == {"guideline", "rank_by", "compared", "bias", "rows"}
    table = leaderboard("--from-file", path, "--guideline", "flames", "--pairs")
    assert "difference in harmless_rate of every pair" in table
    assert "* not paired" in table


BAD_PROMPTS = {
    "an id of another kind": ({"prompt_id": [1]}, ":5 [prompt_id]: this must be a text"),
    "an empty id": ({"prompt_id": " "}, ":5 [prompt_id]: this must be a text"),
    "a huge id": ({"prompt_id": 10**4000}, ":5 [prompt_id]: this must be a text"),
    "no id": (
        {"prompt_id": None},
        ":5 [prompt_id]: give every row a prompt_id or none; line 1 does otherwise",
    ),
    "twice": ({}, ":5 [prompt_id]: this model's response to this prompt is in line 1 already"),
    "another dimension": (
        {"model": "C", "dimension": "Safety"},
        ":5 [prompt_id]: this prompt has another dimension or group in line 1",
    ),
    "another group": (
        {"model": "C", "language": "en"},
        ":5 [prompt_id]: this prompt has another dimension or group in line 1",
    ),
    "a group that is no text": ({"attack_method": 7}, ":5 [attack_method]: this must be a text"),
}


@pytest.mark.django_db
@pytest.mark.parametrize(("change", "message"), BAD_PROMPTS.values(), ids=BAD_PROMPTS.keys())
def test_a_bad_prompt_is_named(
    change: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rows = paired_rows()
    path = write(tmp_path / "rows.jsonl", [*rows, rows[0] | change])
    assert f"{path}{message}" in refusal(capsys, "--from-file", path, "--guideline", "flames")


@pytest.mark.django_db
def test_what_a_file_has_not_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = write(tmp_path / "rows.jsonl", [ROW])
    arguments = ("--from-file", path, "--guideline", "flames")
    assert "No prompt here has: language; known are: -" in refusal(capsys, *arguments, "--by", "language")
    assert "name a run" in refusal(capsys, *arguments, "--estimates")
    assert "invalid choice" in refusal(capsys, *arguments, "--by", "colour")
