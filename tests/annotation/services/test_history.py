"""My work: what I submitted, found again; what became of it, once that may be told; my numbers beside nobody's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import transaction
from django.test import Client
from django.utils import timezone

from annotation.core.error_messages import error_to_json
from annotation.core.errors import Conflict
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.models import (
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    Dataset,
    DisputeReason,
    Draft,
    Guideline,
    Person,
    Prompt,
    Verdict,
)
from annotation.selectors.annotations.history import HistoryFilter, list_submissions
from annotation.selectors.annotations.statistics import list_confusions, list_own_counts, measure_own_pace
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.people.people import set_roles
from annotation.views.annotations import history
from tests.support import decide_next, label_next, make_batch, make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
# Whatever differs from one answer to the next by itself.
CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|name=\"csrfmiddlewaretoken\" value=\"\w+\"|\"X-CSRFToken\": ?\"\w+\""
)
PAGES = ("/history/", "/history/?state=closed", "/history/?overruled=on", "/history/-/numbers/")


def visit(person: Person, language: str = "en") -> Client:
    client = Client()
    client.force_login(person)
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    return client


def page(person: Person, url: str, language: str = "en") -> str:
    answer = visit(person, language).get(url)
    assert answer.status_code == 200
    return answer.content.decode()


def get_own_assignment(person: Person) -> Assignment:
    return Assignment.objects.get(person=person, state="submitted")


@pytest.fixture
def small(guideline: Guideline, lin: Person, chen: Person, wu: Person) -> Batch:
    """One task for lin and chen, and wu to decide it."""
    return make_batch(guideline, one_prompt(), annotators=[lin, chen], adjudicators=[wu])


def one_prompt() -> Dataset:
    return make_corpus(prompts=1, models=["Secretive-7B"], name="one")


def dispute(batch: Batch, lin: Person, chen: Person) -> None:
    """lin gives 1, chen 3."""
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)


def seen_after(person: Person, act: Callable[[], object]) -> Iterator[str]:
    """The person's pages after ``act``, which is then undone; without what changes by itself."""
    with transaction.atomic():
        act()
        Assignment.objects.update(submitted_at=timezone.now().replace(hour=0, minute=0))
        Annotation.objects.update(created_at=timezone.now().replace(hour=0, minute=0))
        for url in (*PAGES, f"/history/{get_own_assignment(person).pk}/"):
            yield CHANGING.sub("", page(person, url))
        transaction.set_rollback(True)


def test_an_undecided_dispute_reads_byte_by_byte_as_an_agreement(small: Batch, lin: Person, chen: Person):
    label_next(small, lin, 1)
    agreed = list(seen_after(lin, lambda: label_next(small, chen, 1)))
    disputed = list(seen_after(lin, lambda: label_next(small, chen, 3)))
    assert agreed == disputed
    assert all("badge--disputed" not in text and "chen" not in text for text in disputed)


def test_an_open_item_does_not_tell_who_was_there_before(
    guideline: Guideline, lin: Person, chen: Person, zhou: Person
):
    batch = make_batch(guideline, one_prompt(), annotators=[lin, chen, zhou], policy=Policy(overlap=3))
    label_next(batch, lin, 1)
    seen_alone = list(seen_after(lin, lambda: None))
    seen_beside = list(seen_after(lin, lambda: label_next(batch, chen, 3)))
    assert seen_alone == seen_beside


def test_a_decision_is_told_with_its_reason_and_nobodys_name(
    small: Batch, lin: Person, chen: Person, wu: Person
):
    dispute(small, lin, chen)
    decide_next(small, wu, 2)
    slip = DisputeReason.objects.get(key="reading_slip")
    Adjudication.objects.update(reason=slip, rationale="It answers <b>half</b>.")
    for url in ("/history/", f"/history/{get_own_assignment(lin).pk}/"):
        english, chinese = page(lin, url), page(lin, url, "zh-hans")
        assert "Overruled" in english
        assert "2 Partial refusal" in english
        assert "It answers &lt;b&gt;half&lt;/b&gt;." in english
        assert slip.words["en"] in english
        assert slip.words["zh"] in chinese
        assert not re.search(r"\b(wu|chen|Secretive-7B)\b", english, re.IGNORECASE)


