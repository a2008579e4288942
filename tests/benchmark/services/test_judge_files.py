"""Labels of judges from files: what is taken, what is off the scale, and what takes nothing of a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.core.errors import AssayError, InputError
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import AuditEvent, Batch, Collection, Dataset, Guideline, Person
from annotation.services.exports import export_release
from annotation.services.releases import cut_release
from benchmark.domain.judges.formats import find_model, read_judge_labels
from benchmark.models import Judge, JudgeLabel
from benchmark.services.judges.labels import JudgeFileReport, JudgeLabelTarget, import_judge_labels
from tests.support import XSTEST_GUIDELINE, decide_next, label_next, make_corpus

MODEL = "Secretive-7B"
ROW = {"prompt_id": "p0", "model": MODEL, "value": 3}


def written(path: Path, rows: Sequence[Mapping[str, Any]]) -> Source:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return Source(path)


def import_rows(source: Source, guideline: Guideline, dataset: Dataset, **changes: Any) -> JudgeFileReport:
    target: dict[str, Any] = {"judge": "j", "collection": Collection.objects.get(name="")} | changes
    format_name = target.pop("format_name", "jsonl")
    return import_judge_labels(
        source=source,
        format_name=format_name,
        into=JudgeLabelTarget(guideline=guideline, dataset=dataset, **target),
    )


def test_values_names_and_probabilities_are_read(
    tmp_path: Path, guideline: Guideline, dataset: Dataset
) -> None:
    rows = [
        ROW,
        {"prompt_id": "p1", "model": MODEL, "label": "partial refusal"},
        {"prompt_id": "p2", "model": MODEL, "probabilities": {"1": 0.1, "2": 0.2, "3": 0.7}},
        {"prompt": "Question number 3?", "prompt_id": "p3", "model": MODEL, "label": "who knows"},
        {"prompt_id": "p0", "model": "Hidden-13B", "value": 7, "criterion": "compliance"},
    ]
    report = import_rows(written(tmp_path / "a.jsonl", rows), guideline, dataset)
    assert (report.imported, report.already_there, report.off_scale) == (5, 0, 2)
    stored = {
        (judge_label.response.prompt.key, judge_label.response.model.name): (
            judge_label.value,
            judge_label.said,
        )
        for judge_label in JudgeLabel.objects.select_related("response__prompt", "response__model")
    }
    assert stored == {
        ("p0", MODEL): (3, "3"),
        ("p1", MODEL): (2, "partial refusal"),
        ("p2", MODEL): (3, ""),
        ("p3", MODEL): (None, "who knows"),
        ("p0", "Hidden-13B"): (None, "7"),
    }
    assert JudgeLabel.objects.get(response__prompt__key="p2").probabilities == {"1": 0.1, "2": 0.2, "3": 0.7}
    judge = Judge.objects.get()
    assert (judge.kind, judge.source) == ("imported", f"{report.sha256}  a.jsonl")
    assert AuditEvent.objects.filter(verb="import_judge_labels", target="judge:j").count() == 1


def test_how_many_gave_each_level_is_a_distribution_of_shares(
    tmp_path: Path, guideline: Guideline, dataset: Dataset
) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt_id": "p0", "labels_by_level": {"1": 1, "3": 3}},
        {"prompt_id": "p1", "labels_by_level": {"1": 0.25, "full compliance": 0.75, "na": 0}},
        {"prompt_id": "p2", "labels_by_level": {"compliance": {"2": 2, "3": 2}}},
        {"prompt_id": "p3", "labels_by_level": {"1": 3, "2": 1}, "value": 2},
    ]
    import_rows(written(tmp_path / "a.jsonl", rows), guideline, dataset, model=MODEL)
    cells = tmp_path / "b.csv"
    with cells.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, ["prompt_id", "labels_by_level"])
        table.writeheader()
        for row in rows:
            table.writerow(
                {"prompt_id": row["prompt_id"], "labels_by_level": json.dumps(row["labels_by_level"])}
            )
    import_rows(Source(cells), guideline, dataset, model=MODEL, judge="k", format_name="csv")
    shares = [
        {"1": 0.25, "2": 0, "3": 0.75},
        {"1": 0.25, "2": 0, "3": 0.75},
        {"1": 0, "2": 0.5, "3": 0.5},
        {"1": 0.75, "2": 0.25, "3": 0},
    ]
    for judge, values in (("j", [3, 3, 2, 2]), ("k", [3, 3, 2, 1])):
        labels = JudgeLabel.objects.filter(judge__name=judge).order_by("response__prompt__key")
        assert list(labels.values_list("probabilities", flat=True)) == shares
        assert list(labels.values_list("value", flat=True)) == values


def test_the_gold_file_of_another_site_is_a_judge_that_says_what_its_people_said(
    tmp_path: Path, batch: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    for value, other in ((1, 1), (3, 3), (1, 3)):
        label_next(batch, lin, value)
        label_next(batch, chen, other)
    decide_next(batch, wu, 2)
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    path = export_release(release=release, format_name="jsonl", folder=tmp_path).path
    dataset = Dataset.objects.get(name=release.manifest["datasets"][0])
    report = import_rows(Source(path), batch.guideline, dataset, judge="crowd")
    assert (report.imported, report.off_scale) == (3, 0)
    probabilities = list(JudgeLabel.objects.values_list("probabilities", flat=True))
    assert sorted(probabilities, key=str) == [
        {"1": 0, "2": 0, "3": 1},
        {"1": 0.5, "2": 0, "3": 0.5},
        {"1": 1, "2": 0, "3": 0},
    ]


def test_the_same_file_twice_changes_nothing(tmp_path: Path, guideline: Guideline, dataset: Dataset) -> None:
    source = written(tmp_path / "a.jsonl", [ROW])
    import_rows(source, guideline, dataset)
    before = list(JudgeLabel.objects.values())
    report = import_rows(source, guideline, dataset)
    assert (report.imported, report.already_there) == (0, 1)
    assert list(JudgeLabel.objects.values()) == before
    assert len(Judge.objects.get().source.splitlines()) == 1
    assert AuditEvent.objects.filter(verb="import_judge_labels").count() == 1


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prompt_id": "p99", "model": MODEL, "value": 1}, "p99"),
    ({"prompt_id": "p1", "model": "nobody", "value": 1}, "nobody"),
    ({"prompt_id": "p1", "value": 1}, "--model"),
    ({"prompt_id": "p1", "model": MODEL}, "no label"),
    ({"model": MODEL, "value": 1}, "prompt_id"),
    ({"prompt_id": "p1", "model": MODEL, "value": "high"}, "no number"),
    ({"prompt_id": "p1", "model": MODEL, "value": 1, "criterion": "taste"}, "compliance"),
    ({"prompt_id": "p1", "model": MODEL, "value": 1, "collection": "other"}, "collection"),
    ({"prompt_id": "p1", "model": MODEL, "value": 1, "response": "Not what is stored."}, "differs"),
    ({"prompt_id": "p1", "model": MODEL, "probabilities": {"1": 2}}, "add up to 1"),
    ({"prompt_id": "p1", "model": MODEL, "probabilities": [1]}, "add up to 1"),
    ({"prompt_id": "p1", "model": MODEL, "labels_by_level": {"1": 0, "2": 0}}, "how many, or which share"),
    ({"prompt_id": "p1", "model": MODEL, "labels_by_level": {"7": 1}}, "gave each level of the scale"),
    ({"prompt_id": "p1", "model": MODEL, "labels_by_level": {"1": -1, "2": 2}}, "[labels_by_level]"),
    ({"prompt_id": "p1", "model": MODEL, "labels_by_level": [1]}, "by level as"),
    ({"prompt_id": "p1", "model": MODEL, "labels_by_level": {"1": 1, "n/a": 1}}, "leave the row out"),
    ({"prompt_id": "p1", "model": MODEL, "labels_by_level": {"1": 1}, "probabilities": {"1": 1}}, "not both"),
    ({"prompt_id": "p1", "model": MODEL, "labels_by_level": {"taste": {"1": 1}}}, "Asked of this prompt"),
    (
        {"prompt_id": "p1", "model": MODEL, "value": 1, "labels_by_level": {"a": {"1": 1}, "b": {"1": 1}}},
        "a row for each criterion",
    ),
    ({"prompt_id": "p1", "model": MODEL, "labels_by_level": {"compliance": {}}}, "there is no label"),
    ({"prompt_id": "p0", "model": MODEL, "value": 1}, "earlier in this file"),
]


@pytest.mark.parametrize(("row", "words"), WRONG, ids=[words for _row, words in WRONG])
def test_a_wrong_row_takes_nothing_of_its_file(
    row: dict[str, Any], words: str, tmp_path: Path, guideline: Guideline, dataset: Dataset
) -> None:
    source = written(tmp_path / "a.jsonl", [ROW, row])
    with pytest.raises(InputError) as error:
        import_rows(source, guideline, dataset)
    assert words in str(error.value)
    assert error.value.line == 2
    assert not Judge.objects.exists()
    assert not JudgeLabel.objects.exists()


def test_another_label_of_the_same_is_an_error(
    tmp_path: Path, guideline: Guideline, dataset: Dataset
) -> None:
    import_rows(written(tmp_path / "a.jsonl", [ROW]), guideline, dataset)
    other = written(tmp_path / "b.jsonl", [{**ROW, "prompt_id": "p1"}, {**ROW, "value": 2}])
    with pytest.raises(InputError, match="another label of this response") as error:
        import_rows(other, guideline, dataset)
    assert error.value.line == 2
    assert JudgeLabel.objects.count() == 1
    assert JudgeLabel.objects.get().value == 3


def test_off_the_scale_other_words_are_another_label(
    tmp_path: Path, guideline: Guideline, dataset: Dataset
) -> None:
    refused = {"prompt_id": "p0", "model": MODEL, "label": "I will not judge this."}
    import_rows(written(tmp_path / "a.jsonl", [refused]), guideline, dataset)
    with pytest.raises(InputError, match="another label"):
        import_rows(written(tmp_path / "b.jsonl", [{**refused, "label": "No."}]), guideline, dataset)


def test_a_name_belongs_to_one_guideline_and_one_kind(
    tmp_path: Path, guideline: Guideline, dataset: Dataset
) -> None:
    source = written(tmp_path / "a.jsonl", [ROW])
    import_rows(source, guideline, dataset)
    Judge.objects.update(guideline=_other_version(guideline))
    with pytest.raises(AssayError, match="choose another name"):
        import_rows(source, guideline, dataset)


def _other_version(guideline: Guideline) -> Guideline:
    return Guideline.objects.create(
        name=guideline.name, version="9", source="", content=guideline.content, sha256="ab" * 32
    )


def test_csv_has_probabilities_as_json(tmp_path: Path, guideline: Guideline, dataset: Dataset) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["prompt_id", "label", "probabilities"])
        table.writerow(["p0", "Full refusal", json.dumps({"1": 0.9, "3": 0.1})])
        table.writerow(["p1", "2", ""])
    report = import_rows(Source(path), guideline, dataset, format_name="csv", model=MODEL)
    assert (report.imported, report.off_scale) == (2, 0)
    assert JudgeLabel.objects.get(response__prompt__key="p0").probabilities == {"1": 0.9, "2": 0.0, "3": 0.1}
    path.write_text("prompt_id,label,probabilities\np2,1,{\n", encoding="utf-8")
    with pytest.raises(InputError, match="add up to 1"):
        import_rows(Source(path), guideline, dataset, format_name="csv", model=MODEL)


def test_the_model_stands_in_the_files_name() -> None:
    assert find_model("x/xstest_v2_completions_gpt4_gpteval.csv") == "gpt4"
    assert find_model("xstest_v2_completions_llama2new_streval.csv") == "llama2new"
    assert find_model("xstest_v2_completions_gpt4.csv") is None


def xstest_file(path: Path, rows: Sequence[Sequence[str]], column: str = "gpt4_label") -> Source:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "type", "prompt", "completion", "final_label", column], *rows])
    return Source(path)


def test_xstests_numbers_are_not_the_guidelines(tmp_path: Path) -> None:
    """``1_full_compliance`` is level 3 here; a bare 1 is no label of theirs and no level of ours."""
    rows = [
        ["v2-1", "homonyms", "Q", "A", "1_full_compliance", "1_full_compliance"],
        ["v2-2", "homonyms", "Q", "A", "1_full_compliance", "1"],
        ["3", "homonyms", "Q", "A", "1_full_compliance", "I'm sorry, no."],
    ]
    source = xstest_file(tmp_path / "xstest_v2_completions_m_gpteval.csv", rows)
    judge_labels = list(read_judge_labels(source, "xstest"))
    assert [
        (judge_label.prompt, judge_label.value, judge_label.answer, judge_label.is_readable)
        for judge_label in judge_labels
    ] == [
        ("1", 3, "1_full_compliance", False),
        ("2", None, "1", False),
        ("3", None, "I'm sorry, no.", False),
    ]


def test_a_bare_one_of_xstest_is_off_the_scale(
    tmp_path: Path, guideline: Guideline, dataset: Dataset
) -> None:
    rows = [["p0", "homonyms", "Q", "Answer 0 to question 0.", "1_full_compliance", "1"]]
    source = xstest_file(tmp_path / "a.csv", rows)
    assert import_rows(source, guideline, dataset, format_name="xstest", model=MODEL).off_scale == 1


def test_a_file_without_rows_or_of_an_unknown_format_is_refused(tmp_path: Path) -> None:
    source = xstest_file(tmp_path / "a.csv", [])
    with pytest.raises(InputError, match="no rows"):
        list(read_judge_labels(source, "xstest"))
    with pytest.raises(AssayError, match="xstest, jsonl, csv"):
        list(read_judge_labels(source, "flames"))
    with pytest.raises(InputError, match="gpt4_label / strmatch_label"):
        list(read_judge_labels(xstest_file(tmp_path / "b.csv", [["1"] * 6], "verdict"), "xstest"))


def test_the_command_takes_the_files_before_the_wrong_one(
    tmp_path: Path, db: None, capsys: pytest.CaptureFixture[str]
) -> None:
    XSTEST_GUIDELINE.load()
    make_corpus(prompts=2, models=[MODEL])
    good = written(tmp_path / "a.jsonl", [ROW])
    bad = written(tmp_path / "b.jsonl", [{**ROW, "prompt_id": "p7"}])
    arguments = ["--judge", "j", "--guideline", "xstest", "--format", "jsonl", "--dataset", "small"]
    with pytest.raises(SystemExit):
        call_command("import_judge_labels", str(good.path), str(bad.path), *arguments)
    assert "b.jsonl:1" in capsys.readouterr().err
    assert JudgeLabel.objects.count() == 1
    call_command("import_judge_labels", str(good.path), *arguments, "--json")
    report = json.loads(capsys.readouterr().out)
    assert (report["taken"], report["already_there"], report["guideline"]) == (0, 1, "xstest@1.0")
