"""Labels of several rounds: agreement within each, and what one person says of the same response over rounds."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest
from django.core.management import call_command
from django.test import Client

from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.formats import Source
from annotation.models import Annotation, Assignment, Batch, Person
from annotation.selectors.agreement import LabelPatterns
from annotation.services.annotations.submission import revise
from annotation.services.imports import ImportRequest, import_annotations
from tests.annotation.several_criteria import criterion, guideline_of, scale
from tests.support import make_corpus

pytestmark = pytest.mark.django_db
MODEL = "A"
Row = tuple[str, int, int, str]
"""Who, of which prompt, the level, and the round."""
FIRST: list[Row] = [
    ("lin", 0, 1, "1"), ("chen", 0, 1, "1"), ("zhou", 0, 3, "2"),
    ("lin", 1, 2, "1"), ("chen", 1, 3, "1"), ("zhou", 1, 3, "2"),
    ("lin", 2, 2, "1"), ("zhou", 2, 2, "2"), ("gao", 2, 2, "2"),
    ("lin", 3, 3, ""), ("chen", 3, 3, ""), ("zhou", 3, 1, "10"),
]  # fmt: skip
SECOND: list[Row] = [
    ("lin", 0, 1, "2"), ("chen", 0, 2, "2"),
    ("lin", 1, 3, "2"), ("chen", 1, 3, "2"),
    ("lin", 2, 2, "2"), ("chen", 2, 1, "10"),
]  # fmt: skip


def put(tmp_path: Path, batch: str, rows: Iterable[Row]) -> Batch:
    path = tmp_path / f"{batch}.jsonl"
    records = [
        {"prompt_id": f"p{unit}", "model": MODEL, "annotator": name, "labels": {"kind": value}}
        | ({"round": number} if number else {})
        for name, unit, value, number in rows
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    import_annotations(
        source=Source(path, path.name),
        format="jsonl",
        request=ImportRequest(
            batch=batch, guideline="kinds", dataset="small", policy=Policy(plan="open", overlap=1)
        ),
        new_people=True,
    )
    return Batch.objects.get(name=batch)


@pytest.fixture(autouse=True)
def corpus() -> None:
    guideline_of("kinds", [criterion("kind", scale({value: f"Level {value}" for value in (1, 2, 3)}))])
    make_corpus(prompts=12, models=[MODEL])


def report(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("agreement", *arguments, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def by_round(answer: dict[str, Any]) -> dict[str | None, tuple[int, int, int]]:
    return {
        row["group"]["round"]: (row["n"], row["disputed"], row["raters"])
        for row in answer["rows"]
        if "round" in row["group"]
    }


@pytest.mark.both_databases
def test_a_label_is_compared_with_those_of_its_round_alone(tmp_path: Path):
    put(tmp_path, "first", FIRST)
    answer = report("--batch", "first", "--by", "round")
    assert (answer["rows"][0]["n"], answer["rows"][0]["disputed"]) == (4, 3)  # all labels of a response
    assert by_round(answer) == {"1": (2, 1, 2), "2": (1, 0, 2), "10": (0, 0, 1), None: (1, 0, 2)}
    assert list(by_round(answer)) == ["1", "2", "10", None]  # as numbers
    assert answer["intra_rater"] == []


@pytest.mark.both_databases
def test_pooled_batches_have_each_label_in_its_round_and_each_persons_over_rounds(tmp_path: Path):
    put(tmp_path, "first", FIRST)
    put(tmp_path, "second", SECOND)
    answer = report("--batch", "first", "second", "--by", "round")
    # Of the second round: p0 3 1 2, p1 3 3 3, p2 2 2 2; chen's label of p2 is of the tenth.
    assert by_round(answer) == {"1": (2, 1, 2), "2": (3, 1, 4), "10": (0, 0, 2), None: (1, 0, 2)}
    rows = {row["group"]["annotator"]: row for row in answer["intra_rater"]}
    assert {name: (row["n"], row["disputed"]) for name, row in rows.items()} == {
        "chen": (2, 1),
        "lin": (3, 1),
    }
    assert rows["lin"]["percent_agreement"]["value"] == pytest.approx(2 / 3)


def test_the_page_narrows_to_a_round_and_shows_its_tasks(tmp_path: Path, client: Client, ma: Person):
    put(tmp_path, "first", FIRST)
    put(tmp_path, "second", SECOND)
    client.force_login(ma)
    query = "batch=first&batch=second"
    page = client.get(f"/agreement/?{query}&by=round").content.decode()
    assert "Intra-rater agreement over rounds" in page
    assert "round=2&amp;disputed=1" in page
    inside = client.get(f"/agreement/?{query}&round=2")
    assert inside.status_code == 200
    tasks = client.get(f"/agreement/tasks/?{query}&round=2&disputed=1")
    assert [row.task.response.prompt.key for row in tasks.context["page"]] == ["p0"]
    crossed = client.get(f"/agreement/?{query}&by=round&across=pair")
    assert crossed.status_code == 200
    assert "chen, lin" in crossed.content.decode()


def test_a_correction_is_of_no_round(tmp_path: Path, lin: Person, chen: Person):
    batch = put(tmp_path, "first", [("lin", 0, 1, "1"), ("chen", 0, 2, "1")])
    assert by_round(report("--batch", "first", "--by", "round")) == {"1": (1, 1, 2)}
    assignment = Assignment.objects.get(batch=batch, person=lin)
    revise(assignment_id=assignment.pk, person=lin, key="k", work=Submission({"kind": 2}, reason="so"))
    assert Annotation.objects.filter(assignment=assignment).count() == 2
    assert by_round(report("--batch", "first", "--by", "round")) == {"1": (0, 0, 1), None: (0, 0, 1)}


@pytest.mark.parametrize("seed", range(5))
def test_rounds_of_any_batches_are_those_of_the_rows(tmp_path: Path, seed: int):
    """Against the rows themselves and the krippendorff package."""
    chance = random.Random(seed)
    people = ["lin", "chen", "zhou", "gao"]
    labelled: dict[str, list[Row]] = {}
    for name in ("one", "two", "three"):
        labelled[name] = [
            (person, unit, chance.randint(1, 3), chance.choice(["", "1", "2", "pilot"]))
            for unit in range(12)
            for person in people
            if chance.random() < 0.7
        ]
        put(tmp_path, name, labelled[name])
    latest: dict[tuple[str, int, str], int] = {}
    for name in ("one", "two", "three"):  # imported in this order
        for person, unit, value, number in labelled[name]:
            latest[person, unit, number] = value
    complete = visible_units(labelled)
    patterns = LabelPatterns(Batch.objects.order_by("pk"))
    for counted in patterns.list_counts(("round",)):
        number = counted.group["round"] or ""
        table = np.full((len(people), 12), np.nan)
        for (person, unit, of_round), value in latest.items():
            if of_round == number and (unit, person, number) in complete:
                table[people.index(person), unit] = value
        labels_of_unit = (~np.isnan(table)).sum(axis=0)
        assert counted.n == (labels_of_unit > 1).sum()
        with np.errstate(all="ignore"):
            expected = krippendorff.alpha(
                reliability_data=table, level_of_measurement="nominal", value_domain=[1, 2, 3]
            )
        assert counted.value("alpha_nominal") == pytest.approx(expected)
    repeated = defaultdict(list)
    for (person, unit, number), value in latest.items():
        if number and (unit, person, number) in complete:
            repeated[person, unit].append(value)
    expected_repeats = {
        person: (
            sum(len(values) > 1 for _key, values in of_person),
            sum(len(set(values)) > 1 for _key, values in of_person),
        )
        for person, of_person in (
            (person, list(rows))
            for person, rows in groupby(sorted(repeated.items()), key=lambda row: row[0][0])
        )
    }
    counts = {row.group["annotator"]: (row.n, row.disputed) for row in patterns.list_intra_rater()}
    assert counts == {person: numbers for person, numbers in expected_repeats.items() if numbers[0]}


def visible_units(labelled: dict[str, list[Row]]) -> set[tuple[int, str, str]]:
    """A batch that still collects shows the responses with two labels or more."""
    labelled_places = set()
    for rows in labelled.values():
        for unit, of_unit in groupby(rows, key=lambda row: row[1]):
            of_response = list(of_unit)
            if len(of_response) > 1:
                labelled_places |= {(unit, person, number) for person, _unit, _value, number in of_response}
    return labelled_places
