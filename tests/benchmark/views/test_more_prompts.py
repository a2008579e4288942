"""What labels cannot narrow: a board whose responses are all labelled asks for prompts, and says for how many."""

from __future__ import annotations

import html
import io
import json
import math
import re

import pytest
from django.core.management import call_command
from django.test import Client

from annotation.models import Person
from benchmark.models import BenchmarkRun
from tests.benchmark.labelling_support import run_with_gold
from tests.support import XSTEST_GUIDELINE, person

pytestmark = pytest.mark.django_db
PAGE = "/runs/board/label-plan/"


@pytest.fixture(scope="module")
def run_name(module_db: None) -> str:
    """Three models on 30 prompts, 15 in each dimension; people labelled all 90 responses."""
    return run_with_gold(XSTEST_GUIDELINE.load(), [person("lin"), person("chen")], labelled=90).name


@pytest.fixture
def run(db: None, run_name: str) -> BenchmarkRun:
    return BenchmarkRun.objects.get(name=run_name)


def page_of(client: Client, url: str = PAGE, language: str = "en") -> str:
    answer = client.get(url, headers={"Accept-Language": language})
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.unescape(answer.content.decode())))


def widest(run: BenchmarkRun, scope: str, metric: str) -> float:
    """The largest half-width of a dimension, in points."""
    cells = [row["dimensions"][scope][metric] for row in run.board["rows"]]
    return max(50 * (cell["high"] - cell["low"]) for cell in cells)


def two_digits_up(n: float) -> int:
    step = 10 ** max(0, math.floor(math.log10(n)) - 1)
    return int(math.ceil(n / step) * step)


def test_the_page_does_not_say_that_nothing_is_needed_where_intervals_are_wide(
    run: BenchmarkRun, client: Client, he: Person
):
    client.force_login(he)
    content = page_of(client)
    assert "Nothing more is needed" not in content
    assert "More gold labels" not in content  # there is no number of them but 0
    assert "All 90 responses are labelled" in content
    assert "more prompts" in content
    for scope, metric in (("safe", "full_compliance_rate"), ("unsafe", "full_refusal_rate")):
        half = widest(run, scope, metric)
        assert half > 10
        assert f"± {half:.1f}" in content
        assert f"{two_digits_up(15 * (half / 2) ** 2):,}" in content


def test_fewer_points_need_more_prompts_and_where_the_interval_is_narrow_enough_none(
    run: BenchmarkRun, client: Client, he: Person
):
    client.force_login(he)
    half = max(widest(run, "safe", "full_compliance_rate"), widest(run, "unsafe", "full_refusal_rate"))
    content = page_of(client, f"{PAGE}?points={half + 1:.1f}")
    assert "All 90 responses are labelled" in content
    assert "as narrow as that" in content
    assert "more prompts" not in content


def test_it_stands_there_in_chinese(run: BenchmarkRun, client: Client, he: Person):
    client.force_login(he)
    content = page_of(client, language="zh-hans")
    assert "90 个回复已全部标注" in content
    assert "更多提示" in content


def test_the_command_says_the_same(run: BenchmarkRun):
    out = io.StringIO()
    call_command("plan_labels", "board", "--json", stdout=out)
    plan = json.loads(out.getvalue())
    assert (plan["labels"], plan["all_labelled"]) == (0, True)
    prompts = {row["dimension"]: row for row in plan["prompts"]}
    half = widest(run, "safe", "full_compliance_rate") / 100
    assert prompts["safe"]["prompts"] == 15
    assert prompts["safe"]["half_width"] == pytest.approx(half)
    assert prompts["safe"]["needed"] == two_digits_up(15 * (half / 0.02) ** 2)
    out = io.StringIO()
    call_command("plan_labels", "board", stdout=out)
    assert "All 90 responses are labelled" in out.getvalue()
    assert "0 more labels" not in out.getvalue()
    assert "more prompts" in out.getvalue()


def test_two_models_that_no_label_separates_are_told_how_many_prompts_might(
    run: BenchmarkRun, client: Client, he: Person
):
    client.force_login(he)
    content = page_of(client)
    assert re.search(r"They differ by less than this dataset can tell; about [\d,]+ prompts", content)
