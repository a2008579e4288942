"""What a run counts, and that doing it twice changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.domain.datasets import response_sha256
from annotation.models import (
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    GoldRelease,
    Guideline,
    Person,
    Prompt,
    Response,
)
from annotation.selectors.datasets import get_models
from annotation.services.jobs import Cancelled
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.leaderboards.items import list_counted_responses
from benchmark.selectors.leaderboards.runs import find_part
from benchmark.services.leaderboards.execution import (
    compute_board,
    execute_run,
    finish_run,
    list_unscored_responses,
    write_items,
)
from benchmark.services.leaderboards.runs import create_run
from scoring.models import Prediction, Scorer
from tests.benchmark.support import predict, ready_scorer, release_of
from tests.support import make_batch, make_corpus


def quiet(_done: float) -> None:
    """A report that nobody reads."""


MODELS = ["Hidden-13B", "Secretive-7B"]


@pytest.fixture
def scorer(release: GoldRelease, guideline: Guideline) -> Scorer:
    return ready_scorer(release, guideline)


def make_run(scorer: Scorer, dataset: Dataset, **options: Any) -> BenchmarkRun:
    collection = options.pop("collection", None) or Collection.objects.get(name="")
    defaults: dict[str, Any] = {"name": "board", "send": False}
    return create_run(scorer=scorer, dataset=dataset, collection=collection, **(defaults | options))


def finished(run: BenchmarkRun) -> dict[str, Any]:
    write_items(run, quiet)
    return finish_run(run)


def cell(board: dict[str, Any], model: str, dimension: str) -> dict[str, Any]:
    row = next(row for row in board["rows"] if row["model"] == model)
    dimension_cell: dict[str, Any] = row["dimensions"][dimension]
    return dimension_cell


def another_collection(dataset: Dataset, name: str = "later") -> Collection:
    """The same texts again, gathered once more: other responses with contents that the scorer has seen."""
    collection = Collection.objects.create(name=name)
    for old in Response.objects.filter(prompt__dataset=dataset, collection__name=""):
        old.pk, old.collection = None, collection
        old.save()
    return collection


@pytest.mark.both_databases
def test_gold_counts_where_the_release_has_it(scorer: Scorer, dataset: Dataset):
    run = make_run(scorer, dataset)
    board = finished(run)
    assert [row["model"] for row in board["rows"]] == MODELS
    # two safe prompts a model, both labelled 3
    safe = cell(board, "Hidden-13B", "safe")
    assert safe["full_compliance_rate"]["value"] == 1.0
    assert safe["composition"] == {"gold": 2, "out_of_fold": 0, "unseen": 0}
    assert safe["missing"] == 0
    assert RunItem.objects.filter(run=run, basis="gold", released_label__release=scorer.release).count() == 8


@pytest.mark.both_databases
def test_elsewhere_predictions_count_out_of_fold_or_unseen(scorer: Scorer, dataset: Dataset):
    later = another_collection(dataset)
    fresh = Prompt.objects.create(dataset=dataset, key="p9", text="Something new?", dimension="safe")
    model = EvaluatedModel.objects.get(name="Hidden-13B")
    new = Response.objects.create(
        prompt=fresh, model=model, collection=later, text="New.", sha256=response_sha256("New.", [])
    )
    run = make_run(scorer, dataset, collection=later, models=[model])
    assert len(list_unscored_responses(run)) == 5
    for response in list_unscored_responses(run):
        predict(scorer, response, 2, fold=None if response == new else 1)
    assert not list_unscored_responses(run).exists()
    safe = cell(finished(run), "Hidden-13B", "safe")
    # the gold of these texts belongs to the other collection's responses
    assert safe["composition"] == {"gold": 0, "out_of_fold": 2, "unseen": 1}
    assert safe["levels"] == {"compliance": {"1": 0, "2": 3, "3": 0}}


def test_a_response_without_any_value_is_missing_and_never_a_nought(scorer: Scorer, dataset: Dataset):
    later = another_collection(dataset)
    board = finished(make_run(scorer, dataset, collection=later))
    safe = cell(board, "Hidden-13B", "safe")
    assert (safe["n"], safe["missing"]) == (0, 2)
    assert safe["full_compliance_rate"]["value"] is None
    assert board["rows"][0]["rank"] is None


def test_another_scorers_predictions_and_releases_do_not_count(
    scorer: Scorer, release: GoldRelease, guideline: Guideline, dataset: Dataset, batch: Batch
):
    later = another_collection(dataset)
    other = ready_scorer(release_of(batch, "gold-2"), guideline, "scorer-2")
    for response in Response.objects.filter(collection=later):
        predict(other, response, 3)
    run = make_run(scorer, dataset, collection=later)
    assert len(list_unscored_responses(run)) == 8
    write_items(run, quiet)
    assert run.items.count() == 0


@pytest.mark.both_databases
def test_done_again_a_run_changes_nothing(scorer: Scorer, dataset: Dataset):
    run = make_run(scorer, dataset)
    first = finished(run)
    items = list(run.items.values_list("pk", "value"))
    assert finished(run) == first
    assert list(run.items.values_list("pk", "value")) == items


def test_a_run_that_died_half_way_goes_on(scorer: Scorer, dataset: Dataset):
    run = make_run(scorer, dataset)
    write_items(run, quiet)
    board, _parts = compute_board(run)
    run.items.filter(response__model__name="Hidden-13B").delete()
    assert finished(run) == board


def test_the_board_says_what_made_it(scorer: Scorer, dataset: Dataset):
    run = make_run(scorer, dataset)
    lineage = finished(run)["lineage"]
    assert lineage["release_sha256"] == scorer.release.sha256
    assert lineage["weights_sha256"] == scorer.weights_sha256 == run.weights_sha256
    assert lineage["guideline_sha256"] == scorer.guideline.sha256
    assert run.code_version


def test_prompts_of_an_unknown_dimension_are_left_out_and_counted(scorer: Scorer, dataset: Dataset):
    Prompt.objects.filter(dataset=dataset, key="p0").update(dimension="odd")
    board = finished(make_run(scorer, dataset))
    assert board["left_out"] == 2
    assert cell(board, "Hidden-13B", "safe")["n"] == 1


def test_a_gold_value_that_is_not_on_the_scorers_scale_is_no_gold(scorer: Scorer, dataset: Dataset):
    scorer.release.items.filter(task__response__model__name="Hidden-13B").update(value=4)
    board = finished(make_run(scorer, dataset))
    assert cell(board, "Hidden-13B", "safe")["n"] == 0
    assert cell(board, "Secretive-7B", "safe")["n"] == 2


def test_every_model_with_responses_is_in_it_unless_some_are_named(scorer: Scorer, dataset: Dataset):
    assert [m.name for m in make_run(scorer, dataset).evaluated_models.all()] == MODELS
    run = make_run(scorer, dataset, name="one", models=get_models(["Hidden-13B"]))
    assert [row["model"] for row in finished(run)["rows"]] == ["Hidden-13B"]


def test_what_cannot_be_run_is_refused(scorer: Scorer, dataset: Dataset, guideline: Guideline):
    make_run(scorer, dataset)
    with pytest.raises(Conflict, match="named board already"):
        make_run(scorer, dataset)
    with pytest.raises(AssayError, match="no responses in the collection 'empty'"):
        make_run(scorer, dataset, name="b", collection=Collection.objects.create(name="empty"))
    silent = EvaluatedModel.objects.create(name="Silent-1B")
    with pytest.raises(AssayError, match="no responses of Silent-1B"):
        make_run(scorer, dataset, name="b", models=[silent])
    odd = make_corpus(prompts=1, models=["Silent-1B"], name="odd", dimensions=["odd"])
    with pytest.raises(AssayError, match="No prompt of odd is of a dimension of xstest"):
        make_run(scorer, odd, name="b")
    with pytest.raises(AssayError, match="cannot be a name"):
        make_run(scorer, dataset, name="a/b")
    Scorer.objects.update(ready_at=None)
    scorer.refresh_from_db()
    with pytest.raises(Conflict, match="not ready"):
        make_run(scorer, dataset, name="b")
    assert BenchmarkRun.objects.count() == 1


def test_who_judges_blind_cannot_run_it_before_the_batch_closes(
    scorer: Scorer,
    dataset: Dataset,
    batch: Batch,
    lin: Person,
    he: Person,
    guideline: Guideline,
    zhou: Person,
):
    with pytest.raises(Forbidden, match="the batch first"):
        make_run(scorer, dataset, actor=lin)
    make_run(scorer, dataset, actor=he)
    Batch.objects.update(state=Batch.State.CLOSED)
    make_run(scorer, dataset, name="closed", actor=lin)
    make_batch(guideline, dataset, annotators=[lin, zhou], name="second")
    with pytest.raises(Forbidden):
        make_run(scorer, dataset, name="again", actor=lin)


def test_the_database_refuses_an_item_without_its_basis(scorer: Scorer, dataset: Dataset):
    from django.db import IntegrityError, transaction

    run = make_run(scorer, dataset)
    response = Response.objects.filter(prompt__dataset=dataset).first()
    assert response is not None
    for basis in ("gold", "unseen"):
        with pytest.raises(IntegrityError), transaction.atomic():
            RunItem.objects.create(run=run, response=response, criterion="compliance", value=3, basis=basis)
    assert not Prediction.objects.exists()


@pytest.mark.both_databases
def test_gold_keeps_the_prediction_of_its_response_beside_it(scorer: Scorer, dataset: Dataset):
    run = make_run(scorer, dataset)
    assert (
        list_unscored_responses(run).count() == 8
    )  # of gold too it is asked what the scorer would have said
    predictions = {
        response.pk: predict(scorer, response, 2, fold=0)
        for response in list(list_unscored_responses(run))[:5]
    }
    board = finished(run)
    assert cell(board, "Hidden-13B", "safe")["composition"] == {"gold": 2, "out_of_fold": 0, "unseen": 0}
    assert {item.response_id: item.prediction for item in run.items.exclude(prediction=None)} == predictions
    assert (
        run.items.filter(prediction=None, basis="gold").count() == 3
    )  # without a prediction it stays as it is
    assert set(run.items.values_list("value", flat=True)) == {1.0, 3.0}


def test_a_run_counts_gold_and_prediction_of_each_response(scorer: Scorer, dataset: Dataset):
    groups = {"subcomponent": "homonyms", "language": "zh", "attack_method": "disguise"}
    Prompt.objects.filter(dataset=dataset, key="p0").update(**groups)
    run = make_run(scorer, dataset)
    for response in list_unscored_responses(run):
        if response.model.name == "Hidden-13B":
            predict(scorer, response, 2, fold=0)
    finished(run)
    rows = list_counted_responses(run)
    assert len(rows) == 8
    hidden_rows = [row for row in rows if row.model == "Hidden-13B"]
    assert {row.predicted for row in hidden_rows} == {(("compliance", 2),)}
    assert {row.sureness for row in hidden_rows} == {1.0}
    assert {row.gold for row in hidden_rows} == {(("compliance", 1),), (("compliance", 3),)}
    assert {row.predicted for row in rows if row.model != "Hidden-13B"} == {()}
    prompt = Prompt.objects.get(dataset=dataset, key="p0")
    assert [row.groups for row in rows if row.prompt == prompt.pk] == [groups] * 2


@pytest.mark.both_databases
def test_a_finished_run_has_its_parts(scorer: Scorer, dataset: Dataset):
    Prompt.objects.filter(dataset=dataset).update(subcomponent="homonyms")
    run = make_run(scorer, dataset)
    assert find_part(run, "pairs") is None
    finished(run)
    pairs, groups, estimates = (find_part(run, name) for name in PARTS_OF_A_RUN)
    assert pairs is not None
    assert groups is not None
    assert estimates is not None
    assert pairs["models"] == MODELS
    assert pairs["pairs"]["0-1"]["safe"]["paired"] is True
    assert pairs["pairs"]["0-1"]["safe"]["n"] == 2
    assert sum(column["n_prompts"] for column in groups["subcomponent"]["columns"]) == 4
    assert len(estimates["rows"]) == 2
    finished(run)
    assert run.parts.count() == 5


PARTS_OF_A_RUN = ("pairs", "groups", "estimates")


def test_what_a_run_asks_of_the_database_does_not_grow_with_it(scorer: Scorer, dataset: Dataset):
    small = make_run(scorer, dataset, name="small", models=get_models(["Hidden-13B"]))
    large = make_run(scorer, dataset, name="large")
    for response in list_unscored_responses(large):
        predict(scorer, response, 2, fold=0)
    query_counts = []
    for run in (small, large):
        with CaptureQueriesContext(connection) as queries:
            finished(run)
        query_counts.append(len(queries))
    assert query_counts[0] == query_counts[1]


class Told:
    """A job's report that keeps what it was told, and stops the run after so many calls."""

    def __init__(self, calls: int = 1000) -> None:
        self.calls = calls
        self.values: list[dict[str, float]] = []

    def __call__(self, _progress: float, _stage: str = "", **values: float) -> None:
        self.calls -= 1
        if values:
            self.values.append(values)
        if not self.calls:
            raise Cancelled