def test_a_label_that_was_upheld_says_so(small: Batch, lin: Person, chen: Person, wu: Person):
    dispute(small, lin, chen)
    decide_next(small, wu, 1)
    assert "Upheld" in page(lin, "/history/")
    assert "Overruled</span>" not in page(lin, "/history/")
    assert "Overruled</span>" in page(chen, "/history/")


def test_within_the_tolerance_only_whoever_gave_another_value_is_told(
    guideline: Guideline, lin: Person, chen: Person
):
    batch = make_batch(guideline, one_prompt(), annotators=[lin, chen], policy=Policy(tolerance=1))
    label_next(batch, lin, 1)
    label_next(batch, chen, 2)
    [hers] = visit(chen).get("/history/").context["rows"]
    [his] = visit(lin).get("/history/").context["rows"]
    assert [(final.own, final.final) for final in hers.outcome.finals] == [
        ("2 Partial refusal", "1 Full refusal")
    ]
    assert his.outcome is None
    assert list_submissions(chen, HistoryFilter(overruled=True)).count() == 1
    assert list_submissions(lin, HistoryFilter(overruled=True)).count() == 0


def test_who_manages_too_finds_their_own_items_alone(small: Batch, lin: Person, chen: Person):
    set_roles(person=lin, roles=["manager", "researcher", "annotator"])
    dispute(small, lin, chen)
    assert [line.history_row.labels for line in visit(lin).get("/history/").context["rows"]] == [
        {"compliance": 1}
    ]
    assert visit(lin).get(f"/history/{get_own_assignment(chen).pk}/").status_code == 404


@pytest.fixture
def worked(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    """lin labelled all eight; chen the first four, two of them otherwise, of which wu decided one for chen."""
    for number in range(8):
        item = claim_next_task(batch=batch, person=lin)
        assert item is not None
        work = Submission({"compliance": 1}, flags=["unsure"] if number == 0 else [])
        submit(assignment_id=item.pk, person=lin, key="k", work=work)
    last = Assignment.objects.filter(person=lin).latest("submitted_at")
    revise(assignment_id=last.pk, person=lin, key="again", work=Submission({"compliance": 2}))
    Assignment.objects.filter(pk=last.pk).update(submitted_at=timezone.now() - timedelta(days=3))
    for value in (1, 3, 1, 3):
        label_next(batch, chen, value)
    decide_next(batch, wu, 3)
    Prompt.objects.filter(key="p0").update(text="It costs 100% of that")
    return batch


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 8),
        ("batch=first", 8),
        ("state=open", 4),
        ("state=closed", 4),
        ("corrected=on", 1),
        ("flagged=on", 1),
        ("overruled=on", 1),
        ("dimension=safe", 4),
        ("words=COSTS+100%25", 2),
        ("words=nowhere", 0),
        ("since={yesterday}", 7),
        ("until={yesterday}", 1),
        ("since={yesterday}&until={yesterday}", 0),
        ("dimension=safe&state=open&words=question", 2),
    ],
)
def test_the_history_is_filtered_and_counted(worked: Batch, lin: Person, query: str, count: int):
    yesterday = timezone.localdate() - timedelta(days=1)
    answer = visit(lin).get(f"/history/?{query}".format(yesterday=yesterday))
    assert answer.context["page"].paginator.count == len(answer.context["rows"]) == count
    if count:
        assert f"{count} item{'s' if count > 1 else ''}</h2>" in answer.content.decode()


def test_a_filter_that_cannot_be_is_said_and_nothing_listed(worked: Batch, lin: Person):
    answer = visit(lin).get("/history/?since=yesterday&batch=elsewhere")
    assert answer.context["rows"] == []
    assert "Enter a valid date." in answer.content.decode()


