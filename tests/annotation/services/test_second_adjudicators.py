"""Decided disputes that go unmarked to another adjudicator, to measure how well adjudicators agree."""

from __future__ import annotations

import io
import json
from functools import partial
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError
from annotation.core.proportions import wilson
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Terms
from annotation.models import (
    Adjudication,
    Assignment,
    AuditEvent,
    Batch,
    GoldLabel,
    Membership,
    Person,
    Task,
)
from annotation.selectors.adjudication import build_dispute, count_waiting_disputes
from annotation.selectors.quality.adjudicators import measure_adjudicator_agreement
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.assignments import claim_next_dispute, release_assignment
from tests.annotation.invariants import nothing_is_broken
from tests.annotation.services.test_races import at_once
from tests.annotation.views.test_work_pages import text
from tests.support import add_role, decide, decide_next, label_next

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
SECONDS = Task.objects.filter(kind="second")


def make_adjudicator(person: Person, batch: Batch) -> Membership:
    add_role(person, "adjudicator")
    return Membership.objects.create(batch=batch, person=person, role="adjudicator")


@pytest.fixture
def drawn(batch: Batch, lin: Person, chen: Person, wu: Person, zhou: Person) -> Batch:
    """wu decided a dispute, which goes to a second adjudicator; zhou is one."""
    make_adjudicator(zhou, batch)
    Batch.objects.filter(pk=batch.pk).update(second_adjudicator_share=1)
    batch.refresh_from_db()
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    decide_next(batch, wu, 2)
    return batch


def claim_second(batch: Batch, person: Person) -> Assignment:
    assignment = claim_next_dispute(batch=batch, person=person)
    assert assignment is not None
    assert assignment.task.kind == "second"
    return assignment


def test_it_goes_to_an_adjudicator_who_had_no_part_in_it(
    drawn: Batch, lin: Person, chen: Person, wu: Person, zhou: Person
) -> None:
    for person in (lin, chen):
        make_adjudicator(person, drawn)
    for person in (lin, chen, wu):
        assert claim_next_dispute(batch=drawn, person=person) is None
        assert count_waiting_disputes(drawn.memberships.get(person=person, role="adjudicator")) == []
    second = claim_second(drawn, zhou)
    assert second.task.repeats.adjudication.assignment.person == wu
    nothing_is_broken(drawn)


def test_its_reader_sees_the_annotators_labels_and_not_the_first_decision(
    drawn: Batch, zhou: Person, client: Client
) -> None:
    second = claim_second(drawn, zhou)
    assert build_dispute(second).sides == ()
    record_verdict(assignment_id=second.pk, person=zhou, work=Submission({"compliance": 3}))
    sides = build_dispute(second).sides
    assert sorted(side.labels["compliance"] for side in sides) == [1, 3]
    client.force_login(zhou)
    answer = client.get(reverse("dispute-batch", args=[drawn.name]))
    assert str(second.pk) in answer.content.decode()
    page = text(answer).lower()
    assert "wu" not in page.split()
    for phrase in ("second adjudication", "repeat adjudication"):
        assert phrase not in page


def test_gold_follows_the_first_decision(drawn: Batch, zhou: Person) -> None:
    gold = list(GoldLabel.objects.values())
    decide(claim_second(drawn, zhou), zhou, 3)
    assert list(GoldLabel.objects.values()) == gold
    assert not SECONDS.filter(gold_labels__isnull=False).exists()
    assert Adjudication.objects.count() == 2
    (event,) = AuditEvent.objects.filter(verb="second_adjudication")
    assert event.target == f"task:{SECONDS.get().repeats_id}"
    # it is drawn from first decisions alone
    assert SECONDS.count() == 1
    nothing_is_broken(drawn)


def test_a_skipped_one_goes_to_somebody_else(drawn: Batch, zhou: Person, stranger: Person) -> None:
    second = claim_second(drawn, zhou)
    release_assignment(assignment_id=second.pk, person=zhou, skip_reason="I know the author")
    assert claim_next_dispute(batch=drawn, person=zhou) is None
    nothing_is_broken(drawn)
    make_adjudicator(stranger, drawn)
    assert claim_second(drawn, stranger).task_id == second.task_id


def test_the_share_is_exact_in_each_block(batch: Batch, lin: Person, chen: Person, wu: Person) -> None:
    Batch.objects.filter(pk=batch.pk).update(second_adjudicator_share=0.5)
    for _decision in range(4):
        label_next(batch, lin, 1)
        label_next(batch, chen, 3)
        decide_next(batch, wu, 2)
    assert SECONDS.count() == 2


def test_without_a_share_nothing_is_drawn(batch: Batch, lin: Person, chen: Person, wu: Person) -> None:
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    decide_next(batch, wu, 2)
    assert not SECONDS.exists()
    assert batch.second_adjudicator_share == 0


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_from_0_to_1(share: float) -> None:
    with pytest.raises(AssayError, match="second adjudications is from 0 to 1"):
        Terms(second_adjudicator_share=share)


@pytest.mark.parametrize(("value", "same"), [(2, 1), (3, 0)])
def test_the_agreement_is_the_share_decided_alike(drawn: Batch, zhou: Person, value: int, same: int) -> None:
    before = measure_adjudicator_agreement([drawn])
    assert (before.drawn, before.waiting, list(before.rows)) == (1, 1, [])
    decide(claim_second(drawn, zhou), zhou, value)
    after = measure_adjudicator_agreement([drawn])
    (row,) = after.rows
    assert (after.drawn, after.waiting) == (1, 0)
    assert (row.criterion, row.rate.n, row.rate.equal) == ("compliance", 1, same)
    assert (row.rate.low, row.rate.high) == pytest.approx(wilson(same, 1))
    printed = json.loads(run("agreement", "--batch", drawn.name, "--json"))["adjudicators"]
    assert printed["rows"][0]["percent_agreement"]["value"] == same
    assert f"{same} alike" in run("agreement", "--batch", drawn.name)


def run(*command: str) -> str:
    out = io.StringIO()
    call_command(*command, stdout=out)
    return out.getvalue()


def test_the_batch_page_shows_it_to_who_may_see_results(
    drawn: Batch, zhou: Person, ma: Person, client: Client
) -> None:
    decide(claim_second(drawn, zhou), zhou, 2)
    client.force_login(ma)
    page = text(client.get(reverse("batch", args=[drawn.name])))
    assert "Agreement among adjudicators" in page
    assert "1 decided dispute was drawn for a second adjudicator" in page


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_two_adjudicators_at_once_do_not_both_get_it(drawn: Batch, zhou: Person, stranger: Person) -> None:
    make_adjudicator(stranger, drawn)
    claims: list[Any] = at_once(
        [partial(claim_next_dispute, batch=drawn, person=person) for person in (zhou, stranger)]
    )
    assert sorted(claim is None for claim in claims) == [False, True]
    nothing_is_broken(drawn)


def test_a_decision_sent_twice_is_stored_once(drawn: Batch, zhou: Person) -> None:
    second = claim_second(drawn, zhou)
    record_verdict(assignment_id=second.pk, person=zhou, work=Submission({"compliance": 3}))
    work = Submission({"compliance": 3}, reason="reading_slip")
    receipts = [adjudicate(assignment_id=second.pk, person=zhou, key="k", work=work) for _send in range(2)]
    assert [receipt.created for receipt in receipts] == [True, False]
    assert Adjudication.objects.filter(task__kind="second").count() == 1
