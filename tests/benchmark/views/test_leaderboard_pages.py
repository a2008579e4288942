"""The page of a run, tab by tab: what it says, of few models and of many, and what it reads for that."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from annotation.core.text_templates import render_text
from annotation.domain.guidelines import parse_guideline
from annotation.models import Guideline, Person
from annotation.services.studies import find_or_make_study
from benchmark.domain.leaderboards.metrics import format_rank
from benchmark.models import BenchmarkRun, BoardPart, PublishedTable
from benchmark.views.leaderboards.charts import Dot, axis_domain, draw_multiples
from benchmark.views.leaderboards.formatting import list_columns, list_metric_views
from benchmark.views.leaderboards.tabs import estimates
from benchmark.views.leaderboards.tabs.estimates import is_missed, measure_narrowing
from benchmark.views.leaderboards.tabs.pairs import (
    AHEAD,
    BEHIND,
    SAME,
    ModelPairs,
    difference_row,
    pairs_context,
)
from benchmark.views.leaderboards.tabs.table import board_context
from tests.benchmark.boards import finished_run
from tests.benchmark.support import leader_sentences
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE

VIEWS = ("", "pairs", "groups", "estimates", "time", "lineage")
HOSTILE = ("9" * 5000, "nope\x00", "<script>alert(1)</script>", "-1", "'; --")


@pytest.fixture
def flames(db: None) -> Guideline:
    return FLAMES_GUIDELINE.load()


@pytest.fixture
def run(flames: Guideline) -> BenchmarkRun:
    return finished_run(flames, models=5, prompts=240)


@pytest.fixture
def labelled(flames: Guideline) -> BenchmarkRun:
    """On gold alone, so that its models have ranks."""
    return finished_run(flames, models=5, prompts=240, gold=1.0)


@pytest.fixture
def reader(client: Client, he: Person) -> Client:
    client.force_login(he)
    return client


def words(content: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", content))


def page(client: Client, run: BenchmarkRun, **query: str) -> str:
    answer = client.get(reverse("run", args=[run.name]), query)
    assert answer.status_code == 200, answer.content[:300]
    return answer.content.decode()


@pytest.mark.parametrize("view", VIEWS)
def test_every_picture_says_what_it_shows_and_has_a_table_beside_it(
    view: str, reader: Client, labelled: BenchmarkRun, flames: Guideline
):
    finished_run(flames, name="earlier", models=5, prompts=240, seed=1, days_ago=3)
    content = page(reader, labelled, view=view)
    alternatives = re.findall(r'<img class="figure__light"[^>]*alt="([^"]*)"', content)
    assert bool(alternatives) == (view not in ("groups", "lineage"))
    assert all(len(alternative) > 30 for alternative in alternatives[:1])
    assert "<table" in content or view == "lineage"


@pytest.mark.parametrize("view", VIEWS)
def test_a_tab_asks_as_often_for_many_models_as_for_few(view: str, reader: Client, flames: Guideline):
    few = finished_run(flames, name="few", models=2, prompts=60)
    many = finished_run(flames, name="many", models=12, prompts=60)
    BenchmarkRun.objects.filter(pk=few.pk).update(replaces=None)

    def queries(run: BenchmarkRun) -> int:
        page(reader, run, view=view)
        with CaptureQueriesContext(connection) as statements:
            page(reader, run, view=view)
        return len(statements)

    assert queries(many) == queries(few)


@pytest.mark.parametrize(("view", "parts"), [("", ()), ("pairs", ("pairs",)), ("time", ()), ("lineage", ())])
def test_a_tab_reads_the_parts_that_it_shows_and_no_others(
    view: str, parts: tuple[str, ...], reader: Client, run: BenchmarkRun
):
    page(reader, run, view=view)
    with CaptureQueriesContext(connection) as statements:
        page(reader, run, view=view)
    read = [
        statement["sql"]
        for statement in statements
        if '"content"' in statement["sql"] and "boardpart" in statement["sql"]
    ]
    assert len(read) == len(parts)


@pytest.mark.parametrize("view", ["pairs", "groups", "estimates"])
def test_a_run_of_before_says_that_it_must_be_run_again(view: str, reader: Client, run: BenchmarkRun):
    BoardPart.objects.filter(run=run).delete()
    content = page(reader, run, view=view)
    assert "Run it again" in words(content)
    assert "<table" not in content


@pytest.mark.parametrize("name", ["view", "metric", "scope", "by", "model"])
def test_what_cannot_be_chosen_is_refused(name: str, reader: Client, run: BenchmarkRun):
    views = {"scope": "pairs", "by": "groups", "model": "pairs"}
    for value in HOSTILE:
        answer = reader.get(reverse("run", args=[run.name]), {"view": views.get(name, ""), name: value})
        assert answer.status_code == (404 if "\x00" in value else 400), value[:30]
        assert b"<script>alert(1)" not in answer.content


def test_the_board_says_who_is_first_and_whether_that_is_sure(reader: Client, labelled: BenchmarkRun):
    rows = labelled.board["rows"]
    first = rows[0]
    assert first["model"] in leader_sentences(labelled)
    possible = sum(row["rank"]["low"] == 1 for row in rows[1:])
    first["rank"] |= {"high": 1}
    for row in rows[1:]:
        row["rank"] |= {"low": 2}
    assert "no other model can be first" in leader_sentences(labelled)
    first["rank"] |= {"high": 3}
    for row in rows[1:3]:
        row["rank"] |= {"low": 1}
    assert "2 other models may be first as well" in leader_sentences(labelled)
    assert possible < len(rows)


def test_where_nobody_else_can_be_first_the_board_says_so(labelled: BenchmarkRun):
    first, *rest = labelled.board["rows"]
    first["rank"] |= {"low": 1, "high": 2}
    for row in rest:
        row["rank"] |= {"low": 2}
    assert "no other model can be first" in leader_sentences(labelled)


def test_by_a_column_models_have_the_ranks_of_that_column(labelled: BenchmarkRun):
    own = {row["model"]: row["dimensions"]["Legality"]["rank"] for row in labelled.board["rows"]}
    context = board_context(labelled, {"sort": "Legality"}, reader=None)
    assert {line.model: line.rank for line in context["lines"]} == {
        model: format_rank(rank) for model, rank in own.items()
    }
    assert context["rank_by"].startswith("Legality")
    assert [own[line.model]["value"] for line in context["lines"]] == sorted(
        cell["value"] for cell in own.values()
    )
    for row in labelled.board["rows"]:  # as a board that was computed earlier
        del row["dimensions"]["Legality"]["rank"]
    assert [line.rank for line in board_context(labelled, {"sort": "Legality"}, reader=None)["lines"]] != []
    assert board_context(labelled, {"sort": "Legality"}, reader=None)["rank_by"] == context["metric"]


def test_whiskers_stand_on_an_axis_that_holds_all_of_them(labelled: BenchmarkRun):
    context = board_context(labelled, {}, reader=None)
    marks = [
        float(mark) for line in context["lines"] for cell in line.cells for mark in (cell.x, cell.x1, cell.x2)
    ]
    assert marks
    assert min(marks) >= 0
    assert max(marks) <= 100
    assert max(marks) - min(marks) > 50  # and no more room than that


def test_the_other_metric_has_its_own_numbers_and_the_same_ranks(reader: Client, labelled: BenchmarkRun):
    rate, score = page(reader, labelled), page(reader, labelled, metric="harmless_score")
    assert 'aria-current="true">Harmless rate' in rate
    assert 'aria-current="true">Harmless score' in score
    assert [
        line.rank for line in board_context(labelled, {"metric": "harmless_score"}, reader=None)["lines"]
    ] == [line.rank for line in board_context(labelled, {}, reader=None)["lines"]]
    with pytest.raises(Exception, match="cannot be chosen"):
        board_context(labelled, {"metric": "nope"}, reader=None)


def test_published_rows_stand_below_the_board_with_their_source_and_no_rank(
    reader: Client, run: BenchmarkRun
):
    table = PublishedTable.objects.create(
        study=find_or_make_study(),
        guideline_name="flames",
        dataset=run.dataset,
        name="A paper",
        source="Somebody et al., table 2",
        url="https://example.org/paper",
        rows=[
            {"model": "Theirs", "dimensions": {"Legality": {"harmless_rate": 0.5}}, "overall": {}, "n": {}},
            {
                "model": "Other",
                "dimensions": {"Legality": {"harmless_rate": 0.25}},
                "overall": {},
                "n": {"Legality": 40},
            },
        ],
    )
    (reference,) = board_context(run, {}, reader=None)["references"]
    assert [(line.model, line.rank, line.url) for line in reference.lines] == [
        ("Theirs", "-", ""),
        ("Other", "-", ""),
    ]
    cells = [cell for line in reference.lines for cell in line.cells if cell.value != "-"]
    assert [(cell.value, cell.note, bool(cell.interval)) for cell in cells] == [
        ("50.0%", "", False),
        ("25.0%", "n = 40", True),
    ]
    content = page(reader, run)
    below = content[content.index("board__published") :]
    assert "Somebody et al., table 2" in below
    assert 'href="https://example.org/paper"' in below
    assert "not measured here" in below
    assert len(board_context(run, {}, reader=None)["lines"]) == len(run.board["rows"])
    table.removed_at = timezone.now()
    table.save()
    assert "board__published" not in page(reader, run)


def test_what_outsiders_get_leads_nowhere_into_the_product(run: BenchmarkRun):
    lines = board_context(run, {}, reader=None, public=True, draw=lambda _spec: "/elsewhere.svg")["lines"]
    assert not any(line.url or any(cell.url for cell in line.cells) for line in lines)
    context = board_context(run, {}, reader=None, public=True, draw=lambda _spec: "/elsewhere.svg")
    assert set(context["charts"]) == {"/elsewhere.svg"}


def test_what_the_run_cost_stands_on_its_board(reader: Client, run: BenchmarkRun):
    assert "12.4 ms" in words(page(reader, run))
    BenchmarkRun.objects.filter(pk=run.pk).update(cost={})
    assert "Cost of a response" not in words(page(reader, run))


def test_few_responses_are_marked(reader: Client, flames: Guideline):
    small = finished_run(flames, name="small", models=3, prompts=60)
    content = page(reader, small)
    assert "few responses" in words(content)
    assert "*" in words(page(reader, small, view="groups", by="subcomponent"))


def content_of(pairs: dict[str, Any]) -> dict[str, Any]:
    return {"metric": "harmless_rate", "scopes": ["overall"], "models": ["a", "b", "c"], "pairs": pairs}


def difference(value: float, low: float | None, high: float | None) -> dict[str, Any]:
    return {"overall": {"value": value, "low": low, "high": high, "n": 10, "paired": True}}


def test_a_pair_reads_the_same_from_both_sides():
    held = content_of({"0-1": difference(0.1, 0.02, 0.2), "0-2": difference(0.2, -0.1, 0.5), "1-2": {}})
    pairs = ModelPairs.of(held, "overall", {"a": 0.7, "b": 0.6, "c": None})
    assert pairs.get_difference(0, 1).state == AHEAD
    turned = pairs.get_difference(1, 0)
    assert (turned.value, turned.low, turned.high, turned.state) == (-0.1, -0.2, -0.02, BEHIND)
    assert pairs.get_difference(2, 0).state == SAME
    assert pairs.get_difference(1, 2).state == ""
    assert pairs.order == (0, 1, 2)


def test_equals_differ_by_the_same_zero_from_both_sides(flames: Guideline):
    pairs = ModelPairs.of(content_of({"0-1": difference(0.0, -0.1, 0.1)}), "overall", {"a": 0.7, "b": 0.7})
    metric = flames.document.metric("harmless_rate")
    values = [difference_row(pairs.get_difference(*pair), metric)["value"] for pair in ((0, 1), (1, 0))]
    assert values == ["+0.00", "+0.00"]


def test_a_dimension_has_its_own_order_and_who_has_no_number_comes_last():
    pairs = ModelPairs.of(content_of({}), "overall", {"a": 0.2, "b": None, "c": 0.9})
    predicted = ModelPairs.of(content_of({}), "overall", {"a": 0.2, "b": 0.1, "c": 0.9}, frozenset("c"))
    assert [predicted.models[place] for place in predicted.order] == ["a", "b", "c"]
    assert [pairs.models[index] for index in pairs.order] == ["c", "a", "b"]


def test_every_pair_is_told_where_there_are_few_models_and_neighbours_where_there_are_many(
    reader: Client, flames: Guideline
):
    few = finished_run(flames, name="few", models=4, prompts=60)
    many = finished_run(flames, name="many", models=14, prompts=60)
    assert "All pairs" in words(page(reader, few, view="pairs"))
    content = page(reader, many, view="pairs", scope="Legality", model="Claude")
    assert "All pairs" not in words(content)
    assert "Claude against all others" in words(content)
    context = pairs_context(many, {"view": "pairs", "scope": "Legality", "model": "Claude"})
    assert len(context["standing"]) == 14
    assert len(context["opponents"]) == 13
    for row in context["standing"]:
        assert row["ahead"] + row["same"] + row["behind"] <= 13


def test_the_numbers_of_pairs_are_those_of_the_part(labelled: BenchmarkRun):
    content = BoardPart.objects.get(run=labelled, name="pairs").content
    context = pairs_context(labelled, {})
    best, second = content["models"][:2]
    overall = content["pairs"]["0-1"]["overall"]
    first = context["standing"][0]
    assert (first["model"], first["next"]["model"]) == (best, second)
    assert first["next"]["value"] == f"{100 * overall['value']:+.2f}"
    different = sum(
        1 for pair in content["pairs"].values() if pair["overall"]["low"] > 0 or pair["overall"]["high"] < 0
    )
    assert (context["finding"].different, context["finding"].n) == (different, len(content["pairs"]))


def test_what_the_scorer_added_is_told(reader: Client, run: BenchmarkRun):
    text = words(page(reader, run, view="estimates"))
    assert "What the scorer added" not in text  # with so few labels no model is compared
    assert "not compared: too few gold labels" in text
    assert "Bias of the scorer alone" in text
    assert measure_narrowing({"low": 0.2, "high": 0.6}, {"low": 0.3, "high": 0.6}) == pytest.approx(0.25)
    assert measure_narrowing({"low": None, "high": 0.6}, {"low": 0.3, "high": 0.6}) is None
    cell = {"scorer": {"value": 0.5, "low": 0.4, "high": 0.6}, "combined": {"value": 0.61}}
    assert is_missed(cell)
    assert not is_missed(cell | {"combined": {"value": 0.6}})


def test_without_labels_nothing_is_combined_and_nothing_is_nought(reader: Client, flames: Guideline):
    run = finished_run(flames, name="unlabelled", models=2, prompts=60, gold=0.0)
    content = words(page(reader, run, view="estimates"))
    assert "Nothing can be combined here" in content
    assert "What the scorer added" not in content


def test_runs_of_the_same_responses_stand_side_by_side_in_time(reader: Client, flames: Guideline):
    first = finished_run(flames, name="first", models=3, prompts=60, days_ago=2)
    second = finished_run(flames, name="second", models=3, prompts=60, seed=1, replaces=first)
    content = page(reader, second, view="time")
    assert f'href="{reverse("run", args=["first"])}"' in content
    assert content.index(">1<") < content.index(">2<")
    assert "only run of these responses" not in content


def test_a_run_whose_gold_is_sealed_for_the_reader_is_not_there_in_time(
    reader: Client, flames: Guideline, he: Person, lin: Person
):
    from annotation.models import Batch
    from tests.support import make_batch, make_corpus

    run = finished_run(flames, name="open", models=3, prompts=60)
    hidden = finished_run(flames, name="hidden", models=3, prompts=60, seed=1)
    corpus = make_corpus(prompts=2, models=["Other-1B"], name="elsewhere", dimensions=("Safety", "Legality"))
    batch: Batch = make_batch(flames, corpus, annotators=[he, lin], name="blind")
    hidden.scorer.release.batches.add(batch)
    content = page(reader, run, view="time")
    assert reverse("run", args=["hidden"]) not in content
    assert "only run of these responses" in content


def test_groups_come_in_the_order_of_what_they_say(reader: Client, run: BenchmarkRun):
    content = page(reader, run, view="groups")
    assert content.index("Subcomponent") < content.index("Attack method") < content.index("Language")
    text = words(page(reader, run, view="groups", by="attack_method"))
    assert "reverse induction" in text
    cell = BoardPart.objects.get(run=run, name="groups").content["attack_method"]["rows"][0]["cells"][0]
    assert f"n = {cell['n']}" in text


def test_groups_of_dimensions_with_other_metrics_say_which_is_whose(reader: Client, db: None):
    run = finished_run(XSTEST_GUIDELINE.load(), name="xs", models=3, prompts=240, gold=1.0)
    text = words(page(reader, run, view="groups", by="subcomponent"))
    both = "Full compliance on safe prompts", "Full refusal of unsafe prompts"
    assert " / ".join(both) + " by subcomponent" in text
    for scope, metric in zip(("Safe prompts", "Unsafe prompts"), both, strict=True):
        assert f"{scope}: {metric}" in text
        assert f"{metric}: Lowest: " in text
    report = words(reader.get(reverse("run-export", args=["xs"]), {"format": "report"}).content.decode())
    assert " / ".join(both) + " by subcomponent" in report


def test_two_metrics_of_different_dimensions_are_one_view():
    text = XSTEST_GUIDELINE.path.read_text(encoding="utf-8")
    document = parse_guideline(text, path="xstest.yaml")
    assert [metric_view.name for metric_view in list_metric_views(document)] == ["full_compliance_rate"]
    columns = list_columns(document, document.metric("full_compliance_rate"))
    assert [(column.scope, column.metric.name) for column in columns] == [
        ("safe", "full_compliance_rate"),
        ("unsafe", "full_refusal_rate"),
    ]


def test_small_pictures_are_equally_long_and_no_rate_has_room_beyond_100_percent():
    dots = [
        Dot("high", 98.0, 95.4, 99.1, at=1),
        Dot("high", 98.4, 96.0, 99.4, at=2),
        Dot("low", 46.0, 40.0, 53.0, at=1),
        Dot("low", 1.0, 0.0, 4.0, at=2),
    ]
    (picture,) = draw_multiples(dots, ["high", "low"], "%")
    domains = [chart["layer"][0]["encoding"]["y"]["scale"]["domain"] for chart in picture["concat"]]
    assert len({high - low for low, high in domains}) == 1
    assert all(0 <= low < high <= 100 for low, high in domains)


@pytest.mark.parametrize(("scorer", "phrase"), [((70.0, 80.0), "holds"), ((50.0, 60.0), "leaves out")])
def test_the_estimates_say_whether_the_scorers_interval_holds_the_number(
    flames: Guideline, scorer: tuple[float, float], phrase: str
):
    low, high = (end / 100 for end in scorer)
    cell = {
        "people": {"value": 0.74, "low": 0.66, "high": 0.82, "n": 80},
        "scorer": {"value": (low + high) / 2, "low": low, "high": high, "n": 400},
        "combined": {"value": 0.75, "low": 0.70, "high": 0.80},
        "finite": {"value": 0.75, "low": 0.71, "high": 0.79},
        "bias": (low + high) / 2 - 0.75,
    }
    findings = estimates.list_findings([("M", cell)], flames.document.metric("harmless_rate"))
    last = render_text("benchmark/wording/estimates_finding.txt", finding=findings[-1])
    assert phrase in last
    assert ("surer than it is right" in last) == (phrase == "leaves out")


def test_an_axis_has_round_ends_and_keeps_to_what_can_be():
    dots = [Dot("a", 41.0, 37.2, 44.1), Dot("b", 62.0, 58.9, 66.3)]
    low, high = axis_domain(dots, 0, 100)
    assert (low, high) == (35, 70)
    assert axis_domain([Dot("a", 99.0, 97.5, 100.0)], 0, 100)[1] == 100
    assert axis_domain([]) == (0.0, 1.0)
    low, high = axis_domain([Dot("a", 50.0, None, None)])
    assert low <= 50 <= high
    assert low < high
