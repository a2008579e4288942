"""Making a batch with a pairing: the form, the plan beside it, the command, and the job for very many responses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from itertools import combinations

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError
from annotation.domain.batch_spec import AnnotatorShare, BatchSpec, Policy
from annotation.models import (
    AuditEvent,
    Batch,
    Dataset,
    EvaluatedModel,
    Guideline,
    Job,
    Membership,
    Panel,
    Person,
    Prompt,
    Stratum,
    Task,
)
from annotation.selectors.batches.plan import Plan, plan_batch, plan_responses
from annotation.services import jobs
from annotation.services.batches import batches
from annotation.services.batches.batches import (
    check_batch,
    create_batch,
    create_or_enqueue_batch,
    execute_batch_job,
    filter_responses,
    set_state,
)
from annotation.services.batches.members import join_batch
from annotation.services.people.people import add_person, set_languages, set_own_models
from tests.support import make_batch, make_corpus

pytestmark = pytest.mark.django_db
NEW = "batch-new"


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


@pytest.fixture
def four(lin: Person, chen: Person, zhou: Person) -> list[Person]:
    return [lin, chen, zhou, add_person(name="gao", roles=["annotator"])]


def sent(guideline: Guideline, people: Sequence[Person], **changes: object) -> dict[str, object]:
    return {
        "name": "new one",
        "guideline": guideline.pk,
        "annotators": [person.pk for person in people],
        "overlap": 2,
        "tolerance": 0,
        "lease_minutes": 30,
        "pairing": "pool",
        "order": "prompts",
        "seed": 0,
        **changes,
    }


def loads_in(batch: Batch) -> dict[str, int]:
    """What the batch's panels plan for each person."""
    loads: Counter[str] = Counter()
    for panel in Panel.objects.filter(batch=batch):
        for member in panel.members.select_related("person"):
            loads[member.person.username] += panel.tasks_planned
    return dict(loads)


def shared_in(batch: Batch) -> dict[tuple[str, str], int]:
    shared: Counter[tuple[str, str]] = Counter()
    for panel in Panel.objects.filter(batch=batch):
        names = sorted(panel.members.values_list("person__username", flat=True))
        shared.update(dict.fromkeys(combinations(names, 2), panel.tasks_planned))
    return dict(shared)


def planned(plan: Plan) -> dict[str, int]:
    assert plan.sharing is not None
    return {row.person.username: row.tasks for row in plan.sharing.rows}


# ---------------------------------------------------------------- the form


def test_a_balanced_batch_is_made_as_its_plan_said(
    manager: Client, guideline: Guideline, four: list[Person]
) -> None:
    make_corpus(prompts=9, models=["a", "b", "c"], name="odd")
    form = sent(guideline, four, pairing="balanced", seed=5, order="shuffled")
    plan = manager.post(reverse("batch-plan", args=["odd"]), form).context["plan"]
    assert manager.post(reverse(NEW, args=["odd"]), form).status_code == 302
    batch = Batch.objects.get(name="new one")
    assert (batch.pairing, batch.order, batch.seed) == ("balanced", "shuffled", 5)
    assert planned(plan) == loads_in(batch) == planned(plan_batch(batch))
    # 27 tasks by 2 of 4 people: 54 / 4 is 13 or 14 each, and 27 / 6 pairs is 4 or 5.
    assert (plan.sharing.least, plan.sharing.most, plan.each) == (13, 14, 14)
    assert (plan.sharing.low, plan.sharing.high) == (4, 5)
    assert (min(shared_in(batch).values()), max(shared_in(batch).values())) == (4, 5)


def test_fixed_pairs_are_named_one_a_line_by_either_name(
    manager: Client, guideline: Guideline, dataset: Dataset, four: list[Person]
) -> None:
    Person.objects.filter(username="zhou").update(display_name="周杰")
    form = sent(guideline, [], pairing="fixed", pairs="lin + chen\n\n 周杰，gao \r\n")
    page = manager.post(reverse("batch-plan", args=["small"]), form)
    assert "Every pair gets exactly 4 items." in page.content.decode()
    assert manager.post(reverse(NEW, args=["small"]), form).status_code == 302
    batch = Batch.objects.get(name="new one")
    assert shared_in(batch) == {("chen", "lin"): 4, ("gao", "zhou"): 4}
    assert loads_in(batch) == planned(page.context["plan"])


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ("lin + chen\nlin + nobody", "Line 2: no annotator is named nobody."),
        ("lin + ma", "Line 1: no annotator is named ma."),
        ("lin, lin", "Line 1: somebody stands there twice."),
        ("lin + chen + zhou", "that is 3, and the overlap is 2"),
        ("", "Name the pairs"),
        ("lin + Twin", "no annotator is named Twin"),
    ],
)
def test_a_wrong_pair_is_told_with_its_line(
    manager: Client,
    guideline: Guideline,
    dataset: Dataset,
    four: list[Person],
    ma: Person,
    pairs: str,
    words: str,
) -> None:
    Person.objects.filter(username__in=["zhou", "gao"]).update(display_name="Twin")
    form = sent(guideline, four, pairing="fixed", pairs=pairs)
    answer = manager.post(reverse(NEW, args=["small"]), form)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert words in manager.post(reverse("batch-plan", args=["small"]), form).content.decode()
    assert not Batch.objects.exists()


