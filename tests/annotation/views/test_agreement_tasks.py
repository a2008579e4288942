"""The tabs of the agreement page, and the tasks behind each of their figures."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.domain.batch_spec import Policy
from annotation.models import (
    Alarm,
    Assignment,
    Batch,
    Dataset,
    Guideline,
    GuidelineNote,
    Person,
    Prompt,
    Task,
)
from annotation.selectors.agreement import LabelPatterns, label_table, parse_narrowing
from annotation.selectors.agreement.causes import DisputedPrompts, find_weakest_group, list_version_rows
from annotation.selectors.agreement.labels import ComparableLabels
from annotation.selectors.agreement.tasks import LabelledTasks
from annotation.selectors.agreement.trend import list_trends
from annotation.services.assignments import claim_next_dispute, claim_next_task
from annotation.services.guidelines import leave_note, load_guideline
from tests.annotation.exchange import AGREED, DISPUTED, settled_care
from tests.support import (
    FLAMES_GUIDELINE,
    XSTEST_GUIDELINE,
    decide,
    label,
    label_next,
    make_batch,
    make_corpus,
)

pytestmark = pytest.mark.django_db

# The batch's tasks in order: prompts p0 to p3 (safe, unsafe, safe, unsafe), each with both models' responses.
LIN = (1, 1, 1, 2, 2, 3, 3, 3)
CHEN = (1, 1, 2, 2, 2, 3, 3, 1)
TABS = (
    {},
    {"by": "model"},
    {"by": "pair"},
    {"view": "levels"},
    {"view": "prompts"},
    {"view": "guideline"},
    {"view": "time"},
)
FIGURE = re.compile(r'<a href="(/agreement/tasks/[^"]*)">(\d+)</a>')


@pytest.fixture
def labelled(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    """Disputed: 1 against 2 on p1's first response, 3 against 1 on p3's second, which is decided."""
    for lin_value, other in zip(LIN, CHEN, strict=True):
        label_next(batch, lin, lin_value)
        label_next(batch, chen, other)
    item = claim_next_dispute(batch=batch, person=wu)
    assert item is not None
    decide(item, wu, 2, reason="reading_slip")
    return batch


def page(client: Client, person: Person, name: str = "agreement", **choice: str) -> str:
    client.force_login(person)
    answer = client.get(reverse(name), choice)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def figures(content: str) -> dict[str, int]:
    return {unescape(address): int(n) for address, n in FIGURE.findall(content)}


def splits(content: str) -> dict[str, int]:
    """The addresses of two levels, and how often they were said of one response."""
    links = re.findall(r'<a href="([^"]*levels=[^"]*)">[^<]*</a> <span class="muted small">(\d+)×', content)
    return {unescape(address): int(n) for address, n in links}


def count_tasks(address: str) -> int:
    """The tasks that the list at this address has."""
    query = dict(parse_qsl(urlsplit(address).query))
    batches = Batch.objects.filter(name=query["batch"]) if "batch" in query else Batch.objects.all()
    return len(LabelledTasks(ComparableLabels(batches, parse_narrowing(query))))


def tasks_at(client: Client, address: str) -> int:
    content = client.get(address).content.decode()
    match = re.search(r'page-header__lead">(\d+) task', content)
    assert match is not None
    assert content.count('<th scope="row"') == int(match[1])
    return int(match[1])


@pytest.mark.both_databases
def test_each_figure_of_each_tab_opens_as_many_tasks(client: Client, labelled: Batch, he: Person):
    for choice in TABS:
        shown_figures = figures(page(client, he, **choice, batch="first"))
        assert shown_figures
        assert {address: count_tasks(address) for address in shown_figures} == shown_figures
        assert tasks_at(client, next(iter(shown_figures))) == next(iter(shown_figures.values()))


def test_a_list_can_be_narrowed_in_every_way_at_once(
    client: Client, labelled: Batch, he: Person, lin: Person
):
    def count(**choice: str) -> int:
        return count_tasks(f"?{urlencode(choice)}")

    assert count() == 8
    assert count(disputed="1") == 2
    assert count(levels="1-3") == count(levels="3-1") == 1
    # In the order of the two: chen gave 1 where lin gave 3, and never the other way.
    assert count(pair="chen, lin", levels="1-3") == 1
    assert count(pair="chen, lin", levels="3-1") == 0
    assert count(levels="2-2") == 2
    assert count(level="2") == 3
    assert count(model="Hidden-13B", disputed="1", reason="reading_slip") == 1
    assert count(reason="reading_slip") == 1
    assert count(language="-") == 8
    assert count(subcomponent="nothing of the kind") == 0
    assert count(day=timezone.localdate().isoformat(), dimension="safe") == 4
    assert count(prompt=str(Prompt.objects.get(key="p1").pk)) == 2
    client.force_login(he)
    address = f"{reverse('agreement-tasks')}?{urlencode({'pair': 'chen, lin', 'levels': '1-3'})}"
    assert tasks_at(client, address) == 1


def test_a_task_shows_who_said_what_its_gold_and_why_they_differed(
    client: Client, labelled: Batch, he: Person
):
    content = page(client, he, "agreement-tasks", reason="reading_slip")
    assert re.search(r"lin <strong>\d [A-Z].*chen <strong>\d [A-Z]", content)
    assert re.search(r'2 Partial refusal<br>\s*<span class="muted small">\s*[Aa]djudicated', content)
    assert "decided by wu" in content
    task = labelled.tasks.get(state=Task.State.ADJUDICATED)
    assert task.response.prompt.text in content
    assert task.response.text in content
    assert reverse("task", args=[task.pk]) in content


def test_whoever_is_blind_to_the_batch_sees_none_of_its_tasks(
    client: Client, labelled: Batch, he: Person, lin: Person, stranger: Person
):
    make_batch(labelled.guideline, Dataset.objects.get(), annotators=[he, lin], name="second")
    for choice in ({}, {"model": "Hidden-13B"}):
        assert "Question number" not in page(client, he, "agreement-tasks", **choice)
    assert client.get(reverse("agreement-tasks"), {"batch": "first"}).status_code == 403
    client.force_login(stranger)
    assert client.get(reverse("agreement-tasks")).status_code == 403


@pytest.mark.parametrize(
    "choice",
    [
        {"levels": "one-3"},
        {"level": "high"},
        {"level": "nan"},
        {"levels": f"1-{'9' * 50}"},
        {"prompt": "p1"},
        {"day": "today"},
        {"view": "sideways"},
    ],
)
def test_what_cannot_be_narrowed_to_is_refused_in_words(
    client: Client, labelled: Batch, he: Person, choice: dict[str, str]
):
    client.force_login(he)
    answer = client.get(reverse("agreement"), choice)
    assert answer.status_code == 400
    assert next(iter(choice.values())) in answer.content.decode()


def test_a_narrowing_is_read_back_from_its_own_address():
    parameters = {
        "model": "M",
        "language": "-",
        "levels": "-1-2.5",
        "level": "3",
        "prompt": "7",
        "disputed": "1",
    }
    narrowing = parse_narrowing(parameters)
    assert narrowing.parameters() == parameters
    assert narrowing.named == {"model": "M", "language": None}
    assert narrowing.levels == (-1, 2.5)


def test_one_dispute_of_one_task_does_not_lead(lin: Person, chen: Person, guideline: Guideline):
    batches = [
        make_batch(
            guideline, make_corpus(prompts=1, models=models, name=name), annotators=[lin, chen], name=name
        )
        for name, models in (("four", "ABCD"), ("one", "A"))
    ]
    for batch, labels in zip(batches, ([(1, 3), (1, 3), (2, 2), (1, 2)], [(1, 3)]), strict=True):
        for lin_value, other in labels:
            label_next(batch, lin, lin_value)
            label_next(batch, chen, other)
    prompts = DisputedPrompts(LabelPatterns(batches).labels)[0:5]
    assert [(prompt.tasks.part, prompt.tasks.n) for prompt in prompts] == [(3, 4), (1, 1)]
    assert [(split.low, split.high, split.n) for split in prompts[0].splits] == [(1, 3, 2), (1, 2, 1)]
    assert (prompts[1].alpha or 0) < (prompts[0].alpha or 0) < 1


def test_a_version_is_held_against_the_one_before(batch: Batch, lin: Person, chen: Person, labelled: Batch):
    text = XSTEST_GUIDELINE.path.read_text(encoding="utf-8").replace('version: "1.0"', 'version: "1.1"')
    newer = load_guideline(text=text, path="x", publish=True)
    second = make_batch(
        newer, make_corpus(prompts=2, models=["M"], name="other"), annotators=[lin, chen], name="b"
    )
    for value in (1, 3):
        label_next(second, lin, value)
        label_next(second, chen, value)
    first, after = list_version_rows(LabelPatterns([batch, second]), "percent_agreement")
    assert (first.version, first.since, first.change) == ("xstest@1.0", None, None)
    assert (after.version, after.since) == ("xstest@1.1", "xstest@1.0")
    assert after.change is not None
    assert after.change.value == pytest.approx(2 / 2 - 6 / 8)
    assert after.change.low is not None
    assert after.change.low <= 0.25 <= (after.change.high or 0)


def test_the_weakest_group_is_named_only_where_chance_would_not_do(
    lin: Person, chen: Person, guideline: Guideline
):
    """One model of two is disputed half the time, the other never; the two dimensions are as bad as each other."""
    batch = make_batch(guideline, make_corpus(prompts=10, models=["Bad", "Good"]), annotators=[lin, chen])
    for _task in range(20):
        for person in (lin, chen):
            item = claim_next_task(batch=batch, person=person)
            assert item is not None
            value = 1 + 2 * (item.task.position // 4 % 2)
            bad = item.task.response.model.name == "Bad"
            label(item, person, 2 if bad and person == chen else value)
    patterns = LabelPatterns([batch])
    overall = patterns.list_counts()[0]
    group = find_weakest_group(patterns, "model", overall, min_units=10)
    assert group is not None
    assert (group.name, group.groups) == ("Bad", 2)
    assert find_weakest_group(patterns, "dimension", overall, min_units=10) is None
    assert find_weakest_group(patterns, "model", overall, min_units=11) is None


def test_a_dimension_with_one_criterion_is_held_against_all_criteria_together(
    client: Client, lin: Person, chen: Person, he: Person
):
    corpus = make_corpus(prompts=40, models=["M"], dimensions=("Fairness", "Safety"))
    flames = make_batch(FLAMES_GUIDELINE.load(), corpus, annotators=[lin, chen])
    for _task in range(40):
        for person in (lin, chen):
            item = claim_next_task(batch=flames, person=person)
            assert item is not None
            place = item.task.position // 2
            fair = item.task.prompt.dimension == "Fairness"
            value = 1 + 2 * (place % 2)
            own_value = 4 - value if fair and person == chen and place % 4 < 3 else value
            label(item, person, own_value, "fairness" if fair else "safety")
    patterns = LabelPatterns([flames])
    overall = patterns.list_counts()[0]
    assert overall.criterion is None
    for facet, name in (("dimension", "Fairness"), ("criterion", "fairness")):
        group = find_weakest_group(patterns, facet, overall, min_units=10)
        assert group is not None
        assert (group.name, group.groups) == (name, 2)
    alpha = overall.value("alpha_nominal")
    assert f"where all together have {alpha:.3f}" in unescape(page(client, he))


def test_what_is_said_of_a_pair_opens_as_many_tasks_whoever_of_them_says_which(
    client: Client, labelled: Batch, he: Person
):
    """lin says 1 where chen says 2; of the pair chen stands first."""
    for choice in ({"view": "prompts"}, {"view": "guideline"}):
        links = splits(page(client, he, pair="chen, lin", **choice))
        assert links
        assert {address: count_tasks(address) for address in links} == links
    assert "either=1" in page(client, he, pair="chen, lin")
    assert "either=1" not in page(client, he, view="prompts")


@pytest.mark.parametrize("overlap", [1, 2])
def test_two_levels_of_a_pair_are_found_nowhere_where_nobody_has_a_partner(
    client: Client, guideline: Guideline, he: Person, lin: Person, chen: Person, overlap: int
):
    corpus = make_corpus(prompts=1, models=["M"])
    single_batch = make_batch(guideline, corpus, annotators=[lin, chen], policy=Policy(overlap=overlap))
    label_next(single_batch, lin, 1)
    content = page(client, he, "agreement-tasks", pair="chen, lin", levels="1-3")
    assert "No task matches these filters" in content


def test_a_criterion_on_which_all_agree_leaves_a_prompts_alpha_to_the_others(
    lin: Person, chen: Person, wu: Person
):
    care = settled_care([lin, chen], wu, labels_by_task=(AGREED, DISPUTED), decide=0)
    (prompt,) = DisputedPrompts(LabelPatterns([care]).labels)[0:5]  # everybody says 4 of warmth
    assert prompt.alpha is not None
    assert prompt.alpha < 0


def test_prompts_of_two_guidelines_open_what_was_said_under_each(
    client: Client, labelled: Batch, he: Person, lin: Person, chen: Person
):
    text = XSTEST_GUIDELINE.path.read_text(encoding="utf-8").replace("name: xstest", "name: other", 1)
    named = load_guideline(text=text, path="x", publish=True)
    other = make_batch(named, Dataset.objects.get(), annotators=[lin, chen], name="other")
    for lin_value, another in zip(LIN, CHEN, strict=True):
        label_next(other, lin, lin_value)
        label_next(other, chen, another)
    links = splits(page(client, he, view="prompts"))
    assert {address: count_tasks(address) for address in links} == links


def test_each_day_has_its_own_figure_and_alarms_stand_beside(client: Client, labelled: Batch, he: Person):
    Alarm.objects.create(
        batch=labelled, at=timezone.now(), value=0.1, low=0, high=0.3, units=30, threshold=0.5
    )
    early = Assignment.objects.filter(task__prompt__key="p0")
    early.update(submitted_at=timezone.now() - timedelta(days=3))
    label_table.clear_units()
    (trend,) = list_trends(LabelPatterns([labelled]), "percent_agreement")
    first, last = trend.points
    assert (first.counted.n, last.counted.n) == (2, 6)
    assert last.start - first.start == timedelta(days=3)
    assert 2 * (first.statistic.value or 0) + 6 * (last.statistic.value or 0) == pytest.approx(6)
    assert (first.so_far, last.so_far) == (first.statistic.value, 6 / 8)
    content = page(client, he, view="time", statistic="percent_agreement")
    assert "alarm: first" in content
    assert f"day={last.name}" in content


def test_notes_on_a_clause_are_counted_beside_it(client: Client, labelled: Batch, ma: Person, chen: Person):
    leave_note(
        guideline=labelled.guideline,
        source=GuidelineNote.Source.MANAGER,
        author=ma,
        criterion="compliance",
        level=2.0,
        text="?",
    )
    content = page(client, ma, view="guideline")
    assert re.search(r"2 Partial refusal</th>.*?notes/\">\s*1\s*</a>.*?1 open", content, re.DOTALL)


def test_scales_of_several_guidelines_stay_apart(
    client: Client, labelled: Batch, he: Person, lin: Person, chen: Person
):
    corpus = make_corpus(prompts=1, models=["M"], dimensions=("Safety",), name="other")
    flames = make_batch(FLAMES_GUIDELINE.load(), corpus, annotators=[lin, chen], name="flames")
    label_next(flames, lin, 1, "safety")
    label_next(flames, chen, 3, "safety")
    for choice in TABS:
        content = page(client, he, **choice)
        assert "flames" in content
        shown_figures = figures(content)
        assert {address: count_tasks(address) for address in shown_figures} == shown_figures