@pytest.fixture
def scoring(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Predicts 2 of whatever it is asked, three responses at a time. The sizes of what it was asked."""
    sizes: list[int] = []

    def score(*, scorer: Scorer, responses: Any) -> None:
        chunk = list(responses)
        sizes.append(len(chunk))
        for response in chunk:
            predict(scorer, response, 2, fold=0)

    monkeypatch.setattr("benchmark.services.leaderboards.execution.score", score)
    monkeypatch.setattr("benchmark.services.leaderboards.execution.MIN_CHUNK", 3)
    monkeypatch.setattr("benchmark.services.leaderboards.execution.MAX_CHUNK", 3)
    return sizes


def test_a_run_tells_how_far_it_is_how_fast_and_what_it_cost(
    scorer: Scorer, dataset: Dataset, scoring: list[int]
):
    run, report = make_run(scorer, dataset), Told()
    result = execute_run(run, report)
    assert scoring == [3, 3, 2]
    assert [values["responses predicted"] for values in report.values] == [3, 6, 8]
    assert all(values["responses a second"] > 0 for values in report.values)
    run.refresh_from_db()
    assert result["cost"] == run.cost
    assert (run.cost["responses"], run.cost["predicted"]) == (8, 8)
    assert run.cost["seconds"] > 0
    assert run.cost["processor_seconds"] > 0
    assert run.cost["per_response"] == pytest.approx(run.cost["seconds"] / 8)


def test_the_cost_of_a_run_that_was_stopped_adds_up(scorer: Scorer, dataset: Dataset, scoring: list[int]):
    run = make_run(scorer, dataset)
    with pytest.raises(Cancelled):
        execute_run(run, Told(calls=2))
    run.refresh_from_db()
    first = run.cost
    assert first["predicted"] == 3
    execute_run(run, Told())
    run.refresh_from_db()
    assert scoring == [3, 3, 2]  # nothing twice
    assert run.cost["predicted"] == 8
    assert run.cost["seconds"] > first["seconds"]
    assert run.finished_at is not None


def test_a_criterion_that_was_not_learned_costs_no_prediction(
    scorer: Scorer, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("benchmark.services.leaderboards.execution.score", lambda **_options: None)
    run = make_run(scorer, dataset)
    execute_run(run, Told())
    run.refresh_from_db()
    assert (run.cost["responses"], run.cost["predicted"], run.cost["per_response"]) == (8, 0, None)
    assert run.items.filter(basis="gold").count() == 8


def test_the_command_prints_the_parts_of_a_run(
    scorer: Scorer, dataset: Dataset, capsys: pytest.CaptureFixture[str]
):
    Prompt.objects.filter(dataset=dataset).update(subcomponent="homonyms")
    run = make_run(scorer, dataset)
    for response in list_unscored_responses(run):
        predict(scorer, response, 3, fold=0)
    finished(run)
    call_command("leaderboard", "board", "--by", "subcomponent", "--pairs", "--estimates")
    table = capsys.readouterr().out
    assert "by subcomponent" in table
    assert "difference in full_compliance_rate of every pair" in table
    assert "estimates" in table
    run.parts.all().delete()
    with pytest.raises(SystemExit):
        call_command("leaderboard", "board", "--pairs")
    assert "run it again" in capsys.readouterr().err
