"""Fifty published dialogues under six criteria by three experts, from labels to the page of a scorer."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from django.test import Client

from annotation.domain.batch_spec import Policy
from annotation.domain.datasets import response_sha256
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Collection, Dataset, EvaluatedModel, GoldRelease, Person, Prompt, Response
from annotation.services.guidelines import load_guideline
from annotation.services.imports import ImportRequest, import_annotations
from annotation.services.releases import cut_release
from annotation.services.studies import find_or_make_study
from tests.conftest import missing
from tests.scoring import lend_an_ear
from tests.scoring.support import trained
from tests.support import as_made_by_import, make_batch

GUIDELINE = {
    "name": "listening",
    "version": "1",
    "languages": ["en"],
    "title": {"en": "Listening"},
    "source": "Kumar et al. 2025, When Large Language Models are Reliable for Judging Empathic Communication",
    "introduction": {"en": "Judge how somebody listens."},
    "criteria": [
        {
            "name": criterion,
            "label": {"en": criterion.replace("_", " ")},
            "question": {"en": f"How much {criterion.replace('_', ' ')}?"},
            "applies_to": "all",
            "measurement": "interval",
            "scale": [
                {
                    "value": level,
                    "name": {"en": f"Level {level}"},
                    "definition": {"en": f"To the degree {level}."},
                }
                for level in lend_an_ear.LEVELS
            ],
        }
        for criterion in lend_an_ear.CRITERIA
    ],
    "metrics": [
        {
            "name": "mean_score",
            "label": {"en": "Mean"},
            "kind": "mean",
            "formula": "25 * mean",
            "criteria": ["advice_giving"],
            "overall": "pooled",
        }
    ],
    "rank_by": "mean_score",
}


@pytest.fixture
def dialogues(db: None, lin: Person, chen: Person, wu: Person) -> GoldRelease:
    """Settled by the lower median of three, at a tolerance that nothing exceeds."""
    if not lend_an_ear.is_there():
        missing("shared", f"the dialogues are not in {lend_an_ear.FOLDER}")
    guideline = load_guideline(text=json.dumps(GUIDELINE), path="listening.yaml", publish=True)
    dataset = Dataset.objects.create(study=find_or_make_study(), name="listening")
    model = EvaluatedModel.objects.create(name="people")
    collection, _created = Collection.objects.get_or_create(name="")
    ratings, rows = lend_an_ear.read_ratings(), []
    for name, pairs in lend_an_ear.read_dialogues().items():
        turns = [{"role": role, "text": text} for role, text in pairs]
        prompt = Prompt.objects.create(dataset=dataset, key=name, text=turns[0]["text"])
        Response.objects.create(
            prompt=prompt,
            model=model,
            collection=collection,
            text="",
            turns=turns,
            sha256=response_sha256("", turns),
        )
        for person, labels in zip((lin, chen, wu), ratings[name], strict=True):
            row = {"prompt_id": name, "model": "people", "annotator": person.username, "labels": labels}
            rows.append(row)
    batch = make_batch(
        guideline,
        dataset,
        annotators=[lin, chen, wu],
        name="listening",
        policy=Policy(overlap=3, tolerance=4),
    )
    as_made_by_import(batch)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "labels.jsonl")
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        import_annotations(source=Source(file), format="jsonl", request=ImportRequest(batch=batch.name))
    return cut_release(ReleaseSpec(name="listening", batches=[batch]))


def test_folds_are_even_and_the_page_names_first_what_is_no_better_than_the_commonest_level(
    dialogues: GoldRelease, client: Client, he: Person
) -> None:
    scorer = trained(dialogues, "listener")
    assert scorer.card["responses"] == 50
    sizes = scorer.card["split"]["sizes"]
    assert sum(sizes) == 50
    assert max(sizes) <= 2 * min(sizes)
    below = scorer.card["below_commonest"]
    grouped = scorer.evaluation["grouped"]
    assert set(grouped["by_criterion"]) == set(lend_an_ear.CRITERIA)
    for name, figures in grouped["by_criterion"].items():
        counts = figures["confusion"]["counts"]
        commonest = max(map(sum, counts)) / figures["n"]
        assert figures["accuracy"]["value"] >= commonest or name in below
        assert grouped["soft_labels"][name]["cross_entropy"] >= grouped["soft_labels"][name]["entropy"] > 0
    client.force_login(he)
    page = client.get("/scorers/listener/").content.decode()
    lead = page.partition("page-header__lead")[2].partition("</p>")[0]
    assert below
    assert "does not beat always naming the commonest level" in lead.partition("Backbone")[0]
    for name in below:
        assert name.replace("_", " ") in lead
    calibration = client.get("/scorers/listener/?view=calibration").content.decode()
    assert "Log loss of the rates" in calibration
    assert "Jensen-Shannon" in calibration
    card = client.get("/scorers/listener/?view=card").content.decode()
    assert "does not beat" in card
    assert scorer.card["statement"].startswith("By log loss out of fold it does not beat")


def test_a_scorer_of_the_distribution_says_so(release: GoldRelease, client: Client, he: Person) -> None:
    scorer = trained(release, "listener", target="distribution")
    assert scorer.card["target"] == "distribution"
    client.force_login(he)
    assert "what share of the annotators" in client.get("/scorers/listener/?view=card").content.decode()
