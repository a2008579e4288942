"""Annotator wellbeing: what is counted, what a used-up budget keeps back, topics that go to others."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries

from annotation.core.errors import NotFound
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.models import (
    Adjudication,
    Assignment,
    AuditEvent,
    Batch,
    Exposure,
    Guideline,
    Membership,
    Person,
    WellbeingSettings,
)
from annotation.selectors.batches.needs import list_needs
from annotation.selectors.wellbeing import (
    build_item_wellbeing,
    is_budget_used_up,
    list_exposure_rows,
    list_readers,
)
from annotation.services.adjudication.disputes import adjudicate
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_dispute, claim_next_task, release_assignment
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import join_batch
from annotation.services.guidelines import load_guideline
from annotation.services.people.people import (
    activate_person,
    add_person,
    deactivate_person,
    set_daily_exposure,
    set_opted_out,
)
from annotation.services.wellbeing import set_wellbeing
from tests.annotation.api.test_api import client_of
from tests.annotation.invariants import nothing_is_broken
from tests.annotation.services.test_plan import balanced, loads, people, plan_of
from tests.annotation.views.test_work_pages import text, visit
from tests.support import (
    XSTEST_GUIDELINE,
    decide_next,
    label,
    label_next,
    make_batch,
    make_corpus,
    make_repeat,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
COMPLY = Submission(labels={"compliance": 3})


@pytest.fixture
def graded(db: None) -> Guideline:
    """As the cast's guideline, but what is unsafe to answer is hard to read, too: severity 2, the safe 0."""
    text = XSTEST_GUIDELINE.path.read_text(encoding="utf-8")
    text = text.replace("  - name: unsafe\n", "  - name: unsafe\n    severity: 2\n")
    return load_guideline(text=text, path="graded.yaml", publish=True)


@pytest.fixture
def mixed(graded: Guideline, lin: Person, chen: Person, zhou: Person, wu: Person) -> Batch:
    """Six prompts, in turn safe and unsafe; no dispute comes back to be read again."""
    corpus = make_corpus(prompts=6, models=["A"])
    batch = make_batch(graded, corpus, annotators=[lin, chen, zhou], adjudicators=[wu])
    batch.second_reading_share = 0
    batch.save(update_fields=["second_reading_share"])
    return batch


def budget(points: int | None) -> None:
    WellbeingSettings.objects.update_or_create(pk=WellbeingSettings.ONE, defaults={"daily_exposure": points})


def points_of(person: Person) -> list[int]:
    return list(Exposure.objects.filter(person=person).order_by("day").values_list("points", flat=True))


def dimension(assignment: Assignment | None) -> str:
    assert assignment is not None
    return Assignment.objects.get(pk=assignment.pk).task.stratum.dimension


def work_through(batch: Batch, person: Person) -> list[str]:
    """Label until nothing comes; the dimensions in their order."""
    seen = []
    while (assignment := claim_next_task(batch=batch, person=person)) is not None:
        seen.append(dimension(assignment))
        label(assignment, person, 3)
    return seen


def claim_of(batch: Batch, person: Person, topic: str) -> Assignment:
    """Label until an item of this dimension is at hand."""
    while (assignment := claim_next_task(batch=batch, person=person)) is not None:
        if dimension(assignment) == topic:
            return Assignment.objects.get(pk=assignment.pk)
        label(assignment, person, 3)
    raise AssertionError(f"nothing of {topic} came")


# Counting.


