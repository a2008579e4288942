"""When a label was made elsewhere, how long it took and in which round: kept by each format, and in what leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.core.errors import InputError
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Adjudication, Annotation, Batch, Dataset, Guideline
from annotation.services.exports import Options, export_release
from annotation.services.imports import ImportRequest, import_annotations
from annotation.services.releases import cut_release
from tests.annotation.services.test_bundle import arrives, elsewhere, packed

pytestmark = pytest.mark.django_db

MODEL = "Hidden-13B"
FIRST, SECOND = datetime(2025, 3, 4, 9, 30, tzinfo=UTC), datetime(2025, 3, 12, 23, 59, 30, tzinfo=UTC)
FACTS = [("ann", FIRST, 12.5, "2"), ("ben", SECOND, 30.0, "pilot")]
Take = Callable[[str, str, str], Batch]


def as_jsonl() -> str:
    rows = [
        {
            "annotator": "ann",
            "labels": {"compliance": 3},
            "at": FIRST.isoformat(),
            "seconds": 12.5,
            "round": 2,
        },
        {
            "annotator": "ben",
            "labels": {"compliance": 1},
            "at": SECOND.timestamp(),
            "seconds": 30,
            "round": "pilot",
        },
        {
            "adjudicator": "cleo",
            "labels": {"compliance": 1},
            "at": "2025-03-13 08:00:00",
            "seconds": 5,
            "round": "last",
        },
    ]
    return "".join(json.dumps({"prompt_id": "p0", "model": MODEL, **row}) + "\n" for row in rows)


def as_csv(*head: str) -> str:
    return (
        ",".join(head)
        + "\n"
        + f"p0,{MODEL},ann,3,12.5,2025-03-04 09:30:00,2\n"
        + f"p0,{MODEL},ben,1,30,2025-03-13T07:59:30+08:00,pilot\n"
    )


def as_label_studio() -> str:
    def annotation(person: str, level: int, seconds: float, at: str) -> dict[str, Any]:
        choice = {"type": "choices", "from_name": "compliance", "to_name": "response"}
        return {
            "completed_by": {"email": person},
            "lead_time": seconds,
            "created_at": at,
            "result": [choice | {"value": {"choices": [str(level)]}}],
        }

    data = {"prompt_id": "p0", "prompt": "Question number 0?", "response": "-", "model": MODEL}
    annotations = [
        annotation("ann", 3, 12.5, "2025-03-04T09:30:00.000000Z"),
        annotation("ben", 1, 30, "2025-03-12T23:59:30Z"),
    ]
    return json.dumps([{"id": 1, "data": data, "annotations": annotations}])


@pytest.fixture
def take(dataset: Dataset, guideline: Guideline, tmp_path: Path) -> Take:
    def put(form: str, name: str, text: str) -> Batch:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        request = ImportRequest(batch="elsewhere", guideline="xstest", dataset="small")
        import_annotations(source=Source(path, name), format=form, request=request, new_people=True)
        return Batch.objects.get(name="elsewhere")

    return put


def list_facts() -> list[tuple[Any, ...]]:
    rows = Annotation.objects.order_by("created_at").select_related(
        "assignment__imported", "assignment__person"
    )
    facts = []
    for row in rows:
        assert row.assignment.submitted_at == row.created_at
        facts.append(
            (row.assignment.person.username, row.created_at, row.seconds, row.assignment.imported.round)
        )
    return facts


HEADS = {
    "csv": ("prompt_id", "model", "annotator", "label.compliance", "seconds", "at", "round"),
    "table": ("问题编号", "模型", "标注员", "compliance", "用时", "标注时间", "轮次"),
}


@pytest.mark.parametrize("form", ["jsonl", *HEADS])
def test_a_format_keeps_when_and_how_long_and_in_which_round(take: Take, form: str):
    take(form, f"labels.{form}", as_jsonl() if form == "jsonl" else as_csv(*HEADS[form]))
    assert list_facts() == FACTS


def test_label_studio_keeps_when_and_how_long(take: Take):
    take("label_studio", "labels.json", as_label_studio())
    assert list_facts() == [(*facts, "") for *facts, _round in FACTS]


def test_agreement_over_time_is_that_of_the_labels_and_not_of_the_import(take: Take):
    take("jsonl", "labels.jsonl", as_jsonl())
    out = StringIO()
    call_command("agreement", "--batch", "elsewhere", "--by", "week", "--json", stdout=out)
    week = json.loads(out.getvalue())["rows"][-1]
    assert week["group"]["week"] == "2025-W11"  # of the last label of the response


@pytest.mark.parametrize("time", ["yesterday", "0001-01-01", 10**17, True])
def test_no_moment_is_refused_by_its_line(take: Take, time: Any):
    row = {"prompt_id": "p0", "model": MODEL, "annotator": "ann", "labels": {"compliance": 3}, "at": time}
    with pytest.raises(InputError, match=r"no moment|no text") as refusal:
        take("jsonl", "labels.jsonl", json.dumps(row) + "\n")
    assert refusal.value.field == "at"


def test_raw_labels_and_a_bundle_carry_them(take: Take, tmp_path: Path):
    batch = take("jsonl", "labels.jsonl", as_jsonl())
    release = cut_release(ReleaseSpec(name="gold", batches=(batch.pk,)))
    options = Options(table="jsonl")
    export_release(release=release, format_name="labels", folder=tmp_path / "raw", options=options)
    rows = [
        json.loads(line)
        for line in (tmp_path / "raw" / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [(row["time"], row["seconds"], row["round"]) for row in rows] == [
        ("2025-03-04T09:30:00Z", 12.5, "2"),
        ("2025-03-12T23:59:30Z", 30.0, "pilot"),
        ("2025-03-13T08:00:00Z", 5.0, "last"),
    ]
    source = packed(release, tmp_path, times=True)

    def read() -> tuple[Any, ...]:
        arrives(source)
        (decision,) = Adjudication.objects.select_related("assignment__imported")
        facts = [(at, seconds, words) for _name, at, seconds, words in list_facts()]
        return facts, decision.created_at, decision.seconds, decision.assignment.imported.round

    expected = [(at, seconds, words) for _name, at, seconds, words in FACTS]
    assert elsewhere(read) == (expected, datetime(2025, 3, 13, 8, tzinfo=UTC), 5.0, "last")
