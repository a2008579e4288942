"""Who works needs the group and the membership, on pages and over the API, at every call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event, Thread
from typing import Any
from unittest import mock
from uuid import UUID, uuid4

import pytest
from django.db import connection
from rest_framework.test import APIClient

from annotation.core.errors import AssayError, Forbidden
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.models import (
    Adjudication,
    Annotation,
    Assignment,
    AuditEvent,
    Batch,
    Draft,
    GoldLabel,
    Guideline,
    IntroductionReading,
    Person,
    Task,
    Verdict,
)
from annotation.services import audit
from annotation.services.annotations import submission
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_dispute, claim_next_task
from annotation.services.batches.members import set_member_active
from annotation.services.people import people
from annotation.services.people.people import set_roles
from tests.support import decide_next, label, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db
REFUSED = {403, 404}
WORK = {"labels": {"compliance": 3}}
DECISION = {**WORK, "reason": "reading_slip"}


def program(person: Person) -> APIClient:
    """Signed in afresh, as a program's every call is."""
    client = APIClient()
    client.force_login(Person.objects.get(pk=person.pk))
    return client


def post(person: Person, path: str, body: Any = None) -> Any:
    headers = {"Idempotency-Key": str(uuid4())}
    return program(person).post(f"/api/v1/{path}/", body or {}, headers=headers)


def on(assignment: UUID, call: str) -> str:
    return f"assignments/{assignment}/{call}"


def rows() -> list[list[Any]]:
    tables = (
        Assignment,
        Annotation,
        Verdict,
        Adjudication,
        GoldLabel,
        Draft,
        Task,
        IntroductionReading,
    )
    return [list(model.objects.order_by("pk").values()) for model in tables]


def claimed(batch: Batch, person: Person) -> Assignment:
    item = claim_next_task(batch=batch, person=person)
    assert item is not None
    return item


def take_groups(person: Person, *left: str) -> None:
    """As the database says it, past every service, so that what is at hand stays at hand."""
    person.study_memberships.exclude(role__in=left).delete()


@pytest.fixture
def disputed(batch: Batch, lin: Person, chen: Person) -> Batch:
    for _number in range(2):
        label_next(batch, lin, 1)
        label_next(batch, chen, 3)
    return batch


@pytest.mark.both_databases
@pytest.mark.parametrize("left", [(), ("adjudicator", "manager", "researcher")])
def test_an_annotator_without_the_group_is_refused_by_every_call(
    batch: Batch, lin: Person, left: tuple[str, ...]
) -> None:
    set_roles(person=lin, roles=["annotator", *left])
    label_next(batch, lin, 3)
    done, held = Assignment.objects.get(state="submitted"), claimed(batch, lin)
    take_groups(lin, *left)
    before = rows()
    calls = {
        f"batches/{batch.name}/next": {},
        f"batches/{batch.name}/guideline": {},
        on(held.pk, "submit"): WORK,
        on(done.pk, "submit"): WORK,
        on(done.pk, "revise"): WORK,
        on(held.pk, "extend"): {},
        on(held.pk, "release"): {},
        on(held.pk, "skip"): {"reason": "I know the author"},
    }
    answers = {path: post(lin, path, body) for path, body in calls.items()}
    # Who has no role in the study is told that there is no such batch.
    not_there = {"guideline"} if left else {"guideline", "next"}
    expected = dict.fromkeys(calls, 403) | {f"batches/{batch.name}/{call}": 404 for call in not_there}
    assert {path: answer.status_code for path, answer in answers.items()} == expected
    assert {answer.json()["error"]["code"] for answer in answers.values() if answer.status_code == 403} == {
        "forbidden"
    }
    assert rows() == before
    assert program(lin).get("/api/v1/batches/").json() == []


@pytest.mark.both_databases
@pytest.mark.parametrize("left", [(), ("annotator", "manager", "researcher")])
def test_an_adjudicator_without_the_group_reads_no_dispute_and_decides_none(
    disputed: Batch, wu: Person, left: tuple[str, ...]
) -> None:
    set_roles(person=wu, roles=["adjudicator", *left])
    path = f"batches/{disputed.name}/next-dispute"
    held = post(wu, path).json()["assignment"]
    take_groups(wu, *left)
    before = rows()
    calls = {
        path: {},
        on(held, "verdict"): WORK,
        on(held, "adjudicate"): DECISION,
        on(held, "extend"): {},
        on(held, "release"): {},
        on(held, "skip"): {"reason": "I know the author"},
    }
    answers = {call_name: post(wu, call_name, body) for call_name, body in calls.items()}
    assert {call_name: answer.status_code for call_name, answer in answers.items()} == {
        **dict.fromkeys(calls, 403),
        path: 403 if left else 404,  # who has no role in the study is told that there is no such batch
    }
    assert not any("sides" in answer.content.decode() for answer in answers.values())
    assert rows() == before


