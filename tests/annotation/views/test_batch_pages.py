from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from annotation.core.errors import AssayError, Conflict, NotFound
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import BatchSpec
from annotation.models import (
    Annotation,
    Assignment,
    AuditEvent,
    Batch,
    CorrectionRequest,
    Dataset,
    Guideline,
    Person,
    Prompt,
)
from annotation.selectors.batches.plan import Plan, measure_pace
from annotation.selectors.batches.progress import list_batch_rows, measure_annotations, measure_progress
from annotation.services.annotations.submission import handle_correction_request, revise
from annotation.services.assignments import claim_next_dispute, claim_next_task, release_assignment
from annotation.services.batches.batches import create_batch, set_state
from annotation.services.batches.members import join_batch, set_member_active
from annotation.services.batches.tasks import withdraw_tasks
from annotation.services.people.people import add_person, set_roles
from tests.support import (
    FLAMES_GUIDELINE,
    XSTEST_GUIDELINE,
    decide_next,
    label,
    label_next,
    make_batch,
    make_corpus,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


def pages(batch: Batch) -> list[str]:
    return [
        reverse("batches"),
        reverse("batch-dataset"),
        reverse("batch-new", args=["small"]),
        *(
            reverse(name, args=[batch.name])
            for name in (
                "batch",
                "batch-progress",
                "batch-close",
                "batch-members",
                "batch-items",
                "batch-tasks",
                "batch-needs",
                "batch-needs-notice",
            )
        ),
    ]


def posts(batch: Batch, person: Person) -> list[str]:
    return [
        reverse("batch-plan", args=["small"]),
        reverse("batch-state", args=[batch.name]),
        reverse("batch-member", args=[batch.name, person.username, "annotator"]),
        reverse("batch-member-limits", args=[batch.name, person.username, "annotator"]),
        reverse("batch-tasks", args=[batch.name]),
        reverse("batch-needs", args=[batch.name]),
        reverse("correction-handled", args=[batch.name, 1]),
    ]


def dispute(batch: Batch, first: Person, second: Person) -> None:
    label_next(batch, first, 1)
    label_next(batch, second, 3)


# ---------------------------------------------------------------- who may


def test_only_managers_open_the_pages(
    client: Client, batch: Batch, lin: Person, wu: Person, he: Person, stranger: Person, ma: Person
) -> None:
    for person in (lin, wu, he, stranger):
        client.force_login(person)
        assert [client.get(page).status_code for page in pages(batch)] == [403] * 11
        assert [client.post(page).status_code for page in posts(batch, lin)] == [403] * 7
    client.force_login(ma)
    assert [client.get(page).status_code for page in pages(batch)] == [200] * 11


def test_anonymous_is_sent_to_sign_in(client: Client, batch: Batch, lin: Person) -> None:
    answers = [client.get(page) for page in pages(batch)] + [client.post(page) for page in posts(batch, lin)]
    assert {(answer.status_code, answer["location"].split("?")[0]) for answer in answers} == {
        (302, reverse("login"))
    }


def test_an_unknown_batch_is_not_found(manager: Client) -> None:
    assert manager.get(reverse("batch", args=["nowhere"])).status_code == 404


# ---------------------------------------------------------------- blindness


@pytest.mark.both_databases
def test_a_manager_who_works_in_the_batch_sees_nothing_that_tells_of_labels(
    client: Client, batch: Batch, lin: Person, chen: Person, ma: Person
) -> None:
    join_batch(batch=batch, role="annotator", people=[ma])
    dispute(batch, lin, chen)
    assignment = claim_next_task(batch=batch, person=lin)
    assert assignment is not None
    release_assignment(assignment_id=assignment.pk, person=lin, skip_reason="looks garbled")
    client.force_login(ma)
    for name in ("batch", "batch-progress", "batch-close"):
        page = client.get(reverse(name, args=[batch.name]))
        assert page.context["progress"] is None
        # 8 tasks, 2 annotations each; 2 are submitted. That much everybody may know.
        assert "2 of 16" in page.content.decode()
        assert "garbled" not in page.content.decode()
        assert "Disputed" not in page.content.decode()
    for name in ("batch-items", "batch-tasks", "batch-needs", "batch-needs-notice"):
        assert client.get(reverse(name, args=[batch.name])).status_code == 403
    people = client.get(reverse("batch-members", args=[batch.name]))
    assert [line["counts"] for line in people.context["rows"]] == [None] * 5
    assert people.context["shared"] is None
    line = client.get(reverse("batches")).context["rows"][0]["line"]
    assert (line.settled, line.disputed, line.overall.submitted) == (None, None, 2)


def test_the_counts_open_when_the_batch_closes(
    client: Client, batch: Batch, lin: Person, chen: Person, ma: Person, he: Person
) -> None:
    join_batch(batch=batch, role="annotator", people=[ma])
    dispute(batch, lin, chen)
    set_state(batch=batch, state="closed", actor=he)
    client.force_login(ma)
    page = client.get(reverse("batch", args=[batch.name]))
    assert page.context["progress"].states == {"open": 7, "disputed": 1}
    assert client.get(reverse("batch-items", args=[batch.name])).status_code == 200


def test_whoever_judges_a_dataset_blind_makes_a_batch_of_it_without_its_models_names(
    client: Client, batch: Batch, ma: Person, manager: Client
) -> None:
    new = reverse("batch-new", args=["small"])
    assert "Secretive-7B" in manager.get(new).content.decode()
    join_batch(batch=batch, role="annotator", people=[ma])
    page = manager.get(new)
    assert "models" not in page.context["form"].fields
    for content in (page.content.decode(), manager.get(reverse("batch-dataset")).content.decode()):
        assert "Secretive-7B" not in content
        assert "Hidden-13B" not in content


@pytest.mark.both_databases
def test_whoever_could_read_the_results_may_not_join_once_there_are_any(
    batch: Batch, lin: Person, he: Person, ma: Person, stranger: Person
) -> None:
    join_batch(batch=batch, role="annotator", people=[he])  # nothing to read yet
    label_next(batch, lin, 3)
    with pytest.raises(Conflict, match="ma could already read the labels"):
        join_batch(batch=batch, role="annotator", people=[stranger, ma])
    assert not batch.memberships.filter(person__in=[ma, stranger]).exists()
    join_batch(batch=batch, role="adjudicator", people=[stranger])
    join_batch(batch=batch, role="adjudicator", people=[he])  # blind since before the first label


# ---------------------------------------------------------------- progress


def test_progress_counts_states_dimensions_and_people(
    batch: Batch, lin: Person, chen: Person, zhou: Person, wu: Person
) -> None:
    # Tasks 0 and 1 are of the prompt p0 (safe), 2 and 3 of p1 (unsafe), and so on: 4 of each dimension.
    # Nobody gets the same prompt twice running: after task 0 comes task 2, then task 1.
    dispute(batch, lin, chen)  # task 0
    decide_next(batch, wu, 2)
    label_next(batch, lin, 3)  # task 2
    label_next(batch, chen, 3)
    dispute(batch, lin, chen)  # task 1
    claim_next_task(batch=batch, person=zhou)  # task 3
    counts = measure_progress(batch)
    assert counts.states == {"open": 5, "agreed": 1, "disputed": 1, "adjudicated": 1}
    assert (counts.tasks, counts.settled, counts.waiting, counts.stuck) == (8, 2, 1, False)
    assert [
        (
            dimension.name,
            dimension.tasks,
            dimension.settled,
            dimension.disputed,
            dimension.needed,
            dimension.submitted,
        )
        for dimension in counts.dimensions
    ] == [
        ("safe", 4, 1, 1, 8, 4),
        ("unsafe", 4, 1, 0, 8, 2),
    ]
    people = {person.person.username: person for person in counts.people}
    assert {name: (person.submitted, person.decided, person.live) for name, person in people.items()} == {
        "lin": (3, 0, 0),
        "chen": (3, 0, 0),
        "zhou": (0, 0, 1),
        "wu": (0, 1, 0),
    }
    overall_counts = measure_annotations(batch)
    assert (overall_counts.submitted, overall_counts.needed, overall_counts.last_day) == (6, 16, 6)


def test_a_dispute_that_an_adjudicator_holds_does_not_wait(
    batch: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    dispute(batch, lin, chen)
    assert measure_progress(batch).waiting == 1
    claim_next_dispute(batch=batch, person=wu)
    assert measure_progress(batch).waiting == 0
    set_member_active(batch=batch, person=wu, role="adjudicator", active=False)
    counts = measure_progress(batch)
    assert (counts.waiting, counts.stuck) == (1, True)


def test_a_withdrawn_task_asks_for_nothing(batch: Batch, lin: Person) -> None:
    label_next(batch, lin, 3)
    ends = batch.tasks.filter(position__in=[0, 7]).values_list("pk", flat=True)
    withdraw_tasks(batch=batch, tasks=list(ends), reason="broken")
    # 6 of 8 tasks are left, 2 annotations each; the one annotation was of a withdrawn task.
    assert (measure_annotations(batch).submitted, measure_annotations(batch).needed) == (0, 12)
    assert [dimension.tasks for dimension in measure_progress(batch).dimensions] == [3, 3]
    assert measure_progress(batch).states["withdrawn"] == 2


def test_the_number_of_queries_does_not_grow_with_tasks_people_or_batches(
    guideline: Guideline, lin: Person, chen: Person, ma: Person
) -> None:
    many = [add_person(name=f"p{number}", roles=["annotator"]) for number in range(6)]
    small = make_batch(guideline, make_corpus(prompts=1, models=["a"]), annotators=[lin, chen], name="s")
    big_corpus = make_corpus(prompts=8, models=["b"], name="big", dimensions=["safe", "unsafe", "", "odd"])
    big = make_batch(guideline, big_corpus, annotators=[lin, chen, *many], name="b")
    for person in (*many, lin):
        label_next(big, person, 2)

    def queries(*batches: Batch) -> tuple[int, int]:
        fresh = list(Batch.objects.select_related("guideline").filter(pk__in=[batch.pk for batch in batches]))
        with CaptureQueriesContext(
            connection,
        ) as listing:
            list_batch_rows(fresh, ma)
        with CaptureQueriesContext(connection) as page:
            measure_annotations(fresh[0])
            measure_progress(fresh[0])
        return len(listing), len(page)

    assert queries(small) == (5, 12)
    assert queries(big, small) == (5, 12)


def test_the_live_part_reloads_the_page_once_the_batch_is_not_open_any_more(
    manager: Client, batch: Batch
) -> None:
    live = reverse("batch-progress", args=[batch.name])
    assert "HX-Refresh" not in manager.get(live)
    assert "every 5s" in manager.get(reverse("batch", args=[batch.name])).content.decode()
    set_state(batch=batch, state="paused")
    assert manager.get(live)["HX-Refresh"] == "true"
    assert "every 5s" not in manager.get(reverse("batch", args=[batch.name])).content.decode()


# ---------------------------------------------------------------- opening, pausing, closing


def test_a_manager_pauses_goes_on_and_closes(manager: Client, batch: Batch, ma: Person) -> None:
    change = reverse("batch-state", args=[batch.name])
    for state in ("paused", "open", "closed"):
        assert manager.post(change, {"state": state}).status_code == 302
        batch.refresh_from_db()
        assert batch.state == state
    assert manager.post(change, {"state": "open"}).status_code == 409
    assert [event.actor for event in AuditEvent.objects.filter(verb="batch_closed")] == [ma]


@pytest.mark.parametrize("state", ["", "draft", "ajar"])
def test_no_other_state_can_be_asked_for(manager: Client, batch: Batch, state: str) -> None:
    assert manager.post(reverse("batch-state", args=[batch.name]), {"state": state}).status_code == 400
    batch.refresh_from_db()
    assert batch.state == "open"


def test_closing_asks_first_and_says_what_stays_undone(
    manager: Client, batch: Batch, lin: Person, chen: Person
) -> None:
    dispute(batch, lin, chen)
    page = manager.get(reverse("batch-close", args=[batch.name])).content.decode()
    assert "This cannot be undone" in page
    assert "7 responses are not fully annotated" in page
    assert "1 dispute stays undecided" in page
    batch.refresh_from_db()
    assert batch.state == "open"


def test_a_draft_with_too_few_annotators_cannot_be_opened(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person
) -> None:
    draft = create_batch(
        BatchSpec(name="d", guideline=guideline, dataset=dataset, annotators=[lin], open_now=False)
    )
    with pytest.raises(AssayError, match="at least 2 annotators; 1 are named"):
        set_state(batch=draft, state="open")
    join_batch(batch=draft, role="annotator", people=[chen])
    assert set_state(batch=draft, state="open").state == "open"


# ---------------------------------------------------------------- people in mid-batch


def test_a_manager_adds_people_in_mid_batch(manager: Client, batch: Batch, stranger: Person) -> None:
    late = add_person(name="late", roles=["annotator"])
    url = reverse("batch-members", args=[batch.name])
    assert manager.post(url, {"role": "annotator", "annotator-people": [late.pk]}).status_code == 302
    assert claim_next_task(batch=batch, person=late) is not None
    # Only people of the group are offered.
    assert manager.post(url, {"role": "annotator", "annotator-people": [stranger.pk]}).status_code == 422
    assert manager.post(url, {"role": "manager"}).status_code == 422
    assert not batch.memberships.filter(person=stranger).exists()


@pytest.mark.both_databases
def test_letting_a_member_go_gives_back_what_is_at_hand_and_keeps_what_was_handed_in(
    manager: Client, batch: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    label_next(batch, lin, 3)
    held = claim_next_task(batch=batch, person=lin)
    assert held is not None
    url = reverse("batch-member", args=[batch.name, "lin", "annotator"])
    assert manager.post(url, {"active": "0"}).status_code == 302
    held.refresh_from_db()
    held.task.refresh_from_db()
    assert (held.state, held.task.slots_taken) == ("released", 0)
    assert Annotation.objects.filter(assignment__person=lin).count() == 1
    with pytest.raises(NotFound):
        claim_next_task(batch=batch, person=lin)
    event = AuditEvent.objects.get(verb="member_leaves")
    assert (event.data["person"], event.data["released"]) == ("lin", 1)
    assert manager.post(url, {"active": "0"}).status_code == 302  # again changes nothing
    assert AuditEvent.objects.filter(verb="member_leaves").count() == 1
    assert manager.post(url, {"active": "1"}).status_code == 302
    next_claim = claim_next_task(batch=batch, person=lin)  # what was given back comes last
    assert next_claim is not None
    assert next_claim.task != held.task


@pytest.mark.both_databases
def test_letting_an_annotator_go_leaves_their_dispute_alone(
    batch: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    join_batch(batch=batch, role="annotator", people=[wu])
    dispute(batch, lin, chen)
    held = claim_next_dispute(batch=batch, person=wu)
    assert held is not None
    set_member_active(batch=batch, person=wu, role="annotator", active=False)
    held.refresh_from_db()
    assert held.state == "claimed"
    set_member_active(batch=batch, person=wu, role="adjudicator", active=False)
    held.refresh_from_db()
    held.task.refresh_from_db()
    assert (held.state, held.task.slots_taken) == ("released", 2)


def test_the_people_of_a_closed_batch_stay_as_they_are(batch: Batch, lin: Person, he: Person) -> None:
    set_state(batch=batch, state="closed")
    with pytest.raises(Conflict):
        set_member_active(batch=batch, person=lin, role="annotator", active=False)
    with pytest.raises(Conflict):
        join_batch(batch=batch, role="annotator", people=[he])
    with pytest.raises(NotFound):
        set_member_active(batch=batch, person=he, role="annotator", active=False)


# ---------------------------------------------------------------- skipped items, corrections


@pytest.fixture
def correction(batch: Batch, lin: Person, chen: Person) -> CorrectionRequest:
    """lin said 1, chen 3; then lin would rather have said 3."""
    assignment = claim_next_task(batch=batch, person=lin)
    assert assignment is not None
    label(assignment, lin, 1)
    label_next(batch, chen, 3)
    late = Submission(labels={"compliance": 3}, reason="misread <b>it</b>")
    assert revise(assignment_id=assignment.pk, person=lin, key="late", work=late) is None
    return CorrectionRequest.objects.get()


def test_a_manager_reads_skips_and_corrections(
    manager: Client, batch: Batch, chen: Person, correction: CorrectionRequest
) -> None:
    assignment = claim_next_task(batch=batch, person=chen)
    assert assignment is not None
    release_assignment(assignment_id=assignment.pk, person=chen, skip_reason="not in a language I read")
    page = manager.get(reverse("batch-items", args=[batch.name])).content.decode()
    assert "not in a language I read" in page
    assert "misread &lt;b&gt;it&lt;/b&gt;" in page
    assert "1 request for correction" in manager.get(reverse("batch", args=[batch.name])).content.decode()


def test_a_correction_is_marked_as_handled_once(
    manager: Client, batch: Batch, correction: CorrectionRequest, ma: Person, he: Person
) -> None:
    url = reverse("correction-handled", args=[batch.name, correction.pk])
    assert manager.post(url).status_code == 302
    correction.refresh_from_db()
    first = correction.handled_at
    assert (correction.handled_by, first is not None) == (ma, True)
    assert handle_correction_request(request=correction, actor=he).handled_at == first
    assert correction.handled_by == ma
    assert AuditEvent.objects.filter(verb="handle_correction").count() == 1
    # The label itself stands.
    assert Annotation.objects.get(assignment=correction.assignment_id, current=True).labels == {
        "compliance": 1
    }


def test_who_judges_the_same_responses_in_another_batch_reads_no_corrections(
    client: Client,
    batch: Batch,
    guideline: Guideline,
    dataset: Dataset,
    correction: CorrectionRequest,
    ma: Person,
):
    make_batch(guideline, dataset, annotators=[ma, batch.memberships.all()[0].person], name="other")
    client.force_login(ma)
    handled = reverse("correction-handled", args=[batch.name, correction.pk])
    assert client.get(reverse("batch-items", args=[batch.name])).status_code == 403
    assert client.post(handled).status_code == 403
    set_state(batch=Batch.objects.get(name="other"), state="closed")
    assert client.get(reverse("batch-items", args=[batch.name])).status_code == 200


def test_a_correction_is_reached_through_its_own_batch_only(
    manager: Client,
    guideline: Guideline,
    dataset: Dataset,
    correction: CorrectionRequest,
    lin: Person,
    chen: Person,
) -> None:
    make_batch(guideline, dataset, annotators=[lin, chen], name="other")
    assert manager.post(reverse("correction-handled", args=["other", correction.pk])).status_code == 404
    correction.refresh_from_db()
    assert correction.handled_at is None


# ---------------------------------------------------------------- making one


def form(guideline: Guideline, *people: Person, **changes: object) -> dict[str, object]:
    return {
        "name": "new one",
        "guideline": guideline.pk,
        "annotators": [person.pk for person in people],
        "overlap": 2,
        "tolerance": 0,
        "lease_minutes": 20,
    } | changes


def test_a_manager_makes_and_opens_a_batch(
    manager: Client, guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, wu: Person, ma: Person
) -> None:
    model = dataset.prompts.get(key="p0").responses.get(model__name="Hidden-13B").model
    sent = form(guideline, lin, chen, models=[model.pk], adjudicators=[wu.pk], due_date="2030-01-31")
    answer = manager.post(reverse("batch-new", args=["small"]), sent)
    assert answer["location"] == reverse("batch", args=["new one"])
    made = Batch.objects.get(name="new one")
    assert (made.state, made.lease_seconds, str(made.due_date), made.created_by) == (
        "open",
        1200,
        "2030-01-31",
        ma,
    )
    assert set(made.tasks.values_list("response__model__name", flat=True)) == {"Hidden-13B"}
    assert set(made.memberships.values_list("person__username", "role")) == {
        ("lin", "annotator"),
        ("chen", "annotator"),
        ("wu", "adjudicator"),
    }


def test_a_draft_waits_to_be_opened(
    manager: Client, guideline: Guideline, dataset: Dataset, lin: Person
) -> None:
    manager.post(reverse("batch-new", args=["small"]), form(guideline, lin, draft="1"))
    page = manager.get(reverse("batch", args=["new one"]))
    assert page.context["plan"].short_of_annotators
    assert manager.post(reverse("batch-state", args=["new one"]), {"state": "open"}).status_code == 400


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "a/b"}, "cannot be a name"),
        ({"name": "first"}, "already a batch named first"),
        ({"overlap": 10001}, "less than or equal to 10000"),
        ({"annotators": []}, "at least 2 annotators; 0 are named"),
        ({"guideline": 10**6}, "Select a valid choice"),
    ],
)
def test_a_form_with_an_error_comes_back_with_its_words_and_makes_nothing(
    manager: Client,
    batch: Batch,
    guideline: Guideline,
    lin: Person,
    chen: Person,
    changes: dict[str, object],
    words: str,
) -> None:
    answer = manager.post(reverse("batch-new", args=["small"]), form(guideline, lin, chen) | changes)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert Batch.objects.count() == 1


