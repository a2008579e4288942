"""Responses with unequal numbers of labels, in one batch: published examples, and every unit with two labels counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import krippendorff
import numpy as np
import pytest
from django.core.management import call_command
from statsmodels.stats.inter_rater import fleiss_kappa

from annotation.core.errors import AssayError
from annotation.domain.agreement import PromptCounts
from annotation.domain.agreement.disagreement import UnitGroups, count_patterns
from annotation.domain.agreement.label_table import LabelledTask, PersonLabels, Units, build_units
from annotation.domain.agreement.statistics import measure_agreement
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import MAX_PLANNED_OVERLAP, Policy
from annotation.domain.formats import Source
from annotation.models import Annotation, Batch, Guideline, Person
from annotation.selectors.agreement import LabelPatterns
from annotation.services.annotations.submission import revise
from annotation.services.imports import ImportRequest, import_annotations
from annotation.services.people.people import add_person
from tests.annotation.domain.test_agreement_published import PSYCHIATRISTS
from tests.annotation.several_criteria import criterion, guideline_of, scale
from tests.support import as_made_by_import, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db

MODEL = "A"
# Krippendorff (2011), section on nominal data with any number of observers: four of them, twelve units.
KRIPPENDORFF = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)


@pytest.fixture
def five_levels() -> Guideline:
    levels = {value: f"Level {value}" for value in range(1, 6)}
    return guideline_of("five", [criterion("kind", scale(levels)) | {"measurement": "nominal"}])


@pytest.fixture
def import_table(five_levels: Guideline, tmp_path: Path) -> Callable[..., Batch]:
    """A batch of the units, labelled by a file: a row of labels for each observer, None where they gave none."""

    def put(rows: Sequence[Sequence[int | None]], *, overlap: int) -> Batch:
        batch = as_made_by_import(
            make_batch(
                five_levels,
                make_corpus(prompts=len(rows[0]), models=[MODEL]),
                annotators=[
                    add_person(name=f"place{place}", roles=["annotator"]) for place in range(overlap)
                ],
                policy=Policy(overlap=overlap),
            )
        )
        path = tmp_path / "labels.jsonl"
        records = [
            {
                "prompt_id": f"p{unit}",
                "model": MODEL,
                "annotator": f"observer{observer}",
                "labels": {"kind": value},
            }
            for observer, row in enumerate(rows)
            for unit, value in enumerate(row)
            if value is not None
        ]
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        import_annotations(
            source=Source(path, path.name),
            format="jsonl",
            request=ImportRequest(batch=batch.name),
            new_people=True,
        )
        return batch

    return put


def report(batch: Batch) -> dict[str, Any]:
    out = StringIO()
    call_command("agreement", "--batch", batch.name, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def test_four_observers_and_missing_labels_have_krippendorffs_alpha_in_one_batch(
    import_table: Callable[..., Batch],
):
    answer = report(import_table(KRIPPENDORFF, overlap=4))
    (row,) = answer["rows"]
    assert row["alpha_nominal"]["value"] == pytest.approx(0.743, abs=0.0005)
    assert row["n"] == 11  # the twelfth unit has one label
    assert answer["coverage"] == {
        "items_by_labels": {"1": 1, "2": 1, "3": 2, "4": 8},
        "waiting_for_labels": 4,
        "waiting_for_decision": 3,
    }


def test_six_psychiatrists_have_fleiss_kappa_in_one_batch(import_table: Callable[..., Batch]):
    patients = [np.repeat(range(1, 6), [int(n) for n in patient]).tolist() for patient in PSYCHIATRISTS]
    answer = report(import_table(list(zip(*patients, strict=True)), overlap=6))
    (row,) = answer["rows"]
    assert row["fleiss_kappa"]["value"] == pytest.approx(0.430, abs=0.0005)
    assert row["alpha_nominal"]["value"] == pytest.approx(0.433, abs=0.0005)
    assert answer["coverage"]["items_by_labels"] == {"6": 30}


def build_table(random: np.random.Generator) -> tuple[Any, int]:
    """Units by raters, codes from 0, -1 where there is no label; and the number of levels."""
    levels, raters = int(random.integers(2, 6)), int(random.integers(2, 80))
    codes = random.integers(0, levels, (int(random.integers(2, 40)), raters))
    codes[random.random(codes.shape) < random.random()] = -1
    return codes, levels


def as_units(codes: Any) -> Units:
    return build_units(
        LabelledTask(
            task,
            task,
            task,
            1,
            "",
            [
                PersonLabels(person, {"kind": float(code)}, 1, None)
                for person, code in enumerate(row)
                if code >= 0
            ],
        )
        for task, row in enumerate(codes.tolist())
    )


def count(units: Units) -> PromptCounts | dict[Any, int]:
    one_group = UnitGroups(("all",), np.zeros(len(units), dtype=np.int64))
    return count_patterns(units, one_group).get("all", {})


def test_two_hundred_tables_with_missing_labels_equal_the_packages():
    random, compared, n_full = np.random.default_rng(20261123), 0, 0
    for _table in range(200):
        codes, levels = build_table(random)
        names = ("alpha_nominal", "fleiss_kappa")
        measured = measure_agreement(
            count(as_units(codes)),
            values=range(levels),
            measurement="nominal",
            statistics=names,
            intervals=False,
        ).statistics
        pairable = codes[(codes >= 0).sum(axis=1) > 1]
        if len(set(pairable[pairable >= 0].tolist())) > 1:
            compared += 1
            labels = np.where(codes < 0, np.nan, codes).T
            expected = krippendorff.alpha(
                reliability_data=labels, value_domain=range(levels), level_of_measurement="nominal"
            )
            assert measured["alpha_nominal"].value == pytest.approx(expected, abs=1e-12)
        full = random.integers(0, levels, codes.shape)
        table = np.stack([(full == level).sum(axis=1) for level in range(levels)], axis=1)
        if len(set(full.ravel().tolist())) > 1:
            n_full += 1
            of_full = measure_agreement(
                count(as_units(full)),
                values=range(levels),
                measurement="nominal",
                statistics=names,
                intervals=False,
            )
            assert of_full.statistics["fleiss_kappa"].value == pytest.approx(fleiss_kappa(table), abs=1e-12)
    assert compared > 150
    assert n_full > 190


def test_seventy_people_on_a_response_all_count():
    """Their labels are no digits of one number any more."""
    codes = np.random.default_rng(1).integers(-1, 3, (50, 76))
    units = as_units(codes)
    rows = {tuple(code for code in row if code >= 0) for row in codes.tolist()}
    patterns = {units.labels_of(int(number)) for number in units.numbers}
    assert patterns == {tuple(map(float, row)) for row in rows}


@pytest.mark.both_databases
def test_an_open_response_counts_from_its_second_label_and_a_correction_of_it_too(
    five_levels: Guideline, lin: Person, chen: Person, zhou: Person
):
    batch = make_batch(
        five_levels,
        make_corpus(prompts=2, models=[MODEL]),
        annotators=[lin, chen, zhou],
        policy=Policy(overlap=3),
    )
    label_next(batch, lin, 1, "kind")
    assert counted(batch) == (0, 0)
    receipt = label_next(batch, chen, 2, "kind")
    assert counted(batch) == (1, 1)
    assert receipt is not None
    revise(
        assignment_id=receipt.assignment, person=chen, key=str(uuid4()), work=Submission(labels={"kind": 1})
    )
    assert counted(batch) == (1, 0)
    label_next(batch, zhou, 1, "kind")
    assert counted(batch) == (1, 0)
    assert LabelPatterns([batch]).labels.coverage.to_json() == {
        "items_by_labels": {"0": 1, "3": 1},
        "waiting_for_labels": 1,
        "waiting_for_decision": 0,
    }


def counted(batch: Batch) -> tuple[int, int]:
    (row,) = LabelPatterns([batch]).list_counts()
    return row.n, row.disputed


def test_more_than_five_people_label_a_response_and_another_decides(five_levels: Guideline, wu: Person):
    people = [add_person(name=f"annotator{number}", roles=["annotator"]) for number in range(9)]
    batch = make_batch(
        five_levels,
        make_corpus(prompts=1, models=[MODEL]),
        annotators=people,
        adjudicators=[wu],
        policy=Policy(overlap=9),
    )
    for person in people:
        label_next(batch, person, 1 + (person == people[3]), "kind")
    (task,) = batch.tasks.all()
    assert task.state == "disputed"
    assert Annotation.objects.filter(assignment__task=task).count() == 9


def test_a_planned_pairing_says_how_many_people_it_plans():
    with pytest.raises(AssayError, match=f"at most {MAX_PLANNED_OVERLAP} people"):
        Policy(overlap=6, pairing="balanced")