def test_after_the_verdict_the_labels_of_others_go_with_the_group(disputed: Batch, wu: Person) -> None:
    path = f"batches/{disputed.name}/next-dispute"
    held = post(wu, path).json()["assignment"]
    assert post(wu, on(held, "verdict"), WORK).json()["sides"]
    take_groups(wu)
    # Who has no role in the study is told no more than that there is no such batch.
    assert [post(wu, path).status_code, post(wu, on(held, "verdict"), WORK).status_code] == [404, 403]
    assert post(wu, on(held, "adjudicate"), DECISION).status_code == 403
    assert Adjudication.objects.count() == 0


def test_a_repeat_adjudication_goes_with_the_group_as_well(disputed: Batch, wu: Person) -> None:
    Batch.objects.filter(pk=disputed.pk).update(second_reading_share=1, second_reading_days=0)
    decide_next(disputed, wu, 2)
    repeat = claim_next_dispute(batch=disputed, person=wu)
    assert repeat is not None
    assert repeat.task.kind == "repeat"
    take_groups(wu)
    before = rows()
    calls = {"verdict": WORK, "adjudicate": DECISION, "extend": {}, "release": {}, "skip": {"reason": "no"}}
    assert {
        call_name: post(wu, on(repeat.pk, call_name), body).status_code for call_name, body in calls.items()
    } == (dict.fromkeys(calls, 403))
    assert rows() == before


def test_the_group_alone_is_not_enough(disputed: Batch, lin: Person, wu: Person, zhou: Person) -> None:
    """Whoever has both groups and no part in the batch, or one that ended, is refused as well."""
    set_roles(person=wu, roles=["annotator", "adjudicator"])
    assert post(wu, "batches/first/next").status_code == 404
    done = Assignment.objects.filter(person=lin, task__state="disputed").first()
    label_next(disputed, zhou, 3)
    assignment = Assignment.objects.get(person=zhou)
    set_member_active(batch=disputed, person=zhou, role="annotator", active=False)
    before = rows()
    assert done is not None
    assert post(zhou, "batches/first/next").status_code == 404
    assert post(zhou, on(assignment.pk, "revise"), WORK).status_code == 409
    assert post(zhou, on(done.pk, "revise"), WORK).status_code == 404
    assert rows() == before


def test_whoever_left_a_batch_skips_nothing_in_it(batch: Batch, zhou: Person) -> None:
    held = claimed(batch, zhou)
    set_member_active(batch=batch, person=zhou, role="annotator", active=False)
    before = rows()
    assert post(zhou, on(held.pk, "skip"), {"reason": "I know the author"}).status_code == 409
    assert post(zhou, on(held.pk, "extend")).status_code == 409
    assert rows() == before


def test_pages_and_programs_are_refused_alike(batch: Batch, lin: Person) -> None:
    held = claimed(batch, lin)
    take_groups(lin)
    pages = program(lin)
    sent = {"label.compliance": "3", "key": "k"}
    assert pages.get(f"/work/{batch.name}/").status_code == 403
    for call in ("submit", "draft", "skip", "extend", "release"):
        assert pages.post(f"/work/items/{held.pk}/{call}/", sent, format="multipart").status_code == 403
    with pytest.raises(Forbidden):  # also where a page had let the person in a moment before
        submit(assignment_id=held.pk, person=lin, key="k", work=Submission({"compliance": 3}))


def test_an_admin_needs_no_group_but_a_part_in_the_batch(guideline: Guideline, chen: Person) -> None:
    admin = Person.objects.create_superuser("root")
    corpus = make_corpus(prompts=2, models=["m"])
    batch = make_batch(guideline, corpus, annotators=[admin, chen])
    item = post(admin, f"batches/{batch.name}/next").json()["assignment"]
    assert post(admin, on(item, "submit"), WORK).status_code == 201
    assert post(admin, f"batches/{batch.name}/next-dispute").status_code == 404


def test_what_is_at_hand_goes_back_with_the_role_and_to_others(batch: Batch, lin: Person, ma: Person) -> None:
    held = claimed(batch, lin)
    set_roles(person=lin, roles=[], actor=ma)
    held.refresh_from_db()
    held.task.refresh_from_db()
    assert (held.state, held.task.slots_taken) == ("released", 0)
    assert AuditEvent.objects.get(verb="set_roles", target="person:lin").data == {
        "study": "default",
        "roles": [],
        "released": 1,
    }
    set_roles(person=lin, roles=["annotator"], actor=ma)
    assert claim_next_task(batch=batch, person=Person.objects.get(pk=lin.pk)) is not None