def test_the_plan_says_how_much_everybody_gets_and_how_long_it_takes(
    manager: Client, guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, zhou: Person
) -> None:
    sent = form(guideline, lin, chen, zhou, seconds=30)
    page = manager.post(reverse("batch-plan", args=["small"]), sent)
    plan = page.context["plan"]
    # 8 responses, 2 annotations each: 16 for 3 people, 16 / 3 rounded up; 6 x 30 s = 3 min, 16 x 30 s = 8 min.
    assert (plan.tasks, plan.annotations, plan.each) == (8, 16, 6)
    assert (page.context["each_time"], page.context["total_time"]) == ("3 min", "8 min")
    assert "No adjudicator" in page.content.decode()


def test_the_plan_of_a_form_half_filled_names_what_is_missing(
    manager: Client, guideline: Guideline, dataset: Dataset
) -> None:
    page = manager.post(reverse("batch-plan", args=["small"]), {"name": "", "overlap": "x"})
    assert page.status_code == 200
    assert page.context["plan"].each is None
    assert "At least 2 annotators" in page.content.decode()
    assert page.context["each_time"] == "-"


def test_the_time_is_measured_on_earlier_annotations(batch: Batch, lin: Person, chen: Person) -> None:
    assert measure_pace("xstest") is None
    for person in (lin, chen):
        label_next(batch, person, 3)
    label_next(batch, lin, 3)
    for annotation, seconds in zip(Annotation.objects.order_by("pk"), (10, 50, None), strict=True):
        Annotation.objects.filter(pk=annotation.pk).update(seconds=seconds)
    measured = measure_pace("xstest")
    assert measured is not None
    assert (measured.seconds, measured.n) == (30, 2)  # the median of 10 and 50; who sent none is left out
    assert measure_pace("flames") is None


