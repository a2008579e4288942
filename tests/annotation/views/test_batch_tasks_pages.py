from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from annotation.domain.assignments import eligibility
from annotation.domain.batch_spec import Policy
from annotation.models import (
    AuditEvent,
    Batch,
    Guideline,
    Panel,
    Person,
    Task,
)
from annotation.selectors.batches import needs, tasks
from annotation.selectors.batches.members import count_shared, list_members
from annotation.selectors.batches.needs import SKIPPED, NeedReason, list_needs
from annotation.selectors.batches.tasks import TaskFilter, TaskPage, find_tasks
from annotation.services.assignments import claim_next_task, release_assignment
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import join_batch, set_limits, set_member_active
from annotation.services.people.people import add_person
from annotation.views.batches.tasks import describe_obstacle
from tests.support import decide_next, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db

Ask = Callable[..., Any]


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


@pytest.fixture
def change(manager: Client, batch: Batch) -> Ask:
    """Post what to do with the tasks at these positions."""

    def post(action: str, *positions: int, page: str = "batch-tasks", **fields: object) -> Any:
        tasks = [task.pk for task in batch.tasks.filter(position__in=positions)]
        return manager.post(reverse(page, args=[batch.name]), {"action": action, "tasks": tasks, **fields})

    return post


def read_messages(answer: Any) -> str:
    """What was said last."""
    return str(list(answer.wsgi_request._messages)[-1])


def positions(page: TaskPage) -> list[int]:
    return [item.task.position for item in page.items]


def skip_all(batch: Batch, *people: Person) -> None:
    """Each skips everything that they are given."""
    for person in people:
        while (item := claim_next_task(batch=batch, person=person)) is not None:
            release_assignment(assignment_id=item.pk, person=person, skip_reason="not mine")


# ---------------------------------------------------------------- finding