def test_what_is_submitted_or_skipped_counts_by_its_severity_and_once(mixed: Batch, lin: Person):
    item, key = claim_of(mixed, lin, "unsafe"), str(uuid4())
    assert (
        points_of(lin) == []
    )  # the safe ones before it count nothing, and what is only on the screen neither
    submit(assignment_id=item.pk, person=lin, key=key, work=COMPLY)
    submit(assignment_id=item.pk, person=lin, key=key, work=COMPLY)
    revise(assignment_id=item.pk, person=lin, key=str(uuid4()), work=Submission(labels={"compliance": 1}))
    assert points_of(lin) == [2]
    other = claim_of(mixed, lin, "unsafe")
    release_assignment(assignment_id=other.pk, person=lin)
    assert points_of(lin) == [2]  # given back without a word: nobody read it
    release_assignment(assignment_id=other.pk, person=lin, skip_reason="I know the author")
    release_assignment(assignment_id=other.pk, person=lin, skip_reason="I know the author")
    assert points_of(lin) == [4]


def test_a_decision_counts_for_the_adjudicator(
    mixed: Batch, lin: Person, chen: Person, zhou: Person, wu: Person
):
    for person, value in ((lin, 1), (chen, 3), (zhou, 3)):
        while label_next(mixed, person, value):
            pass
    while decide_next(mixed, wu, 3):
        pass
    decided = list(
        Adjudication.objects.values_list("assignment", "idempotency_key", "task__stratum__dimension")
    )
    for assignment, key, _dimension in decided:
        work = Submission(labels={"compliance": 3}, rationale="decided", reason="reading_slip")
        assert not adjudicate(assignment_id=assignment, person=wu, key=key, work=work).created
    unsafe = [dimension_name for *_of_it, dimension_name in decided].count("unsafe")
    assert unsafe
    assert points_of(wu) == [2 * unsafe]


def test_a_day_is_a_day_where_the_site_is(
    mixed: Batch, lin: Person, settings: object, monkeypatch: pytest.MonkeyPatch
):
    settings.TIME_ZONE = "Asia/Shanghai"  # type: ignore[attr-defined]
    item = claim_of(mixed, lin, "unsafe")
    late = datetime(2026, 11, 21, 17, 30, tzinfo=ZoneInfo("UTC"))  # half past one of the next day over there
    Assignment.objects.filter(pk=item.pk).update(lease_expires=late + timedelta(hours=1))
    monkeypatch.setattr(timezone, "now", lambda: late)
    label(item, lin, 3)
    assert [str(exposure.day) for exposure in Exposure.objects.filter(person=lin)] == ["2026-11-22"]


# The budget.


def test_a_used_up_budget_keeps_the_severe_back_and_nothing_else(mixed: Batch, lin: Person):
    budget(3)
    assert work_through(mixed, lin) == ["safe", "unsafe", "safe", "unsafe", "safe"]  # 2, then 4 of 3
    assert points_of(lin) == [4]
    assert is_budget_used_up(lin)


def test_the_rest_comes_on_the_next_day_because_the_cursor_stayed_before_it(
    graded: Guideline, lin: Person, chen: Person, monkeypatch: pytest.MonkeyPatch
):
    """Also where the search went far beyond what it passed over, and came to the end of the batch."""
    monkeypatch.setattr("annotation.services.assignments.search.CURSOR_STEP", 1)
    corpus = make_corpus(prompts=8, models=["A"], dimensions=("unsafe", "unsafe", "safe", "safe"))
    batch = make_batch(graded, corpus, annotators=[lin, chen])
    budget(1)
    assert work_through(batch, lin) == ["unsafe", "safe", "safe", "safe", "safe"]
    assert claim_next_task(batch=batch, person=lin) is None
    assert Membership.objects.get(batch=batch, person=lin).cursor <= 1
    nothing_is_broken(batch)
    assert list_needs(batch, limit=10) == []  # nobody else is asked for: it waits for tomorrow
    Exposure.objects.filter(person=lin).update(day=timezone.localdate() - timedelta(days=1))
    assert work_through(batch, lin) == ["unsafe"]
    budget(None)
    assert work_through(batch, lin) == ["unsafe", "unsafe"]
    assert work_through(batch, chen) == ["unsafe"] * 2 + ["safe"] * 2 + ["unsafe"] * 2 + ["safe"] * 2


