from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from annotation.core.errors import Conflict, Forbidden, NotFound
from annotation.domain.annotations import Submission
from annotation.domain.assignments.eligibility import (
    PastClaim,
    find_free_slot,
    has_enough_claims,
    may_claim_again,
)
from annotation.domain.batch_spec import Policy
from annotation.models import Annotation, Assignment, Batch, GoldLabel, Guideline, Person, Task
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_dispute, claim_next_task, release_assignment
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import set_member_active
from annotation.services.people.people import set_roles
from tests.support import decide, decide_next, label, label_next, make_batch, make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_the_lowest_free_slot_is_given_and_none_when_all_are_taken():
    assert find_free_slot({0}, 2) == 1
    assert find_free_slot({1}, 2) == 0
    assert find_free_slot({0, 1}, 2) is None


def test_a_task_comes_back_only_after_an_expired_claim_of_the_same_kind():
    assert may_claim_again(None, adjudication=True)
    assert may_claim_again(PastClaim(live=False, skipped=False, adjudication=False), adjudication=False)
    assert not may_claim_again(PastClaim(live=True, skipped=False, adjudication=False), adjudication=False)
    assert not may_claim_again(PastClaim(live=False, skipped=True, adjudication=False), adjudication=False)
    assert not may_claim_again(PastClaim(live=False, skipped=False, adjudication=False), adjudication=True)


def test_one_claim_is_kept_and_ahead_allows_a_second():
    assert [has_enough_claims(live, ahead=False) for live in (0, 1, 2)] == [False, True, True]
    assert [has_enough_claims(live, ahead=True) for live in (0, 1, 2)] == [False, False, True]


def test_next_gives_the_same_item_until_it_is_submitted(batch: Batch, lin: Person):
    first = claim_next_task(batch=batch, person=lin)
    assert first is not None
    assert claim_next_task(batch=batch, person=lin) == first
    label(first, lin, 3)
    assert claim_next_task(batch=batch, person=lin) != first


def test_ahead_claims_one_more_and_never_a_third(batch: Batch, lin: Person):
    first = claim_next_task(batch=batch, person=lin)
    second = claim_next_task(batch=batch, person=lin, ahead=True)
    assert first != second
    assert claim_next_task(batch=batch, person=lin, ahead=True) == second
    assert claim_next_task(batch=batch, person=lin) == first
    assert Assignment.objects.filter(person=lin).count() == 2


def test_a_batch_is_emptied_with_exactly_two_annotations_by_two_people(batch: Batch, cast: list[Person]):
    busy = list(cast)
    while busy:
        busy = [person for person in busy if label_next(batch, person, 3) is not None]
    for task in batch.tasks.all():
        people = list(task.assignments.filter(state="submitted").values_list("person", flat=True))
        assert len(people) == len(set(people)) == 2
        assert task.state == Task.State.AGREED
    assert GoldLabel.objects.filter(source="unanimous").count() == batch.tasks.count() == 8


def test_two_different_labels_open_a_dispute_that_only_a_third_person_decides(
    batch: Batch, lin: Person, chen: Person, wu: Person
):
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    task = batch.tasks.get(state=Task.State.DISPUTED)
    assert not task.gold_labels.exists()
    assert decide_next(batch, wu, 2) is not None
    task.refresh_from_db()
    assert task.state == Task.State.ADJUDICATED
    gold = task.gold_labels.get()
    assert (gold.value, gold.source) == (2, "adjudicated")


def test_who_annotated_a_task_is_never_its_adjudicator(batch: Batch, lin: Person, chen: Person):
    set_roles(person=lin, roles=["annotator", "adjudicator"])
    batch.memberships.create(person=lin, role="adjudicator")
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    assert decide_next(batch, lin, 2) is None


def test_a_skipped_item_goes_to_others_and_never_back(batch: Batch, lin: Person):
    first = claim_next_task(batch=batch, person=lin)
    assert first is not None
    release_assignment(assignment_id=first.pk, person=lin, skip_reason="I know the author")
    Task.objects.exclude(pk=first.task_id).update(state=Task.State.WITHDRAWN)
    assert claim_next_task(batch=batch, person=lin) is None
    assert Task.objects.get(pk=first.task_id).slots_taken == 0


def test_an_expired_lease_frees_its_slot_and_late_work_is_taken_while_it_is_free(batch: Batch, lin: Person):
    first = claim_next_task(batch=batch, person=lin)
    assert first is not None
    _let_expire(first)
    assert claim_next_task(batch=batch, person=lin) == first
    _let_expire(first)
    assert label(first, lin, 3).created


def test_late_work_is_refused_once_others_have_taken_the_slots(
    batch: Batch, lin: Person, chen: Person, zhou: Person
):
    first = claim_next_task(batch=batch, person=lin)
    assert first is not None
    _let_expire(first)
    for person in (chen, zhou):
        other = claim_next_task(batch=batch, person=person)
        assert other is not None
        assert other.task_id == first.task_id
        label(other, person, 3)
    with pytest.raises(Conflict, match="someone else"):
        label(first, lin, 3)
    assert Annotation.objects.filter(assignment=first).count() == 0