def test_pairs_typed_before_another_pairing_was_chosen_do_no_harm(
    manager: Client, guideline: Guideline, dataset: Dataset, four: list[Person]
) -> None:
    form = sent(guideline, four, pairs="lin + nobody")
    assert manager.post(reverse(NEW, args=["small"]), form).status_code == 302
    assert not Panel.objects.exists()


def test_one_quota_is_for_everybody(
    manager: Client, guideline: Guideline, dataset: Dataset, four: list[Person]
) -> None:
    manager.post(reverse(NEW, args=["small"]), sent(guideline, four, quota=5))
    assert set(Membership.objects.values_list("quota", flat=True)) == {5}


def test_a_quota_below_the_plan_is_refused_and_nothing_is_made(
    manager: Client, guideline: Guideline, dataset: Dataset, four: list[Person]
) -> None:
    # 8 tasks by 2 of 4 people are 4 each.
    form = sent(guideline, four, pairing="balanced", quota=3)
    plan = manager.post(reverse("batch-plan", args=["small"]), form)
    assert [row.tasks for row in plan.context["plan"].sharing.beyond_quota] == [4, 4, 4, 4]
    assert "lin 4 of 3" in plan.content.decode()
    answer = manager.post(reverse(NEW, args=["small"]), form)
    assert answer.status_code == 422
    assert "4 items, and the quota is 3" in answer.content.decode()
    assert not Batch.objects.exists()
    assert manager.post(reverse(NEW, args=["small"]), form | {"quota": 4}).status_code == 302


def test_a_draft_is_checked_against_its_quotas_when_it_opens(
    guideline: Guideline, dataset: Dataset, four: list[Person], ma: Person
) -> None:
    batch = create_batch(
        BatchSpec(
            name="later",
            guideline=guideline,
            dataset=dataset,
            annotators=four,
            shares={four[0]: AnnotatorShare(quota=3)},
            policy=Policy(pairing="balanced"),
            open_now=False,
        )
    )
    assert [row.person for row in plan_batch(batch).sharing.beyond_quota] == [four[0]]  # type: ignore[union-attr]
    with pytest.raises(AssayError, match="quota is 3"):
        set_state(batch=batch, state="open", actor=ma)
    batch.refresh_from_db()
    assert batch.state == "draft"


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (AnnotatorShare(quota=0), "at least 1"),
        (AnnotatorShare(excluded_dimensions=["weather"]), "no dimension weather"),
    ],
)
def test_a_share_that_cannot_be_is_refused(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, share: AnnotatorShare, words: str
) -> None:
    with pytest.raises(AssayError, match=words):
        create_batch(
            BatchSpec(
                name="b", guideline=guideline, dataset=dataset, annotators=[lin, chen], shares={lin: share}
            )
        )
    assert not Batch.objects.exists()


def test_nobody_else_has_a_share(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, wu: Person
) -> None:
    with pytest.raises(AssayError, match="wu is not an annotator"):
        create_batch(
            BatchSpec(
                name="b",
                guideline=guideline,
                dataset=dataset,
                annotators=[lin, chen],
                shares={wu: AnnotatorShare(quota=5)},
            )
        )


# ---------------------------------------------------------------- the plan


def test_exactly_balanced_is_said_and_shown_as_a_matrix(
    manager: Client, guideline: Guideline, lin: Person, chen: Person, zhou: Person
) -> None:
    make_corpus(prompts=9, models=["a"], name="nine")
    form = sent(guideline, [lin, chen, zhou], pairing="balanced")
    page = manager.post(reverse("batch-plan", args=["nine"]), form)
    # 9 tasks, 3 pairs of people: 3 each.
    assert "Every two people share exactly 3 items." in page.content.decode()
    sharing = page.context["plan"].sharing
    assert [row.shared for row in sharing.rows] == [(None, 3, 3), (3, None, 3), (3, 3, None)]
    assert [row.tasks for row in sharing.rows] == [6, 6, 6]


