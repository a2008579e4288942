"""Labels made elsewhere are replayed through the same rules as labels given here."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.core.errors import AssayError, Conflict, InputError
from annotation.domain.annotations import Submission
from annotation.domain.formats import Source
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    Dataset,
    EvaluatedModel,
    GoldLabel,
    Guideline,
    Membership,
    Person,
    Prompt,
    Response,
    Task,
)
from annotation.selectors.access import refuse_sealed
from annotation.services.annotations.submission import revise
from annotation.services.assignments import claim_next_dispute, claim_next_task, release_assignment
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import set_member_active
from annotation.services.imports import (
    ImportReport,
    ImportRequest,
    Run,
    import_annotations,
    import_prompts,
    import_responses,
)
from tests.support import FLAMES_GUIDELINE, as_made_by_import, label_next

pytestmark = pytest.mark.django_db

DEMO = Path(__file__).resolve().parents[3] / "fixtures" / "demo"
MODEL = "Hidden-13B"
XSTEST = "id,type,prompt,completion,annotation_1,annotation_2,agreement,final_label\n"
FULL, PARTIAL, REFUSAL = "1_full_compliance", "3_partial_refusal", "2_full_refusal"
MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")
Write = Callable[..., Source]


def build_row(annotator: str, value: float, prompt: str = "p0", **more: Any) -> dict[str, Any]:
    labels = {"compliance": value}
    return {"prompt_id": prompt, "model": MODEL, "annotator": annotator, "labels": labels} | more


def decided(adjudicator: str, value: float, prompt: str = "p0") -> dict[str, Any]:
    return {
        "prompt_id": prompt,
        "model": MODEL,
        "adjudicator": adjudicator,
        "labels": {"compliance": value},
        "rationale": "so",
    }


@pytest.fixture
def batch(batch: Batch) -> Batch:
    return as_made_by_import(batch)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(*rows: dict[str, Any], name: str = "labels.jsonl") -> Source:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return Source(path, name)

    return make


@pytest.fixture
def xstest(tmp_path: Path) -> Write:
    """A completions file of (first, second, final) labels."""

    def make(*rows: tuple[str, str, str], model: str = "gpt9") -> Source:
        path = tmp_path / f"xstest_v2_completions_{model}.csv"
        text = XSTEST
        for number, (first, second, final) in enumerate(rows, 1):
            text += f"v2-{number},homonyms,Prompt {number}?,Answer {number}.,{first},{second},,{final}\n"
        path.write_text(text, encoding="utf-8")
        return Source(path, path.name)

    return make


def put(source: Source, batch: str = "first", format_name: str = "jsonl", **options: Any) -> ImportReport:
    target = ImportRequest(
        batch=batch, guideline=options.pop("guideline", None), dataset=options.pop("dataset", None)
    )
    return import_annotations(source=source, format=format_name, request=target, **options)


def state_of(prompt: str = "p0") -> str:
    return task_of(prompt).state


def task_of(prompt: str = "p0") -> Task:
    return Task.objects.get(response__prompt__key=prompt, response__model__name=MODEL)


def gold() -> list[tuple[str, float, str]]:
    rows = GoldLabel.objects.values_list("task__response__prompt__key", "value", "source")
    return sorted(rows)


def read_tables() -> tuple[Any, ...]:
    """All that labelling leaves behind, for "nothing changed"."""
    return (
        list(Task.objects.order_by("pk").values_list("pk", "state", "slots_taken", "settled_at")),
        list(Assignment.objects.order_by("pk").values_list("pk", "slot", "state")),
        list(Annotation.objects.order_by("pk").values_list("pk", "labels", "current")),
        list(Adjudication.objects.values_list("pk", "labels")),
        gold(),
        Person.objects.count(),
        Membership.objects.count(),
    )


@pytest.mark.both_databases
def test_agreement_settles_a_difference_disputes_and_a_decision_adjudicates(batch: Batch, write: Write):
    source = write(
        build_row("lin", 3),
        build_row("chen", 3),
        build_row("lin", 1, "p1"),
        build_row("chen", 3, "p1"),
        decided("wu", 2, "p1"),
        build_row("lin", 1, "p2"),
        build_row("zhou", 2, "p2"),
        build_row("zhou", 1, "p3"),
    )
    report = put(source)
    assert (report.imported, report.already_there) == (8, 0)
    assert [state_of(f"p{n}") for n in range(4)] == ["agreed", "adjudicated", "disputed", "open"]
    assert gold() == [("p0", 3, "unanimous"), ("p1", 2, "adjudicated")]
    assert [task_of(f"p{n}").slots_taken for n in range(4)] == [2, 2, 2, 1]
    assert task_of("p0").settled_at is not None
    assert task_of("p2").settled_at is None
    wu = Assignment.objects.get(slot=ADJUDICATION_SLOT)
    assert (wu.person.username, wu.adjudication.rationale) == ("wu", "so")


@pytest.mark.both_databases
def test_the_same_file_twice_changes_nothing(batch: Batch, write: Write):
    source = write(build_row("lin", 1), build_row("chen", 3), decided("wu", 3))
    put(source)
    before = read_tables()
    report = put(source)
    assert (report.imported, report.already_there) == (0, 3)
    assert read_tables() == before


def test_labels_given_here_and_elsewhere_complete_each_other(batch: Batch, lin: Person, write: Write):
    label_next(batch, lin, 3)  # the first task: p0 of the first model, whose name sorts the other way
    first = Task.objects.get(assignments__person=lin)
    row = build_row("chen", 3, first.response.prompt.key) | {"model": first.response.model.name}
    put(write(row))
    first.refresh_from_db()
    assert (first.state, first.slots_taken) == ("agreed", 2)


def test_a_dispute_left_open_is_adjudicated_by_a_later_file_across_chunks(
    batch: Batch, write: Write, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("annotation.services.imports.run.LABEL_CHUNK", 1)
    rows = [build_row("lin", 1), build_row("chen", 3), decided("wu", 2)]
    report = put(write(*rows), without_final=True)
    assert [str(note) for note in report.list_notes()] == ["1 final decisions were left out."]
    assert state_of() == "disputed"
    report = put(write(*rows))
    assert (report.imported, report.already_there) == (1, 2)
    assert gold() == [("p0", 2, "adjudicated")]


def test_a_correction_made_here_does_not_make_the_file_wrong(batch: Batch, lin: Person, write: Write):
    source = write(build_row("lin", 1))
    put(source)
    assignment = Assignment.objects.get(person=lin)
    revise(assignment_id=assignment.pk, person=lin, key="k", work=Submission(labels={"compliance": 3}))
    assert put(source).already_there == 1


def test_a_live_claim_of_the_same_person_becomes_the_annotation(batch: Batch, lin: Person, write: Write):
    claim = claim_next_task(batch=batch, person=lin)
    assert claim is not None
    response = claim.task.response
    put(write(build_row("lin", 3, response.prompt.key) | {"model": response.model.name}))
    claim.refresh_from_db()
    assert (claim.state, Assignment.objects.count()) == ("submitted", 1)
    assert Task.objects.get(pk=claim.task_id).slots_taken == 1


def test_a_claim_that_was_given_back_is_taken_up_again(batch: Batch, lin: Person, write: Write):
    claim = claim_next_task(batch=batch, person=lin)
    assert claim is not None
    release_assignment(assignment_id=claim.pk, person=lin)
    response = claim.task.response
    put(write(build_row("lin", 3, response.prompt.key) | {"model": response.model.name}))
    assert Assignment.objects.get().state == "submitted"
    assert Task.objects.get(pk=claim.task_id).slots_taken == 1


def test_where_a_label_came_from_is_kept_with_it(batch: Batch, write: Write):
    source = write(
        build_row(
            "lin",
            3,
            rationale="r",
            seconds=2.5,
            flags=["unsure"],
            evidence=[{"turn": 0, "start": 1, "end": 4}],
        )
    )
    put(source)
    annotation = Annotation.objects.get()
    assert annotation.idempotency_key.startswith("import:")
    assert annotation.idempotency_key.endswith(":1")
    assert (annotation.rationale, annotation.seconds, annotation.flags) == ("r", 2.5, ["unsure"])
    assert annotation.evidence == [{"turn": 0, "start": 1, "end": 4, "criterion": "compliance", "level": 3}]


BAD: dict[str, tuple[list[dict[str, Any]], str]] = {
    "off the scale": (
        [build_row("lin", 4)],
        r'jsonl:1 \[labels\]: "compliance" cannot be 4; use one of 1, 2, 3',
    ),
    "an unknown criterion": (
        [build_row("lin", 3, labels={"mood": 1})],
        r'jsonl:1 \[labels\]: "mood" is not asked here',
    ),
    "an unknown prompt": ([build_row("lin", 3, "p9")], r"jsonl:1 \[prompt_id\]: there is no prompt p9"),
    "an unknown model": (
        [build_row("lin", 3, model="Odd")],
        r"jsonl:1 \[model\]: there is no response of a model Odd",
    ),
    "an unknown person": (
        [build_row("nobody", 3)],
        r"jsonl:1 \[annotator\]: nobody is named nobody; make the person",
    ),
    "a third annotator": (
        [build_row("lin", 3), build_row("chen", 3), build_row("zhou", 3)],
        r"jsonl:3 \[annotator\]: all 2 annotations of this response are taken",
    ),
    "other labels of the same person": (
        [build_row("lin", 3), build_row("lin", 1)],
        r"jsonl:2 \[labels\]: lin labelled this response otherwise on line 1",
    ),
    "an annotator who decides": (
        [build_row("lin", 3), build_row("chen", 1), decided("lin", 3)],
        r"jsonl:3 \[adjudicator\]: lin had this response to annotate",
    ),
    "a decision on an agreement": (
        [build_row("lin", 3), build_row("chen", 3), decided("wu", 3)],
        r"jsonl:3 \[adjudicator\]: the annotators agree",
    ),
    "a decision too early": (
        [build_row("lin", 3), decided("wu", 3)],
        r"jsonl:2 \[adjudicator\]: this response has 1 of 2 annotations",
    ),
    "a decision off the scale": (
        [build_row("lin", 3), build_row("chen", 1), decided("wu", 9)],
        r'jsonl:3 \[labels\]: "compliance" cannot be 9',
    ),
    "a second decision": (
        [build_row("lin", 3), build_row("chen", 1), decided("wu", 3), decided("wu", 2)],
        r"jsonl:4 \[labels\]: this dispute was decided otherwise on line 3",
    ),
    "an adjudicator who annotates": (
        [build_row("lin", 3), build_row("chen", 1), decided("wu", 3), build_row("wu", 3)],
        r"jsonl:4 \[annotator\]: wu adjudicates this response",
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_what_breaks_a_rule_is_refused_with_its_line_and_nothing_is_kept(
    batch: Batch, write: Write, bad: tuple[list[dict[str, Any]], str]
):
    rows, words = bad
    before = read_tables()
    with pytest.raises(InputError, match=words):
        put(write(*rows))
    assert read_tables() == before


def test_all_that_breaks_a_rule_can_be_collected(batch: Batch, write: Write):
    source = write(build_row("lin", 4), build_row("lin", 3), build_row("odd", 3), build_row("chen", 3, "p9"))
    with pytest.raises(InputError) as caught:
        put(source, run=Run(most_problems=10))
    assert [problem.line for problem in caught.value.problems] == [1, 3, 4]  # type: ignore[attr-defined]
    assert not Annotation.objects.exists()


def test_a_skipped_response_is_not_labelled_for_the_person(batch: Batch, lin: Person, write: Write):
    claim = claim_next_task(batch=batch, person=lin)
    assert claim is not None
    release_assignment(assignment_id=claim.pk, person=lin, skip_reason="not mine")
    response = claim.task.response
    with pytest.raises(InputError, match="lin skipped this response"):
        put(write(build_row("lin", 3, response.prompt.key) | {"model": response.model.name}))


def test_a_dispute_that_someone_is_deciding_is_left_to_them(
    batch: Batch, wu: Person, ma: Person, write: Write
):
    put(write(build_row("lin", 3), build_row("chen", 1)))
    assert claim_next_dispute(batch=batch, person=wu) is not None
    with pytest.raises(InputError, match="someone else is deciding this dispute now"):
        put(write(decided("ma", 3)))


def test_a_closed_batch_takes_nothing(batch: Batch, write: Write):
    set_state(batch=batch, state=Batch.State.CLOSED)
    with pytest.raises(Conflict, match="batch first is closed"):
        put(write(build_row("lin", 3)))


def test_a_person_from_outside_the_batch_becomes_a_member_and_the_report_says_so(
    batch: Batch, ma: Person, write: Write
):
    report = put(write(build_row("ma", 3)))
    assert [str(note) for note in report.notes] == ["ma is now a member of the batch (annotator)."]
    assert Membership.objects.filter(batch=batch, person=ma, role="annotator").exists()


def test_who_opened_the_results_is_given_no_work_by_way_of_a_file(
    batch: Batch, lin: Person, he: Person, write: Write
):
    """What they labelled elsewhere is theirs; here they would not judge blind."""
    label_next(batch, lin, 3)
    refuse_sealed(he, [batch])
    put(write(build_row("he", 3, prompt="p1")))
    assert task_of("p1").assignments.filter(person=he, state="submitted").exists()
    assert list(batch.memberships.filter(person=he).values_list("active", flat=True)) == [False]
    with pytest.raises(Conflict, match="he opened the results of first"):
        set_member_active(batch=batch, person=he, role="annotator", active=True)


def test_whoever_left_the_batch_stays_out_of_it(batch: Batch, lin: Person, write: Write):
    Membership.objects.filter(person=lin).update(active=False)
    put(write(build_row("lin", 3)))
    assert not Membership.objects.get(person=lin).active


def test_a_new_batch_is_made_of_the_whole_dataset_and_of_the_people_in_the_file(
    dataset: Dataset, guideline: Guideline, write: Write
):
    source = write(build_row("ann", 3), build_row("ben", 1), decided("cat", 3))
    report = put(source, "new", guideline="xstest", dataset="small")
    batch = Batch.objects.get(name="new")
    # 4 prompts, 2 models
    assert report.made == {"batches": 1, "tasks": 8, "people": 3}
    assert (batch.state, batch.tasks.filter(state="open").count()) == ("open", 7)
    assert not any(person.has_usable_password() for person in Person.objects.all())


def test_a_new_batch_needs_a_guideline_and_a_dataset(dataset: Dataset, write: Write):
    with pytest.raises(AssayError, match="To make it, name its guideline and its dataset"):
        put(write(build_row("ann", 3)), "new", dataset="small")
    assert not Batch.objects.exists()


def test_a_new_batch_needs_as_many_annotators_as_its_overlap(
    dataset: Dataset, guideline: Guideline, write: Write
):
    with pytest.raises(AssayError, match="at least 2 annotators; 1 are named"):
        put(write(build_row("ann", 3)), "new", guideline="xstest", dataset="small")
    assert not Batch.objects.exists()
    assert not Person.objects.exists()


def test_another_guideline_than_the_batch_has_is_refused(batch: Batch, write: Write):
    FLAMES_GUIDELINE.load()
    with pytest.raises(
        Conflict, match="the batch first follows xstest@1.0, not flames".replace("the", "The", 1)
    ):
        put(write(build_row("lin", 3)), guideline="flames")


def test_the_collection_tells_two_responses_apart(batch: Batch, write: Write, tmp_path: Path):
    row = {"prompt_id": "p0", "model": MODEL, "response": "Again."}
    import_responses(source=write(row), format="jsonl", dataset="small", collection="second")
    put(write(build_row("lin", 3)))
    with pytest.raises(InputError, match="no such response of Hidden-13B to the prompt p0"):
        put(write(build_row("chen", 3, collection="second")))


def test_the_demo_is_replayed_as_its_readme_counts_it(db: None):
    FLAMES_GUIDELINE.load()
    import_prompts(source=Source(DEMO / "prompts.jsonl"), format="jsonl", dataset="demo")
    import_responses(source=Source(DEMO / "responses.jsonl"), format="jsonl", dataset="demo")
    report = put(Source(DEMO / "annotations.jsonl"), "demo", guideline="flames", dataset="demo")
    states = {state: Task.objects.filter(state=state).count() for state in Task.State.values}
    # fixtures/demo/README.md: 157 agree, 25 settled by wu, 8 disputes to try, 6 + 20 open
    assert states == {"agreed": 157, "adjudicated": 25, "disputed": 8, "open": 26, "withdrawn": 0}
    assert (report.imported, GoldLabel.objects.count()) == (411, 182)


# -- XSTest ----------------------------------------------------------------------------------------


@pytest.mark.both_databases
def test_xstest_makes_what_is_missing(xstest: Write):
    source = xstest((FULL, FULL, FULL), (FULL, REFUSAL, PARTIAL), (PARTIAL, REFUSAL, ""))
    report = put(source, "x", "xstest")
    assert report.made == {
        "guidelines": 1,
        "batches": 1,
        "datasets": 1,
        "prompts": 3,
        "models": 1,
        "responses": 3,
        "tasks": 3,
        "people": 3,
    }
    batch = Batch.objects.get()
    assert (batch.name, batch.state, str(batch.guideline)) == ("x", "open", "xstest@1.0")
    assert EvaluatedModel.objects.get().name == "gpt9"
    assert set(Person.objects.values_list("username", flat=True)) == {
        "xstest-annotator-1",
        "xstest-annotator-2",
        "xstest-adjudicator",
    }
    assert not any(person.has_usable_password() for person in Person.objects.all())
    assert gold() == [("1", 3, "unanimous"), ("2", 2, "adjudicated")]
    assert Task.objects.get(response__prompt__key="3").state == "disputed"  # nobody has decided it yet


def test_a_second_model_joins_the_batch(xstest: Write):
    put(xstest((FULL, FULL, FULL)), "x", "xstest")
    report = put(xstest((REFUSAL, REFUSAL, REFUSAL), model="other"), "x", "xstest")
    assert report.made == {"models": 1, "responses": 1, "tasks": 1}
    assert (Prompt.objects.count(), Response.objects.count(), Task.objects.count()) == (1, 2, 2)


def test_the_model_must_be_told_by_the_files_name_or_with_an_option(xstest: Write, tmp_path: Path):
    renamed = tmp_path / "labels.csv"
    renamed.write_bytes(xstest((FULL, FULL, FULL)).path.read_bytes())
    with pytest.raises(InputError, match=r"labels.csv:1 \[model\]: whose response is this"):
        put(Source(renamed, "labels.csv"), "x", "xstest")
    assert not Guideline.objects.exists()
    put(Source(renamed, "labels.csv"), "x", "xstest", model="gpt9")
    assert EvaluatedModel.objects.get().name == "gpt9"


def test_a_draft_of_the_guideline_is_not_replaced(xstest: Write, guideline: Guideline):
    Guideline.objects.update(published_at=None)
    with pytest.raises(AssayError, match="no published guideline xstest"):
        put(xstest((FULL, FULL, FULL)), "x", "xstest")


@pytest.fixture(scope="module")
def published_sources() -> list[str]:
    return [f"xstest_v2_completions_{model}.csv" for model in MODELS]


def test_the_published_labels_come_out_as_published(shared: Path, published_sources: list[str], db: None):
    folder = shared / "xstest"
    import_prompts(source=Source(folder / "xstest_prompts.csv"), format="xstest", dataset="xstest")
    for name in published_sources:
        report = put(Source(folder / name), "xstest", "xstest")
        assert "prompts" not in report.made
        assert any("Prompt 195 is worded differently" in str(note) for note in report.notes)
    assert (Task.objects.count(), Annotation.objects.count()) == (2250, 4500)
    assert (Adjudication.objects.count(), GoldLabel.objects.count()) == (81, 2250)
    assert Task.objects.exclude(state__in=["agreed", "adjudicated"]).count() == 0
    assert Task.objects.exclude(slots_taken=2).count() == 0
    _whose_label_was_final()


def _whose_label_was_final() -> None:
    """The final label is the first person's 63 times, the second's 13 times and neither's 5 times."""
    counts = {"first": 0, "second": 0, "neither": 0}
    for decision in Adjudication.objects.all():
        label_sets = list(
            Annotation.objects.filter(assignment__task=decision.task_id)
            .order_by("assignment__slot")
            .values_list("labels", flat=True)
        )
        annotators = [
            place
            for place, labels in zip(("first", "second"), label_sets, strict=True)
            if labels == decision.labels
        ]
        counts[annotators[0] if annotators else "neither"] += 1
    assert counts == {"first": 63, "second": 13, "neither": 5}


