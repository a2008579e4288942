"""The first page of managers and researchers: what needs them now, and nothing that they may not read."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from annotation.core.study_scope import limit_to_studies
from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    Alarm,
    Assignment,
    Batch,
    BatchStats,
    Dataset,
    GoldRelease,
    Guideline,
    Job,
    Person,
)
from annotation.selectors.access import has_opened
from annotation.services.annotations.messages import answer_about_item, ask_about_item
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import set_member_active
from annotation.services.batches.monitoring import watch_batch
from annotation.services.people.people import add_person, set_roles
from annotation.services.releases import cut_release
from annotation.services.studies import create_study
from tests.support import label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db
UNRELIABLE = "The labels of the release gold cannot be relied on yet: their agreement is not established"


def fetch(person: Person, language: str = "en", path: str = "/") -> str:
    client = Client()
    client.force_login(person)
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    answer = client.get(path)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def read(person: Person, language: str = "en", path: str = "/") -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", fetch(person, language, path)))


def list_links(page: str) -> dict[str, str]:
    """The addresses of the page's links by their words."""
    links = re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', page)
    return {re.sub(r"<[^>]+>", "", words).strip(): address for address, words in links}


@pytest.fixture
def disputed(batch: Batch, lin: Person, chen: Person) -> Batch:
    """Two disputes, which have waited for four days."""
    for _ in range(2):
        label_next(batch, lin, 1)
        label_next(batch, chen, 3)
    Assignment.objects.filter(batch=batch).update(submitted_at=timezone.now() - timedelta(days=4))
    return batch


def raise_alarm(batch: Batch) -> None:
    Alarm.objects.create(
        batch=batch, at=timezone.now(), value=0.3, low=0.1, high=0.5, units=30, threshold=0.667
    )


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_an_empty_site_says_what_to_do_first(ma: Person, he: Person, language: str) -> None:
    idle = {"en": "Nothing is waiting for you.", "zh-hans": "没有待办事项。"}[language]
    first = {"en": "Nothing to label yet", "zh-hans": "还没有可标注的内容"}[language]
    assert idle in read(ma, language)
    assert first in read(ma, language)
    assert idle in read(he, language)
    assert first not in read(he, language)  # who only researches makes no batch


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_manager_sees_what_stands_still(disputed: Batch, ma: Person, language: str) -> None:
    raise_alarm(disputed)
    Batch.objects.update(due_date=timezone.localdate() - timedelta(days=1))
    lines = {
        "en": [
            "Agreement in first is below",
            "2 disputes in first have waited for more than 3 days",
            "first was to be",
        ],
        "zh-hans": ["first 的一致性低于阈值", "first 有 2 条争议已等待超过 3 天", "first 应于"],
    }[language]
    page = read(ma, language)
    assert [line for line in lines if line not in page] == []


def test_what_is_on_time_is_no_line(disputed: Batch, ma: Person) -> None:
    Assignment.objects.update(submitted_at=timezone.now() - timedelta(days=2))
    Batch.objects.update(due_date=timezone.localdate())
    assert "Nothing is waiting for you." in read(ma)
    Batch.objects.update(due_date=timezone.localdate() - timedelta(days=1))
    set_state(batch=disputed, state=Batch.State.PAUSED)
    assert "Nothing is waiting for you." in read(ma)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_manager_sees_items_that_nobody_may_take_and_questions(
    batch: Batch, ma: Person, lin: Person, chen: Person, zhou: Person, language: str
) -> None:
    label_next(batch, lin, 1)
    held = claim_next_task(batch=batch, person=lin)
    assert held is not None
    ask_about_item(assignment=held, author=lin, text="Does a warning count?")
    for person in (chen, zhou):
        set_member_active(batch=batch, person=person, role="annotator", active=False, actor=ma)
    watch_batch(batch)
    stuck, question, answered = {
        "en": (
            "2 items in first need a person: nobody who works there may take them",
            "1 question about an item of first waits for an answer",
            "1 question of yours has been answered",
        ),
        "zh-hans": (
            "first 有 2 个条目需要人手：在其中工作的人都不能领取",
            "有 1 个关于 first 中条目的问题等待答复",
            "您的 1 个问题已有答复",
        ),
    }[language]
    links = list_links(fetch(ma, language))
    assert links[stuck] == "/batches/first/needs/"
    assert links[question] == "/batches/first/messages/"
    answer_about_item(assignment=held, author=ma, text="It does not.", criterion="", for_everybody=False)
    assert question not in read(ma, language)
    set_roles(person=lin, roles=["annotator", "researcher"])
    assert list_links(fetch(lin, language))[answered] == "/history/-/messages/"
    set_member_active(batch=batch, person=chen, role="annotator", active=True, actor=ma)
    BatchStats.objects.update(at=timezone.now() - timedelta(hours=1))
    watch_batch(batch)
    assert stuck not in read(ma, language)


