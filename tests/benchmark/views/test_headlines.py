"""The first sentence of a board: which number it is of, and whether the headline numbers agree on who is highest."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils.translation import override

from annotation.models import Guideline, Person
from benchmark.domain.leaderboards.responses import LANGUAGE
from benchmark.models import BenchmarkRun
from benchmark.services.sharing import share_run
from benchmark.views.leaderboards.charts import PREDICTED_DOT, Dot, draw_trade_off
from benchmark.views.leaderboards.reports.exports import board_to_latex
from benchmark.views.leaderboards.tabs.groups import heat_context
from tests.benchmark.boards import finished_run
from tests.benchmark.support import leader_sentences
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE

RATE = {"en": "Harmless rate", "zh-hans": "无害率"}
SCORE = {"en": "Harmless score", "zh-hans": "无害得分"}
DISAGREE = {
    "en": "There is no single winner: the headline numbers disagree",
    "zh-hans": "各项主要指标的最优者并不相同",
}


@pytest.fixture
def flames(db: None) -> Guideline:
    return FLAMES_GUIDELINE.load()


@pytest.fixture(params=[1.0, 0.3], ids=["gold", "predicted"])
def run(request: pytest.FixtureRequest, flames: Guideline) -> BenchmarkRun:
    return finished_run(flames, models=4, prompts=120, gold=request.param)


def other_leader(run: BenchmarkRun) -> str:
    """Another model gets the highest harmless score."""
    second = run.board["rows"][1]
    second["overall"]["harmless_score"] = {"value": 99.5, "low": 99.0, "high": 100.0}
    run.save()
    name: str = second["model"]
    return name


def words(content: bytes) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", content.decode()))


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_first_sentence_names_the_number(language: str, run: BenchmarkRun):
    with override(language):
        sentences = leader_sentences(run)
    assert sentences.startswith(RATE[language])
    assert run.board["rows"][0]["model"] in sentences
    assert DISAGREE[language] not in sentences


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_where_the_score_has_another_leader_the_board_says_so(language: str, run: BenchmarkRun):
    model = other_leader(run)
    with override(language):
        sentences = leader_sentences(run)
    assert DISAGREE[language] in sentences
    assert re.search(rf"{SCORE[language]}.*{model}.*99\.5", sentences)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_page_report_latex_and_shared_page_say_it(
    language: str, run: BenchmarkRun, client: Client, he: Person
):
    other_leader(run)
    _link, token = share_run(run=run, actor=he)
    client.force_login(he)
    headers = {"Accept-Language": language}
    address, export = reverse("run", args=[run.name]), reverse("run-export", args=[run.name])
    outside = Client().get(reverse("shared-in", args=[token, language]))
    for answer in (
        client.get(address, headers=headers),
        client.get(export, {"format": "report"}, headers=headers),
        client.get(export, {"format": "latex"}, headers=headers),
        outside,
    ):
        assert DISAGREE[language] in words(answer.content)
    with override(language):
        assert DISAGREE[language] in board_to_latex(run, language, None)


def test_xstest_names_both_of_its_rates_where_they_disagree(db: None):
    run = finished_run(XSTEST_GUIDELINE.load(), models=3, prompts=60, gold=1.0)
    first, second, third = run.board["rows"]
    for row, refused in ((first, 0.1), (second, 0.9), (third, 0.9)):
        row["dimensions"]["unsafe"]["full_refusal_rate"] = {"value": refused, "low": None, "high": None}
    sentences = leader_sentences(run)
    assert sentences.startswith("Full compliance on safe prompts: ")
    assert (
        f"by Full refusal of unsafe prompts {second['model']}, {third['model']} (90.0%)." in sentences
    )  # a tie has two


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_disagreeing_numbers_are_drawn_against_each_other(
    client: Client, he: Person, db: None, language: str
):
    run = finished_run(XSTEST_GUIDELINE.load(), models=3, prompts=60, gold=1.0)
    client.force_login(he)
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    first, second, third = run.board["rows"]
    caption = {"en": "no model is best by both", "zh-hans": "没有模型在两项上都最好"}[language]

    def read(refused: tuple[float, float, float | None]) -> str:
        for row, rate in zip((first, second, third), refused, strict=True):
            statistic = {"value": rate, "low": rate and rate - 0.05, "high": rate and rate + 0.05}
            row["dimensions"]["unsafe"]["full_refusal_rate"] = statistic
        run.save()
        return client.get(reverse("run", args=[run.name])).content.decode()

    assert caption not in read((0.9, 0.5, 0.1))  # the same model is highest by both
    page = read((0.1, 0.5, None))
    assert caption in page
    before_caption = page[: page.index(caption)]
    picture = re.findall(r'src="([^"]+\.svg[^"]*)"', before_caption)[-1]
    drawn = b"".join(client.get(picture)).decode()
    assert first["model"] in drawn
    assert second["model"] in drawn
    assert third["model"] not in drawn  # it lacks one of the numbers


def test_models_that_tie_for_the_first_place_share_it(db: None):
    run = finished_run(XSTEST_GUIDELINE.load(), models=3, prompts=60, gold=1.0)
    rates = {"full_compliance_rate": (0.9, 0.9, 0.1), "full_refusal_rate": (0.1, 0.5, 0.2)}
    for (name, values), dimension in zip(rates.items(), ("safe", "unsafe"), strict=True):
        for row, value in zip(run.board["rows"], values, strict=True):
            row["dimensions"][dimension][name] = {"value": value, "low": None, "high": None}
    assert DISAGREE["en"] not in leader_sentences(run)  # the second is highest by both


def test_a_cross_of_whiskers_stands_where_both_numbers_are():
    low, high = Dot("A", 10, 5, 15), Dot("A", 80, None, None, PREDICTED_DOT)
    other = Dot("B", 20, 15, 30)
    spec = draw_trade_off(("x", {"A": low, "B": other}, (0, 40)), ("y", {"A": high}, (0, 100)))
    assert spec["data"]["values"] == [
        {
            "model": "A",
            "x": 10,
            "x_low": 5,
            "x_high": 15,
            "y": 80,
            "y_low": 80,
            "y_high": 80,
            "predicted": True,
        }
    ]


@pytest.mark.parametrize(("sizes", "named"), [((1, 9), False), ((1, 10), True), ((1, 40), True)])
def test_no_cell_of_a_few_responses_is_named_as_the_lowest_or_the_highest(
    flames: Guideline, sizes: tuple[int, int], named: bool
):
    run = finished_run(flames, models=2, prompts=60, gold=1.0)
    metric = flames.document.metric(flames.document.rank_by)
    values = [
        ({"value": value, "low": 0.0, "high": 1.0}, n) for value, n in zip((0.0, 0.7), sizes, strict=True)
    ]
    cells = [{metric.name: statistic, "n": n, "ground": "gold"} for statistic, n in values]
    held = {
        "columns": [
            {"name": name, "scope": None, "n_prompts": n} for name, n in zip("ab", sizes, strict=True)
        ],
        "rows": [{"model": row["model"], "cells": cells} for row in run.board["rows"]],
    }
    findings = heat_context(run, flames.document, held, LANGUAGE, metric)["findings"]
    assert [(finding.lowest.number, finding.highest.number) for finding in findings] == [(0.7, 0.7)] * named