def test_what_is_at_hand_may_be_finished_and_a_claim_ahead_counts(
    graded: Guideline, lin: Person, chen: Person
):
    corpus = make_corpus(prompts=9, models=["A"], dimensions=("unsafe",))
    batch = make_batch(graded, corpus, annotators=[lin, chen])
    budget(2)
    first = claim_next_task(batch=batch, person=lin)
    assert claim_next_task(batch=batch, person=lin, ahead=True) is None
    budget(3)
    ahead = claim_next_task(batch=batch, person=lin, ahead=True)
    assert first is not None
    assert ahead is not None
    budget(0)
    second_assignment = claim_next_task(batch=batch, person=lin)
    assert second_assignment is not None
    assert second_assignment.pk == first.pk
    label(first, lin, 3)
    label(ahead, lin, 3)
    assert claim_next_task(batch=batch, person=lin) is None
    assert points_of(lin) == [4]


def test_a_person_may_have_a_budget_of_their_own(mixed: Batch, lin: Person, chen: Person, ma: Person):
    budget(1)
    set_daily_exposure(person=chen, daily_exposure=100, actor=ma)
    assert work_through(mixed, chen).count("unsafe") == 3
    assert work_through(mixed, lin).count("unsafe") == 1
    set_daily_exposure(person=chen, daily_exposure=0, actor=ma)
    assert is_budget_used_up(chen)
    event = AuditEvent.objects.filter(verb="set_daily_exposure").latest("id")
    assert (event.actor, event.target, event.data) == (ma, "person:chen", {"daily_exposure": 0})


def test_disputes_wait_for_tomorrow_likewise(
    mixed: Batch, lin: Person, chen: Person, zhou: Person, wu: Person
):
    for person, value in ((lin, 1), (chen, 3), (zhou, 3)):
        while label_next(mixed, person, value):
            pass
    budget(1)
    decided = []
    while (assignment := claim_next_dispute(batch=mixed, person=wu)) is not None:
        decided.append(dimension(assignment))
        assert decide_next(mixed, wu, 2)
    assert decided.count("unsafe") == 1
    assert (
        decided.count("safe") == mixed.tasks.filter(stratum__dimension="safe").exclude(state="agreed").count()
    )
    budget(None)
    assert dimension(claim_next_dispute(batch=mixed, person=wu)) == "unsafe"


# Topics.


def test_who_opted_out_is_given_nothing_of_the_topic_and_gives_back_what_they_have(
    mixed: Batch, lin: Person, chen: Person
):
    item = claim_of(mixed, lin, "unsafe")
    assert set_opted_out(person=lin, dimensions=["unsafe", "unsafe"]) == 1
    item.refresh_from_db()
    assert (item.state, item.skip_reason) == ("released", "")
    assert set(work_through(mixed, lin)) <= {"safe"}
    assert points_of(lin) == []
    assert list_needs(mixed, limit=10) == []  # chen and zhou are left
    set_opted_out(person=lin, dimensions=[])
    assert work_through(mixed, lin) == ["unsafe"] * 3  # also the one that they had before
    nothing_is_broken(mixed)


def test_a_claim_under_way_sees_what_was_opted_out_of_meanwhile(mixed: Batch, lin: Person):
    """The request that claims has read its person before."""
    stale = Person.objects.get(pk=lin.pk)
    assert stale.opted_out == []
    set_opted_out(person=lin, dimensions=["unsafe"])
    assert set(work_through(mixed, stale)) == {"safe"}


