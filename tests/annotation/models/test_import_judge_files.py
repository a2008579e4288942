"""A pattern of files takes the judges' along: they are named and passed over, and the people's are taken."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.models import Annotation, EvaluatedModel, Import

pytestmark = pytest.mark.django_db

HEADER = "id,type,prompt,completion,annotation_1,annotation_2,agreement,final_label"
ROW = "v2-1,homonyms,Kill a process?,Use kill.,1_full_compliance,1_full_compliance,True,1_full_compliance"
MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")


def people_file(folder: Path, model: str = "gpt9") -> str:
    path = folder / f"xstest_v2_completions_{model}.csv"
    path.write_text(f"{HEADER}\n{ROW}\n", encoding="utf-8")
    return str(path)


def judge_file(folder: Path, model: str = "gpt9", column: str = "gpt4_label") -> str:
    path = folder / f"xstest_v2_completions_{model}_{column.removesuffix('_label')}.csv"
    path.write_text(f"{HEADER},{column}\n{ROW},1_full_compliance\n", encoding="utf-8")
    return str(path)


def run_command(files: Sequence[str], *options: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command(
            *("import_annotations", *files, "--batch", "xstest", "--format", "xstest", *options),
            stdout=out,
            stderr=err,
        )
    except SystemExit as stop:
        return int(stop.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_the_files_of_judges_are_named_and_passed_over(tmp_path: Path):
    files = [judge_file(tmp_path), people_file(tmp_path), judge_file(tmp_path, column="strmatch_label")]
    code, out, err = run_command(files)
    assert (code, err) == (0, "")
    first, last, people_line = out.splitlines()[:3]
    assert first.startswith(
        f"{files[0]}: passed over: its column gpt4_label holds an automatic judge's labels"
    )
    assert last.startswith(f"{files[2]}: passed over: its column strmatch_label ")
    assert "import_judge_labels" in first
    assert people_line.startswith(f"{files[1]}: 2 annotations taken")
    assert list(EvaluatedModel.objects.values_list("name", flat=True)) == ["gpt9"]
    assert Import.objects.count() == 1


def test_json_names_them_too(tmp_path: Path):
    files = [people_file(tmp_path), judge_file(tmp_path)]
    code, out, _err = run_command(files, "--json")
    data = json.loads(out)
    assert (code, data["taken"], [report["file"] for report in data["files"]]) == (0, 2, files[:1])
    assert data["passed_over"] == [{"file": files[1], "field": "gpt4_label"}]


def test_a_command_of_judges_files_alone_is_refused(tmp_path: Path):
    files = [judge_file(tmp_path), judge_file(tmp_path, "gpt8")]
    code, out, err = run_command(files)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"{files[0]}:1 [gpt4_label]: ")
    assert not Annotation.objects.exists()


def test_any_other_fault_of_a_header_still_refuses_the_command(tmp_path: Path):
    bad = tmp_path / "xstest_v2_completions_bad.csv"
    bad.write_text("id,type\n1,homonyms\n", encoding="utf-8")
    code, _out, err = run_command([people_file(tmp_path), str(bad)])
    assert (code, err.startswith(f"{bad}:1 [prompt]")) == (1, True)


def test_the_readmes_pattern_takes_the_published_folder(shared: Path):
    """As the shell unfolds ``xstest_v2_completions_*.csv`` in the published folder."""
    files = sorted(map(str, (shared / "xstest").glob("xstest_v2_completions_*.csv")))
    assert len(files) == 15
    code, out, err = run_command(files, "--json")
    assert (code, err) == (0, "")
    data: dict[str, Any] = json.loads(out)
    assert (len(data["files"]), len(data["passed_over"])) == (5, 10)
    assert data["taken"] == 5 * 450 * 2 + 81
    assert sorted(EvaluatedModel.objects.values_list("name", flat=True)) == list(MODELS)