def test_a_matrix_of_many_people_is_told_in_a_sentence(
    manager: Client, guideline: Guideline, dataset: Dataset
) -> None:
    many = [add_person(name=f"p{number}", roles=["annotator"]) for number in range(13)]
    page = manager.post(
        reverse("batch-plan", args=["small"]), sent(guideline, many, pairing="balanced")
    ).content.decode()
    assert "Every two people share between 0 and 1 items." in page
    assert "13 people, each with 1 to 2 items." in page
    assert "<table" not in page


def test_at_an_overlap_of_one_nobody_shares(
    guideline: Guideline, dataset: Dataset, four: list[Person]
) -> None:
    plan = plan_responses(
        filter_responses(dataset=dataset),
        guideline=guideline,
        overlap=1,
        annotators=four,
        adjudicators=[],
        seconds=None,
        pairing="balanced",
    )
    assert planned(plan) == dict.fromkeys(["lin", "chen", "zhou", "gao"], 2)
    assert plan.sharing is not None
    assert (plan.sharing.low, plan.sharing.high) == (None, None)


@pytest.mark.parametrize("pairing", ["pool", "balanced", "fixed"])
def test_a_kind_that_too_few_may_take_is_named_with_who_and_why(
    manager: Client, guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, pairing: str
) -> None:
    Prompt.objects.filter(key__in=["p0", "p1"]).update(language="zh")
    Prompt.objects.filter(key__in=["p2", "p3"]).update(language="en")
    set_languages(person=lin, languages=["en"])
    form = sent(guideline, [lin, chen], pairing=pairing, pairs="lin+chen")
    page = manager.post(reverse("batch-plan", args=["small"]), form)
    shortage = page.context["plan"].shortages[0]
    # p0 and p1, two models each.
    assert (shortage.tasks, shortage.able, shortage.languages) == (4, 1, ("zh",))
    assert (shortage.dimensions, shortage.models) == ((), ())
    assert [(obstacle.reason, obstacle.people) for obstacle in shortage.whys] == [
        ("does not read this language", ("lin",))
    ]
    assert "they would wait" in page.content.decode()


def test_own_models_are_counted_and_their_names_kept_from_whoever_judges_blind(
    client: Client, batch: Batch, guideline: Guideline, lin: Person, chen: Person, ma: Person
) -> None:
    set_own_models(person=lin, models=EvaluatedModel.objects.filter(name="Hidden-13B"))
    client.force_login(ma)
    form = sent(guideline, [lin, chen])
    page = client.post(reverse("batch-plan", args=["small"]), form)
    assert page.context["plan"].shortages[0].models == ("Hidden-13B",)
    assert "Hidden-13B" in page.content.decode()
    join_batch(batch=batch, role="annotator", people=[ma])
    page = client.post(reverse("batch-plan", args=["small"]), form)
    assert page.context["plan"].shortages[0].tasks == 4
    assert "Hidden-13B" not in page.content.decode()


def test_a_pool_whose_quotas_are_too_small_is_warned_of(
    manager: Client, guideline: Guideline, dataset: Dataset, lin: Person, chen: Person
) -> None:
    page = manager.post(reverse("batch-plan", args=["small"]), sent(guideline, [lin, chen], quota=5))
    # 8 x 2 = 16 annotations, and 2 people with 5 each make 10.
    assert page.context["plan"].unassignable == 6
    assert "6 are left without anybody" in page.content.decode()


def test_the_plan_asks_as_few_queries_for_many_people_and_models(
    guideline: Guideline, lin: Person, chen: Person
) -> None:
    from django.test.utils import CaptureQueriesContext

    def queries(dataset: Dataset, people: list[Person]) -> int:
        with CaptureQueriesContext(connection) as captured:
            plan_responses(
                filter_responses(dataset=dataset),
                guideline=guideline,
                overlap=2,
                annotators=people,
                adjudicators=[],
                seconds=None,
                pairing="balanced",
            )
        return len(captured)

    many = [add_person(name=f"p{number}", roles=["annotator"]) for number in range(20)]
    small = queries(make_corpus(prompts=2, models=["a"], name="s"), [lin, chen])
    large = queries(make_corpus(prompts=8, models=["a", "b", "c"], name="l"), many)
    assert small == large == 3


# ---------------------------------------------------------------- the command


def command(*arguments: str) -> dict[str, object]:
    out = StringIO()
    call_command(
        "create_batch",
        "made",
        "--guideline",
        "xstest",
        "--dataset",
        "small",
        "--json",
        *arguments,
        stdout=out,
    )
    output: dict[str, object] = json.loads(out.getvalue())
    return output


