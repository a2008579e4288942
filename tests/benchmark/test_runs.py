"""What a run counts, and that doing it twice changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from annotation.content import response_sha256
from annotation.errors import AssayError, Conflict, Forbidden
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
from annotation.selectors.corpus import models_named
from benchmark.models import BenchmarkRun, RunItem
from benchmark.services.boards import compute_board, finish_run
from benchmark.services.items import unscored, write_items
from benchmark.services.runs import create_run
from scoring.models import Prediction, Scorer
from tests.benchmark.support import predict, ready_scorer, release_of, settle
from tests.support import make_batch, make_corpus


def quiet(_done: float) -> None:
    """A report that nobody reads."""


MODELS = ["Hidden-13B", "Secretive-7B"]


@pytest.fixture
def release(batch: Batch, lin: Person, chen: Person) -> GoldRelease:
    """Eight responses to four prompts, gold 3 on safe prompts and 1 on unsafe ones."""
    settle(batch, [lin, chen], lambda response: 3 if response.prompt.dimension == "safe" else 1)
    return release_of(batch)


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
    found: dict[str, Any] = row["dimensions"][dimension]
    return found


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
    assert unscored(run) == []
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
    assert len(unscored(run)) == 5
    for response in unscored(run):
        predict(scorer, response, 2, fold=None if response == new else 1)
    assert unscored(run) == []
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
    assert len(unscored(run)) == 8
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
    whole = compute_board(run)
    run.items.filter(response__model__name="Hidden-13B").delete()
    assert finished(run) == whole


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
    run = make_run(scorer, dataset)
    assert len(unscored(run)) == 4


def test_every_model_with_responses_is_in_it_unless_some_are_named(scorer: Scorer, dataset: Dataset):
    assert [m.name for m in make_run(scorer, dataset).evaluated_models.all()] == MODELS
    one = make_run(scorer, dataset, name="one", models=models_named(["Hidden-13B"]))
    assert [row["model"] for row in finished(one)["rows"]] == ["Hidden-13B"]


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