def test_a_repeat_adjudication_in_progress_goes_back_with_the_role(disputed: Batch, wu: Person) -> None:
    Batch.objects.filter(pk=disputed.pk).update(second_reading_share=1, second_reading_days=0)
    decide_next(disputed, wu, 2)
    claim = claim_next_dispute(batch=disputed, person=wu)
    assert claim is not None
    assert claim.task.kind == "repeat"
    set_roles(person=wu, roles=["annotator"])
    assert not Assignment.objects.filter(state="claimed", person=wu).exists()


@pytest.mark.parametrize("pairing", ["fixed", "balanced"])
def test_what_was_planned_for_whoever_lost_the_role_is_planned_for_others(
    guideline: Guideline, lin: Person, chen: Person, zhou: Person, pairing: str
) -> None:
    corpus = make_corpus(prompts=6, models=["m"])
    pairs = [[lin, chen]] if pairing == "fixed" else []
    batch = make_batch(
        guideline, corpus, annotators=[lin, chen, zhou], pairs=pairs, policy=Policy(pairing=pairing)
    )
    planned = Task.objects.filter(batch=batch, panel__members__person=lin)
    assert planned.exists()
    set_roles(person=lin, roles=["researcher"])
    assert not planned.exists()
    for person in (chen, zhou):
        while label_next(batch, person, 3) is not None:
            pass
    assert set(batch.tasks.values_list("state", flat=True)) == {"agreed"}


def test_nobody_is_planned_for_who_lacks_the_role(
    guideline: Guideline, lin: Person, chen: Person, zhou: Person
) -> None:
    take_groups(lin)
    corpus = make_corpus(prompts=2, models=["m"])
    batch = make_batch(guideline, corpus, annotators=[lin, chen, zhou], policy=Policy(pairing="balanced"))
    assert not batch.tasks.filter(panel__members__person=lin).exists()
    assert batch.tasks.filter(panel__members__person=chen).count() == 2


# Races: the role goes while a call is under way.


def race(first: Callable[[], Any], second: Callable[[], Any], *, inside: str) -> tuple[Any, Any]:
    """``second`` begins while ``first`` stands in the middle, at the function of ``annotations`` named ``inside``."""
    arrived, answers = Event(), {}
    usual = getattr(submission, inside)

    def slow(*args: Any, **kwargs: Any) -> Any:
        arrived.set()
        other.join(timeout=2)  # it cannot end before, if it waits for the lock
        return usual(*args, **kwargs)

    def call(name: str, act: Callable[[], Any]) -> None:
        try:
            answers[name] = act()
        except AssayError as refusal:
            answers[name] = refusal
        finally:
            connection.close()

    other = Thread(target=lambda: arrived.wait(120) and call("second", second))
    first_thread = Thread(target=call, args=("first", first))
    with mock.patch.object(submission, inside, slow):
        other.start()
        first_thread.start()
        first_thread.join()
        other.join()
    return answers["first"], answers["second"]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_submission_under_way_ends_before_the_role_goes(batch: Batch, lin: Person) -> None:
    """Either it was before, and counts, or it is refused; the role never goes in its middle."""
    held = claimed(batch, lin)
    work = Submission({"compliance": 3})
    receipt, _roles = race(
        partial(submit, assignment_id=held.pk, person=lin, key="k", work=work),
        partial(set_roles, person=Person.objects.get(pk=lin.pk), roles=[]),
        inside="_check_submission",
    )
    assert receipt.created
    held.refresh_from_db()
    assert held.state == "submitted"
    with pytest.raises(Forbidden):
        label(held, lin, 3)


def while_the_role_goes(person: Person, call: Callable[[], Any]) -> Any:
    """What ``call`` answers that begins when the groups and the claims are written and not committed."""
    usual, answers = audit.record, []

    def late() -> None:
        try:
            answers.append(call())
        except AssayError as refusal:
            answers.append(refusal)
        finally:
            connection.close()

    def slow(**event: Any) -> Any:
        other.start()
        other.join(timeout=1)
        return usual(**event)

    other = Thread(target=late)
    with mock.patch.object(people, "record", slow):
        set_roles(person=Person.objects.get(pk=person.pk), roles=[])
    other.join()
    return answers[0]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_submission_that_waits_for_the_role_to_go_is_refused(batch: Batch, lin: Person) -> None:
    held, work = claimed(batch, lin), Submission({"compliance": 3})
    answer = while_the_role_goes(lin, partial(submit, assignment_id=held.pk, person=lin, key="k", work=work))
    assert isinstance(answer, Forbidden)
    assert Annotation.objects.count() == 0


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_claim_that_waits_for_the_role_to_go_is_refused(batch: Batch, lin: Person) -> None:
    answer = while_the_role_goes(lin, partial(claim_next_task, batch=batch, person=lin))
    assert isinstance(answer, Forbidden)
    assert Assignment.objects.count() == 0
