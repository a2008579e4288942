"""How people's labels stand beside others', counted: rates, one person's part, the items behind it, adjudicators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from django.utils import timezone

from annotation.core.proportions import NO_RATE, measure_rates, wilson
from annotation.domain.annotations import Submission
from annotation.domain.quality import Finding
from annotation.models import (
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    Dataset,
    GoldQuestion,
    GoldQuestionTask,
    Guideline,
    Person,
    Prompt,
    Response,
    Task,
)
from annotation.selectors.adjudication import build_dispute
from annotation.selectors.quality import (
    GOLD,
    PARTNERS,
    ItemFilter,
    Overview,
    build_comparison_table,
    build_scale,
    find_rows,
    flatten_labels,
    get_overview,
    list_adjudicators,
    list_checks,
    list_items,
    measure_annotator,
)
from annotation.selectors.quality import comparisons as comparisons_module
from annotation.selectors.quality.overview import read_floors
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.assignments import claim_next_dispute
from annotation.services.guidelines import load_guideline
from tests.support import (
    FLAMES_GUIDELINE,
    XSTEST_GUIDELINE,
    decide_next,
    label_next,
    make_batch,
    make_corpus,
    make_repeat,
)

# ---------------------------------------------------------------- rates


def test_a_rate_of_independent_comparisons_has_wilsons_interval():
    equal = [True] * 7 + [False] * 3 + [True]
    seven, single_rate = measure_rates(equal, [0] * 10 + [1], range(11), groups=2)
    assert (seven.equal, seven.n, seven.value) == (7, 10, 0.7)
    assert (seven.low, seven.high) == pytest.approx(wilson(7, 10))
    assert (single_rate.equal, single_rate.n) == (1, 1)
    assert (single_rate.low, single_rate.high) == pytest.approx(wilson(1, 1))


def test_what_is_said_twice_of_a_task_counts_once_for_the_interval():
    equal = np.repeat([True] * 35 + [False] * 15, 2)
    (twice,) = measure_rates(equal, np.zeros(100), np.repeat(np.arange(50), 2), groups=1)
    assert (twice.equal, twice.n) == (70, 100)
    # 100 comparisons in 50 tasks that are alike in each: the design effect is 2 * 99/98.
    assert (twice.low, twice.high) == pytest.approx(wilson(35, 50), abs=0.002)


def test_a_rate_of_nothing_is_undefined():
    assert measure_rates([], [], [], groups=1) == [NO_RATE]
    assert measure_rates([True], [1], [0], groups=2)[0] == NO_RATE
    assert NO_RATE.to_json() == {"value": None, "low": None, "high": None, "n": 0}


@pytest.mark.parametrize(("prompts", "icc", "share"), [(10, 0.2, 0.8), (30, 0.3, 0.7), (200, 0.3, 0.8)])
def test_intervals_over_clusters_hold_the_share(prompts: int, icc: float, share: float) -> None:
    """Seeded: of 2,000 samples 93.5 to 95.7% held it; Wilson's interval over single comparisons 85 to 90%."""
    chance = np.random.default_rng(3)
    shape = (1 - icc) / icc
    covered = 0
    for _ in range(300):
        sizes = chance.integers(1, 6, prompts)
        cluster = np.repeat(np.arange(prompts), sizes)
        shares = chance.beta(share * shape, (1 - share) * shape, prompts)
        equal = chance.random(len(cluster)) < shares[cluster]
        (rate,) = measure_rates(equal, np.zeros(len(cluster)), cluster, groups=1)
        assert rate.low is not None
        assert rate.high is not None
        covered += rate.low <= share <= rate.high
    assert covered / 300 > 0.9


def test_where_all_is_alike_tasks_count_and_not_comparisons():
    (rate,) = measure_rates([True] * 6, [0] * 6, [0, 0, 0, 1, 1, 1], groups=1)
    assert (rate.low, rate.high) == pytest.approx(wilson(2, 2))


# ---------------------------------------------------------------- one person's part


