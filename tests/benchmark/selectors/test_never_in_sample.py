"""No figure rests on a prediction of something the scorer was trained on: a scorer that memorises shows it.

The memoriser says of what it was fitted on exactly what it was told, and level 2 of everything else. Nobody's
gold is 2 here, so each 2 on a board was predicted by a part of the scorer that had not seen the response, and
anything else that is not gold would be an in-sample prediction.
"""

from __future__ import annotations

from typing import Any

import pytest

from annotation.domain.datasets import response_sha256
from annotation.models import Collection, Dataset, EvaluatedModel, GoldRelease, Prompt, Response
from annotation.services import jobs
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.items import list_counted_responses
from benchmark.selectors.leaderboards.runs import find_part
from benchmark.services.leaderboards.runs import create_run
from scoring.domain.training_spec import TrainingSpec
from scoring.models import Scorer
from scoring.services import create_scorer
from tests.benchmark.memoriser import UNKNOWN, load_memory


@pytest.fixture
def memoriser(memorising: None, release: GoldRelease) -> Scorer:
    """Trained by the product's own job on eight responses, gold 3 on safe prompts and 1 on unsafe ones."""
    scorer, job = create_scorer(TrainingSpec(name="memoriser", release=release), send=False)
    jobs.run_now(job)
    scorer.refresh_from_db()
    return scorer


def run_over(scorer: Scorer, dataset: Dataset, collection: Collection) -> BenchmarkRun:
    run = create_run(name="board", scorer=scorer, dataset=dataset, collection=collection, send=False)
    assert run.job is not None
    jobs.run_now(run.job)
    run.refresh_from_db()
    return run


def test_it_does_memorise(memoriser: Scorer):
    """What it would say in-sample: the gold itself."""
    stored = load_memory(memoriser.weights_folder)
    assert {labels["compliance"] for labels in stored.memory.values()} == {1, 3}
    assert len(stored.memory) == 8


def test_texts_it_was_trained_on_count_out_of_fold_under_any_other_response(
    memoriser: Scorer, dataset: Dataset
):
    """Also where the copy has another blank, case or width, which no scorer reads."""
    second = Collection.objects.create(name="again")
    stolen = EvaluatedModel.objects.create(name="Copycat-7B")
    for old in Response.objects.filter(prompt__dataset=dataset, model__name="Hidden-13B"):
        text = f" {old.text.upper()}\n" if old.prompt.key == "p0" else old.text
        Response.objects.create(
            prompt=old.prompt, model=stolen, collection=second, text=text, sha256=response_sha256(text, [])
        )
    prompt = Prompt.objects.get(dataset=dataset, key="p0")
    new = EvaluatedModel.objects.create(name="New-1B")
    Response.objects.create(
        prompt=prompt, model=new, collection=second, text="Unheard.", sha256=response_sha256("Unheard.", [])
    )
    run = run_over(memoriser, dataset, second)
    copied = run.items.filter(response__model=stolen)
    assert copied.count() == 4
    assert set(copied.values_list("basis", "value")) == {("out_of_fold", UNKNOWN)}
    assert set(run.items.filter(response__model=new).values_list("basis", "value")) == {("unseen", UNKNOWN)}
    row = next(row for row in run.board["rows"] if row["model"] == "Copycat-7B")
    # in-sample it would be a perfect 1.0
    assert row["dimensions"]["safe"]["full_compliance_rate"]["value"] == 0.0
    assert row["dimensions"]["safe"]["composition"] == {"gold": 0, "out_of_fold": 2, "unseen": 0}


def test_where_there_is_gold_the_gold_counts(memoriser: Scorer, dataset: Dataset):
    run = run_over(memoriser, dataset, Collection.objects.get(name=""))
    assert set(run.items.values_list("basis", flat=True)) == {"gold"}
    assert set(run.items.values_list("value", flat=True)) == {1.0, 3.0}


def test_beside_gold_stands_what_a_fold_said_that_had_not_seen_it(memoriser: Scorer, dataset: Dataset):
    """In-sample it would be the gold itself, and the scorer would look perfect."""
    run = run_over(memoriser, dataset, Collection.objects.get(name=""))
    predictions = run.items.filter(basis="gold").values_list("prediction__value", "prediction__fold")
    assert len(predictions) == 8
    assert {value for value, _fold in predictions} == {UNKNOWN}
    assert all(fold is not None for _value, fold in predictions)
    assert {row.predicted for row in list_counted_responses(run)} == {(("compliance", UNKNOWN),)}
    assert {row.gold for row in list_counted_responses(run)} == {(("compliance", 1),), (("compliance", 3),)}
    cells = [row["cells"] for row in _part(run, "estimates")["rows"]]
    rates = [cell["safe"]["full_compliance_rate"] for cell in cells]
    assert [rate["people"]["value"] for rate in rates] == [1.0, 1.0]
    assert [rate["scorer"]["value"] for rate in rates] == [0.0, 0.0]  # in-sample it would be 1.0


def test_what_is_predicted_already_is_not_predicted_again(memoriser: Scorer, dataset: Dataset):
    """A run that was predicted before it was made, and one done again, add no prediction and change none."""
    first = run_over(memoriser, dataset, Collection.objects.get(name=""))
    stored = list(first.items.order_by("response").values_list("prediction", "prediction__fold"))
    second = create_run(
        name="again",
        scorer=memoriser,
        dataset=dataset,
        collection=Collection.objects.get(name=""),
        send=False,
    )
    assert second.job is not None
    jobs.run_now(second.job)
    second.refresh_from_db()
    assert list(second.items.order_by("response").values_list("prediction", "prediction__fold")) == stored
    assert second.cost["predicted"] == 0
    assert second.cost["per_response"] is None


def _part(run: BenchmarkRun, name: str) -> dict[str, Any]:
    content = find_part(run, name)
    assert content is not None
    return content
