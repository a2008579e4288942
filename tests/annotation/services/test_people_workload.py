"""What the people's pages say of work: how much there is, how well it was done, and what becomes of it."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from annotation.core.proportions import wilson
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Assignment,
    Batch,
    Dataset,
    Guideline,
    Person,
    Verdict,
)
from annotation.selectors.batches import open_readable_batches
from annotation.selectors.batches.members import Workload, list_parts, list_workloads, preview_leaving
from annotation.selectors.quality import EqualShare, summarize_adjudicator, summarize_annotator
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task, release_assignment
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import join_batch
from annotation.services.people.people import add_person, deactivate_person
from tests.support import decide_next, label, label_next, make_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


@pytest.fixture
def planned(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, zhou: Person, wu: Person
) -> Batch:
    """Eight tasks, planned evenly for pairs of lin, chen and zhou."""
    policy = Policy(pairing="balanced")
    return make_batch(guideline, dataset, annotators=[lin, chen, zhou], adjudicators=[wu], policy=policy)


def decide(batch: Batch, person: Person, value: int, verdict: int | None) -> None:
    """A decided dispute, with what the adjudicator thought before where they said so."""
    task = batch.tasks.filter(state="disputed")[0]
    now = timezone.now()
    held = Assignment.objects.create(
        batch=batch,
        task=task,
        person=person,
        slot=ADJUDICATION_SLOT,
        state="submitted",
        claimed_at=now,
        lease_expires=now,
        submitted_at=now,
    )
    Adjudication.objects.create(
        task=task,
        assignment=held,
        labels={"compliance": value},
        seconds=40,
        idempotency_key=str(uuid4()),
        created_at=now,
    )
    if verdict is not None:
        Verdict.objects.create(assignment=held, labels={"compliance": verdict}, created_at=now)
    task.state = "adjudicated"
    task.save()


# ---------------------------------------------------------------- how much


def test_the_workload_of_everybody_is_counted(
    batch: Batch, planned_too: Batch, lin: Person, wu: Person, ma: Person
) -> None:
    label_next(batch, lin, 3)
    label_next(planned_too, lin, 3)
    assert claim_next_task(batch=batch, person=lin) is not None
    Assignment.objects.filter(batch=batch, state="submitted").update(
        submitted_at=timezone.now() - timedelta(days=8)
    )
    latest = Assignment.objects.get(batch=planned_too, state="submitted").submitted_at
    planned_tasks = planned_too.panels.filter(members__person=lin).values_list("tasks_planned", flat=True)
    loads = list_workloads([lin, wu], reader=ma)
    assert loads[lin.pk] == Workload(
        batches=2, live=1, lately=1, planned=sum(planned_tasks) - 1, latest=latest
    )
    assert loads[wu.pk] == Workload(batches=2)
    set_state(batch=planned_too, state="closed")
    assert list_workloads([lin], reader=ma)[lin.pk] == Workload(batches=1, live=1, lately=1, latest=latest)


@pytest.fixture
def planned_too(
    batch: Batch, guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, wu: Person
) -> Batch:
    policy = Policy(pairing="balanced")
    return make_batch(
        guideline, dataset, annotators=[lin, chen], adjudicators=[wu], policy=policy, name="second"
    )


def test_nothing_is_counted_in_batches_that_the_reader_judges_blind(
    batch: Batch, lin: Person, ma: Person
) -> None:
    join_batch(batch=batch, role="annotator", people=[ma])
    label_next(batch, lin, 3)
    assert claim_next_task(batch=batch, person=lin) is not None
    assert list_workloads([lin], reader=ma)[lin.pk] == Workload(batches=1)
    assert [counts for _part, counts in list_parts(lin, reader=ma)] == [None]
    only = preview_leaving(lin, reader=ma)[0]
    assert (only.live, only.planned, only.unassignable, only.stay) == (
        None,
        None,
        None,
        2,
    )  # ma is in no group of workers


def test_the_list_asks_no_query_for_each_person(manager: Client, planned: Batch, chen: Person) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert manager.get(reverse("people")).status_code == 200
        return len(queries)

    label_next(planned, chen, 3)
    queries()  # the first page of a process also reads what it keeps from then on
    few = queries()
    for number in range(40):
        add_person(name=f"p{number}", roles=["annotator"])
    join_batch(batch=planned, role="annotator", people=list(Person.objects.filter(username__startswith="p")))
    assert queries() == few
    assert few <= 22


def test_the_list_is_searched_and_filtered(manager: Client, lin: Person, wu: Person) -> None:
    Person.objects.filter(pk=wu.pk).update(display_name="吴老师")

    def list_names(**query: str) -> list[str]:
        page = manager.get(reverse("people"), query)
        assert page.status_code == 200
        return [person.username for person, _roles, _load in page.context["rows"]]

    assert list_names() == ["lin", "ma", "wu"]
    assert list_names(words="LI") == ["lin"]
    assert list_names(words="吴") == ["wu"]
    assert list_names(role="annotator") == ["lin"]
    assert list_names(role="king") == ["lin", "ma", "wu"]  # what nobody could have chosen
    assert list_names(role="annotator", words="wu") == []


def test_a_persons_page_counts_their_part_in_each_batch(
    manager: Client, planned: Batch, lin: Person, ma: Person
) -> None:
    label_next(planned, lin, 3)
    skipped = claim_next_task(batch=planned, person=lin)
    assert skipped is not None
    release_assignment(assignment_id=skipped.pk, person=lin, skip_reason="I know the author")
    lapsed = claim_next_task(batch=planned, person=lin)
    assert lapsed is not None
    Assignment.objects.filter(pk=lapsed.pk).update(state="expired")
    ((_part, counts),) = list_parts(lin, reader=ma)
    assert counts is not None
    assert (counts.done, counts.skipped, counts.expired, counts.live, counts.lately) == (1, 1, 1, 0, 1)
    page = manager.get(reverse("person", args=["lin"])).content.decode()
    assert reverse("batch-members", args=["first"]) in page


# ---------------------------------------------------------------- how well


def test_labels_are_compared_with_the_final_and_with_the_partners(
    manager: Client, batch: Batch, lin: Person, chen: Person, wu: Person, ma: Person
) -> None:
    for value, other in ((3, 3), (1, 1), (1, 3), (2, 3)):
        label_next(batch, lin, value)
        label_next(batch, chen, other)
    single_assignment = claim_next_task(batch=batch, person=lin)
    assert single_assignment is not None
    label(single_assignment, lin, 3)  # nobody to compare with yet
    disputed = [a.task_id for a in lin.assignments.filter(task__state="disputed").order_by("submitted_at")]
    assert len(disputed) == 2
    quality = summarize_annotator(lin, [batch.pk])[batch.pk]
    assert (quality.items, quality.final.equal, quality.final.n) == (5, 0, 0)  # two by all alike, two open
    assert (quality.partners.equal, quality.partners.n) == (2, 4)
    assert quality.partners.interval == wilson(2, 4)
    assert summarize_annotator(chen, [batch.pk])[batch.pk].partners.value == 0.5
    assert summarize_annotator(lin, []) == {}
    decide_next(batch, wu, 3)
    final = summarize_annotator(lin, [batch.pk])[batch.pk].final
    assert (final.equal, final.n) == (0, 1)  # they had said 1 and 2 of the disputed ones
    page = manager.get(reverse("person", args=["lin"])).content.decode()
    assert "50.0%" in page
    assert "15.0 – 85.0" in page
    assert f"{reverse('batch-tasks', args=['first'])}?person=lin" in page


def test_a_final_label_that_rests_on_one_person_compares_with_nothing(
    guideline: Guideline, dataset: Dataset, lin: Person
) -> None:
    single = make_batch(guideline, dataset, annotators=[lin], policy=Policy(overlap=1))
    label_next(single, lin, 3)
    quality = summarize_annotator(lin, [single.pk])[single.pk]
    assert (quality.items, quality.final, quality.partners) == (1, EqualShare(), EqualShare())
    assert quality.final.value is None
    assert quality.final.interval is None


def test_the_median_time_is_of_those_items_whose_time_is_known(batch: Batch, lin: Person) -> None:
    for seconds in (10, 50, None):
        item = claim_next_task(batch=batch, person=lin)
        assert item is not None
        submit(
            assignment_id=item.pk, person=lin, key="k", work=Submission({"compliance": 3}, seconds=seconds)
        )
    assert summarize_annotator(lin, [batch.pk])[batch.pk].median_seconds == 30


def test_how_often_an_adjudicator_changed_their_mind(
    manager: Client, batch: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    for _time in range(3):
        label_next(batch, lin, 1)
        label_next(batch, chen, 3)
    decide(batch, wu, 3, verdict=3)
    decide(batch, wu, 3, verdict=1)
    decide(batch, wu, 2, verdict=None)
    decisions = summarize_adjudicator(wu, [batch.pk])[batch.pk]
    assert (decisions.n, decisions.confirmed.n, decisions.changed, decisions.median_seconds) == (3, 2, 1, 40)
    page = manager.get(reverse("person", args=["wu"])).content.decode()
    assert "(50.0%)" in page


def test_results_that_are_sealed_for_the_reader_are_not_on_the_page(
    client: Client,
    batch: Batch,
    guideline: Guideline,
    dataset: Dataset,
    lin: Person,
    chen: Person,
    ma: Person,
    he: Person,
) -> None:
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    client.force_login(ma)
    url = reverse("person", args=["lin"])
    assert client.get(url).context["quality"]
    # The same responses, judged blind in another batch.
    second = make_batch(guideline, dataset, annotators=[ma, he], name="second")
    assert list(open_readable_batches(ma)) == []
    page = client.get(url)
    assert page.context["quality"] == []
    assert "What is sealed for you" in page.content.decode()
    assert [counts is None for _part, counts in page.context["parts"]] == [False]
    set_state(batch=second, state="closed")
    assert client.get(url).context["quality"]


# ---------------------------------------------------------------- going


def test_the_page_before_says_what_becomes_of_the_work(
    manager: Client, planned: Batch, lin: Person, wu: Person, ma: Person
) -> None:
    label_next(planned, lin, 3)
    assert claim_next_task(batch=planned, person=lin) is not None
    planned_tasks = sum(planned.panels.filter(members__person=lin).values_list("tasks_planned", flat=True))
    (departure,) = preview_leaving(lin, reader=ma)
    assert (departure.live, departure.planned, departure.stay, departure.needed, departure.unassignable) == (
        1,
        planned_tasks - 2,
        2,
        2,
        0,
    )
    page = manager.get(reverse("person-leaving", args=["lin"])).content.decode()
    assert "1 item in progress goes back." in page
    assert f"{planned_tasks - 2} items planned for them go to others" in page
    assert "the others take it over" in page
    lonely = manager.get(reverse("person-leaving", args=["wu"])).content.decode()
    assert "nobody is left" in lonely


@pytest.mark.both_databases
def test_deactivating_gives_back_and_plans_anew_and_says_so(
    manager: Client, planned: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    label_next(planned, lin, 3)
    assert claim_next_task(batch=planned, person=lin) is not None
    planned_tasks = sum(planned.panels.filter(members__person=lin).values_list("tasks_planned", flat=True))
    answer = manager.post(reverse("person-active", args=["lin"]), {"active": "0"}, follow=True)
    page = answer.content.decode()
    assert "1 item in progress went back." in page
    assert f"{planned_tasks - 1} items are planned for others now." in page
    for person in (chen, zhou):
        for _task in range(8):
            label_next(planned, person, 3)
    # lin's label and those of the two others: all is done.
    assert planned.tasks.exclude(state="agreed").count() == 0


def test_where_nobody_else_may_take_it_the_message_says_so(
    manager: Client, planned_too: Batch, lin: Person, chen: Person
) -> None:
    page = manager.get(reverse("person-leaving", args=["lin"])).content.decode()
    assert "too few are left" in page
    assert "Up to 8 items would wait" in page
    answer = manager.post(reverse("person-active", args=["lin"]), {"active": "0"}, follow=True)
    assert "For 8 items there is nobody else." in answer.content.decode()


def test_nobody_is_asked_about_who_cannot_be_deactivated(manager: Client, ma: Person, lin: Person) -> None:
    assert (
        "You cannot deactivate this account"
        in manager.get(reverse("person-leaving", args=["ma"])).content.decode()
    )
    deactivate_person(person=lin, actor=ma)
    assert "You cannot deactivate" in manager.get(reverse("person-leaving", args=["lin"])).content.decode()


# ---------------------------------------------------------------- a batch's members


def test_the_members_page_counts_along_and_says_one_number_where_there_is_one(
    manager: Client, planned_too: Batch
) -> None:
    page = manager.get(reverse("batch-members", args=["second"])).content.decode()
    assert "as the plan stands now: 8 each." in page
    assert "Last 7 days" in page
