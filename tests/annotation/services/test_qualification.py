"""The qualification: gold questions that must be passed before a batch opens to a person."""

from __future__ import annotations

import pytest
from django.test import Client

from annotation.core.errors import AssayError, Conflict, NotFound
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy, Terms
from annotation.models import (
    Assignment,
    AuditEvent,
    Batch,
    GoldQuestion,
    GoldQuestionTask,
    Guideline,
    Person,
    Qualification,
    Task,
)
from annotation.selectors.batches.needs import FAILED, list_needs
from annotation.selectors.batches.own_progress import find_own_progress
from annotation.selectors.batches.progress import measure_progress
from annotation.selectors.gold_questions import (
    find_latest_qualification,
    list_batch_check_results,
    list_qualification_rows,
)
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_task, release_assignment
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import (
    set_limits,
    set_member_active,
    start_attempt,
    waive_qualification,
)
from annotation.services.batches.policy import set_terms
from annotation.services.gold_questions.gold_questions import set_question_active
from annotation.services.people.people import set_opted_out
from annotation.views.gold_questions.feedback import format_reached, format_threshold
from tests.annotation.gold_question_support import add_known, make_checked
from tests.annotation.invariants import nothing_is_broken
from tests.support import label, make_batch, make_corpus, read_introduction

pytestmark = pytest.mark.django_db
BY_ACCURACY = {"qualifying": "accuracy", "qualifying_threshold": 0.8}


@pytest.fixture
def batch(guideline: Guideline, lin: Person, chen: Person) -> Batch:
    return make_checked(guideline, annotators=[lin, chen], prompts=6, in_round=6, **BY_ACCURACY)


def answer(batch: Batch, person: Person, values: list[int]) -> list[Assignment]:
    """Claim and submit one value after the other."""
    done = []
    for value in values:
        item = claim_next_task(batch=batch, person=person)
        assert item is not None
        label(item, person, value)
        done.append(item)
    return done


def round_of(batch: Batch, person: Person) -> Qualification:
    qualification = find_latest_qualification(batch.pk, person.pk)
    assert qualification is not None
    return qualification


def test_whoever_passes_gets_the_work_after_the_round(batch: Batch, lin: Person, chen: Person):
    done = answer(batch, lin, [3, 3, 3, 3, 1, 3])
    assert {assignment.task.kind for assignment in done} == {"qualification"}
    qualification = round_of(batch, lin)
    assert (qualification.state, qualification.n, qualification.value, qualification.threshold) == (
        "passed",
        6,
        5 / 6,
        0.8,
    )
    assert qualification.low is not None
    assert qualification.high is not None
    assert qualification.low < 5 / 6 < qualification.high
    assert qualification.ended_at is not None
    assert {task.kind for task in Task.objects.filter(known__person=lin)} == {"qualification"}
    assert set(Task.objects.filter(known__person=lin).values_list("state", flat=True)) == {"agreed"}
    (first,) = answer(batch, lin, [3])
    assert first.task.kind == "work"
    counts = measure_progress(batch)
    assert counts.tasks == 6
    assert {person.person.username: person.submitted for person in counts.people}["lin"] == 1
    assert list_batch_check_results(batch) == []  # of checks
    progress = find_own_progress(batch, lin, "annotator")
    assert progress is not None
    assert (progress.done, progress.left, progress.round) == (1, 5, "passed")
    nothing_is_broken(batch)


def test_whoever_fails_gets_no_work_and_is_told_so_kindly(batch: Batch, lin: Person, chen: Person):
    before = find_own_progress(batch, lin, "annotator")
    assert before is not None
    assert (before.done, before.left, before.round) == (0, 6, "running")
    answer(batch, lin, [3, 1, 3, 1, 3])
    during = find_own_progress(batch, lin, "annotator")
    assert during is not None
    assert (during.done, during.left, during.round) == (5, 1, "running")
    answer(batch, lin, [1])
    assert round_of(batch, lin).state == "failed"
    assert claim_next_task(batch=batch, person=lin) is None
    page = Client()
    page.force_login(lin)
    read_introduction(batch)
    text = page.get("/work/first/").content.decode()
    assert "is not passed" in text
    assert "50% of your labels are the known ones, and the batch asks for 80%." in text
    assert "Your manager" in text
    after = find_own_progress(batch, lin, "annotator")
    assert after is not None
    assert (after.left, after.round) == (0, "failed")
    answer(batch, chen, [3] * 7)  # nobody else is kept from the work
    nothing_is_broken(batch)