@pytest.fixture
def worked(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    """lin and chen say 3 3, 1 1, 1 3, 2 3, 3 3; wu decides the first dispute with 3."""
    for value, other in ((3, 3), (1, 1), (1, 3), (2, 3), (3, 3)):
        label_next(batch, lin, value)
        label_next(batch, chen, other)
    decide_next(batch, wu, 3)
    return batch


def test_a_persons_part_is_counted_beside_gold_and_beside_the_partner(
    worked: Batch, lin: Person, chen: Person
):
    part = measure_annotator(build_comparison_table([worked]), lin.pk)
    assert (part.tasks, part.partners.equal, part.partners.n) == (5, 3, 5)
    assert (part.gold.equal, part.gold.n) == (0, 1)  # where both agree gold is their own; one dispute is open
    (partner,) = part.by_partner
    assert (partner.person, partner.tasks, partner.rate.equal) == (chen.pk, 5, 3)
    tables = {table.against: table for table in part.tables}
    # Rows are what the other said (1, 2, 3), columns what lin said.
    assert tables[PARTNERS].counts == ((1, 0, 0), (0, 0, 0), (1, 1, 2))
    assert (tables[GOLD].n, tables[GOLD].n_differing) == (4, 1)
    (shift,) = part.shifts
    assert (shift.n, shift.value) == (5, pytest.approx(-3 / 5))  # two below and one below chen, of five
    assert sum(dimension.tasks for dimension in part.dimensions) == 5
    assert sum(dimension.partners.equal for dimension in part.dimensions) == 3


def test_whoever_has_nothing_to_compare_has_an_empty_part(worked: Batch, zhou: Person):
    part = measure_annotator(build_comparison_table([worked]), zhou.pk)
    assert (part.tasks, part.gold, part.partners, part.tables, part.days) == (0, NO_RATE, NO_RATE, (), ())
    assert part.times.median is None
    assert zhou.pk not in get_overview([worked]).rows


def test_each_figure_opens_its_items(worked: Batch, lin: Person, chen: Person, zhou: Person):
    sheet = build_comparison_table([worked])

    def n(**filters: object) -> int:
        return len(find_rows(sheet, lin.pk, ItemFilter(**filters)))

    assert n() == 5
    assert n(own_label=1, partner_label=3) == 1
    assert n(differs=True) == 2
    assert n(off_gold=True) == 1
    assert n(gold=3) == 3
    assert n(partner=chen.pk) == 5
    assert n(partner=zhou.pk) == 0
    assert n(criterion="compliance") == 5
    assert n(criterion="weather") == 0
    assert n(dimension="safe") + n(dimension="unsafe") == 5
    today = int(sheet.units.day.max())
    assert (n(day=today), n(since=today), n(day=today - 1)) == (5, 5, 0)
    (row,) = find_rows(sheet, lin.pk, ItemFilter(off_gold=True))
    (item,) = list_items(sheet, lin.pk, [row])
    assert (item.own_label, dict(item.partner_labels), item.gold, item.decided) == (1, {chen.pk: 3}, 3, True)


def test_the_fastest_items_come_first_and_those_without_a_time_last(worked: Batch, lin: Person):
    annotations = Annotation.objects.filter(assignment__person=lin).order_by("pk")
    for annotation, seconds in zip(annotations, (20, None, 5, 40, 10), strict=True):
        Annotation.objects.filter(pk=annotation.pk).update(seconds=seconds)
    sheet = build_comparison_table([worked])
    rows = find_rows(sheet, lin.pk, ItemFilter(fastest=True))
    assert [item.seconds for item in list_items(sheet, lin.pk, rows)] == [5, 10, 20, 40, None]
    assert measure_annotator(sheet, lin.pk).times.median == 15


def test_which_end_is_lenient_comes_from_the_ranking_metric_or_stays_open(
    batch: Batch, lin: Person, chen: Person
):
    assert build_scale(batch, "compliance").lenient == 0  # full compliance counts for safe prompts alone
    corpus = make_corpus(prompts=2, models=["M"], name="flames", dimensions=["Fairness"])
    flames = make_batch(FLAMES_GUIDELINE.load(), corpus, annotators=[lin, chen], name="second")
    assert build_scale(flames, "fairness").lenient == 1  # 3 is harmless


def test_what_was_worked_out_is_kept_until_a_label_comes(worked: Batch, lin: Person, chen: Person):
    before = get_overview([worked])
    assert get_overview([worked]) is before
    label_next(worked, lin, 3)
    label_next(worked, chen, 3)
    assert get_overview([worked]).tasks == before.tasks + 1


def test_levels_between_whole_numbers_stand_on_their_scale(dataset: Dataset, lin: Person, chen: Person):
    text = XSTEST_GUIDELINE.path.read_text(encoding="utf-8").replace("name: xstest", "name: tenths", 1)
    for value in (1, 2, 3):
        text = text.replace(f"- value: {value}", f"- value: 0.{value}")
        text = text.replace(f"levels: [{value}]", f"levels: [0.{value}]")
    tenths = load_guideline(text=text, path="x", publish=True)
    batch = make_batch(tenths, dataset, annotators=[lin, chen], name="tenths")
    for own_label, partner_label in ((0.1, 0.1), (0.1, 0.3), (0.2, 0.2)):
        label_next(batch, lin, own_label)
        label_next(batch, chen, partner_label)
    sheet = build_comparison_table([batch])
    assert sorted(sheet.level.tolist()) == [[0, 0], [0, 2], [1, 1]]
    assert {table.n for table in measure_annotator(sheet, lin.pk).tables if table.against == PARTNERS} == {3}
    (item,) = list_items(
        sheet, lin.pk, find_rows(sheet, lin.pk, ItemFilter(own_label=0.1, partner_label=0.3))
    )
    assert (item.own_label, dict(item.partner_labels)) == (
        0.1,
        {chen.pk: 0.3},
    )  # exactly: names are found by it


def test_items_are_of_one_kind_where_they_are_alike(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, monkeypatch: pytest.MonkeyPatch
):
    # Of a kind with too few tasks the model counts no more, and then the subcomponent.
    monkeypatch.setattr(comparisons_module, "MIN_KIND_TASKS", 2)
    batch = make_batch(guideline, dataset, annotators=[lin, chen], name="kinds")
    for _ in range(Task.objects.filter(batch=batch).count()):
        label_next(batch, lin, 3)
        label_next(batch, chen, 3)
    sheet = build_comparison_table([batch])
    prompts = Prompt.objects.in_bulk(sheet.units.prompt.tolist())
    by_kind: dict[int, set[tuple[str, str]]] = {}
    for prompt, kind in zip(sheet.units.prompt.tolist(), sheet.kind.tolist(), strict=True):
        by_kind.setdefault(kind, set()).add((prompts[prompt].dimension, prompts[prompt].subcomponent))
    dimensions = {prompt.dimension for prompt in prompts.values()}
    assert len(by_kind) >= len(dimensions) > 1
    assert all(len({dimension for dimension, _ in kinds}) == 1 for kinds in by_kind.values())
    assert flatten_labels(sheet).kind is not None


def test_a_change_is_dated_on_the_first_day_that_is_otherwise():
    overview = Overview(rows={}, copying=(), first_day=100, tasks=0, lenient=0)
    change = Finding(0.5, 0.1, 0.9, 60, 4.0, 0.0, day=9.5)  # day 9 is as before, day 10 is not
    assert overview.find_day(change) == 110


# ---------------------------------------------------------------- adjudicators


def test_an_adjudicators_side_is_the_letter_that_they_saw(
    batch: Batch, lin: Person, chen: Person, wu: Person
):
    for _time in range(4):
        label_next(batch, lin, 1)
        label_next(batch, chen, 3)
    for _time in range(3):
        assignment = claim_next_dispute(batch=batch, person=wu)
        assert assignment is not None
        record_verdict(assignment_id=assignment.pk, person=wu, work=Submission({"compliance": 3}))
        (first,) = (side for side in build_dispute(assignment).sides if side.letter == "A")
        work = Submission(dict(first.labels), reason="reading_slip", rationale="as A")
        adjudicate(assignment_id=assignment.pk, person=wu, key="k", work=work)
    decide_next(batch, wu, 2)
    (adjudicator,) = list_adjudicators([batch])
    assert (adjudicator.person, adjudicator.decisions, adjudicator.neither) == (wu, 4, 1)
    assert (adjudicator.lean.first, adjudicator.lean.n, adjudicator.lean.flagged) == (3, 3, False)
    changed = sum(
        adjudication.labels["compliance"] != 3
        for adjudication in Adjudication.objects.exclude(labels={"compliance": 2})
    )
    assert (adjudicator.changed.equal, adjudicator.changed.n) == (changed, 4)
    assert adjudicator.reasons == {"reading_slip": 4}
    # 1 is one level below the middle of 1 and 3, and 3 one above.
    assert adjudicator.shift == pytest.approx((3 - 2 * changed) / 4)
    assert adjudicator.consistency == NO_RATE
    first_decisions = list(Adjudication.objects.order_by("pk"))
    for decision, other in zip(first_decisions, (None, None, {1: 3, 3: 1, 2: 3}), strict=False):
        make_repeat(decision.task, due_at=timezone.now())
        value = decision.labels["compliance"]
        decide_next(batch, wu, value if other is None else other[value])
    (with_repeats,) = list_adjudicators([batch])
    assert (with_repeats.consistency.equal, with_repeats.consistency.n) == (2, 3)
    assert replace(with_repeats, consistency=NO_RATE) == adjudicator


def test_a_leaning_to_a_place_is_said_where_chance_does_not_explain_it(
    monkeypatch: pytest.MonkeyPatch, batch: Batch, lin: Person, chen: Person, wu: Person
):
    # As if A were always lin: then wu, who always decides as lin, always decides as A.
    monkeypatch.setattr(
        "annotation.selectors.quality.adjudicators.shuffle_sides", lambda _claim, sides: list(sides)
    )
    for _time in range(8):
        label_next(batch, lin, 1)
        label_next(batch, chen, 3)
    for _time in range(8):
        decide_next(batch, wu, 1)
    (adjudicator,) = list_adjudicators([batch])
    assert adjudicator.lean.p == pytest.approx(2 * 0.5**8)
    assert adjudicator.lean.flagged


# ---------------------------------------------------------------- known items


def test_a_persons_checks_are_listed_with_the_right_labels(worked: Batch, lin: Person, chen: Person):
    assignment = (
        Assignment.objects.filter(person=lin, state="submitted")
        .select_related("task")
        .order_by("submitted_at")
    )
    task = assignment[1].task
    item = GoldQuestion.objects.create(
        batch=worked, kind="check", response=task.response, labels={"compliance": 3}, position=0
    )
    GoldQuestionTask.objects.create(task=task, item=item, person=lin)
    (check,) = list_checks(lin, worked)
    assert (check.task, check.labels, check.right) == (task.pk, {"compliance": 1}, {"compliance": 3})
    assert not check.passed
    assert not check.is_disclosed
    assert list_checks(chen, worked) == []


def test_the_floor_of_reading_is_that_of_the_response_of_each_task(batch: Batch):
    """In the order and as often as the tasks are named; a dialogue's text stands in its turns."""
    first, second, third = batch.tasks.order_by("pk")[:3]
    Response.objects.filter(pk=first.response_id).update(text="")
    Response.objects.filter(pk=second.response_id).update(text="long " * 100)
    turns = [{"role": "user", "text": "长" * 500}, {"role": "assistant", "text": "好"}]
    Response.objects.filter(pk=third.response_id).update(text="", turns=turns)
    floors = read_floors(np.array([third.pk, first.pk, second.pk, first.pk]))
    assert floors.tolist() == [1.5, 0.5, 1.5, 0.5]