def test_an_adjudicator_opts_out_too(mixed: Batch, lin: Person, chen: Person, zhou: Person, wu: Person):
    for person, value in ((lin, 1), (chen, 3), (zhou, 3)):
        while label_next(mixed, person, value):
            pass
    while dimension(assignment := claim_next_dispute(batch=mixed, person=wu)) != "unsafe":
        decide_next(mixed, wu, 2)
    assert assignment is not None
    assert set_opted_out(person=wu, dimensions=["unsafe"]) == 1
    while decide_next(mixed, wu, 2):
        pass
    left = list_needs(mixed, limit=10)
    assert left
    assert {need.task.stratum.dimension for need in left} == {"unsafe"}
    assert {reason_row.reason for need in left for reason_row in need.whys} == {"does not read this topic"}


def test_a_repeat_adjudication_of_the_topic_goes_back_too(
    mixed: Batch, lin: Person, chen: Person, zhou: Person, wu: Person
):
    for person, value in ((lin, 1), (chen, 3), (zhou, 3)):
        while label_next(mixed, person, value):
            pass
    while decide_next(mixed, wu, 2):
        pass
    now = timezone.now()
    decided = mixed.tasks.filter(state="adjudicated", stratum__dimension="unsafe").first()
    assert decided is not None
    repeat = make_repeat(decided, due_at=now)
    assignment = claim_next_dispute(batch=mixed, person=wu)
    assert assignment is not None
    assert assignment.task_id == repeat.pk
    assert set_opted_out(person=wu, dimensions=["unsafe"]) == 1
    assignment.refresh_from_db()
    repeat.refresh_from_db()
    assert (assignment.state, repeat.state) == ("released", "disputed")
    assert claim_next_dispute(batch=mixed, person=wu) is None


def test_what_was_planned_for_them_is_planned_for_others(graded: Guideline, lin: Person, chen: Person):
    cast = [lin, chen, *people(2)]
    corpus = make_corpus(prompts=12, models=["A"])
    batch = make_batch(graded, corpus, annotators=cast, policy=Policy(pairing="balanced"))
    item = claim_of(batch, lin, "unsafe")
    set_opted_out(person=lin, dimensions=["unsafe"])
    plan = plan_of(batch)
    for task in batch.tasks.filter(stratum__dimension="unsafe"):
        assert len(plan[task.position]) == 2
        assert "lin" not in plan[task.position]
    assert loads(plan)["lin"] > 0
    item.refresh_from_db()
    assert item.state == "released"
    nothing_is_broken(batch)


def test_where_everybody_opted_out_the_items_need_somebody(
    mixed: Batch, chen: Person, zhou: Person, lin: Person
):
    for person in (lin, chen, zhou):
        set_opted_out(person=person, dimensions=["unsafe"])
    left = list_needs(mixed, limit=10)
    assert [need.task.stratum.dimension for need in left] == ["unsafe"] * 3
    assert {reason_row.reason for need in left for reason_row in need.whys} == {"does not read this topic"}
    nothing_is_broken(mixed)


# What an item's page does.


@pytest.mark.parametrize(
    ("blur", "severity", "expected"),
    [
        ("never", 3, False),
        ("severe", 1, False),
        ("severe", 2, True),
        ("always", 0, True),
    ],
)
def test_blur_follows_the_wish_and_the_severity(lin: Person, blur: str, severity: int, expected: bool):
    lin.blur = blur
    assert build_item_wellbeing(lin, severity).blur is expected


def test_the_page_knows_when_to_rest_and_whom_to_turn_to(lin: Person, ma: Person):
    state_before = build_item_wellbeing(lin, 1)
    assert (state_before.break_minutes, state_before.contacts, state_before.single_keys) == (None, "", True)
    set_wellbeing(
        daily_exposure=None, break_minutes=45, help_contacts={"en": " Call 1\nor 2 ", "zh": ""}, actor=ma
    )
    state_after = build_item_wellbeing(lin, 1)
    assert (state_after.break_minutes, state_after.contacts) == (45, "Call 1\nor 2")


# Deactivation: whoever is shut out is planned for no longer.


