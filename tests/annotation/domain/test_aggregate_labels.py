"""What a model of all the people makes of a batch's labels, as the command prints and writes it."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.domain.batch_spec import Policy
from annotation.domain.quality import aggregation
from annotation.domain.quality.aggregation import dawid_skene
from annotation.models import Assignment, Batch, Guideline, Person
from tests.annotation.exchange import settled_care
from tests.support import decide_next, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db

LIN = (1, 1, 1, 2, 2, 3, 3, 3)
CHEN = (1, 1, 2, 2, 2, 3, 3, 1)


@pytest.fixture
def labelled(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    """1 against 2 is decided, 3 against 1 is not."""
    for task, other in zip(LIN, CHEN, strict=True):
        label_next(batch, lin, task)
        label_next(batch, chen, other)
    decide_next(batch, wu, 2)
    return batch


def summary(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("aggregate_labels", *arguments, "--json", stdout=out)
    label: dict[str, Any] = json.loads(out.getvalue())
    return label


def written(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.both_databases
def test_each_task_has_the_models_probabilities_beside_its_gold(labelled: Batch, tmp_path: Path):
    path = tmp_path / "first.csv"
    (criterion,) = summary("--batch", "first", "--out", str(path))["criteria"]
    assignments = Assignment.objects.filter(person__username="lin").order_by("submitted_at")
    served = list(assignments.values_list("task", flat=True))
    fit = dawid_skene(
        task=[*served, *served],
        worker=[0] * 8 + [1] * 8,
        label=[value - 1 for value in (*LIN, *CHEN)],
        classes=3,
    )
    assert (criterion["tasks"], criterion["labels"], criterion["people"]) == (8, 16, 2)
    assert list(criterion["marginals"].values()) == pytest.approx(fit.posteriors.mean(axis=0).tolist())
    assert criterion["reason"] is None
    rows = written(path)
    assert [int(row["task"]) for row in rows] == sorted(labelled.tasks.values_list("pk", flat=True))
    for row, expected in zip(rows, fit.posteriors, strict=True):
        assert [float(row[f"probability.{value}"]) for value in (1, 2, 3)] == pytest.approx(
            expected, abs=1e-6
        )
        assert int(row["most_probable"]) == 1 + expected.argmax()
        assert float(row["probability"]) == pytest.approx(expected.max(), abs=1e-6)
    assert sorted(row["gold"] for row in rows) == sorted(["1", "1", "2", "2", "2", "3", "3", ""])
    assert {(row["dataset"], row["criterion"]) for row in rows} == {("small", "compliance")}
    first = labelled.tasks.order_by("pk").select_related("response__prompt", "response__model")[0].response
    assert (rows[0]["prompt_id"], rows[0]["model"]) == (first.prompt.key, first.model.name)


def test_each_criterion_is_combined_on_its_own_scale(lin: Person, chen: Person, wu: Person, tmp_path: Path):
    settled_care([lin, chen], wu)
    path = tmp_path / "care.csv"
    summaries = summary("--batch", "care-1", "--method", "mace", "--out", str(path))
    assert [row["criterion"] for row in summaries["criteria"]] == ["fluency", "warmth", "depth", "tone"]
    assert [len(row["marginals"]) for row in summaries["criteria"]] == [5, 5, 101, 2]
    for row in summaries["criteria"]:
        assert sum(row["marginals"].values()) == pytest.approx(1)
    rows = written(path)
    assert summaries["rows"] == len(rows) == 16
    (tone,) = (row for row in rows if row["prompt_id"] == "问 1" and row["criterion"] == "tone")
    assert (tone["gold"], tone["most_probable"]) == ("1", "1")
    assert tone["probability.2"] == ""  # not on this scale
    near = next(row for row in rows if row["prompt_id"] == "问 1" and row["criterion"] == "depth")
    assert near["gold"] == "50"  # within the tolerance
    assert {row["gold"] for row in rows if row["prompt_id"] == "问 3"} >= {""}  # an open dispute


def test_what_no_model_can_tell_is_undefined_and_says_why(
    guideline: Guideline, lin: Person, labelled: Batch, tmp_path: Path
):
    corpus = make_corpus(prompts=2, models=["M"], name="alone")
    batch = make_batch(guideline, corpus, annotators=[lin], name="alone", policy=Policy(overlap=1))
    (criterion,) = summary("--batch", "alone")["criteria"]
    assert (criterion["marginals"], criterion["labels"]) == (None, 0)
    assert criterion["reason"] == "There are no labels to combine."
    label_next(batch, lin, 3)
    path = tmp_path / "alone.csv"
    rows = summary("--batch", "alone", "--out", str(path))
    assert rows["criteria"][0]["reason"].startswith("All labels are one person's")
    assert (rows["rows"], written(path)) == (0, [])
    plain = StringIO()
    call_command("aggregate_labels", "--batch", "alone", stdout=plain)
    assert "compliance: All labels are one person's" in plain.getvalue()


def test_where_mace_trusts_nobody_there_are_no_probabilities(
    labelled: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(aggregation, "MIN_TRUST", 1.1)
    path = tmp_path / "nobody.csv"
    rows = summary("--batch", "first", "--method", "mace", "--out", str(path))
    (criterion,) = rows["criteria"]
    assert criterion["reason"].startswith("MACE trusts nobody here")
    assert (criterion["marginals"], criterion["converged"]) == (None, False)
    assert (rows["rows"], written(path)) == (0, [])


def test_it_prints_a_row_for_each_level_and_overwrites_nothing(labelled: Batch, tmp_path: Path):
    plain = StringIO()
    call_command("aggregate_labels", "--batch", "first", stdout=plain)
    heads, *lines = plain.getvalue().splitlines()
    assert heads.split() == ["criterion", "level", "share", "tasks", "labels", "people"]
    assert [line.split()[:2] for line in lines] == [["compliance", level] for level in "123"]
    path = tmp_path / "there.csv"
    path.write_text("mine", encoding="utf-8")
    error = StringIO()
    with pytest.raises(SystemExit) as stop:
        call_command("aggregate_labels", "--batch", "first", "--out", str(path), stderr=error)
    assert stop.value.code == 1
    assert str(path) in error.getvalue()
    assert path.read_text(encoding="utf-8") == "mine"