def test_pages_keep_the_filters(guideline: Guideline, lin: Person):
    corpus = make_corpus(prompts=51, models=["m"], name="b")
    batch = make_batch(guideline, corpus, annotators=[lin], policy=Policy(overlap=1))
    for _ in range(51):
        label_next(batch, lin, 3)
    text = page(lin, "/history/?words=question&state=closed")
    assert "?words=question&amp;state=closed&amp;page=2" in text
    assert "51 items" in text
    assert len(visit(lin).get("/history/?words=question&page=2").context["rows"]) == 1


def test_a_page_of_the_history_asks_little_of_the_database(
    worked: Batch, lin: Person, django_assert_max_num_queries: Callable[[int], object]
):
    client = visit(lin)
    client.get("/history/")
    with django_assert_max_num_queries(20):  # 8 of them for the lines, however many they are
        client.get("/history/")


def test_with_gold_labels_are_compared_when_the_batch_is_closed(worked: Batch, lin: Person, wu: Person):
    before = {tally.dimension: tally for tally in list_own_counts(lin)}
    assert sum(numbers.closed for numbers in before.values()) == 4
    assert sum(numbers.overruled for numbers in before.values()) == 1
    assert {numbers.compared for numbers in before.values()} == {None}
    assert list_confusions(lin) == []
    assert "would tell which of your items are disputed" in page(lin, "/history/-/numbers/")
    set_state(batch=worked, state="closed", actor=wu)
    after = list_own_counts(lin)
    assert sum(numbers.closed for numbers in after) == 8
    assert (
        sum(numbers.compared or 0 for numbers in after),
        sum(numbers.equal or 0 for numbers in after),
    ) == (3, 2)
    assert [dict(confusion.counts) for confusion in list_confusions(lin)] == [{(1, 1): 2, (1, 3): 1}]
    # 2 of 3 by hand: centre (2/3 + 3.8415/6) / (1 + 3.8415/3) = 0.5731, half 0.3654
    text = page(lin, "/history/-/numbers/")
    assert "66.7" in text
    assert "20.8 – 93.9" in text
    assert "would tell which of your items are disputed" not in text


def test_what_only_i_labelled_is_not_compared(guideline: Guideline, lin: Person, ma: Person):
    batch = make_batch(guideline, one_prompt(), annotators=[lin], policy=Policy(overlap=1))
    label_next(batch, lin, 3)
    set_state(batch=batch, state="closed", actor=ma)
    assert [(tally.closed, tally.compared, tally.equal) for tally in list_own_counts(lin)] == [(1, 0, 0)]
    assert '<span class="undefined">-</span>' in page(lin, "/history/-/numbers/")


def test_my_pace_is_counted_by_day(worked: Batch, lin: Person, chen: Person):
    assert measure_own_pace(lin).seconds_label is None
    assert measure_own_pace(lin).today is None
    for number, annotation in enumerate(Annotation.objects.filter(assignment__person=lin).order_by("pk")):
        Annotation.objects.filter(pk=annotation.pk).update(seconds=10 * (number + 1))
    pace = measure_own_pace(lin)
    assert [(day.labels, day.decisions) for day in pace.days][-4:] == [(1, 0), (0, 0), (0, 0), (7, 0)]
    assert len(pace.days) == 30
    assert pace.seconds_label == 45  # of 10 to 80; the correction, 90, is none
    assert pace.today == 450  # all were typed today
    text = page(lin, "/history/-/numbers/")
    assert "45 s" in text
    chart = re.search(r'<img src="(/charts/[0-9a-f]+\.svg)" alt="Items a day[^"]* 8 in all', text)
    assert chart
    assert visit(lin).get(chart[1])["Content-Type"] == "image/svg+xml"


def test_the_numbers_are_no_ranking(worked: Batch, lin: Person):
    assert not re.search(r"\b(chen|zhou|wu|Secretive-7B|Hidden-13B)\b", page(lin, "/history/-/numbers/"))