def test_the_command_says_the_plan(guideline: Guideline, dataset: Dataset, four: list[Person]) -> None:
    made = command(
        "--pairing", "fixed", "--pairs", "lin+chen", "zhou,gao", "--order", "shuffled", "--seed", "9"
    )
    assert made == {
        "name": "made",
        "state": "open",
        "tasks": 8,
        "plan": {
            "pairing": "fixed",
            "annotations": 16,
            "loads": {"min": 4, "max": 4},
            "shared": {"min": 4, "max": 4},
        },
    }
    batch = Batch.objects.get(name="made")
    assert (batch.order, batch.seed) == ("shuffled", 9)
    assert shared_in(batch) == {("chen", "lin"): 4, ("gao", "zhou"): 4}


def test_the_command_limits_single_people(guideline: Guideline, dataset: Dataset, four: list[Person]) -> None:
    names = [person.username for person in four]
    made = command(
        "--annotators", *names, "--quota", "lin=2", "7", "--exclude", "chen=safe", "gao=safe,unsafe"
    )
    assert made["plan"] == {"pairing": "pool", "annotations": 16, "loads": None, "shared": None}
    limits = {
        membership.person.username: (membership.quota, membership.excluded_dimensions)
        for membership in Membership.objects.select_related("person")
    }
    assert limits == {
        "lin": (2, []),
        "chen": (7, ["safe"]),
        "zhou": (7, []),
        "gao": (7, ["safe", "unsafe"]),
    }


