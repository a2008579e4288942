"""Criteria that may be not applicable, stay unanswered, or are asked beside some answers: from label to export."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import krippendorff
import numpy as np
import pytest
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse

from annotation.core.errors import InputError, Unprocessable
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.formats import Source
from annotation.domain.guidelines import NA
from annotation.domain.guidelines.comparison import compare
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Annotation, Batch, GoldLabel, GoldRelease, Guideline, Person, Task
from annotation.selectors.adjudication import build_dispute
from annotation.selectors.agreement import LabelPatterns, applicability_to_json
from annotation.selectors.annotations.history import HistoryFilter, list_submissions
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_dispute, claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.exports import Options, export_release
from annotation.services.imports import ImportRequest, import_annotations
from annotation.services.releases import cut_release
from scoring.selectors.training import build_training_set
from tests.annotation.services.test_bundle import both, packed
from tests.annotation.several_criteria import LEVELS, criterion, guideline_of, scale
from tests.support import as_made_by_import, make_batch, make_corpus

pytestmark = pytest.mark.django_db
Labels = Mapping[str, Any]
# The two annotators of each task: empathy may be not applicable, repair is asked where it is 2 at most, note if wanted.
SAID: Sequence[tuple[Labels, Labels]] = (
    ({"empathy": NA}, {"empathy": NA}),
    ({"empathy": 3}, {"empathy": 3, "note": 2}),
    ({"empathy": 1, "repair": 2}, {"empathy": 1, "repair": 2}),
    ({"empathy": NA}, {"empathy": 1, "repair": 1}),
    ({"empathy": 3}, {"empathy": 3}),
)


def care() -> Guideline:
    return guideline_of(
        "care",
        [
            criterion("empathy", scale(LEVELS)) | {"na": True},
            criterion("repair", scale(LEVELS)) | {"asked_if": {"criterion": "empathy", "at_most": 2}},
            criterion("note", scale(LEVELS)) | {"optional": True},
        ],
    )


@pytest.fixture
def batch(lin: Person, chen: Person, wu: Person) -> Batch:
    corpus = make_corpus(prompts=len(SAID), models=["Hidden-13B"])
    return make_batch(care(), corpus, annotators=[lin, chen], adjudicators=[wu], policy=Policy(overlap=2))


def say(batch: Batch, person: Person, labels: Labels) -> None:
    assignment = claim_next_task(batch=batch, person=person)
    assert assignment is not None
    submit(assignment_id=assignment.pk, person=person, key=str(uuid4()), work=Submission(labels=labels))


@pytest.fixture
def labelled(batch: Batch, lin: Person, chen: Person) -> Batch:
    for first, second in SAID:
        say(batch, lin, first)
        say(batch, chen, second)
    return batch


@pytest.fixture
def settled(labelled: Batch, wu: Person) -> Batch:
    """The one dispute is decided: empathy 2, and so repair, too."""
    decide(labelled, wu, {"empathy": 2, "repair": 3})
    return labelled


def decide(batch: Batch, adjudicator: Person, labels: Labels) -> None:
    assignment = claim_next_dispute(batch=batch, person=adjudicator)
    assert assignment is not None
    record_verdict(assignment_id=assignment.pk, person=adjudicator, work=Submission(labels))
    work = Submission(labels, rationale="so", reason="reading_slip")
    adjudicate(assignment_id=assignment.pk, person=adjudicator, key=str(uuid4()), work=work)


@pytest.fixture
def release(settled: Batch) -> GoldRelease:
    set_state(batch=settled, state=Batch.State.CLOSED)
    return cut_release(ReleaseSpec(name="care-gold", batches=[settled]))


def gold_of(batch: Batch) -> list[dict[str, tuple[Any, str]]]:
    tasks = Task.objects.filter(batch=batch, kind=Task.Kind.WORK).order_by("position")
    return [
        {gold.criterion: (gold.label, gold.source) for gold in task.gold_labels.order_by("criterion")}
        for task in tasks
    ]


def test_what_is_settled(settled: Batch) -> None:
    assert gold_of(settled) == [
        {"empathy": (NA, "unanimous")},
        {"empathy": (3, "unanimous"), "note": (2, "single")},
        {"empathy": (1, "unanimous"), "repair": (2, "unanimous")},
        {"empathy": (2, "adjudicated"), "repair": (3, "adjudicated")},
        {"empathy": (3, "unanimous")},
    ]
    assert GoldLabel.objects.filter(value=None).count() == 1


def test_the_adjudicator_decides_what_hangs_on_the_dispute_and_no_more(labelled: Batch, wu: Person) -> None:
    assignment = claim_next_dispute(batch=labelled, person=wu)
    assert assignment is not None
    assert [c.name for c in build_dispute(assignment).item.criteria] == ["empathy", "repair"]
    with pytest.raises(Unprocessable, match="lacks repair"), transaction.atomic():
        record_verdict(assignment_id=assignment.pk, person=wu, work=Submission({"empathy": 1}))
    with pytest.raises(Unprocessable, match="not asked beside"), transaction.atomic():
        record_verdict(assignment_id=assignment.pk, person=wu, work=Submission({"empathy": NA, "repair": 1}))
    decide(labelled, wu, {"empathy": NA})
    assert gold_of(labelled)[3] == {"empathy": (NA, "adjudicated")}


def test_agreement_is_of_numbers_and_apart_of_who_says_na(settled: Batch) -> None:
    patterns = LabelPatterns([settled])
    rows = {row.criterion: row for row in patterns.report()}
    assert (rows["empathy"].agreement.n, rows["empathy"].agreement.disputed) == (3, 0)
    assert rows["repair"].agreement.n == 1
    assert rows["note"].agreement.n == 0
    (row,) = map(applicability_to_json, patterns.list_applicability())
    assert (row["criterion"], row["labels"], row["not_applicable"]) == ("empathy", 10, 3)
    assert (row["n"], row["disputed"]) == (5, 1)
    # By hand: observed disagreement 2/10; 3 of na and 7 of levels expect 2 * 3 * 7 / (10 * 9).
    assert row["alpha_nominal"]["value"] == pytest.approx(1 - (2 / 10) / (2 * 3 * 7 / 90))
    assert patterns.labels.coverage.items == ((2, 5),)


def test_the_command_and_the_page_say_it_apart(settled: Batch, he: Person) -> None:
    out = StringIO()
    call_command("agreement", "--batch", settled.name, stdout=out)
    assert "empathy: not applicable in 3 of 10 labels; n 5, differing 1" in out.getvalue()
    client = Client()
    client.force_login(he)
    page = client.get(reverse("agreement"), {"batch": settled.name}).content.decode()
    assert "Here is how well people agree on whether the criterion is applicable." in page


def test_the_canonical_form_has_na_and_no_number_for_it(release: GoldRelease, tmp_path: Path) -> None:
    export_release(release=release, format_name="jsonl", folder=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "gold.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows[0]["labels"] == {"empathy": "na"}
    assert rows[0]["sources"] == {"empathy": "unanimous"}
    assert [row["labels_by_level"] for row in rows] == [
        {"empathy": {"na": 2}},
        {"empathy": {"3": 2}, "note": {"2": 1}},
        {"empathy": {"1": 2}, "repair": {"2": 2}},
        {"empathy": {"1": 1, "na": 1}, "repair": {"1": 1}},
        {"empathy": {"3": 2}},
    ]
    assert release.manifest["counts"]["by_level"]["empathy"] == {"1": 1, "2": 1, "3": 2, "na": 1}


@pytest.mark.parametrize("format_name", ["jsonl", "csv", "parquet", "hf", "labels", "label_studio", "xlsx"])
def test_each_export_reads_back_to_the_same_hash(
    release: GoldRelease, tmp_path: Path, format_name: str
) -> None:
    """Each is verified by itself when it is written; raw labels as CSV, too."""
    export_release(release=release, format_name=format_name, folder=tmp_path / "one")
    if format_name == "labels":
        options = Options(table="csv")
        export_release(release=release, format_name=format_name, folder=tmp_path / "two", options=options)


def test_a_scorer_learns_numbers_alone(release: GoldRelease) -> None:
    guideline = release.batches.get().guideline
    training_set = build_training_set(release, guideline)
    learned = [dict(example.labels) for example in training_set.examples]
    assert sorted(map(str, learned)) == sorted(
        [
            "{'empathy': 3, 'note': 2}",
            "{'empathy': 1, 'repair': 2}",
            "{'empathy': 2, 'repair': 3}",
            "{'empathy': 3}",
        ]
    )
    assert training_set.left_out == 0


def test_the_same_comes_in_from_files(
    settled: Batch, lin: Person, chen: Person, wu: Person, tmp_path: Path
) -> None:
    words = {NA: "N/A"}
    lines = ["prompt_id,model,annotator,adjudicator,label.empathy,label.repair,label.note"]
    for place, pair in enumerate(SAID):
        for name, labels in zip(("lin", "chen"), pair, strict=True):
            cells = [
                str(words.get(labels.get(c, ""), labels.get(c, ""))) for c in ("empathy", "repair", "note")
            ]
            lines.append(",".join([f"p{place}", "Hidden-13B", name, "", *cells]))
    lines.append("p3,Hidden-13B,,wu,2,3,")
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    other = make_batch(
        settled.guideline,
        settled.tasks.first().prompt.dataset,
        annotators=[lin, chen],
        adjudicators=[wu],
        name="again",
        policy=Policy(overlap=2),
    )
    as_made_by_import(other)
    request = ImportRequest(batch="again", guideline=None, dataset=None)
    import_annotations(source=Source(path, path.name), format="csv", request=request)
    assert gold_of(other) == gold_of(settled)


def test_na_is_refused_where_the_guideline_does_not_allow_it(batch: Batch, tmp_path: Path) -> None:
    as_made_by_import(batch)
    path = tmp_path / "labels.jsonl"
    row = {"prompt_id": "p0", "model": "Hidden-13B", "annotator": "lin"}
    path.write_text(json.dumps(row | {"labels": {"empathy": 1, "repair": "N/A"}}) + "\n", encoding="utf-8")
    request = ImportRequest(batch="first", guideline=None, dataset=None)
    with pytest.raises(InputError) as caught:
        import_annotations(source=Source(path, path.name), format="jsonl", request=request)
    assert '"repair" cannot be "na"; use one of 1, 2, 3.' in str(caught.value)
    assert caught.value.line == 1


def test_a_bundle_carries_it_to_another_site(release: GoldRelease, tmp_path: Path) -> None:
    both(packed(release, tmp_path), release)


def test_the_history_tells_who_was_overruled(settled: Batch, lin: Person, chen: Person) -> None:
    """On the fourth lin said na and chen 1; the decision was 2."""
    set_state(batch=settled, state=Batch.State.CLOSED)
    for person in (lin, chen):
        assert list_submissions(person, HistoryFilter(overruled=True)).count() == 1


def test_who_was_overruled_by_na(labelled: Batch, wu: Person, lin: Person, chen: Person) -> None:
    decide(labelled, wu, {"empathy": NA})
    set_state(batch=labelled, state=Batch.State.CLOSED)
    assert list_submissions(lin, HistoryFilter(overruled=True)).count() == 0
    assert list_submissions(chen, HistoryFilter(overruled=True)).count() == 1


def test_pages_show_it(settled: Batch, release: GoldRelease, he: Person, ma: Person, lin: Person) -> None:
    client = Client()
    for reader, name, arguments in (
        (he, "release", [release.name]),
        (ma, "batch", [settled.name]),
        (lin, "history", []),
        (ma, "quality", []),
        (he, "guideline", ["care", "1.0"]),
        (he, "report", []),
    ):
        client.force_login(reader)
        answer = client.get(reverse(name, args=arguments))
        assert answer.status_code == 200, name
    assert "may be not applicable" in client.get(reverse("guideline", args=["care", "1.0"])).content.decode()


def test_versions_are_compared_in_these_fields(settled: Batch) -> None:
    document = settled.guideline.document
    plain = {"na": False, "optional": False, "asked_if": None}
    criteria = tuple(criterion.model_copy(update=plain) for criterion in document.criteria)
    compared = compare(document.model_copy(update={"criteria": criteria}), document, "en")
    changed = {
        field.name: "".join(piece.text for piece in field.new)
        for clause in compared.clauses
        for field in clause.fields
        if field.changed
    }
    assert changed == {"na": "allowed", "asked_if": "Empathy ≤ 2", "optional": "allowed"}


CROWD = Path(__file__).resolve().parents[4] / "shared" / "data" / "lend_an_ear" / "crowd_annotations.csv"
SIX = (
    "validating_emotions",
    "encouraging_elaboration",
    "demonstrating_understanding",
    "advice_giving",
    "self_oriented",
    "dismissing_emotions",
)


def test_a_crowd_that_left_levels_open_comes_in_whole(tmp_path: Path) -> None:
    """196 annotations of 116 people; 14 levels are empty, in 5 annotations. Alpha is that of the package."""
    if not CROWD.exists():
        pytest.skip("the crowd's annotations are not at ../shared/data/lend_an_ear")
    rows = list(csv.DictReader(io.StringIO(CROWD.read_text(encoding="utf-8"))))
    names = {value: f"Level {value}" for value in range(1, 6)}
    guideline_of("crowd", [criterion(name, scale(names)) | {"optional": True} for name in SIX])
    dialogues = sorted({row["conversation_id"] for row in rows})
    make_corpus(prompts=len(dialogues), models=["A"])
    path = tmp_path / "crowd.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["prompt_id", "model", "annotator", *(f"label.{name}" for name in SIX)])
        for row in rows:
            place = dialogues.index(row["conversation_id"])
            writer.writerow([f"p{place}", "A", f"crowd-{row['user_id']}", *(row[name] for name in SIX)])
    policy = Policy(plan="open", overlap=1)
    request = ImportRequest(batch="crowd", guideline="crowd", dataset="small", policy=policy)
    import_annotations(source=Source(path, path.name), format="csv", request=request, new_people=True)
    stored = Annotation.objects.values_list("labels", flat=True)
    assert len(stored) == len(rows) == 196
    assert sum(len(labels) for labels in stored) == 6 * 196 - 14
    assert sum(len(labels) < 6 for labels in stored) == 5
    measured = {row.criterion: row.agreement for row in LabelPatterns(Batch.objects.all()).report()}
    for name in SIX:
        table = np.full((len({row["user_id"] for row in rows}), len(dialogues)), np.nan)
        people = sorted({row["user_id"] for row in rows})
        for row in rows:
            if row[name]:
                unit = dialogues.index(row["conversation_id"])
                table[people.index(row["user_id"]), unit] = float(row[name])
        expected = krippendorff.alpha(
            reliability_data=table, value_domain=[1, 2, 3, 4, 5], level_of_measurement="ordinal"
        )
        assert measured[name].statistics["alpha_ordinal"].value == pytest.approx(expected, abs=1e-9)


def test_a_lone_label_is_named_where_others_may_be_missing(labelled: Batch, lin: Person, ma: Person) -> None:
    client = Client()
    client.force_login(lin)
    rows = client.get("/history/").context["rows"]
    lone_labels = [row.labels[0] for row in rows if len(row.labels) == 1]
    assert lone_labels
    assert all(label.criterion for label in lone_labels)


def test_the_report_counts_labels_per_response_in_words(labelled: Batch, ma: Person) -> None:
    client = Client()
    client.force_login(ma)
    page = " ".join(client.get(f"/report/?batch={labelled.name}").content.decode().split())
    assert re.search(r"[0-9]+ with 2 labels", page)