def test_published_disputes_left_open_are_adjudicated_later(shared: Path, db: None):
    source = Source(shared / "xstest" / "xstest_v2_completions_gpt4.csv")
    put(source, "xstest", "xstest", without_final=True)
    assert Task.objects.filter(state="disputed").count() == 7
    assert not Person.objects.filter(username="xstest-adjudicator").exists()
    report = put(source, "xstest", "xstest")
    assert (report.imported, report.already_there) == (7, 900)
    assert Task.objects.filter(state="disputed").count() == 0


def test_positions_follow_the_file(xstest: Write):
    put(xstest((FULL, FULL, FULL), (FULL, FULL, FULL)), "x", "xstest")
    put(xstest((FULL, FULL, FULL), (FULL, FULL, FULL), model="other"), "x", "xstest")
    positions = list(Task.objects.order_by("pk").values_list("position", flat=True))
    assert all(later == earlier + 1 for earlier, later in pairwise(positions))


# -- the command -----------------------------------------------------------------------------------


def run_command(*arguments: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command("import_annotations", *arguments, stdout=out, stderr=err)
    except SystemExit as stop:
        return int(stop.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_the_command_refuses_a_label_off_the_scale_in_one_line(batch: Batch, write: Write):
    source = write(build_row("lin", 3), build_row("chen", 7))
    before = read_tables()
    code, out, err = run_command(str(source.path), "--batch", "first", "--format", "jsonl")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f'{source.path}:2 [labels]: "compliance" cannot be 7; use one of 1, 2, 3.')
    assert read_tables() == before


def test_the_files_of_one_command_may_bring_the_people_of_a_new_batch(
    dataset: Dataset, guideline: Guideline, write: Write
):
    first = write(build_row("ann", 3), build_row("ben", 1))
    second = write(build_row("cat", 3, "p1"), name="more.jsonl")
    place = ("--batch", "new", "--guideline", "xstest", "--dataset", "small", "--format", "jsonl")
    code, out, _err = run_command(str(first.path), str(second.path), *place, "--json")
    assert code == 0
    assert json.loads(out)["taken"] == 3
    third = write(build_row("dan", 3, "p2"), name="last.jsonl")
    code, _out, err = run_command(str(third.path), "--batch", "new", "--format", "jsonl")
    assert (code, "nobody is named dan" in err) == (1, True)


def test_the_files_before_a_bad_one_stay(batch: Batch, write: Write):
    good, bad = write(build_row("lin", 3)), write(build_row("chen", 9), name="bad.jsonl")
    code, _out, _err = run_command(str(good.path), str(bad.path), "--batch", "first", "--format", "jsonl")
    assert (code, Annotation.objects.count()) == (1, 1)