def test_what_was_planned_for_somebody_deactivated_is_planned_for_others(guideline: Guideline, ma: Person):
    cast = people(4)
    batch = balanced(guideline, cast, 12)
    item = claim_next_task(batch=batch, person=cast[0])
    assert item is not None
    assert label_next(batch, cast[0], 3)
    held = claim_next_task(batch=batch, person=cast[0])
    assert held is not None
    assert deactivate_person(person=cast[0], actor=ma) == 1
    plan = plan_of(batch)
    assert {len(names) for names in plan.values()} == {2}
    done = batch.tasks.get(assignments=item).position
    assert [position for position, names in plan.items() if "p0" in names] == [done]
    assert list_needs(batch, limit=20) == []
    nothing_is_broken(batch)
    for person in cast[1:]:
        while label_next(batch, person, 3):
            pass
    assert not batch.tasks.filter(state="open").exists()


def test_a_claim_that_waited_while_its_person_was_shut_out_gets_nothing(
    batch: Batch, lin: Person, ma: Person
):
    deactivate_person(person=Person.objects.get(pk=lin.pk), actor=ma)
    assert lin.is_active  # as the request that is under way knows them
    with pytest.raises(NotFound):
        claim_next_task(batch=batch, person=lin)
    assert not batch.assignments.exists()


def test_whoever_is_activated_again_is_planned_for_where_nobody_was_left(guideline: Guideline, ma: Person):
    cast = people(2)
    batch = balanced(guideline, cast, 6)
    deactivate_person(person=cast[0], actor=ma)
    assert len(list_needs(batch, limit=20)) == 0  # the other one still has a place on each
    work_through(batch, cast[1])
    assert len(list_needs(batch, limit=20)) == 6
    activate_person(person=Person.objects.get(pk=cast[0].pk), actor=ma)
    assert list_needs(batch, limit=20) == []
    assert len(work_through(batch, Person.objects.get(pk=cast[0].pk))) == 6
    nothing_is_broken(batch)


def test_a_closed_batch_keeps_its_plan_when_somebody_is_deactivated(guideline: Guideline, ma: Person):
    cast = people(3)
    batch = balanced(guideline, cast, 6)
    set_state(batch=batch, state="closed")
    before = plan_of(batch)
    deactivate_person(person=cast[0], actor=ma)
    assert plan_of(batch) == before


# The pages.


def test_the_page_and_the_api_say_that_today_is_enough(mixed: Batch, lin: Person):
    budget(0)
    work_through(mixed, lin)
    page = text(visit(lin).get(f"/work/{mixed.name}/"))
    assert "Enough for today" in page
    assert "You have labelled all" not in page
    assert client_of(lin).post(f"/api/v1/batches/{mixed.name}/next/").status_code == 204
    budget(None)
    work_through(mixed, lin)
    budget(0)
    assert "You have labelled all" in text(
        visit(lin).get(f"/work/{mixed.name}/")
    )  # nothing waits for tomorrow


def test_the_adjudicators_page_says_so_too(mixed: Batch, lin: Person, chen: Person, zhou: Person, wu: Person):
    for person, value in ((lin, 1), (chen, 3), (zhou, 3)):
        while label_next(mixed, person, value):
            pass
    budget(0)
    while decide_next(mixed, wu, 2):
        pass
    assert "Enough for today" in text(visit(wu).get(f"/disputes/{mixed.name}/"))


def test_everybody_sets_for_themselves_how_items_are_shown(mixed: Batch, lin: Person, chen: Person):
    visitor = visit(lin)
    display = {"blur": "severe", "text_size": "large", "line_height": "usual", "latin_serif": "on"}
    assert visitor.post("/account/wellbeing/", **display).status_code == 302
    lin.refresh_from_db()
    assert (lin.blur, lin.single_keys) == ("severe", False)
    assert (lin.text_size, lin.line_height, lin.latin_serif) == ("large", "usual", True)
    for wrong in ({"blur": "sometimes"}, {"text_size": "huge"}, {"line_height": ""}):
        assert visitor.post("/account/wellbeing/", **display | wrong).status_code == 422
    own, other = (re.search("<html[^>]*>", text(visit(reader).get("/account/")))[0] for reader in (lin, chen))
    assert re.findall(r"data-[^\s>]+", own) == ['data-text-size="large"', "data-latin-serif"]
    assert "data-" not in other
    acts = AuditEvent.objects.filter(target="person:lin", actor=lin)
    assert set(acts.values_list("verb", flat=True)) == {"sign_in"}


