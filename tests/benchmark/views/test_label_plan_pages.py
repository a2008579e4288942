"""The page of the label plan, for each role."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client

from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.models import Annotation, Batch, Guideline, Person
from annotation.services.batches.batches import create_batch
from benchmark.domain.estimates.label_plan.comparison import compute_min_gap
from benchmark.models import BenchmarkRun, LabelPlan
from benchmark.selectors.estimates.comparison_plan import plan_run_comparison
from benchmark.selectors.estimates.prompts import count_prompts_to_compare
from benchmark.services.estimates import load_standing
from benchmark.views.estimates import _draw_curve
from tests.benchmark.labelling_support import run_of, run_with_gold
from tests.benchmark.support import ready_scorer
from tests.support import XSTEST_GUIDELINE, add_role, make_corpus, person

pytestmark = pytest.mark.django_db
PAGE = "/runs/board/label-plan/"
TEN = PAGE + "?points=10"
MAKE = PAGE + "batch/?points=10"


@pytest.fixture(scope="module")
def board(module_db: None) -> str:
    return run_with_gold(XSTEST_GUIDELINE.load(), [person("lin"), person("chen")]).name


@pytest.fixture
def run(db: None, board: str) -> BenchmarkRun:
    return BenchmarkRun.objects.get(name=board)


def page_of(client: Client, url: str = PAGE, status: int = 200) -> str:
    answer = client.get(url)
    assert answer.status_code == status
    return re.sub(r"\s+", " ", html.unescape(answer.content.decode()))


def test_it_says_who_is_not_separated_and_what_points_take(run: BenchmarkRun, client: Client, ma: Person):
    client.force_login(ma)
    page = page_of(client)
    assert "They differ by less than this dataset can tell" in page
    assert "3 of 3 models are not compared" in page  # their gold was picked by hand
    assert "separated." not in page.replace("not separated", "")
    assert "To plus or minus 2 points on every dimension" in page
    assert re.search(r"More gold labels</dt>\s*<dd class=\"stat__value\">\s*45\s*<", page)
    assert re.search(r"now ± [0-9.]+", page)
    ten = page_of(client, TEN)
    (more,) = re.findall(r"More gold labels</dt>\s*<dd class=\"stat__value\">\s*(\d+)\s*<", ten)
    assert 0 < int(more) < 45
    assert "A researcher makes the batch." in ten
    assert "/label-plan/batch/" not in ten


def test_models_with_too_few_prompts_are_told_how_many_it_takes(
    run: BenchmarkRun, client: Client, ma: Person
):
    """With so many prompts like these, everything labelled, the gap is shown; with a tenth fewer it is not."""
    client.force_login(ma)
    status = load_standing(run)
    comparison = plan_run_comparison(status, gap=0.05)
    assert comparison.short_of_prompts == 3
    needed = count_prompts_to_compare(status, comparison)
    variance = max(plan.model.prompt_variance for plan in comparison.plans)
    at_needed, at_fewer = (compute_min_gap(variance * 30 / prompts, 3) for prompts in (needed, 0.9 * needed))
    assert at_needed <= 0.05 < at_fewer
    page = page_of(client, PAGE + "?gap=5")
    assert "3 models have too few prompts to show 5 points, however many responses have labels" in page
    assert f"it takes about {needed:,} like these." in page


def test_a_researcher_makes_a_draft_for_a_manager(run: BenchmarkRun, client: Client, he: Person, lin: Person):
    client.force_login(he)
    page = page_of(client, TEN)
    assert re.search(rf'value="{lin.pk}"[^>]*checked', page)  # who labelled the release
    answer = client.post(MAKE, {"name": "next", "overlap": "2", "annotators": [str(lin.pk)]})
    assert answer["Location"] == PAGE
    batch = Batch.objects.get(name="next")
    plan = LabelPlan.objects.get()
    assert (batch.state, plan.batch, plan.goal["half_width"]) == ("draft", batch, 0.1)
    after = page_of(client, TEN)
    assert "is kept as a draft" in after
    assert "Made from this page" in after
    assert "More gold labels</dt>" not in after  # as long as there is no number of them but 0
    assert "people have labelled enough, or are at it" in after
    assert "only more prompts narrow them" in after
    drawn = len(batch.tasks.all())
    assert f"People are at {drawn} responses, or have labelled them since" in after
    assert "or have labelled them since" not in page


def test_who_researches_and_manages_opens_it(
    run: BenchmarkRun, client: Client, he: Person, ma: Person, lin: Person
):
    add_role(he, "manager")
    client.force_login(he)
    form = {"name": "next", "overlap": "1", "annotators": [str(lin.pk)]}
    assert client.post(MAKE, form | {"name": "gold"}).status_code == 422
    assert client.post(MAKE, form | {"name": "a\0b"}).status_code == 422
    assert client.post(MAKE, form | {"overlap": "9" * 5000}).status_code == 422
    answer = client.post(MAKE, form)
    assert answer["Location"] == "/batches/next/"
    assert Batch.objects.get(name="next").state == "open"
    assert client.post(MAKE, form | {"name": "again"}).status_code == 422  # people are at it


def test_hours_come_from_past_work(run: BenchmarkRun, client: Client, ma: Person):
    Annotation.objects.update(seconds=60)
    client.force_login(ma)
    assert "0.8 h for each of 2 people" in page_of(client)


def test_a_manager_reads_and_nobody_else_opens_it(
    run: BenchmarkRun, client: Client, ma: Person, zhou: Person, wu: Person, stranger: Person
):
    client.force_login(ma)
    assert client.post(MAKE, {"name": "next", "overlap": "1"}).status_code == 403
    for other in (zhou, wu, stranger):
        client.force_login(other)
        assert client.get(PAGE).status_code == client.post(MAKE).status_code == 403
    client.logout()
    assert client.get(PAGE).status_code == 302
    assert not Batch.objects.filter(name="next").exists()


def test_who_judges_these_responses_blind_waits(run: BenchmarkRun, client: Client, he: Person):
    create_batch(
        BatchSpec(
            name="mine",
            guideline=run.scorer.guideline,
            dataset=run.dataset,
            annotators=[he],
            policy=Policy(overlap=1),
        )
    )
    client.force_login(he)
    answer = client.get(PAGE)
    assert answer.status_code == 403
    assert b"Middle" not in answer.content


ASKED = {
    "?points=abc": 422,
    "?points=nan": 422,
    "?points=-1": 422,
    "?points=" + "9" * 5000: 422,
    "?points=%00": 404,
    "?points=": 422,
    "?first=Best&second=None": 404,
    "?first=Best": 404,
    "?first=%00&second=Best": 404,
    "?first=Best&second=Middle": 200,
    "?first=Worst&second=Best": 200,
}


def test_whatever_is_asked_is_answered(run: BenchmarkRun, client: Client, he: Person):
    client.force_login(he)
    for query, status in ASKED.items():
        page_of(client, PAGE + query, status)
    pair = PAGE + "?first=Best&second=Middle"
    assert "Best and Middle differ by less than this dataset can tell, however much of it" in page_of(
        client, pair
    )
    assert (
        client.post(PAGE + "batch/?first=Best&second=Middle", {"name": "n", "overlap": "1"}).status_code
        == 422
    )


def test_a_run_that_is_not_there_or_has_no_parts(run: BenchmarkRun, client: Client, he: Person):
    client.force_login(he)
    assert client.get("/runs/none/label-plan/").status_code == 404
    run.parts.all().delete()
    assert "run it again" in page_of(client, PAGE, 409)


def test_a_run_of_one_model_and_one_of_which_nothing_is_known(
    guideline: Guideline, lin: Person, chen: Person, client: Client, he: Person
):
    run = run_with_gold(guideline, [lin, chen], models=["Best"], labelled=10, suffix="-alone")
    client.force_login(he)
    page = page_of(client, "/runs/board-alone/label-plan/")
    assert "There are no two models on the board to separate." in page
    bare = make_corpus(name="bare", prompts=4, models=["Best", "Middle"])
    empty = run_of(ready_scorer(run.scorer.release, guideline, name="silent"), bare, "empty")
    assert empty.items.count() == 0
    for query in ("", "?points=10"):
        page = page_of(client, f"/runs/empty/label-plan/{query}")
        assert "The scorer has predicted nothing here that could be labelled." in page


def test_in_chinese_it_says_the_same(run: BenchmarkRun, client: Client, he: Person):
    client.force_login(he)
    answer = client.get(TEN, headers={"accept-language": "zh-hans"})
    assert answer.status_code == 200


def test_the_curve_goes_one_way():
    """Several half-widths may take as many labels: drawn by the labels alone the line would zigzag."""
    drawn = _draw_curve(
        [{"points": 1.0, "labels": 8}, {"points": 2.0, "labels": 8}, {"points": 4.0, "labels": 3}]
    )
    assert drawn["encoding"]["order"]["field"] == "points"