def test_among_several_studies_everything_that_waits_stands_with_its_study(
    disputed: Batch, guideline: Guideline, lin: Person, chen: Person, ma: Person, he: Person
) -> None:
    """Each line leads into its own study, whatever else has the same name; nothing of a third study is there."""
    raise_alarm(disputed)
    Job.objects.create(
        kind="train_scorer",
        title="s1",
        state="failed",
        finished_at=timezone.now(),
        created_by=ma,
        study=disputed.study,
    )
    other, foreign = create_study(name="other", title="The other one"), create_study(name="foreign")
    with limit_to_studies([other.pk]):
        set_roles(person=lin, roles=["annotator"])
        set_roles(person=chen, roles=["annotator"])
        set_roles(person=ma, roles=["manager", "researcher", "annotator"])
        corpus = make_corpus(prompts=2, models=["M-1", "M-2"], name="small")
        make_batch(guideline, corpus, name="first", annotators=[ma], policy=Policy(overlap=1))
        done = make_batch(
            guideline,
            make_corpus(prompts=4, models=["M-1", "M-2"], name="more"),
            name="done",
            annotators=[lin, chen],
        )
        for person in (lin, chen):
            label_next(done, person, 1)
        release = cut_release(ReleaseSpec(name="gold", batches=[done]))
        for row in release.manifest["agreement"]:
            row["alpha_ordinal"] = {"value": 0.6, "low": 0.5, "high": 0.7}
        release.save()
    with limit_to_studies([foreign.pk]):
        strange = make_batch(
            guideline,
            make_corpus(prompts=2, models=["M-1", "M-2"], name="small"),
            name="foreign-batch",
            annotators=[lin, chen],
        )
        raise_alarm(strange)
    links = list_links(fetch(ma))
    own, other = f"/s/{disputed.study.name}", "/s/other"
    expected = {
        "Agreement in first is below its threshold": f"{own}/batches/first/",
        "2 disputes in first have waited for more than 3 days": f"{own}/batches/first/",
        "4 items to label in first": f"{other}/work/first/",
        UNRELIABLE: f"{other}/releases/gold/",
        "s1": f"{own}/scorers/s1/",
    }
    assert {words: links.get(words) for words in expected} == expected
    page = read(ma)
    assert "foreign" not in page
    assert "The other one" in page
    assert "training a scorer" in page
    assert has_opened(done, ma)
    assert not has_opened(done, he)
    assert "release gold" not in read(he)  # who sees one study lands in it


def test_within_a_study_the_list_of_studies_is_that_of_the_site(disputed: Batch, ma: Person) -> None:
    client = Client()
    client.force_login(ma)
    answer = client.get(f"/s/{disputed.study.name}/studies/")
    assert (answer.status_code, answer["Location"]) == (302, "/studies/")


def test_of_very_much_that_waits_the_first_page_lists_a_part(
    guideline: Guideline, dataset: Dataset, ma: Person, lin: Person
) -> None:
    create_study(name="other").memberships.create(person=ma, role="manager")
    with limit_to_studies([dataset.study_id]):
        for number in range(32):
            batch = make_batch(
                guideline, dataset, name=f"batch-{number}", annotators=[lin], policy=Policy(overlap=1)
            )
            raise_alarm(batch)
    page = read(ma)
    assert page.count("is below its threshold") == 30
    assert "2 more on the home pages of their studies" in page
    assert read(ma, path=f"/s/{dataset.study.name}/").count("is below its threshold") == 32


def test_who_works_in_a_batch_reads_nothing_of_its_results(disputed: Batch, ma: Person) -> None:
    raise_alarm(disputed)
    set_roles(person=ma, roles=["manager", "annotator"])
    disputed.memberships.create(person=ma, role="annotator")
    page = read(ma)
    assert "disputes in first" not in page
    assert "below its threshold" not in page
    assert "6 items to label in first" in page