@pytest.mark.parametrize(
    ("value", "threshold", "kappa", "words"),
    [
        (39 / 49, 0.8, False, ("79.5%", "80%")),
        (0.5, 0.855, False, ("50%", "85.5%")),
        (0.7, 0.71, False, ("70%", "71%")),
        (0.598, 0.6, True, ("0.59", "0.6")),
        (-0.123, 0.655, True, ("-0.13", "0.655")),
        (None, 0.6, True, ("", "0.6")),
    ],
)
def test_what_is_below_the_threshold_never_reads_as_if_it_had_reached_it(
    value: float | None, threshold: float, kappa: bool, words: tuple[str, str]
):
    assert (format_reached(value, kappa=kappa), format_threshold(threshold, kappa=kappa)) == words


def test_a_round_can_be_corrected_until_it_ends(batch: Batch, lin: Person):
    first, *_rest = answer(batch, lin, [1, 1, 3, 3, 3])
    right = Submission({"compliance": 3}, reason="a slip")
    assert revise(assignment_id=first.pk, person=lin, key="r", work=right) is not None
    answer(batch, lin, [3])
    assert round_of(batch, lin).value == 5 / 6
    assert revise(assignment_id=first.pk, person=lin, key="r2", work=right) is None  # goes to the manager


def test_the_last_submission_scores_once_and_a_retry_gets_its_receipt(batch: Batch, lin: Person):
    answer(batch, lin, [3] * 5)
    last = claim_next_task(batch=batch, person=lin)
    assert last is not None
    work = Submission({"compliance": 3})
    first = submit(assignment_id=last.pk, person=lin, key="k", work=work)
    second_receipt = submit(assignment_id=last.pk, person=lin, key="k", work=work)
    assert (second_receipt.receipt, second_receipt.created) == (first.receipt, False)
    assert AuditEvent.objects.filter(verb="qualification_ended").count() == 1
    assert Qualification.objects.count() == 1


def test_kappa_asks_for_more_than_one_level(guideline: Guideline, lin: Person, chen: Person):
    """All known labels are the same here, so agreement by chance is certain and nothing is shown."""
    batch = make_checked(
        guideline,
        annotators=[lin, chen],
        prompts=4,
        in_round=5,
        qualifying="kappa",
        qualifying_threshold=0.2,
    )
    answer(batch, lin, [3] * 5)
    qualification = round_of(batch, lin)
    assert (qualification.state, qualification.value) == ("failed", None)
    GoldQuestion.objects.filter(batch=batch, position__lt=2).update(labels={"compliance": 1})
    rights = {1: 1, 3: 3}
    for _turn in range(5):
        item = claim_next_task(batch=batch, person=chen)
        assert item is not None
        label(item, chen, rights[GoldQuestionTask.objects.get(task=item.task).item.labels["compliance"]])
    qualification = round_of(batch, chen)
    assert (qualification.state, qualification.value) == ("passed", 1.0)


def test_what_is_skipped_is_left_out_and_too_few_are_no_pass(batch: Batch, lin: Person):
    answer(batch, lin, [3, 3, 3, 3])
    for _turn in "12":
        item = claim_next_task(batch=batch, person=lin)
        assert item is not None
        release_assignment(assignment_id=item.pk, person=lin, skip_reason="too hard")
    qualification = round_of(batch, lin)
    assert (qualification.state, qualification.n, qualification.value) == ("failed", 4, 1.0)
    (line,) = [
        attempt_row for attempt_row in list_qualification_rows(batch) if attempt_row.member.person == lin
    ]
    assert (line.items, line.done, line.skipped) == (6, 6, 2)
    nothing_is_broken(batch)


def test_a_manager_lets_somebody_in_with_a_reason(batch: Batch, lin: Person, ma: Person, stranger: Person):
    answer(batch, lin, [1] * 6)
    with pytest.raises(AssayError, match="Say why"):
        waive_qualification(batch=batch, person=lin, reason=" ", actor=ma)
    with pytest.raises(NotFound):
        waive_qualification(batch=batch, person=stranger, reason="no", actor=ma)
    qualification = waive_qualification(batch=batch, person=lin, reason="an expert", actor=ma)
    assert (qualification.state, qualification.decided_by, qualification.value) == ("waived", ma, 0)
    assert waive_qualification(batch=batch, person=lin, reason="again", actor=ma).pk == qualification.pk
    event = AuditEvent.objects.get(verb="qualification_waived")
    assert (event.actor, event.data["reason"], event.data["person"]) == (ma, "an expert", "lin")
    assert answer(batch, lin, [3])[0].task.kind == "work"
    nothing_is_broken(batch)


