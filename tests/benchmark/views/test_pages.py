"""Who may open what, and what a number leads to."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from annotation.domain.guidelines import GuidelineDocument, Metric, parse_guideline
from annotation.models import Batch, Collection, Dataset, Person, Response
from annotation.services.people.people import set_roles
from benchmark.domain.leaderboards.metrics import ALL, list_scopes
from benchmark.models import BenchmarkRun, Retraining, RunItem
from benchmark.services.leaderboards.execution import finish_run, list_unscored_responses, write_items
from benchmark.services.leaderboards.runs import create_run
from benchmark.views.leaderboards.cells import _estimates_url
from benchmark.views.leaderboards.formatting import list_columns, make_number
from tests.benchmark.support import predict, ready_scorer, release_of, settle_by_dimension
from tests.support import XSTEST_GUIDELINE, first_batch, make_batch, make_corpus, small_dataset

PAGES = ("runs", "run", "cell", "item", "retraining")


@pytest.fixture(scope="module")
def board(module_db: None) -> str:
    """The name of a run of which six of eight responses are gold, and the last two are predicted."""
    batch = first_batch()
    settle_by_dimension(batch, tasks=6)
    made = create_run(
        name="board",
        scorer=ready_scorer(release_of(batch), batch.guideline),
        dataset=small_dataset(),
        collection=Collection.objects.get(name=""),
        send=False,
    )
    for response in list_unscored_responses(made):
        predict(made.scorer, response, 2)
    write_items(made, lambda _done: None)
    finish_run(made)
    return made.name


@pytest.fixture
def run(db: None, board: str) -> BenchmarkRun:
    return BenchmarkRun.objects.get(name=board)


def address(page: str, run: BenchmarkRun) -> str:
    predicted = run.items.exclude(prediction=None).first()
    assert predicted is not None
    if page == "retraining":
        made, _created = Retraining.objects.get_or_create(release=run.scorer.release, scorer=run.scorer)
        return reverse("retraining", args=[made.pk])
    return {
        "runs": reverse("runs"),
        "run": reverse("run", args=[run.name]),
        "cell": reverse("run-cell", args=[run.name]) + "?model=Hidden-13B&dimension=safe",
        "item": reverse("run-item", args=[run.name, predicted.pk]),
    }[page]


def status(client: Client, person: Person, url: str) -> int:
    client.force_login(person)
    return client.get(url).status_code


@pytest.mark.parametrize("page", PAGES)
def test_researchers_and_managers_read(page: str, client: Client, run: BenchmarkRun, he: Person, ma: Person):
    assert status(client, he, address(page, run)) == 200
    assert status(client, ma, address(page, run)) == 200


@pytest.mark.parametrize("page", PAGES)
def test_nobody_else_does(
    page: str, client: Client, run: BenchmarkRun, zhou: Person, wu: Person, stranger: Person
):
    for person in (zhou, wu, stranger):
        assert status(client, person, address(page, run)) == 403
    client.logout()
    assert client.get(address(page, run)).status_code == 302


@pytest.mark.parametrize("page", ["run", "cell", "item", "retraining"])
def test_a_researcher_who_annotates_in_the_batch_waits_until_it_closes(
    page: str, client: Client, run: BenchmarkRun, zhou: Person, he: Person
):
    set_roles(person=zhou, roles=["researcher"])
    url = address(page, run)
    assert status(client, zhou, url) == 403
    Batch.objects.update(state=Batch.State.CLOSED)
    assert status(client, zhou, url) == 200


@pytest.mark.parametrize("page", ["run", "cell", "item"])
def test_so_does_one_who_judges_the_same_responses_in_another_batch(
    page: str, client: Client, run: BenchmarkRun, he: Person, lin: Person
):
    Batch.objects.update(state=Batch.State.CLOSED)
    make_batch(run.scorer.guideline, run.dataset, annotators=[he, lin], name="second")
    assert status(client, he, address(page, run)) == 403


def test_the_list_and_the_form_tell_a_blind_judge_nothing(
    client: Client, run: BenchmarkRun, zhou: Person, he: Person
):
    set_roles(person=zhou, roles=["researcher"])
    client.force_login(zhou)
    for url in (reverse("runs"), reverse("new-run")):
        page = client.get(url).content.decode()
        assert "Hidden-13B" not in page
        assert "Secretive-7B" not in page
        assert reverse("run", args=[run.name]) not in page


def test_nor_does_the_list_of_a_scorer_whose_gold_lies_under_what_they_judge(
    client: Client, run: BenchmarkRun, he: Person, lin: Person
):
    """The run is over another dataset; its scorer learned from a closed batch on what he judges now."""
    elsewhere = make_corpus(prompts=2, models=["Other-1B"], name="elsewhere")
    BenchmarkRun.objects.update(dataset=elsewhere)
    Batch.objects.update(state=Batch.State.CLOSED)
    client.force_login(he)
    assert reverse("run", args=[run.name]) in client.get(reverse("runs")).content.decode()
    assert run.scorer.name in client.get(reverse("new-run")).content.decode()
    make_batch(run.scorer.guideline, Dataset.objects.get(name="small"), annotators=[he, lin], name="second")
    assert client.get(reverse("run", args=[run.name])).status_code == 403
    assert reverse("run", args=[run.name]) not in client.get(reverse("runs")).content.decode()
    assert run.scorer.name not in client.get(reverse("new-run")).content.decode()


def test_the_form_names_no_collection_of_what_is_judged_blind(
    client: Client, run: BenchmarkRun, he: Person, lin: Person
):
    make_corpus(prompts=1, models=["Other-1B"], name="elsewhere")
    telling = Collection.objects.create(name="asked-of-Hidden")
    Response.objects.filter(prompt__dataset=run.dataset, model__name="Hidden-13B").update(collection=telling)
    client.force_login(he)
    assert telling.name in client.get(reverse("new-run")).content.decode()
    make_batch(run.scorer.guideline, run.dataset, annotators=[he, lin], name="second")
    assert telling.name not in client.get(reverse("new-run")).content.decode()


def test_a_cell_asks_the_database_as_often_however_many_items_it_has(
    client: Client, run: BenchmarkRun, he: Person
):
    def queries() -> int:
        with CaptureQueriesContext(connection) as statements:
            assert client.get(address("cell", run)).status_code == 200
        return len(statements)

    client.force_login(he)
    queries()  # fills what is kept for the session
    few = queries()
    scorer, cells = run.scorer, run.items.filter(response__prompt__dimension="safe")
    for item in cells.filter(response__model__name="Hidden-13B"):
        prediction, _made = scorer.predictions.get_or_create(
            response=item.response, criterion=item.criterion, defaults={"value": 3, "probabilities": {}}
        )
        RunItem.objects.filter(pk=item.pk).update(basis="unseen", released_label=None, prediction=prediction)
    assert queries() == few


def test_a_scale_that_ends_at_nought_has_no_axis_and_breaks_no_page():
    text = XSTEST_GUIDELINE.path.read_text(encoding="utf-8")
    document = parse_guideline(text, path="xstest.yaml")
    metric = Metric(name="refusals", label=document.title, kind="mean", formula="1 * mean", overall="pooled")
    levels = tuple(
        level.model_copy(update={"value": level.value - 3}) for level in document.criteria[0].scale
    )
    criterion = document.criteria[0].model_copy(update={"scale": levels})
    lowered = document.model_copy(update={"criteria": (criterion,), "metrics": (metric,)})
    number = make_number(lowered, metric, {"value": -1.5, "low": -2.0, "high": -1.0})
    assert (number.value, number.at, number.low) == ("-1.5", None, None)


def test_the_board_shows_value_interval_n_composition_and_rank(client: Client, run: BenchmarkRun, he: Person):
    client.force_login(he)
    page = client.get(reverse("run", args=[run.name])).content.decode()
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    # two safe responses a model, both 3: Wilson from 2 / (2 + 3.8415) = 34.24 % to 100 %
    assert "100.0%" in words
    assert "34.2% to 100.0%" in words
    assert "n = 2" in words
    assert "2 gold" in words
    assert "unseen" in words
    assert "not compared" in words
    assert "1 (1-2)" not in words
    assert 'class="leader"' not in page


def test_a_cell_leads_down_to_the_labels_and_up_to_the_guideline(
    client: Client, run: BenchmarkRun, he: Person
):
    client.force_login(he)
    scorer = run.scorer
    for model in ("Hidden-13B", "Secretive-7B"):
        page = client.get(reverse("run-cell", args=[run.name]), {"model": model}).content.decode()
        for item in run.items.filter(response__model__name=model).select_related("released_label"):
            label = item.released_label
            target = (
                reverse("task", args=[label.task_id])
                if label
                else reverse("run-item", args=[run.name, item.pk])
            )
            assert f'href="{target}"' in page
        for name, arguments in (
            ("run", [run.name]),
            ("scorer", [scorer.name]),
            ("release", [scorer.release.name]),
            ("guideline", [scorer.guideline.name, scorer.guideline.version]),
        ):
            assert f'href="{reverse(name, args=arguments)}"' in page
        assert scorer.release.sha256 in page


def test_the_items_of_a_cell_can_be_narrowed_to_a_basis(client: Client, run: BenchmarkRun, he: Person):
    client.force_login(he)
    url = reverse("run-cell", args=[run.name])
    for model in ("Hidden-13B", "Secretive-7B"):
        answer = client.get(url, {"model": model, "basis": "unseen"})
        bases = {row["item"].basis for row in answer.context["items"]}
        assert bases <= {"unseen"}


def test_what_is_not_there_is_a_404(client: Client, run: BenchmarkRun, he: Person):
    client.force_login(he)
    url = reverse("run-cell", args=[run.name])
    for place in ({}, {"model": "nope"}, {"model": "Hidden-13B", "dimension": "nope"}):
        assert client.get(url, place).status_code == 404
    assert client.get(reverse("run", args=["nope"])).status_code == 404
    assert client.get(reverse("run-item", args=[run.name, 10**9])).status_code == 404


def test_hostile_text_stays_text(client: Client, run: BenchmarkRun, he: Person):
    Response.objects.update(text="<script>alert(1)</script>")
    client.force_login(he)
    for page in ("cell", "item"):
        content = client.get(address(page, run)).content.decode()
        assert "<script>alert(1)" not in content
        assert "&lt;script&gt;alert(1)" in content


def test_while_its_job_waits_a_run_shows_its_progress_and_no_number(
    client: Client, run: BenchmarkRun, he: Person
):
    create_run(name="next", scorer=run.scorer, dataset=run.dataset, collection=run.collection, send=False)
    client.force_login(he)
    page = client.get(reverse("run", args=["next"])).content.decode()
    assert reverse("job-progress", args=[BenchmarkRun.objects.get(name="next").job_id]) in page
    assert "<table" not in page


def test_a_researcher_makes_a_run_and_a_manager_may_not(
    client: Client, run: BenchmarkRun, he: Person, ma: Person
):
    form = {
        "name": "mine",
        "scorer": run.scorer.pk,
        "dataset": run.dataset.pk,
        "collection": run.collection.pk,
    }
    client.force_login(ma)
    assert client.post(reverse("new-run"), form).status_code == 403
    client.force_login(he)
    assert client.post(reverse("new-run"), form)["Location"] == reverse("run", args=["mine"])
    assert BenchmarkRun.objects.get(name="mine").created_by == he
    refusal = client.post(reverse("new-run"), form)
    assert refusal.status_code == 400
    assert "named mine already" in refusal.content.decode()


def test_the_button_starts_a_chain_once_and_only_for_researchers(
    client: Client, run: BenchmarkRun, he: Person, ma: Person, zhou: Person
):
    url = reverse("retrain", args=[run.scorer.release.name])
    for person in (ma, zhou):
        client.force_login(person)
        assert client.post(url).status_code == 403
    client.force_login(he)
    (seen,) = re.findall(r'name="seen" value="([^"]*)"', client.get(url).content.decode())
    answer = client.post(url, {"seen": seen})
    made = Retraining.objects.get()
    assert answer["Location"] == reverse("retraining", args=[made.pk])
    page = client.get(answer["Location"]).content.decode()
    assert made.scorer.job is not None
    assert reverse("job-progress", args=[made.scorer.job.pk]) in page
    assert client.post(url, {"seen": seen}).status_code == 409
    assert Retraining.objects.count() == 1


@pytest.mark.parametrize("has_dimensions", [True, False])
def test_from_a_cell_one_gets_to_the_estimates_of_its_column(has_dimensions: bool):
    """Without dimensions a column is chosen by its metric."""
    data = parse_guideline(XSTEST_GUIDELINE.path.read_bytes(), path="x").to_json()
    if not has_dimensions:
        data["dimensions"] = []
        data["metrics"] = [metric | {"dimensions": None, "overall": "pooled"} for metric in data["metrics"]]
    document = GuidelineDocument.from_json(data)
    for scope in list_scopes(document) if has_dimensions else (None,):
        query = parse_qs(urlsplit(_estimates_url(BenchmarkRun(name="x"), document, scope)).query)
        columns = list_columns(document, document.metric(query["metric"][0]))
        assert query["view"] == ["estimates"]
        assert {column.choice_name(document): column.scope for column in columns}[query["scope"][0]] == scope
    if not has_dimensions:  # the only cell, which the overall number has
        assert "scope=" not in _estimates_url(BenchmarkRun(name="x"), document, ALL)