@pytest.mark.both_databases
def test_items_are_found_by_state_dimension_words_and_person(
    batch: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    label_next(batch, lin, 1)  # task 0, then disputed
    label_next(batch, chen, 3)
    held = claim_next_task(batch=batch, person=lin)  # task 2, of the next prompt
    assert held is not None

    def find_positions(**filters: Any) -> list[int]:
        return positions(find_tasks(batch, TaskFilter(**filters), limit=50))

    assert find_positions() == list(range(8))
    assert find_positions(state="disputed") == [0]
    assert find_positions(state="open", dimension="safe") == [1, 4, 5]  # the prompts p0 and p2 are safe
    assert find_positions(words="NUMBER 1?") == [2, 3]
    assert find_positions(words="p3") == [6, 7]
    assert find_positions(words="nowhere") == []
    assert find_positions(person="lin") == [0, 2]
    assert find_positions(person="lin", words="number 0") == [0]
    assert find_positions(person="wu") == []
    decide_next(batch, wu, 2)
    assert find_positions(person="wu") == [0]
    assert find_tasks(batch, TaskFilter(state="open"), limit=50).total == 7
    assert find_tasks(batch, TaskFilter(words="number"), limit=50).total is None


@pytest.mark.parametrize(
    "task_filter",
    [TaskFilter(), TaskFilter(words="number"), TaskFilter(person="lin"), TaskFilter(state="open")],
)
def test_every_item_stands_on_one_page(
    batch: Batch, lin: Person, chen: Person, task_filter: TaskFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is found: looked up, or looked through."""
    for _number in range(5):
        label_next(batch, lin, 3)
    all_positions = positions(find_tasks(batch, task_filter, limit=50))
    assert len(all_positions) in (5, 8)

    def paged() -> Iterator[int]:
        after: int | None = None
        for _page in range(20):
            page = find_tasks(batch, task_filter, limit=3, after=after)
            assert len(page.items) <= 3
            yield from positions(page)
            if (after := page.after) is None:
                return
        raise AssertionError("the pages have no end")

    assert list(paged()) == all_positions
    monkeypatch.setattr(tasks, "RARE", 0)
    monkeypatch.setattr(tasks, "CHUNK", 2)
    monkeypatch.setattr(tasks, "MAX_SCANNED", 2)
    assert list(paged()) == all_positions


def test_the_page_says_who_did_what_and_never_what_they_said(
    manager: Client, batch: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    label_next(batch, lin, 1)
    item = claim_next_task(batch=batch, person=chen)
    assert item is not None
    release_assignment(assignment_id=item.pk, person=chen, skip_reason="too hard")
    claim_next_task(batch=batch, person=zhou)
    page = manager.get(reverse("batch-tasks", args=[batch.name]))
    assert [(str(person), did) for person, did in page.context["rows"][0]["on"]] == [
        ("lin", "labelled it"),
        ("chen", "skipped it"),
        ("zhou", "holds it"),
    ]
    assert "Full refusal" not in page.content.decode()


@pytest.mark.parametrize(
    "query", ["after=x", "after=99999999999999999999999", "state=ajar", "dimension=x&person=nobody"]
)
def test_an_address_that_nobody_was_given_breaks_nothing(manager: Client, batch: Batch, query: str) -> None:
    page = manager.get(f"{reverse('batch-tasks', args=[batch.name])}?{query}")
    assert page.status_code == 200
    assert len(page.context["rows"]) == 8


# ---------------------------------------------------------------- changing


@pytest.mark.both_databases
def test_items_are_assigned_to_people_and_given_back_to_everybody(
    change: Ask, batch: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    answer = change("assign", 0, 1, people=[chen.pk, zhou.pk])
    assert answer.status_code == 302
    assert read_messages(answer) == "2 items are for chen, zhou now."
    first = claim_next_task(batch=batch, person=lin)
    assert first is not None
    assert first.task.position == 2
    assert read_messages(change("everybody", 0)) == "1 item is for everybody again."
    assert list(batch.tasks.filter(panel=None).values_list("position", flat=True).order_by("position")) == [
        0, 2, 3, 4, 5, 6, 7,
    ]  # fmt: skip


@pytest.mark.both_databases
def test_items_are_withdrawn_brought_back_and_moved_ahead(
    change: Ask, batch: Batch, ma: Person, lin: Person
) -> None:
    assert read_messages(change("withdraw", 0, 3, reason="garbled")) == "2 items are withdrawn."
    assert batch.tasks.filter(state="withdrawn").count() == 2
    event = AuditEvent.objects.get(verb="withdraw_tasks")
    assert (event.actor, event.data["reason"]) == (ma, "garbled")
    assert read_messages(change("bring_back", 3)) == "1 item is back in the batch."
    assert read_messages(change("priority", 7, priority=5)) == "1 item has the priority 5 now."
    item = claim_next_task(batch=batch, person=lin)
    assert item is not None
    assert item.task.position == 7
    assert read_messages(change("priority", 7, priority=0)) == "1 item has the priority 0 now."


@pytest.mark.parametrize(
    ("action", "fields", "words"),
    [
        ("", {}, "Choose what to do."),
        ("fly", {}, "fly is not one of the available choices"),
        ("assign", {}, "Name the people."),
        ("withdraw", {"reason": " "}, "Give a reason: others will read it."),
        ("priority", {}, "Give a priority."),
        ("priority", {"priority": "5000"}, "less than or equal to 1000"),
        ("bring_back", {}, "is open; this cannot be done with it any more"),
    ],
)
def test_what_is_refused_says_why_and_changes_nothing(
    change: Ask, batch: Batch, action: str, fields: dict[str, str], words: str
) -> None:
    before = list(Task.objects.order_by("pk").values())
    answer = change(action, 0, 1, **fields)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert answer.content.decode().count('data-choose-one aria-label="Choose item') == 8
    assert len(answer.context["chosen_tasks"]) == 2  # and what was chosen stays chosen
    assert list(Task.objects.order_by("pk").values()) == before


def test_nothing_is_half_done(change: Ask, batch: Batch, lin: Person, chen: Person, zhou: Person) -> None:
    label_next(batch, lin, 3)
    label_next(batch, chen, 3)  # task 0 is agreed
    answer = change("withdraw", 0, 1, reason="x")
    assert answer.status_code == 422
    assert not batch.tasks.filter(state="withdrawn").exists()
    item = claim_next_task(batch=batch, person=zhou)
    assert item is not None
    release_assignment(assignment_id=item.pk, person=zhou, skip_reason="no")  # task 1
    answer = change("assign", 2, item.task.position, people=[zhou.pk, chen.pk])
    assert "needs 2 more people" in answer.content.decode()
    assert batch.tasks.filter(panel=None).count() == 8


def test_no_item_and_no_such_item_are_refused(manager: Client, batch: Batch) -> None:
    url = reverse("batch-tasks", args=[batch.name])
    for task_ids, words in (
        ([], "Choose at least one item."),
        (["x"], "That is not an item."),
        (["9" * 5000], "That is not an item."),
        ([10**9], "has no item"),
    ):
        answer = manager.post(url, {"action": "bring_back", "tasks": task_ids})
        assert answer.status_code == 422
        assert words in answer.content.decode()


def test_a_closed_batch_stays_as_it_is(change: Ask, manager: Client, batch: Batch) -> None:
    set_state(batch=batch, state="closed")
    assert "change-form" in manager.get(reverse("batch-tasks", args=[batch.name])).content.decode()
    assert 'id="change-form"' not in manager.get(reverse("batch-tasks", args=[batch.name])).content.decode()
    assert change("withdraw", 0, reason="x").status_code == 422
    assert not batch.tasks.filter(state="withdrawn").exists()


# ---------------------------------------------------------------- what needs a person


@pytest.mark.both_databases
def test_what_nobody_may_take_is_listed_with_the_reasons(
    manager: Client, change: Ask, batch: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    notice = reverse("batch-needs-notice", args=[batch.name])
    assert "message" not in manager.get(notice).content.decode()
    skip_all(batch, lin, chen)
    label_next(batch, zhou, 3)
    set_limits(batch=batch, person=zhou, role="annotator", quota=1)
    assert "8 items need a person" in manager.get(notice).content.decode()
    page = manager.get(reverse("batch-needs", args=[batch.name]))
    whys = {line["task"].position: sorted(line["obstacles"]) for line in page.context["rows"]}
    assert whys[7] == ["lin, chen skipped it", "zhou has reached the quota"]
    assert set(whys) == set(range(8))
    late = add_person(name="late", roles=["annotator"])
    join_batch(batch=batch, role="annotator", people=[late])
    assert manager.get(reverse("batch-needs", args=[batch.name])).context["rows"] == []
    answer = change("withdraw", 7, page="batch-needs", reason="nobody can")
    assert answer["Location"] == reverse("batch-needs", args=[batch.name])


@pytest.mark.both_databases
def test_what_was_skipped_by_few_of_many_needs_nobody(
    batch: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    skip_all(batch, lin)
    assert list_needs(batch, limit=50) == []
    skip_all(batch, chen)
    assert list_needs(batch, limit=50) == []  # zhou may take each
    set_member_active(batch=batch, person=zhou, role="annotator", active=False)
    assert len(list_needs(batch, limit=50)) == 8


def test_the_list_is_paged(manager: Client, guideline: Guideline, lin: Person, chen: Person) -> None:
    batch = make_batch(guideline, make_corpus(prompts=60, models=["m"]), annotators=[lin, chen], name="b")
    for person in (lin, chen):
        set_member_active(batch=batch, person=person, role="annotator", active=False)
    url = reverse("batch-needs", args=["b"])
    first, second = manager.get(url).context, manager.get(f"{url}?page=2").context
    assert (len(first["rows"]), first["next"], len(second["rows"]), second["next"]) == (50, 2, 10, 0)
    assert {row["task"].pk for row in (*first["rows"], *second["rows"])} == set(
        batch.tasks.values_list("pk", flat=True)
    )
    assert manager.get(f"{url}?page=-7").context["previous"] == 0


def test_every_reason_has_its_words(batch: Batch) -> None:
    members = tuple(batch.memberships.filter(role="annotator").order_by("person__username"))
    reasons = [
        *(getattr(needs, name) for name in ("LABELLED", "ANNOTATED", "SKIPPED", "QUOTA", "NOT_PLANNED")),
        eligibility.NOT_THIS_DIMENSION,
        eligibility.NOT_THIS_LANGUAGE,
        eligibility.OWN_MODEL,
    ]
    for reason in reasons:
        assert describe_obstacle(NeedReason(reason, members), "Safety", "zh").startswith("chen, lin, zhou ")
    assert describe_obstacle(NeedReason(eligibility.NOT_THIS_LANGUAGE, members[:1]), "Safety", "zh-Hans") == (
        "chen does not read zh-Hans"
    )
    many = members * 3
    assert (
        describe_obstacle(NeedReason(SKIPPED, many), "", "")
        == "chen, lin, zhou, chen, lin and 4 more skipped it"
    )


# ---------------------------------------------------------------- members


def test_a_members_limits_are_changed_on_their_page(manager: Client, batch: Batch, lin: Person) -> None:
    url = reverse("batch-member-limits", args=[batch.name, "lin", "annotator"])
    assert manager.get(url).status_code == 200
    answer = manager.post(url, {"quota": "2", "excluded_dimensions": ["safe"]})
    assert answer.status_code == 302
    member = batch.memberships.get(person=lin)
    assert (member.quota, member.excluded_dimensions) == (2, ["safe"])
    line = manager.get(reverse("batch-members", args=[batch.name])).context["rows"][1]
    assert (line["member"].quota, line["excluded"]) == (2, ["Safe prompts"])
    item = claim_next_task(batch=batch, person=lin)
    assert item is not None
    assert item.task.stratum.dimension == "unsafe"
    for fields in ({"quota": "-1"}, {"quota": "many"}, {"excluded_dimensions": ["odd"]}):
        assert manager.post(url, fields).status_code == 422
    assert manager.post(url, {}).status_code == 302
    assert batch.memberships.get(person=lin).quota is None


def test_limits_of_nobody_are_not_found(manager: Client, batch: Batch) -> None:
    for username, role in (("he", "annotator"), ("lin", "adjudicator"), ("lin", "king")):
        assert (
            manager.get(reverse("batch-member-limits", args=[batch.name, username, role])).status_code == 404
        )


@pytest.mark.both_databases
def test_the_plan_as_it_stands_is_shown_and_leaving_says_what_was_planned_again(
    manager: Client, guideline: Guideline, lin: Person, chen: Person, zhou: Person
) -> None:
    corpus = make_corpus(prompts=6, models=["m"])
    policy = Policy(pairing="balanced", seed=3)
    batch = make_batch(guideline, corpus, annotators=[lin, chen, zhou], name="b", policy=policy)
    shared = count_shared(batch)
    assert shared is not None
    # 6 tasks for 3 pairs: each pair shares 2, each person has 4.
    assert [person.username for person in shared.people] == ["chen", "lin", "zhou"]
    assert shared.rows == ((None, 2, 2), (2, None, 2), (2, 2, None))
    assert (shared.least, shared.most) == (2, 2)
    assert [member.planned for member in list_members(batch)] == [4, 4, 4]
    answer = manager.post(reverse("batch-member", args=["b", "zhou", "annotator"]), {"active": "0"})
    assert "4 items were planned again." in read_messages(answer)
    after = count_shared(batch)
    assert after is not None
    assert (after.rows[0][1], sum(Panel.objects.values_list("tasks_planned", flat=True))) == (6, 6)
    page = manager.get(reverse("batch-members", args=["b"])).content.decode()
    assert "6 each" in page


def test_a_pool_has_no_plan_to_show(manager: Client, batch: Batch) -> None:
    page = manager.get(reverse("batch-members", args=[batch.name]))
    assert page.context["shared"] is None
    assert [member.planned for member in list_members(batch)] == [None] * 4


def test_members_show_what_each_did_in_their_role(
    batch: Batch, lin: Person, chen: Person, zhou: Person, wu: Person
) -> None:
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    decide_next(batch, wu, 2)
    item = claim_next_task(batch=batch, person=zhou)
    assert item is not None
    release_assignment(assignment_id=item.pk, person=zhou, skip_reason="no")
    claim_next_task(batch=batch, person=zhou)
    set_limits(batch=batch, person=lin, role="annotator", quota=1)
    members = {member.membership.person.username: member for member in list_members(batch)}
    assert {
        name: (member.done, member.live, member.skipped, member.full) for name, member in members.items()
    } == {
        "lin": (1, 0, 0, True),
        "chen": (1, 0, 0, False),
        "zhou": (0, 1, 1, False),
        "wu": (1, 0, 0, False),
    }


def test_dimensions_are_named_in_the_readers_language(manager: Client, batch: Batch) -> None:
    for page in ("batch", "batch-tasks"):
        english = manager.get(reverse(page, args=[batch.name])).content.decode()
        chinese = manager.get(reverse(page, args=[batch.name]), headers={"Accept-Language": "zh-hans"})
        label = batch.guideline.document.dimension("safe")
        assert label is not None
        assert label.label["en"] in english
        assert label.label["zh"] in chinese.content.decode()
