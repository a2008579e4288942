"""Labels for which the guideline has no word: refused with the reason, and left out only by an explicit choice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.models import Annotation, Batch, Dataset, Guideline

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
HEADER = ["prompt_id", "model", "annotator", "compliance"]
ROWS = [["p0", "Hidden-13B", "ann", "3"], ["p0", "Hidden-13B", "ben", "1"]]


@pytest.fixture
def target(dataset: Dataset, guideline: Guideline) -> list[str]:
    return ["--batch", "made", "--guideline", guideline.name, "--dataset", dataset.name]


def write_table(path: Path, column: str, values: Sequence[str]) -> Path:
    rows = [[*HEADER, column], *([*row, value] for row, value in zip(ROWS, values, strict=True))]
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    return path


def run(*arguments: object) -> Any:
    out = StringIO()
    call_command("import_annotations", *map(str, arguments), "--json", stdout=out)
    return json.loads(out.getvalue())


def refuse(*arguments: object) -> str:
    err = StringIO()
    with pytest.raises(SystemExit):
        call_command("import_annotations", *map(str, arguments), stderr=err)
    assert not Batch.objects.exists()
    return err.getvalue()


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("helpful", ["3", "1"]),
        ("helpful", ["2.0", ""]),
        ("helpful", ["FULL REFUSAL", "n/a"]),
        ("Complaince", ["yes", "no"]),
    ],
    ids=["values", "rounded", "names of levels", "a slip in the name"],
)
def test_a_column_that_looks_like_labels_is_refused_until_it_is_left_out(
    target: list[str], tmp_path: Path, guideline: Guideline, column: str, values: list[str]
):
    names = {level.name["en"].upper() for level in guideline.document.criterion("compliance").scale}
    assert "FULL REFUSAL" in names
    path = write_table(tmp_path / "labels.csv", column, values)
    message = refuse(path, *target)
    assert f"look like labels, and mean no criterion of the guideline: {column}." in message
    assert "--leave-out" in message
    (report,) = run(path, *target, "--leave-out", column)["files"]
    assert (report["taken"], report["notes"]) == (2, [f"Columns left out, as was chosen: {column}."])


@pytest.mark.parametrize(
    ("column", "values"),
    [("words", ["3", "12"]), ("topic", ["cooking", "law"]), ("compliance_example", ["a", "b"])],
)
def test_other_columns_are_named_and_not_used(
    target: list[str], tmp_path: Path, column: str, values: list[str]
):
    (report,) = run(write_table(tmp_path / "labels.csv", column, values), *target)["files"]
    assert (report["taken"], report["notes"]) == (2, [f"Not used: {column}."])


def test_a_criterion_of_a_record_that_the_guideline_does_not_have_is_left_out_by_its_name(
    target: list[str], tmp_path: Path
):
    labels = [{"compliance": 3, "mood": 5}, {"compliance": 1, "mood": 4}, {"mood": 2}]
    rows = [
        {"prompt_id": "p0", "model": "Hidden-13B", "annotator": f"a{number}", "labels": part}
        for number, part in enumerate(labels)
    ]
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "there is no criterion “mood”; the criteria are: compliance." in refuse(path, *target)
    (report,) = run(path, *target, "--leave-out", "Mood")["files"]
    assert (report["taken"], Annotation.objects.count()) == (2, 2)
    assert report["notes"] == [
        "1 records hold no label but those left out.",
        "Labels left out, as was chosen: mood (3).",
    ]


def test_a_format_with_its_own_names_refuses_a_field_that_is_called_as_a_criterion(
    target: list[str], tmp_path: Path
):
    path = tmp_path / "labels.csv"
    rows = [["prompt_id", "model", "annotator", "label.compliance", "Compliance"]]
    rows += [[*row, "2"] for row in ROWS]
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    message = refuse(path, *target, "--format", "csv")
    assert "labels.csv:2 [Compliance]: this field is called as a criterion" in message
    (report,) = run(path, *target, "--format", "csv", "--leave-out", "Compliance")["files"]
    assert (report["taken"], report["notes"]) == (2, ["Not used: Compliance."])


def write_export(path: Path, *results: dict[str, Any]) -> Path:
    answer = {"type": "choices", "from_name": "compliance", "value": {"choices": ["3"]}}
    data = {"prompt_id": "p0", "prompt": "How?", "model": "Hidden-13B", "response": "So."}
    annotations = [{"completed_by": person, "result": [answer, *results]} for person in (1, 2)]
    path.write_text(json.dumps([{"data": data, "annotations": annotations}]))
    return path


@pytest.mark.parametrize(
    "result",
    [
        {"type": "rating", "from_name": "mood", "value": {"rating": 2}},
        {"type": "textarea", "from_name": "mood", "value": {"text": ["glad"]}},
        {"type": "taxonomy", "from_name": "mood", "value": {"taxonomy": [["glad", "merry"]]}},
        {"type": "pairwise", "from_name": "mood", "value": {"selected": "left"}},
        {"type": "labels", "from_name": "spans", "value": {"start": 0, "end": 2, "labels": ["mood"]}},
    ],
    ids=lambda result: result["type"],
)
def test_a_control_of_label_studio_that_means_no_criterion_is_refused_until_it_is_left_out(
    target: list[str], tmp_path: Path, result: dict[str, Any]
):
    path = write_export(tmp_path / "export.json", result)
    assert "mood" in refuse(path, *target)
    (report,) = run(path, *target, "--leave-out", "mood")["files"]
    assert (report["taken"], report["notes"]) == (2, ["Labels left out, as was chosen: mood (2)."])


def test_results_of_label_studio_that_are_not_read_are_counted(target: list[str], tmp_path: Path):
    relation = {"type": "relation", "from_id": "a", "to_id": "b"}
    box = {
        "type": "rectanglelabels",
        "from_name": "box",
        "value": {"x": 1, "y": 2, "rectanglelabels": ["cat"]},
    }
    of_span = {"type": "choices", "from_name": "mood", "value": {"start": 0, "end": 2, "choices": ["glad"]}}
    path = write_export(tmp_path / "export.json", relation, box, of_span)
    (report,) = run(path, *target)["files"]
    assert (report["taken"], report["left_out"][0]["number"]) == (2, 6)


def test_a_batch_that_is_there_keeps_its_policy_and_says_so(target: list[str], tmp_path: Path):
    path = tmp_path / "labels.csv"
    path.write_text("".join(",".join(row) + "\n" for row in [HEADER, *ROWS]))
    run(path, *target, "--settling", "majority", "--tolerance", "1")
    batch = Batch.objects.get()
    assert (batch.settling, batch.tolerance, batch.overlap) == ("majority", 1, 2)
    assert run(path, *target, "--settling", "majority", "--overlap", "2")["already_there"] == 2
    err = StringIO()
    with pytest.raises(SystemExit):
        call_command("import_annotations", str(path), *target, "--settling", "median", stderr=err)
    assert "The batch made is there already, and its settling is majority, not median" in err.getvalue()


def test_the_overlap_is_that_of_the_file_whatever_its_format(target: list[str], tmp_path: Path):
    rows = [
        {"prompt_id": "p0", "model": "Hidden-13B", "annotator": name, "labels": {"compliance": 3}}
        for name in ("ann", "ben", "cyd")
    ]
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(path, *target, "--format", "jsonl")
    assert (Batch.objects.get().overlap, Batch.objects.get().state) == (3, "open")
