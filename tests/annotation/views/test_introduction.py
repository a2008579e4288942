"""The guideline's introduction is read before the first item of a version, and is one key away ever after."""

from __future__ import annotations

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext

from annotation.models import Assignment, Batch, IntroductionReading, Person
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.guidelines import load_guideline
from annotation.services.people.people import add_person
from tests.annotation.services.test_claim_ahead import asked_in
from tests.annotation.views.test_work_pages import text, visit
from tests.support import XSTEST_GUIDELINE, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db

RULE = {"en": "Judge compliance, not quality.", "zh-hans": "评判的是服从程度，不是质量。"}
QUERIES_PAGE = 19  # as many as without an introduction; one counts the new answers, one asks for campaigns
BEGIN = 'action="/work/first/introduction/"'


@pytest.fixture
def unread(batch: Batch) -> Batch:
    """The batch ``first``, whose people have read nothing yet."""
    IntroductionReading.objects.all().delete()
    return batch


def newer(people: list[Person]) -> Batch:
    """A batch under the next version of the same guideline."""
    source = XSTEST_GUIDELINE.path.read_text(encoding="utf-8").replace('"1.0"', '"1.1"', 1)
    guideline = load_guideline(text=source, path="newer.yaml", publish=True)
    batch = make_batch(
        guideline, make_corpus(prompts=2, models=["m"], name="c"), annotators=people, name="two"
    )
    IntroductionReading.objects.filter(guideline=guideline).delete()
    return batch


def begin(person: Person, place: str = "/work/first/") -> HttpResponse:
    return visit(person).post(f"{place}introduction/")


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_it_comes_before_the_first_item_and_nothing_is_claimed(
    unread: Batch, lin: Person, language: str
) -> None:
    page = text(visit(lin, language=language).get("/work/first/"))
    assert RULE[language] in page
    assert BEGIN in page
    assert "data-item" not in page
    assert not Assignment.objects.exists()


def test_one_action_goes_on_and_it_does_not_come_again_on_any_machine(unread: Batch, lin: Person) -> None:
    answer = begin(lin)
    assert (answer.status_code, answer["Location"]) == (302, "/work/first/")
    assert "data-item" in text(visit(lin).get("/work/first/"))
    begin(lin)  # a second tab
    reading = IntroductionReading.objects.get()
    assert (reading.person, reading.guideline) == (lin, unread.guideline)


def test_it_is_read_for_all_batches_of_a_version_and_again_for_a_new_one(
    unread: Batch, lin: Person, chen: Person
) -> None:
    begin(lin)
    corpus = make_corpus(prompts=1, models=["m"], name="b")
    make_batch(unread.guideline, corpus, annotators=[lin, chen], name="same")
    IntroductionReading.objects.filter(person=chen).delete()
    assert "data-item" in text(visit(lin).get("/work/same/"))
    newer([lin, chen])
    page = text(visit(lin).get("/work/two/"))
    assert "data-item" not in page
    assert "You have worked with version 1.0 before." in page
    assert "You have worked with version" not in text(visit(chen).get("/work/two/"))


def test_an_adjudicator_reads_it_too_and_keeps_the_dimension_they_wanted(
    unread: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    label_next(unread, lin, 1)
    label_next(unread, chen, 3)
    page = text(visit(wu).get("/disputes/first/?dimension=safe"))
    assert 'action="/disputes/first/introduction/?dimension=safe"' in page
    assert RULE["en"] in page
    assert not Assignment.objects.filter(person=wu).exists()
    answer = visit(wu).post("/disputes/first/introduction/?dimension=safe")
    assert answer["Location"] == "/disputes/first/?dimension=safe"
    assert "data-item" in text(visit(wu).get("/disputes/first/?dimension=safe"))


def test_an_item_that_is_claimed_already_waits_for_it_as_well(unread: Batch, lin: Person) -> None:
    claim = claim_next_task(batch=unread, person=lin)  # over the API, say
    assert claim is not None
    assert "data-item" not in text(visit(lin).get("/work/first/"))
    begin(lin)
    assert f'data-item="{claim.pk}"' in text(visit(lin).get("/work/first/"))


def test_who_is_not_in_the_batch_learns_nothing_by_it(unread: Batch) -> None:
    outsider = add_person(name="outsider", roles=["annotator", "adjudicator"])
    for place in ("/work", "/disputes"):
        for name in ("first", "nowhere"):
            for answer in (visit(outsider).get(f"{place}/{name}/"), begin(outsider, f"{place}/{name}/")):
                assert answer.status_code == 404
                assert f"No batch is named {name}." in text(answer)
    assert not IntroductionReading.objects.exists()


def test_an_annotator_does_not_pass_as_adjudicator(unread: Batch, lin: Person, wu: Person) -> None:
    assert begin(lin, "/disputes/first/").status_code == begin(wu).status_code == 403


def test_a_batch_that_is_not_open_says_so_and_shows_none(unread: Batch, lin: Person) -> None:
    set_state(batch=unread, state=Batch.State.PAUSED)
    assert visit(lin).get("/work/first/")["Location"] == "/work/"


def test_every_page_of_the_work_holds_it_one_key_away(
    batch: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    assignment_id = Assignment.objects.get(person=lin).pk
    for person, place in (
        (lin, "/work/first/"),
        (lin, f"/history/{assignment_id}/"),
        (wu, "/disputes/first/"),
    ):
        page = text(visit(person).get(place))
        assert RULE["en"] in page, place
        assert 'data-opens="introduction" data-key="i"' in page, place


def test_it_costs_the_page_no_query_and_the_item_ahead_does_not_bring_it(batch: Batch, lin: Person) -> None:
    visitor = visit(lin)
    visitor.get("/work/first/")
    with CaptureQueriesContext(connection) as captured:
        visitor.get("/work/first/")
    assert asked_in(captured) == QUERIES_PAGE
    assert RULE["en"] not in text(visit(lin, htmx=True).post("/work/first/ahead/"))


def test_the_api_hands_out_as_before(unread: Batch, lin: Person) -> None:
    visitor = visit(lin)
    answer = visitor.client.post("/api/v1/batches/first/next/", content_type="application/json")
    assert set(answer.json()) == {"assignment", "lease_expires", "prompt", "turns", "entries", "criteria"}


def test_the_api_tells_the_rules_to_those_who_work_in_the_batch(
    batch: Batch, lin: Person, wu: Person
) -> None:
    outsider = add_person(name="outsider", roles=["annotator"])
    address = "/api/v1/batches/first/guideline/"
    for person in (lin, wu):
        body = visit(person).get(address).json()
        assert (body["name"], body["version"]) == ("xstest", "1.0")
        assert RULE["en"] in body["introduction"]["en"]
        assert RULE["zh-hans"] in body["introduction"]["zh"]
    batch.memberships.filter(person=wu).update(active=False)
    for person in (outsider, wu):
        assert visit(person).get(address).status_code == 404