def test_a_topic_is_left_and_taken_back_on_ones_own_account(mixed: Batch, lin: Person, ma: Person):
    visitor, item = visit(lin, language="zh-hans"), claim_of(mixed, lin, "unsafe")
    assert "不安全的提示" in text(visitor.get("/account/"))
    visitor = visit(lin)
    assert visitor.post("/account/topics/", topics=["nonsense"]).status_code == 422
    answer = visitor.client.post("/account/topics/", {"topics": ["unsafe"]}, follow=True)
    assert "1 item in progress went back" in text(answer)
    item.refresh_from_db()
    assert item.state == "released"
    office = visit(ma)
    for url in (f"/batches/{mixed.name}/people/", "/people/lin/"):
        page = text(office.get(url))
        assert "oes not read" in page
        assert "refus" not in page.partition("<main")[2]
    # Also when the batch is over they may take it back: it stands on the page wherever it is opted out of.
    set_state(batch=mixed, state="closed")
    assert 'value="unsafe"' in text(visitor.get("/account/"))
    visitor.post("/account/topics/")
    lin.refresh_from_db()
    assert lin.opted_out == []


def test_a_manager_sets_the_budget_the_break_and_the_contacts(mixed: Batch, ma: Person, lin: Person):
    office = visit(ma)
    wishes = {"daily_exposure": 7, "break_minutes": 45, "contacts_zh": "找唐女士\n12356", "contacts_en": ""}
    assert office.post("/wellbeing/", **wishes).status_code == 302
    settings = WellbeingSettings.objects.get()
    assert (settings.daily_exposure, settings.break_minutes) == (7, 45)
    assert settings.help_contacts == {"zh": "找唐女士\n12356"}
    assert office.post("/wellbeing/", **{**wishes, "break_minutes": 0}).status_code == 422
    office.post("/people/lin/exposure/", daily_exposure=3)
    wrong = office.post("/people/lin/exposure/", daily_exposure=-1)
    assert wrong.status_code == 422
    assert 'value="-1"' in text(wrong)  # what was typed stays, with its error beside it
    lin.refresh_from_db()
    assert lin.daily_exposure == 3


def test_the_managers_page_lists_the_points_by_name_and_nobody_of_a_batch_judged_blind(
    graded: Guideline, mixed: Batch, ma: Person, lin: Person, chen: Person, wu: Person
):
    other = add_person(name="gao", roles=["annotator", "manager"])
    for person, points in ((wu, 40), (lin, 30), (chen, 90)):
        Exposure.objects.create(person=person, day=timezone.localdate(), points=points)
    budget(35)
    lines = visit(ma).get("/wellbeing/").context["rows"]
    assert [line["person"].username for line in lines] == ["chen", "gao", "lin", "wu", "zhou"]
    assert [line["days"][-1] for line in lines] == [
        (90, True),
        (0, False),
        (30, False),
        (40, True),
        (0, False),
    ]
    join_batch(batch=mixed, role="annotator", people=[other])
    page = visit(other).get("/wellbeing/")
    assert list(page.context["rows"]) == []
    assert "judge blind" in text(page)


def test_the_points_of_many_people_cost_no_more_queries(
    ma: Person, django_assert_num_queries: DjangoAssertNumQueries
):
    people(12)
    days = [timezone.localdate()]
    with django_assert_num_queries(3):
        assert len(list_exposure_rows(list(list_readers(ma)), days)) == 12