def test_whoever_is_let_in_during_the_round_leaves_the_rest_of_it(batch: Batch, lin: Person, ma: Person):
    answer(batch, lin, [3, 3])
    held = claim_next_task(batch=batch, person=lin)
    waive_qualification(batch=batch, person=lin, reason="known to us", actor=ma)
    assert held is not None
    held.refresh_from_db()
    assert (held.state, held.task.__class__.objects.get(pk=held.task_id).state) == ("released", "withdrawn")
    release_assignment(assignment_id=held.pk, person=lin, skip_reason="the page was still open")
    nothing_is_broken(batch)
    assert answer(batch, lin, [3])[0].task.kind == "work"
    nothing_is_broken(batch)


def test_another_round_takes_unseen_items_if_there_are_enough(batch: Batch, lin: Person, ma: Person):
    first = {assignment.task.response_id for assignment in answer(batch, lin, [1] * 6)}
    start_attempt(batch=batch, person=lin, reason="a bad day", actor=ma)
    assert start_attempt(batch=batch, person=lin, reason="twice", actor=ma).attempt == 2
    second = {assignment.task.response_id for assignment in answer(batch, lin, [1] * 6)}
    assert second == first  # there are no others
    add_known(batch, 5, kind="qualification", name="more")
    start_attempt(batch=batch, person=lin, reason="once more", actor=ma)
    third = answer(batch, lin, [3] * 5)
    assert {assignment.task.response_id for assignment in third}.isdisjoint(first)
    assert (round_of(batch, lin).state, round_of(batch, lin).attempt) == ("passed", 3)
    with pytest.raises(Conflict, match="let in already"):
        start_attempt(batch=batch, person=lin, reason="why not", actor=ma)
    nothing_is_broken(batch)


def test_a_batch_that_asks_for_a_qualification_opens_with_its_items_alone(
    guideline: Guideline, lin: Person, chen: Person, ma: Person
):
    corpus = make_corpus(prompts=4, models=["m"], name="c")
    with pytest.raises(AssayError, match="begins as a draft"):
        make_batch(guideline, corpus, annotators=[lin, chen], policy=Policy(**BY_ACCURACY))
    with pytest.raises(AssayError, match="needs at least 5 gold questions; it has 4"):
        make_checked(guideline, annotators=[lin, chen], in_round=4, **BY_ACCURACY)
    batch = Batch.objects.get(name="first")
    assert batch.state == Batch.State.DRAFT
    add_known(batch, 1, kind="qualification", name="fifth")
    set_state(batch=batch, state=Batch.State.OPEN)
    with pytest.raises(Conflict, match="stays as it is"):
        set_terms(batch=batch, terms=Terms(qualifying="kappa", qualifying_threshold=0.5), actor=ma)
    set_terms(batch=batch, terms=Terms(check_share=0.1, **BY_ACCURACY), actor=ma)