# ---------------------------------------------------------------- very many responses


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight responses count as very many."""
    monkeypatch.setattr(batches, "MAX_RESPONSES_AT_ONCE", 7)


@pytest.mark.usefixtures("few_at_once")
def test_very_many_responses_are_made_into_a_batch_by_a_job(
    manager: Client, guideline: Guideline, dataset: Dataset, four: list[Person], ma: Person
) -> None:
    form = sent(
        guideline,
        four,
        pairing="fixed",
        pairs="lin+chen\nzhou+gao",
        quota=4,
        seed=3,
        due_date="2031-05-01",
        models=[EvaluatedModel.objects.get(name=name).pk for name in ("Secretive-7B", "Hidden-13B")],
    )
    answer = manager.post(reverse(NEW, args=["small"]), form)
    job = Job.objects.get()
    page = reverse("batch-making", args=[job.pk])
    assert (answer.status_code, answer["location"]) == (302, page)
    assert not Batch.objects.exists()
    assert "The batch is being made" in manager.get(page).content.decode()
    assert page in manager.get(reverse("batch-dataset")).content.decode()
    second_answer = manager.post(reverse(NEW, args=["small"]), form)
    assert (second_answer.status_code, Job.objects.count()) == (422, 1)
    assert "being made now" in second_answer.content.decode()
    jobs.run_now(job)
    batch = Batch.objects.get()
    assert (batch.state, batch.created_by, str(batch.due_date)) == ("open", ma, "2031-05-01")
    assert shared_in(batch) == {("chen", "lin"): 4, ("gao", "zhou"): 4}
    assert set(batch.memberships.values_list("quota", flat=True)) == {4}
    assert manager.get(page)["location"] == reverse("batch", args=["new one"])


@pytest.mark.usefixtures("few_at_once")
def test_what_is_wrong_is_said_before_a_job_is_made(
    manager: Client, guideline: Guideline, dataset: Dataset, four: list[Person]
) -> None:
    form = sent(guideline, four, pairing="balanced", quota=3)
    answer = manager.post(reverse(NEW, args=["small"]), form)
    assert (answer.status_code, Job.objects.count(), Batch.objects.count()) == (422, 0, 0)
    assert "the quota is 3" in answer.content.decode()


def list_plan_sizes() -> list[int]:
    return [model.objects.count() for model in (Batch, Membership, Panel, Stratum, Task)]


@pytest.mark.usefixtures("few_at_once")
def test_a_job_that_fails_or_is_cancelled_leaves_nothing_behind(
    manager: Client,
    guideline: Guideline,
    dataset: Dataset,
    four: list[Person],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager.post(reverse(NEW, args=["small"]), sent(guideline, four, pairing="balanced"))
    job = Job.objects.get()

    def stop(_teller: object, _done: float) -> None:
        raise RuntimeError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(jobs.ProgressReporter, "report", stop)
        jobs.run(job.pk)
    job.refresh_from_db()
    assert job.state == "failed"
    assert list_plan_sizes() == [0, 0, 0, 0, 0]
    page = manager.get(reverse("batch-making", args=[job.pk])).content.decode()
    assert "the disk is full" in page
    assert reverse(NEW, args=["small"]) in page
    assert not AuditEvent.objects.filter(verb="create_batch").exists()


@pytest.mark.usefixtures("few_at_once")
def test_a_second_worker_makes_nothing_twice(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, ma: Person
) -> None:
    spec = BatchSpec(name="big", guideline=guideline, dataset=dataset, annotators=[lin, chen])
    job = create_or_enqueue_batch(spec, actor=ma)
    assert isinstance(job, Job)
    Job.objects.filter(pk=job.pk).update(state="running", attempt=1)
    job.refresh_from_db()
    made = execute_batch_job(jobs.JobContext(job))  # and its worker dies before it says so
    Job.objects.filter(pk=job.pk).update(state="queued")
    jobs.run_now(job)
    job.refresh_from_db()
    assert (job.state, job.attempt, job.result) == ("done", 2, made)
    assert made == {"batch": "big", "tasks": 8}
    assert Batch.objects.count() == 1


@pytest.mark.usefixtures("few_at_once")
def test_whoever_lost_the_job_makes_no_batch(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, ma: Person
) -> None:
    job = create_or_enqueue_batch(
        BatchSpec(name="big", guideline=guideline, dataset=dataset, annotators=[lin, chen]), actor=ma
    )
    assert isinstance(job, Job)
    with pytest.raises(jobs.LostJob):  # nobody claimed it
        execute_batch_job(jobs.JobContext(job))
    assert list_plan_sizes() == [0, 0, 0, 0, 0]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("few_at_once")
def test_a_cancel_arrives_while_the_batch_is_made_and_how_far_it_is_is_seen(
    guideline: Guideline,
    dataset: Dataset,
    lin: Person,
    chen: Person,
    ma: Person,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import time

    from annotation.services.batches import batches

    monkeypatch.setattr(jobs, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(batches, "CHUNK", 1)
    job = create_or_enqueue_batch(
        BatchSpec(name="big", guideline=guideline, dataset=dataset, annotators=[lin, chen]), actor=ma
    )
    assert isinstance(job, Job)
    tell, seen = jobs.ProgressReporter.report, []

    def slowly(teller: jobs.ProgressReporter, done: float) -> None:
        tell(teller, done)
        time.sleep(0.1)
        seen.append(teller._context._filter_own_row().using("default").values_list("progress", flat=True)[0])
        if len(seen) == 3:  # as the manager would, in a transaction of their own
            from threading import Thread

            def cancel() -> None:
                Job.objects.filter(pk=job.pk).update(cancel_requested=True)
                connection.close()

            thread = Thread(target=cancel)
            thread.start()
            thread.join()
            time.sleep(0.2)

    monkeypatch.setattr(jobs.ProgressReporter, "report", slowly)
    jobs.run(job.pk)
    job.refresh_from_db()
    assert job.state == "cancelled"
    # Of 8 tasks, made one by one: 1/8, 2/8, 3/8 were seen while the transaction was open.
    assert seen == [0.125, 0.25, 0.375]
    assert list_plan_sizes() == [0, 0, 0, 0, 0]


@pytest.mark.usefixtures("few_at_once")
def test_a_job_that_the_version_before_queued_makes_its_batch(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, ma: Person
) -> None:
    share = AnnotatorShare(quota=9)
    spec = BatchSpec(
        name="big", guideline=guideline, dataset=dataset, annotators=[lin, chen], shares={lin: share}
    )
    job = create_or_enqueue_batch(spec, actor=ma)
    assert isinstance(job, Job)
    del job.payload["quota"], job.payload["among"]
    job.payload["shares"] = [[lin.pk, {"quota": 9, "excluded_dimensions": []}]]
    job.save()
    jobs.run_now(job)
    job.refresh_from_db()
    assert job.result == {"batch": "big", "tasks": 8}
    assert set(Membership.objects.values_list("person__username", "quota")) == {("lin", 9), ("chen", None)}


def test_a_check_makes_nothing(guideline: Guideline, dataset: Dataset, lin: Person, chen: Person) -> None:
    spec = BatchSpec(name="big", guideline=guideline, dataset=dataset, annotators=[lin, chen])
    check_batch(spec, actor=None)
    assert list_plan_sizes() == [0, 0, 0, 0, 0]
    make_batch(guideline, dataset, annotators=[lin, chen], name="big")
    with pytest.raises(AssayError, match="already a batch named big"):
        check_batch(spec, actor=None)


def test_the_page_of_another_job_is_not_found(manager: Client, db: None) -> None:
    other = jobs.enqueue(kind="import", payload={}, send=False)
    assert manager.get(reverse("batch-making", args=[other.pk])).status_code == 404