def test_a_plan_without_people_or_pace_is_undefined_and_not_nought() -> None:
    plan = Plan(dimensions={"safe": 5}, overlap=2, annotators=0, adjudicators=0, seconds=None)
    assert (plan.each, plan.each_seconds, plan.total_seconds) == (None, None, None)


def test_the_first_page_leads_to_what_is_missing(manager: Client, lin: Person, chen: Person) -> None:
    def content() -> str:
        return manager.get(reverse("batches")).content.decode()

    assert reverse("imports") in content().split("<main")[1]
    dataset = make_corpus(prompts=1, models=["m"])
    assert "No published guideline yet" in content()

    guideline = XSTEST_GUIDELINE.load()
    assert "No batch yet" in content()
    make_batch(guideline, dataset, annotators=[lin, chen])
    assert "0 of 2" in content()


def test_assignments_of_the_past_do_not_count_as_at_hand(batch: Batch, lin: Person) -> None:
    held = claim_next_task(batch=batch, person=lin)
    assert held is not None
    Assignment.objects.filter(pk=held.pk).update(lease_expires=held.claimed_at)
    assert {person.person.username: person.live for person in measure_progress(batch).people}["lin"] == 0


def test_a_batch_leads_to_its_agreement_and_to_a_release_for_who_may_make_one(
    client: Client, batch: Batch, ma: Person
) -> None:
    client.force_login(ma)
    page = client.get(reverse("batch", args=[batch.name])).content.decode()
    assert f"{reverse('agreement')}?batch={batch.name}" in page
    assert reverse("releases") in page
    assert reverse("release-new") not in page
    set_roles(person=ma, roles=["manager", "researcher"])
    page = client.get(reverse("batch", args=[batch.name])).content.decode()
    assert f"{reverse('release-new')}?batches={batch.pk}" in page


def test_the_guideline_that_fits_and_a_free_name_are_filled_in(
    manager: Client, batch: Batch, lin: Person, chen: Person
) -> None:
    flames = FLAMES_GUIDELINE.load()  # published later, and of other dimensions
    make_corpus(prompts=2, models=["Hidden-13B"], name="other")
    chosen_option = re.compile(r'<option value="(\d+)" selected>')
    page = manager.get(reverse("batch-new", args=["other"])).content.decode()
    assert chosen_option.findall(page)[0] == str(batch.guideline.pk) != str(flames.pk)
    assert 'name="name" value="other"' in page
    make_batch(batch.guideline, Dataset.objects.get(name="other"), annotators=[lin, chen], name="other")
    page = manager.get(reverse("batch-new", args=["other"])).content.decode()
    assert 'name="name" value="other-2"' in page
    Prompt.objects.filter(dataset__name="other").update(dimension="Fairness")
    page = manager.get(reverse("batch-new", args=["other"])).content.decode()
    assert chosen_option.findall(page)[0] == str(flames.pk)
