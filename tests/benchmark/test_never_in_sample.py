"""No figure rests on a prediction of something the scorer was trained on: a scorer that memorises shows it.

The memoriser says of what it was fitted on exactly what it was told, and level 2 of everything else. Nobody's
gold is 2 here, so each 2 on a board was predicted by a part of the scorer that had not seen the response, and
anything else that is not gold would be an in-sample prediction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from annotation.content import response_sha256
from annotation.models import Batch, Collection, Dataset, EvaluatedModel, Person, Prompt, Response
from annotation.services import jobs
from benchmark.models import BenchmarkRun
from benchmark.services.runs import create_run
from scoring.dataset import Example, Head, Prediction, Value
from scoring.interface import Report, silent
from scoring.models import Scorer
from scoring.services import create_scorer
from tests.benchmark.support import release_of, settle

UNKNOWN = 2


@dataclass(frozen=True)
class MemorisingScorer:
    heads: tuple[Head, ...]
    told: dict[str, dict[str, Value]]
    backbone: str = "ngram"

    def predict(self, examples: Sequence[Example], *, report: Report = silent) -> list[Prediction]:
        return [self._of(self.told.get(example.content_key, {})) for example in examples]

    def _of(self, labels: dict[str, Value]) -> Prediction:
        return {head.criterion: head.certain(labels.get(head.criterion, UNKNOWN)) for head in self.heads}

    def save(self, folder: Path) -> None:
        heads = [head.to_json() for head in self.heads]
        (folder / "memory.json").write_text(json.dumps({"heads": heads, "told": self.told}))


def load_memory(folder: Path) -> MemorisingScorer:
    kept = json.loads((folder / "memory.json").read_text())
    return MemorisingScorer(tuple(Head.from_json(head) for head in kept["heads"]), kept["told"])


@dataclass(frozen=True)
class MemorisingBackbone:
    name: str = "ngram"

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = silent,
        checkpoints: Path | None = None,
    ) -> MemorisingScorer:
        return MemorisingScorer(tuple(heads), {one.content_key: dict(one.labels) for one in examples})


@pytest.fixture
def memoriser(monkeypatch: pytest.MonkeyPatch, batch: Batch, lin: Person, chen: Person) -> Scorer:
    """Trained by the product's own job on eight responses, gold 3 on safe prompts and 1 on unsafe ones."""
    monkeypatch.setattr("scoring.services.training.choose", lambda *_spec, **_options: MemorisingBackbone())
    monkeypatch.setattr("scoring.services.predictions.load", load_memory)
    settle(batch, [lin, chen], lambda response: 3 if response.prompt.dimension == "safe" else 1)
    scorer, job = create_scorer(name="memoriser", release=release_of(batch), send=False)
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
    kept = load_memory(memoriser.weights_folder)
    assert {labels["compliance"] for labels in kept.told.values()} == {1, 3}
    assert len(kept.told) == 8


def test_texts_it_was_trained_on_count_out_of_fold_under_any_other_response(
    memoriser: Scorer, dataset: Dataset
):
    """Also where the copy has another blank, case or width, which no scorer reads."""
    again = Collection.objects.create(name="again")
    stolen = EvaluatedModel.objects.create(name="Copycat-7B")
    for old in Response.objects.filter(prompt__dataset=dataset, model__name="Hidden-13B"):
        text = f" {old.text.upper()}\n" if old.prompt.key == "p0" else old.text
        Response.objects.create(
            prompt=old.prompt, model=stolen, collection=again, text=text, sha256=response_sha256(text, [])
        )
    prompt = Prompt.objects.get(dataset=dataset, key="p0")
    new = EvaluatedModel.objects.create(name="New-1B")
    Response.objects.create(
        prompt=prompt, model=new, collection=again, text="Unheard.", sha256=response_sha256("Unheard.", [])
    )
    run = run_over(memoriser, dataset, again)
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