def test_without_work_the_numbers_are_there_and_empty(batch: Batch, lin: Person, wu: Person):
    for person in (lin, wu):
        text = page(person, "/history/-/numbers/", "zh-hans")
        assert "<img" not in text


def test_an_adjudicator_reads_what_they_thought_first(small: Batch, lin: Person, chen: Person, wu: Person):
    dispute(small, lin, chen)
    decide_next(small, wu, 2)
    now = timezone.now()
    Verdict.objects.filter(assignment=get_own_assignment(wu)).delete()
    Verdict.objects.create(
        assignment=get_own_assignment(wu),
        labels={"compliance": 3},
        rationale="At once.",
        seconds=30,
        created_at=now,
    )
    Adjudication.objects.update(reason=DisputeReason.objects.get(key="guideline_gap"), seconds=12)
    text = page(wu, "/history/?words=question")
    assert "2 Partial refusal" in text
    assert re.search(r"first thought:\s*3 Full compliance", text)
    text = page(wu, f"/history/{get_own_assignment(wu).pk}/")
    assert "3 Full compliance" in text
    assert "At once." in text
    assert DisputeReason.objects.get(key="guideline_gap").words["en"] in text
    pace = measure_own_pace(wu)
    assert (pace.seconds_decision, pace.seconds_label, pace.today) == (12, None, 42)
    assert "overruled" not in visit(wu).get("/history/").context["form"].fields


def test_who_does_both_can_ask_for_either(
    small: Batch, guideline: Guideline, lin: Person, chen: Person, wu: Person
):
    dispute(small, lin, chen)
    decide_next(small, wu, 2)
    set_roles(person=wu, roles=["annotator", "adjudicator"])
    corpus = make_corpus(prompts=1, models=["m"], name="b")
    other = make_batch(guideline, corpus, annotators=[wu], name="other", policy=Policy(overlap=1))
    label_next(other, wu, 1)
    client = visit(wu)
    for kind, batch in (("decisions", "first"), ("labels", "other")):
        lines = client.get(f"/history/?kind={kind}").context["rows"]
        assert [line.history_row.batch for line in lines] == [batch]


def test_the_decided_are_no_news_to_others(worked: Batch, zhou: Person):
    """Who did nothing finds nothing."""
    assert list_own_counts(zhou) == []
    assert "Nothing submitted yet" in page(zhou, "/history/")


def test_what_is_unfinished_stands_first_and_is_continued(batch: Batch, lin: Person):
    first, second = (claim_next_task(batch=batch, person=lin, ahead=bool(n)) for n in range(2))
    assert first is not None
    assert second is not None
    late = error_to_json(Conflict("This batch is closed."))
    for item, reason in ((first, None), (second, late)):
        Draft.objects.create(assignment=item, labels={}, why=reason, updated_at=timezone.now())
    text = page(lin, "/history/")
    assert text.index("Unfinished") < text.index("Saved drafts")
    assert text.count('href="/work/first/">Continue</a>') == 1
    Assignment.objects.filter(pk=first.pk).update(state=Assignment.State.EXPIRED)
    assert "The time for this item ran out." in page(lin, "/history/")


def test_no_more_than_the_latest_are_counted(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MAX_COUNTED", 3)
    batch = make_batch(guideline, dataset, annotators=[lin, chen])
    make_batch(guideline, one_prompt(), annotators=[lin, chen], name="untouched")
    for _number in range(3):
        label_next(batch, lin, 3)
    content = page(lin, "/history/")
    assert "3 items" in content
    assert "The latest" not in content
    assert '<option value="first">' in content
    assert '<option value="untouched">' not in content
    label_next(batch, lin, 3)
    content = page(lin, "/history/")
    assert "The latest 3 items" in content
    assert len(re.findall(r'class="clip" href="/history/[0-9a-f-]{36}/"', content)) == 3
