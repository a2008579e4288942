"""In a batch with gold checks submissions are shown closed in blocks: nothing that closes tells a check from work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.db.models import F
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from annotation.core.errors import Conflict
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Terms
from annotation.domain.formats import Source
from annotation.models import (
    Annotation,
    Assignment,
    Batch,
    CorrectionRequest,
    GoldLabel,
    Guideline,
    Person,
    SubmissionBlock,
    Task,
)
from annotation.selectors.annotations.history import HistoryFilter, list_history, list_history_rows
from annotation.selectors.annotations.statistics import list_own_counts
from annotation.services.annotations.closings import SIZE
from annotation.services.annotations.submission import AlreadySubmitted, revise, submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.batches.monitoring import watch_batches
from annotation.services.batches.policy import set_terms
from annotation.services.imports import ImportRequest, Run, import_annotations
from annotation.services.people.people import add_person
from tests.annotation.gold_question_support import make_checked
from tests.annotation.invariants import nothing_is_broken
from tests.support import api_token, decide_next, label

pytestmark = pytest.mark.django_db


@pytest.fixture
def checked(guideline: Guideline, lin: Person, chen: Person, wu: Person) -> Batch:
    """Two people, thirty prompts, a check among every five items."""
    batch = make_checked(guideline, annotators=[lin, chen], prompts=30, checks=12, check_share=0.2)
    batch.memberships.create(person=wu, role="adjudicator")
    return batch


def work_through(batch: Batch, person: Person, number: int, value: int = 3) -> list[Assignment]:
    done = []
    for _turn in range(number):
        item = claim_next_task(batch=batch, person=person)
        assert item is not None
        label(item, person, value)
        done.append(item)
    return done


def later(batch: Batch, minutes: int = 5) -> None:
    """So much time passes: everything that was submitted is so much older."""
    past = timedelta(minutes=minutes)
    batch.assignments.exclude(submitted_at=None).update(submitted_at=F("submitted_at") - past)
    Batch.objects.filter(pk=batch.pk).update(blocks_since=F("blocks_since") - past)
    SubmissionBlock.objects.update(first_at=F("first_at") - past, last_at=F("last_at") - past)


def look(batch: Batch) -> None:
    later(batch)
    watch_batches()


def shown_closed(person: Person) -> set[object]:
    return {pk for pk, _at in list_history(person, HistoryFilter(state="closed"))}


def each_is_shown_open_or_closed(person: Person) -> None:
    closed = shown_closed(person)
    open_ = {pk for pk, _at in list_history(person, HistoryFilter(state="open"))}
    assert not closed & open_
    assert closed | open_ == {pk for pk, _at in list_history(person, HistoryFilter())}


def kinds(items: Sequence[Assignment]) -> set[str]:
    return {item.task.kind for item in items}


def correct(item: Assignment, value: int, key: str | None = None) -> object:
    work = Submission({"compliance": value}, reason="a slip")
    return revise(assignment_id=item.pk, person=item.person, key=key or str(uuid4()), work=work)


def test_a_block_is_shown_closed_at_once_and_only_when_all_of_its_work_is(
    checked: Batch, lin: Person, chen: Person
):
    own_assignments = work_through(checked, lin, 2 * SIZE + 3)
    assert kinds(own_assignments[:SIZE]) == {"work", "check"}
    look(checked)
    assert shown_closed(lin) == set()
    while Task.objects.filter(assignments__in=own_assignments[:SIZE], kind="work", state="open").count() > 1:
        work_through(checked, chen, 1)
        look(checked)
        assert shown_closed(lin) == set()
    while Task.objects.filter(assignments__in=own_assignments[:SIZE], kind="work", state="open").exists():
        work_through(checked, chen, 1)
    assert shown_closed(lin) == set()  # not by what the partner does
    look(checked)
    assert shown_closed(lin) == {assignment.pk for assignment in own_assignments[:SIZE]}
    each_is_shown_open_or_closed(lin)
    each_is_shown_open_or_closed(chen)
    states = Task.objects.filter(assignments__in=own_assignments[:SIZE]).values_list("state", flat=True)
    assert set(states) == {"agreed"}
    nothing_is_broken(checked)


def test_the_rest_is_shown_closed_when_the_batch_is(checked: Batch, lin: Person, chen: Person):
    own_assignments = work_through(checked, lin, 5)
    work_through(checked, chen, 9)
    look(checked)
    assert shown_closed(lin) == set()
    set_state(batch=checked, state="closed")
    assert shown_closed(lin) == {assignment.pk for assignment in own_assignments}
    nothing_is_broken(checked)


def test_every_page_and_the_numbers_follow_what_is_shown(
    client: Client, checked: Batch, lin: Person, chen: Person
):
    own_assignments = work_through(checked, lin, SIZE)
    work_through(checked, chen, 2 * SIZE)
    client.force_login(lin)
    for closed in (False, True):
        state = {"open": not closed, "closed": closed}
        for name, expected in state.items():
            page = client.get(reverse("history"), {"state": name})
            assert len(page.context["rows"]) == (SIZE if expected else 0)
        assert {
            history_line.closed
            for history_line in list_history_rows([history_line.pk for history_line in own_assignments])
        } == {closed}
        assert sum(tally.closed for tally in list_own_counts(lin)) == (SIZE if closed else 0)
        pages = [client.get(reverse("history-item", args=[assignment.pk])) for assignment in own_assignments]
        assert {page.context["submitted"].closed for page in pages} == {closed}
        look(checked)


def test_corrections_answer_by_what_is_shown_and_never_change_gold(checked: Batch, lin: Person, chen: Person):
    own_assignments = work_through(checked, lin, SIZE)
    work_through(checked, chen, 2 * SIZE)
    gold = list(GoldLabel.objects.order_by("pk").values_list("task", "value", "source"))
    assert gold
    api = APIClient(HTTP_AUTHORIZATION=f"Token {api_token(person=lin)}")

    def send(item: Assignment, value: int) -> tuple[int, list[str]]:
        answer = api.post(
            f"/api/v1/assignments/{item.pk}/revise/",
            {"labels": {"compliance": value}, "reason": "a slip"},
            format="json",
            headers={"Idempotency-Key": f"{item.pk}-{value}"},
        )
        return answer.status_code, sorted(answer.json())

    assert {str(send(assignment, 1)) for assignment in own_assignments} == {
        str((201, sorted(_receipt_keys())))
    }
    assert {str(send(assignment, 1)[0]) for assignment in own_assignments} == {"200"}  # the same key again
    lines = list_history_rows([assignment.pk for assignment in own_assignments])
    assert [(line.labels, line.revision, line.outcome) for line in lines] == [
        ({"compliance": 1}, 2, None)
    ] * SIZE
    late = [
        assignment
        for assignment in own_assignments
        if Task.objects.get(pk=assignment.task_id).state != "open"
    ]
    assert kinds(late) == {"work"}
    assert set(CorrectionRequest.objects.values_list("assignment", flat=True)) == {
        assignment.pk for assignment in late
    }
    counting = Annotation.objects.filter(assignment__in=late, current=True)
    assert set(counting.values_list("revision", "labels__compliance")) == {(1, 3)}
    assert list(GoldLabel.objects.order_by("pk").values_list("task", "value", "source")) == gold
    nothing_is_broken(checked)
    look(checked)
    assert {send(assignment, 2)[0] for assignment in own_assignments} == {202}
    assert CorrectionRequest.objects.count() == len(late) + SIZE
    assert [
        history_line.revision
        for history_line in list_history_rows([history_line.pk for history_line in own_assignments])
    ] == [2] * SIZE
    assert list(GoldLabel.objects.order_by("pk").values_list("task", "value", "source")) == gold
    nothing_is_broken(checked)


def _receipt_keys() -> list[str]:
    return ["assignment", "at", "feedback", "receipt", "revision"]


def test_another_key_is_answered_with_the_last_word_whether_it_counts_or_not(
    checked: Batch, lin: Person, chen: Person
):
    own_assignments = work_through(checked, lin, SIZE)
    work_through(checked, chen, 2 * SIZE)
    for assignment in own_assignments:
        correct(assignment, 1)
    answers = []
    for assignment in own_assignments:
        with pytest.raises(AlreadySubmitted) as refused:
            submit(assignment_id=assignment.pk, person=lin, key="another", work=Submission({"compliance": 2}))
        answers.append(refused.value.receipt.revision)
    assert answers == [2] * SIZE


def test_what_became_of_an_item_is_told_when_it_is_shown_closed(
    client: Client, checked: Batch, lin: Person, chen: Person, wu: Person
):
    own_assignments = work_through(checked, lin, SIZE, value=3)
    partner_assignments = work_through(checked, chen, 2 * SIZE, value=1)
    assert kinds(partner_assignments) == {"work", "check"}
    while decide_next(checked, wu, 1) is not None:
        pass
    ids = [assignment.pk for assignment in own_assignments]
    correct(next(assignment for assignment in own_assignments if assignment.task.kind == "work"), 2)
    assert {history_line.outcome for history_line in list_history_rows(ids)} == {None}
    assert not list_history(lin, HistoryFilter(overruled=True)).exists()
    assert list_own_counts(lin) == []
    look(checked)
    outcomes = [
        history_line.outcome for history_line in list_history_rows(ids) if history_line.outcome is not None
    ]
    assert {
        (outcome.own_labels["compliance"], outcome.finals["compliance"], outcome.overruled)
        for outcome in outcomes
    } == {(3, 1, ("compliance",))}
    client.force_login(lin)
    page = client.get(reverse("history")).content.decode()
    assert page.count("Your last correction came when the item was settled") == 1


def test_what_was_submitted_before_the_first_share_closes_as_it_did(
    guideline: Guideline, lin: Person, chen: Person, ma: Person
):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=12, checks=6)
    before = work_through(batch, lin, 2)
    work_through(batch, chen, 2)
    assert shown_closed(lin) == {assignment.pk for assignment in before}
    set_terms(batch=batch, terms=Terms(check_share=0.5, second_reading_share=0), actor=ma)
    batch.refresh_from_db()
    work_through(batch, lin, 4)
    work_through(batch, chen, 9)
    assert shown_closed(lin) == {assignment.pk for assignment in before}
    set_terms(batch=batch, terms=Terms(second_reading_share=0), actor=ma)
    assert shown_closed(lin) == {
        assignment.pk for assignment in before
    }  # it stays so when there are to be no more checks


@pytest.mark.parametrize("policy", [{"overlap": 1}, {"check_feedback": True}, {"check_share": 0.0}])
def test_batches_without_anything_to_hide_show_the_truth(
    guideline: Guideline, lin: Person, chen: Person, policy: dict[str, object]
):
    batch = make_checked(
        guideline, annotators=[lin, chen], prompts=6, checks=6, **{"check_share": 0.5, **policy}
    )
    assert batch.blocks_since is None
    own_assignments = work_through(batch, lin, 2)
    work_through(batch, chen, 4)
    work = [assignment for assignment in own_assignments if assignment.task.kind == "work"]
    assert {assignment.pk for assignment in work} <= shown_closed(lin)
    assert correct(work[0], 1) is None


def test_a_worker_that_looks_twice_or_late_cuts_the_same_blocks(checked: Batch, lin: Person, chen: Person):
    own_assignments = work_through(checked, lin, SIZE + 4)
    watch_batches()
    assert not SubmissionBlock.objects.exists()  # too new: another request may come to its end still
    look(checked)
    look(checked)
    work_through(checked, lin, SIZE)
    work_through(checked, chen, 1)
    look(checked)
    blocks = list(SubmissionBlock.objects.filter(person=lin).order_by("first_at"))
    times = sorted(Assignment.objects.filter(person=lin).values_list("submitted_at", flat=True))
    assert [(block.first_at, block.last_at) for block in blocks] == [
        (times[0], times[SIZE - 1]),
        (times[SIZE], times[2 * SIZE - 1]),
    ]
    assert len(own_assignments) == SIZE + 4


def test_what_came_at_one_time_from_a_file_is_in_one_block(checked: Batch, lin: Person, tmp_path: Path):
    """Otherwise two blocks would begin at the same time, and the worker could cut nothing more of the batch."""
    add_person(name="elsewhere")
    tasks = Task.objects.filter(batch=checked, kind="work").select_related(
        "response__prompt", "response__model"
    )
    rows = [
        {
            "prompt_id": task.response.prompt.key,
            "model": task.response.model.name,
            "annotator": "elsewhere",
            "labels": {"compliance": 3},
        }
        for task in tasks.order_by("-pk")[: 2 * SIZE + 1]
    ]
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    target = ImportRequest(batch=checked.name)
    import_annotations(source=Source(path, path.name), format="jsonl", request=target, run=Run())
    work_through(checked, lin, SIZE)
    look(checked)
    blocks = SubmissionBlock.objects.filter(batch=checked)
    assert list(blocks.order_by("pk").values_list("person__username", flat=True)) == ["lin", "elsewhere"]
    look(checked)
    assert blocks.count() == 2


def test_a_told_item_is_refused_as_ever(guideline: Guideline, lin: Person, chen: Person):
    batch = make_checked(
        guideline, annotators=[lin, chen], prompts=6, checks=6, check_share=0.5, check_feedback=True
    )
    check = next(assignment for assignment in work_through(batch, lin, 2) if assignment.task.kind == "check")
    with pytest.raises(Conflict, match="You have read the right labels"):
        correct(check, 1)