def test_a_stranger_and_a_paused_batch_get_nothing(batch: Batch, stranger: Person, lin: Person):
    with pytest.raises(NotFound):
        claim_next_task(batch=batch, person=stranger)
    set_state(batch=batch, state="paused")
    with pytest.raises(Forbidden):
        claim_next_task(batch=batch, person=lin)


def test_closing_ends_live_claims_and_refuses_what_comes_after(batch: Batch, lin: Person):
    first = claim_next_task(batch=batch, person=lin)
    assert first is not None
    set_state(batch=batch, state="closed")
    assert Task.objects.get(pk=first.task_id).slots_taken == 0
    with pytest.raises(Conflict):
        submit(
            assignment_id=first.pk, person=lin, key=str(uuid4()), work=Submission(labels={"compliance": 3})
        )
    with pytest.raises(Conflict, match="cannot become"):
        set_state(batch=batch, state="open")


def _let_expire(assignment: Assignment) -> None:
    Assignment.objects.filter(pk=assignment.pk).update(lease_expires=timezone.now() - timedelta(seconds=1))


@pytest.fixture
def cast(lin: Person, chen: Person, zhou: Person) -> list[Person]:
    return [lin, chen, zhou]


def test_closing_frees_both_slots_of_a_task_that_two_people_hold(batch: Batch, lin: Person, chen: Person):
    first, second = (claim_next_task(batch=batch, person=person) for person in (lin, chen))
    assert first is not None
    assert second is not None
    assert first.task_id == second.task_id
    set_state(batch=batch, state="closed")
    assert Task.objects.get(pk=first.task_id).slots_taken == 0


def test_the_order_of_work_does_not_tell_whose_response_it_is(guideline: Guideline, lin: Person):
    dataset = make_corpus(prompts=12, models=["Secretive-7B", "Hidden-13B"], name="twelve")
    batch = make_batch(guideline, dataset, annotators=[lin], policy=Policy(overlap=1))
    models = []
    while (claim := claim_next_task(batch=batch, person=lin)) is not None:
        models.append(claim.task.response.model.name)
        label(claim, lin, 1)
    # Prompt by prompt; were the models always in one order, whoever knows one response knew all of them.
    assert len(models) == 24
    in_order = list(batch.tasks.order_by("rank").values_list("prompt", "response__model__name"))
    prompts = [prompt for prompt, _model in in_order]
    assert prompts == sorted(prompts)
    assert {tuple(model for _prompt, model in in_order[at : at + 2]) for at in range(0, 24, 2)} == {
        ("Secretive-7B", "Hidden-13B"),
        ("Hidden-13B", "Secretive-7B"),
    }
    # Neither does the order in which one person gets them, each prompt's two a few items apart.
    assert models not in (
        ["Secretive-7B", "Hidden-13B"] * 12,
        ["Hidden-13B", "Secretive-7B"] * 12,
        ["Secretive-7B"] * 12 + ["Hidden-13B"] * 12,
        ["Hidden-13B"] * 12 + ["Secretive-7B"] * 12,
    )


def test_disputes_come_prompt_by_prompt_also_where_the_batch_stands_model_by_model(
    batch: Batch, lin: Person, chen: Person, wu: Person
):
    for position, task in enumerate(batch.tasks.order_by("response__model", "response__prompt")):
        Task.objects.filter(pk=task.pk).update(position=position, rank=position)
    for _task in range(8):
        label_next(batch, lin, 1)
        label_next(batch, chen, 3)
    disputes = []
    while (claim := claim_next_dispute(batch=batch, person=wu)) is not None:
        disputes.append(claim.task.response.prompt.key)
        decide(claim, wu, 2)
    assert disputes == ["p0", "p0", "p1", "p1", "p2", "p2", "p3", "p3"]


def test_late_work_of_who_has_left_the_batch_is_refused(batch: Batch, lin: Person):
    held = claim_next_task(batch=batch, person=lin)
    assert held is not None
    set_member_active(batch=batch, person=lin, role="annotator", active=False)
    with pytest.raises(Conflict, match="no longer yours"):
        label(held, lin, 1)
    set_member_active(batch=batch, person=lin, role="annotator", active=True)
    assert label(held, lin, 1).created


def test_in_a_paused_batch_what_is_at_hand_is_submitted_and_corrected(batch: Batch, lin: Person):
    held = claim_next_task(batch=batch, person=lin)
    assert held is not None
    set_state(batch=batch, state="paused")
    assert label(held, lin, 1).created
    receipt = revise(assignment_id=held.pk, person=lin, key="r", work=Submission(labels={"compliance": 2}))
    assert receipt is not None
    assert receipt.revision == 2
