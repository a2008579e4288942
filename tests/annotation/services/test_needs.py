"""The tasks that nobody left may take are listed, each with what keeps whom from it; no other is."""

from __future__ import annotations

import pytest

from annotation.domain.batch_spec import Policy
from annotation.models import Batch, Guideline, Person
from annotation.selectors.batches.needs import Need, list_needs
from annotation.services.assignments import claim_next_dispute, claim_next_task, release_assignment
from annotation.services.batches.members import set_limits, set_member_active
from annotation.services.batches.tasks import assign_tasks, withdraw_tasks
from annotation.services.people.people import set_roles
from tests.support import label_next, make_batch, make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def describe_need(need: Need) -> dict[str, set[str]]:
    return {
        why_short.reason: {person.person.username for person in why_short.people} for why_short in need.whys
    }


def skip_next(batch: Batch, person: Person) -> int:
    item = claim_next_task(batch=batch, person=person)
    assert item is not None
    release_assignment(assignment_id=item.pk, person=person, skip_reason="I know the author")
    return item.task_id


@pytest.fixture
def two(guideline: Guideline, lin: Person, chen: Person) -> Batch:
    """Two tasks for two people."""
    return make_batch(guideline, make_corpus(prompts=2, models=["A"]), annotators=[lin, chen])


def test_a_new_batch_needs_nobody(batch: Batch):
    assert list_needs(batch, limit=10) == []


def test_a_task_that_one_skipped_and_the_other_labelled_says_so(two: Batch, lin: Person, chen: Person):
    task = skip_next(two, lin)
    assert list_needs(two, limit=10) == []  # chen may take it
    label_next(two, chen, 3)
    (need,) = list_needs(two, limit=10)
    assert (need.task.pk, need.role) == (task, "annotator")
    assert describe_need(need) == {"skipped it": {"lin"}, "labelled it or has it in progress": {"chen"}}


def test_whom_the_quota_keeps_is_named_and_a_claim_at_hand_is_not_yet_done(
    two: Batch, lin: Person, chen: Person
):
    set_limits(batch=two, person=lin, role="annotator", quota=1)
    claim_next_task(batch=two, person=lin)
    while label_next(two, chen, 3) is not None:
        pass
    assert list_needs(two, limit=10) == []  # what lin has at hand may come back: either is still for lin
    label_next(two, lin, 3)
    (need,) = list_needs(two, limit=10)
    assert describe_need(need) == {
        "has reached the quota": {"lin"},
        "labelled it or has it in progress": {"chen"},
    }


def test_what_is_ruled_out_for_everybody_says_why(two: Batch, lin: Person, chen: Person):
    for person in (lin, chen):
        set_limits(batch=two, person=person, role="annotator", quota=None, excluded_dimensions=["safe"])
    (need,) = list_needs(two, limit=10)
    assert need.task.stratum.dimension == "safe"
    assert describe_need(need) == {"taken out of this dimension": {"lin", "chen"}}


def test_a_task_assigned_to_one_who_has_done_enough_is_not_for_the_others(
    guideline: Guideline, lin: Person, chen: Person
):
    policy = Policy(overlap=1)
    batch = make_batch(guideline, make_corpus(prompts=2, models=["A"]), annotators=[lin, chen], policy=policy)
    set_limits(batch=batch, person=lin, role="annotator", quota=1)
    task = batch.tasks.order_by("rank")[1]
    assign_tasks(batch=batch, tasks=[task.pk], people=[lin])
    label_next(batch, lin, 3)
    (need,) = list_needs(batch, limit=10)
    assert need.task == task
    assert describe_need(need) == {
        "has reached the quota": {"lin"},
        "is not among those it is planned for": {"chen"},
    }


def test_a_batch_that_everybody_left_lists_all_its_tasks_up_to_the_limit(
    two: Batch, lin: Person, chen: Person
):
    for person in (lin, chen):
        set_member_active(batch=two, person=person, role="annotator", active=False)
    assert [describe_need(need) for need in list_needs(two, limit=10)] == [{}, {}]
    assert len(list_needs(two, limit=1)) == 1
    withdraw_tasks(batch=two, tasks=[two.tasks.order_by("rank")[0].pk], reason="a wrong response")
    assert len(list_needs(two, limit=10)) == 1


def test_a_dispute_needs_a_person_where_every_adjudicator_annotated_or_skipped_it(
    batch: Batch, lin: Person, chen: Person, wu: Person
):
    set_roles(person=lin, roles=["annotator", "adjudicator"])
    batch.memberships.create(person=lin, role="adjudicator")
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    assert list_needs(batch, limit=10) == []
    item = claim_next_dispute(batch=batch, person=wu)
    assert item is not None
    assert list_needs(batch, limit=10) == []  # it is being decided
    release_assignment(assignment_id=item.pk, person=wu, skip_reason="I know the author")
    (need,) = list_needs(batch, limit=10)
    assert (need.task.pk, need.role) == (item.task_id, "adjudicator")
    assert describe_need(need) == {"was given it to annotate": {"lin"}, "skipped it": {"wu"}}
