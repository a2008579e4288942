"""Who has opened a batch's results cannot become blind in it, and who closes it over themselves stays blind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from threading import Barrier, Thread
from types import SimpleNamespace

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.core.errors import Conflict, Forbidden
from annotation.domain.batch_spec import BatchSpec
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import AuditEvent, Batch, Guideline, Membership, Person, ResultOpening
from annotation.selectors.access import refuse_sealed, sealed_batches
from annotation.selectors.annotations.statistics import list_confusions, list_own_counts
from annotation.selectors.batches import open_readable_batches
from annotation.services.batches.batches import confirm_closing, create_batch, set_state
from annotation.services.batches.members import join_batch, set_member_active
from annotation.services.people.people import add_person, set_roles
from annotation.services.releases import cut_release
from tests.support import FormerApps, date_event, label_next, make_corpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def labelled(batch: Batch, lin: Person, chen: Person) -> Batch:
    """The first batch with one item agreed on and one disputed."""
    for value in (3, 1):
        label_next(batch, lin, 3)
        label_next(batch, chen, value)
    return batch


@pytest.fixture
def shen(db: None) -> Person:
    """A second manager."""
    return add_person(name="shen", roles=["manager"])


def demote(person: Person) -> None:
    set_roles(person=person, roles=["annotator", "adjudicator"])


PAGES: dict[str, Callable[[Batch], str]] = {
    "progress": lambda batch: reverse("batch", args=[batch.name]),
    "agreement": lambda batch: f"{reverse('agreement')}?batch={batch.name}",
    "agreement of all": lambda _batch: reverse("agreement"),
    "items": lambda batch: reverse("batch-tasks", args=[batch.name]),
    "corrections": lambda batch: reverse("batch-items", args=[batch.name]),
    "gold questions": lambda batch: reverse("batch-known", args=[batch.name]),
    "quality": lambda batch: reverse("batch-quality", args=[batch.name]),
    "quality of all": lambda _batch: reverse("quality"),
    "report": lambda batch: f"{reverse('report')}?batch={batch.name}",
    "a task": lambda batch: reverse("task", args=[batch.tasks.order_by("pk")[0].pk]),
    "an annotator's quality": lambda _batch: reverse("person", args=["lin"]),
}


@pytest.mark.parametrize("page", PAGES)
def test_who_opened_a_page_of_results_cannot_join_when_they_are_no_manager_any_more(
    client: Client, labelled: Batch, ma: Person, page: str
):
    client.force_login(ma)
    assert client.get(PAGES[page](labelled)).status_code == 200
    demote(ma)
    for role in ("annotator", "adjudicator"):
        with pytest.raises(
            Conflict, match=r"ma opened the results of first on \d{4}-\d\d-\d\d and would not"
        ):
            join_batch(batch=labelled, role=role, people=[ma])
    assert not labelled.memberships.filter(person=ma).exists()


def test_who_opened_nothing_may_join_when_they_are_no_manager_any_more(
    client: Client, labelled: Batch, ma: Person
):
    client.force_login(ma)
    for page in ("batches", "guidelines", "people"):
        assert client.get(reverse(page)).status_code == 200
    assert client.get(reverse("batch-members", args=[labelled.name])).status_code == 200
    demote(ma)
    join_batch(batch=labelled, role="annotator", people=[ma])
    assert labelled.memberships.filter(person=ma).exists()
    assert not ResultOpening.objects.exists()


def test_a_release_is_the_results_of_all_of_its_batches(client: Client, labelled: Batch, he: Person):
    cut_release(ReleaseSpec(name="r", batches=[labelled]))
    client.force_login(he)
    assert client.get(reverse("release", args=["r"])).status_code == 200
    demote(he)
    with pytest.raises(Conflict, match="he opened the results of first"):
        join_batch(batch=labelled, role="adjudicator", people=[he])


def test_cutting_a_release_opens_results(labelled: Batch, he: Person):
    cut_release(ReleaseSpec(name="r", batches=[labelled]), actor=he)
    assert ResultOpening.objects.filter(person=he, batch=labelled).exists()


def test_what_is_opened_before_there_is_anything_to_read_keeps_nobody_out(
    client: Client, batch: Batch, ma: Person
):
    """A small team: the manager makes a batch, looks at its pages, and annotates in it."""
    set_roles(person=ma, roles=["manager", "annotator"])
    client.force_login(ma)
    set_roles(person=ma, roles=["manager", "annotator"])
    for page in ("progress", "agreement", "items"):
        assert client.get(PAGES[page](batch)).status_code == 200
    join_batch(batch=batch, role="annotator", people=[ma], actor=ma)
    assert label_next(batch, ma, 3) is not None


def test_who_adds_the_first_known_items_knows_their_answers(client: Client, batch: Batch, ma: Person):
    """Whether they look at the page that comes next or not."""
    make_corpus(prompts=1, models=["Oracle-1B"], name="oracle")
    row = '{"dataset": "oracle", "prompt_id": "p0", "model": "Oracle-1B", "labels": {"compliance": 3}}'
    sent = {"from": "file", "file-kind": "check", "file-file": SimpleUploadedFile("k.jsonl", row.encode())}
    client.force_login(ma)
    assert client.post(PAGES["gold questions"](batch), sent).status_code == 302
    assert ResultOpening.objects.filter(batch=batch, person=ma).exists()


def test_the_page_says_who_when_and_what_to_do(client: Client, labelled: Batch, ma: Person, shen: Person):
    refuse_sealed(ma, [labelled])
    demote(ma)
    client.force_login(shen)
    page = reverse("batch-members", args=[labelled.name])
    answer = client.post(page, {"role": "annotator", "annotator-people": [ma.pk]})
    assert answer.status_code == 409
    assert "ma opened the results of first on" in answer.content.decode()
    assert "choose somebody who has not" in answer.content.decode()
    page_text = client.get(page).content.decode()
    assert "opened them on" in page_text
    assert f'value="{ma.pk}"' not in page_text  # and they are not offered


def test_an_opening_is_written_once(
    labelled: Batch, ma: Person, django_assert_num_queries: Callable[[int], object]
):
    refuse_sealed(ma, [labelled])
    first = ResultOpening.objects.get()
    with django_assert_num_queries(3):  # the batches, what is sealed, what was opened before
        refuse_sealed(ma, Batch.objects.filter(pk=labelled.pk))
    assert ResultOpening.objects.get().first_at == first.first_at


def test_who_left_cannot_come_back_once_they_are_known_to_have_read(labelled: Batch, lin: Person):
    set_member_active(batch=labelled, person=lin, role="annotator", active=False)
    ResultOpening.objects.create(person=lin, batch=labelled, first_at=timezone.now(), presumed=True)
    with pytest.raises(Conflict, match="lin may have opened the results of first since"):
        set_member_active(batch=labelled, person=lin, role="annotator", active=True)


def test_members_open_nothing_and_stay(labelled: Batch, lin: Person):
    with pytest.raises(Forbidden):
        refuse_sealed(lin, [labelled])
    assert list(open_readable_batches(lin)) == []
    assert not ResultOpening.objects.exists()
    join_batch(batch=labelled, role="adjudicator", people=[lin])  # blind since the beginning


def test_an_opening_is_of_a_batch_and_a_new_batch_on_the_same_responses_is_judged_anew(
    labelled: Batch, guideline: Guideline, ma: Person, chen: Person
):
    refuse_sealed(ma, [labelled])
    second_batch = create_batch(
        BatchSpec(
            name="again", guideline=guideline, dataset=labelled.strata.all()[0].dataset, annotators=[ma, chen]
        )
    )
    assert second_batch.memberships.filter(person=ma).exists()


# ---------------------------------------------------------------- before openings were recorded


def presume() -> None:
    filled = import_module("annotation.migrations.0016_results_presumed")
    filled.presume(FormerApps(), SimpleNamespace(connection=connection))


def test_of_the_time_before_whoever_had_the_role_is_presumed_to_have_read(labelled: Batch, shen: Person):
    mo, yu, an = (add_person(name=name, roles=["annotator"]) for name in ("mo", "yu", "an"))
    labelled.assignments.update(submitted_at=timezone.now() - timedelta(days=5))
    for person_name, roles, days in (
        *((mo, ["manager"], 9), (mo, ["annotator"], 3)),  # while there was something to read
        *((yu, ["researcher"], 9), (yu, ["annotator"], 7)),  # before there was
    ):
        set_roles(person=person_name, roles=roles)
        event = AuditEvent.objects.filter(target=f"person:{person_name.username}").latest("pk")
        date_event(event, timezone.now() - timedelta(days=days))
    for event in AuditEvent.objects.filter(verb="add_person"):
        date_event(event, timezone.now() - timedelta(days=20))
    presume()
    opened = {
        result_opening.person.username: result_opening
        for result_opening in ResultOpening.objects.select_related("person")
    }
    assert "mo" in opened
    assert opened["mo"].presumed
    assert (timezone.now() - opened["mo"].first_at).days == 5
    assert opened.keys().isdisjoint({"yu", "an", "lin", "chen"})
    with pytest.raises(Conflict, match=r"mo may have opened the results of first since \d{4}.*as a manager"):
        join_batch(batch=labelled, role="adjudicator", people=[mo])
    join_batch(batch=labelled, role="adjudicator", people=[yu, an])


def test_who_was_a_member_throughout_is_not_presumed_to_have_read(batch: Batch, ma: Person, lin: Person):
    early = add_person(name="early", roles=["manager"])
    join_batch(batch=batch, role="annotator", people=[early])
    Membership.objects.create(batch=batch, person=ma, role="annotator")  # as when the batch was made
    label_next(batch, lin, 3)
    late = add_person(name="late", roles=["manager", "annotator"])
    Membership.objects.create(batch=batch, person=late, role="annotator")
    event = AuditEvent.objects.create(
        verb="join_batch", target="batch:first", data={"role": "annotator", "people": ["late"]}
    )
    presume()
    assert AuditEvent.objects.filter(pk=event.pk).exists()
    assert set(ResultOpening.objects.values_list("person__username", flat=True)) == {"late"}
    join_batch(batch=batch, role="adjudicator", people=[ma, early])
    with pytest.raises(Conflict, match="late may have opened"):
        join_batch(batch=batch, role="adjudicator", people=[late])
    label_next(batch, late, 3)  # who works there goes on


def test_presuming_twice_changes_nothing_and_closed_batches_are_left_out(labelled: Batch, ma: Person):
    presume()
    rows = list(ResultOpening.objects.values_list("pk", "first_at"))
    assert rows
    presume()
    assert list(ResultOpening.objects.values_list("pk", "first_at")) == rows
    ResultOpening.objects.all().delete()
    set_state(batch=labelled, state="closed")
    presume()
    assert not ResultOpening.objects.exists()


# ---------------------------------------------------------------- races


@pytest.mark.django_db(transaction=True)
@pytest.mark.postgres
@pytest.mark.parametrize("attempt", range(12))
def test_of_opening_and_joining_at_once_one_wins(labelled: Batch, attempt: int):
    """Never both: else somebody judges who has read."""
    reader = add_person(name=f"reader{attempt}", roles=["annotator"])
    together, done = Barrier(2), list[str]()

    def run(act: Callable[[], object], name: str) -> None:
        try:
            together.wait()
            act()
            done.append(name)
        except (Forbidden, Conflict):
            pass
        finally:
            connection.close()

    threads = [
        Thread(target=run, args=(lambda: refuse_sealed(reader, [labelled]), "read")),
        Thread(
            target=run, args=(lambda: join_batch(batch=labelled, role="annotator", people=[reader]), "joined")
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    read = ResultOpening.objects.filter(person=reader).exists()
    assert read != labelled.memberships.filter(person=reader).exists()


# ---------------------------------------------------------------- closing


def test_who_closes_a_batch_over_themselves_stays_blind_until_another_manager_confirms(
    client: Client, labelled: Batch, shen: Person
):
    own = add_person(name="own", roles=["manager", "annotator"])
    Membership.objects.create(batch=labelled, person=own, role="annotator")
    client.force_login(own)
    assert "stay sealed for you" in client.get(reverse("batch-close", args=["first"])).content.decode()
    client.post(reverse("batch-state", args=["first"]), {"state": "closed"})
    page = client.get(reverse("batch", args=["first"]))
    assert "You closed this batch while you worked in it." in page.content.decode()
    assert page.context["progress"] is None
    assert client.get(PAGES["agreement"](labelled)).status_code == 403
    refused = client.post(reverse("batch-confirm-closing", args=["first"]))
    assert refused.status_code == 403
    assert "another manager must confirm" in refused.content.decode()
    second = Client()
    second.force_login(shen)
    assert (
        "own closed this batch and worked in it." in second.get(PAGES["progress"](labelled)).content.decode()
    )
    answer = second.post(reverse("batch-confirm-closing", args=["first"]), follow=True)
    assert "The closing is confirmed" in answer.content.decode()
    assert client.get(PAGES["agreement"](labelled)).status_code == 200
    assert AuditEvent.objects.filter(verb="confirm_closing", actor=shen, target="batch:first").count() == 1
    with pytest.raises(Conflict, match="needs no confirmation"):
        confirm_closing(batch=Batch.objects.get(name="first"), actor=shen)


def test_leaving_before_closing_opens_nothing(labelled: Batch):
    own = add_person(name="own", roles=["manager", "annotator"])
    Membership.objects.create(batch=labelled, person=own, role="annotator")
    set_member_active(batch=labelled, person=own, role="annotator", active=False, actor=own)
    set_state(batch=labelled, state="closed", actor=own)
    assert [batch.name for batch in sealed_batches(own)] == ["first"]


def test_a_closing_over_oneself_compares_no_labels_with_gold(labelled: Batch, lin: Person, chen: Person):
    set_state(batch=labelled, state="closed", actor=lin)
    assert {tally.compared for tally in list_own_counts(lin)} == {None}
    assert list_confusions(lin) == []
    assert sum(tally.compared or 0 for tally in list_own_counts(chen)) == 1
    confirm_closing(batch=labelled, actor=None)
    assert sum(tally.compared or 0 for tally in list_own_counts(lin)) == 1


def test_everybody_else_reads_a_batch_that_one_of_them_closed(labelled: Batch, lin: Person, chen: Person):
    set_state(batch=labelled, state="closed", actor=lin)
    refuse_sealed(chen, [labelled])
    with pytest.raises(Forbidden, match="closed it: its results open for you when another manager confirms"):
        refuse_sealed(lin, [labelled])


def test_a_manager_who_works_elsewhere_closes_as_ever(labelled: Batch, ma: Person):
    set_state(batch=labelled, state="closed", actor=ma)
    refuse_sealed(ma, [labelled])
    with pytest.raises(Conflict, match="needs no confirmation"):
        confirm_closing(batch=labelled, actor=None)


def test_the_operators_command_confirms(labelled: Batch, lin: Person, capsys: pytest.CaptureFixture[str]):
    set_state(batch=labelled, state="closed", actor=lin)
    call_command("confirm_closing", "first")
    assert "first: its results are open to lin" in capsys.readouterr().out
    refuse_sealed(lin, [labelled])