def test_who_judges_the_dataset_blind_elsewhere_reads_nothing_of_its_agreement(
    disputed: Batch, guideline: Guideline, dataset: Dataset, ma: Person
) -> None:
    raise_alarm(disputed)
    Batch.objects.update(due_date=timezone.localdate() - timedelta(days=1))
    set_roles(person=ma, roles=["manager", "annotator"])
    make_batch(guideline, dataset, name="blind", annotators=[ma], policy=Policy(overlap=1))
    page = read(ma)
    assert "below its threshold" not in page
    assert "first was to be done by" in page  # which tells of no label


def test_own_work_is_there_beside_what_is_managed(disputed: Batch, chen: Person) -> None:
    both = add_person(name="both", roles=["manager", "adjudicator"])
    disputed.memberships.create(person=both, role="adjudicator")
    assert "2 disputes to settle in first" in read(both)


def test_a_batch_that_was_closed_over_oneself_waits_for_another_manager(
    disputed: Batch, ma: Person, lin: Person
) -> None:
    set_roles(person=lin, roles=["annotator", "manager"])
    Batch.objects.update(state=Batch.State.CLOSED, closed_by=lin)
    sentence = "The closing of first waits for a second manager"
    assert sentence in read(ma)
    assert sentence not in read(lin)
    Batch.objects.update(closing_confirmed_at=timezone.now())
    assert sentence not in read(ma)


@pytest.mark.parametrize(("low", "is_told"), [(0.5, True), (0.7, False), (None, False)])
def test_a_release_that_its_own_agreement_does_not_bear_is_named(
    batch: Batch, lin: Person, chen: Person, he: Person, ma: Person, low: float | None, is_told: bool
) -> None:
    for person in (lin, chen):
        label_next(batch, person, 1)
    release = cut_release(ReleaseSpec(name="gold", batches=[batch]))
    for row in release.manifest["agreement"]:
        row["alpha_ordinal"] = None if low is None else {"value": 0.75, "low": low, "high": 0.9}
    release.save()
    assert ("The labels of the release gold cannot be relied on yet" in read(he)) is is_told
    assert has_opened(batch, he) is is_told
    assert "The labels of the release gold" not in read(ma)  # who does not cut releases
    GoldRelease.objects.update(archived_at=timezone.now())
    assert "The labels of the release gold" not in read(he)


def test_a_release_of_what_one_judges_blind_is_not_named(
    batch: Batch, guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, he: Person
) -> None:
    for person in (lin, chen):
        label_next(batch, person, 1)
    release = cut_release(ReleaseSpec(name="gold", batches=[batch]))
    for row in release.manifest["agreement"]:
        row["alpha_ordinal"] = {"value": 0.6, "low": 0.5, "high": 0.7}
    release.save()
    set_roles(person=he, roles=["researcher", "annotator"])
    make_batch(guideline, dataset, name="blind", annotators=[he], policy=Policy(overlap=1))
    assert "release gold" not in read(he)
    assert not has_opened(batch, he)


def test_own_jobs_that_run_or_failed_of_late(he: Person, ma: Person) -> None:
    now = timezone.now()
    states = [("going", "running", None), ("broken", "failed", now), ("over", "done", now)]
    states.append(("forgotten", "failed", now - timedelta(days=8)))
    for title, state, finished in states:
        Job.objects.create(
            kind="k", title=title, state=state, finished_at=finished, created_by=he, progress=0.5
        )
    page = read(he)
    assert [title for title, _state, _finished in states if f" {title} " in page] == ["going", "broken"]
    assert "50%" in page
    assert "going" not in read(ma)


def test_the_page_takes_as_many_queries_whatever_there_is(
    batch: Batch, guideline: Guideline, dataset: Dataset, ma: Person, lin: Person
) -> None:
    def count_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            read(ma)
        return len(queries)

    make_batch(guideline, dataset, name="second", annotators=[lin], policy=Policy(overlap=1))
    count_queries()  # what is read once
    before = count_queries()
    for n in range(5):
        more = make_batch(guideline, dataset, name=f"more {n}", annotators=[lin], policy=Policy(overlap=1))
        raise_alarm(more)
    assert count_queries() == before