@pytest.mark.parametrize(
    "wrong",
    [
        {"check_share": 0.6},
        {"check_share": -0.1},
        {"qualifying": "luck", "qualifying_threshold": 0.5},
        {"qualifying": "kappa"},
        {"qualifying_threshold": 0.5},
        {"qualifying": "accuracy", "qualifying_threshold": 1.1},
        {"qualifying": "accuracy", "qualifying_threshold": -0.1},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(
    guideline: Guideline, lin: Person, chen: Person, wrong: dict[str, object]
):
    with pytest.raises(AssayError):
        make_checked(guideline, annotators=[lin, chen], **wrong)


def test_items_that_are_not_for_somebody_are_not_asked_of_them(batch: Batch, lin: Person):
    set_limits(batch=batch, person=lin, role="annotator", quota=None, excluded_dimensions=["safe"])
    answer(batch, lin, [3] * 3)  # every second one is "unsafe": too few to judge by
    assert claim_next_task(batch=batch, person=lin) is None
    qualification = round_of(batch, lin)
    assert (qualification.state, qualification.value, qualification.n) == ("failed", 1.0, 3)
    page = Client()
    page.force_login(lin)
    read_introduction(batch)
    text = page.get("/work/first/").content.decode()
    assert "Fewer than 5 items were answered." in text
    assert "100%" not in text  # which would read as if it had been enough
    (line,) = [
        attempt_row for attempt_row in list_qualification_rows(batch) if attempt_row.member.person == lin
    ]
    assert line.lacks_items  # the manager reads that another attempt would have the same result


@pytest.mark.parametrize("cause", ["opted out", "taken out"])
def test_a_round_ends_without_what_was_at_hand_and_is_not_for_the_person_any_more(
    batch: Batch, lin: Person, ma: Person, cause: str
):
    """What was given and came back can be had no more, so the round must not wait for it; nor may it come later."""
    held = claim_next_task(batch=batch, person=lin)
    assert held is not None
    item = held.task.known.item
    if cause == "opted out":
        set_opted_out(person=lin, dimensions=[held.task.stratum.dimension])
    else:
        release_assignment(assignment_id=held.pk, person=lin)
        set_question_active(batch=batch, item=item.pk, active=False)
    lin.refresh_from_db()
    rest = 3 if cause == "opted out" else 5
    done = answer(batch, lin, [3] * rest)
    assert held.pk not in {assignment.pk for assignment in done}
    claim_next_task(batch=batch, person=lin)
    qualification = round_of(batch, lin)
    assert (qualification.state, qualification.n) == ("failed" if rest < 5 else "passed", rest)
    if qualification.state == "failed":
        waive_qualification(batch=batch, person=lin, reason="enough", actor=ma)
    set_opted_out(person=lin, dimensions=[])
    set_question_active(batch=batch, item=item.pk, active=True)
    lin.refresh_from_db()
    while (following := claim_next_task(batch=batch, person=lin)) is not None:
        assert following.task.kind == "work"
        label(following, lin, 3)
    nothing_is_broken(batch)


def test_a_round_whose_last_item_is_taken_out_ends_at_the_next_look(batch: Batch, lin: Person):
    answer(batch, lin, [3] * 5)
    rest = GoldQuestion.objects.filter(batch=batch).exclude(given__person=lin).get()
    set_question_active(batch=batch, item=rest.pk, active=False)
    assert answer(batch, lin, [3])[0].task.kind == "work"
    assert round_of(batch, lin).state == "passed"


def test_ahead_and_leaving_keep_the_round_together(batch: Batch, lin: Person):
    first_assignment, two = (
        claim_next_task(batch=batch, person=lin),
        claim_next_task(batch=batch, person=lin, ahead=True),
    )
    assert first_assignment is not None
    assert two is not None
    assert first_assignment.pk != two.pk
    set_member_active(batch=batch, person=lin, role="annotator", active=False)
    set_member_active(batch=batch, person=lin, role="annotator", active=True)
    done = answer(batch, lin, [3] * 6)
    assert {first_assignment.pk, two.pk} <= {item.pk for item in done}
    assert round_of(batch, lin).state == "passed"
    assert GoldQuestionTask.objects.filter(person=lin).count() == 6
    nothing_is_broken(batch)


def test_work_that_is_planned_for_somebody_who_failed_can_go_to_others(
    guideline: Guideline, lin: Person, chen: Person, zhou: Person, ma: Person
):
    batch = make_checked(
        guideline, annotators=[lin, chen, zhou], prompts=6, in_round=5, pairing="balanced", **BY_ACCURACY
    )
    answer(batch, lin, [1] * 5)
    (line,) = [need for need in list_qualification_rows(batch) if need.member.person == lin]
    assert line.planned == 4
    for person in (chen, zhou):
        answer(batch, person, [3] * 5)
        while (item := claim_next_task(batch=batch, person=person)) is not None:
            label(item, person, 3)
    waiting = list_needs(batch, limit=10)
    assert len(waiting) == 4
    assert {
        reason_row.reason
        for need in waiting
        for reason_row in need.whys
        if lin in [w.person for w in reason_row.people]
    } == {FAILED}
    client = Client()
    client.force_login(ma)
    assert "did not pass the qualification" in client.get("/batches/first/needs/").content.decode()
    set_member_active(batch=batch, person=lin, role="annotator", active=False)
    for person in (chen, zhou):
        while (item := claim_next_task(batch=batch, person=person)) is not None:
            label(item, person, 3)
    assert set(batch.tasks.filter(kind="work").values_list("state", flat=True)) == {"agreed"}
    assert list_needs(batch, limit=5) == []
